"""Commands that explain: one node, which changes did it, a node over time, a page to look at, everything that moved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from ..errors import InputError
from ..graphs.places import Target
from .conditions import end_if, read_conditions
from .inputs import (
    asked_or_most_moved,
    describe_last_change,
    find_step,
    open_explainer,
    open_steps,
    open_stories,
    read_graphs,
    read_pair,
    say_step,
    spell_out,
)
from .options import (
    After,
    AsJson,
    Before,
    BudgetOptions,
    Depth,
    EventColumns,
    FailIf,
    FirstBlame,
    FlipSeconds,
    Later,
    Limit,
    Model,
    OpenNodes,
    PathOptions,
    Seconds,
    Sources,
    Targets,
    WithPaths,
    read_depth,
    spread,
)
from .output import (
    Terminal,
    aside,
    list_flips,
    moved_table,
    networks_table,
    print_explanation,
    print_happened,
    print_json,
    records,
    steps_table,
    written_to,
)
from .service import step_names


@spread
def explain(
    model: Model,
    before: Before,
    after: After = None,
    *,
    target: Targets = None,
    budget: Annotated[
        int | None, typer.Option(min=0, help="Paths per explanation. Default: as many as --until requires.")
    ] = None,
    until: Annotated[float, typer.Option(help="Share of the change to explain, with at most 20 paths.")] = 0.9,
    manner: PathOptions,
    sources: Sources,
    depth: Depth = None,
    out: Annotated[
        Path | None, typer.Option(help="Save the explanations to this folder as JSON, one file per node.")
    ] = None,
    blame: FirstBlame = True,
    json: AsJson = False,
) -> None:
    """Explain what moved a prediction: the changes, the smallest undo and the paths. Without a target, the one that
    moved most.

    Example: axiompath explain demo/model demo/before.npz demo/after.npz --target 13 --budget 5
    """
    pair = read_pair(before, after, sources)
    say_step(pair.step, json=json)
    explainer = open_explainer(model, pair, sources)
    targets = pair.targets(target, explainer.unit) or explainer.moved().target.head(1).tolist()
    rule, size = (manner.method, manner.objective), read_depth(depth)
    answers = (explainer.explain(one, budget, *rule, until=until, depth=size) for one in targets)
    found = list(track(answers, "Explaining", total=len(targets), console=aside(), transient=True))
    if out is not None:
        from ..report.drawn import key_of

        with written_to(out):
            out.mkdir(parents=True, exist_ok=True)
            for explanation in found:
                explanation.save(out / f"{key_of(explanation.target)}.json")
    if json:
        print_json([explanation.to_dict() for explanation in found])
        return
    console = Terminal()
    if not found:
        console.print("No prediction moved.")
    for place, explanation in enumerate(found):
        reached = explanation.num_paths > 0 or explanation.retrained is not None
        if blame and reached:
            print_happened(console, explainer.happened(explanation.target))
        print_explanation(console, explanation, after_blame=blame and reached)
        if target and not reached:
            console.print(describe_last_change(model, sources, pair, target[place]))


@spread
def blame(
    model: Model,
    before: Before,
    after: After = None,
    *,
    target: Targets = None,
    by: Annotated[str | None, typer.Option(help="Group changes by a column of the changes, or by node.")] = None,
    opened: Annotated[bool, typer.Option("--opened", help="Also show the changes within each group.")] = False,
    open_nodes: OpenNodes = False,
    seconds: Seconds = 10.0,
    seed: Annotated[int, typer.Option(help="Seed of the random orders if not all subsets are tried.")] = 0,
    paths: WithPaths = True,
    sources: Sources,
    limit: Limit = 10,
    json: AsJson = False,
) -> None:
    """Show which changes of the graph moved a prediction, and by how much. Without a target, the one that moved most.

    Example: axiompath blame demo/model demo/before.npz demo/after.npz --target 13
    """
    pair = read_pair(before, after, sources)
    say_step(pair.step, json=json)
    explainer = open_explainer(model, pair, sources, paths=paths)
    found = [
        explainer.blame(one, by=by, opened=opened, open_nodes=open_nodes, seconds=seconds, seed=seed)
        for one in asked_or_most_moved(explainer, pair, target)
    ]
    if json:
        print_json([item.to_dict() for item in found])
        return
    console = Terminal()
    if not found:
        console.print("No prediction moved.")
    for place, item in enumerate(found):
        console.print(item.summary(limit))
        if not item.changes:
            if target:
                console.print(describe_last_change(model, sources, pair, target[place]))
            continue
        enough = explainer.enough(item.target, open_nodes=open_nodes, seconds=seconds)
        console.print(enough.summary())


@spread
def undo(
    model: Model,
    before: Before,
    after: After = None,
    *,
    target: Targets = None,
    to: Annotated[int | None, typer.Option(help="Number of the class to reach. Default: the old class.")] = None,
    below: Annotated[float | None, typer.Option(help="Probability of the new class to get below, instead.")] = None,
    keep: Annotated[list[int] | None, typer.Option(help="Id of a change that must not be undone. Repeatable.")] = None,
    every: Annotated[bool, typer.Option("--every", help="List all smallest sets.")] = False,
    open_nodes: OpenNodes = False,
    seconds: Seconds = 10.0,
    paths: WithPaths = True,
    sources: Sources,
    json: AsJson = False,
) -> None:
    """Find the fewest changes to undo to get the old class back. Without a target, of the flip that moved most.

    Example: axiompath undo demo/model demo/before.npz demo/after.npz --target "member 8"
    """
    pair = read_pair(before, after, sources)
    say_step(pair.step, json=json)
    explainer = open_explainer(model, pair, sources, paths=paths)
    targets = asked_or_most_moved(explainer, pair, target, flipped=to is None and below is None)
    if pair.step is not None and target:
        for text, one in zip(target, targets, strict=True):
            explainer.session.root(one)  # refuses what neither graph has
            if one not in set(explainer.moved().target):
                last = describe_last_change(model, sources, pair, text)
                raise InputError(f"Expected a target whose prediction changed at this step (got {text!r}). {last}")
    found = [
        explainer.undo(
            one, to=to, below=below, keep=keep or (), every=every, open_nodes=open_nodes, seconds=seconds
        )
        for one in targets
    ]  # fmt: skip
    if json:
        print_json([item.to_dict() for item in found])
        return
    console = Terminal()
    if not found:
        console.print("No prediction moved to another class.")
    for item in found:
        console.print(item.summary())
        for some in item.alternatives:
            console.print(f"  changes {', '.join(map(str, some))}")


@spread
def story(
    model: Model,
    before: Before,
    after: After = None,
    later: Later = None,
    *,
    target: Targets = None,
    wanted: BudgetOptions,
    sources: Sources,
    json: AsJson = False,
) -> None:
    """Follow a node, graph or link over a sequence of graphs. Without a target, the ones that changed class most often.

    Example: axiompath story demo/model monday.npz tuesday.npz friday.npz --target 13
    """
    from ..report.terminal import story_table

    stories = open_stories(model, spell_out([before, after, *(later or ())], sources), sources, target, 1, wanted)
    if json:
        print_json({"steps": stories.to_frame().to_dict("records"), "stories": [item.to_dict() for item in stories]})
        return
    console = Terminal()
    if not len(stories):
        console.print("No prediction moved.")
    for item in stories:
        console.print(item.summary())
        console.print(story_table(item))


@spread
def report(
    model: Annotated[
        str, typer.Argument(help="A model, as in the other commands; or only the folder of a scan or of scans.")
    ],
    before: Annotated[Path | None, typer.Argument(help="The graph before, or a folder of snapshots.")] = None,
    after: After = None,
    later: Later = None,
    *,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    target: Targets = None,
    top: Annotated[
        int, typer.Option(min=1, help="Number of targets if none are named: those that moved the most.")
    ] = 20,
    budget: Annotated[
        int | None,
        typer.Option(min=0, help="Largest budget on the slider [50]; for a sequence, paths per step [10]."),
    ] = None,
    blame: FirstBlame = True,
    manner: PathOptions,
    sources: Sources,
    json: AsJson = False,
) -> None:
    """Write a report as one HTML file. With three or more graphs, it follows each node over all of them.

    Given only the folder of a scan, the report covers every prediction in it.

    Example: axiompath report demo/model demo/before.npz demo/after.npz --out report.html
    """
    from ..report import build_report
    from ..report.html import BUDGETS
    from ..storage.memory import show_bytes
    from ..storage.writing import check_page, check_replaceable, write_text

    check_page(out)
    if not out.parent.is_dir():
        raise InputError(f"Expected a file in a folder that exists after --out (got {out}).")
    check_replaceable(out)
    if before is None:
        _report_scan(Path(model), out, json)
        return
    graphs = [before, after, *(later or ())]
    files, unit = spell_out(graphs, sources), "node"
    title = f"{files[0].name} → {files[-1].name}"
    if len(files) > sources.num_graphs:
        wanted = BudgetOptions(manner.method, manner.objective, 10 if budget is None else budget)
        stories = open_stories(model, files, sources, target, top, wanted)
        targets: list[Target] = [item.target for item in stories]
        unit = next((item.unit for item in stories), unit)
        text = build_report(stories, title=f"{title}, {len(files)} snapshots")
    else:
        say_step(find_step(graphs, sources), json=json)
        largest = 50 if budget is None else budget
        pair = read_graphs(files, sources.nodes)
        explainer = open_explainer(model, pair, sources)
        unit = explainer.unit
        targets = pair.targets(target, explainer.unit) or explainer.moved().target.head(top).tolist()
        budgets = sorted({min(b, largest) for b in BUDGETS} | {largest})
        text = build_report(
            explainer, targets, budgets, method=manner.method, objective=manner.objective, title=title, blame=blame,
            progress=aside(),
        )  # fmt: skip
    with written_to(out):
        write_text(out, text)
    if json:
        print_json({"report": str(out), "targets": list(targets), "bytes": len(text.encode())})
    else:
        said = (
            f"Explained {len(targets):,} {unit}{'s' * (len(targets) != 1)} in {out} ({show_bytes(len(text.encode()))})."
        )
        Terminal().print(said, soft_wrap=True)


def _report_scan(folder: Path, out: Path, json: bool) -> None:
    """The page for the folder of a scan, of the scans of a sequence, or of a watch."""
    from ..report import save_report
    from ..scan.scan import read_scans
    from ..storage.memory import show_bytes

    scans = read_scans(folder)
    with written_to(out):
        save_report(out, scans, step_names=step_names(folder))
    explained, size = sum(len(found) for found in scans), out.stat().st_size
    if json:
        print_json({"report": str(out), "steps": len(scans), "explained": explained, "bytes": size})
        return
    Terminal().print(
        f"Everything that moved is in {out} ({explained:,} explanations, {show_bytes(size)}). With axiompath serve "
        f"{folder} each of them has its page.", soft_wrap=True,
    )  # fmt: skip


@spread
def scan(
    model: Model,
    graphs: Annotated[
        list[Path], typer.Argument(help="The graphs in order of time, two or more; or a folder of snapshots.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the results; an interrupted scan resumes there.")],
    wanted: BudgetOptions,
    min_kl: Annotated[
        float, typer.Option(min=0, help="Explain nodes whose KL divergence (nats) is at least this.")
    ] = 1e-3,
    only_flips: Annotated[bool, typer.Option(help="Explain only nodes whose class changed.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: one per core.")] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    ray_address: Annotated[str | None, typer.Option(help="A Ray cluster to join, such as auto or host:6379.")] = None,
    blame: Annotated[bool, typer.Option("--blame", help="Report which changes moved how many predictions.")] = (False),
    flip_seconds: FlipSeconds = 60.0,
    fail_if: FailIf = None,
    sources: Sources,
    limit: Limit = 10,
    json: AsJson = False,
) -> None:
    """Explain every prediction that moved, on all cores, into a folder of Parquet files.

    A model named package.module:function is imported from the current folder or from Python's path: its code is run.

    Example: axiompath scan demo/model demo/before.npz demo/after.npz --out scan
    """
    from ..sequences.scans import step_folders

    files, conditions = spell_out(graphs, sources), read_conditions(fail_if)
    found, scans, console = [], [], Terminal(quiet=json)
    for step, folder in zip(
        open_steps(model, files, sources), step_folders(out, len(files) - sources.num_graphs + 2), strict=True
    ):
        with written_to(folder):
            done = step.explainer.scan(
                folder, wanted.budget, wanted.method, wanted.objective, min_kl=min_kl, only_flips=only_flips,
                workers=workers, engine="ray" if ray_address else engine, ray_address=ray_address,
                progress=not aside().quiet, blame=blame, flip_seconds=flip_seconds,
            )  # fmt: skip
        scans.append((f"{step.before} → {step.after}", done))
        ends = {
            side: str(file.path)
            for side, file in zip(("before", "after"), files[step.number + sources.num_graphs - 3 :], strict=False)
        }
        counts = {key: value for key, value in done.manifest.items() if key.startswith("num_")}
        found.append({"folder": str(folder), **ends, **counts})
        console.print(f"{step.before} → {step.after}: {done.summary}")
        for line in list_flips(done.flips()):
            console.print(line)
        if blame:
            tally = done.blame()
            found[-1]["blame"] = {"error": tally.error, "changes": records(tally.to_frame().head(limit))}
            console.print(tally.summary(limit))
        if len(done):
            console.print(moved_table(done.to_frame(), limit))
        closing = f"Written to {folder}. Read it with axiompath.read_scan({str(folder)!r}).\n"
        console.print(closing, soft_wrap=True)
    if json:
        print_json(found)
    end_if(conditions, scans)


@spread
def watch(
    events: Annotated[Path, typer.Argument(help="Dated events: .csv, .csv.gz, .tsv or .parquet.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the results; a run with more events adds only what is new.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="Your own model, as in production: a folder, or package.module:function, whose code is run. Without "
            "one, the best of a few small networks is trained."
        ),
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Table of labels: id, label.")] = None,
    task: Annotated[str | None, typer.Option(help="nodes or links; links need no labels.")] = None,
    columns: EventColumns,
    pairs: Annotated[
        int | None,
        typer.Option(min=1, help="For links: number of changed pairs to predict per step [500]."),
    ] = None,
    answers: Annotated[str | None, typer.Option(help="For links: names of the answers, as 'no,yes'.")] = None,
    important: Annotated[
        Path | None, typer.Option(help="File of nodes to list first, one name or name,weight per line.")
    ] = None,
    flip_seconds: FlipSeconds = 60.0,
    fail_if: FailIf = None,
    budget: Annotated[int, typer.Option(min=0, help="Paths per explanation.")] = 10,
    min_kl: Annotated[
        float, typer.Option(min=0, help="Explain predictions whose KL divergence (nats) is at least this.")
    ] = 0.01,
    top: Annotated[int, typer.Option(min=1, help="Number of targets per step that get a page.")] = 50,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: one per core.")] = None,
    json: AsJson = False,
) -> None:
    """Explain each step of a stream of events: what happened, which changes did it, what would undo it. Writes web
    pages.

    Example: axiompath watch events.csv --model mymodule:build --every 60D --window 180D --out watched
    """
    from ..sequences.training import training_table
    from ..sequences.watch import watch_events

    conditions = read_conditions(fail_if)
    with written_to(out):
        done = watch_events(
            events, out, labels, task=task, model=model, budget=budget, min_kl=min_kl, top=top, workers=workers,
            pairs=pairs, answers=None if answers is None else answers.split(","), important=important,
            flip_seconds=flip_seconds, progress=aside(), **vars(columns),
        )  # fmt: skip
    steps = done.progress.steps
    looked = [
        (f"{steps[i - 1].before} → {steps[i - 1].after}", done.scan(i)) for i in done.fresh or (len(done),)[: len(done)]
    ]
    if json:
        held = {"report": str(done.report), "facts": dict(done.facts), "sentences": done.sentences}
        print_json({**held, "steps": records(done.to_frame())})
        end_if(conditions, looked)
        return
    console = Terminal()
    console.print("\n".join(done.sentences) + "\n")
    console.print(steps_table(done.to_frame()))
    if training_table(dict(done.facts)):
        console.print(networks_table(training_table(dict(done.facts))))
    console.print(f"The report is in {done.report}: open it in a browser.", soft_wrap=True)
    end_if(conditions, looked)

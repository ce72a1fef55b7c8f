"""Command line: parse, call one function, print. Exit codes: 0 done, 2 the user's input, 1 ours, 130 interrupted."""

from __future__ import annotations

import json as json_format
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from ..errors import InputError, MatchedByRow
from ..experiments.commands import repeat_flags, reproduce
from ..selection import DEFAULT_METHOD
from .inputs import aside, open_explainer, read_pair, tell

app = typer.Typer(
    help="Why did the GNN change its mind? Exact path attributions of prediction changes on evolving graphs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(reproduce, name="reproduce")

Model = Annotated[str, typer.Argument(help="A folder written by axiompath.save_model, or package.module:function.")]
Before = Annotated[Path, typer.Argument(help="The graph before: .npz, .pt, an edge list, or a folder of tables.")]
After = Annotated[Path, typer.Argument(help="The graph after.")]
Later = Annotated[list[Path] | None, typer.Argument(help="Further graphs, in order.", show_default=False)]
Weights = Annotated[Path | None, typer.Option(help="Weights (.safetensors) of a package.module:function.")]
Nodes = Annotated[Path | None, typer.Option(help="Node table of an edge list.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines, and nothing else.")]
Targets = Annotated[list[str] | None, typer.Option("--target", "-t", help="A node's name or number; repeat for more.")]
Method = Annotated[str, typer.Option(help="convex, exact, linear, topk, deeplift, gnnlrp or grad.")]
Objective = Annotated[str, typer.Option(help="sufficiency or necessity.")]
Memory = Annotated[str, typer.Option(help="Memory that walking the paths may take.")]


@app.callback()
def options(debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False) -> None:
    """Options that every command has."""
    if debug:
        os.environ["AXIOMPATH_DEBUG"] = "1"


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the graphs and the model.")] = Path(
        "axiompath-demo"
    ),
    large: Annotated[bool, typer.Option("--large", help="Thousands of nodes, five snapshots.")] = False,
    json: Json = False,
) -> None:
    """Explain a change in the karate club, and write a report. Example: axiompath demo --out demo"""
    from .demo import run_demo, run_large_demo

    console = Console(quiet=json)
    with _writing(out):
        found = run_large_demo(console, out, aside()) if large else run_demo(console, out)
    if json:
        _print_json(found)


@app.command()
def check(model: Model, graph: Before, weights: Weights = None, nodes: Nodes = None, json: Json = False) -> None:
    """Can this model be read, module by module? Example: axiompath check demo/model demo/before.npz"""
    from ..files import read_graph, read_model
    from ..graphs.pair import match_stored
    from ..graphs.sample import sample_pair
    from ..graphs.stored import StoredGraph
    from ..readers import check as check_model

    data = read_graph(graph, nodes).data
    if isinstance(data, StoredGraph):
        data, _ = sample_pair(match_stored(data, data))
    found = check_model(read_model(model, weights), data)
    if json:
        modules = found.to_frame().to_dict("records")
        _print_json(
            {
                "readable": found.readable,
                "verdict": found.verdict,
                "call": found.call,
                "unused_fields": list(found.unused),
                "default_arguments": list(found.defaults),
                "modules": modules,
            }
        )
    else:
        Console().print(str(found), markup=False, highlight=False)
    if not found.readable:
        raise typer.Exit(2)


@app.command()
def diff(
    before: Before,
    after: After,
    model: Annotated[str | None, typer.Option(help="The model, to see which predictions moved.")] = None,
    weights: Weights = None,
    nodes: Nodes = None,
    directed: Annotated[bool, typer.Option("--directed", help="List both directions of every edge.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Rows to print.")] = 10,
    json: Json = False,
) -> None:
    """What changed between two graphs, and which predictions moved.

    Example: axiompath diff demo/before.npz demo/after.npz --model demo/model
    """
    pair = read_pair(before, after, nodes)
    changes, counts = pair.changes(directed=directed)
    moved = open_explainer(model, weights, pair, "2GB").moved() if model else None
    if json:
        predictions = [] if moved is None else _records(moved)
        _print_json({**counts, "changes": _records(changes), "predictions": predictions})
        return
    console = Console()
    console.print(
        f"Edges: {counts['edges_added']:,} added, {counts['edges_removed']:,} removed, "
        f"{counts['edges_reweighted']:,} reweighted. Nodes: {counts['nodes_added']:,} added, "
        f"{counts['nodes_removed']:,} removed, {counts['features_changed']:,} with other features."
    )
    if len(changes):
        console.print(_changes_table(changes, limit))
    if moved is not None:
        flipped = int((moved.class_before != moved.class_after).sum())
        console.print(f"{len(moved):,} predictions moved, {flipped:,} of them to another class.")
        console.print(_moved_table(moved, limit))


@app.command()
def explain(
    model: Model,
    before: Before,
    after: After,
    target: Targets = None,
    budget: Annotated[int, typer.Option(min=0, help="Paths in an explanation.")] = 10,
    method: Method = DEFAULT_METHOD,
    objective: Objective = "sufficiency",
    weights: Weights = None,
    nodes: Nodes = None,
    out: Annotated[Path | None, typer.Option(help="Save the explanations there as JSON, one file a node.")] = None,
    memory: Memory = "2GB",
    json: Json = False,
) -> None:
    """Which paths changed the prediction of a node? Without a target, of the one that moved the most.

    Example: axiompath explain demo/model demo/before.npz demo/after.npz --target 13 --budget 5
    """
    from .demo import path_table

    pair = read_pair(before, after, nodes)
    explainer = open_explainer(model, weights, pair, memory)
    targets = [pair.number(text) for text in target or ()] or explainer.moved().target.head(1).tolist()
    answers = explainer.explain_many(targets, budget, method, objective, progress=False)
    found = list(track(answers, "Explaining", total=len(targets), console=aside(), transient=True))
    if out is not None:
        with _writing(out):
            out.mkdir(parents=True, exist_ok=True)
            for explanation in found:
                explanation.save(out / f"{explanation.target}.json")
    if json:
        _print_json([explanation.to_dict() for explanation in found])
        return
    console = Console()
    if not found:
        console.print("No prediction moved.")
    for explanation in found:
        console.print(f"{explanation.verdict} {explanation.replayed}".rstrip(), markup=False)
        if len(explanation.paths):
            console.print(path_table(explanation))
            console.print(
                f"They leave {explanation.kl_residual:.4g} of {explanation.kl:.4g} nats, and no choice of as many "
                f"leaves less than {explanation.kl_bound:.4g}. Fidelity−: {explanation.fidelity_minus:.3f}, "
                f"fidelity+: {explanation.fidelity_plus:.3f}.\n"
            )


@app.command()
def story(
    model: Model,
    before: Before,
    after: After,
    later: Later = None,
    target: Targets = None,
    budget: Annotated[int, typer.Option(min=0, help="Paths a step.")] = 10,
    method: Method = DEFAULT_METHOD,
    objective: Objective = "sufficiency",
    weights: Weights = None,
    nodes: Nodes = None,
    memory: Memory = "2GB",
    json: Json = False,
) -> None:
    """What happened to a node over a sequence of graphs? Without a target, to the one that changed most often.

    Example: axiompath story demo/model monday.npz tuesday.npz friday.npz --target 13
    """
    from ..report.terminal import story_table

    files = [before, after, *(later or ())]
    told = tell(model, weights, files, nodes, target, 1, budget, method, objective, memory)
    if json:
        _print_json({"steps": told.to_frame().to_dict("records"), "stories": [item.to_dict() for item in told]})
        return
    console = Console()
    if not len(told):
        console.print("No prediction moved.")
    for item in told:
        console.print(item.summary(), markup=False, highlight=False)
        console.print(story_table(item))


@app.command()
def report(
    model: Model,
    before: Before,
    after: After,
    later: Later = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    target: Targets = None,
    top: Annotated[int, typer.Option(min=1, help="Without targets: how many, those that moved the most.")] = 20,
    budget: Annotated[
        int | None,
        typer.Option(min=0, help="Largest budget on the slider [50]; of more graphs, paths a step [10]."),
    ] = None,
    method: Method = DEFAULT_METHOD,
    objective: Objective = "sufficiency",
    weights: Weights = None,
    nodes: Nodes = None,
    memory: Memory = "2GB",
    json: Json = False,
) -> None:
    """Write a report, one HTML file to look at; of three graphs or more, with each node's story over all of them.

    Example: axiompath report demo/model demo/before.npz demo/after.npz --out report.html
    """
    from ..report import build_report, build_story_report
    from ..report.html import BUDGETS
    from ..writing import write_text

    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"Expected a file in a folder that exists after --out (got {out}).")
    files = [before, after, *(later or ())]
    title = " → ".join((files[0].stem, files[-1].stem))
    if later:
        limit = 10 if budget is None else budget
        told = tell(model, weights, files, nodes, target, top, limit, method, objective, memory)
        targets = [item.target for item in told]
        text = build_story_report(told, title=f"{title}, {len(files)} snapshots")
    else:
        largest = 50 if budget is None else budget
        pair = read_pair(before, after, nodes)
        explainer = open_explainer(model, weights, pair, memory)
        targets = [pair.number(text) for text in target or ()] or explainer.moved().target.head(top).tolist()
        budgets = sorted({min(b, largest) for b in BUDGETS} | {largest})
        text = build_report(
            explainer, targets, budgets, method=method, objective=objective, title=title, progress=aside()
        )
    with _writing(out):
        write_text(out, text)
    if json:
        _print_json({"report": str(out), "targets": targets, "bytes": len(text.encode())})
    else:
        Console().print(f"Explained {len(targets):,} nodes in {out} ({len(text) / 1e6:.1f} MB).", soft_wrap=True)


@app.command()
def scan(
    model: Model,
    graphs: Annotated[list[Path], typer.Argument(help="The graphs in order of time: two, or more for a sequence.")],
    out: Annotated[Path, typer.Option(help="Folder for the results; a scan that was stopped goes on there.")],
    budget: Annotated[int, typer.Option(min=0, help="Paths in an explanation.")] = 10,
    method: Method = DEFAULT_METHOD,
    objective: Objective = "sufficiency",
    min_kl: Annotated[float, typer.Option(min=0, help="Explain nodes whose KL (nats) is at least this.")] = 1e-3,
    only_flips: Annotated[bool, typer.Option(help="Explain nodes whose class changed, and no others.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core if not given.")] = None,
    memory: Annotated[str, typer.Option(help="Memory for all workers together, beside the graphs.")] = "2GB",
    engine: Annotated[str, typer.Option(help="local, or ray.")] = "local",
    ray_address: Annotated[str | None, typer.Option(help="A Ray cluster to join, such as auto or host:6379.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows to print.")] = 10,
    weights: Weights = None,
    nodes: Nodes = None,
    json: Json = False,
) -> None:
    """Explain every prediction that moved, on all cores, into a folder of Parquet files.

    Example: axiompath scan demo/model demo/before.npz demo/after.npz --out scan
    """
    from ..stories.sequence import step_folders

    found, console = [], Console(quiet=json)
    for (before, after), folder in zip(pairwise(graphs), step_folders(out, len(graphs)), strict=True):
        pair = read_pair(before, after, nodes)
        explainer = open_explainer(model, weights, pair, memory)
        with _writing(folder):
            done = explainer.scan(
                folder, budget, method, objective, min_kl=min_kl, only_flips=only_flips, workers=workers,
                engine="ray" if ray_address else engine, ray_address=ray_address, progress=not aside().quiet,
            )  # fmt: skip
        counts = {key: value for key, value in done.manifest.items() if key.startswith("num_")}
        found.append({"folder": str(folder), "before": str(before), "after": str(after), **counts})
        console.print(f"[bold]{escape(before.stem)} → {escape(after.stem)}[/]: {done.summary}", highlight=False)
        if len(done):
            console.print(_moved_table(done.to_frame(), limit))
        console.print(f"Written to {folder}. Read it with axiompath.read_scan({str(folder)!r}).\n", soft_wrap=True)
    if json:
        _print_json(found)


@app.command()
def convert(
    edges: Annotated[Path, typer.Argument(help="Edges: .parquet, .csv, .tsv, edge_index.npy, or a graph: .npz, .pt.")],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist yet.")],
    nodes: Annotated[Path | None, typer.Option(help="Node table, or x.npy with nodes named by their row.")] = None,
    features_of: Annotated[
        Path | None, typer.Option(help="Instead of --nodes: a stored graph with the same nodes and features.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="edge_weight.npy of an edge_index.npy.")] = None,
    memory: Annotated[str, typer.Option(help="Memory that sorting may take.")] = "2GB",
    json: Json = False,
) -> None:
    """Sort a graph into a folder that is opened without reading it into memory.

    Example: axiompath convert edges.parquet --nodes nodes.parquet --out before --memory 500MB
    """
    from ..files import convert_graph

    with _writing(out):
        graph = convert_graph(
            edges, out, nodes=nodes, features_of=features_of, weights=weights, memory=memory, progress=aside()
        )
    if json:
        sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        _print_json({"graph": str(out), **sizes, "weighted": graph.weights is not None})
    else:
        Console().print(
            f"Stored {graph.num_nodes:,} nodes and {graph.num_edges:,} edges in {out}.", soft_wrap=True, highlight=False
        )


@app.command()
def warmup(json: Json = False) -> None:
    """Compile the numerical kernels now rather than on first use. Example: axiompath warmup"""
    from .warmup import warm_up

    console = Console(quiet=json)
    with console.status("Compiling the numerical kernels, about a minute the first time"):
        warm_up()
    console.print("The kernels are compiled.")
    if json:
        _print_json({"compiled": True})


@contextmanager
def _users_input() -> Iterator[None]:
    """Mark what the library refuses as the user's: its checks of what it is given, and they alone, say "Expected"."""
    from ..readers import UnreadableModel

    try:
        yield
    except InputError:
        raise
    except (UnreadableModel, MemoryError) as error:
        raise InputError(str(error)) from error
    except (ValueError, TypeError, FileNotFoundError) as error:
        if not str(error).startswith("Expected "):
            raise
        raise InputError(str(error)) from error


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A place that cannot be written to is the user's to change."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"Expected a place that can be written to (got {path}: {reason}).") from error


def _print_json(value: Any) -> None:
    sys.stdout.write(json_format.dumps(value, indent=1) + "\n")


def _records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a table as plain values, None where there is none."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [
        {key: value.item() if hasattr(value, "item") else value for key, value in row.items()}
        for row in plain.to_dict("records")
    ]


def _changes_table(changes: Any, limit: int) -> Table:
    title = f"First {min(limit, len(changes)):,} of {len(changes):,} changes"
    table = Table("id", "change", "of", "weight before", "after", title=title)
    for row in _records(changes.head(limit)):
        if row["dst"] is None:
            carried = f", with {row['num_edges']:,} edges" if row["num_edges"] else ""
            of, weights = f"{row['src_name']}{carried}", ["", ""]
        else:
            of = f"{row['src_name']} {'→' if row['directed'] else '–'} {row['dst_name']}"
            weights = ["" if row[key] is None else f"{row[key]:g}" for key in ("weight_before", "weight_after")]
        table.add_row(str(row["id"]), row["kind"], escape(of), *weights)
    return table


def _moved_table(moved: Any, limit: int) -> Table:
    table = Table("target", "class before", "after", "KL", "altered paths")
    for row in _records(moved.head(limit)):
        old, new = (str(row.get(f"{key}_name", row[key])) for key in ("class_before", "class_after"))
        table.add_row(escape(row["name"]), escape(old), escape(new), f"{row['kl']:.4f}", f"{row['num_paths']:,}")
    return table


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Our own warnings as a sentence on stderr, each once; others as Python shows them."""
    console, told = Console(stderr=True), set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell_aside(
            message: Warning | str, category: type[Warning], filename: str, lineno: int,
            file: TextIO | None = None, line: str | None = None,
        ) -> None:  # fmt: skip
            if not issubclass(category, MatchedByRow):
                show(message, category, filename, lineno, file, line)
            elif str(message) not in told:
                told.add(str(message))
                console.print(f"[bold yellow]Warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True)

        warnings.showwarning = tell_aside
        warnings.simplefilter("always", MatchedByRow)
        yield


def main() -> None:
    """Entry point: an error is a sentence or two and an exit code; the traceback comes with --debug."""
    try:
        with _users_input(), _warnings_as_sentences():
            app(args=repeat_flags(sys.argv[1:]), prog_name="axiompath")
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped.")
        sys.exit(130)
    except Exception as error:
        if os.environ.get("AXIOMPATH_DEBUG"):
            raise
        console = Console(stderr=True)
        if isinstance(error, InputError):
            console.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
            sys.exit(2)
        name = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        console.print(
            f"[bold red]This is a fault of axiompath's, not yours:[/] {escape(name)}\n"
            "Run again with `axiompath --debug ...` for the traceback, and please report it.",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(1)

"""Commands that run the paper's experiments again: `python -m research reproduce ...`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from axiompath.cli.options import AsJson, spread
from axiompath.errors import InputError, MissingFile

if TYPE_CHECKING:
    import pandas as pd

reproduce = typer.Typer(help="Run the paper's experiments again.", no_args_is_help=True)

SEVERAL = ("--datasets", "--layers", "--methods")  # take several values: `--layers 2 3`, `--layers 2,3`

DatasetOption = Annotated[list[str] | None, typer.Option("--datasets", help="Data sets: several after one flag.")]
Depths = Annotated[list[str] | None, typer.Option("--layers", help="Depths: several after one flag.")]
Repeats = Annotated[int, typer.Option(min=1, help="Random evolutions each.")]
Evolution = Annotated[str, typer.Option(help="Which edges change: added, removed or both.")]
Sample = Annotated[int | None, typer.Option(min=1, help="A random sample of this many a repeat, or a transition.")]
Root = Annotated[Path | None, typer.Option(help="Folder of the .npz files; else AXIOMPATH_DATA.")]
Out = Annotated[Path, typer.Option(help="Folder of tables and figures; a stopped run goes on there.")]
Memory = Annotated[str, typer.Option(help="Targets that need more are skipped, and counted.")]
RESULTS = Path("results")


@dataclass(frozen=True)
class Subjects:
    """What networks of how many layers are trained on."""

    names: DatasetOption = None
    layers: Depths = None


@dataclass(frozen=True)
class Variant:
    """What departs from the paper's main experiment."""

    aggregation: Annotated[str, typer.Option(help="How neighbours are taken: sum, mean or max.")] = "sum"
    edges: Annotated[str, typer.Option(help="merged, or parallel as in the paper's loader (Amazon, Coauthor).")] = (
        "merged"
    )
    trainings: Annotated[int, typer.Option(min=1, help="Networks trained from different seeds.")] = 1


@dataclass(frozen=True)
class Compared:
    """Which methods."""

    methods: Annotated[list[str] | None, typer.Option(help="Methods: several after one flag; default all.")] = None
    gnnexplainer: Annotated[bool, typer.Option(help="Also GNNExplainer; about a second per target.")] = False


@dataclass(frozen=True)
class Allowance:
    """What a comparison may take."""

    max_targets: Sample = None
    memory: Memory = "2GB"
    workers: Annotated[int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")] = 1


@dataclass(frozen=True)
class Folders:
    """Where data come from, and where results go."""

    root: Root = None
    out: Out = RESULTS
    json: AsJson = False

    @property
    def weights(self) -> Path:
        """Where trained weights are kept."""
        return self.out / "weights"


def repeat_flags(arguments: Sequence[str]) -> list[str]:
    """`--layers 2 3` -> `--layers 2 --layers 3`, the form that the parser knows; all else stays as it is."""
    spread: list[str] = []
    flag: str | None = None
    for argument in arguments:
        if argument.startswith("-"):
            flag = argument if argument in SEVERAL else None
            if flag is None:
                spread.append(argument)
        elif flag is not None:
            spread += [flag, argument]
        else:
            spread.append(argument)
    if flag is not None and flag not in spread:
        spread.append(flag)  # without a value: the parser says so
    return spread


def split_commas(values: Sequence[str] | None, otherwise: Sequence[str]) -> tuple[str, ...]:
    """Values given one by one or with commas between, else the default."""
    return tuple(part for value in values or () for part in value.split(",") if part) or tuple(otherwise)


def read_depths(values: Sequence[str] | None, otherwise: Sequence[int]) -> tuple[int, ...]:
    """Depths as numbers."""
    try:
        return tuple(int(value) for value in split_commas(values, ())) or tuple(otherwise)
    except ValueError:
        raise InputError(f"Expected numbers of layers such as `--layers 2 3` (got {' '.join(values or ())}).") from None


@reproduce.command()
@spread
def fidelity(
    *,
    subjects: Subjects,
    repeats: Repeats = 10,
    evolution: Evolution = "added",
    variant: Variant,
    compared: Compared,
    allowed: Allowance,
    folders: Folders,
) -> None:
    """Fidelity of every method at ten levels. Example: python -m research reproduce fidelity --datasets cora"""
    from .. import datasets
    from ..experiments.fidelity import COMPARED, OPTIONAL_METHODS, mean_by_level
    from ..experiments.study import Comparison, run_comparison

    more = compared.gnnexplainer or "gnnexplainer" in (compared.methods or ())
    offered = (*COMPARED, *(OPTIONAL_METHODS if more else ()))
    wanted = split_commas(compared.methods, [method for method, _ in offered])
    for method in wanted:
        if method not in dict(offered):
            raise InputError(f"Expected methods among {', '.join(dict(offered))} (got {method!r}).")
    pairs = tuple(pair for pair in offered if pair[0] in wanted)
    chosen, depths = split_commas(subjects.names, datasets.NAMES), read_depths(subjects.layers, (2, 3))
    comparison = Comparison(
        chosen,
        depths,
        repeats,
        evolution,
        variant.aggregation,
        variant.edges,
        variant.trainings,
        methods=pairs,
        max_targets=allowed.max_targets,
        memory=allowed.memory,
    )
    with progress_bar(folders.json) as report:
        table = run_comparison(comparison, folders.out, root=folders.root, workers=allowed.workers, report=report)
    levels = mean_by_level(table)
    show_results(levels.reset_index(), _level_tables(levels), folders)


@reproduce.command()
def example(out: Out = RESULTS, json: AsJson = False) -> None:
    """The paper's small example, with its Figures 2 and 3. Example: python -m research reproduce example"""
    from ..experiments.conditions import write_results
    from ..experiments.worked_example import draw_example, open_example, share_inputs

    explainer = open_example()
    draw_example(explainer, out)
    shares = share_inputs(explainer)
    write_results(out, "example", shares, {})
    table = Table(*shares.columns, box=None)
    for row in shares.itertuples(index=False):
        table.add_row(*(f"{value:+.3f}" if isinstance(value, float) else str(value) for value in row))
    show_results(shares, [table], Folders(out=out, json=json))


@reproduce.command()
@spread
def preservation(*, subjects: Subjects, repeats: Repeats = 1, folders: Folders) -> None:
    """Do shares sum to the change of the logits? Example: python -m research reproduce preservation --layers 2"""
    from ..experiments.conditions import write_results
    from ..experiments.fidelity import EVOLUTIONS
    from ..experiments.figures import draw_preservation
    from ..experiments.preservation import run_preservation, summarise

    wanted, depths = split_commas(subjects.names, ("cora", "citeseer")), read_depths(subjects.layers, (2, 3, 4))
    rows: list[dict[str, Any]] = []
    with progress_bar(folders.json) as report:
        for row in run_preservation(wanted, depths, repeats, root=folders.root):
            rows.append(row)
            total = len(wanted) * len(depths) * len(EVOLUTIONS) * repeats
            report(len(rows), total, f"{row['dataset']}, {row['layers']} layers")
    frame = summarise(rows)
    seeds = {"parameters": list(range(repeats)), "evolution": list(range(repeats))}
    write_results(folders.out, "preservation", frame, {"seeds": seeds, "seconds": float(frame.seconds.sum())})
    draw_preservation(frame, folders.out)
    table = Table("data set", "layers", "edges", "targets", "paths", "preserved", "largest error", "seconds", box=None)
    for r in frame.to_dict("records"):
        table.add_row(
            str(r['dataset']), str(r['layers']), str(r['evolution']), f"{r['targets']:,}", f"{r['paths']:,}",
            f"{r['preserved_percent']:.2f} %", f"{r['largest_error']:.1e}", f"{r['seconds']:.1f}",
        )  # fmt: skip
    show_results(frame, [table], folders)


@reproduce.command()
@spread
def runtime(
    *,
    subjects: Subjects,
    repeats: Repeats = 1,
    evolution: Evolution = "added",
    sample: Annotated[int, typer.Option(min=0, help="Targets a repeat that SCS solves too.")] = 8,
    memory: Memory = "2GB",
    folders: Folders,
) -> None:
    """Seconds of every step by number of paths, beside SCS. Example: python -m research reproduce runtime --layers 2"""
    import pandas as pd

    from .. import datasets
    from ..experiments.conditions import write_results
    from ..experiments.figures import draw_runtime
    from ..experiments.runtime import can_compare, run_runtime
    from ..experiments.study import Comparison
    from ..experiments.trained import SEED

    if not can_compare():
        Console(stderr=folders.json).print(
            "cvxpy and scs are not installed: SCS is left out; `pip install -e .[research]` brings them.",
            markup=False,
        )
    chosen, depths = split_commas(subjects.names, datasets.NAMES), read_depths(subjects.layers, (2, 3))
    jobs = Comparison(chosen, depths, repeats, evolution).jobs
    frames: list[pd.DataFrame] = []
    with progress_bar(folders.json) as report:
        for job in jobs:
            report(len(frames), len(jobs), str(job))
            frames.append(run_runtime(job, sample=sample, root=folders.root, cache=folders.weights, memory=memory))
    frame = pd.concat(frames, ignore_index=True)
    seeds = {"training": SEED, "evolution": list(range(repeats))}
    write_results(folders.out, "runtime", frame, {"seeds": seeds, "evolution": evolution, "scs_sample": sample})
    draw_runtime(frame, folders.out)
    table = Table("data set", "layers", "targets", "most paths", "walking", "convex", "exact", box=None)
    table.columns[0].no_wrap = True
    for solver in ("SCS", "early", "scipy"):
        table.add_column(f"{solver}/convex")
    for (name, depth), part in frame.groupby(["dataset", "layers"], sort=False):
        ratios = [(part[f"{solver}_seconds"] / part.convex_seconds).median() for solver in ("scs", "early", "scipy")]
        means = [f"{1000 * part[f'{step}_seconds'].mean():.2f} ms" for step in ("walking", "convex", "exact")]
        shown = ["-" if pd.isna(ratio) else f"{ratio:,.0f}" for ratio in ratios]
        table.add_row(str(name), str(depth), f"{len(part):,}", f"{part.num_paths.max():,}", *means, *shown)
    show_results(frame, [table], folders)


@reproduce.command()
@spread
def steps(*, subjects: Subjects, repeats: Repeats = 1, max_targets: Sample = 30, folders: Folders) -> None:
    """Edges one by one against all at once. Example: python -m research reproduce steps --datasets cora --layers 2"""
    import pandas as pd

    from .. import datasets
    from ..experiments.conditions import write_results
    from ..experiments.steps import run_steps, summarise_steps
    from ..experiments.study import Comparison
    from ..experiments.trained import SEED

    chosen, depths = split_commas(subjects.names, datasets.NAMES), read_depths(subjects.layers, (2, 3))
    jobs = Comparison(chosen, depths, repeats).jobs
    frames: list[pd.DataFrame] = []
    with progress_bar(folders.json) as report:
        for job in jobs:
            report(len(frames), len(jobs), str(job))
            frames.append(run_steps(job, max_targets=max_targets or 30, root=folders.root, cache=folders.weights))
    frame = pd.concat([part.copy() for part in frames], ignore_index=True)
    frame.attrs = {}
    write_results(folders.out, "steps", frame, {"seeds": {"training": SEED, "orders": SEED}})
    summary = summarise_steps(frame)
    table = Table(*(str(name).replace("_", " ") for name in summary.columns), box=None)
    for row in summary.itertuples(index=False):
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row))
    show_results(summary, [table], folders)


@reproduce.command()
@spread
def timed(
    *,
    subjects: Subjects,
    windows: Annotated[int, typer.Option(min=2, help="Windows of equally many events.")] = 10,
    span: Annotated[int, typer.Option(min=1, help="Consecutive windows in a snapshot.")] = 5,
    features: Annotated[str, typer.Option(help="own, identity or degree; see load_sequence.")] = "own",
    max_targets: Sample = None,
    folders: Folders,
) -> None:
    """Graphs that changed in reality. Example: python -m research reproduce timed --datasets pubmed_pmid --layers 2"""
    import pandas as pd

    from ..experiments.conditions import write_results
    from ..experiments.fidelity import mean_by_level
    from ..experiments.timed import Slide, pick_example, run_timed
    from ..experiments.trained import SEED

    wanted, depths = (
        split_commas(subjects.names, ("pubmed_pmid", "highschool_2013")),
        read_depths(subjects.layers, (2,)),
    )
    slides = [Slide(name, depth, windows, span, features) for name in wanted for depth in depths]
    frames: list[pd.DataFrame] = []
    records = []
    with progress_bar(folders.json) as report:
        for slide in slides:
            report(len(frames), len(slides), slide.dataset)
            frames.append(run_timed(slide, root=folders.root, cache=folders.weights, max_targets=max_targets))
            records.append({"dataset": slide.dataset, "layers": slide.layers, **frames[-1].attrs})
            transition, example = pick_example(slide, root=folders.root, cache=folders.weights)
            example.save(folders.out / f"example-{slide.dataset}-{slide.layers}layers.json")
            Console(stderr=folders.json).print(
                f"{slide.dataset}, {slide.layers} layers, transition {transition}: {example}"
            )
    frame = pd.concat([part.copy() for part in frames], ignore_index=True)
    frame.attrs = {}
    facts = {"windows": windows, "span": span, "features": features, "runs": records}
    write_results(folders.out, "timed", frame, {"seeds": {"training": SEED, "sample": SEED}, **facts})
    means = mean_by_level(frame)
    show_results(means.reset_index(), _level_tables(means), folders)


@reproduce.command()
@spread
def tasks(
    *,
    names: DatasetOption = None,
    max_targets: Annotated[int, typer.Option(min=1, help="Explained by every method: drawn from a part's.")] = 100,
    largest_tree: Annotated[int, typer.Option(min=10, help="Posts of a tree after a day.")] = 300,
    epochs: Annotated[int, typer.Option(min=5, help="Of molecules; trees and links take half of them.")] = 100,
    folders: Folders,
) -> None:
    """Molecules, trees of posts, links. Example: python -m research reproduce tasks --datasets mutag"""
    from ..experiments.tasks import TASKS, TaskSettings, run_tasks, summarise_tasks

    settings = TaskSettings(
        split_commas(names, TASKS), max_targets=max_targets, largest_tree=largest_tree, epochs=epochs
    )
    with progress_bar(folders.json) as report:
        table = run_tasks(settings, folders.out, root=folders.root, report=report)
    summary = summarise_tasks(table)
    show_results(summary, _task_tables(table, summary), folders)


@reproduce.command()
@spread
def faithfulness(
    *,
    names: DatasetOption = None,
    max_targets: Annotated[int, typer.Option(min=1, help="Compared in a setting: drawn from those that moved.")] = 200,
    evaluations: Annotated[int, typer.Option(min=1, help="For choosing so many changes of a target.")] = 20_000,
    folders: Folders,
) -> None:
    """Changes against edges and layer edges. Example: python -m research reproduce faithfulness --datasets mutag"""
    from ..experiments.authors import AUTHORS_SETTINGS
    from ..experiments.faithfulness import FaithSettings, list_exceptions, run_faithfulness, summarise_faithfulness

    settings = FaithSettings(
        split_commas(names, AUTHORS_SETTINGS), max_targets=max_targets, most_evaluations=evaluations
    )
    with progress_bar(folders.json) as report:
        table = run_faithfulness(settings, folders.out, root=folders.root, report=report)
    summary = summarise_faithfulness(table)
    worse = list_exceptions(table)
    left = (worse["changes"] / worse["kl"]).tolist()
    worst = [
        f"{row.setting} {row.target}, {row.size}: {share:.4f}"
        for row, share in zip(worse.itertuples(), left, strict=True)
    ]
    show_results(
        summary, [turned_table(summary), f"Exceptions: {len(worse)} of {len(table)}. {'; '.join(worst)}"], folders
    )


@reproduce.command()
@spread
def undo(
    *,
    names: DatasetOption = None,
    max_flips: Annotated[int, typer.Option(min=1, help="Flips of a data set, drawn from all.")] = 120,
    seconds: Annotated[float, typer.Option(min=0.0, help="That a search may take.")] = 10.0,
    rivals: Annotated[bool, typer.Option(help="Ask three other searches for the same flips.")] = False,
    folders: Folders,
) -> None:
    """How few changes undo a flip of a real graph. Example: python -m research reproduce undo --datasets pubmed_pmid"""
    from ..experiments.flips import FLIP_DATASETS, FlipSettings, run_flips, summarise_flips

    settings = FlipSettings(split_commas(names, FLIP_DATASETS), max_flips=max_flips, seconds=seconds, rivals=rivals)
    summary = summarise_flips(run_flips(settings, folders.out, root=folders.root))
    show_results(summary, [turned_table(summary)], folders)


@reproduce.command()
def claims(
    out: Out = RESULTS,
    limit: Annotated[int, typer.Option(min=0, help="Exceptions shown of each claim.")] = 5,
    json: AsJson = False,
) -> None:
    """The paper's claims, checked against a table of `fidelity`. Example: python -m research reproduce claims"""
    import pandas as pd

    from ..experiments.claims import check_claims
    from ..experiments.job_parts import read_table

    file = out / "fidelity.parquet"
    if not file.is_file():
        raise MissingFile(
            f"Expected a table at {file} (found none); run `python -m research reproduce fidelity` first."
        )
    verdicts = check_claims(read_table(file))
    if json:
        return _print_rows(pd.DataFrame([vars(verdict) for verdict in verdicts]))
    console = Console()
    for verdict in verdicts:
        word = "holds" if verdict.holds else f"{verdict.held} of {verdict.cases}"
        console.print(f"[bold]{verdict.claim}[/]: {word}", highlight=False)
        for exception in verdict.exceptions[:limit]:
            console.print(f"  {exception}", highlight=False)


def turned_table(rows: pd.DataFrame) -> Table:
    """A table of more columns than a terminal shows: a line for each, side by side what the rows have."""
    table = Table(*("" for _ in range(len(rows) + 1)), box=None, show_header=False)
    for name, values in rows.items():
        shown = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in values.tolist())
        table.add_row(str(name).replace("_", " "), *map(escape, shown))
    return table


@contextmanager
def progress_bar(json: bool) -> Iterator[Callable[[int, int, str], None]]:
    """A bar, and what moves it: how many are done, of how many, and what is being done. What is piped is the answer."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=json), transient=True) as progress:
        task = progress.add_task("loading", total=None)
        yield lambda done, total, what: progress.update(task, completed=done, total=total, description=what)


def show_results(rows: pd.DataFrame, tables: Iterable[Table | str], folders: Folders) -> None:
    """The answer: rows for machines, or tables."""
    if folders.json:
        return _print_rows(rows)
    console = Console()
    for table in tables:
        console.print(table, highlight=False)
    console.print(f"The results are in {folders.out}", markup=False)


def _print_rows(frame: pd.DataFrame) -> None:
    """One object a row."""
    sys.stdout.write(frame.to_json(orient="records", indent=1) + "\n")


def _level_tables(means: pd.DataFrame) -> Iterator[Table]:
    """A table for each data set and depth, narrow enough for 80 columns."""
    for (name, depth), part in means.groupby(level=["dataset", "layers"], sort=False):
        title = f"{name}, {depth} layers. Mean Fidelity-KL-minus by level (lower is better)"
        table = Table("method", *map(str, part.columns), box=None, padding=(0, 1, 0, 0), title=title)
        for (_, _, _, method, objective), values in zip(part.index, part.to_numpy(), strict=True):
            label = method if objective == "sufficiency" else f"{method}, {objective}"
            table.add_row(label, *(f"{value:.3f}" for value in values))
        yield table


def _task_tables(table: pd.DataFrame, summary: pd.DataFrame) -> Iterator[Table | str]:
    """Of each task: its parts and how complete they are, its methods, one change in words."""
    for name, rows in summary.groupby("dataset", sort=False):
        parts = [part for part in table.attrs["parts"] if part["dataset"] == name]
        heads = ("part", "score", "targets", "moved", "flipped", "median paths", "largest residual", "ms a target")
        shown = Table(*heads, box=None, padding=(0, 1, 0, 0), title=str(name))
        for part in parts:
            score = ", ".join(f"{what} {value:.3f}" for what, value in part["scores"].items())
            counts = [f"{part[key]:,}" for key in ("asked", "moved", "flipped")]
            numbers = f"{part['median_paths']:,.0f}", f"{part['largest_residual']:.1e}", f"{part['ms_a_target']:.2f}"
            shown.add_row(str(part["part"]), score, *counts, *numbers)
        yield shown
        methods = Table("method", "budget", "minus", "(median)", "plus", "(median)", "ms", box=None, title="fidelity")
        for r in rows.to_dict("records"):
            means = (f"{r[key]:.3f}" for key in ("minus", "minus_median", "plus", "plus_median"))
            methods.add_row(str(r["method"]), str(r["budget"]), *means, f"{r['ms']:.2f}")
        yield methods
        yield next((part["example"] for part in parts if part["example"]), "")

"""Command line of the experiments: parse, call one function, print."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..errors import InputError, MissingFile

if TYPE_CHECKING:
    import pandas as pd

reproduce = typer.Typer(help="Run the paper's experiments again.", no_args_is_help=True)

SEVERAL = ("--datasets", "--layers", "--methods")  # take several values: `--layers 2 3`, `--layers 2,3`

DatasetOption = Annotated[list[str] | None, typer.Option("--datasets", help="Data sets: several after one flag.")]
Depths = Annotated[list[str] | None, typer.Option("--layers", help="Depths: several after one flag.")]
Repeats = Annotated[int, typer.Option(min=1, help="Random evolutions each.")]
Evolution = Annotated[str, typer.Option(help="Which edges change: added, removed or both.")]
Root = Annotated[Path | None, typer.Option(help="Folder of the .npz files; else AXIOMPATH_DATA.")]
Out = Annotated[Path, typer.Option(help="Folder of tables and figures; a stopped run goes on there.")]
Memory = Annotated[str, typer.Option(help="Targets that need more are skipped, and counted.")]
Json = Annotated[bool, typer.Option("--json", help="Print the table as JSON for machines, and nothing else.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")]


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
    if flag is not None and (not spread or flag not in spread):
        spread.append(flag)  # without a value: the parser says so
    return spread


def split_commas(values: Sequence[str] | None, otherwise: Sequence[Any]) -> tuple[str, ...]:
    """Values given one by one or with commas between, else the default."""
    found = [part for value in values or () for part in value.split(",") if part]
    return tuple(found or map(str, otherwise))


def read_depths(values: Sequence[str] | None, otherwise: Sequence[int]) -> tuple[int, ...]:
    """Depths as numbers."""
    try:
        return tuple(int(value) for value in split_commas(values, otherwise))
    except ValueError:
        raise InputError(f"Expected numbers of layers such as `--layers 2 3` (got {' '.join(values or ())}).") from None


@reproduce.command()
def fidelity(
    names: DatasetOption = None,
    layers: Depths = None,
    repeats: Repeats = 10,
    evolution: Evolution = "added",
    methods: Annotated[list[str] | None, typer.Option(help="Methods: several after one flag; default all.")] = None,
    gnnexplainer: Annotated[bool, typer.Option(help="Also GNNExplainer; about a second a target.")] = False,
    max_targets: Annotated[int | None, typer.Option(min=1, help="A random sample of this many a repeat.")] = None,
    memory: Memory = "2GB",
    workers: Workers = 1,
    root: Root = None,
    out: Out = Path("results"),
    json: Json = False,
) -> None:
    """Fidelity of every method at ten levels. Example: axiompath reproduce fidelity --datasets cora --layers 2 3"""
    from .. import datasets
    from .fidelity import COMPARED, OPTIONAL_METHODS, mean_by_level
    from .study import Comparison, run_comparison

    offered = (*COMPARED, *(OPTIONAL_METHODS if gnnexplainer or "gnnexplainer" in (methods or ()) else ()))
    wanted = split_commas(methods, [method for method, _ in offered])
    for method in wanted:
        if method not in dict(offered):
            raise InputError(f"Expected methods among {', '.join(dict(offered))} (got {method!r}).")
    comparison = Comparison(
        split_commas(names, datasets.NAMES),
        read_depths(layers, (2, 3)),
        repeats,
        evolution,
        tuple(pair for pair in offered if pair[0] in wanted),
        max_targets,
        memory,
    )
    console = Console(stderr=json)  # what is piped is the answer alone
    with _progress(console) as progress:
        task = progress.add_task("loading", total=None)
        table = run_comparison(
            comparison,
            out,
            root=root,
            workers=workers,
            report=lambda done, total, what: progress.update(task, completed=done, total=total, description=what),
        )
    means = mean_by_level(table)
    if json:
        return _print_json(means.reset_index())
    _print_levels(console, means, "Mean Fidelity-KL-minus by level (lower is better)")
    console.print(f"Table, record and figures are in {out}")


@reproduce.command()
def preservation(
    names: DatasetOption = None,
    layers: Depths = None,
    repeats: Repeats = 1,
    root: Root = None,
    out: Out = Path("results"),
    json: Json = False,
) -> None:
    """Do contributions sum to the change of the logits? Example: axiompath reproduce preservation --layers 2"""
    from .conditions import write_record
    from .fidelity import EVOLUTIONS
    from .figures import draw_preservation
    from .job_parts import write_table
    from .preservation import run_preservation, summarise

    wanted, depths = split_commas(names, ("cora", "citeseer")), read_depths(layers, (2, 3, 4))
    rows = []
    console = Console(stderr=json)  # what is piped is the answer alone
    with _progress(console) as progress:
        task = progress.add_task("loading", total=len(wanted) * len(depths) * len(EVOLUTIONS) * repeats)
        for row in run_preservation(wanted, depths, repeats, root=root):
            rows.append(row)
            progress.update(task, advance=1, description=f"{row['dataset']}, {row['layers']} layers")
    frame = summarise(rows)
    table = Table("data set", "layers", "edges", "targets", "paths", "preserved", "largest error", "seconds", box=None)
    for r in frame.to_dict("records"):
        table.add_row(
            str(r['dataset']), str(r['layers']), str(r['evolution']), f"{r['targets']:,}", f"{r['paths']:,}",
            f"{r['preserved_percent']:.2f} %", f"{r['largest_error']:.1e}", f"{r['seconds']:.1f}",
        )  # fmt: skip
    write_table(frame, out / "preservation.parquet")
    seconds = float(frame.seconds.sum())
    seeds = {"parameters": list(range(repeats)), "evolution": list(range(repeats))}
    write_record(out / "preservation.json", {"seeds": seeds, "seconds": seconds})
    draw_preservation(frame, out)
    if json:
        return _print_json(frame)
    console.print(table)
    console.print(f"Table, record and figure are in {out}")


@reproduce.command()
def runtime(
    names: DatasetOption = None,
    layers: Depths = None,
    repeats: Repeats = 1,
    evolution: Evolution = "added",
    sample: Annotated[int, typer.Option(min=0, help="Targets a repeat that SCS solves too.")] = 8,
    memory: Memory = "2GB",
    root: Root = None,
    out: Out = Path("results"),
    json: Json = False,
) -> None:
    """Seconds of every step by number of paths, beside SCS. Example: axiompath reproduce runtime --layers 2"""
    import pandas as pd

    from .. import datasets
    from .conditions import write_record
    from .figures import draw_runtime
    from .job_parts import write_table
    from .runtime import can_compare, run_runtime
    from .study import Comparison
    from .trained import SEED

    console = Console(stderr=json)  # what is piped is the answer alone
    if not can_compare():
        console.print("cvxpy and scs are not installed: SCS is left out; `pip install axiompath[dev]` brings them.")
    jobs = Comparison(split_commas(names, datasets.NAMES), read_depths(layers, (2, 3)), repeats, evolution).jobs
    frames = []
    with _progress(console) as progress:
        task = progress.add_task("loading", total=len(jobs))
        for job in jobs:
            progress.update(task, description=f"{job.dataset}, {job.layers} layers")
            frames.append(
                run_runtime(
                    job.dataset, job.layers, job.repeat, evolution=evolution, sample=sample, root=root,
                    cache=out / "weights", memory=memory,
                )
            )  # fmt: skip
            progress.advance(task)
    frame = pd.concat(frames, ignore_index=True)
    write_table(frame, out / "runtime.parquet")
    seeds = {"training": SEED, "evolution": list(range(repeats))}
    write_record(out / "runtime.json", {"seeds": seeds, "evolution": evolution, "scs_sample": sample})
    draw_runtime(frame, out)
    if json:
        return _print_json(frame)
    table = Table("data set", "layers", "targets", "most paths", "walking", "convex", "exact", "SCS/convex", box=None)
    table.columns[0].no_wrap = True
    for (name, depth), part in frame.groupby(["dataset", "layers"], sort=False):
        ratio = (part.scs_seconds / part.convex_seconds).median()
        means = [f"{1000 * part[f'{step}_seconds'].mean():.2f} ms" for step in ("walking", "convex", "exact")]
        shown = "-" if pd.isna(ratio) else f"{ratio:,.0f}"
        table.add_row(str(name), str(depth), f"{len(part):,}", f"{part.num_paths.max():,}", *means, shown)
    console.print(table)
    console.print(f"Table, record and figure are in {out}")


@reproduce.command()
def timed(
    names: DatasetOption = None,
    layers: Depths = None,
    windows: Annotated[int, typer.Option(min=2, help="Windows of equally many events.")] = 10,
    span: Annotated[int, typer.Option(min=1, help="Consecutive windows in a snapshot.")] = 5,
    features: Annotated[str, typer.Option(help="own, identity or degree; see load_sequence.")] = "own",
    max_targets: Annotated[int | None, typer.Option(min=1, help="A random sample of this many a transition.")] = None,
    root: Root = None,
    out: Out = Path("results"),
    json: Json = False,
) -> None:
    """Graphs that changed in reality. Example: axiompath reproduce timed --datasets pubmed_pmid --layers 2"""
    import pandas as pd

    from .conditions import write_record
    from .fidelity import mean_by_level
    from .job_parts import write_table
    from .timed import Slide, pick_example, run_timed
    from .trained import SEED

    console = Console(stderr=json)  # what is piped is the answer alone
    wanted = split_commas(names, ("pubmed_pmid", "highschool_2013"))
    slides = [Slide(name, depth, windows, span, features) for name in wanted for depth in read_depths(layers, (2,))]
    frames, records = [], []
    with _progress(console) as progress:
        task = progress.add_task("loading", total=len(slides))
        for slide in slides:
            progress.update(task, description=slide.dataset)
            frame = run_timed(slide, root=root, cache=out / "weights", max_targets=max_targets)
            transition, example = pick_example(slide, root=root, cache=out / "weights")
            records.append({"dataset": slide.dataset, "layers": slide.layers, **frame.attrs})
            example.save(out / f"example-{slide.dataset}-{slide.layers}layers.json")
            frames.append(frame)
            progress.advance(task)
            progress.console.print(f"{slide.dataset}, {slide.layers} layers, transition {transition}: {example}")
    frame = pd.concat([part.copy() for part in frames], ignore_index=True)
    frame.attrs = {}
    write_table(frame, out / "timed.parquet")
    facts = {"windows": windows, "span": span, "features": features, "runs": records}
    write_record(out / "timed.json", {"seeds": {"training": SEED, "sample": SEED}, **facts})
    means = mean_by_level(frame)
    if json:
        return _print_json(means.reset_index())
    _print_levels(console, means, "Mean Fidelity-KL-minus by level (lower is better)")
    console.print(f"Table and record are in {out}")


@reproduce.command()
def claims(
    out: Out = Path("results"),
    limit: Annotated[int, typer.Option(min=0, help="Exceptions shown of each claim.")] = 5,
    json: Json = False,
) -> None:
    """The paper's claims, checked against a table of `fidelity`. Example: axiompath reproduce claims --out results"""
    from .claims import check_claims
    from .job_parts import read_table

    file = out / "fidelity.parquet"
    if not file.is_file():
        raise MissingFile(f"Expected a table at {file} (found none); run `axiompath reproduce fidelity` first.")
    console = Console(stderr=json)  # what is piped is the answer alone
    verdicts = check_claims(read_table(file))
    if json:
        import pandas as pd

        return _print_json(pd.DataFrame([vars(verdict) for verdict in verdicts]))
    for verdict in verdicts:
        word = "holds" if verdict.holds else f"{verdict.held} of {verdict.cases}"
        console.print(f"[bold]{verdict.claim}[/]: {word}", highlight=False)
        for exception in verdict.exceptions[:limit]:
            console.print(f"  {exception}", highlight=False)


def _print_json(frame: pd.DataFrame) -> None:
    """One object a row."""
    sys.stdout.write(frame.to_json(orient="records", indent=1) + "\n")


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress


def _print_levels(console: Console, means: pd.DataFrame, title: str) -> None:
    """A table for each data set and depth, narrow enough for 80 columns."""
    for (name, depth), part in means.groupby(level=["dataset", "layers"], sort=False):
        table = Table("method", *(str(level) for level in part.columns), box=None, padding=(0, 1, 0, 0))
        for (_, _, _, method, objective), values in zip(part.index, part.to_numpy(), strict=True):
            label = method if objective == "sufficiency" else f"{method}, {objective}"
            table.add_row(label, *(f"{value:.3f}" for value in values))
        console.print(f"[bold]{name}, {depth} layers.[/] {title}")
        console.print(table)

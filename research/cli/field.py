"""Commands that compare us with others: `benchmark`, `reproduce rivals`, `stability`, `levels`, `pyg-metrics`, ..."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from axiompath.cli.options import AsJson, spread
from axiompath.cli.output import Terminal, print_json, records, written_to
from axiompath.errors import InputError
from axiompath.storage.writing import write_text

from .reproduction import DatasetOption, Folders, Root, progress_bar, reproduce, show_results, split_commas

if TYPE_CHECKING:
    import pandas as pd

PuzzleCount = Annotated[int, typer.Option("--puzzles", min=1, help="Of each setting, at most.")]
Seed = Annotated[int, typer.Option(help="Of the targets drawn, of training, of what methods draw.")]


@spread
def benchmark(
    method: Annotated[
        list[Path] | None, typer.Argument(help="Python files with a function explain(model, before, after, target).")
    ] = None,
    *,
    names: DatasetOption = None,
    puzzles: PuzzleCount = 10,
    seconds: Annotated[float, typer.Option(min=0.01, help="That your method may take for one puzzle.")] = 10.0,
    pyg: Annotated[bool, typer.Option("--pyg", help="Also the explainers of torch_geometric; minutes.")] = False,
    seed: Seed = 0,
    root: Root = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the table, one row per puzzle and method.")] = None,
    json: AsJson = False,
) -> None:
    """How good is an explanation of change? Runs your method beside ours and others, and prints its place.

    Planted causes are made on the spot; real windows are used where there is a data folder.

    Example: python -m research benchmark my_explainer.py --puzzles 10
    """
    from ..experiments.conditions import write_results
    from ..experiments.contenders import OUR_METHODS, SIMPLE_RIVALS
    from ..experiments.league import LeagueSettings, describe_places, run_league, summarise_league
    from ..experiments.puzzles import PLANTED_SETTINGS, settings_here
    from ..experiments.pyg_rivals import pyg_contenders
    from ..experiments.submission import load_submission

    yours = {file.stem: load_submission(file, seconds) for file in method or ()}
    contenders = {**OUR_METHODS, **SIMPLE_RIVALS, **(pyg_contenders() if pyg else {})}
    if taken := [name for name in yours if name in contenders]:
        raise InputError(f"Expected a file whose name no other method has (got {taken[0]}); rename it.")
    settings = LeagueSettings(split_commas(names, settings_here(root)), puzzles, seed)
    with progress_bar(json) as report:
        table = run_league({**contenders, **yours}, settings, root=root, report=report)
    summary = summarise_league(table)
    if out is not None:
        with written_to(out):
            write_results(out, "benchmark", table, {"settings": vars(settings)})
    if json:
        print_json(records(summary))
        return
    console = Terminal()
    for part, group in summary.groupby("part", sort=False):
        console.print(league_table(group, str(part), yours))
    for name in yours:
        console.print(" ".join(describe_places(summary, name)))
        if reasons := sorted(set(table.reason[(table.method == name) & table.failed])):
            console.print(f"The first reason: {reasons[0]}")
    if settings_here(root) == PLANTED_SETTINGS:
        console.print("Only planted causes: real windows need a data folder (--root, or AXIOMPATH_DATA).")


def league_table(group: pd.DataFrame, part: str, marked: object = ()) -> Table:
    """One part of the benchmark, best first."""
    planted = part == "planted"
    heads = ["cause first", "cause found"] if planted else []
    title = {"planted": "Planted causes, by how much of the cause is found", "real": "Real windows, by what is left"}
    table = Table("", "method", *heads, "left", "to restore", "s", "failed", box=None, title=title.get(part, part))
    table.columns[1].no_wrap = True
    for row in records(group):
        cells = [f"{row['first']:.2f}", _with_error(row, "found")] if planted else []
        restore = "" if row["restore"] is None else f"{row['restore']:.1f}"
        cells += [_with_error(row, "left"), restore, f"{row['seconds']:.3f}"]
        failed = f"{row['failed']} of {row['puzzles']}" if row["failed"] else ""
        style = "bold" if row["method"] in marked else None  # type: ignore[operator]
        table.add_row(str(row["place"]), row["method"], *cells, failed, style=style)
    return table


def _with_error(row: dict[str, object], column: str) -> str:
    value, error = row[column], row[f"{column}_error"]
    return f"{value:.3f}" + ("" if error is None else f" ± {error:.3f}")


@reproduce.command()
@spread
def rivals(*, names: DatasetOption = None, puzzles: PuzzleCount = 10, seed: Seed = 0, folders: Folders) -> None:
    """What a user would pick instead. Example: python -m research reproduce rivals --datasets mutag --out rivals"""
    from ..experiments.conditions import write_results
    from ..experiments.contenders import OUR_METHODS, SIMPLE_RIVALS
    from ..experiments.league import LeagueSettings, describe_reasons, run_league, summarise_league
    from ..experiments.league_page import write_page
    from ..experiments.puzzles import settings_here
    from ..experiments.pyg_rivals import pyg_contenders

    settings = LeagueSettings(split_commas(names, settings_here(folders.root)), puzzles, seed)
    contenders = {**OUR_METHODS, **SIMPLE_RIVALS, **pyg_contenders()}
    with progress_bar(folders.json) as report:
        table = run_league(contenders, settings, root=folders.root, report=report)
    write_results(folders.out, "rivals", table, {"settings": vars(settings)})
    write_text(folders.out / "rivals.md", write_page(table))
    summary = summarise_league(table, ("setting",))
    summary = summary[summary.failed < summary.puzzles].reset_index(drop=True)
    shown: list[Table | str] = [
        league_table(group, "planted" if group.found.notna().all() else str(setting))
        for setting, group in summary.groupby("setting", sort=False)
    ]
    for table_of, name in zip(shown, dict.fromkeys(summary.setting), strict=True):
        assert isinstance(table_of, Table)
        table_of.title = str(name)
    show_results(summary, [*shown, *describe_reasons(table)], folders)


@reproduce.command()
@spread
def stability(*, names: DatasetOption = None, puzzles: PuzzleCount = 10, seed: Seed = 0, folders: Folders) -> None:
    """Same question, other seeds, trainings, edges. Example: python -m research reproduce stability --out stable"""
    from ..experiments.conditions import write_results
    from ..experiments.stability import STABLE_SETTINGS, StabilitySettings, run_stability, summarise_stability

    settings = StabilitySettings(split_commas(names, STABLE_SETTINGS), puzzles, seed)
    with progress_bar(folders.json) as report:
        table = run_stability(settings, root=folders.root, report=report)
    write_results(folders.out, "stability", table, {"settings": vars(settings)})
    summary = summarise_stability(table)
    shown = Table(*(str(name) for name in summary.columns), box=None)
    for row in records(summary):
        shown.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    show_results(summary, [shown], folders)


@reproduce.command()
@spread
def levels(
    *,
    names: DatasetOption = None,
    max_targets: Annotated[int, typer.Option(min=1, help="Of each setting.")] = 20,
    seconds: Annotated[float, typer.Option(min=0, help="For blame, and for each search of changes.")] = 0.5,
    folders: Folders,
) -> None:
    """The authors' later tasks at their sizes. Example: python -m research reproduce levels --datasets mutag"""
    from ..experiments.levels import LEVEL_SETTINGS, NUM_LEVELS, LevelSettings, run_levels, summarise_levels

    settings = LevelSettings(split_commas(names, LEVEL_SETTINGS), max_targets, seconds)
    with progress_bar(folders.json) as report:
        summary = summarise_levels(run_levels(settings, folders.out, root=folders.root, report=report))
    numbers = range(1, NUM_LEVELS + 1)
    title = "Mean KL left in nats, by level"
    shown = Table("setting", "method", "targets", "nothing", *map(str, numbers), box=None, title=title)
    for row in records(summary):
        cells = [f"{row[f'level_{level}']:.1e}" for level in numbers]
        shown.add_row(row["setting"], row["method"], str(row["targets"]), f"{row['nothing']:.1e}", *cells)
    show_results(summary, [shown], folders)


@reproduce.command("pyg-metrics")
@spread
def pyg_metrics(*, names: DatasetOption = None, puzzles: PuzzleCount = 10, folders: Folders) -> None:
    """PyG's own metrics of our masks and others'. Example: python -m research reproduce pyg-metrics --out metrics"""
    from ..experiments.conditions import write_results
    from ..experiments.pyg_metrics import METRIC_SETTINGS, run_metrics, summarise_metrics

    settings = split_commas(names, METRIC_SETTINGS)
    with progress_bar(folders.json) as report:
        table = run_metrics(settings, puzzles, folders.root, report=report)
    write_results(folders.out, "pyg-metrics", table, {"settings": settings, "puzzles": puzzles})
    summary = summarise_metrics(table)
    shown = Table(*(str(name) for name in summary.columns), box=None)
    for row in records(summary):
        shown.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    show_results(summary, [shown], folders)


@reproduce.command()
@spread
def quick(
    *,
    docs: Annotated[Path, typer.Option(help="Folder of the pages that the figures are compared with.")] = Path("docs"),
    folders: Folders,
) -> None:
    """A slice of every table again, beside the pages. Example: python -m research reproduce quick --out quick"""
    from ..experiments.conditions import write_results
    from ..experiments.slices import run_slices

    with progress_bar(folders.json) as report:
        table = run_slices(docs, folders.out, folders.root, report=report)
    write_results(folders.out, "quick", table, {"docs": str(docs)})
    shown = Table("", "slice", "figure", "page", "found", "bound", box=None)
    for row in records(table):
        mark = "" if row["within"] else "OUT"
        shown.add_row(mark, row["slice"], row["figure"], f"{row['said']:g}", f"{row['found']:.4g}", row["bound"])
    seconds = float(table.groupby("slice").seconds.first().sum())
    verdict = f"{int(table.within.sum())} of {len(table)} figures are within their bounds; {seconds:.0f} s."
    show_results(table, [shown, verdict], folders)
    if not table.within.all():
        raise typer.Exit(1)

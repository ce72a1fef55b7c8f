"""Command line: parse, call one function, print."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

app = typer.Typer(
    help="Why did the GNN change its mind? Exact path attributions of prediction changes on evolving graphs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
reproduce = typer.Typer(help="Run the paper's experiments again.", no_args_is_help=True)
app.add_typer(reproduce, name="reproduce")


@app.callback()
def options(debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False) -> None:
    """Options that every command has."""
    if debug:
        os.environ["AXIOMPATH_DEBUG"] = "1"


@app.command()
def demo() -> None:
    """Explain a change in the karate club. Example: axiompath demo"""
    from .demo import run_demo

    run_demo(Console())


@app.command()
def warmup() -> None:
    """Compile the numerical kernels now rather than on first use. Example: axiompath warmup"""
    from .warmup import warm_up

    console = Console()
    with console.status("Compiling the numerical kernels, about a minute the first time"):
        warm_up()
    console.print("The kernels are compiled.")


@reproduce.command()
def preservation(
    datasets: Annotated[list[str] | None, typer.Option(help="Data sets; repeat the option for several.")] = None,
    layers: Annotated[list[int] | None, typer.Option(help="Depths; repeat the option for several.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Random models and evolutions each.")] = 1,
    root: Annotated[Path | None, typer.Option(help="Folder of the .npz files; else AXIOMPATH_DATA.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the table there as CSV.")] = None,
) -> None:
    """Do contributions sum to the change of the logits? Example: axiompath reproduce preservation --layers 2"""
    from .experiments.preservation import run_preservation, summarise

    rows = []
    console = Console()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("loading", total=None)
        for row in run_preservation(datasets or ("cora", "citeseer"), layers or (2, 3, 4), repeats, root=root):
            rows.append(row)
            progress.update(task, description=f"{row['dataset']}, {row['layers']} layers, {row['evolution']}: done")
    frame = summarise(rows)
    table = Table("data set", "layers", "edges", "targets", "paths", "preserved", "largest error", "seconds")
    for r in frame.to_dict("records"):
        table.add_row(
            str(r['dataset']), str(r['layers']), str(r['evolution']), f"{r['targets']:,}", f"{r['paths']:,}",
            f"{r['preserved_percent']:.2f} %", f"{r['largest_error']:.1e}", f"{r['seconds']:.1f}",
        )  # fmt: skip
    console.print(table)
    if out is not None:
        frame.to_csv(out, index=False)
        console.print(f"Written to {out}")


def main() -> None:
    """Entry point: errors of the user's input are one sentence and exit code 2."""
    try:
        app()
    except (ValueError, TypeError, FileNotFoundError, MemoryError) as error:
        if os.environ.get("AXIOMPATH_DEBUG"):
            raise
        Console(stderr=True).print(f"[bold red]Error:[/] {error}", highlight=False)
        sys.exit(2)

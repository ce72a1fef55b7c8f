"""Command line: parse, call one function, print."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from .experiments.commands import repeat_flags, reproduce

app = typer.Typer(
    help="Why did the GNN change its mind? Exact path attributions of prediction changes on evolving graphs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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


def main() -> None:
    """Entry point: errors of the user's input are one sentence and exit code 2."""
    try:
        app(args=repeat_flags(sys.argv[1:]))
    except (ValueError, TypeError, FileNotFoundError, MemoryError) as error:
        if os.environ.get("AXIOMPATH_DEBUG"):
            raise
        Console(stderr=True).print(f"[bold red]Error:[/] {error}", highlight=False)
        sys.exit(2)

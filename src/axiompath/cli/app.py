"""The command line as a whole. Exit codes: 0 done, 2 the user's input, 1 ours, 130 interrupted."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.markup import escape

from ..errors import InputError, MatchedByRow
from .inspection import check, diff
from .preparation import convert, demo, warmup
from .questions import explain, report, scan, story
from .reproduction import repeat_flags, reproduce

app = typer.Typer(
    help="Why did the GNN change its mind? Exact path attributions of prediction changes on evolving graphs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, check, diff, explain, story, report, scan, convert, warmup):
    app.command()(command)
app.add_typer(reproduce, name="reproduce")


@app.callback()
def options(debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False) -> None:
    """Options that every command has."""
    if debug:
        os.environ["AXIOMPATH_DEBUG"] = "1"


def main() -> None:
    """Entry point: an error is a sentence or two and an exit code; the traceback comes with --debug."""
    try:
        with _warnings_as_sentences():
            app(args=repeat_flags(sys.argv[1:]), prog_name="axiompath")
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped.")
        sys.exit(130)
    except Exception as error:
        if os.environ.get("AXIOMPATH_DEBUG"):
            raise
        console = Console(stderr=True)
        if isinstance(error, InputError | MemoryError):
            words = str(error) or "Expected enough memory (there is none left); close other programs, or ask for less."
            console.print(f"[bold red]Error:[/] {escape(words)}", highlight=False, soft_wrap=True)
            sys.exit(2)
        name = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        console.print(
            f"[bold red]This is a fault of axiompath's, not yours:[/] {escape(name)}\n"
            "Run again with `axiompath --debug ...` for the traceback, and please report it.",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(1)


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

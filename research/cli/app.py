"""The command line of the experiments; errors, signals and exit codes are those of `axiompath`."""

from __future__ import annotations

import sys

import typer

from axiompath.cli.app import options, run_app

from .field import benchmark
from .reproduction import repeat_flags, reproduce

app = typer.Typer(
    help="The experiments behind axiompath: the paper's, run again, and a benchmark of explainers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.callback()(options)
app.command()(benchmark)
app.add_typer(reproduce, name="reproduce")


def main() -> None:
    """Entry point."""
    run_app(app, repeat_flags(sys.argv[1:]), "python -m research")

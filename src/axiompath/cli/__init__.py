"""The door for the terminal: parse, call one function, print.

app.py           all commands; errors -> sentences and exit codes
questions.py     explain, story, report, scan
inspection.py    check, diff
preparation.py   demo, convert
options.py       what several commands ask for
inputs.py        names on the command line -> graphs, model, Explainer
output.py        JSON and tables
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import NoReturn

from ..scan.signals import TO_END, handle, stop


def main(app: str = "axiompath.cli.app") -> None:
    """Run the program in the module `app`. While it loads there is nothing to clean up: a signal ends it at once."""
    handled = handle((signal.SIGINT, *TO_END), _leave)
    _open_streams()
    _check_place()
    run = import_module(app).main
    for number in handled:
        signal.signal(number, _stop)
    run()


def _open_streams() -> None:
    """Where somebody closed a standard stream, nobody: else the next file that is opened takes its number, and what is
    meant for the terminal is written there."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)  # workers have these streams, too
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def _check_place() -> None:
    """In a folder that has been removed not even torch can be loaded."""
    try:
        os.getcwd()
    except OSError:
        os.write(2, b"Error: Expected a folder to work in (this one has been removed); go to another one.\n")
        os._exit(2)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """An exception, but for one that falls into an import: others' modules catch what they should not."""
    inner = frame
    while inner is not None:
        if inner.f_code.co_filename.startswith("<frozen importlib"):
            _leave(number, frame)
        inner = inner.f_back
    stop(number)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"Stopped.\n")
    os._exit(128 + number)

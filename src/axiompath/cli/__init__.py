"""The door for the terminal: parse, call one function, print.

app.py           all commands; errors -> sentences and exit codes
questions.py     explain, story, report, scan
inspection.py    check, diff
preparation.py   demo, convert, warmup
reproduction.py  reproduce: the paper's experiments
field.py         benchmark; reproduce rivals, stability: beside other methods
options.py       what several commands ask for
inputs.py        names on the command line -> graphs, model, Explainer
output.py        JSON and tables
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

from ..signals import TO_END, handle, stop


def main() -> None:
    """Entry point. While the program is loading there is nothing to clean up, and whoever stops it stops it at once."""
    handled = handle((signal.SIGINT, *TO_END), _leave)
    from .app import main as run

    for number in handled:
        signal.signal(number, _stop)
    run()


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

"""SIGTERM, SIGHUP -> Stopped, raised where the program is, so that it cleans up before it ends, as after Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

TO_END = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(BaseException):
    """Somebody asked this process to end, by this signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def stop(number: int, frame: FrameType | None = None) -> NoReturn:
    """A handler: once only, so that nothing interrupts the cleaning up."""
    signal.signal(number, signal.SIG_IGN)
    raise Stopped(number)


def handle(numbers: tuple[int, ...], handler: Callable[[int, FrameType | None], NoReturn]) -> list[int]:
    """Handle those of these signals that nobody handles or ignores yet; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        return []
    found = [n for n in numbers if signal.getsignal(n) in (signal.SIG_DFL, signal.default_int_handler)]
    for number in found:
        signal.signal(number, handler)
    return found


@contextmanager
def stoppable() -> Iterator[None]:
    """Within, these signals are exceptions; afterwards the process ends by the one that came."""
    handled = handle(TO_END, stop)
    try:
        yield
    except Stopped as stopped:
        if stopped.number in handled:
            signal.signal(stopped.number, signal.SIG_DFL)
            os.kill(os.getpid(), stopped.number)
        raise
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)

"""Compiled loop -> the same loop run by Python itself, where little is to be done and it has not been compiled yet.

Compiling the choice of paths takes a hundred times as long as Python needs for a first one. So a loop that is `Early`
is run uncompiled until that has taken about as long as compiling would, or would by a guess; code that is in memory or
on disk already is always used. Where the loop has sums that may be reordered, both agree to rounding; else bit for bit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

SECONDS_A_STEP = 3e-7  # an operation on numbers of an array
STEPS_AN_ELEMENT = 2.0  # of the arrays that a loop is given, where it says nothing else

_is_wanted = True
_worlds: dict[str, dict[str, Any]] = {}


def compile_at_once() -> None:
    """From now on every loop is compiled when it is first called, in this process."""
    global _is_wanted
    _is_wanted = False


class Early:
    """A loop that Python may run for some seconds before it is compiled; not for loops to call."""

    def __init__(self, loop: Any, seconds: float, steps: Callable[..., float] | None) -> None:
        self.loop, self.left, self.steps = loop, seconds, steps or _steps_of
        self.py_func = loop.py_func

    def __call__(self, *given: Any) -> Any:
        """As the loop itself."""
        if self.left <= 0.0:
            return self.loop(*given)
        if not _is_wanted or SECONDS_A_STEP * self.steps(*given) > self.left or is_kept(self.loop, given):
            self.left = 0.0
            return self.loop(*given)
        began = time.thread_time()
        try:
            with np.errstate(all="ignore"):
                return interpreted(self.loop)(*given)
        except ArithmeticError:  # where machines go on with an infinity, Python does not
            self.left = 0.0
            return self.loop(*given)
        finally:
            self.left -= time.thread_time() - began


def interpreted(loop: Any) -> Any:
    """The function that a loop was made of, calling such functions where it calls loops."""
    function = loop.py_func
    return FunctionType(function.__code__, _world_of(function.__module__), function.__name__, function.__defaults__)


def _world_of(module: str) -> dict[str, Any]:
    """What names mean in a module whose loops are interpreted."""
    if module not in _worlds:
        names = _worlds[module] = dict(vars(sys.modules[module]))
        loops = {name: value for name, value in names.items() if isinstance(value, Dispatcher | Early)}
        names.update({name: interpreted(loop) for name, loop in loops.items()})
        words = {name: value for name, value in names.items() if isinstance(value, _Intrinsic)}
        names.update({name: word.by_python for name, word in words.items() if hasattr(word, "by_python")})
    return _worlds[module]


def is_kept(loop: Any, given: tuple[Any, ...]) -> bool:
    """Whether there is code for these arguments, in memory or on disk."""
    signature = tuple(loop.typeof_pyval(value) for value in given)
    return signature in loop.overloads or (hasattr(loop._cache, "holds") and loop._cache.holds(signature))


def _steps_of(*given: Any) -> float:
    return STEPS_AN_ELEMENT * _number_of_elements(given)


def _number_of_elements(given: tuple[Any, ...]) -> int:
    sizes = (_number_of_elements(value) if isinstance(value, tuple) else np.size(value) for value in given)
    return sum(sizes)

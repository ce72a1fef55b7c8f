"""Compiled loop -> the same loop run by Python itself, where little is to be done and it has not been compiled yet.

Compiling the choice of paths takes a hundred times as long as Python needs for a first one. So a loop that is `Early`
is run uncompiled until that has taken about as long as compiling would, or would by a guess; code that is in memory or
on disk already is always used. Where the loop has sums that may be reordered, both agree to rounding; else bit for bit.

Compiled code computes with 64 bits whatever the width of an array's numbers. numpy does not: `np.int8(40) * 4` wraps.
So Python runs a loop on copies of 64 bits of its narrow arrays and tables, and what changed in them is written back.
Truth values stay as they are: they serve as conditions and masks.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numpy.typing import NDArray

SECONDS_A_STEP = 3e-7  # an operation on numbers of an array
WORD = 8  # bytes of the numbers that compiled code computes with
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
        if not _is_wanted or self._takes_long(given) or is_kept(self.loop, given):
            self.left = 0.0
            return self.loop(*given)
        began = time.thread_time()
        try:
            return run_by_python(self.loop, given)
        except ArithmeticError:  # where machines go on with an infinity, Python does not
            self.left = 0.0
            return self.loop(*given)
        finally:
            self.left -= time.thread_time() - began

    def _takes_long(self, given: tuple[Any, ...]) -> bool:
        """Whether Python would take too long, or cannot be trusted with arrays that overlap in part."""
        narrow = {_place_of(array): array for array in _narrow_arrays(given)}
        steps = self.steps(*given) + sum(array.size for array in narrow.values())
        overlap = any(np.may_share_memory(one, other) for one, other in itertools.combinations(narrow.values(), 2))
        return overlap or SECONDS_A_STEP * steps > self.left


def run_by_python(loop: Any, given: tuple[Any, ...]) -> Any:
    """Call the function that a loop was made of, with every number as wide as compiled code has it."""
    widened: dict[Any, NDArray[Any]] = {}
    originals: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
    for array in _narrow_arrays(given):
        place = _place_of(array)
        if place not in widened:
            widened[place] = _widen(array)
            if array.flags.writeable:
                originals.append((array, widened[place], widened[place].copy()))
    with np.errstate(all="ignore"):
        found = interpreted(loop)(*_replaced(given, widened))
    for array, now, before in originals:
        # By their bits, NaN being NaN; and nothing else, since other threads write to other rows.
        changed = now.view(np.int64) != before.view(np.int64)
        array[changed] = now[changed]
    return found


def _is_narrow(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iuf" and value.dtype.itemsize < WORD


def _narrow_arrays(given: tuple[Any, ...]) -> Iterator[NDArray[Any]]:
    for value in given:
        if isinstance(value, tuple):
            yield from _narrow_arrays(value)
        elif isinstance(value, np.ndarray) and _is_narrow(value):
            yield value


def _place_of(array: NDArray[Any]) -> Any:
    """Equal for arrays that are the same memory, seen in the same way."""
    return array.__array_interface__["data"], array.shape, array.strides, array.dtype


def _widen(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64, order="C", subok=False)


def _replaced(given: tuple[Any, ...], widened: dict[Any, NDArray[Any]]) -> Any:
    """The same arguments, narrow arrays by their wide copies and narrow numbers by Python's own."""
    values = []
    for value in given:
        if isinstance(value, tuple):
            values.append(_replaced(value, widened))
        elif _is_narrow(value):
            values.append(widened[_place_of(value)] if isinstance(value, np.ndarray) else value.item())
        else:
            values.append(value)
    make: Callable[[list[Any]], Any] = getattr(type(given), "_make", tuple)  # of a NamedTuple
    return make(values)


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
        tables = {name: value for name, value in names.items() if isinstance(value, np.ndarray) and _is_narrow(value)}
        names.update({name: _widen(table) for name, table in tables.items()})
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

"""How the loops of this package are compiled: kept on disk, without the interpreter's lock, dividing as numpy does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from numba import njit

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(fastmath: Collection[str] = ()) -> Callable[[Loop], Loop]:
    """A decorator that keeps the loop's own types; `fastmath` names what may be done to sums, in LLVM's words."""

    def compile_loop(loop: Loop) -> Loop:
        found: Loop = njit(cache=True, nogil=True, error_model="numpy", fastmath=set(fastmath))(loop)
        return found

    return compile_loop

"""Function -> compiled loop, kept on disk for the next process where there is a place for it, else in memory alone.

What is kept is checked before it is used: a file that is damaged, empty, of another source or of another release of
numba is compiled anew and replaced. Each signature has a file of its own, so processes that compile at the same time
do not see each other's halves. Whoever waits for that at a terminal or in a notebook is told what for.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, overload

import numba
from numba.core import caching, dispatcher, event, registry, serialize

from .errors import Notice
from .interpreted import Early
from .machine import PART, PartCompiler, WholeCompiler
from .storage.writing import whole_file

Loop = TypeVar("Loop", bound=Callable[..., Any])
SIZE = hashlib.sha256().digest_size
UNSAID = 0.5  # seconds of compiling before a word is said of it
USUAL = 200  # loops that a first explanation compiles, those of numba's own included
BAR = 20  # characters
MEANT = ("error_model", "fastmath")  # options that say what a loop computes


@overload
def compiled(function: Callable[..., Any]) -> Any: ...
@overload
def compiled(
    *, early: float, steps: Callable[..., float] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Any]: ...
@overload
def compiled(*, inner: bool = False, **options: Any) -> Callable[[Loop], Loop]: ...
def compiled(
    function: Any = None,
    inner: bool = False,
    early: float = 0.0,
    steps: Callable[..., float] | None = None,
    **options: Any,
) -> Any:
    """Compile on first use, to run beside other threads; `options` are numba's.

    An `inner` loop is called by loops alone: it becomes machine code within theirs, and is kept with theirs. An `early`
    one, which loops never call, is run by Python for up to so many seconds before it is compiled; `steps` guesses
    from its arguments how many operations it takes.
    """
    if function is None:
        return partial(compiled, inner=inner, early=early, steps=steps, **options)
    if inner:
        return numba.njit(pipeline_class=PartCompiler, **PART, **options)(function)
    loop = numba.njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=WholeCompiler, **options)(function)
    if isinstance(loop, dispatcher.Dispatcher):  # not where the user has switched compiling off
        try:
            vars(loop)["_cache"] = _Cache(function)
        except RuntimeError:
            _tell_of_memory()
        if early > 0.0:
            return Early(loop, early, steps)
    return loop


def door(loop: Any) -> Any:
    """An inner loop as Python may call it."""
    options = {name: value for name, value in getattr(loop, "targetoptions", {}).items() if name in MEANT}
    return compiled(getattr(loop, "py_func", loop), **options)


@cache
def _tell_of_memory() -> None:
    warnings.warn(
        "There is no folder to keep compiled code in, so it is compiled again by every process, which takes up to a "
        "minute; set NUMBA_CACHE_DIR to a folder that can be written to.",
        Notice,
        stacklevel=3,
    )


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, with files of ours."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        stamp = numba.__version__, locator.get_source_stamp()
        self._cache_file = _Files(Path(locator.get_cache_path()), self._impl.filename_base, stamp)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Where the disk is full or has become read-only, the loop is there all the same."""
        with suppress(OSError):
            super().save_overload(sig, data)

    def holds(self, signature: Any) -> bool:
        """Whether there is a file for these types of arguments, and of this source."""
        return self._cache_file.holds(self._index_key(signature, registry.cpu_target.target_context.codegen()))


class _Files:
    """A file a signature: the digest of what it was compiled from, the digest of the rest, the rest."""

    def __init__(self, folder: Path, name: str, stamp: Any) -> None:
        self.folder, self.name, self.stamp = folder, name, stamp

    def save(self, key: Any, data: Any) -> None:
        body = serialize.dumps(data)
        with whole_file(self._path(key)) as stream:
            stream.write(_digest(self.stamp, key) + hashlib.sha256(body).digest() + body)

    def holds(self, key: Any) -> bool:
        try:
            with open(self._path(key), "rb") as stream:
                return stream.read(SIZE) == _digest(self.stamp, key)
        except OSError:
            return False

    def load(self, key: Any) -> Any:
        try:
            held = self._path(key).read_bytes()
        except OSError:
            return None
        body = held[2 * SIZE :]
        if held[: 2 * SIZE] != _digest(self.stamp, key) + hashlib.sha256(body).digest():
            return None
        with suppress(ImportError, AttributeError):  # it names something that has moved since
            return pickle.loads(body)
        return None

    def _path(self, key: Any) -> Path:
        signature, machine, _ = key
        return self.folder / f"{self.name}.{_digest(signature, machine).hex()[:16]}.nbc"


def _digest(*values: Any) -> bytes:
    return hashlib.sha256(repr(values).encode()).digest()


class _Line(event.Listener):  # type: ignore[misc]
    """One line while loops are compiled, gone when they are: how far it is, for how long, and which one now."""

    def __init__(self) -> None:
        self.began, self.spent, self.number, self.depth, self.shown = 0.0, 0.0, 0, 0, False

    def on_start(self, event: Any) -> None:
        self.depth += 1
        if self.depth == 1:
            self.began = time.monotonic()
        spent = self.spent + time.monotonic() - self.began
        if spent > UNSAID and _is_watched():
            name = event.data["dispatcher"].py_func.__name__.strip("_")
            done = min(self.number * BAR // USUAL, BAR)
            bar = f"[{'#' * done}{'.' * (BAR - done)}]"
            self._write(f"Compiling, once after an installation {bar} {spent:.0f} s, {name}")

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        self.number += 1
        if self.depth == 0:
            self.spent += time.monotonic() - self.began
            if self.shown:
                self._write("")
                self.shown = False

    def _write(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        with suppress(OSError, ValueError):  # nobody is there to read it any more
            sys.stderr.write(f"\r{text[:width]:{width}}" + ("" if text else "\r"))
            sys.stderr.flush()
            self.shown = True


def _is_watched() -> bool:
    """Whether a person sees what is written: a worker's stdout, unlike ours, is nobody's."""
    return "ipykernel" in sys.modules or (sys.stderr.isatty() and sys.stdout.isatty())


event.register("numba:compile", _Line())

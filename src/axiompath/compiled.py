"""Function -> compiled loop, kept on disk for the next process where there is a place for it, else in memory alone.

What is kept is checked before it is used: a file that is damaged, empty, of another source or of another release of
numba is compiled anew and replaced. Each signature has a file of its own, so processes that compile at the same time
do not see each other's halves.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, overload

import numba
from numba.core import caching, dispatcher, serialize

from .errors import Notice
from .writing import whole_file

Loop = TypeVar("Loop", bound=Callable[..., Any])
SIZE = hashlib.sha256().digest_size


@overload
def compiled(function: Callable[..., Any]) -> Any: ...
@overload
def compiled(**options: Any) -> Callable[[Loop], Loop]: ...
def compiled(function: Any = None, **options: Any) -> Any:
    """Compile on first use, to run beside other threads; `options` are numba's."""
    if function is None:
        return partial(compiled, **options)
    loop = numba.njit(nogil=True, **options)(function)
    if isinstance(loop, dispatcher.Dispatcher):  # not where the user has switched compiling off
        try:
            vars(loop)["_cache"] = _Cache(function)
        except RuntimeError:
            _tell_of_memory()
    return loop


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


class _Files:
    """A file a signature: the digest of what it was compiled from, the digest of the rest, the rest."""

    def __init__(self, folder: Path, name: str, stamp: Any) -> None:
        self.folder, self.name, self.stamp = folder, name, stamp

    def save(self, key: Any, data: Any) -> None:
        body = serialize.dumps(data)
        with whole_file(self._path(key)) as stream:
            stream.write(_digest(self.stamp, key) + hashlib.sha256(body).digest() + body)

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

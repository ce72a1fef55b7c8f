""".npz or .npy -> arrays, without pickle: the one reader of graphs, of data sets and of what is converted.

Headers are read and judged before any bytes of the arrays; a file that is not what it should be gets one sentence.
"""

from __future__ import annotations

import lzma
import math
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .sizes import check_archive, check_file, check_size, not_whole

# What zip archives, their compressions and numpy's headers raise when their bytes are damaged.
DAMAGED = (
    ValueError, TypeError, KeyError, SyntaxError, OverflowError, RuntimeError, MemoryError, OSError, EOFError,
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError,
)  # fmt: skip


def read_arrays(
    path: Path, wanted: set[str] | None, max_bytes: float, remedy: str | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """The wanted arrays that the file has, all of them for None; `remedy` says what to do about a damaged file."""
    check_file(path, max_bytes)
    with _opened(path, wanted, max_bytes, remedy) as (archive, names):
        check_size(path, sum(_declared_size(archive, name, path) for name in names), max_bytes)
        arrays = {}
        for name in names:
            with archive.open(f"{name}.npy") as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        return arrays


def unpack_arrays(path: Path, wanted: set[str], draft: Path) -> dict[str, Any]:
    """The same, unpacked into the folder `draft` a piece at a time and mapped from there: of any size."""
    check_file(path, math.inf)
    with _opened(path, wanted, math.inf, None) as (archive, names):
        arrays = {}
        for name in names:
            _declared_size(archive, name, path)
            with archive.open(f"{name}.npy") as source, (draft / f"unpacked_{name}.npy").open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            arrays[name] = map_array(draft / f"unpacked_{name}.npy")
        return arrays


def map_array(path: Path) -> Any:
    """An .npy file, memory-mapped."""
    check_file(path, math.inf)
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGED as error:
        raise InputError(f"Expected a whole .npy array at {path} (it is cut short, or of another kind).") from error


@contextmanager
def _opened(
    path: Path, wanted: set[str] | None, max_bytes: float, remedy: str | None
) -> Iterator[tuple[zipfile.ZipFile, list[str]]]:
    """The archive and its wanted arrays by name, in order; whatever is damaged in it becomes one sentence."""
    members = check_archive(path, max_bytes, remedy)
    found = {member.removesuffix(".npy") for member in members if member.endswith(".npy")}
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive, sorted(found if wanted is None else found & wanted)
    except InputError:
        raise
    except DAMAGED as error:
        raise not_whole(path, remedy) from error


def _declared_size(archive: zipfile.ZipFile, name: str, path: Path) -> float:
    """Bytes that an array inside an .npz says it takes; arrays of Python objects are refused."""
    with archive.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    if dtype.hasobject:
        raise InputError(
            f"Expected plain arrays in {path} (`{name}` holds Python objects, which would need unpickling); "
            "save names as an array of strings and numbers as numbers."
        )
    return float(math.prod(int(n) for n in shape) * max(dtype.itemsize, 1))

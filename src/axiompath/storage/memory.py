"""How much memory: what a user's words mean, runs of things that stay within a limit, mapped files given back."""

from __future__ import annotations

import ctypes
import math
import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray
from ..errors import InputError

# Larger batches are no faster (their multipliers leave the cache) and take more memory.
BATCH_BYTES = 64e6
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
CHUNK = 1 << 22  # edges, or numbers of features, that a sweep over a file holds in memory at a time


def cut_runs(sizes: FloatArray, limit: float, most: int | None = None) -> IntArray:
    """Bounds of the runs, [num_runs + 1]: each sums to the limit at most, unless it is a single thing; `most` long."""
    total = np.concatenate([[0.0], np.cumsum(sizes)])
    bounds = [0]
    while bounds[-1] < len(sizes):
        start = bounds[-1]
        stop = max(start + 1, int(np.searchsorted(total, total[start] + limit, side="right")) - 1)
        bounds.append(stop if most is None else min(stop, start + most))
    return np.array(bounds, dtype=np.int64)


def give_back() -> None:
    """Return to the system what is free: Linux's allocator keeps what lay between other things, however much."""
    with suppress(OSError, AttributeError):  # another system
        ctypes.CDLL(None).malloc_trim(0)


def parse_memory(memory: str | float) -> float:
    """Bytes in "2GB", "500 MB" or a plain number of bytes."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([KMGT]?B?)\s*", str(memory), re.IGNORECASE)
    try:
        size = float(match[1]) * UNITS[match[2].upper()] if match else 0.0
    except (ValueError, KeyError):
        size = 0.0
    if not 0 < size < math.inf:
        raise InputError(f'Expected a memory budget such as "2GB" or a number of bytes (got {memory!r}).')
    return size


def show_bytes(size: float, *, up: bool = False) -> str:
    """A size in the unit that fits it, three digits long; rounded `up` for what is needed, else down."""
    unit = max((unit for unit in UNITS if unit and UNITS[unit] <= max(size, 1)), key=UNITS.__getitem__)
    size /= UNITS[unit]
    step = 10.0 ** (math.floor(math.log10(max(size, 1))) - 2)
    number = (math.ceil if up else math.floor)(round(size / step, 9)) * step
    return f"{number:.6g} {unit}"


def release(*arrays: Any) -> None:
    """Give back the memory of mapped files that were read; they are read again when looked at again.

    Arrays in memory are left as they are.
    """
    for array in arrays:
        while array is not None and not isinstance(array, np.memmap):
            array = getattr(array, "base", None)  # of a view
        mapped = getattr(array, "_mmap", None)
        if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def pieces(array: Any, step: int, overlap: int = 0) -> Iterator[Any]:
    """Consecutive parts of `step` rows each, and `overlap` rows of the next; each is given back before the next."""
    for start in range(0, len(array) - overlap, step):
        yield array[start : start + step + overlap]
        release(array)

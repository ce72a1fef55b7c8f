"""Subsets as bits; and which of them look alike to one who sees some changes alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, IntArray
from .scene import WORD
from .variant_loops import number_kinds

TABLE = 20  # views of up to so many changes are numbered by a table of all of them


def pack(rows: BoolArray) -> NDArray[np.uint64]:
    """Truth values as bits, the first the lowest of its word. [num_rows, num_words]."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    padded = np.zeros((len(rows), max(1, -(-packed.shape[1] // 8)) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.asarray(padded.view("<u8"), dtype=np.uint64)


def restrict(words: NDArray[np.uint64], mask: NDArray[np.uint64]) -> tuple[IntArray, NDArray[np.int32]]:
    """The first row of each distinct kind in these bits, and the kind of each row. words: [num_rows, num_words]."""
    columns = _players(mask)
    num_rows, width = len(words), len(columns)
    if width == 0:
        return np.zeros(1, dtype=np.int64), np.zeros(num_rows, dtype=np.int32)
    if width <= TABLE and 1 << width <= 4 * num_rows + 64:
        # Runs of neighbouring bits are moved as one: word, first bit there, mask of its length, first bit in the code.
        cuts = np.flatnonzero((np.diff(columns) != 1) | (columns[1:] % WORD == 0)) + 1
        starts = np.concatenate([[0], cuts])
        lengths = np.diff(np.append(starts, width))
        runs = np.stack([columns[starts] // WORD, columns[starts] % WORD, (1 << lengths) - 1, starts], axis=1)
        first, inverse = np.empty(min(num_rows, 1 << width), dtype=np.int64), np.empty(num_rows, dtype=np.int32)
        number = number_kinds(words, runs.astype(np.uint64), np.full(1 << width, -1, dtype=np.int32), first, inverse)
        return first[:number], inverse
    seen = words & mask
    keys = seen[:, 0] if seen.shape[1] == 1 else seen.view(np.dtype((np.void, seen.shape[1] * 8))).reshape(-1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.reshape(-1).astype(np.int32)


def _players(mask: NDArray[np.uint64]) -> IntArray:
    bits = np.unpackbits(mask.astype("<u8").view(np.uint8), bitorder="little")
    return np.flatnonzero(bits)

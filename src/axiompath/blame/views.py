"""Subsets as bits; and which of them look alike to those who see only some changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, IntArray
from ..native.variants import number_views

MOST_BITS = 62  # that a mask is counted to have, so that its kinds can be counted


class Views(NamedTuple):
    """The distinct kinds of rows that each mask distinguishes."""

    starts: IntArray  # [num_masks + 1]: where those of each mask begin in `first`
    first: IntArray  # the first row of each kind
    inverse: NDArray[np.int32]  # [num_masks, num_rows]: the kind of each row, for each mask from 0 on


def pack(rows: BoolArray) -> NDArray[np.uint64]:
    """Truth values as bits, the first the lowest of its word. [num_rows, num_words]."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    padded = np.zeros((len(rows), max(1, -(-packed.shape[1] // 8)) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.asarray(padded.view("<u8"), dtype=np.uint64)


def count_bits(masks: NDArray[np.uint64]) -> IntArray:
    """How many changes each sees. [num_masks]."""
    bits = np.unpackbits(np.ascontiguousarray(masks).view(np.uint8), axis=1)
    return np.asarray(bits.sum(axis=1, dtype=np.int64))


def find_views(words: NDArray[np.uint64], masks: NDArray[np.uint64]) -> Views:
    """The kinds of rows that differ in the bits of each mask. words: [num_rows, num_words]; masks likewise."""
    most = np.minimum(2.0 ** np.minimum(count_bits(masks), MOST_BITS), len(words))
    first = np.empty(int(most.sum()), dtype=np.int64)
    inverse = np.empty((len(masks), len(words)), dtype=np.int32)
    starts, looked = np.empty(len(masks) + 1, dtype=np.int64), np.empty(words.shape[1], dtype=np.int64)
    table = np.empty(max(2, 1 << (2 * len(words) - 1).bit_length()), dtype=np.int32)
    number_views(np.ascontiguousarray(words), np.ascontiguousarray(masks), table, looked, starts, first, inverse)
    return Views(starts, first[: starts[-1]], inverse)

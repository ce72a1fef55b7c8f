"""Rows of sparse matrices: the places of their entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import IntArray
from ..native.rows import find_entries


def entries_of(indptr: NDArray[Any], nodes: IntArray) -> IntArray:
    """Entries of these rows, one row after the other."""
    starts = indptr[nodes].astype(np.int64)
    counts = indptr[nodes + 1] - starts
    ends = np.cumsum(counts)
    return np.asarray(np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - counts), counts))


def find_in_rows(indptr: IntArray, indices: NDArray[np.int32], above: IntArray, below: IntArray) -> IntArray:
    """Place of each entry (above, below) in a matrix with sorted rows, -1 if there is none."""
    found = np.empty(len(above), dtype=np.int64)
    wanted = (np.ascontiguousarray(ends, dtype=np.int64) for ends in (above, below))
    find_entries(indptr, indices, *wanted, found)
    return found

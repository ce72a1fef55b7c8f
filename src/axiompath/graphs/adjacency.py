"""Edges by the node that receives along them, in memory or mapped from disk: sorted, taken, swept over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..native.threads import run_in_pieces
from ..storage.memory import CHUNK, release
from .rows import copy_rows, count_receivers, place_edges

ENTRY_WORK = 4  # operations to look at one entry, roughly
NO_IDS: IntArray = np.zeros(0, dtype=np.int64)
NO_VALUES: FloatArray = np.zeros(0)


class Incoming(NamedTuple):
    """Row V lists who sends to V. With `ids` and `rows`, rows have numbers that another graph shares."""

    indptr: NDArray[Any]  # [num_rows + 1]
    senders: NDArray[Any]  # [num_entries]: rows
    values: NDArray[Any] = NO_VALUES  # [num_entries]: weights or coefficients; empty for none
    ids: IntArray = NO_IDS  # [num_rows]: number of each row; empty where it is the row itself
    rows: IntArray = NO_IDS  # [numbers]: row of each number, -1 for none; empty where it is the number, if there is one

    @property
    def work(self) -> float:
        """Operations to look at every entry, roughly."""
        return len(self.senders) * ENTRY_WORK


def sort_by_receiver(receivers: IntArray, senders: IntArray, values: NDArray[Any] | None, num_nodes: int) -> Incoming:
    """Edges of a graph in memory, in the user's order within a row."""
    counts = np.zeros(num_nodes, dtype=np.int64)
    receivers, senders = np.ascontiguousarray(receivers), np.ascontiguousarray(senders)
    count_receivers(receivers, counts)
    kept = NO_VALUES if values is None else np.empty_like(values)
    placed = Incoming(np.concatenate([[0], np.cumsum(counts)]), np.empty(len(senders), dtype=np.int32), kept)
    place_edges(receivers, senders, NO_VALUES if values is None else values, 0, placed)
    return placed


def take_rows(edges: Incoming, rows: IntArray, most: int | None = None) -> Incoming:
    """The entries of some rows, one row after the other, `most` at the most; senders by their number."""
    ends = np.cumsum(edges.indptr[rows + 1] - edges.indptr[rows])
    starts = np.concatenate([[0], ends if most is None else np.minimum(ends, most)])
    size = int(starts[-1])
    kind = np.float64 if np.issubdtype(edges.values.dtype, np.floating) else edges.values.dtype
    values = np.empty(size if len(edges.values) else 0, dtype=kind)
    taken = Incoming(starts, np.empty(size, dtype=np.int64), values)
    run_over(copy_rows, edges, rows, taken)
    return taken


def row_ranges(edges: Incoming) -> Iterator[tuple[int, int]]:
    """Ranges of rows, each of about CHUNK entries at the most, that cover all rows.

    What was read of a file for one range is given back before the next.
    """
    indptr = edges.indptr
    start, num_rows = 0, len(indptr) - 1
    while start < num_rows:
        fits = int(np.searchsorted(indptr, indptr[start] + CHUNK, side="right")) - 1
        stop = min(max(fits, start + 1), start + CHUNK, num_rows)
        yield start, stop
        _release_edges([edges])
        start = stop


def sweep(kernel: Callable[..., None], ranges: Iterable[tuple[int, int]], *args: Any, work: float) -> None:
    """Run a loop over ranges of rows, each on all cores; after each, what was read of a file is given back."""
    for start, stop in ranges:

        def piece(low: int, high: int, first: int = start) -> None:
            kernel(first + low, first + high, *args)

        run_in_pieces(piece, stop - start, min(work, CHUNK * ENTRY_WORK))
        _release_edges(args)


def run_over(kernel: Callable[..., None], *args: Any) -> None:
    """Run a loop over a list of rows, and give back what was read of a file."""
    kernel(*args)
    _release_edges(args)


def _release_edges(args: Iterable[Any]) -> None:
    for edges in args:
        if isinstance(edges, Incoming):
            release(edges.indptr, edges.senders, edges.values)

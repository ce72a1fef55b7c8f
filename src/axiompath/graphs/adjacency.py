"""Edges by the node that receives along them, in memory or mapped from disk: sorted, taken, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..native.rows import order_rows, place_in_rows
from ..storage.memory import CHUNK, release
from .rows import entries_of

NO_IDS: IntArray = np.zeros(0, dtype=np.int64)
NO_VALUES: FloatArray = np.zeros(0)


class Incoming(NamedTuple):
    """Row V lists who sends to V. With `ids`, rows have numbers that another graph shares."""

    indptr: NDArray[Any]  # [num_rows + 1]
    senders: NDArray[Any]  # [num_entries]: rows
    values: NDArray[Any] = NO_VALUES  # [num_entries]: weights or coefficients; empty for none
    ids: IntArray = NO_IDS  # [num_rows]: number of each row; empty where it is the row itself

    def numbers(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The number of each of these rows."""
        return self.ids[rows] if len(self.ids) else rows

    def take(self, rows: IntArray, most: int | None = None) -> Incoming:
        """The entries of some rows, one row after the other, `most` at the most; senders by their number."""
        entries = entries_of(self.indptr, rows)[:most]
        starts = np.concatenate([[0], np.cumsum(self.indptr[rows + 1] - self.indptr[rows])])
        values = self.values[entries] if len(self.values) else NO_VALUES
        kind = np.float64 if np.issubdtype(values.dtype, np.floating) else values.dtype
        taken = Incoming(
            np.minimum(starts, len(entries)),
            self.numbers(self.senders[entries]).astype(np.int64),
            values.astype(kind, copy=False),
        )
        self.release()
        return taken

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows, each of about CHUNK entries at the most, that cover all rows.

        What was read of a file for one range is given back before the next.
        """
        start, num_rows = 0, len(self.indptr) - 1
        while start < num_rows:
            fits = int(np.searchsorted(self.indptr, self.indptr[start] + CHUNK, side="right")) - 1
            stop = min(max(fits, start + 1), start + CHUNK, num_rows)
            yield start, stop
            self.release()
            start = stop

    def pieces(self) -> Iterator[tuple[Any, Any, Any]]:
        """All edges, a chunk at a time: senders, receivers and values (None for none), as rows."""
        for start, stop in self.ranges():
            part = slice(self.indptr[start], self.indptr[stop])
            receivers = np.repeat(np.arange(start, stop), np.diff(self.indptr[start : stop + 1]))
            yield self.senders[part], receivers, self.values[part] if len(self.values) else None

    def sorted(self) -> Incoming:
        """The same with every row sorted by sender; parallel edges keep their order."""
        order = np.empty(len(self.senders), dtype=np.int64)
        order_rows(np.asarray(self.indptr, dtype=np.int64), np.asarray(self.senders, dtype=np.int64), order)
        values = self.values[order] if len(self.values) else self.values
        return self._replace(senders=self.senders[order], values=values)

    def release(self) -> None:
        """Give back the memory of mapped files that were read."""
        release(self.indptr, self.senders, self.values)


def sort_by_receiver(receivers: IntArray, senders: IntArray, values: NDArray[Any] | None, num_nodes: int) -> Incoming:
    """Edges of a graph in memory, in the user's order within a row."""
    indptr = np.concatenate([[0], np.cumsum(np.bincount(receivers, minlength=num_nodes))])
    places = np.empty(len(receivers), dtype=np.int64)
    place_in_rows(np.ascontiguousarray(receivers, dtype=np.int64), indptr[:-1].copy(), places)
    placed = np.empty(len(senders), dtype=np.int32 if senders.max(initial=0) < 2**31 else np.int64)
    placed[places] = senders
    if values is None:
        return Incoming(indptr, placed)
    kept = np.empty_like(values)
    kept[places] = values
    return Incoming(indptr, placed, kept)

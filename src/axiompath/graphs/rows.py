"""Rows of sparse matrices and graphs: placed, sorted, compared, marked, summed, copied.

Rows receive: row V lists the nodes U that it takes from. `edges` and `matrix` are `Incoming`, whose arrays may be
memory-mapped: a function takes a range of rows or a list of them and reads nothing else, so that the caller decides how
much of a file is in memory at a time. Functions that take a range write only to these rows, so that `run_in_pieces` can
run them on several cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..native.rows import compare_rows, find_entries, order_rows, place_in_rows

if TYPE_CHECKING:
    from .adjacency import Incoming


def entries_of(indptr: NDArray[Any], nodes: IntArray) -> IntArray:
    """Entries of these rows, one row after the other."""
    starts = indptr[nodes].astype(np.int64)
    return _spread(starts, indptr[nodes + 1] - starts)


def _spread(starts: IntArray, counts: IntArray) -> IntArray:
    """start, start + 1, ... for each of the counts, one after the other."""
    ends = np.cumsum(counts)
    return np.asarray(np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - counts), counts))


def find_in_rows(indptr: IntArray, indices: NDArray[np.int32], above: IntArray, below: IntArray) -> IntArray:
    """Place of each entry (above, below) in a matrix with sorted rows, -1 if there is none."""
    found = np.empty(len(above), dtype=np.int64)
    find_entries(indptr, indices, _whole(above), _whole(below), found)
    return found


def count_receivers(receivers: IntArray, counts: IntArray) -> None:
    """Add the number of edges into each node to the counts."""
    counts += np.bincount(receivers, minlength=len(counts))


def place_edges(
    receivers: NDArray[Any], senders: NDArray[Any], values: NDArray[Any], first: int, placed: Incoming
) -> None:
    """Lay edges down row by row, in their own order within a row; row i of `placed` is that of node first + i."""
    places = np.empty(len(receivers), dtype=np.int64)
    place_in_rows(_whole(receivers) - first, placed.indptr[:-1].astype(np.int64), places)
    placed.senders[places] = senders
    if len(placed.values):
        placed.values[places] = values


def sort_rows(edges: Incoming) -> None:
    """Sort every row by sender; parallel edges keep their order."""
    order = np.empty(len(edges.senders), dtype=np.int64)
    order_rows(_whole(edges.indptr), _whole(edges.senders), order)
    edges.senders[:] = edges.senders[order]
    if len(edges.values):
        edges.values[:] = edges.values[order]


def rows_in_order(start: int, stop: int, edges: Incoming, num_nodes: int) -> bool:
    """Whether every sender of these rows is a node, and each row ascends."""
    senders, starts = edges.senders[edges.indptr[start] : edges.indptr[stop]], edges.indptr[start:stop]
    if len(senders) == 0:
        return True
    descends = np.flatnonzero(senders[1:] < senders[:-1]) + 1 + int(starts[0])
    inside = int(senders.min()) >= 0 and int(senders.max()) < num_nodes
    return inside and bool(np.isin(descends, starts).all())


def compare_edges(start: int, stop: int, edges: Incoming, other: Incoming, differ: BoolArray) -> None:
    """Mark the numbers in [start, stop) whose rows differ, in whatever order the rows list their entries."""
    sides = [_take_range(side, start, stop) for side in (edges, other)]
    starts, sizes = np.stack([side[0] for side in sides]), np.stack([side[1] for side in sides])
    compare_rows(starts, sizes, *sides[0][2:], *sides[1][2:], differ[start:stop].view(np.uint8))


def _take_range(edges: Incoming, start: int, stop: int) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """First entry and number of entries of the rows of these numbers, their senders' numbers, and their values."""
    num_rows = len(edges.indptr) - 1
    if len(edges.rows):
        rows = edges.rows[start:stop]
        here = (rows >= 0) & (rows < num_rows)
        sizes = np.where(here, edges.indptr[rows * here + 1] - edges.indptr[rows * here], 0).astype(np.int64)
        entries: Any = entries_of(edges.indptr, rows[here])
    else:
        indptr = _whole(edges.indptr[start : min(stop, num_rows) + 1])
        sizes = np.zeros(stop - start, dtype=np.int64)
        sizes[: max(len(indptr) - 1, 0)] = np.diff(indptr)
        entries = slice(int(indptr[0]), int(indptr[-1])) if len(indptr) else slice(0, 0)
    senders = _whole(_numbers(edges, edges.senders[entries]))
    values = np.zeros((len(senders), 0))
    if len(edges.values):
        here = edges.values[entries]
        values = np.column_stack([here.real, here.imag]) if np.iscomplexobj(here) else here[:, None]
    return np.cumsum(sizes) - sizes, sizes, senders, np.ascontiguousarray(values, dtype=np.float64)


def mark_receivers(start: int, stop: int, edges: Incoming, chosen: BoolArray, found: BoolArray) -> None:
    """Mark the nodes among the rows [start, stop) that take from a chosen one."""
    indptr = edges.indptr[start : stop + 1]
    hits = np.flatnonzero(chosen[_numbers(edges, edges.senders[indptr[0] : indptr[-1]])]) + int(indptr[0])
    rows = np.unique(np.searchsorted(indptr, hits, side="right")) - 1 + start
    found[_numbers(edges, rows)] = True


def mark_senders(edges: Incoming, rows: IntArray, found: BoolArray) -> None:
    """Mark the nodes that one of these rows takes from."""
    found[_numbers(edges, edges.senders[entries_of(edges.indptr, rows)])] = True


def copy_rows(edges: Incoming, rows: IntArray, copied: Incoming) -> None:
    """Entries of these rows: row i fills row i of `copied`, or as much of it as fits; senders by their number."""
    entries = _spread(edges.indptr[rows].astype(np.int64), np.diff(copied.indptr))
    copied.senders[:] = _numbers(edges, edges.senders[entries])
    if len(copied.values):
        copied.values[:] = edges.values[entries]


def sum_rows(edges: Incoming, rows: IntArray, sums: FloatArray, num_loops: IntArray) -> None:
    """Number (sums[0]) and weight (sums[1]) of the edges into these rows, without self-loops; and how many of those."""
    entries, owner, loops = _find_loops(edges, rows)
    num_loops += np.bincount(owner[loops], minlength=len(rows))
    sums[0] += np.bincount(owner[~loops], minlength=len(rows))
    if len(edges.values):
        sums[1] += np.bincount(owner[~loops], weights=edges.values[entries[~loops]], minlength=len(rows))


def copy_loops(edges: Incoming, rows: IntArray, loop_values: NDArray[Any]) -> None:
    """Values of the self-loops of these rows, one row after the other."""
    entries, _, loops = _find_loops(edges, rows)
    loop_values[:] = edges.values[entries[loops]]


def _find_loops(edges: Incoming, rows: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """The entries of these rows, which of the rows each is in, and which are self-loops."""
    entries = entries_of(edges.indptr, rows)
    owner = np.repeat(np.arange(len(rows)), edges.indptr[rows + 1] - edges.indptr[rows])
    return entries, owner, np.asarray(edges.senders[entries] == rows[owner])


def _numbers(edges: Incoming, rows: NDArray[Any]) -> NDArray[Any]:
    return edges.ids[rows] if len(edges.ids) else rows


def _whole(values: NDArray[Any]) -> IntArray:
    return np.ascontiguousarray(values, dtype=np.int64)

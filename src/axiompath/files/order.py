"""EdgeList -> CSR on disk, in bounded memory: edges sorted by receiver, then sender; parallel edges keep their order.

1. One pass counts the edges into each node: that is indptr.
2. One pass deals the edges out to files, one for each range of receivers whose edges fit into memory together.
3. Range by range, they are laid down row by row, each row is sorted, and the result is written to the arrays.

Memory: 8 bytes per node, and whatever of the budget is left for batches and ranges. A single node's edges are never
divided: where they exceed the budget by themselves, so does the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.compute

from ..arrays import IntArray
from ..errors import InputError
from ..graphs.adjacency import sort_by_receiver
from ..storage.memory import release, show_bytes
from .tables import find_names, whole_numbers

# Bytes at the peak, roughly: an edge of a batch as a table's text or numbers, its rows, and its record; an edge of a
# range as read, laid down, and sorted.
SORTED_BYTES, RANGE_BYTES = 240, 56
LEAST_BYTES = 8e6  # for batches and ranges, below which sorting would crawl

Progress = Callable[[str, int], None]  # what is being done, and how many edges of it just were


class EdgeList(NamedTuple):
    """Where edges come from; they are read again and again, a batch at a time."""

    path: Path
    weight_dtype: Any  # None where edges have no weights
    fixed_bytes: float  # what its reader takes however few edges are read at a time
    # How many edges to read at a time -> their sources, targets (ids) and weights.
    batches: Callable[[int], Iterator[tuple[Any, Any, Any]]]


class Numbering(NamedTuple):
    """Which row each node has."""

    nodes: Path  # where they are listed
    num_nodes: int
    names: Any = None  # pyarrow.LargeStringArray, or None where a node's name is its row

    def rows(self, ids: Any, where: Path) -> IntArray:
        """Row of each id: int64, or a LargeStringArray."""
        if self.names is not None:
            text = pyarrow.array(ids).cast(pyarrow.large_string()) if isinstance(ids, np.ndarray) else ids
            return find_names(text, self.names, self.nodes, where)
        rows = ids if isinstance(ids, np.ndarray) else whole_numbers(ids)
        if rows is None:
            strangers = (word for word in ids.to_pylist() if whole_numbers(pyarrow.array([word])) is None)
        else:
            strangers = iter(rows[(rows < 0) | (rows >= self.num_nodes)][:1].tolist())
        for stranger in strangers:
            raise InputError(f"Expected nodes of {self.nodes} in {where} (got {stranger!r}, which is not among them).")
        assert rows is not None
        return rows


def create_array(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An .npy file to be filled, memory-mapped."""
    return np.lib.format.open_memmap(path, "w+", dtype, shape)


def sort_edges(edges: EdgeList, numbering: Numbering, draft: Path, memory: float, progress: Progress) -> int:
    """Write indptr.npy, senders.npy and weights.npy of these edges to the draft; returns how many there are."""
    num_nodes, names = numbering.num_nodes, numbering.names
    room = memory - edges.fixed_bytes - 24 * num_nodes - (0 if names is None else 3 * names.nbytes)
    if room < LEAST_BYTES:
        least = memory - room + LEAST_BYTES
        raise InputError(
            f"Expected a memory budget of at least {show_bytes(least, up=True)} for {num_nodes:,} nodes "
            f"(got {show_bytes(memory)}); give more with --memory."
        )
    size = int(room / 2 / SORTED_BYTES)
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    for _, targets, _ in edges.batches(size):
        rows = numbering.rows(targets, edges.path)
        indptr[1:] += np.bincount(rows, minlength=num_nodes)
        progress("Counting edges", len(rows))
    np.cumsum(indptr, out=indptr)
    np.save(draft / "indptr.npy", indptr)
    bounds = _find_ranges(indptr, int(room / RANGE_BYTES))
    record = _record(num_nodes, edges.weight_dtype)
    files = [draft / f"range_{i}" for i in range(len(bounds) - 1)]
    for batch in edges.batches(size):
        _deal_out(batch, edges.path, numbering, bounds, record, files)
        progress("Dealing edges out", len(batch[0]))
    num_edges = int(indptr[-1])
    senders = create_array(draft / "senders.npy", record["sender"], (num_edges,))
    weights = np.zeros(0)
    if edges.weight_dtype is not None:
        weights = create_array(draft / "weights.npy", edges.weight_dtype, (num_edges,))
    for file, first, last in zip(files, bounds, bounds[1:], strict=False):
        start, stop = indptr[first], indptr[last]
        records = np.fromfile(file, dtype=record) if file.exists() else np.zeros(0, dtype=record)
        if len(records) != stop - start:
            raise InputError("Expected the same edges in both passes over the edge list (it changed meanwhile).")
        own = records["weight"] if len(weights) else None
        placed = sort_by_receiver(records["receiver"] - first, records["sender"], own, last - first).sorted()
        senders[start:stop] = placed.senders
        if len(weights):
            weights[start:stop] = placed.values
        release(senders, weights)
        progress("Sorting edges", len(records))
        file.unlink(missing_ok=True)
    return num_edges


def _record(num_nodes: int, weight_dtype: Any) -> np.dtype[Any]:
    whole = np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64
    weight = [] if weight_dtype is None else [("weight", weight_dtype)]
    return np.dtype([("receiver", whole), ("sender", whole), *weight])


def _find_ranges(indptr: IntArray, most: int) -> list[int]:
    """Bounds of ranges of receivers with at most so many edges each, or one receiver."""
    bounds = [0]
    while bounds[-1] < len(indptr) - 1:
        fits = int(np.searchsorted(indptr, indptr[bounds[-1]] + most, side="right")) - 1
        bounds.append(max(fits, bounds[-1] + 1))
    return bounds


def _deal_out(
    batch: tuple[Any, Any, Any],
    path: Path,
    numbering: Numbering,
    bounds: list[int],
    record: np.dtype[Any],
    files: list[Path],
) -> None:
    """Append the edges of a batch to the files of their ranges."""
    sources, targets, weights = batch
    records = np.empty(len(sources), dtype=record)
    records["sender"], records["receiver"] = numbering.rows(sources, path), numbering.rows(targets, path)
    if weights is not None:
        records["weight"] = weights
        if not np.isfinite(records["weight"]).all():
            raise InputError(f"Expected finite weights in {path} (got NaN or infinite ones).")
    which = np.searchsorted(bounds, records["receiver"], side="right") - 1
    records = records[np.argsort(which, kind="stable")]
    ends = np.cumsum(np.bincount(which, minlength=len(files)))
    for file, part in zip(files, np.split(records, ends[:-1]), strict=True):
        if len(part):
            with file.open("ab") as stream:
                part.tofile(stream)

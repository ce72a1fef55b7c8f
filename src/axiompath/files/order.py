"""EdgeList -> CSR on disk, in bounded memory: edges sorted by receiver, then sender; parallel edges keep their order.

1. One pass counts the edges into each node: that is indptr.
2. One pass deals the edges out to files, one for each range of receivers whose edges fit into memory together.
3. Range by range, they are laid down row by row, each row is sorted, and the result is appended to the arrays.

Memory: 8 bytes per node, and whatever of the budget is left for batches and ranges. A single node's edges are never
divided: where they exceed the budget by themselves, so does the peak.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..errors import InputError
from ..graphs.adjacency import Incoming
from ..graphs.rows import count_receivers, place_edges, sort_rows
from ..storage.memory import show_bytes
from .edgelists import EdgeList
from .nodelists import ArrayWriter, Numbering

# Bytes at the peak, roughly: an edge of a batch as a table's text or numbers, its rows, and its record; an edge of a
# range as read, laid down, and sorted.
SORTED_BYTES, RANGE_BYTES = 240, 56
LEAST_BYTES = 8e6  # for batches and ranges, below which sorting would crawl

Progress = Callable[[str, int], None]  # what is being done, and how many edges of it just were


def sort_edges(edges: EdgeList, numbering: Numbering, draft: Path, memory: float, progress: Progress) -> int:
    """Write indptr.npy, senders.npy and weights.npy of these edges to the draft; returns how many there are."""
    num_nodes = numbering.num_nodes
    room = memory - edges.fixed_bytes - numbering.num_bytes - 24 * num_nodes
    if room < LEAST_BYTES:
        least = memory - room + LEAST_BYTES
        raise InputError(
            f"Expected a memory budget of at least {show_bytes(least, up=True)} for {num_nodes:,} nodes "
            f"(got {show_bytes(memory)}); give more with --memory."
        )
    size = int(room / 2 / SORTED_BYTES)
    counts = np.zeros(num_nodes, dtype=np.int64)
    for _, targets, _ in edges.batches(size):
        rows = numbering.rows(targets, edges.path)
        count_receivers(rows, counts)
        progress("Counting edges", len(rows))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    del counts
    np.save(draft / "indptr.npy", indptr)
    bounds = _find_ranges(indptr, int(room / RANGE_BYTES))
    record = _record(num_nodes, edges.weight_dtype)
    files = [draft / f"range_{i}" for i in range(len(bounds) - 1)]
    for batch in edges.batches(size):
        _deal_out(batch, edges, numbering, bounds, record, files)
        progress("Dealing edges out", len(batch[0]))
    senders = ArrayWriter(draft / "senders.npy", record["sender"])
    weights = None if edges.weight_dtype is None else ArrayWriter(draft / "weights.npy", edges.weight_dtype)
    for i, file in enumerate(files):
        found, found_weights = _sort_range(file, record, indptr[bounds[i] : bounds[i + 1] + 1], int(bounds[i]))
        senders.append(found)
        if weights is not None:
            weights.append(found_weights)
        progress("Sorting edges", len(found))
        file.unlink(missing_ok=True)
    senders.close()
    if weights is not None:
        weights.close()
    return int(indptr[-1])


def _record(num_nodes: int, weight_dtype: Any) -> np.dtype[Any]:
    whole = np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64
    fields: list[Any] = [("receiver", whole), ("sender", whole)]
    if weight_dtype is not None:
        fields.append(("weight", weight_dtype))
    return np.dtype(fields)


def _find_ranges(indptr: IntArray, most: int) -> IntArray:
    """Bounds of ranges of receivers with at most so many edges each, or one receiver."""
    bounds = [0]
    while bounds[-1] < len(indptr) - 1:
        fits = int(np.searchsorted(indptr, indptr[bounds[-1]] + most, side="right")) - 1
        bounds.append(max(fits, bounds[-1] + 1))
    return np.array(bounds)


def _deal_out(
    batch: tuple[Any, Any, Any],
    edges: EdgeList,
    numbering: Numbering,
    bounds: IntArray,
    record: np.dtype[Any],
    files: list[Path],
) -> None:
    sources, targets, weights = batch
    records = np.empty(len(sources), dtype=record)
    records["sender"] = numbering.rows(sources, edges.path)
    records["receiver"] = numbering.rows(targets, edges.path)
    if weights is not None:
        records["weight"] = weights
        if not np.isfinite(records["weight"]).all():
            raise InputError(f"Expected finite weights in {edges.path} (got NaN or infinite ones).")
    # Two bytes are sorted by counting, in order: several times faster than any other way.
    small = np.uint16 if len(files) <= 2**16 else np.int64
    which = (np.searchsorted(bounds, records["receiver"], side="right") - 1).astype(small)
    records = records[np.argsort(which, kind="stable")] if len(files) > 1 else records
    ends = np.cumsum(np.bincount(which, minlength=len(files)))
    for i, file in enumerate(files):
        start = ends[i - 1] if i else 0
        if ends[i] > start:
            with file.open("ab") as stream:
                records[start : ends[i]].tofile(stream)


def _sort_range(file: Path, record: np.dtype[Any], indptr: IntArray, first: int) -> tuple[Any, Any]:
    """Senders and weights (empty for none) of one range of receivers, in order."""
    starts = indptr - indptr[0]
    records = np.fromfile(file, dtype=record) if file.exists() else np.zeros(0, dtype=record)
    if len(records) != starts[-1]:
        raise InputError("Expected the same edges in both passes over the edge list (it changed meanwhile).")
    senders = np.empty(len(records), dtype=record["sender"])
    weighted = "weight" in (record.names or ())
    weights = np.empty(len(records) if weighted else 0, dtype=record["weight"] if weighted else np.float32)
    given = records["weight"] if weighted else weights
    placed = Incoming(starts, senders, weights)
    place_edges(records["receiver"], records["sender"], given, first, placed)
    del records, given
    sort_rows(placed)
    return senders, weights

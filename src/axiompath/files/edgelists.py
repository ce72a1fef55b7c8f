"""An edge list as a table, an array or a graph in memory -> EdgeList: read again and again, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..storage.memory import release
from .nodelists import read_ids
from .tables import SOURCES, TARGETS, WEIGHTS, as_numbers, column_names, find_column, listed, read_parts, table_kind

TABLE_BYTES = 32e6  # pages of a Parquet file, packed and unpacked; what pandas and Arrow keep for themselves


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Where edges come from."""

    path: Path
    weight_dtype: Any  # None where edges have no weights
    fixed_bytes: float  # what its reader takes however few edges are read at a time
    # How many edges to read at a time -> their sources, targets (ids) and weights.
    batches: Callable[[int], Iterator[tuple[Any, Any, Any]]]


def open_table(path: Path) -> EdgeList:
    """CSV or Parquet, with the columns that tables.py knows."""
    columns = column_names(path)
    source, target, weight = (find_column(columns, names) for names in (SOURCES, TARGETS, WEIGHTS))
    if source is None or target is None:
        raise InputError(f"Expected the columns `source` and `target` in the edge list {path} (got {listed(columns)}).")
    wanted = [name for name in (source, target, weight) if name is not None]

    def batches(size: int) -> Iterator[tuple[Any, Any, Any]]:
        for part in read_parts(path, size, wanted):
            weights = None if weight is None else as_numbers(part[weight], weight, path)
            yield read_ids(part[source], path), read_ids(part[target], path), weights

    return EdgeList(path, None if weight is None else np.float32, TABLE_BYTES, batches)


def open_arrays(path: Path, edge_index: Any, edge_weight: Any) -> EdgeList:
    """edge_index [2, num_edges] or [num_edges, 2] and weights [num_edges] or None, mapped or in memory."""
    if edge_index.ndim != 2 or 2 not in edge_index.shape or edge_index.dtype.kind not in "iu":
        raise InputError(
            f"Expected whole numbers of shape [2, num_edges] or [num_edges, 2] in {path} "
            f"(got {edge_index.dtype} of shape {edge_index.shape})."
        )
    ends = edge_index if edge_index.shape[0] == 2 else edge_index.T
    num_edges = ends.shape[1]
    if edge_weight is not None and (edge_weight.shape != (num_edges,) or edge_weight.dtype.kind not in "iuf"):
        raise InputError(
            f"Expected a weight for each of the {num_edges:,} edges of {path} "
            f"(got {edge_weight.dtype} of shape {edge_weight.shape})."
        )

    def batches(size: int) -> Iterator[tuple[Any, Any, Any]]:
        for start in range(0, num_edges, size):
            part = slice(start, start + size)
            weights = None if edge_weight is None else np.array(edge_weight[part], dtype=np.float64)
            yield ends[0, part].astype(np.int64), ends[1, part].astype(np.int64), weights
            release(edge_index, edge_weight)

    dtype = None if edge_weight is None else np.float64 if edge_weight.dtype == np.float64 else np.float32
    return EdgeList(path, dtype, 0.0, batches)


def is_table(path: Path) -> bool:
    """Whether the name says CSV, TSV or Parquet."""
    return bool(table_kind(path))

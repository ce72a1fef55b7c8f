"""Two StoredGraphs -> StoredPair: numbered alike, and searched for what differs, by sweeps over the files.

Nodes are numbered as in `before`, then come those that `after` alone has. They are matched by name where the graphs
have names, else by position. A sweep holds a chunk of the files at a time; what stays is one flag a node, and one
number a node where names had to be matched because they are listed in another order.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute
from scipy import sparse

from ..arrays import BoolArray, IntArray
from ..errors import InputError
from ..memory import CHUNK, release
from .snapshot import warn_of_rows
from .stored import SparseRows, StoredGraph, release_graph, row_ranges, take_features
from .sweeps import compare_stored, mark_stored_receivers

WHOLE = "^[+-]?[0-9]+$"
SAME: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Side:
    """One graph of a pair, and how its rows are numbered."""

    graph: StoredGraph
    ids: IntArray  # [graph.num_nodes]: number of each row; empty where it is the row itself
    rows: IntArray  # [num_nodes of the pair]: row of each number, -1 for none; empty as above

    def rows_of(self, numbers: IntArray) -> IntArray:
        """Row of each of these numbers, -1 where this graph has no such node."""
        if len(self.ids):
            return self.rows[numbers]
        return np.where(numbers < self.graph.num_nodes, numbers, -1)

    @property
    def numbers(self) -> IntArray:
        """Number of each row."""
        return self.ids if len(self.ids) else np.arange(self.graph.num_nodes)

    def present(self, numbers: IntArray) -> BoolArray:
        """Which of these numbers this graph has."""
        return np.asarray(self.rows_of(numbers) >= 0)

    @property
    def edges(self) -> tuple[Any, Any, Any]:
        """indptr, senders and weights (empty for none) as plain arrays, for the kernels."""
        weights = np.zeros(0) if self.graph.weights is None else np.asarray(self.graph.weights)
        return np.asarray(self.graph.indptr), np.asarray(self.graph.senders), weights

    def pieces(self) -> Iterator[tuple[Any, Any, Any]]:
        """All edges, a chunk at a time: senders, receivers and weights (None for none), as rows of this graph."""
        indptr = np.asarray(self.graph.indptr)
        for start, stop in row_ranges(self.graph.indptr):
            edges = slice(indptr[start], indptr[stop])
            receivers = np.repeat(np.arange(start, stop), np.diff(indptr[start : stop + 1]))
            yield (
                self.graph.senders[edges],
                receivers,
                None if self.graph.weights is None else self.graph.weights[edges],
            )
            release(self.graph.indptr, self.graph.senders, self.graph.weights)


@dataclass(frozen=True, eq=False)
class StoredPair:
    """Two graphs on disk under one numbering."""

    before: Side
    after: Side
    num_nodes: int  # of both together

    @cached_property
    def touched(self) -> BoolArray:
        """Nodes whose incoming edges differ, or that one graph alone has. [num_nodes]."""
        differ = np.zeros(self.num_nodes, dtype=np.bool_)
        differ[self.numbers_of_one] = True
        graphs = self.before.graph, self.after.graph
        edges = *self.before.edges, *self.after.edges
        for start, stop in _both_ranges(*graphs, self.num_nodes):
            compare_stored(start, stop, *edges, self.after.ids, self.after.rows, differ)
            for graph in graphs:
                release(graph.indptr, graph.senders, graph.weights)
        return differ

    @cached_property
    def altered(self) -> BoolArray:
        """Nodes whose features differ, or that one graph alone has. [num_nodes]."""
        differ = np.zeros(self.num_nodes, dtype=np.bool_)
        differ[self.numbers_of_one] = True
        before, after = self.before.graph, self.after.graph
        if not len(self.after.ids) and _same_file(before.x, after.x):
            return differ
        step = max(CHUNK // max(before.num_features, 1), 1)
        for start in range(0, before.num_nodes, step):
            numbers = np.arange(start, min(start + step, before.num_nodes))
            rows = self.after.rows_of(numbers)
            numbers, rows = numbers[rows >= 0], rows[rows >= 0]
            if len(numbers):
                differ[numbers] |= _features_differ(before, numbers, after, rows)
            release_graph(before)
            release_graph(after)
        return differ

    @cached_property
    def numbers_of_one(self) -> IntArray:
        """Nodes that one graph alone has."""
        numbers = np.arange(self.num_nodes)
        return np.flatnonzero(self.before.present(numbers) != self.after.present(numbers))

    def receivers(self, nodes: BoolArray) -> BoolArray:
        """Nodes that one of these sends to, in either graph. [num_nodes]."""
        found = np.zeros(self.num_nodes, dtype=np.bool_)
        if nodes.any():
            for side in (self.before, self.after):
                indptr, senders, _ = side.edges
                for start, stop in row_ranges(side.graph.indptr):
                    mark_stored_receivers(start, stop, indptr, senders, side.ids, nodes, found)
                    release(side.graph.indptr, side.graph.senders)
        return found

    def name(self, number: int) -> str:
        """A node's name, or its number as text."""
        return self.names(np.array([number])).get(number, str(number))

    def names(self, numbers: IntArray) -> dict[int, str]:
        """Names of these nodes, where they have any."""
        found: dict[int, str] = {}
        for side in (self.after, self.before) if self.named else ():
            rows = side.rows_of(numbers)
            here, rows = numbers[rows >= 0].tolist(), rows[rows >= 0]
            own = map(str, rows.tolist()) if side.graph.names is None else side.graph.names.take(rows).to_pylist()
            found.update(zip(here, own, strict=True))
        return found

    @property
    def named(self) -> bool:
        """Whether one graph has names; those of the other are then 0 to N - 1, which are not stored."""
        return self.before.graph.names is not None or self.after.graph.names is not None

    def number(self, name: str) -> int | None:
        """The node of this name, None where neither graph has it."""
        for side in (self.before, self.after) if self.named else ():
            if side.graph.names is not None:
                row = pyarrow.compute.index(side.graph.names, pyarrow.scalar(name, pyarrow.large_string())).as_py()
            else:
                row = int(name) if name.isdecimal() and name == str(int(name)) else -1
            if 0 <= row < side.graph.num_nodes:
                return int(side.ids[row]) if len(side.ids) else int(row)
        return None

    def name_that_is_a_number(self) -> str | None:
        """The first name that reads as a whole number, None where there is none."""
        for side in (self.before, self.after):
            if side.graph.names is not None:
                numeric = pyarrow.compute.match_substring_regex(side.graph.names, WHOLE)
                row = pyarrow.compute.index(numeric, pyarrow.scalar(True)).as_py()
                if row >= 0:
                    return str(side.graph.names[row])
        return None


def match_stored(before: StoredGraph, after: StoredGraph) -> StoredPair:
    """Number the nodes of two stored graphs alike."""
    if before.num_features != after.num_features:
        raise InputError(
            f"Expected node features of the same width in both graphs (got {before.num_features} in {before.folder} "
            f"and {after.num_features} in {after.folder})."
        )
    if (before.weights is None) != (after.weights is None):
        bare = before if before.weights is None else after
        raise InputError(f"Expected weights in both graphs or in neither ({bare.folder} has none).")
    names, other = _names_of(before, after), _names_of(after, before)
    if names is None or other is None:
        warn_of_rows(before.num_nodes, after.num_nodes, "convert both with a table that names their nodes")
    if names is None or other is None or _begin_alike(names, other):
        num_nodes = max(before.num_nodes, after.num_nodes)
        return StoredPair(Side(before, SAME, SAME), Side(after, SAME, SAME), num_nodes)
    ids = pyarrow.compute.index_in(other, value_set=names)
    fresh = np.asarray(pyarrow.compute.is_null(ids).to_numpy(zero_copy_only=False))
    numbers = np.asarray(pyarrow.compute.fill_null(ids, 0).to_numpy(zero_copy_only=False)).astype(np.int64)
    num_nodes = before.num_nodes + int(fresh.sum())
    numbers[fresh] = np.arange(before.num_nodes, num_nodes)
    rows = np.full(num_nodes, -1, dtype=np.int64)
    rows[numbers] = np.arange(after.num_nodes)
    return StoredPair(Side(before, SAME, SAME), Side(after, numbers, rows), num_nodes)


def _names_of(graph: StoredGraph, other: StoredGraph) -> Any:
    """Names of the nodes, None where neither graph has any; those of nodes called 0 to N - 1 are not stored."""
    if graph.names is not None or other.names is None:
        return graph.names
    if not pyarrow.compute.all(pyarrow.compute.match_substring_regex(other.names, "^-?[0-9]+$")).as_py():
        raise InputError(
            f"Expected names in both graphs or in neither ({other.folder} has names such as {other.names[0]}, "
            f"{graph.folder} has none); convert both with a node table."
        )
    return pyarrow.array(np.arange(graph.num_nodes)).cast(pyarrow.large_string())


def _begin_alike(names: Any, other: Any) -> bool:
    shared = min(len(names), len(other))
    return bool(names.slice(0, shared).equals(other.slice(0, shared)))


def _both_ranges(before: StoredGraph, after: StoredGraph, num_nodes: int) -> Iterator[tuple[int, int]]:
    """Ranges of numbers that are chunks of both graphs: the cuts of either."""
    cuts = {0, num_nodes}
    for graph in (before, after):
        cuts |= {start for start, _ in row_ranges(graph.indptr)} | {graph.num_nodes}
    ordered = sorted(cuts)
    return itertools.pairwise(ordered)


def _features_differ(before: StoredGraph, rows: IntArray, after: StoredGraph, other: IntArray) -> BoolArray:
    if isinstance(before.x, SparseRows) or isinstance(after.x, SparseRows):
        unequal = sparse.csr_array(take_features(before, rows)) != sparse.csr_array(take_features(after, other))
        return np.asarray(np.diff(sparse.csr_array(unequal).indptr) > 0)
    # A range of rows is read as it lies in the file; only nodes in another order are gathered one by one.
    mine, theirs = (
        x[at[0] : at[-1] + 1] if at[-1] - at[0] == len(at) - 1 and (np.diff(at) == 1).all() else x[at]
        for x, at in ((before.x, rows), (after.x, other))
    )
    return np.asarray((mine != theirs).any(axis=1))


def _same_file(x: Any, other: Any) -> bool:
    """Whether both graphs name the very same file of features: what is linked needs no comparing."""
    if isinstance(x, SparseRows) and isinstance(other, SparseRows):
        pairs = [(x.data, other.data), (x.indices, other.indices), (x.indptr, other.indptr)]
        return all(_same_file(mine, theirs) for mine, theirs in pairs)
    if isinstance(x, SparseRows) or isinstance(other, SparseRows):
        return False
    return os.path.samefile(x.filename, other.filename)

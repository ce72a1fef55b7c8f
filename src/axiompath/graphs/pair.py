"""Two graphs -> Pair: numbered alike, and searched for what differs, by sweeps over their edges and features.

Nodes are numbered as in `before`, then come those that only `after` has. Stored graphs are matched by name where they
have names, else by position; aligned snapshots are numbered alike already. A sweep holds a chunk of a file at a time;
what stays is one flag per node, and one number per node where names list the nodes in another order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute
from scipy import sparse
from torch_geometric.data import Data

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError, WrongKind
from ..native.rows import compare_rows
from ..storage.memory import CHUNK, release
from .adjacency import NO_IDS, Incoming
from .data_fields import PLAIN_FIELDS, Features, Fields, parts_of
from .edge_values import EdgeValues, number_values
from .snapshot import Snapshot, find_numbers, read_aligned, rows_differ, rows_of, warn_of_rows
from .stored import StoredGraph, map_snapshot

A_NUMBER = "^[+-]?[0-9]+$"


@dataclass(frozen=True, eq=False)
class Side:
    """One graph of a pair, its edges by receiver, and how its rows are numbered."""

    graph: Snapshot
    ids: IntArray  # [num_rows]: number of each row; empty where it is the row itself
    rows: IntArray  # [numbers]: row of each number, -1 for none; empty where it is the number, if there is one
    names: Any = None  # pyarrow.LargeStringArray [num_rows], or None
    data: Data | None = None  # the user's own graph, where it is in memory
    backwards: bool = False  # messages flow against the edges

    @cached_property
    def edges(self) -> Incoming:
        """The graph's edges; those of a snapshot are sorted when first asked for."""
        return self.graph.incoming(backwards=self.backwards)._replace(ids=self.ids)

    def rows_of(self, numbers: IntArray) -> IntArray:
        """Row of each of these numbers, -1 where this graph has no such node."""
        if len(self.rows):
            return self.rows[numbers]
        return np.where(numbers < self.graph.num_nodes, numbers, -1)

    @property
    def numbers(self) -> IntArray:
        """Number of each row as the user lists them."""
        if self.graph.on_disk:
            return self.ids if len(self.ids) else np.arange(self.graph.num_nodes)
        return self.graph.node_ids if self.data is None else self.graph.node_ids[rows_of(self.graph, self.data)]

    def some_rows(self, count: int) -> IntArray:
        """Rows of random nodes, the same ones every time."""
        rng = np.random.default_rng(0)
        if len(self.rows) and not len(self.ids):
            here = np.flatnonzero(self.rows >= 0)
            return here[rng.integers(len(here), size=count)]
        return rng.integers(self.graph.num_nodes, size=count)

    def entries(self, numbers: IntArray) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """First entry and number of entries of the rows of these nodes, their senders' numbers, and their values."""
        rows = self.rows_of(numbers)
        taken, sizes = self.edges.take(rows[rows >= 0]), np.zeros(len(rows), dtype=np.int64)
        sizes[rows >= 0] = np.diff(taken.indptr)
        values = np.zeros((len(taken.senders), 0))
        if len(taken.values):
            values = taken.values.view(np.float64).reshape(len(taken.senders), -1)  # of a complex one, both parts
        return np.cumsum(sizes) - sizes, sizes, taken.senders, values


@dataclass(frozen=True, eq=False)
class Pair:
    """Two graphs under one numbering, in memory or on disk."""

    before: Side
    after: Side
    num_nodes: int  # of both together
    ids: IntArray  # [num_nodes]: what the user calls each number; none where it is the number itself
    values: EdgeValues | None = None  # where edges have features: what stands for weight and features of each edge
    class_names: tuple[str, ...] = ()  # that a graph on disk brings along

    @property
    def num_shared_nodes(self) -> int:
        """Nodes that both graphs have: those whose prediction could have changed."""
        return self.num_nodes - len(self.numbers_of_one)

    @property
    def on_disk(self) -> bool:
        """Whether the graphs are memory-mapped, so that nothing may ask for all of them at once."""
        return self.before.graph.on_disk

    @property
    def graphs(self) -> tuple[Snapshot, Snapshot]:
        """Both graphs, with weights and features of edges as they are."""
        before, after = self.before.graph, self.after.graph
        return (before, after) if self.values is None else (self.values.restore(before), self.values.restore(after))

    @cached_property
    def touched(self) -> BoolArray:
        """Nodes whose incoming edges differ, or that only one graph has. [num_nodes]."""
        differ = self._of_one()
        for start, stop in self._ranges():
            sides = [side.entries(np.arange(start, stop)) for side in (self.before, self.after)]
            starts, sizes = np.stack([side[0] for side in sides]), np.stack([side[1] for side in sides])
            compare_rows(starts, sizes, *sides[0][2:], *sides[1][2:], differ[start:stop].view(np.uint8))
        return differ

    @cached_property
    def altered(self) -> BoolArray:
        """Nodes whose features differ, or that only one graph has. [num_nodes]."""
        differ = self._of_one()
        before, after = self.before.graph, self.after.graph
        if not len(self.after.ids) and _is_same(before.x, after.x):
            return differ
        num_rows = before.num_nodes
        step = max(CHUNK // max(before.num_features, 1), 1)
        for start in range(0, num_rows, step):
            numbers = np.arange(start, min(start + step, num_rows))
            rows = self.after.rows_of(numbers)
            numbers, rows = numbers[rows >= 0], rows[rows >= 0]
            if len(numbers):
                differ[numbers] |= rows_differ(_look_at(before, numbers), _look_at(after, rows))
                release(*parts_of(before.x), *parts_of(after.x))
        return differ

    @cached_property
    def numbers_of_one(self) -> IntArray:
        """Nodes that only one graph has."""
        numbers = np.arange(self.num_nodes)
        return np.flatnonzero((self.before.rows_of(numbers) < 0) != (self.after.rows_of(numbers) < 0))

    def receivers(self, nodes: BoolArray) -> BoolArray:
        """Nodes that one of these sends to, in either graph. [num_nodes]."""
        found = np.zeros(self.num_nodes, dtype=np.bool_)
        if nodes.any():
            for side in (self.before, self.after):
                for senders, receivers, _ in side.edges.pieces():
                    found[side.edges.numbers(receivers[nodes[side.edges.numbers(senders)]])] = True
        return found

    def node_ids(self, numbers: IntArray) -> IntArray:
        """What the user calls these nodes, where names are not asked for."""
        return self.ids[numbers] if len(self.ids) else numbers

    def numbers_of(self, nodes: IntArray) -> IntArray:
        """Number of each of these nodes, called as `node_ids` calls them."""
        return find_numbers(self.ids, nodes)[0] if len(self.ids) and len(nodes) else nodes

    def has(self, nodes: IntArray) -> BoolArray:
        """Which of these are nodes of the graphs, called as `node_ids` calls them."""
        if len(self.ids):
            return np.isin(nodes, self.ids)
        return np.asarray((nodes >= 0) & (nodes < self.num_nodes))

    @property
    def all_nodes(self) -> str:
        """What the nodes are called, for messages."""
        ids, schema = self.ids, self.before.graph.schema
        if not len(ids):
            return f"nodes 0 to {self.num_nodes - 1}"
        if schema is not None:
            counts = np.bincount(ids % len(schema.node_types), minlength=len(schema.node_types)).tolist()
            return f"nodes: {', '.join(f'{n:,} of {kind}' for kind, n in zip(schema.node_types, counts, strict=True))}"
        return f"{len(ids):,} nodes {ids.min()} to {ids.max()}"

    def _of_one(self) -> BoolArray:
        differ = np.zeros(self.num_nodes, dtype=np.bool_)
        differ[self.numbers_of_one] = True
        return differ

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Ranges of numbers that are chunks of both graphs: the cuts of either."""
        cuts = {0, self.num_nodes}
        for side in (self.before, self.after):
            cuts |= {start for start, _ in side.edges.ranges()} | {side.graph.num_nodes}
        return itertools.pairwise(sorted(cuts))

    def name(self, number: int) -> str:
        """A node's name, or its number as text."""
        return self.names(np.array([number])).get(number, str(number))

    def names(self, numbers: IntArray) -> dict[int, str]:
        """Names of these nodes, where they have any."""
        found: dict[int, str] = {}
        for side in (self.after, self.before) if self.named else ():
            rows = side.rows_of(numbers)
            here, rows = numbers[rows >= 0].tolist(), rows[rows >= 0]
            own = map(str, rows.tolist()) if side.names is None else side.names.take(rows).to_pylist()
            found.update(zip(here, own, strict=True))
        return found

    @property
    def named(self) -> bool:
        """Whether one graph has names; those of the other are then 0 to N - 1, which are not stored."""
        return self.before.names is not None or self.after.names is not None

    def number(self, name: str) -> int | None:
        """The node of this name, None where neither graph has it."""
        for side in (self.before, self.after) if self.named else ():
            if side.names is not None:
                row = pyarrow.compute.index(side.names, pyarrow.scalar(name, pyarrow.large_string())).as_py()
            else:
                row = int(name) if name.isdecimal() and name == str(int(name)) else -1
            if 0 <= row < side.graph.num_nodes:
                return int(side.ids[row]) if len(side.ids) else int(row)
        return None

    def name_that_is_a_number(self) -> str | None:
        """The first name that reads as a whole number, None if there is none."""
        for side in (self.before, self.after):
            if side.names is not None:
                numeric = pyarrow.compute.match_substring_regex(side.names, A_NUMBER)
                row = pyarrow.compute.index(numeric, pyarrow.scalar(True)).as_py()
                if row >= 0:
                    return str(side.names[row])
        return None


def open_pair(before: Any, after: Any, fields: Fields = PLAIN_FIELDS) -> Pair:
    """Two graphs, both in memory or both stored, numbered alike: the one place that asks which."""
    if isinstance(before, StoredGraph) != isinstance(after, StoredGraph):
        raise WrongKind("Expected two stored graphs or two Data objects (got one of each); convert the other, too.")
    if isinstance(before, StoredGraph):
        return match_stored(before, after)
    return match_snapshots(*read_aligned(before, after, fields), (before, after))


def match_snapshots(
    before: Snapshot, after: Snapshot, data: tuple[Data | None, Data | None] = (None, None), *, backwards: bool = False
) -> Pair:
    """Two aligned snapshots as a pair; `backwards` where messages flow against the edges.

    Edges that have features have one number for these and their weight, which the pair knows the meaning of.
    """
    sides, values = [], None
    if before.edge_attr is not None:
        before, after, values = number_values(before, after)
    for snapshot, own in zip((before, after), data, strict=True):
        rows = NO_IDS if snapshot.present.all() else np.where(snapshot.present, np.arange(snapshot.num_nodes), -1)
        sides.append(Side(snapshot, NO_IDS, rows, data=own, backwards=backwards))
    return Pair(sides[0], sides[1], before.num_nodes, before.node_ids, values)


def match_stored(before: StoredGraph, after: StoredGraph) -> Pair:
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
        return _stored_pair(before, after, num_nodes, NO_IDS, NO_IDS)
    for graph, own in ((before, names), (after, other)):
        if pyarrow.compute.count_distinct(own).as_py() < len(own):
            raise InputError(f"Expected every name once in {graph.folder} (got one twice); convert the graph again.")
    ids = pyarrow.compute.index_in(other, value_set=names)
    fresh = np.asarray(pyarrow.compute.is_null(ids).to_numpy(zero_copy_only=False))
    numbers = np.asarray(pyarrow.compute.fill_null(ids, 0).to_numpy(zero_copy_only=False)).astype(np.int64)
    num_nodes = before.num_nodes + int(fresh.sum())
    numbers[fresh] = np.arange(before.num_nodes, num_nodes)
    rows = np.full(num_nodes, -1, dtype=np.int64)
    rows[numbers] = np.arange(after.num_nodes)
    return _stored_pair(before, after, num_nodes, numbers, rows)


def _stored_pair(before: StoredGraph, after: StoredGraph, num_nodes: int, ids: IntArray, rows: IntArray) -> Pair:
    """`ids` and `rows` are those of `after`."""
    first = Side(map_snapshot(before), NO_IDS, NO_IDS, before.names)
    second = Side(map_snapshot(after), ids, rows, after.names)
    return Pair(first, second, num_nodes, NO_IDS, class_names=before.class_names or after.class_names)


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


def _look_at(graph: Snapshot, rows: IntArray) -> Any:
    """Features of these rows; a range of dense ones as it lies in the file, unchecked, only others are gathered."""
    if not isinstance(graph.x, np.ndarray):
        return graph.take_features(rows)
    ranged = rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all()
    return graph.x[rows[0] : rows[-1] + 1] if ranged else graph.x[rows]


def _is_same(x: Features, other: Features) -> bool:
    """Whether both graphs hold the very same features: what is shared, or linked on disk, needs no comparing."""
    pairs = list(zip(parts_of(x), parts_of(other), strict=False))
    if sparse.issparse(x) == sparse.issparse(other) and all(
        isinstance(part, np.memmap) for two in pairs for part in two
    ):
        return all(Path(str(mine.filename)).samefile(str(theirs.filename)) for mine, theirs in pairs)
    return x is other

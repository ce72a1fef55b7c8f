"""Rows of recorded tensors -> places of two aligned snapshots: which rows are the same node, message, graph or pair.

An axis is a kind of rows. Nodes, graphs and pairs are numbered by the data. The rows of an edge list are known by the
places that they were gathered from and are scattered to; rows with the same ends are the same one after the other. A
message from a node to itself has that node for its place, so that added self-loops need no edge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arrays import IntArray
from ..errors import InputError
from ..graphs.data_fields import Features
from ..graphs.labels import FIRST_EDGE
from ..graphs.places import GRAPHS as GRAPHS_KIND
from ..graphs.snapshot import Snapshot
from ..network.coefficients import ANYWHERE, SOURCE_TO_TARGET, Rule

NODES, EDGES, GRAPHS, LINKS = "nodes", "edges", "graphs", "links"
FIRST_GRAPH = 2**40  # beyond the number of messages with the same ends
SAME = 1e-12  # coefficients of two recordings that differ by less, relatively, are one: only their rounding differs
Indices = tuple[IntArray, IntArray]  # of before and of after


class Axis:
    """A kind of rows, in both snapshots."""

    def __init__(self, kind: str, sizes: tuple[int, int], *, of_graphs: bool = False) -> None:
        self.kind, self.sizes, self.of_graphs = kind, sizes, of_graphs
        self.senders: list[tuple[Axis, Indices]] = []  # where its rows were gathered from
        self.receivers: list[tuple[Axis, Indices]] = []  # where they are scattered to
        self._joined: Axis | None = None
        self._places: Indices | None = None

    @property
    def root(self) -> Axis:
        """The axis that stands for this one and all that were found to have the same rows."""
        return self if self._joined is None else self._joined.root

    @property
    def places(self) -> Indices:
        """The row of the aligned snapshots, or the graph or pair, that each row is."""
        found = self.root._places
        assert found is not None
        return found

    def place(self, before: IntArray, after: IntArray) -> None:
        """Set the places."""
        self.root._places = before, after

    def join(self, other: Axis) -> None:
        """Rows of both stand side by side in one operation: they are the same."""
        first, second = self.root, other.root
        if first is second:
            return
        if (
            first.sizes != second.sizes
            or first.of_graphs != second.of_graphs
            or (first.kind != EDGES and second.kind != EDGES)
        ):
            raise InputError(
                f"puts rows of {first.kind} and rows of {second.kind} side by side, which are not the same."
            )
        if first.kind == EDGES:
            first, second = second, first
        if first.kind != EDGES:
            raise InputError(f"puts rows of {first.kind} and rows of edges side by side, which are not the same.")
        second._joined = first
        first.senders += second.senders
        first.receivers += second.receivers


@dataclass(frozen=True, eq=False)
class Recorded(Rule):
    """Coefficients as a model computed them on each of two graphs; they are known on no other."""

    target: Axis
    source: Axis
    matrices: tuple[sparse.csr_array, sparse.csr_array]  # [target rows, source rows] before and after
    of_features: bool = False  # whether they were made of features
    local: bool = False  # whether it only scales rows
    flow: str = SOURCE_TO_TARGET
    weighted: bool = False
    reads_inputs: ClassVar[bool] = False
    reach: ClassVar[None] = None
    recorded: ClassVar[bool] = True

    @property
    def rises(self) -> bool:
        """Whether what receives are graphs or pairs."""
        return not self.local and self.target.root.kind in (GRAPHS, LINKS)

    @property
    def of_links(self) -> bool:
        """Whether it rises to pairs."""
        return self.rises and self.target.root.kind == LINKS

    @property
    def to_edges(self) -> bool:
        """Whether what receives are edges."""
        return not self.local and self.target.root.kind == EDGES

    @property
    def from_edges(self) -> bool:
        """Whether what sends are edges."""
        return not self.local and self.source.root.kind == EDGES

    @property
    def of_edges(self) -> bool:
        """Whether edges are places in it."""
        return EDGES in (self.target.root.kind, self.source.root.kind)

    @property
    def crosses(self) -> bool:
        """Whether it leads from rows to other rows."""
        return not self.local

    @property
    def arrived(self) -> bool:
        """Whether it has led to other rows and is no list of messages any more."""
        return not self.local and self.target.root.kind != EDGES

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The coefficients of that graph, on the rows of the aligned snapshots."""
        side = snapshot.recording
        if side is None:
            raise InputError(
                "Expected one of the two graphs that the model was read on (got another one); what a model computes "
                "by itself is known on these only."
            )
        places = self.target.places[side], self.source.places[side]
        found = self.lift(side, *places, snapshot)
        if side == 1:
            found = _as_before(found, self.lift(0, self.target.places[0], self.source.places[0], snapshot))
        return found

    def lift(self, side: int, rows: IntArray, columns: IntArray, snapshot: Snapshot) -> sparse.csr_array:
        """Those of one graph, on these rows of a snapshot."""
        own = sparse.coo_array(self.matrices[side])
        size = snapshot.num_nodes
        if self.target.root.kind in (GRAPHS, LINKS) and not self.local:
            assert snapshot.places is not None
            size = len(snapshot.places.present)
        found = sparse.coo_array((own.data, (rows[own.row], columns[own.col])), shape=(size, snapshot.num_nodes))
        lifted = sparse.csr_array(found.tocsr())
        lifted.sort_indices()
        return lifted


def way_of(rule: Recorded, sides: tuple[Snapshot, Snapshot]) -> str:
    """Which way messages run, in PyG's words: along edges, against them, both, or where no edge is."""
    along = against = either = True
    for side, snapshot in enumerate(sides):
        if rule.from_edges:
            ends = _keys_of(rule.source.root, side)[:, :2].T
        else:
            own = sparse.coo_array(rule.matrices[side])
            ends = np.stack([rule.source.places[side][own.col], rule.target.places[side][own.row]])
        size = snapshot.num_nodes
        keys = np.array([1, size]) @ ends[:, ends[0] != ends[1]]
        backwards = np.array([size, 1]) @ ends[:, ends[0] != ends[1]]
        known = np.array([1, size]) @ snapshot.edge_index
        there, back = np.isin(keys, known), np.isin(backwards, known)
        along, against = along and bool(there.all()), against and bool(back.all())
        either = either and bool((there | back).all())
    return SOURCE_TO_TARGET if along else "target_to_source" if against else "both" if either else ANYWHERE


def _as_before(after: sparse.csr_array, before: sparse.csr_array) -> sparse.csr_array:
    """`after`, with the value of `before` where the two differ only by rounding."""
    keys = [
        np.repeat(np.arange(one.shape[0], dtype=np.int64), np.diff(one.indptr)) * one.shape[1] + one.indices
        for one in (before, after)
    ]
    found = np.searchsorted(keys[0], keys[1])
    found[found == len(keys[0])] = 0
    if not len(keys[0]):
        return after
    old = before.data[found]
    close = (keys[0][found] == keys[1]) & (
        np.abs(old - after.data) <= SAME * np.maximum(np.abs(old), np.abs(after.data))
    )
    return sparse.csr_array((np.where(close, old, after.data), after.indices, after.indptr), shape=after.shape)


def scale_rows(matrix: sparse.csr_array, factors: np.ndarray) -> sparse.csr_array:
    """Each row times a number; an entry of 0 stays an entry."""
    data = matrix.data * np.repeat(factors, np.diff(matrix.indptr))
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def choose(index: IntArray, num_columns: int) -> sparse.csr_array:
    """One entry of 1 in each row."""
    size = len(index)
    return sparse.csr_array((np.ones(size), index, np.arange(size + 1)), shape=(size, num_columns))


def send(matrix: sparse.csr_array, index: IntArray, num_rows: int) -> sparse.csr_array:
    """Rows added up by where each is sent; an entry of 0 stays an entry."""
    own = sparse.coo_array(matrix)
    return sparse.csr_array(
        sparse.coo_array((own.data, (index[own.row], own.col)), shape=(num_rows, matrix.shape[1])).tocsr()
    )


def place_edges(axes: list[Axis], sides: tuple[Snapshot, Snapshot]) -> tuple[Snapshot, Snapshot]:
    """Find the places of all edge lists, and widen the snapshots by a row for each message between two nodes."""
    roots = list(dict.fromkeys(axis.root for axis in axes if axis.root.kind == EDGES))
    num_nodes = sides[0].num_nodes
    keys: list[list[IntArray]] = [[], []]
    for axis in roots:
        for side in (0, 1):
            keys[side].append(_keys_of(axis, side))
    stacked = np.concatenate([np.zeros((0, 3), dtype=np.int64), *keys[0], *keys[1]])
    unique, number = np.unique(stacked, axis=0, return_inverse=True)
    number = number.reshape(-1)
    loops = (unique[:, 0] == unique[:, 1]) & (unique[:, 2] == 0)
    rows = np.where(loops, unique[:, 0], num_nodes + np.cumsum(~loops) - 1)
    num_edges = int((~loops).sum())
    places = np.split(rows[number], np.cumsum([len(one) for one in (*keys[0], *keys[1])])[:-1])
    for i, axis in enumerate(roots):
        axis.place(places[i], places[i + len(roots)])
    widened = []
    for side, snapshot in enumerate(sides):
        here = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *places[side * len(roots) :][: len(roots)]]))
        here = here[here >= num_nodes]
        ends = unique[~loops][here - num_nodes, :2].T
        widened.append(_widen(snapshot, here, np.ascontiguousarray(ends), num_edges))
    return widened[0], widened[1]


def _keys_of(axis: Axis, side: int) -> IntArray:
    """Sender, receiver, and which one of those with the same ends, of each row. [num_rows, 3]."""
    if axis.of_graphs:  # no message: row 0 stands for both ends, and the number says which graph it is
        numbers = np.arange(axis.sizes[side])
        return np.column_stack([0 * numbers, 0 * numbers, FIRST_GRAPH + numbers])
    columns = []
    for parts in (axis.senders, axis.receivers):
        found = [parent.places[side][index[side]] for parent, index in parts if parent.root.kind == NODES]
        columns.append(list({one.tobytes(): one for one in found}.values()))
    senders, receivers = columns
    last = receivers[-1] if receivers else senders[-1]
    others = [one for one in senders if not np.array_equal(one, last)]
    ends = np.stack([others[0] if others else last, last], axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (ends[order][1:] != ends[order][:-1]).any(axis=1)
    starts = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - starts
    return np.column_stack([ends, rank])


def _widen(snapshot: Snapshot, rows: IntArray, ends: IntArray, num_edges: int) -> Snapshot:
    def pad(values: NDArray[Any], value: int | bool) -> NDArray[Any]:
        return np.concatenate([values, np.full(num_edges, value, dtype=values.dtype)])

    places = snapshot.places
    if places is not None and places.kind == GRAPHS_KIND:
        places = replace(places, nodes=pad(places.nodes, -1))
    return replace(
        snapshot,
        edges=ends,
        edge_weight=None,
        edge_types=None,
        edge_attr=None,
        node_ids=np.concatenate([snapshot.node_ids, FIRST_EDGE - np.arange(num_edges)]),
        present=pad(snapshot.present, False),
        graphs=None if snapshot.graphs is None else pad(snapshot.graphs, -1),
        places=places,
        edge_rows=rows,
        node_types=None if snapshot.node_types is None else pad(snapshot.node_types, -1),
    )

"""Snapshot + hidden features -> norms over all nodes of a graph: (h - mu) s, mu and s being the graph's.

The scale s is a coefficient of every node, the shift -s mu a source at every node, which each snapshot computes: a
bias. It is read off columns of ones that stand beside h. No node gets a path to every other. In delta,

    s_1 (h_1 - mu_1) - s_0 (h_0 - mu_0) = mean(s) (h_1 - h_0)  +  [ (s_1 - s_0) mean(h) - (s_1 mu_1 - s_0 mu_0) ],

means over the two snapshots: the first part goes on to h, the second is the source, and its cause is *statistics*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar
from weakref import WeakKeyDictionary, ref

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import Parts, Sides, diagonal
from .families import ColumnRule, column_of
from .readouts import members_of

OF_GRAPH = "graph"  # how a norm over a graph divides its coefficients


@dataclass(frozen=True, eq=False)
class Moments:
    """What a norm makes of the nodes of a graph: its mu and its s, of every column."""

    width: int
    by_graph: bool = False  # of each graph of a batch for itself; else of all nodes
    together: bool = False  # one mean and one deviation for all columns
    eps: float = 0.0
    beside: bool = False  # eps is added to the deviation, not to the variance
    summed: bool = False  # the variance is the sum of those of the columns
    scaled: bool = True  # else s is 1
    part: FloatArray | None = None  # [width]: how much of its mean is taken from a column; None for all
    node_type: int | None = None  # whose nodes the module is given, where nodes have types; None for all

    def members(self, snapshot: Snapshot) -> tuple[IntArray, IntArray]:
        """The nodes that the module is given, and the graph of each, numbered from 0: never edges that are places."""
        members, graphs = members_of(snapshot, by_graph=self.by_graph)
        if self.node_type is None:
            return members, graphs
        assert snapshot.node_types is not None
        own = snapshot.node_types[members] == self.node_type
        return members[own], graphs[own]

    def find(self, snapshot: Snapshot, inputs: Features) -> tuple[FloatArray, FloatArray]:
        """mu and s of every node and column, [num_nodes, width]; 0 and 1 where a node belongs to no graph."""
        h = np.asarray(inputs[:, : self.width] if isinstance(inputs, np.ndarray) else inputs.toarray()[:, : self.width])
        members, graphs = self.members(snapshot)
        mu, s = np.zeros(h.shape), np.ones(h.shape)
        own, size = h[members], np.maximum(np.bincount(graphs), 1)[:, None]

        def means(values: FloatArray) -> FloatArray:
            found = _sum_rows(values, graphs, len(size)) / size
            return np.broadcast_to(found.mean(axis=1, keepdims=True), found.shape) if self.together else found

        mean = means(own) * (1.0 if self.part is None else self.part)
        mu[members] = mean[graphs]
        if self.scaled:
            variance = means((own - mean[graphs]) ** 2)
            if self.summed:
                variance = np.broadcast_to(variance.sum(axis=1, keepdims=True), variance.shape)
            deviation = np.sqrt(variance) + self.eps if self.beside else np.sqrt(variance + self.eps)
            s[members] = (1.0 / deviation)[graphs]
        return mu, s


# What was found last of each: all columns ask for the same.
_FOUND: WeakKeyDictionary[Moments, tuple[ref[Snapshot], bytes, FloatArray, FloatArray]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class GraphScale(ColumnRule):
    """a[V, V] = s of V's graph."""

    moments: Moments
    local: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False
    divides: ClassVar[str] = OF_GRAPH

    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """On the diagonal."""
        return _at_members(self.moments, snapshot, find_moments(self.moments, snapshot, inputs)[1][:, number])

    def divide_column(self, sides: Sides, number: int) -> Parts:
        """The mean of both is kept where both have the node."""
        gained, lost = _alone(sides)
        return np.where(sides.both, 0.5 * (sides.before + sides.after), 0.0), gained, lost


@dataclass(frozen=True, eq=False)
class GraphShift(ColumnRule):
    """a[V, V] = -s mu of V's graph, over columns of ones beside those that are normed."""

    moments: Moments
    local: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False
    divides: ClassVar[str] = OF_GRAPH

    @property
    def first(self) -> int:
        """The ones stand behind."""
        return self.moments.width

    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """On the diagonal."""
        mu, s = (part[:, number] for part in find_moments(self.moments, snapshot, inputs))
        return _at_members(self.moments, snapshot, -s * mu)

    def divide_column(self, sides: Sides, number: int) -> Parts:
        """Nothing is kept; where both have the node, what the statistics did to it is gained."""
        gained, lost = _alone(sides)
        s, h = [], []
        for snapshot, inputs in zip(sides.snapshots, sides.inputs, strict=True):
            s.append(find_moments(self.moments, snapshot, inputs)[1][sides.indices, number])
            h.append(column_of(inputs, number)[sides.indices])
        source = (s[1] - s[0]) * 0.5 * (h[0] + h[1]) + (sides.after - sides.before)
        return np.zeros(len(source)), np.where(sides.both, source, gained), lost


def find_moments(moments: Moments, snapshot: Snapshot, inputs: Features) -> tuple[FloatArray, FloatArray]:
    """mu and s, found once for all columns of the same inputs."""
    identity = repr(inputs.__array_interface__ if isinstance(inputs, np.ndarray) else id(inputs)).encode()
    known = _FOUND.get(moments)
    if known is None or known[0]() is not snapshot or known[1] != identity:
        known = ref(snapshot), identity, *moments.find(snapshot, inputs)
        _FOUND[moments] = known
    return known[2], known[3]


def _at_members(moments: Moments, snapshot: Snapshot, values: FloatArray) -> sparse.csr_array:
    """On the diagonal, only of the nodes that the module receives."""
    given = np.zeros(snapshot.num_nodes, dtype=np.bool_)
    given[moments.members(snapshot)[0]] = True
    return diagonal(replace(snapshot, present=given, edge_rows=None), values)


def _alone(sides: Sides) -> tuple[FloatArray, FloatArray]:
    """Gained and lost of nodes that only one snapshot has."""
    return np.where(sides.both, 0.0, sides.after), np.where(sides.both, 0.0, sides.before)


def _sum_rows(values: FloatArray, groups: IntArray, count: int) -> FloatArray:
    total = np.zeros((count, values.shape[1]))
    np.add.at(total, groups, values)
    return total

"""Rules of messages made on their edges, of softmaxes column by column, and norms: what a Network may have.

No model is read with them, since its coefficients are recorded. They let random networks have edges as places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from axiompath.arrays import FloatArray, IntArray
from axiompath.graphs.data_fields import Features
from axiompath.graphs.snapshot import Snapshot
from axiompath.network.coefficients import SOURCE_TO_TARGET, Like, Rule
from axiompath.network.families import ColumnRule, column_of
from axiompath.network.readouts import members_of
from axiompath.network.statistics import Moments

SENDER, RECEIVER = "sender", "receiver"


class OnEdges(Rule):
    """A rule that takes from edges or gives to them."""

    of_edges: ClassVar[bool] = True
    reach: ClassVar[int] = 0


@dataclass(frozen=True)
class Gathered(OnEdges):
    """a[e, U] = 1 for the node U that sends along the edge e, or that receives along it."""

    end: str = SENDER
    flow: str = SOURCE_TO_TARGET
    to_edges: ClassVar[bool] = True

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """One entry a row."""
        senders, receivers = ends_of(snapshot, self.flow)
        ends = senders if self.end == SENDER else receivers
        return to_csr(snapshot, rows_of_edges(snapshot), ends, np.ones(len(ends)))


@dataclass(frozen=True)
class Delivered(OnEdges):
    """a[V, e] = 1 for the edges e into V; or their weight; or that over their number."""

    mean: bool = False
    weighted: bool = False
    flow: str = SOURCE_TO_TARGET
    from_edges: ClassVar[bool] = True

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Parallel edges stay apart."""
        _, receivers = ends_of(snapshot, self.flow)
        values = np.ones(len(receivers))
        if self.weighted and snapshot.edge_weight is not None:
            values = snapshot.edge_weight.copy()
        if self.mean:
            values /= np.bincount(receivers, minlength=snapshot.num_nodes)[receivers]
        return to_csr(snapshot, receivers, rows_of_edges(snapshot), values)


def ends_of(snapshot: Snapshot, flow: str) -> tuple[IntArray, IntArray]:
    """Senders and receivers, in the user's order of edges."""
    first, second = snapshot.edge_index
    return (first, second) if flow == SOURCE_TO_TARGET else (second, first)


def rows_of_edges(snapshot: Snapshot) -> IntArray:
    """Row of each edge of a snapshot whose edges are places."""
    assert snapshot.edge_rows is not None
    return snapshot.edge_rows


def to_csr(snapshot: Snapshot, rows: IntArray, columns: IntArray, values: FloatArray) -> sparse.csr_array:
    """Coefficients, no two of one row and column."""
    shape = (snapshot.num_nodes, snapshot.num_nodes)
    return sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()


@dataclass(frozen=True, eq=False)
class ColumnSoftmax(Like, ColumnRule):
    """The softmax of what the entries of another rule, which counts edges, carry; each column has its temperature."""

    rule: Rule
    temperatures: tuple[float, ...]  # one for all columns, or one for each
    reads_inputs: ClassVar[bool] = True
    __eq__, __hash__ = object.__eq__, object.__hash__  # by identity, unlike what it extends

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """No one matrix: each column has its own."""
        return ColumnRule.matrix(self, snapshot, inputs)

    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """Shares of the entries of each row, which sum to 1."""
        t = self.temperatures[number if len(self.temperatures) > 1 else 0]
        return _shares(self.rule.matrix(snapshot, inputs), t * column_of(inputs, number))


@dataclass(frozen=True, eq=False)
class ScoreSoftmax(Like):
    """The softmax of the one column of the inputs, over the entries of another rule, which counts edges."""

    reads_inputs: ClassVar[bool] = True
    __eq__, __hash__ = object.__eq__, object.__hash__  # by identity, unlike what it extends

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Shares of the entries of each row, which sum to 1."""
        return _shares(self.rule.matrix(snapshot, inputs), column_of(inputs, 0))


def _shares(matrix: sparse.csr_array, scores: FloatArray) -> sparse.csr_array:
    """Of each row of a matrix of counts, by the scores [num_nodes] of what sends."""
    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    sent = scores[matrix.indices]
    highest = np.full(matrix.shape[0], -np.inf)
    np.maximum.at(highest, rows, sent)
    shares = matrix.data * np.exp(sent - highest[rows])
    total = np.bincount(rows, weights=shares, minlength=matrix.shape[0])
    return sparse.csr_array((shares / total[rows], matrix.indices, matrix.indptr), shape=matrix.shape)


@dataclass(frozen=True, eq=False)
class MomentsOfNodes(Moments):
    """What a norm makes of the nodes of a graph: its mu and its s, of every column."""

    width: int
    by_graph: bool = False  # of each graph of a batch for itself; else of all nodes
    together: bool = False  # one mean and one deviation for all columns
    eps: float = 0.0
    beside: bool = False  # eps is added to the deviation, not to the variance
    summed: bool = False  # the variance is the sum of those of the columns
    scaled: bool = True  # else s is 1
    part: FloatArray | None = None  # [width]: how much of its mean is taken from a column; None for all

    def members(self, snapshot):
        """All nodes: never edges that are places."""
        return members_of(snapshot, by_graph=self.by_graph)[0]

    def find(self, snapshot: Snapshot, inputs: Features) -> tuple[FloatArray, FloatArray]:
        """mu and s of every node and column, [num_nodes, width]; 0 and 1 where a node belongs to no graph."""
        h = np.asarray(inputs[:, : self.width] if isinstance(inputs, np.ndarray) else inputs.toarray()[:, : self.width])
        members, graphs = members_of(snapshot, by_graph=self.by_graph)
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


def _sum_rows(values: FloatArray, groups: IntArray, count: int) -> FloatArray:
    total = np.zeros((count, values.shape[1]))
    np.add.at(total, groups, values)
    return total

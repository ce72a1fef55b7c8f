"""Snapshot + hidden features -> coefficients that depend on them: attention, and a norm's scale of every node.

Each snapshot's own forward pass gives its own coefficients, so a rule here is one aggregation of one layer: rules
compare by identity. The attention of V is a softmax over the edges into V,

    a[V, U] = exp(s[V, U]) / sum over edges U' -> V of exp(s[V, U']),

parallel edges each with a share of their own. `inputs` may be sparse, as a model's features may be.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..errors import TooLarge
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import (
    ANYWHERE,
    SOURCE_TO_TARGET,
    Like,
    Parts,
    Rule,
    Sides,
    assemble,
    diagonal,
    edges_of,
    renew_loops,
)
from .readouts import members_of

LEAST = 1e-12  # what torch takes a length for at least
ATTENDED_PAIRS = 4_000_000  # of nodes that attend to each other without an edge: graphs of 2,000

LOOP = -1  # in place of an edge: a loop that the rule adds


class AttendedEdges(NamedTuple):
    """Edges in one order whatever the user's, so that a sum over them always rounds alike."""

    receivers: IntArray
    senders: IntArray
    edges: IntArray  # place of each in the user's list, LOOP for none


# Sorted once for all heads and layers, and forgotten with their snapshot.
_ORDERED: WeakKeyDictionary[Snapshot, dict[tuple[bool, str], AttendedEdges]] = WeakKeyDictionary()


class Attention(Rule):
    """A softmax of scores, which a rule of its own kind gives to every edge."""

    reads_inputs: ClassVar[bool] = True
    reach: ClassVar[int] = 0

    @property
    def self_loops(self) -> bool:
        """Whether every node gets a loop in place of its own."""
        return False

    @property
    def edge_term(self) -> EdgeTerm | None:
        """What features of edges add to the scores."""
        return None

    @property
    def of_edges(self) -> bool:
        """Features of edges are read from the edges' rows."""
        return self.edge_term is not None

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The shares of the edges into each node, which sum to 1."""
        attended = self.pairs(snapshot)
        return assemble(snapshot, attended.receivers, attended.senders, self.shares(snapshot, inputs))

    def shares(self, snapshot: Snapshot, inputs: Features) -> FloatArray:
        """The share of each of the edges, in their one order."""
        attended = self.pairs(snapshot)
        receivers = attended.receivers
        added = None if self.edge_term is None else self.edge_term.add(snapshot, inputs, attended)
        scores = self.scores(inputs, receivers, attended.senders, added)
        highest = np.full(snapshot.num_nodes, -np.inf)
        np.maximum.at(highest, receivers, scores)
        shares = np.exp(scores - highest[receivers])
        total = np.bincount(receivers, weights=shares, minlength=snapshot.num_nodes)
        return np.asarray(shares / total[receivers])

    def pairs(self, snapshot: Snapshot) -> AttendedEdges:
        """Who attends to whom."""
        return _attended_edges(snapshot, self.self_loops, self.flow)

    @abstractmethod
    def scores(
        self, inputs: Features, receivers: IntArray, senders: IntArray, added: FloatArray | None = None
    ) -> FloatArray:
        """s[V, U] of every edge, [num_edges]; `added` is what features of edges add, [num_edges, channels]."""


@dataclass(frozen=True, eq=False)
class EdgeTerm:
    """What features of edges add to what is compared: e @ weight, e read from the rows of edges.

    A loop that a rule adds has the mean of the features of the edges to its node, as PyG gives it, or one number.
    """

    weight: FloatArray  # [width of the inputs, channels]
    fill: float | None = None  # of a loop's features; None for the mean

    def add(self, snapshot: Snapshot, inputs: Features, attended: AttendedEdges) -> FloatArray:
        """[num_edges, channels] in the order of the attended edges."""
        assert snapshot.edge_rows is not None
        own = np.asarray(inputs[snapshot.edge_rows] @ self.weight)
        is_loop = attended.edges == LOOP
        found = np.zeros((len(is_loop), own.shape[1]))
        found[~is_loop] = own[attended.edges[~is_loop]]
        if not is_loop.any():
            return found
        if self.fill is not None:
            found[is_loop] = self.fill * self.weight.sum(axis=0)
            return found
        source, target = snapshot.edge_index
        others = np.flatnonzero(source != target)
        order = others[np.lexsort((source[others], target[others]))]  # so that a sum always rounds alike
        shape = (snapshot.num_nodes, len(order))
        into = sparse.csr_array((np.ones(len(order)), (target[order], np.arange(len(order)))), shape=shape)
        count = np.maximum(np.bincount(target[order], minlength=snapshot.num_nodes), 1)
        found[is_loop] = ((into @ own[order]) / count[:, None])[attended.receivers[is_loop]]
        return found


@dataclass(frozen=True)
class AlongEdges(Like):
    """The shares of an attention where what is attended to are the edges themselves: a[V, e]."""

    rule: Attention
    of_edges: ClassVar[bool] = True
    from_edges: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = True

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Parallel edges stay apart; loops that the rule adds are no edges."""
        attended = _attended_edges(snapshot, self.rule.self_loops, self.rule.flow)
        own = attended.edges != LOOP
        assert snapshot.edge_rows is not None
        places = attended.receivers[own], snapshot.edge_rows[attended.edges[own]]
        shape = (snapshot.num_nodes, snapshot.num_nodes)
        return sparse.coo_array((self.rule.shares(snapshot, inputs)[own], places), shape=shape).tocsr()


@dataclass(frozen=True, eq=False)
class AdditiveAttention(Attention):
    """s[V, U] = leaky_relu(x[U] @ sender + x[V] @ receiver): one head of GAT."""

    sender: FloatArray  # [width]
    receiver: FloatArray  # [width]
    negative_slope: float
    self_loops: bool = True
    flow: str = SOURCE_TO_TARGET
    edge_term: EdgeTerm | None = None

    def scores(
        self, inputs: Features, receivers: IntArray, senders: IntArray, added: FloatArray | None = None
    ) -> FloatArray:
        """Those of the two ends are computed once per node."""
        sums = (inputs @ self.sender)[senders] + (inputs @ self.receiver)[receivers]
        return _leaky_relu(sums if added is None else sums + added[:, 0], self.negative_slope)


@dataclass(frozen=True, eq=False)
class PairAttention(Attention):
    """s[V, U] = leaky_relu(x[U] @ W_sender + x[V] @ W_receiver + bias) @ direction: one head of GATv2."""

    sender: FloatArray  # [width, channels]
    receiver: FloatArray  # [width, channels]
    bias: FloatArray  # [channels]
    direction: FloatArray  # [channels]
    negative_slope: float
    self_loops: bool = True
    flow: str = SOURCE_TO_TARGET
    edge_term: EdgeTerm | None = None

    def scores(
        self, inputs: Features, receivers: IntArray, senders: IntArray, added: FloatArray | None = None
    ) -> FloatArray:
        """Every edge has a vector of its own before the scores are taken."""
        pairs = (inputs @ self.sender)[senders] + (inputs @ self.receiver + self.bias)[receivers]
        pairs = pairs if added is None else pairs + added
        # Summed row by row, not as a product, whose rounding depends on where in the list an edge stands.
        return np.asarray((_leaky_relu(pairs, self.negative_slope) * self.direction).sum(axis=1))


@dataclass(frozen=True, eq=False)
class DotAttention(Attention):
    """s[V, U] = (x[V] @ W_query + b_query) . (x[U] @ W_key + b_key): one head of a transformer, scale included."""

    query: FloatArray  # [width, channels]
    query_bias: FloatArray  # [channels]
    key: FloatArray  # [width, channels]
    key_bias: FloatArray  # [channels]
    flow: str = SOURCE_TO_TARGET
    edge_term: EdgeTerm | None = None

    def scores(
        self, inputs: Features, receivers: IntArray, senders: IntArray, added: FloatArray | None = None
    ) -> FloatArray:
        """Each end has a vector of its own; the features of an edge join the key."""
        queries, keys = inputs @ self.query + self.query_bias, inputs @ self.key + self.key_bias
        attended = keys[senders] if added is None else keys[senders] + added
        return np.asarray((queries[receivers] * attended).sum(axis=1))


@dataclass(frozen=True, eq=False)
class GlobalAttention(DotAttention):
    """The same from every node to all nodes, or to those of its graph, itself included: GPSConv."""

    by_graph: bool = False
    flow: str = ANYWHERE
    reads_edges: ClassVar[bool] = False
    reach: ClassVar[None] = None  # type: ignore[assignment]  # whoever comes is attended to by all

    def pairs(self, snapshot: Snapshot) -> AttendedEdges:
        """All, if they are not too many."""
        members, graphs = members_of(snapshot, by_graph=self.by_graph)
        size = int((np.bincount(graphs) ** 2).sum())
        if size > ATTENDED_PAIRS:
            raise TooLarge(
                f"Expected at most {ATTENDED_PAIRS:,} pairs of nodes that attend to each other (got {size:,}, of "
                f"{len(members):,} nodes): a layer attends from every node to all of its graph, a coefficient each; "
                "explain smaller graphs, or train with attention along edges."
            )
        parts = [members[graphs == graph] for graph in range(int(graphs.max(initial=-1)) + 1)]
        receivers = np.concatenate([members[:0], *(np.repeat(part, len(part)) for part in parts)])
        senders = np.concatenate([members[:0], *(np.tile(part, len(part)) for part in parts)])
        return AttendedEdges(receivers, senders, np.full(size, LOOP))


@dataclass(frozen=True, eq=False)
class MutualAttention(Attention):
    """s[V, U] = leaky_relu(d), d = scale times h[V] . h[U], h = x W: one head of GeneralConv, and of SuperGAT.

    With `sender` and `receiver`, s[V, U] = leaky_relu((h[U] . sender + h[V] . receiver) sigmoid(d)).
    """

    weight: FloatArray  # [width, channels]
    bias: FloatArray  # [channels]
    scale: float
    negative_slope: float
    self_loops: bool = True
    flow: str = SOURCE_TO_TARGET
    sender: FloatArray | None = None  # [channels]
    receiver: FloatArray | None = None  # [channels]

    def scores(
        self, inputs: Features, receivers: IntArray, senders: IntArray, added: FloatArray | None = None
    ) -> FloatArray:
        """Each end has a vector of its own."""
        h = inputs @ self.weight + self.bias
        alike = (h[receivers] * h[senders]).sum(axis=1) * self.scale
        if self.sender is not None and self.receiver is not None:
            alike = ((h @ self.sender)[senders] + (h @ self.receiver)[receivers]) / (1 + np.exp(-alike))
        return _leaky_relu(alike, self.negative_slope)


@dataclass(frozen=True, eq=False)
class CosineAttention(Attention):
    """s[V, U] = beta times the cosine of x[V] and x[U]: AGNN."""

    beta: float
    self_loops: bool = True
    flow: str = SOURCE_TO_TARGET

    def scores(
        self, inputs: Features, receivers: IntArray, senders: IntArray, added: FloatArray | None = None
    ) -> FloatArray:
        """Of vectors of length 1."""
        dense = _dense(inputs)
        units = dense / np.maximum(np.sqrt((dense * dense).sum(axis=1, keepdims=True)), LEAST)
        return np.asarray(self.beta * (units[receivers] * units[senders]).sum(axis=1))


@dataclass(frozen=True, eq=False)
class SignedAttention(Like):
    """Another rule's coefficients times tanh(x[U] @ sender + x[V] @ receiver): FAConv."""

    sender: FloatArray  # [width]
    receiver: FloatArray  # [width]
    reads_inputs: ClassVar[bool] = True
    __eq__, __hash__ = object.__eq__, object.__hash__  # by identity, unlike what it extends

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Parallel edges have one factor in common."""
        matrix = self.rule.matrix(snapshot, inputs)
        receivers = np.repeat(np.arange(snapshot.num_nodes), np.diff(matrix.indptr))
        sums = (inputs @ self.sender)[matrix.indices] + (inputs @ self.receiver)[receivers]
        return sparse.csr_array((matrix.data * np.tanh(sums), matrix.indices, matrix.indptr), shape=matrix.shape)


@dataclass(frozen=True, eq=False)
class SharedMean(Rule):
    """a[V, U] = the share of one of several heads in the edge, a softmax over heads of x[U] - x[V], over the number of
    edges into V (or not): FeaStConv."""

    directions: FloatArray  # [width, heads]
    bias: FloatArray  # [heads]
    head: int
    mean: bool = True
    self_loops: bool = True
    flow: str = SOURCE_TO_TARGET
    reads_inputs: ClassVar[bool] = True
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The shares of the heads in an edge sum to 1."""
        receivers, senders, _ = _attended_edges(snapshot, self.self_loops, self.flow)
        ends = np.asarray(inputs @ self.directions)
        scores = ends[senders] - ends[receivers] + self.bias
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares = shares[:, self.head] / shares.sum(axis=1)
        count = np.bincount(receivers, minlength=snapshot.num_nodes) if self.mean else np.ones(snapshot.num_nodes)
        return assemble(snapshot, receivers, senders, shares / count[receivers])


@dataclass(frozen=True, eq=False)
class InverseLength(Rule):
    """a[V, V] = 1 / |x[V]|, or 1 where all features are 0: what gives every other node's features the length 1."""

    least: float = LEAST  # no length is taken for less
    beside: bool = False  # it is added to every length instead
    local: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """One number per node."""
        dense = _dense(inputs)
        length = np.sqrt((dense * dense).sum(axis=1))
        divisor = length + self.least if self.beside else np.maximum(length, self.least)
        # Of nothing any number makes nothing: 1 / least would turn the rounding of a replay into something.
        return diagonal(snapshot, 1 / np.where(length == 0.0, 1.0, divisor))


@dataclass(frozen=True, eq=False)
class InverseDeviation(Rule):
    """a[V, V] = 1 / sqrt(mean of x[V]^2 + eps): the scale that LayerNorm gives a node whose features it has centred."""

    eps: float
    local: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """One number per node."""
        dense = _dense(inputs)
        return diagonal(snapshot, 1 / np.sqrt((dense * dense).mean(axis=1) + self.eps))


@dataclass(frozen=True)
class ReadColumns(Like):
    """A rule that is shown a range of the columns of a layer's inputs only."""

    start: int
    stop: int
    reads_inputs: ClassVar[bool] = True

    @property
    def family(self) -> Rule:
        """That of the rule, where it is one of several columns."""
        return self if self.rule.family is self.rule else self.rule.family

    @property
    def divides(self) -> str:
        """As the rule itself."""
        return self.rule.divides

    def divide(self, sides: Sides) -> Parts:
        """As the rule itself."""
        before, after = (inputs[:, self.start : self.stop] for inputs in sides.inputs)
        return self.rule.divide(sides._replace(inputs=(before, after)))

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The rule's own matrix."""
        return self.rule.matrix(snapshot, inputs[:, self.start : self.stop])


def _attended_edges(snapshot: Snapshot, self_loops: bool, flow: str) -> AttendedEdges:
    """The edges in order, every loop renewed where wanted."""
    known = _ORDERED.setdefault(snapshot, {})
    if (self_loops, flow) not in known:
        receivers, senders, _ = edges_of(snapshot, False, flow)
        edges = np.arange(len(receivers), dtype=np.float64)
        if self_loops:
            loops = np.full(snapshot.num_nodes, float(LOOP))
            receivers, senders, edges = renew_loops(snapshot, receivers, senders, edges, loops)
        # Parallel edges in the order of their rows: both snapshots have that in common.
        rows = edges if snapshot.edge_rows is None else np.append(snapshot.edge_rows, LOOP)[edges.astype(np.int64)]
        order = np.lexsort((rows, senders, receivers))
        known[self_loops, flow] = AttendedEdges(receivers[order], senders[order], edges[order].astype(np.int64))
    return known[self_loops, flow]


def _dense(inputs: Features) -> FloatArray:
    return np.asarray(inputs if isinstance(inputs, np.ndarray) else inputs.toarray())


def _leaky_relu(values: FloatArray, negative_slope: float) -> FloatArray:
    return np.where(values > 0, values, negative_slope * values)

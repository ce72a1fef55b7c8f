"""Snapshot + hidden features -> coefficients that depend on them: attention, and a norm's scale of every node.

Each snapshot's own forward pass gives its own coefficients, so a rule here is one aggregation of one layer: rules
compare by identity. The attention of V is a softmax over the edges into V,

    a[V, U] = exp(s[V, U]) / sum over edges U' -> V of exp(s[V, U']),

parallel edges each with a share of their own. `inputs` may be sparse, as a model's features may be.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import SOURCE_TO_TARGET, Like, Parts, Rule, Sides, assemble, diagonal, edges_of, renew_loops

# Receivers and senders in one order whatever the user's, so that a sum over them always rounds alike: sorted once for
# all heads and layers, and forgotten with their snapshot.
_ORDERED: WeakKeyDictionary[Snapshot, dict[tuple[bool, str], tuple[IntArray, IntArray]]] = WeakKeyDictionary()


class Attention(Rule):
    """A softmax of scores, which a rule of its own kind gives to every edge."""

    reads_inputs: ClassVar[bool] = True
    reach: ClassVar[int] = 0

    @property
    def self_loops(self) -> bool:
        """Whether every node gets a loop in place of its own."""
        return False

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The shares of the edges into each node, which sum to 1."""
        receivers, senders = _attended_edges(snapshot, self.self_loops, self.flow)
        scores = self.scores(inputs, receivers, senders)
        highest = np.full(snapshot.num_nodes, -np.inf)
        np.maximum.at(highest, receivers, scores)
        shares = np.exp(scores - highest[receivers])
        total = np.bincount(receivers, weights=shares, minlength=snapshot.num_nodes)
        return assemble(snapshot, receivers, senders, np.asarray(shares / total[receivers]))

    @abstractmethod
    def scores(self, inputs: Features, receivers: IntArray, senders: IntArray) -> FloatArray:
        """s[V, U] of every edge, [num_edges]."""


@dataclass(frozen=True, eq=False)
class AdditiveAttention(Attention):
    """s[V, U] = leaky_relu(x[U] @ W_sender + x[V] @ W_receiver + bias) @ direction: one head of GAT and of GATv2."""

    sender: FloatArray  # [width, channels]; of GAT one channel
    receiver: FloatArray  # [width, channels]
    bias: FloatArray  # [channels]
    direction: FloatArray  # [channels]
    negative_slope: float
    self_loops: bool = True
    flow: str = SOURCE_TO_TARGET

    def scores(self, inputs: Features, receivers: IntArray, senders: IntArray) -> FloatArray:
        """Every edge has a vector of its own before the scores are taken."""
        pairs = (inputs @ self.sender)[senders] + (inputs @ self.receiver + self.bias)[receivers]
        bent = np.where(pairs > 0, pairs, self.negative_slope * pairs)
        # Summed row by row, not as a product, whose rounding depends on where in the list an edge stands.
        return np.asarray((bent * self.direction).sum(axis=1))


@dataclass(frozen=True, eq=False)
class DotAttention(Attention):
    """s[V, U] = (x[V] @ W_query + b_query) . (x[U] @ W_key + b_key): one head of a transformer, scale included."""

    query: FloatArray  # [width, channels]
    query_bias: FloatArray  # [channels]
    key: FloatArray  # [width, channels]
    key_bias: FloatArray  # [channels]
    flow: str = SOURCE_TO_TARGET

    def scores(self, inputs: Features, receivers: IntArray, senders: IntArray) -> FloatArray:
        """Each end has a vector of its own."""
        queries, keys = inputs @ self.query + self.query_bias, inputs @ self.key + self.key_bias
        return np.asarray((queries[receivers] * keys[senders]).sum(axis=1))


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
        dense = np.asarray(inputs if isinstance(inputs, np.ndarray) else inputs.toarray())
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


def _attended_edges(snapshot: Snapshot, self_loops: bool, flow: str) -> tuple[IntArray, IntArray]:
    """Receivers and senders in order, every loop renewed where wanted."""
    known = _ORDERED.setdefault(snapshot, {})
    if (self_loops, flow) not in known:
        receivers, senders, ones = edges_of(snapshot, False, flow)
        if self_loops:
            receivers, senders, _ = renew_loops(snapshot, receivers, senders, ones, np.ones(snapshot.num_nodes))
        order = np.lexsort((senders, receivers))
        known[self_loops, flow] = receivers[order], senders[order]
    return known[self_loops, flow]

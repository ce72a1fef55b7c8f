"""Attention over several relations at once: shares of the edges of all relations into a node, or of whole relations.

As in attention.py, each snapshot's own pass gives its own coefficients, and rules compare by identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import Rule, assemble, diagonal, edges_of
from .relations import EndTypes, cut_relation


@dataclass(frozen=True, eq=False)
class RelationScores:
    """s[V, U] = (x[V] @ query + query_bias) . (x[U] @ key + key_bias) for the edges of one relation."""

    relation: int
    ends: EndTypes
    query: FloatArray  # [width, channels]
    query_bias: FloatArray  # [channels]
    key: FloatArray  # [width, channels]
    key_bias: FloatArray  # [channels]

    def find(self, snapshot: Snapshot, inputs: Features) -> tuple[IntArray, IntArray, FloatArray]:
        """Receivers, senders and scores, in one order whatever the user's."""
        receivers, senders, _ = edges_of(cut_relation(snapshot, self.relation, self.ends), False, "source_to_target")
        order = np.lexsort((senders, receivers))
        receivers, senders = receivers[order], senders[order]
        queries, keys = inputs @ self.query + self.query_bias, inputs @ self.key + self.key_bias
        return receivers, senders, np.asarray((queries[receivers] * keys[senders]).sum(axis=1))


@dataclass(frozen=True, eq=False)
class JointAttention(Rule):
    """a[V, U] = the share of an edge of one relation among the edges of all relations into V: one head of HGT."""

    parts: tuple[RelationScores, ...]  # of all relations into the type of V
    place: int  # of the relation among them
    reads_inputs: ClassVar[bool] = True
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The shares of all relations together sum to 1."""
        found = [part.find(snapshot, inputs) for part in self.parts]
        highest, total = np.full(snapshot.num_nodes, -np.inf), np.zeros(snapshot.num_nodes)
        for receivers, _, scores in found:
            np.maximum.at(highest, receivers, scores)
        shares = [np.exp(scores - highest[receivers]) for receivers, _, scores in found]
        for (receivers, _, _), part in zip(found, shares, strict=True):
            total += np.bincount(receivers, weights=part, minlength=snapshot.num_nodes)
        receivers, senders, _ = found[self.place]
        return assemble(snapshot, receivers, senders, shares[self.place] / total[receivers])


@dataclass(frozen=True, eq=False)
class RelationShare(Rule):
    """a[V, V] = the share of one relation, a softmax over relations of the mean over all nodes of a type: HAN.

    The inputs are what the relations gave, side by side, tanh(x @ weight + bias) . direction the score of one.
    """

    weight: FloatArray  # [width, channels]
    bias: FloatArray  # [channels]
    direction: FloatArray  # [channels]
    place: int  # of the relation among them
    node_type: int
    local: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = True

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """One number for all nodes of the type."""
        assert snapshot.node_types is not None
        here = snapshot.present & (snapshot.node_types == self.node_type)
        width = len(self.weight)
        dense = np.asarray(inputs if isinstance(inputs, np.ndarray) else inputs.toarray())[here]
        parts = [dense[:, i : i + width] for i in range(0, dense.shape[1], width)]
        scores = np.array([np.tanh(part @ self.weight + self.bias).mean(axis=0) @ self.direction for part in parts])
        shares = np.exp(scores - scores.max(initial=-np.inf))
        values = np.full(snapshot.num_nodes, shares[self.place] / shares.sum() if here.any() else 0.0)
        return diagonal(snapshot, np.where(here, values, 0.0))

"""Snapshot -> sparse matrix of coefficients: how much node V takes of node U in one aggregation.

A rule is a small frozen value with `matrix(snapshot, inputs)`, the coefficients a[V, U] as CSR [num_nodes,
num_nodes], rows receiving. Equal rules give equal matrices on one snapshot unless they read the `inputs` (the hidden
features that the layer receives, which attention needs); such a rule says `reads_inputs = True`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy import sparse

from .activations import FloatArray, IntArray
from .snapshot import Features, Snapshot


class Coefficients(Protocol):
    """What every rule offers."""

    local: ClassVar[bool]  # only V = U: a path stays at its node
    reads_inputs: ClassVar[bool]

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """a[V, U], [num_nodes, num_nodes]."""
        ...


@dataclass(frozen=True)
class Identity:
    """a[V, V] = 1: root terms, residual connections, per-node Linear layers."""

    local: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = False

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """1 on the diagonal of the nodes that are present."""
        return _assemble(snapshot, *_loops(snapshot), np.ones(int(snapshot.present.sum())))


@dataclass(frozen=True)
class Sum:
    """a[V, U] = the weight of the edge from U to V, or 1: element-wise sum of the incoming messages."""

    weighted: bool = False
    flow: str = "source_to_target"
    local: ClassVar[bool] = False
    reads_inputs: ClassVar[bool] = False

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Adjacency, transposed so that rows receive."""
        return _assemble(snapshot, *_edges(snapshot, self.weighted, self.flow))


@dataclass(frozen=True)
class SymmetricNorm:
    """a[V, U] = w[V, U] / sqrt(d[V] d[U]), d the sum of incoming weights: GCN's normalisation."""

    weighted: bool = False
    self_loops: float | None = 1.0  # weight of the loop given to nodes that have none; None for no loops
    flow: str = "source_to_target"
    local: ClassVar[bool] = False
    reads_inputs: ClassVar[bool] = False

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Loops added where wanted, then both ends divided by the root of their degree."""
        receivers, senders, weights = _edges(snapshot, self.weighted, self.flow)
        if self.self_loops is not None:
            # As in PyG, a node that already has a loop keeps its weight (the last one listed, if several).
            loop_weights = np.where(snapshot.present, self.self_loops, 0.0)
            is_loop = receivers == senders
            loop_weights[receivers[is_loop]] = weights[is_loop]
            nodes, _ = _loops(snapshot)
            receivers = np.concatenate([receivers[~is_loop], nodes])
            senders = np.concatenate([senders[~is_loop], nodes])
            weights = np.concatenate([weights[~is_loop], loop_weights[nodes]])
        degree = np.bincount(receivers, weights=weights, minlength=snapshot.num_nodes)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = degree**-0.5
        scale[np.isinf(scale)] = 0.0
        return _assemble(snapshot, receivers, senders, scale[senders] * weights * scale[receivers])


def _edges(snapshot: Snapshot, weighted: bool, flow: str) -> tuple[IntArray, IntArray, FloatArray]:
    senders, receivers = snapshot.edge_index if flow == "source_to_target" else snapshot.edge_index[::-1]
    if weighted and snapshot.edge_weight is not None:
        return receivers, senders, snapshot.edge_weight
    return receivers, senders, np.ones(len(senders))


def _loops(snapshot: Snapshot) -> tuple[IntArray, IntArray]:
    nodes = np.flatnonzero(snapshot.present)
    return nodes, nodes


def _assemble(snapshot: Snapshot, receivers: IntArray, senders: IntArray, weights: FloatArray) -> sparse.csr_array:
    shape = (snapshot.num_nodes, snapshot.num_nodes)
    matrix = sparse.coo_array((weights, (receivers, senders)), shape=shape).tocsr()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix

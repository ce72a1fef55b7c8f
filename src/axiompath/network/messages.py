"""Snapshot with edges as places -> how much an edge takes of its ends, and a node of the edges into it.

A message that is more than a weighted part of what is sent is made on its edge: what both ends hold is gathered there,
an activation, a network or a product acts on it as on any place, and the result is handed to the receiver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import SOURCE_TO_TARGET, Like, Rule

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


class Weighing(Like):
    """Another rule's coefficients with weights of edges that the network makes of their features."""

    of_edges: ClassVar[bool] = True
    weighted: ClassVar[bool] = False  # by no weights of the data
    reads_inputs: ClassVar[bool] = True
    __eq__, __hash__ = object.__eq__, object.__hash__  # by identity, unlike what it extends

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The rule's own, with these weights."""
        rows = inputs[rows_of_edges(snapshot)]
        features = np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray())
        return self.rule.matrix(replace(snapshot, edge_weight=self.weights(features)), inputs)

    def weights(self, features: FloatArray) -> FloatArray:
        """One number per edge, computed from its row of the inputs. [num_edges]."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Weighed(Weighing):
    """w[e] = the one column of the inputs."""

    def weights(self, features: FloatArray) -> FloatArray:
        """As they are."""
        return np.ascontiguousarray(features[:, 0])


@dataclass(frozen=True, eq=False)
class Gaussian(Weighing):
    """w[e] = exp(- sum over d of (x[e, d] - mean[d])^2 / (2 variance[d])): one kernel of GMMConv."""

    mean: FloatArray  # [width]
    variance: FloatArray  # [width]

    def weights(self, features: FloatArray) -> FloatArray:
        """By where the pseudo-coordinates lie."""
        return np.asarray(np.exp(-0.5 * ((features - self.mean) ** 2 / self.variance).sum(axis=1)))


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

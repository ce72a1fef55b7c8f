"""Snapshot -> coefficients that are functions of degrees: parts of the Laplacian, scales of a node, loops added beside.

Rules as in coefficients.py, for convolutions that do more with a degree than divide by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import SOURCE_TO_TARGET, Like, Rule, assemble, edges_of, renew_loops


@dataclass(frozen=True)
class Laplacian(Rule):
    """a = 2 L / lambda - I, L the graph's Laplacian: Chebyshev's filter.

    Degrees count what a node sends along its edges, and without `largest` lambda is twice the largest entry of L, both
    as in PyG: they lie anywhere in the graph.
    """

    normalization: str | None  # sym, rw, or None for D - A
    largest: float | None = None  # lambda, where the user says it
    weighted: bool = False
    flow: str = SOURCE_TO_TARGET

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Every node has one loop, whatever loops the graph has."""
        sources, targets, weights = edges_of(snapshot, self.weighted, "target_to_source")
        others = sources != targets
        degree = _sums(sources[others], weights[others], snapshot.num_nodes)
        loops = degree if self.normalization is None else np.ones(snapshot.num_nodes)
        sources, targets, values = renew_loops(snapshot, sources, targets, -weights, loops)
        apart = sources != targets
        if self.normalization is not None:
            scale = _inverse(degree, 0.5 if self.normalization == "sym" else 1.0)
            values[apart] *= scale[sources[apart]]
            if self.normalization == "sym":
                values[apart] *= scale[targets[apart]]
        largest = self.largest if self.largest is not None else 2.0 * values.max(initial=-np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = 2.0 * values / largest
        values[np.isposinf(values)] = 0.0
        values[~apart] -= 1.0
        ends = (targets, sources) if self.flow == SOURCE_TO_TARGET else (sources, targets)
        return assemble(snapshot, *ends, values)


@dataclass(frozen=True)
class WeightedMean(Rule):
    """a[V, U] = the weight of the edge from U to V over the sum of those into V."""

    weighted: bool = False
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """A node whose weights sum to 0 takes nothing."""
        receivers, senders, weights = edges_of(snapshot, self.weighted, self.flow)
        scale = _inverse(_sums(receivers, weights, snapshot.num_nodes), 1.0)
        return assemble(snapshot, receivers, senders, np.asarray(weights * scale[receivers]))


@dataclass(frozen=True)
class Looped(Like):
    """Another rule, on the graph in which every node has a loop: one beside its own, or one in their place.

    Where edges are places, that of a loop which is added is its node.
    """

    beside: bool

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The rule's own matrix there."""
        nodes = np.flatnonzero(snapshot.present)
        kept = np.full(snapshot.edge_index.shape[1], True)
        if not self.beside:
            kept = snapshot.edge_index[0] != snapshot.edge_index[1]
        edge_index = np.concatenate([snapshot.edge_index[:, kept], np.stack([nodes, nodes])], axis=1)
        weights = snapshot.edge_weight
        if weights is not None:
            weights = np.concatenate([weights[kept], np.ones(len(nodes))])
        rows = snapshot.edge_rows
        if rows is not None:
            rows = np.concatenate([rows[kept], nodes])
        looped = replace(snapshot, edges=edge_index, edge_weight=weights, edge_rows=rows)
        return self.rule.matrix(looped, inputs)


def _sums(places: IntArray, weights: FloatArray, num_places: int) -> FloatArray:
    return np.asarray(np.bincount(places, weights=weights, minlength=num_places), dtype=np.float64)


def _inverse(values: FloatArray, power: float) -> FloatArray:
    """values ** -power, 0 where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = values**-power
    inverse[np.isinf(inverse)] = 0.0
    return np.asarray(inverse)

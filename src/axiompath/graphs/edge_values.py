"""Weight and features of edges, as one number per edge: equal weight and features have equal numbers, in their order.

Whatever compares, lists or exchanges edges by one number each does so with these, and they are taken back to weights
and features where a model is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from .snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class EdgeValues:
    """Weight and features by number."""

    weights: FloatArray | None  # [num_values]; None where edges have none
    features: FloatArray  # [num_values, num_edge_features]

    def weights_of(self, numbers: FloatArray) -> FloatArray:
        """Weight of each, 1 where edges have none; nan stays nan."""
        known = np.isfinite(numbers)
        found = np.full(len(numbers), np.nan)
        found[known] = 1.0 if self.weights is None else self.weights[numbers[known].astype(np.int64)]
        return found

    def same_features(self, numbers: FloatArray, others: FloatArray) -> BoolArray:
        """Whether edges of these numbers have the same features."""
        first, second = (self.features[part.astype(np.int64)] for part in (numbers, others))
        return np.asarray((first == second).all(axis=1))

    def restore(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot that has numbers for weights, with the weights and features that they stand for."""
        assert snapshot.edge_weight is not None
        numbers = snapshot.edge_weight.astype(np.int64)
        weights = None if self.weights is None else self.weights[numbers]
        return replace(snapshot, edge_weight=weights, edge_attr=self.features[numbers])


def number_values(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot, EdgeValues]:
    """Two snapshots with edge features -> the same with one number per edge as weight, and what these mean."""
    given = np.concatenate([edge_values(side) for side in (before, after)])
    values, numbers = np.unique(given, axis=0, return_inverse=True)
    ends = np.split(numbers.reshape(-1).astype(np.float64), [before.edge_index.shape[1]])
    sides = [replace(side, edge_weight=own, edge_attr=None) for side, own in zip((before, after), ends, strict=True)]
    weighted = before.edge_weight is not None
    table = EdgeValues(values[:, 0] if weighted else None, values[:, int(weighted) :])
    return sides[0], sides[1], table


def number_edges(before: Snapshot, after: Snapshot) -> tuple[IntArray, IntArray]:
    """A number for each edge of both, the same for the same weight and features, ascending by these."""
    given = np.concatenate([edge_values(side) for side in (before, after)])
    numbers = np.zeros(len(given), dtype=np.int64)
    if given.shape[1]:
        numbers = np.unique(given, axis=0, return_inverse=True)[1].reshape(-1)
    size = before.edge_index.shape[1]
    return numbers[:size], numbers[size:]


def edge_values(snapshot: Snapshot) -> FloatArray:
    """Weight and features of each edge, as far as it has any. [num_edges, columns]."""
    size = snapshot.edge_index.shape[1]
    weights = np.zeros((size, 0)) if snapshot.edge_weight is None else snapshot.edge_weight[:, None]
    return np.hstack([weights, np.zeros((size, 0)) if snapshot.edge_attr is None else snapshot.edge_attr])

"""Weight and features of edges, as one number per edge: equal weight and features have equal numbers, in their order.

Whatever compares, lists or exchanges edges by one number each does so with these, and they are taken back to weights
and features where a model is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def edge_keys(before: Snapshot, after: Snapshot) -> tuple[list[IntArray], int]:
    """A number for each edge of both, the same for the same ends and relation; and the number of relations."""
    sides = before, after
    types = [0 if side.edge_types is None else side.edge_types for side in sides]
    num_types = 1 + max(int(np.max(of, initial=0)) for of in types)
    keys = [side.edge_index[0] * before.num_nodes + side.edge_index[1] for side in sides]
    return [key * num_types + of for key, of in zip(keys, types, strict=True)], num_types


def match_edges(keys: Sequence[IntArray], values: Sequence[IntArray | FloatArray]) -> IntArray:
    """The edge before that each edge after is, -1 for none: of one key, first those of one value, then in order of it.

    [number of edges after]; of equal edges the first goes with the first.
    """
    size = len(keys[0])
    if np.array_equal(keys[0], keys[1]) and np.array_equal(values[0], values[1]):
        return np.arange(size)
    key, value = np.concatenate(keys), np.concatenate(values)
    order = np.lexsort((value, key))
    numbers = np.zeros(len(key), dtype=np.int64)  # of key and value, ascending
    differs = (np.diff(key[order]) != 0) | (np.diff(value[order]) != 0)
    numbers[order[1:]] = np.cumsum(differs)
    partner = _pair_up(numbers[:size], numbers[size:])
    before = np.setdiff1d(np.arange(size), partner)
    before, after = before[np.argsort(numbers[before], kind="stable")], np.flatnonzero(partner < 0)
    after = after[np.argsort(numbers[size + after], kind="stable")]
    second = _pair_up(keys[0][before], keys[1][after])
    partner[after[second >= 0]] = before[second[second >= 0]]
    return partner


def _pair_up(groups: IntArray, others: IntArray) -> IntArray:
    """For each of the others the place of the one of its group that is listed as early; -1 for none."""
    order, rows = np.argsort(groups, kind="stable"), np.argsort(others, kind="stable")
    known, wanted = groups[order], others[rows]
    place = np.searchsorted(known, wanted) + np.arange(len(wanted)) - np.searchsorted(wanted, wanted)
    found = place < np.searchsorted(known, wanted, side="right")
    partner = np.full(len(others), -1)
    partner[rows[found]] = order[place[found]]
    return partner


def edge_values(snapshot: Snapshot) -> FloatArray:
    """Weight and features of each edge, as far as it has any. [num_edges, columns]."""
    size = snapshot.edge_index.shape[1]
    weights = np.zeros((size, 0)) if snapshot.edge_weight is None else snapshot.edge_weight[:, None]
    return np.hstack([weights, np.zeros((size, 0)) if snapshot.edge_attr is None else snapshot.edge_attr])

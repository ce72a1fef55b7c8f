"""(Snapshot before, Snapshot after) -> Difference: what changed between two graphs, before any model looks at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .activations import BoolArray, FloatArray, IntArray
from .snapshot import Snapshot, differing_features

ADDED, REMOVED, REWEIGHTED = "added", "removed", "reweighted"


@dataclass(frozen=True, eq=False)
class Difference:
    """Nodes and edges that differ, in the user's node numbers. Parallel edges count as one of their summed weight."""

    nodes_added: IntArray  # [num]
    nodes_removed: IntArray  # [num]
    features_changed: IntArray  # [num], of nodes in both snapshots
    edges: IntArray  # [num, 2]: sender, receiver
    changes: tuple[str, ...]  # [num]: added, removed or reweighted
    weights_before: FloatArray  # [num]: 0 where there was no edge
    weights_after: FloatArray  # [num]

    def count(self, change: str) -> int:
        """How many directed edges were added, removed or reweighted."""
        return self.changes.count(change)


def find_difference(before: Snapshot, after: Snapshot) -> Difference:
    """Compare two aligned snapshots."""
    ids = before.node_ids
    both = before.present & after.present
    keys, weights_before, weights_after, there_before, there_after = _join_edges(before, after)
    differs = (there_before != there_after) | (weights_before != weights_after)
    keys, weights_before, weights_after = keys[differs], weights_before[differs], weights_after[differs]
    kinds = np.where(~there_before, ADDED, np.where(~there_after, REMOVED, REWEIGHTED))[differs]
    num_nodes = before.num_nodes
    return Difference(
        nodes_added=ids[~before.present & after.present],
        nodes_removed=ids[before.present & ~after.present],
        features_changed=ids[differing_features(before, after) & both],
        edges=np.stack([ids[keys // num_nodes], ids[keys % num_nodes]], axis=1),
        changes=tuple(kinds.tolist()),
        weights_before=weights_before,
        weights_after=weights_after,
    )


def _join_edges(before: Snapshot, after: Snapshot) -> tuple[IntArray, FloatArray, FloatArray, BoolArray, BoolArray]:
    """Every pair (u, v) of either graph as u * num_nodes + v; its weight and whether it is there, in both."""
    num_nodes = before.num_nodes
    keys = [s.edge_index[0] * num_nodes + s.edge_index[1] for s in (before, after)]
    unique, place = np.unique(np.concatenate(keys), return_inverse=True)
    sides = []
    for snapshot, where in ((before, place[: len(keys[0])]), (after, place[len(keys[0]) :])):
        ones = np.ones(len(where))
        weights = ones if snapshot.edge_weight is None else snapshot.edge_weight
        total = np.bincount(where, weights, minlength=len(unique)).astype(np.float64)
        sides.append((total, np.bincount(where, minlength=len(unique)) > 0))
    (weights_before, there_before), (weights_after, there_after) = sides
    return unique, weights_before, weights_after, there_before, there_after

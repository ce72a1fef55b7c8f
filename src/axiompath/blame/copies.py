"""ReceptiveField + subsets -> logits, by the network's own pass on copies of the graph, side by side as one.

Correct for every rule that looks no further than its own copy; others have a pass of their own for every subset. This
is the slow and literal way: what `variants` is held against, and what answers for rules that it does not know.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..arrays import BoolArray, FloatArray
from ..graphs.data_fields import Features
from ..graphs.places import GRAPHS, LINKS, Places
from ..graphs.snapshot import Snapshot
from ..graphs.values import types_of, weights_of
from ..graphs.widened import widen_graph
from ..network.layers import Network, run_network
from .receptive_field import ReceptiveField
from .root import RootPlace

COPIED_NUMBERS = 8 * 10**6  # of features, in all copies of one pass


def run_copies(network: Network, field: ReceptiveField, root: RootPlace, subsets: BoolArray) -> FloatArray:
    """Logits of the root with exactly these changes applied. [num_subsets, num_logits]."""
    far = any(rule.reach is None for layer in network.layers for rule in layer.rules if not rule.rises)
    size = max(field.num_nodes, 1) * max(field.pair.before.graph.num_features, 1)
    step = 1 if far else max(1, COPIED_NUMBERS // size)
    both = _both_features(field)
    found = [_run(network, field, root, subsets[start : start + step], both) for start in range(0, len(subsets), step)]
    return np.concatenate([np.zeros((0, network.num_classes)), *found])


def _run(network: Network, field: ReceptiveField, root: RootPlace, subsets: BoolArray, both: Features) -> FloatArray:
    snapshot = copy_graph(field, root, subsets, both)
    logits = run_network(network, widen_graph(snapshot) if network.takes_edges else snapshot).logits
    if root.kind == "node":
        logits = logits[np.arange(len(subsets)) * field.num_nodes + root.nodes[0]]
    return np.asarray(logits)


def copy_graph(field: ReceptiveField, root: RootPlace, subsets: BoolArray, both: Features | None = None) -> Snapshot:
    """One snapshot of a copy of the graph for each subset, with exactly its changes applied."""
    num_copies, num_nodes = len(subsets), field.num_nodes
    hold = np.concatenate([field.conditions.hold(subsets), np.ones((1, num_copies), dtype=np.bool_)])
    copy, edge = np.nonzero(hold[field.condition].T)
    shift = copy * num_nodes
    edge_index = np.stack([field.senders[edge] + shift, field.receivers[edge] + shift])
    present = hold[field.presence].T.reshape(-1)
    changed = np.concatenate([subsets, np.zeros((num_copies, 1), dtype=np.bool_)], axis=1)[:, field.feature_player]
    both = _both_features(field) if both is None else both
    x = both[(np.arange(num_nodes) + num_nodes * changed).reshape(-1)]
    values = field.weights[edge]
    weights = weights_of(values) if field.weighted else None
    places = _places(root, num_copies, num_nodes, present)
    copied = Snapshot(
        x,
        edge_index,
        weights,
        np.arange(num_copies * num_nodes),
        present,
        places=places,
        edge_types=types_of(values),
        node_types=None if field.node_types is None else np.tile(field.node_types, num_copies),
    )
    return copied if field.pair.values is None else field.pair.values.restore(copied)


def _both_features(field: ReceptiveField) -> Features:
    """Features of all nodes without their change, then with it; of those that are only counted, none."""
    nodes = np.flatnonzero(field.inner)
    parts = [field.features(nodes, applied=applied) for applied in (False, True)]
    place = np.concatenate([nodes, nodes + field.num_nodes])
    if any(sparse.issparse(part) for part in parts):
        stacked = sparse.coo_array(sparse.vstack([sparse.csr_array(part) for part in parts]))
        shape = (2 * field.num_nodes, stacked.shape[1])
        return sparse.csr_array((stacked.data, (place[stacked.row], stacked.col)), shape=shape)
    x = np.zeros((2 * field.num_nodes, parts[0].shape[1]))
    x[place] = np.concatenate(parts)
    return x


def _places(root: RootPlace, num_copies: int, num_nodes: int, present: BoolArray) -> Places | None:
    ids, everywhere = np.arange(num_copies), np.ones(num_copies, dtype=np.bool_)
    if root.kind == "node":
        return None
    if root.kind == "link":
        return Places(LINKS, np.stack([ids, ids], axis=1), root.nodes[:, None] + ids * num_nodes, everywhere)
    member = np.zeros(num_nodes, dtype=np.bool_)
    member[root.nodes] = True
    here = np.tile(member, num_copies) & present
    return Places(GRAPHS, ids, np.where(here, np.repeat(ids, num_nodes), -1), everywhere)

"""Graphs -> small Data objects to read a model on: nodes that a change touches and some others, and their senders.

A model is read from what it does on a graph, and any graph will do: where the whole one is large, the reading is made
and checked on about MAX_EDGES edges of each snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data

from .activations import BoolArray, FloatArray, IntArray
from .pair import Side, StoredPair
from .snapshot import Snapshot, to_torch_csr
from .stored import SparseRows, release_graph, take_features
from .sweeps import copy_rows

MAX_EDGES = 100_000
WHOLE_EDGES = 2_000_000  # up to here a graph is small enough to run the model on all of it
NUM_SEEDS = 64  # touched nodes, and as many random ones
NUM_ROUNDS = 3  # rings of senders around them

# Rows -> positions (sender's row, receiver's row) and weights of at most so many edges into them.
EdgesInto = Callable[[IntArray, int], tuple[IntArray, IntArray, FloatArray | None]]


def sample_pair(pair: StoredPair) -> tuple[Data, Data]:
    """Samples of two stored graphs, around nodes whose edges or features differ."""
    differ = pair.touched | pair.altered
    return _sample_side(pair.before, differ), _sample_side(pair.after, differ)


def sample_snapshots(before: Snapshot, after: Snapshot) -> tuple[Data, Data]:
    """Samples of two aligned snapshots in memory, around nodes whose number of incoming edges differs."""
    degrees = [np.bincount(side.edge_index[1], minlength=side.num_nodes) for side in (before, after)]
    differ = degrees[0] != degrees[1]
    return _sample_snapshot(before, differ), _sample_snapshot(after, differ)


def to_data(snapshot: Snapshot, dtype: torch.dtype) -> Data:
    """The nodes of a snapshot that are present, as torch_geometric Data with `n_id`."""
    rows = np.flatnonzero(snapshot.present)
    x = snapshot.x[rows]
    features = to_torch_csr(sparse.csr_array(x), dtype) if sparse.issparse(x) else torch.from_numpy(x).to(dtype)
    edge_index = torch.from_numpy(np.searchsorted(rows, snapshot.edge_index))
    data = Data(x=features, edge_index=edge_index, n_id=torch.from_numpy(snapshot.node_ids[rows]))
    if snapshot.edge_weight is not None:
        data.edge_weight = torch.from_numpy(snapshot.edge_weight).to(dtype)
    return data


def dtype_of(x: Any) -> torch.dtype:
    """The torch type of stored features."""
    kind = (x.data if isinstance(x, SparseRows) else x).dtype
    return torch.float64 if kind == np.float64 else torch.float32


def _sample_side(side: Side, differ: BoolArray) -> Data:
    graph = side.graph
    indptr, senders, weights = side.edges

    def edges_into(rows: IntArray, room: int) -> tuple[IntArray, IntArray, FloatArray | None]:
        ends = np.minimum(np.cumsum(indptr[rows + 1] - indptr[rows]), room)
        starts = np.concatenate([[0], ends])
        taken, taken_weights = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1] if len(weights) else 0)
        copy_rows(rows, indptr, senders, weights, np.zeros(0, dtype=np.int64), starts, taken, taken_weights)
        return taken, np.repeat(rows, np.diff(starts)), None if graph.weights is None else taken_weights

    chosen = side.rows_of(_some(np.flatnonzero(differ)))
    others = np.random.default_rng(0).integers(graph.num_nodes, size=NUM_SEEDS)
    nodes, edges, edge_weight = _collect(np.union1d(chosen[chosen >= 0], others), edges_into)
    x = take_features(graph, nodes)
    release_graph(graph)
    present = np.ones(len(nodes), dtype=np.bool_)
    return to_data(Snapshot(x, np.searchsorted(nodes, edges), edge_weight, nodes, present), dtype_of(graph.x))


def _sample_snapshot(snapshot: Snapshot, differ: BoolArray) -> Data:
    """Each ring is one pass over the edges: cheaper than sorting them all."""

    def edges_into(rows: IntArray, room: int) -> tuple[IntArray, IntArray, FloatArray | None]:
        wanted = np.zeros(snapshot.num_nodes, dtype=np.bool_)
        wanted[rows] = True
        found = np.flatnonzero(wanted[snapshot.edge_index[1]])[:room]
        weights = None if snapshot.edge_weight is None else snapshot.edge_weight[found]
        return snapshot.edge_index[0, found], snapshot.edge_index[1, found], weights

    seeds = [_some(np.flatnonzero(nodes)) for nodes in (differ & snapshot.present, snapshot.present)]
    nodes, edges, edge_weight = _collect(np.union1d(*seeds), edges_into)
    present = np.ones(len(nodes), dtype=np.bool_)
    part = Snapshot(snapshot.x[nodes], np.searchsorted(nodes, edges), edge_weight, nodes, present)
    return to_data(part, torch.float64)


def _collect(seeds: IntArray, edges_into: EdgesInto) -> tuple[IntArray, IntArray, FloatArray | None]:
    """Nodes (ascending), edges [2, n] between them and their weights: the seeds, and ring by ring who sends to them."""
    ring = nodes = seeds
    edges: list[IntArray] = [np.zeros((2, 0), dtype=np.int64)]
    weights: list[FloatArray] = []
    room = MAX_EDGES
    for _ in range(NUM_ROUNDS):
        senders, receivers, edge_weight = edges_into(ring, room)
        edges.append(np.stack([senders, receivers]))
        if edge_weight is not None:
            weights.append(edge_weight)
        room -= len(senders)
        ring = np.setdiff1d(senders, nodes)
        nodes = np.union1d(nodes, ring)
        if not len(ring) or room <= 0:
            break
    return nodes, np.concatenate(edges, axis=1), np.concatenate(weights) if weights else None


def _some(nodes: IntArray) -> IntArray:
    """Up to NUM_SEEDS of them at random, the same ones every time."""
    if len(nodes) <= NUM_SEEDS:
        return nodes
    return np.sort(np.random.default_rng(0).choice(nodes, NUM_SEEDS, replace=False))

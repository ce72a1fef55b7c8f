"""Graphs -> small Data objects to read a model on: nodes that a change touches and some others, and their senders.

A model is read from what it does on a graph, and any graph will do: where the whole one is large, the reading is made
and checked on about MAX_EDGES edges of each snapshot.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch_geometric.data import Data

from ..arrays import BoolArray, FloatArray, IntArray
from .pair import Side, StoredPair
from .snapshot import EDGE, GRAPH, NODE, Features, Snapshot, level_of, rows_of, to_torch_csr
from .stored import SparseRows, release_graph, take_features
from .sweeps import copy_rows

MAX_EDGES = 100_000
WHOLE_EDGES = 2_000_000  # up to here a graph is small enough to run the model on all of it
NUM_SEEDS = 64  # touched nodes, and as many random ones
NUM_ROUNDS = 3  # rings of senders around them

# Rows -> positions (sender's row, receiver's row) of at most so many edges into them, and a number of each edge.
EdgesInto = Callable[[IntArray, int], tuple[IntArray, IntArray, NDArray[Any] | None]]


def sample_pair(pair: StoredPair) -> tuple[Data, Data]:
    """Samples of two stored graphs, around nodes whose edges or features differ."""
    differ = pair.touched | pair.altered
    return _sample_side(pair.before, differ), _sample_side(pair.after, differ)


def sample_snapshots(before: tuple[Snapshot, Data], after: tuple[Snapshot, Data]) -> tuple[Data, Data]:
    """Samples of two aligned snapshots in memory, around nodes whose number of incoming edges differs.

    Each comes with the user's own graph, of whose fields a sample holds the rows of its nodes and edges.
    """
    degrees = [np.bincount(side.edge_index[1], minlength=side.num_nodes) for side, _ in (before, after)]
    differ = degrees[0] != degrees[1]
    return _sample_snapshot(*before, differ), _sample_snapshot(*after, differ)


def to_data(snapshot: Snapshot, dtype: torch.dtype) -> Data:
    """The nodes of a snapshot that are present, as torch_geometric Data with `n_id`."""
    rows = np.flatnonzero(snapshot.present)
    features = _to_torch(snapshot.x[rows], dtype)
    edge_index = torch.from_numpy(np.searchsorted(rows, snapshot.edge_index))
    data = Data(x=features, edge_index=edge_index, n_id=torch.from_numpy(snapshot.node_ids[rows]))
    if snapshot.edge_weight is not None:
        data.edge_weight = torch.from_numpy(snapshot.edge_weight).to(dtype)
    return data


def _to_torch(x: Features, dtype: torch.dtype) -> torch.Tensor:
    return to_torch_csr(sparse.csr_array(x), dtype) if sparse.issparse(x) else torch.from_numpy(x).to(dtype)


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


def _sample_snapshot(snapshot: Snapshot, data: Data, differ: BoolArray) -> Data:
    """Each ring is one pass over the edges: cheaper than sorting them all."""

    def edges_into(rows: IntArray, room: int) -> tuple[IntArray, IntArray, IntArray]:
        wanted = np.zeros(snapshot.num_nodes, dtype=np.bool_)
        wanted[rows] = True
        found = np.flatnonzero(wanted[snapshot.edge_index[1]])[:room]
        return snapshot.edge_index[0, found], snapshot.edge_index[1, found], found

    seeds = [_some(np.flatnonzero(nodes)) for nodes in (differ & snapshot.present, snapshot.present)]
    nodes, edges, found = _collect(np.union1d(*seeds), edges_into)
    own = np.zeros(snapshot.num_nodes, dtype=np.int64)
    own[rows_of(snapshot, data)] = np.arange(data.x.shape[0])
    places = np.zeros(0, dtype=np.int64) if found is None else found
    part = take_part(data, own[nodes], places)
    whole_numbers = isinstance(data.x, torch.Tensor) and not data.x.is_floating_point()
    part.x = _to_torch(snapshot.x[nodes], data.x.dtype if whole_numbers else torch.float64)
    part.edge_index = torch.from_numpy(np.searchsorted(nodes, edges))
    return part


def take_part(data: Data, nodes: IntArray, edges: IntArray) -> Data:
    """The user's graph with the rows of some nodes and some edges in every field; x and edge_index are left out."""
    part = copy.copy(data)
    at = {NODE: torch.from_numpy(nodes), EDGE: torch.from_numpy(edges)}
    for key in list(data.keys()):
        if key in ("x", "edge_index"):
            del part[key]
        elif key == "num_nodes":
            part[key] = len(nodes)
        elif (level := level_of(data, key)) != GRAPH:
            along = -1 if level == EDGE and "index" in key else 0
            part[key] = torch.as_tensor(data[key]).detach().cpu().index_select(along, at[level])
    return part


def _collect(seeds: IntArray, edges_into: EdgesInto) -> tuple[IntArray, IntArray, Any]:
    """Nodes (ascending), edges [2, n] and a number of each: the seeds, and ring by ring who sends to them."""
    ring = nodes = seeds
    edges: list[IntArray] = [np.zeros((2, 0), dtype=np.int64)]
    numbers: list[NDArray[Any]] = []
    room = MAX_EDGES
    for _ in range(NUM_ROUNDS):
        senders, receivers, number = edges_into(ring, room)
        edges.append(np.stack([senders, receivers]))
        if number is not None:
            numbers.append(number)
        room -= len(senders)
        ring = np.setdiff1d(senders, nodes)
        nodes = np.union1d(nodes, ring)
        if not len(ring) or room <= 0:
            break
    return nodes, np.concatenate(edges, axis=1), np.concatenate(numbers) if numbers else None


def _some(nodes: IntArray) -> IntArray:
    """Up to NUM_SEEDS of them at random, the same ones every time."""
    if len(nodes) <= NUM_SEEDS:
        return nodes
    return np.sort(np.random.default_rng(0).choice(nodes, NUM_SEEDS, replace=False))

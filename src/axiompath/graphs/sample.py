"""Graphs -> small Data objects to read a model on: nodes that a change touches and some others, and their senders.

A model is read from what it does on a graph, and any graph will do: where the whole one is large, the reading is made
and checked on about MAX_EDGES edges of each snapshot.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data

from ..arrays import BoolArray, IntArray
from .adjacency import NO_IDS, Incoming, sort_by_receiver
from .data_fields import EDGE, GRAPH, NODE, Features, level_of, to_torch_csr
from .pair import Pair, Side
from .snapshot import Snapshot, rows_of

MAX_EDGES = 100_000
WHOLE_EDGES = 2_000_000  # up to here a graph is small enough to run the model on all of it
NUM_SEEDS = 64  # touched nodes, and as many random ones
FEW_SEEDS, FEW_EDGES = 6, 250  # the same of the smallest samples, on which a model is read that is run on all of both
NUM_ROUNDS = 3  # rings of senders around them


class Size(NamedTuple):
    """How large a sample is."""

    seeds: int
    edges: int


def sample_pair(pair: Pair, *, small: bool = False) -> tuple[Data, Data]:
    """Samples of two graphs, around nodes whose edges or features differ.

    Of the fields of a graph in memory a sample holds the rows of its nodes and edges.
    """
    size = Size(FEW_SEEDS, FEW_EDGES) if small else Size(NUM_SEEDS, MAX_EDGES)
    differ = pair.touched | pair.altered
    return _sample_side(pair.before, differ, size), _sample_side(pair.after, differ, size)


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


def dtype_of(x: Features) -> torch.dtype:
    """The torch type of stored features."""
    return torch.float64 if x.dtype == np.float64 else torch.float32


def _sample_side(side: Side, differ: BoolArray, size: Size) -> Data:
    graph, edges = side.graph, side.edges._replace(ids=NO_IDS)
    if not graph.on_disk:
        # The fields of edges are taken by their position in the user's list.
        senders, receivers = graph.edge_index
        edges = sort_by_receiver(receivers, senders, np.arange(len(senders)), graph.num_nodes)
    chosen = side.rows_of(_some(np.flatnonzero(differ), size.seeds))
    nodes, taken, receivers = _collect(np.union1d(chosen[chosen >= 0], side.some_rows(size.seeds)), edges, size.edges)
    x = graph.take_features(nodes)
    edge_index = np.searchsorted(nodes, np.stack([taken.senders, receivers]))
    if side.data is None:
        weights = taken.values if graph.weighted else None
        here = np.ones(len(nodes), dtype=np.bool_)
        return to_data(Snapshot(x, edge_index, weights, nodes, here), dtype_of(graph.x))
    own = np.zeros(graph.num_nodes, dtype=np.int64)
    own[rows_of(graph, side.data)] = np.arange(side.data.x.shape[0])
    part = take_part(side.data, own[nodes], taken.values)
    whole_numbers = isinstance(side.data.x, torch.Tensor) and not side.data.x.is_floating_point()
    part.x = _to_torch(x, side.data.x.dtype if whole_numbers else torch.float64)
    part.edge_index = torch.from_numpy(edge_index)
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


def some_edges(data: Data) -> Data:
    """A graph without a third of its edges, the same ones every time."""
    kept = np.flatnonzero(np.random.default_rng(0).random(data.edge_index.shape[1]) < 2 / 3)
    part = take_part(data, np.arange(data.x.shape[0]), kept)
    part.x, part.edge_index = data.x, data.edge_index[:, torch.from_numpy(kept)]
    return part


def _collect(seeds: IntArray, edges: Incoming, room: int) -> tuple[IntArray, Incoming, IntArray]:
    """Nodes (ascending), the edges taken and their receivers: the seeds, and ring by ring who sends to them."""
    ring = nodes = rows = seeds
    most = room
    for _ in range(NUM_ROUNDS - 1):
        taken = edges.take(ring, room)
        room -= len(taken.senders)
        ring = np.setdiff1d(taken.senders, nodes)
        nodes = np.union1d(nodes, ring)
        if not len(ring) or room <= 0:
            break
        rows = np.concatenate([rows, ring])
    taken = edges.take(rows, most)
    return np.union1d(nodes, taken.senders), taken, np.repeat(rows, np.diff(taken.indptr))


def _some(nodes: IntArray, count: int) -> IntArray:
    """Up to so many of them at random, the same ones every time."""
    if len(nodes) <= count:
        return nodes
    return np.sort(np.random.default_rng(0).choice(nodes, count, replace=False))

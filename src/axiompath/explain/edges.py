"""Two graphs + edges -> a real graph with these edges exchanged, for the user's own model to answer on.

Paths live in a computation tree, edges in the graph: undoing an edge undoes all paths over it. This is the coarser
question, answered without our normal form.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data

from ..arrays import IntArray
from ..graphs.data_fields import EDGE, NODE, level_of, node_numbers, to_torch_csr
from ..graphs.snapshot import in_double, read_snapshot
from .hops import Edge, find_edges


def exchange_edges(base: Data, other: Data, edges: set[Edge], weights: str) -> Data:
    """`base` with these edges as `other` has them; its rows keep their order, nodes that come are appended.

    Edges that `other` lacks are removed, those that it has are put in with its weights and whatever else it says of
    them. A node at the end of one that `base` lacks comes with it. Nodes are named by n_id where the graphs have it;
    `weights` is the field that holds the weights of edges.
    """
    ids, other_ids = node_numbers(base), node_numbers(other)
    going = [place for places in find_edges(base, edges).values() for place in places]
    coming = sorted(place for places in find_edges(other, edges).values() for place in places)
    stays = np.ones(torch.as_tensor(base.edge_index).shape[1], dtype=np.bool_)
    stays[going] = False
    ends = other_ids[np.asarray(torch.as_tensor(other.edge_index).cpu())[:, coming]]
    fresh = np.setdiff1d(ends, ids)
    mixed = with_nodes(base, other, np.flatnonzero(np.isin(other_ids, fresh)))
    row_of = {int(node): row for row, node in enumerate([*ids, *other_ids[np.isin(other_ids, fresh)]])}
    new = torch.tensor([[row_of[int(node)] for node in side] for side in ends], dtype=torch.long).reshape(2, -1)
    for key in {*_fields(base, EDGE), weights} & {*base.keys()} - {"edge_index"}:
        if other.get(key) is None:
            del mixed[key]  # it would be of the wrong length
        else:
            mine, theirs = torch.as_tensor(base[key]).cpu(), torch.as_tensor(other[key]).cpu()
            mixed[key] = torch.cat([mine[torch.from_numpy(stays)], theirs[coming].to(mine.dtype)])
    kept = torch.as_tensor(base.edge_index).cpu()[:, torch.from_numpy(stays)]
    mixed.edge_index = torch.cat([kept, new], dim=1)
    return mixed


def add_newcomers(before: Data, after: Data) -> Data:
    """`before` with the nodes that only `after` has, each by itself: with its features, without any edge."""
    return with_nodes(before, after, np.flatnonzero(~np.isin(node_numbers(after), node_numbers(before))))


def without_edges(data: Data) -> Data:
    """A copy of a graph with the same nodes and no edge."""
    bare = data.clone()
    for key in {*_fields(data, EDGE), "edge_index"}:
        value = torch.as_tensor(data[key])
        bare[key] = value[:, :0] if "index" in key else value[:0]
    return bare


def with_nodes(base: Data, other: Data, rows: IntArray) -> Data:
    """A copy of `base` with these rows of `other` below its own."""
    mixed = base.clone()
    if len(rows) == 0:
        return mixed
    for key in _fields(base, NODE):
        if key != "x" and other.get(key) is None:
            del mixed[key]
        elif key != "x":
            values = torch.as_tensor(base[key]).cpu()
            mixed[key] = torch.cat([values, torch.as_tensor(other[key]).cpu()[rows].to(values.dtype)])
    mine, theirs = (in_double(read_snapshot(data, "graph").x) for data in (base, other))
    dtype = base.x.dtype if isinstance(base.x, torch.Tensor) else torch.float64
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        mixed.x = torch.from_numpy(np.concatenate([mine, theirs[rows]])).to(dtype)
    else:
        parts = sparse.csr_array(mine), sparse.csr_array(theirs)[rows]
        mixed.x = to_torch_csr(sparse.csr_array(sparse.vstack(parts)), dtype)
    if "num_nodes" in mixed:
        mixed.num_nodes = mixed.x.shape[0]
    return mixed


def _fields(data: Data, level: str) -> list[str]:
    return [key for key in data.keys() if level_of(data, key) == level]  # noqa: SIM118 (iterating gives pairs)

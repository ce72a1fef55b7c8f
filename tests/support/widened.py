"""Two aligned snapshots -> the same with their edges as places: rows of their own, below those of the nodes.

A message that has a non-linearity of its own, or features of its edge in it, lives on the edge: it is made there, of
what both ends and the edge itself hold, and handed to the receiver. So x has the node features' columns and then the
edge features' columns, a node's row and an edge's row 0 in those of the other. An edge that both snapshots have is one
row: of the edges from u to v, equal ones are the same edge, what is left is matched in order of weight and features.

`present` stays about nodes, so that whatever looks at nodes does not see edges.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from axiompath.arrays import FloatArray, IntArray
from axiompath.graphs.data_fields import Features
from axiompath.graphs.edge_values import edge_keys, match_edges, number_edges
from axiompath.graphs.labels import FIRST_EDGE
from axiompath.graphs.places import GRAPHS
from axiompath.graphs.snapshot import Snapshot


def widen_pair(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot]:
    """Both with a row for each edge of either: those of `before` in its order, then those that only `after` has."""
    partner = match_edges(edge_keys(before, after)[0], number_edges(before, after))
    fresh = partner < 0
    place = np.where(fresh, before.edge_index.shape[1] + np.cumsum(fresh) - 1, partner)
    total = before.edge_index.shape[1] + int(fresh.sum())
    return _widen(before, np.arange(before.edge_index.shape[1]), total), _widen(after, place, total)


def widen_graph(snapshot: Snapshot) -> Snapshot:
    """One snapshot with a row for each of its edges."""
    size = snapshot.edge_index.shape[1]
    return _widen(snapshot, np.arange(size), size)


def _widen(snapshot: Snapshot, place: IntArray, num_edges: int) -> Snapshot:
    num_nodes = snapshot.num_nodes
    attr = np.zeros((len(place), 0)) if snapshot.edge_attr is None else snapshot.edge_attr
    places = snapshot.places
    if places is not None and places.kind == GRAPHS:
        places = replace(places, nodes=_pad(places.nodes, num_edges, -1))
    return replace(
        snapshot,
        x=_beside(snapshot.x, attr, place, num_edges),
        node_ids=np.concatenate([snapshot.node_ids, FIRST_EDGE - np.arange(num_edges)]),
        present=_pad(snapshot.present, num_edges, False),
        unseen=None if snapshot.unseen is None else np.hstack([snapshot.unseen, np.zeros((2, num_edges))]),
        graphs=None if snapshot.graphs is None else _pad(snapshot.graphs, num_edges, -1),
        places=places,
        edge_rows=num_nodes + place,
        node_types=None if snapshot.node_types is None else _pad(snapshot.node_types, num_edges, -1),
    )


def _pad(values: NDArray[Any], size: int, value: int | bool) -> NDArray[Any]:
    return np.concatenate([values, np.full(size, value, dtype=values.dtype)])


def _beside(x: Features, attr: FloatArray, place: IntArray, num_edges: int) -> Features:
    """Features of nodes, and those of edges in columns and rows of their own."""
    low = np.zeros((num_edges, attr.shape[1]))
    low[place] = attr
    if sparse.issparse(x):
        return sparse.csr_array(sparse.block_diag([sparse.csr_array(x), sparse.csr_array(low)], format="csr"))
    wide = np.zeros((x.shape[0] + num_edges, x.shape[1] + attr.shape[1]))
    wide[: x.shape[0], : x.shape[1]] = x
    wide[x.shape[0] :, x.shape[1] :] = low
    return wide

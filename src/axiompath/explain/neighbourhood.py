"""PathEngine + Explanation -> Neighbourhood: what lies around a target in both graphs, few enough to be drawn.

Everything within as many hops as messages travel, of `before` and `after` in one drawing. Where that is more than can
be read, the target, the chosen paths and the ends of changed edges stay, then the nearest; the others are gathered,
those of one distance and one class into one spot, on a ring around the others. The places are found once, here, so that
every drawing agrees.

    stress   sum over pairs of spots of (|x_i - x_j| - d_ij)^2 / d_ij^2,   d the distance in hops

is brought down by majorisation from rings around the target; nothing is drawn at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse import csgraph

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..graphs.changes import EDGE_ADDED, EDGES_GONE
from ..graphs.labels import label_nodes
from ..outputs import CLASSES
from .explanation import Explanation

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure


MOST_SPOTS = 200  # that can be distinguished in one drawing
GATHERED = -1  # in place of a node's number
UNPREDICTED = -1  # in place of a class
KEPT, ADDED, REMOVED = range(3)  # states of an edge
RING = 1.15  # how far out gathered spots are, the farthest of the others at 1
MOST_ROUNDS, STILL = 300, 1e-4  # of majorisation: until nothing moves by more than this part of a hop


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Spots, each one node or a group of nodes, and the edges between them in both graphs."""

    explanation: Explanation
    ids: IntArray  # [num_spots]: the user's numbers, GATHERED for many
    names: tuple[str, ...]  # [num_spots]
    sizes: IntArray  # [num_spots]: nodes that each stands for
    hops: IntArray  # [num_spots]: steps to what is predicted
    classes: IntArray  # [num_spots, 2]: predicted before and after, UNPREDICTED where there is none
    places: FloatArray  # [num_spots, 2]: between -1 and 1
    edges: IntArray  # [num_edges, 2]: spots, the sender first
    states: IntArray  # [num_edges]: KEPT, ADDED or REMOVED
    counts: IntArray  # [num_edges]: edges that each stands for
    directed: bool

    @property
    def num_nodes(self) -> int:
        """Nodes within the receptive field, drawn or grouped."""
        return int(self.sizes.sum())

    def plot(self) -> Figure:
        """A matplotlib figure: classes as colours, edges added and removed, the chosen paths as flows."""
        from ..report.graph_plot import plot_neighbourhood

        return plot_neighbourhood(self)

    def save(self, path: str | Path) -> None:
        """Save the figure: PNG, SVG or PDF, by the file's name."""
        self.plot().savefig(path, dpi=150)

    def _repr_html_(self) -> str:
        from ..report.graph_plot import to_picture_html

        return to_picture_html(self)


@dataclass(frozen=True, eq=False)
class VisibleNodes:
    """Nodes that a target can see, before any is gathered."""

    ids: IntArray  # [n]
    hops: IntArray  # [n]
    classes: IntArray  # [n, 2]
    edges: IntArray  # [m, 2]: places among them, the sender first
    states: IntArray  # [m]
    directed: bool


def look_around(change: Change, row: int, changes: pd.DataFrame) -> VisibleNodes:
    """All nodes from which messages reach a root, and the edges that these travel over, of both graphs."""
    ids, places = change.before.node_ids, change.before.places
    starts, rise = np.array([row]), change.network.rise
    if rise is not None:  # a graph or a link begins with its own nodes
        top = change.layers[rise]
        starts = np.unique(top.indices[top.indptr[row] : top.indptr[row + 1]]).astype(np.int64)
    hop_of = {"rows": starts, "hops": np.zeros(len(starts), dtype=np.int64)}
    edges: list[IntArray] = []
    nodal = [layer for layer in change.layers if not layer.local and len(layer.indptr) == change.num_nodes + 1]
    ring = starts
    for hop, layer in enumerate(reversed(nodal), start=1):
        begin, size = layer.indptr[ring], np.diff(layer.indptr)[ring]
        entry = np.repeat(begin - np.concatenate([[0], np.cumsum(size)[:-1]]), size) + np.arange(size.sum())
        senders = layer.indices[entry].astype(np.int64)
        edges.append(np.stack([senders, np.repeat(ring, size)], axis=1))
        ring = np.setdiff1d(senders, hop_of["rows"])
        hop_of = {
            "rows": np.concatenate([hop_of["rows"], ring]),
            "hops": np.concatenate([hop_of["hops"], np.full(len(ring), hop)]),
        }
        ring = hop_of["rows"] if hop < len(nodal) else ring
    rows = hop_of["rows"]
    order = np.argsort(rows)
    pairs = np.unique(np.concatenate(edges), axis=0) if edges else np.zeros((0, 2), dtype=np.int64)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    inside = order[np.searchsorted(rows, pairs, sorter=order)]
    classes = np.full((len(rows), 2), UNPREDICTED)
    if places is None and change.output.kind == CLASSES:
        for side, (snapshot, logits) in enumerate(
            ((change.before, change.logits_before), (change.after, change.logits_after))
        ):
            here = snapshot.present[rows]
            classes[here, side] = change.output.decide(logits[rows[here]])
    return VisibleNodes(ids[rows], hop_of["hops"], classes, *states_of(ids[rows], inside, changes))


def states_of(ids: IntArray, edges: IntArray, changes: pd.DataFrame) -> tuple[IntArray, IntArray, bool]:
    """The same edges, once where both directions are one; the state of each; whether directions count."""
    changed = changes[changes.kind.isin([EDGE_ADDED, *EDGES_GONE])]
    directed = bool(changed.directed.any()) if len(changed) else False
    if not directed:
        edges = np.unique(np.sort(edges, axis=1), axis=0)
    keys = pd.MultiIndex.from_arrays(list(ids[edges].T)) if len(edges) else pd.MultiIndex.from_arrays([[], []])
    states = np.full(len(edges), KEPT)
    for state, kinds in ((ADDED, [EDGE_ADDED]), (REMOVED, EDGES_GONE)):
        part = changed[changed.kind.isin(kinds)]
        ends = part[["src", "dst"]].to_numpy(dtype=np.int64).reshape(-1, 2)
        ends = ends if directed else np.concatenate([ends, ends[:, ::-1]])
        if len(ends) and len(edges):
            states[keys.isin(pd.MultiIndex.from_arrays(list(ends.T)))] = state
    return edges, states, directed


def gather(
    explanation: Explanation, visible: VisibleNodes, node_names: Mapping[int, str], most: int = MOST_SPOTS
) -> Neighbourhood:
    """At most so many spots, those of gathered nodes beside them; all in their places."""
    e, n = explanation, len(visible.ids)
    wanted = np.isin(visible.ids, e.paths) | (visible.hops == 0)
    touched = np.zeros(n, dtype=np.bool_)
    touched[visible.edges[visible.states != KEPT].ravel()] = True
    order = np.lexsort((visible.ids, visible.hops, ~touched, ~wanted))
    kept = np.sort(order[:most])
    spot_of = np.full(n, -1)
    spot_of[kept] = np.arange(len(kept))
    others = np.flatnonzero(spot_of < 0)
    alike, codes = np.unique(
        np.stack([visible.hops[others], *visible.classes[others].T], axis=1), axis=0, return_inverse=True
    )
    spot_of[others] = len(kept) + codes.reshape(-1)
    sizes = np.bincount(spot_of, minlength=len(kept) + len(alike))
    hops = np.concatenate([visible.hops[kept], alike[:, 0]]).astype(np.int64)
    classes = np.concatenate([visible.classes[kept], alike[:, 1:]]).astype(np.int64)
    # One that would be the only member of its group is drawn itself.
    first = visible.ids[others[np.searchsorted(codes.reshape(-1), np.arange(len(alike)), sorter=np.argsort(codes))]]
    ids = np.concatenate([visible.ids[kept], np.where(sizes[len(kept) :] == 1, first, GATHERED)])
    ends = spot_of[visible.edges]
    ends = ends if visible.directed else np.sort(ends, axis=1)
    apart = ends[:, 0] != ends[:, 1]
    drawn, counts = np.unique(
        np.concatenate([ends[apart], visible.states[apart, None]], axis=1), axis=0, return_counts=True
    )
    names = [f"{size:,} more" for size in sizes.tolist()]
    for spot, name in zip(np.flatnonzero(ids != GATHERED), label_nodes(ids[ids != GATHERED], node_names), strict=True):
        names[spot] = str(name)
    places = place_spots(ids != GATHERED, drawn[:, :2], hops)
    return Neighbourhood(
        e, ids, tuple(names), sizes, hops, classes, places, drawn[:, :2], drawn[:, 2], counts, visible.directed
    )


def place_spots(single: BoolArray, edges: IntArray, hops: IntArray) -> FloatArray:
    """Places [num_spots, 2] between -1 and 1: single nodes by their own edges, the gathered on a ring around them."""
    number = np.cumsum(single) - 1
    within = number[edges[single[edges].all(axis=1)]]
    places = np.zeros((len(single), 2))
    places[single] = lay_out(int(single.sum()), within, hops[single])
    angles = 2 * np.pi * (np.arange((~single).sum()) + 0.5) / max(int((~single).sum()), 1)
    places[~single] = RING * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return places / (RING if not single.all() else 1.0)


def lay_out(num_spots: int, edges: IntArray, hops: IntArray) -> FloatArray:
    """Places [num_spots, 2] between -1 and 1, by stress majorisation from rings."""
    if num_spots == 1:
        return np.zeros((1, 2))
    ends = edges.T.reshape(2, -1).astype(np.int32)  # the numbers that scipy 1.11 walks over
    links = sparse.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(num_spots, num_spots))
    ideal = csgraph.shortest_path(links, directed=False, unweighted=True)
    far = ideal[np.isfinite(ideal)].max(initial=1.0)
    ideal[~np.isfinite(ideal)] = far + 1.0
    # Rings to begin with, a spot next to those that it hangs on.
    order = np.lexsort((np.arange(num_spots), hops))
    angles = np.empty(num_spots)
    angles[order] = np.arange(num_spots) * 2.399963  # the golden angle: never two in one direction
    start = (hops + 0.3)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    weights = 1.0 / np.maximum(ideal, 1e-9) ** 2
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    places = start
    for _ in range(MOST_ROUNDS):
        apart = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
        pull = np.where(apart > 1e-9, weights * ideal / np.maximum(apart, 1e-9), 0.0)
        last, places = places, inverse @ (pull.sum(axis=1)[:, None] * places - pull @ places)
        if np.abs(places - last).max() < STILL:
            break
    places = places - places[hops == hops.min()].mean(axis=0)
    return np.asarray(places / max(np.abs(places).max(), 1e-9))


def flows_of(found: Neighbourhood) -> Sequence[tuple[IntArray, str, float]]:
    """Chosen paths as spots, leaf first, with their kind and share; those of nodes that are not drawn are left out."""
    e = found.explanation
    _, weights = e.view
    spot_of = {int(node): spot for spot, node in enumerate(found.ids.tolist()) if node != GATHERED}
    flows: list[Any] = []
    for path, kind, share in zip(e.paths.tolist(), e.kinds, (e.contributions @ weights).tolist(), strict=True):
        spots = [spot_of[node] for node in path if node in spot_of]
        if spots:
            flows.append((np.array(spots), kind, share))
    return flows

"""(Network, StoredPair) -> Region: two small Snapshots that hold all that a change reaches, and nothing else.

1. Upwards. D_0 are the nodes whose features differ. At each layer, a node can differ if it could already, if it takes
   from one that could, or if its row of coefficients can differ: its own edges changed, or, for a rule of reach 1, the
   edges into one of its senders. D_T, the nodes whose logits can differ, are *reached*; no other can be explained.
2. Downwards. To compute the logits of D_T, ring by ring: the nodes that send to them, those that send to these, ...
   one ring a hop. Edges are kept where a layer reads them, hence not into the outermost ring.
3. What a rule of reach 1 needs beyond: GCN's normalisation asks how much weight comes into the outermost ring. That
   is two numbers a node (`Snapshot.unseen`), not one more ring. Other rules of reach 1 get the ring.

Every reached node has in the region exactly the logits, altered paths and contributions that it has in the whole
graph. Memory: the region, and a few flags for every node of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.pair import Side, StoredPair
from ..graphs.snapshot import Features, Snapshot
from ..graphs.stored import release_graph, take_features
from ..graphs.sweeps import copy_loops, copy_rows, mark_stored_senders, sum_rows
from ..network.coefficients import SOURCE_TO_TARGET, heeds_unseen, reach_of, reads_edges
from ..network.layers import Layer, Network


@dataclass(frozen=True, eq=False)
class Region:
    """The part of two stored graphs that a change reaches, under one numbering."""

    before: Snapshot
    after: Snapshot
    reached: BoolArray  # [nodes of the region]: whose logits can differ; the others are there to compute these
    num_nodes: int  # of the whole graphs together


@dataclass(frozen=True)
class Sight:
    """How far the layers of a network look."""

    num_hops: int
    depth: int  # edges are read into nodes up to so many hops from a target


def find_sight(network: Network) -> Sight | None:
    """None where some rule looks at the whole graph, or against the edges."""
    above, depth = 0, 0
    for layer in reversed(network.layers):
        for rule in layer.rules:
            reach = reach_of(rule)
            if reach is None or getattr(rule, "flow", SOURCE_TO_TARGET) != SOURCE_TO_TARGET:
                return None
            if reads_edges(rule):
                depth = max(depth, above if heeds_unseen(rule) else above + reach)
        above += takes_from_others(layer)
    return Sight(above, depth)


def takes_from_others(layer: Layer) -> bool:
    """Whether a node's output depends on its senders' inputs: as messages, or through a coefficient of its own."""
    return not layer.local or any(rule.reads_inputs and reads_edges(rule) for rule in layer.rules)


def cut_region(network: Network, pair: StoredPair) -> Region:
    """What the change between two stored graphs reaches in this network."""
    sight = find_sight(network)
    if sight is None:
        everything = np.ones(pair.num_nodes, dtype=np.bool_)
        return Region(*cut_rings(pair, everything, 0, 0), everything, pair.num_nodes)
    reached = find_reached(network, pair)
    start = reached
    if not reached.any():
        # Nothing changed: one node, without its edges, stands for the graph.
        start = np.zeros(pair.num_nodes, dtype=np.bool_)
        start[0] = True
        return Region(*cut_rings(pair, start, -1, 0), np.zeros(1, dtype=np.bool_), pair.num_nodes)
    before, after = cut_rings(pair, start, sight.depth, sight.num_hops)
    return Region(before, after, reached[before.node_ids], pair.num_nodes)


def find_reached(network: Network, pair: StoredPair) -> BoolArray:
    """D_T: the nodes whose logits can differ. [num_nodes]."""
    differs = pair.altered.copy()
    beside: BoolArray | None = None
    for layer in network.layers:
        above = differs.copy()
        if takes_from_others(layer):
            above |= pair.receivers(differs)
        if any(reads_edges(rule) for rule in layer.rules):
            above |= pair.touched
        if any(reach_of(rule) for rule in layer.rules):
            beside = pair.receivers(pair.touched) if beside is None else beside
            above |= beside
        differs = above
    return differs


def cut_differing(pair: StoredPair) -> tuple[Snapshot, Snapshot]:
    """All that differs between two stored graphs: nodes, features and edges, with the nodes at both ends."""
    return cut_rings(pair, pair.touched | pair.altered, 0, 0)


def cut_rings(pair: StoredPair, start: BoolArray, depth: int, num_hops: int) -> tuple[Snapshot, Snapshot]:
    """The nodes `start` and those up to num_hops away, with the edges into nodes up to `depth` away, as Snapshots.

    Nodes whose edges are kept have their senders too, so that rings go one beyond `depth` at least; depth -1 keeps no
    edge. What is left out is counted in `unseen`.
    """
    inside, ring = start.copy(), np.flatnonzero(start)
    whole = start.copy() if depth >= 0 else np.zeros_like(start)
    for distance in range(max(num_hops, depth + 1)):
        found = np.zeros_like(inside)
        for side in (pair.before, pair.after):
            indptr, senders, _ = side.edges
            rows = side.rows_of(ring)
            mark_stored_senders(rows[rows >= 0], indptr, senders, side.ids, found)
            release_graph(side.graph)
        ring = np.flatnonzero(found & ~inside)
        inside[ring] = True
        if distance + 1 <= depth:
            whole[ring] = True
        if not len(ring):
            break
    numbers = np.flatnonzero(inside)
    before = _cut_side(pair.before, numbers, whole[numbers])
    # Where no features differ, both snapshots hold the same ones.
    shared = None if pair.altered[numbers].any() else before.x
    return before, _cut_side(pair.after, numbers, whole[numbers], shared)


def _cut_side(side: Side, numbers: IntArray, whole: BoolArray, x: Features | None = None) -> Snapshot:
    """A snapshot of these nodes: all edges into those that are `whole`, of the others their self-loops alone."""
    indptr, senders, weights = side.edges
    rows = side.rows_of(numbers)
    here = rows >= 0
    kept, rest = np.flatnonzero(here & whole), np.flatnonzero(here & ~whole)
    starts = np.concatenate([[0], np.cumsum(indptr[rows[kept] + 1] - indptr[rows[kept]])])
    taken, taken_weights = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1] if len(weights) else 0)
    copy_rows(rows[kept], indptr, senders, weights, side.ids, starts, taken, taken_weights)
    unseen, num_loops = np.zeros((2, len(numbers))), np.zeros(len(rest), dtype=np.int64)
    sums = np.zeros((2, len(rest)))
    sum_rows(rows[rest], indptr, senders, weights, sums, num_loops)
    unseen[:, rest] = sums
    loops = np.repeat(rest, num_loops)
    edge_weight: FloatArray | None = None
    if side.graph.weights is not None:
        loop_weights = np.empty(len(loops))
        copy_loops(rows[rest], indptr, senders, weights, loop_weights)
        edge_weight = np.concatenate([taken_weights, loop_weights])
    receivers = np.concatenate([np.repeat(kept, np.diff(starts)), loops])
    places = np.concatenate([_find_places(numbers, taken), loops])
    if x is None:
        x = _place(take_features(side.graph, rows[here]), here)
    release_graph(side.graph)
    return Snapshot(x, np.stack([places, receivers]), edge_weight, numbers, here, unseen if len(rest) else None)


def _find_places(numbers: IntArray, wanted: IntArray) -> IntArray:
    """Place of each wanted number among the ascending ones, all of which are there."""
    if len(wanted) and int(numbers[-1]) < 16 * len(numbers):
        # A table of all numbers is no larger than the region itself, and many times faster to look up.
        table = np.zeros(int(numbers[-1]) + 1, dtype=np.int64)
        table[numbers] = np.arange(len(numbers))
        return table[wanted]
    return np.searchsorted(numbers, wanted)


def _place(features: Features, here: BoolArray) -> Features:
    """Features of the nodes that are there, with empty rows for the others. [len(here), num_features]."""
    if here.all():
        return features
    if isinstance(features, np.ndarray):
        x = np.zeros((len(here), features.shape[1]))
        x[here] = features
        return x
    counts = np.zeros(len(here), dtype=np.int64)
    counts[here] = np.diff(features.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return type(features)((features.data, features.indices, indptr), shape=(len(here), features.shape[1]))

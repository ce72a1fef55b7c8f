"""model + two graphs -> Region: two Snapshots that hold all that a change reaches; of stored graphs, nothing else.

1. Upwards. D_0 are the nodes whose features differ. At each layer, a node can differ if it could already, if it takes
   from one that could, or if its row of coefficients can differ: its own edges changed, or, for a rule of reach 1, the
   edges into one of its senders. D_T, the nodes whose logits can differ, are *reached*; no other can be explained.
2. Downwards. To compute the logits of D_T, ring by ring: the nodes that send to them, those that send to these, ...
   one ring a hop. Edges are kept where a layer reads them, hence not into the outermost ring.
3. What a rule of reach 1 needs beyond: GCN's normalisation asks how much weight comes into the outermost ring. That
   is two numbers a node (`Snapshot.unseen`), not one more ring. Other rules of reach 1 get the ring.

Every reached node has in the region exactly the logits, altered paths and contributions that it has in the whole
graph. Memory: the region, and a few flags for every node of the graph. Graphs in memory are their own region.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from ..arrays import BoolArray, IntArray
from ..errors import InputError
from ..graphs.changes import decode_weights, list_changes
from ..graphs.data_fields import Features, Fields
from ..graphs.expiry import mark_expired
from ..graphs.labels import insert_beside
from ..graphs.pair import Pair, Side, match_snapshots, open_pair
from ..graphs.sample import dtype_of, sample_pair, to_data
from ..graphs.snapshot import Snapshot
from ..graphs.values import types_of, weights_of
from ..network.coefficients import SOURCE_TO_TARGET
from ..network.layers import ForwardPass, Layer, Network, run_pair
from ..readers import AS_IT_IS, ReadModel, Usage, asks_for_places, prepare_inputs, read_network, read_samples
from .comparison import Change, LayerChange, find_change, merge_layers, without_coefficients


@dataclass(frozen=True, eq=False)
class Region:
    """The part of two graphs that a change reaches, under one numbering."""

    pair: Pair
    before: Snapshot
    after: Snapshot
    reached: BoolArray  # [nodes of the region]: whose logits can differ; the others are there to compute these

    @cached_property
    def graphs(self) -> tuple[Data, Data]:
        """`before` and `after` as the user gave them; of stored graphs, this part."""
        return _graphs_of(self.pair, (self.before, self.after))

    def surroundings(self, network: Network, target: int) -> tuple[Data, Data]:
        """All of the graphs that decides the model's logits of one node, one ring beyond the hops included."""
        if not self.pair.on_disk:
            return self.graphs
        if find_extent(network) is None:
            start, depth = np.ones(self.pair.num_nodes, dtype=np.bool_), 0
        else:
            start, depth = np.arange(self.pair.num_nodes) == target, network.num_hops
        return _graphs_of(self.pair, cut_rings(self.pair, start, depth, depth))


NODES_ALONE = (
    "Expected a model of nodes to go with stored graphs (got one of links or whole graphs, and only the part of stored "
    "graphs that a change reaches is ever read: a pooled graph takes from every node, and a pair may lie anywhere); "
    "give Data, such as axiompath.read_graph makes of the files that they were converted from."
)


@dataclass(frozen=True, eq=False)
class Opened:
    """A model read on two graphs, its passes over what a change between them reaches, and their coefficients merged."""

    network: Network
    fields: Fields
    region: Region
    before_pass: ForwardPass
    after_pass: ForwardPass
    layers: list[LayerChange]

    def compare(self) -> Change:
        """What differs."""
        sides = self.region.before, self.region.after
        return find_change(self.network, *sides, self.before_pass, self.after_pass, merged=self.layers)


def open_graphs(model: Any, before: Any, after: Any, usage: Usage = AS_IT_IS) -> Opened:
    """Read a model on two graphs, both in memory or both stored, and run it on what the change reaches."""
    pairs = None
    if isinstance(before, Data) and isinstance(after, Data):
        inputs = prepare_inputs(model, before, after, usage)
        before, after, pairs = inputs.before, inputs.after, inputs.pairs
    pair = open_pair(before, after)
    if pair.on_disk:
        if usage.links is not None or asks_for_places(model, usage.call):
            raise InputError(NODES_ALONE)
        read = read_samples(model, *sample_pair(pair), usage)
        if read.network.rise is not None:
            raise InputError(NODES_ALONE)
        region = cut_region(read.network, pair)
        return _merged(read, region, run_pair(read.network, region.before, region.after))
    whole = pair.before.graph, pair.after.graph
    read = read_network(model, whole, (before, after), usage, pairs)
    if read.graphs[0] is not whole[0]:  # the model takes other fields than x and edge_weight
        pair = match_snapshots(*read.graphs, (before, after))
    region = Region(pair, *read.sides, np.ones(read.sides[0].num_nodes, dtype=np.bool_))
    return _merged(read, region, read.passes)


def _merged(read: ReadModel, region: Region, passes: tuple[ForwardPass, ForwardPass]) -> Opened:
    layers = merge_layers(read.network, (region.before, region.after), passes)
    first, last = (without_coefficients(found) for found in passes)
    return Opened(read.network, read.fields, region, first, last, layers)


@dataclass(frozen=True)
class Extent:
    """How far a target sees."""

    num_hops: int  # features of nodes up to so many hops away
    depth: int  # edges into nodes up to so many hops away; -1 for none


def find_extent(network: Network, *, counted: bool = False) -> Extent | None:
    """How far a network looks from a node; None where some rule looks at the whole graph, or against the edges.

    `counted`: whether what is left out of a snapshot is counted in `unseen`, for the rules that heed it.
    """
    above, depth = 0, -1
    for layer in reversed(network.layers):
        for rule in layer.rules:
            if rule.rises:
                continue
            if rule.reach is None or rule.flow != SOURCE_TO_TARGET:
                return None
            if rule.reads_edges:
                depth = max(depth, above + (0 if counted and rule.heeds_unseen else rule.reach))
        above += takes_from_others(layer)
    return Extent(above, depth)


def takes_from_others(layer: Layer) -> bool:
    """Whether a node's output depends on its senders' inputs: as messages, or through a coefficient of its own.

    From an edge to its receiver is no hop: what its ends hold is, and comes with the layer that gathers it.
    """
    return any(
        not rule.rises and ((not rule.local and not rule.from_edges) or (rule.reads_inputs and rule.reads_edges))
        for rule in layer.rules
    )


def cut_region(network: Network, pair: Pair) -> Region:
    """What the change between two graphs reaches in this network, as snapshots in memory."""
    extent = find_extent(network, counted=True)
    if extent is None:
        everything = np.ones(pair.num_nodes, dtype=np.bool_)
        return Region(pair, *cut_rings(pair, everything, 0, 0), everything)
    reached = find_reached(network, pair)
    if not reached.any():
        # Nothing changed: one node, without its edges, stands for the graph.
        start = np.zeros(pair.num_nodes, dtype=np.bool_)
        start[0] = True
        return Region(pair, *cut_rings(pair, start, -1, 0), np.zeros(1, dtype=np.bool_))
    before, after = cut_rings(pair, reached, extent.depth, extent.num_hops)
    return Region(pair, before, after, reached[before.node_ids])


def find_reached(network: Network, pair: Pair) -> BoolArray:
    """D_T: the nodes whose logits can differ. [num_nodes]."""
    differs = pair.altered.copy()
    beside: BoolArray | None = None
    for layer in network.layers:
        above = differs.copy()
        if takes_from_others(layer):
            above |= pair.receivers(differs)
        if any(rule.reads_edges for rule in layer.rules):
            above |= pair.touched
        if any(rule.reach for rule in layer.rules):
            beside = pair.receivers(pair.touched) if beside is None else beside
            above |= beside
        differs = above
    return differs


def find_pair_changes(
    pair: Pair, names: Mapping[int, str], *, directed: bool = False, open_nodes: bool = False
) -> pd.DataFrame:
    """`list_changes` of a pair; `names` go before those that the graphs bring along."""
    found = number_pair_changes(pair, names, directed=directed, open_nodes=open_nodes)
    return mark_expired(decode_weights(found, pair.values), pair.before.data, pair.after.data)


def number_pair_changes(
    pair: Pair, names: Mapping[int, str], *, directed: bool = False, open_nodes: bool = False
) -> pd.DataFrame:
    """The same with the pair's own numbers in place of weights, where edges have features."""
    # All that differs: nodes, features and edges, with the nodes at both ends.
    snapshots = cut_rings(pair, pair.touched | pair.altered, 0, 0)
    found = list_changes(
        snapshots,
        {**pair.names(snapshots[0].node_ids), **names},
        directed=directed,
        open_nodes=open_nodes,
        values=pair.values,
    )
    called = max((side.graph.relation_names for side in (pair.before, pair.after)), key=len)
    if called and "relation" in found:
        insert_beside(found, "relation", found.relation.map(dict(enumerate(called))))
    return found


def cut_rings(pair: Pair, start: BoolArray, depth: int, num_hops: int) -> tuple[Snapshot, Snapshot]:
    """The nodes `start` and those up to num_hops away, with the edges into nodes up to `depth` away, as Snapshots.

    Nodes whose edges are kept have their senders too, so that rings go one beyond `depth` at least; depth -1 keeps no
    edge. What is left out is counted in `unseen`.
    """
    inside, ring = start.copy(), np.flatnonzero(start)
    whole = start.copy() if depth >= 0 else np.zeros_like(start)
    for distance in range(max(num_hops, depth + 1)):
        ring = widen(pair, ring, inside)
        if distance + 1 <= depth:
            whole[ring] = True
        if not len(ring):
            break
    numbers = np.flatnonzero(inside)
    node_ids = pair.node_ids(numbers)
    before = replace(_cut_side(pair.before, numbers, whole[numbers]), node_ids=node_ids)
    # Where no features differ, both snapshots hold the same ones.
    shared = None if pair.altered[numbers].any() else before.x
    return before, replace(_cut_side(pair.after, numbers, whole[numbers], shared), node_ids=node_ids)


def widen(pair: Pair, ring: IntArray, inside: BoolArray) -> IntArray:
    """The next ring: all that send to this one in either graph and are not `inside` yet, where they are then."""
    found = np.zeros_like(inside)
    for side in (pair.before, pair.after):
        rows = side.rows_of(ring)
        found[side.edges.take(rows[rows >= 0]).senders] = True
    wider = np.flatnonzero(found & ~inside)
    inside[wider] = True
    return wider


def _cut_side(side: Side, numbers: IntArray, whole: BoolArray, x: Features | None = None) -> Snapshot:
    """A snapshot of these nodes: all edges into those that are `whole`, of the others only their self-loops."""
    edges, rows = side.edges, side.rows_of(numbers)
    here = rows >= 0
    kept, rest = np.flatnonzero(here & whole), np.flatnonzero(here & ~whole)
    taken, others = edges.take(rows[kept]), edges.take(rows[rest])
    owner = np.repeat(rest, np.diff(others.indptr))
    is_loop = others.senders == numbers[owner]
    unseen, values = np.zeros((2, len(numbers))), taken.values
    unseen[0] = np.bincount(owner[~is_loop], minlength=len(numbers))
    if len(edges.values):
        unseen[1] = np.bincount(owner[~is_loop], weights_of(others.values[~is_loop]), len(numbers))
        values = np.concatenate([taken.values, others.values[is_loop]])
    receivers = np.concatenate([np.repeat(kept, np.diff(taken.indptr)), owner[is_loop]])
    places = np.concatenate([_find_places(numbers, taken.senders), owner[is_loop]])
    if x is None:
        x = _place(side.graph.take_features(rows[here]), here)
    return Snapshot(
        x,
        np.stack([places, receivers]),
        weights_of(values) if side.graph.weighted else None,
        numbers,
        here,
        unseen if len(rest) else None,
        edge_types=types_of(values),
    )


def _graphs_of(pair: Pair, parts: tuple[Snapshot, Snapshot]) -> tuple[Data, Data]:
    before, after = (
        to_data(part, dtype_of(side.graph.x)) if side.data is None else side.data
        for part, side in zip(parts, (pair.before, pair.after), strict=True)
    )
    return before, after


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

"""Network + the targets of many questions -> what each change does to every target that it reaches, change by change.

A change is *left out* of `after`, and *put in* by itself, into `before`. Either differs from a pass that is known where
the change reaches and nowhere else. So some changes at a time are toggled by `Variants`, on the part of the graph that
they reach, with all others as they are on that side; what sees none of them has the values of the pass.

Reach. R(i) are the nodes whose rows of coefficients change i can alter: receivers of its edges and, where degrees are
counted, whoever takes from these. D_t(i), whose z can differ at hop t, are D_(t-1)(i), whoever takes from it, and R(i),
as far as some target can be reached in the hops that are left. What a change costs is the number of edges into D(i).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..change.region import find_extent
from ..graphs.data_fields import Features
from ..graphs.pair import Pair
from ..graphs.rows import entries_of
from ..graphs.snapshot import Snapshot
from ..graphs.values import types_of, weights_of
from ..network.layers import Channel, Layer, Network, project, run_network
from ..storage.memory import cut_runs
from .players import APPLIED, NOT_APPLIED, Players
from .receptive_field import ConditionedGraph, Conditions, ReceptiveField, cut_receptive_field
from .root import RootPlace
from .variants import Variants, knows

STACK = 5e5  # edges into what the changes that are toggled together reach, one change after the other
TOGETHER = 256  # and the most such changes: what a place has of them stays in the cache
WALKS = 5e6  # upper bound on the nodes that changes reach, for those whose reach is found together
BEFORE, AFTER = 0, 1
ALWAYS, NEVER = -1, -2  # in place of a condition


@dataclass(frozen=True, eq=False)
class TogglingGraph:
    """What decides all targets, as one graph with conditions, and the network's passes on it before and after."""

    network: Network  # its first layer takes what the channels make of the features, where no rule reads these
    indptr: IntArray  # [num_nodes + 1]: edges of either graph, by receiver
    senders: IntArray
    values: NDArray[Any]  # weights and types of edges
    weighted: bool
    node_types: IntArray | None  # [num_nodes]
    condition: IntArray  # -1 for always
    conditions: Conditions
    feature_player: IntArray  # [num_nodes], -1 where features do not change
    x: tuple[Features, Features]
    z: tuple[tuple[FloatArray, ...], tuple[FloatArray, ...]]  # of each layer, before and after
    targets: IntArray  # [num_targets]: their nodes
    rows: IntArray  # [num_players]: rows of `changes()`
    num_hops: int

    @property
    def num_nodes(self) -> int:
        """Nodes of both graphs that are here."""
        return len(self.indptr) - 1

    @property
    def num_players(self) -> int:
        """Changes that reach some target."""
        return len(self.rows)

    @cached_property
    def counts_degrees(self) -> bool:
        """Whether the edges into a node alter the coefficients of those that it sends to."""
        return any(rule.reach for layer in self.network.layers for rule in layer.rules)

    @cached_property
    def outwards(self) -> sparse.csr_array:
        """Whom each node sends to, in either graph. [num_nodes, num_nodes]."""
        shape = (self.num_nodes, self.num_nodes)
        into = sparse.csr_array((np.ones(len(self.senders), dtype=np.float32), self.senders, self.indptr), shape=shape)
        return _flat(into.T.tocsr())

    @cached_property
    def touched(self) -> sparse.csr_array:
        """Receivers of the edges of each change. [num_players, num_nodes]."""
        edges = np.flatnonzero(self.condition >= 0)
        into = np.searchsorted(self.indptr, edges, side="right") - 1
        owners = self.conditions.players[self.condition[edges]]
        return self._marked(owners.T.reshape(-1), np.tile(into, 2))

    @cached_property
    def altered(self) -> sparse.csr_array:
        """The node whose features each change alters. [num_players, num_nodes]."""
        return self._marked(self.feature_player, np.arange(self.num_nodes))

    def _marked(self, players: IntArray, nodes: IntArray) -> sparse.csr_array:
        known = players >= 0
        ones = np.ones(int(known.sum()), dtype=np.float32)
        shape = (self.num_players, self.num_nodes)
        return _flat(sparse.csr_array((ones, (players[known], nodes[known])), shape=shape))

    @cached_property
    def needed(self) -> list[sparse.dia_array]:
        """Nodes whose z some target needs after 0, 1, ... hops, as diagonal matrices."""
        wanted = np.zeros(self.num_nodes, dtype=np.bool_)
        wanted[self.targets] = True
        found = [wanted]
        for _ in range(self.num_hops):
            wanted = wanted.copy()
            wanted[self.senders[entries_of(self.indptr, np.flatnonzero(found[-1]))]] = True
            found.append(wanted)
        return [sparse.diags_array(nodes.astype(np.float32), format="csr") for nodes in reversed(found)]

    def reach(self, players: IntArray) -> sparse.csr_array:
        """D(i): nodes whose z some change can alter, as far as a target needs them. [len(players), num_nodes]."""
        rows = self.touched[players]
        found = every = self.altered[players]
        if self.counts_degrees:
            rows = _flat(rows + rows @ self.outwards)
        for needed in self.needed[1:] or self.needed:
            found = _flat((found + found @ self.outwards + rows) @ needed)
            every = _flat(every + found)
        return _flat(every + self.touched[players])  # whose degrees others need, whether or not their own z is

    @cached_property
    def costs(self) -> tuple[IntArray, IntArray]:
        """Of each change the edges into what it reaches, and the targets that it reaches. [num_players] each."""
        degree = np.diff(self.indptr) + 1
        goal = np.zeros(self.num_nodes, dtype=np.int64)
        goal[self.targets] = 1
        walks = np.ones(self.num_nodes)
        for _ in range(self.num_hops + self.counts_degrees):
            walks = np.minimum(walks + self.outwards @ walks, self.num_nodes)
        bounds = np.minimum((self.touched + self.altered) @ walks, self.num_nodes)
        edges, pairs = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        runs = cut_runs(bounds, WALKS)
        for start, stop in zip(runs[:-1].tolist(), runs[1:].tolist(), strict=True):
            found = self.reach(np.arange(start, stop))
            ones = sparse.csr_array((np.ones(found.nnz, dtype=np.int64), found.indices, found.indptr), found.shape)
            edges.append(ones @ degree)
            pairs.append(ones @ goal)
        return np.concatenate(edges), np.concatenate(pairs)


@dataclass(frozen=True, eq=False)
class Toggled:
    """Logits of targets with one change left out of `after`, and with only it put into `before`; a row is a pair."""

    players: IntArray  # [num_pairs]
    targets: IntArray  # [num_pairs]: places among the targets
    left_out: FloatArray  # [num_pairs, num_logits]
    put_in: FloatArray  # [num_pairs, num_logits]


def can_toggle(network: Network) -> bool:
    """Whether changes can be toggled one by one: nodes are predicted, and rules look along the edges and no further."""
    return network.rise is None and knows(network) and find_extent(network) is not None


def make_toggling_graph(network: Network, players: Players, pair: Pair, nodes: IntArray) -> TogglingGraph:
    """The graph of the targets with these numbers, which both graphs have."""
    extent = find_extent(network)
    assert extent is not None
    field = cut_receptive_field(players, pair, nodes, extent, counted=False, standing=np.zeros(0, dtype=np.int64))
    x = _features(field)
    network, x = _project_first(network, x)
    indptr = np.searchsorted(field.receivers, np.arange(field.num_nodes + 1))
    found = []
    for side, applied in ((BEFORE, False), (AFTER, True)):
        hold = field.conditions.hold(np.full((1, field.num_players), applied))[:, 0]
        here = np.append(hold, True)[field.condition]
        edge_index = np.stack([field.senders, field.receivers])[:, here]
        values = field.weights[here]
        snapshot = Snapshot(
            x[side],
            edge_index,
            weights_of(values) if field.weighted else None,
            np.arange(field.num_nodes),
            np.ones(field.num_nodes, dtype=np.bool_),
            edge_types=types_of(values),
            node_types=field.node_types,
        )
        found.append(run_network(network, snapshot).z)
    return TogglingGraph(
        network,
        indptr,
        field.senders,
        field.weights,
        field.weighted,
        field.node_types,
        field.condition,
        field.conditions,
        field.feature_player,
        x,
        (found[0], found[1]),
        field.rows_of(nodes),
        field.rows,
        extent.num_hops,
    )


def toggle(graph: TogglingGraph, players: IntArray) -> Toggled:
    """What these changes do to every target that they reach; pairs by change, then by target's node."""
    cost = np.maximum(graph.costs[0][players].astype(np.float64), STACK / TOGETHER)
    runs = cut_runs(cost, STACK)
    nothing, empty = np.zeros(0, dtype=np.int64), np.zeros((0, graph.network.num_classes))
    found = [Toggled(nothing, nothing, empty, empty)]
    for start, stop in zip(runs[:-1].tolist(), runs[1:].tolist(), strict=True):
        found.append(_toggle_some(graph, players[start:stop]))
    return Toggled(*(np.concatenate([getattr(some, part.name) for some in found]) for part in fields(Toggled)))


def _toggle_some(graph: TogglingGraph, players: IntArray) -> Toggled:
    reached = graph.reach(players)
    reached.sort_indices()
    nodes = np.unique(reached.indices).astype(np.int64)
    place = np.full(graph.num_nodes, -1, dtype=np.int64)
    place[graph.targets] = np.arange(len(graph.targets))
    player, target = np.repeat(np.arange(len(players)), np.diff(reached.indptr)), place[reached.indices]
    player, target = player[target >= 0], target[target >= 0]
    roots = np.unique(graph.targets[target])
    subsets, logits = np.eye(len(players), dtype=np.bool_), []
    for side in (AFTER, BEFORE):
        part = _cut_part(graph, players, nodes, side)
        root = RootPlace("node", np.searchsorted(part.numbers, roots))
        h, rows = Variants(graph.network, part, root, part.known).run_rows(subsets)
        logits.append(h[rows.rows_of(np.searchsorted(part.numbers, graph.targets[target]), player)])
    return Toggled(players[player], target, *logits)


@dataclass(frozen=True, eq=False)
class ReachedPart(ConditionedGraph):
    """What some changes reach, with all edges into it and into its senders where degrees are counted: `before`, or
    `after`, with these toggled."""

    graph: TogglingGraph
    side: int
    numbers: IntArray  # [num_nodes]: in the graph, ascending
    players: IntArray  # [num_players]

    @property
    def num_players(self) -> int:
        """The changes that are toggled."""
        return len(self.players)

    def features(self, nodes: IntArray, *, applied: bool) -> Features:
        """Toggled, those of the other side."""
        return self.graph.x[self.side != applied][self.numbers[nodes]]

    def known(self, t: int, nodes: IntArray) -> FloatArray:
        """What the pass of this side has of a layer."""
        layers, z = self.graph.network.layers, self.graph.z[self.side][t][self.numbers[nodes]]
        return z if t + 1 == len(layers) else layers[t].activate(z)


def _cut_part(graph: TogglingGraph, players: IntArray, nodes: IntArray, side: int) -> ReachedPart:
    """The edges into these nodes and their senders; those that depend only on a change that is not toggled are
    decided."""
    local = np.full(graph.num_players + 1, -1, dtype=np.int64)
    local[players] = np.arange(len(players))
    if graph.counts_degrees:
        nodes = np.union1d(nodes, graph.senders[entries_of(graph.indptr, nodes)])
    edges = entries_of(graph.indptr, nodes)
    receivers = np.repeat(nodes, np.diff(graph.indptr)[nodes])
    senders, condition = graph.senders[edges], graph.condition[edges]
    numbers = np.unique(np.concatenate([nodes, senders]))
    # Toggled, a change is applied on one side and not on the other; all others are as they are on this one.
    owners, held = graph.conditions.players, (graph.conditions.when == APPLIED) == (side == AFTER)
    some = np.unique(condition[condition >= 0])
    mine = np.sort(local[owners[some]], axis=1)[:, ::-1]
    possible = held[some] | ((mine >= 0).sum(axis=1) == (owners[some] >= 0).sum(axis=1))
    free = possible & (mine[:, 0] >= 0)
    number = np.full(len(owners) + 1, NEVER, dtype=np.int64)
    number[some[possible]] = number[-1] = ALWAYS
    number[some[free]] = np.arange(int(free.sum()))
    there = number[condition] != NEVER
    return ReachedPart(
        np.searchsorted(numbers, senders[there]),
        np.searchsorted(numbers, receivers[there]),
        graph.values[edges[there]],
        graph.weighted,
        number[condition[there]],
        np.full(len(numbers), -1),
        Conditions(mine[free], np.where(held[some[free]], NOT_APPLIED, APPLIED), ()),
        local[graph.feature_player[numbers]],
        None if graph.node_types is None else graph.node_types[numbers],
        graph,
        side,
        numbers,
        players,
    )


def _features(field: ReceptiveField) -> tuple[Features, Features]:
    """Features before and after, the same array where no change alters any; of nodes that are only counted, none."""
    inner = np.flatnonzero(field.inner)
    before = _spread(field.features(inner, applied=False), inner, field.num_nodes)
    if (field.feature_player < 0).all():
        return before, before
    return before, _spread(field.features(inner, applied=True), inner, field.num_nodes)


def _spread(part: Features, rows: IntArray, num_rows: int) -> Features:
    if isinstance(part, np.ndarray):
        x = np.zeros((num_rows, part.shape[1]))
        x[rows] = part
        return x
    held = sparse.coo_array(part)
    return sparse.csr_array((held.data, (rows[held.row], held.col)), shape=(num_rows, part.shape[1]))


def _project_first(network: Network, x: tuple[Features, Features]) -> tuple[Network, tuple[Features, Features]]:
    """The first layer's linear maps applied once and for all, where no rule of it reads the features themselves."""
    first: Layer = network.layers[0]
    if any(rule.reads_inputs for rule in first.rules):
        return network, x
    made = [np.concatenate([project(side, channel) for channel in first.channels], axis=1) for side in x[:1]]
    made.append(
        made[0] if x[1] is x[0] else np.concatenate([project(x[1], channel) for channel in first.channels], axis=1)
    )
    channels, start = [], 0
    for channel in first.channels:
        stop = start + channel.outputs.stop - channel.outputs.start
        channels.append(Channel(channel.coefficients, None, slice(start, stop), channel.outputs))
        start = stop
    layers = (replace(first, channels=tuple(channels)), *network.layers[1:])
    return replace(network, layers=layers, num_features=start), (made[0], made[1])


def _flat(matrix: sparse.csr_array) -> sparse.csr_array:
    """The same places, each with a one."""
    found = sparse.csr_array(matrix)
    found.sum_duplicates()
    found.eliminate_zeros()
    found.data[:] = 1.0
    return found

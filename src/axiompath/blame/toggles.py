"""Network + the targets of many questions -> what each change does to every target that it reaches, change by change.

A change is *left out* of `after`, and *put in alone*, into `before`. Either differs from a pass that is known where the
change reaches and nowhere else, so the network is run again there: for some changes at a time, each has a copy of
the nodes that it reaches and of those that send to them, and `rerun_network` runs on all the copies as on one graph.

Reach. R(i) are the nodes whose rows of coefficients change i can alter: receivers of its edges and, where degrees are
counted, whoever takes from these. D_t(i), whose z can differ at hop t, are D_(t-1)(i), whoever takes from it, and R(i),
as far as some target can be reached in the hops that are left. What a change costs is the number of edges into D(i).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.pair import Pair
from ..graphs.rows import entries_of
from ..graphs.snapshot import Snapshot
from ..graphs.values import types_of, weights_of
from ..network.layers import Channel, ForwardPass, Layer, Network, project, run_network
from ..network.update import rerun_network
from ..storage.memory import cut_runs
from .players import APPLIED, Players
from .receptive_field import Conditions, ReceptiveField, cut_receptive_field, find_extent

STACK = 5e5  # edges of the copies that are run together; larger stacks leave the cache
WALKS = 5e6  # upper bound on the nodes that changes reach, for those whose reach is found together
BEFORE, AFTER = 0, 1


class Into(NamedTuple):
    """The edges into each node of one graph, as far as counting them goes."""

    sums: FloatArray  # [2, num_nodes]: their number and weight, without loops
    loop_indptr: IntArray  # [num_nodes + 1]
    loop_values: NDArray[Any]


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
    passes: tuple[ForwardPass, ForwardPass]
    targets: IntArray  # [num_targets]: their nodes
    rows: IntArray  # [num_players]: rows of `changes()`
    num_hops: int

    @property
    def num_nodes(self) -> int:
        """Nodes of both graphs that are here."""
        return len(self.indptr) - 1

    @property
    def num_players(self) -> int:
        """Changes in sight of some target."""
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

    @cached_property
    def into(self) -> tuple[Into, Into]:
        """What comes into each node before and after."""
        receivers = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        found = []
        for side in (BEFORE, AFTER):
            when = np.append(self.conditions.when == APPLIED, side == AFTER)[self.condition]
            edges = np.flatnonzero(when == (side == AFTER))
            into, loop = receivers[edges], receivers[edges] == self.senders[edges]
            values = self.values[edges]
            sums = np.bincount(into[~loop], minlength=self.num_nodes).astype(np.float64)
            heavy = np.bincount(into[~loop], weights=weights_of(values[~loop]), minlength=self.num_nodes)
            loop_indptr = np.searchsorted(into[loop], np.arange(self.num_nodes + 1))
            found.append(Into(np.stack([sums, heavy]), loop_indptr, values[loop]))
        return found[0], found[1]

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
    """Logits of targets with one change left out of `after`, and with it alone put into `before`; a row is a pair."""

    players: IntArray  # [num_pairs]
    targets: IntArray  # [num_pairs]: places among the targets
    left_out: FloatArray  # [num_pairs, num_logits]
    put_in: FloatArray  # [num_pairs, num_logits]


def can_toggle(network: Network) -> bool:
    """Whether changes can be toggled one by one: nodes are predicted, and rules look along the edges and no further."""
    rules = [rule for layer in network.layers for rule in layer.rules]
    plain = network.rise is None and not network.takes_edges and find_extent(network) is not None
    return plain and all(rule.heeds_unseen or not rule.reach for rule in rules)


def make_toggling_graph(network: Network, players: Players, pair: Pair, nodes: IntArray) -> TogglingGraph:
    """The graph of the targets with these numbers, which both graphs have."""
    extent = find_extent(network)
    assert extent is not None
    field = cut_receptive_field(players, pair, nodes, extent, counted=False, standing=np.zeros(0, dtype=np.int64))
    x = _features(field)
    network, x = _project_first(network, x)
    indptr = np.searchsorted(field.receivers, np.arange(field.num_nodes + 1))
    passes = []
    for side, applied in ((BEFORE, False), (AFTER, True)):
        hold = field.conditions.hold(np.full((1, field.num_players), applied))[:, 0]
        here = np.append(hold, True)[field.condition]
        edge_index = np.stack([field.senders, field.receivers])[:, here]
        passes.append(
            run_network(network, _snapshot(field, x[side], edge_index, field.weights[here], field.node_types))
        )
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
        (passes[0], passes[1]),
        field.rows_of(nodes),
        field.rows,
        extent.num_hops,
    )


def toggle(graph: TogglingGraph, players: IntArray) -> Toggled:
    """What these changes do to every target that they reach; pairs by change, then by target's node."""
    runs = cut_runs(graph.costs[0][players].astype(np.float64), STACK)
    found = [
        _toggle_some(graph, players[start:stop])
        for start, stop in zip(runs[:-1].tolist(), runs[1:].tolist(), strict=True)
    ]
    nothing = np.zeros(0, dtype=np.int64)
    empty = np.zeros((0, graph.network.num_classes))
    return Toggled(
        np.concatenate([nothing, *(some.players for some in found)]),
        np.concatenate([nothing, *(some.targets for some in found)]),
        np.concatenate([empty, *(some.left_out for some in found)]),
        np.concatenate([empty, *(some.put_in for some in found)]),
    )


def _toggle_some(graph: TogglingGraph, players: IntArray) -> Toggled:
    place = np.full(graph.num_nodes, -1, dtype=np.int64)
    place[graph.targets] = np.arange(len(graph.targets))
    copies = _Copies(graph, players)
    logits = [copies.run(side) for side in (AFTER, BEFORE)]
    wanted = np.flatnonzero(copies.inner & (place[copies.node] >= 0))
    return Toggled(players[copies.copy[wanted]], place[copies.node[wanted]], logits[0][wanted], logits[1][wanted])


class _Copies:
    """A copy for each of some changes: of the nodes that it reaches, with all edges into them, and of their senders."""

    def __init__(self, graph: TogglingGraph, players: IntArray) -> None:
        self.graph, self.players = graph, players
        reached = graph.reach(players)
        reached.sort_indices()
        copy = np.repeat(np.arange(len(players)), np.diff(reached.indptr))
        self.edges = entries_of(graph.indptr, reached.indices)
        degree = np.diff(graph.indptr)[reached.indices]
        n = graph.num_nodes
        mine = copy * n + reached.indices
        self.owner = np.repeat(copy, degree)  # of each edge, its copy
        sent = self.owner * n + graph.senders[self.edges]
        self.keys = np.unique(np.concatenate([mine, sent]))
        self.copy, self.node = np.divmod(self.keys, n)
        self.rows = np.searchsorted(self.keys, mine)
        self.inner = np.zeros(len(self.keys), dtype=np.bool_)
        self.inner[self.rows] = True
        self.outer = np.flatnonzero(~self.inner)
        self.edge_index = np.stack([np.searchsorted(self.keys, sent), np.repeat(self.rows, degree)])
        self.known: dict[int, sparse.csr_array] = {}

    def run(self, side: int) -> FloatArray:
        """Logits of all copies with their change left out of `after`, or put into `before`. [num_rows, num_logits]."""
        graph, start = self.graph, self.graph.passes[side]
        self.known = {}
        coefficients = tuple(tuple(self._rows_of(matrix) for matrix in layer) for layer in start.coefficients)
        x = graph.x[side][self.node]
        begun = ForwardPass(start.layers, x, coefficients, tuple(z[self.node] for z in start.z))
        other = graph.feature_player[self.node] == self.players[self.copy]
        changed = x
        if other.any():
            changed = _with_features(x, np.flatnonzero(other), graph.x[1 - side][self.node[other]])
        unseen, loops = self._left_out(side)
        types = None if graph.node_types is None else graph.node_types[self.node]
        graphs = []
        for features, hold in ((x, self._hold(side, toggled=False)), (changed, self._hold(side, toggled=True))):
            edge_index = np.concatenate([self.edge_index[:, hold], loops[0]], axis=1)
            values = np.concatenate([graph.values[self.edges[hold]], loops[1]])
            graphs.append(replace(_snapshot(graph, features, edge_index, values, types), unseen=unseen))
        return rerun_network(graph.network, graphs[0], graphs[1], begun).logits

    def _hold(self, side: int, *, toggled: bool) -> BoolArray:
        """Which edges are there. [num_edges]."""
        conditions, condition = self.graph.conditions, self.graph.condition[self.edges]
        hold = np.ones(len(condition), dtype=np.bool_)
        some = np.flatnonzero(condition >= 0)
        applied = conditions.when[condition[some]] == APPLIED
        if not toggled:
            hold[some] = applied == (side == AFTER)
            return hold
        first, second = conditions.players[condition[some]].T
        mine = self.players[self.owner[some]]
        # Alone, or alone not, applied: what waits for it and nothing else is as on the other side, what waits for
        # none but others as on this one; what waits for it and others is not there on either.
        others = (first != mine) & (second != mine)
        alone = (first == mine) & ((second < 0) | (second == mine))
        hold[some] = np.where(applied == (side == AFTER), others, alone)
        return hold

    def _left_out(self, side: int) -> tuple[FloatArray | None, tuple[IntArray, NDArray[Any]]]:
        """Of nodes that are only senders: number and weight of the edges into them, and their loops."""
        if not self.graph.counts_degrees or not len(self.outer):
            return None, (np.zeros((2, 0), dtype=np.int64), np.zeros(0))
        nodes, into = self.node[self.outer], self.graph.into[side]
        unseen = np.zeros((2, len(self.keys)))
        unseen[:, self.outer] = into.sums[:, nodes]
        rows = np.repeat(self.outer, np.diff(into.loop_indptr)[nodes])
        return unseen, (np.stack([rows, rows]), into.loop_values[entries_of(into.loop_indptr, nodes)])

    def _rows_of(self, matrix: sparse.csr_array) -> sparse.csr_array:
        """The rows of a pass's coefficients that can change, in the numbers of the copies."""
        if id(matrix) not in self.known:
            nodes, size = self.node[self.rows], len(self.keys)
            entries, degree = entries_of(matrix.indptr, nodes), np.diff(matrix.indptr)[nodes]
            wanted = np.repeat(self.copy[self.rows], degree) * self.graph.num_nodes + matrix.indices[entries]
            indptr = np.zeros(size + 1, dtype=np.int64)
            indptr[self.rows + 1] = degree
            place = np.searchsorted(self.keys, wanted).astype(np.int32)
            self.known[id(matrix)] = sparse.csr_array(
                (matrix.data[entries], place, np.cumsum(indptr)), shape=(size, size)
            )
        return self.known[id(matrix)]


def _snapshot(
    of: ReceptiveField | TogglingGraph,
    x: Features,
    edge_index: IntArray,
    values: NDArray[Any],
    node_types: IntArray | None,
) -> Snapshot:
    size = x.shape[0]
    weights, present = weights_of(values) if of.weighted else None, np.ones(size, dtype=np.bool_)
    types = types_of(values)
    return Snapshot(x, edge_index, weights, np.arange(size), present, edge_types=types, node_types=node_types)


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


def _with_features(x: Features, rows: IntArray, other: Features) -> Features:
    if isinstance(x, np.ndarray):
        changed = x.copy()
        changed[rows] = other
        return changed
    order = np.arange(x.shape[0])
    order[rows] = x.shape[0] + np.arange(len(rows))
    return sparse.csr_array(sparse.vstack([x, sparse.csr_array(other)]))[order]


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

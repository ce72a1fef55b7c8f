"""Network + the targets of many questions -> what each change does to every target that it reaches, change by change.

A change is *left out* of `after`, and *put in* by itself, into `before`. Some changes at a time are toggled by
`Variants` on what decides all targets, with all other changes as they are on that side: what sees none of those toggled
is computed once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.region import find_extent
from ..graphs.data_fields import Features
from ..graphs.pair import Pair
from ..network.layers import Channel, Layer, Network, project
from ..storage.memory import cut_runs
from .players import APPLIED, NOT_APPLIED, Players
from .receptive_field import ConditionedGraph, Conditions, ReceptiveField, cut_receptive_field
from .root import RootPlace
from .variants import Variants, knows

STACK = 5e5  # edges into what the changes that are toggled together reach, one change after the other
TOGETHER = 256  # and the most such changes: what a place has of them stays in the cache
BEFORE, AFTER = 0, 1
ALWAYS, NEVER = -1, -2  # in place of a condition


@dataclass(frozen=True, eq=False)
class TogglingGraph(ConditionedGraph):
    """What decides all targets, as one graph with conditions."""

    network: Network  # its first layer takes what the channels make of the features, where no rule reads these
    x: tuple[Features, Features]  # where no change is applied, and where all are
    targets: IntArray  # [num_targets]: their nodes
    rows: IntArray  # [num_players]: rows of `changes()`

    @property
    def num_players(self) -> int:
        """Changes that reach some target."""
        return len(self.rows)

    def features(self, nodes: IntArray, *, applied: bool) -> Features:
        """Features of these rows before, or after, their change is applied. [len(nodes), num_features]."""
        return self.x[applied][nodes]

    def of(self, players: IntArray, side: int | None = None) -> TogglingGraph:
        """The same where only these changes are toggled; all others are as they are on a side.

        Without a side, whatever depends on any other change is there: the union of both graphs.
        """
        local = np.full(self.num_players + 1, -1, dtype=np.int64)
        local[players] = np.arange(len(players))
        # Toggled, a change is applied on one side and not on the other.
        owners, held = self.conditions.players, (self.conditions.when == APPLIED) == (side == AFTER)
        mine = np.sort(local[owners], axis=1)[:, ::-1]
        possible = held | ((mine >= 0).sum(axis=1) == (owners >= 0).sum(axis=1)) | (side is None)
        free = possible & (mine[:, 0] >= 0)
        number = np.append(np.where(possible, ALWAYS, NEVER), ALWAYS)
        number[:-1][free] = np.arange(int(free.sum()))
        there = number[self.condition] != NEVER
        return replace(
            self,
            senders=self.senders[there],
            receivers=self.receivers[there],
            weights=self.weights[there],
            condition=number[self.condition[there]],
            conditions=Conditions(mine[free], np.where(held[free], NOT_APPLIED, APPLIED), ()),
            feature_player=local[self.feature_player],
            x=self.x[::-1] if side == AFTER else self.x,
            rows=self.rows[players],
        )

    @property
    def variants(self) -> Variants:
        """The network on it, for all targets."""
        return Variants(self.network, self, RootPlace("node", np.unique(self.targets)))

    def seen(self) -> tuple[BoolArray, BoolArray]:
        """Which changes alter any z of each node, and the logits of each target. [n, num_players]."""
        masks = self.variants.masks
        both = np.bitwise_or.reduce(masks, axis=0), masks[-1][self.targets]
        bits = (np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little", count=self.num_players) for mask in both)
        nodes, targets = (found.astype(np.bool_) for found in bits)
        return nodes, targets

    @cached_property
    def costs(self) -> tuple[IntArray, IntArray]:
        """Of each change the edges into what it reaches, and the targets that it reaches. [num_players] each."""
        degree = np.bincount(self.receivers, minlength=self.num_nodes).astype(np.float64) + 1
        edges, pairs = np.zeros(self.num_players, dtype=np.int64), np.zeros(self.num_players, dtype=np.int64)
        for start in range(0, self.num_players, TOGETHER):
            some = slice(start, start + TOGETHER)
            nodes, targets = self.of(np.arange(self.num_players)[some]).seen()
            edges[some], pairs[some] = degree @ nodes, targets.sum(axis=0)
        return edges, pairs


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
    field = cut_receptive_field(players, pair, nodes, extent, counted=False, standing=np.zeros(0, dtype=np.int64))
    network, x = _project_first(network, field)
    held = {part.name: getattr(field, part.name) for part in fields(ConditionedGraph)}
    return TogglingGraph(**held, network=network, x=x, targets=field.rows_of(nodes), rows=field.rows)


def toggle(graph: TogglingGraph, players: IntArray) -> Toggled:
    """What these changes do to every target that they reach; pairs by change, then by target."""
    cost = np.maximum(graph.costs[0][players].astype(np.float64), STACK / TOGETHER)
    runs = cut_runs(cost, STACK)
    nothing, empty = np.zeros(0, dtype=np.int64), np.zeros((0, graph.network.num_classes))
    found = [Toggled(nothing, nothing, empty, empty)]
    for start, stop in zip(runs[:-1].tolist(), runs[1:].tolist(), strict=True):
        found.append(_toggle_some(graph, players[start:stop]))
    return Toggled(*(np.concatenate([getattr(some, part.name) for some in found]) for part in fields(Toggled)))


def _toggle_some(graph: TogglingGraph, players: IntArray) -> Toggled:
    player, target = np.nonzero(graph.of(players).seen()[1].T)
    logits = []
    for side in (AFTER, BEFORE):
        h, rows = graph.of(players, side).variants.run_rows(np.eye(len(players), dtype=np.bool_))
        logits.append(h[rows.rows_of(graph.targets[target], player)])
    return Toggled(players[player], target, *logits)


def _project_first(network: Network, field: ReceptiveField) -> tuple[Network, tuple[Features, Features]]:
    """Features where no change is applied, and where all are; of nodes that are only counted, none.

    The first layer's linear maps are applied to them once and for all, where no rule of it reads the features.
    """
    first: Layer = network.layers[0]
    inner = np.flatnonzero(field.inner)
    parts = [
        field.features(inner, applied=applied) for applied in (False, True)[: 1 + (field.feature_player >= 0).any()]
    ]
    if not any(rule.reads_inputs for rule in first.rules):
        parts = [np.concatenate([project(part, channel) for channel in first.channels], axis=1) for part in parts]
        ends = np.cumsum([0, *(channel.outputs.stop - channel.outputs.start for channel in first.channels)]).tolist()
        channels = [
            Channel(channel.coefficients, None, slice(start, stop), channel.outputs)
            for channel, start, stop in zip(first.channels, ends[:-1], ends[1:], strict=True)
        ]
        layers = (replace(first, channels=tuple(channels)), *network.layers[1:])
        network = replace(network, layers=layers, num_features=ends[-1])
    spread = [_spread(part, inner, field.num_nodes) for part in parts]
    return network, (spread[0], spread[-1])


def _spread(part: Features, rows: IntArray, num_rows: int) -> Features:
    if isinstance(part, np.ndarray):
        x = np.zeros((num_rows, part.shape[1]))
        x[rows] = part
        return x
    held = sparse.coo_array(part)
    return sparse.csr_array((held.data, (rows[held.row], held.col)), shape=(num_rows, part.shape[1]))

"""Players + a target -> ReceptiveField: the part of both graphs that decides the target, as one graph with conditions.

Every edge of either graph is there once, with the condition under which it is there: always, once some changes are
applied, or until they are. So are nodes that only one graph has. Features within `num_hops` of the target matter, and
edges into nodes up to `depth` away, in the union of both graphs; what lies beyond has no share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.region import Extent, widen
from ..graphs.data_fields import Features
from ..graphs.pair import Pair, Side
from ..graphs.values import weights_of
from .players import APPLIED, NOT_APPLIED, Players

WORD = 64


@dataclass(frozen=True, eq=False)
class Conditions:
    """When things are there. Condition c holds where all of its changes are applied, or where none is.

    Those of opened nodes come after: such a node is there where one of several conditions holds.
    """

    players: IntArray  # [num_plain, 2], -1 for no second one
    when: IntArray  # [num_plain]
    any_of: tuple[IntArray, ...]  # of each further condition, plain ones

    def hold(self, subsets: BoolArray) -> BoolArray:
        """Which hold where these changes are applied. [num_conditions, num_subsets]."""
        applied, wanted = np.ascontiguousarray(subsets.T), (self.when == APPLIED)[:, None]
        plain = applied[self.players[:, 0]] == wanted
        two = np.flatnonzero(self.players[:, 1] >= 0)
        plain[two] &= applied[self.players[two, 1]] == wanted[two]
        return np.concatenate([plain, *(plain[some].any(axis=0)[None] for some in self.any_of)])

    def masks(self, num_players: int) -> NDArray[np.uint64]:
        """The changes that each looks at, as bits. [num_conditions, num_words]."""
        plain = to_bits(num_players)[self.players[:, 0]]
        plain = plain | np.where(
            (self.players[:, 1] < 0)[:, None], np.uint64(0), to_bits(num_players)[self.players[:, 1]]
        )
        joined = [np.bitwise_or.reduce(plain[some], axis=0)[None] for some in self.any_of]
        return np.concatenate([plain, *joined])


@dataclass(frozen=True, eq=False)
class ConditionedGraph(ABC):
    """A graph some of whose edges and nodes exist only under conditions; edges ascend by receiver."""

    senders: IntArray  # [num_edges]
    receivers: IntArray  # [num_edges]
    weights: NDArray[Any]  # [num_edges], ones where edges have none; with types, values of which these are a part
    weighted: bool
    condition: IntArray  # [num_edges], -1 for always
    presence: IntArray  # [num_nodes], -1 for always
    conditions: Conditions
    feature_player: IntArray  # [num_nodes], -1 where features do not change
    node_types: IntArray | None  # [num_nodes]; None where nodes have none

    @property
    @abstractmethod
    def num_players(self) -> int:
        """Changes that any of it depends on."""

    @abstractmethod
    def features(self, nodes: IntArray, *, applied: bool) -> Features:
        """Features of these rows before, or after, their change is applied. [len(nodes), num_features]."""

    @property
    def num_nodes(self) -> int:
        """Nodes that are there under any condition."""
        return len(self.presence)

    @property
    def edge_weights(self) -> FloatArray:
        """Weight of each edge. [num_edges]."""
        return weights_of(self.weights)

    @cached_property
    def masks(self) -> NDArray[np.uint64]:
        """The changes that each condition looks at; and, below, none, for the condition -1. [num_conditions + 1, w]."""
        masks = self.conditions.masks(self.num_players)
        return np.concatenate([masks, np.zeros((1, masks.shape[1]), dtype=np.uint64)])


@dataclass(frozen=True, eq=False)
class ReceptiveField(ConditionedGraph):
    """What decides one target, under every subset of the changes in its sight."""

    pair: Pair
    numbers: IntArray  # [num_nodes]: numbers in the pair, ascending
    inner: BoolArray  # [num_nodes]: whose features can matter; the others are there as senders to be counted
    rows: IntArray  # [num_players]: rows of `changes()` that are in sight, ascending
    of_after: BoolArray  # [num_nodes]: nodes whose features `before` does not have

    @property
    def edge_weights(self) -> FloatArray:
        """Edges with features have numbers that stand for these and their weight."""
        numbers = weights_of(self.weights)
        return numbers if self.pair.values is None else self.pair.values.weights_of(numbers)

    @property
    def edge_of_after(self) -> BoolArray:
        """Edges that `before` does not have, or has with another weight. [num_edges]."""
        when = np.append(self.conditions.when, NOT_APPLIED)
        return np.asarray(when[self.condition] == APPLIED)

    @property
    def num_players(self) -> int:
        """Changes that reach it."""
        return len(self.rows)

    def rows_of(self, numbers: IntArray) -> IntArray:
        """Rows here of nodes that are here."""
        return np.searchsorted(self.numbers, numbers)

    def features(self, nodes: IntArray, *, applied: bool) -> Features:
        """Features of these rows before, or after, their change is applied. [len(nodes), num_features]."""
        after = self.of_after[nodes] | (applied & (self.feature_player[nodes] >= 0))
        if not after.any():
            return _take(self.pair.before, self.numbers[nodes])
        if after.all():
            return _take(self.pair.after, self.numbers[nodes])
        parts = [
            _take(side, self.numbers[nodes[here]]) for side, here in zip(self._sides, (~after, after), strict=True)
        ]
        order = np.argsort(np.concatenate([np.flatnonzero(~after), np.flatnonzero(after)]))
        if any(sparse.issparse(part) for part in parts):
            return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts]))[order]
        return np.concatenate(parts)[order]

    def grouped(self, groups: IntArray, num_groups: int) -> ReceptiveField:
        """The same with groups of changes as players: the group of each change. Groups are applied as a whole."""
        wide, conditions = np.append(groups, -1), self.conditions
        players = Conditions(wide[conditions.players], conditions.when, conditions.any_of)
        return replace(self, rows=np.arange(num_groups), conditions=players, feature_player=wide[self.feature_player])

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.pair.before, self.pair.after


def to_bits(num_players: int) -> NDArray[np.uint64]:
    """One bit a player. [num_players, num_words]."""
    bits = np.zeros((num_players, max(1, -(-num_players // WORD))), dtype=np.uint64)
    player = np.arange(num_players)
    bits[player, player // WORD] = np.uint64(1) << (player % WORD).astype(np.uint64)
    return bits


def cut_receptive_field(
    players: Players, pair: Pair, start: IntArray, extent: Extent | None, *, counted: bool, standing: IntArray
) -> ReceptiveField:
    """What decides the nodes `start` (numbers); everything, where `extent` is None.

    `counted`: whether it matters that a node is there, even one without edges, as where nodes are pooled. Nodes that
    are `standing` are there in any case, whatever the table says of them.
    """
    inside, whole = _reach(pair, start, extent)
    changed = players.edges
    seen = whole[changed.receivers]
    kept = _kept_edges(pair, players, np.flatnonzero(whole))
    senders = np.concatenate([kept[0], changed.senders[seen]])
    receivers = np.concatenate([kept[1], changed.receivers[seen]])
    weights = np.concatenate([kept[2], changed.weights[seen]])
    owners = np.concatenate([np.full((len(kept[0]), 2), -1), changed.players[seen]])
    when = np.concatenate([np.zeros(len(kept[0]), dtype=np.int64), changed.when[seen]])
    numbers = np.unique(np.concatenate([np.flatnonzero(inside), senders, receivers]))
    one = _presence(players, numbers, standing)
    altered = players.feature_rows[inside[players.node_of[players.feature_rows]]]
    # A new node that stands in any case has the features of `after`; the row that says it came has no part in this.
    rows = [owners[owners >= 0], altered]
    if counted or extent is None:
        rows.append(one[2])
    seen_rows = np.unique(np.concatenate(rows))
    local = np.full(len(players) + 1, -1, dtype=np.int64)
    local[seen_rows] = np.arange(len(seen_rows))
    # Distinct conditions of edges first, then of nodes.
    conditioned = np.flatnonzero(when != 0)
    node_rows = local[one[2]] if counted or extent is None else np.full(len(one[2]), -1)
    keys = np.concatenate(
        [
            np.column_stack([local[owners[conditioned]], when[conditioned]]),
            np.column_stack([node_rows, np.full(len(node_rows), -1), one[1]])[node_rows >= 0],
        ]
    )
    unique, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.reshape(-1)
    condition = np.full(len(senders), -1, dtype=np.int64)
    condition[conditioned] = place[: len(conditioned)]
    presence = np.full(len(numbers), -1, dtype=np.int64)
    any_of: list[IntArray] = []
    nodes = np.searchsorted(numbers, one[0])
    known = np.flatnonzero(node_rows >= 0)
    for node, own in zip(nodes[known].tolist(), place[len(conditioned) :].tolist(), strict=True):
        presence[node] = own
        if players.opened:
            number = numbers[node]
            incident = np.unique(
                condition[conditioned][(senders == number)[conditioned] | (receivers == number)[conditioned]]
            )
            presence[node] = len(unique) + len(any_of)
            any_of.append(np.append(incident, own))
    order = np.argsort(receivers, kind="stable")
    feature_player = np.full(len(numbers), -1, dtype=np.int64)
    feature_player[np.searchsorted(numbers, players.node_of[altered])] = local[altered]
    types = pair.before.graph.node_types
    return ReceptiveField(
        np.searchsorted(numbers, senders)[order],
        np.searchsorted(numbers, receivers)[order],
        weights[order],
        pair.before.graph.weighted,
        condition[order],
        presence,
        Conditions(unique[:, :2].astype(np.int64), unique[:, 2].astype(np.int64), tuple(any_of)),
        feature_player,
        None if types is None else types[numbers],
        pair,
        numbers,
        inside[numbers],
        seen_rows,
        pair.before.rows_of(numbers) < 0,
    )


def _reach(pair: Pair, start: IntArray, extent: Extent | None) -> tuple[BoolArray, BoolArray]:
    """Nodes whose features can matter, and those whose incoming edges can. [num_nodes] each."""
    if extent is None:
        everything = np.ones(pair.num_nodes, dtype=np.bool_)
        return everything, everything
    inside = np.zeros(pair.num_nodes, dtype=np.bool_)
    inside[start] = True
    whole = inside.copy() if extent.depth >= 0 else np.zeros_like(inside)
    ring = np.unique(start)
    for distance in range(1, extent.num_hops + 1):
        ring = widen(pair, ring, inside)
        if distance <= extent.depth:
            whole[ring] = True
    return inside, whole


def _kept_edges(pair: Pair, players: Players, receivers: IntArray) -> tuple[IntArray, IntArray, NDArray[Any]]:
    """Edges of `before` into these nodes that `after` has too: senders, receivers and values."""
    rows = pair.before.rows_of(receivers)
    here = rows >= 0
    taken = pair.before.edges.take(rows[here])
    into = np.repeat(receivers[here], np.diff(taken.indptr))
    weights = taken.values if len(taken.values) else np.ones(len(into))
    gone = players.edges.when == NOT_APPLIED
    touched = np.flatnonzero(np.isin(into, players.edges.receivers[gone]))
    lost = Counter(
        zip(
            players.edges.senders[gone].tolist(),
            players.edges.receivers[gone].tolist(),
            players.edges.weights[gone].tolist(),
            strict=True,
        )
    )
    stays = np.ones(len(into), dtype=np.bool_)
    for place in touched.tolist():
        key = int(taken.senders[place]), int(into[place]), weights[place].item()
        if lost[key] > 0:
            lost[key] -= 1
            stays[place] = False
    return taken.senders[stays], into[stays], weights[stays]


def _presence(players: Players, numbers: IntArray, standing: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Nodes here that come or go: their numbers, when they are there, and the rows that say so."""
    nodes = players.node_of[players.node_rows]
    here = np.isin(nodes, numbers) & ~np.isin(nodes, standing)
    return nodes[here], players.node_when[here], players.node_rows[here]


def _take(side: Side, numbers: IntArray) -> Features:
    return side.graph.take_features(side.rows_of(numbers))

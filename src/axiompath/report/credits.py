"""A scan's facts, or its chosen paths -> Credits: which change carried how much of which prediction's move.

A prediction v moved by m_v, of the probability of what is predicted now, or of its value. A credit (unit, v, c) says
that a unit, a change as a rule, carried c of that: its share times the sign of m_v, so that what held v back counts
against it. Credits out of blame sum to |m_v|. Those out of paths sum to what the chosen paths carry of it: a path's
share goes to the changes that it runs over, in equal parts; where it runs over none, to the nodes on it at which edges
came or went, for what is renormalised there; else to nobody that is known. Such a node hands what it has on to the
edges that made its degree what it is (`spread`): those that came where more came than went, else those that went.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.states import FEATURE, GAINED, LOST
from ..graphs.changes import (
    CHANGES,
    EDGE_ADDED,
    EDGE_CHANGES,
    EDGES_GONE,
    FEATURES_CHANGED,
    MODEL_RETRAINED,
    NODE_ADDED,
    NODES_GONE,
)
from ..scan.flat import Flat
from ..scan.tally import Facts, estimate_shares

RENORMALISED, ELSEWHERE = "renormalised", "elsewhere"
UNIT_KINDS = (*CHANGES, MODEL_RETRAINED, RENORMALISED, ELSEWHERE)


class Credits(NamedTuple):
    """Who carried what, credit by credit."""

    units: IntArray  # [num_credits]
    targets: IntArray  # [num_credits]: places among the predictions
    carried: FloatArray  # [num_credits]


class Index(NamedTuple):
    """The changes of a scan, found by the nodes of a path. Units are the changes, then nodes, the model, nobody."""

    num_changes: int
    nodes: IntArray  # [num_known]: numbers of the nodes that changes name, in order
    keys: IntArray  # [num_keys]: pairs of places among them, in order
    owners: IntArray  # [num_keys]: the change of each pair
    kinds: IntArray  # [num_changes]: places in UNIT_KINDS
    come_or_gone: IntArray  # [num_known]: the change by which a node came or went, else -1
    features: IntArray  # [num_known]: the change of a node's features, else -1
    touched: IntArray  # [num_known]: the unit of a node at which edges came or went, else -1
    num_units: int
    directed: bool  # whether any edge is
    spread: IntArray  # [num_pairs, 2]: the unit of a node, and a change there that what it has is handed on to

    @property
    def model(self) -> int:
        """The unit of another model."""
        return self.num_units - 2

    @property
    def nobody(self) -> int:
        """The unit of what no change is known for."""
        return self.num_units - 1


class Matched(NamedTuple):
    """What chosen paths run over."""

    edges: IntArray  # [p, num_hops]: the change of each step, else -1
    nodes: IntArray  # [p, num_positions]: the change by which the node there came or went, else -1
    leaves: IntArray  # [p]: the change of the leaf's features, else -1
    touched: IntArray  # [p, num_positions]: the unit of the node there, else -1


def index_changes(changes: pd.DataFrame) -> Index:
    """What `match_paths` looks up; `changes` without open nodes, as a scan has them."""
    num = len(changes)
    kinds = np.array([UNIT_KINDS.index(kind) for kind in changes.kind], dtype=np.int64)
    src = changes.src.fillna(-1).to_numpy(dtype=np.int64)
    dst = changes.dst.fillna(-1).to_numpy(dtype=np.int64)
    nodes = np.unique(np.concatenate([src, dst]))
    nodes = nodes[nodes >= 0]
    places = np.stack([np.searchsorted(nodes, end) for end in (src, dst)], axis=1)
    is_edge = np.isin(kinds, [UNIT_KINDS.index(kind) for kind in EDGE_CHANGES])
    rows = np.flatnonzero(is_edge)
    size = len(nodes) + 1
    there, back = places[rows, 0] * size + places[rows, 1], places[rows, 1] * size + places[rows, 0]
    both = ~changes.directed.to_numpy(dtype=np.bool_)[rows]
    keys, owners = np.concatenate([there, back[both]]), np.concatenate([rows, rows[both]])
    order = np.argsort(keys, kind="stable")
    found = {}
    for name, wanted in (("come", (NODE_ADDED, *NODES_GONE)), ("features", (FEATURES_CHANGED,))):
        mine = np.flatnonzero(np.isin(kinds, [UNIT_KINDS.index(kind) for kind in wanted]))
        found[name] = np.full(len(nodes), -1)
        found[name][places[mine, 0]] = mine
    touched = np.full(len(nodes), -1)
    ends = np.unique(places[rows].ravel())
    touched[ends] = num + np.arange(len(ends))
    return Index(
        num,
        nodes,
        keys[order],
        owners[order],
        kinds,
        found["come"],
        found["features"],
        touched,
        num + len(ends) + 2,
        bool((~both).any()),
        _spread(touched[places[rows]], rows, kinds[rows]),
    )


def _spread(units: IntArray, rows: IntArray, kinds: IntArray) -> IntArray:
    """Of the changed edges `rows`, whose ends have these units [num, 2]: those that moved a degree the way it went."""
    step = (kinds == UNIT_KINDS.index(EDGE_ADDED)).astype(np.int64)
    step -= np.isin(kinds, [UNIT_KINDS.index(kind) for kind in EDGES_GONE])
    pairs = np.stack([units.T.ravel(), np.tile(rows, 2)], axis=1)
    once = np.append(np.ones(len(rows), dtype=np.bool_), units[:, 0] != units[:, 1])  # a loop is at its node once
    pairs, steps = pairs[once], np.tile(step, 2)[once]
    net = np.sign(np.bincount(pairs[:, 0], weights=steps) if len(pairs) else np.zeros(0))[pairs[:, 0]]
    return np.asarray(pairs[(steps == 0) | (net == 0) | (steps == net)])


def match_paths(index: Index, flat: Flat) -> Matched:
    """The changes that each chosen path runs over, by what kind of path it is."""
    paths, kinds = flat.chosen.paths, flat.chosen.kinds.astype(np.int64)
    if len(index.nodes) == 0 or len(paths) == 0:
        none = np.full(paths.shape, -1)
        return Matched(none[:, 1:], none, np.full(len(paths), -1), none)
    place = np.minimum(np.searchsorted(index.nodes, paths), len(index.nodes) - 1)
    known = index.nodes[place] == paths
    place = np.where(known, place, -1)
    size = len(index.nodes) + 1
    u, v = place[:, :-1], place[:, 1:]
    edges = _look_up(index, np.where((u >= 0) & (v >= 0), u * size + v, -1))
    back = _look_up(index, np.where((u >= 0) & (v >= 0), v * size + u, -1))  # messages against the edges
    edges = np.where(edges >= 0, edges, back)
    fits = np.full(len(UNIT_KINDS), -1)
    fits[[UNIT_KINDS.index(EDGE_ADDED), UNIT_KINDS.index(NODE_ADDED)]] = GAINED
    fits[[UNIT_KINDS.index(kind) for kind in (*EDGES_GONE, *NODES_GONE)]] = LOST
    wanted = fits[index.kinds] if index.num_changes else fits[:0]
    edges = _only(edges, wanted, kinds)
    nodes = _only(_take(index.come_or_gone, place), wanted, kinds)
    first = place[np.arange(len(paths)), (paths >= 0).argmax(axis=1)]
    leaves = np.where(kinds == FEATURE, _take(index.features, first), -1)
    return Matched(edges, nodes, leaves, _take(index.touched, place))


def credit_paths(index: Index, flat: Flat, matched: Matched, carried: FloatArray) -> Credits:
    """`carried` [p] is each path's share, counted for the way that its target went."""
    hits = np.concatenate([matched.edges, matched.nodes, matched.leaves[:, None]], axis=1)
    lost = (hits < 0).all(axis=1)
    hits[lost, : matched.touched.shape[1]] = matched.touched[lost]
    number = (hits >= 0).sum(axis=1)
    path, column = np.nonzero(hits >= 0)
    owner = flat.chosen.owner
    units, owners, shares = [hits[path, column]], [owner[path]], [carried[path] / number[path]]
    unknown = number == 0
    units.append(np.full(int(unknown.sum()), index.nobody))
    owners.append(owner[unknown])
    shares.append(carried[unknown])
    return Credits(np.concatenate(units), np.concatenate(owners), np.concatenate(shares))


def credit_facts(facts: Facts, moved_by: FloatArray) -> Credits:
    """Out of blame: the shares of changes, estimated as `Scan.blame` does."""
    shares = estimate_shares(facts, moved_by)
    return Credits(facts.changes, facts.targets, shares * np.sign(moved_by)[facts.targets])


def find_edges(index: Index, pairs: IntArray) -> tuple[IntArray, bool]:
    """The change of each pair of nodes [n, 2], else -1; and whether directions count."""
    if len(index.nodes) == 0:
        return np.full(len(pairs), -1), index.directed
    place = np.minimum(np.searchsorted(index.nodes, pairs), len(index.nodes) - 1)
    known = (index.nodes[place] == pairs).all(axis=1)
    keys = np.where(known, place[:, 0] * (len(index.nodes) + 1) + place[:, 1], -1)
    return _look_up(index, keys), index.directed


def _look_up(index: Index, keys: IntArray) -> IntArray:
    if len(index.keys) == 0:
        return np.full(keys.shape, -1)
    place = np.minimum(np.searchsorted(index.keys, keys), len(index.keys) - 1)
    return np.where(index.keys[place] == keys, index.owners[place], -1)


def _take(values: IntArray, place: IntArray) -> IntArray:
    return np.where(place >= 0, values[np.maximum(place, 0)], -1)


def _only(found: IntArray, wanted: IntArray, kinds: IntArray) -> IntArray:
    """Those whose change makes paths of this kind; a changed weight makes any."""
    if len(wanted) == 0:
        return found
    kind = wanted[np.maximum(found, 0)]
    right: BoolArray = (kind == kinds[:, None]) | (kind < 0)
    return np.where((found >= 0) & right, found, -1)

"""PathEngine + target -> Explanation by edges: the changed edges, or edges of single layers, that explain a change.

Units of choice beside paths. A path's contribution is split equally over the coefficients on it that changed (see
`paths.entries`), and summed

    layer_edge   by sender, receiver and layer
    edge         by sender and receiver; both directions of a pair of nodes are one if it has the same edges both ways,
                 in `before` and in `after`

What runs over no changed coefficient belongs to the features of its leaf, a unit of its own. Units are chosen by the
solvers that choose paths, with their certificate, and judged by a real pass of the network: `before` with exactly these
coefficients, in these layers, as `after` has them; and `after` with them as they were.

If the model differs, the change that the data made is split under each model by itself, and a unit has the
mean of both, as a path has; the model's own share is a row that every choice includes. Each model is then asked by
itself what it makes of the chosen units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import FEATURE, GAINED, KINDS, LOST, REWEIGHTED
from ..errors import InputError, TooLarge
from ..graphs.pair import Pair
from ..graphs.snapshot import Snapshot
from ..graphs.values import types_of, weights_of
from ..paths.entries import Cone, EntryShares
from ..paths.table import PathTable
from ..selection import METHODS
from ..storage.memory import show_bytes
from .candidates import ListedPaths
from .choices import choose_listed
from .engine import PathEngine
from .explanation import EDGE, LAYER_EDGE, Explanation
from .question import Question
from .records import columns_of, make_explanations
from .retrained import measure
from .walks import same_depth

BY = (LAYER_EDGE, EDGE)
NO_LAYER, NO_NODE = 0, -1


@dataclass(frozen=True, eq=False)
class Units:
    """What one target's change is split over; a unit is a group of changed entries, or a leaf's features."""

    labels: IntArray  # [num_units, 3]: layer (0 for all), sender, receiver (-1 for the target, or for features)
    kinds: NDArray[np.int8]  # [num_units]: in KINDS: gained, lost, reweighted or feature
    directed: BoolArray  # [num_units]: whether it is of one direction only
    contributions: FloatArray  # [num_units, num_classes]
    of_entry: tuple[IntArray, ...] = ()  # a floor of the cone: unit of each of its changed entries
    of_leaf: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # of those whose features differ


def find_two_way(pair: Pair, ends: IntArray) -> BoolArray:
    """Which pairs of nodes have the same edges both ways, in either graph: as many, of the same weights and types.

    `ends` [num_pairs, 2] are ids of nodes; edges between other nodes do not matter.
    """
    nodes, places = np.unique(ends, return_inverse=True)
    places = np.sort(places.reshape(ends.shape), axis=1)
    two_way = np.ones(len(ends), dtype=np.bool_)
    for side in (pair.before, pair.after):
        ids = side.graph.node_ids if isinstance(side.graph, Snapshot) else side.ids
        tables = [np.zeros((0, 5))]
        for senders, receivers, values in side.edges.pieces():
            listed = [ids[rows] if len(ids) else np.asarray(rows) for rows in (senders, receivers)]
            here = np.flatnonzero(np.isin(listed[0], nodes) & np.isin(listed[1], nodes))
            u, v = (np.searchsorted(nodes, rows[here]) for rows in listed)
            weights, types = np.ones(len(here)), np.zeros(len(here), dtype=np.int64)
            if values is not None:
                weights = weights_of(values[here]) + 0.0  # -0.0 is 0.0
                found = types_of(values[here])
                types = types if found is None else found
            tables.append(np.column_stack([np.minimum(u, v), np.maximum(u, v), weights, types, np.sign(v - u)]))
        table = np.concatenate(tables)
        alike, group = np.unique(table[:, :4], axis=0, return_inverse=True)
        surplus = np.bincount(group.reshape(-1), weights=table[:, 4], minlength=len(alike))
        one_way = alike[surplus != 0, :2].astype(np.int64) @ (len(nodes), 1)
        two_way &= ~np.isin(places @ (len(nodes), 1), one_way)
    return two_way


def find_units(found: EntryShares, by: str, pair: Pair | None = None) -> Units:
    """Group the shares of entries and leaves; without a `pair` of graphs to look at, no edge has a direction."""
    cone, change = found.cone, found.cone.change
    ids, rise = change.before.node_ids, change.network.rise
    labels, parts, kinds = [], [], []
    for floor in cone.floors:
        changed, layer = floor.changed, change.layers[floor.number]
        number = sum(not other.local for other in change.layers[: floor.number + 1])
        above = rise is not None and floor.number >= rise  # at the graph or pair itself
        below = rise is not None and floor.number > rise
        src = np.full(int(changed.sum()), NO_NODE) if below else ids[floor.below[floor.sender[changed]]]
        dst = np.full(len(src), NO_NODE) if above else ids[floor.rows[floor.receiver[changed]]]
        number = number if by == LAYER_EDGE else NO_LAYER
        labels.append(np.column_stack([np.full(len(src), number), src, dst]))
        old, new = ((part[floor.entries[changed]] != 0).any(axis=1) for part in (layer.before, layer.after))
        kinds.append(np.where(~old, GAINED, np.where(~new, LOST, REWEIGHTED)))
    joined = np.concatenate(labels)
    directed = np.ones(len(joined), dtype=np.bool_)
    if by != LAYER_EDGE:
        between = joined[:, 2] != NO_NODE
        if pair is not None:
            between[between] = find_two_way(pair, joined[between, 1:])
        joined[between, 1:] = np.sort(joined[between, 1:], axis=1)
        directed = ~between | (joined[:, 1] == joined[:, 2])
        labels = [joined]
    leaves = ids[cone.floors[0].below[found.leaves]]
    labels.append(np.column_stack([np.full(len(leaves), NO_LAYER), leaves, np.full(len(leaves), NO_NODE)]))
    kinds.append(np.full(len(leaves), FEATURE))
    parts = [*found.entries, found.features]
    feature = np.concatenate(kinds) == FEATURE
    keys, unit = np.unique(np.column_stack([np.concatenate(labels), feature]), axis=0, return_inverse=True)
    unit = unit.reshape(-1)
    contributions = np.zeros((len(keys), change.network.num_classes))
    np.add.at(contributions, unit, np.concatenate(parts))
    lowest, highest = np.full(len(keys), len(KINDS)), np.full(len(keys), -1)
    np.minimum.at(lowest, unit, np.concatenate(kinds))
    np.maximum.at(highest, unit, np.concatenate(kinds))
    causes, one_way = np.where(lowest == highest, lowest, REWEIGHTED), np.zeros(len(keys), dtype=np.bool_)
    one_way[unit[: len(directed)]] = directed
    pieces = np.split(unit, np.cumsum([len(part) for part in parts])[:-1])
    return Units(keys[:, :3], causes, one_way, contributions, tuple(pieces[:-1]), pieces[-1])


def put_in(found: EntryShares, units: Units, chosen: BoolArray) -> FloatArray:
    """Logits [num_classes] of `before` with exactly these units as `after` has them. `chosen` [num_units]."""
    entries = []
    for floor, unit in zip(found.cone.floors, units.of_entry, strict=True):
        taken = np.zeros(len(floor.entries), dtype=np.bool_)
        taken[floor.changed] = chosen[unit]
        entries.append(taken)
    leaves = np.zeros(len(found.cone.floors[0].below), dtype=np.bool_)
    leaves[found.leaves] = chosen[units.of_leaf]
    return found.cone.mix(entries, leaves)


def split_over(change: Change, pair: Pair, row: int, by: str, memory: float) -> tuple[EntryShares, Units]:
    """The change of one target, split over units."""
    if by not in BY:
        raise InputError(f"Expected `by` to be among {', '.join(BY)}, or nothing for paths (got {by!r}).")
    cone = Cone(change, row)
    if any(rule.divides for layer in change.network.layers for rule in layer.rules):
        raise InputError(
            f"Expected coefficients that an edge has for itself (got a maximum, or a norm over a whole graph, to split "
            f"by {by}); ask for paths, or for `blame`, whose changes are edges."
        )
    if cone.num_bytes > memory:
        raise TooLarge(
            f"{change.unit.capitalize()} {change.target(row)} takes from {len(cone.floors[0].below):,} nodes, about "
            f"{show_bytes(cone.num_bytes, up=True)} to split over edges, more than the budget of {show_bytes(memory)}; "
            f'pass `memory="{show_bytes(cone.num_bytes, up=True)}"` to Explainer.'
        )
    found = cone.share()
    return found, find_units(found, by, pair)


def unite_units(sides: Sequence[Units]) -> tuple[Units, list[IntArray]]:
    """The units of one model or two as one list, with their mean, and the place there of each model's own.

    A unit that only one model has contributes half of what it does.
    """
    keys = [np.column_stack([units.labels, units.kinds == FEATURE]) for units in sides]
    every, place = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    places = np.split(place.reshape(-1), np.cumsum([len(key) for key in keys])[:-1])
    kinds, directed = np.full(len(every), -1, dtype=np.int8), np.zeros(len(every), dtype=np.bool_)
    contributions = np.zeros((len(every), sides[0].contributions.shape[1]))
    for units, here in zip(sides, places, strict=True):
        contributions[here] += units.contributions / len(sides)
        kinds[here] = np.where((kinds[here] < 0) | (kinds[here] == units.kinds), units.kinds, REWEIGHTED)
        directed[here] = units.directed
    return Units(every[:, :3], kinds, directed, contributions), places


def check_units(change: Change, by: str, question: Question) -> None:
    """Refuse what cannot be asked of edges."""
    if question.depth is not None:
        raise InputError(
            f"Expected no depth for edges as units (got {question.depth!r}); leave it out, or ask for paths."
        )
    if by == LAYER_EDGE and not same_depth(change):
        raise InputError(
            "Expected two models of one depth for edges of single layers (got others, whose layers do not correspond); "
            "ask by edge, or for paths."
        )
    if change.before.edge_rows is not None:
        raise InputError(
            "Expected messages that go from node to node for edges as units (got a model that makes them on the edges, "
            "of edge features or of both ends); ask for paths, which name their edges, or for blame."
        )
    if question.method not in METHODS:
        raise InputError(
            f"Expected a method among {', '.join(METHODS)} for edges (got {question.method!r}, which ranks paths)."
        )


def explain_units(engine: PathEngine, row: int, by: str, question: Question, memory: float) -> Explanation:
    """The units that explain one target, in rows of the engine: each is chosen as a path would be, by its place."""
    change, rows = engine.change, np.array([row])
    check_units(change, by, question)
    room = memory / len(engine.changes)
    splits = [split_over(one, engine.region.pair, row, by, room) for one in engine.changes]
    units, places = unite_units([own for _, own in splits])
    size, moved = len(units.labels), change.logits_after[row] - change.logits_before[row]
    table = PathTable(np.array([0, size]), np.arange(size)[:, None], units.contributions, units.kinds)
    causes = np.zeros((1, 0, len(moved)))
    choices = choose_listed(ListedPaths(change, rows, np.array([size], dtype=object), causes, table), question)
    taken = choices.chosen.paths[:, 0]
    chosen = np.zeros(size, dtype=np.bool_)
    chosen[taken] = True
    # With all others, and with the chosen: of `before`, what is put in is as it is in `after`.
    replays = [
        (put_in(*split, ~chosen[here])[None], put_in(*split, chosen[here])[None])
        for split, here in zip(splits, places, strict=True)
    ]
    labels, relations = units.labels[taken], engine.caption.relations
    ends = [(u, v) for u, v in labels[:, 1:].tolist() if min(u, v) >= 0]
    columns = {
        **columns_of(change, choices, question, "edges"),
        **measure(change, rows, replays),
        "completeness": [float(np.abs(units.contributions.sum(axis=0) + change.model_share(rows)[0] - moved).max())],
        "causes": [{}],
        "fewest": choices.fewest,
        "layers": [labels[:, 0]],
        "directed": [tuple(units.directed[taken].tolist())],
        "logits_added": replays[0][1],
        "logits_undone": replays[-1][0],
        "relations": [() if relations is None else relations.of(ends)],
    }
    numbered = replace(choices.chosen, paths=labels[:, 1:])
    (found,) = make_explanations(change, rows, numbered, question, engine.caption, columns, by=by)
    return found

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
from dataclasses import dataclass

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..errors import InputError, TooLarge
from ..graphs.pair import Pair
from ..graphs.snapshot import Snapshot
from ..graphs.values import types_of, weights_of
from ..metrics import fidelity_minus, fidelity_plus
from ..paths.entries import Cone, EntryShares
from ..selection import METHODS, select_many
from ..storage.memory import show_bytes
from .engine import PathEngine
from .explanation import EDGE, EDGE_KINDS, LAYER_EDGE, Explanation
from .question import Question
from .remains import column_weights, ends_of, gross_left
from .retrained import Retrained
from .walks import same_depth

BY = (LAYER_EDGE, EDGE)
NO_LAYER, NO_NODE = 0, -1
GAINED_EDGE, LOST_EDGE, REWEIGHTED_EDGE, FEATURE_UNIT = range(4)  # places in EDGE_KINDS


@dataclass(frozen=True, eq=False)
class Units:
    """What one target's change is split over; a unit is a group of changed entries, or a leaf's features."""

    labels: IntArray  # [num_units, 3]: layer (0 for all), sender, receiver (-1 for the target, or for features)
    kinds: IntArray  # [num_units]: in EDGE_KINDS
    directed: BoolArray  # [num_units]: whether it is of one direction only
    contributions: FloatArray  # [num_units, num_classes]
    of_entry: tuple[IntArray, ...]  # a floor of the cone: unit of each of its changed entries
    of_leaf: IntArray  # unit of each leaf whose features differ


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
        kinds.append(np.where(~old, GAINED_EDGE, np.where(~new, LOST_EDGE, REWEIGHTED_EDGE)))
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
    kinds.append(np.full(len(leaves), FEATURE_UNIT))
    parts = [*found.entries, found.features]
    feature = np.concatenate(kinds) == FEATURE_UNIT
    keys, unit = np.unique(np.column_stack([np.concatenate(labels), feature]), axis=0, return_inverse=True)
    unit = unit.reshape(-1)
    contributions = np.zeros((len(keys), change.network.num_classes))
    np.add.at(contributions, unit, np.concatenate(parts))
    lowest, highest = np.full(len(keys), len(EDGE_KINDS)), np.full(len(keys), -1)
    np.minimum.at(lowest, unit, np.concatenate(kinds))
    np.maximum.at(highest, unit, np.concatenate(kinds))
    causes, one_way = np.where(lowest == highest, lowest, REWEIGHTED_EDGE), np.zeros(len(keys), dtype=np.bool_)
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


@dataclass(frozen=True, eq=False)
class ModelUnits:
    """One model's split of the change, and the place of each of its units among those of both."""

    change: Change
    found: EntryShares
    units: Units
    places: IntArray  # [num_units]

    def try_units(self, row: int, chosen: BoolArray) -> tuple[FloatArray, FloatArray, float, float]:
        """Logits with these put in and put back; fidelity of undoing and of adding them; `chosen` of all units."""
        own = chosen[self.places]
        added, undone = put_in(self.found, self.units, own), put_in(self.found, self.units, ~own)
        before, after = self.change.before_pass.logits[row], self.change.after_pass.logits[row]
        apart = self.change.output.divergence
        return (
            added,
            undone,
            float(fidelity_minus(undone, before, after, apart)),
            float(fidelity_plus(added, before, after, apart)),
        )


@dataclass(frozen=True, eq=False)
class UnitedUnits:
    """The units of one model or two as one list; a unit that only one model has contributes half of what it does."""

    sides: list[ModelUnits]  # of the model before, where there are two, then of the model after
    labels: IntArray  # [num_units, 3]
    kinds: IntArray  # [num_units]
    directed: BoolArray  # [num_units]
    contributions: FloatArray  # [num_units, num_classes]: the mean under either model


def unite_units(sides: Sequence[tuple[Change, EntryShares, Units]]) -> UnitedUnits:
    """The units of one model or two as one list."""
    keys = [np.column_stack([units.labels, units.kinds == FEATURE_UNIT]) for _, _, units in sides]
    every, place = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    places = np.split(place.reshape(-1), np.cumsum([len(key) for key in keys])[:-1])
    kinds, directed = np.full(len(every), -1), np.zeros(len(every), dtype=np.bool_)
    contributions = np.zeros((len(every), sides[0][2].contributions.shape[1]))
    for (_, _, units), here in zip(sides, places, strict=True):
        contributions[here] += units.contributions / len(sides)
        kinds[here] = np.where((kinds[here] < 0) | (kinds[here] == units.kinds), units.kinds, REWEIGHTED_EDGE)
        directed[here] = units.directed
    found = [ModelUnits(*side, here) for side, here in zip(sides, places, strict=True)]
    return UnitedUnits(found, every[:, :3], kinds, directed, contributions)


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
    """The units that explain one target, in rows of the engine."""
    check_units(engine.change, by, question)
    change, output = engine.change, engine.change.output
    room = memory / len(engine.changes)
    united = unite_units([(one, *split_over(one, engine.region.pair, row, by, room)) for one in engine.changes])
    before, after = change.logits_before[row].copy(), change.logits_after[row].copy()
    starts, goals = ends_of(change, np.array([row]), question.objective)
    (selection,) = select_many(
        [united.contributions],
        starts,
        goals,
        int(question.budget),
        question.method,
        question.objective,
        question.at_most,
        output=output.kind,
        scales=output.scales,
        until=question.until,
    )
    taken = selection.chosen
    chosen = np.zeros(len(united.labels), dtype=np.bool_)
    chosen[taken] = True
    tried = [side.try_units(row, chosen) for side in united.sides]
    old, new = tried[0], tried[-1]
    retrained = None
    for earlier in change.earlier:
        crossed = change.before_pass.logits[row].copy(), earlier.after_pass.logits[row].copy()
        retrained = Retrained(*crossed, np.array([old[2], new[2]]), np.array([old[3], new[3]]))
    ends = (after, before) if question.objective == "sufficiency" else (before, after)
    share = output.explained(float(output.divergence(*ends)), selection.kl_residual)
    class_before, class_after = output.label_pair(before, after)
    labels, contributions = united.labels[taken], united.contributions[taken]
    target, named = change.target(row), engine.caption.relations
    mentioned = {*labels[:, 1:].ravel().tolist(), *(target if isinstance(target, tuple) else (target,))}
    (view,), (model_share,) = column_weights(change, np.array([row])), change.model_share(np.array([row]))
    return Explanation(
        target=target,
        by=by,
        method=question.method,
        objective=question.objective,
        budget=selection.budget,
        until=question.until,
        class_before=class_before,
        class_after=class_after,
        prob_before=output.means(before),
        prob_after=output.means(after),
        logits_before=before,
        logits_after=after,
        kl=float(output.divergence(after, before)),
        num_paths=len(united.labels),
        layers=labels[:, 0],
        paths=labels[:, 1:],
        directed=tuple(united.directed[taken].tolist()),
        kinds=tuple(EDGE_KINDS[kind] for kind in united.kinds[taken].tolist()),
        contributions=contributions,
        weights=np.ones(len(taken)) if question.method == "exact" else selection.weights[taken],
        causes={},
        kl_residual=selection.kl_residual,
        kl_bound=selection.kl_bound,
        gap=selection.kl_residual - selection.kl_bound,
        logits_added=old[0],
        logits_undone=new[1],
        fidelity_minus=new[2],
        fidelity_plus=old[3],
        completeness=float(np.abs(united.contributions.sum(axis=0) + model_share - (after - before)).max()),
        status=selection.status + question.describe_fewest(selection.fewest, len(taken), share, "edges"),
        fewest=selection.fewest,
        left_out=gross_left(united.contributions, contributions, view),
        node_names={node: engine.node_names[node] for node in mentioned if node in engine.node_names},
        class_names=engine.class_names,
        origin=engine.origin,
        unit=change.unit,
        output=output,
        relations=() if named is None else named.of((u, v) for u, v in labels[:, 1:].tolist() if min(u, v) >= 0),
        retrained=retrained,
    )

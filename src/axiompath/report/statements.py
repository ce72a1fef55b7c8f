"""Credits + changes -> statements: the few changes, hubs or groups that carried most of what moved, in words.

What a unit carried is summed over predictions; so is that of a group, and all units together carried what there is. The
statements are found one after the other: of all candidates (each change, the changes of one kind at one node, at all of
it, between two classes, at one class, the user's own groups, another model) the one that carries the most of what no
statement has yet; and of those that carry nine tenths of that, the one of the fewest changes, which says more. Where
changes are spread so widely that ten such statements carry less than three fifths, changes of all kinds between two
classes, and at one class, are candidates, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray
from ..blame.groups import label_rows, number_groups
from ..graphs.changes import (
    CHANGES,
    EDGE_CHANGED,
    EDGE_CHANGES,
    FEATURES_CHANGED,
    MODEL_RETRAINED,
    NODE_ADDED,
    tell_kinds,
)
from ..graphs.labels import ONE_WAY, TO
from ..scan.tally import TENTH
from .credits import ELSEWHERE, RENORMALISED, UNIT_KINDS, Credits, Index

NUM_STATEMENTS = 10
NEARLY = 0.9  # of the best: a smaller group that carries as much is told of instead
MUCH_CARRIED = 0.6  # of everything: ten statements that carry less are looked for again, among broader ones
LEAST_PART = 1e-3  # of everything: what carries less is no statement
NUM_PARTS, NUM_MOVED = 3, 5


@dataclass(frozen=True, eq=False)
class Statement:
    """One cause, and what it did."""

    text: str
    kind: str  # a word of UNIT_KINDS, of what it is made of
    num_changes: int
    carried: float  # part of all that moved
    num_predictions: int  # of whose move it carried a tenth or more
    moved: tuple[tuple[int, float], ...]  # places of the predictions that it carried the most of, and how much
    parts: tuple[tuple[str, float], ...]  # its largest changes, and the part of all that each carried
    units: IntArray  # [num]: what it is made of


class Credited(NamedTuple):
    """What may be told of: the changes, and what else is credited."""

    kinds: IntArray  # [num_units]: places in UNIT_KINDS
    ends: IntArray  # [num_units, 2]: numbers of nodes, -1 for none
    names: tuple[list[str], list[str]]  # of the ends
    classes: IntArray  # [num_units, 2]: of the ends, -1 where unknown
    class_names: dict[int, str]
    labels: IntArray | None = None  # [num_units]: the user's groups
    groups: Sequence[str] = ()
    told: Sequence[str] = ()  # [num_changes]: the kinds of the changes in words, and the relation of an edge
    spread: IntArray = np.zeros((0, 2), dtype=np.int64)  # of the Index: units of nodes, and changes there
    directed: Sequence[bool] = ()  # [num_changes]: whether each is of one direction only


class _Family(NamedTuple):
    """Candidates that are told of alike: a label a unit, or two, and -1 for none."""

    name: str
    labels: IntArray  # [num_units, 1 or 2]
    most: int  # labels are below this


def list_units(
    changes: pd.DataFrame, index: Index, classes: Any, class_names: dict[int, str], by: object = None
) -> Credited:
    """The units of an Index; `classes` is a Series of those of nodes, by their number."""
    src, dst = (changes[end].fillna(-1).to_numpy(dtype=np.int64) for end in ("src", "dst"))
    at_nodes = index.nodes[index.touched >= 0]
    none = np.full(2, -1)
    ends = np.stack(
        [np.concatenate([src, at_nodes, none]), np.concatenate([dst, np.full(len(at_nodes) + 2, -1)])], axis=1
    )
    renormalised = np.full(len(at_nodes), UNIT_KINDS.index(RENORMALISED))
    last = [UNIT_KINDS.index(MODEL_RETRAINED), UNIT_KINDS.index(ELSEWHERE)]
    known = {int(n): str(name) for n, name in zip(src, changes.src_name, strict=True)}
    known |= {int(n): str(name) for n, name in zip(dst, changes.dst_name, strict=True) if n >= 0}
    names = tuple([known.get(int(n), str(n)) if n >= 0 else "" for n in column] for column in ends.T)
    labels, groups = None, list[str]()
    if by is not None:
        codes, groups = number_groups(label_rows(changes, by, np.arange(len(changes))))
        labels = np.concatenate([codes, np.full(len(ends) - len(codes), -1)])
    found = classes.reindex(ends.ravel()).fillna(-1).to_numpy(dtype=np.int64).reshape(-1, 2)
    kinds = np.concatenate([index.kinds, renormalised, last]).astype(np.int64)
    return Credited(
        kinds, ends, (names[0], names[1]), found, class_names, labels, groups, tell_kinds(changes), index.spread,
        changes.directed.tolist(),
    )  # fmt: skip


def find_statements(
    units: Credited, credits: Credits, moved: FloatArray, limit: int = NUM_STATEMENTS
) -> list[Statement]:
    """The statements, largest first; `moved` [num_predictions] is what each moved by, without its sign."""
    carried = sum_credits(units, credits)
    total, families = float(moved.sum()), _families(units)
    chosen = _choose(units, carried, total, families, limit)
    if len(chosen) == limit and _part(chosen, carried) < MUCH_CARRIED * total:
        broad = _choose(units, carried, total, [*families, *_broad_families(units)], limit)
        chosen = max(chosen, broad, key=lambda found: _part(found, carried))
    told = [_tell(units, credits, moved, carried, one) for one in chosen]
    return sorted(told, key=lambda one: -one.carried)


def sum_credits(units: Credited, credits: Credits) -> FloatArray:
    """What each unit carried; that of a node is with the changes there. [num_units]."""
    carried: FloatArray = np.bincount(credits.units, credits.carried, len(units.kinds)).astype(np.float64)
    nodes, changes = units.spread.T
    number = np.bincount(nodes, minlength=len(carried))
    handed = np.bincount(changes, carried[nodes] / number[nodes], len(carried))
    carried[nodes] = 0.0
    return carried + handed


def _weigh(units: Credited, mine: BoolArray) -> FloatArray:
    """The part of each unit's credits that is of these changes. [num_units]."""
    nodes, changes = units.spread.T
    number = np.bincount(nodes, minlength=len(mine))
    return mine.astype(np.float64) + np.bincount(nodes, mine[changes] / number[nodes], len(mine))


class _Chosen(NamedTuple):
    """One candidate, and which units are its own."""

    family: _Family
    label: int
    mine: BoolArray  # [num_units]


def _choose(units: Credited, carried: FloatArray, total: float, families: list[_Family], limit: int) -> list[_Chosen]:
    """One candidate after the other, each the best of what is left."""
    free = ~np.isin(units.kinds, [UNIT_KINDS.index(kind) for kind in (RENORMALISED, ELSEWHERE)])
    found: list[_Chosen] = []
    while len(found) < limit and total > 0:
        best = _best(families, carried, free)
        if best is None or best[2] < LEAST_PART * total:
            break
        family, label, _ = best
        mine = (family.labels == label).any(axis=1) & free
        free = free & ~mine
        found.append(_Chosen(family, label, mine))
    return found


def _part(chosen: list[_Chosen], carried: FloatArray) -> float:
    return float(sum(carried[one.mine].sum() for one in chosen))


def _families(units: Credited) -> list[_Family]:
    """The more a candidate says, the earlier it comes: that decides between equals."""
    size, (kinds, ends, classes) = len(units.kinds), (units.kinds, units.ends, units.classes)
    nodes, places = np.unique(ends, return_inverse=True)
    places = np.where(ends >= 0, places.reshape(ends.shape), -1)
    by_kind = np.where(places >= 0, kinds[:, None] * len(nodes) + places, -1)
    top = int(classes.max(initial=0)) + 1
    known = classes >= 0
    low, high = classes.min(axis=1), classes.max(axis=1)
    of_node = ends[:, 1] < 0
    pair = np.where(of_node & known[:, 0], kinds * top * top + high * top + high, -1)
    pair = np.where(known.all(axis=1), kinds * top * top + low * top + high, pair)
    at = np.where(known, kinds[:, None] * top + classes, -1)
    some = ~known.any(axis=1) & np.isin(kinds, range(len(CHANGES)))
    families = [
        _Family("change", np.arange(size)[:, None], size),
        _Family("kind at node", by_kind, len(UNIT_KINDS) * len(nodes)),
        _Family("node", places, len(nodes)),
        _Family("classes", pair[:, None], len(UNIT_KINDS) * top * top),
        _Family("class", at, len(UNIT_KINDS) * top),
        _Family("kind", np.where(some, kinds, -1)[:, None], len(UNIT_KINDS)),
    ]
    if units.labels is not None:
        families.insert(1, _Family("group", units.labels[:, None], len(units.groups)))
    return families


def _broad_families(units: Credited) -> list[_Family]:
    """Changes of all kinds between two classes, and at one."""
    classes, known = units.classes, units.classes >= 0
    top = int(classes.max(initial=0)) + 1
    pair = np.where(known.all(axis=1), classes.min(axis=1) * top + classes.max(axis=1), -1)
    return [
        _Family("any between classes", pair[:, None], top * top),
        _Family("any at class", np.where(known, classes, -1), top),
    ]


def _best(families: list[_Family], carried: FloatArray, free: BoolArray) -> tuple[_Family, int, float] | None:
    """The candidate of the fewest units among those that carry nearly as much as any."""
    sums = []
    for family in families:
        labels = family.labels
        if labels.shape[1] == 2:  # one that has a label twice is counted once
            labels = np.where(np.stack([np.zeros(len(labels), bool), labels[:, 0] == labels[:, 1]], axis=1), -1, labels)
        used = (labels >= 0) & free[:, None]
        unit, column = np.nonzero(used)
        mine = labels[unit, column]
        values, inverse = np.unique(mine, return_inverse=True)
        gain = np.bincount(inverse.reshape(-1), weights=carried[unit], minlength=len(values))
        sums.append((values, gain, np.bincount(inverse.reshape(-1), minlength=len(values))))
    most = max((gain.max(initial=0.0) for _, gain, _ in sums), default=0.0)
    if most <= 0:
        return None
    best: tuple[int, float, _Family, int] | None = None
    for family, (values, gain, number) in zip(families, sums, strict=True):
        near = np.flatnonzero(gain >= NEARLY * most)
        if len(near):
            pick = near[np.lexsort((-gain[near], number[near]))[0]]
            if best is None or number[pick] < best[0]:
                best = int(number[pick]), float(gain[pick]), family, int(values[pick])
    assert best is not None
    return best[2], best[3], best[1]


def _tell(
    units: Credited,
    credits: Credits,
    moved: FloatArray,
    carried: FloatArray,
    chosen: _Chosen,
) -> Statement:
    total, rows = float(moved.sum()), np.flatnonzero(chosen.mine)
    part = _weigh(units, chosen.mine)[credits.units]
    here = part > 0
    by_target = np.bincount(credits.targets[here], credits.carried[here] * part[here], len(moved))
    counted = (by_target >= TENTH * moved) & (by_target > 0)
    top = np.argsort(-by_target, kind="stable")[:NUM_MOVED]
    largest = rows[np.argsort(-carried[rows], kind="stable")[:NUM_PARTS]]
    parts = tuple((name_unit(units, int(row)), float(carried[row] / total)) for row in largest if carried[row] > 0)
    if chosen.family.name.startswith("any "):
        parts = _parts_by_kind(units.kinds[rows], carried[rows] / total)
    return Statement(
        _words(units, chosen.family.name, chosen.label, rows),
        UNIT_KINDS[int(np.bincount(units.kinds[rows]).argmax())],
        len(rows),
        float(carried[rows].sum() / total),
        int(counted.sum()),
        tuple((int(place), float(by_target[place])) for place in top if by_target[place] > 0),
        parts if len(rows) > 1 else (),
        rows,
    )


def _parts_by_kind(kinds: IntArray, parts: FloatArray) -> tuple[tuple[str, float], ...]:
    """What changes of each kind carried, largest first."""
    numbers, sums = np.bincount(kinds), np.bincount(kinds, weights=parts)
    order = np.argsort(-sums, kind="stable")[:NUM_PARTS]
    return tuple(
        (_several(UNIT_KINDS[kind], int(numbers[kind])), float(sums[kind])) for kind in order if sums[kind] > 0
    )


def name_unit(units: Credited, row: int) -> str:
    """One change in words."""
    kind, (src, dst) = UNIT_KINDS[units.kinds[row]], (names[row] for names in units.names)
    if kind == MODEL_RETRAINED:
        return "the retrained model"
    kind = units.told[row] if row < len(units.told) else kind
    between = ONE_WAY if row < len(units.directed) and units.directed[row] else TO
    return f"{kind} {src}{between}{dst}" if units.ends[row, 1] >= 0 else f"{kind} {src}"


def _words(units: Credited, family: str, label: int, rows: IntArray) -> str:
    if len(rows) == 1:
        return name_unit(units, int(rows[0]))
    kind = UNIT_KINDS[int(np.bincount(units.kinds[rows]).argmax())]
    ends, classes = units.ends[rows], units.classes[rows]
    if family == "group":
        return f"{units.groups[label]}: {_several(kind, len(rows), mixed=len(set(units.kinds[rows].tolist())) > 1)}"
    if family in ("kind at node", "node"):
        numbers, counts = np.unique(ends[ends >= 0], return_counts=True)
        hub = int(numbers[counts.argmax()])
        row, side = np.argwhere(units.ends == hub)[0]
        name = units.names[side][row]
        return f"{_several(kind, len(rows), mixed=len(set(units.kinds[rows].tolist())) > 1)} at {name}"
    if family.startswith("any "):
        told = [_several(UNIT_KINDS[one], int(num)) for one, num in enumerate(np.bincount(units.kinds[rows])) if num]
        several = " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)
        if family == "any at class":
            return f"{several} at nodes of {class_word(units.class_names, label)}"
        return f"{several} {_between(units, classes[0])}"
    several = _several(kind, len(rows))
    if family == "kind":
        return several
    if kind in EDGE_CHANGES:
        if family == "classes":
            return f"{several} {_between(units, classes[0])}"
        one = label % (int(units.classes.max()) + 1)
        return f"{several} at nodes of {class_word(units.class_names, one)}"
    what, that, how = several.partition(" that ")  # of nodes: how they went comes last
    return f"{what} of {class_word(units.class_names, int(classes[0, 0]))}{that}{how}"


def _between(units: Credited, ends: IntArray) -> str:
    low, high = (class_word(units.class_names, int(one)) for one in (ends.min(), ends.max()))
    return f"within {low}" if low == high else f"between {low} and {high}"


def class_word(names: dict[int, str], label: int) -> str:
    """A class as people call it."""
    return names.get(label, f"class {label}")


def _several(kind: str, number: int, *, mixed: bool = False) -> str:
    if mixed:
        return f"{number:,} changes"
    if kind == FEATURES_CHANGED:
        return f"features changed, of {number:,} nodes"
    if kind == EDGE_CHANGED:
        return f"features changed, of {number:,} edges"
    what, _, how = kind.partition(" ")
    s = "s" * (number != 1)
    return (
        f"{number:,} {what}{s} {'that came' if kind == NODE_ADDED else 'that went'}"
        if what == "node"
        else (f"{number:,} {what}{s} {how}")
    )

"""Moves -> Statements: what did most of it, in as few statements as account for four fifths of what moved.

Candidates are single changes, and changes taken together: by a column of the user's, at one node (of one kind, or all),
of one relation, of one day, of one kind within or between classes or at one class; else of all kinds there. Statements
are found one after the other: of all candidates the one that carries the most of what no statement has yet; and of
those that carry nine tenths of that, the one of the fewest changes, which says more. Beyond four fifths only what
accounts for a fiftieth is stated. Where ten statements account for less than three fifths, the change is diffuse, and
described by how many changes carry which part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray
from ..scan.scan_blame import TENTH
from .moves import Moves, count_changes_of, tone_of
from .page import number

ENOUGH, WORTH = 0.8, 0.02  # of all that moved: from where on a further statement must carry so much
MOST = 10  # statements
MUCH = 0.6  # of all that moved: ten statements that carry less leave it diffuse
LEAST_PART = 1e-3  # of all that moved: what carries less is no statement
NEARLY = 0.9  # of the best: a smaller group that carries as much is told instead
MORE_THAN_ALL = 1.005  # of all that moved
GROSS = 0.1  # of all that moved: what held predictions back
NUM_MEMBERS, NUM_MOVED = 8, 5
UNNAMED = ("relation", "day", "classes", "class")  # levels that name nobody: only where no other carries as much
NUM_NAMED = 3  # statements that a sentence names
PARTS = (0.2, 0.4, 0.6, 0.8)  # of a diffuse change


class Level(NamedTuple):
    """Candidates of one form: for each unit the number, or the two numbers, of what it is summed with; -1 for none."""

    name: str
    labels: IntArray  # [num_units, 1 or 2]


@dataclass(frozen=True, eq=False)
class Statement:
    """One cause, and what it did."""

    text: str
    kind: str  # of most of its changes
    num_changes: int
    carried: float  # part of all that moved
    num_predictions: int  # of whose move it carried a tenth or more
    moved: tuple[tuple[int, float], ...]  # places of the predictions that it carried the most of, and how much
    members: tuple[tuple[str, float], ...]  # its largest changes, and the part of all that each carried
    units: IntArray  # [num]: what it is made of


@dataclass(frozen=True, eq=False)
class CauseSummary:
    """What did it."""

    statements: tuple[Statement, ...]  # none where the change is diffuse
    up: float  # parts of all that moved: what pushed predictions the way they went, and what held them back
    down: float
    by_kind: tuple[tuple[str, int, float], ...]  # kind, number of changes, part of all that moved; largest first
    spread: tuple[tuple[float, int], ...]  # part of all that moved, and how many units carry it, the largest first
    total: float  # all that moved

    @property
    def coverage(self) -> float:
        """The part of all that moved that the statements carry."""
        return sum(one.carried for one in self.statements)

    @property
    def opposed(self) -> bool:
        """Whether shares cancel so much that parts of all that moved exceed it: they are told as amounts then."""
        return max([self.coverage, *(abs(one.carried) for one in self.statements)]) > MORE_THAN_ALL

    def amount(self, part: float) -> str:
        """A part as a percentage, or where shares cancel as what it moved."""
        return f"{part * self.total:+.3g}" if self.opposed else percent(part)

    @property
    def num_enough(self) -> int:
        """How many of the statements account for four fifths of all that moved; 0 where all together do not."""
        reached = np.cumsum([one.carried for one in self.statements]) >= ENOUGH
        return int(np.argmax(reached)) + 1 if reached.any() else 0

    def summary(self, of: str) -> str:
        """What did most of it, or how diffuse that is, in a sentence; `of` says of what."""
        if not self.statements:
            parts = [f"{percent(part)} by the largest {count:,} changes" for part, count in self.spread[:2]]
            return f"No ten causes did most of {of}; {' and '.join(parts) or 'no changes account for much of it'}."
        named = [f"{one.text} ({self.amount(one.carried)})" for one in self.statements[:NUM_NAMED]]
        others = len(self.statements) - len(named)
        more = f" and {others} more cause{'s' * (others != 1)}" * (others > 0)
        if self.opposed:
            return (
                f"Of {of}, {self.total:.3g} in all, most is due to {', '.join(named)}{more}: {self._up_and_down}, as "
                "changes also pushed back."
            )
        return f"Most of {of} is due to {', '.join(named)}{more}: {percent(min(self.coverage, 1.0))} of it together."

    @property
    def _up_and_down(self) -> str:
        """What all changes pushed the way the predictions went, and back."""
        return f"{self.up * self.total:+.3g} and {self.down * self.total:+.3g} by all changes"


def find_causes(moves: Moves, class_names: dict[int, str]) -> CauseSummary:
    """The statements, largest first, and what is known of the whole."""
    total, by_unit = moves.total or 1.0, moves.by_unit
    groups: list[tuple[str, IntArray]] = []
    for broad in (False, True):
        found = find_groups(levels_of(moves.units, broad=broad), by_unit, total)
        if sum(by_unit[rows].sum() for _, rows in found) >= MUCH * total:
            groups = found
            break
    statements = [_make_statement(moves, level, rows, by_unit, total, class_names) for level, rows in groups]
    net = by_unit / total
    frame = pd.DataFrame({"kind": moves.units.kind, "number": moves.units.number, "part": net})
    kinds = frame.groupby("kind", sort=False).sum().sort_values("part", key=np.abs, ascending=False, kind="stable")
    up = float(moves.carried[moves.carried > 0].sum()) / total
    down = float(moves.carried[moves.carried < 0].sum()) / total
    ranked = np.cumsum(np.sort(net)[::-1])
    spread = [(part, int(np.argmax(ranked >= part)) + 1) for part in PARTS if (ranked >= part).any()]
    return CauseSummary(
        tuple(sorted(statements, key=lambda one: -one.carried)),
        up,
        down,
        tuple(zip(map(str, kinds.index), kinds.number.tolist(), kinds.part.tolist(), strict=True)),
        tuple(spread),
        moves.total,
    )


def find_groups(levels: list[Level], by_unit: FloatArray, total: float) -> list[tuple[str, IntArray]]:
    """The level and the units of each statement, in the order in which they are found."""
    free: BoolArray = by_unit != 0
    found, carried = list[tuple[str, IntArray]](), 0.0
    while len(found) < MOST:
        best = _best(levels, by_unit, free)
        if best is None or best[2] < (LEAST_PART if carried < ENOUGH * total else WORTH) * total:
            break
        level, label, gain = best
        rows = np.flatnonzero((level.labels == label).any(axis=1) & free)
        free[rows] = False
        found.append((level.name, rows))
        carried += gain
    return found


def _best(levels: list[Level], by_unit: FloatArray, free: BoolArray) -> tuple[Level, int, float] | None:
    """The candidate of the fewest units among those that carry nearly as much as any, one with a name first."""
    sums = []
    for level in levels:
        used = (level.labels >= 0) & free[:, None]
        if used.shape[1] == 2:
            used[:, 1] &= level.labels[:, 0] != level.labels[:, 1]  # one that has a label twice is counted once
        unit, column = np.nonzero(used)
        values, inverse = np.unique(level.labels[unit, column], return_inverse=True)
        gain = np.bincount(inverse.reshape(-1), weights=by_unit[unit], minlength=len(values))
        sums.append((values, gain, np.bincount(inverse.reshape(-1), minlength=len(values))))
    most = max((gain.max(initial=0.0) for _, gain, _ in sums), default=0.0)
    if most <= 0:
        return None
    best: tuple[tuple[bool, int], float, Level, int] | None = None
    for level, (values, gain, size) in zip(levels, sums, strict=True):
        near = np.flatnonzero(gain >= NEARLY * most)
        if len(near):
            pick = near[np.lexsort((-gain[near], size[near]))[0]]
            rank = level.name in UNNAMED, int(size[pick])
            if best is None or rank < best[0]:
                best = rank, float(gain[pick]), level, int(values[pick])
    assert best is not None
    return best[2], best[3], best[1]


def levels_of(units: pd.DataFrame, *, broad: bool = False) -> list[Level]:
    """The more a candidate says, the earlier it comes: that decides between equals. Broad ones mix kinds of changes."""
    kinds = pd.factorize(units.kind)[0]
    ends, classes = units[["src", "dst"]].to_numpy(), units[["low", "high"]].to_numpy()
    nodes, places = np.unique(ends, return_inverse=True)
    places = np.where(ends >= 0, places.reshape(ends.shape), -1)
    both, top = (classes >= 0).all(axis=1), int(classes.max(initial=0)) + 1
    pair = np.where(both, classes[:, 0] * top + classes[:, 1], -1)[:, None]
    single = np.where(units.number.to_numpy() == 1, np.arange(len(units)), -1)[:, None]

    def of_kind(labels: IntArray, size: int) -> IntArray:
        return np.where(labels >= 0, kinds[:, None] * size + labels, -1)

    levels = [
        Level("change", single),
        Level("node", of_kind(places, len(nodes))),
        Level("node", places),
        Level("classes", of_kind(pair, top * top)),
        Level("class", of_kind(classes, top)),
    ]
    if broad:
        levels += [Level("classes", pair), Level("class", classes)]
    for place, name in enumerate(("group", "relation", "day"), start=1):
        if name in units:
            codes = units.groupby(name, sort=False).ngroup().to_numpy()
            levels.insert(place, Level(name, np.where(units[name].to_numpy() == "", -1, codes)[:, None]))
    return levels


def _make_statement(
    moves: Moves, level: str, rows: IntArray, by_unit: FloatArray, total: float, class_names: dict[int, str]
) -> Statement:
    mine = np.zeros(len(by_unit), dtype=np.bool_)
    mine[rows] = True
    here = mine[moves.unit]
    by_target = np.bincount(moves.target[here], moves.carried[here], len(moves.moved))
    counted = (by_target >= TENTH * moves.moved) & (by_target > 0)
    top = np.argsort(-by_target, kind="stable")[:NUM_MOVED]
    largest = rows[np.argsort(-by_unit[rows], kind="stable")[:NUM_MEMBERS]]
    members = [(str(moves.units.words.iloc[row]), float(by_unit[row] / total)) for row in largest.tolist()]
    kinds = moves.units.kind.iloc[rows]
    return Statement(
        _words(moves, level, rows, class_names),
        str(kinds.mode().iloc[0]),
        int(moves.units.number.iloc[rows].sum()),
        float(by_unit[rows].sum() / total),
        int(counted.sum()),
        tuple((int(place), float(by_target[place])) for place in top if by_target[place] > 0),
        tuple(members) if len(rows) > 1 else (),
        rows,
    )


def _words(moves: Moves, level: str, rows: IntArray, class_names: dict[int, str]) -> str:
    units = moves.units.iloc[rows]
    first = units.iloc[0]
    if len(rows) == 1:
        return str(first.words)
    kinds = units.groupby("kind", sort=False).number.sum().sort_values(ascending=False, kind="stable")
    counted = [count_changes_of(str(kind), int(count)) for kind, count in kinds.items()]
    several = " and ".join([", ".join(counted[:-1]), counted[-1]] if len(counted) > 1 else counted)
    if level == "node":
        ends = units[["src", "dst"]].to_numpy().ravel()
        node = int(pd.Series(ends[ends >= 0]).mode().iloc[0])
        return f"{several} at {moves.names.get(node, node)}"
    if level in ("classes", "class"):
        whole = units[["low", "high"]].to_numpy()
        if level == "class":  # the one that all of them have
            label = next(label for label in whole[0].tolist() if (whole == label).any(axis=1).all())
            return f"{several} at nodes of {class_word(class_names, label)}"
        low, high = (class_word(class_names, label) for label in whole[0].tolist())
        if (units.dst < 0).all():
            return f"{several} in {low}"
        return f"{several} within {low}" if low == high else f"{several} between {low} and {high}"
    if level == "day":
        return f"{several}, last event {first.day}"
    return f"{first[level]}: {several}"


def describe_coverage_of(causes: CauseSummary, num_changes: int, of: str) -> str:
    """How much the statements account for, and what was held back; `of` says of what."""
    if causes.statements:
        several, num = len(causes.statements), sum(one.num_changes for one in causes.statements)
        text = (
            f"{several:,} cause{'s' * (several != 1)} below, {num:,} of {num_changes:,} changes, "
            f"account{'s' * (several == 1)} for {causes.amount(causes.coverage)} {of}"
            f"{f', {causes.total:.3g}' * causes.opposed}."
        )
    else:
        text = f"The change is diffuse: no ten changes, nodes or classes account for {percent(MUCH)} {of}."
    if causes.down < -GROSS:
        up, down = (f"{part * causes.total:+.3g}" for part in (causes.up, causes.down))
        text += f" Changes pushed predictions {up} the way they went, and {down} back."
    return text


def causes_for_page(causes: CauseSummary, links: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Plain values for a page; `links` are the name and the row of each prediction, -1 where it has no page."""
    return {
        "spread": [] if causes.statements else [[part, count] for part, count in causes.spread],
        "kinds": [
            [kind, tone_of(kind), number(part), causes.amount(part) if causes.opposed else ""]
            for kind, _, part in causes.by_kind
        ],
        "statements": [
            {
                "text": one.text,
                "tone": tone_of(one.kind),
                "carried": number(one.carried),
                "amount": causes.amount(one.carried) if causes.opposed else "",
                "predictions": one.num_predictions,
                "moved": [[*links[place], number(part)] for place, part in one.moved if links[place][1] >= 0],
                "members": [
                    [text, number(part), causes.amount(part) if causes.opposed else ""] for text, part in one.members
                ],
                "more": max(len(one.units) - len(one.members), 0) if one.members else 0,
            }
            for one in causes.statements
        ],
    }


def percent(part: float) -> str:
    """A part in words."""
    return f"{100 * part:.0f} %" if abs(part) >= 0.095 or part == 0 else f"{100 * part:.1f} %"


def class_word(names: dict[int, str], label: int) -> str:
    """A class as people call it."""
    return names.get(label, f"class {label}")

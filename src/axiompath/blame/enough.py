"""SubsetEngine + Root -> Enough: the fewest changes that, applied to `before`, carry most of its change.

    minimise  |S|    over sets S of changes that reach it,    so that  D(after, v(S)) <= (1 - until) D(after, before)

with v(S) the logits of the real graph with S applied (of values the distance takes the place of D, as everywhere). The
search is that of `fewest`: every set of one change, of two, ... while they can be afforded, which proves that no fewer
do; beyond, greedy and blame's own order, with what is not needed taken away again and two exchanged for one.

With a budget n instead, the set of at most n changes that leaves least, which may be none: all sets where they can be
afforded; else no change and blame's largest as starts, each improved by one change more, by one for another and by one
less until none helps.
"""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import Notice
from ..explain.explanation import Caption
from ..explain.question import Question
from ..storage.codec import FileForm, Finite, require
from .blame import blame_target
from .cost import TooDear
from .engine import SubsetEngine
from .fewest import find_fewest, sets_of_size
from .goal import UndoGoal
from .records import ChosenChanges, chosen_fields
from .root import Root
from .search import OutOfTime, TriedSets
from .shapley import LEAST_PAIRS, MOST_PAIRS, Effort, check_seconds

OF_BLAME = 1 / 8  # share of the time that blame, as a start, may take
ROUGH = 0.05  # errors of blame as a start, in shares of the change
LEAST_SHARE = -1e300  # of a change, that a saved record may hold
GAIN = 1e-12  # shares of the change: an exchange that gains less is none


@dataclass(frozen=True, eq=False, kw_only=True)
class Enough(ChosenChanges):
    """The fewest changes that, applied to `before` without the others, account for most of the prediction's change."""

    form: ClassVar = FileForm("enough", 2, {1: {"directed": []}})

    until: Finite | None  # the share asked for; None where a number of changes was
    explained: float  # share of the change that they carry: 1 - D(after, v(S)) / D(after, before)

    @property
    def sentence(self) -> str:
        """How many are enough, in a sentence."""
        count = f"{len(self.changes)} of {self.num_in_sight} change{'s' * (self.num_in_sight != 1)}"
        if self.num_in_sight == 0:
            return "No change reaches it."
        percent_text = "nan" if math.isnan(self.explained) else f"{math.floor(100 * self.explained + 1e-9)}"
        return f"{count} account{'s' * (len(self.changes) == 1)} for {percent_text} % of the change."

    def summary(self) -> str:
        """The same, with the list of changes and how it was found."""
        return f"{self.sentence[:-1]}: {self.list_changes()}. {self.how}" if self.num_in_sight else self.sentence

    def __repr__(self) -> str:
        """The sentence."""
        return f"Enough: {self.sentence}"

    def check(self) -> None:
        """The checks of every record of changes; nothing explains more than all."""
        super().check()
        fits = math.isnan(self.explained) or LEAST_SHARE < self.explained <= 1
        require(fits, f"`explained` should be a share of at most 1; got {self.explained}")


class Applied(TriedSets):
    """The same search for sets that are applied to `before` instead; the evaluator itself judges them."""

    @property
    def near(self) -> float:
        """Nothing is close: no other judge is asked."""
        return 0.0

    def applied(self, undone: IntArray) -> BoolArray:
        """Truth values of what is applied: only these changes."""
        return ~super().applied(undone)

    def judge(self, undone: IntArray) -> tuple[bool, FloatArray]:
        """What the evaluator says."""
        logits = self.evaluator.run(self.applied(undone[None]))
        return bool(self.goal.reached(logits)[0]), logits[0]


def enough_of_target(
    engine: SubsetEngine,
    root: Root,
    caption: Caption,
    *,
    until: float,
    budget: int | None = None,
    open_nodes: bool = False,
    seconds: float = 10.0,
    most_evaluations: float = math.inf,
    starts: tuple[tuple[int, ...], ...] = (),
) -> Enough:
    """The fewest that carry `until` of the change, or at most `budget` changes that carry most.

    `starts` are further orders of ids to search along; besides `seconds`, the effort may be counted in evaluations.
    """
    check_seconds(seconds)
    Question(budget or 0, until=None if budget is not None else until)  # refuses what is neither
    evaluator = engine.open(root, open_nodes=open_nodes)
    size = evaluator.num_changes
    ends = evaluator.run_ends()
    whole = float(engine.output.divergence(ends[1], ends[0]))
    left = engine.output.left_at(until)

    def margin(logits: FloatArray) -> FloatArray:
        remains = engine.output.divergence(ends[1], logits)
        return np.asarray(left - remains / whole if whole > 0 else np.where(remains > 0, -1.0, 1.0))

    goal = UndoGoal("most of the change", margin, lambda logits: np.asarray(margin(logits) >= 0))
    search = Applied(evaluator, goal, np.ones(size), np.arange(size), seconds, most_evaluations)
    if size > 1 and not search.affords(1 << min(size, 62)) and search.affords(2 * LEAST_PAIRS * size, OF_BLAME):
        pairs = min(OF_BLAME * most_evaluations / (2 * size), MOST_PAIRS)
        effort = Effort(seconds=OF_BLAME * seconds, tolerance=ROUGH, most_pairs=max(LEAST_PAIRS, int(pairs)))
        with suppress(TooDear), warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)  # of what blame would take
            blamed = blame_target(engine, root, caption, open_nodes=open_nodes, effort=effort)
            starts = (tuple(row[0] for row in blamed.changes), *starts)
    if budget is None:
        found = find_fewest(search, starts=starts)
        chosen, proved, how = np.sort(found.chosen), found.proved, found.how
    else:
        place_of = {number: place for place, number in enumerate(evaluator.changes.id.tolist())}
        orders = [np.array([place_of[i] for i in order if i in place_of], dtype=np.int64) for order in starts]
        chosen, proved = find_best(search, min(int(budget), size), orders)
        how = f"No other set of at most {budget} does better: all were tried." if proved else "Others may do better."
    logits = search.judge(chosen)[1]
    return Enough(
        **chosen_fields(search, root, caption, ends, chosen, how),
        until=None if budget is not None else float(until),
        explained=engine.output.explained(whole, float(engine.output.divergence(ends[1], logits))),
        logits=logits,
        proved=bool(proved),
    )


def find_best(search: TriedSets, number: int, orders: list[IntArray]) -> tuple[IntArray, bool]:
    """The best set of at most this size, as indices of the changes; and whether every such set was tried."""
    starts = [np.concatenate([order, np.setdiff1d(search.free, order)])[:number] for order in (*orders, search.free)]
    best, proved = _Best(search.free[:0]), False
    try:
        if search.affords(sum(math.comb(len(search.free), size) for size in range(number + 1))):
            for size in range(number + 1):
                for sets in sets_of_size(search.free, size):
                    best.offer(sets, search.margins(sets))
            proved = True
        else:
            sets = np.stack([np.full(number, -1), *starts])
            margins = search.margins(sets)
            best.offer(sets, margins)
            _climb(search, sets[0], best)
            for place in np.argsort(-margins[1:-1], kind="stable").tolist():  # the best one first: the time may end
                _climb(search, starts[place], best)
    except OutOfTime:
        pass
    return np.sort(best.chosen[best.chosen >= 0]), proved


class _Best:
    """The set of the largest margin so far; of sets that are equal but for rounding the one that came first."""

    def __init__(self, chosen: IntArray) -> None:
        self.chosen, self.margin = chosen, -math.inf

    def offer(self, sets: IntArray, margins: FloatArray) -> tuple[IntArray, float]:
        """Keep the best of these, where it is better; only the best of these, and its margin."""
        place = int(margins.argmax())
        if margins[place] > self.margin + GAIN:
            self.chosen, self.margin = sets[place], float(margins[place])
        return sets[place], float(margins[place])


def _climb(search: TriedSets, chosen: IntArray, best: _Best) -> None:
    """One change more, and where none helps one for another or one less: each time what helps the most.

    `chosen` holds places among the changes, -1 for none.
    """
    _, margin = best.offer(chosen[None], search.margins(chosen[None]))
    adding = True
    while search.left > 0:
        others, free = np.setdiff1d(search.free, chosen), np.flatnonzero(chosen < 0)[:1]
        adding &= len(free) > 0
        slots = free if adding else np.append(np.flatnonzero(chosen >= 0), free)
        values = others if adding else np.append(others, -1)
        sets = np.repeat(chosen[None], len(slots) * len(values), axis=0)
        sets[np.arange(len(sets)), np.repeat(slots, len(values))] = np.tile(values, len(slots))
        other, gained = best.offer(sets, search.margins(sets, all_of_them=False))
        if gained > margin + GAIN:
            chosen, margin, adding = other, gained, True
        elif adding:
            adding = False
        else:
            return

"""A game and a goal -> the fewest, or cheapest, changes whose undoing reaches it.

    minimise  cost(U)    over sets U of changes in sight that may be undone,    so that  goal(v(all but U)) > 0

All sets of one change, of two, of three, ... as long as they can be afforded: the first size with a set that does is
the fewest, proved. Beyond, a search that keeps the best sets of each size, from several orders, and takes away and
swaps what it can; what it finds is the best known, and the largest size that was tried whole is said. Every answer is
judged by the user's own model on the real graph.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from .game import Game
from .goal import UndoGoal

FIRST = 1 << 12  # sets that are tried whatever the time
FIRST_OF_OWN = 1 << 6  # the same where the user's own model answers
SETS_AT_A_TIME = 1 << 14  # sets that are tried at a time
BEAM = 64  # sets of a size that the search goes on from
NUM_JUDGED = 12  # sets that the user's model is asked about before the next size is looked at
NEAR = 1e-4  # a margin so small, relative to the largest logit, is for the user's model to decide


@dataclass(frozen=True)
class Terms:
    """What may be undone, at what cost, and how long to search."""

    keep: Iterable[int] = ()
    costs: Mapping[int, float] | None = None
    seconds: float = 10.0
    every: bool = False  # all sets of the least size
    starts: tuple[tuple[int, ...], ...] = ()  # further orders of ids to try along, such as those of other explainers


class Tries:
    """The sets that were tried; truth values are of what is undone."""

    def __init__(self, game: Game, goal: UndoGoal, costs: FloatArray, free: IntArray, seconds: float) -> None:
        self.game, self.goal, self.costs, self.free = game, goal, costs, free
        self.started, self.seconds = time.monotonic(), seconds
        self.num_evaluations = 0
        self.scale = 1.0

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (time.monotonic() - self.started)

    def affords(self, number: int) -> bool:
        """Whether so many sets can be tried in half of the time that is left; a few always are."""
        if number <= (FIRST if self.game.by_network else FIRST_OF_OWN):
            return True
        each = (time.monotonic() - self.started) / max(self.num_evaluations, 1)
        return number * each <= self.left / 2

    @property
    def near(self) -> float:
        """A margin so small is for the judge to decide."""
        return NEAR * self.scale

    def applied(self, undone: IntArray) -> BoolArray:
        """Truth values of what is applied without these: rows of places, -1 for none. [num_sets, num_changes]."""
        applied = np.ones((len(undone), self.game.num_changes + 1), dtype=np.bool_)
        applied[np.arange(len(undone))[:, None], undone] = False
        return applied[:, :-1]

    def margins(self, undone: IntArray) -> FloatArray:
        """Margins without these changes: rows of places among the changes in sight, -1 for none. [num_sets]."""
        logits = self.game.run(self.applied(undone))
        self.num_evaluations += len(undone)
        self.scale = max(self.scale, float(np.abs(logits).max(initial=0.0)))
        return self.goal.margin(logits)

    def judge(self, undone: IntArray) -> tuple[bool, FloatArray]:
        """What the user's own model says."""
        logits = self.game.own(self.applied(undone[None]))
        return bool(self.goal.reached(logits)[0]), logits[0]

    def first_that_holds(self, sets: IntArray, margins: FloatArray) -> tuple[IntArray | None, bool]:
        """The cheapest set, best first among equals, that the user's model agrees with; whether one was passed over.

        Sets whose margin is too small to trust are put to the user's model, but not more than a few of them.
        """
        near = self.near
        able = np.flatnonzero(margins > -near)
        spent = self.costs[sets[able]].sum(axis=1)
        num_near, passed = 0, False
        for place in able[np.lexsort((-margins[able], spent))].tolist():
            if margins[place] <= near:
                num_near += 1
                if num_near > NUM_JUDGED:
                    passed = True
                    continue
            if self.judge(sets[place])[0]:
                return sets[place], passed
        return None, passed


@dataclass(frozen=True, eq=False)
class Fewest:
    """The best set, by places among the changes in sight, and what is known of others."""

    chosen: IntArray
    proved: bool  # whether nothing cheaper exists
    how: str  # how that is known, in a sentence
    excluded: int  # no set of so many does it
    alternatives: tuple[IntArray, ...] = ()


def find_fewest(search: Tries, game: Game, terms: Terms) -> Fewest:
    """Sizes in order, each whole, while they can be afforded; then the best sets of each size alone."""
    free, costs = search.free, search.costs
    cheapest = np.concatenate([[0.0], np.cumsum(np.sort(costs[free])), [math.inf]])  # the least that so many cost
    best: IntArray | None = None
    alternatives: tuple[IntArray, ...] = ()
    best_cost, size, excluded, doubtful = math.inf, 0, -1, False
    beam = np.zeros((1, 0), dtype=np.int64)
    while cheapest[size] < best_cost and search.affords(math.comb(len(free), size)):
        sets, margins = _try_whole(search, size)
        hit, passed = search.first_that_holds(sets, margins)
        doubtful |= passed
        if hit is not None and costs[hit].sum() < best_cost:
            best, best_cost = hit, float(costs[hit].sum())
            if terms.every:
                alternatives = _all_that_hold(search, sets, margins, best_cost)
        excluded = size if best is None else excluded
        beam = sets[np.argsort(-margins, kind="stable")[:BEAM]]
        size += 1
    tried = size - 1
    if cheapest[size] < best_cost:
        found = _search_on(search, game, beam, tried, best, terms)
        if found is not None and costs[found].sum() < best_cost:
            best, best_cost, alternatives = found, float(costs[found].sum()), ()
    complete = cheapest[tried + 1] >= best_cost  # whatever has more changes than were tried costs as much
    fewer = "smaller" if bool((costs == 1).all()) else "cheaper"
    if best is None and complete:
        how = f"All sets of the {len(free)} changes that may be undone were tried."
    elif best is None:
        how = f"All sets of up to {tried} changes were tried, and the best of the larger ones; more seconds may help."
    elif complete and not doubtful:
        how = f"Nothing {fewer} does: every {fewer} set was tried."
    elif complete:
        how = f"Every {fewer} set was tried, but some are so near that only the user's model on each would tell."
    else:
        how = f"No set of up to {excluded} does; of larger ones the best were searched, so that {fewer} ones may exist."
    chosen = free[:0] if best is None else best
    return Fewest(chosen, complete and not doubtful, how, max(excluded, 0), alternatives)


def _try_whole(search: Tries, size: int) -> tuple[IntArray, FloatArray]:
    """Of all sets of a size those that do it, or nearly, and the nearest of the others; with their margins."""
    kept_sets: list[IntArray] = []
    kept_margins: list[FloatArray] = []
    for sets in sets_of_size(search.free, size):
        margins = search.margins(sets)
        able = np.flatnonzero(margins > -search.near)
        some = np.union1d(able, np.argsort(-margins, kind="stable")[:BEAM])
        kept_sets.append(sets[some])
        kept_margins.append(margins[some])
    return np.concatenate(kept_sets), np.concatenate(kept_margins)


def _all_that_hold(search: Tries, sets: IntArray, margins: FloatArray, cost: float) -> tuple[IntArray, ...]:
    """The sets of the least cost that do it, best first; doubtful ones as the user's model says."""
    near = search.near
    able = np.flatnonzero((margins > -near) & (search.costs[sets].sum(axis=1) <= cost))
    able = able[np.argsort(-margins[able], kind="stable")]
    return tuple(sets[i] for i in able.tolist() if margins[i] > near or search.judge(sets[i])[0])


def _search_on(
    search: Tries, game: Game, beam: IntArray, size: int, best: IntArray | None, terms: Terms
) -> IntArray | None:
    """The best set found beyond the sizes that can be tried whole: along orders, then by the best sets of each size."""
    best = _improve(search, game, best, terms)
    most = len(search.free) if best is None else len(best) - 1
    while size < most and search.left > 0:
        size += 1
        beam, margins = _extend(search, beam, BEAM)
        hit, _ = search.first_that_holds(beam, margins)
        if hit is not None and (best is None or search.costs[hit].sum() < search.costs[best].sum()):
            return _reduce(search, hit)
    return best


def _extend(search: Tries, beam: IntArray, width: int) -> tuple[IntArray, FloatArray]:
    """The best sets of one change more than those of the beam."""
    longer = np.concatenate(
        [np.repeat(beam, len(search.free), axis=0), np.tile(search.free, len(beam))[:, None]], axis=1
    )
    longer = np.sort(longer, axis=1)
    longer = np.unique(longer[(np.diff(longer, axis=1) > 0).all(axis=1)], axis=0)
    margins = np.concatenate(
        [search.margins(longer[s : s + SETS_AT_A_TIME]) for s in range(0, len(longer), SETS_AT_A_TIME)]
    )
    order = np.argsort(-margins, kind="stable")[:width]
    return longer[order], margins[order]


def _greedy_order(search: Tries) -> IntArray:
    """One change after the other, each time the one that helps the most, until it is done."""
    chosen, margins = np.zeros((1, 0), dtype=np.int64), np.full(1, -math.inf)
    while chosen.shape[1] < len(search.free) and margins[0] <= 0:
        chosen, margins = _extend(search, chosen, 1)
    return np.asarray(chosen[0])


def _improve(search: Tries, game: Game, best: IntArray | None, terms: Terms) -> IntArray | None:
    """A smaller set than the best: from prefixes of several orders, with what is not needed taken away again."""
    free = search.free
    alone = search.margins(free[:, None])
    orders = [_greedy_order(search), free[np.argsort(-alone, kind="stable")]]
    place = {row: i for i, row in enumerate(game.changes.id.tolist())}
    orders += [np.array([place[i] for i in start if i in place], dtype=np.int64) for start in terms.starts]
    orders = [np.concatenate([order[np.isin(order, free)], np.setdiff1d(free, order)]) for order in orders]
    cost = math.inf if best is None else float(search.costs[best].sum())
    for order in orders:
        prefixes = np.full((len(order), len(order)), -1, dtype=np.int64)
        for i in range(len(order)):
            prefixes[i, : i + 1] = order[: i + 1]
        margins = search.margins(prefixes)
        hits = np.flatnonzero(margins > 0)
        if len(hits):
            reduced = _reduce(search, order[: hits[0] + 1])
            if float(search.costs[reduced].sum()) < cost and search.judge(reduced)[0]:
                best, cost = reduced, float(search.costs[reduced].sum())
    return best


def _reduce(search: Tries, chosen: IntArray) -> IntArray:
    """Without what is not needed: the dearest first, then what costs the least margin."""
    while len(chosen) > 1:
        without = np.stack([np.delete(chosen, i) for i in range(len(chosen))])
        margins = search.margins(without)
        able = np.flatnonzero(margins > 0)
        if not len(able):
            swapped = _swap(search, chosen)
            if swapped is None:
                return chosen
            chosen = swapped
            continue
        chosen = without[able[np.lexsort((-margins[able], -search.costs[chosen[able]]))[0]]]
    return chosen


def _swap(search: Tries, chosen: IntArray) -> IntArray | None:
    """Two of a set for one other: a set that is smaller by one and still does, None where there is none."""
    others = np.setdiff1d(search.free, chosen)
    pairs = list(itertools.combinations(range(len(chosen)), 2))
    if not len(others) or not pairs or len(others) * len(pairs) > SETS_AT_A_TIME or search.left < 0:
        return None
    sets = np.array(
        [[*np.delete(chosen, pair).tolist(), other] for pair in pairs for other in others.tolist()], dtype=np.int64
    )
    margins = search.margins(sets)
    best = int(margins.argmax())
    cheaper = search.costs[sets[best]].sum() < search.costs[chosen].sum()
    return sets[best] if margins[best] > 0 and cheaper else None


def sets_of_size(free: IntArray, size: int) -> Iterable[IntArray]:
    """All sets of a size, some thousands at a time. [num_sets, size] each."""
    sets = itertools.combinations(free.tolist(), size)
    while True:
        some = list(itertools.islice(sets, SETS_AT_A_TIME))
        if not some:
            return
        yield np.array(some, dtype=np.int64).reshape(len(some), size)

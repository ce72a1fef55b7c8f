"""An evaluator and a goal -> the fewest, or cheapest, changes whose undoing reaches it.

    minimise  cost(U)    over sets U of changes that reach it and may be undone,    so that  goal(v(all but U)) > 0

All sets of one change, of two, of three, ... as long as they can be afforded: the first size with a set that does is
the fewest, proved. Beyond, a search that keeps the best sets of each size, from several orders, and takes away and
swaps what it can; what it finds is the best known, and the largest size that was tried whole is said. Every answer is
judged by the user's own model on the real graph.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, IntArray
from .search import GRACE, SETS_AT_A_TIME, OutOfTime, TriedSets

BEAM = 64  # sets of a size that the search goes on from
MANY = 64  # changes that may be undone, from which on the search begins by halving them
PREFIXES = 16  # of an order, that are tried first


@dataclass(frozen=True, eq=False)
class Fewest:
    """The best set, by places among the changes that reach it, and what is known of others."""

    chosen: IntArray
    proved: bool  # whether nothing cheaper exists
    how: str  # how that is known, in a sentence
    excluded: int  # no set of so many does it
    alternatives: tuple[IntArray, ...] = ()


class _Known:
    """What is known while the search goes on; it holds whenever the time ends."""

    def __init__(self, search: TriedSets) -> None:
        self.costs = search.costs
        self.best: IntArray | None = None  # judged by the user's own model
        self.best_cost = math.inf
        self.alternatives: tuple[IntArray, ...] = ()
        self.unlisted = False  # whether the time ended before all alternatives were judged
        self.tried = -1  # all sets of so many changes were tried
        self.excluded = -1  # none of so many does it
        self.doubtful = False  # whether some are so near that the model itself would have to be asked

    def offer(self, some: IntArray | None) -> bool:
        """Keep a set that the user's model agreed with, where it is cheaper."""
        if some is None or float(self.costs[some].sum()) >= self.best_cost:
            return False
        self.best, self.best_cost, self.alternatives = some, float(self.costs[some].sum()), ()
        return True


def find_fewest(search: TriedSets, *, every: bool = False, starts: Sequence[Sequence[int]] = ()) -> Fewest:
    """Sizes in order, each whole, while they can be afforded; then only the best sets of each size.

    With `every`, all sets of the least size. `starts` are further orders of ids to search along.
    """
    free, costs = search.free, search.costs
    cheapest = np.concatenate([[0.0], np.cumsum(np.sort(costs[free])), [math.inf]])  # the least that so many cost
    known = _Known(search)
    try:
        if len(free) > MANY:
            _halve(search)
        beam = _try_sizes(search, cheapest, known, every=every)
        if cheapest[known.tried + 1] < known.best_cost:
            _search_on(search, beam, known, starts)
    except OutOfTime:
        pass
    if known.tried < len(free):  # whatever the time: what was seen on the way, else all of them at once
        _offer_first(search, [free[:0] if search.rough is None else search.rough, free], known)
    complete = cheapest[known.tried + 1] >= known.best_cost  # whatever has more changes than were tried costs as much
    return Fewest(
        free[:0] if known.best is None else known.best,
        complete and not known.doubtful,
        _say(known, len(free), complete=complete, plain=bool((costs == 1).all())),
        max(known.excluded, 0),
        known.alternatives,
    )


def _say(known: _Known, num_free: int, *, complete: bool, plain: bool) -> str:
    fewer = "smaller" if plain else "cheaper"
    unlisted = " The time ran out before all sets of that size were judged." * known.unlisted
    if known.best is None and complete:
        return f"All sets of the {num_free} changes that may be undone were tried."
    if known.best is None:
        tried = f"all sets of up to {known.tried} were tried, " * (known.tried > 0)
        return (
            f"Undoing all {num_free:,} changes that may be undone is not enough either; {tried}and larger ones until "
            "the time ran out: more seconds may help."
        )
    if complete and not known.doubtful:
        return f"No {fewer} set is enough: all were tried.{unlisted}"
    if complete:
        return f"Every {fewer} set was tried, but some are so close that only running the model on each could decide."
    if known.excluded < 1:
        return f"The time ran out before every single change was tried: a {fewer} set may exist."
    return f"No set of up to {known.excluded} is enough; larger ones were searched in part, so a {fewer} set may exist."


def _halve(search: TriedSets) -> None:
    """A small set in few evaluations, by delta debugging: only a part, or all but a part, of ever smaller parts."""
    chosen, num_parts = search.free, 2
    while len(chosen) > 1 and search.left >= search.seconds / 2 - GRACE:
        parts = np.array_split(np.arange(len(chosen)), num_parts)
        inside = np.zeros((num_parts, len(chosen)), dtype=np.bool_)
        for number, part in enumerate(parts):
            inside[number, part] = True
        sets = np.where(np.concatenate([inside, ~inside]), chosen[None], -1)
        margins = search.margins(sets)
        single, without = margins[:num_parts], margins[num_parts:]
        if single.max() > 0:
            chosen, num_parts = chosen[inside[int(single.argmax())]], 2
        elif without.max() > 0 and num_parts > 2:
            chosen, num_parts = chosen[~inside[int(without.argmax())]], num_parts - 1
        elif num_parts == len(chosen):
            return
        else:
            num_parts = min(2 * num_parts, len(chosen))


def _try_sizes(search: TriedSets, cheapest: FloatArray, known: _Known, *, every: bool) -> IntArray:
    """All sets of a size, one size after the other; the best of the last size, to go on from."""
    beam, size = np.zeros((1, 0), dtype=np.int64), 0
    while cheapest[size] < known.best_cost and search.affords(math.comb(len(search.free), size)):
        sets, margins = _try_whole(search, size)
        hit, passed = search.first_that_holds(sets, margins)
        known.doubtful |= passed
        found = known.offer(hit)
        known.tried = size
        known.excluded = size if known.best is None else known.excluded
        if found and every:
            known.unlisted = True
            known.alternatives = _all_that_hold(search, sets, margins, known.best_cost)
            known.unlisted = False
        beam = sets[np.argsort(-margins, kind="stable")[:BEAM]]
        size += 1
    return beam


def _try_whole(search: TriedSets, size: int) -> tuple[IntArray, FloatArray]:
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


def _all_that_hold(search: TriedSets, sets: IntArray, margins: FloatArray, cost: float) -> tuple[IntArray, ...]:
    """The sets of the least cost that do it, best first; doubtful ones as the user's model says."""
    near = search.near
    able = np.flatnonzero((margins > -near) & (search.costs[sets].sum(axis=1) <= cost))
    able = able[np.argsort(-margins[able], kind="stable")]
    return tuple(sets[i] for i in able.tolist() if margins[i] > near or search.judge(sets[i])[0])


def _search_on(search: TriedSets, beam: IntArray, known: _Known, starts: Sequence[Sequence[int]]) -> None:
    """Beyond the sizes that can be tried whole: along orders, then by the best sets of each size."""
    _improve(search, known, starts)
    size = known.tried
    most = len(search.free) if known.best is None else len(known.best) - 1
    while size < most and search.left > 0:
        size += 1
        beam, margins = _extend(search, beam, BEAM)
        hit, _ = search.first_that_holds(beam, margins)
        if known.offer(hit) and hit is not None:
            _offer_reduced(search, hit, known)
            return


def _offer_reduced(search: TriedSets, chosen: IntArray, known: _Known) -> None:
    """A set without what is not needed, where the user's model agrees; else as it is."""
    _offer_first(search, [_reduce(search, chosen), chosen], known)


def _offer_first(search: TriedSets, sets: list[IntArray], known: _Known) -> None:
    """The first of these that is cheaper than the best and that the user's model agrees with."""
    for some in sets:
        if len(some) and float(search.costs[some].sum()) < known.best_cost and search.judge(some)[0]:
            known.offer(some)
            return


def _extend(search: TriedSets, beam: IntArray, width: int) -> tuple[IntArray, FloatArray]:
    """The best sets of one change more than those of the beam."""
    longer = extend_sets(beam, search.free)
    margins = search.margins(longer)
    order = np.argsort(-margins, kind="stable")[:width]
    return longer[order], margins[order]


def _improve(search: TriedSets, known: _Known, starts: Sequence[Sequence[int]]) -> None:
    """A smaller set than the best: from prefixes of several orders, with what is not needed taken away again."""
    for order in _orders(search, starts):
        full = np.concatenate([order[np.isin(order, search.free)], np.setdiff1d(search.free, order)])
        size = _first_prefix(search, full)
        if size:
            _offer_reduced(search, full[:size], known)


def _orders(search: TriedSets, starts: Sequence[Sequence[int]]) -> Iterator[IntArray]:
    """By what each does by itself; as given; and one after the other, each time the one that helps the most."""
    yield search.free[np.argsort(-search.margins(search.free[:, None]), kind="stable")]
    place = {row: i for i, row in enumerate(search.evaluator.changes.id.tolist())}
    for start in starts:
        yield np.array([place[i] for i in start if i in place], dtype=np.int64)
    chosen, margins = np.zeros((1, 0), dtype=np.int64), np.full(1, -math.inf)
    while chosen.shape[1] < len(search.free) and margins[0] <= 0:
        chosen, margins = _extend(search, chosen, 1)
    yield np.asarray(chosen[0])


def _first_prefix(search: TriedSets, order: IntArray) -> int:
    """How many of an order have to be undone until it is done; 0 for never. Short ones are tried first."""
    tried, size = 0, PREFIXES
    while tried < len(order):
        length = np.arange(tried + 1, min(size, len(order)) + 1)
        prefixes = np.where(np.arange(length[-1])[None] < length[:, None], order[: length[-1]][None], -1)
        margins = search.margins(prefixes)
        hits = np.flatnonzero(margins > 0)
        if len(hits):
            return int(length[hits[0]])
        tried, size = int(length[-1]), 2 * size
    return 0


def _reduce(search: TriedSets, chosen: IntArray) -> IntArray:
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


def _swap(search: TriedSets, chosen: IntArray) -> IntArray | None:
    """Two of a set for one other: a set that is smaller by one and still does, None if there is none."""
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


def extend_sets(sets: IntArray, free: IntArray) -> IntArray:
    """All sets of one change more than these, each once. [num_sets, size + 1]."""
    longer = np.concatenate([np.repeat(sets, len(free), axis=0), np.tile(free, len(sets))[:, None]], axis=1)
    longer = np.sort(longer, axis=1)
    return np.unique(longer[(np.diff(longer, axis=1) > 0).all(axis=1)], axis=0)


def sets_of_size(free: IntArray, size: int) -> Iterable[IntArray]:
    """All sets of a size, some thousands at a time. [num_sets, size] each."""
    sets = itertools.combinations(free.tolist(), size)
    while True:
        some = list(itertools.islice(sets, SETS_AT_A_TIME))
        if not some:
            return
        yield np.array(some, dtype=np.int64).reshape(len(some), size)

"""Board + target -> Undo: the fewest (or cheapest) changes whose undoing gives the old prediction back.

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError
from ..explain.explanation import read_record, write_json
from ..graphs.changes import CHANGES
from ..graphs.labels import TO
from ..graphs.places import NODE_UNIT, Target
from ..origin import Origin
from ..outputs import BINARY, CLASSES_OUTPUT, LABELS, NO_YES, VALUE, Output
from ..trust import blamed, read_words
from .blame import check_record, read_caption, read_counts, read_ids, read_numbers, tell, to_plain
from .game import Board, Game

UNDO_FORMAT = "axiompath.undo"
UNDO_VERSION = 1
FIRST = 1 << 12  # sets that are tried whatever the time
FIRST_OF_OWN = 1 << 6  # the same where the user's own model answers
PIECE = 1 << 14  # sets that are tried at a time
WIDTH = 64  # sets of a size that the search goes on from
NUM_JUDGED = 12  # sets that the user's model is asked about before the next size is looked at
NEAR = 1e-4  # a margin so small, relative to the largest logit, is for the user's model to decide


@dataclass(frozen=True, eq=False)
class Undo:
    """The fewest changes whose undoing gives the old prediction back."""

    target: Target
    class_before: int
    class_after: int
    goal: str  # what was asked for, in words
    changes: tuple[int, ...]  # ids, as `changes(open_nodes=open_nodes)` numbers them
    kinds: tuple[str, ...]  # of these
    ends: tuple[tuple[int, int], ...]  # src and dst; -1 for none
    restored: bool  # whether the user's own model reaches the goal on the real graph without them
    logits: FloatArray  # [num_logits] that it gives there
    logits_before: FloatArray  # [num_logits]
    logits_after: FloatArray  # [num_logits]
    proved: bool  # whether nothing smaller, or cheaper, exists
    how: str  # how that is known, or what is not, in a sentence
    excluded: int  # no set of so many changes or fewer does it
    cost: float  # of these changes; their number, where no costs are given
    num_in_sight: int
    num_evaluations: int
    alternatives: tuple[tuple[int, ...], ...] = ()  # all sets of that size that do it, best first; on request
    open_nodes: bool = False
    node_names: dict[int, str] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    origin: Origin | None = None
    unit: str = NODE_UNIT
    output: Output = CLASSES_OUTPUT

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number."""
        return self.node_names.get(node, str(node))

    @property
    def name(self) -> str:
        """The user's name of the target, else its number; of a link both ends."""
        if isinstance(self.target, tuple):
            return TO.join(map(self.name_of, self.target))
        return self.name_of(self.target) if self.unit == NODE_UNIT else str(self.target)

    def summary(self) -> str:
        """What to undo, in a few sentences."""
        who = f"{self.unit} {self.name}"
        if not self.restored:
            return f"No set of changes was found whose undoing gives {who} {self.goal}. {self.how}"
        named = [
            f"{kind} {TO.join(self.name_of(end) for end in ends if end >= 0)}"
            for kind, ends in zip(self.kinds, self.ends, strict=True)
        ]
        count = f"{len(named)} of {self.num_in_sight} change{'s' * (self.num_in_sight != 1)} in sight"
        return f"Undo {count}, and {who} has {self.goal}: {'; '.join(named) or 'nothing'}. {self.how}"

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold, with the format's name and version."""
        values: dict[str, Any] = {"format": UNDO_FORMAT, "version": UNDO_VERSION}
        return {**values, **{item.name: to_plain(getattr(self, item.name)) for item in fields(self)}}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Undo:
        """The record again, every field checked; raises InputError with a sentence where one is amiss."""
        check_record(cls, values, UNDO_FORMAT, UNDO_VERSION, "undo")
        with blamed("Expected a whole undo (one of its fields has another form)."):
            return _rebuild(cls, values)

    def save(self, path: str | Path) -> None:
        """Write JSON; a file that is there is replaced only once the new one is whole."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Undo:
        """Read what `save` wrote."""
        return read_record(path, cls.from_dict)


@dataclass(frozen=True, eq=False)
class Goal:
    """What undoing is to reach: margins above 0 do, those below do not, and at 0 the model's own rule decides."""

    words: str
    margin: Callable[[FloatArray], FloatArray]  # logits [n, c] -> [n]
    reached: Callable[[FloatArray], BoolArray]  # logits [n, c] -> [n]


def find_goal(
    output: Output, before: FloatArray, after: FloatArray, to: int | None, below: float | None, names: tuple[str, ...]
) -> Goal:
    """The old class again; or the class `to`; or a probability of the new class (a value) below `below`."""
    old, new = output.told(before, after)

    def name(label: int) -> str:
        if output.kind == BINARY and not names:
            return NO_YES[label]
        return names[label] if label < len(names) else f"class {label}"

    if below is not None:
        if to is not None:
            raise InputError("Expected `to` or `below` (got both).")
        what = "a value" if output.kind == VALUE else f"a probability of {name(new)}"

        def less(logits: FloatArray) -> FloatArray:
            return below - tell(output, new, logits)

        return Goal(f"{what} below {below:g}", less, lambda logits: less(logits) > 0)
    if output.kind == VALUE:
        raise InputError("Expected `below=` to say which value is to be undone to (got none); values have no class.")
    if output.kind == LABELS:
        if to is not None:
            raise InputError("Expected `below=`, or nothing, for labels (got `to`); each label is there or not.")
        sign = np.where(before > 0, 1.0, -1.0)
        _check_flip(bool(((after > 0) != (before > 0)).any()))
        return Goal(
            "its old labels back",
            lambda logits: (logits * sign).min(axis=1),
            lambda logits: ((logits > 0) == (before > 0)).all(axis=1),
        )
    wanted = old if to is None else to
    num_classes = 2 if output.kind == BINARY else len(before)
    if not 0 <= wanted < num_classes:
        raise InputError(f"Expected `to` to be a class between 0 and {num_classes - 1} (got {to}).")
    _check_flip(wanted != new)
    words = f"its old class back, {name(old)}" if to is None else name(wanted)

    def reached(logits: FloatArray) -> BoolArray:
        return np.asarray(output.decide(logits) == wanted)

    if output.kind == BINARY:
        return Goal(words, lambda logits: logits[:, 0] if wanted == 1 else -logits[:, 0], reached)

    def margin(logits: FloatArray) -> FloatArray:
        others = np.delete(logits, wanted, axis=1)
        return np.asarray(logits[:, wanted] - others.max(axis=1))

    return Goal(words, margin, reached)


def _check_flip(flipped: bool) -> None:
    if not flipped:
        raise InputError(
            "Expected a prediction whose class changed (got one that has the class asked for already); say with "
            "`to=` another class, or with `below=` a probability of the present one, that is to be reached."
        )


@dataclass(frozen=True)
class Limits:
    """What may be undone, at what cost, and how long to search."""

    keep: Iterable[int] = ()
    costs: Mapping[int, float] | None = None
    seconds: float = 10.0
    every: bool = False  # all sets of the least size
    starts: tuple[tuple[int, ...], ...] = ()  # further orders of ids to try along, such as those of other explainers


class _Search:
    """The sets that were tried; truth values are of what is undone."""

    def __init__(self, game: Game, goal: Goal, costs: FloatArray, free: IntArray, seconds: float) -> None:
        self.game, self.goal, self.costs, self.free = game, goal, costs, free
        self.started, self.seconds = time.monotonic(), seconds
        self.num_evaluations = 0
        self.scale = 1.0

    @property
    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.started)

    def affords(self, number: int) -> bool:
        """Whether so many sets can be tried in half of the time that is left; a few always are."""
        if number <= (FIRST if self.game.by_network else FIRST_OF_OWN):
            return True
        each = (time.monotonic() - self.started) / max(self.num_evaluations, 1)
        return number * each <= self.left / 2

    def margins(self, undone: IntArray) -> FloatArray:
        """Margins without these changes: rows of places among the changes in sight, -1 for none. [num_sets]."""
        applied = np.ones((len(undone), self.game.num_changes + 1), dtype=np.bool_)
        applied[np.arange(len(undone))[:, None], undone] = False
        logits = self.game.run(applied[:, :-1])
        self.num_evaluations += len(undone)
        self.scale = max(self.scale, float(np.abs(logits).max(initial=0.0)))
        return self.goal.margin(logits)

    def judge(self, undone: IntArray) -> tuple[bool, FloatArray]:
        """What the user's own model says."""
        applied = np.ones((1, self.game.num_changes), dtype=np.bool_)
        applied[0, undone[undone >= 0]] = False
        logits = self.game.own(applied)
        return bool(self.goal.reached(logits)[0]), logits[0]

    def first_that_holds(self, sets: IntArray, margins: FloatArray) -> tuple[IntArray | None, bool]:
        """The cheapest set, best first among equals, that the user's model agrees with; whether one was passed over.

        Sets whose margin is too small to trust are put to the user's model, but not more than a few of them.
        """
        near = NEAR * self.scale
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


def undo_target(
    board: Board,
    target: Target,
    *,
    to: int | None = None,
    below: float | None = None,
    open_nodes: bool = False,
    limits: Limits,
) -> Undo:
    """Search by size, then judge."""
    game = board.game(target, open_nodes=open_nodes)
    ends = game.run(np.stack([np.zeros(game.num_changes, dtype=np.bool_), np.ones(game.num_changes, dtype=np.bool_)]))
    goal = find_goal(board.output, ends[0], ends[1], to, below, board.class_names)
    kept = game.subset(limits.keep, applied=True, name="keep")
    free = np.flatnonzero(~kept)
    costs = _read_costs(game, limits.costs)
    search = _Search(game, goal, costs, free, limits.seconds)
    found = _find(search, game, limits)
    class_before, class_after = board.output.told(ends[0], ends[1])
    chosen = np.sort(found.chosen)
    rows = game.changes.iloc[chosen]
    restored, logits = search.judge(chosen)
    places = tuple(zip(rows.src.tolist(), rows.dst.fillna(-1).tolist(), strict=True))
    mentioned = {*(end for pair in places for end in pair), *(target if isinstance(target, tuple) else (target,))}
    ids = game.changes.id.to_numpy()
    return Undo(
        target=target,
        class_before=class_before,
        class_after=class_after,
        goal=goal.words,
        changes=tuple(ids[chosen].tolist()),
        kinds=tuple(rows.kind.astype(str)),
        ends=places,
        restored=restored,
        logits=logits,
        logits_before=ends[0],
        logits_after=ends[1],
        proved=found.proved,
        how=found.how,
        excluded=found.excluded,
        cost=float(costs[chosen].sum()),
        num_in_sight=game.num_changes,
        num_evaluations=search.num_evaluations,
        alternatives=tuple(tuple(ids[np.sort(some)].tolist()) for some in found.alternatives),
        open_nodes=game.players.opened,
        node_names={node: board.node_names[node] for node in mentioned if node in board.node_names},
        class_names=board.class_names,
        origin=board.origin,
        unit=board.unit,
        output=board.output,
    )


@dataclass(frozen=True, eq=False)
class _Found:
    chosen: IntArray
    proved: bool
    how: str
    excluded: int
    alternatives: tuple[IntArray, ...] = ()


def _find(search: _Search, game: Game, limits: Limits) -> _Found:
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
            if limits.every:
                alternatives = _all_that_hold(search, sets, margins, best_cost)
        excluded = size if best is None else excluded
        beam = sets[np.argsort(-margins, kind="stable")[:WIDTH]]
        size += 1
    tried = size - 1
    if cheapest[size] < best_cost:
        found = _search_on(search, game, beam, tried, best, limits)
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
    return _Found(chosen, complete and not doubtful, how, max(excluded, 0), alternatives)


def _try_whole(search: _Search, size: int) -> tuple[IntArray, FloatArray]:
    """Of all sets of a size those that do it, or nearly, and the nearest of the others; with their margins."""
    kept_sets: list[IntArray] = []
    kept_margins: list[FloatArray] = []
    for sets in _pieces(search.free, size):
        margins = search.margins(sets)
        able = np.flatnonzero(margins > -NEAR * search.scale)
        some = np.union1d(able, np.argsort(-margins, kind="stable")[:WIDTH])
        kept_sets.append(sets[some])
        kept_margins.append(margins[some])
    return np.concatenate(kept_sets), np.concatenate(kept_margins)


def _all_that_hold(search: _Search, sets: IntArray, margins: FloatArray, cost: float) -> tuple[IntArray, ...]:
    """The sets of the least cost that do it, best first; doubtful ones as the user's model says."""
    near = NEAR * search.scale
    able = np.flatnonzero((margins > -near) & (search.costs[sets].sum(axis=1) <= cost))
    able = able[np.argsort(-margins[able], kind="stable")]
    return tuple(sets[i] for i in able.tolist() if margins[i] > near or search.judge(sets[i])[0])


def _search_on(
    search: _Search, game: Game, beam: IntArray, size: int, best: IntArray | None, limits: Limits
) -> IntArray | None:
    """The best set found beyond the sizes that can be tried whole: along orders, then by the best sets of each size."""
    best = _improve(search, game, best, limits)
    most = len(search.free) if best is None else len(best) - 1
    while size < most and search.left > 0:
        size += 1
        beam, margins = _extend(search, beam, WIDTH)
        hit, _ = search.first_that_holds(beam, margins)
        if hit is not None and (best is None or search.costs[hit].sum() < search.costs[best].sum()):
            return _reduce(search, hit)
    return best


def _extend(search: _Search, beam: IntArray, width: int) -> tuple[IntArray, FloatArray]:
    """The best sets of one change more than those of the beam."""
    longer = np.concatenate([np.repeat(beam, len(search.free), axis=0), np.tile(search.free, len(beam))[:, None]], axis=1)
    longer = np.sort(longer, axis=1)
    longer = np.unique(longer[(np.diff(longer, axis=1) > 0).all(axis=1)], axis=0)
    margins = np.concatenate([search.margins(longer[s : s + PIECE]) for s in range(0, len(longer), PIECE)])
    order = np.argsort(-margins, kind="stable")[:width]
    return longer[order], margins[order]


def _greedy_order(search: _Search) -> IntArray:
    """One change after the other, each time the one that helps the most, until it is done."""
    chosen, margins = np.zeros((1, 0), dtype=np.int64), np.full(1, -math.inf)
    while chosen.shape[1] < len(search.free) and margins[0] <= 0:
        chosen, margins = _extend(search, chosen, 1)
    return chosen[0]


def _improve(search: _Search, game: Game, best: IntArray | None, limits: Limits) -> IntArray | None:
    """A smaller set than the best: from prefixes of several orders, with what is not needed taken away again."""
    free = search.free
    alone = search.margins(free[:, None])
    orders = [_greedy_order(search), free[np.argsort(-alone, kind="stable")]]
    place = {row: i for i, row in enumerate(game.changes.id.tolist())}
    orders += [np.array([place[i] for i in start if i in place], dtype=np.int64) for start in limits.starts]
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


def _reduce(search: _Search, chosen: IntArray) -> IntArray:
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


def _swap(search: _Search, chosen: IntArray) -> IntArray | None:
    """Two of a set for one other: a set that is smaller by one and still does, None where there is none."""
    others = np.setdiff1d(search.free, chosen)
    pairs = list(itertools.combinations(range(len(chosen)), 2))
    if not len(others) or not pairs or len(others) * len(pairs) > PIECE or search.left < 0:
        return None
    sets = np.array(
        [[*np.delete(chosen, pair).tolist(), other] for pair in pairs for other in others.tolist()], dtype=np.int64
    )
    margins = search.margins(sets)
    best = int(margins.argmax())
    cheaper = search.costs[sets[best]].sum() < search.costs[chosen].sum()
    return sets[best] if margins[best] > 0 and cheaper else None


def _pieces(free: IntArray, size: int) -> Iterable[IntArray]:
    """All sets of a size, some thousands at a time. [num_sets, size] each."""
    sets = itertools.combinations(free.tolist(), size)
    while True:
        some = list(itertools.islice(sets, PIECE))
        if not some:
            return
        yield np.array(some, dtype=np.int64).reshape(len(some), size)


def _read_costs(game: Game, costs: Mapping[int, float] | None) -> FloatArray:
    """What undoing each change in sight costs; 1 where nothing is said."""
    if costs is None:
        return np.ones(game.num_changes)
    game.subset(list(costs), applied=True, name="costs")
    found = np.array([float(costs.get(number, 1.0)) for number in game.changes.id.tolist()])
    if not (np.isfinite(found) & (found > 0)).all():
        raise InputError("Expected costs above 0 (got others); name changes that may not be undone in `keep`.")
    return found


def _rebuild(cls: type[Undo], values: dict[str, Any]) -> Undo:
    n, c = len(values["changes"]), len(values["logits_before"])
    kinds = read_words(values["kinds"], "kinds")
    pairs = tuple(read_ids(pair, "ends") for pair in values["ends"])
    if len(kinds) != n or not {*kinds} <= {*CHANGES} or len(pairs) != n:
        raise InputError("Expected a kind and two ends for each change (got something else).")
    if not all(type(values[name]) is bool for name in ("restored", "proved", "open_nodes")):
        raise InputError("Expected true or false in `restored`, `proved` and `open_nodes` (got something else).")
    goal, how = read_words([values["goal"], values["how"]], "how")
    return cls(
        **read_caption(values, c),
        **{name: read_numbers(values[name], (c,), name) for name in ("logits", "logits_before", "logits_after")},
        **read_counts(values, "excluded", "num_in_sight", "num_evaluations"),
        goal=goal,
        how=how,
        changes=read_ids(values["changes"], "changes"),
        kinds=kinds,
        ends=tuple((pair[0], pair[1]) for pair in pairs),
        restored=values["restored"],
        proved=values["proved"],
        open_nodes=values["open_nodes"],
        cost=float(read_numbers(values["cost"], (), "cost")),
        alternatives=tuple(read_ids(ids, "alternatives") for ids in values["alternatives"]),
    )

"""Problems + method -> their answers, packed: who is solved for which number of paths, and what may be said of it.

The kernels solve any targets for exactly n paths, or relax "at most n". What is built of these, for all targets in
turns, is decided here. Each target's answer depends on nothing but the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..arrays import FloatArray, IntArray
from ..graphs.rows import entries_of
from ..native.relaxation import relax
from ..native.search import improve_sets, rank
from ..native.threads import run_in_pieces
from .objective import RESOLUTION, SIZE, SOFTMAX, SQUARES, WHOLE, Posed, Problems, pose, ranking_prices, residuals_of

METHODS = ("convex", "exact", "linear", "topk", "deeplift")
RELAXED = ("convex", "exact")
# What a relaxation is solved to, in shares of the whole change, or of what is left where that is more. Ten times below
# what a divergence is ever quoted to.
TOLERANCE = 1e-10
# Outcomes.
SOLVED, ROUNDED, INACCURATE, PROVED, SEARCHED, RANKED, UNRESOLVED, UNKNOWN = range(8)
# What is known of fewer paths, where the fewest that are enough were asked for.
UNASKED, NO_FEWER, FEWER_MAY, MISSED = range(4)
# The sets of ten or fewer, as bit masks, small ones first.
_MASKS_BY_SIZE = np.array(sorted(range(1 << 10), key=lambda mask: (mask.bit_count(), mask)), dtype=np.int64)


class Way(NamedTuple):
    """How all of them are answered."""

    method: str
    necessity: bool
    at_most: bool
    left: float | None = None  # the fewest paths that leave no more than this share of the change; else the budget


class Answers(NamedTuple):
    """The answers, packed."""

    weights: FloatArray  # [M]
    chosen: IntArray  # [number chosen of all targets]
    chosen_starts: IntArray  # [t + 1]
    numbers: FloatArray  # [t, 5]: the divergence of the choice, the bound, iterations, outcome, what of fewer


class Found(NamedTuple):
    """Choices of some targets."""

    sizes: IntArray  # [k]
    members: IntArray  # [sum sizes]
    residuals: FloatArray  # [k]
    bounds: FloatArray  # [k]
    iterations: FloatArray  # [k]
    outcomes: IntArray  # [k]


@dataclass(frozen=True, eq=False)
class Solver:
    """Targets in normal form, and the weights [M] and prices [M] of their paths as they were last solved."""

    problems: Problems
    posed: Posed
    way: Way
    threaded: bool
    weights: FloatArray
    prices: FloatArray

    def run(self, kernel: Callable[..., None], number: int, *arguments: Any) -> None:
        """Run a kernel over that many targets."""
        if self.threaded:
            run_in_pieces(kernel, number, self.posed.work, *arguments)
        else:
            kernel(0, number, *arguments)

    def relax(
        self, which: IntArray, sizes: IntArray, at_most: bool = False, warm: bool = False, fixed: bool = False
    ) -> FloatArray:
        """Value, bound, bound before prices, rounding, iterations, and the rounding of a logit [k, 6]."""
        numbers = np.empty((len(which), 6))
        options = at_most, warm, fixed, TOLERANCE
        given = which, sizes, *options, self.weights, self.prices, numbers
        self.run(relax, len(which), *self.posed, *given)
        return numbers

    def choose(self, which: IntArray, sizes: IntArray, warm: bool = False) -> Found:
        """Choose so many paths, or at most so many. With `warm`, the weights are those of a nearby number."""
        if self.way.method not in RELAXED:
            return self._rank(which, sizes)
        return (self._choose_at_most if self.way.at_most else self._choose_exactly)(which, sizes, warm)

    def _choose_exactly(self, which: IntArray, sizes: IntArray, warm: bool) -> Found:
        relaxed = self.relax(which, sizes, warm=warm)
        members, residuals, proved = self._round(which, sizes, relaxed)
        bounds, outcomes = self._certify(which, relaxed, residuals, proved)
        return Found(sizes, members, residuals, bounds, relaxed[:, 4], outcomes)

    def _round(self, which: IntArray, sizes: IntArray, relaxed: FloatArray) -> tuple[IntArray, FloatArray, Any]:
        """The heaviest paths, or what a search finds from there; what they leave; whether nothing better exists."""
        stops = sizes.cumsum()
        starts, members, proved = stops - sizes, np.empty(sizes.sum(), np.int64), np.zeros(len(which), np.uint8)
        self.run(rank, len(which), self.posed.offsets, self.weights, self.prices, which, starts, stops, members)
        residuals = residuals_of(self.posed, which, starts, stops, members)
        if self.way.method == "exact":
            better = members.copy()
            given = self.weights, self.prices, which, starts, stops, better
            bounds = np.ascontiguousarray(relaxed[:, 1])
            more = bounds, TOLERANCE, _MASKS_BY_SIZE, proved
            self.run(improve_sets, len(which), *self.posed, *given, *more)
            values = residuals_of(self.posed, which, starts, stops, better)
            # Both are accurate to rounding only; between equals, keep what the caller could compare with.
            improved = values <= residuals
            members = np.where(np.repeat(improved, sizes), better, members)
            residuals = np.where(improved, values, residuals)
        return members, residuals, proved.astype(np.bool_)

    def _choose_at_most(self, which: IntArray, sizes: IntArray, warm: bool) -> Found:
        """The best of exactly 0, 1, ..., n paths, the fewest among equals.

        So it is never worse than exactly n, nor than at most fewer. Sizes that the bound rules out are not solved.
        """
        relaxed = self.relax(which, sizes, at_most=True, warm=warm)
        # What no k paths can be better than, for every k up to n.
        hopes = np.full((len(which), sizes.max(initial=0) + 1), np.inf)
        for k, (i, n) in enumerate(zip(which.tolist(), sizes.tolist(), strict=True)):
            lowest = np.sort(self.prices[self.posed.offsets[i] : self.posed.offsets[i + 1]])[:n]
            hopes[k, : n + 1] = relaxed[k, 2] + np.concatenate(([0.0], np.cumsum(lowest)))
        exactly = replace(self, weights=np.zeros_like(self.weights), prices=np.empty_like(self.prices))
        residuals, proved = np.full(len(which), np.inf), np.ones(len(which), np.bool_)
        members = [np.empty(0, np.int64)] * len(which)
        for size in range(hopes.shape[1]):
            tried = np.flatnonzero((size <= sizes) & ~(hopes[:, size] * (1.0 - 1e-9) >= residuals))
            if len(tried) == 0:
                continue
            some, number = which[tried], np.full(len(tried), size)
            found, values, known = exactly._round(some, number, exactly.relax(some, number))
            proved[tried] &= known
            for k, sets, value in zip(tried.tolist(), found.reshape(len(tried), size), values, strict=True):
                if not value >= residuals[k]:
                    members[k], residuals[k] = sets, value
        bounds, outcomes = self._certify(which, relaxed, residuals, proved)
        numbers = np.array([len(some) for some in members], dtype=np.int64)
        return Found(numbers, np.concatenate(members), residuals, bounds, relaxed[:, 4], outcomes)

    def _rank(self, which: IntArray, sizes: IntArray) -> Found:
        """By a ranking, which proves nothing; the bound at its own choice is valid for every choice of its size."""
        keys, ends = np.empty(len(self.prices)), self.posed.offsets.tolist()
        for i, one in enumerate(ranking_prices(self.problems, self.way.method, self.posed)):
            own = slice(ends[i], ends[i + 1])
            keys[own] = np.einsum("ij,j->i", self.posed.contributions[own], one)
        stops = sizes.cumsum()
        starts, members = stops - sizes, np.empty(sizes.sum(), np.int64)
        self.weights[:] = 0.0
        self.run(rank, len(which), self.posed.offsets, self.weights, keys, which, starts, stops, members)
        self.weights[self.posed.offsets[which].repeat(sizes) + members] = 1.0
        bounds = self.relax(which, sizes, fixed=True)[:, 1]
        residuals = residuals_of(self.posed, which, starts, stops, members)
        outcomes = np.where(np.isfinite(residuals), RANKED, UNKNOWN)
        outcomes[self._unresolved(self.posed.facts[which])] = UNRESOLVED
        return Found(sizes, members, residuals, np.minimum(bounds, residuals), np.zeros(len(which)), outcomes)

    def _certify(
        self, which: IntArray, relaxed: FloatArray, residuals: FloatArray, proved: Any
    ) -> tuple[FloatArray, IntArray]:
        """Bounds of the choices, and what may be said of them, in the order of what matters most."""
        value, bound, _, rounding, _, grain = relaxed.T
        facts = self.posed.facts[which]
        whole, bounds = facts[:, WHOLE], np.minimum(bound, residuals)
        unresolved, unknown = self._unresolved(facts), ~np.isfinite(residuals + value + rounding)
        if self.way.method == "exact":
            outcomes = np.where(proved, PROVED, SEARCHED)
            unit = whole if self.problems.kind == SQUARES else np.minimum(1.0, whole)
            # Residuals are known to rounding only: that of the choice, and that of the best set.
            noise = 2.0 * self._noise(facts, residuals, grain)
            tight = np.maximum(bounds, residuals - np.maximum(TOLERANCE * np.maximum(unit, bounds), noise))
            bounds = np.where(proved & ~unresolved & ~unknown, tight, bounds)
        else:
            gap = value - bound
            solved = gap <= 2.0 * TOLERANCE * np.maximum(whole, value)
            outcomes = np.where(solved, SOLVED, np.where(gap <= 4.0 * rounding, ROUNDED, INACCURATE))
        outcomes[unresolved] = UNRESOLVED
        outcomes[unknown] = UNKNOWN
        return bounds, outcomes

    def _noise(self, facts: FloatArray, residuals: FloatArray, grain: FloatArray) -> FloatArray:
        """What rounding what is added to each logit by `grain` can change a residual D by.

        By Pinsker its slopes, summed over the columns, are at most sqrt(2 D) for classes and sqrt(2 c D) else; those
        of probabilities are at most 2, or c, too. Probabilities themselves are rounded in proportion to the logits.
        """
        c = self.posed.rows.shape[1]
        columns, most = (1, 2.0) if self.problems.kind == SOFTMAX else (c, float(c))
        slope, size = np.sqrt(2.0 * columns * residuals), np.asarray(float(c))
        if self.problems.kind != SQUARES:
            slope, size = np.minimum(slope, most), size + facts[:, SIZE]
        return np.asarray(grain * (slope + c * grain) + 8.0 * np.finfo(np.float64).eps * size * residuals)

    def _unresolved(self, facts: FloatArray) -> Any:
        """Where the change is less than rounding the logits can make."""
        return (facts[:, WHOLE] > 0.0) & (facts[:, WHOLE] <= facts[:, RESOLUTION])


def solve(problems: Problems, way: Way, threaded: bool) -> Answers:
    """The answers to all of them."""
    solver, which, sizes = _prepare(problems, way, threaded)
    if way.left is None:
        return _answers(solver.weights, solver.choose(which, sizes), UNASKED)
    if way.method in RELAXED:
        return _find_fewest(solver, which, sizes)
    return _find_shortest(solver, which, sizes)


def solve_in_turn(problem: Problems, way: Way, budgets: IntArray) -> list[Answers]:
    """The answers to one problem with several budgets, each solve starting from the one before it."""
    found: list[Answers] = []
    solver, which, _ = _prepare(problem, way, False)
    for budget in budgets:
        sizes = np.minimum(budget, np.diff(problem.offsets))
        choice = solver.choose(which, sizes, warm=len(found) > 0)
        found.append(_answers(solver.weights.copy(), choice, UNASKED))
    return found


def _prepare(problems: Problems, way: Way, threaded: bool) -> tuple[Solver, IntArray, IntArray]:
    size, lengths = len(problems.contributions), problems.offsets[1:] - problems.offsets[:-1]
    solver = Solver(problems, pose(problems, way.necessity), way, threaded, np.zeros(size), np.empty(size))
    return solver, np.arange(len(lengths)), np.minimum(problems.budgets, lengths)


def _answers(weights: FloatArray, found: Found, fewest: int | IntArray) -> Answers:
    """The choices of all targets, in their order."""
    numbers = np.empty((len(found.sizes), 5))
    for place, column in enumerate((found.residuals, found.bounds, found.iterations, found.outcomes, fewest)):
        numbers[:, place] = column
    starts = np.zeros(len(found.sizes) + 1, np.int64)
    np.cumsum(found.sizes, out=starts[1:])
    return Answers(weights, found.members, starts, numbers)


def _take(found: Found, places: IntArray) -> Found:
    """The choices in these places."""
    starts = np.concatenate(([0], np.cumsum(found.sizes)))
    columns: list[Any] = [column[places] for column in found[2:]]
    return Found(found.sizes[places], found.members[entries_of(starts, places)], *columns)


def _find_fewest(solver: Solver, which: IntArray, most: IntArray) -> Answers:
    """The fewest paths, up to `most`, that leave little enough: what exactly so many would give.

    What the relaxation of at most k paths cannot leave falls with k, so the sizes that it rules out are found by
    bisection; those that follow are tried one by one, since what exactly k paths leave need not fall.
    """
    whole = solver.posed.facts[:, WHOLE]
    enough = (solver.way.left or 0.0) * whole
    low, high, warm = np.where(whole <= enough, 0, np.minimum(1, most)), most.copy(), False
    while len(open_ := np.flatnonzero((low > 0) & (low < high))):
        middle = (low[open_] + high[open_]) // 2
        bounds = solver.relax(open_, middle, at_most=True, warm=warm)[:, 1]
        ruled_out, warm = bounds > enough[open_], True
        low[open_[ruled_out]] = middle[ruled_out] + 1
        high[open_[~ruled_out]] = middle[~ruled_out]
    exactly = replace(solver, way=solver.way._replace(at_most=False))
    proved, pending, parts = np.ones(len(which), np.bool_), which, []
    while len(pending := pending[low[pending] <= most[pending]]):
        found = exactly.choose(pending, low[pending])
        reached = found.residuals <= enough[pending]
        done = pending[reached]
        parts.append((done, _take(found, np.flatnonzero(reached)), np.where(proved[done], NO_FEWER, FEWER_MAY)))
        proved[pending] &= (found.outcomes == PROVED) | (found.bounds > enough[pending])
        pending = pending[~reached]
        low[pending] += 1
    missed = which[low > most]
    if len(missed):
        parts.append((missed, solver.choose(missed, most[missed]), np.full(len(missed), MISSED)))
    order = np.argsort(np.concatenate([which[:0], *(targets for targets, _, _ in parts)]))
    fewest = np.concatenate([which[:0], *(words for _, _, words in parts)])[order]
    choices = [found for _, found, _ in parts] or [solver.choose(which, most)]
    return _answers(solver.weights, _take(Found(*map(np.concatenate, zip(*choices, strict=True))), order), fewest)


def _find_shortest(solver: Solver, which: IntArray, most: IntArray) -> Answers:
    """The shortest start of a ranking that leaves little enough; all of it where none does."""
    whole = solver.choose(which, most)
    starts = np.cumsum(most) - most
    sizes, fewest = most.copy(), np.full(len(which), MISSED)
    for k in which:
        every = np.arange(most[k] + 1)
        first = np.full(len(every), starts[k])
        residuals = residuals_of(solver.posed, np.full(len(every), k), first, first + every, whole.members)
        reached = np.flatnonzero(residuals <= (solver.way.left or 0.0) * solver.posed.facts[k, WHOLE])
        if len(reached):
            sizes[k], fewest[k] = reached[0], NO_FEWER
    return _answers(solver.weights, solver.choose(which, sizes), fewest)

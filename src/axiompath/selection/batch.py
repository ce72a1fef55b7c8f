"""Many packed problems -> their answers, packed: the compiled loops behind every public function.

Problem i owns the rows row_starts[i] to row_stops[i] of the contributions. Its answer goes to its own stretch
of the output arrays, so ranges of problems can be solved in different threads, and each problem's answer
depends on nothing but the problem.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..arrays import FloatArray, IntArray
from .convex import TOLERANCE, Relaxed, certify, rank_weights, relax, weigh_rows
from .deeplift import deeplift_keys
from .exact import improve
from .linear import linear_keys
from .objective import Goal, copy_into, divergence, normal_form, price_rows, resolution_of, tilt, total_reach
from .ranking import ranked_smallest, sum_of_smallest
from .topk import topk_keys

METHODS = ("convex", "exact", "linear", "topk", "deeplift")
CONVEX, EXACT, LINEAR, TOPK, DEEPLIFT = range(5)
# Outcomes, as the kernels write them.
SOLVED, ROUNDED, INACCURATE, PROVED, SEARCHED, RANKED, UNRESOLVED, UNKNOWN = range(8)


@njit(cache=True, nogil=True, error_model="numpy")
def _residual(part: FloatArray, before: FloatArray, after: FloatArray, necessity: bool, members: IntArray) -> float:
    """The divergence that the members leave."""
    start, target, sign = (after, before, -1.0) if necessity else (before, after, 1.0)
    shift = np.zeros(target.size)
    top = np.argmax(target)
    for e in members:
        for j in range(target.size):
            shift[j] += sign * (part[e, j] - part[e, top])
    return divergence(start, target, shift)


@njit(cache=True, nogil=True, error_model="numpy")
def _outcome(goal: Goal, relaxed: Relaxed, residual: float, resolution: float) -> int:
    """What may be said of the relaxation, in the order of what matters most."""
    if not (np.isfinite(residual) and np.isfinite(relaxed.value) and np.isfinite(relaxed.rounding)):
        return UNKNOWN
    if 0.0 < goal.whole <= resolution:
        return UNRESOLVED
    gap = relaxed.value - relaxed.bound
    if gap <= 2.0 * TOLERANCE * max(goal.whole, relaxed.value):
        return SOLVED
    return ROUNDED if gap <= 4.0 * relaxed.rounding else INACCURATE


@njit(cache=True, nogil=True, error_model="numpy")
def _hopeless(relaxed: Relaxed, sorted_prices: FloatArray, k: int, best: float) -> bool:
    """Whether the bound already proves that no k paths are better than the best so far."""
    total = relaxed.base
    for i in range(k):
        total += sorted_prices[i]
    return total * (1.0 - 1e-9) >= best


@njit(cache=True, nogil=True, error_model="numpy")
def solver_range(
    contributions: FloatArray,
    row_starts: IntArray,
    row_stops: IntArray,
    before: FloatArray,
    after: FloatArray,
    budgets: IntArray,
    necessity: bool,
    at_most: bool,
    search: bool,
    weights: FloatArray,
    prices: FloatArray,
    weight_starts: IntArray,
    chosen: IntArray,
    chosen_starts: IntArray,
    numbers: FloatArray,
    warm: bool,
    first: int,
    last: int,
) -> None:
    """Solve problems first..last-1 by `convex`, or by `exact` if `search`.

    Writes weights and prices [sum m], chosen [sum n] (-1 where fewer are chosen) and numbers [t, 4]: the divergence of
    the choice, the bound, iterations, outcome. With `warm`, each problem is the one before it with another budget.

    "At most n" is the best of exactly 0, 1, ..., n paths, the fewest among equals: so it is never worse than exactly n,
    nor than at most fewer. The sizes that the bound rules out are not solved.
    """
    c = contributions.shape[1]
    goal = Goal(np.empty(c), np.empty(c), np.empty(c), 0.0, 0.0)
    rows = np.empty((0, c))
    reach = np.empty(0)
    for i in range(first, last):
        part = contributions[row_starts[i] : row_stops[i]]
        m = part.shape[0]
        n = min(budgets[i], m)
        x = weights[weight_starts[i] : weight_starts[i] + m]
        price = prices[weight_starts[i] : weight_starts[i] + m]
        again = warm and i > first
        if again:
            copy_into(x, weights[weight_starts[i - 1] : weight_starts[i - 1] + m])
        else:
            rows = np.empty((m, c))
            reach = np.empty(m)
            goal = normal_form(part, before[i], after[i], necessity, rows, reach)
            x[:] = 0.0
        certificate = Relaxed(0.0, 0.0, 0.0, 0.0, 0)
        members = np.empty(0, np.int64)
        residual = np.inf
        proved = True
        ascending = np.empty(0)
        # With `at_most` the first round, k = -1, is the relaxation of all sizes together, which gives the bound.
        for k in range(-1 if at_most else n, n + 1):
            together = k < 0
            if k >= 0 and at_most:
                if _hopeless(certificate, ascending, k, residual):
                    continue
                x, price = np.zeros(m), np.empty(m)
            relaxed = relax(
                rows, goal, reach, n if together else k, together, x, price, again and (together or not at_most)
            )
            if together or not at_most:
                certificate = relaxed
                ascending = np.sort(price) if at_most else price
            if together:
                continue
            found = rank_weights(k, x, price)
            value = _residual(part, before[i], after[i], necessity, found)
            known = False
            if search:
                better, known = improve(rows, goal, k, x, price, found, relaxed.bound)
                better_value = _residual(part, before[i], after[i], necessity, better)
                # Both are accurate to rounding only; between equals, keep what the caller could compare with.
                if better_value <= value:
                    found, value = better, better_value
            proved = proved and known
            if not value >= residual:
                members, residual = found, value
        copy_into(chosen[chosen_starts[i] :], members)
        outcome = _outcome(goal, certificate, residual, resolution_of(goal, before[i], after[i]))
        if search and outcome not in (UNKNOWN, UNRESOLVED):
            outcome = PROVED if proved else SEARCHED
        numbers[i, 0] = residual
        numbers[i, 1] = min(certificate.bound, residual)
        numbers[i, 2] = certificate.iterations
        numbers[i, 3] = outcome


@njit(cache=True, nogil=True, error_model="numpy")
def ranking_range(
    contributions: FloatArray,
    row_starts: IntArray,
    row_stops: IntArray,
    before: FloatArray,
    after: FloatArray,
    budgets: IntArray,
    method: int,
    necessity: bool,
    weights: FloatArray,
    weight_starts: IntArray,
    chosen: IntArray,
    chosen_starts: IntArray,
    numbers: FloatArray,
    first: int,
    last: int,
) -> None:
    """Answer problems first..last-1 by a ranking method; the outputs are those of `solver_range`."""
    c = contributions.shape[1]
    w = np.empty(c)
    p = np.empty(c)
    r = np.empty(c)
    for i in range(first, last):
        part = contributions[row_starts[i] : row_stops[i]]
        m = part.shape[0]
        n = min(budgets[i], m)
        rows = np.empty((m, c))
        reach = np.empty(m)
        keys = np.empty(m)
        goal = normal_form(part, before[i], after[i], necessity, rows, reach)
        if method == LINEAR:
            linear_keys(part, goal.q, necessity, keys)
        elif method == TOPK:
            topk_keys(part, keys)
        else:
            deeplift_keys(part, before[i], after[i], keys)
        members = ranked_smallest(keys, n)
        copy_into(chosen[chosen_starts[i] :], members)
        x = weights[weight_starts[i] : weight_starts[i] + m]
        x[:] = 0.0
        for e in members:
            x[e] = 1.0
        residual = _residual(part, before[i], after[i], necessity, members)
        # A ranking proves nothing; the dual bound at its own choice is valid for every choice of its size.
        weigh_rows(rows, goal, x, w)
        tilt(goal, w, p, r)
        price_rows(rows, r, keys)
        base, _ = certify(goal, total_reach(reach, n), w, r)
        bound = base + sum_of_smallest(keys, n, False)
        numbers[i, 0] = residual
        numbers[i, 1] = min(bound, residual) if bound > 0.0 else 0.0
        numbers[i, 2] = 0.0
        numbers[i, 3] = RANKED if np.isfinite(residual) else UNKNOWN
        if 0.0 < goal.whole <= resolution_of(goal, before[i], after[i]):
            numbers[i, 3] = UNRESOLVED

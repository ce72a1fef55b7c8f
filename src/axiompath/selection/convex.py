"""Normal form -> the paper's choice: relax, rank a basic solution by weight, take the n heaviest.

    minimise over x in [0,1]^m, sum x = n:   D(v0 + B'x)

Up to a hundred paths the interior-point method sees all of them. Beyond that it sees a growing shortlist:
solve on the shortlist, price every path once with the dual point found, add the paths whose price is below
the threshold, repeat until none matters. The paths outside have weight 0, and the last pricing is the
certificate for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray, IntArray
from ..compiled import compiled
from ..stable_order import order_of
from .barrier import descend_barrier
from .basic import reduce_to_basic
from .interior import ORDINARY, solve_relaxation
from .objective import (
    EPSILON,
    SIGMOIDS,
    SQUARES,
    Dual,
    Goal,
    Program,
    copy_into,
    empty_dual,
    fixed_part,
    minority,
    price_rows,
    remainder,
    rounding_of,
    tilt,
    unit_of,
)
from .smallest import n_smallest, places_of, settle_ties, sum_of_smallest

# Of the whole change, or of what is left where that is more. Ten times below what a divergence is ever quoted to.
TOLERANCE = 1e-10
# Measured: short lists and a few more rounds beat long lists, whose every iteration pays for rows of no use.
_DIRECT = 100
_SHORTLIST = 32
_ROUNDS = 40


class Relaxed(NamedTuple):
    """What the relaxation came to."""

    value: float  # its divergence
    bound: float  # certified: no choice leaves less
    base: float  # the bound before the paths' prices are added
    rounding: float  # more than rounding may have changed value or bound by
    iterations: int


@compiled(inner=True, error_model="numpy")
def weigh_rows(rows: FloatArray, goal: Goal, x: FloatArray, v: FloatArray) -> float:
    """v = v0 + B'x; returns D(v)."""
    m, c = rows.shape
    copy_into(v, goal.start)
    for i in range(m):
        if x[i] != 0.0:
            for j in range(c):
                v[j] += rows[i, j] * x[i]
    return remainder(goal, v)


@compiled(inner=True, error_model="numpy")
def certify(goal: Goal, reach: float, dual: Dual) -> tuple[float, float]:
    """What a dual point proves of any choice before the prices of its paths are added, and the rounding.

    The bound is the first plus `sum_of_smallest` of the prices; what rounding may have cost is taken off already.
    """
    rounding = rounding_of(goal, dual, reach)
    grain = 4.0 * EPSILON * (goal.size + reach)
    return fixed_part(goal, dual) - rounding, rounding + grain * grain * minority(goal, dual.h)


@compiled(inner=True, error_model="numpy")
def _solve_shortlisted(program: Program, x: FloatArray, dual: Dual, prices: FloatArray, warm: bool) -> int:
    """Solve the relaxation, handing the solver all rows or a growing shortlist; returns the iterations.

    Leaves the dual point, and the prices of all rows at it.
    """
    rows, goal, n = program.rows, program.goal, program.n
    m, c = rows.shape
    span = 0.0
    for j in range(c):
        span = max(span, abs(goal.start[j]))
    if goal.kind != SQUARES:
        span = min(1.0, span)
    listed = np.ones(m, np.bool_)
    if m > _DIRECT and n < m // 4:
        weigh_rows(rows, goal, x, dual.w)
        tilt(goal, dual)
        price_rows(rows, dual.r, prices)
        for i in range(m):
            listed[i] = x[i] > 0.0
        for i in n_smallest(prices, n + _SHORTLIST):
            listed[i] = True
    iterations = 0
    more = n + _SHORTLIST // 2
    for _ in range(_ROUNDS):
        shortlist = places_of(listed)
        part = rows[shortlist]
        part_x = x[shortlist]
        shorter = Program(part, goal, program.reach, n, program.at_most)
        nu, value, bound, steps = solve_relaxation(shorter, part_x, dual.w, TOLERANCE, warm)
        iterations += steps
        if goal.kind == SIGMOIDS and steps == ORDINARY:
            nu, value, bound, steps = descend_barrier(shorter, part_x, dual, TOLERANCE, bound)
            iterations += steps
        x[:] = 0.0
        reduce_to_basic(part, n, program.at_most, part_x, span)
        for i in range(shortlist.size):
            x[shortlist[i]] = part_x[i]
        tilt(goal, dual)
        price_rows(rows, dual.r, prices)
        missing = 0.0
        violators = 0
        for i in range(m):
            if prices[i] < nu and not listed[i]:
                missing += nu - prices[i]
                violators += 1
        enough = TOLERANCE * max(unit_of(goal), value)
        if violators == 0 or value - max(bound - missing, 0.0) <= enough:
            return iterations
        if violators <= more:
            for i in range(m):
                listed[i] = listed[i] or prices[i] < nu
        else:
            for i in range(m):
                if listed[i]:
                    prices[i] = np.inf
            for i in n_smallest(prices, more):
                listed[i] = True
        more *= 2
        warm = True
    price_rows(rows, dual.r, prices)
    return iterations


@compiled(inner=True, error_model="numpy")
def relax(program: Program, x: FloatArray, prices: FloatArray, warm: bool) -> Relaxed:
    """Fill x [m] (basic) and prices [m] (at the dual point). With `warm`, x comes in as that of a nearby budget."""
    rows, goal, n, at_most = program.rows, program.goal, program.n, program.at_most
    m, c = rows.shape
    dual = empty_dual(c)
    iterations = 0
    if n == 0 or m == 0 or (n >= m and not at_most):
        x[:] = 0.0 if n == 0 else 1.0
        weigh_rows(rows, goal, x, dual.w)
        tilt(goal, dual)
        price_rows(rows, dual.r, prices)
    else:
        iterations = _solve_shortlisted(program, x, dual, prices, warm)
        settle_ties(rows, prices, x)
    base, rounding = certify(goal, program.reach, dual)
    value = weigh_rows(rows, goal, x, np.empty(c))
    bound = base + sum_of_smallest(prices, n, at_most)
    # Whatever is not a number proves nothing.
    return Relaxed(value, bound if bound > 0.0 else 0.0, base, rounding, iterations)


@compiled(inner=True, error_model="numpy")
def rank_weights(n: int, x: FloatArray, prices: FloatArray) -> IntArray:
    """The n heaviest paths, heaviest first; equal weights by lower price, then by lower index."""
    held = places_of(x > 0.0)
    if held.size < n:
        held = places_of(np.ones(x.size, np.bool_))
    held = held[order_of(prices[held])]
    return held[order_of(-x[held])][:n]

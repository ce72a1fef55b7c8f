"""Normal form -> the paper's choice: relax, rank a basic solution by weight, take the n heaviest.

    minimise over x in [0,1]^m, sum x = n:   logsumexp(a + B'x)

Up to a hundred paths the interior-point method sees all of them. Beyond that it sees a growing shortlist:
solve on the shortlist, price every path once with the dual point found, add the paths whose price is below
the threshold, repeat until none matters. The paths outside have weight 0, and the last pricing is the
certificate for all of them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from axiompath.selection.basic import reduce_to_basic
from axiompath.selection.interior import solve_relaxation
from axiompath.selection.objective import (
    Floats,
    Ints,
    copy_into,
    entropy_term,
    log_softmax,
    log_sum_exp,
    price_rows,
)
from axiompath.selection.ranking import n_smallest, settle_ties, sum_of_smallest

# Relative to max(1, divergence). Ten times below what a divergence is ever quoted to.
TOLERANCE = 1e-10
# Measured: short lists and a few more rounds beat long lists, whose every iteration pays for rows of no use.
_DIRECT = 100
_SHORTLIST = 32
_ROUNDS = 40


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_rows(rows: Floats, offset: Floats, x: Floats, u: Floats) -> None:
    """u = a + B'x."""
    m, c = rows.shape
    copy_into(u, offset)
    for i in range(m):
        if x[i] != 0.0:
            for j in range(c):
                u[j] += rows[i, j] * x[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_shortlisted(
    rows: Floats, offset: Floats, n: int, at_most: bool, x: Floats, log_p: Floats, warm: bool, prices: Floats
) -> int:
    """Solve the relaxation, handing the solver all rows or a growing shortlist; returns the iterations."""
    m, c = rows.shape
    listed = np.ones(m, np.bool_)
    if m > _DIRECT and n < m // 4:
        u = np.empty(c)
        weigh_rows(rows, offset, x, u)
        log_softmax(u, log_p)
        price_rows(rows, log_p, prices)
        for i in range(m):
            listed[i] = x[i] > 0.0
        for i in n_smallest(prices, n + _SHORTLIST):
            listed[i] = True
    iterations = 0
    more = n + _SHORTLIST // 2
    for _ in range(_ROUNDS):
        shortlist = np.flatnonzero(listed)
        part = rows[shortlist]
        part_x = x[shortlist]
        nu, value, bound, steps = solve_relaxation(part, offset, n, at_most, part_x, log_p, TOLERANCE, warm)
        iterations += steps
        x[:] = 0.0
        reduce_to_basic(part, n, at_most, part_x)
        x[shortlist] = part_x
        price_rows(rows, log_p, prices)
        missing = 0.0
        violators = 0
        for i in range(m):
            if prices[i] < nu and not listed[i]:
                missing += nu - prices[i]
                violators += 1
        if violators == 0 or value - max(bound - missing, 0.0) <= TOLERANCE * max(1.0, value):
            break
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
    return iterations


@njit(cache=True, nogil=True, error_model="numpy")
def relax(
    rows: Floats, offset: Floats, n: int, at_most: bool, x: Floats, prices: Floats, warm: bool
) -> tuple[float, float, int]:
    """Fill x [m] (basic) and prices [m] (at the dual point); return value, certified bound and iterations.

    With `warm`, x comes in as the solution for a nearby budget.
    """
    m, c = rows.shape
    log_p = np.empty(c)
    u = np.empty(c)
    if n == 0 or m == 0 or (n >= m and not at_most):
        x[:] = 0.0 if n == 0 else 1.0
        weigh_rows(rows, offset, x, u)
        value = log_softmax(u, log_p)
        price_rows(rows, log_p, prices)
        return value, max(value, 0.0), 0
    iterations = _solve_shortlisted(rows, offset, n, at_most, x, log_p, warm, prices)
    settle_ties(rows, prices, x)
    weigh_rows(rows, offset, x, u)
    value = log_sum_exp(u)
    bound = entropy_term(log_p, offset) + sum_of_smallest(prices, n, at_most)
    return value, max(bound, 0.0), iterations


@njit(cache=True, nogil=True, error_model="numpy")
def rank_weights(rows: Floats, offset: Floats, n: int, at_most: bool, x: Floats, prices: Floats) -> Ints:
    """The n heaviest paths, heaviest first; equal weights by lower price, then by lower index.

    With `at_most`, the best of the ranking's first 0, 1, ..., n.
    """
    m, c = rows.shape
    held = np.flatnonzero(x > 0.0)
    if held.size < n and not at_most:
        held = np.arange(m)
    held = held[np.argsort(prices[held], kind="mergesort")]
    held = held[np.argsort(-x[held], kind="mergesort")][:n]
    if not at_most:
        return held
    u = offset.copy()
    best = log_sum_exp(u)
    length = 0
    for k in range(held.size):
        for j in range(c):
            u[j] += rows[held[k], j]
        value = log_sum_exp(u)
        if value < best:
            best = value
            length = k + 1
    return held[:length]

"""Many packed problems -> their answers, packed: the one compiled loop behind every public function.

Problem i owns the rows row_starts[i] to row_stops[i] of the contributions. Its answer goes to its own stretch of
the output arrays, so ranges of problems can be solved in different threads, and each problem's answer depends on
nothing but the problem.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from axiompath.selection.convex import TOLERANCE, rank_weights, relax
from axiompath.selection.deeplift import deeplift_keys
from axiompath.selection.exact import improve
from axiompath.selection.linear import linear_keys
from axiompath.selection.objective import (
    Floats,
    Ints,
    divergence,
    entropy_term,
    log_sum_exp,
    normal_form,
    price_rows,
)
from axiompath.selection.ranking import ranked_smallest, sum_of_smallest
from axiompath.selection.topk import topk_keys

METHODS = ("convex", "exact", "linear", "topk", "deeplift")
CONVEX, EXACT, LINEAR, TOPK, DEEPLIFT = range(5)
# Outcomes, as the kernel writes them.
SOLVED, INACCURATE, PROVED, SEARCHED, RANKED = range(5)


@njit(cache=True, nogil=True, error_model="numpy")
def solve_range(
    contributions: Floats,
    row_starts: Ints,
    row_stops: Ints,
    before: Floats,
    after: Floats,
    budgets: Ints,
    method: int,
    necessity: bool,
    at_most: bool,
    weights: Floats,
    weight_starts: Ints,
    chosen: Ints,
    chosen_starts: Ints,
    numbers: Floats,
    warm: bool,
    first: int,
    last: int,
) -> None:
    """Solve problems first..last-1.

    Writes weights [sum m], chosen [sum n] (padded with -1) and numbers [t, 4]: the divergence of the choice, the
    bound, iterations, outcome. With `warm`, each problem is the one before it with another budget.
    """
    c = contributions.shape[1]
    offset = np.empty(c)
    q = np.empty(c)
    shift = np.empty(c)
    rows = np.empty((0, c))
    prices = np.empty(0)
    no_members = np.empty(0, np.int64)
    for i in range(first, last):
        part = contributions[row_starts[i] : row_stops[i]]
        m = part.shape[0]
        n = min(budgets[i], m)
        again = warm and i > first
        if not again:
            rows = np.empty((m, c))
            prices = np.empty(m)
            normal_form(part, before[i], after[i], necessity, rows, offset, q)
        x = weights[weight_starts[i] : weight_starts[i] + m]
        bound = 0.0
        iterations = 0
        outcome = RANKED
        members = no_members
        if method == CONVEX or method == EXACT:
            if again:
                x[:] = weights[weight_starts[i - 1] : weight_starts[i - 1] + m]
            else:
                x[:] = 0.0
            value, bound, iterations = relax(rows, offset, n, at_most, x, prices, again)
            outcome = SOLVED if value - bound <= 2.0 * TOLERANCE * max(1.0, value) else INACCURATE
            members = rank_weights(rows, offset, n, at_most, x, prices)
            if method == EXACT:
                members, proved = improve(rows, offset, q, n, at_most, x, prices, members, bound)
                outcome = PROVED if proved else SEARCHED
        else:
            if method == LINEAR:
                linear_keys(part, q, necessity, prices)
            elif method == TOPK:
                topk_keys(part, prices)
            else:
                deeplift_keys(part, before[i], after[i], prices)
            members = ranked_smallest(prices, n)
            x[:] = 0.0
            for e in members:
                x[e] = 1.0
        shift[:] = 0.0
        for k in range(members.size):
            chosen[chosen_starts[i] + k] = members[k]
            for j in range(c):
                shift[j] += part[members[k], j]
        if necessity:
            residual = divergence(after[i], before[i], -shift)
        else:
            residual = divergence(before[i], after[i], shift)
        if outcome == RANKED:
            # A ranking proves nothing; the dual bound at its own choice is valid for every choice of its size.
            u = offset.copy()
            for e in members:
                u += rows[e]
            log_p = u - log_sum_exp(u)
            price_rows(rows, np.exp(log_p), prices)
            bound = max(0.0, entropy_term(log_p, offset) + sum_of_smallest(prices, n, False))
        numbers[i, 0] = residual
        numbers[i, 1] = min(bound, residual)
        numbers[i, 2] = iterations
        numbers[i, 3] = outcome

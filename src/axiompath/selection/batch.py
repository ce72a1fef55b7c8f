"""Many packed problems -> their answers, packed: the compiled loops behind every public function.

Problem i owns the rows row_starts[i] to row_stops[i] of the contributions. Its answer goes to its own stretch
of the output arrays, so ranges of problems can be solved in different threads, and each problem's answer
depends on nothing but the problem.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from axiompath.selection.convex import TOLERANCE, rank_weights, relax, weigh_rows
from axiompath.selection.deeplift import deeplift_keys
from axiompath.selection.exact import improve
from axiompath.selection.linear import linear_keys
from axiompath.selection.objective import (
    Floats,
    Ints,
    copy_into,
    divergence,
    entropy_term,
    log_softmax,
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
def _residual(part: Floats, before: Floats, after: Floats, necessity: bool, members: Ints) -> float:
    """The divergence that the members leave."""
    c = part.shape[1]
    shift = np.zeros(c)
    for e in members:
        for j in range(c):
            shift[j] += -part[e, j] if necessity else part[e, j]
    if necessity:
        return divergence(after, before, shift)
    return divergence(before, after, shift)


@njit(cache=True, nogil=True, error_model="numpy")
def convex_range(
    contributions: Floats,
    row_starts: Ints,
    row_stops: Ints,
    before: Floats,
    after: Floats,
    budgets: Ints,
    necessity: bool,
    at_most: bool,
    weights: Floats,
    prices: Floats,
    weight_starts: Ints,
    chosen: Ints,
    chosen_starts: Ints,
    numbers: Floats,
    warm: bool,
    first: int,
    last: int,
) -> None:
    """Solve problems first..last-1 by `convex`.

    Writes weights and prices [sum m], chosen [sum n] and numbers [t, 4]: the divergence of the choice, the
    bound, iterations, outcome. With `warm`, each problem is the one before it with another budget.
    """
    c = contributions.shape[1]
    offset = np.empty(c)
    q = np.empty(c)
    rows = np.empty((0, c))
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
            normal_form(part, before[i], after[i], necessity, rows, offset, q)
            x[:] = 0.0
        value, bound, iterations = relax(rows, offset, n, at_most, x, price, again)
        members = rank_weights(rows, offset, n, at_most, x, price)
        copy_into(chosen[chosen_starts[i] :], members)
        residual = _residual(part, before[i], after[i], necessity, members)
        numbers[i, 0] = residual
        numbers[i, 1] = min(bound, residual)
        numbers[i, 2] = iterations
        numbers[i, 3] = SOLVED if value - bound <= 2.0 * TOLERANCE * max(1.0, value) else INACCURATE


@njit(cache=True, nogil=True, error_model="numpy")
def exact_range(
    contributions: Floats,
    row_starts: Ints,
    row_stops: Ints,
    before: Floats,
    after: Floats,
    budgets: Ints,
    necessity: bool,
    at_most: bool,
    weights: Floats,
    prices: Floats,
    weight_starts: Ints,
    chosen: Ints,
    chosen_starts: Ints,
    numbers: Floats,
    first: int,
    last: int,
) -> None:
    """Improve the choices that `convex_range` left in the same arrays."""
    c = contributions.shape[1]
    offset = np.empty(c)
    q = np.empty(c)
    for i in range(first, last):
        part = contributions[row_starts[i] : row_stops[i]]
        m = part.shape[0]
        n = min(budgets[i], m)
        x = weights[weight_starts[i] : weight_starts[i] + m]
        price = prices[weight_starts[i] : weight_starts[i] + m]
        rows = np.empty((m, c))
        normal_form(part, before[i], after[i], necessity, rows, offset, q)
        places = chosen[chosen_starts[i] : chosen_starts[i + 1]]
        convex = places[places >= 0]
        members, proved = improve(rows, offset, q, n, at_most, x, price, convex, numbers[i, 1])
        residual = _residual(part, before[i], after[i], necessity, members)
        outcome = PROVED if proved else SEARCHED
        if residual > numbers[i, 0] and not at_most:
            # Both are accurate to rounding only; between equals, keep what the caller could compare with.
            members = convex
            residual = numbers[i, 0]
        places[:] = -1
        copy_into(places, members)
        numbers[i, 0] = residual
        numbers[i, 1] = min(numbers[i, 1], residual)
        numbers[i, 3] = outcome


@njit(cache=True, nogil=True, error_model="numpy")
def ranking_range(
    contributions: Floats,
    row_starts: Ints,
    row_stops: Ints,
    before: Floats,
    after: Floats,
    budgets: Ints,
    method: int,
    necessity: bool,
    weights: Floats,
    weight_starts: Ints,
    chosen: Ints,
    chosen_starts: Ints,
    numbers: Floats,
    first: int,
    last: int,
) -> None:
    """Answer problems first..last-1 by a ranking method; the outputs are those of `convex_range`."""
    c = contributions.shape[1]
    offset = np.empty(c)
    q = np.empty(c)
    log_p = np.empty(c)
    for i in range(first, last):
        part = contributions[row_starts[i] : row_stops[i]]
        m = part.shape[0]
        n = min(budgets[i], m)
        rows = np.empty((m, c))
        keys = np.empty(m)
        normal_form(part, before[i], after[i], necessity, rows, offset, q)
        if method == LINEAR:
            linear_keys(part, q, necessity, keys)
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
        u = np.empty(c)
        weigh_rows(rows, offset, x, u)
        log_softmax(u, log_p)
        price_rows(rows, log_p, keys)
        bound = max(0.0, entropy_term(log_p, offset) + sum_of_smallest(keys, n, False))
        numbers[i, 0] = residual
        numbers[i, 1] = min(bound, residual)
        numbers[i, 2] = 0.0
        numbers[i, 3] = RANKED

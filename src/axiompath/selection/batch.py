"""Many packed problems -> their answers, packed: the compiled loops behind every public function.

Problem i owns the rows starts[i] to stops[i] of the contributions. Its answer goes to its own stretch
of the output arrays, so ranges of problems can be solved in different threads, and each problem's answer
depends on nothing but the problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray, IntArray
from ..compiled import compiled
from ..stable_order import order_of
from .convex import TOLERANCE, Relaxed, certify, rank_weights, relax, weigh_rows
from .exact import WORK, improve
from .objective import (
    SIGMOIDS,
    SOFTMAX,
    SQUARES,
    Goal,
    Program,
    copy_into,
    divergence,
    empty_dual,
    find_goal,
    normal_rows,
    price_rows,
    resolution_of,
    tilt,
    total_reach,
    unit_of,
)
from .smallest import ranked_smallest, sum_of_smallest

METHODS = ("convex", "exact", "linear", "topk", "deeplift")
CONVEX, EXACT, LINEAR, TOPK, DEEPLIFT = range(5)
# Outcomes, as the kernels write them.
SOLVED, ROUNDED, INACCURATE, PROVED, SEARCHED, RANKED, UNRESOLVED, UNKNOWN = range(8)
# What is known of fewer paths, where the fewest that are enough were asked for, likewise.
UNASKED, NO_FEWER, FEWER_MAY, MISSED = range(4)


class Problems(NamedTuple):
    """What is asked of each of t problems."""

    contributions: FloatArray  # [M, c]
    starts: IntArray  # [t]
    stops: IntArray  # [t]
    before: FloatArray  # [t, c]
    after: FloatArray  # [t, c]
    budgets: IntArray  # [t]
    kind: int  # of all: SOFTMAX, SIGMOIDS or SQUARES
    scales: FloatArray  # [c]: the units of squares; of others 1


class Way(NamedTuple):
    """How all of them are answered."""

    method: int  # its place among METHODS
    necessity: bool
    at_most: bool
    warm: bool  # each problem is the one before it with another budget
    left: float = -1.0  # the fewest paths that leave no more than this share of the change; below 0 for the budget


class Answers(NamedTuple):
    """Where the answers go."""

    weights: FloatArray  # [sum m]
    prices: FloatArray  # [sum m]
    weight_starts: IntArray  # [t + 1]
    chosen: IntArray  # [sum n], -1 where fewer are chosen
    chosen_starts: IntArray  # [t + 1]
    numbers: FloatArray  # [t, 5]: the divergence of the choice, the bound, iterations, outcome, what of fewer


class Instance(NamedTuple):
    """One problem, as given and in normal form."""

    part: FloatArray  # [m, c]
    before: FloatArray  # [c]
    after: FloatArray  # [c]
    necessity: bool
    rows: FloatArray  # [m, c]
    goal: Goal
    reach: FloatArray  # [m]


class Found(NamedTuple):
    """The answer to one problem."""

    members: IntArray
    residual: float
    bound: float
    iterations: int
    outcome: int


@compiled(inner=True, error_model="numpy")
def ranking_prices(method: int, goal: Goal, before: FloatArray, after: FloatArray, necessity: bool) -> FloatArray:
    """Prices [c] of a method that ranks: it takes the paths with the n smallest C @ prices.

    linear     the relaxation without its log term: the largest C q, q being the distribution to be reached (for
               necessity the rows are -C); of labels the probabilities of a yes, of values t / s^2
    topk       the largest sum over columns, whatever the logits are
    deeplift   the largest contribution to the log-odds of the predicted classes, C[:, after] - C[:, before]; of labels
               to the logits of those that flipped, to the side where they went; if the prediction did not change, all
               are equal and the lowest indices are chosen. Of values the furthest along the change, in units of s
    """
    q = goal.q
    if method == LINEAR:
        return q if necessity else -q
    if method == TOPK:
        return np.full(q.size, -1.0)
    prices = np.zeros(q.size)
    if goal.kind == SOFTMAX:
        prices[np.argmax(before)] += 1.0
        prices[np.argmax(after)] -= 1.0
    for j in range(q.size):
        if goal.kind == SQUARES:
            prices[j] = (before[j] - after[j]) / goal.scales[j] / goal.scales[j]
        elif goal.kind == SIGMOIDS and (before[j] > 0.0) != (after[j] > 0.0):
            prices[j] = -1.0 if after[j] > 0.0 else 1.0
    return prices


@compiled(inner=True, error_model="numpy")
def _residual(instance: Instance, members: IntArray) -> float:
    """The divergence that the members leave."""
    start, target, sign = instance.before, instance.after, 1.0
    if instance.necessity:
        start, target, sign = instance.after, instance.before, -1.0
    shift = np.zeros(target.size)
    top = np.argmax(target) if instance.goal.kind == SOFTMAX else -1
    for e in members:
        common = instance.part[e, top] if top >= 0 else 0.0
        for j in range(target.size):
            shift[j] += sign * (instance.part[e, j] - common)
    return divergence(instance.goal, start, target, shift)


@compiled(inner=True, error_model="numpy")
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


@compiled(inner=True, error_model="numpy")
def _hopeless(relaxed: Relaxed, sorted_prices: FloatArray, k: int, best: float) -> bool:
    """Whether the bound already proves that no k paths are better than the best so far."""
    total = relaxed.base
    for i in range(k):
        total += sorted_prices[i]
    return total * (1.0 - 1e-9) >= best


@compiled(inner=True, error_model="numpy")
def _relaxed_choice(instance: Instance, way: Way, n: int, x: FloatArray, price: FloatArray, again: bool) -> Found:
    """By `convex` or `exact`. With `again`, x comes in as that of the same problem with another budget.

    "At most n" is the best of exactly 0, 1, ..., n paths, the fewest among equals: so it is never worse than exactly n,
    nor than at most fewer. The sizes that the bound rules out are not solved.
    """
    rows, goal, at_most = instance.rows, instance.goal, way.at_most
    m = rows.shape[0]
    search = way.method == EXACT
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
        size = n if together else k
        program = Program(rows, goal, total_reach(instance.reach, size), size, together)
        relaxed = relax(program, x, price, again and (together or not at_most))
        if together or not at_most:
            certificate = relaxed
            ascending = price[order_of(price)] if at_most else price
        if together:
            continue
        found = rank_weights(k, x, price)
        value = _residual(instance, found)
        known = False
        if search:
            better, known = improve(program, x, price, found, relaxed.bound)
            better_value = _residual(instance, better)
            # Both are accurate to rounding only; between equals, keep what the caller could compare with.
            if better_value <= value:
                found, value = better, better_value
        proved = proved and known
        if not value >= residual:
            members, residual = found, value
    outcome = _outcome(goal, certificate, residual, resolution_of(goal, instance.before, instance.after))
    bound = min(certificate.bound, residual)
    if search and outcome not in (UNKNOWN, UNRESOLVED):
        outcome = PROVED if proved else SEARCHED
        if proved:
            bound = max(bound, residual - TOLERANCE * max(unit_of(goal), bound))
    return Found(members, residual, bound, certificate.iterations, outcome)


@compiled(inner=True, error_model="numpy")
def _ranked_choice(instance: Instance, method: int, n: int, x: FloatArray, keys: FloatArray) -> Found:
    """By a ranking: x becomes 1 for its members; keys [m] are overwritten."""
    goal = instance.goal
    prices = ranking_prices(method, goal, instance.before, instance.after, instance.necessity)
    price_rows(instance.part, prices, keys)
    members = ranked_smallest(keys, n)
    x[:] = 0.0
    for e in members:
        x[e] = 1.0
    residual = _residual(instance, members)
    # A ranking proves nothing; the dual bound at its own choice is valid for every choice of its size.
    dual = empty_dual(goal.q.size)
    weigh_rows(instance.rows, goal, x, dual.w)
    tilt(goal, dual)
    price_rows(instance.rows, dual.r, keys)
    base, _ = certify(goal, total_reach(instance.reach, n), dual)
    bound = base + sum_of_smallest(keys, n, False)
    outcome = RANKED if np.isfinite(residual) else UNKNOWN
    if 0.0 < goal.whole <= resolution_of(goal, instance.before, instance.after):
        outcome = UNRESOLVED
    return Found(members, residual, min(bound, residual) if bound > 0.0 else 0.0, 0, outcome)


@compiled(inner=True, error_model="numpy")
def _fewest_relaxed(instance: Instance, way: Way, n: int, x: FloatArray, price: FloatArray) -> tuple[Found, int]:
    """The fewest of up to n paths, by `convex` or `exact`, that leave little enough: what exactly so many would give.

    What the relaxation of at most k paths cannot leave falls with k, so the sizes that it rules out are found by
    bisection; those that follow are tried one by one, since what exactly k paths leave need not fall.
    """
    goal = instance.goal
    enough = way.left * goal.whole
    # Comparisons rather than constants, of which the compiler would make other types, and compile everything twice.
    at_most, never = way.left >= 0.0, way.left < 0.0
    fixed = Way(way.method, way.necessity, never, never, -1.0)
    low, high = 0 if goal.whole <= enough else min(1, n), n
    again = never
    while 0 < low < high:
        k = (low + high) // 2
        program = Program(instance.rows, goal, total_reach(instance.reach, k), k, at_most)
        relaxed = relax(program, x, price, again)
        again = at_most
        if relaxed.bound > enough:
            low = k + 1
        else:
            high = k
    proved = True
    for k in range(low, n + 1):
        x[:] = 0.0
        found = _relaxed_choice(instance, fixed, k, x, price, never)
        if found.residual <= enough:
            return found, NO_FEWER if proved else FEWER_MAY
        proved = proved and (found.outcome == PROVED or found.bound > enough)
    x[:] = 0.0
    fixed = Way(way.method, way.necessity, way.at_most, never, -1.0)
    return _relaxed_choice(instance, fixed, n, x, price, never), MISSED


@compiled(inner=True, error_model="numpy")
def _fewest_ranked(instance: Instance, way: Way, n: int, x: FloatArray, keys: FloatArray) -> tuple[Found, int]:
    """The shortest start of a ranking that leaves little enough; n where none does."""
    members = _ranked_choice(instance, way.method, n, x, keys).members
    for k in range(n + 1):
        if _residual(instance, members[:k]) <= way.left * instance.goal.whole:
            return _ranked_choice(instance, way.method, k, x, keys), NO_FEWER
    return _ranked_choice(instance, way.method, n, x, keys), MISSED


@compiled(inner=True, error_model="numpy")
def _instance_of(problems: Problems, way: Way, i: int) -> Instance:
    """Problem i in normal form."""
    part = problems.contributions[problems.starts[i] : problems.stops[i]]
    before, after = problems.before[i], problems.after[i]
    rows, reach = np.empty(part.shape), np.empty(part.shape[0])
    start, target, sign = (after, before, -1.0) if way.necessity else (before, after, 1.0)
    goal = find_goal(problems.kind, problems.scales, start, target)
    normal_rows(goal, part, sign, rows, reach)
    return Instance(part, before, after, way.necessity, rows, goal, reach)


@compiled(inner=True, error_model="numpy")
def _write(answers: Answers, i: int, found: Found, fewest: int) -> None:
    copy_into(answers.chosen[answers.chosen_starts[i] :], found.members)
    answers.numbers[i, 0] = found.residual
    answers.numbers[i, 1] = found.bound
    answers.numbers[i, 2] = found.iterations
    answers.numbers[i, 3] = found.outcome
    answers.numbers[i, 4] = fewest


def _steps_to_relax(first: int, last: int, problems: Problems, way: Way, answers: Answers) -> float:
    """About how many operations `relax_range` takes."""
    c = problems.before.shape[1]
    m, n = problems.stops[first:last] - problems.starts[first:last], problems.budgets[first:last]
    steps = 20.0 * np.minimum(m, 150) * c * (20.0 + 0.5 * c) + 10.0 * m * c
    if way.method == EXACT:
        steps += c * np.min([start + slope * m for start, slope in WORK], axis=0)
    sizes = n + 1.0 if way.at_most else 4.0 if way.left >= 0.0 else 1.0
    return float(np.sum(sizes * steps))


@compiled(error_model="numpy", early=3.0, steps=_steps_to_relax)
def relax_range(first: int, last: int, problems: Problems, way: Way, answers: Answers) -> None:
    """Answer problems first..last-1 by `convex` or `exact`."""
    if first == last:
        return
    instance = _instance_of(problems, way, first)
    for i in range(first, last):
        again = way.warm and i > first
        if i > first and not again:
            instance = _instance_of(problems, way, i)
        m = instance.rows.shape[0]
        n = min(problems.budgets[i], m)
        at = answers.weight_starts[i]
        x, price = answers.weights[at : at + m], answers.prices[at : at + m]
        if again:
            copy_into(x, answers.weights[at - m : at])
        else:
            x[:] = 0.0
        fewest = UNASKED
        if way.left >= 0.0:
            found, fewest = _fewest_relaxed(instance, way, n, x, price)
        else:
            found = _relaxed_choice(instance, way, n, x, price, again)
        _write(answers, i, found, fewest)


@compiled(error_model="numpy", early=1.0)
def rank_range(first: int, last: int, problems: Problems, way: Way, answers: Answers) -> None:
    """Answer problems first..last-1 by a method that ranks."""
    for i in range(first, last):
        instance = _instance_of(problems, way, i)
        m = instance.rows.shape[0]
        n = min(problems.budgets[i], m)
        at = answers.weight_starts[i]
        x, price = answers.weights[at : at + m], answers.prices[at : at + m]
        fewest = UNASKED
        if way.left >= 0.0:
            found, fewest = _fewest_ranked(instance, way, n, x, price)
        else:
            found = _ranked_choice(instance, way.method, n, x, price)
        _write(answers, i, found, fewest)

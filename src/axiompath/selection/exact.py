"""Normal form + the relaxation's solution -> the best set of n paths that a bounded search finds.

    minimise over sets S of n paths:   D(v0 + sum of B_i over S)

The basic solution fixes all but c + 1 entries, so its roundings can be listed. The best of them and of the
convex choice is improved by swaps, one path for another. Then, for up to 20 paths, the best set of all is
found, by joining halves of sets or, where that is too coarse, by computing every set in full; for more, what
remains of a fixed allowance of comparisons goes into kicks: three paths exchanged blindly, and swaps again.
The relaxation's bound ends the search as soon as nothing is left to gain.

Comparing two sets costs c multiplications and no logarithm: with W_j = q_j exp(v_j), the value after exchanging i
for o is the logarithm of sum_j W_j exp(B_oj) exp(-B_ij), and these factors are computed once. Where the whole change
is tiny, e^v - 1 takes the place of e^v, as in the module `enumeration`. Where columns are apart, their parts are summed
up as they are. What a comparison favours is then computed in full, and taken only if it is better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray, IntArray
from ..compiled import compiled
from ..stable_order import order_of
from .convex import TOLERANCE
from .enumeration import NEAR, PRODUCTS, SUMS, compare_all, count_sets, meet_in_the_middle
from .objective import (
    SOFTMAX,
    SQUARES,
    Goal,
    Program,
    column_remainder,
    copy_into,
    excess,
    remainder,
    unit_of,
)
from .smallest import n_smallest, places_of, settle_ties

# Allowance of comparisons, a few nanoseconds each: the least of these lines a + b m. Measured, so that all of
# the search costs at most about twice what the relaxation does at every size.
WORK = ((6_000, 100), (30_000, 22), (400_000, 0))
_CANDIDATES = 1000
_ROUNDINGS = 300
_ALL_SETS_UP_TO = 20
# Where a product of factors exp(B_ij) could leave the range of floats, sets are compared by logarithms.
_SAFE_EXPONENT = 300.0
# Below this whole change, products of e^v are too coarse for the certificate; up to this reach, those of e^v - 1 do.
_TINY_CHANGE = 1e-3
_NEAR_REACH = 1.0
# A gain below this factor is rounding, and chasing it could go on for ever.
_GAIN = 1.0 - 1e-14
# A choice this close to the bound, in shares of the whole change, leaves nothing to search for.
_NOTHING_LEFT = 1e-12


class Exchange(NamedTuple):
    """Rows among which a search exchanges, and what a comparison needs of each."""

    rows: FloatArray  # [k, c]
    goal: Goal
    factors: FloatArray  # [c, k]
    own: FloatArray  # [k]
    mode: int  # how two sums of rows are joined


@compiled(inner=True, error_model="numpy")
def _set_value(rows: FloatArray, goal: Goal, members: IntArray, v: FloatArray) -> float:
    """v = v0 + the members' rows; returns the set's value."""
    copy_into(v, goal.start)
    for i in members:
        for j in range(v.size):
            v[j] += rows[i, j]
    return remainder(goal, v)


@compiled(inner=True, error_model="numpy", fastmath={"contract"})
def _exchange_values(factors: FloatArray, without: FloatArray, base: FloatArray, mode: int, values: FloatArray) -> None:
    """The value of adding each row in turn to the set without its leaving member; inf for rows inside."""
    c, m = factors.shape
    if mode != SUMS:
        copy_into(values, base)
        for j in range(c):
            for o in range(m):
                values[o] += without[j] * factors[j, o]
        return
    for o in range(m):
        top = -np.inf
        for j in range(c):
            top = max(top, without[j] + factors[j, o])
        total = 0.0
        for j in range(c):
            total += np.exp(without[j] + factors[j, o] - top)
        values[o] = base[o] + top + np.log(total)


@compiled(inner=True, error_model="numpy")
def _exchange_apart(pool: Exchange, without: FloatArray, base: FloatArray, values: FloatArray) -> None:
    """The same where columns are apart; of sigmoids, one that is not the least is left unfinished."""
    factors = pool.factors
    c, m = factors.shape
    if pool.goal.kind == SQUARES:
        copy_into(values, base)
        for j in range(c):
            for o in range(m):
                left = without[j] + factors[j, o]
                values[o] += 0.5 * left * left
        return
    least = np.inf
    for o in range(m):
        total = base[o]
        for j in range(c):
            if total > least:
                break
            total += column_remainder(pool.goal, j, without[j] + factors[j, o])
        least = min(least, total)
        values[o] = total


@compiled(inner=True, error_model="numpy")
def _leave(goal: Goal, v: FloatArray, row: FloatArray, current: float, mode: int, without: FloatArray) -> float:
    """Fill `without` for the set without a member's row; return what an exchange's value must fall below."""
    c = v.size
    if goal.kind != SOFTMAX:
        for j in range(c):
            without[j] = v[j] - row[j]
        return current * _GAIN
    if mode == NEAR:
        rest = 0.0
        for j in range(c):
            left = v[j] - row[j]
            more = excess(left)
            rest += goal.q[j] * more
            without[j] = goal.q[j] * (left + more)
        return float(np.expm1(current) * _GAIN - rest)
    for j in range(c):
        without[j] = goal.log_q[j] + (v[j] - row[j]) - current
        if mode == PRODUCTS:
            without[j] = np.exp(without[j])
    return _GAIN if mode == PRODUCTS else (_GAIN - 1.0) * max(1.0, current)


@compiled(inner=True, error_model="numpy")
def _swap(pool: Exchange, members: IntArray, base: FloatArray, work: int) -> tuple[float, int]:
    """Exchange one member at a time for the best other row until no exchange helps; return value, work left.

    `base` is inf for the members, and the pool's `own` for the others.
    """
    rows, goal, mode = pool.rows, pool.goal, pool.mode
    m, c = rows.shape
    v = np.empty(c)
    new_v = np.empty(c)
    without = np.empty(c)
    values = np.empty(m)
    current = _set_value(rows, goal, members, v)
    quiet = 0
    place = 0
    while quiet < members.size and work > 0:
        out = members[place]
        bar = _leave(goal, v, rows[out], current, mode, without)
        if goal.kind == SOFTMAX:
            _exchange_values(pool.factors, without, base, mode, values)
        else:
            _exchange_apart(pool, without, base, values)
        at = np.argmin(values)
        work -= m
        quiet += 1
        if values[at] < bar:
            members[place] = at
            value = _set_value(rows, goal, members, new_v)
            # The comparison was in rounded products; the exchange stands only if the sum itself agrees.
            if value < current:
                current = value
                copy_into(v, new_v)
                base[out] = pool.own[out]
                base[at] = np.inf
                quiet = 0
            else:
                members[place] = out
        place = (place + 1) % members.size
    return current, work


@compiled(inner=True, error_model="numpy")
def _round(rows: FloatArray, goal: Goal, n: int, x: FloatArray) -> IntArray:
    """The best rounding of a basic x; the whole entries alone if the roundings are too many to list."""
    whole = places_of(x == 1.0)
    part = places_of((x > 0.0) & (x < 1.0))
    size = min(n - whole.size, part.size)
    if size <= 0 or count_sets(part.size, size, _ROUNDINGS) > _ROUNDINGS:
        return whole[:n]
    v = np.empty(goal.q.size)
    _set_value(rows, goal, whole, v)
    found = np.empty(size, np.int64)
    compare_all(rows[part], goal, v, size, found)
    rounded = np.empty(whole.size + size, np.int64)
    copy_into(rounded, whole)
    copy_into(rounded[whole.size :], part[found])
    return rounded


@compiled(inner=True, error_model="numpy")
def _search(program: Program, listed: IntArray, start: IntArray, enough: float, work: int, mode: int) -> IntArray:
    """Swaps from `start` over the rows `listed` (which hold `start`), then kicks until the work is done."""
    goal, n = program.goal, program.n
    c = program.rows.shape[1]
    k = listed.size
    local = program.rows[listed]
    factors = np.empty((c, k))
    own = np.zeros(k)
    for i in range(k):
        for j in range(c):
            factors[j, i] = local[i, j]
            if mode == PRODUCTS:
                factors[j, i] = np.exp(local[i, j])
            elif mode == NEAR:
                more = excess(local[i, j])
                own[i] += goal.q[j] * more
                factors[j, i] += more
    pool = Exchange(local, goal, factors, own, mode)
    kept = np.empty(n, np.int64)
    for place in range(n):
        low, high = 0, k
        while low < high:
            middle = (low + high) // 2
            if listed[middle] < start[place]:
                low = middle + 1
            else:
                high = middle
        kept[place] = low
    trial = np.empty(n, np.int64)
    base = np.empty(k)
    best = np.inf
    state = 12345
    while True:
        copy_into(base, own)
        for member in kept:
            base[member] = np.inf
        copy_into(trial, kept)
        if best < np.inf:
            # A small linear congruential generator: the same kicks on every machine and in every thread.
            for _ in range(min(3, n)):
                state = (state * 1103515245 + 12345) % 2147483648
                slot = (state >> 8) % n
                state = (state * 1103515245 + 12345) % 2147483648
                entry = (state >> 8) % k
                if base[entry] < np.inf:
                    base[trial[slot]] = own[trial[slot]]
                    trial[slot] = entry
                    base[entry] = np.inf
        value, work = _swap(pool, trial, base, work)
        if value < best:
            best = value
            copy_into(kept, trial)
        if work <= 0 or best <= enough:
            return listed[kept]


@compiled(inner=True, error_model="numpy")
def _way_to_join(goal: Goal, exponent: float, reach: float) -> int:
    """How sums of rows are joined, where their exponents come to that much, and all of it stays within `reach`."""
    if goal.kind != SOFTMAX:
        return SUMS
    if goal.whole < _TINY_CHANGE and reach <= _NEAR_REACH:
        return NEAR
    return PRODUCTS if exponent <= _SAFE_EXPONENT else SUMS


@compiled(inner=True, error_model="numpy")
def _losses(rows: FloatArray, goal: Goal, members: IntArray) -> FloatArray:
    """Minus the value that each member's loss would leave, so that the dearest comes first."""
    c = goal.q.size
    v = np.empty(c)
    without = np.empty(c)
    losses = np.empty(members.size)
    _set_value(rows, goal, members, v)
    for k in range(members.size):
        for j in range(c):
            without[j] = v[j] - rows[members[k], j]
        losses[k] = -remainder(goal, without)
    return losses


@compiled(inner=True, error_model="numpy")
def improve(
    program: Program, x: FloatArray, prices: FloatArray, convex: IntArray, bound: float
) -> tuple[IntArray, bool]:
    """The best set found, and whether no other is better by more than TOLERANCE. Never worse than `convex`.

    The path whose loss would cost most comes first.
    """
    rows, goal, n = program.rows, program.goal, program.n
    m, c = rows.shape
    v = np.empty(c)
    best = convex
    value = _set_value(rows, goal, best, v)
    rounded = _round(rows, goal, n, x)
    if rounded.size == n:
        rounded_value = _set_value(rows, goal, rounded, v)
        if rounded_value < value:
            value = rounded_value
            best = rounded
    unit = max(unit_of(goal), bound)
    enough = bound + _NOTHING_LEFT * unit
    proved = n == 0 or n >= m or value <= bound + TOLERANCE * unit
    if 0 < n < m and value > enough:
        far = 0.0
        for i in range(m):
            for j in range(c):
                far = max(far, abs(rows[i, j]))
        mode = _way_to_join(goal, 2.0 * far, far)
        work = WORK[0][0] + WORK[0][1] * m
        for start, slope in WORK:
            work = min(work, start + slope * m)
        if m <= _ALL_SETS_UP_TO:
            work //= 8
        if mode == SUMS and goal.kind != SQUARES:
            work //= 8
        keys = prices.copy()
        for i in range(m):
            if x[i] > 0.0:
                keys[i] = -np.inf
        for i in best:
            keys[i] = -np.inf
        found = _search(program, n_smallest(keys, n + _CANDIDATES), best, enough, work, mode)
        found_value = _set_value(rows, goal, found, v)
        if found_value < value:
            value = found_value
            best = found
        proved = proved or value <= bound + TOLERANCE * unit
        if m <= _ALL_SETS_UP_TO and value > enough:
            far_off = far * m
            for j in range(c):
                far_off = max(far_off, far * m + abs(goal.start[j]))
            mode = _way_to_join(goal, far * m, far_off)
            found, noise = meet_in_the_middle(rows, goal, n, mode, far_off, value)
            if found.size == n:
                found_value = _set_value(rows, goal, found, v)
                if found_value < value:
                    value = found_value
                    best = found
            if not proved and noise > TOLERANCE * unit:
                # Joined values are too coarse to tell sets apart here: every set is computed in full.
                found = np.empty(n, np.int64)
                compare_all(rows, goal, goal.start, n, found)
                found_value = _set_value(rows, goal, found, v)
                if found_value < value:
                    value = found_value
                    best = found
            proved = True
    picked = np.zeros(m)
    for i in best:
        picked[i] = 1.0
    settle_ties(rows, prices, picked)
    best = places_of(picked > 0.0)
    return best[order_of(_losses(rows, goal, best))], proved

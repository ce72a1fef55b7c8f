"""Normal form + the relaxation's solution -> the best set of n paths that a bounded search finds.

    minimise over sets S of n paths (or at most n):   logsumexp(a + sum of B_i over S)

The basic solution fixes all but c + 1 entries, so its roundings can be listed. The best of them and of the
convex choice is improved by swaps, one path for another. Then, for up to 20 paths, the best set of all is
found; for more, what remains of a fixed allowance of comparisons goes into kicks: three paths exchanged
blindly, and swaps again. The relaxation's bound ends the search as soon as nothing is left to gain.

Comparing two sets costs c multiplications and no logarithm: with W_j = exp(u_j), the value after exchanging i
for o is the logarithm of sum_j W_j exp(B_oj) exp(-B_ij), and these factors are computed once.

"At most n" is "exactly n" with an unlimited supply of a path that does nothing.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from axiompath.selection.enumeration import TIE, compare_all, count_sets, meet_in_the_middle
from axiompath.selection.objective import Floats, Ints, copy_into, log_sum_exp
from axiompath.selection.ranking import n_smallest, settle_ties

# Allowance of comparisons, a few nanoseconds each: the least of these lines a + b m. Measured, so that all of
# the search costs at most about twice what the relaxation does at every size.
_WORK = ((6_000, 100), (30_000, 22), (400_000, 0))
_CANDIDATES = 1000
_ROUNDINGS = 300
_ALL_SETS_UP_TO = 20
# Where a product of factors exp(B_ij) could leave the range of floats, sets are compared by logarithms.
_SAFE_EXPONENT = 300.0
# A gain below this factor is rounding, and chasing it could go on for ever.
_GAIN = 1.0 - 1e-14


@njit(cache=True, nogil=True, error_model="numpy")
def _set_logits(rows: Floats, offset: Floats, members: Ints, u: Floats) -> float:
    """u = a + the members' rows; returns the set's value."""
    copy_into(u, offset)
    for i in members:
        for j in range(u.size):
            u[j] += rows[i, j]
    return log_sum_exp(u)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _exchange_values(factors: Floats, without: Floats, penalty: Floats, safe: bool, values: Floats) -> None:
    """The value of adding each row in turn to the set without its leaving member; inf for rows inside."""
    c, m = factors.shape
    if safe:
        copy_into(values, penalty)
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
        values[o] = penalty[o] + top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _swap(
    rows: Floats,
    factors: Floats,
    offset: Floats,
    members: Ints,
    penalty: Floats,
    blank: int,
    safe: bool,
    work: int,
) -> tuple[float, int]:
    """Exchange one member at a time for the best other row until no exchange helps; return value, work left.

    `penalty` is inf for the members, except for the row `blank`, which does nothing and is never used up.
    """
    m, c = rows.shape
    u = np.empty(c)
    new_u = np.empty(c)
    without = np.empty(c)
    values = np.empty(m)
    current = _set_logits(rows, offset, members, u)
    quiet = 0
    place = 0
    while quiet < members.size and work > 0:
        out = members[place]
        for j in range(c):
            without[j] = u[j] - rows[out, j] - current
            if safe:
                without[j] = np.exp(without[j])
        _exchange_values(factors, without, penalty, safe, values)
        at = np.argmin(values)
        gains = values[at] < (_GAIN if safe else -(1.0 - _GAIN) * max(1.0, abs(current)))
        work -= m
        quiet += 1
        if gains:
            members[place] = at
            value = _set_logits(rows, offset, members, new_u)
            # The comparison was in rounded products; the exchange stands only if the sum itself agrees.
            if value < current:
                current = value
                copy_into(u, new_u)
                penalty[out] = 0.0
                if at != blank:
                    penalty[at] = np.inf
                quiet = 0
            else:
                members[place] = out
        place = (place + 1) % members.size
    return current, work


@njit(cache=True, nogil=True, error_model="numpy")
def _round(rows: Floats, offset: Floats, n: int, at_most: bool, x: Floats) -> Ints:
    """The best rounding of a basic x; the whole entries alone if the roundings are too many to list."""
    whole = np.flatnonzero(x == 1.0)
    part = np.flatnonzero((x > 0.0) & (x < 1.0))
    most = min(n - whole.size, part.size)
    least = 0 if at_most else most
    if most <= 0 or count_sets(part.size, most, at_most, _ROUNDINGS) > _ROUNDINGS:
        return whole[:n]
    u = np.empty(offset.size)
    _set_logits(rows, offset, whole, u)
    found = np.empty(most, np.int64)
    _, size = compare_all(rows[part], u, least, most, found)
    return np.concatenate((whole, part[found[:size]]))


@njit(cache=True, nogil=True, error_model="numpy")
def _search(
    rows: Floats,
    offset: Floats,
    n: int,
    at_most: bool,
    pool: Ints,
    start: Ints,
    goal: float,
    work: int,
    safe: bool,
) -> Ints:
    """Swaps from `start` over the rows in `pool` (which holds `start`), then kicks until the work is done."""
    c = rows.shape[1]
    k = pool.size
    blank = k if at_most else -1
    size = k + 1 if at_most else k
    local = np.zeros((size, c))
    factors = np.empty((c, size))
    for i in range(size):
        for j in range(c):
            if i < k:
                local[i, j] = rows[pool[i], j]
            factors[j, i] = np.exp(local[i, j]) if safe else local[i, j]
    kept = np.full(n, k)
    copy_into(kept, np.searchsorted(pool, start))
    trial = np.empty(n, np.int64)
    penalty = np.empty(size)
    best = np.inf
    state = 12345
    while True:
        penalty[:] = 0.0
        for i in kept:
            if i != blank:
                penalty[i] = np.inf
        copy_into(trial, kept)
        if best < np.inf:
            # A small linear congruential generator: the same kicks on every machine and in every thread.
            for _ in range(min(3, n)):
                state = (state * 1103515245 + 12345) % 2147483648
                slot = (state >> 8) % n
                state = (state * 1103515245 + 12345) % 2147483648
                entry = (state >> 8) % size
                if penalty[entry] == 0.0:
                    penalty[trial[slot]] = 0.0
                    trial[slot] = entry
                    if entry != blank:
                        penalty[entry] = np.inf
        value, work = _swap(local, factors, offset, trial, penalty, blank, safe, work)
        if value < best:
            best = value
            copy_into(kept, trial)
        if work <= 0 or best <= goal:
            return pool[kept[kept < k]]


@njit(cache=True, nogil=True, error_model="numpy")
def _losses(rows: Floats, offset: Floats, members: Ints) -> Floats:
    """Minus the value that each member's loss would leave, so that the dearest comes first."""
    c = offset.size
    u = np.empty(c)
    without = np.empty(c)
    losses = np.empty(members.size)
    _set_logits(rows, offset, members, u)
    for k in range(members.size):
        for j in range(c):
            without[j] = u[j] - rows[members[k], j]
        losses[k] = -log_sum_exp(without)
    return losses


@njit(cache=True, nogil=True, error_model="numpy")
def _drop_idle(rows: Floats, offset: Floats, members: Ints) -> Ints:
    """Drop members, one at a time, that the set does as well without."""
    u = np.empty(offset.size)
    while members.size > 0:
        value = _set_logits(rows, offset, members, u)
        losses = _losses(rows, offset, members)
        idle = np.argmax(losses)
        if -losses[idle] > value + TIE * max(1.0, value):
            break
        members = np.concatenate((members[:idle], members[idle + 1 :]))
    return members


@njit(cache=True, nogil=True, error_model="numpy")
def improve(
    rows: Floats,
    offset: Floats,
    q: Floats,
    n: int,
    at_most: bool,
    x: Floats,
    prices: Floats,
    convex: Ints,
    bound: float,
) -> tuple[Ints, bool]:
    """The best set found, and whether it is known to be the best of all. Never worse than `convex`.

    q is the distribution to be reached. The path whose loss would cost most comes first.
    """
    m, c = rows.shape
    u = np.empty(c)
    best = convex
    value = _set_logits(rows, offset, best, u)
    rounded = _round(rows, offset, n, at_most, x)
    if rounded.size == n or at_most:
        rounded_value = _set_logits(rows, offset, rounded, u)
        if rounded_value < value:
            value = rounded_value
            best = rounded
    goal = bound + 1e-12 * max(1.0, bound)
    proved = value <= goal
    if n > 0 and (m > n or at_most) and not proved:
        reach = 0.0
        for i in range(m):
            for j in range(c):
                reach = max(reach, abs(rows[i, j]))
        safe = 2.0 * reach <= _SAFE_EXPONENT
        work = _WORK[0][0] + _WORK[0][1] * m
        for start, slope in _WORK:
            work = min(work, start + slope * m)
        if m <= _ALL_SETS_UP_TO:
            work //= 8
        if not safe:
            work //= 8
        keys = prices.copy()
        for i in range(m):
            if x[i] > 0.0:
                keys[i] = -np.inf
        for i in best:
            keys[i] = -np.inf
        found = _search(rows, offset, n, at_most, n_smallest(keys, n + _CANDIDATES), best, goal, work, safe)
        found_value = _set_logits(rows, offset, found, u)
        if found_value < value:
            value = found_value
            best = found
        if m <= _ALL_SETS_UP_TO and (value > goal or at_most):
            least = 0 if at_most else n
            found_value, found = meet_in_the_middle(rows, offset, q, least, n, reach * m <= _SAFE_EXPONENT, value)
            slack = 2.0 * TIE * max(1.0, value) if at_most else 0.0
            if found_value < value + slack and _set_logits(rows, offset, found, u) < value + slack:
                best = found
            proved = True
        proved = proved or value <= goal
    if at_most:
        best = _drop_idle(rows, offset, best)
    picked = np.zeros(m)
    for i in best:
        picked[i] = 1.0
    settle_ties(rows, prices, picked)
    best = np.flatnonzero(picked)
    return best[np.argsort(_losses(rows, offset, best), kind="mergesort")], proved

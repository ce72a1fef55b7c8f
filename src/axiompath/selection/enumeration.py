"""Normal form -> the best set of all, for as many paths as that is possible.

`compare_all` looks at every set of a given size. `meet_in_the_middle` does the same for up to some twenty
paths while looking at few: it lists the subsets of either half of the paths, sorted by their projection d.y
on one direction d, and joins only those whose joint projection lies in the slab where a better set must lie.

The slab follows from the dual bound of the module `objective`. Every y = B'x has q.y = 0, so for p = q + t d
with sum d = 0 and p >= 0,

    logsumexp(a + y) >= h(t) + t (d.y),     h(t) = -sum_j p_j (log p_j - a_j);

a value below k needs  d.y <= (k - h(t)) / t  for t > 0, and >= for t < 0: the best of a few t on either side.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from axiompath.selection.objective import Floats, Ints, copy_into, log_sum_exp

# Two sets whose values differ by less, relative to max(1, value), are equally good.
TIE = 1e-13


@njit(cache=True, nogil=True, error_model="numpy")
def count_sets(m: int, n: int, at_most: bool, limit: int) -> int:
    """The number of sets to choose from, or something above `limit` if they are more than that."""
    total = 0.0
    for size in range(0 if at_most else n, n + 1):
        ways = 1.0
        for k in range(min(size, m - size)):
            ways = ways * (m - k) / (k + 1)
        total += ways
        if total > limit:
            return limit + 1
    return int(total + 0.5)


@njit(cache=True, nogil=True, error_model="numpy")
def compare_all(rows: Floats, u: Floats, least: int, most: int, best: Ints) -> tuple[float, int]:
    """The best set of `least` to `most` rows added to u: its value and size; its members go into `best`."""
    m, c = rows.shape
    lowest = np.inf
    size = 0
    picked = np.empty(most, np.int64)
    sums = np.empty((most + 1, c))
    copy_into(sums[0], u)
    for k in range(least, most + 1):
        for i in range(k):
            picked[i] = i
        level = 0
        while level >= 0:
            for i in range(level, k):
                for j in range(c):
                    sums[i + 1, j] = sums[i, j] + rows[picked[i], j]
            value = log_sum_exp(sums[k])
            if value < lowest:
                lowest = value
                size = k
                copy_into(best, picked[:k])
            level = k - 1
            while level >= 0 and picked[level] == m - k + level:
                level -= 1
            if level >= 0:
                picked[level] += 1
                for i in range(level + 1, k):
                    picked[i] = picked[i - 1] + 1
    return lowest, size


@njit(cache=True, nogil=True, error_model="numpy")
def _sorted_subsets(values: Floats) -> tuple[Ints, Floats, Ints]:
    """All subsets as bit masks, grouped by size and sorted by their sum within a size; sums; group starts.

    Adding one element at a time, each size's list is the merge of two lists that are sorted already.
    """
    h = values.size
    masks = np.zeros(1 << h, np.int64)
    sums = np.zeros(1 << h)
    starts = np.zeros(h + 2, np.int64)
    starts[1:] = 1
    new_masks = np.empty(1 << h, np.int64)
    new_sums = np.empty(1 << h)
    for e in range(h):
        at = 0
        new_starts = np.empty(h + 2, np.int64)
        for size in range(h + 1):
            new_starts[size] = at
            i, i_end = starts[size], starts[size + 1]
            k, k_end = (starts[size - 1], starts[size]) if size > 0 else (0, 0)
            while i < i_end or k < k_end:
                if k == k_end or (i < i_end and sums[i] <= sums[k] + values[e]):
                    new_masks[at] = masks[i]
                    new_sums[at] = sums[i]
                    i += 1
                else:
                    new_masks[at] = masks[k] | (1 << e)
                    new_sums[at] = sums[k] + values[e]
                    k += 1
                at += 1
        new_starts[h + 1] = at
        masks, new_masks = new_masks, masks
        sums, new_sums = new_sums, sums
        starts = new_starts
    return masks, sums, starts


@njit(cache=True, nogil=True, error_model="numpy")
def _subset_factors(rows: Floats, masks: Ints, start: Floats, safe: bool) -> Floats:
    """`start` times exp of every subset's sum of rows (plus the sum, if not `safe`), ordered as `masks`."""
    h, c = rows.shape
    table = np.empty((1 << h, c))
    copy_into(table[0], start)
    steps = np.exp(rows) if safe else rows
    for e in range(h):
        size = 1 << e
        for i in range(size):
            for j in range(c):
                table[size + i, j] = table[i, j] * steps[e, j] if safe else table[i, j] + steps[e, j]
    return table[masks]


@njit(cache=True, nogil=True, error_model="numpy")
def _slab(rows: Floats, offset: Floats, q: Floats, value: float) -> tuple[Floats, float, float]:
    """A direction d [c] along which the rows spread most, and the range of d.y outside which f(y) > value."""
    m, c = rows.shape
    # Power iteration on the rows in the metric of the divergence's curvature at q, which is diag(q).
    e = np.zeros(c)
    for i in range(m):
        for j in range(c):
            e[j] += abs(rows[i, j]) * np.sqrt(q[j]) * (1.0 + 0.1 * j)
    image = np.empty(c)
    for _ in range(8):
        image[:] = 0.0
        for i in range(m):
            along = 0.0
            for j in range(c):
                along += rows[i, j] * np.sqrt(q[j]) * e[j]
            for j in range(c):
                image[j] += along * rows[i, j] * np.sqrt(q[j])
        norm = 0.0
        for j in range(c):
            norm += image[j] * image[j]
        for j in range(c):
            e[j] = image[j] / max(np.sqrt(norm), 1e-300)
    d = np.sqrt(q) * e
    total = 0.0
    for j in range(c):
        total += d[j]
    for j in range(c):
        d[j] -= q[j] * total
    reach = 0.0
    for i in range(m):
        for j in range(c):
            reach += abs(rows[i, j])
    low, high = -np.inf, np.inf
    for sign in (-1.0, 1.0):
        furthest = np.inf
        for j in range(c):
            if sign * d[j] < 0.0:
                furthest = min(furthest, q[j] / (-sign * d[j]))
        if not np.isfinite(furthest):
            continue
        t = sign * furthest
        for _ in range(24):
            t *= 0.6
            h = 0.0
            size = 1.0 + abs(value)
            for j in range(c):
                p = q[j] + t * d[j]
                if p > 0.0:
                    h -= p * (np.log(p) - offset[j])
                    size += p * abs(np.log(p) - offset[j])
            # t can be as small as the least probability: the rounding of h must not decide the quotient.
            limit = (value - h + 1e-14 * (size + reach)) / t
            if sign > 0.0:
                high = min(high, limit)
            else:
                low = max(low, limit)
    return d, low, high


@njit(cache=True, nogil=True, error_model="numpy")
def meet_in_the_middle(
    rows: Floats, offset: Floats, q: Floats, least: int, most: int, safe: bool, value: float
) -> tuple[float, Ints]:
    """The best set of `least` to `most` rows if its value is below `value`; else `value` and an empty set.

    Where the size is free, a set of equal value and fewer rows counts as better.
    """
    m, c = rows.shape
    half = m // 2
    d, low, high = _slab(rows, offset, q, value)
    along = np.zeros(m)
    width = 0.0
    for i in range(m):
        for j in range(c):
            along[i] += rows[i, j] * d[j]
        width += abs(along[i])
    # Sums along d are rounded; the slab is widened by more than that.
    low -= 1e-12 * width
    high += 1e-12 * width
    left_masks, left_sums, left_starts = _sorted_subsets(along[:half])
    right_masks, right_sums, right_starts = _sorted_subsets(along[half:])
    top = log_sum_exp(offset)
    start = np.exp(offset - top) if safe else offset
    left = _subset_factors(rows[:half], left_masks, start, safe)
    right = _subset_factors(rows[half:], right_masks, np.full(c, 1.0 if safe else 0.0), safe)
    scratch = np.empty(c)
    # Between sizes, a tie goes to the smaller set: the start is a little above `value`, and each larger size
    # has to win by as much.
    tie = TIE * max(1.0, value) if least < most else 0.0
    lowest = np.exp(value + tie - top) if safe else value + tie
    found = -1
    for size in range(least, most + 1):
        bar = lowest
        if found >= 0:
            bar = lowest * (1.0 - tie) if safe else lowest - tie
        for a_size in range(max(0, size - (m - half)), min(half, size) + 1):
            b_start, b_end = right_starts[size - a_size], right_starts[size - a_size + 1]
            # As the left sum rises, the window of right sums that land in the slab falls.
            first, last = b_end, b_end
            for a in range(left_starts[a_size], left_starts[a_size + 1]):
                while first > b_start and left_sums[a] + right_sums[first - 1] >= low:
                    first -= 1
                while last > b_start and left_sums[a] + right_sums[last - 1] > high:
                    last -= 1
                for b in range(first, last):
                    if safe:
                        total = 0.0
                        for j in range(c):
                            total += left[a, j] * right[b, j]
                    else:
                        for j in range(c):
                            scratch[j] = left[a, j] + right[b, j]
                        total = log_sum_exp(scratch)
                    if total < bar:
                        bar = total
                        lowest = total
                        found = left_masks[a] | (right_masks[b] << half)
    if found < 0:
        return value, np.empty(0, np.int64)
    members = np.empty(m, np.int64)
    size = 0
    for i in range(m):
        if (found >> i) & 1:
            members[size] = i
            size += 1
    return (top + np.log(lowest) if safe else lowest), members[:size].copy()

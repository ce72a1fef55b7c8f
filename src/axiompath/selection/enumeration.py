"""Normal form -> the best set of all, for as many paths as that is possible.

`compare_all` looks at every set of a given size. `meet_in_the_middle` does the same for up to some twenty
paths while looking at few: it lists the subsets of either half of the paths, sorted by their projection d.y
on one direction d, and joins only those whose joint projection lies in the slab where a better set must lie.

The slab follows from the dual bound of the module `objective`. For r = t d with sum d = 0 and q + r >= 0,

    D(v0 + y) >= h(t) + t (d.y),     h(t) = r.v0 - KL(q + r || q);

a value below k needs  d.y <= (k - h(t)) / t  for t > 0, and >= for t < 0: the best of a few t on either side. Sigmoids
are pairs of classes, (a, r) and (b, -r). For squares the best t is known: |d.(v0 + y)| <= |d| sqrt(2 k).

Joining two subsets costs c multiplications and no logarithm. Where changes are of ordinary size, the products are of
e^(v_j); where the whole change is tiny these would all be 1 to rounding, and the products are of e^(v_j) - 1:

    G(a + b) = G(a) + G(b) + sum_j q_j (e^(a_j) - 1) (e^(b_j) - 1)        as q.a = q.b = 0

Where columns are apart, they are summed up one by one, as far as the sum stays below the best so far.
"""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray
from ..compiled import compiled
from .objective import EPSILON, SIGMOIDS, SOFTMAX, SQUARES, Goal, column_remainder, copy_into, excess, remainder

# How two sums of rows are joined: by products of e^v - 1, by products of e^v, or by adding v.
NEAR, PRODUCTS, SUMS = range(3)


@compiled(inner=True, error_model="numpy")
def count_sets(m: int, n: int, limit: int) -> int:
    """The number of sets to choose from, or something above `limit` if they are more than that."""
    ways = 1.0
    for k in range(min(n, m - n)):
        ways = ways * (m - k) / (k + 1)
        if ways > limit:
            return limit + 1
    return int(ways + 0.5)


@compiled(inner=True, error_model="numpy")
def compare_all(rows: FloatArray, goal: Goal, v: FloatArray, size: int, best: IntArray) -> None:
    """Write the members of the best set of `size` rows added to v into `best` [size]."""
    m, c = rows.shape
    lowest = np.inf
    picked = np.arange(size)
    sums = np.empty((size + 1, c))
    copy_into(sums[0], v)
    level = 0
    while level >= 0:
        for i in range(level, size):
            for j in range(c):
                sums[i + 1, j] = sums[i, j] + rows[picked[i], j]
        value = remainder(goal, sums[size])
        if value < lowest:
            lowest = value
            copy_into(best, picked)
        level = size - 1
        while level >= 0 and picked[level] == m - size + level:
            level -= 1
        if level >= 0:
            picked[level] += 1
            for i in range(level + 1, size):
                picked[i] = picked[i - 1] + 1


@compiled(inner=True, error_model="numpy")
def _sorted_subsets(values: FloatArray) -> tuple[IntArray, FloatArray, IntArray]:
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


@compiled(inner=True, error_model="numpy")
def _subset_sums(rows: FloatArray, masks: IntArray, start: FloatArray, products: bool) -> FloatArray:
    """`start` plus every subset's sum of rows (or times its product, with `products`), ordered as `masks`."""
    h, c = rows.shape
    table = np.empty((1 << h, c))
    copy_into(table[0], start)
    for e in range(h):
        size = 1 << e
        for i in range(size):
            for j in range(c):
                table[size + i, j] = table[i, j] * rows[e, j] if products else table[i, j] + rows[e, j]
    return table[masks]


@compiled(inner=True, error_model="numpy")
def _second_order(q: FloatArray, table: FloatArray, weighted: bool) -> FloatArray:
    """G of every row of the table, which then holds e^v - 1 (times q, if `weighted`) in place of v."""
    values = np.zeros(table.shape[0])
    for i in range(table.shape[0]):
        for j in range(q.size):
            v = table[i, j]
            more = excess(v)
            values[i] += q[j] * more
            table[i, j] = (v + more) * (q[j] if weighted else 1.0)
    return values


@compiled(inner=True, error_model="numpy")
def _conjugate(q: float, log_q: float, r: float, size: float) -> tuple[float, float]:
    """q (w e^w - e^w + 1) with r = q (e^w - 1), which is what r costs; and what its rounding is in proportion to.

    `size` is that of what r is multiplied by.
    """
    if q <= 0.0:
        return 0.0, 0.0
    w = np.log1p(r / q)
    part = w * r - (q * excess(w) if abs(w) < 0.3 else r - q * w)
    return part, abs(r) * (size + abs(w)) + q * abs(w) * (1.0 + abs(log_q))


@compiled(inner=True, error_model="numpy")
def _direction(rows: FloatArray, root: FloatArray) -> FloatArray:
    """The direction along which the rows spread most in a metric of which `root` is the root, by power iteration."""
    m, c = rows.shape
    e = np.zeros(c)
    for i in range(m):
        for j in range(c):
            e[j] += abs(rows[i, j]) * root[j] * (1.0 + 0.1 * j)
    image = np.empty(c)
    for _ in range(8):
        image[:] = 0.0
        for i in range(m):
            along = 0.0
            for j in range(c):
                along += rows[i, j] * root[j] * e[j]
            for j in range(c):
                image[j] += along * rows[i, j] * root[j]
        norm = 0.0
        for j in range(c):
            norm += image[j] * image[j]
        for j in range(c):
            e[j] = image[j] / max(np.sqrt(norm), 1e-300)
    return root * e


@compiled(inner=True, error_model="numpy")
def _slab(rows: FloatArray, goal: Goal, value: float) -> tuple[FloatArray, float, float]:
    """A direction d [c] along which the rows spread most, and the range of d.y outside which D(v0 + y) > value."""
    c = rows.shape[1]
    q, kind = goal.q, goal.kind
    # The metric is the divergence's curvature at the goal: diag(q) for softmax.
    if kind == SQUARES:
        d = _direction(rows, np.ones(c))
        at, norm, size = 0.0, 0.0, 0.0
        for j in range(c):
            at += d[j] * goal.start[j]
            size += abs(d[j]) * goal.size
            norm += d[j] * d[j]
        wide = np.sqrt(2.0 * value * norm) * (1.0 + 64.0 * EPSILON) + 64.0 * EPSILON * size
        return d, -at - wide, -at + wide
    if kind == SOFTMAX:
        root = np.sqrt(q)
    else:
        logs = goal.log_q + goal.log_no
        root = np.exp(0.5 * (logs - np.max(logs)))
    d = _direction(rows, root)
    if kind == SOFTMAX:
        total = 0.0
        for j in range(c):
            total += d[j]
        for j in range(c):
            d[j] -= q[j] * total
    low, high = -np.inf, np.inf
    for sign in (-1.0, 1.0):
        furthest = np.inf
        for j in range(c):
            if sign * d[j] < 0.0:
                furthest = min(furthest, q[j] / (-sign * d[j]))
            elif kind == SIGMOIDS and sign * d[j] > 0.0:
                furthest = min(furthest, goal.no[j] / (sign * d[j]))
        if not np.isfinite(furthest):
            continue
        t = sign * furthest
        # Where the value is tiny, so is the t that decides: the same number of trials has to come down to it.
        step = min(0.6, max(0.1, (0.1 * np.sqrt(value) / furthest) ** (1.0 / 24.0)))
        for _ in range(24):
            t *= step
            h = 0.0
            size = value
            for j in range(c):
                r = t * d[j]
                part, rounded = _conjugate(q[j], goal.log_q[j], r, goal.size)
                h += r * goal.start[j] - part
                size += rounded
                if kind == SIGMOIDS:
                    part, rounded = _conjugate(goal.no[j], goal.log_no[j], -r, goal.size)
                    h -= part
                    size += rounded
            # t can be as small as the least probability: the rounding of h must not decide the quotient.
            limit = (value - h + 64.0 * EPSILON * size) / t
            if sign > 0.0:
                high = min(high, limit)
            else:
                low = max(low, limit)
    return d, low, high


@compiled(inner=True, error_model="numpy")
def _noise_apart(goal: Goal, reach: float, value: float) -> float:
    """More than rounding can change the value of a set below `value` by, where columns are apart.

    A sum of rows is off by rounding of its reach, and D by its slope, at most sqrt(2 c D), times that. The slope of a
    sigmoid is at most 1, and its D is off by rounding of its exponents too.
    """
    c = goal.start.size
    grain = 64.0 * EPSILON * reach
    noise = grain * (np.sqrt(2.0 * c * value) + c * grain) + 64.0 * EPSILON * value
    if goal.kind == SIGMOIDS:
        noise = min(noise, c * grain + 64.0 * EPSILON * value)
        exponents = 1.0 + reach
        for j in range(c):
            exponents = max(exponents, 1.0 + reach + abs(goal.log_q[j]) + abs(goal.log_no[j]))
        noise += 16.0 * EPSILON * exponents * min(float(c), np.expm1(value))
    return float(noise)


@compiled(inner=True, error_model="numpy")
def meet_in_the_middle(
    rows: FloatArray, goal: Goal, size: int, mode: int, reach: float, value: float
) -> tuple[IntArray, float]:
    """The best set of `size` rows if it is better than `value`, else none; and by how much rounding may mislead.

    `reach` bounds every sum of rows, v0 included.
    """
    m, c = rows.shape
    half = m // 2
    d, low, high = _slab(rows, goal, value)
    along = np.zeros(m)
    width = 0.0
    for i in range(m):
        for j in range(c):
            along[i] += rows[i, j] * d[j]
            width += abs(rows[i, j] * d[j])
    # Sums along d are rounded; the slab is widened by more than that.
    low -= 1e-12 * width
    high += 1e-12 * width
    left_masks, left_sums, left_starts = _sorted_subsets(along[:half])
    right_masks, right_sums, right_starts = _sorted_subsets(along[half:])
    steps = np.exp(rows) if mode == PRODUCTS else rows
    top = 0.0
    if mode == NEAR:
        left = _subset_sums(steps[:half], left_masks, goal.start, False)
        right = _subset_sums(steps[half:], right_masks, np.zeros(c), False)
        left_values = _second_order(goal.q, left, True)
        right_values = _second_order(goal.q, right, False)
        lowest = np.expm1(value)
        noise = 64.0 * EPSILON * reach * reach
    else:
        begin = goal.log_q + goal.start if goal.kind == SOFTMAX else goal.start.copy()
        top = np.max(begin) if goal.kind == SOFTMAX else 0.0
        begin -= top
        left = _subset_sums(steps[:half], left_masks, np.exp(begin) if mode == PRODUCTS else begin, mode == PRODUCTS)
        unit = np.full(c, 1.0 if mode == PRODUCTS else 0.0)
        right = _subset_sums(steps[half:], right_masks, unit, mode == PRODUCTS)
        left_values = np.zeros(left.shape[0])
        right_values = np.zeros(right.shape[0])
        lowest = np.exp(value - top) if mode == PRODUCTS else value - top
        noise = EPSILON * ((128.0 + 2.0 * reach) if mode == PRODUCTS else 64.0 * (1.0 + reach))
        if goal.kind != SOFTMAX:
            noise = _noise_apart(goal, reach, value)
    scratch = np.empty(c)
    found = -1
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
                if goal.kind != SOFTMAX:
                    total = 0.0
                    for j in range(c):
                        if total >= lowest:
                            break
                        total += column_remainder(goal, j, left[a, j] + right[b, j])
                elif mode == SUMS:
                    for j in range(c):
                        scratch[j] = left[a, j] + right[b, j]
                    peak = np.max(scratch)
                    total = 0.0
                    for j in range(c):
                        total += np.exp(scratch[j] - peak)
                    total = peak + np.log(total)
                else:
                    total = left_values[a] + right_values[b]
                    for j in range(c):
                        total += left[a, j] * right[b, j]
                if total < lowest:
                    lowest = total
                    found = left_masks[a] | (right_masks[b] << half)
    members = np.empty(m, np.int64)
    k = 0
    for i in range(m):
        if found >= 0 and (found >> i) & 1:
            members[k] = i
            k += 1
    return members[:k].copy(), noise

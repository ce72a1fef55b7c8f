"""An optimal x -> an optimal x with at most c + 1 fractional entries.

The relaxation's minimiser is not unique: the objective sees x only through B'x in R^c, and any move along a
null vector of the columns (B_i, 1) keeps both B'x and the sum. Such moves can push one more entry to a bound
until the fractional entries' columns are independent: then they are at most c + 1. This is the crossover of
linear programming: a basis of independent columns is grown, and every other fractional entry is moved to a
bound while the basic ones make up for it; a basic entry that reaches a bound first leaves the basis.
"""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray
from ..compiled import compiled
from .objective import copy_into

# Columns are scaled to entries of at most 1. A column counts as dependent on the basis if its remainder is
# below the first number, or moves no logit by more than the second's share of the change; a basic entry with a
# coefficient below the third counts as unmoved.
_DEPENDENT = 1e-13
_IMPERCEPTIBLE = 1e-12
_UNMOVED = 1e-11


@compiled(inner=True, error_model="numpy")
def _pivot(inverse: FloatArray, v: FloatArray, r: int) -> None:
    """Make the column whose image is v the r-th unit vector."""
    size = v.size
    for k in range(size):
        inverse[r, k] /= v[r]
    for i in range(size):
        if i != r and v[i] != 0.0:
            for k in range(size):
                inverse[i, k] -= v[i] * inverse[r, k]


@compiled(inner=True, error_model="numpy")
def _interior_first(x: FloatArray, fractional: int) -> IntArray:
    """The fractional entries, those far from their bounds first: a basis of them is rarely disturbed later.

    Seven bands serve as well as a sort, at a fraction of its cost.
    """
    order = np.empty(fractional, np.int64)
    at = 0
    outer = 1.0
    for inner in (0.2, 0.05, 0.01, 1e-3, 1e-5, 1e-8, 0.0):
        for i in range(x.size):
            distance = min(x[i], 1.0 - x[i])
            if inner < distance <= outer:
                order[at] = i
                at += 1
        outer = inner
    return order


@compiled(inner=True, error_model="numpy")
def _restore_sum(x: FloatArray, n: int, at_most: bool) -> None:
    """Make the sum right whatever rounding has done, at the cost of fractional entries first."""
    excess = -float(n)
    for i in range(x.size):
        excess += x[i]
    if at_most:
        excess = max(excess, 0.0)
    for whole in (False, True):
        for i in range(x.size):
            if abs(excess) > 1e-12 and (whole or 0.0 < x[i] < 1.0):
                new = min(max(x[i] - excess, 0.0), 1.0)
                excess -= x[i] - new
                x[i] = new


@compiled(inner=True, error_model="numpy")
def reduce_to_basic(rows: FloatArray, n: int, at_most: bool, x: FloatArray, span: float) -> None:
    """Move x [m] to a basic point with the same B'x and sum (sum <= n with `at_most`), in place.

    `span` is the largest change of a logit, or 1 where more makes no difference.
    """
    m, c = rows.shape
    size = c + 1
    scale = 0.0
    image = np.zeros(size)
    fractional = 0
    for i in range(m):
        x[i] = min(max(x[i], 0.0), 1.0)
        if 0.0 < x[i] < 1.0:
            fractional += 1
        for j in range(c):
            scale = max(scale, abs(rows[i, j]))
            image[j] += rows[i, j] * x[i]
        image[c] += x[i]
    if fractional == 0:
        return
    scale = scale if scale > 0.0 else 1.0
    for j in range(c):
        image[j] /= scale
    w = 0.0
    if at_most:
        w = max(n - float(image[c]), 0.0)

    inverse = np.eye(size)
    basic = np.full(size, -1)
    v = np.empty(size)
    # The slack of "at most n" is entry m, with column (0, 1) and no upper bound. It enters first.
    if w > 1e-9:
        basic[c] = m
    else:
        w = 0.0
    column = np.empty(c)
    order = _interior_first(x, fractional)
    for place in range(fractional):
        e = order[place]
        for j in range(c):
            column[j] = rows[e, j] / scale
        for i in range(size):
            total = inverse[i, c]
            for j in range(c):
                total += inverse[i, j] * column[j]
            v[i] = total
        r = -1
        largest = max(_DEPENDENT, _IMPERCEPTIBLE * span / scale)
        for i in range(size):
            if basic[i] < 0 and abs(v[i]) > largest:
                largest = abs(v[i])
                r = i
        if r >= 0:
            _pivot(inverse, v, r)
            basic[r] = e
            continue
        # Dependent: move e to its nearer bound, basic entries change by -direction * v.
        direction = -1.0 if x[e] <= 0.5 else 1.0
        step = x[e] if x[e] <= 0.5 else 1.0 - x[e]
        for i in range(size):
            if basic[i] < 0 or abs(v[i]) < _UNMOVED:
                continue
            change = -direction * v[i]
            held = w if basic[i] == m else x[basic[i]]
            room = np.inf
            if change < 0.0:
                room = held / -change
            elif basic[i] != m:
                room = (1.0 - held) / change
            if room < step or (room == step and r >= 0 and abs(v[i]) > abs(v[r])):
                step = room
                r = i
        for i in range(size):
            if basic[i] == m:
                w -= direction * v[i] * step
            elif basic[i] >= 0:
                x[basic[i]] = min(max(x[basic[i]] - direction * v[i] * step, 0.0), 1.0)
        if r < 0:
            x[e] = 0.0 if direction < 0.0 else 1.0
        else:
            x[e] += direction * step
            if basic[r] == m:
                w = 0.0
            else:
                x[basic[r]] = 0.0 if -direction * v[r] < 0.0 else 1.0
            _pivot(inverse, v, r)
            basic[r] = e
    # Many small moves add up their rounding. Corrections of the basic entries take it back, while they help.
    error = np.inf
    before = x.copy()
    for _ in range(4):
        for j in range(c):
            v[j] = image[j]
        v[c] = n - w
        for i in range(m):
            if x[i] != 0.0:
                for j in range(c):
                    v[j] -= rows[i, j] / scale * x[i]
                v[c] -= x[i]
        largest = 0.0
        for k in range(size):
            largest = max(largest, abs(v[k]))
        if not largest < error:
            copy_into(x, before)
            break
        error = largest
        copy_into(before, x)
        for i in range(size):
            change = 0.0
            for k in range(size):
                change += inverse[i, k] * v[k]
            if basic[i] == m:
                w = max(w + change, 0.0)
            elif basic[i] >= 0:
                x[basic[i]] = min(max(x[basic[i]] + change, 0.0), 1.0)
    _restore_sum(x, n, at_most)

"""(contributions, logits before, logits after) -> the selection problem in normal form, its value and its bounds.

Contributions C [m, c], one row a path. Adding the paths weighted by x to logits s should give the logits t, or what
comes to the same: their distribution, or each label's, or the values themselves.

    sufficiency   s = logits before,  t = logits after,   rows  C
    necessity     s = logits after,   t = logits before,  rows -C

What is left is D(v0 + B'x), the divergence of the module `outputs`, seen from t:

    softmax    B = C - (C q) 1',   v0 = (s - t) - q.(s - t)     D(v) = log(sum_j q_j e^(v_j))       where q.v = 0
    sigmoids   B = C,              v0 = s - t                   D(v) = sum_j log(b_j e^(-a_j v_j) + a_j e^(b_j v_j))
    squares    B = C / scales,     v0 = (s - t) / scales        D(v) = sum_j v_j^2 / 2

with q = softmax(t), a = sigmoid(t) and b = 1 - a. Everything after this file knows only (B, v0, q, n):

    minimise over x in [0,1]^m, sum x = n (or <= n):   D(v0 + B'x)

D is never computed by a difference. Since q.v = 0, D(v) = log1p(G(v)) with G(v) = sum_j q_j (e^(v_j) - 1 - v_j), a sum
of terms that are never negative: a divergence of 1e-17 nats has as many true digits as one of 1. A sigmoid is a softmax
of two classes with v = (-a v_j, b v_j).

Its dual is the source of every bound reported here. For softmax, D(v) is the least of G(v - k) over all constants k,
and G is convex with the conjugate below. So for any w, with r_j = q_j (e^(w_j) - 1) and sum r = 0,

    optimum >= r.v0 - sum_j q_j (w_j e^(w_j) - e^(w_j) + 1) + S_n(B r),

S_n being the sum of the n smallest entries (for "at most n": of the negative ones among them). q e^w is a
distribution p, the sum is KL(p || q), and r = p - q. Where columns are apart, the conjugate of D at its own slope
r = D'(w) is w.r - D(w), so for any w

    optimum >= r.(v0 - w) + D(w) + S_n(B r).

All terms are of the size of the divergence itself. What rounding may have done to them is bounded too (`rounding_of`)
and taken off, so that the bound holds for the numbers as given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray
from ..compiled import compiled

EPSILON = 2.0**-52
# Below this the series of e^v - 1 - v is used; above it the difference loses less than a digit.
_SMALL = 0.3
# Divergences by their log-partition: one softmax over the columns; and, a column each, a sigmoid or a square.
SOFTMAX, SIGMOIDS, SQUARES = range(3)


class Goal(NamedTuple):
    """What is to be reached, seen from where we start."""

    kind: int  # SOFTMAX, SIGMOIDS or SQUARES
    q: FloatArray  # [c]: the log-partition's gradient at t; probabilities of classes, those of a yes, or t / scales^2
    log_q: FloatArray  # [c]; of squares 0
    no: FloatArray  # [c]: 1 - q of sigmoids; of others empty, like the next
    log_no: FloatArray  # [c]
    scales: FloatArray  # [c]: the units of squares; of others 1
    start: FloatArray  # [c]: v0
    whole: float  # D(v0), the whole change
    size: float  # the largest entry of v0 before it was centred: v0 is known to rounding of this


class Dual(NamedTuple):
    """A point w that proves a bound: there r is the slope of D, and h its curvature, a column each.

    For softmax h is the distribution p = q e^w, and r = p - q.
    """

    w: FloatArray  # [c]
    h: FloatArray  # [c]
    r: FloatArray  # [c]


class Program(NamedTuple):
    """The problem in normal form, as the solvers take it."""

    rows: FloatArray  # [m, c]: B
    goal: Goal
    reach: float  # `total_reach` of the n paths
    n: int
    at_most: bool  # sum x <= n instead of sum x = n


@compiled(inner=True, error_model="numpy")
def copy_into(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """The same as target[:] = source, which takes numba two seconds to compile wherever it is written."""
    for i in range(source.size):
        target[i] = source[i]


@compiled(inner=True, error_model="numpy")
def log_distribution(logits: FloatArray, log_q: FloatArray) -> None:
    """log_q = log softmax(logits). The largest logit goes first, so that logits of 1e19 do not swallow log(2)."""
    top = logits[0]
    for j in range(1, logits.size):
        top = max(top, logits[j])
    total = 0.0
    for j in range(logits.size):
        total += np.exp(logits[j] - top)
    log_total = np.log(total)
    for j in range(logits.size):
        log_q[j] = (logits[j] - top) - log_total


@compiled(inner=True, error_model="numpy")
def excess(v: float) -> float:
    """e^v - 1 - v, to full relative accuracy."""
    if abs(v) < _SMALL:
        s = 1 / 39916800 + v * (1 / 479001600 + v / 6227020800)
        s = 1 / 40320 + v * (1 / 362880 + v * (1 / 3628800 + v * s))
        s = 1 / 120 + v * (1 / 720 + v * (1 / 5040 + v * s))
        return v * v * (1 / 2 + v * (1 / 6 + v * (1 / 24 + v * s)))
    return float(np.exp(v) - 1.0 - v)


@compiled(inner=True, error_model="numpy")
def log_sigmoid(z: float) -> float:
    """log(1 / (1 + e^-z))."""
    return float(min(z, 0.0) - np.log1p(np.exp(-abs(z))))


@compiled(inner=True, error_model="numpy")
def sigmoid(z: float) -> float:
    """1 / (1 + e^-z), to full relative accuracy on either side."""
    e = np.exp(-abs(z))
    return float((1.0 if z >= 0.0 else e) / (1.0 + e))


@compiled(inner=True, error_model="numpy")
def column_remainder(goal: Goal, j: int, v: float) -> float:
    """Column j's part of D(v), where columns are apart."""
    if goal.kind == SQUARES:
        return 0.5 * v * v
    up, down = goal.no[j] * v, -goal.q[j] * v
    # As in `_softmax_remainder`, for the two classes yes and no.
    total = goal.q[j] * excess(up) if up < 600.0 and goal.q[j] > 0.0 else np.exp(min(goal.log_q[j] + up, 100.0))
    total += (
        goal.no[j] * excess(down) if down < 600.0 and goal.no[j] > 0.0 else np.exp(min(goal.log_no[j] + down, 100.0))
    )
    if total < 1e15:
        return float(np.log1p(total))
    high, low = goal.log_q[j] + up, goal.log_no[j] + down
    return float(max(high, low) + np.log1p(np.exp(-abs(high - low))))


@compiled(inner=True, error_model="numpy")
def _softmax_remainder(q: FloatArray, log_q: FloatArray, v: FloatArray) -> float:
    """D(v) of softmax for v with q.v = 0, whatever its size."""
    total = 0.0
    for j in range(v.size):
        # Where e^v leaves the range of floats, or q does, e^(log q + v) is all that counts.
        if v[j] < 600.0 and q[j] > 0.0:
            total += q[j] * excess(v[j])
        else:
            total += np.exp(min(log_q[j] + v[j], 100.0))
    if total < 1e15:
        return float(np.log1p(total))
    top = -np.inf
    for j in range(v.size):
        top = max(top, log_q[j] + v[j])
    total = 0.0
    for j in range(v.size):
        total += np.exp((log_q[j] + v[j]) - top)
    return float(max(0.0, top + np.log(total)))


@compiled(inner=True, error_model="numpy")
def _sum_of_columns(goal: Goal, v: FloatArray) -> float:
    """D(v) where columns are apart."""
    total = 0.0
    for j in range(v.size):
        total += column_remainder(goal, j, v[j])
    return total


@compiled(inner=True, error_model="numpy")
def remainder(goal: Goal, v: FloatArray) -> float:
    """D(v), whatever its size; for softmax q.v must be 0."""
    return _softmax_remainder(goal.q, goal.log_q, v) if goal.kind == SOFTMAX else _sum_of_columns(goal, v)


@compiled(inner=True, error_model="numpy")
def difference(goal: Goal, start: FloatArray, target: FloatArray, shift: FloatArray, v: FloatArray) -> float:
    """v = start + shift - target less its mean under q, or in units of the scales; returns its largest entry before.

    What a logit has in common with the others must not cost digits, be it 1e19. So the rounding errors of the two sums
    are carried along (Knuth's two-sum), and the likeliest class is subtracted first, which is exact where it matters.
    """
    c = v.size
    low = np.empty(c)
    for j in range(c):
        d = start[j] - target[j]
        near = start[j] - d
        low[j] = (start[j] - (d + near)) + (near - target[j])
        v[j] = d + shift[j]
        near = v[j] - d
        low[j] += (d - (v[j] - near)) + (shift[j] - near)
    size = 0.0
    if goal.kind != SOFTMAX:
        for j in range(c):
            v[j] = (v[j] + low[j]) / goal.scales[j]
            size = max(size, abs(v[j]))
        return size
    q = goal.q
    top = np.argmax(q)
    lead, low_lead = v[top], low[top]
    mean = 0.0
    for j in range(c):
        v[j] = (v[j] - lead) + (low[j] - low_lead)
        size = max(size, abs(v[j]))
        mean += q[j] * v[j]
    for j in range(c):
        v[j] -= mean
    return size


@compiled(inner=True, error_model="numpy")
def divergence(goal: Goal, start: FloatArray, target: FloatArray, shift: FloatArray) -> float:
    """D between `target`, which is the goal's, and start + shift, to full relative accuracy however small or large."""
    v = np.empty(start.size)
    difference(goal, start, target, shift, v)
    return remainder(goal, v)


@compiled(inner=True, error_model="numpy")
def find_goal(kind: int, scales: FloatArray, start: FloatArray, target: FloatArray) -> Goal:
    """The goal `target`, seen from `start`."""
    c = start.size
    log_q = np.zeros(c)
    no, log_no = np.empty(0), np.empty(0)
    if kind == SOFTMAX:
        log_distribution(target, log_q)
        q = np.exp(log_q)
    else:
        q = target / scales / scales
    if kind == SIGMOIDS:
        no, log_no = np.empty(c), np.empty(c)
        for j in range(c):
            q[j], log_q[j] = sigmoid(target[j]), log_sigmoid(target[j])
            no[j], log_no[j] = sigmoid(-target[j]), log_sigmoid(-target[j])
    v = np.empty(c)
    goal = Goal(kind, q, log_q, no, log_no, scales, v, 0.0, 0.0)
    size = difference(goal, start, target, np.zeros(c), v)
    return Goal(kind, q, log_q, no, log_no, scales, v, remainder(goal, v), size)


@compiled(inner=True, error_model="numpy")
def unit_of(goal: Goal) -> float:
    """What tolerances are relative to: the whole change; of probabilities a nat at most."""
    return float(goal.whole if goal.kind == SQUARES else min(1.0, goal.whole))


@compiled(inner=True, error_model="numpy")
def normal_rows(goal: Goal, contributions: FloatArray, sign: float, rows: FloatArray, reach: FloatArray) -> None:
    """Write B into `rows` [m, c], and the largest entry of each row before centring into `reach` [m].

    `sign` is -1 for necessity.
    """
    m, c = contributions.shape
    if goal.kind != SOFTMAX:
        for i in range(m):
            largest = 0.0
            for j in range(c):
                rows[i, j] = sign * contributions[i, j] / goal.scales[j]
                largest = max(largest, abs(rows[i, j]))
            reach[i] = largest
        return
    q = goal.q
    top = np.argmax(q)
    for i in range(m):
        # As above: what all classes have in common goes first.
        lead = contributions[i, top]
        mean = 0.0
        for j in range(c):
            mean += q[j] * (contributions[i, j] - lead)
        largest = 0.0
        for j in range(c):
            d = contributions[i, j] - lead
            largest = max(largest, abs(d))
            rows[i, j] = sign * (d - mean)
        reach[i] = largest


@compiled(inner=True, error_model="numpy")
def total_reach(reach: FloatArray, n: int) -> float:
    """More than any n paths together can add to a logit: the scale of the rounding of their sums."""
    total = 0.0
    largest = 0.0
    for i in range(reach.size):
        total += reach[i]
        largest = max(largest, reach[i])
    return min(total, n * largest)


@compiled(inner=True, error_model="numpy")
def empty_dual(c: int) -> Dual:
    """Room for one."""
    return Dual(np.empty(c), np.empty(c), np.empty(c))


@compiled(inner=True, error_model="numpy")
def tilt(goal: Goal, dual: Dual) -> None:
    """Slope r and curvature h of D at w.

    Of softmax they are p - q without subtracting, and p = q e^w; w is moved by a constant so that p sums to 1.
    """
    if goal.kind == SOFTMAX:
        _tilt_softmax(goal, dual)
    else:
        _tilt_columns(goal, dual)


@compiled(inner=True, error_model="numpy")
def _tilt_columns(goal: Goal, dual: Dual) -> None:
    w, h, r = dual.w, dual.h, dual.r
    for j in range(w.size):
        if goal.kind == SQUARES:
            h[j] = 1.0
            r[j] = w[j]
            continue
        # With u the tilted logit, r = sigmoid(u) - sigmoid(u - w): of the less likely of yes and no, where w is not
        # small, or without subtracting, where it is.
        u = goal.log_q[j] - goal.log_no[j] + w[j]
        rare, likely = sigmoid(-abs(u)), sigmoid(abs(u))
        h[j] = rare * likely
        if abs(w[j]) < _SMALL:
            grown = w[j] + excess(w[j])
            r[j] = goal.q[j] * goal.no[j] * grown / (1.0 + goal.q[j] * grown)
        else:
            r[j] = goal.no[j] - rare if u > 0.0 else rare - goal.q[j]


@compiled(inner=True, error_model="numpy")
def _tilt_softmax(goal: Goal, dual: Dual) -> None:
    w, p, r = dual.w, dual.h, dual.r
    c = w.size
    top = -np.inf
    for j in range(c):
        top = max(top, goal.log_q[j] + w[j])
    if not -1.0 - np.log(c) <= top <= 1.0:
        for j in range(c):
            w[j] -= top
    total = 0.0
    for j in range(c):
        if abs(w[j]) < _SMALL:
            r[j] = goal.q[j] * (w[j] + excess(w[j]))
            p[j] = goal.q[j] + r[j]
        else:
            p[j] = np.exp(goal.log_q[j] + w[j])
            r[j] = p[j] - goal.q[j]
        total += r[j]
    factor = -total / (1.0 + total)
    norm = np.log1p(total)
    for j in range(c):
        w[j] -= norm
        r[j] += p[j] * factor
        p[j] += p[j] * factor


@compiled(inner=True, error_model="numpy")
def fixed_part(goal: Goal, dual: Dual) -> float:
    """The part of the dual value that does not depend on the paths: r.v0 - KL(p || q), or r.(v0 - w) + D(w)."""
    w, r = dual.w, dual.r
    value = 0.0
    if goal.kind != SOFTMAX:
        for j in range(w.size):
            value += r[j] * (goal.start[j] - w[j])
        return value + _sum_of_columns(goal, w)
    for j in range(w.size):
        # w e^w - e^w + 1 = w (e^w - 1) - (e^w - 1 - w); away from 0 the last term is (r - q w) / q. Near the solution
        # v0 and w differ by what the paths do, and that can be much less than either.
        value += r[j] * (goal.start[j] - w[j])
        value += goal.q[j] * excess(w[j]) if abs(w[j]) < _SMALL else r[j] - goal.q[j] * w[j]
    return value


@compiled(inner=True, error_model="numpy")
def minority(goal: Goal, h: FloatArray) -> float:
    """How much D can bend: the curvatures of all columns; of classes the probability of all but the likeliest."""
    top = np.argmax(h) if goal.kind == SOFTMAX else -1
    total = 0.0
    for j in range(h.size):
        if j != top:
            total += h[j]
    return total


@compiled(inner=True, error_model="numpy")
def rounding_of(goal: Goal, dual: Dual, reach: float) -> float:
    """More than rounding can have changed the dual value by; `reach` is `total_reach` of the paths.

    The value is taken to be that of r as it is. Then v0 is off by rounding of its own size; KL(p || q) by that of log q
    and w, which counts p times where it is the logarithm itself that counts, and in proportion near q; and the prices
    and the sums of c terms by rounding of what is summed. D(w) of a sigmoid is a logarithm of 1 + G, whose terms are
    off by rounding of their exponents. The factors leave room.
    """
    w, r = dual.w, dual.r
    terms = 0.0
    sizes = 0.0
    for j in range(w.size):
        terms += abs(r[j]) * (reach + abs(goal.start[j] - w[j]))
        sizes += abs(r[j]) * goal.size
        if goal.kind != SOFTMAX:
            part = column_remainder(goal, j, w[j])
            terms += part
            if goal.kind == SIGMOIDS:
                exponents = 1.0 + abs(w[j]) + abs(goal.log_q[j]) + abs(goal.log_no[j])
                sizes += min(1.0, np.expm1(part)) * exponents
        elif abs(w[j]) < _SMALL:
            terms += abs(w[j] * r[j])
            sizes += abs(goal.log_q[j] * w[j] * r[j])
        elif r[j] != 0.0 or goal.q[j] != 0.0:
            terms += abs(r[j]) + goal.q[j] * abs(w[j])
            sizes += (1.0 + abs(goal.log_q[j]) + abs(w[j])) * (r[j] + 2.0 * goal.q[j])
    return EPSILON * ((16.0 + 2.0 * w.size) * terms + 4.0 * sizes)


@compiled(inner=True, error_model="numpy")
def price_rows(rows: FloatArray, r: FloatArray, prices: FloatArray) -> None:
    """One pass over B: prices = B r, the slope of the objective along each path's weight."""
    m, c = rows.shape
    for i in range(m):
        total = 0.0
        for j in range(c):
            total += rows[i, j] * r[j]
        prices[i] = total


@compiled(inner=True, error_model="numpy")
def resolution_of(goal: Goal, before: FloatArray, after: FloatArray) -> float:
    """The divergence that rounding the logits themselves may make: below it a change means nothing.

    If every logit moves by at most d, the distribution moves by at most d^2 / 2 nats, and by at most 2 d. Where one
    class has nearly all of the probability it moves by less: D(v) <= G(v - k) for any constant k, also the move of
    that class, and then only the others count. The curvature of a sigmoid is at most 1/4, and grows by at most e^d.
    """
    if goal.kind != SOFTMAX:
        total = 0.0
        for j in range(before.size):
            d = 4.0 * EPSILON * max(abs(before[j]), abs(after[j])) / goal.scales[j]
            if goal.kind == SQUARES:
                total += 0.5 * d * d
            else:
                bend = goal.q[j] * goal.no[j] * np.exp(min(d, 700.0))
                total += min(0.5 * d * d * min(0.25, bend), d)
        return total
    largest = 0.0
    for j in range(before.size):
        largest = max(largest, max(abs(before[j]), abs(after[j])))
    d = 4.0 * EPSILON * largest
    return float(min(min(0.5 * d * d, 2.0 * d), minority(goal, goal.q) * 2.0 * d * d * np.exp(min(2.0 * d, 700.0))))

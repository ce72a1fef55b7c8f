"""(contributions, logits before, logits after) -> the selection problem in normal form, its value and its bounds.

Contributions C [m, c], one row a path. Adding the paths weighted by x to logits s should give the
distribution q = softmax(t):

    sufficiency   s = logits before,  t = logits after,   rows  C
    necessity     s = logits after,   t = logits before,  rows -C

    KL(q || softmax(s + C'x)) = D(v0 + B'x)     with  B  = C - (C q) 1',    v0 = (s - t) - q.(s - t),
                                                      D(v) = log(sum_j q_j e^(v_j))    where q.v = 0

Everything after this file knows only (B, v0, q, n):

    minimise over x in [0,1]^m, sum x = n (or <= n):   D(v0 + B'x)

D is never computed by a difference. Since q.v = 0, D(v) = log1p(G(v)) with G(v) = sum_j q_j (e^(v_j) - 1 - v_j), a sum
of terms that are never negative: a divergence of 1e-17 nats has as many true digits as one of 1.

Its dual is the source of every bound reported here. D(v) is the least of G(v - k) over all constants k, and G is convex
with the conjugate below. So for any w, with r_j = q_j (e^(w_j) - 1) and sum r = 0,

    optimum >= r.v0 - sum_j q_j (w_j e^(w_j) - e^(w_j) + 1) + S_n(B r),

S_n being the sum of the n smallest entries (for "at most n": of the negative ones among them). q e^w is a
distribution p, the sum is KL(p || q), and r = p - q. All terms are of the size of the divergence itself. What rounding
may have done to them is bounded too (`rounding_of`) and taken off, so that the bound holds for the numbers as given.
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


class Goal(NamedTuple):
    """What is to be reached: a distribution, seen from where we start."""

    q: FloatArray  # [c]
    log_q: FloatArray  # [c]
    start: FloatArray  # [c]: v0
    whole: float  # D(v0), the whole change
    size: float  # the largest entry of v0 before it was centred: v0 is known to rounding of this


class Dual(NamedTuple):
    """A point that proves a bound: the distribution p = q e^w, and r = p - q."""

    w: FloatArray  # [c]
    p: FloatArray  # [c]
    r: FloatArray  # [c]


class Program(NamedTuple):
    """The problem in normal form, as the solvers take it."""

    rows: FloatArray  # [m, c]: B
    goal: Goal
    reach: float  # `total_reach` of the n paths
    n: int
    at_most: bool  # sum x <= n instead of sum x = n


@compiled(error_model="numpy")
def copy_into(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """The same as target[:] = source, which takes numba two seconds to compile wherever it is written."""
    for i in range(source.size):
        target[i] = source[i]


@compiled(error_model="numpy")
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


@compiled(error_model="numpy")
def excess(v: float) -> float:
    """e^v - 1 - v, to full relative accuracy."""
    if abs(v) < _SMALL:
        s = 1 / 39916800 + v * (1 / 479001600 + v / 6227020800)
        s = 1 / 40320 + v * (1 / 362880 + v * (1 / 3628800 + v * s))
        s = 1 / 120 + v * (1 / 720 + v * (1 / 5040 + v * s))
        return v * v * (1 / 2 + v * (1 / 6 + v * (1 / 24 + v * s)))
    return float(np.exp(v) - 1.0 - v)


@compiled(error_model="numpy")
def remainder(q: FloatArray, log_q: FloatArray, v: FloatArray) -> float:
    """D(v) for v with q.v = 0, whatever its size."""
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


@compiled(error_model="numpy")
def difference(q: FloatArray, start: FloatArray, target: FloatArray, shift: FloatArray, v: FloatArray) -> float:
    """v = start + shift - target less its mean under q; returns its largest entry before the mean is subtracted.

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
    top = np.argmax(q)
    lead, low_lead = v[top], low[top]
    size = 0.0
    mean = 0.0
    for j in range(c):
        v[j] = (v[j] - lead) + (low[j] - low_lead)
        size = max(size, abs(v[j]))
        mean += q[j] * v[j]
    for j in range(c):
        v[j] -= mean
    return size


@compiled(error_model="numpy")
def divergence(start: FloatArray, target: FloatArray, shift: FloatArray) -> float:
    """KL(softmax(target) || softmax(start + shift)), to full relative accuracy however small or large."""
    log_q = np.empty(start.size)
    log_distribution(target, log_q)
    q = np.exp(log_q)
    v = np.empty(start.size)
    difference(q, start, target, shift, v)
    return remainder(q, log_q, v)


@compiled(error_model="numpy")
def normal_form(
    contributions: FloatArray,
    before: FloatArray,
    after: FloatArray,
    necessity: bool,
    rows: FloatArray,
    reach: FloatArray,
) -> Goal:
    """Write B into `rows` [m, c], the largest entry of each row before centring into `reach` [m]; return the goal."""
    m, c = contributions.shape
    start, target, sign = (after, before, -1.0) if necessity else (before, after, 1.0)
    log_q = np.empty(c)
    log_distribution(target, log_q)
    q = np.exp(log_q)
    v = np.empty(c)
    size = difference(q, start, target, np.zeros(c), v)
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
    return Goal(q, log_q, v, remainder(q, log_q, v), size)


@compiled(error_model="numpy")
def total_reach(reach: FloatArray, n: int) -> float:
    """More than any n paths together can add to a logit: the scale of the rounding of their sums."""
    total = 0.0
    largest = 0.0
    for i in range(reach.size):
        total += reach[i]
        largest = max(largest, reach[i])
    return min(total, n * largest)


@compiled(error_model="numpy")
def empty_dual(c: int) -> Dual:
    """Room for one."""
    return Dual(np.empty(c), np.empty(c), np.empty(c))


@compiled(error_model="numpy")
def tilt(goal: Goal, dual: Dual) -> None:
    """p = q e^w and r = p - q, the latter without subtracting; w is moved by a constant so that p sums to 1."""
    w, p, r = dual.w, dual.p, dual.r
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


@compiled(error_model="numpy")
def fixed_part(goal: Goal, dual: Dual) -> float:
    """The part of the dual value that does not depend on the paths: r.v0 - KL(p || q)."""
    w, r = dual.w, dual.r
    value = 0.0
    for j in range(w.size):
        # w e^w - e^w + 1 = w (e^w - 1) - (e^w - 1 - w); away from 0 the last term is (r - q w) / q. Near the solution
        # v0 and w differ by what the paths do, and that can be much less than either.
        value += r[j] * (goal.start[j] - w[j])
        value += goal.q[j] * excess(w[j]) if abs(w[j]) < _SMALL else r[j] - goal.q[j] * w[j]
    return value


@compiled(error_model="numpy")
def minority(p: FloatArray) -> float:
    """The probability of all classes but the likeliest: how much the distribution can move at all."""
    top = np.argmax(p)
    total = 0.0
    for j in range(p.size):
        if j != top:
            total += p[j]
    return total


@compiled(error_model="numpy")
def rounding_of(goal: Goal, dual: Dual, reach: float) -> float:
    """More than rounding can have changed the dual value by; `reach` is `total_reach` of the paths.

    The value is taken to be that of r as it is. Then v0 is off by rounding of its own size; KL(p || q) by that of log q
    and w, which counts p times where it is the logarithm itself that counts, and in proportion near q; and the prices
    and the sums of c terms by rounding of what is summed. The factors leave room.
    """
    w, r = dual.w, dual.r
    terms = 0.0
    sizes = 0.0
    for j in range(w.size):
        terms += abs(r[j]) * (reach + abs(goal.start[j] - w[j]))
        sizes += abs(r[j]) * goal.size
        if abs(w[j]) < _SMALL:
            terms += abs(w[j] * r[j])
            sizes += abs(goal.log_q[j] * w[j] * r[j])
        elif r[j] != 0.0 or goal.q[j] != 0.0:
            terms += abs(r[j]) + goal.q[j] * abs(w[j])
            sizes += (1.0 + abs(goal.log_q[j]) + abs(w[j])) * (r[j] + 2.0 * goal.q[j])
    return EPSILON * ((16.0 + 2.0 * w.size) * terms + 4.0 * sizes)


@compiled(error_model="numpy")
def price_rows(rows: FloatArray, r: FloatArray, prices: FloatArray) -> None:
    """One pass over B: prices = B r, the slope of the objective along each path's weight."""
    m, c = rows.shape
    for i in range(m):
        total = 0.0
        for j in range(c):
            total += rows[i, j] * r[j]
        prices[i] = total


@compiled(error_model="numpy")
def resolution_of(goal: Goal, before: FloatArray, after: FloatArray) -> float:
    """The divergence that rounding the logits themselves may make: below it a change means nothing.

    If every logit moves by at most d, the distribution moves by at most d^2 / 2 nats, and by at most 2 d. Where one
    class has nearly all of the probability it moves by less: D(v) <= G(v - k) for any constant k, also the move of
    that class, and then only the others count.
    """
    largest = 0.0
    for j in range(before.size):
        largest = max(largest, max(abs(before[j]), abs(after[j])))
    d = 4.0 * EPSILON * largest
    return float(min(min(0.5 * d * d, 2.0 * d), minority(goal.q) * 2.0 * d * d * np.exp(min(2.0 * d, 700.0))))

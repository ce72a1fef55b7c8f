"""Normal form -> an optimal x of the relaxation, and a dual point that proves it.

    minimise over x in [0,1]^m, sum x + y = n:   D(v0 + B'x)               (y = 0, or y >= 0 for "at most n")

A primal-dual interior-point method. Optimality, with p = q e^w and multipliers nu for the sum and l, u for the box:

    B p - nu - l + u = 0,    -nu - l_y = 0,    w = v0 + B'x - theta,    sum p = 1,
    l x = mu,  u (1 - x) = mu,  l_y y = mu,    mu -> 0

The logarithms w of the class probabilities are kept as variables of their own, and each Newton step linearises w, not
the softmax: with logits of 1e4 the softmax is a step function, whose linearisation says nothing, while w is linear.
They are kept relative to q, the distribution to be reached, so that nothing cancels when the change is tiny: all
numbers are then tiny together, and every tolerance is relative to the whole change. Eliminating all but p leaves a c by
c system, so an iteration costs about c/2 passes over B.
Where columns are apart, r = D'(w) takes the place of p and the curvature h of D that of dp/dw = p; no sum of r is
prescribed, so that theta = 0.
The method stops on a certificate, not on residuals: x gives an upper and p a lower bound on the same optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray
from ..compiled import compiled
from .objective import (
    EPSILON,
    SIGMOIDS,
    SOFTMAX,
    Dual,
    Program,
    copy_into,
    fixed_part,
    minority,
    remainder,
    tilt,
    unit_of,
)
from .smallest import kth_smallest

# Sums may be reassociated, so that they run in vector registers. The order is fixed by the length of the sum
# alone, never by what else is being solved: the same problem gives the same bits.
_VECTOR = {"reassoc", "contract"}
# Ordinary problems take 10 to 25 iterations. One that takes more gets shorter and more central steps.
ORDINARY = 30
_ITERATIONS = 150
_MAXIMUM = {"reassoc", "contract", "nnan", "nsz"}


class System(NamedTuple):
    """What is left of a Newton step when all but p is eliminated."""

    centre: FloatArray  # [c]
    centred: FloatArray  # [c, m]
    matrix: FloatArray  # [c, c], its lower triangle


@compiled(inner=True, error_model="numpy")
def factor(matrix: FloatArray) -> None:
    """Cholesky in place, lower triangle.

    Written out, because it has as many rows as there are classes: LAPACK through numba took 2 to 10 times as long up to
    16 of them (and a third at 64), and raises on a pivot that rounding made negative, where a tiny one serves here.
    """
    c = matrix.shape[0]
    for j in range(c):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= matrix[j, k] * matrix[j, k]
        pivot = np.sqrt(max(pivot, 1e-30))
        matrix[j, j] = pivot
        for i in range(j + 1, c):
            value = matrix[i, j]
            for k in range(j):
                value -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = value / pivot


@compiled(inner=True, error_model="numpy")
def solve_factored(lower: FloatArray, b: FloatArray) -> None:
    """Overwrite b with the solution of (L L') v = b."""
    c = b.size
    for i in range(c):
        value = b[i]
        for k in range(i):
            value -= lower[i, k] * b[k]
        b[i] = value / lower[i, i]
    for i in range(c - 1, -1, -1):
        value = b[i]
        for k in range(i + 1, c):
            value -= lower[k, i] * b[k]
        b[i] = value / lower[i, i]


@compiled(inner=True, error_model="numpy", fastmath=_MAXIMUM)
def _primal_ratio(dx: FloatArray, inv_x: FloatArray, inv_room: FloatArray) -> float:
    """The largest relative fall of x or 1 - x in a full step, at least 1."""
    ratio = 1.0
    for i in range(dx.size):
        ratio = max(ratio, max(-dx[i] * inv_x[i], dx[i] * inv_room[i]))
    return ratio


@compiled(inner=True, error_model="numpy", fastmath=_MAXIMUM)
def _dual_ratio(low: FloatArray, d_low: FloatArray, high: FloatArray, d_high: FloatArray) -> float:
    """The largest relative fall of a multiplier in a full step, at least 1."""
    ratio = 1.0
    for i in range(low.size):
        ratio = max(ratio, max(-d_low[i] / low[i], -d_high[i] / high[i]))
    return ratio


@compiled(inner=True, error_model="numpy", fastmath=_VECTOR)
def weigh_columns(columns: FloatArray, x: FloatArray, offset: FloatArray, v: FloatArray) -> None:
    """v = offset + B'x."""
    for j in range(v.size):
        total = 0.0
        for i in range(x.size):
            total += columns[j, i] * x[i]
        v[j] = offset[j] + total


@compiled(inner=True, error_model="numpy", fastmath=_VECTOR)
def price_columns(columns: FloatArray, p: FloatArray, prices: FloatArray) -> None:
    """prices = B p."""
    for i in range(prices.size):
        prices[i] = columns[0, i] * p[0]
    for j in range(1, p.size):
        for i in range(prices.size):
            prices[i] += columns[j, i] * p[j]


@compiled(inner=True, error_model="numpy", fastmath=_VECTOR)
def normal_matrix(columns: FloatArray, inv_d: FloatArray, slack: float, system: System, scaled: FloatArray) -> float:
    """matrix = sum of d (B_i - centre)(B_i - centre)', centre being the rows' mean under d; returns sum d.

    Centring eliminates the sum constraint without subtracting large numbers afterwards. `scaled` [m] is overwritten.
    """
    c, m = columns.shape
    centre, centred, matrix = system.centre, system.centred, system.matrix
    weight = slack
    for i in range(m):
        weight += inv_d[i]
    for j in range(c):
        total = 0.0
        for i in range(m):
            total += inv_d[i] * columns[j, i]
        centre[j] = total / weight
        for i in range(m):
            centred[j, i] = columns[j, i] - centre[j]
    for j in range(c):
        for i in range(m):
            scaled[i] = inv_d[i] * centred[j, i]
        for k in range(j + 1):
            total = slack * centre[j] * centre[k]
            for i in range(m):
                total += scaled[i] * centred[k, i]
            matrix[j, k] = total
    return weight


@compiled(inner=True, error_model="numpy")
def _follow(u: float, t: float) -> float:
    """How far a logit u moves in a step of t: the rarer of yes and no falls in u, and rises in its probability."""
    if u * t >= 0.0:
        return t
    way = min(max(np.log1p(abs(t)), abs(u) - 3.0), abs(t))
    return float(way if t > 0.0 else -way)


@compiled(inner=True, error_model="numpy", fastmath=_VECTOR)
def solve_relaxation(
    program: Program, x: FloatArray, w: FloatArray, tolerance: float, warm: bool
) -> tuple[float, float, float, int]:
    """Fill x [m] and w [c]; return the threshold nu, the value, the bound and the iterations.

    Stops where value and bound differ by less than `tolerance` of the change, or by no more than rounding explains.

    Sigmoids are given up where they take longer than most.

    Needs 0 < n < m, or 0 < n <= m for "at most n". With `warm`, x comes in as a point to start near.
    """
    rows, goal, n, at_most = program.rows, program.goal, program.n, program.at_most
    m, c = rows.shape
    p = np.empty(c)
    r = np.empty(c)
    point = Dual(w, p, r)
    share = n / m
    if at_most:
        share *= 0.5
    if warm:
        total = 0.0
        for i in range(m):
            total += x[i]
        fill = share * m / max(total, 1e-300)
        for i in range(m):
            x[i] = 0.5 * share + 0.5 * min(1.0, x[i] * fill)
        # Clipping at 1 loses weight; give it back evenly so that the sum is right from the start.
        total = 0.0
        for i in range(m):
            total += x[i]
        for i in range(m):
            x[i] += (1.0 - x[i]) * (share * m - total) / (m - total)
    else:
        x[:] = share
    y = n - share * m if at_most else 0.0

    columns = np.empty((c, m))
    for i in range(m):
        for j in range(c):
            columns[j, i] = rows[i, j]
    centred = np.empty((c, m))
    room = 1.0 - x
    prices = np.empty(m)
    low = np.empty(m)
    high = np.empty(m)
    inv_d = np.empty(m)
    inv_x = np.empty(m)
    inv_room = np.empty(m)
    b = np.empty(m)
    dx = np.empty(m)
    step = np.empty(m)
    d_low = np.empty(m)
    d_high = np.empty(m)
    v = np.empty(c)
    centre = np.empty(c)
    matrix = np.empty((c, c))
    system = System(centre, centred, matrix)
    root_p = np.empty(c)
    ones = np.empty(c)
    dp = np.empty(c)
    residual = np.empty(c)
    growth = np.empty(c)
    zeros = np.zeros(c)
    ahead_v = np.empty(c)
    best_w = np.empty(c)
    best_x = x.copy()

    weigh_columns(columns, x, goal.start, v)
    copy_into(w, v)
    tilt(goal, point)
    price_columns(columns, r, prices)
    copy_into(b, prices)
    nu = kth_smallest(b, n - 1)
    if n < m:
        nu = 0.5 * (nu + kth_smallest(b, n))
    spread = 0.0
    for i in range(m):
        spread += abs(prices[i] - nu)
    unit = unit_of(goal)
    spread = max(spread / m, 1e-12 * unit, 1e-300)
    if at_most:
        nu = min(nu, -0.1 * spread)
    mu = spread * share * (1.0 - share)
    for i in range(m):
        low[i] = max(prices[i] - nu, 0.0) + mu / x[i]
        high[i] = max(nu - prices[i], 0.0) + mu / room[i]
    low_y = max(-nu, mu / y) if at_most else 0.0
    pairs = 2 * m + (1 if at_most else 0)

    grain = 4.0 * EPSILON * (goal.size + program.reach)
    best_value = np.inf
    best_bound = -np.inf
    best_nu = nu
    iteration = 0
    last = ORDINARY if goal.kind == SIGMOIDS else _ITERATIONS
    while True:
        # Certificate at the current point; the best of each side is kept.
        weigh_columns(columns, x, goal.start, v)
        value = remainder(goal, v)
        price_columns(columns, r, prices)
        cut = min(nu, 0.0) if at_most else nu
        bound = fixed_part(goal, point) + n * cut
        total = y
        mu = low_y * y
        for i in range(m):
            bound += min(prices[i] - cut, 0.0)
            total += x[i]
            mu += low[i] * x[i] + high[i] * room[i]
        mu /= pairs
        if not np.isfinite(value + bound):
            break
        if bound > best_bound:
            best_bound = bound
            best_nu = cut
            copy_into(best_w, w)
        if value < best_value:
            best_value = value
            copy_into(best_x, x)
        noise = 0.0
        for j in range(c):
            noise += abs(r[j])
        noise = grain * (noise + grain * minority(goal, p))
        enough = max(tolerance * max(unit, best_value), noise)
        if best_value - max(best_bound, 0.0) <= enough or iteration == last:
            break
        iteration += 1

        for i in range(m):
            inv_x[i] = 1.0 / x[i]
            inv_room[i] = 1.0 / room[i]
            inv_d[i] = 1.0 / (low[i] * inv_x[i] + high[i] * inv_room[i])
        slack = y / low_y if at_most else 0.0
        weight = normal_matrix(columns, inv_d, slack, system, step)
        theta = 0.0
        for j in range(c):
            root_p[j] = np.sqrt(p[j])
            if goal.kind == SOFTMAX:
                theta += p[j] * (v[j] - w[j])
        for j in range(c):
            for k in range(j + 1):
                matrix[j, k] *= root_p[j] * root_p[k]
            matrix[j, j] += 1.0
            residual[j] = v[j] - w[j] - theta
        factor(matrix)
        copy_into(ones, root_p)
        solve_factored(matrix, ones)
        ones_norm = 0.0
        for j in range(c):
            ones_norm += root_p[j] * ones[j]

        # Predictor (mu -> 0), then corrector with Mehrotra's second-order term and centring.
        target = 0.0
        dy = 0.0
        d_low_y = 0.0
        d_nu = 0.0
        primal = 1.0
        dual = 1.0
        for phase in range(2):
            if phase == 0:
                for i in range(m):
                    b[i] = nu - prices[i]
                    step[i] = inv_d[i] * b[i]
            else:
                for i in range(m):
                    d_low[i] = target - dx[i] * d_low[i]
                    d_high[i] = target + dx[i] * d_high[i]
                    b[i] = nu - prices[i] + d_low[i] * inv_x[i] - d_high[i] * inv_room[i]
                    step[i] = inv_d[i] * b[i]
            b_y = nu + (target - dy * d_low_y) / y if at_most else 0.0
            pull = slack * b_y
            for i in range(m):
                pull += step[i]
            weigh_columns(centred, step, residual, dp)
            for j in range(c):
                dp[j] = root_p[j] * (dp[j] - centre[j] * (slack * b_y + total - n))
            solve_factored(matrix, dp)
            d_theta = 0.0
            for j in range(c):
                d_theta += root_p[j] * dp[j]
            d_theta = d_theta / ones_norm if goal.kind == SOFTMAX else 0.0
            lift = -(total - n + pull) / weight
            d_nu = lift
            for j in range(c):
                dp[j] = root_p[j] * (dp[j] - d_theta * ones[j])
                d_nu += centre[j] * dp[j]
            price_columns(centred, dp, step)
            for i in range(m):
                step[i] = inv_d[i] * (b[i] + lift - step[i])
            if phase == 0:
                for i in range(m):
                    d_low[i] = -low[i] - low[i] * step[i] * inv_x[i]
                    d_high[i] = -high[i] + high[i] * step[i] * inv_room[i]
            else:
                for i in range(m):
                    d_low[i] = (d_low[i] - low[i] * step[i]) * inv_x[i] - low[i]
                    d_high[i] = (d_high[i] + high[i] * step[i]) * inv_room[i] - high[i]
            copy_into(dx, step)
            primal = _primal_ratio(dx, inv_x, inv_room)
            dual = _dual_ratio(low, d_low, high, d_high)
            if at_most:
                change = slack * (b_y + d_nu)
                d_low_y = (target - dy * d_low_y - low_y * change) / y - low_y
                dy = change
                primal = max(primal, -dy / y)
                dual = max(dual, -d_low_y / low_y)
            primal = 1.0 / primal
            dual = 1.0 / dual
            if phase == 0:
                ahead = (low_y + dual * d_low_y) * (y + primal * dy)
                for i in range(m):
                    ahead += (low[i] + dual * d_low[i]) * (x[i] + primal * dx[i])
                    ahead += (high[i] + dual * d_high[i]) * (room[i] - primal * dx[i])
                ratio = max(ahead, 0.0) / (pairs * mu)
                # mu must not outrun the divergence itself: a class of small probability loses one unit of
                # w a step, however small mu is, and with mu -> 0 early the system would turn singular.
                floor = (value - max(bound, 0.0)) / pairs
                target = max(mu * ratio * ratio * ratio, min(0.01 * floor, mu))
                # Stuck at a bound with mu far below the gap: centre again, and keep away from the bounds.
                if iteration > ORDINARY:
                    target = max(target, 0.3 * floor)
        keep = max(0.99, 1.0 - mu / max(unit, 1e-300)) if iteration <= ORDINARY else 0.9
        alpha = min(1.0, keep * min(primal, dual))
        weigh_columns(columns, dx, zeros, growth)
        # A class of no probability has no curvature, and the step may run far into its reign. Centring may
        # raise the objective by no more than the complementarity gap; a longer step is cut back.
        for _ in range(20):
            for j in range(c):
                ahead_v[j] = v[j] + alpha * growth[j]
            if remainder(goal, ahead_v) <= value + pairs * mu:
                break
            alpha *= 0.6
        for i in range(m):
            x[i] += alpha * dx[i]
            room[i] -= alpha * dx[i]
            low[i] += alpha * d_low[i]
            high[i] += alpha * d_high[i]
        y += alpha * dy
        low_y += alpha * d_low_y
        nu += alpha * d_nu
        # growth = dp / p. Falling classes fall in w; rising ones rise in p, once they are of any size.
        for j in range(c):
            t = alpha * (growth[j] + residual[j] - d_theta)
            if goal.kind == SOFTMAX and t > 0.0:
                w[j] = max(w[j] + np.log1p(t), min(w[j] + t, -3.0 - goal.log_q[j]))
            elif goal.kind == SIGMOIDS:
                w[j] += _follow(goal.log_q[j] - goal.log_no[j] + w[j], t)
            else:
                w[j] += t
        tilt(goal, point)
    copy_into(x, best_x)
    copy_into(w, best_w)
    return best_nu, best_value, best_bound, iteration

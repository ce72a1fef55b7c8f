"""Normal form of sigmoids + a point to start from -> an optimal x of the relaxation, where `interior` cycles.

    minimise over x in [0,1]^m, sum x + y = n:   D(v0 + B'x)               (y = 0, or y >= 0 for "at most n")

Sigmoids of logits of thousands are steps, one a label, and a method whose dual point has a way of its own may run from
one side of a step to the other and back for ever. So here w = v0 + B'x always, and each step is one of Newton's on

    D(v0 + B'x) - mu sum (log x + log(1 - x)) - mu log y,        mu -> 0,

which is convex and falls with every step, so that nothing cycles. Its multipliers are kept near those of the barrier:
within a factor of ten they may be what the last step made of them, which is what makes the last steps fast.
"""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray
from ..compiled import compiled
from .interior import System, factor, normal_matrix, price_columns, solve_factored, weigh_columns
from .objective import EPSILON, Dual, Program, copy_into, fixed_part, minority, remainder, tilt, unit_of
from .smallest import kth_smallest

_STEPS = 150
_SMALLER = 0.2  # mu, after a step of more than half of its length
_NEAR = 10.0


@compiled(inner=True, error_model="numpy")
def _barrier(x: FloatArray, room: FloatArray, dx: FloatArray, y: float, alpha: float) -> float:
    """Minus the logarithms of x + alpha dx, of room - alpha dx, and of y unless it is 0."""
    total = -np.log(y) if y > 0.0 else 0.0
    for i in range(x.size):
        total -= np.log((x[i] + alpha * dx[i]) * (room[i] - alpha * dx[i]))
    return float(total)


@compiled(inner=True, error_model="numpy")
def descend_barrier(
    program: Program, x: FloatArray, point: Dual, tolerance: float, bound: float
) -> tuple[float, float, float, int]:
    """As `solve_relaxation`, whose x [m], and the bound that it found, come in."""
    rows, goal, n, at_most = program.rows, program.goal, program.n, program.at_most
    w, h, r = point.w, point.h, point.r
    m, c = rows.shape
    pairs = 2 * m + (1 if at_most else 0)
    share = n / m * (0.5 if at_most else 1.0)
    y = 0.0
    if at_most:
        y = float(n)
    for i in range(m):
        x[i] = 0.9 * x[i] + 0.1 * share
        if at_most:
            y -= x[i]
    y = max(y, 0.05 * n) if at_most else 0.0
    room = 1.0 - x
    columns = rows.T.copy()
    system = System(np.empty(c), np.empty((c, m)), np.empty((c, c)))
    centre, matrix = system.centre, system.matrix
    prices, step, inv_d, b, dx = np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    low, high = np.zeros(m), np.zeros(m)
    low_y, dy = 0.0, 0.0
    root, dr, growth, ahead = np.empty(c), np.empty(c), np.empty(c), np.empty(c)
    best_x, best_w = x.copy(), np.zeros(c)
    best_value, best_bound, best_nu = np.inf, -np.inf, 0.0
    grain = 4.0 * EPSILON * (goal.size + program.reach)
    mu, steps = -1.0, 0
    while True:
        weigh_columns(columns, x, goal.start, w)
        value = remainder(goal, w)
        tilt(goal, point)
        price_columns(columns, r, prices)
        copy_into(b, prices)
        nu = kth_smallest(b, n - 1)
        if at_most:
            nu = min(nu, 0.0)
        proved = fixed_part(goal, point) + n * nu
        noise = 0.0
        for i in range(m):
            proved += min(prices[i] - nu, 0.0)
        for j in range(c):
            noise += abs(r[j])
        if not np.isfinite(value + proved):
            break
        if proved > best_bound:
            best_bound, best_nu = proved, nu
            copy_into(best_w, w)
        if value < best_value:
            best_value = value
            copy_into(best_x, x)
        noise = grain * (noise + grain * minority(goal, h))
        enough = max(tolerance * max(unit_of(goal), best_value), noise)
        if best_value - max(best_bound, 0.0) <= enough or steps == _STEPS:
            break
        steps += 1
        if mu < 0.0:
            mu = 0.3 * (value - max(bound, best_bound, 0.0)) / pairs

        total = y
        for i in range(m):
            total += x[i]
            if steps == 1:
                low[i], high[i] = mu / x[i], mu / room[i]
            low[i] = min(max(low[i], mu / x[i] / _NEAR), mu / x[i] * _NEAR)
            high[i] = min(max(high[i], mu / room[i] / _NEAR), mu / room[i] * _NEAR)
            inv_d[i] = 1.0 / (low[i] / x[i] + high[i] / room[i])
            b[i] = nu - prices[i] + mu / x[i] - mu / room[i]
        slack, pull_y = 0.0, 0.0
        if at_most:
            low_y = mu / y if steps == 1 else min(max(low_y, mu / y / _NEAR), mu / y * _NEAR)
            slack = y / low_y
            pull_y = slack * (nu + mu / y)
        weight = normal_matrix(columns, inv_d, slack, system, step)
        for j in range(c):
            root[j] = np.sqrt(h[j])
        for j in range(c):
            for k in range(j + 1):
                matrix[j, k] *= root[j] * root[k]
            matrix[j, j] += 1.0
        factor(matrix)
        pull = pull_y
        for i in range(m):
            step[i] = inv_d[i] * b[i]
            pull += step[i]
        for j in range(c):
            dr[j] = 0.0
        weigh_columns(system.centred, step, dr, growth)
        for j in range(c):
            dr[j] = root[j] * (growth[j] - centre[j] * (pull_y + total - n))
        solve_factored(matrix, dr)
        lift = -(total - n + pull) / weight
        d_nu = lift
        for j in range(c):
            dr[j] *= root[j]
            d_nu += centre[j] * dr[j]
        price_columns(system.centred, dr, step)
        ratio = 1.0
        for i in range(m):
            dx[i] = inv_d[i] * (b[i] + lift - step[i])
            ratio = max(ratio, max(-dx[i] / x[i], dx[i] / room[i]))
        if at_most:
            dy = pull_y + slack * d_nu
            ratio = max(ratio, -dy / y)
        alpha = min(1.0, 0.9 / ratio)
        for j in range(c):
            ahead[j] = 0.0
        weigh_columns(columns, dx, ahead, growth)
        most = value + mu * _barrier(x, room, dx, y, 0.0)
        for _ in range(60):
            for j in range(c):
                ahead[j] = w[j] + alpha * growth[j]
            if remainder(goal, ahead) + mu * _barrier(x, room, dx, y + alpha * dy, alpha) <= most:
                break
            alpha *= 0.6
        for i in range(m):
            low[i] += alpha * (mu / x[i] - low[i] - low[i] * dx[i] / x[i])
            high[i] += alpha * (mu / room[i] - high[i] + high[i] * dx[i] / room[i])
            x[i] += alpha * dx[i]
            room[i] -= alpha * dx[i]
        if at_most:
            low_y += alpha * (mu / y - low_y - low_y * dy / y)
            y += alpha * dy
        if alpha > 0.5:
            mu *= _SMALLER
    copy_into(x, best_x)
    copy_into(w, best_w)
    return best_nu, best_value, best_bound, steps

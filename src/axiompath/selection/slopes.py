"""Problems + weights -> what the divergence is there, its slope, and what proves a bound: for many targets at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray
from ..compiled import compiled
from .batch import Problems, ranking_prices
from .objective import SOFTMAX, Dual, find_goal, fixed_part, remainder, rounding_of, tilt


class Slopes(NamedTuple):
    """Where the answers go; the arrays run over the problems."""

    prices: FloatArray  # [t, c]: how fast the divergence grows with a path's contribution
    value: FloatArray  # [t]: the divergence
    fixed: FloatArray  # [t]: what a bound consists of beside prices
    rounding: FloatArray  # [t]: what the bound may be off by
    whole: FloatArray  # [t]: the divergence without any path


def empty_slopes(problems: Problems) -> Slopes:
    """Room for the answers."""
    t, c = problems.before.shape
    return Slopes(np.empty((t, c)), *np.empty((4, t)))


@compiled(error_model="numpy", early=1.0)
def slope_range(
    start: int, stop: int, problems: Problems, necessity: bool, weights: FloatArray, reach: FloatArray, slopes: Slopes
) -> None:
    """At y = C'x with these weights x [M] of all paths; `reach` [t] is more than the paths of a choice can add."""
    c = problems.before.shape[1]
    sign = -1.0 if necessity else 1.0
    for i in range(start, stop):
        origin, target = problems.before[i], problems.after[i]
        if necessity:
            origin, target = target, origin
        goal = find_goal(problems.kind, problems.scales, origin, target)
        y = np.zeros(c)
        for k in range(problems.starts[i], problems.stops[i]):
            if weights[k] != 0.0:
                for j in range(c):
                    y[j] += sign * weights[k] * problems.contributions[k, j]
        moved = np.empty(c)
        if goal.kind == SOFTMAX:
            # What all classes have in common means nothing.
            common = y[np.argmax(goal.q)]
            mean = 0.0
            for j in range(c):
                y[j] -= common
                mean += goal.q[j] * y[j]
            for j in range(c):
                moved[j] = goal.start[j] + y[j] - mean
        else:
            for j in range(c):
                moved[j] = goal.start[j] + y[j] / goal.scales[j]
        slopes.value[i] = remainder(goal, moved)
        dual = Dual(moved, np.empty(c), np.empty(c))
        tilt(goal, dual)
        slopes.fixed[i] = fixed_part(goal, dual)
        slopes.rounding[i] = rounding_of(goal, dual, reach[i])
        slopes.whole[i] = goal.whole
        for j in range(c):
            slopes.prices[i, j] = sign * dual.r[j] / goal.scales[j]


@compiled(error_model="numpy", early=1.0)
def ranking_range(start: int, stop: int, problems: Problems, method: int, necessity: bool, prices: FloatArray) -> None:
    """Prices [t, c] by which a method ranks the paths of each problem."""
    for i in range(start, stop):
        before, after = problems.before[i], problems.after[i]
        goal = find_goal(problems.kind, problems.scales, after if necessity else before, before if necessity else after)
        prices[i] = ranking_prices(method, goal, before, after, necessity)

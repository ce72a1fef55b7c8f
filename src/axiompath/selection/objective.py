"""(contributions, logits before, logits after) -> the selection problem in normal form, its value and its bounds.

Contributions C [m, c], one row per path. Adding the paths weighted by x to logits s should give the logits t, or what
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

from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray, IntArray
from ..native.objective import leave, slopes
from ..native.objective import pose as pose_targets
from ..native.threads import run_in_pieces

# Divergences by their log-partition: one softmax over the columns; and, for each column, a sigmoid or a square.
SOFTMAX, SIGMOIDS, SQUARES = range(3)
# Columns of `Posed.facts`.
WHOLE, SIZE, RESOLUTION = range(3)
# Elementary operations of a target, and of every number in it: rough, to see whether threads are worth it.
WORK_OF_A_TARGET = 1e5
WORK_OF_A_NUMBER = 200.0


class Problems(NamedTuple):
    """What is asked of each of t targets."""

    contributions: FloatArray  # [M, c]
    offsets: IntArray  # [t + 1]: target i owns the rows offsets[i] to offsets[i + 1]
    before: FloatArray  # [t, c]
    after: FloatArray  # [t, c]
    budgets: IntArray  # [t]
    kind: int  # of all: SOFTMAX, SIGMOIDS or SQUARES
    scales: FloatArray  # [c]: the units of squares; of others 1


class Posed(NamedTuple):
    """Problems in normal form, as every kernel takes them."""

    kind: int
    sign: float  # -1 for necessity
    contributions: FloatArray  # [M, c]
    offsets: IntArray  # [t + 1]
    origin: FloatArray  # [t, c]: s
    target: FloatArray  # [t, c]: t
    scales: FloatArray  # [c]
    goals: FloatArray
    """[t, 5, c]: q, which is the log-partition's gradient at t (probabilities of classes, those of a yes, or
    t / scales^2), its logarithm, 1 - q for sigmoids, its logarithm, and v0."""
    facts: FloatArray
    """[t, 3]: D(v0), which is the whole change; the largest entry of v0 before it was centred, to whose rounding v0 is
    known; and the divergence that rounding the logits can make."""
    rows: FloatArray  # [M, c]: B
    reach: FloatArray  # [M]: the largest entry of each row before it was centred

    @property
    def work(self) -> float:
        """About how many elementary operations solving all of it takes."""
        return WORK_OF_A_TARGET * len(self.origin) + WORK_OF_A_NUMBER * self.rows.size


def pose(problems: Problems, necessity: bool) -> Posed:
    """Bring them into normal form."""
    t, c = problems.before.shape
    origin, target = (problems.after, problems.before) if necessity else (problems.before, problems.after)
    posed = Posed(
        problems.kind,
        -1.0 if necessity else 1.0,
        problems.contributions,
        problems.offsets,
        origin,
        target,
        problems.scales,
        np.empty((t, 5, c)),
        np.empty((t, 3)),
        np.empty(problems.contributions.shape),
        np.empty(len(problems.contributions)),
    )
    run_in_pieces(pose_targets, t, posed.work / 100, *posed)
    return posed


def residuals_of(posed: Posed, which: IntArray, starts: IntArray, stops: IntArray, members: IntArray) -> FloatArray:
    """The divergence that members[starts[k]:stops[k]] leave of target which[k], accurate however small it is."""
    residuals = np.empty(len(which))
    leave(0, len(which), *posed, which, starts, stops, members, residuals)
    return residuals


class Slopes(NamedTuple):
    """The divergence at some weights of the paths, and what it proves; the arrays run over the targets."""

    prices: FloatArray  # [t, c]: how fast the divergence grows with a path's contribution
    value: FloatArray  # [t]: the divergence
    fixed: FloatArray  # [t]: what a bound consists of beside prices
    rounding: FloatArray  # [t]: what the bound may be off by
    whole: FloatArray  # [t]: the divergence without any path


def slopes_of(problems: Problems, necessity: bool, weights: FloatArray, reach: FloatArray) -> Slopes:
    """At y = C'x with these weights x [M] of all paths; `reach` [t] is more than the paths of a choice can add."""
    posed = pose(problems, necessity)
    points, prices = np.empty((2, *posed.origin.shape))
    numbers = np.empty((len(points), 3))
    run_in_pieces(slopes, len(points), posed.work / 100, *posed, weights, reach, points, prices, numbers)
    value, fixed, rounding = numbers.T
    return Slopes(posed.sign * prices / posed.scales, value, fixed, rounding, posed.facts[:, WHOLE])


def ranking_prices(problems: Problems, method: str, posed: Posed) -> FloatArray:
    """Prices [t, c] of a method that ranks: it takes the paths with the n smallest C @ prices.

    linear     the relaxation without its log term: the largest C q, q being the distribution to be reached (for
               necessity the rows are -C); of labels the probabilities of a yes, of values t / s^2
    topk       the largest sum over columns, whatever the logits are
    deeplift   the largest contribution to the log-odds of the predicted classes, C[:, after] - C[:, before]; of labels
               to the logits of those that flipped, to the side where they went; if the prediction did not change, all
               are equal and the lowest indices are chosen. Of values the furthest along the change, in units of s
    """
    before, after = problems.before, problems.after
    if method == "linear":
        return -posed.sign * posed.goals[:, 0]
    if method == "topk":
        return np.full(before.shape, -1.0)
    if problems.kind == SQUARES:
        return (before - after) / problems.scales / problems.scales
    if problems.kind == SIGMOIDS:
        return (before > 0.0).astype(np.float64) - (after > 0.0)
    prices, every = np.zeros(before.shape), np.arange(len(before))
    prices[every, before.argmax(axis=1)] += 1.0
    prices[every, after.argmax(axis=1)] -= 1.0
    return prices

"""(contributions, logits before, logits after) -> the selection problem in normal form, and its value.

Contributions C [m, c], one row a path. Adding the paths weighted by x to logits s should give the
distribution q = softmax(t):

    sufficiency   s = logits before,  t = logits after,   rows  C
    necessity     s = logits after,   t = logits before,  rows -C

    KL(q || softmax(s + C'x)) = logsumexp(a + B'x)     with  B = C - (C q) 1',
                                                             a = log q + (s - t) - q.(s - t)

Subtracting from each row its mean under q removes the linear term and every constant, so that the objective
*is* the divergence: zero is perfect, and no large numbers cancel. Everything after this file knows only
(B, a, n):

    minimise over x in [0,1]^m, sum x = n (or <= n):   logsumexp(a + B'x)

Its dual is the source of every bound reported here. For any p in the simplex,

    optimum >= - sum_j p_j (log p_j - a_j) + S_n(B p),

S_n being the sum of the n smallest entries (for "at most n": of the negative ones among them).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True, error_model="numpy")
def copy_into(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """The same as target[:] = source, which takes numba two seconds to compile wherever it is written."""
    for i in range(source.size):
        target[i] = source[i]


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum_exp(u: Floats) -> float:
    """Log of the sum of exponentials, for logits of any size."""
    top = u[0]
    for j in range(1, u.size):
        top = max(top, u[j])
    total = 0.0
    for j in range(u.size):
        total += np.exp(u[j] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def normal_form(
    contributions: Floats,
    before: Floats,
    after: Floats,
    necessity: bool,
    rows: Floats,
    offset: Floats,
    q: Floats,
) -> None:
    """Write B into `rows` [m, c], a into `offset` [c] and the distribution to be reached into `q` [c]."""
    m, c = contributions.shape
    start, target, sign = (after, before, -1.0) if necessity else (before, after, 1.0)
    log_z = log_sum_exp(target)
    mean_shift = 0.0
    for j in range(c):
        q[j] = np.exp(target[j] - log_z)
        mean_shift += q[j] * (start[j] - target[j])
    for j in range(c):
        offset[j] = (target[j] - log_z) + ((start[j] - target[j]) - mean_shift)
    for i in range(m):
        mean = 0.0
        for j in range(c):
            mean += q[j] * contributions[i, j]
        for j in range(c):
            rows[i, j] = sign * (contributions[i, j] - mean)


@njit(cache=True, nogil=True, error_model="numpy")
def divergence(start: Floats, target: Floats, shift: Floats) -> float:
    """KL(softmax(target) || softmax(start + shift)), to full relative accuracy however small or large.

    With v the difference of the two logit vectors, centred by its mean under q = softmax(target), the
    divergence is log(sum q e^v) = log1p(sum q (e^v - 1 - v)): a sum of terms that are never negative.
    """
    c = start.size
    log_z = log_sum_exp(target)
    mean = 0.0
    for j in range(c):
        mean += np.exp(target[j] - log_z) * ((start[j] - target[j]) + shift[j])
    total = 0.0
    top = -np.inf
    for j in range(c):
        log_q = target[j] - log_z
        v = (start[j] - target[j]) + shift[j] - mean
        top = max(top, log_q + v)
        # Below 1e-2 the difference e^v - 1 - v would lose digits; five terms of its series lose none.
        if abs(v) < 1e-2:
            excess = v * v * (0.5 + v * (1 / 6 + v * (1 / 24 + v * (1 / 120 + v / 720))))
        else:
            excess = np.expm1(min(v, 600.0)) - v
        # Where q or e^v leaves the range of floats, e^(log q + v) is all that counts.
        if log_q > -700.0 and v < 600.0:
            total += np.exp(log_q) * excess
        else:
            total += np.exp(min(log_q + v, 100.0))
    if total < 1e15:
        return np.log1p(total)
    # e^v overflows or drowns the rest: plain log-sum-exp is exact here, the value being large.
    tail = 0.0
    for j in range(c):
        tail += np.exp((target[j] - log_z) + (start[j] - target[j]) + shift[j] - mean - top)
    return max(0.0, top + np.log(tail))


@njit(cache=True, nogil=True, error_model="numpy")
def log_softmax(u: Floats, log_p: Floats) -> float:
    """Write log softmax(u) into log_p and return logsumexp(u)."""
    value = log_sum_exp(u)
    for j in range(u.size):
        log_p[j] = u[j] - value
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def entropy_term(log_p: Floats, offset: Floats) -> float:
    """The part of the dual value that does not depend on the paths: -sum p (log p - a)."""
    value = 0.0
    for j in range(log_p.size):
        value -= np.exp(log_p[j]) * (log_p[j] - offset[j])
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def price_rows(rows: Floats, log_p: Floats, prices: Floats) -> None:
    """One pass over B: prices = B p, the slope of the objective along each path's weight."""
    m, c = rows.shape
    p = np.exp(log_p)
    for i in range(m):
        total = 0.0
        for j in range(c):
            total += rows[i, j] * p[j]
        prices[i] = total

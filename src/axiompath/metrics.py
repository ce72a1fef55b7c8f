"""How good is a choice of paths? Plain functions of logits, each with its formula.

P_before and P_after are the softmax of the target's logits on the two snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy import special

from .arrays import FloatArray
from .native.threads import run_in_pieces

Divergence: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]

# Below the first number e^v - 1 - v is v^2 times a series with these coefficients; above it the difference will do.
SERIES = 0.3
KL_ROWS = 2048  # of which a divergence is computed at a time
KL_WORK = 50.0  # operations a class, roughly
INVERSE_FACTORIALS = 1 / special.factorial(np.arange(2, 14))


def kl_divergence(logits_p: FloatArray, logits_q: FloatArray) -> FloatArray:
    """KL(P || Q) = sum over classes of P log(P / Q), over the last axis; computed from logits, never below 0.

    Not computed by that difference, which cancels for a tiny divergence, but with v = logits_q - logits_p less its mean
    under P:  KL = log(sum P e^v) = log1p(sum P (e^v - 1 - v)), a sum of terms that are never negative.
    """
    z_p, z_q = np.broadcast_arrays(*(np.asarray(z, dtype=np.float64) for z in (logits_p, logits_q)))
    if z_p.ndim != 2 or len(z_p) <= KL_ROWS:
        return _kl_divergence(z_p, z_q)
    found = np.empty(len(z_p))

    def fill(first: int, last: int) -> None:
        # What a few thousand rows need in between stays in the processor's cache.
        for start in range(first, last, KL_ROWS):
            piece = slice(start, min(start + KL_ROWS, last))
            found[piece] = _kl_divergence(z_p[piece], z_q[piece])

    run_in_pieces(fill, len(z_p), z_p.size * KL_WORK)
    return found


def _kl_divergence(z_p: FloatArray, z_q: FloatArray) -> FloatArray:
    log_p = special.log_softmax(z_p, axis=-1)
    p = np.exp(log_p)
    # What all classes have in common must not cost digits: the error of the difference is carried along (Knuth's
    # two-sum), and the likeliest class is subtracted first, which is exact where it matters.
    v = z_q - z_p
    near = z_q - v
    low = (z_q - (v + near)) + (near - z_p)
    top = np.argmax(z_p, axis=-1, keepdims=True)
    v = (v - np.take_along_axis(v, top, axis=-1)) + (low - np.take_along_axis(low, top, axis=-1))
    v = v - (p * v).sum(axis=-1, keepdims=True)
    small = np.abs(v) < SERIES
    series = np.where(small, v, 0.0)
    terms = series**2 * np.polynomial.polynomial.polyval(series, INVERSE_FACTORIALS)
    if not small.all():
        with np.errstate(over="ignore"):
            terms = np.where(small, terms, np.exp(v) - 1 - v)
    near = (p > 0) & (v < 600)  # elsewhere e^(log p + v) is all that counts
    if near.all():
        total = (p * terms).sum(axis=-1)
    else:
        total = np.where(near, p * np.where(near, terms, 0.0), np.exp(np.minimum(log_p + v, 100.0))).sum(axis=-1)
    found = np.log1p(np.minimum(total, 1e15))
    if not (total < 1e15).all():
        large = special.logsumexp(log_p + v, axis=-1)
        found = np.where(total < 1e15, found, np.maximum(large, 0.0))
    return np.asarray(found)


def kl_of_logits(logits_p: FloatArray, logits_q: FloatArray) -> FloatArray:
    """KL between two yes-or-no distributions given by their logits, element by element; never below 0.

    The two-class case of the above, the logit of no being 0.
    """
    p, q = np.broadcast_arrays(np.asarray(logits_p, dtype=np.float64), np.asarray(logits_q, dtype=np.float64))
    nothing = np.zeros_like(p)
    return kl_divergence(np.stack([nothing, p], axis=-1), np.stack([nothing, q], axis=-1))


def fidelity_minus(
    logits_undone: FloatArray,
    logits_before: FloatArray,
    logits_after: FloatArray,
    divergence: Divergence = kl_divergence,
) -> FloatArray:
    """The paper's Fidelity-KL-minus: KL(P_undone || P_before) / KL(P_after || P_before); lower is better.

    1 if nothing is undone, 0 if what is undone accounts for the whole change; nan if nothing changed. `divergence`
    replaces KL if columns are not classes.
    """
    return _ratio(divergence(logits_undone, logits_before), divergence(logits_after, logits_before))


def fidelity_plus(
    logits_added: FloatArray,
    logits_before: FloatArray,
    logits_after: FloatArray,
    divergence: Divergence = kl_divergence,
) -> FloatArray:
    """The mirror image: KL(P_added || P_after) / KL(P_before || P_after); lower is better.

    1 if nothing is added to `before`, 0 if what is added accounts for the whole change; nan if nothing changed.
    """
    return _ratio(divergence(logits_added, logits_after), divergence(logits_before, logits_after))


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)

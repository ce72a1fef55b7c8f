"""How good is a choice of paths? Plain functions of logits, each with its formula.

P_before and P_after are the softmax of the target's logits on the two snapshots.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from .activations import FloatArray


def kl_divergence(logits_p: FloatArray, logits_q: FloatArray) -> FloatArray:
    """KL(P || Q) = sum over classes of P log(P / Q), over the last axis; computed from logits, never below 0."""
    log_p, log_q = special.log_softmax(logits_p, axis=-1), special.log_softmax(logits_q, axis=-1)
    return np.asarray(np.maximum((np.exp(log_p) * (log_p - log_q)).sum(axis=-1), 0.0))


def fidelity_minus(logits_undone: FloatArray, logits_before: FloatArray, logits_after: FloatArray) -> FloatArray:
    """The paper's Fidelity-KL-minus: KL(P_undone || P_before) / KL(P_after || P_before); lower is better.

    1 when nothing is undone, 0 when what is undone carries the whole change; nan where nothing changed.
    """
    return _ratio(kl_divergence(logits_undone, logits_before), kl_divergence(logits_after, logits_before))


def fidelity_plus(logits_added: FloatArray, logits_before: FloatArray, logits_after: FloatArray) -> FloatArray:
    """The mirror image: KL(P_added || P_after) / KL(P_before || P_after); lower is better.

    1 when nothing is added to `before`, 0 when what is added carries the whole change; nan where nothing changed.
    """
    return _ratio(kl_divergence(logits_added, logits_after), kl_divergence(logits_before, logits_after))


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)

"""Contributions -> the order of AxiomPath-Linear: the relaxation without its log term.

    maximise over x in [0,1]^m, sum x = n:   p_after . C'x        i.e. the n largest of C p_after

For necessity the rows are -C and the distribution to be reached is p_before.
"""

from __future__ import annotations

from ..arrays import FloatArray
from ..compiled import compiled


@compiled(error_model="numpy")
def linear_keys(contributions: FloatArray, q: FloatArray, necessity: bool, keys: FloatArray) -> None:
    """Write one key a path, smallest first: minus its contribution to the mean logit under q."""
    m, c = contributions.shape
    for i in range(m):
        total = 0.0
        for j in range(c):
            total += contributions[i, j] * q[j]
        keys[i] = total if necessity else -total

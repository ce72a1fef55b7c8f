"""Contributions -> the order of AxiomPath-Topk: the largest sum over classes, whatever the logits are."""

from __future__ import annotations

from ..arrays import FloatArray
from ..compiled import compiled


@compiled(error_model="numpy")
def topk_keys(contributions: FloatArray, keys: FloatArray) -> None:
    """Write one key a path, smallest first: minus the sum of its contributions."""
    m, c = contributions.shape
    for i in range(m):
        total = 0.0
        for j in range(c):
            total += contributions[i, j]
        keys[i] = -total

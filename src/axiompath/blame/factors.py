"""Rules of coefficients -> what they make of the edges into a node, and of its features; one row per variant."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.data_fields import Features
from ..network.attention import AdditiveAttention
from ..network.coefficients import Degree, Mean, Rule, SymmetricNorm, TargetNorm


class Scores(NamedTuple):
    """What attention compares: rows of senders and of receivers."""

    keys: FloatArray  # [num_rows, channels]
    queries: FloatArray  # [num_rows, channels]
    direction: FloatArray  # [channels]
    slope: float
    product: bool


def find_factors(
    rule: Rule, row: IntArray, weights: FloatArray, is_loop: BoolArray, num_rows: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Factors of receivers and of senders, and the diagonal, for each row, by the edges into it; as in the rules."""
    one, none = np.ones(1), np.zeros(0)
    if isinstance(rule, Mean):
        return 1.0 / np.maximum(np.bincount(row, minlength=num_rows), 1), one, none
    if isinstance(rule, Degree):
        return (
            np.zeros(num_rows),
            one,
            np.asarray(np.bincount(row, weights=weights, minlength=num_rows), dtype=np.float64),
        )
    if isinstance(rule, TargetNorm):
        dtype = np.float32 if rule.single else np.float64
        count = np.bincount(row[~is_loop], minlength=num_rows) + 1
        inverse = np.reciprocal(count.astype(dtype))
        return inverse.astype(np.float64), one, (inverse + dtype(rule.diag_lambda) * inverse).astype(np.float64)
    assert isinstance(rule, SymmetricNorm)
    loops, counted = none, np.ones(len(row), dtype=np.bool_)
    if rule.self_loops is not None:
        # As in PyG, a node that already has a loop keeps its weight (the last one listed, if several).
        loops, counted = np.full(num_rows, float(rule.self_loops)), ~is_loop
        loops[row[is_loop]] = weights[is_loop]
    degree: FloatArray = np.bincount(row[counted], weights=weights[counted], minlength=num_rows).astype(np.float64)
    if len(loops):
        degree = degree + loops
    with np.errstate(divide="ignore", invalid="ignore"):
        scale: FloatArray = degree**-0.5
    scale[np.isinf(scale)] = 0.0
    return scale, scale, scale * loops * scale if len(loops) else none


def find_scores(rule: Any, h: Features) -> Scores:
    """What an attention compares of each row of its inputs."""
    if isinstance(rule, AdditiveAttention):
        keys, queries = np.asarray(h @ rule.sender), np.asarray(h @ rule.receiver) + rule.bias
        return Scores(keys, queries, np.asarray(rule.direction, dtype=np.float64), float(rule.negative_slope), False)
    queries, keys = np.asarray(h @ rule.query) + rule.query_bias, np.asarray(h @ rule.key) + rule.key_bias
    return Scores(keys, queries, np.ones(keys.shape[1]), 0.0, True)

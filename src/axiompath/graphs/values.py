"""Weights and types of edges <-> one value an edge, as edges carry it where they are sorted, compared and taken.

Without types it is the weight, or nothing. With types it is weight + i type: two edges are equal where both parts are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray


def join_values(weights: FloatArray | None, types: IntArray | None) -> NDArray[Any] | None:
    """One value an edge; None where edges have neither."""
    if types is None:
        return weights
    return np.asarray((1.0 if weights is None else weights) + 1j * types)


def weights_of(values: NDArray[Any]) -> FloatArray:
    """The weights in values."""
    return np.ascontiguousarray(values.real, dtype=np.float64)


def types_of(values: NDArray[Any]) -> IntArray | None:
    """The types in values; None where they hold none."""
    return values.imag.astype(np.int64) if np.iscomplexobj(values) else None

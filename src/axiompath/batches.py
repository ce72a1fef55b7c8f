"""sizes -> runs: consecutive things that together stay within a limit."""

from __future__ import annotations

import numpy as np

from .activations import FloatArray, IntArray

# Larger batches are no faster (their multipliers leave the cache) and take more memory.
BATCH_BYTES = 64e6


def cut_runs(sizes: FloatArray, limit: float, most: int | None = None) -> IntArray:
    """Bounds of the runs, [num_runs + 1]: each sums to the limit at most, unless it is one thing alone; `most` long."""
    total = np.concatenate([[0.0], np.cumsum(sizes)])
    bounds = [0]
    while bounds[-1] < len(sizes):
        start = bounds[-1]
        stop = max(start + 1, int(np.searchsorted(total, total[start] + limit, side="right")) - 1)
        bounds.append(stop if most is None else min(stop, start + most))
    return np.array(bounds, dtype=np.int64)

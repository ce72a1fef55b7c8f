"""Keys -> their order, equal keys as they came; numba takes seconds to compile its own sorts into a loop."""

from __future__ import annotations

import numpy as np

from .arrays import FloatArray, IntArray
from .compiled import compiled

RUN = 16  # keys that are put in order by insertion, before runs are merged


@compiled(inner=True)
def order_of(keys: FloatArray) -> IntArray:
    """What `np.argsort(keys, kind="stable")` gives of numbers."""
    m = keys.size
    order = np.empty(m, np.int64)
    for low in range(0, m, RUN):
        for i in range(low, min(low + RUN, m)):
            j = i
            while j > low and keys[i] < keys[order[j - 1]]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    merged = np.empty(m, np.int64)
    width = RUN
    while width < m:
        for low in range(0, m, 2 * width):
            middle, high = min(low + width, m), min(low + 2 * width, m)
            i, j = low, middle
            for at in range(low, high):
                if j == high or (i < middle and not keys[order[j]] < keys[order[i]]):
                    merged[at] = order[i]
                    i += 1
                else:
                    merged[at] = order[j]
                    j += 1
        order, merged = merged, order
        width *= 2
    return order

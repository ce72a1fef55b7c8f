"""Contributions -> DeepLIFT's order: the largest contribution to the log-odds of the two predicted classes.

    C[:, class after] - C[:, class before]

If the prediction did not change, every key is 0 and the lowest indices are chosen.
"""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray
from ..compiled import compiled


@compiled(error_model="numpy")
def deeplift_keys(contributions: FloatArray, before: FloatArray, after: FloatArray, keys: FloatArray) -> None:
    """Write one key a path, smallest first."""
    class_before = np.argmax(before)
    class_after = np.argmax(after)
    for i in range(contributions.shape[0]):
        keys[i] = contributions[i, class_before] - contributions[i, class_after]

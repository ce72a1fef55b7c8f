"""Change -> the table of nodes whose prediction can have moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .change import Change
from .metrics import kl_divergence


def find_moved(change: Change, num_paths: NDArray[Any]) -> pd.DataFrame:
    """Every node that an altered path reaches: row, node, classes, KL(after || before), number of altered paths.

    Largest KL first. Nodes that exist in one snapshot alone have no change of prediction and are left out.
    """
    rows = np.flatnonzero((num_paths > 0) & change.before.present & change.after.present)
    before, after = change.before_pass.logits[rows], change.after_pass.logits[rows]
    frame = pd.DataFrame(
        {
            "row": rows,
            "node": change.before.node_ids[rows],
            "class_before": before.argmax(axis=1),
            "class_after": after.argmax(axis=1),
            "kl": kl_divergence(after, before),
            "num_paths": num_paths[rows],
        }
    )
    return frame.sort_values("kl", ascending=False, kind="stable", ignore_index=True)

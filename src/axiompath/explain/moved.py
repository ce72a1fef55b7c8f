"""Change -> the table of nodes whose prediction can have moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..change.comparison import Change
from ..graphs.labels import label_targets, target_column, with_class_names
from ..metrics import kl_divergence


def find_moved(
    change: Change, num_paths: NDArray[Any], node_names: Mapping[int, str], class_names: Sequence[str]
) -> pd.DataFrame:
    """Every node that an altered path reaches: row, target, name, classes, KL(after || before), altered paths.

    Largest KL first. Where classes have names, `class_before_name` and `class_after_name` stand beside them. Nodes that
    exist in one snapshot alone have no change of prediction and are left out.
    """
    rows = np.flatnonzero((num_paths > 0) & change.in_both)
    targets = change.root_ids[rows]
    before, after = change.before_pass.logits[rows], change.after_pass.logits[rows]
    frame = pd.DataFrame(
        {
            "row": rows,
            "target": target_column(targets),
            "name": label_targets(targets, node_names if change.before.places is None or change.of_links else {}),
            "class_before": before.argmax(axis=1),
            "class_after": after.argmax(axis=1),
            "kl": kl_divergence(after, before),
            "num_paths": num_paths[rows],
        }
    )
    frame = frame.sort_values("kl", ascending=False, kind="stable", ignore_index=True)
    return with_class_names(frame, class_names)

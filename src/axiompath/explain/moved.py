"""Change -> the table of nodes whose prediction can have moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray
from ..change.comparison import Change
from ..graphs.labels import label_targets, target_column, with_class_names
from ..outputs import BINARY, CLASSES, VALUE, Output


def describe_moves(output: Output, before: FloatArray, after: FloatArray) -> dict[str, NDArray[Any]]:
    """Columns that say what became of each prediction: its class; of labels and values, of the column that moved most.

    classes, binary   class_before, class_after
    labels            label, prob_before, prob_after, flipped
    value             column, value_before, value_after
    """
    if output.kind in (CLASSES, BINARY):
        return {"class_before": output.decide(before), "class_after": output.decide(after)}
    most = output.by_column(after, before).argmax(axis=1)
    here = np.arange(len(most))
    ends = [output.means(logits)[here, most] for logits in (before, after)]
    if output.kind == VALUE:
        return {"column": most, "value_before": ends[0], "value_after": ends[1]}
    flipped = output.flipped(before, after)
    return {"label": most, "prob_before": ends[0], "prob_after": ends[1], "flipped": flipped}


def find_flipped(moved: pd.DataFrame) -> BoolArray:
    """Which rows of `moved` have another decision than before; of values none."""
    if "class_before" in moved:
        return np.asarray((moved.class_before != moved.class_after).to_numpy())
    return np.asarray(moved.flipped.to_numpy()) if "flipped" in moved else np.zeros(len(moved), dtype=np.bool_)


def find_moved(
    change: Change, num_paths: NDArray[Any], node_names: Mapping[int, str], class_names: Sequence[str]
) -> pd.DataFrame:
    """Every node that an altered path, or another model, reaches: row, target, name, classes, KL, altered paths.

    Largest KL first. Where classes have names, `class_before_name` and `class_after_name` stand beside them. Nodes that
    exist in only one snapshot have no change of prediction and are left out.
    """
    moved = num_paths > 0
    if change.earlier:  # another model moves what no path reaches
        moved = moved | (change.logits_before != change.logits_after).any(axis=1)
    rows = np.flatnonzero(moved & change.in_both)
    targets = change.root_ids[rows]
    before, after = change.logits_before[rows], change.logits_after[rows]
    frame = pd.DataFrame(
        {
            "row": rows,
            "target": target_column(targets),
            "name": label_targets(targets, node_names if change.before.places is None or change.of_links else {}),
            **describe_moves(change.output, before, after),
            "kl": change.output.divergence(after, before),
            "num_paths": num_paths[rows],
        }
    )
    frame = frame.sort_values("kl", ascending=False, kind="stable", ignore_index=True)
    return with_class_names(frame, class_names)

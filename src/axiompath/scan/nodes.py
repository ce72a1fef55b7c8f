"""Change -> the table of its nodes: what each was and is predicted to be, and how its neighbours stand to it.

For what is said of a scan as a whole: which links lead to hubs, and who lost the last neighbour of its own class.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..arrays import IntArray
from ..change.comparison import Change
from ..explain.neighbourhood import UNPREDICTED
from ..graphs.snapshot import Snapshot
from ..outputs import CLASSES

NODE_COLUMNS = (
    "node",
    *(f"{what}_{side}" for side in ("before", "after") for what in ("class", "degree", "num_own")),
)


def list_nodes(change: Change) -> pd.DataFrame:
    """A row per node: node, class, degree and num_own of both graphs; of stored graphs, of what the change reaches.

    The degree counts edges that lead to it, `num_own` those of them from nodes of its own predicted class; a class is
    UNPREDICTED where nodes are not what is predicted, or where there is no such node.
    """
    named = change.before.places is None and change.output.kind == CLASSES
    columns: dict[str, IntArray] = {"node": change.before.node_ids}
    for side, snapshot, logits in (
        ("before", change.before, change.logits_before),
        ("after", change.after, change.logits_after),
    ):
        classes = np.full(change.num_nodes, UNPREDICTED)
        if named:
            classes[snapshot.present] = change.output.decide(logits[snapshot.present])
        degree, own = _count_neighbours(snapshot, classes)
        columns |= {f"class_{side}": classes, f"degree_{side}": degree, f"num_own_{side}": own}
    return pd.DataFrame(columns)


def _count_neighbours(snapshot: Snapshot, classes: IntArray) -> tuple[IntArray, IntArray]:
    """Who sends to each node but itself, and how many of them have its own class, where it has one."""
    senders, receivers = snapshot.edge_index[:, snapshot.edge_index[0] != snapshot.edge_index[1]]
    alike = (classes[receivers] == classes[senders]) & (classes[receivers] >= 0)
    return (
        np.bincount(receivers, minlength=len(classes)),
        np.bincount(receivers[alike], minlength=len(classes)),
    )

"""Labels -> LabelFeatures: half of the labels as features that the network sees; it learns from the other half.

Which half is drawn from a node's name, so that it stays the same when nodes and events are added. These features never
change: whatever moves a prediction is edges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..graphs.node_features import Moment
from ..graphs.sequence import KnownNodes


def is_shown(names: Sequence[str]) -> BoolArray:
    """Whether the label of a node of this name is a feature."""
    return np.array([hashlib.shake_128(name.encode()).digest(1)[0] < 128 for name in names], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class LabelFeatures:
    """A function of a Moment: one column per class, 1 where a node is known to be of it."""

    table: KnownNodes

    __name__ = "the labels of half of the nodes"

    def __call__(self, moment: Moment) -> FloatArray:
        """[num_nodes, num_classes]."""
        assert self.table.y is not None
        rows = pd.Index(self.table.names).get_indexer(pd.Index(moment.names))
        classes = np.where(rows >= 0, self.table.y[rows], -1)
        shown = np.flatnonzero((classes >= 0) & is_shown(moment.names))
        found = np.zeros((len(rows), int(self.table.y.max(initial=0)) + 1))
        found[shown, classes[shown]] = 1.0
        return found

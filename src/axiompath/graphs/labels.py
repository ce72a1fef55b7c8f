"""Numbers -> the names that stand beside them in every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import IntArray
from .places import EdgePlace

BIAS = "bias"
ANY = -2  # in place of a node on a path: any, and any number of further ones or a bias before it
ANYTHING = "any"
ABSENT = -3  # in a path of the shallower of two models, where the deeper one's begin earlier
FIRST_EDGE = -1000  # in place of a node on a path: the first edge that is a place; further ones are below it
TO, ONE_WAY = " – ", " → "  # between the names of a pair, and of the ends of an edge that has a direction


def label_nodes(nodes: NDArray[Any], names: Mapping[int, str]) -> NDArray[np.object_]:
    """The user's name of each node, else its number as text; `bias` for -1, `any` for ANY, nothing for ABSENT."""
    if not names and (nodes >= 0).all():
        return np.array(list(map(str, nodes.ravel().tolist())), dtype=object).reshape(nodes.shape)
    unique, place = np.unique(nodes, return_inverse=True)
    texts = [name_node(node, names) for node in unique.tolist()]
    return np.array(texts, dtype=object)[place.reshape(nodes.shape)]


def name_node(node: int, names: Mapping[int, str]) -> str:
    """The same of one; an edge is called as `names` say."""
    if node <= FIRST_EDGE:
        return names.get(node, "edge")
    if node < 0:
        return {ANY: ANYTHING, ABSENT: ""}.get(node, BIAS)
    return names.get(node, str(node))


def name_step(relation: str) -> str:
    """The arrow from one node of a path to the next, with what the edge is called where edges have types."""
    return f" –{relation}→ " if relation else " → "


def name_edges(edges: Mapping[int, EdgePlace], names: Mapping[int, str]) -> dict[int, str]:
    """What the edges on paths are called, by the numbers that stand for them there."""
    found = {}
    for code, (src, dst, number, among) in edges.items():
        which = f", {number} of {among}" if among > 1 else ""
        found[code] = f"edge ({name_node(src, names)} → {name_node(dst, names)}{which})"
    return found


def label_targets(targets: IntArray, names: Mapping[int, str]) -> NDArray[np.object_]:
    """The names of nodes or graphs [n], or of pairs of nodes [n, 2], both ends in one text."""
    labels = label_nodes(targets, names)
    return labels if labels.ndim == 1 else labels[:, 0] + TO + labels[:, 1]


def target_column(targets: IntArray) -> Any:
    """Numbers of targets as a column of a table, pairs as tuples."""
    return targets if targets.ndim == 1 else pd.Series(list(map(tuple, targets.tolist())), dtype=object)


def label_class(label: int, names: Sequence[str]) -> str:
    """The user's name of a class, else its number as text."""
    return names[label] if label < len(names) else str(label)


def with_class_names(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The same table with the names of classes, labels or columns beside their numbers, where they have names."""
    if not names:
        return frame
    frame = frame.copy(deep=False)
    known = dict(enumerate(names))
    for column in [name for name in ("class_before", "class_after", "label", "column") if name in frame]:
        insert_beside(frame, column, frame[column].map(known))
    return frame


def insert_beside(frame: pd.DataFrame, column: str, names: Any) -> None:
    """Put the names of a column's numbers directly after it, as `<column>_name`."""
    frame.insert(list(frame.columns).index(column) + 1, f"{column}_name", names)

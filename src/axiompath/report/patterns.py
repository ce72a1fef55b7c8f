"""Chosen paths of a whole scan -> patterns: what many explanations share, by kind of path and who is at its other end.

A pattern is a kind (gained, lost, reweighted, feature), a place (at the target itself, or further away) and a role of
the node at the other end: a hub of some class, the last neighbour of the target's own class, one of its own, of the
class that it went to, of another. Paths are counted by these numbers, part by part; a pattern weighs what they carried.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..change.states import EDGE_FEATURE, FEATURE, GAINED, LOST, REWEIGHTED, STATISTICS
from ..paths.table import KIND_WORDS
from ..scan.flat import Flat
from .credits import Matched
from .statements import class_word

NUM_PATTERNS = 10
LEAST_DEGREE, HUB_QUANTILE = 20, 0.99  # of a hub
HERE, AWAY, BY_NODE = range(3)  # places
ANYONE, LAST_OWN, OWN, WENT_TO, ANOTHER, HUB = range(6)  # roles; a hub of class c is HUB + 1 + c
MOST_CLASSES = 200


class NodeTable(NamedTuple):
    """What is known of the nodes of a scan, by their number."""

    ids: IntArray  # [num_nodes], in order
    classes: IntArray  # [num_nodes, 2]: before and after, -1 where there is none
    own_after: IntArray  # [num_nodes]: neighbours of its own class
    hub: Any  # [num_nodes]: bool

    def find(self, numbers: IntArray) -> IntArray:
        """Rows of these numbers, -1 for those that are not known."""
        if len(self.ids) == 0:
            return np.full(numbers.shape, -1)
        place = np.minimum(np.searchsorted(self.ids, numbers), len(self.ids) - 1)
        return np.where(self.ids[place] == numbers, place, -1)


class Pattern(NamedTuple):
    """What many explanations share."""

    code: int
    carried: float  # part of all that moved
    num_predictions: int
    example: int  # the place of the prediction that moved the most by it


def read_nodes(frame: pd.DataFrame) -> NodeTable:
    """The table that a scan writes."""
    frame = frame.sort_values("node", kind="stable")
    degree = np.maximum(frame.degree_before.to_numpy(), frame.degree_after.to_numpy())
    least = max(LEAST_DEGREE, float(np.quantile(degree, HUB_QUANTILE))) if len(degree) else LEAST_DEGREE
    classes = frame[["class_before", "class_after"]].to_numpy(dtype=np.int64)
    return NodeTable(frame.node.to_numpy(dtype=np.int64), classes, frame.num_own_after.to_numpy(), degree >= least)


def code_paths(nodes: NodeTable, flat: Flat, matched: Matched) -> IntArray:
    """The pattern of each chosen path. [p]."""
    p, paths, owner = len(flat.chosen.paths), flat.chosen.paths, flat.chosen.owner
    kinds = flat.chosen.kinds.astype(np.int64) % len(KIND_WORDS)
    if p == 0:
        return np.zeros(0, dtype=np.int64)
    here, target = np.arange(p), flat.targets[owner, -1]
    hop = paths.shape[1] - 2 - (matched.edges[:, ::-1] >= 0).argmax(axis=1)  # the changed step nearest to the target
    by_edge = (matched.edges >= 0).any(axis=1)
    sender, receiver = paths[here, np.maximum(hop, 0)], paths[here, np.minimum(hop + 1, paths.shape[1] - 1)]
    leaf = paths[here, (paths >= 0).argmax(axis=1)]
    at_target = (sender == target) | (receiver == target)
    other = np.where(by_edge, np.where(sender == target, receiver, sender), leaf)
    # Of renormalised links, the node nearest to the target whose degree changed.
    near = paths.shape[1] - 1 - (matched.touched[:, ::-1] >= 0).argmax(axis=1)
    other = np.where(~by_edge & (kinds == REWEIGHTED), paths[here, near], other)
    place = np.where(by_edge, np.where(at_target, HERE, AWAY), np.where(other == target, HERE, AWAY))
    place = np.where(~by_edge & np.isin(kinds, (GAINED, LOST)), BY_NODE, place)
    role = _roles(nodes, other, target, flat.classes[owner], place, kinds)
    # The other end is the target itself, or nobody in particular.
    apart = np.isin(kinds, (STATISTICS, EDGE_FEATURE))
    role = np.where(((place == HERE) & ~by_edge) | (place == BY_NODE) | apart, ANYONE, role)
    place = np.where(apart, AWAY, place)
    return np.asarray((kinds * 3 + place) * (HUB + 2 + MOST_CLASSES) + role)


def _roles(
    nodes: NodeTable, other: IntArray, target: IntArray, classes: IntArray, place: IntArray, kinds: IntArray
) -> IntArray:
    row, mine = nodes.find(other), nodes.find(target)
    if len(nodes.ids) == 0:
        return np.full(len(other), ANYONE)
    old, new = classes.T
    label = np.where(row >= 0, nodes.classes[np.maximum(row, 0), 0], -1)
    label = np.where((label < 0) & (row >= 0), nodes.classes[np.maximum(row, 0), 1], label)
    role = np.where(label == old, OWN, np.where(label == new, WENT_TO, ANOTHER))
    left = np.where(mine >= 0, nodes.own_after[np.maximum(mine, 0)], 1)
    role = np.where((role == OWN) & (kinds == LOST) & (place == HERE) & (left == 0), LAST_OWN, role)
    role = np.where((row >= 0) & nodes.hub[np.maximum(row, 0)], HUB + 1 + np.minimum(label, MOST_CLASSES - 1), role)
    return np.where(label < 0, np.where(role >= HUB, HUB, ANYONE), role)


def count_patterns(codes: IntArray, owner: IntArray, carried: FloatArray) -> pd.DataFrame:
    """A row a pattern of one part: code, carried, num_predictions, and the place of the best of them with its part."""
    pairs = pd.DataFrame({"code": codes, "owner": owner, "carried": carried}).groupby(["code", "owner"]).carried.sum()
    frame = pairs.reset_index()
    if len(frame) == 0:
        return pd.DataFrame({"code": [], "carried": [], "num": [], "example": [], "best": []})
    best = frame.loc[frame.groupby("code").carried.idxmax()].set_index("code")
    grouped = frame.groupby("code")
    found = pd.DataFrame({"carried": grouped.carried.sum(), "num": grouped.owner.count()})
    return found.assign(example=best.owner, best=best.carried).reset_index()


def join_patterns(parts: list[pd.DataFrame], total: float) -> list[Pattern]:
    """The patterns of all parts that carried the most; `example` must be a place among all predictions by now."""
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if len(frame) == 0 or total <= 0:
        return []
    best = frame.loc[frame.groupby("code").best.idxmax()].set_index("code").example
    sums = frame.groupby("code")[["carried", "num"]].sum().assign(example=best)
    sums = sums[sums.carried > 0].sort_values("carried", ascending=False, kind="stable").head(NUM_PATTERNS)
    columns = (sums.index, sums.carried / total, sums.num, sums.example)
    return [
        Pattern(int(code), float(part), int(num), int(example))
        for code, part, num, example in zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    ]


def pattern_words(code: int, class_names: dict[int, str]) -> str:
    """A pattern in words."""
    rest, role = divmod(code, HUB + 2 + MOST_CLASSES)
    kind, place = divmod(rest, 3)
    who = {
        ANYONE: "a node",
        LAST_OWN: "its last neighbour of its own class",
        OWN: "a node of its own class",
        WENT_TO: "a node of the class that it went to",
        ANOTHER: "a node of another class",
        HUB: "a hub",
    }.get(role, f"a hub of {class_word(class_names, role - HUB - 1)}")
    if kind in (GAINED, LOST):
        came = "new" if kind == GAINED else "lost"
        if place == BY_NODE:
            return "a node that came" if kind == GAINED else "a node that went"
        return f"a {came} link to {who}" if place == HERE else f"a {came} link of a neighbour to {who}"
    if kind == REWEIGHTED:
        return (
            "its own links renormalised, as it gained or lost others"
            if place == HERE
            else (f"links of {who} renormalised")
        )
    if kind == STATISTICS:
        return "the statistics of the whole graph"
    if kind == EDGE_FEATURE:
        return "the features of an edge"
    if kind == FEATURE:
        return "its own features" if place == HERE else f"the features of {who}"
    return "paths that did not change"

"""Change + ends of paths -> how many altered paths end so, what they contribute together, and the ends one hop longer.

A group is all altered paths that end alike. It is written as its end with ANY before it, as a path that starts at a
bias is written with -1 before that. What a group contributes is the exact sum over its paths, and none of them is
walked: see `change.cut`. Every path that ends so either starts at the bias of the end's first node or comes over one of
its entries, so the ends one hop longer, with that one, are a partition of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..change.cut import cut_change
from ..change.states import KINDS, REWEIGHTED
from ..change.transfer import IN_DELTA, Held, over_steps
from ..graphs.labels import ANY
from ..graphs.rows import entries_of, find_in_rows
from .attribution import make_table
from .chosen import walk_chosen
from .extremes import list_stages
from .sums import sum_below
from .table import PathTable
from .walk import count_paths, count_ways


class _Kept:
    """What all groups of one change share, found when first asked for; by depth, or by layer of a hop."""

    def __init__(self) -> None:
        self.cuts: dict[int, Change] = {}
        self.num_ends: dict[int, NDArray[Any]] = {}
        self.counts: dict[int, FloatArray] = {}
        self.sums: dict[int, FloatArray] = {}


_KEPT: WeakKeyDictionary[Change, _Kept] = WeakKeyDictionary()


def count_hops(change: Change) -> int:
    """Hops of a whole path, the one from a node to its graph or pair among them."""
    return change.network.num_positions - 1


def depth_of(paths: IntArray) -> IntArray:
    """Hops that are stated of each: those between its nodes."""
    return np.asarray((paths >= 0).sum(axis=1) - 1)


def is_group(paths: IntArray) -> BoolArray:
    """Which of them are groups."""
    return np.asarray((paths == ANY).any(axis=1))


def cut_at(change: Change, depth: int) -> Change:
    """The change whose paths are the ends of so many hops; made when first asked for, and kept for as long as this."""
    if depth == count_hops(change):
        return change
    cuts = _kept_of(change).cuts
    if depth not in cuts:
        cuts[depth] = cut_change(change, _hop_at(change, depth))
    return cuts[depth]


def count_ends(change: Change, depth: int) -> NDArray[Any]:
    """Ends of so many hops of every target, [num_roots], with the paths that start at a bias nearer to it."""
    known = _kept_of(change).num_ends
    if depth not in known:
        known[depth] = count_paths(cut_at(change, depth))
    return known[depth]


def widen(paths: IntArray, num_positions: int) -> IntArray:
    """Paths of a cut -> ends in the whole; one that starts at a bias is a whole path already."""
    missing = num_positions - paths.shape[1]
    first = np.where(paths[:, :1] < 0, paths[:, :1], ANY)
    return np.concatenate([np.repeat(first, missing, axis=1), paths], axis=1)


def open_groups(change: Change, target: int, groups: IntArray) -> tuple[PathTable, IntArray]:
    """All ends one hop longer than these groups, which have one depth and one target; those that no path has left out.

    `groups` [num_groups, num_positions]; the target itself, ANY before it, is the group of all of its paths. With the
    ends, groups or paths in the order of a list, comes which of these groups each is of.
    """
    depth = int(depth_of(groups[:1])[0])
    cut, layer = cut_at(change, depth + 1), change.layers[_hop_at(change, depth + 1)]
    stated = groups[:, -depth - 1 :]
    entries, counts = entries_of(layer.indptr, stated[:, 0]), np.diff(layer.indptr)[stated[:, 0]]
    parents = np.concatenate([np.repeat(np.arange(len(groups)), counts), np.arange(len(groups))])
    first = np.concatenate([layer.indices[entries].astype(np.int64), np.full(len(groups), -1)])
    found, rows = walk_chosen(cut, np.array([target]), np.column_stack([first, stated[parents]]))
    table, _ = make_table(cut, found)
    of = np.zeros(len(found.paths), dtype=np.int64)
    of[rows[rows >= 0]] = parents[rows >= 0]
    table = replace(table, paths=widen(table.paths, groups.shape[1]))
    real = count_members(change, table.paths) > 0
    return table.take_rows(real), of[real]


def count_members(change: Change, paths: IntArray) -> FloatArray:
    """How many altered paths each of these ends stands for: 1 for a path. Exact up to 2^53."""
    sizes = (~is_group(paths)).astype(np.float64)
    position, steps = paths.shape[1] - 1, change.merged_steps
    rows = np.flatnonzero(sizes == 0)
    number = np.ones(len(rows), dtype=np.uint16)  # of the set of states
    for t in range(len(change.layers) - 1, change.lowest_hop, -1):
        layer, above = change.layers[t], paths[rows, position]
        position -= not layer.local
        entry = find_in_rows(layer.indptr, layer.indices, above, paths[rows, position])
        rows, number, entry = rows[entry >= 0], number[entry >= 0], entry[entry >= 0]
        number = steps.following[t][number, change.descents[t].marks[entry]]
        if not layer.local:
            done = paths[rows, position - 1] == ANY
            sizes[rows[done]] = _counts_below(change, t)[paths[rows[done], position], number[done]]
            rows, number = rows[~done], number[~done]
    return sizes


def split_causes(change: Change, groups: IntArray, contributions: FloatArray) -> FloatArray:
    """What the paths of each group contribute, by cause, [num_groups, len(KINDS), num_classes].

    `groups` have one depth, and ends that both snapshots have. What left delta further down has the cause that it had
    there; what left it along the end left it over an entry that both have, and is reweighted.
    """
    hop = _hop_at(change, int(depth_of(groups[:1])[0]))
    held: Held = {IN_DELTA: np.tile(np.eye(change.network.num_classes), (len(groups), 1, 1))}
    position = groups.shape[1] - 1
    for t in range(len(change.layers) - 1, hop - 1, -1):
        above = groups[:, position]
        position -= not change.layers[t].local
        held = {IN_DELTA: over_steps(change, t, above, groups[:, position]).down(held)[IN_DELTA]}
    differs, first = change.differs[hop], groups[:, position]
    known = differs[first]
    causes = np.zeros((len(groups), len(KINDS), change.network.num_classes))
    sums = _sums_below(change, hop)[(np.cumsum(differs) - 1)[first[known]]]
    causes[known] = sums @ held[IN_DELTA][known].transpose(0, 2, 1)
    causes[:, REWEIGHTED] += contributions - causes.sum(axis=1)
    return causes


def _kept_of(change: Change) -> _Kept:
    held = _KEPT.get(change)
    return held if held is not None else _KEPT.setdefault(change, _Kept())


def _hop_at(change: Change, depth: int) -> int:
    """The layer of the hop so many hops from the root."""
    return list_stages(change)[-depth][0]


def _counts_below(change: Change, hop: int) -> FloatArray:
    """Altered paths that come to each node at the input of a hop, by the set of states, [num_nodes, num_sets]."""
    known = _kept_of(change).counts
    if hop not in known:
        known[hop] = count_ways(change, hop)
    return known[hop]


def _sums_below(change: Change, hop: int) -> FloatArray:
    """Continuations from delta of the nodes that differ at the input of a hop, by cause: see `sums`."""
    known = _kept_of(change).sums
    if hop not in known:
        known[hop] = sum_below(change, hop)[0]
    return known[hop]

"""Change + ends of paths -> how many altered paths end so, what they contribute together, and the ends one hop longer.

A group is all altered paths that end alike. It is written as its end with ANY before it, as a path that starts at a bias
is written with -1 before that. What a group contributes is the exact sum over its paths, and none of them is walked: see
`change.cut`. Every path that ends so either starts at the bias of the end's first node or comes over one of its entries,
so the ends one hop longer, with that one, are a partition of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..change.cut import cut_change
from ..graphs.rows import find_in_rows
from .attribution import attribute_paths
from .chosen import walk_chosen
from .extremes import gather_entries, list_stages
from .walk import count_ways

ANY = -2  # in place of a node: any, and any number of further ones or a bias before it


@dataclass(frozen=True, eq=False)
class Ends:
    """Some ends of the paths of one target, groups or paths, in the order of a list."""

    paths: IntArray  # [num_ends, num_positions]: leaf first, ANY before the end of a group
    contributions: FloatArray  # [num_ends, num_classes]
    kinds: NDArray[np.int8]  # [num_ends]: of the end itself
    parents: IntArray  # [num_ends]: which of those that were opened


_CUTS: WeakKeyDictionary[Change, dict[int, Change]] = WeakKeyDictionary()
_COUNTS: WeakKeyDictionary[Change, dict[int, FloatArray]] = WeakKeyDictionary()


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
    known = _CUTS.setdefault(change, {})
    if depth not in known:
        known[depth] = cut_change(change, _hop_at(change, depth))
    return known[depth]


def widen(paths: IntArray, num_positions: int) -> IntArray:
    """Paths of a cut -> ends in the whole; one that starts at a bias is a whole path already."""
    missing = num_positions - paths.shape[1]
    first = np.where(paths[:, :1] < 0, paths[:, :1], ANY)
    return np.concatenate([np.repeat(first, missing, axis=1), paths], axis=1)


def open_groups(change: Change, target: int, groups: IntArray) -> Ends:
    """All ends one hop longer than these groups, which have one depth and one target; those that no path has left out.

    `groups` [num_groups, num_positions]; the target itself, ANY before it, is the group of all of its paths.
    """
    depth = int(depth_of(groups[:1])[0])
    cut, layer = cut_at(change, depth + 1), change.layers[_hop_at(change, depth + 1)]
    stated = groups[:, -depth - 1 :]
    entries, counts = gather_entries(layer.indptr, stated[:, 0])
    parents = np.concatenate([np.repeat(np.arange(len(groups)), counts), np.arange(len(groups))])
    first = np.concatenate([layer.indices[entries].astype(np.int64), np.full(len(groups), -1)])
    found, rows = walk_chosen(cut, target, np.column_stack([first, stated[parents]]))
    shares = attribute_paths(cut, found)
    of = np.zeros(len(found.paths), dtype=np.int64)
    of[rows[rows >= 0]] = parents[rows >= 0]
    paths = widen(found.paths, groups.shape[1])
    real = count_members(change, paths) > 0
    return Ends(paths[real], shares.contributions[real], shares.kinds[real], of[real])


def count_members(change: Change, paths: IntArray) -> FloatArray:
    """How many altered paths each of these ends stands for: 1 for a path. Exact up to 2^53."""
    sizes = (~is_group(paths)).astype(np.float64)
    position, steps = paths.shape[1] - 1, change.merged_steps
    rows = np.flatnonzero(sizes == 0)
    number = np.ones(len(rows), dtype=np.uint16)  # of the set of states
    for t in range(len(change.layers) - 1, change.lowest_hop, -1):
        layer, above = change.layers[t], paths[rows, position]
        position -= not layer.local
        entry = np.empty(len(rows), dtype=np.int64)
        find_in_rows(layer.indptr, layer.indices, above, paths[rows, position], entry)
        rows, number, entry = rows[entry >= 0], number[entry >= 0], entry[entry >= 0]
        number = steps.following[t][number, change.descents[t].marks[entry]]
        if not layer.local:
            done = paths[rows, position - 1] == ANY
            sizes[rows[done]] = _counts_below(change, t)[paths[rows[done], position], number[done]]
            rows, number = rows[~done], number[~done]
    return sizes


def _hop_at(change: Change, depth: int) -> int:
    """The layer of the hop so many hops from the root."""
    return list_stages(change)[-depth][0]


def _counts_below(change: Change, hop: int) -> FloatArray:
    """Altered paths that come to each node at the input of a hop, by the set of states, [num_nodes, num_sets]."""
    known = _COUNTS.setdefault(change, {})
    if hop not in known:
        known[hop] = count_ways(change, hop)
    return known[hop]

"""Change + some paths -> their PathSet: walked as all would be, so that they are attributed as they are in a list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import IntArray
from ..change.comparison import Change
from ..graphs.rows import find_in_rows
from .walk import Level, PathSet, assemble, extend, start_level


def walk_chosen(
    change: Change, targets: IntArray, paths: IntArray, owner: IntArray | None = None
) -> tuple[PathSet, IntArray]:
    """The altered ones among these paths to targets, in the order of a list, and the row of each; -1 for others.

    `paths` [num, num_positions] are rows of nodes, leaf first, each once; `owner` [num] is the place of each one's
    target, the first if it is left out.
    """
    owner = np.zeros(len(paths), dtype=np.int64) if owner is None else owner
    lowest, steps = change.lowest_hop, change.steps
    level = start_level(change, targets)
    # Only what lies before a bias source is missing.
    proper = (paths[:, -1] == targets[owner]) & ((paths[:, :-1] < 0) | (paths[:, 1:] >= 0)).all(axis=1)
    root = np.full(len(targets), -1)
    root[level.target] = np.arange(len(level.node))
    at = np.where(proper, root[owner], -1)
    levels: dict[int, Level] = {}
    begins: dict[int, IntArray] = {}
    begun: dict[int, IntArray] = {}  # layer -> path that starts at the bias of each suffix
    started = np.zeros(len(paths), dtype=np.bool_)
    position = paths.shape[1] - 1
    leaf_paths = leaf_entries = leaf_sets = leaf_parents = np.zeros(0, dtype=np.int64)
    for t in range(len(change.layers) - 1, lowest - 1, -1):
        levels[t] = level
        layer, following = change.layers[t], steps.following[t]
        if change.network.layers[t].bias is not None:
            here = np.flatnonzero((at >= 0) & ~started & (paths[:, position - 1] < 0 if position else False))
            here = here[steps.sets[t].starts[level.sets[at[here]]]]
            begun[t] = np.full(len(level.node), -1)
            begun[t][at[here]] = here
            begins[t] = (begun[t] >= 0).astype(np.int64)
            started[here] = True
        going = np.flatnonzero((at >= 0) & (layer.local | (paths[:, position - 1] >= 0)))
        nodes = level.node[at[going]].astype(np.int64)
        wanted = nodes if layer.local else paths[going, position - 1]
        entries = find_in_rows(layer.indptr, layer.indices, nodes, wanted)
        known = entries >= 0
        going, entries = going[known], entries[known]
        below = following[level.sets[at[going]], change.descents[t].marks[entries]].astype(np.int64)
        alive = below > 0
        going, entries, below = going[alive], entries[alive], below[alive]
        order = np.lexsort((entries, at[going]))
        going, entries, below = going[order], entries[order], below[order]
        parents = at[going]
        if t == lowest:
            leaf_paths, leaf_entries, leaf_sets, leaf_parents = going, entries, below, parents
            break
        position -= not layer.local
        fresh = np.ones(len(going), dtype=np.bool_)
        fresh[1:] = (parents[1:] != parents[:-1]) | (entries[1:] != entries[:-1])
        number = np.cumsum(fresh) - 1
        parent, entry = parents[fresh], entries[fresh]
        level = extend(level, parent, entry, layer.indices[entry], below[fresh].astype(np.uint16), position)
        at = np.full(len(paths), -1)
        at[going] = number
    num_leaves = np.bincount(leaf_parents, minlength=len(level.node)).astype(np.int64)
    before = np.cumsum(num_leaves) - num_leaves

    def list_leaves(first: IntArray, entry: IntArray, sets: NDArray[np.uint16]) -> None:
        places = (first - before)[leaf_parents] + np.arange(len(leaf_paths))
        entry[places], sets[places] = leaf_entries, leaf_sets

    found = assemble(change, targets, levels, begins, num_leaves, list_leaves)
    rows = np.full(len(paths), -1)
    for t, places in begun.items():
        own = places >= 0
        rows[places[own]] = found.bias_rows[t][own]
    rows[leaf_paths] = (found.leaf_rows - before)[leaf_parents] + np.arange(len(leaf_paths))
    return found, rows

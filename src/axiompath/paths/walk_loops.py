"""The compiled loops that count and walk paths; every one has a literal twin in tests/references.py.

They are compiled on first use (some ten seconds for all, kept on disk afterwards), release the interpreter's lock and
take the range of rows they work on, so that `run_in_pieces` can run them on several cores.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, IntArray
from ..compiled import compiled


class Ways(NamedTuple):
    """The entries of one layer, and where a walk goes over them."""

    indptr: IntArray  # [num_nodes + 1]
    indices: NDArray[np.int32]  # [num_entries]
    descents_indptr: IntArray  # [num_nodes + 1]
    descents: IntArray  # [num_descents]: entries that a walk in delta can go over
    marks: NDArray[np.uint16]  # [num_entries]
    following: NDArray[np.uint16]  # [sets, marks]: number of the set below, 0 for none
    delta_alone: BoolArray  # [sets]
    held_below: NDArray[np.uint8]  # [sets below]: states and facts


class Level(NamedTuple):
    """The partial paths of all targets after a step over one layer, ordered by target."""

    node: NDArray[np.int32]  # [num_suffixes]: where each one has arrived
    target: NDArray[np.int32]  # [num_suffixes]: position in the batch's list of targets
    parent: NDArray[np.int32]  # [num_suffixes]: the suffix of the level above that it extends
    entry: IntArray  # [num_suffixes]: over which entry of the layer
    sets: NDArray[np.uint16]  # [num_suffixes]: number of its set of states, see `Change.steps`
    trail: NDArray[np.int32]  # [num_suffixes, num_hops + 1]: its nodes, as in a stored path
    position: int  # of `node` in the trail: that of the root is the last


class Leaves(NamedTuple):
    """Where the paths that end at a leaf go; see PathSet."""

    paths: IntArray
    held: NDArray[np.uint16]
    entry: IntArray


@compiled
def find_entries(start, stop, indptr, indices, rows, columns, found):
    """The entry of each (row, column), -1 where there is none; columns ascend within a row."""
    for i in range(start, stop):
        low, high = indptr[rows[i]], indptr[rows[i] + 1]
        end = high
        while low < high:
            middle = (low + high) >> 1
            if indices[middle] < columns[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low if low < end and indices[low] == columns[i] else -1


@compiled
def count_layer(start, stop, ways, below, above):
    """Ways down from each node in each set of states; a node's counts lie together, for the cache's sake."""
    indptr, indices, marks, following = ways.indptr, ways.indices, ways.marks, ways.following
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            for s in range(1, len(following)):
                s_below = following[s, marks[e]]
                if s_below:
                    above[v, s] += below[indices[e], s_below]


@compiled
def count_roots(start, stop, ways, below, counts):
    """The same for roots, whose set is number 1, delta."""
    for v in range(start, stop):
        for k in range(ways.descents_indptr[v], ways.descents_indptr[v + 1]):
            e = ways.descents[k]
            s_below = ways.following[1, ways.marks[e]]
            if s_below:
                counts[v] += below[ways.indices[e], s_below]


@compiled(inline="always")
def _range_below(ways, v, s):
    """Whether to look at the few descents alone, as in delta, or at the whole row of node v; and where they lie."""
    if ways.delta_alone[s]:
        return True, ways.descents_indptr[v], ways.descents_indptr[v + 1]
    return False, ways.indptr[v], ways.indptr[v + 1]


@compiled
def count_children(start, stop, ways, level, num_children):
    for i in range(start, stop):
        s = level.sets[i]
        in_delta, low, high = _range_below(ways, level.node[i], s)
        count = 0
        for k in range(low, high):
            e = ways.descents[k] if in_delta else k
            if ways.following[s, ways.marks[e]]:
                count += 1
        num_children[i] = count


@compiled
def fill_children(start, stop, ways, level, rows, child):
    """The suffixes one layer below, from row rows[i] on those of suffix i."""
    for i in range(start, stop):
        j, s = rows[i], level.sets[i]
        in_delta, low, high = _range_below(ways, level.node[i], s)
        for k in range(low, high):
            e = ways.descents[k] if in_delta else k
            below = ways.following[s, ways.marks[e]]
            if below:
                child.node[j] = ways.indices[e]
                child.target[j] = level.target[i]
                child.parent[j] = i
                child.entry[j] = e
                child.sets[j] = below
                for h in range(level.trail.shape[1]):
                    child.trail[j, h] = level.trail[i, h]
                child.trail[j, child.position] = ways.indices[e]
                j += 1


@compiled
def fill_leaves(start, stop, ways, level, rows, leaves):
    """The same for the paths that end one layer below."""
    for i in range(start, stop):
        row, s = rows[i], level.sets[i]
        in_delta, low, high = _range_below(ways, level.node[i], s)
        for k in range(low, high):
            e = ways.descents[k] if in_delta else k
            below = ways.following[s, ways.marks[e]]
            if below:
                leaves.paths[row, 0] = ways.indices[e]
                for h in range(1, leaves.paths.shape[1]):
                    leaves.paths[row, h] = level.trail[i, h]
                leaves.held[row] = ways.held_below[below]
                leaves.entry[row] = e
                row += 1

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


@compiled(early=0.5)
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


@compiled(early=0.5)
def count_layer(start, stop, ways, below, above):
    """Ways down from each node in each set of states; a node's counts lie together, for the cache's sake."""
    indptr, indices, marks, following = ways.indptr, ways.indices, ways.marks, ways.following
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            for s in range(1, len(following)):
                s_below = following[s, marks[e]]
                if s_below:
                    above[v, s] += below[indices[e], s_below]


@compiled(early=0.5)
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


# The arrays of a tuple are named before the loops: what is written might else be one of them, and all be read again.


@compiled(early=0.5)
def count_children(start, stop, ways, level, num_children):
    descents, marks, following, node, sets = ways.descents, ways.marks, ways.following, level.node, level.sets
    for i in range(start, stop):
        s = sets[i]
        in_delta, low, high = _range_below(ways, node[i], s)
        count = 0
        if in_delta:
            for k in range(np.uintp(low), np.uintp(high)):
                count += following[s, marks[np.uintp(descents[k])]] != 0
        else:
            for k in range(np.uintp(low), np.uintp(high)):
                count += following[s, marks[k]] != 0
        num_children[i] = count


@compiled(early=0.5)
def fill_children(start, stop, ways, level, rows, child):
    """The suffixes one layer below, from row rows[i] on those of suffix i."""
    descents, marks, following, indices = ways.descents, ways.marks, ways.following, ways.indices
    node, target, parent, entry, sets = child.node, child.target, child.parent, child.entry, child.sets
    trail = child.trail
    position, length = np.uintp(child.position), np.uintp(trail.shape[1])
    above_node, above_target, above_sets, above_trail = level.node, level.target, level.sets, level.trail
    for n in range(start, stop):
        i = np.uintp(n)
        j, s, its_target = np.uintp(rows[i]), above_sets[i], above_target[i]
        in_delta, low, high = _range_below(ways, above_node[i], s)
        for k in range(np.uintp(low), np.uintp(high)):
            e = np.uintp(descents[k]) if in_delta else k
            below = following[s, marks[e]]
            if below:
                u = indices[e]
                node[j], target[j], parent[j], entry[j], sets[j] = u, its_target, n, e, below
                for h in range(length):
                    trail[j, h] = above_trail[i, h]
                trail[j, position] = u
                j += np.uintp(1)


@compiled(early=0.5)
def fill_leaves(start, stop, ways, level, rows, leaves):
    """The same for the paths that end one layer below."""
    descents, marks, following, indices = ways.descents, ways.marks, ways.following, ways.indices
    held_below, node, sets, trail = ways.held_below, level.node, level.sets, level.trail
    paths, held, entry = leaves.paths, leaves.held, leaves.entry
    length = paths.shape[1]
    # The nodes of a suffix as they are to be written, for the usual numbers of them.
    for n in range(start, stop):
        i = np.uintp(n)
        row, s = np.uintp(rows[i]), sets[i]
        in_delta, low, high = _range_below(ways, node[i], s)
        if low == high:
            continue
        first, second, third = trail[i, 1 % length], trail[i, 2 % length], trail[i, 3 % length]
        for k in range(np.uintp(low), np.uintp(high)):
            e = np.uintp(descents[k]) if in_delta else k
            below = following[s, marks[e]]
            if below:
                paths[row, 0] = indices[e]
                if length == 3:
                    paths[row, 1], paths[row, 2] = first, second
                elif length == 4:
                    paths[row, 1], paths[row, 2], paths[row, 3] = first, second, third
                else:
                    for h in range(1, length):
                        paths[row, h] = trail[i, h]
                held[row], entry[row] = held_below[below], e
                row += np.uintp(1)

"""The compiled loops over stored edges: placed, sorted and checked row by row, compared, searched, copied.

Rows receive: row V lists the nodes that send to it, ascending. Arrays may be memory-mapped; a loop takes a range of
rows or a list of them and reads nothing else, so that the caller decides how much of a file is in memory at a time.

`ids` translates the rows of a graph to the numbers that both graphs share; an empty one stands for "the same".
"""

import numba
import numpy as np

SHORT = 24  # rows up to here are sorted by insertion, without an array of their own


@numba.njit(cache=True, nogil=True)
def count_receivers(receivers, counts):
    for e in range(len(receivers)):
        counts[receivers[e]] += 1


@numba.njit(cache=True, nogil=True)
def place_edges(receivers, senders, weights, first, free, placed_senders, placed_weights):
    """Lay edges down row by row, in their own order within a row; free[v - first] is the next place of row v."""
    for e in range(len(receivers)):
        v = receivers[e] - first
        place = free[v]
        free[v] = place + 1
        placed_senders[place] = senders[e]
        if len(placed_weights):
            placed_weights[place] = weights[e]


@numba.njit(cache=True, nogil=True)
def sort_rows(indptr, senders, weights):
    """Sort every row by sender; parallel edges keep their order."""
    for v in range(len(indptr) - 1):
        low, high = indptr[v], indptr[v + 1]
        if high - low <= SHORT:
            for i in range(low + 1, high):
                sender = senders[i]
                weight = weights[i] if len(weights) else 0.0
                j = i
                while j > low and senders[j - 1] > sender:
                    senders[j] = senders[j - 1]
                    if len(weights):
                        weights[j] = weights[j - 1]
                    j -= 1
                senders[j] = sender
                if len(weights):
                    weights[j] = weight
            continue
        order = np.argsort(senders[low:high], kind="mergesort")
        senders[low:high] = senders[low:high][order]
        if len(weights):
            weights[low:high] = weights[low:high][order]


@numba.njit(cache=True, nogil=True)
def rows_in_order(start, stop, indptr, senders, num_nodes):
    """Whether every sender of these rows is a node, and each row ascends."""
    for v in range(start, stop):
        last = 0
        for e in range(indptr[v], indptr[v + 1]):
            if senders[e] < last or senders[e] >= num_nodes:
                return False
            last = senders[e]
    return True


@numba.njit(cache=True, nogil=True)
def compare_stored(
    start, stop, indptr, senders, weights, other_indptr, other_senders, other_weights, other_ids, other_rows, differ
):  # fmt: skip
    """Mark the numbers in [start, stop) whose rows differ; `other_rows` is the row of a number, -1 for none."""
    for v in range(start, stop):
        low = high = 0
        if v < len(indptr) - 1:
            low, high = indptr[v], indptr[v + 1]
        r = v
        if len(other_ids):
            r = other_rows[v]
        other = other_high = 0
        if 0 <= r < len(other_indptr) - 1:
            other, other_high = other_indptr[r], other_indptr[r + 1]
        size = high - low
        if other_high - other != size:
            differ[v] = True
            continue
        same = True
        for i in range(size):
            u = other_senders[other + i]
            if len(other_ids):
                u = other_ids[u]
            if senders[low + i] != u or (len(weights) and weights[low + i] != other_weights[other + i]):
                same = False
                break
        if not same and len(other_ids):
            # Numbered otherwise, the row may only be listed in another order.
            mapped = other_ids[other_senders[other:other_high]]
            order = np.argsort(mapped, kind="mergesort")
            same = True
            for i in range(size):
                k = order[i]
                if senders[low + i] != mapped[k] or (len(weights) and weights[low + i] != other_weights[other + k]):
                    same = False
                    break
        if not same:
            differ[v] = True


@numba.njit(cache=True, nogil=True)
def mark_stored_receivers(start, stop, indptr, senders, ids, chosen, found):
    """Mark the nodes among the rows [start, stop) that a chosen one sends to."""
    for r in range(start, stop):
        v = r
        if len(ids):
            v = ids[r]
        if found[v]:
            continue
        for e in range(indptr[r], indptr[r + 1]):
            u = senders[e]
            if chosen[ids[u] if len(ids) else u]:
                found[v] = True
                break


@numba.njit(cache=True, nogil=True)
def mark_stored_senders(rows, indptr, senders, ids, found):
    """Mark the nodes that send to one of these rows."""
    for i in range(len(rows)):
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            u = senders[e]
            found[ids[u] if len(ids) else u] = True


@numba.njit(cache=True, nogil=True)
def copy_rows(rows, indptr, senders, weights, ids, starts, copied_senders, copied_weights):
    """Entries of these rows, one row after the other: row i fills [starts[i], starts[i + 1]), or as much as fits."""
    for i in range(len(rows)):
        low = indptr[rows[i]]
        for k in range(starts[i + 1] - starts[i]):
            u = senders[low + k]
            copied_senders[starts[i] + k] = ids[u] if len(ids) else u
            if len(weights):
                copied_weights[starts[i] + k] = weights[low + k]


@numba.njit(cache=True, nogil=True)
def sum_rows(rows, indptr, senders, weights, sums, num_loops):
    """Number (sums[0]) and weight (sums[1]) of the edges into these rows, without self-loops; and how many of those."""
    for i in range(len(rows)):
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            if senders[e] == rows[i]:
                num_loops[i] += 1
            else:
                sums[0, i] += 1.0
                if len(weights):
                    sums[1, i] += weights[e]


@numba.njit(cache=True, nogil=True)
def copy_loops(rows, indptr, senders, weights, loop_weights):
    """Weights of the self-loops of these rows, one row after the other."""
    place = 0
    for i in range(len(rows)):
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            if senders[e] == rows[i]:
                loop_weights[place] = weights[e]
                place += 1

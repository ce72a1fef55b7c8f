"""The compiled loops on rows of sparse matrices: sorted, compared, merged, replaced, searched.

Rows receive: row V lists the nodes U that it takes from. Loops that take a range of rows write to these rows alone, so
that `run_in_pieces` can run them on several cores.
"""

import numba
import numpy as np

from ..arrays import IntArray


def entries_of(indptr: IntArray, nodes: IntArray) -> IntArray:
    """Entries of these rows, one row after the other."""
    counts = indptr[nodes + 1] - indptr[nodes]
    offset = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(indptr[nodes], counts) + offset)


@numba.njit(cache=True, nogil=True)
def sort_by_receiver(receivers, senders, indptr, order, sorted_senders):
    """Edges by receiver, in their own order within a row; `indptr` comes in as zeros."""
    for e in range(len(receivers)):
        indptr[receivers[e] + 1] += 1
    for v in range(len(indptr) - 1):
        indptr[v + 1] += indptr[v]
    free = indptr[:-1].copy()
    for e in range(len(receivers)):
        place = free[receivers[e]]
        free[receivers[e]] = place + 1
        order[place] = e
        sorted_senders[place] = senders[e]


@numba.njit(cache=True, nogil=True)
def compare_edges(start, stop, indptr, senders, weights, other_indptr, other_senders, other_weights, differ):
    """Whether two graphs differ in the edges into a node, in whatever order they list them; weights may be empty."""
    weighted = len(weights) > 0
    for v in range(start, stop):
        low, size = indptr[v], indptr[v + 1] - indptr[v]
        other = other_indptr[v]
        if other_indptr[v + 1] - other != size:
            differ[v] = True
            continue
        same = True
        for i in range(size):
            if senders[low + i] != other_senders[other + i] or (
                weighted and weights[low + i] != other_weights[other + i]
            ):
                same = False
                break
        if not same:
            mine = np.argsort(senders[low : low + size], kind="mergesort")
            theirs = np.argsort(other_senders[other : other + size], kind="mergesort")
            for i in range(size):
                e, f = low + mine[i], other + theirs[i]
                if senders[e] != other_senders[f] or (weighted and weights[e] != other_weights[f]):
                    differ[v] = True
                    break


@numba.njit(cache=True, nogil=True)
def compare_rows(start, stop, indptr, indices, data, other_indptr, other_indices, other_data, differ):
    """Whether two matrices with sorted rows differ in a row."""
    for v in range(start, stop):
        low, size = indptr[v], indptr[v + 1] - indptr[v]
        other = other_indptr[v]
        differ[v] = other_indptr[v + 1] - other != size
        if not differ[v]:
            for i in range(size):
                if indices[low + i] != other_indices[other + i] or data[low + i] != other_data[other + i]:
                    differ[v] = True
                    break


@numba.njit(cache=True, nogil=True)
def mark_receivers(start, stop, indptr, senders, chosen, found):
    """Mark the rows that take from a chosen node."""
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            if chosen[senders[e]]:
                found[v] = True
                break


@numba.njit(cache=True, nogil=True)
def replace_rows(indptr, indices, data, rows, new_indptr, new_indices, new_data, out_indptr, out_indices, out_data):
    """The matrix with these rows (ascending) replaced."""
    place, done = 0, 0
    for i in range(len(rows) + 1):
        # The rows between two replaced ones lie together: one copy.
        last = rows[i] if i < len(rows) else len(indptr) - 1
        shift = place - indptr[done]
        for v in range(done, last):
            out_indptr[v + 1] = indptr[v + 1] + shift
        for e in range(indptr[done], indptr[last]):
            out_indices[e + shift] = indices[e]
            out_data[e + shift] = data[e]
        place += indptr[last] - indptr[done]
        if i < len(rows):
            for e in range(new_indptr[i], new_indptr[i + 1]):
                out_indices[place] = new_indices[e]
                out_data[place] = new_data[e]
                place += 1
            out_indptr[last + 1] = place
        done = last + 1


@numba.njit(cache=True, nogil=True)
def find_in_rows(indptr, indices, above, below, found):
    """Place of the entry (above, below) in a matrix with sorted rows, -1 where there is none."""
    for i in range(len(above)):
        low, high = indptr[above[i]], indptr[above[i] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if indices[middle] < below[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low if low < end and indices[low] == below[i] else -1


@numba.njit(cache=True, nogil=True)
def multiply_each(rows, weight, product):
    """product += rows @ weight, each row by itself: a library's product may round a row by how many it is given."""
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            value = rows[i, k]
            for j in range(weight.shape[1]):
                product[i, j] += value * weight[k, j]

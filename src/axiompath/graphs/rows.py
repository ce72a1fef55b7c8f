"""The compiled loops on rows of sparse matrices and graphs: placed, sorted, compared, searched, copied, replaced.

Rows receive: row V lists the nodes U that it takes from. `edges` and `matrix` are `Incoming`, whose arrays may be
memory-mapped: a loop takes a range of rows or a list of them and reads nothing else, so that the caller decides how
much of a file is in memory at a time. Loops that take a range write to these rows alone, so that `run_in_pieces` can
run them on several cores.
"""

import numpy as np

from ..arrays import IntArray
from ..compiled import compiled
from ..stable_order import order_of

INSERTED = 24  # rows up to here are sorted by insertion, without an array of their own


def entries_of(indptr: IntArray, nodes: IntArray) -> IntArray:
    """Entries of these rows, one row after the other."""
    counts = indptr[nodes + 1] - indptr[nodes]
    offset = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(indptr[nodes], counts) + offset)


@compiled(early=0.3)
def count_receivers(receivers, counts):
    for e in range(len(receivers)):
        counts[receivers[e]] += 1


@compiled
def count_alike(receivers, senders, classes, degree, alike):
    """Who sends to each node but itself, and how many of them have its own class, where it has one (0 or more)."""
    for e in range(len(receivers)):
        v, u = receivers[e], senders[e]
        if u != v:
            degree[v] += 1
            alike[v] += classes[u] == classes[v] and classes[v] >= 0


@compiled(early=0.3)
def place_edges(receivers, senders, values, first, placed):
    """Lay edges down row by row, in their own order within a row; row i of `placed` is that of node first + i."""
    free = placed.indptr[:-1].copy()
    for e in range(len(receivers)):
        v = receivers[e] - first
        place = free[v]
        free[v] = place + 1
        placed.senders[place] = senders[e]
        if len(placed.values):
            placed.values[place] = values[e]


@compiled(early=0.3)
def sort_rows(edges):
    """Sort every row by sender; parallel edges keep their order."""
    indptr, senders, values = edges.indptr, edges.senders, edges.values
    for v in range(len(indptr) - 1):
        low, high = indptr[v], indptr[v + 1]
        if high - low <= INSERTED:
            for i in range(low + 1, high):
                sender = senders[i]
                value = values[i] if len(values) else 0.0
                j = i
                while j > low and senders[j - 1] > sender:
                    senders[j] = senders[j - 1]
                    if len(values):
                        values[j] = values[j - 1]
                    j -= 1
                senders[j] = sender
                if len(values):
                    values[j] = value
            continue
        order = order_of(senders[low:high])
        senders[low:high] = senders[low:high][order]
        if len(values):
            values[low:high] = values[low:high][order]


@compiled(early=0.3)
def rows_in_order(start, stop, edges, num_nodes):
    """Whether every sender of these rows is a node, and each row ascends."""
    for v in range(start, stop):
        last = 0
        for e in range(edges.indptr[v], edges.indptr[v + 1]):
            if edges.senders[e] < last or edges.senders[e] >= num_nodes:
                return False
            last = edges.senders[e]
    return True


@compiled(inner=True)
def _number_of(edges, row):
    return edges.ids[row] if len(edges.ids) else row


@compiled(inner=True)
def _entries_of_number(edges, v):
    """Where the row of number v begins and ends; nowhere if it has none."""
    row = v
    if len(edges.rows):
        row = edges.rows[v]
    if row < 0 or row >= len(edges.indptr) - 1:
        return 0, 0
    return edges.indptr[row], edges.indptr[row + 1]


@compiled(inner=True)
def _by_number(edges, low, high):
    """The entries of a row, ascending by the number of their sender; parallel ones in their own order."""
    numbers = np.empty(high - low, dtype=np.int64)
    for e in range(low, high):
        numbers[e - low] = _number_of(edges, edges.senders[e])
    return low + order_of(numbers)


@compiled(inner=True)
def _same_entry(edges, e, other, f):
    return _number_of(edges, edges.senders[e]) == _number_of(other, other.senders[f]) and (
        len(edges.values) == 0 or edges.values[e] == other.values[f]
    )


@compiled(early=0.3)
def compare_edges(start, stop, edges, other, differ):
    """Mark the numbers in [start, stop) whose rows differ, in whatever order the rows list their entries."""
    for v in range(start, stop):
        low, high = _entries_of_number(edges, v)
        other_low, other_high = _entries_of_number(other, v)
        size = high - low
        if other_high - other_low != size:
            differ[v] = True
            continue
        same = True
        for i in range(size):
            if not _same_entry(edges, low + i, other, other_low + i):
                same = False
                break
        if same:
            continue
        mine, theirs = _by_number(edges, low, high), _by_number(other, other_low, other_high)
        for i in range(size):
            if not _same_entry(edges, mine[i], other, theirs[i]):
                differ[v] = True
                break


@compiled(early=0.3)
def mark_receivers(start, stop, edges, chosen, found):
    """Mark the nodes among the rows [start, stop) that take from a chosen one."""
    for row in range(start, stop):
        v = _number_of(edges, row)
        if found[v]:
            continue
        for e in range(edges.indptr[row], edges.indptr[row + 1]):
            if chosen[_number_of(edges, edges.senders[e])]:
                found[v] = True
                break


@compiled(early=0.3)
def mark_senders(edges, rows, found):
    """Mark the nodes that one of these rows takes from."""
    for i in range(len(rows)):
        for e in range(edges.indptr[rows[i]], edges.indptr[rows[i] + 1]):
            found[_number_of(edges, edges.senders[e])] = True


@compiled(early=0.3)
def copy_rows(edges, rows, copied):
    """Entries of these rows: row i fills row i of `copied`, or as much of it as fits; senders by their number."""
    for i in range(len(rows)):
        low = edges.indptr[rows[i]]
        start = copied.indptr[i]
        for k in range(copied.indptr[i + 1] - start):
            copied.senders[start + k] = _number_of(edges, edges.senders[low + k])
            if len(copied.values):
                copied.values[start + k] = edges.values[low + k]


@compiled(early=0.3)
def sum_rows(edges, rows, sums, num_loops):
    """Number (sums[0]) and weight (sums[1]) of the edges into these rows, without self-loops; and how many of those."""
    for i in range(len(rows)):
        for e in range(edges.indptr[rows[i]], edges.indptr[rows[i] + 1]):
            if edges.senders[e] == rows[i]:
                num_loops[i] += 1
            else:
                sums[0, i] += 1.0
                if len(edges.values):
                    sums[1, i] += edges.values[e]


@compiled(early=0.3)
def copy_loops(edges, rows, loop_values):
    """Values of the self-loops of these rows, one row after the other."""
    place = 0
    for i in range(len(rows)):
        for e in range(edges.indptr[rows[i]], edges.indptr[rows[i] + 1]):
            if edges.senders[e] == rows[i]:
                loop_values[place] = edges.values[e]
                place += 1


@compiled(early=0.3)
def replace_rows(matrix, rows, new, replaced):
    """The matrix with these rows (ascending) replaced by those of `new`."""
    place, done = 0, 0
    for i in range(len(rows) + 1):
        # The rows between two replaced ones lie together: one copy.
        last = rows[i] if i < len(rows) else len(matrix.indptr) - 1
        shift = place - matrix.indptr[done]
        for v in range(done, last):
            replaced.indptr[v + 1] = matrix.indptr[v + 1] + shift
        for e in range(matrix.indptr[done], matrix.indptr[last]):
            replaced.senders[e + shift] = matrix.senders[e]
            replaced.values[e + shift] = matrix.values[e]
        place += matrix.indptr[last] - matrix.indptr[done]
        if i < len(rows):
            for e in range(new.indptr[i], new.indptr[i + 1]):
                replaced.senders[place] = new.senders[e]
                replaced.values[place] = new.values[e]
                place += 1
            replaced.indptr[last + 1] = place
        done = last + 1


@compiled(early=0.3)
def find_in_rows(indptr, indices, above, below, found):
    """Place of the entry (above, below) in a matrix with sorted rows, -1 where there is none."""
    for i in range(len(above)):
        low, high = indptr[above[i]], indptr[above[i] + 1]
        place = low + np.searchsorted(indices[low:high], below[i])
        found[i] = place if place < high and indices[place] == below[i] else -1


@compiled(early=0.3, steps=lambda rows, weight, product: 2.0 * rows.size * weight.shape[1])
def multiply_each(rows, weight, product):
    """product += rows @ weight, each row by itself: a library's product may round a row by how many it is given."""
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            value = rows[i, k]
            for j in range(weight.shape[1]):
                product[i, j] += value * weight[k, j]

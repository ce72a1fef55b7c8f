"""Partial paths extended by the entries that a walk goes over; twins in tests/support.

`following[s, marks[e]]` is the set of states that set s becomes over entry e, 0 for none. A set that holds nothing but
delta (`delta_alone`) goes over `descents`, the few entries that delta can go over; others over their whole row.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t


def list_children(
    Py_ssize_t start,
    Py_ssize_t stop,
    const int64_t[::1] indptr,
    const int64_t[::1] descents_indptr,
    const int64_t[::1] descents,
    const uint16_t[::1] marks,
    const uint16_t[:, ::1] following,
    const uint8_t[::1] delta_alone,
    const int32_t[::1] node,
    const uint16_t[::1] sets,
    bint counts,
    int64_t[::1] rows,
    int64_t[::1] entry,
    uint16_t[::1] sets_below,
):
    """The entries that each partial path goes on over, and the sets they lead to, from row rows[i] on.

    Where it `counts`, nothing is listed, and rows[i] becomes their number.
    """
    cdef Py_ssize_t i, k, j, first, last
    cdef int64_t e
    cdef int s, below
    with nogil:
        for i in range(start, stop):
            s, j = sets[i], 0 if counts else rows[i]
            first, last = indptr[node[i]], indptr[node[i] + 1]
            if delta_alone[s]:
                first, last = descents_indptr[node[i]], descents_indptr[node[i] + 1]
            for k in range(first, last):
                e = descents[k] if delta_alone[s] else k
                below = following[s, marks[e]]
                if below:
                    if not counts:
                        entry[j], sets_below[j] = e, <uint16_t>below
                    j += 1
            if counts:
                rows[i] = j


def fill_leaves(
    Py_ssize_t start,
    Py_ssize_t stop,
    const int64_t[::1] num_leaves,
    const int64_t[::1] rows,
    const int32_t[:, ::1] trail,
    const int32_t[::1] indices,
    const int64_t[::1] entry,
    int64_t[:, ::1] paths,
):
    """Write whole paths: the leaves of partial path i from row rows[i] on, behind each the nodes of its trail."""
    cdef Py_ssize_t i, row, h
    with nogil:
        for i in range(start, stop):
            for row in range(rows[i], rows[i] + num_leaves[i]):
                paths[row, 0] = indices[entry[row]]
                for h in range(1, paths.shape[1]):
                    paths[row, h] = trail[i, h]

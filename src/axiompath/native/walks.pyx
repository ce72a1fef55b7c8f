"""Ways down counted, and partial paths extended by the entries that a walk goes over; twins in tests/support.

`following[s, marks[e]]` is the set of states that set s becomes over entry e, 0 for none. A set that holds nothing but
delta (`delta_alone`) goes over `descents`, the few entries that delta can go over; others over their whole row.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t


def count_layer(
    Py_ssize_t start,
    Py_ssize_t stop,
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const uint16_t[::1] marks,
    const uint16_t[:, ::1] following,
    const double[:, ::1] below,
    double[:, ::1] above,
):
    """Add to above[v, s] the ways down from node v in set s."""
    cdef Py_ssize_t v, e, s
    cdef int s_below
    with nogil:
        for v in range(start, stop):
            for e in range(indptr[v], indptr[v + 1]):
                for s in range(1, following.shape[0]):
                    s_below = following[s, marks[e]]
                    if s_below:
                        above[v, s] += below[indices[e], s_below]


def count_children(
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
    int64_t[::1] num_children,
):
    """Entries that each partial path goes on over."""
    cdef Py_ssize_t i, k
    cdef int64_t count
    cdef int s
    with nogil:
        for i in range(start, stop):
            s, count = sets[i], 0
            if delta_alone[s]:
                for k in range(descents_indptr[node[i]], descents_indptr[node[i] + 1]):
                    count += following[s, marks[descents[k]]] != 0
            else:
                for k in range(indptr[node[i]], indptr[node[i] + 1]):
                    count += following[s, marks[k]] != 0
            num_children[i] = count


def fill_children(
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
    const int64_t[::1] rows,
    int64_t[::1] entry,
    uint16_t[::1] sets_below,
):
    """The entries themselves and the sets they lead to, from row rows[i] on those of partial path i."""
    cdef Py_ssize_t i, k, j
    cdef int64_t e
    cdef int s, below
    with nogil:
        for i in range(start, stop):
            s, j = sets[i], rows[i]
            if delta_alone[s]:
                for k in range(descents_indptr[node[i]], descents_indptr[node[i] + 1]):
                    e = descents[k]
                    below = following[s, marks[e]]
                    if below:
                        entry[j], sets_below[j] = e, <uint16_t>below
                        j += 1
            else:
                for e in range(indptr[node[i]], indptr[node[i] + 1]):
                    below = following[s, marks[e]]
                    if below:
                        entry[j], sets_below[j] = e, <uint16_t>below
                        j += 1


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

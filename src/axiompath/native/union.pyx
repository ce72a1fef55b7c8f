"""The coefficients of two snapshots, rule by rule, laid side by side on their common pattern."""

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint16_t

from ..change.states import (
    AFTER_GAINED, AFTER_REWEIGHTED, BEFORE_LOST, BEFORE_REWEIGHTED, DELTA, IN_AFTER, IN_BEFORE, LEAVE, OF_AFTER,
    OF_BEFORE,
)

cdef double ROUNDING = 8 * 2.0**-52  # relative difference up to which two coefficients are one
# What the marks say of an entry that one snapshot has, and what they add where its coefficient exceeds what is kept.
cdef int HAS_BEFORE = OF_BEFORE, HAS_AFTER = OF_AFTER, KEEPS = DELTA, ALL_AFTER = IN_AFTER, ALL_BEFORE = IN_BEFORE
cdef int GAINS = AFTER_GAINED << LEAVE, GROWS = AFTER_REWEIGHTED << LEAVE
cdef int LOSES = BEFORE_LOST << LEAVE, SHRINKS = BEFORE_REWEIGHTED << LEAVE


cdef inline int64_t lowest_column(
    const int64_t[:, ::1] indptrs, const int32_t[::1] indices, const int64_t[::1] at, Py_ssize_t r
) noexcept nogil:
    """The lowest column that any of the matrices has not passed yet, -1 where all are done."""
    cdef int64_t column = -1
    cdef Py_ssize_t k
    for k in range(indptrs.shape[0]):
        if at[k] < indptrs[k, r + 1] and (column < 0 or indices[at[k]] < column):
            column = indices[at[k]]
    return column


def count_union(
    Py_ssize_t start,
    Py_ssize_t stop,
    const int64_t[:, ::1] indptrs,
    const int32_t[::1] indices,
    int64_t[::1] at,
    int64_t[::1] sizes,
):
    """Number of different columns in each row; `at` [num_matrices] is scratch."""
    cdef Py_ssize_t r, k
    cdef int64_t column
    with nogil:
        for r in range(start, stop):
            for k in range(indptrs.shape[0]):
                at[k] = indptrs[k, r]
            sizes[r] = 0
            while True:
                column = lowest_column(indptrs, indices, at, r)
                if column < 0:
                    break
                for k in range(indptrs.shape[0]):
                    if at[k] < indptrs[k, r + 1] and indices[at[k]] == column:
                        at[k] += 1
                sizes[r] += 1


def fill_union(
    Py_ssize_t start,
    Py_ssize_t stop,
    const int64_t[:, ::1] indptrs,
    const int32_t[::1] indices,
    const double[::1] data,
    int64_t[::1] at,
    const int64_t[::1] starts,
    int32_t[::1] columns,
    double[:, ::1] before,
    double[:, ::1] after,
    double[:, ::1] kept,
    uint16_t[:, ::1] marks,
):
    """Both snapshots' coefficients; row r begins at starts[r]. The first half of the matrices is that of `before`."""
    cdef Py_ssize_t r, k, j, num_rules = indptrs.shape[0] // 2
    cdef int64_t column, e
    cdef int mark
    cdef double a, b, shared
    with nogil:
        for r in range(start, stop):
            for k in range(indptrs.shape[0]):
                at[k] = indptrs[k, r]
            for e in range(starts[r], starts[r + 1]):
                column = lowest_column(indptrs, indices, at, r)
                columns[e] = <int32_t>column
                for k in range(num_rules):
                    a = b = 0.0
                    mark = 0
                    if at[k] < indptrs[k, r + 1] and indices[at[k]] == column:
                        b = data[at[k]]
                        at[k] += 1
                        mark |= HAS_BEFORE
                    j = k + num_rules
                    if at[j] < indptrs[j, r + 1] and indices[at[j]] == column:
                        a = data[at[j]]
                        at[j] += 1
                        mark |= HAS_AFTER
                    if fabs(a - b) <= ROUNDING * fabs(b):
                        a = b  # the same sum in another order: no path is altered by that
                    shared = 0.0
                    if (a > 0.0 and b > 0.0) or (a < 0.0 and b < 0.0):
                        shared = b if fabs(b) <= fabs(a) else a
                    before[e, k], after[e, k], kept[e, k] = b, a, shared
                    if a != shared:
                        mark |= GROWS if mark & HAS_BEFORE else GAINS
                    if b != shared:
                        mark |= SHRINKS if mark & HAS_AFTER else LOSES
                    if shared != 0.0:
                        mark |= KEEPS
                    if a != 0.0:
                        mark |= ALL_AFTER
                    if b != 0.0:
                        mark |= ALL_BEFORE
                    marks[e, k] = <uint16_t>mark

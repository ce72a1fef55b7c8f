# distutils: language = c++
"""Rows of sparse matrices and graphs: entries placed, sorted and compared by row, found, multiplied."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.algorithm cimport sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector


def place_in_rows(const int64_t[::1] rows, int64_t[::1] free, int64_t[::1] places):
    """places[e] = the next free place of row rows[e]; `free` begins as the first place of each row."""
    cdef Py_ssize_t e
    with nogil:
        for e in range(rows.shape[0]):
            places[e] = free[rows[e]]
            free[rows[e]] += 1


def order_rows(const int64_t[::1] indptr, const int64_t[::1] columns, int64_t[::1] order):
    """Entries of each row by column; equal ones as they lie."""
    cdef Py_ssize_t v, e
    cdef vector[pair[int64_t, int64_t]] held
    with nogil:
        for v in range(indptr.shape[0] - 1):
            held.clear()
            for e in range(indptr[v], indptr[v + 1]):
                held.push_back(pair[int64_t, int64_t](columns[e], e))
            sort(held.begin(), held.end())
            for e in range(indptr[v], indptr[v + 1]):
                order[e] = held[e - indptr[v]].second


cdef bint is_equal(
    const double[:, ::1] values, const double[:, ::1] others, Py_ssize_t e, Py_ssize_t f
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(values.shape[1]):
        if values[e, k] != others[f, k]:
            return False
    return True


def compare_rows(
    const int64_t[:, ::1] starts,
    const int64_t[:, ::1] sizes,
    const int64_t[::1] columns,
    const double[:, ::1] values,
    const int64_t[::1] other_columns,
    const double[:, ::1] other_values,
    uint8_t[::1] differ,
):
    """Mark the rows whose entries differ, in whatever order they lie; parallel entries keep theirs.

    `starts` and `sizes` [2, rows] say where the entries of each row are on both sides; `values` [entries, k].
    """
    cdef Py_ssize_t v, i, low, other_low, size
    cdef bint same
    cdef vector[pair[int64_t, int64_t]] mine, theirs
    with nogil:
        for v in range(differ.shape[0]):
            low, other_low, size = starts[0, v], starts[1, v], sizes[0, v]
            if sizes[1, v] != size:
                differ[v] = True
                continue
            same = True
            for i in range(size):
                if columns[low + i] != other_columns[other_low + i] or not (
                    is_equal(values, other_values, low + i, other_low + i)
                ):
                    same = False
                    break
            if same:
                continue
            mine.clear()
            theirs.clear()
            for i in range(size):
                mine.push_back(pair[int64_t, int64_t](columns[low + i], low + i))
                theirs.push_back(pair[int64_t, int64_t](other_columns[other_low + i], other_low + i))
            sort(mine.begin(), mine.end())
            sort(theirs.begin(), theirs.end())
            for i in range(size):
                if mine[i].first != theirs[i].first or not (
                    is_equal(values, other_values, mine[i].second, theirs[i].second)
                ):
                    differ[v] = True
                    break


def find_entries(
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const int64_t[::1] rows,
    const int64_t[::1] columns,
    int64_t[::1] found,
):
    """The entry of each (row, column), -1 where there is none; columns ascend within a row."""
    cdef Py_ssize_t i
    cdef int64_t low, high, end, middle
    with nogil:
        for i in range(rows.shape[0]):
            low, high = indptr[rows[i]], indptr[rows[i] + 1]
            end = high
            while low < high:
                middle = (low + high) >> 1
                if indices[middle] < columns[i]:
                    low = middle + 1
                else:
                    high = middle
            found[i] = low if low < end and indices[low] == columns[i] else -1


def multiply_each(const double[:, ::1] rows, const double[:, ::1] weight, double[:, ::1] product):
    """product += rows @ weight, each row by itself: a library's product may round a row by how many it is given."""
    cdef Py_ssize_t i, j, k
    cdef double value
    with nogil:
        for i in range(rows.shape[0]):
            for k in range(rows.shape[1]):
                value = rows[i, k]
                for j in range(weight.shape[1]):
                    product[i, j] += value * weight[k, j]

"""Who holds the largest value of a row of edges, and for how much of the way from one snapshot to the other."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t


def hold_shares(const int64_t[::1] indptr, const double[::1] values, const uint8_t[::1] there, double[::1] shares):
    """shares[e] = 1 over the number of those that hold the row's largest value, if e does; else 0."""
    cdef Py_ssize_t v, e
    cdef double highest
    cdef int64_t count
    with nogil:
        for v in range(indptr.shape[0] - 1):
            highest, count = -INFINITY, 0
            for e in range(indptr[v], indptr[v + 1]):
                shares[e] = 0.0
                if not there[e]:
                    continue
                if count == 0 or values[e] > highest:
                    highest, count = values[e], 1
                elif values[e] == highest:
                    count += 1
            for e in range(indptr[v], indptr[v + 1]):
                if there[e] and values[e] == highest:
                    shares[e] = 1.0 / count


def line_shares(
    const int64_t[::1] indptr, const double[::1] low, const double[::1] high, const uint8_t[::1] there, double[::1] shares
):
    """shares[e] = the part of the way on which low + s (high - low) of e is the row's largest, s from 0 to 1.

    Along the upper envelope of the row's lines, from one to the next that overtakes it; equal lines share.
    """
    cdef Py_ssize_t v, e, holder, following
    cdef double s, slope, until, steepest, steeper, crossing
    cdef int64_t count
    with nogil:
        for v in range(indptr.shape[0] - 1):
            holder = -1
            for e in range(indptr[v], indptr[v + 1]):
                shares[e] = 0.0
                if not there[e]:
                    continue
                if holder < 0 or low[e] > low[holder] or (low[e] == low[holder] and high[e] > high[holder]):
                    holder = e
            s = 0.0
            while holder >= 0:
                slope = high[holder] - low[holder]
                until, following, steepest = 1.0, -1, slope
                for e in range(indptr[v], indptr[v + 1]):
                    if not there[e] or high[e] <= high[holder]:  # what is not above at the end never overtakes
                        continue
                    steeper = high[e] - low[e]
                    if steeper <= slope:
                        continue
                    crossing = max((low[holder] - low[e]) / (steeper - slope), s)
                    if crossing < until or (crossing == until and following >= 0 and steeper > steepest):
                        until, following, steepest = crossing, e, steeper
                count = 0
                for e in range(indptr[v], indptr[v + 1]):
                    if there[e] and low[e] == low[holder] and high[e] == high[holder]:
                        count += 1
                for e in range(indptr[v], indptr[v + 1]):
                    if there[e] and low[e] == low[holder] and high[e] == high[holder]:
                        shares[e] += (until - s) / count
                s, holder = until, following

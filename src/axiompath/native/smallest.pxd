"""Keys -> the n smallest, ties broken by the lower index."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libcpp.algorithm cimport lower_bound, nth_element, sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

ctypedef pair[double, int64_t] Keyed


cdef inline double number_or_last(double key) noexcept nogil:
    """What is no number goes last: library sorts need an order."""
    return key if key == key else INFINITY


cdef inline double kth_smallest(const double* keys, Py_ssize_t m, Py_ssize_t k, double* scratch) noexcept nogil:
    """The k-th smallest key, k from 0; `scratch` [m] is overwritten."""
    cdef Py_ssize_t i
    for i in range(m):
        scratch[i] = number_or_last(keys[i])
    nth_element(scratch, scratch + k, scratch + m)
    return scratch[k]


cdef inline int sort_keys(const double* keys, Py_ssize_t m, vector[Keyed]& order) except -1 nogil:
    """Fill `order` with (key, index), smallest first, and the lower index first among equals."""
    cdef Py_ssize_t i
    order.resize(m)
    for i in range(m):
        order[i].first, order[i].second = number_or_last(keys[i]), i
    sort(order.begin(), order.end())
    return 0


cdef inline Py_ssize_t n_smallest(
    const double* keys, Py_ssize_t m, Py_ssize_t n, double* scratch, int64_t* chosen
) noexcept nogil:
    """Indices of the n smallest keys, in index order, into `chosen` [min(n, m)]; returns how many."""
    cdef Py_ssize_t i, at = 0, size = min(n, m), ties = size
    cdef double threshold, key
    if size == 0:
        return 0
    threshold = kth_smallest(keys, m, size - 1, scratch)
    for i in range(m):
        if number_or_last(keys[i]) < threshold:
            ties -= 1
    for i in range(m):
        key = number_or_last(keys[i])
        if key < threshold or (key == threshold and ties > 0):
            if key == threshold:
                ties -= 1
            chosen[at] = i
            at += 1
    return size


cdef inline double sum_of_smallest(
    const double* keys, Py_ssize_t m, Py_ssize_t n, bint at_most, double* scratch, int64_t* chosen
) noexcept nogil:
    """S_n of selection/objective.py, to rounding however many there are (Kahan); `chosen` [n] is overwritten."""
    cdef Py_ssize_t i, size = n_smallest(keys, m, n, scratch, chosen)
    cdef double total = 0.0, lost = 0.0, key, added
    for i in range(size):
        if keys[chosen[i]] < 0.0 or not at_most:
            key = keys[chosen[i]] - lost
            added = total + key
            lost = (added - total) - key
            total = added
    return total


cdef inline int settle_ties(
    const double* rows, const double* prices, double* x, Py_ssize_t m, Py_ssize_t c
) except -1 nogil:
    """Among equal rows, give the larger weights to the lower indices.

    Equal rows have equal prices, so each row is looked up among the few that hold weight, sorted by price.
    """
    cdef vector[Keyed] held
    cdef vector[vector[int64_t]] groups  # of each in `held` the rows that equal it
    cdef vector[double] weights
    cdef Py_ssize_t i, j, g, found, size
    cdef bint equal, ties = False
    for i in range(m):
        if x[i] != 0.0:
            held.push_back(Keyed(number_or_last(prices[i]), i))
    sort(held.begin(), held.end())
    size = held.size()
    groups.resize(size)
    for i in range(m):
        found = lower_bound(held.begin(), held.end(), Keyed(number_or_last(prices[i]), -1)) - held.begin()
        while found < size and held[found].first == prices[i]:
            equal = True
            for j in range(c):
                equal = equal and rows[held[found].second * c + j] == rows[i * c + j]
            if equal:
                groups[found].push_back(i)
                ties = ties or held[found].second != i
                break
            found += 1
    for g in range(size if ties else 0):
        weights.clear()
        for i in groups[g]:
            weights.push_back(x[i])
        sort(weights.begin(), weights.end())
        for i in range(<Py_ssize_t> weights.size()):
            x[groups[g][i]] = weights[weights.size() - 1 - i]
    return 0

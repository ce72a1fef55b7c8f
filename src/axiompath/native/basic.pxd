"""The crossover of basic.pyx."""

cdef int reduce_to_basic(
    const double* rows, Py_ssize_t m, Py_ssize_t c, Py_ssize_t n, bint at_most, double* x, double span
) except -1 nogil

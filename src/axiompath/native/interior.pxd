"""The interior-point method of interior.pyx."""

from libcpp.vector cimport vector

from .divergence cimport Goal


cdef struct Program:
    const double* rows  # [m, c]: B
    const Goal* goal
    Py_ssize_t m, n
    double reach  # more than any n paths together can add to a logit
    bint at_most  # sum x <= n instead of sum x = n


cdef struct Optimum:
    double nu  # the price below which a path is worth taking
    double value
    double bound
    int iterations


cdef int solve_relaxation(
    const Program* program, double* x, double* w, double tolerance, bint warm, vector[double]& space, Optimum* found
) except -1 nogil

# distutils: language = c++
"""Normal form -> the relaxation's optimum, a basic one, and what it proves of every choice.

    minimise over x in [0,1]^m, sum x = n:   D(v0 + B'x)

Up to a hundred paths the interior-point method sees all of them. Beyond that it sees a growing shortlist:
solve on the shortlist, price every path once with the dual point found, add the paths whose price is below
the threshold, repeat until none matters. The paths outside have weight 0, and the last pricing is the
certificate for all of them.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from .basic cimport reduce_to_basic
from .divergence cimport (
    DBL_EPSILON, SQUARES, Dual, Goal, fixed_part, goal_of, grain_of, minority, price_rows, rounding_of, tilt, unit_of, weigh_rows,
)
from .interior cimport Optimum, Program, solve_relaxation
from .smallest cimport n_smallest, settle_ties, sum_of_smallest

# Measured: short lists and a few more rounds beat long lists, whose every iteration pays for rows of no use.
cdef Py_ssize_t DIRECT = 100
cdef Py_ssize_t SHORTLIST = 32
cdef int ROUNDS = 40

# Columns of what comes back.
cdef enum:
    VALUE
    BOUND
    BASE
    ROUNDING
    ITERATIONS
    GRAIN


cdef cppclass Shortlist:
    """Scratch: the rows that the interior-point method sees."""
    vector[char] listed
    vector[int64_t] places
    vector[double] rows, x, space, scratch


cdef double total_reach(const double* reach, Py_ssize_t m, Py_ssize_t n) noexcept nogil:
    """More than any n paths together can add to a logit: the scale of the rounding of their sums."""
    cdef Py_ssize_t i
    cdef double total = 0.0, largest = 0.0
    for i in range(m):
        total += reach[i]
        largest = max(largest, reach[i])
    return min(total, n * largest)


cdef int list_smallest(Shortlist* s, const double* prices, Py_ssize_t m, Py_ssize_t n) except -1 nogil:
    cdef Py_ssize_t k
    s.places.resize(m)
    for k in range(n_smallest(prices, m, n, s.scratch.data(), s.places.data())):
        s.listed[s.places[k]] = True
    return 0


cdef int list_first(
    const Program* program, const double* x, Dual at, double* prices, Shortlist* s
) except -1 nogil:
    """All rows, or where these are many, those of weight and of the smallest prices."""
    cdef Py_ssize_t i, m = program.m
    s.scratch.resize(m)
    s.listed.assign(m, 1)
    if m <= DIRECT or program.n >= m // 4:
        return 0
    weigh_rows(program.goal, program.rows, x, m, at.w)
    tilt(program.goal, at)
    price_rows(program.rows, at.r, m, program.goal.c, prices)
    for i in range(m):
        s.listed[i] = x[i] > 0.0
    return list_smallest(s, prices, m, program.n + SHORTLIST)


cdef int solve_listed(
    const Program* program, double* x, Dual at, double span, double tolerance, bint warm, Shortlist* s, Optimum* found
) except -1 nogil:
    """Solve on the listed rows; x becomes basic, and 0 elsewhere."""
    cdef Py_ssize_t i, k, c = program.goal.c
    cdef Program shorter = program[0]
    s.places.clear()
    for i in range(program.m):
        if s.listed[i]:
            s.places.push_back(i)
    shorter.m = s.places.size()
    s.rows.resize(shorter.m * c)
    s.x.resize(shorter.m)
    for k in range(shorter.m):
        memcpy(&s.rows[k * c], program.rows + s.places[k] * c, c * sizeof(double))
        s.x[k] = x[s.places[k]]
    shorter.rows = s.rows.data()
    solve_relaxation(&shorter, s.x.data(), at.w, tolerance, warm, s.space, found)
    reduce_to_basic(shorter.rows, shorter.m, c, program.n, program.at_most, s.x.data(), span)
    for i in range(program.m):
        x[i] = 0.0
    for k in range(shorter.m):
        x[s.places[k]] = s.x[k]
    return 0


cdef int solve_shortlisted(
    const Program* program, double* x, Dual at, double* prices, double tolerance, bint warm, Shortlist* s
) except -1 nogil:
    """Solve on a growing shortlist; the dual point and the prices of all rows are left. Returns the iterations."""
    cdef Py_ssize_t i, j, m = program.m, c = program.goal.c, more = program.n + SHORTLIST // 2, violators
    cdef int tried, iterations = 0
    cdef double span = 0.0, missing
    cdef Optimum found
    for j in range(c):
        span = max(span, fabs(program.goal.start[j]))
    if program.goal.kind != SQUARES:
        span = min(1.0, span)
    list_first(program, x, at, prices, s)
    for tried in range(ROUNDS):
        solve_listed(program, x, at, span, tolerance, warm, s, &found)
        iterations += found.iterations
        tilt(program.goal, at)
        price_rows(program.rows, at.r, m, c, prices)
        missing, violators = 0.0, 0
        for i in range(m):
            if prices[i] < found.nu and not s.listed[i]:
                missing += found.nu - prices[i]
                violators += 1
        if violators == 0 or found.value - max(found.bound - missing, 0.0) <= tolerance * max(
            unit_of(program.goal), found.value
        ):
            return iterations
        for i in range(m):
            if violators <= more:
                s.listed[i] = s.listed[i] or prices[i] < found.nu
            elif s.listed[i]:
                prices[i] = INFINITY
        if violators > more:
            list_smallest(s, prices, m, more)
        more *= 2
        warm = True
    price_rows(program.rows, at.r, m, c, prices)
    return iterations


cdef int certify(
    const Program* program, Dual at, const double* prices, Shortlist* s, double* numbers
) except -1 nogil:
    """What a dual point proves of any choice, before and after the prices of its paths are added, and the rounding."""
    cdef double grain = grain_of(program.goal, program.reach)
    s.places.resize(program.m)
    s.scratch.resize(program.m)
    numbers[ROUNDING] = rounding_of(program.goal, at, program.reach)
    numbers[BASE] = fixed_part(program.goal, at) - numbers[ROUNDING]
    numbers[BOUND] = numbers[BASE] + sum_of_smallest(
        prices, program.m, program.n, program.at_most, s.scratch.data(), s.places.data()
    )
    if not numbers[BOUND] > 0.0:  # whatever is not a number proves nothing
        numbers[BOUND] = 0.0
    numbers[ROUNDING] += grain * grain * minority(program.goal, at.h)
    numbers[GRAIN] = 4.0 * DBL_EPSILON * program.reach
    return 0


cdef int solve_one(
    const Program* program, double* x, double* prices, double tolerance, bint warm, bint fixed, Shortlist* s,
    vector[double]& dual, double* numbers
) except -1 nogil:
    """The basic x, the prices and what they prove; with `fixed`, x comes in and stays."""
    cdef Py_ssize_t i, m = program.m, c = program.goal.c
    cdef Dual at
    dual.resize(4 * c)
    at.w, at.h, at.r = dual.data(), dual.data() + c, dual.data() + 2 * c
    numbers[ITERATIONS] = 0.0
    if fixed or program.n == 0 or m == 0 or (program.n >= m and not program.at_most):
        for i in range(0 if fixed else m):
            x[i] = 0.0 if program.n == 0 else 1.0
        weigh_rows(program.goal, program.rows, x, m, at.w)
        tilt(program.goal, at)
        price_rows(program.rows, at.r, m, c, prices)
    else:
        numbers[ITERATIONS] = solve_shortlisted(program, x, at, prices, tolerance, warm, s)
        settle_ties(program.rows, prices, x, m, c)
    certify(program, at, prices, s, numbers)
    numbers[VALUE] = weigh_rows(program.goal, program.rows, x, m, at.r + c)
    return 0


def relax(
    Py_ssize_t first, Py_ssize_t last, int kind, double sign, const double[:, ::1] contributions,
    const int64_t[::1] offsets, const double[:, ::1] origin, const double[:, ::1] target, const double[::1] scales,
    const double[:, :, ::1] goals, const double[:, ::1] facts, const double[:, ::1] rows, const double[::1] reach,
    const int64_t[::1] which, const int64_t[::1] sizes, bint at_most, bint warm, bint fixed, double tolerance,
    double[::1] weights, double[::1] prices, double[:, ::1] numbers,
):
    """Weights and prices of all paths of the targets which[first:last], choosing sizes[k] of target which[k].

    numbers[k]: value, bound, the bound before prices are added, rounding, iterations, and the rounding of what
    paths add to a logit. With `warm`, the weights that come in are those of a nearby size; with `fixed` they stay.
    """
    cdef Py_ssize_t k, i, j, at
    cdef Goal goal
    cdef Program program
    cdef Shortlist s
    cdef vector[double] dual
    with nogil:
        for k in range(first, last):
            i = which[k]
            at = offsets[i]
            goal = goal_of(kind, goals, facts, scales, i)
            program.goal, program.m, program.n, program.at_most = &goal, offsets[i + 1] - at, sizes[k], at_most
            if program.m == 0:
                program.rows = NULL
                program.reach = 0.0
                solve_one(&program, NULL, NULL, tolerance, warm, fixed, &s, dual, &numbers[k, 0])
                continue
            program.rows, program.reach = &rows[at, 0], total_reach(&reach[at], program.m, program.n)
            if not warm and not fixed:
                for j in range(at, offsets[i + 1]):
                    weights[j] = 0.0
            solve_one(
                &program, &weights[at], &prices[at], tolerance, warm, fixed, &s, dual, &numbers[k, 0]
            )

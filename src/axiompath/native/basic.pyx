# distutils: language = c++
"""An optimal x -> an optimal x with at most c + 1 fractional entries.

The relaxation's minimiser is not unique: the objective sees x only through B'x in R^c, and any move along a
null vector of the columns (B_i, 1) keeps both B'x and the sum. Such moves can push one more entry to a bound
until the fractional entries' columns are independent: then they are at most c + 1. This is the crossover of
linear programming: a basis of independent columns is grown, and every other fractional entry is moved to a
bound while the basic ones make up for it; a basic entry that reaches a bound first leaves the basis.
"""

from libc.math cimport INFINITY, fabs
from libcpp.vector cimport vector

# Columns are scaled to entries of at most 1. A column counts as dependent on the basis if its remainder is
# below the first number, or moves no logit by more than the second's share of the change; a basic entry with a
# coefficient below the third counts as unmoved.
cdef double DEPENDENT = 1e-13
cdef double IMPERCEPTIBLE = 1e-12
cdef double UNMOVED = 1e-11
# The fractional entries far from their bounds go first: a basis of them is rarely disturbed later. Seven bands of
# distance serve as well as a sort.
cdef double[8] BANDS = [1.0, 0.2, 0.05, 0.01, 1e-3, 1e-5, 1e-8, 0.0]


cdef struct Basis:
    const double* rows  # [m, c]
    double* x  # [m]
    Py_ssize_t m, c, size  # size = c + 1
    double scale  # of the columns
    double slack  # of "at most n": entry m, with column (0, 1) and no upper bound
    double* inverse  # [size, size]
    double* v  # [size]: a column's image
    double* image  # [size]: B'x over the scale, and sum x, which stay
    Py_ssize_t* basic  # [size]: the entry of each place, or -1


cdef double clipped(double x) noexcept nogil:
    return min(max(x, 0.0), 1.0)


cdef void pivot(Basis* s, Py_ssize_t r) noexcept nogil:
    """Make the column whose image is v the r-th unit vector."""
    cdef Py_ssize_t i, k
    for k in range(s.size):
        s.inverse[r * s.size + k] /= s.v[r]
    for i in range(s.size):
        if i != r and s.v[i] != 0.0:
            for k in range(s.size):
                s.inverse[i * s.size + k] -= s.v[i] * s.inverse[r * s.size + k]


cdef void express(Basis* s, Py_ssize_t e) noexcept nogil:
    """v = the image of entry e's column."""
    cdef Py_ssize_t i, j
    for i in range(s.size):
        s.v[i] = s.inverse[i * s.size + s.c]
        for j in range(s.c):
            s.v[i] += s.inverse[i * s.size + j] * (s.rows[e * s.c + j] / s.scale)


cdef bint enter(Basis* s, Py_ssize_t e, double least) noexcept nogil:
    """Take entry e into the basis if its column is independent of it."""
    cdef Py_ssize_t i, r = -1
    cdef double largest = least
    for i in range(s.size):
        if s.basic[i] < 0 and fabs(s.v[i]) > largest:
            largest, r = fabs(s.v[i]), i
    if r < 0:
        return False
    pivot(s, r)
    s.basic[r] = e
    return True


cdef void push(Basis* s, Py_ssize_t e) noexcept nogil:
    """Move the dependent entry e to its nearer bound, while basic entries change by -direction * v."""
    cdef Py_ssize_t i, r = -1
    cdef double* x = s.x
    cdef double direction = -1.0 if x[e] <= 0.5 else 1.0, step = x[e] if x[e] <= 0.5 else 1.0 - x[e]
    cdef double change, held, room
    for i in range(s.size):
        if s.basic[i] < 0 or fabs(s.v[i]) < UNMOVED:
            continue
        change = -direction * s.v[i]
        held = s.slack if s.basic[i] == s.m else x[s.basic[i]]
        room = INFINITY
        if change < 0.0:
            room = held / -change
        elif s.basic[i] != s.m:
            room = (1.0 - held) / change
        if room < step or (room == step and r >= 0 and fabs(s.v[i]) > fabs(s.v[r])):
            step, r = room, i
    for i in range(s.size):
        if s.basic[i] == s.m:
            s.slack -= direction * s.v[i] * step
        elif s.basic[i] >= 0:
            x[s.basic[i]] = clipped(x[s.basic[i]] - direction * s.v[i] * step)
    if r < 0:
        x[e] = 0.0 if direction < 0.0 else 1.0
        return
    x[e] += direction * step
    if s.basic[r] == s.m:
        s.slack = 0.0
    else:
        x[s.basic[r]] = 0.0 if -direction * s.v[r] < 0.0 else 1.0
    pivot(s, r)
    s.basic[r] = e


cdef void correct(Basis* s, Py_ssize_t n, double* before) noexcept nogil:
    """Many small moves add up their rounding. Corrections of the basic entries take it back, while they help."""
    cdef Py_ssize_t i, j, k, tried
    cdef double error = INFINITY, largest, change
    for i in range(s.m):
        before[i] = s.x[i]
    for tried in range(4):
        for j in range(s.c):
            s.v[j] = s.image[j]
        s.v[s.c] = n - s.slack
        for i in range(s.m):
            if s.x[i] != 0.0:
                for j in range(s.c):
                    s.v[j] -= s.rows[i * s.c + j] / s.scale * s.x[i]
                s.v[s.c] -= s.x[i]
        largest = 0.0
        for k in range(s.size):
            largest = max(largest, fabs(s.v[k]))
        if not largest < error:
            for i in range(s.m):
                s.x[i] = before[i]
            return
        error = largest
        for i in range(s.m):
            before[i] = s.x[i]
        for i in range(s.size):
            change = 0.0
            for k in range(s.size):
                change += s.inverse[i * s.size + k] * s.v[k]
            if s.basic[i] == s.m:
                s.slack = max(s.slack + change, 0.0)
            elif s.basic[i] >= 0:
                s.x[s.basic[i]] = clipped(s.x[s.basic[i]] + change)


cdef void restore_sum(double* x, Py_ssize_t m, Py_ssize_t n, bint at_most) noexcept nogil:
    """Make the sum right whatever rounding has done, at the cost of fractional entries first."""
    cdef Py_ssize_t i
    cdef int whole
    cdef double excess = -<double> n, moved
    for i in range(m):
        excess += x[i]
    if at_most:
        excess = max(excess, 0.0)
    for whole in range(2):
        for i in range(m):
            if fabs(excess) > 1e-12 and (whole or 0.0 < x[i] < 1.0):
                moved = clipped(x[i] - excess)
                excess -= x[i] - moved
                x[i] = moved


cdef int reduce_to_basic(
    const double* rows, Py_ssize_t m, Py_ssize_t c, Py_ssize_t n, bint at_most, double* x, double span
) except -1 nogil:
    """Move x [m] to a basic point with the same B'x and sum (sum <= n with `at_most`), in place.

    `span` is the largest change of a logit, or 1 where more makes no difference.
    """
    cdef Basis s
    cdef Py_ssize_t i, j, band, fractional = 0
    cdef double distance
    cdef vector[double] space = vector[double]((c + 1) * (c + 3) + m)
    cdef vector[Py_ssize_t] basic = vector[Py_ssize_t](c + 1, -1)
    s.rows, s.x, s.m, s.c, s.size, s.scale, s.slack = rows, x, m, c, c + 1, 0.0, 0.0
    s.v, s.basic = space.data(), basic.data()
    s.image, s.inverse = s.v + s.size, s.v + 2 * s.size
    for i in range(m):
        x[i] = clipped(x[i])
        fractional += 0.0 < x[i] < 1.0
        for j in range(c):
            s.scale = max(s.scale, fabs(rows[i * c + j]))
            s.image[j] += rows[i * c + j] * x[i]
        s.image[c] += x[i]
    if fractional == 0:
        return 0
    s.scale = s.scale if s.scale > 0.0 else 1.0
    for j in range(c):
        s.image[j] /= s.scale
    for i in range(s.size):
        s.inverse[i * s.size + i] = 1.0
    if at_most and n - s.image[c] > 1e-9:  # the slack enters first
        s.slack, s.basic[c] = n - s.image[c], m
    # Later moves must not change what is taken in which order.
    for i in range(m):
        s.v[s.size * (s.size + 2) + i] = min(x[i], 1.0 - x[i])
    for band in range(7):
        for i in range(m):
            distance = s.v[s.size * (s.size + 2) + i]
            if BANDS[band + 1] < distance <= BANDS[band]:
                express(&s, i)
                if not enter(&s, i, max(DEPENDENT, IMPERCEPTIBLE * span / s.scale)):
                    push(&s, i)
    correct(&s, n, s.v + s.size * (s.size + 2))
    restore_sum(x, m, n, at_most)
    return 0

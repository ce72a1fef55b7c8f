# distutils: language = c++
"""Contributions and logits -> the normal form of selection/objective.py; what sets and weights of paths leave."""

from libc.math cimport exp, fabs, log
from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from .divergence cimport (
    DBL_EPSILON, LOG_NO, LOG_Q, NO, Q, RESOLUTION, SIGMOIDS, SIZE, SOFTMAX, SQUARES, START, WHOLE, Dual, Goal, argmax,
    fixed_part, goal_of, log_sigmoid, minority, remainder, rounding_of, sigmoid, tilt, weigh_rows,
)


cdef void log_distribution(const double* logits, Py_ssize_t c, double* log_q) noexcept nogil:
    """log softmax(logits). The largest logit goes first, so that logits of 1e19 do not swallow log(2)."""
    cdef Py_ssize_t j
    cdef double top = logits[argmax(logits, c)], total = 0.0
    for j in range(c):
        total += exp(logits[j] - top)
    for j in range(c):
        log_q[j] = (logits[j] - top) - log(total)


cdef double difference(
    const Goal* goal, const double* start, const double* target, const double* shift, double* low, double* v
) noexcept nogil:
    """v = start + shift - target less its mean under q, or in units of the scales; returns its largest entry before.

    What a logit has in common with the others must not cost digits, be it 1e19. So the rounding errors of the two sums
    are carried along in `low` (Knuth's two-sum), and the likeliest class is subtracted first, which is exact where it
    matters.
    """
    cdef Py_ssize_t j, top
    cdef double d, near, size = 0.0, mean = 0.0, lead, low_lead
    for j in range(goal.c):
        d = start[j] - target[j]
        near = start[j] - d
        low[j] = (start[j] - (d + near)) + (near - target[j])
        v[j] = d + shift[j]
        near = v[j] - d
        low[j] += (d - (v[j] - near)) + (shift[j] - near)
    if goal.kind != SOFTMAX:
        for j in range(goal.c):
            v[j] = (v[j] + low[j]) / goal.scales[j]
            size = max(size, fabs(v[j]))
        return size
    top = argmax(goal.q, goal.c)
    lead, low_lead = v[top], low[top]
    for j in range(goal.c):
        v[j] = (v[j] - lead) + (low[j] - low_lead)
        size = max(size, fabs(v[j]))
        mean += goal.q[j] * v[j]
    for j in range(goal.c):
        v[j] -= mean
    return size


cdef double resolution_of(const Goal* goal, const double* origin, const double* target) noexcept nogil:
    """The divergence that rounding the logits themselves may make: below it a change means nothing.

    If every logit moves by at most d, the distribution moves by at most d^2 / 2 nats, and by at most 2 d. Where one
    class has nearly all of the probability it moves by less: D(v) <= G(v - k) for any constant k, also the move of
    that class, and then only the others count. The curvature of a sigmoid is at most 1/4, and grows by at most e^d.
    """
    cdef Py_ssize_t j
    cdef double d, bend, largest = 0.0, total = 0.0
    for j in range(goal.c):
        largest = max(largest, max(fabs(origin[j]), fabs(target[j])))
        d = 4.0 * DBL_EPSILON * max(fabs(origin[j]), fabs(target[j])) / goal.scales[j]
        if goal.kind == SQUARES:
            total += 0.5 * d * d
        elif goal.kind == SIGMOIDS:
            bend = goal.q[j] * goal.no[j] * exp(min(d, 700.0))
            total += min(0.5 * d * d * min(0.25, bend), d)
    if goal.kind != SOFTMAX:
        return total
    d = 4.0 * DBL_EPSILON * largest
    return min(min(0.5 * d * d, 2.0 * d), minority(goal, goal.q) * 2.0 * d * d * exp(min(2.0 * d, 700.0)))


cdef void describe_logits(
    int kind, const double* target, const double* scales, Py_ssize_t c, double* q, double* log_q, double* no,
    double* log_no
) noexcept nogil:
    cdef Py_ssize_t j
    if kind == SOFTMAX:
        log_distribution(target, c, log_q)
    for j in range(c):
        no[j] = log_no[j] = 0.0
        if kind == SOFTMAX:
            q[j] = exp(log_q[j])
        elif kind == SIGMOIDS:
            q[j], log_q[j] = sigmoid(target[j]), log_sigmoid(target[j])
            no[j], log_no[j] = sigmoid(-target[j]), log_sigmoid(-target[j])
        else:
            q[j], log_q[j] = target[j] / scales[j] / scales[j], 0.0


cdef void normal_rows(
    const Goal* goal, const double* contributions, double sign, Py_ssize_t m, double* rows, double* reach
) noexcept nogil:
    """B into `rows` [m, c], and the largest entry of each row before centring into `reach` [m]."""
    cdef Py_ssize_t i, j, c = goal.c, top = argmax(goal.q, goal.c)
    cdef double lead, mean, largest, d
    for i in range(m):
        largest = 0.0
        if goal.kind != SOFTMAX:
            for j in range(c):
                rows[i * c + j] = sign * contributions[i * c + j] / goal.scales[j]
                largest = max(largest, fabs(rows[i * c + j]))
        else:
            # As above: what all classes have in common goes first.
            lead, mean = contributions[i * c + top], 0.0
            for j in range(c):
                d = contributions[i * c + j] - lead
                mean += goal.q[j] * d
                largest = max(largest, fabs(d))
            for j in range(c):
                rows[i * c + j] = sign * (contributions[i * c + j] - lead - mean)
        reach[i] = largest


def pose(
    Py_ssize_t first, Py_ssize_t last, int kind, double sign, const double[:, ::1] contributions,
    const int64_t[::1] offsets, const double[:, ::1] origin, const double[:, ::1] target, const double[::1] scales,
    double[:, :, ::1] goals, double[:, ::1] facts, double[:, ::1] rows, double[::1] reach,
):
    """Fill goals, facts, rows and reach of the targets first..last-1."""
    cdef Py_ssize_t i, m, c = origin.shape[1]
    cdef Goal goal
    cdef vector[double] low = vector[double](c), nothing = vector[double](c)
    with nogil:
        for i in range(first, last):
            describe_logits(
                kind, &target[i, 0], &scales[0], c, &goals[i, Q, 0], &goals[i, LOG_Q, 0], &goals[i, NO, 0],
                &goals[i, LOG_NO, 0],
            )
            goal = goal_of(kind, goals, facts, scales, i)
            facts[i, SIZE] = difference(
                &goal, &origin[i, 0], &target[i, 0], nothing.data(), low.data(), &goals[i, START, 0]
            )
            facts[i, WHOLE] = remainder(&goal, &goals[i, START, 0])
            facts[i, RESOLUTION] = resolution_of(&goal, &origin[i, 0], &target[i, 0])
            m = offsets[i + 1] - offsets[i]
            if m > 0:
                normal_rows(&goal, &contributions[offsets[i], 0], sign, m, &rows[offsets[i], 0], &reach[offsets[i]])


def leave(
    Py_ssize_t first, Py_ssize_t last, int kind, double sign, const double[:, ::1] contributions,
    const int64_t[::1] offsets, const double[:, ::1] origin, const double[:, ::1] target, const double[::1] scales,
    const double[:, :, ::1] goals, const double[:, ::1] facts, const double[:, ::1] rows, const double[::1] reach,
    const int64_t[::1] which, const int64_t[::1] starts, const int64_t[::1] stops, const int64_t[::1] members,
    double[::1] residuals,
):
    """residuals[k] = the divergence that members[starts[k]:stops[k]] leave of target which[k], to full accuracy."""
    cdef Py_ssize_t k, e, j, i, row, c = origin.shape[1], top
    cdef double common
    cdef Goal goal
    cdef vector[double] low = vector[double](c), shift = vector[double](c), v = vector[double](c)
    with nogil:
        for k in range(first, last):
            i = which[k]
            goal = goal_of(kind, goals, facts, scales, i)
            top = argmax(&target[i, 0], c) if kind == SOFTMAX else -1
            shift.assign(c, 0.0)
            for e in range(starts[k], stops[k]):
                row = offsets[i] + members[e]
                common = contributions[row, top] if top >= 0 else 0.0
                for j in range(c):
                    shift[j] += sign * (contributions[row, j] - common)
            difference(&goal, &origin[i, 0], &target[i, 0], shift.data(), low.data(), v.data())
            residuals[k] = remainder(&goal, v.data())


def slopes(
    Py_ssize_t first, Py_ssize_t last, int kind, double sign, const double[:, ::1] contributions,
    const int64_t[::1] offsets, const double[:, ::1] origin, const double[:, ::1] target, const double[::1] scales,
    const double[:, :, ::1] goals, const double[:, ::1] facts, const double[:, ::1] rows, const double[::1] reach,
    const double[::1] weights, const double[::1] total_reach, double[:, ::1] points, double[:, ::1] prices,
    double[:, ::1] numbers,
):
    """Prices, and value, fixed part and rounding of a bound, at v0 + B'x with the weights x; `points` [t, c] is scratch."""
    cdef Py_ssize_t i, m, c = origin.shape[1]
    cdef Goal goal
    cdef Dual at
    cdef vector[double] h = vector[double](c)
    with nogil:
        for i in range(first, last):
            goal = goal_of(kind, goals, facts, scales, i)
            m = offsets[i + 1] - offsets[i]
            at.w, at.h, at.r = &points[i, 0], h.data(), &prices[i, 0]
            numbers[i, 0] = weigh_rows(
                &goal, &rows[offsets[i], 0] if m > 0 else NULL, &weights[offsets[i]] if m > 0 else NULL, m, at.w
            )
            tilt(&goal, at)
            numbers[i, 1], numbers[i, 2] = fixed_part(&goal, at), rounding_of(&goal, at, total_reach[i])

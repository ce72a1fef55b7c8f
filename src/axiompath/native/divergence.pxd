"""The divergence D of one target, its slope and what bounds it, as inline C; the formulas are in selection/objective.py."""

from libc.float cimport DBL_EPSILON
from libc.math cimport INFINITY, exp, expm1, fabs, log, log1p

# Divergences by their log-partition: one softmax over the columns; and, for each column, a sigmoid or a square.
cdef enum:
    SOFTMAX
    SIGMOIDS
    SQUARES

# Rows of a target's goal.
cdef enum:
    Q
    LOG_Q
    NO
    LOG_NO
    START

# Columns of a target's facts.
cdef enum:
    WHOLE
    SIZE
    RESOLUTION


# Below this the series of e^v - 1 - v is used; above it the difference loses less than a digit.
cdef extern from *:
    """
    static const double SMALL_EXPONENT = 0.3;
    """
    const double SMALL_EXPONENT


cdef struct Goal:
    int kind
    Py_ssize_t c
    const double* q  # [c], like the next four: see `Posed` in selection/objective.py
    const double* log_q
    const double* no
    const double* log_no
    const double* start
    const double* scales
    double whole  # D(v0), the whole change
    double size  # the largest entry of v0 before it was centred


# A point w that proves a bound: there r is the slope of D, and h its curvature, of each column. For softmax h is the
# distribution p = q e^w, and r = p - q.
cdef struct Dual:
    double* w
    double* h
    double* r


cdef inline Goal goal_of(
    int kind, const double[:, :, ::1] goals, const double[:, ::1] facts, const double[::1] scales, Py_ssize_t i
) noexcept nogil:
    cdef Goal goal
    goal.kind, goal.c = kind, goals.shape[2]
    goal.q, goal.log_q = &goals[i, Q, 0], &goals[i, LOG_Q, 0]
    goal.no, goal.log_no = &goals[i, NO, 0], &goals[i, LOG_NO, 0]
    goal.start, goal.scales = &goals[i, START, 0], &scales[0]
    goal.whole, goal.size = facts[i, WHOLE], facts[i, SIZE]
    return goal


cdef inline Py_ssize_t argmax(const double* values, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i, top = 0
    for i in range(1, size):
        if values[i] > values[top]:
            top = i
    return top


cdef inline double excess(double v) noexcept nogil:
    """e^v - 1 - v, to full relative accuracy."""
    cdef double s
    if fabs(v) < SMALL_EXPONENT:
        s = 1 / 39916800.0 + v * (1 / 479001600.0 + v / 6227020800.0)
        s = 1 / 40320.0 + v * (1 / 362880.0 + v * (1 / 3628800.0 + v * s))
        s = 1 / 120.0 + v * (1 / 720.0 + v * (1 / 5040.0 + v * s))
        return v * v * (0.5 + v * (1 / 6.0 + v * (1 / 24.0 + v * s)))
    return exp(v) - 1.0 - v


cdef inline double log_sigmoid(double z) noexcept nogil:
    return min(z, 0.0) - log1p(exp(-fabs(z)))


cdef inline double sigmoid(double z) noexcept nogil:
    """1 / (1 + e^-z), to full relative accuracy on either side."""
    cdef double e = exp(-fabs(z))
    return (1.0 if z >= 0.0 else e) / (1.0 + e)


cdef inline double weighted_excess(double q, double log_q, double v) noexcept nogil:
    """q (e^v - 1 - v); where e^v leaves the range of floats, or q does, e^(log q + v) is all that counts."""
    return q * excess(v) if v < 600.0 and q > 0.0 else exp(min(log_q + v, 100.0))


cdef inline double column_remainder(const Goal* goal, Py_ssize_t j, double v) noexcept nogil:
    """Column j's part of D(v), of labels and values: a sigmoid is a softmax of the two classes yes and no."""
    cdef double up, down, total, high, low
    if goal.kind == SQUARES:
        return 0.5 * v * v
    up, down = goal.no[j] * v, -goal.q[j] * v
    total = weighted_excess(goal.q[j], goal.log_q[j], up) + weighted_excess(goal.no[j], goal.log_no[j], down)
    if total < 1e15:
        return log1p(total)
    high, low = goal.log_q[j] + up, goal.log_no[j] + down
    return max(high, low) + log1p(exp(-fabs(high - low)))


cdef inline double remainder(const Goal* goal, const double* v) noexcept nogil:
    """D(v), whatever its size; for softmax q.v must be 0."""
    cdef Py_ssize_t j
    cdef double total = 0.0, top = -INFINITY
    if goal.kind != SOFTMAX:
        for j in range(goal.c):
            total += column_remainder(goal, j, v[j])
        return total
    for j in range(goal.c):
        total += weighted_excess(goal.q[j], goal.log_q[j], v[j])
    if total < 1e15:
        return log1p(total)
    for j in range(goal.c):
        top = max(top, goal.log_q[j] + v[j])
    total = 0.0
    for j in range(goal.c):
        total += exp((goal.log_q[j] + v[j]) - top)
    return max(0.0, top + log(total))


cdef inline double unit_of(const Goal* goal) noexcept nogil:
    """What tolerances are relative to: the whole change; of probabilities at most a nat."""
    return goal.whole if goal.kind == SQUARES else min(1.0, goal.whole)


cdef inline void tilt_columns(const Goal* goal, Dual at) noexcept nogil:
    cdef Py_ssize_t j
    cdef double u, rare, likely, grown
    for j in range(goal.c):
        if goal.kind == SQUARES:
            at.h[j], at.r[j] = 1.0, at.w[j]
            continue
        # With u the tilted logit, r = sigmoid(u) - sigmoid(u - w): of the less likely of yes and no, where w is not
        # small, or without subtracting, where it is.
        u = goal.log_q[j] - goal.log_no[j] + at.w[j]
        rare, likely = sigmoid(-fabs(u)), sigmoid(fabs(u))
        at.h[j] = rare * likely
        if fabs(at.w[j]) < SMALL_EXPONENT:
            grown = at.w[j] + excess(at.w[j])
            at.r[j] = goal.q[j] * goal.no[j] * grown / (1.0 + goal.q[j] * grown)
        else:
            at.r[j] = goal.no[j] - rare if u > 0.0 else rare - goal.q[j]


cdef inline void tilt(const Goal* goal, Dual at) noexcept nogil:
    """Slope r and curvature h of D at w.

    For softmax they are p - q without subtracting, and p = q e^w; w is moved by a constant so that p sums to 1.
    """
    cdef Py_ssize_t j
    cdef double top = -INFINITY, total = 0.0, factor, norm
    if goal.kind != SOFTMAX:
        tilt_columns(goal, at)
        return
    for j in range(goal.c):
        top = max(top, goal.log_q[j] + at.w[j])
    if not -1.0 - log(<double> goal.c) <= top <= 1.0:
        for j in range(goal.c):
            at.w[j] -= top
    for j in range(goal.c):
        if fabs(at.w[j]) < SMALL_EXPONENT:
            at.r[j] = goal.q[j] * (at.w[j] + excess(at.w[j]))
            at.h[j] = goal.q[j] + at.r[j]
        else:
            at.h[j] = exp(goal.log_q[j] + at.w[j])
            at.r[j] = at.h[j] - goal.q[j]
        total += at.r[j]
    factor, norm = -total / (1.0 + total), log1p(total)
    for j in range(goal.c):
        at.w[j] -= norm
        at.r[j] += at.h[j] * factor
        at.h[j] += at.h[j] * factor


cdef inline double fixed_part(const Goal* goal, Dual at) noexcept nogil:
    """The part of the dual value that does not depend on the paths: r.v0 - KL(p || q), or r.(v0 - w) + D(w)."""
    cdef Py_ssize_t j
    cdef double value = 0.0
    for j in range(goal.c):
        # Near the solution v0 and w differ by what the paths do, and that can be much less than either.
        value += at.r[j] * (goal.start[j] - at.w[j])
    if goal.kind != SOFTMAX:
        return value + remainder(goal, at.w)
    for j in range(goal.c):
        # w e^w - e^w + 1 = w (e^w - 1) - (e^w - 1 - w); away from 0 the last term is (r - q w) / q.
        value += (
            goal.q[j] * excess(at.w[j]) if fabs(at.w[j]) < SMALL_EXPONENT else at.r[j] - goal.q[j] * at.w[j]
        )
    return value


cdef inline double minority(const Goal* goal, const double* h) noexcept nogil:
    """How much D can bend: the curvatures of all columns; of classes the probability of all but the likeliest."""
    cdef Py_ssize_t j, top = argmax(h, goal.c) if goal.kind == SOFTMAX else -1
    cdef double total = 0.0
    for j in range(goal.c):
        if j != top:
            total += h[j]
    return total


cdef inline double grain_of(const Goal* goal, double reach) noexcept nogil:
    """The rounding of a logit with paths added that reach so far."""
    return 4.0 * DBL_EPSILON * (goal.size + reach)


cdef inline double rounding_of(const Goal* goal, Dual at, double reach) noexcept nogil:
    """More than rounding can have changed the dual value by; `reach` is more than the paths can add to a logit.

    The value is taken to be that of r as it is. Then v0 is off by rounding of its own size; KL(p || q) by that of log q
    and w, which counts p times where it is the logarithm itself that counts, and in proportion near q; and the prices
    and the sums of c terms by rounding of what is summed. D(w) of a sigmoid is a logarithm of 1 + G, whose terms are
    off by rounding of their exponents. The factors leave room.
    """
    cdef Py_ssize_t j
    cdef double terms = 0.0, sizes = 0.0, part, w, r
    for j in range(goal.c):
        w, r = at.w[j], at.r[j]
        terms += fabs(r) * (reach + fabs(goal.start[j] - w))
        sizes += fabs(r) * goal.size
        if goal.kind != SOFTMAX:
            part = column_remainder(goal, j, w)
            terms += part
            if goal.kind == SIGMOIDS:
                sizes += min(1.0, expm1(part)) * (1.0 + fabs(w) + fabs(goal.log_q[j]) + fabs(goal.log_no[j]))
        elif fabs(w) < SMALL_EXPONENT:
            terms += fabs(w * r)
            sizes += fabs(goal.log_q[j] * w * r)
        elif r != 0.0 or goal.q[j] != 0.0:
            terms += fabs(r) + goal.q[j] * fabs(w)
            sizes += (1.0 + fabs(goal.log_q[j]) + fabs(w)) * (r + 2.0 * goal.q[j])
    return DBL_EPSILON * ((16.0 + 2.0 * goal.c) * terms + 4.0 * sizes)


cdef inline double weigh_rows(
    const Goal* goal, const double* rows, const double* x, Py_ssize_t m, double* v
) noexcept nogil:
    """v = v0 + B'x; returns D(v)."""
    cdef Py_ssize_t i, j, c = goal.c
    for j in range(c):
        v[j] = goal.start[j]
    for i in range(m):
        if x[i] != 0.0:
            for j in range(c):
                v[j] += rows[i * c + j] * x[i]
    return remainder(goal, v)


cdef inline void price_rows(
    const double* rows, const double* r, Py_ssize_t m, Py_ssize_t c, double* prices
) noexcept nogil:
    """prices = B r, the slope of the objective along each path's weight."""
    cdef Py_ssize_t i, j
    cdef double total
    for i in range(m):
        total = 0.0
        for j in range(c):
            total += rows[i * c + j] * r[j]
        prices[i] = total

# distutils: language = c++
"""Normal form -> an optimal x of the relaxation, and a dual point that proves it.

    minimise over x in [0,1]^m, sum x + y = n:   D(v0 + B'x)               (y = 0, or y >= 0 for "at most n")

A primal-dual interior-point method. Optimality, with p = q e^w and multipliers nu for the sum and l, u for the box:

    B p - nu - l + u = 0,    -nu - l_y = 0,    w = v0 + B'x - theta,    sum p = 1,
    l x = mu,  u (1 - x) = mu,  l_y y = mu,    mu -> 0

The logarithms w of the class probabilities are kept as variables of their own, and each Newton step linearises w, not
the softmax: with logits of 1e4 the softmax is a step function, whose linearisation says nothing, while w is linear.
They are kept relative to q, the distribution to be reached, so that nothing cancels when the change is tiny: all
numbers are then tiny together, and every tolerance is relative to the whole change. Eliminating all but p leaves a c by
c system, so an iteration costs about c/2 passes over B.
For labels and values r = D'(w) takes the place of p and the curvature h of D that of dp/dw = p; no sum of r is
prescribed, so that theta = 0.
The method stops on a certificate, not on residuals: x gives an upper and p a lower bound on the same optimum.

Sigmoids of logits of thousands are steps, one for each label, and a w with steps of its own may run from one side of
such a step to the other and back for ever. So after the usual number of iterations w = v0 + B'x is tied to x, and each
step is one of Newton's on

    D(v0 + B'x) - mu sum (log x + log(1 - x)) - mu log y,        mu -> 0,

which is convex and falls with every step. Its multipliers stay within a factor of ten of those of the barrier: within
that they may be what the last step made of them, which is what makes the last steps fast.
"""

from libc.math cimport INFINITY, fabs, isfinite, log, log1p, sqrt
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

from .divergence cimport (
    SIGMOIDS, SOFTMAX, Dual, Goal, fixed_part, grain_of, minority, price_rows, remainder, tilt, unit_of, weigh_rows,
)
from .smallest cimport kth_smallest

# Ordinary problems take 10 to 25 iterations. One that takes more gets shorter and more central steps.
cdef int ORDINARY = 30
cdef int MOST = 150
cdef int MOST_TIED = 180
cdef double NEAR_BARRIER = 10.0
cdef double SMALLER = 0.2  # mu, after a tied step of more than half of its length


cdef struct Solver:
    const Program* program
    const Goal* goal
    Py_ssize_t m, c
    bint at_most, tied
    # [m]
    double* x
    double* room  # 1 - x
    double* low  # the multipliers of x >= 0
    double* high  # those of x <= 1
    double* inv_x
    double* inv_room
    double* inv_d
    double* prices
    double* b
    double* step
    double* dx
    double* d_low
    double* d_high
    double* best_x
    double* centred  # [m, c]: the rows less their mean `centre` under inv_d
    # [c]
    double* v  # v0 + B'x
    Dual point  # w, p or h, and r
    double* centre
    double* root  # of h
    double* ones
    double* dr
    double* residual
    double* growth
    double* ahead
    double* best_w
    double* matrix  # [c, c], its lower triangle
    # The slack of "at most n", and the step of everything that is one number.
    double y, low_y, dy, d_low_y
    double nu, d_nu, d_theta
    double mu, target, total, slack, weight, ones_norm
    double value, bound, best_value, best_bound, best_nu, unit
    int iteration, pairs


cdef double* carve(double** free, Py_ssize_t size) noexcept nogil:
    cdef double* taken = free[0]
    free[0] += size
    return taken


cdef int lay_out(Solver* s, double* x, double* w, vector[double]& space) except -1 nogil:
    cdef double* free
    cdef Py_ssize_t m = s.m, c = s.c
    space.resize((13 + c) * m + (11 + c) * c)
    free = space.data()
    s.x, s.point.w = x, w
    s.room, s.low, s.high = carve(&free, m), carve(&free, m), carve(&free, m)
    s.inv_x, s.inv_room, s.inv_d = carve(&free, m), carve(&free, m), carve(&free, m)
    s.prices, s.b, s.step, s.dx = carve(&free, m), carve(&free, m), carve(&free, m), carve(&free, m)
    s.d_low, s.d_high, s.best_x = carve(&free, m), carve(&free, m), carve(&free, m)
    s.centred, s.matrix = carve(&free, m * c), carve(&free, c * c)
    s.v, s.point.h, s.point.r, s.centre = carve(&free, c), carve(&free, c), carve(&free, c), carve(&free, c)
    s.root, s.ones, s.dr, s.residual = carve(&free, c), carve(&free, c), carve(&free, c), carve(&free, c)
    s.growth, s.ahead, s.best_w = carve(&free, c), carve(&free, c), carve(&free, c)
    return 0


cdef void factor(double* matrix, Py_ssize_t c) noexcept nogil:
    """Cholesky in place, lower triangle; a pivot that rounding made negative becomes tiny, where LAPACK refuses."""
    cdef Py_ssize_t i, j, k
    cdef double pivot, value
    for j in range(c):
        pivot = matrix[j * c + j]
        for k in range(j):
            pivot -= matrix[j * c + k] * matrix[j * c + k]
        pivot = sqrt(max(pivot, 1e-30))
        matrix[j * c + j] = pivot
        for i in range(j + 1, c):
            value = matrix[i * c + j]
            for k in range(j):
                value -= matrix[i * c + k] * matrix[j * c + k]
            matrix[i * c + j] = value / pivot


cdef void solve_factored(const double* lower, Py_ssize_t c, double* b) noexcept nogil:
    """Overwrite b with the solution of (L L') v = b."""
    cdef Py_ssize_t i, k
    for i in range(c):
        for k in range(i):
            b[i] -= lower[i * c + k] * b[k]
        b[i] /= lower[i * c + i]
    for i in range(c - 1, -1, -1):
        for k in range(i + 1, c):
            b[i] -= lower[k * c + i] * b[k]
        b[i] /= lower[i * c + i]


cdef void add_weighed(
    const double* rows, const double* x, Py_ssize_t m, Py_ssize_t c, Py_ssize_t size, double* v
) noexcept nogil:
    """v [size] += rows'x, in the first columns of rows [m, c]; four at a time, which stay in registers."""
    cdef Py_ssize_t i, j = 0
    cdef double one, two, three, four
    cdef const double* row
    while j + 4 <= size:
        one, two, three, four, row = v[j], v[j + 1], v[j + 2], v[j + 3], rows + j
        for i in range(m):
            one += row[0] * x[i]
            two += row[1] * x[i]
            three += row[2] * x[i]
            four += row[3] * x[i]
            row += c
        v[j], v[j + 1], v[j + 2], v[j + 3] = one, two, three, four
        j += 4
    while j < size:
        one = v[j]
        for i in range(m):
            one += rows[i * c + j] * x[i]
        v[j] = one
        j += 1


cdef void weigh(const double* rows, const double* x, Py_ssize_t m, Py_ssize_t c, double* v) noexcept nogil:
    """v = rows'x."""
    memset(v, 0, c * sizeof(double))
    add_weighed(rows, x, m, c, c, v)


cdef double sum_of(const double* values, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0.0
    for i in range(size):
        total += values[i]
    return total


cdef void start_point(Solver* s, bint warm) noexcept nogil:
    """Equal weights, or with `warm` something between these and the x that came in."""
    cdef Py_ssize_t i, m = s.m
    cdef double n = s.program.n, share = n / m, fill, total
    if s.at_most:
        share *= 0.5
    if warm:
        fill = share * m / max(sum_of(s.x, m), 1e-300)
        for i in range(m):
            s.x[i] = 0.5 * share + 0.5 * min(1.0, s.x[i] * fill)
        # Clipping at 1 loses weight; give it back evenly so that the sum is right from the start.
        total = sum_of(s.x, m)
        for i in range(m):
            s.x[i] += (1.0 - s.x[i]) * (share * m - total) / (m - total)
    for i in range(m):
        if not warm:
            s.x[i] = share
        s.room[i] = 1.0 - s.x[i]
        s.best_x[i] = s.x[i]
    s.y = n - share * m if s.at_most else 0.0


cdef void start_multipliers(Solver* s) noexcept nogil:
    cdef Py_ssize_t i, m = s.m, n = s.program.n
    cdef double spread = 0.0, share = <double> n / m * (0.5 if s.at_most else 1.0)
    weigh_rows(s.goal, s.program.rows, s.x, m, s.v)
    memcpy(s.point.w, s.v, s.c * sizeof(double))
    memcpy(s.best_w, s.v, s.c * sizeof(double))
    tilt(s.goal, s.point)
    price_rows(s.program.rows, s.point.r, m, s.c, s.prices)
    s.nu = kth_smallest(s.prices, m, n - 1, s.b)
    if n < m:
        s.nu = 0.5 * (s.nu + kth_smallest(s.prices, m, n, s.b))
    for i in range(m):
        spread += fabs(s.prices[i] - s.nu)
    spread = max(spread / m, max(1e-12 * s.unit, 1e-300))
    if s.at_most:
        s.nu = min(s.nu, -0.1 * spread)
    s.mu = spread * share * (1.0 - share)
    for i in range(m):
        s.low[i] = max(s.prices[i] - s.nu, 0.0) + s.mu / s.x[i]
        s.high[i] = max(s.nu - s.prices[i], 0.0) + s.mu / s.room[i]
    s.low_y = max(-s.nu, s.mu / s.y) if s.at_most else 0.0
    s.best_value, s.best_bound, s.best_nu = INFINITY, -INFINITY, s.nu


cdef void tie(Solver* s) noexcept nogil:
    """Begin the steps with w = v0 + B'x, near the best point so far."""
    cdef Py_ssize_t i, m = s.m
    cdef double n = s.program.n, share = n / m * (0.5 if s.at_most else 1.0)
    s.tied = True
    for i in range(m):
        s.x[i] = 0.9 * s.best_x[i] + 0.1 * share
        s.room[i] = 1.0 - s.x[i]
    s.y = max(n - sum_of(s.x, m), 0.05 * n) if s.at_most else 0.0
    s.mu = -1.0


cdef void near_barrier(Solver* s) noexcept nogil:
    """The multipliers of a tied step: those of the barrier, or what the last step made of them if that is near."""
    cdef Py_ssize_t i
    cdef double wide = NEAR_BARRIER, mu
    if s.mu < 0.0:
        s.mu, wide = 0.3 * (s.value - max(s.best_bound, 0.0)) / s.pairs, 1.0
    mu = s.mu
    for i in range(s.m):
        s.low[i] = min(max(s.low[i], mu / s.x[i] / wide), mu / s.x[i] * wide)
        s.high[i] = min(max(s.high[i], mu / s.room[i] / wide), mu / s.room[i] * wide)
    if s.at_most:
        s.low_y = min(max(s.low_y, mu / s.y / wide), mu / s.y * wide)


cdef bint certify(Solver* s, double tolerance) noexcept nogil:
    """Value and bound at the current point, the best of each kept; whether that ends the search."""
    cdef Py_ssize_t i, j
    cdef double cut, noise = 0.0, grain
    s.value = weigh_rows(s.goal, s.program.rows, s.x, s.m, s.v)
    if s.tied:
        memcpy(s.point.w, s.v, s.c * sizeof(double))
        tilt(s.goal, s.point)
    price_rows(s.program.rows, s.point.r, s.m, s.c, s.prices)
    if s.tied:
        s.nu = kth_smallest(s.prices, s.m, s.program.n - 1, s.b)
        s.nu = min(s.nu, 0.0) if s.at_most else s.nu
    cut = min(s.nu, 0.0) if s.at_most else s.nu
    s.bound = fixed_part(s.goal, s.point) + s.program.n * cut
    for i in range(s.m):
        s.bound += min(s.prices[i] - cut, 0.0)
    s.total = s.y + sum_of(s.x, s.m)
    if not isfinite(s.value + s.bound):
        return True
    if s.bound > s.best_bound:
        s.best_bound, s.best_nu = s.bound, cut
        memcpy(s.best_w, s.point.w, s.c * sizeof(double))
    if s.value < s.best_value:
        s.best_value = s.value
        memcpy(s.best_x, s.x, s.m * sizeof(double))
    for j in range(s.c):
        noise += fabs(s.point.r[j])
    grain = grain_of(s.goal, s.program.reach)
    noise = grain * (noise + grain * minority(s.goal, s.point.h))
    return s.best_value - max(s.best_bound, 0.0) <= max(tolerance * max(s.unit, s.best_value), noise)


cdef void form_system(Solver* s) noexcept nogil:
    """What is left of a Newton step when all but p is eliminated: sum of d (B_i - centre)(B_i - centre)', factored.

    Centring at the rows' mean under d eliminates the sum constraint without subtracting large numbers afterwards.
    """
    cdef Py_ssize_t i, j, k, m = s.m, c = s.c
    cdef double theta = 0.0
    s.slack = s.y / s.low_y if s.at_most else 0.0
    s.weight = s.slack
    for i in range(m):
        s.inv_x[i] = 1.0 / s.x[i]
        s.inv_room[i] = 1.0 / s.room[i]
        s.inv_d[i] = 1.0 / (s.low[i] * s.inv_x[i] + s.high[i] * s.inv_room[i])
    s.weight += sum_of(s.inv_d, m)
    weigh(s.program.rows, s.inv_d, m, c, s.centre)
    for j in range(c):
        s.centre[j] /= s.weight
        s.root[j] = sqrt(s.point.h[j])
    for j in range(c):
        for k in range(j + 1):
            s.matrix[j * c + k] = s.slack * s.centre[j] * s.centre[k]
        if s.goal.kind == SOFTMAX:
            theta += s.point.h[j] * (s.v[j] - s.point.w[j])
    for i in range(m):
        for j in range(c):
            s.centred[i * c + j] = s.program.rows[i * c + j] - s.centre[j]
    for j in range(c):
        for i in range(m):
            s.b[i] = s.inv_d[i] * s.centred[i * c + j]
        add_weighed(s.centred, s.b, m, c, j + 1, s.matrix + j * c)
    for j in range(c):
        for k in range(j + 1):
            s.matrix[j * c + k] *= s.root[j] * s.root[k]
        s.matrix[j * c + j] += 1.0
        s.residual[j] = s.v[j] - s.point.w[j] - theta
    factor(s.matrix, c)
    memcpy(s.ones, s.root, c * sizeof(double))
    solve_factored(s.matrix, c, s.ones)
    s.ones_norm = 0.0
    for j in range(c):
        s.ones_norm += s.root[j] * s.ones[j]


cdef void newton_step(Solver* s, bint corrected) noexcept nogil:
    """The step of everything towards l x = target; `corrected` by the products of the step before (Mehrotra)."""
    cdef Py_ssize_t i, j, m = s.m, c = s.c
    cdef double b_y = 0.0, pull, lift, change
    for i in range(m):
        s.b[i] = s.nu - s.prices[i]
        if corrected:
            s.d_low[i] = s.target - s.dx[i] * s.d_low[i]
            s.d_high[i] = s.target + s.dx[i] * s.d_high[i]
            s.b[i] += s.d_low[i] * s.inv_x[i] - s.d_high[i] * s.inv_room[i]
        else:
            s.d_low[i] = s.d_high[i] = 0.0
        s.step[i] = s.inv_d[i] * s.b[i]
    if s.at_most:
        b_y = s.nu + (s.target - s.dy * s.d_low_y) / s.y
    pull = s.slack * b_y + sum_of(s.step, m)
    weigh(s.centred, s.step, m, c, s.dr)
    s.d_theta = 0.0
    for j in range(c):
        s.dr[j] = s.root[j] * (s.dr[j] + s.residual[j] - s.centre[j] * (s.slack * b_y + s.total - s.program.n))
    solve_factored(s.matrix, c, s.dr)
    if s.goal.kind == SOFTMAX:
        for j in range(c):
            s.d_theta += s.root[j] * s.dr[j]
        s.d_theta /= s.ones_norm
    lift = -(s.total - s.program.n + pull) / s.weight
    s.d_nu = lift
    for j in range(c):
        s.dr[j] = s.root[j] * (s.dr[j] - s.d_theta * s.ones[j])
        s.d_nu += s.centre[j] * s.dr[j]
    price_rows(s.centred, s.dr, m, c, s.step)
    for i in range(m):
        s.dx[i] = s.inv_d[i] * (s.b[i] + lift - s.step[i])
        s.d_low[i] = (s.d_low[i] - s.low[i] * s.dx[i]) * s.inv_x[i] - s.low[i]
        s.d_high[i] = (s.d_high[i] + s.high[i] * s.dx[i]) * s.inv_room[i] - s.high[i]
    if s.at_most:
        change = s.slack * (b_y + s.d_nu)
        s.d_low_y = (s.target - s.dy * s.d_low_y - s.low_y * change) / s.y - s.low_y
        s.dy = change


cdef void step_lengths(const Solver* s, double* primal, double* dual) noexcept nogil:
    """How long a step of x, and of its multipliers, keeps them from their bounds; at most 1."""
    cdef Py_ssize_t i
    cdef double falls = 1.0, dual_falls = 1.0
    for i in range(s.m):
        falls = max(falls, max(-s.dx[i] * s.inv_x[i], s.dx[i] * s.inv_room[i]))
        dual_falls = max(dual_falls, max(-s.d_low[i] / s.low[i], -s.d_high[i] / s.high[i]))
    if s.at_most:
        falls, dual_falls = max(falls, -s.dy / s.y), max(dual_falls, -s.d_low_y / s.low_y)
    primal[0], dual[0] = 1.0 / falls, 1.0 / dual_falls


cdef double predict(Solver* s) noexcept nogil:
    """A step towards mu = 0 and how far it would come give the target of the step that is taken; returns its length."""
    cdef Py_ssize_t i
    cdef double primal, dual, ahead, ratio, floor
    s.mu = s.low_y * s.y
    for i in range(s.m):
        s.mu += s.low[i] * s.x[i] + s.high[i] * s.room[i]
    s.mu /= s.pairs
    s.target = s.dy = s.d_low_y = 0.0
    newton_step(s, False)
    step_lengths(s, &primal, &dual)
    ahead = (s.low_y + dual * s.d_low_y) * (s.y + primal * s.dy)
    for i in range(s.m):
        ahead += (s.low[i] + dual * s.d_low[i]) * (s.x[i] + primal * s.dx[i])
        ahead += (s.high[i] + dual * s.d_high[i]) * (s.room[i] - primal * s.dx[i])
    ratio = max(ahead, 0.0) / (s.pairs * s.mu)
    # mu must not outrun the divergence itself: a class of small probability loses one unit of w in a step, however
    # small mu is, and with mu -> 0 early the system would turn singular.
    floor = (s.value - max(s.bound, 0.0)) / s.pairs
    s.target = max(s.mu * ratio * ratio * ratio, min(0.01 * floor, s.mu))
    # Stuck at a bound with mu far below the gap: centre again, and keep away from the bounds.
    if s.iteration > ORDINARY:
        s.target = max(s.target, 0.3 * floor)
    newton_step(s, True)
    step_lengths(s, &primal, &dual)
    return min(
        1.0, (max(0.99, 1.0 - s.mu / max(s.unit, 1e-300)) if s.iteration <= ORDINARY else 0.9) * min(primal, dual)
    )


cdef double tied_step(Solver* s) noexcept nogil:
    """One step of Newton's on the barrier function; returns its length as far as the bounds allow."""
    cdef Py_ssize_t i
    cdef double primal, dual
    for i in range(s.m):
        s.dx[i] = s.d_low[i] = s.d_high[i] = 0.0
    s.dy = s.d_low_y = 0.0
    s.target = s.mu
    newton_step(s, True)
    step_lengths(s, &primal, &dual)
    return min(1.0, 0.9 * primal)


cdef double barrier(const Solver* s, double alpha) noexcept nogil:
    """Minus the logarithms of x + alpha dx, of its room, and of y."""
    cdef Py_ssize_t i
    cdef double total = -log(s.y + alpha * s.dy) if s.at_most else 0.0
    for i in range(s.m):
        total -= log((s.x[i] + alpha * s.dx[i]) * (s.room[i] - alpha * s.dx[i]))
    return total


cdef double shorten(Solver* s, double alpha) noexcept nogil:
    """A class of no probability has no curvature, and the step may run far into its reign: cut it back.

    Centring may raise the objective by no more than the complementarity gap. A tied step must lower its own function.
    """
    cdef Py_ssize_t j, tried
    cdef double limit = s.value + (s.mu * barrier(s, 0.0) if s.tied else s.pairs * s.mu), reached
    weigh(s.program.rows, s.dx, s.m, s.c, s.growth)
    for tried in range(60 if s.tied else 20):
        for j in range(s.c):
            s.ahead[j] = s.v[j] + alpha * s.growth[j]
        reached = remainder(s.goal, s.ahead)
        if s.tied:
            reached += s.mu * barrier(s, alpha)
        if reached <= limit:
            break
        alpha *= 0.6
    return alpha


cdef double follow(double u, double t) noexcept nogil:
    """How far a logit u moves in a step of t: the rarer of yes and no falls in u, and rises in its probability."""
    cdef double way
    if u * t >= 0.0:
        return t
    way = min(max(log1p(fabs(t)), fabs(u) - 3.0), fabs(t))
    return way if t > 0.0 else -way


cdef void move(Solver* s, double alpha) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef double t
    cdef double* w = s.point.w
    for i in range(s.m):
        s.x[i] += alpha * s.dx[i]
        s.room[i] -= alpha * s.dx[i]
        s.low[i] += alpha * s.d_low[i]
        s.high[i] += alpha * s.d_high[i]
    s.y += alpha * s.dy
    s.low_y += alpha * s.d_low_y
    s.nu += alpha * s.d_nu
    if s.tied:
        s.mu *= SMALLER if alpha > 0.5 else 1.0
        return
    # growth = dp / p. Falling classes fall in w; rising ones rise in p, once they are of any size.
    for j in range(s.c):
        t = alpha * (s.growth[j] + s.residual[j] - s.d_theta)
        if s.goal.kind == SOFTMAX and t > 0.0:
            w[j] = max(w[j] + log1p(t), min(w[j] + t, -3.0 - s.goal.log_q[j]))
        elif s.goal.kind == SIGMOIDS:
            w[j] += follow(s.goal.log_q[j] - s.goal.log_no[j] + w[j], t)
        else:
            w[j] += t
    tilt(s.goal, s.point)


cdef int solve_relaxation(
    const Program* program, double* x, double* w, double tolerance, bint warm, vector[double]& space, Optimum* found
) except -1 nogil:
    """Fill x [m] and w [c], and say what they came to; `space` is scratch.

    Stops where value and bound differ by less than `tolerance` of the change, or by no more than rounding explains.
    Needs 0 < n < m, or 0 < n <= m for "at most n". With `warm`, x comes in as a point to start near.
    """
    cdef Solver s
    s.program, s.goal, s.m, s.c, s.at_most, s.tied = program, program.goal, program.m, program.goal.c, program.at_most, 0
    s.pairs, s.unit, s.iteration = <int> (2 * s.m + s.at_most), unit_of(s.goal), 0
    lay_out(&s, x, w, space)
    start_point(&s, warm)
    start_multipliers(&s)
    while not certify(&s, tolerance) and s.iteration < (MOST_TIED if s.tied else MOST):
        if s.goal.kind == SIGMOIDS and s.iteration == ORDINARY and not s.tied:
            tie(&s)
            continue
        s.iteration += 1
        if s.tied:
            near_barrier(&s)
        form_system(&s)
        move(&s, shorten(&s, tied_step(&s) if s.tied else predict(&s)))
    memcpy(x, s.best_x, s.m * sizeof(double))
    memcpy(w, s.best_w, s.c * sizeof(double))
    found.nu, found.value, found.bound, found.iterations = s.best_nu, s.best_value, s.best_bound, s.iteration
    return 0

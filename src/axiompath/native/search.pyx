# distutils: language = c++
"""Normal form + the relaxation's solution -> the heaviest n paths, or the best set of n that a bounded search finds.

    minimise over sets S of n paths:   D(v0 + sum of B_i over S)

The basic solution fixes all but c + 1 entries, so its roundings can be listed. The best of them and of the
convex choice is improved by swaps, one path for another. Then, for up to 20 paths, every set is compared;
for more, what remains of a fixed allowance of comparisons goes into kicks: three paths exchanged blindly, and
swaps again. The relaxation's bound ends the search as soon as nothing is left to gain.

Comparing two sets costs a few multiplications for each column and no logarithm. e^D is a product over groups of columns
of sums over their terms, one group of all classes or, for each label, one group of yes and no:

    e^D(u + B_o) = product over groups of  sum over terms t of  W_t F_t(o),     W_t = q_t e^u_t,   F_t(o) = e^B_ot

and the factors F are computed once. Where the whole change is tiny, e^v - 1 takes the place of e^v: with G as in
selection/objective.py, each group is 1 + G(u + b) and

    G(u + b) = G(u) + G(b) + sum_t q_t (e^u_t - 1) (e^b_t - 1)            as q.u = q.b = 0.

Squares are summed up as they are, as is D where factors would leave the range of floats. What a comparison favours is
then computed in full, and taken only if it is better.
"""

from libc.math cimport INFINITY, exp, expm1, fabs, log, sqrt
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset
from libcpp.algorithm cimport lower_bound, partial_sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from .divergence cimport (
    DBL_EPSILON, SIGMOIDS, SOFTMAX, SQUARES, Goal, column_remainder, excess, goal_of, remainder, unit_of,
)
from .smallest cimport Keyed, n_smallest, number_or_last, settle_ties, sort_keys

cdef extern from "blocks.h":
    void weigh_columns(
        double *to, double base, const double *own, const double *weights, const double *factors, int64_t terms,
        int64_t stride, int64_t size
    ) nogil

# How a set's value is compared: by products of e^v - 1, by products of e^v, or in full.
cdef enum:
    NEAR
    PRODUCTS
    SUMS

cdef Py_ssize_t CANDIDATES = 1000
cdef int ROUNDINGS = 300
cdef Py_ssize_t ALL_SETS_UP_TO = 20
# Where a product of factors exp(B_ij) could leave the range of floats, sets are compared in full.
cdef double SAFE_EXPONENT = 300.0
# Below this whole change, products of e^v are too coarse for the certificate; up to this reach, those of e^v - 1 do.
cdef double TINY_CHANGE = 1e-3
cdef double NEAR_REACH = 1.0
# A gain below this factor is rounding, and chasing it could go on for ever.
cdef double GAIN = 1.0 - 1e-14
# A choice this close to the bound, in shares of the whole change, leaves nothing to search for.
cdef double NOTHING_LEFT = 1e-12


cdef cppclass Pool:
    """Rows among which a search exchanges, and what a comparison needs of each."""
    const Goal* goal
    int mode
    Py_ssize_t size, groups, terms  # terms of each group
    vector[double] rows  # [size, c]
    vector[double] factors  # [groups * terms, size]
    vector[double] own  # [groups, size]: G of each row
    # What adding a row is compared from: set by `leave`.
    vector[double] norms  # [groups]: the logarithm of each group's factor of the set to beat, set by `compare_with`
    vector[double] without  # [groups * terms]
    vector[double] base  # [groups]
    vector[double] sums  # [size]: of one group
    vector[double] values  # [size]


cdef double exponent(const Goal* goal, Py_ssize_t t, const double* v) noexcept nogil:
    """Term t of the columns v."""
    if goal.kind == SIGMOIDS:
        return goal.no[t // 2] * v[t // 2] if t % 2 == 0 else -goal.q[t // 2] * v[t // 2]
    return v[t]


cdef double chance(const Goal* goal, Py_ssize_t t) noexcept nogil:
    if goal.kind == SIGMOIDS:
        return goal.q[t // 2] if t % 2 == 0 else goal.no[t // 2]
    return goal.q[t]


cdef double log_chance(const Goal* goal, Py_ssize_t t) noexcept nogil:
    if goal.kind == SIGMOIDS:
        return goal.log_q[t // 2] if t % 2 == 0 else goal.log_no[t // 2]
    return goal.log_q[t]


cdef int size_pool(Pool* p, const Goal* goal, int mode, Py_ssize_t size) except -1 nogil:
    """Room for so many rows."""
    p.goal, p.mode, p.size = goal, mode, size
    p.groups = goal.c if goal.kind == SIGMOIDS and mode != SUMS else 1
    p.terms = 2 if goal.kind == SIGMOIDS and mode != SUMS else goal.c
    p.factors.resize(p.groups * p.terms * size)
    p.own.assign(p.groups * size, 0.0)
    p.norms.resize(p.groups)
    p.without.resize(p.groups * p.terms)
    p.base.resize(p.groups)
    p.sums.resize(size)
    p.values.resize(size)
    return 0


cdef int fill_pool(Pool* p, const Goal* goal, int mode) except -1 nogil:
    """The factors of the pool's rows."""
    cdef Py_ssize_t i, t, c = goal.c
    cdef double e, more
    size_pool(p, goal, mode, p.rows.size() // c)
    for i in range(p.size):
        for t in range(p.groups * p.terms):
            if mode == SUMS:
                p.factors[t * p.size + i] = p.rows[i * c + t]
                continue
            e = exponent(goal, t, &p.rows[i * c])
            if mode == PRODUCTS:
                p.factors[t * p.size + i] = exp(e)
            else:
                more = excess(e)
                p.own[t // p.terms * p.size + i] += chance(goal, t) * more
                p.factors[t * p.size + i] = e + more
    return 0


cdef double compare_with(Pool* p, const double* v, double current) noexcept nogil:
    """Compare with the set that leads to v; returns what a value must fall below to be better: its own, `current`."""
    cdef Py_ssize_t g
    if p.mode == SUMS:
        return current * GAIN
    for g in range(p.groups):
        p.norms[g] = current if p.goal.kind == SOFTMAX else column_remainder(p.goal, g, v[g])
    return GAIN if p.mode == PRODUCTS else expm1(current) * GAIN


cdef void leave(Pool* p, const double* u) noexcept nogil:
    """Compare from u on."""
    cdef Py_ssize_t t, g
    cdef double e, more
    cdef const Goal* goal = p.goal
    for g in range(p.groups):
        p.base[g] = 0.0
        for t in range(g * p.terms, (g + 1) * p.terms):
            if p.mode == SUMS:
                p.without[t] = u[t]
                continue
            e = exponent(goal, t, u)
            if p.mode == PRODUCTS:
                p.without[t] = exp(log_chance(goal, t) + e - p.norms[g])
            else:
                more = excess(e)
                p.base[g] += chance(goal, t) * more
                p.without[t] = chance(goal, t) * (e + more)


cdef void compare_in_full(Pool* p, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef Py_ssize_t o, j, c = p.goal.c
    cdef double total, left, top, least = INFINITY
    for o in range(first, last):
        total = 0.0
        if p.goal.kind == SOFTMAX:
            top = -INFINITY
            for j in range(c):
                top = max(top, p.goal.log_q[j] + p.without[j] + p.factors[j * p.size + o])
            for j in range(c):
                total += exp(p.goal.log_q[j] + p.without[j] + p.factors[j * p.size + o] - top)
            total = top + log(total)
        for j in range(c if p.goal.kind == SIGMOIDS else 0):
            if total > least:  # it is not the least, and its sum stays unfinished
                break
            total += column_remainder(p.goal, j, p.without[j] + p.factors[j * p.size + o])
        least = min(least, total)
        p.values[o] = total


cdef void compare(Pool* p, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """The values of adding each of the rows first..last-1 to what `leave` was given."""
    cdef Py_ssize_t o, t, g, size = p.size
    cdef double w
    cdef const double* factor
    cdef double* values = p.values.data()
    cdef double* sums = p.sums.data()
    if p.mode == SUMS and p.goal.kind != SQUARES:
        compare_in_full(p, first, last)
        return
    for g in range(p.groups):
        if p.mode == SUMS:
            memset(sums + first, 0, (last - first) * sizeof(double))
            for t in range(p.terms):
                w, factor = p.without[t], p.factors.data() + t * size
                for o in range(first, last):
                    sums[o] += 0.5 * (w + factor[o]) * (w + factor[o])
        else:
            t = g * p.terms
            weigh_columns(
                sums + first, p.base[g] if p.mode == NEAR else 0.0, p.own.data() + g * size + first, &p.without[t],
                p.factors.data() + t * size + first, p.terms, size, last - first,
            )
        if g == 0:
            memcpy(values + first, sums + first, (last - first) * sizeof(double))
        elif p.mode == NEAR:
            for o in range(first, last):
                values[o] += sums[o] + values[o] * sums[o]
        else:
            for o in range(first, last):
                values[o] *= sums[o]


cdef double set_value(
    const Goal* goal, const double* rows, const int64_t* members, Py_ssize_t n, double* v
) noexcept nogil:
    """v = v0 + the members' rows; returns the set's value."""
    cdef Py_ssize_t k, j, c = goal.c
    for j in range(c):
        v[j] = goal.start[j]
    for k in range(n):
        for j in range(c):
            v[j] += rows[members[k] * c + j]
    return remainder(goal, v)


cdef double swap(Pool* p, vector[int64_t]& members, vector[char]& inside, int64_t* work) except? -1.0 nogil:
    """Exchange one member at a time for the best other row until no exchange helps; returns the value."""
    cdef Py_ssize_t o, j, at, out, c = p.goal.c, place = 0, quiet = 0, n = members.size()
    cdef double bar, value, least, current
    cdef vector[double] v = vector[double](c), u = vector[double](c), other = vector[double](c)
    current = set_value(p.goal, p.rows.data(), members.data(), n, v.data())
    while quiet < n and work[0] > 0:
        out = members[place]
        for j in range(c):
            u[j] = v[j] - p.rows[out * c + j]
        bar = compare_with(p, v.data(), current)
        leave(p, u.data())
        compare(p, 0, p.size)
        least, at = INFINITY, -1
        for o in range(p.size):
            if p.values[o] < least and not inside[o]:
                least, at = p.values[o], o
        work[0] -= p.size
        quiet += 1
        if least < bar:
            members[place] = at
            value = set_value(p.goal, p.rows.data(), members.data(), n, other.data())
            # The comparison was in rounded products; the exchange stands only if the sum itself agrees.
            if value < current:
                current, quiet = value, 0
                v.swap(other)
                inside[out], inside[at] = 0, 1
            else:
                members[place] = out
        place = (place + 1) % n
    return current


cdef int64_t draw(int64_t* state, int64_t below) noexcept nogil:
    """A small linear congruential generator: the same kicks on every machine and in every thread."""
    state[0] = (state[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return (state[0] >> 8) % below


cdef int search(
    const Goal* goal, const double* rows, vector[int64_t]& listed, vector[int64_t]& best, double enough, int64_t work,
    int mode
) except -1 nogil:
    """Swaps from `best` over the rows `listed` (which hold it), then kicks until the work is done."""
    cdef Pool p
    cdef Py_ssize_t i, place, n = best.size(), c = goal.c, k = listed.size()
    cdef int64_t state = 12345, slot, entry
    cdef double value, least = INFINITY
    cdef vector[int64_t] kept = vector[int64_t](n), trial
    cdef vector[char] inside
    p.rows.resize(k * c)
    for i in range(k):
        memcpy(&p.rows[i * c], rows + listed[i] * c, c * sizeof(double))
    fill_pool(&p, goal, mode)
    for place in range(n):
        kept[place] = lower_bound(listed.begin(), listed.end(), best[place]) - listed.begin()
    while True:
        trial = kept
        inside.assign(k, 0)
        for place in range(n):
            inside[kept[place]] = 1
        for i in range(min(3, n) if least < INFINITY else 0):
            slot = draw(&state, n)
            entry = draw(&state, k)
            if not inside[entry]:
                inside[trial[slot]], inside[entry] = 0, 1
                trial[slot] = entry
        value = swap(&p, trial, inside, &work)
        if value < least:
            least = value
            kept = trial
        if work <= 0 or least <= enough:
            for place in range(n):
                best[place] = listed[kept[place]]
            return 0


cdef double count_sets(Py_ssize_t m, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    cdef double ways = 1.0
    for k in range(min(n, m - n)):
        ways = ways * (m - k) / (k + 1)
    return ways


cdef int compare_all(
    const Goal* goal, const double* rows, vector[int64_t]& among, const double* v, Py_ssize_t size,
    vector[int64_t]& best
) except -1 nogil:
    """Every set of `size` of the rows `among` added to v, computed in full; the best of them into `best`."""
    cdef Py_ssize_t i, j, c = goal.c, m = among.size(), level = 0
    cdef double value, lowest = INFINITY
    cdef vector[Py_ssize_t] picked = vector[Py_ssize_t](size + 1)
    cdef vector[double] sums = vector[double]((size + 1) * c)
    best.resize(size)
    for i in range(size):
        picked[i] = i
    memcpy(sums.data(), v, c * sizeof(double))
    while level >= 0:
        for i in range(level, size):
            for j in range(c):
                sums[(i + 1) * c + j] = sums[i * c + j] + rows[among[picked[i]] * c + j]
        value = remainder(goal, &sums[size * c])
        if value < lowest:
            lowest = value
            for i in range(size):
                best[i] = among[picked[i]]
        level = size - 1
        while level >= 0 and picked[level] == m - size + level:
            level -= 1
        if level >= 0:
            picked[level] += 1
            for i in range(level + 1, size):
                picked[i] = picked[i - 1] + 1
    return 0


cdef int list_subsets(
    Py_ssize_t h, const int64_t[::1] by_size, vector[int64_t]& masks, vector[Py_ssize_t]& starts
) except -1 nogil:
    """All subsets of h rows as bit masks, smaller ones first; where each size begins."""
    cdef Py_ssize_t k, size
    cdef int64_t rest
    masks.clear()
    starts.assign(1, 0)
    for k in range(by_size.shape[0]):
        if by_size[k] >> h:
            continue
        size, rest = 0, by_size[k]
        while rest:
            size += rest & 1
            rest >>= 1
        while size >= <Py_ssize_t> starts.size():
            starts.push_back(masks.size())
        masks.push_back(by_size[k])
    starts.push_back(masks.size())
    return 0


cdef int join_subsets(
    vector[double]& rows, Py_ssize_t width, vector[int64_t]& masks, bint multiplied, vector[double]& joined
) except -1 nogil:
    """The sum, or the product, of the rows [h, width] of each subset, [subsets, width]."""
    cdef Py_ssize_t k, j, bit
    cdef double* one
    cdef double* others
    cdef vector[Py_ssize_t] place = vector[Py_ssize_t](masks.size())
    joined.assign(masks.size() * width, 1.0 if multiplied else 0.0)
    for k in range(<Py_ssize_t> masks.size()):
        place[masks[k]], bit = k, 0
        if masks[k] == 0:
            continue
        while not (masks[k] >> bit) & 1:
            bit += 1
        one, others = &rows[bit * width], &joined[place[masks[k] & (masks[k] - 1)] * width]
        for j in range(width):
            joined[k * width + j] = others[j] * one[j] if multiplied else others[j] + one[j]
    return 0


cdef double noise_of(const Goal* goal, int mode, double reach, double value) noexcept nogil:
    """More than rounding can change the compared value of a set below `value` by; `reach` bounds every sum of rows.

    In full, a sum of rows is off by rounding of its reach, and D by its slope, at most sqrt(2 c D), times that. The
    slope of a sigmoid is at most 1, and its D is off by rounding of its exponents too.
    """
    cdef Py_ssize_t j, c = goal.c
    cdef double groups = c if goal.kind == SIGMOIDS else 1, grain = 64.0 * DBL_EPSILON * reach, noise, exponents
    if goal.kind != SQUARES and mode == NEAR:
        return 64.0 * DBL_EPSILON * reach * reach * groups
    if goal.kind != SQUARES and mode == PRODUCTS:
        return DBL_EPSILON * (128.0 + 2.0 * reach) * groups
    if goal.kind == SOFTMAX:
        return DBL_EPSILON * 64.0 * (1.0 + reach)
    noise = grain * (sqrt(2.0 * c * value) + c * grain) + 64.0 * DBL_EPSILON * value
    if goal.kind == SIGMOIDS:
        noise = min(noise, c * grain + 64.0 * DBL_EPSILON * value)
        exponents = 1.0 + reach
        for j in range(c):
            exponents = max(exponents, 1.0 + reach + fabs(goal.log_q[j]) + fabs(goal.log_no[j]))
        noise += 16.0 * DBL_EPSILON * exponents * min(<double> c, expm1(value))
    return noise


cdef int enumerate_sets(
    const Goal* goal, const double* rows, Py_ssize_t m, Py_ssize_t n, int mode, const double* v, double value,
    const int64_t[::1] by_size, vector[int64_t]& best
) except -1 nogil:
    """Into `best` the best of all sets of n rows if it compares better than `value`, that of v; else nothing.

    Every subset of one half of the rows meets all subsets of the other half that make it n. The factors of a subset are
    the products of those of its rows.
    """
    cdef Pool p
    cdef Py_ssize_t a, b, i, t, half = m // 2, size, first, last, width
    cdef double lowest
    cdef bint multiplied = mode == PRODUCTS
    cdef int64_t found = -1
    cdef vector[int64_t] left, right
    cdef vector[Py_ssize_t] left_starts, right_starts
    cdef vector[double] own, left_joined, start
    list_subsets(half, by_size, left, left_starts)
    list_subsets(m - half, by_size, right, right_starts)
    size_pool(&p, goal, mode, right.size())
    lowest = compare_with(&p, v, value)
    width = p.groups * p.terms if multiplied else goal.c
    own.resize(m * width)
    for i in range(m):
        for t in range(width):
            own[i * width + t] = exp(exponent(goal, t, rows + i * goal.c)) if multiplied else rows[i * width + t]
    join_subsets(own, width, left, multiplied, left_joined)
    own.erase(own.begin(), own.begin() + half * width)
    join_subsets(own, width, right, multiplied, p.rows)
    if multiplied:
        for t in range(width):
            for b in range(p.size):
                p.factors[t * p.size + b] = p.rows[b * width + t]
    else:
        fill_pool(&p, goal, mode)
    leave(&p, goal.start)
    start = p.without if multiplied else vector[double](goal.start, goal.start + width)
    for size in range(max(0, n - (m - half)), min(half, n) + 1):
        first, last = right_starts[n - size], right_starts[n - size + 1]
        for a in range(left_starts[size], left_starts[size + 1]):
            for t in range(width):
                own[t] = start[t] * left_joined[a * width + t] if multiplied else start[t] + left_joined[a * width + t]
            if multiplied:
                p.without.assign(own.data(), own.data() + width)
            else:
                leave(&p, own.data())
            compare(&p, first, last)
            for b in range(first, last):
                if p.values[b] < lowest:
                    lowest, found = p.values[b], left[a] | (right[b] << half)
    best.clear()
    for i in range(m):
        if found >= 0 and (found >> i) & 1:
            best.push_back(i)
    return 0


cdef int way_to_compare(const Goal* goal, double farthest, double reach) noexcept nogil:
    """How sets are compared, where the exponents of factors come to `farthest`, and all of it stays within `reach`."""
    if goal.kind == SQUARES:
        return SUMS
    if goal.whole < TINY_CHANGE and reach <= NEAR_REACH:
        return NEAR
    return PRODUCTS if farthest <= SAFE_EXPONENT else SUMS


cdef int round_basic(
    const Goal* goal, const double* rows, Py_ssize_t m, Py_ssize_t n, const double* x, double* v,
    vector[int64_t]& rounded
) except -1 nogil:
    """The best rounding of a basic x; the whole entries alone if the roundings are too many to list."""
    cdef Py_ssize_t i, size
    cdef vector[int64_t] part, found
    rounded.clear()
    for i in range(m):
        if x[i] == 1.0:
            rounded.push_back(i)
        elif x[i] > 0.0:
            part.push_back(i)
    size = min(n - <Py_ssize_t> rounded.size(), <Py_ssize_t> part.size())
    if size <= 0 or count_sets(part.size(), size) > ROUNDINGS + 0.5:
        if <Py_ssize_t> rounded.size() > n:
            rounded.resize(n)
        return 0
    set_value(goal, rows, rounded.data(), rounded.size(), v)
    compare_all(goal, rows, part, v, size, found)
    for i in range(size):
        rounded.push_back(found[i])
    return 0


cdef cppclass Best:
    """The best set so far, and how good it must be."""
    const Goal* goal
    const double* rows
    Py_ssize_t m, n
    vector[int64_t] members
    double value, bound, unit
    vector[double] v  # [c]: where the members lead


cdef int offer(Best* s, vector[int64_t]& found) except -1 nogil:
    """Take another set if it is complete and better."""
    cdef vector[double] v = vector[double](s.goal.c)
    cdef double value
    if <Py_ssize_t> found.size() == s.n:
        value = set_value(s.goal, s.rows, found.data(), s.n, v.data())
        if value < s.value:
            s.value = value
            s.members = found
            s.v.swap(v)
    return 0


cdef int search_more(Best* s, const double* x, const double* prices, double tolerance, double far) except -1 nogil:
    """Swaps and kicks among the paths with the smallest prices."""
    cdef Py_ssize_t i, m = s.m
    cdef int mode = way_to_compare(s.goal, 2.0 * far, far)
    # Allowance of comparisons, about a nanosecond for each column: the least of these lines. Measured, so that all of
    # the search costs at most about twice what the relaxation does at every size.
    cdef int64_t work = min(6000 + 100 * m, min(30000 + 22 * m, 400000))
    cdef vector[double] keys = vector[double](m), scratch = vector[double](m)
    cdef vector[int64_t] listed, found = s.members
    if m <= ALL_SETS_UP_TO:
        work //= 8
    if mode == SUMS and s.goal.kind != SQUARES:
        work //= 8
    for i in range(m):
        keys[i] = -INFINITY if x[i] > 0.0 else prices[i]
    for i in range(s.n):
        keys[s.members[i]] = -INFINITY
    listed.resize(min(m, s.n + CANDIDATES))
    n_smallest(keys.data(), m, s.n + CANDIDATES, scratch.data(), listed.data())
    search(s.goal, s.rows, listed, found, s.bound + NOTHING_LEFT * s.unit, work, mode)
    return offer(s, found)


cdef int search_all(Best* s, double tolerance, double far, const int64_t[::1] by_size) except -1 nogil:
    """Every set; where comparisons are too coarse to tell them apart, each is computed in full."""
    cdef Py_ssize_t i, j
    cdef double reach = far * s.m, coarse = s.value
    cdef int mode
    cdef vector[int64_t] found, every
    for j in range(s.goal.c):
        reach = max(reach, far * s.m + fabs(s.goal.start[j]))
    mode = way_to_compare(s.goal, far * s.m, reach)
    coarse = noise_of(s.goal, mode, reach, s.value)
    enumerate_sets(s.goal, s.rows, s.m, s.n, mode, s.v.data(), s.value, by_size, found)
    offer(s, found)
    if s.value > s.bound + tolerance * s.unit and coarse > tolerance * s.unit:
        for i in range(s.m):
            every.push_back(i)
        compare_all(s.goal, s.rows, every, s.goal.start, s.n, found)
        offer(s, found)
    return 0


cdef bint improve(
    Best* s, const double* x, const double* prices, double tolerance, const int64_t[::1] by_size
) except? True nogil:
    """The best set found in place of the convex choice; whether no other is better by more than the tolerance."""
    cdef Py_ssize_t i, j
    cdef double far = 0.0, row_far
    cdef bint proved
    cdef vector[int64_t] rounded
    cdef vector[double] v = vector[double](s.goal.c)
    s.v.resize(s.goal.c)
    s.value = set_value(s.goal, s.rows, s.members.data(), s.n, s.v.data())
    round_basic(s.goal, s.rows, s.m, s.n, x, v.data(), rounded)
    offer(s, rounded)
    s.unit = max(unit_of(s.goal), s.bound)
    proved = s.n == 0 or s.n >= s.m or s.value <= s.bound + tolerance * s.unit
    if s.n == 0 or s.n >= s.m or not s.value > s.bound + NOTHING_LEFT * s.unit:
        return proved
    for i in range(s.m):  # row by row: one long chain of maxima would wait for itself
        row_far = 0.0
        for j in range(s.goal.c):
            row_far = max(row_far, fabs(s.rows[i * s.goal.c + j]))
        far = max(far, row_far)
    search_more(s, x, prices, tolerance, far)
    if s.m <= ALL_SETS_UP_TO and s.value > s.bound + NOTHING_LEFT * s.unit:
        search_all(s, tolerance, far, by_size)
        return True
    return proved or s.value <= s.bound + tolerance * s.unit


cdef int order_by_loss(Best* s, const double* prices) except -1 nogil:
    """Lower indices among equal rows; the path whose loss would cost most comes first."""
    cdef Py_ssize_t i, k, j, c = s.goal.c
    cdef vector[double] picked = vector[double](s.m), u = vector[double](c), losses
    cdef vector[int64_t] members
    cdef vector[Keyed] order
    for k in range(s.n):
        picked[s.members[k]] = 1.0
    settle_ties(s.rows, prices, picked.data(), s.m, c)
    for i in range(s.m):
        if picked[i] > 0.0:
            members.push_back(i)
    set_value(s.goal, s.rows, members.data(), s.n, s.v.data())
    for k in range(s.n):
        for j in range(c):
            u[j] = s.v[j] - s.rows[members[k] * c + j]
        losses.push_back(-remainder(s.goal, u.data()))
    sort_keys(losses.data(), s.n, order)
    for k in range(s.n):
        s.members[k] = members[order[k].second]
    return 0


cdef int rank_weights(
    const double* x, const double* prices, Py_ssize_t m, Py_ssize_t n, int64_t* chosen
) except -1 nogil:
    """The n heaviest paths, heaviest first; equal weights by lower price, then by lower index."""
    cdef vector[pair[double, Keyed]] held
    cdef Py_ssize_t i, number = 0
    for i in range(m):
        number += x[i] > 0.0
    for i in range(m):
        if x[i] > 0.0 or number < n:
            held.push_back(pair[double, Keyed](-x[i], Keyed(number_or_last(prices[i]), i)))
    partial_sort(held.begin(), held.begin() + n, held.end())
    for i in range(n):
        chosen[i] = held[i].second.second
    return 0


def rank(
    Py_ssize_t first, Py_ssize_t last, const int64_t[::1] offsets, const double[::1] weights, const double[::1] prices,
    const int64_t[::1] which, const int64_t[::1] starts, const int64_t[::1] stops, int64_t[::1] members,
):
    """members[starts[k]:stops[k]] = the heaviest paths of target which[k], heaviest first."""
    cdef Py_ssize_t k, at
    with nogil:
        for k in range(first, last):
            at = offsets[which[k]]
            if stops[k] > starts[k]:
                rank_weights(
                    &weights[at], &prices[at], offsets[which[k] + 1] - at, stops[k] - starts[k], &members[starts[k]]
                )


def improve_sets(
    Py_ssize_t first, Py_ssize_t last, int kind, double sign, const double[:, ::1] contributions,
    const int64_t[::1] offsets, const double[:, ::1] origin, const double[:, ::1] target, const double[::1] scales,
    const double[:, :, ::1] goals, const double[:, ::1] facts, const double[:, ::1] rows, const double[::1] reach,
    const double[::1] weights, const double[::1] prices, const int64_t[::1] which, const int64_t[::1] starts,
    const int64_t[::1] stops, int64_t[::1] members, const double[::1] bounds, double tolerance,
    const int64_t[::1] by_size, uint8_t[::1] proved,
):
    """Replace members[starts[k]:stops[k]] by the best set found for target which[k].

    `bounds` are those of the relaxation; `by_size` are the masks of 10 bits, those of fewer bits first. proved[k] says
    that no set is better by more than the tolerance.
    """
    cdef Py_ssize_t k, i, at
    cdef Goal goal
    cdef Best s
    with nogil:
        for k in range(first, last):
            i = which[k]
            at = offsets[i]
            proved[k] = 1
            if stops[k] == starts[k]:
                continue
            goal = goal_of(kind, goals, facts, scales, i)
            s.goal, s.rows, s.m, s.n, s.bound = &goal, &rows[at, 0], offsets[i + 1] - at, stops[k] - starts[k], bounds[k]
            s.members.assign(&members[starts[k]], &members[starts[k]] + s.n)
            proved[k] = improve(&s, &weights[at], &prices[at], tolerance, by_size)
            order_by_loss(&s, &prices[at])
            memcpy(&members[starts[k]], s.members.data(), s.n * sizeof(int64_t))

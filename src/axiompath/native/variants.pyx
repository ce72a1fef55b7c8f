"""What each place takes of the variants of those that send to it; see `blame`.

A place has one row for each of its variants; `base` is the first of them, `group` the number of what it sees, and
inverse[group, s] which variant subset s makes of it. Group 0 sees nothing, and has one variant. Edges are listed by
receiver, with the condition of each: -1 for always, else its place in `hold` [conditions, subsets].
"""

from cython cimport final
from libc.math cimport exp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef uint64_t ODD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, which scatters what it multiplies


def number_views(
    const uint64_t[:, ::1] words,
    const uint64_t[:, ::1] masks,
    int32_t[::1] table,
    int64_t[::1] looked,
    int64_t[::1] starts,
    int64_t[::1] first,
    int32_t[:, ::1] inverse,
):
    """Number the kinds of rows that each mask tells apart, as they appear; those of mask m begin at starts[m].

    A table of hashes for each mask, of twice as many slots as it can have kinds, open addressing. `table`, a power of
    2 long and at least twice as long as there are rows, and `looked` [num_words] are scratch.
    """
    cdef int64_t num_rows = words.shape[0], most = table.shape[0]
    cdef int64_t m, w, k, s, num, slots, slot, begun, taken = 0, known, other
    cdef int shift
    cdef uint64_t left, code
    cdef bint same
    with nogil:
        starts[0] = 0
        for m in range(masks.shape[0]):
            num, slots, shift = 0, 2, 63
            for w in range(masks.shape[1]):
                left = masks[m, w]
                if left:
                    looked[num] = w
                    num += 1
                while left and slots < most:
                    left &= left - 1
                    slots *= 2
                    shift -= 1
            for slot in range(slots):
                table[slot] = -1
            begun = starts[m]
            for s in range(num_rows):
                code = 0
                for k in range(num):
                    w = looked[k]
                    code = ((code >> 32) ^ code ^ (words[s, w] & masks[m, w])) * ODD
                slot = <int64_t>(code >> shift)
                while True:
                    known = table[slot]
                    if known < 0:
                        table[slot] = <int32_t>(taken - begun)
                        first[taken] = s
                        inverse[m, s] = <int32_t>(taken - begun)
                        taken += 1
                        break
                    other, same = first[begun + known], True
                    for k in range(num):
                        w = looked[k]
                        if (words[s, w] ^ words[other, w]) & masks[m, w]:
                            same = False
                            break
                    if same:
                        inverse[m, s] = <int32_t>known
                        break
                    slot = (slot + 1) & (slots - 1)
            starts[m + 1] = taken


@final
cdef class Rows:
    """Rows of places: base[p] + inverse[group[p], s] is the one that subset s makes of place p."""

    cdef const int64_t[::1] base
    cdef const int64_t[::1] group
    cdef const int32_t[:, ::1] inverse

    def __init__(self, base, group, inverse):
        self.base, self.group, self.inverse = base, group, inverse

    cdef inline int64_t of(self, int64_t place, int64_t s) noexcept nogil:
        return self.base[place] + self.inverse[self.group[place], s]


@final
cdef class Edges:
    """Edges by receiver: which subsets have them, and the rows of their senders in the layer below."""

    cdef const int64_t[::1] indptr
    cdef const int64_t[::1] senders
    cdef const int64_t[::1] condition
    cdef const uint8_t[:, ::1] hold
    cdef const int64_t[::1] places
    cdef Rows below

    def __init__(self, indptr, senders, condition, hold, places, below):
        self.indptr, self.senders, self.condition, self.hold = indptr, senders, condition, hold
        self.places, self.below = places, below

    cdef inline bint has(self, int64_t e, int64_t s) noexcept nogil:
        return self.condition[e] < 0 or self.hold[self.condition[e], s]

    cdef inline int64_t row_of(self, int64_t node, int64_t s) noexcept nogil:
        return self.below.of(self.places[node], s)


def add_products(
    Edges edges,
    const double[::1] weights,
    Rows left_rows,
    const double[::1] left,
    Rows right_rows,
    const double[::1] right,
    const double[::1] diagonal,
    bint loops_apart,
    const int64_t[::1] nodes,
    const int64_t[::1] base,
    const int64_t[::1] groups,
    const int64_t[::1] starts,
    const int64_t[::1] subsets,
    const double[:, ::1] projected,
    int64_t[::1] varying,
    double[::1] constant,
    double[::1] total,
    double[:, :] z,
):
    """z[V] += left[V] * sum over U of weight * right[U] * projected[U], plus diagonal[V] * projected[V].

    `varying` [largest degree], `constant` and `total` [width] are scratch.
    """
    cdef Rows below = edges.below
    cdef int64_t i, j, k, c, e, u, v, s, low, place, row, first, out, num_varying, width = projected.shape[1]
    cdef double value
    with nogil:
        for i in range(nodes.shape[0]):
            v, num_varying = nodes[i], 0
            for c in range(width):
                constant[c] = 0.0
            for e in range(edges.indptr[v], edges.indptr[v + 1]):
                u = edges.senders[e]
                if loops_apart and u == v:
                    continue
                place = edges.places[u]
                if edges.condition[e] < 0 and below.group[place] == 0 and right_rows.group[u] == 0:
                    value, row = weights[e] * right[right_rows.base[u]], below.base[place]
                    for c in range(width):
                        constant[c] += value * projected[row, c]
                else:
                    varying[num_varying] = e
                    num_varying += 1
            first = starts[groups[i]]
            for j in range(first, starts[groups[i] + 1]):
                s = subsets[j]
                for c in range(width):
                    total[c] = constant[c]
                for k in range(num_varying):
                    e = varying[k]
                    if not edges.has(e, s):
                        continue
                    u = edges.senders[e]
                    value, row = weights[e] * right[right_rows.of(u, s)], edges.row_of(u, s)
                    for c in range(width):
                        total[c] += value * projected[row, c]
                low, out = left_rows.of(v, s), base[i] + j - first
                for c in range(width):
                    z[out, c] += left[low] * total[c]
                if diagonal.shape[0]:
                    row = edges.row_of(v, s)
                    for c in range(width):
                        z[out, c] += diagonal[low] * projected[row, c]


cdef inline double score_of(
    const double[:, ::1] keys, const double[:, ::1] queries, const double[::1] direction, double slope, bint product,
    int64_t key, int64_t query,
) noexcept nogil:
    cdef double total = 0.0, value
    cdef int64_t c
    for c in range(direction.shape[0]):
        if product:
            total += keys[key, c] * queries[query, c]
        else:
            value = keys[key, c] + queries[query, c]
            total += (value if value > 0 else value * slope) * direction[c]
    return total


def add_attention(
    Edges edges,
    const double[:, ::1] keys,
    const double[:, ::1] queries,
    const double[::1] direction,
    double slope,
    bint product,
    bint self_loops,
    const int64_t[::1] nodes,
    const int64_t[::1] base,
    const int64_t[::1] groups,
    const int64_t[::1] starts,
    const int64_t[::1] subsets,
    const double[:, ::1] projected,
    int64_t[::1] taken,
    double[::1] shares,
    double[:, :] z,
):
    """z[V] += sum over U of softmax(score[V, U]) * projected[U]; `taken` and `shares` [largest degree + 1] are scratch."""
    cdef int64_t i, j, k, c, e, u, v, s, own, row, first, out, num, width = projected.shape[1]
    cdef double highest, whole, value
    with nogil:
        for i in range(nodes.shape[0]):
            v = nodes[i]
            first = starts[groups[i]]
            for j in range(first, starts[groups[i] + 1]):
                s, num = subsets[j], 0
                own = edges.row_of(v, s)
                if self_loops:
                    taken[0], shares[0] = own, score_of(keys, queries, direction, slope, product, own, own)
                    num = 1
                for e in range(edges.indptr[v], edges.indptr[v + 1]):
                    u = edges.senders[e]
                    if (self_loops and u == v) or not edges.has(e, s):
                        continue
                    row = edges.row_of(u, s)
                    taken[num], shares[num] = row, score_of(keys, queries, direction, slope, product, row, own)
                    num += 1
                if num == 0:
                    continue
                highest, whole, out = shares[0], 0.0, base[i] + j - first
                for k in range(1, num):
                    highest = max(highest, shares[k])
                for k in range(num):
                    shares[k] = exp(shares[k] - highest)
                    whole += shares[k]
                for k in range(num):
                    value, row = shares[k] / whole, taken[k]
                    for c in range(width):
                        z[out, c] += value * projected[row, c]

# distutils: language = c++
"""The paths of a root with the least prices, best first; its twin in tests/support lists all of them.

Suffixes wait on a heap by their bounds. The one with the least is opened: what hangs below it is bounded and waits, and
the best of that is opened at once, down to the leaves, so that there is something to compare with soon.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memset
from libcpp.algorithm cimport pop_heap, push_heap, sort
from libcpp.vector cimport vector

from .layers cimport Channel, LayerArrays, LayerView, factor_of

from ..change import states

cdef extern from "blocks.h":
    double price_columns(
        const double *old, const double *new, const double *delta, const double *after, const double *before,
        const double *factors, int64_t size
    ) nogil
    double least_columns(
        const double *low, const double *high, const double *delta, const double *own, double of_delta, double of_own,
        double cap, int64_t size
    ) nogil
    void map_column(double *to, const double *weight, const double *values, int64_t rows, int64_t size) nogil

cdef int STATES_OF[3]
STATES_OF[0], STATES_OF[1], STATES_OF[2] = states.DELTA, states.IN_AFTER, states.IN_BEFORE


cdef struct StageView:
    const LayerView *layer
    const int64_t *descents_indptr
    const int64_t *descents
    const uint16_t *marks
    const uint16_t *following
    int64_t num_marks
    const uint8_t *delta_alone
    const uint8_t *held
    const uint8_t *held_below
    const uint8_t *starts
    # Extremes of what hangs below this layer's senders; NULL at the lowest hop and above local layers.
    const double *low
    const double *high
    const double *low_behind  # NULL where they are not looked at
    const double *high_behind
    const int32_t *place
    int64_t num_places


cdef class SearchLayer:
    """One layer as a search goes through it, with the extremes below it, if it is a hop above others."""

    cdef StageView view
    cdef list arrays

    def __cinit__(
        self,
        LayerArrays layer,
        const int64_t[::1] descents_indptr,
        const int64_t[::1] descents,
        const uint16_t[::1] marks,
        const uint16_t[:, ::1] following,
        const uint8_t[::1] delta_alone,
        const uint8_t[::1] held,
        const uint8_t[::1] held_below,
        const uint8_t[::1] starts,
        const double[:, ::1] low,
        const double[:, ::1] high,
        const double[:, ::1] low_behind,
        const double[:, ::1] high_behind,
        const int32_t[:, ::1] place,
    ):
        self.arrays = [
            layer, descents_indptr, descents, marks, following, delta_alone, held, held_below, starts, low, high,
            low_behind, high_behind, place,
        ]
        view = &self.view
        view.layer, view.num_marks = &layer.view, following.shape[1]
        view.descents_indptr = &descents_indptr[0]
        if descents.shape[0]:
            view.descents = &descents[0]
        if marks.shape[0]:
            view.marks = &marks[0]
        if following.shape[1]:
            view.following = &following[0, 0]
        view.delta_alone, view.held, view.held_below, view.starts = &delta_alone[0], &held[0], &held_below[0], &starts[0]
        if low is not None:
            assert low.shape[1] == high.shape[1] == layer.view.width_below and place.shape[0] == 3
            view.low, view.high, view.place = &low[0, 0], &high[0, 0], &place[0, 0]
            view.num_places = place.shape[1]
        if low_behind is not None:
            assert low_behind.shape[1] == high_behind.shape[1] == layer.view.out_columns
            view.low_behind, view.high_behind = &low_behind[0, 0], &high_behind[0, 0]


cdef struct Suffix:
    int64_t parent, node
    int set, hop, place


cdef struct Found:
    double price
    int64_t suffix, leaf


cdef struct Waiting:
    double bound
    int64_t order, suffix, entry  # earlier ones first among equals


cdef extern from *:
    """
    struct LessPrice { template <class T> bool operator()(const T &a, const T &b) const {
        return a.price != b.price ? a.price < b.price : a.suffix != b.suffix ? a.suffix < b.suffix : a.leaf < b.leaf; } };
    struct MoreBound { template <class T> bool operator()(const T &a, const T &b) const {
        return a.bound > b.bound || (a.bound == b.bound && a.order > b.order); } };
    """
    cdef cppclass LessPrice nogil:
        LessPrice()
    cdef cppclass MoreBound nogil:
        MoreBound()


cdef struct Scratch:
    double *m  # [3, widest] each
    double *q
    double *p
    int64_t widest


cdef inline bint has_state(int held, int state) noexcept nogil:
    return held & STATES_OF[state] != 0


cdef inline int set_below(const StageView *stage, int s, int64_t entry) noexcept nogil:
    return stage.following[s * stage.num_marks + stage.marks[entry]]


cdef inline void tilt(const StageView *stage, int64_t node, int held, Scratch *work) noexcept nogil:
    """q = m * slopes of a node, in the states that the suffix has; 0 in the others."""
    cdef int f
    cdef int64_t d, width = stage.layer.width
    cdef const double *slopes
    cdef double *m
    cdef double *q
    for f in range(3):
        m, q = work.m + f * work.widest, work.q + f * work.widest
        if not has_state(held, f):
            memset(q, 0, width * sizeof(double))
        elif stage.layer.slopes != NULL:
            slopes = stage.layer.slopes + stage.layer.slope_rows[f * stage.layer.num_nodes + node] * width
            for d in range(width):
                q[d] = m[d] * slopes[d]
        else:
            for d in range(width):
                q[d] = m[d]


cdef inline void multiply(const StageView *stage, int held, const Scratch *work, double *p) noexcept nogil:
    """p = q @ W', channels side by side, in the states that the suffix has; 0 in the others."""
    cdef int f
    cdef int64_t k, i
    cdef const Channel *channel
    cdef const double *q
    cdef double *to
    for f in range(3):
        q = work.q + f * work.widest
        for k in range(stage.layer.num_channels):
            channel, to = stage.layer.channels + k, p + f * work.widest
            to += channel.in_column
            if not has_state(held, f):
                memset(to, 0, channel.inputs * sizeof(double))
            elif channel.weight < 0:
                for i in range(channel.inputs):
                    to[i] = q[channel.output + i]
            else:
                map_column(
                    to, stage.layer.weights + channel.weight, q + channel.output, channel.inputs, channel.outputs
                )


cdef inline void carry(
    const StageView *stage, int64_t entry, int held_below, const double *p, int64_t widest, double *m
) noexcept nogil:
    """m of what hangs below over an entry, from the products above."""
    cdef int f, g
    cdef int64_t k, n
    cdef double factor
    cdef const Channel *channel
    for g in range(3):
        memset(m + g * widest, 0, stage.layer.width_below * sizeof(double))
        if not has_state(held_below, g):
            continue
        for k in range(stage.layer.num_channels):
            channel = stage.layer.channels + k
            for f in range(3):
                if f and f != g:
                    continue
                factor = factor_of(stage.layer, f, g, entry, channel.rule)
                if factor != 0.0:
                    for n in range(channel.inputs):
                        m[g * widest + channel.input + n] += factor * p[f * widest + channel.in_column + n]


cdef inline double price_leaf(
    const StageView *stage, int64_t entry, const double *old, const double *new, const Scratch *work
) noexcept nogil:
    """What the leaf over an entry of the lowest hop adds up to."""
    cdef const LayerView *layer = stage.layer
    cdef const Channel *channel
    cdef double factors[5]
    cdef double total = 0.0
    cdef int64_t k
    for k in range(layer.num_channels):
        channel = layer.channels + k
        factors[0] = factor_of(layer, 0, 0, entry, channel.rule)
        factors[1] = factor_of(layer, 0, 1, entry, channel.rule)
        factors[2] = factor_of(layer, 1, 1, entry, channel.rule)
        factors[3] = factor_of(layer, 0, 2, entry, channel.rule)
        factors[4] = factor_of(layer, 2, 2, entry, channel.rule)
        total += price_columns(
            old + channel.out_column, new + channel.out_column, work.q + channel.output,
            work.q + work.widest + channel.output, work.q + 2 * work.widest + channel.output, factors, channel.outputs,
        )
    return total


cdef inline double bound_of(
    const StageView *stage, int64_t entry, int held_below, const double *p, const Scratch *work, double enough
) noexcept nogil:
    """A price that no path over an entry goes below: by the extremes where it leads to, and by those behind the maps.

    Where several states meet, a continuation may be missing in one of them, so that none of them bounds by more than 0.
    Where the former say `enough`, the latter are not looked at.
    """
    cdef const LayerView *layer = stage.layer
    cdef const Channel *channel
    cdef int64_t u = layer.indices[entry], k, row
    cdef int g, meeting = 0
    cdef double cap, of_delta, of_own, total = 0.0, behind = 0.0
    for g in range(3):
        meeting += has_state(held_below, g)
    cap = 0.0 if meeting > 1 else INFINITY
    if layer.num_channels > 1:
        carry(stage, entry, held_below, p, work.widest, work.m)
    for g in range(3):
        if not has_state(held_below, g):
            continue
        row = stage.place[g * stage.num_places + u]
        if layer.num_channels > 1:
            total += least_columns(
                stage.low + row * layer.width_below, stage.high + row * layer.width_below, work.m,
                work.m + g * work.widest, 0.0, 1.0, cap, layer.width_below,
            )
        else:
            channel = layer.channels
            of_delta = factor_of(layer, 0, g, entry, channel.rule) if g else 0.0
            of_own = factor_of(layer, g, g, entry, channel.rule)
            total += least_columns(
                stage.low + row * layer.width_below + channel.input,
                stage.high + row * layer.width_below + channel.input,
                p + channel.in_column, p + g * work.widest + channel.in_column, of_delta, of_own, cap, channel.inputs,
            )
    if stage.low_behind == NULL or total >= enough:
        return total
    for k in range(layer.num_channels):
        channel = layer.channels + k
        for g in range(3):
            if not has_state(held_below, g):
                continue
            row = stage.place[g * stage.num_places + u]
            of_delta = factor_of(layer, 0, g, entry, channel.rule) if g else 0.0
            of_own = factor_of(layer, g, g, entry, channel.rule)
            behind += least_columns(
                stage.low_behind + row * layer.out_columns + channel.out_column,
                stage.high_behind + row * layer.out_columns + channel.out_column,
                work.q + channel.output, work.q + g * work.widest + channel.output, of_delta, of_own, cap,
                channel.outputs,
            )
    return max(total, behind)


def search_range(
    Py_ssize_t start,
    Py_ssize_t stop,
    list layers,
    const double[:, ::1] y_before,
    const double[:, ::1] y_after,
    const int64_t[::1] roots,
    const double[:, ::1] weights,
    const int64_t[::1] sizes,
    const int64_t[::1] ends,
    int64_t widest,
    int64_t most_looked_at,
    int64_t most_opened,
    int64_t most_waiting,
    double[::1] scratch,
    double[:, ::1] prices,
    int64_t[:, :, ::1] nodes,
    double[::1] floors,
    int64_t[::1] number,
    int64_t[::1] opened,
    int64_t[::1] looked_at,
):
    """The sizes[i] paths of roots[i] with the least prices, contributions @ weights[i], or those found until a limit.

    `layers` begin with the lowest hop. `ends` [num_positions] has the nodes that a path must end with,
    negative where any will do. No path that is not found has a price below floors[i].
    """
    cdef vector[const StageView *] stages
    cdef SearchLayer one
    for one in layers:
        stages.push_back(&one.view)
    assert scratch.shape[0] >= 9 * widest
    cdef Scratch work
    work.m, work.q, work.p, work.widest = &scratch[0], &scratch[3 * widest], &scratch[6 * widest], widest
    cdef const StageView *stage
    cdef const LayerView *layer
    cdef vector[Suffix] suffixes
    cdef vector[double] products
    cdef vector[Waiting] heap
    cdef vector[Found] best
    cdef Suffix suffix
    cdef Found found
    cdef Waiting wait
    cdef int64_t i, d, e, k, n, here, parent, v, first, last, seen, pushed, wanted, u, best_entry, at, position
    cdef int t, s, below, top = <int>stages.size() - 1
    cdef bint in_delta, begun
    cdef double bias, price, bound, enough, least, missed
    with nogil:
        for i in range(start, stop):
            n, seen, pushed, missed = sizes[i], 0, 0, INFINITY
            suffixes.clear()
            products.clear()
            heap.clear()
            best.clear()
            parent, t, v, s = -1, top, roots[i], 1
            memset(work.m, 0, 3 * widest * sizeof(double))
            for d in range(stages[top].layer.width):
                work.m[d] = weights[i, d]
            while n > 0:
                # Open the suffix at node v, set s, at the output of layer t; its m is in the scratch. Down the local
                # layers first; s becomes 0 where nothing hangs below them.
                here, bias, begun = suffixes.size(), 0.0, False
                while True:
                    stage = stages[t]
                    layer = stage.layer
                    tilt(stage, v, stage.held[s], &work)
                    if layer.bias != NULL:
                        begun = begun or stage.starts[s]
                        for d in range(layer.width):
                            bias += (work.q[widest + d] + work.q[2 * widest + d]) * layer.bias[d]
                    if not layer.local:
                        break
                    e, below = layer.indptr[v], 0
                    if e < layer.indptr[v + 1]:
                        below = set_below(stage, s, e)
                    if below:
                        multiply(stage, stage.held[s], &work, work.p)
                        carry(stage, e, stage.held_below[below], work.p, widest, work.m)
                    s = below
                    if below == 0:
                        break
                    t -= 1
                suffix.parent, suffix.node, suffix.set, suffix.hop = parent, v, s, t
                suffix.place = <int>(ends.shape[0] - 1 if parent < 0 else suffixes[parent].place - 1)
                suffixes.push_back(suffix)
                products.resize(suffixes.size() * 3 * widest)
                wanted = ends[suffix.place - 1]
                least = best.front().price if <int64_t>best.size() == n else INFINITY
                if begun and wanted < 0 and bias < least:
                    found.price, found.suffix, found.leaf = bias, here, -1
                    keep_best(best, found, n)
                bound, best_entry = INFINITY, -1
                wait.bound = INFINITY
                if s:
                    in_delta = stage.delta_alone[s]
                    first = stage.descents_indptr[v] if in_delta else layer.indptr[v]
                    last = stage.descents_indptr[v + 1] if in_delta else layer.indptr[v + 1]
                    seen += last - first
                    if t:
                        multiply(stage, stage.held[s], &work, &products[here * 3 * widest])
                    for k in range(first, last):
                        e = stage.descents[k] if in_delta else k
                        u = layer.indices[e]
                        if wanted >= 0 and u != wanted:
                            continue
                        below = set_below(stage, s, e)
                        if below == 0:
                            continue
                        enough = best.front().price if <int64_t>best.size() == n else INFINITY
                        if t == 0:
                            price = price_leaf(stage, e, &y_before[u, 0], &y_after[u, 0], &work)
                            if price < enough:
                                found.price, found.suffix, found.leaf = price, here, e
                                keep_best(best, found, n)
                            continue
                        price = bound_of(
                            stage, e, stage.held_below[below], &products[here * 3 * widest], &work, enough
                        )
                        if price >= enough:
                            continue
                        if price < bound or best_entry < 0:
                            # The best so far waits with the others as soon as there is a better one.
                            price, bound = bound, price
                            e, best_entry = best_entry, e
                            if e < 0:
                                continue
                        if <int64_t>heap.size() >= most_waiting:
                            missed = min(missed, price)
                            continue
                        wait.bound, wait.order, wait.suffix, wait.entry = price, pushed, here, e
                        pushed += 1
                        heap.push_back(wait)
                        push_heap(heap.begin(), heap.end(), MoreBound())
                least = best.front().price if <int64_t>best.size() == n else INFINITY
                if seen >= most_looked_at or <int64_t>suffixes.size() >= most_opened:
                    missed = min(missed, bound)
                    break
                if best_entry >= 0 and bound < least:
                    parent, e = here, best_entry
                else:
                    if heap.size() == 0 or heap.front().bound >= least:
                        break
                    parent, e = heap.front().suffix, heap.front().entry
                    pop_heap(heap.begin(), heap.end(), MoreBound())
                    heap.pop_back()
                suffix = suffixes[parent]
                stage = stages[suffix.hop]
                s, t, v = set_below(stage, suffix.set, e), suffix.hop - 1, stage.layer.indices[e]
                carry(stage, e, stage.held_below[s], &products[parent * 3 * widest], widest, work.m)
            if heap.size():
                missed = min(missed, heap.front().bound)
            if <int64_t>best.size() == n and n > 0:
                missed = min(missed, best.front().price)
            floors[i], number[i] = missed, best.size()
            opened[i], looked_at[i] = suffixes.size(), seen
            sort(best.begin(), best.end(), LessPrice())
            for k in range(<int64_t>best.size()):
                prices[i, k] = best[k].price
                for d in range(ends.shape[0]):
                    nodes[i, k, d] = -1
                at = best[k].suffix
                position = suffixes[at].place
                if best[k].leaf >= 0:
                    nodes[i, k, position - 1] = stages[0].layer.indices[best[k].leaf]
                while at >= 0:
                    nodes[i, k, position] = suffixes[at].node
                    position += 1
                    at = suffixes[at].parent


cdef inline void keep_best(vector[Found] &best, Found found, int64_t n) noexcept nogil:
    """Among the n least so far, the largest of them in front."""
    if <int64_t>best.size() == n:
        pop_heap(best.begin(), best.end(), LessPrice())
        best.pop_back()
    best.push_back(found)
    push_heap(best.begin(), best.end(), LessPrice())

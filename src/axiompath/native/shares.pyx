"""Shares of paths and sums over all paths: multipliers carried down, sources weighed by them; see `paths.attribution`.

A partial path has one block [width, stride] of multipliers for each of its states: a row for each column of the layer,
a column for each class, zeros behind the last class.
"""

from libc.math cimport fabs
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy, memset

from .layers cimport Channel, LayerArrays, LayerView, factor_of

from ..change import states

cdef extern from "blocks.h":
    void fetch(const void *place, int64_t size) nogil
    void add_row(double *to, const double *source, int64_t stride) nogil
    void add_block(
        double *to, const double *source, int64_t rows, int64_t stride, const double *slopes, double factor
    ) nogil
    void map_block(
        double *to, const double *weight, const double *block, int64_t rows, int64_t size, int64_t stride
    ) nogil
    void weigh_block(
        double *to, const double *values, const double *block, int64_t size, int64_t stride, double factor
    ) nogil
    void weigh_leaves(
        double *out, double *total, const int64_t *entries, int64_t n, const int32_t *indices, const double *factors,
        int64_t num_rules, const double *values, int64_t width, const double *block, int64_t size, int64_t stride,
        int64_t num_classes, bint first
    ) nogil

cdef enum:
    NUM_STATES = 6
    NUM_CAUSES = 6
    NUM_SETS = 512
    AHEAD = 4  # partial paths: how early what one needs is fetched

assert (states.NUM_STATES, len(states.KINDS), states.NUM_SETS) == (NUM_STATES, NUM_CAUSES, NUM_SETS)
cdef int LEAVE = states.LEAVE
cdef int REWEIGHTED = states.REWEIGHTED, STATISTICS = states.STATISTICS
cdef int FEATURE = states.FEATURE, EDGE_FEATURE = states.EDGE_FEATURE
cdef int AFTER_REWEIGHTED = 2, BEFORE_REWEIGHTED = 5  # places of these states
cdef int cause_of[NUM_STATES]
cdef int side_of[NUM_STATES]
cdef int kind_of[NUM_SETS]
cdef int one_cause[NUM_SETS]  # -1 for several
for number in range(NUM_STATES):
    cause_of[number], side_of[number] = states.CAUSE_OF_STATE[number], states.SIDE_OF_STATE[number]
for number in range(NUM_SETS):
    kind_of[number], one_cause[number] = states.KIND_OF_SET[number], states.ONE_CAUSE[number]


cdef inline int count_bits(int bits) noexcept nogil:
    cdef int count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


cdef struct Sums:
    int64_t stride
    int seen  # causes of the path at hand, as bits
    double *term
    double *total  # of the path
    double *own  # of the path, by cause
    double *causes  # of the target, by cause


cdef inline void add_term(Sums *sums, int cause, bint apart) noexcept nogil:
    """Add the term to what the path and its target sum up; `apart` where the path's kind depends on its causes."""
    add_row(sums.total, sums.term, sums.stride)
    add_row(sums.causes + cause * sums.stride, sums.term, sums.stride)
    if apart:
        if not sums.seen >> cause & 1:
            memset(sums.own + cause * sums.stride, 0, sums.stride * sizeof(double))
        add_row(sums.own + cause * sums.stride, sums.term, sums.stride)
    sums.seen |= 1 << cause


cdef inline int kind_of_shares(const Sums *sums) noexcept nogil:
    """The largest of a path's causes, by the sum over classes of |share|; *reweighted* where all are 0."""
    cdef int cause, kind = REWEIGHTED
    cdef double size, largest = 0.0
    cdef int64_t j
    for cause in range(REWEIGHTED, NUM_CAUSES):
        if sums.seen >> cause & 1:
            size = 0.0
            for j in range(sums.stride):
                size += fabs(sums.own[cause * sums.stride + j])
            if size > largest:
                kind, largest = cause, size
    return kind


cdef inline void form_multipliers(
    const LayerView *above, const LayerView *layer, int64_t node, int64_t entry, int states_above, int held,
    const double *product_above, int64_t stride, double *multipliers,
) noexcept nogil:
    """Multipliers at z of `layer` for each state, from the products of the partial path above (NULL at the root)."""
    cdef int64_t block = layer.width * stride, k, d
    cdef int state, source
    cdef double factor
    cdef double *to
    cdef const double *slopes
    cdef const double *given
    cdef const Channel *channel
    for state in range(NUM_STATES):
        if not held >> state & 1:
            continue
        to = multipliers + state * block
        memset(to, 0, block * sizeof(double))
        slopes = NULL
        if layer.slopes != NULL:
            slopes = layer.slopes + layer.slope_rows[side_of[state] * layer.num_nodes + node] * layer.width
        if above == NULL:
            for d in range(layer.width):
                to[d * stride + d] = 1.0 if slopes == NULL else slopes[d]
            continue
        for source in range(state + 1):
            # A state is reached from delta or from itself.
            if (source and source != state) or not states_above >> source & 1:
                continue
            given = product_above + count_bits(states_above & ((1 << source) - 1)) * above.in_columns * stride
            for k in range(above.num_channels):
                channel = above.channels + k
                if source == 0 and state and not (
                    above.marks[entry * above.num_rules + channel.rule] >> LEAVE >> state & 1
                ):
                    continue
                factor = factor_of(above, side_of[source], side_of[state], entry, channel.rule)
                if factor != 0.0:
                    add_block(
                        to + channel.input * stride, given + channel.in_column * stride, channel.inputs, stride,
                        NULL if slopes == NULL else slopes + channel.input, factor,
                    )


cdef inline void map_multipliers(
    const LayerView *layer, int held, const double *multipliers, int64_t stride, double *product
) noexcept nogil:
    """The products of each state with the maps of the layer's channels, side by side."""
    cdef int64_t block = layer.width * stride, k
    cdef int state
    cdef const double *given
    cdef const Channel *channel
    for state in range(NUM_STATES):
        if not held >> state & 1:
            continue
        for k in range(layer.num_channels):
            channel = layer.channels + k
            given = multipliers + state * block + channel.output * stride
            if channel.weight < 0:
                memcpy(product + channel.in_column * stride, given, channel.inputs * stride * sizeof(double))
            else:
                map_block(
                    product + channel.in_column * stride, layer.weights + channel.weight, given, channel.inputs,
                    channel.outputs, stride,
                )
        product += layer.in_columns * stride


cdef inline bint depends(int held) noexcept nogil:
    """Whether the kind of a path with these states depends on the shares of its causes."""
    return kind_of[held] == REWEIGHTED and one_cause[held] != REWEIGHTED


cdef inline void weigh_leaf(
    const LayerView *layer, int64_t entry, const double *y_before, const double *y_after, bint differs, int feature,
    int held, const double *multipliers, double *moved, Sums *sums, bint apart,
) noexcept nogil:
    """Add the shares of one leaf, state by state."""
    cdef int64_t block = layer.width * sums.stride, k, d
    cdef int state, below, leaves
    cdef double factor
    cdef const double *weights
    cdef const double *y
    cdef const Channel *channel
    for state in range(NUM_STATES):
        if not held >> state & 1:
            continue
        for k in range(layer.num_channels):
            channel = layer.channels + k
            weights = multipliers + state * block + channel.output * sums.stride
            if state:
                factor = factor_of(layer, side_of[state], side_of[state], entry, channel.rule)
                y = y_before if differs and side_of[state] == 2 else y_after
                if factor != 0.0:
                    weigh_block(sums.term, y + channel.out_column, weights, channel.outputs, sums.stride, factor)
                    add_term(sums, cause_of[state], apart)
                continue
            factor = factor_of(layer, 0, 0, entry, channel.rule)
            if differs and factor != 0.0:
                for d in range(channel.outputs):
                    moved[d] = y_after[channel.out_column + d] - y_before[channel.out_column + d]
                weigh_block(sums.term, moved, weights, channel.outputs, sums.stride, factor)
                add_term(sums, feature, apart)
            leaves = layer.marks[entry * layer.num_rules + channel.rule] >> LEAVE
            for below in range(1, NUM_STATES):
                if leaves >> below & 1:
                    factor = factor_of(layer, 0, side_of[below], entry, channel.rule)
                    y = y_before if differs and side_of[below] == 2 else y_after
                    weigh_block(sums.term, y + channel.out_column, weights, channel.outputs, sums.stride, factor)
                    add_term(sums, cause_of[below], apart)


cdef inline void weigh_plain(
    const LayerView *layer, const int64_t *entries, int64_t n, const double *y, int64_t width,
    const double **multipliers, const int *causes, int num_states, double *shares, int64_t num_classes, Sums *sums,
) noexcept nogil:
    """The shares of n leaves that send the same in both snapshots, over coefficients that are the same."""
    cdef int state
    cdef int64_t k
    cdef const Channel *channel
    for state in range(num_states):
        for k in range(layer.num_channels):
            channel = layer.channels + k
            weigh_leaves(
                shares, sums.causes + causes[state] * sums.stride, entries, n, layer.indices,
                layer.after + channel.rule, layer.num_rules, y + channel.out_column, width,
                multipliers[state] + channel.output * sums.stride, channel.outputs, sums.stride, num_classes,
                state == 0 and k == 0,
            )


cdef inline void fetch_suffix(
    const LayerView *above, const LayerView *layer, int64_t node, int64_t entry, int64_t leaf, const uint8_t *plain
) noexcept nogil:
    """Begin to bring into the cache what a partial path is made of, and its first leaf, if not -1."""
    cdef int64_t at
    if above != NULL:
        at = entry * above.num_rules
        fetch(above.kept + at, 1)
        fetch(above.kept_after + at, 1)
        fetch(above.after + at, 1)
        fetch(above.before + at, 1)
        fetch(above.marks + at, 1)
    if layer.slopes != NULL:
        fetch(layer.slopes + layer.slope_rows[layer.num_nodes + node] * layer.width, layer.width)
    if leaf >= 0:
        fetch(layer.indices + leaf, 1)
        fetch(layer.after + leaf * layer.num_rules, 1)
        fetch(plain + leaf, 1)


def share_level(
    Py_ssize_t start,
    Py_ssize_t stop,
    const int64_t[::1] suffixes,
    const int32_t[::1] node,
    const int32_t[::1] parent,
    const int64_t[::1] entry,
    const uint8_t[::1] held,
    LayerArrays above,
    LayerArrays layer,
    const double[:, :, ::1] product_above,
    const int64_t[::1] first_above,
    const uint8_t[::1] held_above,
    double[:, :, ::1] product,
    const int64_t[::1] first,
    const int64_t[::1] bias_rows,
    double[:, :, ::1] bias_causes,
    const int64_t[::1] leaf_rows,
    const int64_t[::1] num_leaves,
    const int64_t[::1] path_entry,
    const uint16_t[::1] path_held,
    const uint8_t[::1] differs,
    const uint8_t[::1] plain_entry,
    const double[:, ::1] y_before,
    const double[:, ::1] y_after,
    int64_t first_edge,
    int64_t stride,
    double[::1] scratch,
    double[:, ::1] contributions,
    int8_t[::1] kinds,
    double[:, :, ::1] causes,
):
    """One level of the partial paths of targets start to stop: their biases, and what hangs below them.

    `suffixes` [num_targets + 1] are the partial paths of each target. `above` is None at the root. Either the products
    of the level are formed (`product` has rows) or the shares of its leaves (`leaf_rows` has). `bias_rows` is empty
    where the layer has no bias, else the path that starts at the bias of each partial path, -1 for none; `bias_causes`
    [2, paths, classes], if not empty, receives what statistics and coefficients did of these. Leaves over entries that
    are plain, alike in both snapshots, are weighed together.
    """
    cdef const LayerView *view = &layer.view
    cdef const LayerView *view_above = NULL if above is None else &above.view
    cdef int64_t block = view.width * stride, num_classes = contributions.shape[1]
    cdef int64_t target, i, row, last, e, u, j, k
    cdef int state, states_above, cause, num_plain
    cdef bint apart, differ, biased = bias_rows.shape[0] > 0, bottom = leaf_rows.shape[0] > 0
    cdef double *multipliers = &scratch[0]
    cdef double *merged = multipliers + NUM_STATES * block
    cdef const double *given
    cdef const double *old
    cdef const double *new
    cdef const double *plain[NUM_STATES]  # by cause: multipliers of all states that end in it
    cdef int plain_cause[NUM_STATES]
    cdef Sums sums
    sums.stride = stride
    sums.term = merged + block
    sums.total = sums.term + stride
    sums.own = sums.total + stride
    sums.causes = sums.own + NUM_CAUSES * stride
    cdef double *moved = sums.causes + NUM_CAUSES * stride
    assert scratch.shape[0] >= (NUM_STATES + 1) * block + (2 + 2 * NUM_CAUSES) * stride + y_after.shape[1]
    with nogil:
        for target in range(start, stop):
            memset(sums.causes, 0, NUM_CAUSES * stride * sizeof(double))
            for i in range(suffixes[target], suffixes[target + 1]):
                if i + AHEAD < node.shape[0]:
                    row = leaf_rows[i + AHEAD] if bottom and num_leaves[i + AHEAD] else -1
                    fetch_suffix(
                        view_above, view, node[i + AHEAD], entry[i + AHEAD], path_entry[row] if row >= 0 else -1,
                        &plain_entry[0] if plain_entry.shape[0] else NULL,
                    )
                if view_above != NULL and i + 1 < node.shape[0]:
                    fetch(&product_above[first_above[parent[i + 1]], 0, 0], view_above.in_columns * stride)
                if bottom and num_leaves[i] == 0 and not (biased and bias_rows[i] >= 0):
                    continue
                states_above, given = 0, NULL
                if view_above != NULL:
                    states_above, given = held_above[parent[i]], &product_above[first_above[parent[i]], 0, 0]
                form_multipliers(
                    view_above, view, node[i], entry[i], states_above, held[i], given, stride, multipliers
                )
                if biased and bias_rows[i] >= 0:
                    row = bias_rows[i]
                    for state in range(1, NUM_STATES):
                        if not held[i] >> state & 1:
                            continue
                        weigh_block(sums.term, view.bias, multipliers + state * block, view.width, stride, 1.0)
                        cause = cause_of[state]
                        add_row(sums.causes + cause * stride, sums.term, stride)
                        for j in range(num_classes):
                            contributions[row, j] += sums.term[j]
                        if bias_causes.shape[1] and (cause == STATISTICS or cause == REWEIGHTED):
                            for j in range(num_classes):
                                bias_causes[cause == REWEIGHTED, row, j] += sums.term[j]
                if not bottom:
                    if product.shape[0]:
                        map_multipliers(view, held[i], multipliers, stride, &product[first[i], 0, 0])
                    continue
                num_plain = 0
                for state in range(1, NUM_STATES):
                    if held[i] >> state & 1 and not (state == BEFORE_REWEIGHTED and held[i] >> AFTER_REWEIGHTED & 1):
                        plain[num_plain], plain_cause[num_plain] = multipliers + state * block, cause_of[state]
                        if state == AFTER_REWEIGHTED and held[i] >> BEFORE_REWEIGHTED & 1:
                            memcpy(merged, plain[num_plain], block * sizeof(double))
                            add_row(merged, multipliers + BEFORE_REWEIGHTED * block, block)
                            plain[num_plain] = merged
                        num_plain += 1
                row, last = leaf_rows[i], leaf_rows[i] + num_leaves[i]
                while row < last:
                    k = row
                    while k < last and plain_entry[path_entry[k]] and not depends(path_held[k]):
                        kinds[k] = <int8_t>kind_of[path_held[k]]
                        k += 1
                    if k > row:
                        weigh_plain(
                            view, &path_entry[row], k - row, &y_after[0, 0], y_after.shape[1], plain, plain_cause,
                            num_plain, &contributions[row, 0], num_classes, &sums,
                        )
                        row = k
                        continue
                    e = path_entry[row]
                    u = view.indices[e]
                    differ, new = differs[u], &y_after[u, 0]
                    old = &y_before[u, 0] if differ else new
                    apart, sums.seen = depends(path_held[row]), 0
                    memset(sums.total, 0, stride * sizeof(double))
                    weigh_leaf(
                        view, e, old, new, differ, FEATURE if u < first_edge else EDGE_FEATURE, held[i],
                        multipliers, moved, &sums, apart,
                    )
                    for j in range(num_classes):
                        contributions[row, j] = sums.total[j]
                    kinds[row] = <int8_t>(kind_of_shares(&sums) if apart else kind_of[path_held[row]])
                    row += 1
            for cause in range(NUM_CAUSES):
                for j in range(num_classes):
                    causes[target, cause, j] += sums.causes[cause * stride + j]

from libc.stdint cimport int32_t, int64_t, uint16_t

cdef struct Channel:
    int64_t rule
    int64_t input, inputs, in_column  # first column of what the layer takes, how many; and where all inputs lie side by side
    int64_t output, outputs, out_column  # the same of what it gives
    int64_t weight  # where its map [inputs, outputs] begins among the weights; -1 for the identity

cdef struct LayerView:
    int64_t num_rules, num_channels, width, width_below, in_columns, out_columns, num_nodes
    bint local
    const int64_t *indptr
    const int32_t *indices
    const double *before
    const double *after
    const double *kept
    const double *kept_before
    const double *kept_after
    const uint16_t *marks
    const Channel *channels
    const double *weights
    const double *slopes  # NULL where phi is the identity
    const int64_t *slope_rows
    const double *bias  # NULL for none

cdef class LayerArrays:
    cdef LayerView view
    cdef list arrays

cdef inline double factor_of(const LayerView *layer, int above, int below, int64_t entry, int64_t rule) noexcept nogil:
    """What a walk multiplies with over an entry, from one of the states delta, after, before (0, 1, 2) to another."""
    cdef int64_t at = entry * layer.num_rules + rule
    if above == 1:
        return layer.after[at]
    if above == 2:
        return layer.before[at]
    if below == 0:
        return layer.kept[at]
    if below == 1:
        return layer.after[at] - layer.kept_after[at]
    return layer.kept_before[at] - layer.before[at]

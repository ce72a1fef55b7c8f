"""The arrays of one layer of a change, checked once and held for as long as kernels look at them."""

from libc.stdint cimport int32_t, int64_t, uint16_t


cdef class LayerArrays:
    """A layer's coefficients, channels, slopes and bias as kernels take them; `slopes` and `bias` may be None."""

    def __cinit__(
        self,
        const int64_t[::1] indptr,
        const int32_t[::1] indices,
        const double[:, ::1] before,
        const double[:, ::1] after,
        const double[:, ::1] kept,
        const double[:, ::1] kept_before,
        const double[:, ::1] kept_after,
        const uint16_t[:, ::1] marks,
        const int64_t[:, ::1] channels,
        const double[::1] weights,
        const double[:, ::1] slopes,
        const int64_t[:, ::1] slope_rows,
        const double[::1] bias,
        int64_t width,
        int64_t width_below,
        bint local,
    ):
        cdef Py_ssize_t size = indices.shape[0], rules = after.shape[1]
        assert channels.shape[1] * sizeof(int64_t) == sizeof(Channel)
        cdef object part
        for part in [before, after, kept, kept_before, kept_after, marks]:
            assert part.shape[0] == size and part.shape[1] == rules
        assert slopes is None or (slopes.shape[1] == width and slope_rows.shape[0] == 3)
        assert bias is None or bias.shape[0] == width
        self.arrays = [
            indptr, indices, before, after, kept, kept_before, kept_after, marks, channels, weights, slopes,
            slope_rows, bias,
        ]
        view = &self.view
        view.num_rules, view.num_channels, view.width, view.width_below = rules, channels.shape[0], width, width_below
        view.local, view.num_nodes = local, indptr.shape[0] - 1
        view.indptr = &indptr[0]
        if size:
            view.indices = &indices[0]
        if size and rules:
            view.before, view.after, view.kept = &before[0, 0], &after[0, 0], &kept[0, 0]
            view.kept_before, view.kept_after, view.marks = &kept_before[0, 0], &kept_after[0, 0], &marks[0, 0]
        if channels.shape[0]:
            view.channels = <const Channel *>&channels[0, 0]
            last = &view.channels[channels.shape[0] - 1]
            view.in_columns, view.out_columns = last.in_column + last.inputs, last.out_column + last.outputs
        if weights.shape[0]:
            view.weights = &weights[0]
        if slopes is not None and slopes.shape[0] and width:
            view.slopes, view.slope_rows = &slopes[0, 0], &slope_rows[0, 0]
        if bias is not None and width:
            view.bias = &bias[0]

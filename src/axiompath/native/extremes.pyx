"""Least and largest of what hangs below the rows of a hop, by intervals; see `paths.extremes`."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from .layers cimport Channel, LayerArrays, LayerView, factor_of


def reach_over(
    const int64_t[::1] rows,
    int state,
    LayerArrays layer,
    const int64_t[::1] indptr,
    const int64_t[::1] entries,
    const uint8_t[::1] differs,
    const double[:, ::1] below_low,
    const double[:, ::1] below_high,
    const int32_t[:, ::1] place,
    double[::1] least,
    double[::1] most,
    double[:, ::1] low,
    double[:, ::1] high,
):
    """Least and largest over the entries of each row, in one of the states delta, after, before; 0 without any.

    `entries` are those to look at, from indptr[v] on those of row v; empty for all of the layer. `least` and `most`
    [width] are scratch.
    """
    cdef const LayerView *view = &layer.view
    cdef const Channel *channel
    cdef int64_t i, n, e, u, k, d, at, width = low.shape[1]
    cdef int to, meeting
    cdef bint goes, first, several, listed = entries.shape[0] > 0
    cdef double factor, one, other
    with nogil:
        for i in range(rows.shape[0]):
            first = True
            for n in range(indptr[rows[i]], indptr[rows[i] + 1]):
                e = entries[n] if listed else n
                u, meeting = view.indices[e], 0
                if state == 0:
                    for to in range(3):
                        goes = False
                        for k in range(view.num_rules):
                            goes = goes or ((to or differs[u]) and factor_of(view, 0, to, e, k) != 0.0)
                        meeting += goes
                several = meeting > 1
                for d in range(width):
                    least[d] = most[d] = 0.0
                for to in range(3):
                    if (state and to != state) or (state == 0 and to == 0 and not differs[u]):
                        continue
                    at = place[to, u]
                    for k in range(view.num_channels):
                        channel = view.channels + k
                        factor = factor_of(view, state, to, e, channel.rule)
                        if factor == 0.0:
                            continue
                        for d in range(channel.outputs):
                            one = below_low[at, channel.out_column + d]
                            other = below_high[at, channel.out_column + d]
                            if several:
                                one, other = min(one, 0.0), max(other, 0.0)
                            one, other = factor * one, factor * other
                            least[channel.output + d] += min(one, other)
                            most[channel.output + d] += max(one, other)
                for d in range(width):
                    low[i, d] = least[d] if first else min(low[i, d], least[d])
                    high[i, d] = most[d] if first else max(high[i, d], most[d])
                first = False

"""The paths of `after` with the largest scores, without listing them all; see `baselines`."""

from libc.math cimport fabs
from libc.stdint cimport int64_t, uint16_t

from .layers cimport Channel, LayerArrays, LayerView


def offer_leaves(
    LayerArrays layer,
    const uint16_t[::1] marks,
    const uint16_t[:, ::1] following,
    const double[:, ::1] y,
    const double[:, ::1] bounds,
    const int64_t[::1] node,
    const uint16_t[::1] sets,
    const double[:, ::1] q,
    double threshold,
    double[::1] scores,
    int64_t[::1] suffix,
    int64_t[::1] leaf,
):
    """Put the leaves with the largest scores q @ (a y) above the threshold among the offers.

    `bounds` [nodes, width] are the largest |a y| over the entries of each node.
    """
    cdef const LayerView *view = &layer.view
    cdef const Channel *channel
    cdef int64_t i, v, e, u, k, d, j, worst = 0
    cdef double reach, score, part
    if scores.shape[0] == 0:
        return
    with nogil:
        for i in range(node.shape[0]):
            v, reach = node[i], 0.0
            for d in range(view.width):
                reach += fabs(q[i, d]) * bounds[v, d]
            if reach <= max(threshold, scores[worst]):
                continue
            for e in range(view.indptr[v], view.indptr[v + 1]):
                if not following[sets[i], marks[e]]:
                    continue
                u, score = view.indices[e], 0.0
                for k in range(view.num_channels):
                    channel, part = view.channels + k, 0.0
                    for d in range(channel.outputs):
                        part += q[i, channel.output + d] * y[u, channel.out_column + d]
                    score += view.after[e * view.num_rules + channel.rule] * part
                if score > threshold and score > scores[worst]:
                    scores[worst], suffix[worst], leaf[worst] = score, i, u
                    for j in range(scores.shape[0]):
                        if scores[j] < scores[worst]:
                            worst = j


def best_continuations(
    const int64_t[::1] counts,
    const double[::1] entry_scores,
    const int64_t[::1] place,
    const double[:, ::1] below,
    double[:, ::1] scores,
    int64_t[:, ::1] child,
    int64_t[:, ::1] rank,
):
    """The largest entry score + score below of every node and set of states, largest first.

    Earlier entries come first among equals. Entries lie one node after the other, counts[i] of each; place[e] is the
    row of `below` that one leads to, -1 for nowhere.
    """
    cdef int64_t i, e, c, r, j, start, stop = 0, size = scores.shape[1]
    cdef double score
    if size == 0:
        return
    with nogil:
        for i in range(scores.shape[0]):
            start, stop = stop, stop + counts[i]
            for e in range(start, stop):
                c = place[e]
                if c < 0:
                    continue
                for r in range(below.shape[1]):
                    score = entry_scores[e] + below[c, r]
                    if not score > scores[i, size - 1]:
                        break  # the continuations of one node come in descending order
                    j = size - 1
                    while j > 0 and scores[i, j - 1] < score:
                        scores[i, j], child[i, j], rank[i, j] = scores[i, j - 1], child[i, j - 1], rank[i, j - 1]
                        j -= 1
                    scores[i, j], child[i, j], rank[i, j] = score, c, r

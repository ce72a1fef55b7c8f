"""The compiled loops of the rivals: paths of `after` ranked without listing them all."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..compiled import compiled


class Messages(NamedTuple):
    """What the lowest hop of `after` takes from leaves."""

    after: FloatArray  # [num_entries, num_rules]: coefficients
    channels: IntArray  # [num_channels, 4]: first column of y, first column of z, width, rule
    y: FloatArray  # [num_nodes, columns]
    bounds: FloatArray  # [num_nodes, width]: element-wise max over u of |sum over channels of a[v, u] y_u|


class Stems(NamedTuple):
    """Partial paths above the leaves."""

    node: IntArray  # [num_suffixes]
    sets: NDArray[np.uint16]  # [num_suffixes]
    q: FloatArray  # [num_suffixes, width]: multiplier times rate


class Offers(NamedTuple):
    """The best leaves so far, in no order."""

    scores: FloatArray  # [n]
    suffix: IntArray  # [n]
    leaf: IntArray  # [n]


class Ranked(NamedTuple):
    """Nodes with their sets of states, and the best continuations of each, largest first."""

    node: IntArray  # [num_nodes]
    sets: IntArray  # [num_nodes]
    scores: FloatArray  # [num_nodes, n], -inf where there are fewer
    child: IntArray  # [num_nodes, n]: place of the next node below
    rank: IntArray  # [num_nodes, n]: which of that one's continuations


@compiled
def bound_leaves(indptr, indices, messages):
    after, channels, y, bounds = messages.after, messages.channels, messages.y, messages.bounds
    g = np.empty(bounds.shape[1])
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            g[:] = 0.0
            for k in range(len(channels)):
                for d in range(channels[k, 2]):
                    g[channels[k, 1] + d] += after[e, channels[k, 3]] * y[indices[e], channels[k, 0] + d]
            for d in range(len(g)):
                bounds[v, d] = max(bounds[v, d], abs(g[d]))


@compiled
def offer_leaves(ways, messages, stems, threshold, offers):
    """Put the leaves with the largest scores q @ (a y) above the threshold among the offers."""
    after, channels, y, bounds = messages.after, messages.channels, messages.y, messages.bounds
    q, scores = stems.q, offers.scores
    if len(scores) == 0:
        return
    worst = 0
    for i in range(len(stems.node)):
        v = stems.node[i]
        reach = 0.0
        for d in range(q.shape[1]):
            reach += abs(q[i, d]) * bounds[v, d]
        if reach <= max(threshold, scores[worst]):
            continue
        for e in range(ways.indptr[v], ways.indptr[v + 1]):
            if not ways.following[stems.sets[i], ways.marks[e]]:
                continue
            u = ways.indices[e]
            score = 0.0
            for k in range(len(channels)):
                part = 0.0
                for d in range(channels[k, 2]):
                    part += q[i, channels[k, 1] + d] * y[u, channels[k, 0] + d]
                score += after[e, channels[k, 3]] * part
            if score > threshold and score > scores[worst]:
                scores[worst], offers.suffix[worst], offers.leaf[worst] = score, i, u
                for j in range(len(scores)):
                    if scores[j] < scores[worst]:
                        worst = j


@compiled
def edge_gradients(receivers, senders, after, gradient, message, total):
    """Add gradient[v] @ (a[v, u] message[u]) to the total of each entry."""
    for i in range(len(after)):
        if after[i] != 0.0:
            part = 0.0
            for d in range(gradient.shape[1]):
                part += gradient[receivers[i], d] * message[senders[i], d]
            total[i] += after[i] * part


@compiled
def best_continuations(counts, entry_scores, place, below, here):
    """The largest entry score + score below of every node and set of states, largest first; earlier entries first
    among equals. Entries lie one node after the other, counts[i] of each; `place` is where in `below` one leads to, -1
    for nowhere."""
    found, child, rank = here.scores, here.child, here.rank
    size = found.shape[1]
    if size == 0:
        return
    stop = 0
    for i in range(len(here.node)):
        start, stop = stop, stop + counts[i]
        for e in range(start, stop):
            c = place[e]
            if c < 0:
                continue
            for r in range(below.scores.shape[1]):
                score = entry_scores[e] + below.scores[c, r]
                if not score > found[i, size - 1]:
                    break  # the continuations of one node come in descending order
                j = size - 1
                while j > 0 and found[i, j - 1] < score:
                    found[i, j], child[i, j], rank[i, j] = found[i, j - 1], child[i, j - 1], rank[i, j - 1]
                    j -= 1
                found[i, j], child[i, j], rank[i, j] = score, c, r

"""The compiled loops of the rivals: paths of `after` ranked without listing them all."""

import numpy as np

from ..compiled import compiled


@compiled
def bound_leaves(indptr, indices, after, channels, y, bounds):
    """bounds[v] = element-wise max over u of |sum over channels of a[v, u] y_u|."""
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
def offer_leaves(
    indptr, indices, marks, following, after, channels, y, node, sets, q, bounds, threshold, scores, suffix, leaf
):  # fmt: skip
    """Put the leaves with the largest scores q @ (a y) above the threshold into scores, suffix and leaf."""
    if len(scores) == 0:
        return
    worst = 0
    for i in range(len(node)):
        v = node[i]
        reach = 0.0
        for d in range(q.shape[1]):
            reach += abs(q[i, d]) * bounds[v, d]
        if reach <= max(threshold, scores[worst]):
            continue
        for e in range(indptr[v], indptr[v + 1]):
            if not following[sets[i], marks[e]]:
                continue
            u = indices[e]
            score = 0.0
            for k in range(len(channels)):
                part = 0.0
                for d in range(channels[k, 2]):
                    part += q[i, channels[k, 1] + d] * y[u, channels[k, 0] + d]
                score += after[e, channels[k, 3]] * part
            if score > threshold and score > scores[worst]:
                scores[worst], suffix[worst], leaf[worst] = score, i, u
                for j in range(len(scores)):
                    if scores[j] < scores[worst]:
                        worst = j


@compiled
def edge_gradients(indptr, indices, after, nodes, gradient, message, total):
    """Add gradient[v] @ (a[v, u] message[u]) to the entries of the rows `nodes`, one row after the other."""
    i = 0
    for n in range(len(nodes)):
        for e in range(indptr[nodes[n]], indptr[nodes[n] + 1]):
            if after[e] != 0.0:
                part = 0.0
                for d in range(gradient.shape[1]):
                    part += gradient[n, d] * message[indices[e], d]
                total[i] += after[e] * part
            i += 1


@compiled
def best_continuations(
    indptr, indices, marks, following, entry_scores, here, sets, where, below, found, child, rank
):  # fmt: skip
    """The largest entry score + score below of every node and set of states, largest first; earlier entries first
    among equals. where[u, s] is the place of node u with set s in `below`."""
    size = found.shape[1]
    if size == 0:
        return
    for i in range(len(here)):
        for e in range(indptr[here[i]], indptr[here[i] + 1]):
            s = following[sets[i], marks[e]]
            if not s:
                continue
            c = where[indices[e], s]
            for r in range(below.shape[1]):
                score = entry_scores[e] + below[c, r]
                if not score > found[i, size - 1]:
                    break  # the continuations of one node come in descending order
                j = size - 1
                while j > 0 and found[i, j - 1] < score:
                    found[i, j], child[i, j], rank[i, j] = found[i, j - 1], child[i, j - 1], rank[i, j - 1]
                    j -= 1
                found[i, j], child[i, j], rank[i, j] = score, c, r

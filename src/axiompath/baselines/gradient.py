"""Change + target -> the n paths of `after` whose edges have the largest absolute gradients in sum, for one class.

    score of edge (V, U) = | d logit / d mask |      mask multiplies the edge's coefficient in every layer, at mask = 1
    score of a path      = sum of the scores of its edges

Coefficients themselves (degrees, attention) are held fixed. The score is a sum over edges, so the n best paths follow
from the n best continuations of every node, level by level, without listing paths. Paths that start at a bias have no
first edge and are not ranked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import IN_AFTER
from ..graphs.rows import entries_of
from ..native.ranks import best_continuations
from ..network.layers import project


class Ranked(NamedTuple):
    """Nodes with their sets of states, and the best continuations of each, largest first."""

    node: IntArray  # [num_nodes]
    sets: IntArray  # [num_nodes]
    scores: FloatArray  # [num_nodes, n], -inf where there are fewer
    child: IntArray  # [num_nodes, n]: place of the next node below
    rank: IntArray  # [num_nodes, n]: which of that one's continuations


def best_by_gradient(change: Change, target: int, num_paths: int, label: int) -> tuple[IntArray, FloatArray]:
    """Paths [n, num_positions] of `after` with the largest sums of absolute edge gradients, and these sums."""
    return best_by_edges(change, target, num_paths, *edge_scores(change, target, label))


def best_by_edges(
    change: Change, target: int, num_paths: int, keys: IntArray, scores: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Paths [n, num_positions] of `after` with the largest sums of the scores of their edges, and these sums.

    `keys` are V * num_nodes + U of the edges, ascending; an edge that is not among them scores 0.
    """
    layers = range(change.lowest_hop, len(change.layers))
    steps = change.after_steps
    # Nodes with their sets of states at the output of each layer, and at the leaves; ascending.
    reached = {len(change.layers) - 1: (np.array([target]), np.ones(1, dtype=np.int64))}
    for t in reversed(layers):
        reached[t - 1] = _descend(change, t, *reached[t])
    ranked = {change.lowest_hop - 1: _ranked(*reached[change.lowest_hop - 1], 1)}
    ranked[change.lowest_hop - 1].scores[:] = 0.0
    for t in layers:
        layer, below, here = change.layers[t], ranked[t - 1], _ranked(*reached[t], num_paths)
        entry, wanted = _edges_into(change, t, here.node)
        entry_scores = np.zeros(len(entry))
        if len(keys) and not layer.local and not change.network.layers[t].rises:
            found_at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            entry_scores = np.where(keys[found_at] == wanted, scores[found_at], 0.0)
        counts = layer.indptr[here.node + 1] - layer.indptr[here.node]
        following = steps.following[t][np.repeat(here.sets, counts), change.descents[t].marks[entry]]
        num_sets = len(steps.sets[t - 1].held)
        known, key = below.node * num_sets + below.sets, layer.indices[entry].astype(np.int64) * num_sets + following
        place = np.where(following > 0, np.searchsorted(known, key), -1)
        best_continuations(counts, entry_scores, place, below.scores, here.scores, here.child, here.rank)
        ranked[t] = here
    best = here.scores[0]
    held = np.flatnonzero(np.isfinite(best))
    paths = np.empty((len(held), change.network.num_positions), dtype=np.int64)
    paths[:, -1] = target
    row, place, position = np.zeros(len(held), dtype=np.int64), held, change.network.num_positions - 1
    for t in reversed(layers):
        row, place = ranked[t].child[row, place], ranked[t].rank[row, place]
        if not change.layers[t].local:
            position -= 1
            paths[:, position] = ranked[t - 1].node[row]
    return paths, best[held]


def _ranked(nodes: IntArray, sets: IntArray, size: int) -> Ranked:
    shape = len(nodes), size
    return Ranked(nodes, sets, np.full(shape, -np.inf), np.zeros(shape, np.int64), np.zeros(shape, np.int64))


def _edges_into(change: Change, t: int, nodes: IntArray) -> tuple[IntArray, IntArray]:
    """Entries of these rows, one row after the other, and V * num_nodes + U of each, to find edges by."""
    layer = change.layers[t]
    entry = entries_of(layer.indptr, nodes)
    receivers = np.repeat(nodes, layer.indptr[nodes + 1] - layer.indptr[nodes])
    return entry, receivers * change.num_nodes + layer.indices[entry]


def _descend(change: Change, t: int, nodes: IntArray, sets: IntArray) -> tuple[IntArray, IntArray]:
    """The nodes below, with their sets of states, each pair once, ascending."""
    layer, following = change.layers[t], change.after_steps.following[t]
    entry = entries_of(layer.indptr, nodes)
    above = np.repeat(sets, layer.indptr[nodes + 1] - layer.indptr[nodes])
    below = following[above, change.descents[t].marks[entry]].astype(np.int64)
    num_sets = len(change.after_steps.sets[t - 1].held)
    found = np.unique((layer.indices[entry].astype(np.int64) * num_sets + below)[below > 0])
    return found // num_sets, found % num_sets


def edge_scores(change: Change, target: int, label: int) -> tuple[IntArray, FloatArray]:
    """Absolute gradient of every edge of the target's computation graph: (V * num_nodes + U ascending, scores)."""
    network, forward = change.network, change.after_pass
    active = np.array([target])
    gradient = np.zeros((1, network.num_classes))
    gradient[0, label] = 1.0
    keys, values = [], []
    for t in range(len(network.layers) - 1, change.lowest_hop - 1, -1):
        layer, entries = network.layers[t], change.layers[t]
        gradient = gradient * layer.derivatives(forward.z[t][active])
        if not entries.local and not layer.rises:
            entry, edges = _edges_into(change, t, active)
            receivers = np.repeat(np.arange(len(active)), entries.indptr[active + 1] - entries.indptr[active])
            # Messages of those that send to them, and of no other.
            used, senders = np.unique(entries.indices[entry].astype(np.int64), return_inverse=True)
            total = np.zeros(len(entry))
            column = 0
            for channel, rule in zip(layer.channels, layer.rule_numbers, strict=True):
                coefficient = entries.after[entry, rule]
                part = gradient[:, channel.outputs]
                if t == change.lowest_hop:  # held already: the features are wide
                    message = change.messages[1][used, column : column + part.shape[1]]
                    column += part.shape[1]
                else:
                    message = project(forward.received(t, used), channel)
                total += coefficient * np.einsum("eo,eo->e", part[receivers], message[senders])
            keys.append(edges)
            values.append(total)
        if t > change.lowest_hop:
            entry = entries_of(entries.indptr, active)
            there = (entries.marks[entry] & IN_AFTER).any(axis=1)
            receivers = np.repeat(np.arange(len(active)), entries.indptr[active + 1] - entries.indptr[active])[there]
            below, senders = np.unique(entries.indices[entry[there]].astype(np.int64), return_inverse=True)
            next_gradient = np.zeros((len(below), network.layers[t - 1].width))
            for channel, rule in zip(layer.channels, layer.rule_numbers, strict=True):
                coefficients = entries.after[entry[there], rule]
                flow = sparse.csr_array((coefficients, (senders, receivers)), shape=(len(below), len(active)))
                part = gradient[:, channel.outputs]
                part = part if channel.weight is None else part @ channel.weight.T
                next_gradient[:, channel.inputs] += flow @ part
            active, gradient = below, next_gradient
    every_key, where = np.unique(np.concatenate(keys), return_inverse=True)
    return every_key, np.abs(np.bincount(where, weights=np.concatenate(values), minlength=len(every_key)))

"""Change + target -> the n paths of `after` with the largest GNN-LRP relevance (gamma = 0) for one class.

The relevance of a path is its share of the logit itself: the product of `after`'s rates and coefficients along it. The
tree is walked depth first in blocks of bounded size. Below a partial path with multiplier q at node V no leaf can reach

    sum over d of |q_d| * max over U of |a[V, U] y_U|_d,

so partial paths whose bound does not beat the n-th best relevance so far are not opened. Paths are those along which
channels carry columns from the leaf to the logits, by coefficients of `after` that are not 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..change.transfer import arrays_of
from ..graphs.rows import entries_of
from ..native.ranks import offer_leaves

BLOCK_BYTES = 64e6  # of multipliers in one block


@dataclass(frozen=True, eq=False)
class OpenPaths:
    """Partial paths at the output of one layer."""

    layer: int
    node: IntArray  # [num_suffixes]
    multiplier: FloatArray  # [num_suffixes, width]
    trail: IntArray  # [num_suffixes, num_positions], -1 below
    position: int  # of `node` in the trail
    bias: FloatArray  # [num_suffixes]: relevance of the biases met at `node` so far, which belong to one path
    sets: NDArray[np.uint16]  # [num_suffixes]: number of its set of states, see `Change.after_steps`


class Best:
    """The n largest scores offered so far, earlier offers first among equals."""

    def __init__(self, size: int, num_positions: int) -> None:
        self.scores = np.full(size, -np.inf)
        self.paths = np.full((size, num_positions), -1, dtype=np.int64)

    def offer(self, scores: FloatArray, paths: IntArray) -> None:
        """Keep the best of what is held and what is offered."""
        scores = np.concatenate([self.scores, scores])
        paths = np.concatenate([self.paths, paths])
        order = np.argsort(-scores, kind="stable")[: len(self.scores)]
        self.scores, self.paths = scores[order], paths[order]

    @property
    def threshold(self) -> float:
        """What a new score must exceed."""
        return float(self.scores[-1]) if len(self.scores) else np.inf

    def found(self) -> tuple[IntArray, FloatArray]:
        """Paths and scores, best first; fewer than n where there are fewer paths."""
        held = np.isfinite(self.scores)
        return self.paths[held], self.scores[held]


def best_by_relevance(change: Change, target: int, num_paths: int, label: int) -> tuple[IntArray, FloatArray]:
    """Paths [n, num_positions] of `after` with the largest relevance for the logit `label`, and their relevances."""
    network = change.network
    best = Best(num_paths, network.num_positions)
    root = np.zeros((1, network.num_classes))
    root[0, label] = 1.0
    trail = np.full((1, network.num_positions), -1, dtype=np.int64)
    trail[0, -1] = target
    first = np.ones(1, dtype=np.uint16)
    top, end = len(change.layers) - 1, network.num_positions - 1
    blocks = [OpenPaths(top, np.array([target]), root, trail, end, np.zeros(1), first)]
    while blocks:
        block = blocks.pop()
        layer = network.layers[block.layer]
        rates = change.rates[block.layer]
        q = block.multiplier if rates is None else block.multiplier * rates.slopes[rates.place[1, block.node]]
        if layer.bias is not None:
            block.bias[:] += q @ layer.bias
        if block.layer == change.lowest_hop:
            _offer_biases(change, best, block, np.ones(len(block.node), dtype=np.bool_))
            _offer_leaves(change, best, block, q)
        else:
            blocks += _open(change, best, block, q)
    return best.found()


def _offer_biases(change: Change, best: Best, block: OpenPaths, ends: BoolArray) -> None:
    """The paths that start at the biases of a node, where no layer below adds another."""
    sets = change.after_steps.sets[block.layer]
    chosen = ends & (sets.starts | (sets.parts[:, -1] > 0))[block.sets]
    best.offer(block.bias[chosen], block.trail[chosen])


def _open(change: Change, best: Best, block: OpenPaths, q: FloatArray) -> list[OpenPaths]:
    """The partial paths one layer below, cut into blocks of bounded size, first to be opened last in the list."""
    t = block.layer
    layer, entries = change.network.layers[t], change.layers[t]
    entry = entries_of(entries.indptr, block.node)
    parent = np.repeat(np.arange(len(block.node)), entries.indptr[block.node + 1] - entries.indptr[block.node])
    sets = change.after_steps.following[t][block.sets[parent], change.descents[t].marks[entry]]
    there = sets > 0
    parent, entry, sets = parent[there], entry[there], sets[there]
    # A path of biases goes on at its node through local layers, as long as there is a way.
    ends = np.ones(len(block.node), dtype=np.bool_)
    if entries.local:
        ends[parent] = False
    _offer_biases(change, best, block, ends)
    products = [
        (channel, rule, q[:, channel.outputs] if channel.weight is None else q[:, channel.outputs] @ channel.weight.T)
        for channel, rule in zip(layer.channels, layer.rule_numbers, strict=True)
    ]
    position = block.position - (not entries.local)
    width = change.network.layers[t - 1].width
    size = max(1, int(BLOCK_BYTES / (8 * width)))
    pieces = []
    for start in range(0, len(parent), size):
        p, e = parent[start : start + size], entry[start : start + size]
        multiplier = np.zeros((len(p), width))
        for channel, rule, product in products:
            multiplier[:, channel.inputs] += entries.after[e, rule][:, None] * product[p]
        trail = block.trail[p]
        node = entries.indices[e].astype(np.int64)
        trail[:, position] = node
        bias = block.bias[p] if entries.local else np.zeros(len(p))
        pieces.append(OpenPaths(t - 1, node, multiplier, trail, position, bias, sets[start : start + size]))
    return pieces[::-1]


@lru_cache(maxsize=1)  # the same for all targets of a change
def _bounds(change: Change) -> FloatArray:
    """The largest |a y| over the entries of each node, [num_nodes, width of the lowest hop]."""
    layer, entries, y = change.network.layers[change.lowest_hop], change.layers[change.lowest_hop], change.messages[1]
    bounds = np.zeros((len(entries.indptr) - 1, layer.width))
    rows = max(1, int(BLOCK_BYTES / (8 * layer.width)) * len(bounds) // max(len(entries.indices), 1))
    for start in range(0, len(bounds), rows):
        indptr = entries.indptr[start : start + rows + 1]
        here = slice(int(indptr[0]), int(indptr[-1]))
        sent = np.zeros((here.stop - here.start, layer.width))
        for column, low, size, rule in layer.lay_out(inputs=False).tolist():
            part = y[entries.indices[here], column : column + size]
            sent[:, low : low + size] += entries.after[here, rule, None] * part
        some = np.diff(indptr) > 0
        if some.any():
            found = np.maximum.reduceat(np.abs(sent), indptr[:-1][some] - indptr[0])
            bounds[start : start + rows][some] = found
    return bounds


def _offer_leaves(change: Change, best: Best, block: OpenPaths, q: FloatArray) -> None:
    t, size = change.lowest_hop, len(best.scores)
    scores, suffix, leaf = np.full(size, -np.inf), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    ways = change.descents[t].marks, change.after_steps.following[t], change.messages[1], _bounds(change)
    stems = np.ascontiguousarray(block.node), block.sets, np.ascontiguousarray(q)
    offer_leaves(arrays_of(change, t), *ways, *stems, best.threshold, scores, suffix, leaf)
    held = np.isfinite(scores)
    paths = block.trail[suffix[held]]
    paths[:, 0] = leaf[held]
    best.offer(scores[held], paths)

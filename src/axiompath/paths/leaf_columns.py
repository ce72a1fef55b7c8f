"""Change + target -> which columns of which nodes' features moved its logits; and the same of given paths.

A walk that never leaves delta ends at a leaf whose features changed, and what it contributes is linear in that change.
Let G[U] [num_classes, num_features] be the sum of the multipliers of all such walks that end at node U. Going down from
the root, where G is the identity, with the rates and kept coefficients of `attribution`,

    G[U] = sum over V and channels of  kept[V, U] * (G[V] * rate of V) @ W'

one sparse product a layer and channel, whatever the number of paths. Column j of node U then has the share

    dx[U, j] * G[U][:, j]

of every logit, and all of them together are the cause *feature*. Layers below the lowest hop are walked, too: there
is nothing but their own coefficients (as of a LayerNorm) that could be no column's, and it is said for the node as
NO_COLUMN.

A path may be in other states besides: below a gained entry it carries `after`'s features, below a lost one `before`'s.
Its multipliers in all three states are carried down along its nodes; what a bias contributes is NO_COLUMN's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..graphs.data_fields import Features
from ..graphs.rows import find_in_rows
from ..network.layers import Channel
from .attribution import attribute_paths
from .chosen import walk_chosen

NO_COLUMN = -1  # what is no column's: a bias, or coefficients that a layer takes from its own inputs
NUM_HELD = 1 << 22  # numbers of multipliers that are made at a time
LEAST_REST = 1e-12  # of the largest share of a node or path: what is less is no remainder


class ColumnShares(NamedTuple):
    """Shares of columns of features, one row a column of a node, or of a path's leaf."""

    owner: IntArray  # [num_rows]: row of the node, or the path's place
    column: IntArray  # [num_rows]: NO_COLUMN for what is none's
    before: FloatArray  # [num_rows]: its value; nan for NO_COLUMN
    after: FloatArray  # [num_rows]
    shares: FloatArray  # [num_rows, num_classes]


def share_columns(change: Change, root: int) -> ColumnShares:
    """Every column of every node whose features changed, as far as it moved the root; they sum to the cause feature."""
    nodes, multipliers = np.array([root]), np.eye(change.network.num_classes)[None]
    if not change.differs[-1][root]:
        nodes, multipliers = nodes[:0], multipliers[:0]
    lowest = change.lowest_hop
    for t in range(len(change.layers) - 1, lowest, -1):
        nodes, gathered = _gather(change, t, nodes, _times_rates(change, t, nodes, multipliers, state=0))
        multipliers = _expand(change, t, gathered)
    nodes, gathered = _gather(change, lowest, nodes, _times_rates(change, lowest, nodes, multipliers, state=0))
    # Features may have thousands of columns: they are multiplied with a few nodes at a time.
    step = max(1, NUM_HELD // max(change.network.num_classes * change.network.num_features, 1))
    parts = []
    for start in range(0, max(len(nodes), 1), step):
        some = slice(start, start + step)
        parts.append(_split_leaves(change, nodes[some], _expand(change, lowest, [part[some] for part in gathered])))
    return join_columns(parts)


def join_columns(parts: Sequence[ColumnShares]) -> ColumnShares:
    """One after the other."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return ColumnShares(*columns)


def share_columns_of_paths(change: Change, root: int, paths: IntArray) -> ColumnShares:
    """The columns of each path's leaf, over all its states; of one path they sum to its contribution.

    `paths` [num_paths, num_positions] are rows of nodes, leaf first, each once.
    """
    network, size = change.network, len(paths)
    above, position = paths[:, -1], paths.shape[1] - 1
    going = paths[:, 0] >= 0
    held = [np.zeros((size, network.num_classes, network.num_classes)) for _ in range(3)]  # delta, after, before
    held[0][:] = np.eye(network.num_classes)
    for t in range(len(change.layers) - 1, -1, -1):
        layer, entries = network.layers[t], change.layers[t]
        position -= not entries.local
        below = above if entries.local else np.where(going, paths[:, position], above)
        entry = find_in_rows(entries.indptr, entries.indices, above, below)
        here = (entry >= 0) & going
        q = [_times_rates(change, t, above, part, state) for state, part in enumerate(held)]
        held = [np.zeros((size, network.num_classes, _width_below(change, t))) for _ in range(3)]
        for channel, rule in zip(layer.channels, layer.rule_numbers, strict=True):
            kept, after, before, stays, stayed = (
                np.where(here, part[entry, rule], 0.0)[:, None, None]
                for part in (entries.kept, entries.after, entries.before, entries.kept_after, entries.kept_before)
            )
            p = [_through(channel, part[:, :, channel.outputs]) for part in q]
            held[0][:, :, channel.inputs] += kept * p[0]
            held[1][:, :, channel.inputs] += (after - stays) * p[0] + after * p[1]
            held[2][:, :, channel.inputs] += (stayed - before) * p[0] + before * p[2]
        above = below
    low, high = (_dense(run.received(0, above)) for run in (change.before_pass, change.after_pass))
    shares = (high - low)[:, None] * held[0] + high[:, None] * held[1] + low[:, None] * held[2]
    owner, column = np.nonzero(going[:, None] & (shares != 0).any(axis=1))
    found, rows = walk_chosen(change, np.array([root]), paths)
    whole = np.zeros((size, network.num_classes))
    whole[rows >= 0] = attribute_paths(change, found).contributions[rows[rows >= 0]]
    rest = whole - np.where(going[:, None], shares.sum(axis=2), 0.0)
    left = ~going if change.lowest_hop == 0 else _is_left(rest, whole)
    columns = ColumnShares(owner, column, low[owner, column], high[owner, column], shares[owner, :, column])
    return _with_rest(columns, np.arange(size), rest, left)


def _gather(change: Change, t: int, nodes: IntArray, q: FloatArray) -> tuple[IntArray, list[FloatArray]]:
    """Nodes below that differ, and for each channel the sum of kept * q over what they send to, before its map.

    [num_below, num_classes, outputs] a channel.
    """
    layer, entries = change.network.layers[t], change.layers[t]
    first = entries.indptr[nodes].astype(np.int64)
    counts = entries.indptr[nodes + 1] - first
    owner = np.repeat(np.arange(len(nodes)), counts)
    entry = np.arange(len(owner)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    live = change.differs[t][entries.indices[entry]] & (entries.kept[entry] != 0).any(axis=1)
    owner, entry = owner[live], entry[live]
    below, place = np.unique(entries.indices[entry].astype(np.int64), return_inverse=True)
    found = []
    for channel, rule in zip(layer.channels, layer.rule_numbers, strict=True):
        kept = entries.kept[entry, rule]
        taken = sparse.csr_array((kept, (place, owner)), shape=(len(below), len(nodes)))
        columns = q[:, :, channel.outputs]
        size = columns.shape[1:]
        found.append((taken @ columns.reshape(len(nodes), size[0] * size[1])).reshape(len(below), *size))
    return below, found


def _expand(change: Change, t: int, gathered: list[FloatArray]) -> FloatArray:
    """What the channels gathered -> multipliers of what layer t receives. [num_nodes, num_classes, width below]."""
    found = np.zeros((*gathered[0].shape[:2], _width_below(change, t)))
    for channel, part in zip(change.network.layers[t].channels, gathered, strict=True):
        found[:, :, channel.inputs] += _through(channel, part)
    return found


def _split_leaves(change: Change, nodes: IntArray, multipliers: FloatArray) -> ColumnShares:
    """Multipliers of what the lowest hop receives of these nodes -> shares of their columns."""
    lowest, whole = change.lowest_hop, None
    if lowest > 0:
        low, high = (np.asarray(run.received(lowest, nodes)) for run in (change.before_pass, change.after_pass))
        whole = np.einsum("nck,nk->nc", multipliers, high - low)
    for t in range(lowest - 1, -1, -1):
        layer, entries = change.network.layers[t], change.layers[t]
        entry = find_in_rows(entries.indptr, entries.indices, nodes, nodes)
        kept = np.where((entry >= 0)[:, None], entries.kept[entry], 0.0)
        q = _times_rates(change, t, nodes, multipliers, state=0)
        gathered = [
            kept[:, rule, None, None] * q[:, :, channel.outputs]
            for rule, channel in zip(layer.rule_numbers, layer.channels, strict=True)
        ]
        multipliers = _expand(change, t, gathered)
    before, after = (_dense(run.received(0, nodes)) for run in (change.before_pass, change.after_pass))
    place, column = np.nonzero(after != before)
    low, high = before[place, column], after[place, column]
    shares = (high - low)[:, None] * multipliers[place, :, column]
    found = ColumnShares(nodes[place], column, low, high, shares)
    if whole is None:
        return found
    rest = whole.copy()
    np.subtract.at(rest, place, shares)
    return _with_rest(found, nodes, rest, _is_left(rest, whole))


def _times_rates(change: Change, t: int, nodes: IntArray, multipliers: FloatArray, state: int) -> FloatArray:
    """Multipliers at the output of layer t -> at its z; states are delta, after and before."""
    rates = change.rates[t]
    return multipliers if rates is None else multipliers * rates.slopes[rates.place[state, nodes]][:, None]


def _through(channel: Channel, part: FloatArray) -> FloatArray:
    """[..., outputs] -> [..., inputs] of a channel."""
    return part if channel.weight is None else np.asarray(part @ channel.weight.T)


def _width_below(change: Change, t: int) -> int:
    return change.network.num_features if t == 0 else change.network.layers[t - 1].width


def _dense(x: Features) -> FloatArray:
    return np.asarray(x if isinstance(x, np.ndarray) else x.toarray())


def _is_left(rest: FloatArray, whole: FloatArray) -> BoolArray:
    """Where more remains than rounding."""
    scale = np.abs(whole).max(initial=0.0) + np.finfo(np.float64).tiny
    return np.asarray(np.abs(rest).max(axis=1, initial=0.0) > LEAST_REST * scale)


def _with_rest(found: ColumnShares, owners: IntArray, rest: FloatArray, left: BoolArray) -> ColumnShares:
    """The same and, where something is left, a row of NO_COLUMN for it."""
    size = int(left.sum())
    nothing = np.full(size, np.nan)
    return join_columns([found, ColumnShares(owners[left], np.full(size, NO_COLUMN), nothing, nothing, rest[left])])

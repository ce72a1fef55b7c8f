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

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..change.transfer import IN_AFTER, IN_BEFORE, IN_DELTA, Held, over_entries, over_rows, over_steps
from ..graphs.data_fields import Features
from .attribution import attribute_paths
from .chosen import walk_chosen

NO_COLUMN = -1  # what is no column's: a bias, or coefficients that a layer takes from its own inputs
NUM_HELD = 1 << 22  # numbers of multipliers that are made at a time
LEAST_REST = 1e-12  # of the largest share of a node or path: what is less is no remainder


class ColumnShares(NamedTuple):
    """Shares of columns of features, one row per column of a node, or of a path's leaf."""

    owner: IntArray  # [num_rows]: row of the node, or the path's place
    column: IntArray  # [num_rows]: NO_COLUMN for what is none's
    before: FloatArray  # [num_rows]: its value; nan for NO_COLUMN
    after: FloatArray  # [num_rows]
    shares: FloatArray  # [num_rows, num_classes]


def share_columns(change: Change, root: int) -> ColumnShares:
    """Every column of every node whose features changed, as far as it moved the root; they sum to the cause feature."""
    nodes = np.array([root])[change.differs[-1][[root]]]
    held: Held = {IN_DELTA: np.tile(np.eye(change.network.num_classes), (len(nodes), 1, 1))}
    lowest = change.lowest_hop
    for t in range(len(change.layers) - 1, lowest - 1, -1):
        step = over_rows(change, t, nodes)
        kept = (step.coefficients.kept[step.entries] != 0).any(axis=1)
        live = kept & change.differs[t][step.below[step.sender]]
        step = over_entries(change, t, nodes, step.receiver[live], step.entries[live])
        if t > lowest:
            nodes, held = step.below, step.down(held)
    # Features may have thousands of columns: multipliers go through the maps last, and a few nodes at a time.
    gathered, channels = [], step.layer.channels
    z = step.tilt(held)[IN_DELTA]
    for channel, rule in zip(channels, step.layer.rule_numbers, strict=True):
        matrix, part = step.matrix(step.factors(IN_DELTA, IN_DELTA, rule)), z[:, :, channel.outputs]
        size = part.shape[1:]
        gathered.append((matrix.T @ part.reshape(len(part), size[0] * size[1])).reshape(len(step.below), *size))
    few = max(1, NUM_HELD // max(change.network.num_classes * change.network.num_features, 1))
    parts = []
    for start in range(0, max(len(step.below), 1), few):
        some = slice(start, start + few)
        multipliers = np.zeros((len(step.below[some]), change.network.num_classes, step.width_below))
        for channel, part in zip(channels, gathered, strict=True):
            weight = channel.weight
            multipliers[:, :, channel.inputs] += part[some] if weight is None else part[some] @ weight.T
        parts.append(_split_leaves(change, step.below[some], multipliers))
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
    held: Held = {IN_DELTA: np.tile(np.eye(network.num_classes), (size, 1, 1))}
    for t in range(len(change.layers) - 1, -1, -1):
        local = change.layers[t].local
        position -= not local
        below = above if local else np.where(going, paths[:, position], above)
        step = over_steps(change, t, above, below)
        held = step.pick(going[step.sender]).down(held)
        above = below
    low, high = (_dense(run.received(0, above)) for run in (change.before_pass, change.after_pass))
    shares = (high - low)[:, None] * held[IN_DELTA]
    shares = shares + high[:, None] * held[IN_AFTER] + low[:, None] * held[IN_BEFORE]
    owner, column = np.nonzero(going[:, None] & (shares != 0).any(axis=1))
    found, rows = walk_chosen(change, np.array([root]), paths)
    whole = np.zeros((size, network.num_classes))
    whole[rows >= 0] = attribute_paths(change, found).contributions[rows[rows >= 0]]
    rest = whole - np.where(going[:, None], shares.sum(axis=2), 0.0)
    left = ~going if change.lowest_hop == 0 else _is_left(rest, whole)
    columns = ColumnShares(owner, column, low[owner, column], high[owner, column], shares[owner, :, column])
    return _with_rest(columns, np.arange(size), rest, left)


def _split_leaves(change: Change, nodes: IntArray, multipliers: FloatArray) -> ColumnShares:
    """Multipliers of what the lowest hop receives of these nodes -> shares of their columns."""
    lowest, whole = change.lowest_hop, None
    if lowest > 0:
        low, high = (np.asarray(run.received(lowest, nodes)) for run in (change.before_pass, change.after_pass))
        whole = np.einsum("nck,nk->nc", multipliers, high - low)
    held: Held = {IN_DELTA: multipliers}
    for t in range(lowest - 1, -1, -1):
        held = {IN_DELTA: over_steps(change, t, nodes, nodes).down(held)[IN_DELTA]}
    before, after = (_dense(run.received(0, nodes)) for run in (change.before_pass, change.after_pass))
    place, column = np.nonzero(after != before)
    low, high = before[place, column], after[place, column]
    shares = (high - low)[:, None] * held[IN_DELTA][place, :, column]
    found = ColumnShares(nodes[place], column, low, high, shares)
    if whole is None:
        return found
    rest = whole.copy()
    np.subtract.at(rest, place, shares)
    return _with_rest(found, nodes, rest, _is_left(rest, whole))


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

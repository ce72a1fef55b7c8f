"""PathSet -> Attribution: every altered path's share of every logit's change, and what the sum leaves over.

The contribution of a path is a product along it. Going down from the root, each partial path carries one multiplier
M [num_classes, width] for each of its states, starting from the identity:

    Q = M * rate of V at layer t                 rate: secant of phi in that state, see `Layer.rates`
    P = Q @ W'                                   for each channel
    M of (.., U, V, ..) in delta   =  kept   * P[delta]
                        in after   =  gained * P[delta] + a_after  * P[after]
                        in before  = -lost   * P[delta] + a_before * P[before]

and a bias b met in after or before contributes Q @ b. At the leaf the states collapse, because kept + gained = a_after
and kept + lost = a_before: with the messages y = h @ W,

    contribution = a_after  * (Q[delta] + Q[after]) @ y_after  +  a_before * (Q[before] - Q[delta]) @ y_before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .activations import FloatArray, IntArray
from .change import Change
from .network import Layer
from .paths import (
    IN_AFTER,
    IN_BEFORE,
    IN_DELTA,
    KINDS,
    NUM_STATES,
    STATES,
    Level,
    PathSet,
    bias_layers,
    count_paths,
    count_suffixes,
)
from .threads import run_in_pieces

# Sums may be reordered within one dot product, always in the same way, so results do not depend on the batch.
FAST = {"reassoc", "contract", "nsz"}


@dataclass(frozen=True, eq=False)
class Attribution:
    """Why the logits of one target changed: all altered paths and their shares."""

    target: int
    paths: IntArray  # [num_paths, num_hops + 1], leaf first, root last, -1 before a bias source
    contributions: FloatArray  # [num_paths, num_classes]
    kinds: NDArray[np.int8]  # [num_paths]: index into axiompath.KINDS
    logits_before: FloatArray  # [num_classes]
    logits_after: FloatArray  # [num_classes]

    @property
    def delta_logits(self) -> FloatArray:
        """What is explained, [num_classes]."""
        return self.logits_after - self.logits_before

    @property
    def residual(self) -> float:
        """Largest difference, over classes, between the sum of the contributions and the change of the logit."""
        return float(np.abs(self.contributions.sum(axis=0) - self.delta_logits).max())

    @property
    def causes(self) -> dict[str, FloatArray]:
        """The whole change split by kind of path: kind -> [num_classes]; the parts sum to delta_logits."""
        return {name: self.contributions[self.kinds == kind].sum(axis=0) for kind, name in enumerate(KINDS)}

    def to_frame(self) -> pd.DataFrame:
        """One row a path: its nodes (leaf first), kind, and contribution to each class."""
        nodes = pd.DataFrame(self.paths, columns=[f"hop_{i}" for i in range(self.paths.shape[1])])
        nodes["kind"] = pd.Categorical.from_codes(self.kinds.astype(np.int64), categories=list(KINDS))
        shares = pd.DataFrame(
            self.contributions, columns=[f"class_{i}" for i in range(self.contributions.shape[1])]
        )
        return pd.concat([nodes, shares], axis=1)


def attribute_paths(change: Change, found: PathSet) -> FloatArray:
    """Contribution of every path of the set to every logit of its target, [num_paths, num_classes]."""
    num_classes = change.network.num_classes
    contributions = np.zeros((len(found.paths), num_classes))
    counted = bias_layers(change)
    top = max(found.levels)
    multiplier = np.tile(np.eye(num_classes), (len(found.levels[top].node), 1, 1))
    carried: FloatArray | None = None  # biases of local layers, on their way to the path they belong to
    for t in range(top, change.lowest_hop - 1, -1):
        level, layer = found.levels[t], change.network.layers[t]
        first = _first_rows(level)
        _apply_rates(change, t, level, first, multiplier)
        if layer.bias is not None:
            sources = np.zeros((len(level.node), num_classes))
            run_in_pieces(_take_bias, len(level.node), level.flags, first, multiplier, layer.bias, sources)
            carried = sources if carried is None else carried + sources
            if counted[t]:
                rows = found.bias_rows[t]
                contributions[rows[rows >= 0]] = carried[rows >= 0]
                carried = None
        if t == change.lowest_hop:
            _reach_leaves(change, found, first, multiplier, contributions)
        else:
            child = found.levels[t - 1]
            multiplier = _descend(change, t, level, first, child, multiplier)
            carried = None if carried is None else carried[child.parent]
    return contributions


def split_by_target(change: Change, found: PathSet, contributions: FloatArray) -> Iterator[Attribution]:
    """One Attribution a target, in the batch's order; they share the batch's arrays."""
    ids = change.before.node_ids
    if not np.array_equal(ids, np.arange(len(ids))):
        found_paths = np.where(found.paths >= 0, ids[found.paths], -1)
    else:
        found_paths = found.paths
    for i, target in enumerate(found.targets):
        rows = slice(found.indptr[i], found.indptr[i + 1])
        yield Attribution(
            int(ids[target]),
            found_paths[rows],
            contributions[rows],
            found.kinds[rows],
            change.before_pass.logits[target],
            change.after_pass.logits[target],
        )


def estimate_bytes(change: Change) -> FloatArray:
    """Upper bound on the memory that walking and attributing each node takes, [num_nodes]."""
    num_classes, num_hops = change.network.num_classes, change.network.num_hops
    total = count_paths(change).astype(np.float64) * (8 * num_classes + 16 * (num_hops + 1) + 24)
    rows_above = np.ones(change.num_nodes)
    peak = np.zeros(change.num_nodes)
    widths = [layer.width for layer in change.network.layers]
    for t in range(len(widths) - 2, change.lowest_hop - 1, -1):
        suffixes, rows = count_suffixes(change, t)
        total += suffixes * (21 + 8 + 4 * (num_hops + 1) + 8 * num_classes)
        # Multipliers and products of the level above, and the multipliers of this one.
        peak = np.maximum(peak, 8 * num_classes * (2 * rows_above * max(widths[t], widths[t + 1]) + rows * widths[t]))
        rows_above = rows
    return np.asarray(total + peak, dtype=np.float64)


def _first_rows(level: Level) -> IntArray:
    """Row of each suffix's first multiplier; its states follow one another in the order delta, after, before."""
    return np.concatenate([[0], np.cumsum(NUM_STATES[level.flags & STATES])])


def _apply_rates(change: Change, t: int, level: Level, first: IntArray, multiplier: FloatArray) -> None:
    """M becomes Q, in place."""
    nodes, where = np.unique(level.node, return_inverse=True)
    rates = _rates_of_states(
        change.network.layers[t], change.before_pass.z[t][nodes], change.after_pass.z[t][nodes]
    )
    if rates is not None:
        run_in_pieces(_scale_rows, len(level.node), level.flags, first, where, *rates, multiplier)


def _rates_of_states(
    layer: Layer, before: FloatArray, after: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    delta = layer.rates(before, after)
    from_zero_after, from_zero_before = (layer.rates(np.zeros_like(z), z) for z in (after, before))
    if delta is None or from_zero_after is None or from_zero_before is None:
        return None
    return delta, from_zero_after, from_zero_before


def _descend(
    change: Change, t: int, level: Level, first: IntArray, child: Level, multiplier: FloatArray
) -> FloatArray:
    """Q of the level above -> M of the level below, channel by channel."""
    layer, entries = change.network.layers[t], change.layers[t]
    child_first = _first_rows(child)
    num_rows, num_classes = len(multiplier), multiplier.shape[1]
    below = np.zeros((int(child_first[-1]), num_classes, change.network.layers[t - 1].width))
    for channel in layer.channels:
        rule = layer.rules.index(channel.coefficients)
        if channel.weight is None:
            product = multiplier[:, :, channel.outputs]
        else:
            product = np.empty((num_rows, num_classes, channel.weight.shape[0]))
            run_in_pieces(_multiply_rows, num_rows, multiplier[:, :, channel.outputs], channel.weight, product)
        run_in_pieces(
            _extend_rows, len(child.node), child.parent, child.entry, level.flags, first, child.flags, child_first,
            entries.before[:, rule], entries.after[:, rule], entries.kept[:, rule],
            product, below[:, :, channel.inputs],
        )  # fmt: skip
    return below


def _reach_leaves(
    change: Change, found: PathSet, first: IntArray, multiplier: FloatArray, contributions: FloatArray
) -> None:
    t = change.lowest_hop
    layer, entries, level = change.network.layers[t], change.layers[t], found.levels[t]
    for channel, (y_before, y_after) in zip(layer.channels, change.messages, strict=True):
        rule = layer.rules.index(channel.coefficients)
        run_in_pieces(
            _sum_leaves, len(level.node), level.flags, first, found.leaf_rows, found.num_leaves, found.entry,
            entries.indices, entries.before[:, rule], entries.after[:, rule], change.differs[t],
            multiplier[:, :, channel.outputs], y_before, y_after, contributions,
        )  # fmt: skip


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _scale_rows(start, stop, flags, first, where, delta, after, before, multiplier):  # type: ignore[no-untyped-def]  # noqa: ANN
    for i in range(start, stop):
        r = first[i]
        for state, rates in ((IN_DELTA, delta), (IN_AFTER, after), (IN_BEFORE, before)):
            if flags[i] & state:
                for j in range(multiplier.shape[1]):
                    for d in range(multiplier.shape[2]):
                        multiplier[r, j, d] *= rates[where[i], d]
                r += 1


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _take_bias(start, stop, flags, first, multiplier, bias, sources):  # type: ignore[no-untyped-def]  # noqa: ANN
    for i in range(start, stop):
        # Below delta the two biases cancel.
        for r in range(first[i] + (flags[i] & IN_DELTA), first[i + 1]):
            for j in range(multiplier.shape[1]):
                for d in range(multiplier.shape[2]):
                    sources[i, j] += multiplier[r, j, d] * bias[d]


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _multiply_rows(start, stop, multiplier, weight, product):  # type: ignore[no-untyped-def]  # noqa: ANN
    for r in range(start, stop):
        for j in range(multiplier.shape[1]):
            for d in range(weight.shape[0]):
                total = 0.0
                for o in range(weight.shape[1]):
                    total += multiplier[r, j, o] * weight[d, o]
                product[r, j, d] = total


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _extend_rows(  # type: ignore[no-untyped-def]  # noqa: ANN
    start, stop, parent, entry, flags, first, child_flags, child_first, before, after, kept, product, below
):
    for i in range(start, stop):
        p, e = parent[i], entry[i]
        in_delta = flags[p] & IN_DELTA
        delta_row = first[p]
        after_row = delta_row + in_delta
        before_row = after_row + (1 if flags[p] & IN_AFTER else 0)
        r = child_first[i]
        if child_flags[i] & IN_DELTA:
            _add_scaled(below[r], kept[e], product[delta_row])
            r += 1
        if child_flags[i] & IN_AFTER:
            if in_delta:
                _add_scaled(below[r], after[e] - kept[e], product[delta_row])
            if flags[p] & IN_AFTER:
                _add_scaled(below[r], after[e], product[after_row])
            r += 1
        if child_flags[i] & IN_BEFORE:
            if in_delta:
                _add_scaled(below[r], kept[e] - before[e], product[delta_row])
            if flags[p] & IN_BEFORE:
                _add_scaled(below[r], before[e], product[before_row])


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _add_scaled(total, factor, part):  # type: ignore[no-untyped-def]  # noqa: ANN
    for j in range(part.shape[0]):
        for d in range(part.shape[1]):
            total[j, d] += factor * part[j, d]


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _sum_leaves(  # type: ignore[no-untyped-def]  # noqa: ANN
    start, stop, flags, first, leaf_rows, num_leaves, entry, indices, before, after, differs,
    multiplier, y_before, y_after, contributions,
):  # fmt: skip
    for i in range(start, stop):
        delta_row = first[i]
        after_row = delta_row + (flags[i] & IN_DELTA)
        before_row = after_row + (1 if flags[i] & IN_AFTER else 0)
        for row in range(leaf_rows[i], leaf_rows[i] + num_leaves[i]):
            e = entry[row]
            u = indices[e]
            if flags[i] & IN_DELTA:
                if differs[u]:
                    _add_product(contributions[row], after[e], multiplier[delta_row], y_after[u])
                    _add_product(contributions[row], -before[e], multiplier[delta_row], y_before[u])
                elif after[e] != before[e]:
                    _add_product(contributions[row], after[e] - before[e], multiplier[delta_row], y_after[u])
            if flags[i] & IN_AFTER:
                _add_product(contributions[row], after[e], multiplier[after_row], y_after[u])
            if flags[i] & IN_BEFORE:
                _add_product(contributions[row], before[e], multiplier[before_row], y_before[u])


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _add_product(total, factor, matrix, vector):  # type: ignore[no-untyped-def]  # noqa: ANN
    for j in range(matrix.shape[0]):
        product = 0.0
        for d in range(matrix.shape[1]):
            product += matrix[j, d] * vector[d]
        total[j] += factor * product

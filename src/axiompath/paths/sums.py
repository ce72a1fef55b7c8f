"""Change -> what all altered paths of a root contribute together, by cause, without walking one of them.

The continuations of a walk in after (before) from node V at the output of layer t sum to that snapshot's own value,
slope * z. So only delta has to be followed: with D[V, cause] the sum of all continuations from delta with that cause,

    D[V, feature]  =  slope * (sum over U  kept * D[U, feature])  @ W
    D[V, gained]   =  slope * (sum over U  kept * D[U, gained] + (a_after - kept) * h_after[U])  @ W     and so on,

one pass from the leaves up, for all roots at once, over the entries that a walk in delta can take.
"""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import KINDS
from ..change.transfer import Transfer
from ..native.shares import sum_descents
from ..threads import run_in_pieces

BLOCK_NODES = 1 << 14  # summed together, for memory's sake
SUM_DELTA_WORK = 10  # operations for a column of an entry, roughly

Sums = tuple[FloatArray, FloatArray, FloatArray]


def sum_causes_of(change: Change, rows: IntArray, sums: Sums) -> FloatArray:
    """The whole change of roots' logits by cause, [rows, len(KINDS), num_classes]; `sums` is what `sum_below` found."""
    return _sum_layer(change, len(change.layers) - 1, rows, *sums)


def sum_below(change: Change, layer: int | None = None) -> Sums:
    """What a layer, else the last one, receives: D of the nodes that differ, and all nodes' values before and after."""
    sums, (old, new) = np.zeros((0, len(KINDS), 0)), change.messages
    for t in range(change.lowest_hop, len(change.layers) - 1 if layer is None else layer):
        sums = _sum_layer(change, t, np.flatnonzero(change.differs[t + 1]), sums, old, new)
        old, new = _values(change, t)
    return sums, old, new


def _sum_layer(
    change: Change, t: int, rows: IntArray, below: FloatArray, old: FloatArray, new: FloatArray
) -> FloatArray:
    """D at the output of layer t for these nodes, [rows, len(KINDS), width], from that of what differs below."""
    transfer = Transfer(change, t)
    layer, differs, descents = transfer.layer, change.differs[t], change.descents[t]
    columns = layer.lay_out(inputs=True)
    width = layer.width if transfer.is_lowest else int(columns[:, 2].sum())
    places, indptr = np.cumsum(differs) - 1, descents.indptr
    senders = differs.view(np.uint8), places, below, np.ascontiguousarray(old), np.ascontiguousarray(new)
    found = np.empty((len(rows), len(KINDS), layer.width))
    for start in range(0, len(rows), BLOCK_NODES):
        some = rows[start : start + BLOCK_NODES]
        sums = np.zeros((len(some), len(KINDS), width))
        work = float((indptr[some + 1] - indptr[some]).sum()) * width * SUM_DELTA_WORK
        entries = indptr, descents.entries, transfer.arrays, transfer.is_lowest, change.first_edge
        run_in_pieces(sum_descents, len(some), work, some, *entries, *senders, sums)
        here = sums
        if not transfer.is_lowest:
            here = np.zeros((len(some), len(KINDS), layer.width))
            for channel, (first, _, size, _) in zip(layer.channels, columns.tolist(), strict=True):
                part = sums[:, :, first : first + size]
                here[:, :, channel.outputs] += part if channel.weight is None else part @ channel.weight
        rates = change.rates[t]
        if rates is not None:
            here = here * rates.slopes[rates.place[0, some]][:, None, :]
        found[start : start + BLOCK_NODES] = here
    return found


def _values(change: Change, t: int) -> tuple[FloatArray, FloatArray]:
    """What walks in before and in after sum to at the output of layer t, [num_nodes, width] each."""
    rates, old, new = change.rates[t], change.before_pass.z[t], change.after_pass.z[t]
    if rates is None:
        return old, new
    return old * rates.slopes[rates.place[2]], new * rates.slopes[rates.place[1]]

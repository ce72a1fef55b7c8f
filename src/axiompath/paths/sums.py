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
from ..change.states import CAUSE_OF_STATE, EDGE_FEATURE, FEATURE, KINDS, LEAVE, NUM_STATES, SIDE_OF_STATE
from ..change.transfer import IN_AFTER, IN_BEFORE, IN_DELTA, Held, over_entries, side_by_side
from ..graphs.rows import entries_of
from ..native.threads import run_in_pieces

BLOCK_NODES = 1 << 12  # summed together, for memory's sake
SUM_WORK = 30  # operations for a column of an entry, roughly

Sums = tuple[FloatArray, FloatArray, FloatArray]


def sum_causes_of(change: Change, rows: IntArray, sums: Sums) -> FloatArray:
    """The whole change of roots' logits by cause, [rows, len(KINDS), num_classes]; `sums` is what `sum_below` found."""
    return _sum_layer(change, len(change.layers) - 1, rows, sums)


def sum_below(change: Change, layer: int | None = None) -> Sums:
    """What a layer, else the last one, receives: D of the nodes that differ, and all nodes' values before and after."""
    sums = np.zeros((0, len(KINDS), 0)), *change.messages
    for t in range(change.lowest_hop, len(change.layers) - 1 if layer is None else layer):
        sums = _sum_layer(change, t, np.flatnonzero(change.differs[t + 1]), sums), *values_of(change, t)
    return sums


def _sum_layer(change: Change, t: int, rows: IntArray, sums: Sums) -> FloatArray:
    """D at the output of layer t for these nodes, [rows, len(KINDS), width], from that of what differs below."""
    blocks = [slice(start, start + BLOCK_NODES) for start in range(0, len(rows), BLOCK_NODES)]
    found, num_entries = (
        np.empty((len(rows), len(KINDS), change.network.layers[t].width)),
        len(change.layers[t].indices),
    )

    def sum_some(start: int, stop: int) -> None:
        for block in blocks[start:stop]:
            found[block] = _sum_rows(change, t, rows[block], *sums)

    run_in_pieces(sum_some, len(blocks), float(num_entries) * found.shape[2] * SUM_WORK)
    return found


def _sum_rows(
    change: Change, t: int, rows: IntArray, below: FloatArray, old: FloatArray, new: FloatArray
) -> FloatArray:
    descents, differs = change.descents[t], change.differs[t]
    receiver = np.repeat(np.arange(len(rows)), descents.indptr[rows + 1] - descents.indptr[rows])
    step = over_entries(change, t, rows, receiver, descents.entries[entries_of(descents.indptr, rows)])
    differ = differs[step.below]
    sent: Held = {IN_AFTER: new[step.below]}
    sent[IN_BEFORE] = np.where(differ[:, None], old[step.below], sent[IN_AFTER])
    if t == change.lowest_hop:
        sent[IN_DELTA] = np.zeros((len(differ), len(KINDS), new.shape[1]))
        for cause, some in ((FEATURE, step.below < change.first_edge), (EDGE_FEATURE, step.below >= change.first_edge)):
            sent[IN_DELTA][some, cause] = (sent[IN_AFTER] - sent[IN_BEFORE])[some]
    else:
        sent[IN_DELTA] = np.zeros((len(differ), len(KINDS), step.width_below))
        sent[IN_DELTA][differ] = below[(np.cumsum(differs) - 1)[step.below[differ]]]
        sent = step.project(sent)
    z = step.gather({IN_DELTA: sent[IN_DELTA]})
    marks = step.coefficients.marks[step.entries]
    for taken, added, rule in side_by_side(step.layer, inputs=False):
        for state in range(1, NUM_STATES):
            side = int(SIDE_OF_STATE[state])
            factors = np.where(marks[:, rule] >> LEAVE >> state & 1, step.factors(IN_DELTA, side, rule), 0.0)
            if factors.any():
                z[IN_DELTA][:, CAUSE_OF_STATE[state], added] += step.matrix(factors) @ sent[side][:, taken]
    return step.tilt(z)[IN_DELTA]


def values_of(change: Change, t: int) -> tuple[FloatArray, FloatArray]:
    """What walks in before and in after sum to at the output of layer t, [num_nodes, width] each."""
    rates, old, new = change.rates[t], change.before_pass.z[t], change.after_pass.z[t]
    if rates is None:
        return old, new
    return old * rates.slopes[rates.place[IN_BEFORE]], new * rates.slopes[rates.place[IN_AFTER]]

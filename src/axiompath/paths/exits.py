"""Change + root -> the share of every place where a walk leaves delta; no path is walked.

A share belongs to the coefficient over which the walk leaves delta, gained or lost, or to the leaf whose features
differ, where it never does. With M[V] what all walks from the root to V in delta multiply with,

    M[U]         =  sum over V  kept[V, U] * slope[V] * M[V] @ W^T                     one pass from the root down
    share[V, U]  =  slope[V] * M[V] @ W^T . (gained[V, U] * h_after[U] - lost[V, U] * h_before[U])
    share[leaf]  =  M[leaf] . (x_after - x_before)

and the shares sum to the change of every logit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.transfer import IN_AFTER, IN_BEFORE, IN_DELTA, Transfer, over_entries
from ..graphs.rows import entries_of
from .sums import values_of


@dataclass(frozen=True, eq=False)
class Exits:
    """Where the walks of one root leave delta: over an entry from `sender` to `receiver`, or at a leaf."""

    receivers: IntArray  # [n]: rows of places; of a leaf the leaf itself
    senders: IntArray  # [n]: rows of places, -1 for a leaf
    shares: FloatArray  # [n, num_classes]


def share_exits(change: Change, row: int) -> Exits:
    """The shares of one root's change, in rows of the change's snapshots."""
    c, rows = change.network.num_classes, np.array([row])
    held = np.eye(c)[None]
    receivers, senders, shares = [], [], []
    for t in range(len(change.layers) - 1, change.lowest_hop - 1, -1):
        step = _descend(change, t, rows)
        held = step.tilt({IN_DELTA: held})[IN_DELTA]
        lowest = t == change.lowest_hop
        if lowest:
            messages = step.leaf_messages()
            own = step.across({IN_DELTA: held}, {IN_DELTA: messages.pop(IN_DELTA)})
            leaves = np.zeros((len(step.below), c))
            np.add.at(leaves, step.sender, own)
            receivers.append(step.below)
            senders.append(np.full(len(step.below), -1))
            shares.append(leaves)
        else:
            old, new = values_of(change, t - 1)
            messages = step.project({IN_AFTER: new[step.below], IN_BEFORE: old[step.below]})
        leaving = step.pick(step.leaves)
        receivers.append(leaving.rows[leaving.receiver])
        senders.append(leaving.below[leaving.sender])
        shares.append(leaving.across({IN_DELTA: held}, messages))
        if not lowest:
            held = step.scatter_delta(step.expand({IN_DELTA: held})[IN_DELTA])
            differ = np.flatnonzero(change.differs[t][step.below])
            rows, held = step.below[differ], held[differ]
    share = np.concatenate(shares)
    some = np.flatnonzero((share != 0).any(axis=1))
    return Exits(np.concatenate(receivers)[some], np.concatenate(senders)[some], share[some])


def _descend(change: Change, t: int, rows: IntArray) -> Transfer:
    """Over the entries of these rows that a walk in delta can go over, or leave delta by."""
    descents = change.descents[t]
    receiver = np.repeat(np.arange(len(rows)), descents.indptr[rows + 1] - descents.indptr[rows])
    return over_entries(change, t, rows, receiver, descents.entries[entries_of(descents.indptr, rows)])

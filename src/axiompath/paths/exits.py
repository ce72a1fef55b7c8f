"""Held + root -> the share of every place where a walk leaves delta; no path is walked.

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
from ..graphs.rows import entries_of
from ..network.families import ColumnRule
from ..readers.forms import Term
from ..readers.held import Entries, Held, HeldBase

Carried = list[tuple[IntArray, FloatArray]]  # rows held of one base, and what walks to them multiply with


@dataclass(frozen=True, eq=False)
class Exits:
    """Where the walks of one root leave delta: over an entry from `sender` to `receiver`, or at a leaf."""

    receivers: IntArray  # [n]: rows of places; of a leaf the leaf itself
    senders: IntArray  # [n]: rows of places, -1 for a leaf
    shares: FloatArray  # [n, num_classes]


def share_exits(held: Held, row: int) -> Exits:
    """The shares of one root's change, in rows of the snapshots."""
    top = held.output
    here = np.flatnonzero((top.rows == row) & top.differs)
    waiting: dict[int, Carried] = {len(held.bases) - 1: [(here, np.tile(np.eye(top.base.width), (len(here), 1, 1)))]}
    receivers, senders, shares = [], [], [np.zeros((0, top.base.width))]
    for number in range(len(held.bases) - 1, -1, -1):
        one = held.bases[number]
        if number not in waiting or one is None:
            continue
        rows, carried = _joined(waiting.pop(number))
        if one.base.form is None:
            receivers.append(one.rows[rows])
            senders.append(np.full(len(rows), -1))
            shares.append(np.einsum("rcw,rw->rc", carried, one.after[rows] - one.before[rows]))
            continue
        if one.base.activation is not None:
            carried = carried * one.base.activation.rate(one.before[rows], one.after[rows])[:, None]
        for term, own in zip(one.base.form.terms, one.entries, strict=True):
            below, part = held.of(term), carried[:, :, term.start : term.start + term.width]
            part = part if term.weight is None else part @ term.weight.T
            entries = entries_of(own.indptr, rows)
            at = np.repeat(np.arange(len(rows)), own.indptr[rows + 1] - own.indptr[rows])  # the row of each entry
            left = own.changed[entries]
            receivers.append(one.rows[rows[at[left]]])
            senders.append(below.rows[own.senders[entries[left]]])
            shares.append(_leave(own, entries[left], part[at[left]], below, term))
            on = below.differs[own.senders[entries]] & (own.kept[entries] != 0).any(axis=1)
            waiting.setdefault(term.base, []).append(_go_on(own, entries[on], part, at[on], below, term))
    share = np.concatenate(shares)
    some = np.flatnonzero((share != 0).any(axis=1))
    nobody = np.zeros(0, dtype=np.int64)
    return Exits(np.concatenate([nobody, *receivers])[some], np.concatenate([nobody, *senders])[some], share[some])


def _columns_of(term: Term, below: HeldBase) -> slice:
    """The columns that a term takes of the base below."""
    if isinstance(term.coefficients, ColumnRule):
        return slice(term.coefficients.first, term.coefficients.first + term.width)
    return slice(0, below.base.width)


def _leave(own: Entries, entries: IntArray, part: FloatArray, below: HeldBase, term: Term) -> FloatArray:
    """What is gained and lost over these entries. [num_entries, num_classes]."""
    senders, columns = own.senders[entries], _columns_of(term, below)
    new, old = (below.values(side, senders)[:, columns] for side in (1, 0))
    moved = own.gained[entries] * new - own.lost[entries] * old
    return np.asarray(np.einsum("ecw,ew->ec", part, moved))


def _go_on(
    own: Entries, entries: IntArray, part: FloatArray, at: IntArray, below: HeldBase, term: Term
) -> tuple[IntArray, FloatArray]:
    """What comes down over these entries in delta, to each sender once."""
    senders, place = np.unique(own.senders[entries], return_inverse=True)
    found = np.zeros((len(senders), part.shape[1], below.base.width))
    sent = part[at] * own.kept[entries][:, None]
    np.add.at(found[:, :, _columns_of(term, below)], place.reshape(-1), sent)
    return senders, found


def _joined(parts: Carried) -> tuple[IntArray, FloatArray]:
    """The sum of what came to each row over several terms."""
    if len(parts) == 1:
        return parts[0]
    rows, place = np.unique(np.concatenate([own for own, _ in parts]), return_inverse=True)
    found = np.zeros((len(rows), *parts[0][1].shape[1:]))
    np.add.at(found, place.reshape(-1), np.concatenate([carried for _, carried in parts]))
    return rows, found

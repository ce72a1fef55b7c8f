"""Change + root -> the share of every changed coefficient, and of every leaf's features; no path is walked.

A path's contribution C is split equally over the r coefficients (layer, V, U) on it that differ between the snapshots;
what runs over none of them goes to the features of its leaf. Summed over all paths, in three passes over what lies
below the root: with k the number of changed entries below a place, and in each of the states delta, after, before,

    up      G[s, k]   what all continuations down to their sources sum to, by k:  a biased sum as in the forward pass
    down    M[s, j]   what all walks from the root to here multiply with, by the j changed entries above
    across  share of a changed entry (V, U)  =  sum over j, k   M[., j][V] . G[., k][U] / (j + 1 + k)

where the entry takes delta to delta by what is kept, to after by what is gained, to before by what is lost, and after
and before to themselves. The shares sum to the change of every logit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..change.transfer import IN_AFTER, IN_BEFORE, IN_DELTA, Held, over_rows, side_by_side


@dataclass(frozen=True, eq=False)
class EntryShares:
    """Shares of one root: of changed entries, one floor after the other, and of leaves whose features differ."""

    cone: Cone
    entries: tuple[FloatArray, ...]  # a floor: [changed entries of it, num_classes]
    leaves: IntArray  # [num_leaves]: places in the lowest floor's `below`
    features: FloatArray  # [num_leaves, num_classes]


class Cone:
    """All that can reach one root: floors from the lowest that passes messages up to the last."""

    def __init__(self, change: Change, row: int) -> None:
        self.change = change
        floors, rows = [], np.array([row])
        for t in range(len(change.layers) - 1, change.lowest_hop - 1, -1):
            floors.append(over_rows(change, t, rows))
            rows = floors[-1].below
        self.floors = tuple(floors[::-1])

    @cached_property
    def num_counts(self) -> int:
        """How many changed entries a path can have, and 1."""
        return 1 + sum(bool(floor.changed.any()) for floor in self.floors)

    @property
    def num_bytes(self) -> float:
        """What the pass down holds at most, roughly."""
        widest = max(len(floor.rows) * floor.layer.width for floor in self.floors)
        return 4.0 * 8 * 3 * self.num_counts * widest * self.change.network.num_classes

    def share(self) -> EntryShares:
        """Up, then down and across."""
        messages = self._climb()
        size, c, lowest = self.num_counts, self.change.network.num_classes, self.floors[0]
        held: Held = {IN_DELTA: np.zeros((1, size, c, c))}
        held[IN_DELTA][:, 0] = np.eye(c)
        shares, features = [], np.zeros((len(lowest.below), c))
        for floor, sent in zip(self.floors[::-1], messages[::-1], strict=True):
            q, moved, plain = floor.tilt(held), floor.pick(floor.changed), floor.pick(~floor.changed)
            across = np.zeros((len(moved.entries), c))
            for j in range(size):
                weights = 1.0 / (j + 1 + np.arange(size))
                shared = {state: np.tensordot(part, weights, (1, 0)) for state, part in sent.items()}
                across += moved.across({state: part[:, j] for state, part in q.items()}, shared)
            shares.append(across)
            if floor is lowest:
                own = plain.across({IN_DELTA: q[IN_DELTA][:, 0]}, {IN_DELTA: sent[IN_DELTA][:, 0]})
                np.add.at(features, plain.sender, own)
            else:
                products = floor.expand(q)
                held = _add_later(plain.scatter(products), moved.scatter(_but_last(products)))
        leaves = np.flatnonzero(self.change.differs[lowest.number][lowest.below])
        return EntryShares(self, tuple(shares[::-1]), leaves, features[leaves])

    def _climb(self) -> list[Held]:
        """What every floor takes, by how many changed entries lie below, [m, num_counts, outputs side by side]."""
        found: list[Held] = []
        held: Held = {}
        for floor in self.floors:
            if not found:
                room = ((0, 0), (0, self.num_counts - 1), (0, 0))
                found.append({state: np.pad(part[:, None], room) for state, part in floor.leaf_messages().items()})
            else:
                found.append(floor.project(held))
            plain, moved = floor.pick(~floor.changed), floor.pick(floor.changed)
            z = _add_later(plain.gather(found[-1]), moved.gather(_but_last(found[-1])))
            if floor.layer.bias is not None:
                for state in (IN_AFTER, IN_BEFORE):
                    z[state][:, 0] += floor.layer.bias
            held = floor.tilt(z)
        return found

    def mix(self, entries: list[BoolArray], leaves: BoolArray) -> FloatArray:
        """Logits [num_classes] of the root by a real pass: `after`'s coefficients where `entries` [a floor: e] says so,
        and `after`'s messages of `leaves` [of the lowest `below`]; `before`'s elsewhere."""
        h = np.zeros((0, 0))
        for floor, taken in zip(self.floors, entries, strict=True):
            layer, change = floor.layer, floor.coefficients
            if floor is self.floors[0]:
                ends = floor.leaf_messages()
                sent = np.where(leaves[:, None], ends[IN_AFTER], ends[IN_BEFORE])
            else:
                sent = floor.project({IN_AFTER: h})[IN_AFTER]
            z = np.zeros((len(floor.rows), layer.width))
            for columns in side_by_side(layer, inputs=False):
                old, new = (part[floor.entries, columns.rule] for part in (change.before, change.after))
                z[:, columns.added] += floor.matrix(np.where(taken, new, old)) @ sent[:, columns.taken]
            if layer.bias is not None:
                z += layer.bias
            h = layer.activate(z) if floor is not self.floors[-1] else z
        return np.asarray(h[0])


def _but_last(held: Held) -> Held:
    """All counts of changed entries but the highest, to which none can be added."""
    return {state: part[:, :-1] for state, part in held.items()}


def _add_later(sums: Held, later: Held) -> Held:
    """Sums by number of changed entries, with those that have one more added."""
    for state, more in later.items():
        sums[state][:, 1:] += more
    return sums

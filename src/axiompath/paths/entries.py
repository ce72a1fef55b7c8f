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
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change

DELTA_ROW, AFTER_ROW, BEFORE_ROW = range(3)  # states, as the places of `Rates` have them


@dataclass(frozen=True, eq=False)
class Floor:
    """What one layer does below the root: its entries there, between places of its output and of what it takes."""

    layer: int
    rows: IntArray  # [n]: places at its output
    below: IntArray  # [m]: places that it takes from
    receiver: IntArray  # [e]: of each entry, in `rows`
    sender: IntArray  # [e]: in `below`
    entries: IntArray  # [e]: of the LayerChange
    changed: BoolArray  # [e]: whether some coefficient of it differs

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix of its coefficients."""
        return len(self.rows), len(self.below)

    def matrix(self, coefficients: FloatArray, some: BoolArray) -> sparse.csr_array:
        """Those of some entries, as a matrix."""
        places = self.receiver[some], self.sender[some]
        return sparse.csr_array((coefficients[some], places), shape=self.shape)


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
            layer = change.layers[t]
            counts = layer.indptr[rows + 1] - layer.indptr[rows]
            receiver = np.repeat(np.arange(len(rows)), counts)
            starts = np.repeat(layer.indptr[rows] - (np.cumsum(counts) - counts), counts)
            entries = starts + np.arange(len(receiver))
            below, sender = np.unique(layer.indices[entries].astype(np.int64), return_inverse=True)
            changed = (layer.before[entries] != layer.after[entries]).any(axis=1)
            floors.append(Floor(t, rows, below, receiver, sender.reshape(-1), entries, changed))
            rows = below
        self.floors = tuple(floors[::-1])

    @cached_property
    def num_counts(self) -> int:
        """How many changed entries a path can have, and 1."""
        return 1 + sum(bool(floor.changed.any()) for floor in self.floors)

    @property
    def num_bytes(self) -> float:
        """What the pass down holds at most, roughly."""
        layers, c = self.change.network.layers, self.change.network.num_classes
        widest = max(len(floor.rows) * layers[floor.layer].width for floor in self.floors)
        return 4.0 * 8 * 3 * self.num_counts * widest * c

    def leaf_messages(self) -> list[FloatArray]:
        """What each channel of the lowest floor takes from leaves: delta, after, before. [3, leaves, outputs] each."""
        change, floor = self.change, self.floors[0]
        old, new = (side[floor.below] for side in change.messages)
        columns = change.network.layers[floor.layer].lay_out(inputs=False)
        both = np.stack([new - old, new, old])
        return [both[:, :, first : first + width] for first, _, width, _ in columns.tolist()]

    def rules(self, floor: Floor) -> list[int]:
        """The rule of each channel, by its place in the coefficients."""
        return [int(rule) for rule in self.change.network.layers[floor.layer].lay_out(inputs=False)[:, 3]]

    def slopes(self, floor: Floor) -> FloatArray | None:
        """Rates of its places in delta, after and before, [3, n, width]; None where phi is the identity."""
        rates = self.change.rates[floor.layer]
        return None if rates is None else rates.slopes[rates.place[:, floor.rows]]

    def share(self) -> EntryShares:
        """Up, then down and across."""
        messages = self._climb()
        return self._descend(messages)

    def _climb(self) -> list[list[FloatArray]]:
        """G @ W of every floor's channels, [3, num_counts, m, outputs] each."""
        layers, size = self.change.network.layers, self.num_counts
        found: list[list[FloatArray]] = []
        h = np.zeros(0)
        for floor in self.floors:
            layer, change = layers[floor.layer], self.change.layers[floor.layer]
            if not found:
                leaves = self.leaf_messages()
                here = [
                    np.concatenate([part[:, None], np.zeros((3, size - 1, *part.shape[1:]))], axis=1) for part in leaves
                ]
            else:
                parts = [h[..., channel.inputs] for channel in layer.channels]
                here = [p if c.weight is None else p @ c.weight for p, c in zip(parts, layer.channels, strict=True)]
            found.append(here)
            z = np.zeros((3, size, len(floor.rows), layer.width))
            for channel, rule, message in zip(layer.channels, self.rules(floor), here, strict=True):
                kept, after, before = (part[floor.entries, rule] for part in (change.kept, change.after, change.before))
                for some in (floor.changed, ~floor.changed):
                    step = int(some is floor.changed)
                    if not some.any():
                        continue
                    a, b, k = (floor.matrix(part, some) for part in (after, before, kept))
                    for count in range(size - step):
                        delta, new, old = message[:, count]
                        out = z[:, count + step, :, channel.outputs]
                        out[DELTA_ROW] += k @ delta + ((a - k) @ new - (b - k) @ old if step else 0.0)
                        out[AFTER_ROW] += a @ new
                        out[BEFORE_ROW] += b @ old
            if layer.bias is not None:
                z[AFTER_ROW : BEFORE_ROW + 1, 0] += layer.bias
            slopes = self.slopes(floor)
            h = z if slopes is None else z * slopes[:, None]
        return found

    def _descend(self, messages: list[list[FloatArray]]) -> EntryShares:
        """M from the root down, and across every changed entry on the way."""
        network, size = self.change.network, self.num_counts
        c = network.num_classes
        m = np.zeros((3, size, 1, c, c))
        m[DELTA_ROW, 0, 0] = np.eye(c)
        shares: list[FloatArray] = []
        lowest = self.floors[0]
        features = np.zeros((len(lowest.below), c))
        for floor, here in zip(self.floors[::-1], messages[::-1], strict=True):
            layer, change, slopes = network.layers[floor.layer], self.change.layers[floor.layer], self.slopes(floor)
            q = m if slopes is None else m * slopes[:, None, :, :, None]
            across = np.zeros((int(floor.changed.sum()), c))
            width = 0 if floor is lowest else network.layers[floor.layer - 1].width
            m = np.zeros((3, size, len(floor.below), width, c))
            for channel, rule, message in zip(layer.channels, self.rules(floor), here, strict=True):
                kept, after, before = (part[floor.entries, rule] for part in (change.kept, change.after, change.before))
                above = q[:, :, :, channel.outputs]
                _add_across(across, floor, (kept, after, before), above, message)
                if floor is lowest:
                    plain = ~floor.changed
                    given = kept[plain, None] * message[DELTA_ROW, 0][floor.sender[plain]]
                    taken = np.einsum("eo,eoc->ec", given, above[DELTA_ROW, 0][floor.receiver[plain]])
                    np.add.at(features, floor.sender[plain], taken)
                    continue
                if channel.weight is not None:
                    above = np.einsum("io,sjnoc->sjnic", channel.weight, above, optimize=True)
                out = m[:, :, :, channel.inputs]
                flat = above.reshape(3, size, len(floor.rows), -1)
                for some in (floor.changed, ~floor.changed):
                    step = int(some is floor.changed)
                    if not some.any():
                        continue
                    a, b, k = (floor.matrix(part, some).T.tocsr() for part in (after, before, kept))
                    for count in range(size - step):
                        delta, new, old = flat[:, count]
                        to = out[:, count + step]
                        to[DELTA_ROW] += (k @ delta).reshape(to.shape[1:])
                        to[AFTER_ROW] += (a @ new + ((a - k) @ delta if step else 0.0)).reshape(to.shape[1:])
                        to[BEFORE_ROW] += (b @ old - ((b - k) @ delta if step else 0.0)).reshape(to.shape[1:])
            shares.append(across)
        leaves = np.flatnonzero(self.change.differs[lowest.layer][lowest.below])
        return EntryShares(self, tuple(shares[::-1]), leaves, features[leaves])

    def mix(self, entries: list[BoolArray], leaves: BoolArray) -> FloatArray:
        """Logits [num_classes] of the root by a real pass: `after`'s coefficients where `entries` [a floor: e] says so,
        and `after`'s messages of `leaves` [of the lowest `below`]; `before`'s elsewhere."""
        layers = self.change.network.layers
        h = np.zeros((0, 0))
        for floor, taken in zip(self.floors, entries, strict=True):
            layer, change = layers[floor.layer], self.change.layers[floor.layer]
            z = np.zeros((len(floor.rows), layer.width))
            lowest = self.leaf_messages() if floor is self.floors[0] else None
            for i, (channel, rule) in enumerate(zip(layer.channels, self.rules(floor), strict=True)):
                if lowest is not None:
                    message = np.where(leaves[:, None], lowest[i][AFTER_ROW], lowest[i][BEFORE_ROW])
                else:
                    message = h[:, channel.inputs] if channel.weight is None else h[:, channel.inputs] @ channel.weight
                mixed = np.where(taken, change.after[floor.entries, rule], change.before[floor.entries, rule])
                z[:, channel.outputs] += floor.matrix(mixed, np.ones(len(taken), dtype=np.bool_)) @ message
            if layer.bias is not None:
                z += layer.bias
            h = layer.activate(z) if layer is not layers[-1] else z
        return np.asarray(h[0])


def _add_across(
    across: FloatArray,
    floor: Floor,
    coefficients: tuple[FloatArray, FloatArray, FloatArray],
    above: FloatArray,
    message: FloatArray,
) -> None:
    """Add what one channel carries over each changed entry, by how many it shares its paths with."""
    if not len(across):
        return
    kept, after, before = (part[floor.changed, None] for part in coefficients)
    receiver, sender = floor.receiver[floor.changed], floor.sender[floor.changed]
    counts = np.arange(message.shape[1])
    for j in range(above.shape[1]):
        if not above[:, j].any():
            continue
        delta, new, old = np.tensordot(message, 1.0 / (j + 1 + counts), axes=(1, 0))[:, sender]
        from_delta = kept * delta + (after - kept) * new - (before - kept) * old
        for given, state in ((from_delta, DELTA_ROW), (after * new, AFTER_ROW), (before * old, BEFORE_ROW)):
            across += np.einsum("eo,eoc->ec", given, above[state, j][receiver])

"""Change + layer + some of its entries -> Transfer: one step through a layer, in the states delta, after and before.

A walk goes over an entry (V, U) of the layer from one state to another, and what it carries is multiplied by

                 to delta    to after    to before
    from delta   kept        gained      -lost
    from after               after
    from before                          before

Values go up from U to V: through the maps of the channels, over the entries, plus the bias, times the rate of V.
Multipliers go down from V to U by the same steps the other way round. Everything that steps through a layer of a change
is made of these; the kernels read the same layer as `arrays_of` lays it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.rows import entries_of, find_in_rows
from ..native.layers import LayerArrays
from ..network.layers import Layer
from .comparison import Change, LayerChange

IN_DELTA, IN_AFTER, IN_BEFORE = range(3)  # states without their causes, as the places of `Rates` have them
STEPS = (
    (IN_DELTA, IN_DELTA),
    (IN_DELTA, IN_AFTER),
    (IN_DELTA, IN_BEFORE),
    (IN_AFTER, IN_AFTER),
    (IN_BEFORE, IN_BEFORE),
)

Held = dict[int, FloatArray]  # what is carried in each state; a state in which nothing is carried is left out


class Columns(NamedTuple):
    """Where one channel takes from, where it adds to, and by which rule."""

    taken: slice
    added: slice
    rule: int


@dataclass(frozen=True, eq=False)
class Transfer:
    """Some entries of a layer, between places of its output (`rows`) and of what it takes (`below`)."""

    change: Change
    number: int  # of the layer
    rows: IntArray  # [n]: nodes V
    below: IntArray  # [m]: nodes U
    receiver: IntArray  # [e]: of each entry, its place in `rows`; ascending
    sender: IntArray  # [e]: in `below`
    entries: IntArray  # [e]: in the layer's `LayerChange`

    @property
    def layer(self) -> Layer:
        """The layer itself."""
        return self.change.network.layers[self.number]

    @property
    def coefficients(self) -> LayerChange:
        """Its coefficients in both snapshots."""
        return self.change.layers[self.number]

    @property
    def width_below(self) -> int:
        """Columns of what the layer takes."""
        return width_below(self.change, self.number)

    @cached_property
    def changed(self) -> BoolArray:
        """Whether some coefficient of each entry differs, [e]."""
        old, new = (part[self.entries] for part in (self.coefficients.before, self.coefficients.after))
        return np.asarray((old != new).any(axis=1))

    @cached_property
    def leaves(self) -> BoolArray:
        """Whether a walk in delta can leave over each entry, to after or before, [e]."""
        layer = self.coefficients
        sides = (layer.after, layer.kept_after), (layer.before, layer.kept_before)
        leaving = [(whole[self.entries] != kept[self.entries]).any(axis=1) for whole, kept in sides]
        return np.asarray(leaving[0] | leaving[1])

    def pick(self, some: BoolArray) -> Transfer:
        """The same between the same places, over some of the entries [e] only."""
        return replace(self, receiver=self.receiver[some], sender=self.sender[some], entries=self.entries[some])

    def factors(self, above: int, below: int, rule: int) -> FloatArray:
        """What a walk multiplies with over each entry, from one state to another, [e]."""
        layer, at = self.coefficients, (self.entries, rule)
        if above == IN_AFTER:
            return np.asarray(layer.after[at])
        if above == IN_BEFORE:
            return np.asarray(layer.before[at])
        if below == IN_DELTA:
            return np.asarray(layer.kept[at])
        if below == IN_AFTER:
            return np.asarray(layer.after[at] - layer.kept_after[at])
        return np.asarray(layer.kept_before[at] - layer.before[at])

    def matrix(self, factors: FloatArray) -> sparse.csr_array:
        """A number for each entry, as a matrix [n, m]."""
        indptr = np.searchsorted(self.receiver, np.arange(len(self.rows) + 1))
        return sparse.csr_array((factors, self.sender, indptr), shape=(len(self.rows), len(self.below)))

    def tilt(self, held: Held) -> Held:
        """Times the rates of the rows: values [n, ..., width] behind phi, or multipliers in front of it."""
        return tilt(self.change, self.number, self.rows, held)

    def leaf_messages(self) -> Held:
        """What the channels of the lowest hop take from the leaves `below`, side by side, [m, outputs]."""
        old, new = (side[self.below] for side in self.change.messages)
        return {IN_DELTA: new - old, IN_AFTER: new, IN_BEFORE: old}

    def project(self, values: Held) -> Held:
        """Values [m, ..., width below] through the map of each channel, side by side."""
        return project(self.layer, values)

    def expand(self, multipliers: Held) -> Held:
        """Multipliers [n, ..., width] through the map of each channel, the other way round, side by side."""
        maps = [(c.outputs, None if c.weight is None else c.weight.T) for c in self.layer.channels]
        return {state: _map(part, maps) for state, part in multipliers.items()}

    def gather(self, messages: Held) -> Held:
        """What the rows receive of messages [m, ..., outputs side by side]: [n, ..., width]."""
        found: Held = {}
        for above, below in STEPS:
            if below in messages:
                self._carry(above, below, messages[below], found, above, down=False)
        return found

    def scatter(self, products: Held) -> Held:
        """What comes down to the places below of products [n, ..., inputs side by side]: [m, ..., width below]."""
        found: Held = {}
        for above, below in STEPS:
            if above in products:
                self._carry(above, below, products[above], found, below, down=True)
        return found

    def scatter_delta(self, products: FloatArray) -> FloatArray:
        """The same of what is in delta and stays there. [m, ..., width below]."""
        found: Held = {}
        self._carry(IN_DELTA, IN_DELTA, products, found, IN_DELTA, down=True)
        return found[IN_DELTA]

    def _carry(self, above: int, below: int, given: FloatArray, found: Held, to: int, *, down: bool) -> None:
        """Add what goes over the entries between two states to found[to]."""
        num_places, width = (len(self.below), self.width_below) if down else (len(self.rows), self.layer.width)
        if to not in found:
            found[to] = np.zeros((num_places, *given.shape[1:-1], width))
        for taken, added, rule in side_by_side(self.layer, inputs=down):
            factors = self.factors(above, below, rule)
            if factors.any():
                part, matrix = given[..., taken], self.matrix(factors)
                flat = part.reshape(len(part), -1) if part.size else part.reshape(len(part), 0)
                moved = (matrix.T if down else matrix) @ flat
                found[to][..., added] += moved.reshape(num_places, *part.shape[1:])

    def down(self, multipliers: Held) -> Held:
        """Multipliers [n, ..., width] -> [m, ..., width below]."""
        return self.scatter(self.expand(self.tilt(multipliers)))

    def up(self, values: Held) -> Held:
        """Values [m, ..., width below] -> [n, ..., width]: what comes over the entries, without the bias."""
        return self.tilt(self.gather(self.project(values)))

    def across(self, multipliers: Held, messages: Held) -> FloatArray:
        """Of each entry, its sender's message by the multipliers [n, classes, width] of its row: [e, classes]."""
        found = np.zeros((len(self.entries), next(iter(multipliers.values())).shape[1]))
        for taken, added, rule in side_by_side(self.layer, inputs=False):
            for above, below in STEPS:
                if above in multipliers and below in messages:
                    factors = self.factors(above, below, rule)
                    some = np.flatnonzero(factors)
                    sent = factors[some, None] * messages[below][self.sender[some], taken]
                    found[some] += np.einsum("eco,eo->ec", multipliers[above][self.receiver[some], :, added], sent)
        return found


def over_rows(change: Change, number: int, rows: IntArray) -> Transfer:
    """Over all entries of these rows."""
    indptr = change.layers[number].indptr
    receiver = np.repeat(np.arange(len(rows)), indptr[rows + 1] - indptr[rows])
    return over_entries(change, number, rows, receiver, entries_of(indptr, rows))


def over_entries(change: Change, number: int, rows: IntArray, receiver: IntArray, entries: IntArray) -> Transfer:
    """Over these entries of the rows, whose senders are each one place below, ascending."""
    below, sender = np.unique(change.layers[number].indices[entries].astype(np.int64), return_inverse=True)
    return Transfer(change, number, rows, below, receiver, sender.reshape(-1), entries)


def over_steps(change: Change, number: int, above: IntArray, below: IntArray) -> Transfer:
    """From each place above to one below, where there is an entry between the two."""
    layer = change.layers[number]
    entry = find_in_rows(layer.indptr, layer.indices, above, below)
    there = np.flatnonzero(entry >= 0)
    return Transfer(change, number, above, below, there, there, entry[there])


def tilt(change: Change, number: int, rows: IntArray, held: Held) -> Held:
    """What is carried at these rows of a layer's output, times their rates."""
    rates = change.rates[number]
    if rates is None:
        return held
    found: Held = {}
    for state, part in held.items():
        slopes = rates.slopes[rates.place[state, rows]]
        found[state] = part * np.expand_dims(slopes, tuple(range(1, part.ndim - 1)))
    return found


def project(layer: Layer, values: Held) -> Held:
    """Values [m, ..., width below] through the map of each channel, side by side."""
    maps = [(channel.inputs, channel.weight) for channel in layer.channels]
    return {state: _map(part, maps) for state, part in values.items()}


def width_below(change: Change, number: int) -> int:
    """Columns of what a layer takes."""
    return change.network.layers[number - 1].width if number else change.network.num_features


def side_by_side(layer: Layer, *, inputs: bool) -> list[Columns]:
    """The inputs, or the outputs, of all channels side by side, and where each lies in the layer."""
    return [
        Columns(slice(place, place + size), slice(first, first + size), rule)
        for place, first, size, rule in layer.lay_out(inputs=inputs).tolist()
    ]


def arrays_of(change: Change, number: int) -> LayerArrays:
    """A layer as kernels take it."""
    layer, entries, rates = change.network.layers[number], change.layers[number], change.rates[number]
    inputs, outputs = layer.lay_out(inputs=True), layer.lay_out(inputs=False)
    weights = [np.zeros(0) if channel.weight is None else channel.weight.ravel() for channel in layer.channels]
    sizes = np.array([len(weight) for weight in weights])
    firsts = np.where([channel.weight is None for channel in layer.channels], -1, np.cumsum(sizes) - sizes)
    channels = np.column_stack([inputs[:, 3], inputs[:, [1, 2, 0]], outputs[:, [1, 2, 0]], firsts])
    held = [
        entries.indptr, entries.indices, entries.before, entries.after, entries.kept, entries.kept_before,
        entries.kept_after, entries.marks, channels.astype(np.int64), np.concatenate(weights, dtype=np.float64),
        None if rates is None else rates.slopes, None if rates is None else rates.place, layer.bias,
    ]  # fmt: skip
    whole = [None if part is None else np.ascontiguousarray(part) for part in held]
    return LayerArrays(*whole, layer.width, width_below(change, number), entries.local)


def _map(value: FloatArray, parts: Iterable[tuple[slice, FloatArray | None]]) -> FloatArray:
    columns = [value[..., own] if weight is None else value[..., own] @ weight for own, weight in parts]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=-1)

"""Change -> Search: the paths of a root with the least prices, found without listing them.

A price is what a path's contribution comes to by given weights of the logits, C @ prices. Going down from the root, a
partial path carries one vector a state, the prices times its multiplier; with the extremes of what can hang below it
(see `extremes`) that bounds every path that ends as it does. Best-first, few partial paths are ever opened: the answer
is exact, and where a search is given up, what it did not find is bounded by what still waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..threads import run_in_pieces
from . import layer_table as fields
from .extremes import Extremes, find_extremes, list_stages
from .search_loops import Limits, Offered, OfferedEach, search_range
from .sums import Sums, sum_below, sum_causes_of

# A search is given up after so much: some tenths of a second, and SEARCH_BYTES.
LOOKED_AT = 2_000_000  # entries
HEAP = 1 << 17  # suffixes that wait
SEARCH_WORK = 1e6  # operations of a search, roughly
REACH_OPENED = 1  # suffixes: the root, for a scale of rounding
PRODUCT_BYTES = 4e6  # of the suffixes that were opened
SEARCH_BYTES = 2.5 * (PRODUCT_BYTES + 24.0 * HEAP)  # arrays are copied when they grow


@dataclass(frozen=True, eq=False)
class Known:
    """What the paths of all roots have in common: plain arrays, which may be sent to where the change is sent."""

    extremes: Mapping[int, Extremes]
    sums: Sums


_KNOWN: WeakKeyDictionary[Change, Known] = WeakKeyDictionary()
_SEARCHES: WeakKeyDictionary[Change, Search] = WeakKeyDictionary()


def known_of(change: Change) -> Known:
    """Found when it is first asked for, and kept for as long as the change is.

    Two threads that ask at once both find it, and one is kept. A forked process has its parent's.
    """
    held = _KNOWN.get(change)
    if held is None:
        # Seen from other roots, all that lies below them is the same.
        extremes = find_extremes(change) if change.like is None else known_of(change.like).extremes
        held = _KNOWN.setdefault(change, Known(extremes, sum_below(change)))
    return held


def adopt(change: Change, known: Known) -> None:
    """Take what another process knows of the same change."""
    _KNOWN.setdefault(change, known)


class Search:
    """All that the searches of one change share; see `search_of`."""

    def __init__(self, change: Change) -> None:
        self.anywhere = np.full(change.network.num_positions, -1)  # a path may end as it likes
        self.widest = _widest(change)
        self.kept: list[Any] = []  # what the addresses in the table are those of
        self.table = np.zeros((len(change.layers), fields.NUM_FIELDS), dtype=np.int64)
        self.limits = Limits(LOOKED_AT, max(64, int(PRODUCT_BYTES / (24 * self.widest))), HEAP)
        extremes = known_of(change).extremes
        lowest_top = list_stages(change)[0][1]
        for t in range(change.lowest_hop, len(change.layers)):
            self._describe(change, t)
            if t in extremes:
                found, row = extremes[t], self.table[t]
                row[fields.LOW], row[fields.HIGH] = self._at(found.low), self._at(found.high)
                row[fields.PLACE] = self._at(found.place)
                row[fields.NUM_EXTREMES], row[fields.NUM_EXTREME_NODES] = len(found.low), found.place.shape[1]
                if t == lowest_top:
                    row[fields.LOW_BEHIND] = self._at(found.low_behind)
                    row[fields.HIGH_BEHIND] = self._at(found.high_behind)

    def find(
        self, root: int, prices: FloatArray, n: int, limits: Limits | None = None, ends: IntArray | None = None
    ) -> Offered:
        """The n paths with the least C @ prices, or those found until a limit was met; of those that end so.

        `ends` [num_positions] is negative where any node will do.
        """
        found = self.find_each(np.array([root]), np.atleast_2d(prices), np.array([n]), limits, ends)
        number = int(found.number[0])
        numbers = float(found.floors[0]), int(found.opened[0]), int(found.looked_at[0])
        return Offered(found.prices[0, :number], found.nodes[0, :number], *numbers)

    def find_each(
        self,
        roots: IntArray,
        prices: FloatArray,
        sizes: IntArray,
        limits: Limits | None = None,
        ends: IntArray | None = None,
    ) -> OfferedEach:
        """The same of each root, by prices of its own [num_roots, num_classes]."""
        limits = limits or self.limits
        prices = np.ascontiguousarray(prices, dtype=np.float64)
        ends = self.anywhere if ends is None else np.ascontiguousarray(ends, dtype=np.int64)
        num, most = len(roots), int(sizes.max(initial=0))
        found = OfferedEach(
            np.empty((num, most)),
            np.empty((num, most, len(ends)), dtype=np.int64),
            np.empty(num),
            *np.empty((3, num), int),
        )
        given = self.table, roots.astype(np.int64), prices, sizes.astype(np.int64), ends, self.widest, limits
        run_in_pieces(search_range, num, num * SEARCH_WORK, *given, found)
        return found

    def reach(self, root: int, num_classes: int) -> FloatArray:
        """More than any path can add to each logit, [num_classes], after a short look."""
        return np.asarray(self.reach_each(np.array([root]), num_classes)[0])

    def reach_each(self, roots: IntArray, num_classes: int) -> FloatArray:
        """The same of each root, [num_roots, num_classes]."""
        limits = Limits(LOOKED_AT, REACH_OPENED, HEAP)
        sides = np.concatenate([-np.eye(num_classes), np.eye(num_classes)])
        found = self.find_each(
            np.repeat(roots, len(sides)), np.tile(sides, (len(roots), 1)), np.ones(len(roots) * len(sides), int), limits
        )
        least = np.minimum(np.minimum(found.floors, np.where(found.number > 0, found.prices[:, 0], 0.0)), 0.0)
        return np.asarray(-least.reshape(len(roots), 2, num_classes).min(axis=1))

    def _at(self, array: NDArray[Any], dtype: Any = None) -> int:
        """The address of an array, which is kept for as long as this is."""
        laid = np.ascontiguousarray(array, dtype=dtype)
        self.kept.append(laid)
        return int(laid.__array_interface__["data"][0]) if laid.size else 0

    def _describe(self, change: Change, t: int) -> None:
        layer, entries, descents = change.network.layers[t], change.layers[t], change.descents[t]
        steps, row = change.merged_steps, self.table[t]
        sets, below, following = steps.sets[t], steps.sets[t - 1], steps.following[t]
        inputs, outputs, maps = layer.lay_out(inputs=True), layer.lay_out(inputs=False), lay_out_maps(layer)
        rates = change.rates[t]
        addresses: dict[int, tuple[NDArray[Any], Any]] = {
            fields.INDPTR: (entries.indptr, np.int64),
            fields.INDICES: (entries.indices, np.int32),
            fields.BEFORE: (entries.before, np.float64),
            fields.AFTER: (entries.after, np.float64),
            fields.KEPT: (entries.kept, np.float64),
            fields.KEPT_AFTER: (entries.kept_after, np.float64),
            fields.KEPT_BEFORE: (entries.kept_before, np.float64),
            fields.MARKS: (descents.marks, np.uint16),
            fields.DESCENTS_INDPTR: (descents.indptr, np.int64),
            fields.DESCENTS: (descents.entries, np.int64),
            fields.FOLLOWING: (following, np.uint16),
            fields.DELTA_ALONE: (sets.delta_alone, np.bool_),
            fields.HELD: (sets.held, np.uint8),
            fields.HELD_BELOW: (below.held, np.uint8),
            fields.STARTS: (sets.starts, np.bool_),
            fields.INPUTS: (inputs, np.int64),
            fields.OUTPUTS: (outputs, np.int64),
            fields.WEIGHTS: (maps.weights, np.float64),
            fields.MAPS: (maps.places, np.int64),
        }
        if rates is not None:
            addresses[fields.SLOPES] = rates.slopes, np.float64
            addresses[fields.SLOPE_PLACE] = rates.place, np.int64
        if layer.bias is not None:
            addresses[fields.BIAS] = layer.bias, np.float64
        if t == change.lowest_hop:
            addresses[fields.MESSAGES_BEFORE] = change.messages[0], np.float64
            addresses[fields.MESSAGES_AFTER] = change.messages[1], np.float64
            row[fields.NUM_SENDERS] = len(change.messages[0])
        for field, (array, dtype) in addresses.items():
            row[field] = self._at(array, dtype)
        row[fields.NUM_NODES] = len(entries.indptr) - 1
        row[fields.NUM_ENTRIES], row[fields.NUM_RULES] = entries.after.shape
        row[fields.NUM_DESCENTS] = len(descents.entries)
        row[fields.NUM_SETS], row[fields.NUM_OF_MARKS] = following.shape
        row[fields.NUM_BELOW] = len(below.held)
        row[fields.NUM_SLOPES] = 0 if rates is None else len(rates.slopes)
        row[fields.WIDTH], row[fields.NUM_CHANNELS] = layer.width, len(layer.channels)
        row[fields.COLUMNS] = inputs[:, 2].sum()
        row[fields.COLUMNS_BEHIND] = outputs[:, 2].sum()
        row[fields.NUM_WEIGHTS] = len(maps.weights)
        row[fields.WIDTH_BELOW] = change.network.layers[t - 1].width if t else change.network.num_features
        row[fields.LOCAL] = entries.local


def search_of(change: Change) -> Search:
    """The one Search of a change, made and kept as `known_of` does.

    It is no part of the change and never sent with it: addresses are good in one process (and its forks) alone.
    """
    held = _SEARCHES.get(change)
    return held if held is not None else _SEARCHES.setdefault(change, Search(change))


def sum_paths(change: Change, root: int) -> FloatArray:
    """What all altered paths of a root contribute together, by cause, [len(KINDS), num_classes]."""
    return np.asarray(sum_each(change, np.array([root]))[0])


def sum_each(change: Change, roots: IntArray) -> FloatArray:
    """The same of each root, [num_roots, len(KINDS), num_classes]."""
    return sum_causes_of(change, roots, known_of(change).sums)


def _widest(change: Change) -> int:
    """Columns that the scratch of a search needs: of a layer, or of its channels side by side."""
    sizes = [change.network.num_classes]
    for t in range(change.lowest_hop, len(change.layers)):
        layer = change.network.layers[t]
        sizes += [layer.width, int(layer.lay_out(inputs=False)[:, 2].sum())]
        if t > change.lowest_hop:
            sizes += [int(layer.lay_out(inputs=True)[:, 2].sum()), change.network.layers[t - 1].width]
    return max(sizes)


def lay_out_maps(layer):
    """Temporary."""
    from types import SimpleNamespace

    inputs, outputs = layer.lay_out(inputs=True), layer.lay_out(inputs=False)
    weights = [np.zeros(0) if c.weight is None else c.weight.ravel() for c in layer.channels]
    sizes = np.array([len(weight) for weight in weights])
    has_weight = [channel.weight is not None for channel in layer.channels]
    places = [inputs[:, 0], inputs[:, 2], outputs[:, 1], outputs[:, 2], np.cumsum(sizes) - sizes, has_weight]
    return SimpleNamespace(weights=np.concatenate(weights), places=np.stack(places, axis=1).astype(np.int64))

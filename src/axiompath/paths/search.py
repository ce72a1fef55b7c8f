"""Change -> Search: the paths of a root with the least prices, found without listing them.

A price is what a path's contribution comes to by given weights of the logits, C @ prices. Going down from the root, a
partial path carries one vector a state, the prices times its multiplier; with the extremes of what can hang below it
(see `extremes`) that bounds every path that ends as it does. Best-first, few partial paths are ever opened: the answer
is exact, and where a search is given up, what it did not find is bounded by what still waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.transfer import arrays_of
from ..native.searches import SearchLayer, search_range
from ..native.threads import run_in_pieces
from .extremes import Extremes, find_extremes, list_stages
from .sums import Sums, sum_below, sum_causes_of

# A search is given up after so much: some tenths of a second, and SEARCH_BYTES.
LOOKED_AT = 2_000_000  # entries
HEAP = 1 << 17  # suffixes that wait
SEARCH_WORK = 1e6  # operations of a search, roughly
REACH_OPENED = 1  # suffixes: the root, for a scale of rounding
PRODUCT_BYTES = 4e6  # of the suffixes that were opened
SEARCH_BYTES = 2.5 * (PRODUCT_BYTES + 24.0 * HEAP)  # arrays are copied when they grow


class Limits(NamedTuple):
    """When a search is given up."""

    looked_at: int  # entries
    opened: int  # suffixes
    heap: int  # suffixes that wait


class Offered(NamedTuple):
    """What a search found, the least prices first."""

    prices: FloatArray  # [found]
    nodes: IntArray  # [found, num_positions]: leaf first, -1 before a bias source
    floor: float  # no path that is not among them has a lower price
    opened: int  # suffixes
    looked_at: int  # entries


class OfferedEach(NamedTuple):
    """The same of several roots."""

    prices: FloatArray  # [num_roots, most]
    nodes: IntArray  # [num_roots, most, num_positions]
    floors: FloatArray  # [num_roots]
    number: IntArray  # [num_roots]: paths found
    opened: IntArray  # [num_roots]
    looked_at: IntArray  # [num_roots]


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
        self.y_before, self.y_after = map(np.ascontiguousarray, change.messages)
        self.limits = Limits(LOOKED_AT, max(64, int(PRODUCT_BYTES / (24 * self.widest))), HEAP)
        extremes, lowest_top = known_of(change).extremes, list_stages(change)[0][1]
        self.layers = [
            _lay_out(change, t, extremes.get(t - 1), is_behind=t - 1 == lowest_top)
            for t in range(change.lowest_hop, len(change.layers))
        ]

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
        roots, sizes = roots.astype(np.int64), sizes.astype(np.int64)

        def search(start: int, stop: int) -> None:
            search_range(
                start,
                stop,
                self.layers,
                self.y_before,
                self.y_after,
                roots,
                prices,
                sizes,
                ends,
                self.widest,
                *limits,
                np.empty(9 * self.widest),
                *found,
            )

        run_in_pieces(search, num, num * SEARCH_WORK)
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


def _lay_out(change: Change, t: int, ends: Extremes | None, is_behind: bool) -> SearchLayer:
    """Layer t, with the extremes of what its senders lead to."""
    descents, steps, sets = change.descents[t], change.merged_steps, change.merged_steps.sets
    return SearchLayer(
        arrays_of(change, t),
        descents.indptr,
        descents.entries,
        descents.marks,
        np.ascontiguousarray(steps.following[t]),
        sets[t].delta_alone.view(np.uint8),
        sets[t].held,
        sets[t - 1].held,
        sets[t].starts.view(np.uint8),
        None if ends is None else ends.low,
        None if ends is None else ends.high,
        ends.low_behind if ends is not None and is_behind else None,
        ends.high_behind if ends is not None and is_behind else None,
        None if ends is None else ends.place,
    )


def search_of(change: Change) -> Search:
    """The one Search of a change, made and kept as `known_of` does.

    It is not part of the change and is never sent with it.
    """
    held = _SEARCHES.get(change)
    return held if held is not None else _SEARCHES.setdefault(change, Search(change))


def sum_each(change: Change, roots: IntArray) -> FloatArray:
    """What all altered paths of each root contribute together, by cause, [num_roots, len(KINDS), num_classes]."""
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

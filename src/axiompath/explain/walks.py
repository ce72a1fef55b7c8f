"""Targets + memory -> Walks: which of them are walked together, which in pieces, and which not at all.

A target whose paths do not fit into the memory budget is walked in pieces, one after the other: a piece is what reaches
it by a few of its first steps. Only one of which a single first step leads to more than the budget holds (or whose
network has one hop, and so nothing to cut) is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..memory import BATCH_BYTES, cut_runs
from ..paths.attribution import attribute_paths, estimate_step_bytes
from ..paths.share_loops import Shares
from ..paths.walk import PathSet, first_steps, walk_paths

PIECE_BYTES = 64e6  # a constant, where memory allows it: pieces should not depend on who has how much memory


@dataclass(frozen=True, eq=False)
class Batch:
    """Targets that are walked together; or one, in pieces."""

    rows: IntArray  # [num_targets]: rows of the aligned snapshots
    bounds: IntArray | None = None  # [num_pieces + 1]: where the pieces begin among the first steps of the one target

    def walk(self, change: Change) -> Iterator[tuple[PathSet, Shares]]:
        """The altered paths and what they contribute, a piece at a time; drop one before the next is asked for."""
        if self.bounds is None:
            found = walk_paths(change, self.rows)
            yield found, attribute_paths(change, found)
            return
        for steps in pairwise(self.bounds.tolist()):
            found = walk_paths(change, self.rows, steps)
            yield found, attribute_paths(change, found)
            del found


@dataclass(frozen=True, eq=False)
class Walks:
    """How each of these targets is walked."""

    rows: IntArray  # [num_targets]: rows of the aligned snapshots
    sizes: FloatArray  # [num_targets]: bytes that each takes, those in pieces a piece at a time
    pieces: Mapping[int, IntArray]  # place of a target that is walked in pieces -> bounds of the pieces
    room: float  # bytes that a batch may take

    @property
    def batch_bytes(self) -> float:
        """What the targets of a batch take together at most, unless it is one alone."""
        return min(self.room, BATCH_BYTES)

    @property
    def fits(self) -> BoolArray:
        """Which of them the room holds, whole or in pieces, [num_targets]."""
        return np.asarray(self.sizes <= self.room)

    def batches(self, places: IntArray | None = None) -> Iterator[IntArray]:
        """Consecutive places that together fit into a batch; a target in pieces is one by itself."""
        places = np.arange(len(self.rows)) if places is None else places
        alone = np.isin(places, np.fromiter(self.pieces, dtype=np.int64, count=len(self.pieces)))
        bounds = cut_runs(np.where(alone, 2 * self.batch_bytes, self.sizes[places]), self.batch_bytes)
        return (places[start:stop] for start, stop in pairwise(bounds))

    def batch(self, places: IntArray) -> Batch:
        """The targets in these places."""
        return Batch(self.rows[places], self.pieces.get(int(places[0])) if len(places) == 1 else None)

    def take(self, places: IntArray) -> Walks:
        """Those in these places."""
        pieces = {i: self.pieces[place] for i, place in enumerate(places.tolist()) if place in self.pieces}
        return Walks(self.rows[places], self.sizes[places], pieces, self.room)


def plan_walks(change: Change, rows: IntArray, sizes: FloatArray, room: float, beside: float | None = None) -> Walks:
    """Walk whole what fits into the room, else in pieces; `sizes` [num_targets] are those of whole targets.

    `beside` is what choosing holds beside a piece; without it, nothing is cut. A target that fits in no way has the
    least size that it could be walked with.
    """
    if beside is None:
        return Walks(rows, sizes, {}, room)
    sizes, pieces = sizes.copy(), {}
    large = np.flatnonzero(sizes > room)
    limit = min(PIECE_BYTES, max(room - beside, 0.0))
    for place, (bounds, size) in zip(large.tolist(), cut_pieces(change, rows[large], limit), strict=True):
        if size + beside <= room:
            pieces[place] = bounds
        sizes[place] = min(sizes[place], size + beside)
    return Walks(rows, sizes, pieces, room)


def cut_pieces(change: Change, targets: IntArray, limit: float | None = None) -> list[tuple[IntArray, float]]:
    """Of each target: bounds of the pieces among its first steps, [num_pieces + 1], and the bytes of the largest."""
    if len(targets) == 0 or change.network.num_positions < 3:
        return [(np.array([0]), np.inf) for _ in targets]
    steps = first_steps(change, targets)
    sizes = estimate_step_bytes(change, steps)
    ends = np.searchsorted(steps.target, np.arange(len(targets) + 1))
    found = []
    for start, stop in pairwise(ends.tolist()):
        bounds = cut_runs(sizes[start:stop], PIECE_BYTES if limit is None else limit)
        found.append((bounds, float(np.add.reduceat(sizes[start:stop], bounds[:-1]).max(initial=0.0))))
    return found


def refuse_large(change: Change, walks: Walks, num_paths: NDArray[Any]) -> list[str]:
    """For each target, the sentence that says why it is not walked; empty where it is. `num_paths` are of all."""
    told = [""] * len(walks.rows)
    for place in np.flatnonzero(~walks.fits).tolist():
        row, size = int(walks.rows[place]), float(walks.sizes[place])
        told[place] = (
            f"{change.unit.capitalize()} {change.target(row)} has {num_paths[row]:,} altered paths, about "
            f"{size / 1e9:.1f} GB to walk, more than the budget of {walks.room / 1e9:.1f} GB; "
            f'pass `memory="{np.ceil(size / 1e9):.0f}GB"` to Explainer, or explain a {change.unit} with fewer paths.'
        )
    return told

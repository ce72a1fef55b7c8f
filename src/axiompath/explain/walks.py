"""Targets + memory -> Walks: which of them are walked together, which are searched, and which are refused.

The paths of a target are listed where they are few; where they are many, those that matter are found without a list
(see `paths.search`). Which of the two depends on their number, not on who has how much memory; but for a call about so
few targets of so large a graph that the bounds of a search would cost more than their lists: where these fit, they are
made. A scan never does that, so that it writes the same bytes everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..paths.attribution import estimate_bytes, make_table
from ..paths.search import SEARCH_BYTES
from ..paths.union import unite_paths
from ..paths.walk import count_paths, walk_paths
from ..storage.memory import BATCH_BYTES, cut_runs, show_bytes
from .candidates import ListedPaths
from .question import Question

# Measured on a power-law graph of 10^5 edges, three layers, budget 10, batches on one core, a target: a list takes 1.5
# ms of 3,500 paths, 3.0 of 15,000, 12 of 55,000; a search by `convex` 1.2, 1.6, 2.5. `exact` looks at more candidates,
# the fewest that are enough need several searches, and both prove more with a list.
PRICED_PATHS = 50_000
EASILY_PRICED = 10  # by convex, or a ranking: where paths are so many times fewer, and targets many
SEARCH_PATHS = 7_500  # paths that are listed in the time of such a search
SHARED_PATHS = 5  # paths that are listed in the time that bounds take for an entry of a layer
LISTED_PATHS = 5_000_000  # at most, of a target whose list is made because bounds would cost more
DEARER = 10.0  # times as much as the lists
PATHS_A_CHOICE = 100  # a choice of more than every hundredth path is made from a list


def is_priced(num_paths: NDArray[Any], question: Question) -> BoolArray:
    """Which targets are searched rather than listed, whatever the others are, for this many paths of each."""
    return np.asarray(num_paths >= max(PRICED_PATHS, PATHS_A_CHOICE * question.budget), dtype=np.bool_)


def find_asked(change: Change, num_paths: NDArray[Any], question: Question, fits: BoolArray) -> BoolArray:
    """Which targets of one call are searched: none where the bounds of a large graph would cost more than all lists.

    `fits` says of which of them a list fits into the memory.
    """
    priced = find_priced(change, num_paths, question)
    short = fits & (num_paths <= LISTED_PATHS)
    if short[priced].all() and DEARER * float(num_paths[priced].sum()) < SHARED_PATHS * _count_entries(change):
        return np.zeros_like(priced)
    return priced


def find_priced(change: Change, num_paths: NDArray[Any], question: Question) -> BoolArray:
    """Which of these targets are searched: also those with fewer paths, where together they pay for the bounds.

    Paths under two models are listed: the best of one model need not be the best of both.
    """
    if change.earlier:
        return np.zeros(len(num_paths), dtype=np.bool_)
    priced = is_priced(num_paths, question)
    if question.method == "exact" or question.until is not None:
        return priced
    least = max(PRICED_PATHS // EASILY_PRICED, PATHS_A_CHOICE * question.budget)
    easy = np.asarray(num_paths >= least, dtype=np.bool_)
    saved = float(num_paths[easy].sum()) - SEARCH_PATHS * float(easy.sum())
    return easy if priced.any() or saved > SHARED_PATHS * _count_entries(change) else priced


def _count_entries(change: Change) -> int:
    """Entries of layers that bounds look at."""
    return sum(len(layer.indices) for layer in change.layers[change.lowest_hop : -1])


def walk_rows(change: Change, rows: IntArray) -> ListedPaths:
    """The altered paths of these targets and what they contribute; if the model differs, under both."""
    sides = [make_table(one, walk_paths(one, rows)) for one in change.by_model]
    table, causes = sides[-1]
    if change.earlier:
        table, causes = unite_paths(sides[::-1], change.model_share(rows), change.num_positions)
    return ListedPaths(change, rows, table.lengths.astype(object), causes, table)


def count_all_paths(change: Change) -> NDArray[Any]:
    """Altered paths of every root; of two models, of the one that has more, or of both where their depths differ."""
    join = np.maximum if same_depth(change) else np.add
    return np.asarray(functools.reduce(join, map(count_paths, change.by_model)))


def estimate_all_bytes(change: Change, num_paths: NDArray[Any]) -> FloatArray:
    """Upper bound on the memory that walking, attributing and choosing takes for each root, under all models."""
    if not change.earlier:
        return estimate_bytes(change, num_paths)
    counts = [count_paths(one) for one in change.by_model]
    sides = [estimate_bytes(one, count) for one, count in zip(change.by_model, counts, strict=True)]
    # What uniting holds: keys, their order twice and places of all paths; paths, contributions and kinds of the union.
    each = 8.0 * (2 * change.num_positions + change.network.num_classes + 8)
    return np.asarray(sum(sides) + each * sum(count.astype(np.float64) for count in counts))


def same_depth(change: Change) -> bool:
    """Whether the paths of both models, where there are two, have one length."""
    return len({one.network.num_positions for one in change.by_model}) == 1


@dataclass(frozen=True, eq=False)
class Walks:
    """How each of these targets is walked."""

    rows: IntArray  # [num_targets]: rows of the aligned snapshots
    sizes: FloatArray  # [num_targets]: bytes that each takes
    counts: NDArray[Any]  # [num_targets]: altered paths of each that is searched; 0 where they are listed
    room: float  # bytes that a batch may take

    @property
    def batch_bytes(self) -> float:
        """What the targets of a batch take together at most, unless it is a single one."""
        return min(self.room, BATCH_BYTES)

    @property
    def fits(self) -> BoolArray:
        """Which of them the room holds, [num_targets]."""
        return np.asarray(self.sizes <= self.room)

    def batches(self, places: IntArray | None = None) -> Iterator[IntArray]:
        """Consecutive places that together fit into a batch."""
        places = np.arange(len(self.rows)) if places is None else places
        searched = self.counts[places] > 0
        # Searches of one batch take turns in one place.
        shared = SEARCH_BYTES * float(searched.any())
        sizes = self.sizes[places] - np.where(searched, SEARCH_BYTES, 0.0)
        return (places[start:stop] for start, stop in pairwise(cut_runs(sizes, self.batch_bytes - shared)))

    def take(self, places: IntArray) -> Walks:
        """Those in these places."""
        return Walks(self.rows[places], self.sizes[places], self.counts[places], self.room)


def plan_listing(rows: IntArray, sizes: FloatArray, room: float) -> Walks:
    """All paths of every target in memory; `sizes` [num_targets] are what that takes."""
    return Walks(rows, sizes, np.zeros(len(rows), dtype=np.int64), room)


def plan_walks(
    rows: IntArray, sizes: FloatArray, num_paths: NDArray[Any], priced: BoolArray, room: float, beside: float
) -> Walks:
    """List the paths of those that are not `priced`; `beside` is what choosing from many holds beside a search."""
    return Walks(rows, np.where(priced, SEARCH_BYTES + beside, sizes), np.where(priced, num_paths, 0), room)


def refuse_large(change: Change, walks: Walks, num_paths: NDArray[Any]) -> list[str]:
    """For each target, the sentence that says why it is not walked; empty where it is. `num_paths` are of all."""
    refusals = [""] * len(walks.rows)
    otherwise = f"explain a {change.unit} with fewer paths"
    if change.earlier:  # of one model the best are found without a list
        otherwise = "explain it under each model by itself, Explainer(model, before, after)"
    for place in np.flatnonzero(~walks.fits).tolist():
        row, size = int(walks.rows[place]), float(walks.sizes[place])
        refusals[place] = (
            f"{change.unit.capitalize()} {change.target(row)} has {num_paths[row]:,} altered paths, about "
            f"{show_bytes(size, up=True)} to walk, more than the budget of {show_bytes(walks.room)}; "
            f'pass `memory="{show_bytes(size, up=True)}"` to Explainer, or {otherwise}.'
        )
    return refusals

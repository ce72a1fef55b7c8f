"""Candidates: the altered paths of a batch of targets, listed, or too many for it and searched: see `paths.search`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..paths.attribution import make_table
from ..paths.chosen import walk_chosen
from ..paths.search import search_of, sum_each
from ..paths.table import PathTable, find_unique
from .remains import column_weights, gross_left


@dataclass(frozen=True, eq=False)
class Candidates(ABC):
    """The altered paths of a batch of targets, and what all of them do together."""

    change: Change
    rows: IntArray  # [num_targets]: of the aligned snapshots
    num_paths: NDArray[np.object_]  # [num_targets]: any number
    causes: FloatArray  # [num_targets, len(KINDS), num_classes]: the whole change; another model is the last cause

    @abstractmethod
    def one(self, i: int) -> Candidates:
        """Target number i by itself."""

    @abstractmethod
    def find(self, paths: IntArray) -> PathTable:
        """These paths of the one target, in their order; one that is not altered contributes nothing."""

    def search_note(self, i: int) -> str:
        """Sentences for the status, after a blank, on how the paths of a target were searched; else nothing."""
        return ""

    def left_out(self, chosen: PathTable) -> FloatArray:
        """What paths that are not chosen add and take away, [num_targets, 2]; nan where they are not listed."""
        return np.full((len(self.rows), 2), np.nan)


@dataclass(frozen=True, eq=False)
class ListedPaths(Candidates):
    """All of them in memory."""

    table: PathTable

    def one(self, i: int) -> ListedPaths:
        """Nothing is copied."""
        own = slice(i, i + 1)
        return ListedPaths(self.change, self.rows[own], self.num_paths[own], self.causes[own], self.table.one(i))

    def find(self, paths: IntArray) -> PathTable:
        """By their nodes."""
        return self.table.find(paths)

    def left_out(self, chosen: PathTable) -> FloatArray:
        """By the sums over all of them and over those chosen."""
        found = np.zeros((len(self.rows), 2))
        for i, weights in enumerate(column_weights(self.change, self.rows)):
            found[i] = gross_left(self.table.one(i).contributions, chosen.one(i).contributions, weights)
        return found


@dataclass(frozen=True, eq=False)
class Searched(Candidates):
    """None of them in memory: found by their prices, see `paths.search`, and attributed one by one."""

    counts: IntArray  # [3, num_targets]: suffixes opened, searches, those given up; they grow with every search

    def one(self, i: int) -> Searched:
        """Target number i by itself."""
        own = slice(i, i + 1)
        return Searched(self.change, self.rows[own], self.num_paths[own], self.causes[own], self.counts[:, own])

    def best(self, places: IntArray, prices: FloatArray, sizes: IntArray) -> OfferedPools:
        """The paths with the smallest C @ prices of the targets in these places; `sizes` of each."""
        rows = self.rows[places]
        found = search_of(self.change).find_each(rows, prices, sizes)
        here = np.arange(found.prices.shape[1]) < found.number[:, None]
        largest = np.where(here, found.prices, -np.inf).max(axis=1, initial=-np.inf)
        given_up = (found.floors < largest) | (
            found.number < np.minimum(sizes, self.num_paths[places]).astype(np.int64)
        )
        self.counts[:, places] += np.stack([found.opened, np.ones_like(found.opened), given_up])
        return OfferedPools(attribute_some(self.change, rows, np.nonzero(here)[0], found.nodes[here]), found.floors)

    def reach(self, sizes: IntArray) -> FloatArray:
        """More than any so many paths of each target can add to a logit, or to a value in units of its scale."""
        reach = search_of(self.change).reach_each(self.rows, self.change.network.num_classes)
        scales = self.change.output.scales
        return np.asarray(sizes * (reach if scales is None else reach / scales).max(axis=1, initial=0.0))

    def find(self, paths: IntArray) -> PathTable:
        """Walked one by one."""
        return attribute_some(self.change, self.rows, np.zeros(len(paths), dtype=np.int64), paths).find(paths)

    def search_note(self, i: int) -> str:
        """How many paths there are, and what it took to find these."""
        opened, searches, given_up = self.counts[:, i].tolist()
        left = ""
        if given_up:
            left = (
                f" {given_up} of {searches} searches were given up early; the bound holds, but a better choice may "
                "exist."
            )
        return f" Found among {self.num_paths[i]:,} paths by bounds, {opened:,} suffixes opened.{left}"


def attribute_some(change: Change, rows: IntArray, owner: IntArray, paths: IntArray) -> PathTable:
    """Those of these paths that are altered, each once; `owner` is the place of each one's target among the rows."""
    once, _ = find_unique([*paths.T, owner])
    return make_table(change, walk_chosen(change, rows, paths[once], owner[once])[0])[0]


def search_rows(change: Change, rows: IntArray, num_paths: NDArray[np.object_]) -> Searched:
    """Nothing is searched yet."""
    return Searched(change, rows, num_paths, sum_each(change, rows), np.zeros((3, len(rows)), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class OfferedPools:
    """The paths of each target with the least prices, as far as they were found."""

    pools: PathTable
    floors: FloatArray  # [num_targets]: no other path has a lower price

    def least(self, prices: FloatArray, budgets: IntArray, at_most: bool) -> FloatArray:
        """The sum of the n least prices of all paths, or what it cannot be less than; with `at_most` of those below 0.

        [num_targets].
        """
        owner, lengths = self.pools.owner, self.pools.lengths
        # Row by row: a product may round a row by how many there are, and a path must have one key in every pool.
        keys = (self.pools.contributions * prices[owner]).sum(axis=1)
        order = np.lexsort((keys, owner))
        rank = np.arange(len(order)) - self.pools.indptr[owner]  # owners ascend in any such order
        first = rank < budgets[owner]
        most = 0.0 if at_most else np.inf
        taken = np.minimum(np.minimum(keys[order[first]], self.floors[owner[first]]), most)
        missing = np.where(np.isfinite(self.floors), np.maximum(budgets - lengths, 0), 0)
        floors = np.where(missing > 0, np.minimum(self.floors, most), 0.0)
        return np.asarray(np.bincount(owner[first], weights=taken, minlength=len(lengths)) + missing * floors)

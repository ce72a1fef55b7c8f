"""The altered paths of one target -> the best of them, by any prices; and what all of them say together.

`Held` has them in memory; `Priced` has none of them, and finds those with the least prices among any number.
Whoever chooses needs no more of a target than `Candidates`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import KINDS
from ..paths.attribution import attribute_paths
from ..paths.chosen import list_order, walk_chosen
from ..paths.search import search_of, sum_paths
from ..paths.share_loops import Shares
from ..paths.union import PathUnion
from ..paths.walk import PathSet, find_rows

UNCHANGED = -1  # the kind of a path that is not altered; only a rival chooses such


@dataclass(frozen=True, eq=False)
class Pool:
    """Some paths of a target, in the order of a list of all."""

    paths: IntArray  # [size, num_hops + 1]
    contributions: FloatArray  # [size, num_classes]
    kinds: NDArray[np.int8]  # [size]: index into KINDS, or UNCHANGED

    @property
    def kind_names(self) -> tuple[str, ...]:
        """The kinds in words."""
        return tuple(KINDS[kind] if kind != UNCHANGED else "unchanged" for kind in self.kinds.tolist())

    def take(self, rows: NDArray[Any] | slice) -> Pool:
        """Some of them."""
        return Pool(self.paths[rows], self.contributions[rows], self.kinds[rows])

    def join(self, other: Pool) -> Pool:
        """These and what is new among the others; of one target."""
        known = {path.tobytes() for path in self.paths}
        new = other.take(np.array([path.tobytes() not in known for path in other.paths], dtype=np.bool_))
        paths = np.concatenate([self.paths, new.paths])
        kinds, contributions = np.concatenate([self.kinds, new.kinds]), [self.contributions, new.contributions]
        order = list_order(paths)
        return Pool(paths[order], np.concatenate(contributions)[order], kinds[order])

    def keys(self, prices: FloatArray) -> FloatArray:
        """C @ prices, [size]."""
        # Row by row: a product may round a row by how many there are, and a path must have one key in every pool.
        return np.asarray((self.contributions * prices).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Offer:
    """The paths with the least prices, as far as they were found."""

    pool: Pool
    floor: float  # no other path has a lower price

    def least(self, prices: FloatArray, n: int) -> FloatArray:
        """The n least prices of all paths, or what they cannot be less than, in ascending order."""
        found = np.sort(self.pool.keys(prices))[:n]
        missing = np.full(n - len(found) if np.isfinite(self.floor) else 0, self.floor)
        return np.asarray(np.minimum(np.concatenate([found, missing]), self.floor))


class Candidates(ABC):
    """The altered paths of one target."""

    row: int
    num_paths: int
    causes: FloatArray  # [len(KINDS), num_classes]: the whole change by cause; another model is the last one

    @property
    def told(self) -> str:
        """A sentence for the status, with a blank before it, where they were not listed; else nothing."""
        return ""

    @abstractmethod
    def find(self, paths: IntArray) -> Pool:
        """These paths, in their order, with their shares; one that is not altered contributes nothing."""


@dataclass(frozen=True, eq=False)
class ListedPaths:
    """The altered paths of some targets that were walked together."""

    found: PathSet | PathUnion
    shares: Shares


class Held(Candidates):
    """All of them in memory: target number i of what was walked."""

    def __init__(self, listed: ListedPaths, i: int) -> None:
        found, shares = listed.found, listed.shares
        rows = slice(int(found.indptr[i]), int(found.indptr[i + 1]))
        self.row, self.num_paths, self.causes = int(found.targets[i]), rows.stop - rows.start, shares.causes[i]
        self.pool = Pool(found.paths[rows], shares.contributions[rows], shares.kinds[rows])

    def find(self, paths: IntArray) -> Pool:
        """By their nodes."""
        return _scatter(self.pool, paths, find_rows(self.pool.paths, paths))


class Priced(Candidates):
    """None of them in memory: found by their prices, see `paths.search`, and attributed one by one."""

    def __init__(self, change: Change, row: int, num_paths: int) -> None:
        self.change, self.row, self.num_paths = change, row, num_paths
        self.causes = sum_paths(change, row)
        self.num_opened, self.num_searches, self.num_given_up = 0, 0, 0

    @property
    def told(self) -> str:
        """How they were found."""
        left = ""
        if self.num_given_up:
            left = (
                f" {self.num_given_up} of {self.num_searches} searches were given up early; the bound holds, but a "
                "better choice may exist."
            )
        return f" Found among {self.num_paths:,} paths by bounds, {self.num_opened:,} suffixes opened.{left}"

    def best(self, prices: FloatArray, size: int) -> Offer:
        """The paths with the smallest C @ prices."""
        found = search_of(self.change).find(self.row, prices, size)
        self.num_searches += 1
        self.num_opened += found.opened
        self.num_given_up += found.floor < found.prices.max(initial=-np.inf) or len(found.prices) < min(
            size, self.num_paths
        )
        return Offer(self.gather(found.nodes), found.floor)

    def gather(self, paths: IntArray) -> Pool:
        """Those of these paths that are altered, each once."""
        found, _ = walk_chosen(self.change, self.row, np.unique(paths, axis=0))
        shares = attribute_paths(self.change, found)
        return Pool(found.paths, shares.contributions, shares.kinds)

    def find(self, paths: IntArray) -> Pool:
        """Walked one by one."""
        pool = self.gather(paths)
        return _scatter(pool, paths, find_rows(pool.paths, paths))

    @cached_property
    def _reach(self) -> float:
        reach = search_of(self.change).reach(self.row, self.change.network.num_classes)
        scales = self.change.output.scales
        return float((reach if scales is None else reach / scales).max(initial=0.0))

    def reach(self, n: int) -> float:
        """More than any n paths together can add to a logit, or to a value in units of its scale."""
        return float(min(n, self.num_paths)) * self._reach


@dataclass(frozen=True, eq=False)
class Batch:
    """Targets in order: those whose paths are listed, and those that are searched."""

    listed: ListedPaths | None
    searched: Sequence[Priced]
    places: IntArray  # [num_targets]: of those that are listed, then of those that are searched

    @cached_property
    def sources(self) -> list[Candidates]:
        """Each target by itself, in order."""
        number = len(self.places) - len(self.searched)
        held = [Held(self.listed, i) for i in range(number)] if self.listed is not None else []
        opened: list[Candidates] = [*held, *self.searched]
        return [opened[i] for i in np.argsort(self.places).tolist()]


def _scatter(pool: Pool, paths: IntArray, rows: IntArray) -> Pool:
    """Pool rows to where they are wanted; what has none is unchanged."""
    here = rows >= 0
    shares = np.zeros((len(paths), pool.contributions.shape[1]))
    kinds = np.full(len(paths), UNCHANGED, dtype=np.int8)
    shares[here], kinds[here] = pool.contributions[rows[here]], pool.kinds[rows[here]]
    return Pool(paths, shares, kinds)

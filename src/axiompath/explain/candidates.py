"""The altered paths of one target -> the best of them, by any prices; and what all of them say together.

`Held` has them in memory; `Priced` has none of them, and finds those with the least prices among any number.
Whoever chooses needs no more of a target than `Candidates`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.states import KINDS
from ..paths.share_loops import Shares
from ..paths.union import PathUnion
from ..paths.walk import PathSet, find_rows
from .pools import gather_paths
from .searched import Searched

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
    """None of them in memory: the one target of these."""

    def __init__(self, searched: Searched) -> None:
        self.searched = searched
        self.row, self.num_paths, self.causes = int(searched.rows[0]), searched.num_paths[0], searched.causes[0]

    @property
    def told(self) -> str:
        """How they were found."""
        return self.searched.told(0)

    def find(self, paths: IntArray) -> Pool:
        """Walked one by one."""
        found = gather_paths(self.searched.change, self.searched.rows, np.zeros(len(paths), dtype=np.int64), paths)
        return _scatter(Pool(found.paths, found.contributions, found.kinds), paths, find_rows(found.paths, paths))


@dataclass(frozen=True, eq=False)
class Batch:
    """Targets in order: those whose paths are listed, and those that are searched."""

    listed: ListedPaths | None
    searched: Searched | None
    places: IntArray  # [num_targets]: of those that are listed, then of those that are searched

    @cached_property
    def sources(self) -> list[Candidates]:
        """Each target by itself, in order."""
        opened: list[Candidates] = []
        if self.listed is not None:
            opened += [Held(self.listed, i) for i in range(len(self.listed.found.targets))]
        if self.searched is not None:
            opened += [Priced(self.searched.one(i)) for i in range(len(self.searched.rows))]
        return [opened[i] for i in np.argsort(self.places).tolist()]


def _scatter(pool: Pool, paths: IntArray, rows: IntArray) -> Pool:
    """Pool rows to where they are wanted; what has none is unchanged."""
    here = rows >= 0
    shares = np.zeros((len(paths), pool.contributions.shape[1]))
    kinds = np.full(len(paths), UNCHANGED, dtype=np.int8)
    shares[here], kinds[here] = pool.contributions[rows[here]], pool.kinds[rows[here]]
    return Pool(paths, shares, kinds)

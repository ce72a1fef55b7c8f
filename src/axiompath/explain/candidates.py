"""The altered paths of one target -> the best of them, by any prices; and what all of them say together.

`Held` has them in memory, `Stream` walks them again whenever it is asked, a piece at a time, and holds the best so far.
Whoever chooses needs no more of a target than `Candidates`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import KINDS
from ..paths.share_loops import Shares
from ..paths.walk import PathSet, find_rows
from .walks import Batch

UNCHANGED = -1  # the kind of a path that is not altered; only a rival chooses such


@dataclass(frozen=True, eq=False)
class Pool:
    """Some paths of a target, each known by its place among all altered ones."""

    place: IntArray  # [size]
    paths: IntArray  # [size, num_hops + 1]
    contributions: FloatArray  # [size, num_classes]
    kinds: NDArray[np.int8]  # [size]: index into KINDS, or UNCHANGED

    @property
    def kind_names(self) -> tuple[str, ...]:
        """The kinds in words."""
        return tuple("unchanged" if kind == UNCHANGED else KINDS[kind] for kind in self.kinds.tolist())

    def take(self, rows: NDArray[Any] | slice) -> Pool:
        """Some of them."""
        return Pool(self.place[rows], self.paths[rows], self.contributions[rows], self.kinds[rows])

    def join(self, other: Pool) -> Pool:
        """Both, each path once, in ascending order of places."""
        place, rows = np.unique(np.concatenate([self.place, other.place]), return_index=True)
        return Pool(
            place,
            np.concatenate([self.paths, other.paths])[rows],
            np.concatenate([self.contributions, other.contributions])[rows],
            np.concatenate([self.kinds, other.kinds])[rows],
        )

    def keys(self, prices: FloatArray) -> FloatArray:
        """C @ prices, [size]."""
        # Row by row: a product may round a row by how many there are, and a path must have one key in every piece.
        return np.asarray((self.contributions * prices).sum(axis=1))

    def best(self, prices: FloatArray, size: int) -> Pool:
        """Those with the smallest keys, earlier ones first among equals; in ascending order of places."""
        return self.take(np.sort(np.argsort(self.keys(prices), kind="stable")[:size]))


class Candidates(ABC):
    """The altered paths of one target; the numbers of all of them are known once they were gone through."""

    row: int
    num_paths: int
    causes: FloatArray  # [len(KINDS), num_classes]: the whole change of each logit, by cause

    @property
    def told(self) -> str:
        """A sentence for the status, with a blank before it, where not all paths were held; else nothing."""
        return ""

    @abstractmethod
    def pieces(self) -> Iterable[Pool]:
        """All of them, one piece after the other."""

    def find(self, paths: IntArray) -> Pool:
        """These paths, in their order, with their shares; one that is not altered contributes nothing."""
        place, kinds = np.full(len(paths), -1), np.full(len(paths), UNCHANGED, dtype=np.int8)
        shares = np.zeros((len(paths), self.causes.shape[1]))
        for piece in self.pieces():
            rows = find_rows(piece.paths, paths)
            here = rows >= 0
            place[here] = piece.place[rows[here]]
            shares[here], kinds[here] = piece.contributions[rows[here]], piece.kinds[rows[here]]
        return Pool(place, paths, shares, kinds)


class Held(Candidates):
    """All of them in memory: target number i of what was walked."""

    def __init__(self, found: PathSet, shares: Shares, i: int) -> None:
        self.contributions = shares.contributions  # of all targets that were walked together
        self.rows = rows = slice(int(found.indptr[i]), int(found.indptr[i + 1]))  # this one's
        self.row, self.num_paths, self.causes = int(found.targets[i]), rows.stop - rows.start, shares.causes[i]
        self.pool = Pool(np.arange(self.num_paths), found.paths[rows], shares.contributions[rows], shares.kinds[rows])

    def pieces(self) -> Iterable[Pool]:
        """One alone."""
        return [self.pool]


class Stream(Candidates):
    """A piece at a time; every pass sums up what is said of all of them."""

    def __init__(self, change: Change, target: int, bounds: IntArray) -> None:
        self.change, self.batch, self.row = change, Batch(np.array([target]), bounds), target
        self.num_paths, self.causes = 0, np.zeros((len(KINDS), change.network.num_classes))
        self.num_passes = 0
        self.largest, self.total = 0.0, 0.0  # of the paths' largest contributions to a logit

    @property
    def told(self) -> str:
        """How often they were walked."""
        passes = "1 pass" if self.num_passes == 1 else f"{self.num_passes} passes"
        return f" Streamed in {passes} over {self.num_paths:,} paths."

    def pieces(self) -> Iterator[Pool]:
        """One after the other, places counting on."""
        causes, place = np.zeros_like(self.causes), 0
        largest, total, scales = 0.0, 0.0, self.change.output.scales
        for found, shares in self.batch.walk(self.change):
            causes += shares.causes[0]
            entries = np.abs(shares.contributions)
            if scales is not None:
                entries /= scales
            sizes = entries.max(axis=1, initial=0.0)
            largest, total = max(largest, sizes.max(initial=0.0)), total + float(sizes.sum())
            yield Pool(place + np.arange(len(found.paths)), found.paths, shares.contributions, shares.kinds)
            place += len(found.paths)
            del found, shares, entries, sizes  # before the next piece is walked
        self.num_paths, self.causes, self.largest, self.total = place, causes, largest, total
        self.num_passes += 1

    def best(self, prices: FloatArray, size: int) -> Pool:
        """The paths with the smallest C @ prices."""
        held: Pool | None = None
        for piece in self.pieces():
            near = piece.best(prices, size)
            del piece  # before the next is walked
            held = near if held is None else held.join(near).best(prices, size)
        assert held is not None
        return held

    def reach(self, n: int) -> float:
        """More than any n paths together can add to a logit, or to a value in units of its scale."""
        return float(min(self.total, n * self.largest))

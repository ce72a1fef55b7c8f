"""Pools: some paths of each of several targets, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..paths.attribution import attribute_paths
from ..paths.chosen import list_order, walk_chosen_of
from ..paths.extremes import gather_entries


@dataclass(frozen=True, eq=False)
class Pools:
    """The paths of one target lie together."""

    indptr: IntArray  # [num_targets + 1]
    paths: IntArray  # [size, num_positions]
    contributions: FloatArray  # [size, num_classes]
    kinds: NDArray[np.int8]  # [size]: index into KINDS

    @property
    def lengths(self) -> IntArray:
        """How many paths each has."""
        return np.diff(self.indptr)

    @property
    def owner(self) -> IntArray:
        """The place of each path's target."""
        return np.repeat(np.arange(len(self.indptr) - 1), self.lengths)

    def take(self, places: IntArray) -> Pools:
        """Those of some targets."""
        rows, counts = gather_entries(self.indptr, places)
        ends = np.concatenate([[0], np.cumsum(counts)])
        return Pools(ends, self.paths[rows], self.contributions[rows], self.kinds[rows])

    def join(self, other: Pools) -> Pools:
        """These and what is new among the others, of the same targets, in the order of a list."""
        both = concatenate([self, other])
        owner = np.concatenate([self.owner, other.owner])
        fresh = first_of_each(both.paths, owner)
        order = fresh[list_order(both.paths[fresh], owner[fresh])]
        ends = np.searchsorted(owner[order], np.arange(len(self.indptr)))
        return Pools(ends, both.paths[order], both.contributions[order], both.kinds[order])


def concatenate(parts: Sequence[Pools]) -> Pools:
    """The targets of all of them, one part behind the other."""
    ends = np.cumsum([0, *(int(part.indptr[-1]) for part in parts)])
    return Pools(
        np.concatenate([[0], *(part.indptr[1:] + end for part, end in zip(parts, ends.tolist(), strict=False))]),
        np.concatenate([part.paths for part in parts]),
        np.concatenate([part.contributions for part in parts]),
        np.concatenate([part.kinds for part in parts]),
    )


def gather_paths(change: Change, rows: IntArray, owner: IntArray, paths: IntArray) -> Pools:
    """Those of these paths that are altered, each once."""
    once = first_of_each(paths, owner)
    found, _ = walk_chosen_of(change, rows, owner[once], paths[once])
    shares = attribute_paths(change, found)
    return Pools(found.indptr, found.paths, shares.contributions, shares.kinds)


def first_of_each(paths: IntArray, owner: IntArray) -> IntArray:
    """Places of the paths that no earlier one is equal to, by owner and nodes."""
    order = np.lexsort((*paths.T, owner))  # stable: the first of equal ones stays the first
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (owner[order][1:] != owner[order][:-1]) | (paths[order][1:] != paths[order][:-1]).any(axis=1)
    return order[new]

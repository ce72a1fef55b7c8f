"""Candidates: the altered paths of a batch of targets, all in memory, or to be searched (see `searched`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..paths.table import PathTable
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

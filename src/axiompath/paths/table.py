"""PathTable: paths of a batch of targets with what they contribute; the rows of one target lie together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.states import KINDS
from ..graphs.rows import entries_of

UNCHANGED = -1  # the kind of a path that is not altered; only a rival chooses such
KIND_WORDS = (*KINDS, "unchanged")  # by kind


@dataclass(frozen=True, eq=False)
class PathTable:
    """Paths of several targets, or groups of paths, one target after the other."""

    indptr: IntArray  # [num_targets + 1]: rows of each target
    paths: IntArray  # [num_rows, num_positions], leaf first
    contributions: FloatArray  # [num_rows, num_classes]
    kinds: NDArray[np.int8]  # [num_rows]: index into KINDS, or UNCHANGED
    weights: FloatArray = field(default_factory=lambda: np.ones(()))  # [num_rows]: of a relaxation, or 1

    def __post_init__(self) -> None:
        """One weight for all takes no memory."""
        object.__setattr__(self, "weights", np.broadcast_to(self.weights, len(self.paths)))

    @property
    def lengths(self) -> IntArray:
        """How many rows each target has."""
        return np.diff(self.indptr)

    @property
    def owner(self) -> IntArray:
        """The place of each row's target."""
        return np.repeat(np.arange(len(self.indptr) - 1), self.lengths)

    @property
    def kind_names(self) -> tuple[str, ...]:
        """The kinds in words."""
        return tuple(KIND_WORDS[kind] for kind in self.kinds.tolist())

    def rows_of(self, i: int) -> slice:
        """The rows of target i."""
        return slice(int(self.indptr[i]), int(self.indptr[i + 1]))

    def take(self, places: IntArray) -> PathTable:
        """The targets in these places."""
        return self._cut(_ends(self.lengths[places]), entries_of(self.indptr, places))

    def one(self, i: int) -> PathTable:
        """Target i by itself; nothing is copied."""
        return self._cut(_ends(self.lengths[i : i + 1]), self.rows_of(i))

    def take_rows(self, rows: NDArray[Any]) -> PathTable:
        """These rows of all targets, in this order; those of one target lie together, and targets in their order."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        owner = np.searchsorted(self.indptr, rows, side="right") - 1
        return self._cut(np.searchsorted(owner, np.arange(len(self.indptr))), rows)

    def find(self, paths: IntArray) -> PathTable:
        """These paths of one target, in their order; one that it does not have is unchanged and contributes nothing."""
        candidates = np.flatnonzero(np.isin(self.paths[:, 0], paths[:, 0]))
        known = dict(zip(map(tuple, self.paths[candidates].tolist()), candidates.tolist(), strict=True))
        rows = np.array([known.get(tuple(path), -1) for path in paths.tolist()], dtype=np.int64)
        here = rows >= 0
        shares = np.zeros((len(paths), self.contributions.shape[1]))
        kinds = np.full(len(paths), UNCHANGED, dtype=np.int8)
        shares[here], kinds[here] = self.contributions[rows[here]], self.kinds[rows[here]]
        return of_one(paths, shares, kinds)

    def join(self, other: PathTable) -> PathTable:
        """These and what is new among the others, of the same targets, in the order of a list."""
        both = concatenate([self, other])
        owner = np.concatenate([self.owner, other.owner])
        fresh, _ = find_unique([*both.paths.T, owner])
        order = fresh[list_order(both.paths[fresh], owner[fresh])]
        return both._cut(np.searchsorted(owner[order], np.arange(len(self.indptr))), order)

    def as_one(self) -> PathTable:
        """The same rows, as those of one target."""
        return replace(self, indptr=np.array([0, len(self.paths)]))

    def _cut(self, indptr: IntArray, rows: Any) -> PathTable:
        return PathTable(indptr, *(getattr(self, part.name)[rows] for part in fields(self)[1:]))


def of_one(paths: IntArray, contributions: FloatArray, kinds: NDArray[np.int8]) -> PathTable:
    """Paths of one target."""
    return PathTable(np.array([0, len(paths)]), paths, contributions, kinds)


def concatenate(parts: Sequence[PathTable]) -> PathTable:
    """The targets of all of them, one part behind the other."""
    lengths = np.concatenate([part.lengths for part in parts])
    columns = [[getattr(part, column.name) for part in parts] for column in fields(PathTable)[1:]]
    return PathTable(_ends(lengths), *(np.concatenate(column) for column in columns))


def find_unique(keys: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """The first of equal items, in order of the keys, the last key first; and the place there of every item."""
    table = np.stack(keys)
    order = np.lexsort(table)  # stable: the first of equal ones stays the first
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (table[:, order[1:]] != table[:, order[:-1]]).any(axis=0)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(fresh) - 1
    return order[fresh], place


def list_order(paths: IntArray, owner: IntArray | None = None) -> IntArray:
    """The order of a list of all paths of a target, as far as the nodes go: it decides between paths of equal worth.

    With `owner`, the place of each one's target: one target after the other.

    Those that start at a bias come first, the nearest to the root before the others (a list has those of one node's
    local layers apart); then by nodes from the root down.
    """
    keys = (*paths.T, -(paths < 0).sum(axis=1))
    return np.lexsort(keys if owner is None else (*keys, owner))


def _ends(lengths: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths)])

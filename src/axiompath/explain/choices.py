"""Choices: the chosen paths of all targets of a batch as columns, before the network is asked what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..paths.extremes import gather_entries
from .group import Group


@dataclass(frozen=True, eq=False)
class Chosen:
    """The chosen paths of all answers, one answer after the other, in rows of the aligned snapshots."""

    indptr: IntArray  # [num_answers + 1]
    paths: IntArray  # [num_chosen, num_positions]
    contributions: FloatArray  # [num_chosen, num_classes]
    weights: FloatArray  # [num_chosen]
    kinds: NDArray[np.int8]  # [num_chosen]: index into KINDS, -1 for none

    @property
    def owners(self) -> IntArray:
        """The answer that each path is of, [num_chosen]."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


@dataclass(frozen=True, eq=False)
class Choices:
    """Answers that differ in their targets and budgets alone; the arrays run over them."""

    rows: IntArray  # of the aligned snapshots
    chosen: Chosen  # most important first
    budgets: IntArray
    num_paths: NDArray[np.object_]  # any number of them
    kl_residual: FloatArray
    kl_bound: FloatArray
    status: NDArray[np.object_]
    fewest: NDArray[np.object_]  # as in Selection
    causes: FloatArray  # [num_answers, len(KINDS), num_classes]; the model last, where it is another one
    groups: Sequence[tuple[Group, ...]]  # of each, where groups of paths are chosen; else nothing
    left_out: FloatArray  # [num_answers, 2]: what paths that are not chosen add and take away; nan where not known


def merge_choices(parts: Sequence[Choices], places: IntArray) -> Choices:
    """One after the other, each then put to its place; of whole paths."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(places)
    chosen = [part.chosen for part in parts]
    starts = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(one.indptr) for one in chosen]))])
    rows, lengths = gather_entries(starts, order)
    return Choices(
        np.concatenate([part.rows for part in parts])[order],
        Chosen(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([one.paths for one in chosen])[rows],
            np.concatenate([one.contributions for one in chosen])[rows],
            np.concatenate([one.weights for one in chosen])[rows],
            np.concatenate([one.kinds for one in chosen])[rows],
        ),
        np.concatenate([part.budgets for part in parts])[order],
        np.concatenate([part.num_paths for part in parts])[order],
        np.concatenate([part.kl_residual for part in parts])[order],
        np.concatenate([part.kl_bound for part in parts])[order],
        np.concatenate([part.status for part in parts])[order],
        np.concatenate([part.fewest for part in parts])[order],
        np.concatenate([part.causes for part in parts])[order],
        (),
        np.concatenate([part.left_out for part in parts])[order],
    )


def words_of(words: Mapping[int, str], codes: FloatArray) -> NDArray[np.object_]:
    """What each code says."""
    table = np.array([words.get(code, "") for code in range(1 + max(words))], dtype=object)
    return np.asarray(table[codes.astype(np.int64)])

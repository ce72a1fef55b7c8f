"""Altered paths under the model before and under the model after -> one list: the data's share, path by path.

For the players data and model, the data's share is the mean of what it does under either model, and so is each path's
contribution. A path is a sequence of nodes: one that both models have is one row. Between models of different depth the
paths of the shallower one are shorter, hence rows of their own, with ABSENT where those of the deeper one begin
earlier. Contributions of all rows and the model's own share sum to f1(after) - f0(before).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.labels import ABSENT
from .table import PathTable, find_unique


def unite_paths(
    sides: Sequence[tuple[PathTable, FloatArray]], model_share: FloatArray, num_positions: int
) -> tuple[PathTable, FloatArray]:
    """Both models' paths of the same targets, contributions halved; causes with the model's share as their last.

    Each side is a table and its causes; so is the union.
    """
    tables = [table for table, _ in sides]
    paths, owner = (
        np.concatenate([pad(table.paths, num_positions) for table in tables]),
        np.concatenate([table.owner for table in tables]),
    )
    rows, place = find_unique([*paths.T[::-1], owner])
    contributions = np.zeros((len(rows), model_share.shape[1]))
    kinds, largest, start = np.zeros(len(rows), dtype=np.int8), np.full(len(rows), -1.0), 0
    for table in tables:
        here = place[start : start + len(table.paths)]
        start += len(table.paths)
        contributions[here] += 0.5 * table.contributions
        # Whether a graph has a path is seen alike by both; what else it is, by the model that makes more of it.
        size = np.abs(table.contributions).sum(axis=1)
        wins = size > largest[here]
        kinds[here[wins]], largest[here[wins]] = table.kinds[wins], size[wins]
    mean = 0.5 * (sides[0][1] + sides[1][1])
    indptr = np.searchsorted(owner[rows], np.arange(len(model_share) + 1))
    causes = np.concatenate([mean, model_share[:, None]], axis=1)
    return PathTable(indptr, paths[rows], contributions, kinds), causes


def pad(paths: IntArray, num_positions: int) -> IntArray:
    """The same with ABSENT before them, [num_paths, num_positions]."""
    missing = np.full((len(paths), num_positions - paths.shape[1]), ABSENT, dtype=np.int64)
    return np.concatenate([missing, paths], axis=1)


def cut(paths: IntArray, num_positions: int) -> tuple[IntArray, BoolArray]:
    """Padded paths as a model with so many positions has them, and which of them can be its own."""
    beside = paths.shape[1] - num_positions
    own = paths[:, beside:]
    return own, np.asarray((paths[:, :beside] == ABSENT).all(axis=1) & (own != ABSENT).all(axis=1))

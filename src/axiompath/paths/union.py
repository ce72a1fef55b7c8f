"""Altered paths under the model before and under the model after -> one list: the data's share, path by path.

For the players data and model, the data's share is the mean of what it does under either model, and so is each path's
contribution. A path is a sequence of nodes: one that both models have is one row. Between models of different depth the
paths of the shallower one are shorter, hence rows of their own, with ABSENT where those of the deeper one begin
earlier. Contributions of all rows and the model's own share sum to f1(after) - f0(before).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.labels import ABSENT
from .share_loops import Shares
from .walk import PathSet


@dataclass(frozen=True, eq=False)
class PathUnion:
    """Paths of a batch of targets under either of two models; the rows of one target lie together."""

    targets: IntArray  # [num_targets]
    indptr: IntArray  # [num_targets + 1]: rows of each target
    paths: IntArray  # [num_paths, num_positions], leaf first; ABSENT before a path of the shallower model


def unite_paths(
    sides: tuple[tuple[PathSet, Shares], tuple[PathSet, Shares]], model_share: FloatArray, num_positions: int
) -> tuple[PathUnion, Shares]:
    """Both models' paths of the same targets, contributions halved; causes with the model's share as their last."""
    targets = sides[0][0].targets
    keys = np.concatenate(
        [
            np.column_stack(
                [np.repeat(np.arange(len(targets)), np.diff(found.indptr)), pad(found.paths, num_positions)]
            )
            for found, _ in sides
        ]
    )
    order = np.lexsort(keys.T[::-1])
    fresh = np.ones(len(keys), dtype=np.bool_)
    fresh[1:] = (np.diff(keys[order], axis=0) != 0).any(axis=1)
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.cumsum(fresh) - 1
    rows = keys[order[fresh]]
    contributions = np.zeros((len(rows), model_share.shape[1]))
    kinds, largest, start = np.zeros(len(rows), dtype=np.int8), np.full(len(rows), -1.0), 0
    for found, shares in sides:
        here = place[start : start + len(found.paths)]
        start += len(found.paths)
        contributions[here] += 0.5 * shares.contributions
        # Whether a graph has a path is seen alike by both; what else it is, by the model that makes more of it.
        size = np.abs(shares.contributions).sum(axis=1)
        wins = size > largest[here]
        kinds[here[wins]], largest[here[wins]] = shares.kinds[wins], size[wins]
    mean = 0.5 * (sides[0][1].causes + sides[1][1].causes)
    indptr = np.searchsorted(rows[:, 0], np.arange(len(targets) + 1))
    causes = np.concatenate([mean, model_share[:, None]], axis=1)
    return PathUnion(targets, indptr, rows[:, 1:]), Shares(contributions, kinds, causes)


def pad(paths: IntArray, num_positions: int) -> IntArray:
    """The same with ABSENT before them, [num_paths, num_positions]."""
    missing = np.full((len(paths), num_positions - paths.shape[1]), ABSENT, dtype=np.int64)
    return np.concatenate([missing, paths], axis=1)


def cut(paths: IntArray, num_positions: int) -> tuple[IntArray, BoolArray]:
    """Padded paths as a model with so many positions has them, and which of them can be its own."""
    beside = paths.shape[1] - num_positions
    own = paths[:, beside:]
    return own, np.asarray((paths[:, :beside] == ABSENT).all(axis=1) & (own != ABSENT).all(axis=1))

"""Attributions + changes -> Movers: the changed edges that moved the most predictions.

The altered paths of a target that run over a changed edge have a sum s, a share of every logit's change. Without them
the additive model gives softmax(z_after - s); the probability that the edge moved is half the L1 distance between that
and softmax(z_after); where columns are no classes, what `Output.apart` says. A path over two changed edges counts for
both: these are not shares of a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.changes import EDGE_CHANGES, tell_kinds
from ..graphs.places import Target
from ..outputs import CLASSES_OUTPUT, Output
from ..paths.attribution import Attribution

# A prediction counts as moved by an edge from a tenth of a percent on.
LEAST_MOVED = 1e-3


@dataclass(frozen=True, eq=False)
class Movers:
    """Changed edges, those that moved most probability first."""

    edges: IntArray  # [num, 2]: src, dst; both directions are one where `directed` is false
    directed: BoolArray  # [num]
    changes: tuple[str, ...]  # [num]: edge added, edge removed or edge reweighted, and the relation in brackets
    moved: FloatArray  # [num]: probability moved, summed over targets
    num_targets: IntArray  # [num]: targets of which it moved at least 0.001
    top_target: tuple[Target | None, ...]  # [num]: the target it moved the most


def find_movers(changes: pd.DataFrame, found: Iterable[Attribution], output: Output = CLASSES_OUTPUT) -> Movers:
    """Rank changed edges by what they did to the targets of these Attributions.

    `changes` are those of the graph, with open nodes; parallel edges are taken together.
    """
    rows = changes[changes.kind.isin(EDGE_CHANGES)].drop_duplicates(["src", "dst"])
    edges, directed = rows[["src", "dst"]].to_numpy(dtype=np.int64), rows.directed.to_numpy(dtype=np.bool_)
    width = int(edges.max(initial=0)) + 2
    there, back = edges[:, 0] * width + edges[:, 1], edges[:, 1] * width + edges[:, 0]
    keys = np.concatenate([there, back[~directed]])
    owner = np.concatenate([np.arange(len(edges)), np.flatnonzero(~directed)])
    order = np.argsort(keys, kind="stable")
    moved, count = np.zeros(len(edges)), np.zeros(len(edges), dtype=np.int64)
    most = np.zeros(len(edges))
    top: list[Target | None] = [None] * len(edges)
    for attribution in found:
        touched, shares = _share_of_edges(attribution, keys, owner, order, width)
        mass = output.apart(attribution.logits_after, attribution.logits_after - shares)
        moved[touched] += mass
        count[touched] += mass >= LEAST_MOVED
        better = mass > most[touched]
        most[touched[better]] = mass[better]
        for edge in touched[better].tolist():
            top[edge] = attribution.target
    ranked = np.argsort(-moved, kind="stable")
    ranked = ranked[moved[ranked] > 0]
    return Movers(
        edges[ranked],
        directed[ranked],
        tell_kinds(rows.iloc[ranked]),
        moved[ranked],
        count[ranked],
        tuple(top[edge] for edge in ranked.tolist()),
    )


def _share_of_edges(
    attribution: Attribution, keys: IntArray, owner: IntArray, order: IntArray, width: int
) -> tuple[IntArray, FloatArray]:
    """Changed edges that paths of this target run over, and the sum of those paths' contributions."""
    if len(keys) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros((0, attribution.contributions.shape[1]))
    pairs = []
    for hop in range(attribution.paths.shape[1] - 1):
        u, v = attribution.paths[:, hop], attribution.paths[:, hop + 1]
        small = (u >= 0) & (v >= 0) & (u < width) & (v < width)
        step = np.where(small, u * width + v, -1)
        place = order[np.minimum(np.searchsorted(keys, step, sorter=order), len(keys) - 1)]
        rows = np.flatnonzero(keys[place] == step)
        pairs.append(np.stack([owner[place[rows]], rows], axis=1))
    edge, path = np.unique(np.concatenate(pairs), axis=0).T  # a path may run over an edge twice
    touched, where = np.unique(edge, return_inverse=True)
    shares = np.zeros((len(touched), attribution.contributions.shape[1]))
    np.add.at(shares, where, attribution.contributions[path])
    return touched, shares

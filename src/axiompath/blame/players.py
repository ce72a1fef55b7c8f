"""Pair of graphs -> Players: the rows of `changes()`, and what applying each of them does to nodes, edges and features.

Let S be the changes that are applied. An edge that only `after` has is there once its change is in S, one that
only `before` has, until it is; another weight, or other features, are one edge of each kind. A node that came or went
does so with its edges, which are there when every such end is: an edge between two new nodes needs both. With nodes
opened, their edges are players of their own, and an edge that is there brings its ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, IntArray
from ..change.region import number_pair_changes
from ..graphs.changes import (
    EDGE_ADDED,
    EDGE_CHANGED,
    EDGE_REMOVED,
    EDGE_REWEIGHTED,
    EDGES_GONE,
    FEATURES_CHANGED,
    NODE_ADDED,
    NODE_REMOVED,
    NODES_GONE,
    decode_weights,
)
from ..graphs.expiry import mark_expired
from ..graphs.pair import Pair
from ..graphs.values import join_values

APPLIED, NOT_APPLIED = 1, -1  # when a thing is there: once its changes are applied, or until they are


@dataclass(frozen=True, eq=False)
class ChangedEdges:
    """Edges that only one graph has, or has with this weight; nodes by their number in the pair."""

    senders: IntArray  # [num_edges]
    receivers: IntArray  # [num_edges]
    # [num_edges]: values, of which types are a part; the pair's numbers in place of weights where edges have features
    weights: NDArray[Any]
    when: IntArray  # [num_edges]: APPLIED or NOT_APPLIED
    players: IntArray  # [num_edges, 2]: whose changes; -1 for no second one


@dataclass(frozen=True, eq=False)
class Players:
    """What happened between two graphs, and to what."""

    changes: pd.DataFrame  # as `Explainer.changes` lists them
    edges: ChangedEdges
    node_of: IntArray  # [num_rows]: number of the node of a row that is of a node, else -1
    node_rows: IntArray  # rows that say that a node came or went
    feature_rows: IntArray  # rows that say that a node's features changed
    opened: bool  # whether edges of nodes that came or went are players of their own

    def __len__(self) -> int:
        """Changes in all."""
        return len(self.changes)

    @cached_property
    def _sizes(self) -> tuple[BoolArray, BoolArray]:
        """Which changes alter the number of nodes, and which that of edges."""
        kind = self.changes.kind
        nodes, edges = kind.isin((NODE_ADDED, *NODES_GONE)), kind.isin((EDGE_ADDED, *EDGES_GONE))
        return nodes.to_numpy(), edges.to_numpy()

    def mix(self, rows: IntArray) -> BoolArray:
        """Subsets of all changes whose graphs are unlike `before` and `after`. [num_subsets, len(self)].

        All that is added with nothing removed, the opposite, and two random halves, which split the changes within the
        receptive field (`rows`), too. The halves apply an odd number of the changes of nodes and, one of them, of
        edges, so that their sizes are none of the two given ones where all changes leave the sizes as they were.
        """
        (nodes, edges), rng = self._sizes, np.random.default_rng(0)
        half = np.zeros(len(self), dtype=np.bool_)
        for place, group in enumerate((nodes, edges, ~nodes & ~edges)):
            some = rng.permutation(np.flatnonzero(group))
            half[some[: len(some) // 2 | 1]] = len(some) > 1 or place == 0
        for some in (rows, np.arange(len(self))):
            if len(some) > 1 and half[some].min() == half[some].max():
                half[rng.choice(some)] ^= True
        other = ~half
        for group in (edges, nodes):
            if group.sum() > 2 and (other == ~half).all():
                able = np.flatnonzero(group & (other == (2 * other.sum() > len(other))))  # so that it stays mixed
                other[rng.choice(able if len(able) else np.flatnonzero(group))] ^= True
        # Where nothing is removed most neighbours meet: sum and mean, say, differ there if they differ anywhere.
        kept = ~self.changes.kind.isin((*NODES_GONE, *EDGES_GONE)).to_numpy()
        mixed = [one for one in (half, other, kept, ~kept) if one.any() and not one.all()]
        unique = [*{one.tobytes(): one for one in mixed}.values()]
        return np.array(unique, dtype=np.bool_).reshape(len(unique), len(self))

    @property
    def node_when(self) -> IntArray:
        """When each node of `node_rows` is there."""
        added = (self.changes.kind == NODE_ADDED).to_numpy()[self.node_rows]
        return np.where(added, APPLIED, NOT_APPLIED)


def find_players(pair: Pair, names: Mapping[int, str], *, open_nodes: bool = False) -> Players:
    """The players of a pair; ids are those of `changes(open_nodes=open_nodes)`."""
    every = number_pair_changes(pair, names, open_nodes=True)
    changes = every if open_nodes else number_pair_changes(pair, names)
    is_node = changes.dst.isna().to_numpy()
    node_of = np.where(is_node, pair.numbers_of(changes.src.to_numpy()), -1)
    node_rows = np.flatnonzero(changes.kind.isin((NODE_ADDED, NODE_REMOVED)).to_numpy())
    feature_rows = np.flatnonzero((changes.kind == FEATURES_CHANGED).to_numpy())
    # Of each row of edges one direction, then of those of both the other.
    rows = every[every.dst.notna()]
    back = np.flatnonzero(~rows.directed.to_numpy())
    row = np.append(np.arange(len(rows)), back)
    src, dst = pair.numbers_of(rows.src.to_numpy()), pair.numbers_of(rows.dst.to_numpy(dtype=np.int64))
    senders, receivers = np.append(src, dst[back]), np.append(dst, src[back])
    owners = np.full((len(row), 2), -1, dtype=np.int64)
    if not open_nodes:
        row_of = np.full(pair.num_nodes, -1, dtype=np.int64)
        row_of[node_of[node_rows]] = node_rows
        owners[:, 0], owners[:, 1] = row_of[senders], row_of[receivers]
        owners[senders == receivers, 1] = -1
        owners = np.where(owners[:, :1] < 0, owners[:, ::-1], owners)
    listed = owners[:, 0] < 0  # the others go with a node; in either table these come in the same order
    number = np.full(len(rows), -1)
    number[listed[: len(rows)]] = np.flatnonzero(~is_node)
    owners[listed, 0] = number[row[listed]]
    kind = rows.kind.to_numpy()[row]
    types = rows.relation.to_numpy()[row] if "relation" in rows else None
    before, after = (join_values(rows[name].to_numpy()[row], types) for name in ("weight_before", "weight_after"))
    assert before is not None
    assert after is not None
    other = (kind == EDGE_REWEIGHTED) | (kind == EDGE_CHANGED)
    gone, come = np.flatnonzero((kind == EDGE_REMOVED) | other), np.flatnonzero((kind == EDGE_ADDED) | other)
    both = np.concatenate([gone, come])
    edges = ChangedEdges(
        senders[both],
        receivers[both],
        np.concatenate([before[gone], after[come]]),
        np.repeat([NOT_APPLIED, APPLIED], [len(gone), len(come)]),
        owners[both],
    )
    marked = mark_expired(decode_weights(changes, pair.values), pair.before.data, pair.after.data)
    return Players(marked, edges, node_of, node_rows, feature_rows, open_nodes)

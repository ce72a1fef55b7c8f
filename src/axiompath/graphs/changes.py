"""(Snapshot before, Snapshot after) -> the table of what happened to the graph, before any model looks at it.

One row per change, and an edge is compared with its like: of the edges from u to v (and of one relation, where edges
have types) that the two snapshots list, equal ones are the same edge; what is left is matched in order of weight, and
each such pair is one edge *reweighted*; what has no partner then was *added* or *removed*. So a parallel edge more is
one edge added, not another weight, and an edge of another relation is one removed and one added.

Where edges have features, a number stands for weight and features of each (see `edge_values`), and a matched pair is an
edge whose *features changed* unless these are the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..arrays import BoolArray, IntArray
from .edge_values import EdgeValues, edge_keys, match_edges
from .labels import insert_beside, label_nodes
from .snapshot import Snapshot, differing_features

NODE_ADDED, NODE_REMOVED, FEATURES_CHANGED = "node added", "node removed", "features changed"
EDGE_ADDED, EDGE_REMOVED, EDGE_REWEIGHTED = "edge added", "edge removed", "edge reweighted"
EDGE_CHANGED = "edge features changed"
# What the passing of time does, where snapshots hold the events of a window: see `expiry`.
EDGE_EXPIRED, EDGE_AGED, NODE_EXPIRED = "edge expired", "edge aged", "node expired"
EDGE_CHANGES = (EDGE_ADDED, EDGE_REMOVED, EDGE_REWEIGHTED, EDGE_CHANGED, EDGE_EXPIRED, EDGE_AGED)
CHANGES = (NODE_ADDED, NODE_REMOVED, FEATURES_CHANGED, *EDGE_CHANGES, NODE_EXPIRED)
BY_TIME = (EDGE_EXPIRED, EDGE_AGED, NODE_EXPIRED)
EDGES_GONE, NODES_GONE = (EDGE_REMOVED, EDGE_EXPIRED), (NODE_REMOVED, NODE_EXPIRED)
COUNTED = {
    "nodes_added": NODE_ADDED,
    "nodes_removed": NODE_REMOVED,
    "features_changed": FEATURES_CHANGED,
    "edges_added": EDGE_ADDED,
    "edges_removed": EDGE_REMOVED,
    "edges_reweighted": EDGE_REWEIGHTED,
    "edge_features_changed": EDGE_CHANGED,
    "edges_expired": EDGE_EXPIRED,
    "edges_aged": EDGE_AGED,
    "nodes_expired": NODE_EXPIRED,
}
TIME_ALONE = "Without any of the changes it is the same: only the passing of time did this."
MODEL_RETRAINED, TIME_PASSED = "model retrained", "time passed"  # what happened besides, to no node or edge


def list_changes(
    snapshots: tuple[Snapshot, Snapshot],
    names: Mapping[int, str],
    *,
    directed: bool = False,
    open_nodes: bool = False,
    values: EdgeValues | None = None,
) -> pd.DataFrame:
    """`find_changes` with names; the snapshots need hold no more than what differs."""
    return name_ends(find_changes(*snapshots, directed=directed, open_nodes=open_nodes, values=values), names)


def find_changes(
    before: Snapshot,
    after: Snapshot,
    *,
    directed: bool = False,
    open_nodes: bool = False,
    values: EdgeValues | None = None,
) -> pd.DataFrame:
    """The changes between two aligned snapshots, in the order of CHANGES, then of `src`, `dst` and the weights.

    Columns: id (0 to n - 1), kind, src, dst (none for a node), relation (of edges that have types, -1 for a node),
    weight_before, weight_after (of edges, NaN where there is none), num_edges and directed. Two directions of an edge
    that changed alike are one change, with src the smaller number and `directed` false, unless `directed`. A node that
    comes or goes does so with its edges, `num_edges` of them; with `open_nodes` these have rows of their own instead.
    """
    ids = before.node_ids
    edges = _compare_edges(before, after, values)
    edges["directed"] = True
    if len(edges) and not directed:
        edges["directed"] = ~pair_directions(edges.assign(src=ids[edges.src], dst=ids[edges.dst]))
        edges = edges[edges.directed | (ids[edges.src] < ids[edges.dst])]
    one = before.present != after.present
    carried = np.asarray(one[edges.src] | one[edges.dst])
    num_edges = np.zeros(len(ids), dtype=np.int64)
    if not open_nodes:
        ends = edges[carried]
        num_edges += np.bincount(ends.src, minlength=len(ids))
        num_edges += np.bincount(ends.dst[ends.src != ends.dst], minlength=len(ids))
        num_edges[~one] = 0
        edges = edges[~carried]
    same = before.present & after.present
    nodes = [
        _node_rows(NODE_ADDED, after.present & one, num_edges),
        _node_rows(NODE_REMOVED, before.present & one, num_edges),
        _node_rows(FEATURES_CHANGED, differing_features(before, after) & same, num_edges),
    ]
    frame = pd.concat([*nodes, edges.assign(num_edges=1)], ignore_index=True)
    frame["src"] = ids[frame.src]
    frame["dst"] = pd.array(ids[frame.dst], dtype="Int64")
    frame.loc[frame.kind < len(nodes), "dst"] = pd.NA
    frame = frame.sort_values(
        ["kind", "src", "dst", "relation", "weight_before", "weight_after"],
        kind="stable",
        ignore_index=True,
        na_position="first",
    )
    frame["kind"] = pd.Categorical.from_codes(frame.kind, categories=pd.Index(CHANGES))
    frame.insert(0, "id", np.arange(len(frame)))
    relation = ["relation"] if before.edge_types is not None else []
    return frame[["id", "kind", "src", "dst", *relation, "weight_before", "weight_after", "num_edges", "directed"]]


def pair_directions(edges: pd.DataFrame) -> BoolArray:
    """Which edges have one back that changed alike: of the same kind and relation, with the same weights.

    Of parallel edges that changed alike, the first in one direction goes with the first in the other.
    """
    ahead = (edges.src < edges.dst).to_numpy()
    columns = ["kind", "low", "high", *(["relation"] if "relation" in edges else []), "weight_before", "weight_after"]
    keys = edges.assign(low=np.minimum(edges.src, edges.dst), high=np.maximum(edges.src, edges.dst), ahead=ahead)
    alike = keys.groupby(columns, sort=False, dropna=False, observed=True)
    number = alike.ahead.transform("sum").to_numpy()
    fewer = np.minimum(number, alike.ahead.transform("size").to_numpy() - number)
    rank = keys.groupby([*columns, "ahead"], sort=False, dropna=False, observed=True).cumcount().to_numpy()
    return np.asarray((edges.src != edges.dst).to_numpy() & (rank < fewer))


def name_ends(changes: pd.DataFrame, names: Mapping[int, str]) -> pd.DataFrame:
    """The same table with `src_name` and `dst_name` beside the numbers; no dst_name where there is no dst."""
    named = changes.copy(deep=False)
    src, dst = named.src.to_numpy(), named.dst.fillna(-1).to_numpy(dtype=np.int64)
    insert_beside(named, "src", label_nodes(src, names))
    ends = label_nodes(dst, names)
    ends[dst < 0] = None
    insert_beside(named, "dst", ends)
    return named


def name_kinds(changes: pd.DataFrame) -> tuple[str, ...]:
    """The kind of each change in words, and in brackets the relation of an edge, where edges have types."""
    kinds = changes.kind.astype(str).tolist()
    if "relation" not in changes:
        return tuple(kinds)
    numbers = changes.relation.fillna(-1).astype(np.int64).tolist()
    names = changes.relation_name.tolist() if "relation_name" in changes else [f"type {number}" for number in numbers]
    parts = zip(kinds, numbers, names, strict=True)
    return tuple(kind if number < 0 else f"{kind} ({name})" for kind, number, name in parts)


def is_kind(word: str, *others: str) -> bool:
    """Whether a word of a record is a kind of change, whatever relation it names in brackets; or one of the others."""
    return word in others or word in CHANGES or (word.endswith(")") and word.split(" (")[0] in EDGE_CHANGES)


def add_row(changes: pd.DataFrame, kind: str = MODEL_RETRAINED) -> pd.DataFrame:
    """The same table, and a last row of what happened to no node or edge: another model, or time, which has no id."""
    found = changes.astype({"src": "Int64"})
    found["kind"] = found.kind.cat.add_categories([kind])
    number = -1 if kind == TIME_PASSED else len(found)
    row = {"id": number, "kind": kind, "relation": -1, "num_edges": 0, "directed": True}
    if "reason" in found:
        row["reason"] = "model"
    last = pd.DataFrame([row]).reindex(columns=found.columns).astype(found.dtypes.to_dict())
    return pd.concat([found, last], ignore_index=True)


def count_changes(changes: pd.DataFrame) -> dict[str, int]:
    """How many changes of each kind: nodes_added, ..., edge_features_changed."""
    counts = changes.kind.value_counts()
    return {word: int(counts[kind]) for word, kind in COUNTED.items()}


def decode_weights(changes: pd.DataFrame, values: EdgeValues | None) -> pd.DataFrame:
    """The same table with weights in place of the numbers that stand for weight and features."""
    if values is None:
        return changes
    weights = {name: values.weights_of(changes[name].to_numpy()) for name in ("weight_before", "weight_after")}
    return changes.assign(**weights)


def _compare_edges(before: Snapshot, after: Snapshot, values: EdgeValues | None) -> pd.DataFrame:
    """Edges that differ: kind (a place in CHANGES), src and dst as rows, relation, weight_before, weight_after."""
    keys, num_types = edge_keys(before, after)
    weights = [np.ones(side.edge_index.shape[1]) if side.edge_weight is None else side.edge_weight
               for side in (before, after)]  # fmt: skip
    partner = match_edges(keys, weights)
    found = np.flatnonzero(partner >= 0)
    found = found[weights[0][partner[found]] != weights[1][found]]
    added, removed = np.flatnonzero(partner < 0), np.setdiff1d(np.arange(len(keys[0])), partner)
    weight_before, weight_after = weights[0][partner[found]], weights[1][found]
    changed = np.full(len(found), EDGE_REWEIGHTED if values is None else EDGE_CHANGED, dtype=object)
    if values is not None:
        changed[values.same_features(weight_before, weight_after)] = EDGE_REWEIGHTED
    kinds = [EDGE_ADDED] * len(added) + [EDGE_REMOVED] * len(removed) + changed.tolist()
    key = np.concatenate([keys[1][added], keys[0][removed], keys[1][found]])
    absent = np.full(max(len(added), len(removed)), np.nan)
    return pd.DataFrame(
        {
            "kind": np.array([CHANGES.index(kind) for kind in kinds], dtype=np.int64),
            "src": key // num_types // before.num_nodes,
            "dst": key // num_types % before.num_nodes,
            "relation": key % num_types if before.edge_types is not None else -1,
            "weight_before": np.concatenate([absent[: len(added)], weights[0][removed], weight_before]),
            "weight_after": np.concatenate([weights[1][added], absent[: len(removed)], weight_after]),
        }
    )


def _node_rows(kind: str, nodes: BoolArray, num_edges: IntArray) -> pd.DataFrame:
    rows = np.flatnonzero(nodes)
    return pd.DataFrame(
        {
            "kind": CHANGES.index(kind),
            "src": rows,
            "dst": rows,
            "relation": -1,
            "weight_before": np.nan,
            "weight_after": np.nan,
            "directed": True,
            "num_edges": num_edges[rows],
        }
    )

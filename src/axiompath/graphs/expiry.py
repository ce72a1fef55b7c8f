"""Changes between two windows of one stream of events -> the same, with when and why: new events, or only time.

An edge that `after` lacks *expired* where its last event is older than the window of `after`; where it is not, an event
ended it, and the edge was *removed*. An edge whose weight changed without a new event *aged*. A node that `after` lacks
expired.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..arrays import BoolArray, IntArray
from .changes import (
    EDGE_AGED,
    EDGE_EXPIRED,
    EDGE_REMOVED,
    EDGE_REWEIGHTED,
    FEATURES_CHANGED,
    NODE_EXPIRED,
    NODE_REMOVED,
)
from .data_fields import node_numbers
from .windows import pair_keys

EDGE_TIME, WINDOW, DATED = TIME_FIELDS = "edge_time", "window", "dated"
TIME, EVENTS = REASONS = "time", "events"


def knows_times(graph: Any) -> bool:
    """Whether a graph says when the last event of each edge was, and which window it is of."""
    return graph is not None and all(graph.get(field) is not None for field in TIME_FIELDS)


def mark_expired(changes: pd.DataFrame, before: Any, after: Any) -> pd.DataFrame:
    """The changes with `last_event` (of an edge) and `reason`, time or events; as they are where graphs know no times.

    Changed features are due to time where none of the node's edges has a new event.
    """
    if not (knows_times(before) and knows_times(after)):
        return changes
    found = changes.copy(deep=False)
    src, dst = found.src.to_numpy(dtype=np.int64), found.dst.fillna(-1).to_numpy(dtype=np.int64)
    relation = found.relation.fillna(-1).to_numpy(dtype=np.int64) if "relation" in found else None
    (was, known_before), (now, known_after) = (_last_events(graph, src, dst, relation) for graph in (before, after))
    start, end = after.window[0].item(), before.window[1].item()
    kinds = found.kind.astype(object).to_numpy(copy=True)
    kinds[(kinds == EDGE_REMOVED) & (was < start)] = EDGE_EXPIRED
    kinds[(kinds == EDGE_REWEIGHTED) & (was == now)] = EDGE_AGED
    kinds[kinds == NODE_REMOVED] = NODE_EXPIRED
    by_time = np.isin(kinds, (EDGE_EXPIRED, EDGE_AGED, NODE_EXPIRED))
    by_time |= (kinds == FEATURES_CHANGED) & ~_has_event_since(after, src, end)
    found["kind"] = pd.Categorical(kinds, categories=found.kind.cat.categories)
    last = pd.Series(np.where(known_after, now, was), index=found.index)
    last = pd.to_datetime(last, utc=True) if bool(after.dated) else last
    found["last_event"] = last.where(known_before | known_after)
    found["reason"] = np.where(by_time, TIME, EVENTS)
    return found


def expired_edges(before: Any, after: Any) -> BoolArray:
    """Which edges of `before` are older than the window of `after`. [num_edges]; all False where nothing is known."""
    if not (knows_times(before) and knows_times(after)):
        return np.zeros(before.edge_index.shape[1], dtype=np.bool_)
    return np.asarray(before.edge_time.numpy() < after.window[0].item())


def _last_events(graph: Any, src: IntArray, dst: IntArray, relation: IntArray | None) -> tuple[Any, BoolArray]:
    """When the last event of each of these edges was, and whether the graph has the edge."""
    ends = node_numbers(graph)[graph.edge_index.numpy()]
    typed = relation is not None and graph.get("edge_type") is not None
    kinds = graph.edge_type.numpy() if typed else np.zeros(ends.shape[1], dtype=np.int64)
    there = pd.Series(graph.edge_time.numpy()).groupby([pair_keys(*ends), kinds]).max()
    asked = relation if typed and relation is not None else np.zeros(len(src), dtype=np.int64)
    wanted = pd.MultiIndex.from_arrays([np.where(dst >= 0, pair_keys(src, np.maximum(dst, 0)), -1), asked])
    place = there.index.get_indexer(wanted)
    values = np.append(there.to_numpy(), 0)  # also if there is no edge
    return values[place], place >= 0


def _has_event_since(graph: Any, nodes: IntArray, moment: float) -> BoolArray:
    """Which of these nodes have an edge with an event at or after this moment."""
    fresh = graph.edge_index.numpy()[:, graph.edge_time.numpy() >= moment]
    return np.isin(nodes, node_numbers(graph)[np.unique(fresh)])

"""Events in windows -> Snapshots: a sequence of graphs whose nodes have the same numbers and names in all of them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from ..arrays import IntArray
from ..errors import InputError, TooLarge
from ..storage.memory import show_bytes
from .clock import show_time
from .events import Events
from .expiry import expired_edges
from .node_features import Moment, code_names, make_features
from .windows import Windows, pair_keys, pool_edges, split_keys

NODES_KEPT = ("seen", "window", "all")
ROWS_SHOWN = 8  # rows of a sequence that are printed


class Recipe(NamedTuple):
    """How a window becomes a graph."""

    rule: str = "once"  # how the events of a pair become one edge
    directed: bool = False
    keep: str = "seen"  # which nodes are there: seen so far, active in the window, or all of all windows
    features: Any = "degrees"

    def __str__(self) -> str:
        """In words."""
        edges = {"once": "one edge a pair", "count": "one edge a pair, its weight the number of events"}.get(
            self.rule, f"one edge a pair, its weight the {self.rule} of the events'"
        )
        nodes = {"seen": "nodes seen so far", "window": "nodes with an event in the window", "all": "all nodes"}
        given = self.features if isinstance(self.features, (list, tuple)) else [self.features]
        words = " and ".join(one if isinstance(one, str) else getattr(one, "__name__", "a function") for one in given)
        return f"{'directed' if self.directed else 'undirected'}, {edges}; {nodes[self.keep]}; features: {words}"


class KnownNodes(NamedTuple):
    """What is known of nodes in addition to their events, by name."""

    names: tuple[str, ...]
    x: Any = None  # [num_nodes, num_features], or None
    y: IntArray | None = None  # -1 where it is not known
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Snapshots(Sequence[Data]):
    """Graphs in order of time; a node has the same `n_id` in all of them, and a name in `node_names`."""

    graphs: tuple[Data, ...] = field(repr=False)
    names: tuple[str, ...]  # of the snapshots: when their windows end
    rule: str = ""  # what an edge and a node are, in words
    bounds: tuple[tuple[float, float], ...] = ()  # start and end of each window; nanoseconds since 1970 where `dated`
    dated: bool = False
    waiting: int = 0  # events after the last window

    def __len__(self) -> int:
        """Number of snapshots."""
        return len(self.graphs)

    @overload
    def __getitem__(self, place: int) -> Data: ...
    @overload
    def __getitem__(self, place: slice) -> Snapshots: ...
    def __getitem__(self, place: int | slice) -> Data | Snapshots:
        """The graph in that place, or a part of the sequence."""
        if not isinstance(place, slice):
            return self.graphs[place]
        part = replace(self, graphs=self.graphs[place], names=self.names[place], bounds=self.bounds[place])
        return part if place.stop is None else replace(part, waiting=0)

    @property
    def node_names(self) -> dict[int, str]:
        """Name of each node of any snapshot, by number."""
        known: dict[int, str] = {}
        for graph in self.graphs:
            if graph.get("node_names") is not None:
                known.update(zip(graph.n_id.tolist(), graph.node_names, strict=True))
        return known

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, if labels are words."""
        return next((tuple(graph.class_names) for graph in self.graphs if graph.get("class_names")), ())

    def to_frame(self) -> pd.DataFrame:
        """One row per snapshot: name, start and end of its window, nodes, edges, and edges added and removed."""
        rows: list[dict[str, Any]] = []
        keys_before: Any = None
        for place, graph in enumerate(self.graphs):
            keys = _edge_keys(graph)
            row: dict[str, Any] = {"snapshot": self.names[place]}
            if self.bounds:
                row |= dict(zip(("start", "end"), map(self._moment, self.bounds[place]), strict=True))
            row |= {"nodes": int(graph.num_nodes or 0), "edges": len(keys), "edges_added": 0, "edges_removed": 0}
            row["edges_expired"] = 0
            if place:
                gone = np.setdiff1d(keys_before, keys, assume_unique=True)
                before = self.graphs[place - 1]
                expired = np.intersect1d(gone, _edge_keys(before, expired_edges(before, graph)))
                row["edges_added"] = len(np.setdiff1d(keys, keys_before, assume_unique=True))
                row["edges_removed"], row["edges_expired"] = len(gone) - len(expired), len(expired)
            rows.append(row)
            keys_before = keys
        return pd.DataFrame(rows)

    def _moment(self, moment: float) -> Any:
        return pd.Timestamp(int(moment), unit="ns") if self.dated else moment

    @property
    def summary(self) -> str:
        """A description in a sentence or two."""
        nodes = max((int(graph.num_nodes or 0) for graph in self.graphs), default=0)
        text = f"{len(self)} snapshot{'s' * (len(self) != 1)} of up to {nodes:,} nodes"
        text += f": {self.rule}." if self.rule else "."
        if self.waiting:
            last = show_time(self.bounds[-1][1], self.dated)
            events = "event waits" if self.waiting == 1 else "events wait"
            text += f" {self.waiting:,} {events} for the end of a window that goes beyond {last}."
        return text

    def __repr__(self) -> str:
        """The summary, and the first and last of them."""
        frame = self.to_frame().drop(columns=["start", "end"], errors="ignore")
        return f"{self.summary}\n{frame.to_string(index=False, max_rows=ROWS_SHOWN)}"

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        frame = self.to_frame()
        return f"<p>{html.escape(self.summary)}</p>{frame.to_html(index=False, max_rows=ROWS_SHOWN)}"


def make_snapshots(
    events: Events,
    windows: Windows,
    recipe: Recipe,
    table: KnownNodes | None = None,
    max_bytes: float = np.inf,
) -> Snapshots:
    """A graph per window, of at most `max_bytes` in all."""
    if recipe.keep not in NODES_KEPT:
        raise InputError(f"Expected `keep` among {', '.join(NODES_KEPT)} (got {recipe.keep!r}).")
    names, num_active = events.names, len(events.names)
    if table is not None and recipe.keep == "all":
        known = set(names)
        names += tuple(name for name in table.names if name not in known)
    rows = _rows_in(table, names)
    wanted = recipe.features if isinstance(recipe.features, (list, tuple)) else [recipe.features]
    codes = code_names(names) if "codes" in [one for one in wanted if isinstance(one, str)] else None
    if table is not None and table.x is not None and (rows[:num_active] < 0).any():
        stranger = names[int(np.argmax(rows[:num_active] < 0))]
        raise InputError(
            f"Expected every node of the events in the node table, for its features (got {stranger!r}, which is not "
            'among them); add it, or give features that are made here, such as features="degrees".'
        )
    # Nodes are numbered as they appear, so that those seen so far are the first ones.
    seen = _seen(events, windows) if recipe.keep == "seen" else None
    graphs: list[Data] = []
    room = max_bytes
    for place, (first, stop) in enumerate(zip(windows.first.tolist(), windows.stop.tolist(), strict=True)):
        events_in = np.arange(first, stop)
        if events.ends is not None:
            events_in = events_in[events.ends[first:stop] >= windows.ends[place]]
        source, target, moments = (values[events_in] for values in (events.source, events.target, events.times.values))
        weights = None if events.weights is None else events.weights[events_in]
        if recipe.keep == "all":
            nodes = np.arange(len(names))
        elif seen is not None:
            nodes = np.arange(seen[place])
        else:
            nodes = _active(events, windows, place)
        if not len(nodes):
            raise InputError(
                f"Expected an event in every window (that of {windows.names[place]} has none, and so no node); give a "
                'longer `window`, or keep="seen".'
            )
        if recipe.keep == "window":
            source, target = np.searchsorted(nodes, source), np.searchsorted(nodes, target)
        kinds = None if events.relation is None else events.relation[events_in]
        pooled = pool_edges(source, target, weights, recipe.rule, directed=recipe.directed, relations=kinds)
        called = names[: len(nodes)] if recipe.keep != "window" else tuple(names[node] for node in nodes.tolist())
        data = Data(edge_index=torch.from_numpy(pooled.edges), n_id=torch.from_numpy(nodes))
        if table is not None and table.x is not None:
            data.x = torch.from_numpy(np.ascontiguousarray(table.x[rows[nodes]], dtype=np.float32))
        else:
            moment = Moment(
                nodes, called, source, target, moments, weights, len(names),
                None if codes is None else codes[nodes],
            )  # fmt: skip
            data.x = make_features(moment, recipe.features)
        if windows.starts[place] < windows.ends[place]:  # else it is one of a list of graphs
            start, end = windows.starts[place].item(), windows.ends[place].item()
            data.edge_time, data.window = torch.from_numpy(moments[pooled.last]), torch.tensor([start, end])
            data.dated = torch.tensor(windows.dated)
        if pooled.weights is not None:
            data.edge_weight = torch.from_numpy(pooled.weights.astype(np.float32))
        if pooled.relations is not None:
            data.edge_type, data.relation_names = torch.from_numpy(pooled.relations), list(events.relation_names)
        if table is not None and table.y is not None:
            found = rows[nodes]
            data.y = torch.from_numpy(np.where(found >= 0, table.y[found], -1))
        data.node_names = list(called)
        if table is not None and table.class_names:
            data.class_names = list(table.class_names)
        graphs.append(data)
        room -= _num_bytes(data)
        if room < 0:
            raise TooLarge(
                f"Expected snapshots of at most {show_bytes(max_bytes)} in memory (got {len(windows.names):,}, of "
                f"which the first {place + 1:,} take more); give a longer `every` or a shorter `window`, or in "
                "Python a larger `max_bytes`."
            )
    words = recipe if table is None or table.x is None else recipe._replace(features="those of the node table")
    several = [f"{len(events.relation_names)} relations"] * (events.relation is not None)
    return Snapshots(
        tuple(graphs),
        windows.names,
        "; ".join([windows.rule, str(words), *several, *events.notes]),
        tuple(zip(windows.starts.tolist(), windows.ends.tolist(), strict=True)),
        windows.dated,
        len(events) - int(windows.stop[-1]),
    )


def _num_bytes(data: Data) -> int:
    """What a graph takes; of names, which snapshots share, the lists."""
    held = len(data.node_names) * np.dtype(np.intp).itemsize
    for value in data.to_dict().values():
        if isinstance(value, torch.Tensor):
            parts = (
                [value]
                if value.layout == torch.strided
                else [value.crow_indices(), value.col_indices(), value.values()]
            )
            held += sum(part.nbytes for part in parts)
    return held


def _seen(events: Events, windows: Windows) -> IntArray:
    """How many nodes have appeared by the end of each window; they appear in the order of their numbers."""
    _, first = np.unique(events.node, return_index=True)
    side: Any = "right" if windows.starts[0] == windows.ends[0] else "left"
    return np.asarray(np.searchsorted(events.node_times[first], windows.ends, side=side))


def _active(events: Events, windows: Windows, place: int) -> IntArray:
    """Nodes that appear within a window, sorted."""
    start, end = windows.starts[place], windows.ends[place]
    side: Any = "right" if start == end else "left"
    part = slice(np.searchsorted(events.node_times, start), np.searchsorted(events.node_times, end, side=side))
    return np.unique(events.node[part])


def _rows_in(table: KnownNodes | None, names: tuple[str, ...]) -> IntArray:
    """Row of each node in a table, -1 where it is not among them."""
    if table is None:
        return np.full(len(names), -1)
    return np.asarray(pd.Index(table.names).get_indexer(pd.Index(names)), dtype=np.int64)


def _edge_keys(graph: Data, some: Any = slice(None)) -> Any:
    """A value for each edge, or for some, sorted; both directions of a pair are one where every edge has one back."""
    ends = graph.n_id.numpy()[graph.edge_index.numpy()[:, some]]
    relations = graph.edge_type.numpy()[some] if graph.get("edge_type") is not None else np.zeros_like(ends[0])
    forth, back = (np.unique(_pairs_and_relations(way, relations)) for way in (ends, ends[::-1]))
    if not np.array_equal(forth, back):
        return forth
    source, target = split_keys(forth["pair"])
    return forth[source <= target]


def _pairs_and_relations(ends: IntArray, relations: IntArray) -> Any:
    """One value an edge, which orders by pair, then by relation."""
    held = np.empty(len(relations), dtype=[("pair", np.int64), ("relation", np.int64)])
    held["pair"], held["relation"] = pair_keys(*ends), relations
    return held

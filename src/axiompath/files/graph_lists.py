"""Graphs in order of time -> Snapshots: Data (elements of a data set), networkx graphs, scipy matrices, edge lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from torch_geometric.data import Data

from ..errors import InputError, WrongKind
from ..graphs.events import read_events
from ..graphs.sequence import KnownNodes, Recipe, Snapshots, make_snapshots
from ..graphs.windows import whole_windows
from .event_tables import Columns, find_columns, to_frame
from .graph_file import GraphFile, match_graphs
from .tables import WEIGHTS


class Listed(NamedTuple):
    """One graph of a list: its edges by the names of their ends, and the nodes that it has beside them."""

    source: Any
    target: Any
    weight: Any
    nodes: Any
    directed: bool


def is_graph_list(events: Any) -> bool:
    """Whether these are graphs, one per snapshot, rather than events."""
    if isinstance(events, (str, bytes, dict, pd.DataFrame)) or not isinstance(events, Iterable):
        return False
    if hasattr(events, "nodes") or hasattr(events, "src") or hasattr(events, "schema") or sparse.issparse(events):
        return False
    if isinstance(events, (np.ndarray, torch.Tensor)) and events.ndim == 2:  # rows (source, target, time)
        return False
    first = next(iter(events), None) if hasattr(events, "__getitem__") else None
    if isinstance(first, (tuple, list)) and first and not isinstance(first[0], (tuple, list)):
        return False
    return first is not None and not isinstance(first, (str, int, float))


def snapshots_of_graphs(
    graphs: Iterable[Any], recipe: Recipe, table: KnownNodes | None, directed: bool | None
) -> Snapshots:
    """A snapshot a graph, with the nodes that it has."""
    given = list(graphs)
    if len(given) < 2:
        raise InputError(f"Expected two graphs or more, in order of time (got {len(given)}).")
    called = tuple(f"snapshot {place}" for place in range(len(given)))
    if all(isinstance(one, (Data, GraphFile)) for one in given):
        return Snapshots(tuple(_with_numbers(given)), called, "the graphs as they were given")
    found = [_read_one(one, place) for place, one in enumerate(given)]
    bare = next((place for place, one in enumerate(found) if not len(one.source) and not len(one.nodes)), None)
    if bare is not None and recipe.keep != "all":
        raise InputError(
            f"Expected an edge in every list of edges (that in place {bare} has none, and so no node); give "
            'keep="all", or networkx graphs, which have nodes without edges, too.'
        )
    has_weights = all(one.weight is not None for one in found)
    moments = np.repeat(np.arange(len(found)), [len(one.source) for one in found])
    owner = np.repeat(np.arange(len(found)), [len(one.nodes) for one in found])
    events = read_events(
        np.concatenate([_objects(one.source) for one in found]),
        np.concatenate([_objects(one.target) for one in found]),
        moments,
        np.concatenate([np.asarray(one.weight, dtype=np.float64) for one in found]) if has_weights else None,
        what="the graphs", loops=True, further_nodes=(np.concatenate([_objects(one.nodes) for one in found]), owner),
    )  # fmt: skip
    way = any(one.directed for one in found) if directed is None else directed
    rule = recipe.rule if recipe.rule != "once" or not has_weights else "sum"
    asked = recipe._replace(directed=way, rule=rule, keep="window" if recipe.keep == "seen" else recipe.keep)
    words = str(asked).replace("nodes with an event in the window", "its own nodes")
    made = make_snapshots(events, whole_windows(events.times, len(found)), asked, table)
    return replace(
        made,
        names=called,
        bounds=(),
        rule=f"one graph each; {words}",
        waiting=0,
    )


def _with_numbers(given: list[Any]) -> list[Data]:
    """Data numbered alike, by `n_id`, by name, or by row."""
    files = [one if isinstance(one, GraphFile) else GraphFile(one, tuple(one.get("node_names") or ())) for one in given]
    matched = []
    for one in match_graphs(*files):
        if not isinstance(one.data, Data):
            raise WrongKind(f"Expected graphs in memory (got a {type(one.data).__name__}).")
        data = one.data.clone()
        if data.get("n_id") is None:
            data.n_id = torch.arange(int(data.num_nodes or 0))
        if one.row_names:
            data.node_names = list(one.row_names)
        matched.append(data)
    return matched


def _read_one(graph: Any, place: int) -> Listed:
    if hasattr(graph, "edges") and hasattr(graph, "is_directed"):
        edges = list(graph.edges(data=True))
        has_weights = bool(edges) and all("weight" in held for *_, held in edges)
        weights = [held["weight"] for *_, held in edges] if has_weights else None
        return Listed([u for u, *_ in edges], [v for _, v, _ in edges], weights, list(graph.nodes), graph.is_directed())
    if sparse.issparse(graph):
        if graph.shape[0] != graph.shape[1]:
            raise InputError(f"Expected square matrices (got one of shape {graph.shape} in place {place}).")
        matrix = sparse.coo_array(graph)
        is_directed = (abs(sparse.csr_array(graph) - sparse.csr_array(graph).T)).max() > 0 if matrix.nnz else False
        weights = None if (matrix.data == 1).all() else matrix.data
        kept = slice(None) if is_directed else matrix.row <= matrix.col  # one event a pair, whichever way
        return Listed(
            matrix.row[kept], matrix.col[kept], None if weights is None else weights[kept],
            np.arange(graph.shape[0]), bool(is_directed),
        )  # fmt: skip
    if isinstance(graph, pd.DataFrame) or hasattr(graph, "schema"):
        frame = to_frame(graph, f"graph {place} of the list")
        src, dst, *_ = find_columns(frame.assign(time=0), Columns(time="time"), f"graph {place} of the list")
        weight = next((name for name in WEIGHTS if name in frame), None)
        return Listed(frame[src], frame[dst], None if weight is None else frame[weight], [], False)
    pairs = _as_array(graph)
    if pairs.size == 0:
        return Listed([], [], None, [], False)
    # Two rows are an `edge_index`, but for those of a list that may be two edges, the third cell a weight.
    is_list = not isinstance(graph, (np.ndarray, torch.Tensor))
    if pairs.ndim == 2 and pairs.shape[0] == 2 and pairs.shape[1] not in ((2, 3) if is_list else ()):
        pairs = pairs.T
    if pairs.ndim != 2 or pairs.shape[1] not in (2, 3):
        raise WrongKind(
            "Expected a list of Data, networkx graphs, scipy matrices or edge lists of (source, target) or (source, "
            f"target, weight), all edges of a list alike (got another {type(graph).__name__} in place {place})."
        )
    return Listed(pairs[:, 0], pairs[:, 1], pairs[:, 2] if pairs.shape[1] == 3 else None, [], False)


def _as_array(graph: Any) -> Any:
    if hasattr(graph, "detach"):
        return graph.detach().cpu().numpy()
    try:
        return np.asarray(list(graph), dtype=object)
    except (ValueError, TypeError):  # edges of different lengths, or nothing that can be listed
        return np.asarray(None)


def _objects(values: Any) -> Any:
    return np.asarray(pd.Series(values, dtype=object))

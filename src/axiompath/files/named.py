"""Graphs as people hand them in -> the same as plain graphs, numbered alike, and the names that they bring along.

A GraphFile (what `read_graph` gives) has names beside its graph; a Data may have the fields `node_names`, one per row,
and `class_names`, as the graphs of `snapshots` do. Everything else is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

from torch_geometric.data import Data

from .graph_file import NAME_FIELDS, GraphFile, match_graphs


class NamedGraphs(NamedTuple):
    """Graphs, and the names of their nodes by number; None where none has any."""

    graphs: tuple[Any, ...]
    node_names: dict[int, str] | None
    class_names: tuple[str, ...]


def take_names(graphs: Sequence[Any]) -> NamedGraphs:
    """Names apart from the graphs; graphs that have names and no `n_id` are matched by name."""
    if not any(isinstance(graph, GraphFile) or _has_names(graph) for graph in graphs):
        return NamedGraphs(tuple(graphs), None, ())
    files = [_as_file(graph) for graph in graphs]
    here = [place for place, file in enumerate(files) if isinstance(file, GraphFile)]
    matched = match_graphs(*(files[place] for place in here))
    found = list(graphs)
    names: dict[int, str] = {}
    for place, file in zip(here, matched, strict=True):
        found[place] = file.data
        names |= file.node_names
    classes = next((file.class_names for file in matched if file.class_names), ())
    return NamedGraphs(tuple(found), names or None, classes)


def _has_names(graph: Any) -> bool:
    return isinstance(graph, Data) and any(graph.get(key) is not None for key in NAME_FIELDS)


def _as_file(graph: Any) -> Any:
    if not isinstance(graph, Data):
        return graph
    data = copy(graph)
    words = [tuple(str(name) for name in graph.get(key) or ()) for key in NAME_FIELDS]
    for key in NAME_FIELDS:
        if key in data:
            del data[key]
    return GraphFile(data, *words)

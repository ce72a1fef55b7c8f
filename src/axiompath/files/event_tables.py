"""Events and nodes as people hold them -> Events and a KnownNodes.

Events: a table in a file (CSV, packed or not, TSV, Parquet) or in memory (pandas, Arrow, whatever becomes one),
rows in a list, a TemporalData, a networkx graph whose edges have times. Graphs without times, in a list, are read by
graph_lists.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch_geometric.data import TemporalData

from ..errors import InputError, MissingFile, WrongKind
from ..graphs.clock import is_worded
from ..graphs.events import Events, read_events, read_labels
from ..graphs.sequence import KnownNodes
from ..storage.safe import MAX_BYTES, blamed
from .tables import (
    IDS,
    LABELS,
    ROWS_AT_A_TIME,
    SOURCES,
    TARGETS,
    as_features,
    check_names,
    column_names,
    listed,
    read_parts,
    read_table,
    table_kind,
)

SENDERS = (*SOURCES, "sender", "source_id", "src_id", "u")
RECEIVERS = (*TARGETS, "receiver", "recipient", "target_id", "dst_id", "v")
MOMENTS = ("time", "timestamp", "datetime", "date", "when", "day", "year", "t", "ts")
A_VALUE = r"\s*[+-]?[0-9][0-9.:/+TZ -]*"  # a number or a date: no name of a column


class Columns(NamedTuple):
    """What the columns of an event list are called; None where their names say it."""

    src: Any = None
    dst: Any = None
    time: Any = None
    weight: Any = None
    relation: Any = None
    end: Any = None


def read_event_table(
    events: Any, columns: Columns, *, periods: Sequence[Any] = (), loops: bool = False, max_bytes: float = MAX_BYTES
) -> Events:
    """Events from a file, a table in memory, rows, a TemporalData or a networkx graph; `periods` and moments that are
    given say whether times are dates or numbers."""
    table, what = as_table(events, columns, max_bytes)
    found = find_columns(table, columns, what)
    given = [period for period in periods if period is not None]
    read = read_events(
        *(None if name is None else table[name] for name in found),
        what=what, dated=any(map(is_worded, given)) if given else None, loops=loops,
    )  # fmt: skip
    every = column_names(Path(events)).columns if isinstance(events, (str, os.PathLike)) else table.columns
    unused = [str(name) for name in every if name not in found]
    return replace(read, notes=(*read.notes, *[f"columns not used: {', '.join(unused)}"] * bool(unused)))


def as_table(events: Any, columns: Columns, max_bytes: float) -> tuple[pd.DataFrame, str]:
    """Whatever holds events as a table, and what to call it in a message."""
    if isinstance(events, (str, os.PathLike)):
        return _read_file(Path(events), columns, max_bytes), str(events)
    if isinstance(events, TemporalData):
        return _of_temporal(events, columns.weight), "the TemporalData"
    if type(events).__module__.startswith("networkx") or (hasattr(events, "edges") and hasattr(events, "nodes")):
        return _of_networkx(events, columns), "the networkx graph"
    if isinstance(events, (np.ndarray, torch.Tensor)) and events.ndim == 2:
        events = events.tolist()
    if isinstance(events, Sequence) and len(events) and all(_is_row(row) for row in events[:100]):
        return _of_rows(events), "the list of events"
    return to_frame(events, "the events"), "the table of events"


def to_frame(table: Any, what: str) -> pd.DataFrame:
    """A table in memory, of any kind that can become a DataFrame."""
    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, Mapping):
        with blamed(f"Expected columns of one length in {what} (got others)."):
            return pd.DataFrame(dict(table))
    for method in ("to_pandas", "df", "toPandas"):  # Arrow and Polars, DuckDB, Spark
        if callable(getattr(table, method, None)):
            frame = getattr(table, method)()
            if isinstance(frame, pd.DataFrame):
                return frame
    if hasattr(table, "__arrow_c_stream__"):
        with blamed(f"Expected a table in {what} (got a {type(table).__name__} that is none)."):
            frame = pa.table(table).to_pandas()
        assert isinstance(frame, pd.DataFrame)
        return frame
    raise WrongKind(
        f"Expected {what} as a path, a DataFrame, an Arrow table, a TemporalData, a networkx graph or a list of rows "
        f"(source, target, time) (got {_kind_of(table)})."
    )


def _kind_of(table: Any) -> str:
    if not isinstance(table, Sequence) or isinstance(table, (str, bytes)):
        return type(table).__name__
    return f"a list that begins with {str(table[0])[:40]!r}" if len(table) else "an empty list"


def find_columns(table: pd.DataFrame, asked: Columns, what: str) -> list[Any]:
    """The columns of `Columns`, in order; weight, relation and end are None where none is asked for."""
    found: list[Any] = []
    for name, role, known in zip(asked, Columns._fields, (SENDERS, RECEIVERS, MOMENTS, (), (), ()), strict=True):
        if name is None and role in ("weight", "relation", "end"):
            found.append(None)
            continue
        column = _find(table, known if name is None else (name,))
        if column is None:
            wanted = f"a column such as {known[0]!r}" if name is None else f"the column {name!r}"
            nameless = any(re.fullmatch(A_VALUE, str(one)) for one in table.columns)
            remedy = "its first line must name the columns" if nameless else f"say which it is with `{role}`"
            raise InputError(f"Expected {wanted} in {what} (got {listed(table)}); {remedy}.")
        found.append(column)
    for place, column in enumerate(found):
        if column is not None and column in found[:place]:
            roles = f"`{Columns._fields[found.index(column)]}` and `{Columns._fields[place]}`"
            raise InputError(
                f"Expected a column for each of {roles} in {what} (got {column!r} for both); name another."
            )
    return found


def _find(table: pd.DataFrame, names: Sequence[Any]) -> Any:
    """The column of one of these names, as it is or else whatever the case of its letters."""
    plain = {str(column).strip().lower(): column for column in reversed(list(table.columns))}
    for name in names:
        if name in table.columns:
            return name
        if str(name).strip().lower() in plain:
            return plain[str(name).strip().lower()]
    return None


def _read_file(path: Path, columns: Columns, max_bytes: float) -> pd.DataFrame:
    """The columns that are needed, of a file however wide."""
    if not table_kind(path):
        if not path.exists():
            raise MissingFile(f"Expected a file at {path} (found none).")
        raise InputError(f"Expected events as .csv, .csv.gz, .tsv or .parquet (got {path}).")
    head = column_names(path)
    wanted = [name for name in find_columns(head, columns, str(path)) if name is not None]
    wanted = [str(name).strip().lower() for name in wanted]
    parts = [part[wanted] for part in read_parts(path, ROWS_AT_A_TIME, wanted, max_bytes)]
    check_names(parts, path, max_bytes)
    return pd.concat(parts, ignore_index=True) if parts else head


def _of_temporal(events: TemporalData, weight: Any) -> pd.DataFrame:
    columns = {"source": events.src, "target": events.dst, "time": events.t}
    if weight is not None:
        given = events.get(str(weight)) if hasattr(events, "get") else getattr(events, str(weight), None)
        if given is None or given.reshape(len(events.src), -1).shape[1] != 1:
            raise InputError(f"Expected one number per event in the field {weight!r} of the TemporalData (got others).")
        columns[weight] = given.reshape(-1)
    return pd.DataFrame({name: values.detach().cpu().numpy() for name, values in columns.items()})


def _of_networkx(graph: Any, columns: Columns) -> pd.DataFrame:
    edges = list(graph.edges(data=True))
    keys = {key for *_, held in edges[:1000] for key in held}
    time = _find(pd.DataFrame(columns=list(keys)), MOMENTS if columns.time is None else (columns.time,))
    if time is None:
        raise InputError(
            "Expected times on the edges of the networkx graph (got none); name their attribute with `time`, or give "
            "a list of graphs, one per snapshot."
        )
    columns_found: dict[Any, Any] = {
        "source": [u for u, _, _ in edges], "target": [v for _, v, _ in edges],
        time: [held.get(time) for *_, held in edges],
    }  # fmt: skip
    if columns.weight is not None:
        columns_found[columns.weight] = [held.get(columns.weight) for *_, held in edges]
    return pd.DataFrame(columns_found)


def _is_row(row: Any) -> bool:
    plain = (str, int, float, np.generic, pd.Timestamp, type(None))
    return isinstance(row, (tuple, list)) and len(row) in (3, 4) and all(
        isinstance(cell, plain) or hasattr(cell, "isoformat") for cell in row
    )  # fmt: skip


def _of_rows(rows: Sequence[Any]) -> pd.DataFrame:
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise InputError(f"Expected {width} values in every row of the list of events (got others in one).")
    return pd.DataFrame(list(rows), columns=["source", "target", "time", "weight"][:width])


def read_node_table(nodes: Any, max_bytes: float = MAX_BYTES, *, features: bool = True) -> KnownNodes:
    """Names, and where the table has them features and labels: a file, a table in memory, or labels by name."""
    what = "the node table"
    if isinstance(nodes, KnownNodes):
        return nodes
    if isinstance(nodes, (str, os.PathLike)):
        what = str(nodes)
        if not table_kind(Path(nodes)):
            raise InputError(f"Expected nodes as .csv, .csv.gz, .tsv or .parquet (got {nodes}).")
        table = read_table(Path(nodes), max_bytes)
    elif isinstance(nodes, Mapping) and not any(_find(pd.DataFrame(columns=list(nodes)), [one]) for one in IDS):
        table = pd.DataFrame({"id": list(nodes), "label": list(nodes.values())})
    elif isinstance(nodes, pd.Series):
        table = pd.DataFrame({"id": nodes.index, "label": nodes.to_numpy()})
    else:
        table = to_frame(nodes, what)
    key, label = _find(table, IDS), _find(table, LABELS)
    if key is None:
        raise InputError(f"Expected a column `id` in {what} (got {listed(table)}).")
    if table.empty:
        raise InputError(f"Expected a row per node in {what} (it has none).")
    names = read_labels(table[key])
    if names.isna().any():
        raise InputError(f"Expected a node in every row of {what} (row {int(np.argmax(names.isna())) + 1} has none).")
    if names.duplicated().any():
        twice = names[names.duplicated()].iloc[0]
        raise InputError(f"Expected every node once in {what} (got {twice!r} twice).")
    columns = [column for column in table.columns if column not in (key, label)]
    x = as_features(table, columns, Path(what)) if columns and features else None
    y, classes = (None, ()) if label is None else _read_classes(table[label])
    return KnownNodes(tuple(names), x, y, classes)


def _read_classes(column: pd.Series[Any]) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """Classes 0, 1, ... of labels, -1 if there is none; their names, unless they are called just that."""
    labels = read_labels(column)
    known = labels[labels.notna() & (labels != "-1")]
    unique = known.unique().tolist()
    if all(name.isdecimal() and len(name) < 10 for name in unique):
        unique.sort(key=int)
    else:
        unique.sort()
    places = {name: place for place, name in enumerate(unique)}
    y = labels.map(places).fillna(-1).to_numpy(dtype=np.int64)
    return y, () if unique == [str(place) for place in range(len(unique))] else tuple(unique)

"""An edge list and a node table, CSV or Parquet -> names, features and edges.

Edges: the columns `source` and `target`, and `weight` where edges have one. Nodes: the column `id` (or `node` or
`name`), `label` where a class is known, and a number in every other column: the features, in the table's order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.lib
import pyarrow.parquet

from ..errors import InputError
from .sizes import check_file, check_size

SUFFIXES = (".csv", ".tsv", ".parquet")
SOURCES, TARGETS, WEIGHTS = ("source", "src", "from"), ("target", "dst", "to"), ("weight", "edge_weight")
IDS, LABELS = ("id", "node", "name"), ("label", "y", "class")


def read_edges(path: Path, max_bytes: float) -> pd.DataFrame:
    """Columns source and target as text, and weight where there is one."""
    table = read_table(path, max_bytes)
    source, target = _find(table, SOURCES), _find(table, TARGETS)
    if source is None or target is None:
        raise InputError(f"Expected the columns `source` and `target` in the edge list {path} (got {_listed(table)}).")
    edges = pd.DataFrame({"source": _names(table[source], path), "target": _names(table[target], path)})
    weight = _find(table, WEIGHTS)
    if weight is not None:
        edges["weight"] = _numbers(table[weight], weight, path)
    return edges


def read_nodes(path: Path, max_bytes: float) -> tuple[list[str], np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Names, features [num_nodes, num_features] and labels, if any."""
    table = read_table(path, max_bytes)
    key = _find(table, IDS)
    if key is None:
        raise InputError(f"Expected a column `id` in the node table {path} (got {_listed(table)}).")
    names = _names(table[key], path).tolist()
    if len(set(names)) != len(names):
        twice = pd.Series(names).duplicated()
        raise InputError(f"Expected every node once in {path} (got {names[int(np.argmax(twice))]!r} twice).")
    label = _find(table, LABELS)
    columns = [column for column in table.columns if column not in (key, label)]
    if not columns:
        raise InputError(f"Expected features, a number a column, in the node table {path} (got names alone).")
    x = np.stack([_numbers(table[column], column, path) for column in columns], axis=1)
    return names, x, None if label is None else table[label].to_numpy()


def read_table(path: Path, max_bytes: float) -> pd.DataFrame:
    """A table, its columns' names in lower case."""
    check_file(path, max_bytes)
    try:
        if path.suffix == ".parquet":
            groups = pyarrow.parquet.read_metadata(path)
            size = sum(groups.row_group(i).total_byte_size for i in range(groups.num_row_groups))
            check_size(path, size, max_bytes)
            table: pd.DataFrame = pyarrow.parquet.read_table(path).to_pandas()
        else:
            separator = "\t" if path.suffix == ".tsv" else ","
            table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except InputError:
        raise
    except (pyarrow.lib.ArrowException, ValueError, OSError, OverflowError, MemoryError) as error:
        kind = "Parquet" if path.suffix == ".parquet" else "CSV"
        raise InputError(f"Expected a {kind} table at {path} (it is cut short, or of another kind).") from error
    table.columns = [str(column).strip().lower() for column in table.columns]
    if table.columns.duplicated().any():
        raise InputError(f"Expected columns of different names in {path} (got {_listed(table)}).")
    return table


def _find(table: pd.DataFrame, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in table.columns), None)


def _listed(table: pd.DataFrame) -> str:
    shown = ", ".join(repr(str(column)[:30]) for column in table.columns[:8])
    return f"{shown}, …" if len(table.columns) > 8 else shown


def _names(column: pd.Series[Any], path: Path) -> pd.Series[str]:
    missing = column.isna() | (column.astype(str).str.strip() == "")
    if missing.any():
        raise InputError(f"Expected a node in every row of {path} (row {int(np.argmax(missing)) + 1} has none).")
    return column.astype(str).str.strip()


def _numbers(column: pd.Series[Any], name: str, path: Path) -> np.ndarray[Any, Any]:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"Expected a number in every row of the column {name!r} of {path} (row {row + 1} has {column.iloc[row]!r})."
        )
    return numbers

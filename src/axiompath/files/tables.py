"""An edge list and a node table, CSV or Parquet -> names, features and edges.

Edges: the columns `source` and `target`, and `weight` where edges have one. Nodes: the column `id` (or `node` or
`name`), `label` where a class is known, and a number in every other column: the features, in the table's order.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    source, target = find_column(table, SOURCES), find_column(table, TARGETS)
    if source is None or target is None:
        raise InputError(f"Expected the columns `source` and `target` in the edge list {path} (got {listed(table)}).")
    edges = pd.DataFrame({"source": _names(table[source], path), "target": _names(table[target], path)})
    weight = find_column(table, WEIGHTS)
    if weight is not None:
        edges["weight"] = as_numbers(table[weight], weight, path)
    return edges


def read_nodes(path: Path, max_bytes: float) -> tuple[list[str], np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Names, features [num_nodes, num_features] and labels, if any."""
    table = read_table(path, max_bytes)
    key = find_column(table, IDS)
    if key is None:
        raise InputError(f"Expected a column `id` in the node table {path} (got {listed(table)}).")
    names = _names(table[key], path).tolist()
    if len(set(names)) != len(names):
        twice = pd.Series(names).duplicated()
        raise InputError(f"Expected every node once in {path} (got {names[int(np.argmax(twice))]!r} twice).")
    label = find_column(table, LABELS)
    columns = [column for column in table.columns if column not in (key, label)]
    if not columns:
        raise InputError(f"Expected features, a number a column, in the node table {path} (got names alone).")
    x = np.stack([as_numbers(table[column], column, path) for column in columns], axis=1)
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
            table = pd.read_csv(path, sep=_separator(path), dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except InputError:
        raise
    except (pyarrow.lib.ArrowException, ValueError, OSError, OverflowError, MemoryError) as error:
        raise _damaged(path) from error
    return _with_plain_names(table, path)


def column_names(path: Path) -> pd.DataFrame:
    """The columns of a table, without its rows."""
    check_file(path, float("inf"))
    try:
        if path.suffix == ".parquet":
            table = pd.DataFrame(columns=pyarrow.parquet.read_schema(path).names)
        else:
            table = pd.read_csv(path, sep=_separator(path), dtype=str, nrows=0, encoding="utf-8-sig")
    except (pyarrow.lib.ArrowException, ValueError, OSError) as error:
        raise _damaged(path) from error
    return _with_plain_names(table, path)


def read_parts(path: Path, num_rows: int, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
    """A table so many rows at a time: as `read_table`, but never all of it; `columns` are names in lower case."""
    check_file(path, float("inf"))
    try:
        for part in (
            _parquet_parts(path, num_rows, columns) if path.suffix == ".parquet" else _csv_parts(path, num_rows)
        ):
            yield _with_plain_names(part, path)
    except InputError:
        raise
    except (pyarrow.lib.ArrowException, ValueError, OSError, OverflowError) as error:
        raise _damaged(path) from error


def _parquet_parts(path: Path, num_rows: int, columns: list[str] | None) -> Iterator[pd.DataFrame]:
    # With a buffer of its own, a column is read as it is needed and not a whole row group at once.
    with pyarrow.parquet.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False) as table:
        given = table.schema_arrow.names
        kept = given if columns is None else [name for name in given if str(name).strip().lower() in columns]
        for batch in table.iter_batches(num_rows, columns=kept, use_threads=False):
            yield batch.to_pandas()


def _csv_parts(path: Path, num_rows: int) -> Iterator[pd.DataFrame]:
    settings: dict[str, Any] = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
    with pd.read_csv(path, sep=_separator(path), chunksize=num_rows, **settings) as parts:
        yield from parts


def _separator(path: Path) -> str:
    return "\t" if path.suffix == ".tsv" else ","


def _damaged(path: Path) -> InputError:
    kind = "Parquet" if path.suffix == ".parquet" else "CSV"
    return InputError(f"Expected a {kind} table at {path} (it is cut short, or of another kind).")


def _with_plain_names(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    table.columns = [str(column).strip().lower() for column in table.columns]
    if table.columns.duplicated().any():
        raise InputError(f"Expected columns of different names in {path} (got {listed(table)}).")
    return table


def find_column(table: pd.DataFrame, names: tuple[str, ...]) -> str | None:
    """The first of these names that is a column."""
    return next((name for name in names if name in table.columns), None)


def listed(table: pd.DataFrame) -> str:
    """The columns, for a message."""
    shown = ", ".join(repr(str(column)[:30]) for column in table.columns[:8])
    return f"{shown}, …" if len(table.columns) > 8 else shown


def _names(column: pd.Series[Any], path: Path) -> pd.Series[str]:
    missing = column.isna() | (column.astype(str).str.strip() == "")
    if missing.any():
        raise InputError(f"Expected a node in every row of {path} (row {int(np.argmax(missing)) + 1} has none).")
    return column.astype(str).str.strip()


def as_numbers(column: pd.Series[Any], name: str, path: Path) -> np.ndarray[Any, Any]:
    """A column as float64, all of it finite."""
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"Expected a number in every row of the column {name!r} of {path} (row {row + 1} has {column.iloc[row]!r})."
        )
    return numbers

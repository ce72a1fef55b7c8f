"""Explanations -> one Parquet file, whole or not there at all; and back.

A row is a target. One that failed has its reason in `problem` and nothing else. Files are written under a name of their
own, pushed to the disk and renamed; the same rows always give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError
from ..explanation import FORMAT, VERSION, Explanation
from ..pages import longest_text, open_parquet, spell_out
from ..states import KINDS
from ..trust import MAX_BYTES, blamed, bound_growth, check_size
from ..writing import whole_file

NOTES = b"axiompath"
PYTHON_GROWTH = 16  # of a number, from Parquet's 8 bytes to an object in a list
GROUP = 100  # rows held in memory at a time; a number of the format: it decides the bytes

VECTOR, LABELS = pa.list_(pa.float64()), pa.list_(pa.string())
COLUMNS: dict[str, pa.DataType] = {
    "target": pa.int64(),
    "problem": pa.string(),
    "class_before": pa.int64(),
    "class_after": pa.int64(),
    "kl": pa.float64(),
    "num_paths": pa.int64(),
    "kl_residual": pa.float64(),
    "kl_bound": pa.float64(),
    "gap": pa.float64(),
    "fidelity_minus": pa.float64(),
    "fidelity_plus": pa.float64(),
    "completeness": pa.float64(),
    "status": pa.string(),
    "method": pa.string(),
    "objective": pa.string(),
    "budget": pa.int64(),
    "prob_before": VECTOR,
    "prob_after": VECTOR,
    "logits_before": VECTOR,
    "logits_after": VECTOR,
    "paths": pa.list_(pa.list_(pa.int64())),
    "contributions": pa.list_(VECTOR),
    "weights": VECTOR,
    "kinds": LABELS,
    "causes": pa.struct([(kind, VECTOR) for kind in KINDS]),
    "node_names": pa.map_(pa.int64(), pa.string()),
    "class_names": LABELS,
}
SCHEMA = pa.schema(list(COLUMNS.items()))


@dataclass(frozen=True)
class Failure:
    """A target that could not be explained."""

    target: int
    problem: str


def write_part(path: Path, found: Iterable[Explanation | Failure], digest: str, num_targets: int) -> None:
    """Write the rows as they come, some at a time; nobody ever sees a file that is not whole."""
    notes = {NOTES: json.dumps({"scan": digest, "targets": num_targets}).encode()}
    schema = SCHEMA.with_metadata(notes)
    rows = iter(found)
    with whole_file(path) as stream, pq.ParquetWriter(stream, schema) as writer:
        while group := [_to_row(item) for item in islice(rows, GROUP)]:
            columns = [pa.array([row.get(name) for row in group], type=kind) for name, kind in COLUMNS.items()]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def write_whole(path: Path, table: pa.Table) -> None:
    """A Parquet file under its name only once the disk has all of it."""
    with whole_file(path) as stream:
        pq.write_table(table, stream)


def is_whole(path: Path, digest: str, num_targets: int) -> bool:
    """Whether the file is this scan's, with all its rows."""
    try:
        notes = json.loads((pq.read_schema(path).metadata or {}).get(NOTES, b"{}"))
    except (OSError, pa.ArrowException, ValueError):
        return False
    return bool(notes == {"scan": digest, "targets": num_targets})


def read_part(path: Path, num_targets: int) -> Iterator[Explanation | Failure]:
    """The rows again, in order."""
    found = 0
    rows = _read_rows(path)
    while True:
        with _damaged(path):
            row = next(rows, None)
            item = None if row is None else _from_row(row)
        if item is None:
            break
        found += 1
        yield item
    if found != num_targets:
        raise InputError(f"Expected {num_targets:,} targets in {path} (got {found:,}); run the scan again.")


def read_columns(path: Path, names: list[str], num_rows: int) -> pd.DataFrame:
    """Columns of numbers and text of a file that a scan wrote."""
    with _damaged(path), open_parquet(path, MAX_BYTES) as file:
        kinds = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
        plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_dictionary)
        if not all(name in kinds and any(is_kind(kinds[name]) for is_kind in plain) for name in names):
            raise InputError(f"Expected the columns {', '.join(names)} of a scan in {path} (got others).")
        limit = bound_growth(path, MAX_BYTES)
        parts = [spell_out(batch, path, limit) for batch in file.iter_batches(1 << 16, columns=names)]
        frame = pa.Table.from_batches(parts).to_pandas(ignore_metadata=True) if parts else pd.DataFrame(columns=names)
    if len(frame) != num_rows:
        raise InputError(f"Expected {num_rows:,} rows in {path} (got {len(frame):,}); run the scan again.")
    return frame[names]


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    with open_parquet(path, MAX_BYTES) as file:
        if [field.name for field in file.schema_arrow] != list(COLUMNS):
            raise InputError(f"Expected the columns of a scan in {path} (got others); run the scan again.")
        limit = bound_growth(path, MAX_BYTES)
        for batch in file.iter_batches(batch_size=256):
            batch.validate(full=True)
            longest = max((longest_text(column) for column in batch.columns), default=0)
            for row in range(batch.num_rows):
                one = batch.slice(row, 1)
                # A number becomes a Python object; a place in a dictionary, 4 bytes, a text as long as any.
                check_size(path, one.nbytes * (PYTHON_GROWTH + longest / 4), limit)
                yield one.to_pylist(maps_as_pydicts="strict")[0]


def _damaged(path: Path) -> AbstractContextManager[None]:
    return blamed(f"Expected a whole part of a scan at {path} (it is cut short or damaged).")


def _to_row(item: Explanation | Failure) -> dict[str, Any]:
    if isinstance(item, Failure):
        return {"target": item.target, "problem": item.problem}
    row = {}
    for field in fields(item):
        value = getattr(item, field.name)
        if field.name in COLUMNS:
            row[field.name] = value.tolist() if isinstance(value, np.ndarray) else value
    return row


def _from_row(row: dict[str, Any]) -> Explanation | Failure:
    problem = row.pop("problem")
    if problem is not None:
        if type(row["target"]) is not int or type(problem) is not str:
            raise ValueError("neither a target nor its problem")
        return Failure(row["target"], problem)
    return Explanation.from_dict({"format": FORMAT, "version": VERSION, **row})

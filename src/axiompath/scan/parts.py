"""Explanations -> one Parquet file, whole or not there at all; and back.

A row is a target. One that failed has its reason in `problem` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .. import parquet
from ..errors import InputError
from ..explanation import FORMAT, VERSION, Explanation
from ..states import KINDS

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


def notes_of(digest: str, num_targets: int) -> dict[str, Any]:
    """What a part says of itself: the scan that it belongs to, and how many targets it has."""
    return {"scan": digest, "targets": num_targets}


def write_part(path: Path, found: Iterable[Explanation | Failure], digest: str, num_targets: int) -> None:
    """Write the rows as they come, some at a time; nobody ever sees a file that is not whole."""
    schema = parquet.with_notes(SCHEMA, notes_of(digest, num_targets))
    rows = iter(found)

    def tables() -> Iterator[pa.Table]:
        while group := [_to_row(item) for item in islice(rows, GROUP)]:
            columns = [pa.array([row.get(name) for row in group], type=kind) for name, kind in COLUMNS.items()]
            yield pa.Table.from_arrays(columns, schema=schema)

    parquet.write_part(path, tables(), schema)


def read_part(path: Path) -> Iterator[Explanation | Failure]:
    """The rows again, in order."""
    try:
        file = pq.ParquetFile(path)
        if [field.name for field in file.schema_arrow] != list(COLUMNS):
            raise InputError(f"Expected the columns of a scan in {path} (got others); run the scan again.")
        for batch in file.iter_batches(batch_size=256):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                yield _from_row(row)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"Expected a whole part of a scan at {path} (it is cut short or damaged).") from error


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
        return Failure(row["target"], problem)
    return Explanation.from_dict({"format": FORMAT, "version": VERSION, **row})

"""Tables -> Parquet files, written atomically; parts of a long run -> the same, with a record of their digests.

The digest of a part is taken from the bytes as they are written, not from what the disk gives back later. Its record,
`part.sha256` beside `part.parquet` in the format of `sha256sum`, is written before the part takes its name: a part
without the digest in its record is damaged, one that is not there was never finished, and both are made again when the
run goes on. The same tables always give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError
from .safe import Damaged, check_file, parse_json
from .writing import file_digest, whole_file, write_text

NOTES = b"axiompath"  # the key of a file's metadata under which our notes are


def write_parquet(path: Path, tables: Iterable[pa.Table], schema: pa.Schema, *, record: bool = False) -> str:
    """One file of all the tables, each a group of rows; returns the digest of its bytes, and may record it first."""
    held = pa.BufferOutputStream()
    with pq.ParquetWriter(held, schema) as writer:
        for table in tables:
            writer.write_table(table)
    content = held.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    with whole_file(path) as stream:
        stream.write(content)
        if record:
            write_text(record_of(path), f"{digest}  {path.name}\n")
    return digest


def write_part(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    """The same, with the digest recorded beside it."""
    write_parquet(path, tables, schema, record=True)


def record_of(path: Path) -> Path:
    """Where the digest of a part is."""
    return path.with_suffix(".sha256")


def recorded_digest(path: Path) -> str:
    """The digest that the part had when it was written; InputError where the record is damaged."""
    check_file(record_of(path))
    with record_of(path).open("rb") as stream:
        words = stream.read(500).decode().split()
    if not (words and re.fullmatch("[0-9a-f]{64}", words[0]) and words[1:] == [path.name]):
        raise InputError(f"Expected a digest and {path.name} in {record_of(path)} (got something else).")
    return words[0]


def is_whole(path: Path, notes: Mapping[str, Any] | None = None) -> bool:
    """Whether the part is as it was written; and, with `notes`, whether those are the ones it was written with."""
    try:
        if not path.is_file() or file_digest(path) != recorded_digest(path):
            return False
        return notes is None or read_notes(pq.read_schema(path)) == notes
    except (OSError, pa.ArrowException, ValueError):
        return False


def with_notes(schema: pa.Schema, notes: Mapping[Any, Any]) -> pa.Schema:
    """The schema with notes that JSON can hold in its metadata."""
    return schema.with_metadata({**(schema.metadata or {}), NOTES: json.dumps(notes).encode()})


def read_notes(schema: pa.Schema) -> dict[Any, Any]:
    """The notes again; an empty dict where there are none that can be read."""
    try:
        notes = parse_json((schema.metadata or {}).get(NOTES, b"{}"))
    except (ValueError, RecursionError, Damaged):
        return {}
    return notes if isinstance(notes, dict) else {}

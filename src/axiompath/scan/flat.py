"""A part of a scan -> Flat: its explanations as flat arrays, for what looks at all of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import FloatArray, IntArray
from ..change.states import CAUSE_WORDS
from ..graphs.labels import ABSENT
from ..paths.table import KIND_WORDS, UNCHANGED, PathTable
from ..storage.parquet_pages import longest_text, open_parquet
from ..storage.safe import MAX_BYTES, Damaged, blamed
from .parts import PARTNER, check_columns

LONGEST_KIND = 64  # bytes; no kind has as many
NEEDED = ["target", "name", "problem", "class_before", "class_after", "kl", "num_paths", "kl_residual"]
NESTED = ["logits_before", "logits_after", "paths", "contributions", "kinds", "causes"]


class Flat(NamedTuple):
    """What a part says of the targets that were explained, n of them, with p chosen paths in all."""

    rows: IntArray  # [n]: places among all rows of the part, failures included
    targets: IntArray  # [n, 1], or [n, 2] of links
    names: list[str] | None  # [n]; None where they are the numbers
    classes: IntArray  # [n, 2]
    kl: FloatArray  # [n]
    num_paths: FloatArray  # [n]
    residual: FloatArray  # [n]
    logits_before: FloatArray  # [n, num_classes]
    logits_after: FloatArray  # [n, num_classes]
    causes: FloatArray  # [n, len(CAUSE_WORDS), num_classes]
    chosen: PathTable  # of the n


def read_flat(path: Path) -> Flat:
    """All rows of a part; call `Scan` for its digest first."""
    with (
        blamed(f"Expected a whole part of a scan at {path} (it is cut short or damaged)."),
        open_parquet(path, MAX_BYTES) as file,
    ):
        check_columns(file, path)
        held = file.schema_arrow.names
        wanted = [*NEEDED, *NESTED, *([PARTNER] if PARTNER in held else [])]
        if not {*wanted} - {"name"} <= {*held}:
            raise Damaged("other columns than a scan writes")
        # Arrow reads lists of text a group of rows at a time, and all else at once.
        groups = range(file.metadata.num_row_groups)
        kinds = [batch for g in groups for batch in file.iter_batches(1 << 14, row_groups=[g], columns=["kinds"])]
        plain = [name for name in wanted if name in held and name != "kinds"]
        batches = list(file.iter_batches(1 << 14, columns=plain))
        for batch in (*batches, *kinds):
            batch.validate(full=True)
        if not batches:
            raise Damaged("no rows")
        words = pa.chunked_array([_kind_numbers(batch.column("kinds")) for batch in kinds])
        table = pa.Table.from_batches(batches).unify_dictionaries()
        return _flatten(table.append_column("kinds", words).combine_chunks())


def _kind_numbers(lists: Any) -> Any:
    """Lists of kinds -> lists of their places in KIND_WORDS."""
    if longest_text(lists) > LONGEST_KIND:
        raise Damaged("a kind that is none")
    words = lists.flatten()
    found = pc.index_in(words.cast(pa.string()), pa.array(KIND_WORDS))
    offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), found)


def _flatten(table: pa.Table) -> Flat:
    keep = pc.is_null(table.column("problem"))
    rows = np.flatnonzero(keep.to_numpy(zero_copy_only=False))
    table = table.take(pa.array(rows)).combine_chunks()
    n = len(rows)
    before, after = (read_matrix(read_whole(table, name), n) for name in ("logits_before", "logits_after"))
    size = before.shape[1]
    lists = read_whole(table, "paths")
    indptr = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False))])
    num_paths = int(indptr[-1])
    paths = read_matrix(lists.flatten(), num_paths).astype(np.int64)
    contributions = read_matrix(read_whole(table, "contributions").flatten(), num_paths, size)
    kinds = read_whole(table, "kinds").flatten()
    if len(kinds) != num_paths or kinds.null_count or (num_paths and paths.min() < ABSENT):
        raise Damaged("paths and kinds that do not fit")
    causes = read_whole(table, "causes")
    names = [field.name for field in causes.type]
    if not {*names} <= {*CAUSE_WORDS} or after.shape != before.shape:
        raise Damaged("other causes than there are")
    none = np.zeros((n, size))  # a cause that nobody knew when the scan was written
    parts = [read_matrix(causes.field(name), n, size) if name in names else none for name in CAUSE_WORDS]
    classes = np.stack([_numbers(table, name) for name in ("class_before", "class_after")], axis=1).astype(np.int64)
    if n and not 0 <= classes.min() <= classes.max() < max(size, 2):
        raise Damaged("classes that are none")
    if not all(np.isfinite(values).all() for values in (before, after, contributions, *parts)):
        raise Damaged("numbers that are none")
    codes = kinds.to_numpy(zero_copy_only=False)
    codes = np.where(codes == len(KIND_WORDS) - 1, UNCHANGED, codes).astype(np.int8)
    targets = [_numbers(table, name).astype(np.int64) for name in ("target", PARTNER) if name in table.column_names]
    return Flat(
        rows,
        np.stack(targets, axis=1),
        _names(table, targets),
        classes,
        _numbers(table, "kl").astype(np.float64),
        _numbers(table, "num_paths").astype(np.float64),
        _numbers(table, "kl_residual").astype(np.float64),
        before,
        after,
        np.stack(parts, axis=1),
        PathTable(indptr, paths, contributions, codes),
    )


def read_whole(table: pa.Table, name: str) -> Any:
    """A column in one piece."""
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _numbers(table: pa.Table, name: str) -> Any:
    column = read_whole(table, name)
    if column.null_count:
        raise Damaged("a number that is missing")
    return column.to_numpy(zero_copy_only=False)


def read_matrix(lists: Any, num_rows: int, width: int | None = None) -> Any:
    """Lists of one length -> [num_rows, length]."""
    values = lists.flatten()
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    size = width if width is not None else int(lengths[0]) if num_rows else 1  # of no rows, any width will do
    if len(lists) != num_rows or lists.null_count or values.null_count or (lengths != size).any():
        raise Damaged("lists of other lengths")
    return values.to_numpy(zero_copy_only=False).reshape(num_rows, size)


def _names(table: pa.Table, targets: list[IntArray]) -> list[str] | None:
    if "name" not in table.column_names:
        return None
    names = [str(name) for name in read_whole(table, "name").to_pylist()]
    return None if len(targets) == 1 and names == [str(number) for number in targets[0].tolist()] else names

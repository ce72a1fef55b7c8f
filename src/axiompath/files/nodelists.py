"""A node table, x.npy, the arrays of an .npz or another stored graph -> features on disk, and the row of every node.

A node table is read a batch at a time and its features written as they come; what stays in memory is the nodes' ids,
and nothing where these are 0 to N - 1 in order.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from scipy import sparse

from ..arrays import IntArray
from ..errors import InputError
from ..graphs.stored import StoredGraph
from ..storage.memory import pieces
from ..storage.safe import blamed
from .tables import (
    IDS,
    LABELS,
    ROWS_AT_A_TIME,
    as_features,
    as_names,
    column_names,
    find_column,
    is_class,
    listed,
    read_parts,
)

NUMBER_BYTES = 48  # at the peak, a number of a table as read, as float64, stacked, and as it is written


@dataclass(frozen=True, eq=False)
class Numbering:
    """Which row each node has."""

    num_nodes: int
    names: Any = None  # pyarrow.LargeStringArray, or None where a node's name is its row
    numbers: IntArray | None = None  # the same names where all of them are whole numbers

    @property
    def num_bytes(self) -> int:
        """Memory that it takes, with what it takes to look nodes up."""
        numbers = 0 if self.numbers is None else 24 * self.num_nodes
        return numbers + (0 if self.names is None else 3 * self.names.nbytes)

    def rows(self, ids: Any, where: Path) -> IntArray:
        """Row of each id: whole numbers, or text."""
        if self.names is None or self.numbers is not None:
            numbers = ids if isinstance(ids, np.ndarray) else _whole_numbers(ids)
            if numbers is None:
                raise InputError(f"Expected the nodes' numbers in {where} (got {_first_word(ids)!r}).")
            if self.numbers is None:
                found = numbers
                wrong = (numbers < 0) | (numbers >= self.num_nodes)
            else:
                found = np.minimum(np.searchsorted(self.numbers, numbers, sorter=self._order), self.num_nodes - 1)
                found = self._order[found]
                wrong = self.numbers[found] != numbers
            if wrong.any():
                self._refuse(int(numbers[wrong][0]), where)
            return found
        text = pyarrow.array(ids).cast(pyarrow.large_string()) if isinstance(ids, np.ndarray) else ids
        place = pyarrow.compute.index_in(text, value_set=self.names)
        if place.null_count:
            self._refuse(text.filter(pyarrow.compute.is_null(place))[0].as_py(), where)
        return np.asarray(place.to_numpy(zero_copy_only=False)).astype(np.int64)

    @cached_property
    def _order(self) -> IntArray:
        assert self.numbers is not None
        return np.argsort(self.numbers, kind="stable")

    def _refuse(self, stranger: Any, where: Path) -> None:
        raise InputError(f"Expected the {self.num_nodes:,} nodes of the node table in {where} (got {stranger!r}).")


class ArrayWriter:
    """An .npy file written row by row; how many rows it has is known at the end."""

    def __init__(self, path: Path, dtype: Any, columns: int | None = None) -> None:
        self.dtype, self.num_rows = np.dtype(dtype), 0
        self._columns = () if columns is None else (columns,)
        self._file = path.open("wb")
        self._write_header()

    def append(self, rows: Any) -> None:
        """More rows."""
        np.ascontiguousarray(rows, dtype=self.dtype).tofile(self._file)
        self.num_rows += len(rows)

    def close(self) -> None:
        """Write down how many rows there are."""
        end = self._file.tell()
        self._file.seek(0)
        self._write_header()
        self._file.seek(end)
        self._file.close()

    def _write_header(self) -> None:
        # numpy leaves room in the header for the first number of the shape to grow.
        description = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": description, "fortran_order": False, "shape": (self.num_rows, *self._columns)}
        np.lib.format.write_array_header_1_0(self._file, header)


def store_table(path: Path, draft: Path, memory: float) -> tuple[Numbering, int, tuple[str, ...]]:
    """Read a node table; its features are written to the draft. Also their number, and the names of the classes."""
    ids: list[Any] = []
    labels: set[str] = set()
    writer: ArrayWriter | None = None
    num_rows = int(memory / 4 / NUMBER_BYTES / max(len(column_names(path).columns), 1))
    for part in read_parts(path, min(max(num_rows, 256), ROWS_AT_A_TIME)):
        key, label = find_column(part, IDS), find_column(part, LABELS)
        if key is None:
            raise InputError(f"Expected a column `id` in the node table {path} (got {listed(part)}).")
        columns = [column for column in part.columns if column not in (key, label)]
        if not columns:
            raise InputError(f"Expected features, one number per column, in the node table {path} (got only names).")
        ids.append(read_ids(part[key], path))
        if label is not None:
            labels.update(str(value) for value in part[label].unique())
        writer = writer or ArrayWriter(draft / "x.npy", np.float32, len(columns))
        writer.append(as_features(part, columns, path))
    if writer is None or writer.num_rows == 0:
        raise InputError(f"Expected at least one node in {path} (got none).")
    writer.close()
    words = tuple(sorted(labels)) if not all(is_class(label) for label in labels) else ()
    return number_nodes(_join(ids), path), len(columns), words


def number_nodes(ids: Any, where: Path) -> Numbering:
    """Rows of these ids, whole numbers or text, each of which must be there once."""
    numbers = ids if isinstance(ids, np.ndarray) else _whole_numbers(ids)
    if numbers is not None:
        if np.array_equal(numbers, np.arange(len(numbers))):
            return Numbering(len(numbers))
        ordered = np.sort(numbers)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        names = pyarrow.array(numbers).cast(pyarrow.large_string())
    else:
        names = ids
        twice = []
        if pyarrow.compute.count_distinct(names).as_py() < len(names):
            counts = pyarrow.compute.value_counts(names)
            twice = counts.filter(pyarrow.compute.greater(counts.field("counts"), 1)).field("values").to_pylist()
    if len(twice):
        raise InputError(f"Expected every node once in {where} (got {twice[0]!s:.40} twice).")
    return Numbering(len(names), names, numbers)


def read_ids(column: pd.Series[Any], path: Path) -> Any:
    """Whole numbers as int64, anything else as text without blanks around it."""
    with blamed(f"Expected text or numbers that name the nodes in {path} (got {column.dtype})."):
        if pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any():
            return column.to_numpy(dtype=np.int64)
        words = pyarrow.array(as_names(column, path), pyarrow.large_string())
    return words.combine_chunks() if isinstance(words, pyarrow.ChunkedArray) else words


def store_array(x: Any, draft: Path, where: Path) -> None:
    """Copy features from a mapped array, a piece at a time."""
    if x.ndim != 2 or x.dtype.kind not in "iuf":
        raise InputError(f"Expected numbers of shape [num_nodes, num_features] in {where} (got {x.dtype} {x.shape}).")
    dtype = np.float64 if x.dtype == np.float64 else np.float32
    writer = ArrayWriter(draft / "x.npy", dtype, x.shape[1])
    step = max(ROWS_AT_A_TIME * 16 // max(x.shape[1], 1), 1)
    for piece in pieces(x, step):
        if not np.isfinite(piece).all():
            raise InputError(f"Expected finite features in {where} (got NaN or infinite ones).")
        writer.append(piece)
    writer.close()


def store_sparse(parts: dict[str, Any], draft: Path) -> None:
    """Copy sparse features, checked when they are used."""
    dtype = np.float64 if parts["x_data"].dtype == np.float64 else np.float32
    for name, kind in (("x_data", dtype), ("x_indices", np.int64), ("x_indptr", np.int64)):
        writer = ArrayWriter(draft / f"{name}.npy", kind)
        for piece in pieces(parts[name], ROWS_AT_A_TIME * 16):
            writer.append(piece)
        writer.close()


def store_names(names: Any, draft: Path) -> None:
    """Write names as one long text and where each begins."""
    writers = ArrayWriter(draft / "names.npy", np.uint8), ArrayWriter(draft / "names_indptr.npy", np.int64)
    writers[1].append(np.zeros(1, dtype=np.int64))
    end = 0
    for start in range(0, len(names), ROWS_AT_A_TIME):
        words = [name.encode() for name in names.slice(start, ROWS_AT_A_TIME).to_pylist()]
        writers[0].append(np.frombuffer(b"".join(words), dtype=np.uint8))
        ends = end + np.cumsum([len(word) for word in words])
        writers[1].append(ends)
        end = int(ends[-1])
    for writer in writers:
        writer.close()


def link_nodes(graph: StoredGraph, draft: Path) -> None:
    """Features and names of another stored graph, as links to its files: they take no space, and compare at once."""
    features = ("x_data", "x_indices", "x_indptr") if sparse.issparse(graph.x) else ("x",)
    for name in (*features, *(() if graph.names is None else ("names", "names_indptr"))):
        source, target = graph.folder / f"{name}.npy", draft / f"{name}.npy"
        try:
            os.link(source, target)
        except OSError:  # another disk, or one that knows no links
            shutil.copyfile(source, target)


def _whole_numbers(text: Any) -> IntArray | None:
    """Text as whole numbers, where every one is written as Python writes it."""
    try:
        numbers = pyarrow.compute.cast(text, pyarrow.int64())
    except pyarrow.ArrowInvalid:
        return None
    alike = pyarrow.compute.equal(numbers.cast(pyarrow.large_string()), text)
    if not pyarrow.compute.all(alike, min_count=0).as_py():  # also where there are none
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def _join(ids: list[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in ids):
        return np.concatenate(ids)
    text = [pyarrow.array(part).cast(pyarrow.large_string()) if isinstance(part, np.ndarray) else part for part in ids]
    return pyarrow.concat_arrays(text)


def _first_word(text: Any) -> str:
    for word in text:
        if _whole_numbers(pyarrow.array([word.as_py()], pyarrow.large_string())) is None:
            return str(word)
    return str(text[0])

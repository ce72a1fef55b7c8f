"""An edge list and a node table, CSV or Parquet -> names, features and edges.

Edges: the columns `source` and `target`, `weight` where edges have one, and a number in every column whose name begins
with `edge_attr`: features of edges, in the table's order. Nodes: the column `id` (or `node` or
`name`), `label` where a class is known, and a number in every other column: the features, in the table's order.
A CSV may be packed (`.csv.gz`); its first line says whether commas, semicolons, bars or tabs part its cells.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..graphs.events import read_numbers
from ..storage.parquet_pages import MAX_COLUMNS, open_parquet, read_metadata, spell_out
from ..storage.safe import TEXT_BYTES, Damaged, blamed, bound_growth, check_file, check_size, parse_json

SUFFIXES = (".csv", ".tsv", ".parquet")
SOURCES, TARGETS, WEIGHTS = ("source", "src", "from"), ("target", "dst", "to"), ("weight", "edge_weight")
EDGE_FEATURES = "edge_attr"  # how columns of edge features begin
IDS, LABELS = ("id", "node", "name"), ("label", "y", "class")
CLASS_NUMBER = re.compile(r"-?[0-9]{1,18}")  # a class that is a number
ROWS_AT_A_TIME = 1 << 16
SEPARATORS = ",;|\t"
QUOTED = re.compile(r'"[^"]*"')
LINE = 1 << 20  # letters of the first line that are looked at
LONGEST_LINE = 1 << 24  # letters: a thousand and more for each of the most columns that are read
CSV_BYTES = 200e6  # that the cells of a part may take
NAME_BYTES = 200  # of what names a row: as text, in a list, and where it is looked up


def read_edges(path: Path, max_bytes: float) -> pd.DataFrame:
    """Columns source and target as text, weight where there is one, and those of edge features."""
    table = read_table(path, max_bytes)
    source, target, weight = find_edge_columns(table, path)
    edges = pd.DataFrame({"source": as_names(table[source], path), "target": as_names(table[target], path)})
    if weight is not None:
        edges["weight"] = as_numbers(table[weight], weight, path)
    for column in table.columns:
        if column.startswith(EDGE_FEATURES):
            edges[column] = as_numbers(table[column], column, path)
    return edges


def read_nodes(path: Path, max_bytes: float) -> tuple[list[str], np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Names, features [num_nodes, num_features] and labels, if any."""
    table = read_table(path, max_bytes)
    key = find_column(table, IDS)
    if key is None:
        raise InputError(f"Expected a column `id` in the node table {path} (got {listed(table)}).")
    names = as_names(table[key], path).tolist()
    if len(set(names)) != len(names):
        twice = pd.Series(names).duplicated()
        raise InputError(f"Expected every node once in {path} (got {names[int(np.argmax(twice))]!r} twice).")
    label = find_column(table, LABELS)
    columns = [column for column in table.columns if column not in (key, label)]
    if not columns:
        raise InputError(f"Expected features, one number per column, in the node table {path} (got only names).")
    x = as_features(table, columns, path)
    return names, x, None if label is None else table[label].to_numpy()


def find_edge_columns(table: pd.DataFrame, path: Path) -> tuple[str, str, str | None]:
    """The columns of sources, targets and weights (None for none)."""
    source, target, weight = (find_column(table, names) for names in (SOURCES, TARGETS, WEIGHTS))
    if source is None or target is None:
        raise InputError(f"Expected the columns `source` and `target` in the edge list {path} (got {listed(table)}).")
    return source, target, weight


def find_ends(edges: pd.DataFrame, side: str, names: list[str], nodes: str | Path, path: Path) -> IntArray:
    """The row of each edge's source or target in a node table."""
    return find_names(pa.array(edges[side], pa.large_string()), pa.array(names, pa.large_string()), nodes, path)


def find_names(text: Any, names: Any, nodes: str | Path, path: Path) -> IntArray:
    """The row of each text among names, both as Arrow has them; the first that is not there is refused by its name."""
    rows = pc.index_in(text, value_set=names)
    if rows.null_count:
        stranger = text.filter(rows.is_null())[0].as_py()
        raise InputError(f"Expected nodes of {nodes} in {path} (got {stranger!r}, which is not among them).")
    return np.asarray(rows.to_numpy(zero_copy_only=False), dtype=np.int64)


def whole_numbers(text: Any) -> IntArray | None:
    """Text as whole numbers, where every one is written as Python writes it."""
    try:
        numbers = pc.cast(text, pa.int64())
    except pa.ArrowInvalid:
        return None
    alike = pc.equal(numbers.cast(pa.large_string()), text)
    if not pc.all(alike, min_count=0).as_py():  # also where there are none
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def read_table(path: Path, max_bytes: float) -> pd.DataFrame:
    """A table, its columns' names in lower case."""
    parts = list(read_parts(path, ROWS_AT_A_TIME, None, max_bytes))
    if not parts:
        return column_names(path)
    check_names(parts, path, max_bytes)
    return pd.concat(parts, ignore_index=True)


def check_names(parts: list[pd.DataFrame], path: Path, max_bytes: float) -> None:
    """Refuse a table whose nodes, called by text also where they are numbers, would take more memory than allowed."""
    held = sum(part.memory_usage(index=False).sum() + NAME_BYTES * len(part) for part in parts)
    check_size(path, float(held), bound_growth(path, max_bytes))


def column_names(path: Path) -> pd.DataFrame:
    """The columns of a table, without its rows."""
    check_file(path)
    with _damaged(path):
        if table_kind(path) == ".parquet":
            names = _wanted_columns(read_metadata(path).schema.to_arrow_schema(), path)
        else:
            # Only of the first line: pandas would look for a second one, through a gigabyte of empty ones.
            header = io.StringIO()
            csv.writer(header).writerow(_csv_header(path))
            names = pd.read_csv(io.StringIO(header.getvalue()), dtype=str, nrows=0).columns.tolist()
    return _with_plain_names(pd.DataFrame(columns=names), path)


def read_parts(
    path: Path, num_rows: int, columns: list[str] | None = None, max_bytes: float = math.inf
) -> Iterator[pd.DataFrame]:
    """A table so many rows at a time, never all of it; `columns` are names in lower case.

    A limit of memory is one for all of its rows together.
    """
    check_file(path, max_bytes)
    # What goes wrong between two parts is not the table's fault.
    parts = _parquet_parts if table_kind(path) == ".parquet" else _csv_parts
    rest = parts(path, num_rows, columns, max_bytes)
    while True:
        with _damaged(path):
            part = next(rest, None)
            if part is None:
                return
            part = _with_plain_names(part, path)
        yield part


def _parquet_parts(path: Path, num_rows: int, columns: list[str] | None, max_bytes: float) -> Iterator[pd.DataFrame]:
    limit, size = bound_growth(path, max_bytes), 0
    with open_parquet(path, max_bytes) as table:
        schema = table.schema_arrow  # made anew, column by column, whenever it is asked for
        given = _wanted_columns(schema, path)
        kept = given if columns is None else [name for name in given if name.strip().lower() in columns]
        types = dict(zip(schema.names, schema.types, strict=True))
        nested = next((name for name in kept if pa.types.is_nested(types[name])), None)
        if nested is not None:
            raise InputError(f"Expected a number or a word in each cell of {path} (the column {nested!r} holds lists).")
        num_texts = sum(pa.types.is_dictionary(types[name]) for name in kept)
        if max_bytes < math.inf:  # what the rows take that the footer declares, before any of them is read
            row_bytes = 8 * len(kept) + TEXT_BYTES * num_texts + NAME_BYTES
            check_size(path, float(row_bytes * table.metadata.num_rows), limit)
        held, num_held = list[pa.RecordBatch](), 0
        for batch in table.iter_batches(num_rows, columns=kept, use_threads=False):
            part = spell_out(batch, path, limit)
            size += part.nbytes + TEXT_BYTES * num_texts * len(part)
            if max_bytes < math.inf:
                check_size(path, size, limit)
            if held and num_held + len(part) > num_rows:
                yield _as_frame(held)
                held, num_held = [], 0
            held.append(part)  # of groups of a few rows, several together: pandas takes its time for each
            num_held += len(part)
        if held:
            yield _as_frame(held)


def _as_frame(parts: list[pa.RecordBatch]) -> pd.DataFrame:
    """Without what pandas wrote about the columns, which need not be true."""
    return cast("pd.DataFrame", pa.Table.from_batches(parts).to_pandas(ignore_metadata=True))


def _wanted_columns(schema: pa.Schema, path: Path) -> list[str]:
    """All columns but those that pandas wrote as a table's index, unless they are what names a node."""
    names = [str(name) for name in schema.names]
    with blamed(f"Expected what pandas writes about its columns in {path} (it is damaged)."):
        notes = parse_json((schema.metadata or {}).get(b"pandas", b"{}"))
        listed_there = notes.get("index_columns", []) if isinstance(notes, dict) else None
        if not isinstance(listed_there, list):
            raise Damaged("no list of columns")
    index = {name for name in listed_there if isinstance(name, str)}
    known = {*IDS, *SOURCES, *TARGETS, *WEIGHTS, *LABELS}
    return [name for name in names if name not in index or name.strip().lower() in known]


def _csv_header(path: Path) -> list[str]:
    """What the first line calls the columns."""
    header = next(_rows(path), [""])
    if len(header) > MAX_COLUMNS:
        raise InputError(f"Expected at most {MAX_COLUMNS:,} columns in {path} (got {len(header):,}).")
    named = [name.strip().lower() for name in header if name.strip()]
    if len(set(named)) < len(named):  # pandas would give the second another name
        twice = next(name for name, count in Counter(named).items() if count > 1)
        raise InputError(f"Expected columns of different names in {path} (got {twice[:30]!r} twice).")
    return header


def _rows(path: Path) -> Iterator[list[str]]:
    """Rows of a CSV that are not blank, as pandas skips these."""
    with _unpacked(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        rows = csv.reader(_lines(text, path), delimiter=_separator(path))
        yield from (row for row in rows if len(row) > 1 or "".join(row).strip())


def _lines(text: IO[str], path: Path) -> Iterator[str]:
    """Lines, none of them without end: a packed file may hold a gigabyte in one."""
    while line := text.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise InputError(f"Expected lines of at most {LONGEST_LINE:,} letters in {path} (one is longer).")
        yield line


def _csv_parts(path: Path, num_rows: int, columns: list[str] | None, max_bytes: float) -> Iterator[pd.DataFrame]:
    width = len(_csv_header(path))
    if max_bytes < math.inf:
        # Every row is as wide as the first, whatever is written there.
        limit = bound_growth(path, max_bytes)
        check_size(path, TEXT_BYTES * width * _count_lines(path, limit), limit)
    # Of a first row that is wider, pandas makes an index of many levels, which may take for ever.
    if max(map(len, itertools.islice(_rows(path), 2)), default=0) > width:
        raise InputError(f"Expected the same number of cells in every row of {path} as in its first (one has more).")
    num_rows = max(min(num_rows, int(CSV_BYTES / TEXT_BYTES / width)), 1)
    settings: dict[str, Any] = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
    with pd.read_csv(path, sep=_separator(path), chunksize=num_rows, **settings) as parts:
        for part in parts:
            assert isinstance(part.index, pd.RangeIndex)
            yield part


def table_kind(path: Path) -> str:
    """How a table is written, by its name: .csv (packed or not), .tsv or .parquet; nothing of what is no table."""
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    return kind if kind in SUFFIXES and (kind != ".parquet" or path.suffix == kind) else ""


def _unpacked(path: Path) -> IO[bytes]:
    """The bytes of a text, packed or not."""
    # What gzip opens reads no further than it must: thousands of empty members may follow the first line.
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _count_lines(path: Path, limit: float) -> int:
    """How many there are at most; a packed file that grows beyond the limit is refused as soon as it does, and so is
    a line without end, which pandas would hold several times over."""
    count, size, since = 1, 0, 0
    with _unpacked(path) as stream:
        while piece := stream.read(1 << 20):
            count += piece.count(b"\n") + piece.count(b"\r")
            size += len(piece)
            check_size(path, size, limit)
            last = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
            since = since + len(piece) if last < 0 else len(piece) - last - 1
            if since > LONGEST_LINE:
                raise InputError(f"Expected lines of at most {LONGEST_LINE:,} letters in {path} (one is longer).")
    return count


def _separator(path: Path) -> str:
    """What parts the cells of the first line, quotations aside; a comma where nothing does."""
    if table_kind(path) == ".tsv":
        return "\t"
    with _unpacked(path) as stream:
        first, left = "", LINE
        while left > 0 and not first and (line := stream.readline(left)):
            left -= len(line)
            first = line.decode("utf-8-sig", errors="replace").strip()
    return max(SEPARATORS, key=QUOTED.sub("", first).count)


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    kind = "Parquet" if table_kind(path) == ".parquet" else "CSV"
    with blamed(f"Expected a {kind} table at {path} (it is cut short, damaged or of another kind)."):
        try:
            yield
        except UnicodeDecodeError as error:
            raise InputError(f"Expected text in UTF-8 at {path} (got another encoding); save it as UTF-8.") from error


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


def as_names(column: pd.Series[Any], path: Path) -> pd.Series[str]:
    """A column as text without blanks around it, none of it empty."""
    with blamed(f"Expected text or numbers that name the nodes in {path} (got {column.dtype})."):
        text = column.astype(str).str.strip()
        missing = column.isna() | (text == "")
    if missing.any():
        raise InputError(f"Expected a node in every row of {path} (row {int(np.argmax(missing)) + 1} has none).")
    return text


def as_numbers(column: pd.Series[Any], name: str, path: Path) -> FloatArray:
    """A column as float64, all of it finite."""
    plain = column.reset_index(drop=True)  # a part of a table begins with another row
    return read_numbers(plain, f"the column {name!r} of {path}", "mend it, or leave the column out")


def as_features(table: pd.DataFrame, columns: list[str], path: Path) -> np.ndarray[Any, Any]:
    """Columns as float64 [num_rows, num_features]."""
    if 0 < len(table) < len(columns) and set(table[columns].dtypes) == {table.dtypes[columns[0]]}:
        found = _as_text_of_numbers(table[columns])
        if found is not None:
            return found
    x = np.empty((len(table), len(columns)))
    for place, column in enumerate(columns):
        x[:, place] = as_numbers(table[column], column, path)
    return x


def _as_text_of_numbers(table: pd.DataFrame) -> np.ndarray[Any, Any] | None:
    """Text of a wide table as float64, all cells in one call; None where something is amiss."""
    if not pd.api.types.is_string_dtype(table.dtypes.iloc[0]):
        return None
    cells = pd.Series(table.to_numpy(dtype=object).ravel())
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64).reshape(table.shape)
    return numbers if np.isfinite(numbers).all() else None


def read_classes(labels: Any) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Classes as whole numbers: as they are written, or words in alphabetical order; with these words."""
    text = [str(label) for label in labels]
    if all(is_class(label) for label in text):
        return torch.tensor([int(label) for label in text]), ()
    names = tuple(sorted(set(text)))
    places = {name: place for place, name in enumerate(names)}
    return torch.tensor([places[label] for label in text]), names


def edge_fields(edges: pd.DataFrame) -> dict[str, torch.Tensor]:
    """Weights and features of edges as PyG calls them, where the table has any."""
    found = {}
    if "weight" in edges:
        found["edge_weight"] = torch.from_numpy(edges["weight"].to_numpy(dtype=np.float32))
    columns = [column for column in map(str, edges) if column.startswith(EDGE_FEATURES)]
    if columns:
        found["edge_attr"] = torch.from_numpy(edges[columns].to_numpy(dtype=np.float32).copy())
    return found


def is_class(label: str) -> bool:
    """Whether a label is written as a number of a class."""
    return CLASS_NUMBER.fullmatch(label) is not None

"""A Parquet file -> the same, opened, once its pages were counted: its footer may say anything, and a page of a few
bytes may unpack to gigabytes or repeat one number per billion times.

A column is a chain of pages, each with a header (Thrift's compact protocol) that says how many values it makes and how
many bytes it unpacks to. Arrow believes these headers; so they, and not the footer, are added up and judged. Where the
chain begins is read from the footer by the same reader: pyarrow ends the process over some damaged footers when it is
asked for the metadata of a row group. Text is read as a dictionary and its occurrences, and spelt out only when that
was found to fit.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from ..errors import InputError
from .safe import SHAPE_ERRORS, TEXT_BYTES, Damaged, bound_growth, check_file, check_size

MAX_COLUMNS = 10_000  # of a table: pandas takes seconds for as many
MAX_DEPTH = 16  # of a header within itself
I32, I64 = 5, 6  # Thrift's numbers of types
USUAL_HEADER, LONG_HEADER = 1 << 9, 1 << 20  # bytes of a page's header; with the statistics that some writers add
VALUE_BYTES = 24  # of a number, with its levels, on its way into memory
DELTA_LENGTHS, DELTA_TEXT = 6, 7  # encodings of text; in the second, one may begin with all of the one before it
# Written before 2014, with pages longer than they say.
OLD_WRITERS = re.compile(r"parquet-mr version (0|1\.[0-2])\.")


class _Chunk(NamedTuple):
    """Where the pages of one column of one row group are."""

    num_values: int
    start: int
    end: int


class _Page(NamedTuple):
    unpacked: int
    packed: int
    values: int
    encodings: set[Any]
    is_dictionary: bool


def open_parquet(path: Path, max_bytes: float) -> pq.ParquetFile:
    """A file all of whose columns may be read within the limit; call it within `blamed`."""
    check_file(path, max_bytes)
    limit, footer = bound_growth(path, max_bytes), read_metadata(path)
    with path.open("rb") as stream:
        size = 0.0
        words: set[str] = set()
        spelt: set[str] = set()
        columns = [footer.schema.column(i) for i in range(footer.num_columns)]
        try:
            for chunks in _read_footer(stream):
                for column, chunk in zip(columns, chunks, strict=True):
                    pages = _read_pages(stream, chunk)
                    if column.physical_type == "BYTE_ARRAY":
                        # Arrow makes no dictionaries of these; they are counted as long as they might be.
                        (spelt if _is_delta(pages) else words).add(column.path)
                    is_fixed = column.physical_type == "FIXED_LEN_BYTE_ARRAY"
                    size += _chunk_size(pages, column.length if is_fixed else 8)
                    check_size(path, size, limit)
        except SHAPE_ERRORS as error:  # what Thrift calls a structure is a number, or lacks a field
            raise Damaged("a footer or a page of another shape") from error
        if words & spelt:
            raise InputError(f"Expected each column packed in one way in {path} (got {min(words & spelt)[:40]!r}).")
    names = footer.schema.to_arrow_schema().names
    if len(set(names)) < len(names):
        raise InputError(f"Expected columns of different names in {path} (got some twice).")
    # With a buffer of its own, a column is read as it is needed and not a whole row group at once.
    return pq.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False, read_dictionary=sorted(words))


def read_metadata(path: Path) -> pq.FileMetaData:
    """What a footer says of the columns; nobody may ask it for groups of rows. Call it within `blamed`."""
    footer = pq.read_metadata(path)
    if footer.num_columns > MAX_COLUMNS:
        raise InputError(f"Expected at most {MAX_COLUMNS:,} columns in {path} (got {footer.num_columns:,}).")
    if OLD_WRITERS.match(footer.created_by or ""):
        raise InputError(f"Expected a Parquet file of this decade at {path} (got one by {footer.created_by}).")
    return footer


def spell_out(batch: pa.RecordBatch, path: Path, limit: float) -> pa.RecordBatch:
    """The same batch with text in place of dictionaries."""
    arrays, size = [], 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)
            lengths = pa.compute.binary_length(column.dictionary)
            spelt = pa.compute.sum(lengths.take(column.indices)).as_py() or 0
            size += spelt + TEXT_BYTES * len(column)
            check_size(path, size, limit)
            column = column.cast(_spelt(column.type))
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def spelt_bytes(data: Any) -> int:
    """Bytes that the text of a table or a column takes, spelt out, however deep its dictionaries lie."""
    if isinstance(data, (pa.Table, pa.RecordBatch, pa.ChunkedArray)):
        return sum(map(spelt_bytes, data.chunks if isinstance(data, pa.ChunkedArray) else data.columns))
    if pa.types.is_dictionary(data.type):
        lengths = pa.compute.binary_length(data.dictionary)
        return (pa.compute.sum(lengths.take(data.indices)).as_py() or 0) + TEXT_BYTES * len(data)
    if pa.types.is_map(data.type):
        return spelt_bytes(data.keys) + spelt_bytes(data.items)
    if pa.types.is_struct(data.type):
        return sum(map(spelt_bytes, data.flatten()))
    return spelt_bytes(data.flatten()) if pa.types.is_list(data.type) else 0


def _spelt(kind: pa.DataType) -> pa.DataType:
    return pa.large_binary() if pa.types.is_binary(kind.value_type) else pa.large_string()


def _read_footer(stream: IO[bytes]) -> Iterator[list[_Chunk]]:
    """The columns of each row group (FileMetaData of the format: parquet.thrift)."""
    stream.seek(-8, os.SEEK_END)
    (length,) = struct.unpack("<I", stream.read(4))
    stream.seek(-8 - length, os.SEEK_END)
    for group in _Compact(stream.read(length), I64).struct(0)[4]:
        chunks = []
        for held in group[1]:
            column = held[3]
            num_values, packed, data, dictionary = (column.get(key, 0) for key in (5, 7, 9, 11))
            start = dictionary if 0 < dictionary < data else data
            if num_values and min(num_values, packed, start) <= 0:
                raise Damaged("an offset or a size that is none")
            chunks.append(_Chunk(num_values, start, start + packed))
        yield chunks


def _read_pages(stream: IO[bytes], chunk: _Chunk) -> list[_Page]:
    """What the pages of one column of one row group say of themselves."""
    if chunk.num_values == 0:
        return []  # Arrow reads none of it, and its offsets need not mean anything
    start, end, pages = chunk.start, chunk.end, []
    while start < end:
        fields, header_size = _read_header(stream, start)
        packed, unpacked = fields[3], fields[2]
        # Which of these Arrow will look at depends on more than needs to be known here.
        kinds = [fields[key] for key in (5, 7, 8) if key in fields]
        values = max((kind.get(1, 0) for kind in kinds), default=0)
        if min(packed, unpacked, values) < 0:
            raise Damaged("a negative size")
        encodings = {kind.get(key) for kind in kinds for key in (2, 4)}
        pages.append(_Page(unpacked, packed, values, encodings, 7 in fields))
        start += header_size + packed
    return pages


def _is_delta(pages: list[_Page]) -> bool:
    return any(page.encodings & {DELTA_LENGTHS, DELTA_TEXT} for page in pages)


def _chunk_size(pages: list[_Page], length: int) -> float:
    """Bytes that pages take in memory, where a value takes so many; of text, beside what it is spelt with."""
    if any(DELTA_TEXT in page.encodings for page in pages) or (
        _is_delta(pages) and any(p.is_dictionary for p in pages)
    ):
        length = max(page.unpacked for page in pages)  # each may be as long as all of them
    return sum(page.unpacked + page.packed + page.values * (VALUE_BYTES + length) for page in pages)


def _read_header(stream: IO[bytes], start: int) -> tuple[dict[int, Any], int]:
    for length in (USUAL_HEADER, LONG_HEADER):
        stream.seek(start)
        header = _Compact(stream.read(length), I32)
        try:
            return header.struct(0), header.place
        except IndexError:  # longer than what was read
            if length == LONG_HEADER:
                raise
    raise AssertionError


class _Compact:
    """Values of Thrift's compact protocol: structs as dicts by field number, of what is asked for here.

    That is numbers of one kind, lists and structs. A field of another kind than it should be is skipped, as Arrow
    does; one that is there twice is refused, since Arrow might take the other.
    """

    def __init__(self, data: bytes, numbers: int) -> None:
        self.data, self.place, self.kept = data, 0, (numbers, 9, 12)

    def byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise Damaged("a number without end")

    def signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > MAX_DEPTH:
            raise Damaged("too deep")
        found: dict[int, Any] = {}
        number = 0
        while (head := self.byte()) & 15:
            number = number + (head >> 4) if head >> 4 else self.signed()
            kind = head & 15
            value = None if kind in (1, 2) else self.value(kind, depth + 1)
            if kind in self.kept:
                if number in found:
                    raise Damaged("a field that is there twice")
                found[number] = value
        return found

    def value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.signed()
        if kind in (7, 8):
            length = 8 if kind == 7 else self.varint()
            self.place += length
            return None
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            if count > len(self.data):
                raise Damaged("a list longer than the file")
            return [self.value(head & 15, depth) for _ in range(count)]
        if kind == 12:
            return self.struct(depth)
        raise Damaged("another type")

"""Declared fields of a record -> the columns of its Parquet files."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa

from .codec import Shape

PLAIN = {
    int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_(),
    np.int64: pa.int64(), np.float64: pa.float64(), np.bool_: pa.bool_(),
}  # fmt: skip


def columns_of(record: Any) -> dict[str, pa.DataType]:
    """Field -> type, of a dataclass those fields that files have, or of a NamedTuple."""
    hints = get_type_hints(record, include_extras=True)
    if is_dataclass(record):
        hints = {item.name: hints[item.name] for item in fields(record) if item.metadata.get("saved", True)}
    return {name: column_type(hint) for name, hint in hints.items()}


def column_type(hint: Any) -> pa.DataType:
    """A list for a tuple of equals and per axis of an array, a map for a dict, a structure for a record.

    A type that may be None, or another, has the column of the first: any cell may be empty.
    """
    kind, given = get_origin(hint), get_args(hint)
    if kind is Annotated:
        found, shape = column_type(given[0]), next((part for part in given if isinstance(part, Shape)), None)
        for _ in shape.sizes if shape is not None and pa.types.is_primitive(found) else ():
            found = pa.list_(found)
        return found
    if kind is np.ndarray:
        return PLAIN[get_args(given[1])[0]]
    if kind is tuple:
        return pa.list_(column_type(given[0]))
    if kind is dict:
        return pa.map_(*map(column_type, given))
    if given:
        return column_type(next(part for part in given if part is not NoneType))
    if is_dataclass(hint):
        return pa.struct(list(columns_of(hint).items()))
    return pa.list_(next(iter(columns_of(hint).values()))) if issubclass(hint, tuple) else PLAIN[hint]

"""What a record is of: the release that wrote it, and digests of the model and the graphs (or arrays) it was made from.

A digest is BLAKE2b over the arrays, with their types and shapes: equal digests mean equal numbers. That of a graph does
not depend on the order in which its nodes and edges are listed, nor on the graph that it is compared with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .codec import Text
from .memory import CHUNK, pieces

RELEASE = "0.3.0"  # the one place where it is written; pyproject.toml reads it here


@dataclass(frozen=True)
class Origin:
    """The origin of a record."""

    release: Text  # of axiompath
    digests: Mapping[Text, Text]  # what of -> digest: "model", "before", "after", ...
    seed: int | None = None  # None where nothing is drawn


def digest_of(*values: Any) -> str:
    """One digest of arrays and plain values, in order."""
    found = hashlib.blake2b(digest_size=16)
    for value in values:
        _update(found, value)
    return found.hexdigest()


def _update(found: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        found.update(f"array {value.dtype.str}{value.shape}".encode())
        for part in pieces(value.reshape(-1), CHUNK):  # a mapped file may be larger than memory
            found.update(np.ascontiguousarray(part).data)
        return
    found.update(f"{type(value).__name__} ".encode())
    if sparse.issparse(value):
        _update(found, _parts(value))
    elif isinstance(value, (list, tuple)):
        found.update(f"{len(value)}".encode())
        for part in value:
            _update(found, part)
    elif isinstance(value, Mapping):
        _update(found, sorted(value.items()))
    elif is_dataclass(value):
        _update(found, [(item.name, getattr(value, item.name)) for item in fields(value)])
    elif value is None or isinstance(value, (bool, int, float, str, slice, np.generic)):
        found.update(repr(value).encode())
    else:  # a rule of the user's own
        _update(found, {name: part for name, part in vars(value).items() if not callable(part)})


def _parts(x: Any) -> tuple[Any, ...]:
    rows = sparse.csr_array(x)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows.shape, rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)

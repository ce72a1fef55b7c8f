""".npz -> arrays, without pickle: the one reader of graphs and of data sets.

Headers are read and judged before any bytes of the arrays; a file that is not what it should be gets one sentence.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..storage.safe import NPY_ERRORS, TEXT_BYTES, ZIP_ERRORS, blamed, bound_growth, check_file, check_size


def read_arrays(
    path: Path, wanted: set[str] | None, max_bytes: float, remedy: str | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """The wanted arrays that the file has, all of them for None; `remedy` says what to do about a damaged file."""
    with _opened(path, wanted, max_bytes, remedy) as (archive, names):
        arrays = {}
        for name in names:
            with archive.open(f"{name}.npy") as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        return arrays


def arrays_size(path: Path, wanted: set[str], max_bytes: float) -> float:
    """Bytes that the wanted arrays would take in memory, by their headers, to which they are held."""
    with _opened(path, wanted, max_bytes, None) as (archive, names):
        return sum(_made_size(archive, name, path) for name in names)


@contextmanager
def _opened(
    path: Path, wanted: set[str] | None, max_bytes: float, remedy: str | None
) -> Iterator[tuple[zipfile.ZipFile, list[str]]]:
    """The archive and its wanted arrays by name, in order, all of them together within bounds."""
    check_file(path, max_bytes)
    sentence = (
        f"Expected a whole {path.suffix} file at {path} (it is of another kind, damaged or cut short: "
        f"{remedy or 'copy or save it again'})."
    )
    with blamed(sentence, *ZIP_ERRORS, *NPY_ERRORS), zipfile.ZipFile(path) as archive:
        found = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
        names = sorted(found if wanted is None else found & wanted)
        check_size(path, sum(_made_size(archive, name, path) for name in names), bound_growth(path, max_bytes))
        yield archive, names


def _made_size(archive: zipfile.ZipFile, name: str, path: Path) -> float:
    """Bytes that will be made of an array; it is held to as many as the archive unpacks for it."""
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others pack without end
        raise InputError(f"Expected arrays stored or deflated in {path} (`{name}` is packed in another way).")
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
        start = member.tell()
    if dtype.hasobject:
        raise InputError(
            f"Expected plain arrays in {path} (`{name}` holds Python objects, which would need unpickling); "
            "save names as an array of strings and numbers as numbers."
        )
    count = math.prod(shape)
    if dtype.itemsize == 0 or start + count * dtype.itemsize != info.file_size:
        raise InputError(f"Expected as many bytes as `{name}` has numbers in {path} (got {info.file_size:,} bytes).")
    # Numbers become float64, text becomes Python objects; a row counts, also one without columns.
    beside = 9 if dtype.kind in "biufc" else TEXT_BYTES
    return 16.0 * (shape[0] if shape else 0) + float(count * (dtype.itemsize + beside))

""".npz -> arrays by name, without pickle; their headers are read and judged before any of their bytes."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..trust import blamed, bound_growth, check_file, check_size

TEXT_BYTES = 64  # of a piece of text as a Python object, beside its letters


def read_arrays(path: Path, wanted: set[str], max_bytes: float) -> dict[str, np.ndarray[Any, Any]]:
    """The wanted arrays that the file has."""
    check_file(path, max_bytes)
    limit = bound_growth(path, max_bytes)
    found = {}
    with open_archive(path) as archive:
        names = member_names(archive, wanted)
        check_size(path, sum(declared_size(archive, name, path) for name in names), limit)
        for name in names:
            with archive.open(f"{name}.npy") as member:
                found[name] = np.lib.format.read_array(member, allow_pickle=False)
    return found


def unpack_array(path: Path, name: str) -> Iterator[bytes]:
    """The .npy file of one array, a piece at a time."""
    with open_archive(path) as archive, archive.open(f"{name}.npy") as member:
        while piece := member.read(1 << 20):
            yield piece


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip archive; what goes wrong while it is open is its own fault."""
    sentence = f"Expected a whole {path.suffix} file at {path} (it is cut short, damaged or of another kind)."
    with blamed(sentence), zipfile.ZipFile(path) as archive:
        yield archive


def member_names(archive: zipfile.ZipFile, wanted: set[str]) -> list[str]:
    """The wanted arrays that an archive has, in order."""
    return sorted({name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")} & wanted)


def declared_size(archive: zipfile.ZipFile, name: str, path: Path) -> float:
    """Bytes that will be made of an array inside an .npz; arrays of Python objects are refused.

    The archive is held to what the array says of itself, so that nothing is larger than it was said to be.
    """
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"Expected arrays stored or deflated in {path} (`{name}` is packed in another way).")
    with archive.open(info) as member:
        shape, dtype = _read_header(member)
        start = member.tell()
    if dtype.hasobject:
        raise InputError(
            f"Expected plain arrays in {path} (`{name}` holds Python objects, which would need unpickling); "
            "save names as an array of strings and numbers as numbers."
        )
    count = math.prod(shape)
    if dtype.itemsize == 0 or start + count * dtype.itemsize != info.file_size:
        raise InputError(f"Expected as many bytes as `{name}` has numbers in {path} (got {info.file_size:,} bytes).")
    # Numbers become float64, text becomes Python objects.
    return float(count * (dtype.itemsize + (9 if dtype.kind in "biufc" else TEXT_BYTES)))


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(member)
    return tuple(int(n) for n in shape), dtype

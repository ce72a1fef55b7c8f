""".npz -> arrays by name, without pickle; their headers are read and judged before any of their bytes."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .sizes import check_archive, check_file, check_size


def read_arrays(path: Path, wanted: set[str], max_bytes: float) -> dict[str, np.ndarray[Any, Any]]:
    """The wanted arrays that the file has."""
    check_file(path, max_bytes)
    members = check_archive(path, max_bytes)
    names = {member.removesuffix(".npy") for member in members if member.endswith(".npy")} & wanted
    try:
        size = 0.0
        with zipfile.ZipFile(path) as archive:
            for name in sorted(names):
                size += declared_size(archive, name, path)
        check_size(path, size, max_bytes)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in sorted(names)}
    except InputError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError) as error:
        raise InputError(f"Expected a whole .npz file at {path} (it is cut short or damaged).") from error
    except (SyntaxError, TypeError, KeyError, RuntimeError, MemoryError) as error:
        raise InputError(f"Expected arrays that numpy can read in {path} (one of them is damaged).") from error


def declared_size(archive: zipfile.ZipFile, name: str, path: Path) -> float:
    """Bytes that an array inside an .npz says it takes; arrays of Python objects are refused."""
    with archive.open(name + ".npy") as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    if dtype.hasobject:
        raise InputError(
            f"Expected plain arrays in {path} (`{name}` holds Python objects, which would need unpickling); "
            "save names as an array of strings and numbers as numbers."
        )
    return float(math.prod(int(n) for n in shape) * max(dtype.itemsize, 1))

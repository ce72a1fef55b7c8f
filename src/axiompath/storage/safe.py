"""A path that a stranger may have written -> its JSON or its array, within bounds; else an InputError.

What a library raises over a damaged file becomes a sentence here, in one place: `blamed`. Everything else is an
internal error and stays one.
"""

from __future__ import annotations

import csv
import json
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.lib

from ..errors import InputError, MissingFile, TooLarge
from .memory import show_bytes


class Damaged(Exception):
    """Bytes that are not what they should be; `blamed` says of which file."""


# What the libraries that parse bytes raise over damaged ones. All else is an error of ours unless a caller of `blamed`
# says which further errors the one library that it calls raises.
FAULTS = (
    Damaged, EOFError, OSError, ValueError, csv.Error, lzma.LZMAError, pyarrow.lib.ArrowException, struct.error,
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error,
)  # fmt: skip
ZIP_ERRORS = (LookupError, NotImplementedError, RuntimeError)  # names, ways of packing, passwords
# Headers of arrays are Python literals, which ast parses.
NPY_ERRORS = (AttributeError, LookupError, OverflowError, RecursionError, SyntaxError, TypeError, tokenize.TokenError)
SHAPE_ERRORS = (AttributeError, LookupError, TypeError)  # of JSON, where it is taken apart and nothing else is done

# Files beyond this, in memory, are refused unless the caller says otherwise.
MAX_BYTES = 8 * 10**9
# A file may grow in memory this many times (deflate packs a thousand to one, and numbers become float64), and any file
# to this many bytes: a small one cannot take much, whatever it says.
GROWTH, SMALL = 3000, 500 * 10**6
JSON_BYTES = 32  # at the most, of Python objects for one byte of JSON
MAX_NESTED = 100  # brackets within brackets
# How much deeper each letter of JSON leads.
STEP_OF = np.array([(chr(i) in "[{") - (chr(i) in "]}") for i in range(256)], dtype=np.int8)
IS_MARK = (STEP_OF != 0) | (np.arange(256) == ord('"'))
TEXT_BYTES = 64  # of a piece of text as a Python object, beside its letters


@contextmanager
def blamed(sentence: str, *also: type[Exception]) -> Iterator[None]:
    """Turn what a library raises over a file, FAULTS and `also`, into an InputError that says so in these words.

    Within it stands the call of the library, not our own logic: errors of ours keep their traceback.
    """
    try:
        yield
    except InputError:
        raise
    except PermissionError as error:
        raise InputError(f"Expected a file that may be read (got {error.filename}, which may not).") from error
    except MemoryError as error:
        raise TooLarge(f"{sentence} It would not fit into memory.") from error
    except (*FAULTS, *also) as error:
        raise InputError(sentence) from error


def check_size(path: Path, size: float, max_bytes: float) -> None:
    """Refuse what would take more memory than allowed."""
    if size > max_bytes:
        raise TooLarge(
            f"Expected a file of at most {show_bytes(max_bytes)} in memory ({path} says {show_bytes(size, up=True)}); "
            "if it is right, read it in Python with a larger `max_bytes`."
        )


def check_file(path: Path, max_bytes: float = math.inf) -> None:
    """Refuse what is missing, no plain file (a pipe would keep us waiting for ever), empty, or larger than allowed."""
    try:
        is_plain, exists = path.is_file(), path.exists()
        size = path.stat().st_size if is_plain else 0
    except (OSError, ValueError) as error:  # no such name can be, or its folder may not be looked into
        raise InputError(f"Expected a file at {path} (found none that may be read).") from error
    if not exists:
        raise MissingFile(f"Expected a file at {path} (found none).")
    if not is_plain:
        raise InputError(f"Expected a file at {path} (found a folder, a pipe or a device).")
    if size == 0:
        raise InputError(f"Expected a file with something in it ({path} is empty).")
    check_size(path, size, max_bytes)


def bound_growth(path: Path, max_bytes: float = math.inf) -> float:
    """What may be made of a file: in proportion to its size, and no more than allowed.

    A caller who names another limit than the default knows the file.
    """
    return bound_together([path], max_bytes)


def bound_together(paths: Iterable[Path], max_bytes: float = math.inf) -> float:
    """The same of several files as one; a file that has several names counts once."""
    if max_bytes not in (MAX_BYTES, math.inf):
        return max_bytes
    sizes = {(held.st_dev, held.st_ino): held.st_size for held in (path.stat() for path in paths)}
    return min(max_bytes, max(SMALL, GROWTH * sum(sizes.values())))


def read_json(path: Path, max_bytes: float = MAX_BYTES / JSON_BYTES) -> Any:
    """JSON, as large and as deep as it may be."""
    check_file(path, max_bytes)
    with blamed(f"Expected JSON in {path} (it is cut short, too deep, or of another kind).", RecursionError):
        return parse_json(path.read_bytes())


def read_lines(path: Path, max_bytes: float = MAX_BYTES / JSON_BYTES) -> list[str]:
    """The lines of a text file that are not empty."""
    check_file(path, max_bytes)
    with blamed(f"Expected text in {path} (it is none)."):
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def parse_json(data: bytes) -> Any:
    """JSON that is not too deep: Python's own bound is the recursion limit, which somebody may have raised."""
    # A backslash is only ever within a string; without those that mean a quotation mark, every mark begins or ends one.
    bare = np.frombuffer(data.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    marks = bare[IS_MARK[bare]]
    is_inside = np.cumsum(marks == ord('"'), dtype=np.int32) % 2 == 1
    depth = np.cumsum(np.where(is_inside, 0, STEP_OF[marks]), dtype=np.int32)
    if depth.max(initial=0) > MAX_NESTED:
        raise Damaged("too deep")
    return json.loads(data.decode())


def map_array(path: Path) -> np.ndarray[Any, Any]:
    """An .npy file, memory-mapped, never unpickled."""
    check_file(path)
    with blamed(f"Expected a whole .npy array at {path} (it is cut short, damaged or of another kind).", *NPY_ERRORS):
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.itemsize == 0:
        raise InputError(f"Expected numbers or text in {path} (got an array of nothing, which may have any length).")
    return array


def read_words(values: Any, name: str) -> tuple[str, ...]:
    """A list of text out of JSON, all of which can be written again (half a letter cannot)."""
    with blamed(f"Expected text in `{name}` (got something else)."):
        if not isinstance(values, (list, tuple)) or not all(isinstance(word, str) for word in values):
            raise Damaged("no list of text")
        return tuple(word.encode().decode() for word in values)

"""A path -> a file under that name, written atomically."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import InputError

DRAFT = ".part"  # how the name of a file ends that is not whole yet
LONGEST_NAME = 255  # bytes that file systems take


@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """A stream to write to: the file takes its name once the disk has all of it, and is gone after an error.

    What is no plain file is refused, as `check_replaceable` says.
    """
    target = Path(path)
    check_replaceable(target)
    end = f".{uuid.uuid4().hex[:12]}{DRAFT}"
    draft = target.with_name(os.fsdecode(os.fsencode(target.name)[: LONGEST_NAME - len(end)]) + end)
    try:
        with draft.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def check_replaceable(path: Path) -> None:
    """Refuse a name that something else than a plain file has, which a new file would replace.

    Links too: /dev/stdout is a link to a plain file while output is redirected to one.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(
            f"Expected the name of a file to write (got {path}, which is a folder, a device, a pipe or a link); "
            "choose another name."
        )


def write_text(path: str | Path, text: str) -> Path:
    """Text as UTF-8; returns the path."""
    with whole_file(path) as stream:
        stream.write(text.encode())
    return Path(path)


def file_digest(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_page(path: str | Path) -> None:
    """Require a name that a web page can have, so that no picture or record is replaced by one."""
    if Path(path).suffix.lower() not in ("", ".html", ".htm"):
        raise InputError(f"Expected a name that ends in .html (got {path}): what is written is a web page.")

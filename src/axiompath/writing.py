"""A path -> a file under that name, whole or not there at all: what was there before stays until then."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

DRAFT = ".part"  # how the name of a file ends that is not whole yet


@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """A stream to write to: the file takes its name once the disk has all of it, and is gone after an error."""
    target = Path(path)
    draft = target.with_name(f"{target.name}.{uuid.uuid4().hex[:12]}{DRAFT}")
    try:
        with draft.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> Path:
    """Text as UTF-8; returns the path."""
    with whole_file(path) as stream:
        stream.write(text.encode())
    return Path(path)

"""A path -> a file under that name, whole or not there at all; a folder -> its lock, held while it is written to."""

from __future__ import annotations

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from ..errors import InputError

DRAFT = ".part"  # how the name of a file ends that is not whole yet
LOCK = ".lock"
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


def clear_drafts(folder: Path, *names: str) -> None:
    """Take away what `whole_file` began there and a killed process never finished; `names` are patterns of targets."""
    for name in names:
        for draft in folder.glob(f"{name}.{'[0-9a-f]' * 12}{DRAFT}"):
            if draft.is_file() and not draft.is_symlink():
                draft.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Make the folder and hold its lock; another process that wants it is refused at once.

    The operating system holds the lock, so it goes with this process, however that ends; forked workers let go of it
    when they start. A lock that is only a file which is there (`fallback_to_soft`) would outlive a killed process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"Expected a folder that nobody writes to (got {folder}, where another {what} is running); "
            "wait until it has ended, or choose another name."
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        raise InputError(
            f"Expected a folder on a file system that can lock files (got {folder}, which is on one that cannot); "
            "choose a folder elsewhere."
        ) from error
    try:
        yield
    finally:
        lock.release()


def check_page(path: str | Path) -> None:
    """Require a name that a web page can have, so that no picture or record is replaced by one."""
    if Path(path).suffix.lower() not in ("", ".html", ".htm"):
        raise InputError(f"Expected a name that ends in .html (got {path}): what is written is a web page.")

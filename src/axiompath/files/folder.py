"""A folder that a long run fills, and that a second run of the same completes: scans, watches, snapshots.

Every file in it is whole or absent (`whole_file`), one process writes to it at a time, and a list that it holds gives
each file's digest. Names that something else has are refused before anything is written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import InputError
from ..storage.writing import DRAFT, file_digest

LOCK = ".lock"


class ResumableFolder:
    """The folder at `path`; `what` fills it, in a word. With `links`, a link to a file or folder is taken for it."""

    def __init__(self, path: str | Path, what: str, *, links: bool = False) -> None:
        self.path, self.what, self.links = Path(path), what, links

    def check_folder(self) -> None:
        """Refuse a path that is something else than a folder."""
        if os.path.lexists(self.path) and not self.path.is_dir():
            raise InputError(f"Expected a folder to write to (got the file {self.path}); choose another name.")

    def is_free(self) -> bool:
        """Whether nothing is there, or nothing but the lock of a run that did not begin."""
        names = {path.name for path in self.path.iterdir()} if os.path.lexists(self.path) else set()
        return names <= {LOCK} and not self.foreign([])

    def foreign(self, files: Iterable[str], folders: Iterable[str] = ()) -> list[str]:
        """Those of these names that cannot be this run's: no plain file, no plain folder, or a lock with content."""
        found = [name for name in files if os.path.lexists(self.path / name) and not self.is_plain(name)]
        places = [self.path / name for name in folders]
        found += [
            path.name for path in places
            if os.path.lexists(path) and not (path.is_dir() and (self.links or not path.is_symlink()))
        ]  # fmt: skip
        lock = self.path / LOCK
        if os.path.lexists(lock) and not (self.is_plain(LOCK) and lock.stat().st_size == 0):
            found.append(LOCK)
        return found

    def refuse(self, taken: Iterable[str]) -> None:
        """Refuse the folder where there are such names; nothing in it was touched so far."""
        for name in list(taken)[:1]:
            raise InputError(
                f"Expected a folder in which the names that a {self.what} writes are free or its own (got {self.path}, "
                f"where {name} is something else); move it away, or choose another folder: nothing was changed there."
            )

    def is_plain(self, name: str) -> bool:
        """Whether a plain file has this name."""
        path = self.path / name
        return path.is_file() and (self.links or not path.is_symlink())

    def holds(self, name: str, digest: str) -> bool:
        """Whether the file of this name has this digest."""
        path = self.path / name
        return path.is_file() and file_digest(path) == digest

    def missing(self, digests: Mapping[str, str]) -> list[str]:
        """Those of these files that are not there, or have another digest."""
        return [name for name, digest in digests.items() if not self.holds(name, digest)]

    @contextmanager
    def locked(self, *files: str) -> Iterator[None]:
        """Make the folder and hold its lock; another process that wants it is refused at once.

        Drafts of `files`, patterns of names, are cleared away before and after. The operating system holds the lock, so
        it goes with this process, however that ends. A lock that is only a file which is there (`fallback_to_soft`)
        would outlive a killed process.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / LOCK, blocking=False, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout as error:
            raise InputError(
                f"Expected a folder without another writer (got {self.path}, where another {self.what} is running); "
                "wait until it has ended, or choose another name."
            ) from error
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
                raise
            raise InputError(
                f"Expected a folder on a file system that can lock files (got {self.path}, which is on one that "
                "cannot); choose a folder elsewhere."
            ) from error
        try:
            self.clear_drafts(*files)
            yield
        finally:
            self.clear_drafts(*files)
            lock.release()

    def clear_drafts(self, *files: str) -> None:
        """Remove what `whole_file` began and a killed process never finished; `files` are patterns of names."""
        for name in files:
            for draft in self.path.glob(f"{name}.{'[0-9a-f]' * 12}{DRAFT}"):
                if draft.is_file() and not draft.is_symlink():
                    draft.unlink(missing_ok=True)

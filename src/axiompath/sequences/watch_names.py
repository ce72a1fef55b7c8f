"""A folder -> refused where a name that a watch would write is taken by something else; nothing is touched.

What a watch writes: watch.json and .lock; pages, which say in their first lines who made them; scans and snapshots,
which look after their own; and a model, in a folder that was empty when the watch began.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError
from ..storage.writing import LOCK
from .watch_folder import MODEL_FOLDER, PAGE, SNAPSHOT_FOLDER, STEP_FOLDER, WATCH, WatchProgress

MADE_BY = b'<meta name="generator" content="AxiomPath">'
FIRST_BYTES = 2000  # of a page, in which it says who made it


def check_place(folder: Path, held: WatchProgress | None) -> None:
    """Refuse a folder that is neither empty nor that of a watch, or in which others took a watch's names."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise InputError(f"Expected a folder to write to (got the file {folder}); choose another name.")
    if not folder.exists():
        return
    lock = folder / LOCK
    taken = [lock] if os.path.lexists(lock) and not (_is_plain(lock) and lock.stat().st_size == 0) else []
    if held is None:
        if taken or any(path.name != LOCK for path in folder.iterdir()):
            raise InputError(f"Expected an empty folder, or one of a watch (got {folder}); choose another.")
        return
    pages = [folder / PAGE, *sorted((folder / STEP_FOLDER).glob(f"{'[0-9]' * 4}.html"))]
    taken += [path for path in pages if os.path.lexists(path) and not _is_page(path)]
    taken += [path for path in (folder / WATCH,) if not _is_plain(path)]
    places = [folder / name for name in (MODEL_FOLDER, SNAPSHOT_FOLDER, STEP_FOLDER)]
    taken += [path for path in places if os.path.lexists(path) and (path.is_symlink() or not path.is_dir())]
    if taken:
        raise InputError(
            f"Expected a folder in which the names that a watch writes are its own (got {folder}, where "
            f"{taken[0].relative_to(folder)} is something else); move it away, or choose another folder: nothing there "
            "was touched."
        )


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_page(path: Path) -> bool:
    """Whether a page was made here."""
    if not _is_plain(path):
        return False
    with path.open("rb") as stream:
        return MADE_BY in stream.read(FIRST_BYTES)

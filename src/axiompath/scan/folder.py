"""The folder that a scan writes: locked while it is written to, and whole only when its manifest says so.

manifest.json       what was asked, how many nodes were found, and every part with its digest; written last
moved.parquet       every node that an altered path reaches
too_large.parquet   nodes that the memory budget cannot hold, with their number of paths
parts/part-*.parquet
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa

from ..errors import InputError
from ..writing import DRAFT, write_text
from .parts import is_whole, write_whole
from .plan import Plan

FORMAT = "axiompath.scan"
VERSION = 2  # 1, which 0.1 wrote, is read too
MANIFEST, MOVED, TOO_LARGE, PARTS, LOCK = "manifest.json", "moved.parquet", "too_large.parquet", "parts", ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[IO[Any]]:
    """Make the folder and hold its lock; the lock goes with this process, however it ends."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"Expected a folder to write to (got the file {folder}); choose another name.")
    known = {MANIFEST, MOVED, TOO_LARGE, PARTS, LOCK}
    strangers = [path.name for path in folder.iterdir() if path.name not in known] if folder.exists() else []
    strangers = [name for name in strangers if not name.endswith(DRAFT)]
    if strangers:
        raise InputError(
            f"Expected an empty folder, or one that this scan began (got {folder}, which holds {strangers[0]}); "
            "choose another name: nothing there was touched."
        )
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as lock:
        try:
            _lock(lock)
        except OSError as error:
            raise InputError(
                f"Expected a folder that nobody writes to (got {folder}, where another scan is running); "
                "wait until it has ended, or choose another name."
            ) from error
        yield lock


def _lock(file: IO[Any]) -> None:
    """Lock it or raise an OSError at once."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def begin(folder: Path, plan: Plan) -> list[int]:
    """Check that the folder is this scan's or empty, clear away drafts, and say which parts are missing."""
    manifest = folder / MANIFEST
    if manifest.exists():
        held = read_manifest(folder)
        if held.get("scan") != plan.digest:
            raise InputError(
                f"Expected an empty folder, or one that this very scan began (got {folder}, which holds a scan of "
                "other graphs, another model or another question); choose another name: nothing there was touched."
            )
    clear_drafts(folder)
    if not manifest.exists():
        write_manifest(folder, {**describe(plan), "complete": False})
    missing = []
    for part in range(plan.num_parts):
        targets = plan.part(part)
        if not is_whole(part_file(folder, part), plan.digest, targets.stop - targets.start):
            missing.append(part)
    return missing


def finish(folder: Path, plan: Plan, num_failed: int) -> None:
    """Write the tables of the plan and, last, the manifest."""
    write_whole(folder / MOVED, _to_table(plan.moved))
    write_whole(folder / TOO_LARGE, _to_table(plan.too_large))
    parts = []
    for part in range(plan.num_parts):
        file, targets = part_file(folder, part), plan.part(part)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        parts.append({"file": f"{PARTS}/{file.name}", "targets": targets.stop - targets.start, "sha256": digest})
    numbers = {"num_failed": num_failed, "num_explained": len(plan.targets) - num_failed}
    write_manifest(folder, {**describe(plan), **numbers, "parts": parts, "complete": True})


def clear_drafts(folder: Path) -> None:
    """Take away what was begun and never finished."""
    for draft in [*folder.glob(f"*{DRAFT}"), *(folder / PARTS).glob(f"*{DRAFT}")]:
        draft.unlink(missing_ok=True)


def part_file(folder: Path, part: int) -> Path:
    """Where a part is written."""
    return folder / PARTS / f"part-{part:06d}.parquet"


def describe(plan: Plan) -> dict[str, Any]:
    """What a plan says of itself: nothing that depends on when, where or how it is carried out."""
    flipped = int((plan.moved.class_before != plan.moved.class_after).sum())
    return {
        "format": FORMAT,
        "version": VERSION,
        "scan": plan.digest,
        "origin": plan.origin.to_dict(),
        "question": {**asdict(plan.question), "budget": int(plan.question.budget)},
        "thresholds": asdict(plan.thresholds),
        "num_moved": len(plan.moved),
        "num_flipped": flipped,
        "num_targets": len(plan.targets),
        "num_too_large": len(plan.too_large),
    }


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, checked to be one."""
    try:
        held = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"Expected the folder of a scan at {folder} (found no {MANIFEST} there).") from None
    except (OSError, ValueError) as error:
        raise InputError(f"Expected a scan's {MANIFEST} in {folder} (it is damaged).") from error
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise InputError(f"Expected a scan's {MANIFEST} in {folder} (got something else).")
    if held.get("version") not in range(1, VERSION + 1):
        raise InputError(
            f"Expected version 1 to {VERSION} of a scan in {folder} (got {held.get('version')!r}); run the scan again."
        )
    return held


def write_manifest(folder: Path, values: dict[str, Any]) -> None:
    """Whole or not at all."""
    write_text(folder / MANIFEST, json.dumps(values, indent=1, sort_keys=True) + "\n")


def _to_table(frame: pd.DataFrame) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    for i, name in enumerate(table.column_names):
        if name.endswith("name"):  # text, also where there are no rows to see it by, and in every release of pandas
            table = table.set_column(i, name, table.column(i).cast(pa.string()))
    return table

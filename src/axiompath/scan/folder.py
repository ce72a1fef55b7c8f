"""The folder that a scan writes: locked while it is written to, and whole only when its manifest says so.

manifest.json       what was asked, how many nodes were found, and every file with its digest; written last
moved.parquet       every node that an altered path reaches
too_large.parquet   nodes that the memory budget cannot hold, with their number of paths
parts/part-*.parquet
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa

from ..errors import InputError
from ..trust import blamed, file_digest, read_json
from ..writing import DRAFT, write_text
from .parts import is_whole, write_whole
from .plan import Plan

FORMAT = "axiompath.scan"
VERSION = 1
DIGEST = re.compile("[0-9a-f]{64}")
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
    tables = {name: file_digest(folder / name) for name in (MOVED, TOO_LARGE)}
    parts = []
    for part in range(plan.num_parts):
        file, targets = part_file(folder, part), plan.part(part)
        digest = file_digest(file)
        parts.append({"file": f"{PARTS}/{file.name}", "targets": targets.stop - targets.start, "sha256": digest})
    numbers = {"num_failed": num_failed, "num_explained": len(plan.targets) - num_failed}
    write_manifest(folder, {**describe(plan), **numbers, "parts": parts, "tables": tables, "complete": True})


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
        "question": {**asdict(plan.question), "budget": int(plan.question.budget)},
        "thresholds": asdict(plan.thresholds),
        "num_moved": len(plan.moved),
        "num_flipped": flipped,
        "num_targets": len(plan.targets),
        "num_too_large": len(plan.too_large),
    }


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, checked to be one."""
    path = folder / MANIFEST
    if not path.exists():
        raise InputError(f"Expected the folder of a scan at {folder} (found no {MANIFEST} there).")
    held = read_json(path)
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise InputError(f"Expected a scan's {MANIFEST} in {folder} (got something else).")
    if held.get("version") != VERSION:
        shown = str(held.get("version"))[:20]
        raise InputError(f"Expected version {VERSION} of a scan in {folder} (got {shown}); run the scan again.")
    if held.get("complete") is True:
        with blamed(f"Expected a scan's {MANIFEST} in {folder} (it is damaged)."):
            _check_manifest(held)
    return held


def _check_manifest(held: dict[str, Any]) -> None:
    """Raise a ValueError unless counts are counts, and every file is one of this folder's, with its digest."""
    counts = [held[f"num_{name}"] for name in ("moved", "flipped", "targets", "too_large", "failed", "explained")]
    tables = held.get("tables", {})  # scans of release 0.1 have no digests of these
    digests = [*tables.values(), *(part["sha256"] for part in held["parts"])]
    files = [part["file"] for part in held["parts"]]
    if (
        not all(type(count) is int and count >= 0 for count in counts)
        or files != [f"{PARTS}/{part_file(Path(), i).name}" for i in range(len(files))]
        or not all(type(part["targets"]) is int and part["targets"] > 0 for part in held["parts"])
        or sum(part["targets"] for part in held["parts"]) != held["num_targets"]
        or held["num_explained"] + held["num_failed"] != held["num_targets"]
        or ("tables" in held and set(tables) != {MOVED, TOO_LARGE})
        or not all(isinstance(digest, str) and DIGEST.fullmatch(digest) for digest in digests)
    ):
        raise ValueError("other counts, names or digests than a scan writes")


def write_manifest(folder: Path, values: dict[str, Any]) -> None:
    """Whole or not at all."""
    write_text(folder / MANIFEST, json.dumps(values, indent=1, sort_keys=True) + "\n")


def _to_table(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)

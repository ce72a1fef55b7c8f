"""The folder that a scan writes: locked while it is written to, and whole only when its manifest says so.

manifest.json       what was asked, how many nodes were found, and every file with its digest; written last
moved.parquet       every node that an altered path reaches
too_large.parquet   nodes that the memory budget cannot hold, with their number of paths
parts/part-*.parquet
parts/part-*.sha256 the digest of each part, recorded as it was written
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from ..errors import InputError, MissingFile
from ..parquet import is_whole, recorded_digest, write_parquet
from ..trust import Damaged, blamed, read_json
from ..writing import DRAFT, LOCK, clear_drafts, locked, write_text
from .parts import notes_of
from .plan import Plan

SCAN_FORMAT = "axiompath.scan"
SCAN_VERSION = 2  # 1, which 0.1 wrote, is read too
MANIFEST, MOVED, TOO_LARGE, PARTS = "manifest.json", "moved.parquet", "too_large.parquet", "parts"


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock; leave no drafts, whatever happens."""
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
    with locked(folder, "scan"):
        (folder / PARTS).mkdir(exist_ok=True)
        try:
            yield
        finally:
            _clear(folder)


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
    _clear(folder)
    if not manifest.exists():
        write_manifest(folder, {**describe(plan), "complete": False})
    missing = []
    for part in range(plan.num_parts):
        targets = plan.part(part)
        if not is_whole(part_file(folder, part), notes_of(plan.digest, targets.stop - targets.start, plan.origin)):
            missing.append(part)
    return missing


def finish(folder: Path, plan: Plan, num_failed: int) -> None:
    """Write the tables of the plan and, last, the manifest."""
    tables = {}
    for name, frame in ((MOVED, plan.moved), (TOO_LARGE, plan.too_large)):
        table = _to_table(frame)
        tables[name] = write_parquet(folder / name, [table], table.schema)
    parts = []
    for part in range(plan.num_parts):
        file, targets = part_file(folder, part), plan.part(part)
        held = {"file": f"{PARTS}/{file.name}", "targets": targets.stop - targets.start}
        parts.append({**held, "sha256": recorded_digest(file)})
    numbers = {"num_failed": num_failed, "num_explained": len(plan.targets) - num_failed}
    write_manifest(folder, {**describe(plan), **numbers, "parts": parts, "tables": tables, "complete": True})


def part_file(folder: Path, part: int) -> Path:
    """Where a part is written."""
    return folder / PARTS / f"part-{part:06d}.parquet"


def describe(plan: Plan) -> dict[str, Any]:
    """What a plan says of itself: nothing that depends on when, where or how it is carried out."""
    flipped = int((plan.moved.class_before != plan.moved.class_after).sum())
    return {
        "format": SCAN_FORMAT,
        "version": SCAN_VERSION,
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
        held = read_json(folder / MANIFEST)
    except MissingFile:
        raise MissingFile(f"Expected the folder of a scan at {folder} (found no {MANIFEST} there).") from None
    if not isinstance(held, dict) or held.get("format") != SCAN_FORMAT:
        raise InputError(f"Expected a scan's {MANIFEST} in {folder} (got something else).")
    if type(held.get("version")) is not int or held["version"] not in range(1, SCAN_VERSION + 1):
        shown = str(held.get("version"))[:20]
        raise InputError(f"Expected version 1 to {SCAN_VERSION} of a scan in {folder} (got {shown}); run it again.")
    if held.get("complete") is True:
        with blamed(f"Expected a scan's {MANIFEST} in {folder} (it is damaged)."):
            _check_manifest(held)
    return held


def _check_manifest(held: dict[str, Any]) -> None:
    """Counts are counts, and every file is one of this folder's, with its digest."""
    parts, tables = held["parts"], held["tables"] if held["version"] > 1 else {}
    counts = [held[f"num_{name}"] for name in ("moved", "flipped", "targets", "too_large", "failed", "explained")]
    digests = [*tables.values(), *(part["sha256"] for part in parts)]
    if (
        not all(type(count) is int and count >= 0 for count in (*counts, *(part["targets"] for part in parts)))
        or [part["file"] for part in parts] != [f"{PARTS}/{part_file(Path(), i).name}" for i in range(len(parts))]
        or sum(part["targets"] for part in parts) != held["num_targets"]
        or held["num_explained"] + held["num_failed"] != held["num_targets"]
        or (held["version"] > 1 and set(tables) != {MOVED, TOO_LARGE})
        or not all(isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    ):
        raise Damaged("other counts, names or digests than a scan writes")


def write_manifest(folder: Path, values: dict[str, Any]) -> None:
    """Whole or not at all."""
    write_text(folder / MANIFEST, json.dumps(values, indent=1, sort_keys=True) + "\n")


def _to_table(frame: pd.DataFrame) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    for i, name in enumerate(table.column_names):
        if name.endswith("name"):  # text, also where there are no rows to see it by, and in every release of pandas
            table = table.set_column(i, name, table.column(i).cast(pa.string()))
    return table


def _clear(folder: Path) -> None:
    """Take away drafts of this scan's own files, and no others."""
    clear_drafts(folder, MANIFEST, MOVED, TOO_LARGE)
    clear_drafts(folder / PARTS, "part-*.parquet", "part-*.sha256")

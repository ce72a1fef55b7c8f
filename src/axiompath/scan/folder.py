"""The folder that a scan writes: locked while it is written to, and whole only when its manifest says so.

manifest.json          what was asked, how many predictions were found, every file with its digest; written last
*.parquet              tables, see tables.py
parts/part-*.parquet   the explanations, with digests recorded as they were written
blame/facts-*.parquet  what changes do to targets, where changes are blamed, likewise; see effects.py
flips.parquet          each flip, what did it and what would undo it; summary.json the same for programs; see flips.py
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from ..errors import InputError, MissingFile, Notice
from ..explain.moved import find_flipped
from ..files.folder import ResumableFolder
from ..storage.codec import Count, FileForm, Text, decode, require, to_plain
from ..storage.origin import Origin, digest_of
from ..storage.parquet import is_whole, recorded_digest
from ..storage.safe import read_json
from ..storage.writing import write_text
from .flips import FLIP_FILES, SUMMARY
from .parts import Task, notes_of, written_for
from .plan import Plan, Thresholds
from .tables import BLAMED, CHANGED, NODES, OF_BLAME, OF_PLAN, SAMPLED, write_tables

SCAN_FORM = FileForm("scan", 2, remedy="run it again")
MANIFEST, PARTS, BLAME_PARTS = "manifest.json", "parts", "blame"
OF_GRAPHS = (CHANGED, NODES)  # tables that scans of earlier releases do not have
TABLES = (*OF_PLAN, NODES, *OF_BLAME, *FLIP_FILES)
PART_FILES = (f"{PARTS}/part", f"{BLAME_PARTS}/facts")
WRITTEN = (MANIFEST, *TABLES, *(f"{name}-*.{end}" for name in PART_FILES for end in ("parquet", "sha256")))


def as_resumable(folder: Path) -> ResumableFolder:
    """The folder of a scan, some of which may lie elsewhere and be linked to."""
    return ResumableFolder(folder, "scan", links=True)


def check_folder(folder: Path, plan: Plan) -> None:
    """Refuse a folder in which a name that this scan would write is taken by something else; nothing is touched."""
    held = as_resumable(folder)
    held.check_folder()
    numbered = [path for name in PART_FILES for end in ("parquet", "sha256")
                for path in sorted(folder.glob(f"{name}-{'[0-9]' * 6}.{end}"))]  # fmt: skip
    names = [*TABLES, *(path.relative_to(folder).as_posix() for path in numbered)]
    manifest = own_manifest(folder, plan) if held.is_plain(MANIFEST) else None
    taken = held.foreign([MANIFEST, *names], [PARTS, BLAME_PARTS])
    held.refuse(taken + [name for name in names if held.is_plain(name) and not _is_ours(folder, name, plan, manifest)])


def _is_ours(folder: Path, name: str, plan: Plan, manifest: Mapping[str, Any] | None) -> bool:
    """A file says whose it is; where it is too damaged for that, what our manifest lists and parts with a record are
    ours."""
    path = folder / name
    if manifest is not None and name in manifest.get("tables", {}):
        return True
    if name in TABLES:
        return (_summary_of(path) if name == SUMMARY else written_for(path)) == plan.digest
    with suppress(OSError, ValueError):
        if manifest is not None and recorded_digest(path.with_suffix(".parquet")):
            return True
    return written_for(path.with_suffix(".parquet")) == plan.digest


def _summary_of(path: Path) -> Any:
    """The digest of the scan that a summary is of; None of any other file."""
    with suppress(InputError):
        held = read_json(path)
        return held.get("scan") if isinstance(held, dict) else None
    return None


def own_manifest(folder: Path, plan: Plan) -> dict[str, Any]:
    """The manifest of this very scan; none where it is damaged beside parts that this scan wrote, else refused."""
    try:
        held = read_manifest(folder)
        if held.get("scan") == plan.digest:
            return held
        problem = InputError(
            f"Expected an empty folder, or one that this very scan began (got {folder}, which holds a scan of "
            "other graphs, another model or another question); choose another name: nothing was changed there."
        )
    except InputError as error:
        problem = error
    if len(missing_parts(folder, plan)) < plan.num_parts:
        return {}
    raise problem


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock; leave no drafts, whatever happens."""
    with as_resumable(folder).locked(*WRITTEN):
        (folder / PARTS).mkdir(exist_ok=True)
        yield


def is_finished(folder: Path, plan: Plan, blame: bool | int = False, *, flips: bool = False) -> bool:
    """Whether this scan is there as a whole, with the blame and the flips it was asked for: nothing is left to write.

    The manifest is as it was written, and so is every file that it lists.
    """
    try:
        held = read_manifest(folder)
        asked = blame is False or held.get("blame", {}).get("asked") == blame
        if held.get("scan") != plan.digest or held.get("sha256") != _digest(held) or not asked:
            return False
        parts = [*held["parts"], *held.get("blame", {}).get("parts", ())]
        recorded = all(part["sha256"] == recorded_digest(folder / part["file"]) for part in parts)
        return recorded and is_intact(folder) and not (flips and SUMMARY not in held["tables"])
    except (OSError, ValueError, LookupError, pa.ArrowException):
        return False


def is_intact(folder: Path) -> bool:
    """Whether a whole scan is there, every file with the digest that the manifest gives it; of whatever plan."""
    try:
        held = read_manifest(folder)
        parts = [*held["parts"], *held.get("blame", {}).get("parts", ())]
        digests = {**held["tables"], **{part["file"]: part["sha256"] for part in parts}}
        return bool(held["complete"]) and not as_resumable(folder).missing(digests)
    except (OSError, ValueError, LookupError):
        return False


def begin(folder: Path, plan: Plan) -> list[int]:
    """Which parts are missing; a warning says which are damaged."""
    check_folder(folder, plan)  # again, now that nobody else writes there
    if not (folder / MANIFEST).exists() or not own_manifest(folder, plan):
        write_manifest(folder, {**describe(plan), "complete": False})
    missing = missing_parts(folder, plan)
    _warn_of_damage(folder, [part_file(folder, part) for part in missing], plan.num_parts)
    return missing


def missing_parts(folder: Path, plan: Plan) -> list[int]:
    """Parts that are not there, or not as they were written."""
    found = []
    for part in range(plan.num_parts):
        notes = notes_of(plan.digest, len(range(*plan.part(part).indices(len(plan.targets)))), plan.origin, plan.task)
        if not is_whole(part_file(folder, part), notes):
            found.append(part)
    return found


def missing_effects(folder: Path, num_parts: int, notes: dict[str, Any]) -> list[int]:
    """Parts of the blame that are not there, or not as they were written; a warning says which are damaged."""
    missing = [part for part in range(num_parts) if not is_whole(effects_file(folder, part), notes)]
    _warn_of_damage(folder / BLAME_PARTS, [effects_file(folder, part) for part in missing], num_parts)
    return missing


def _warn_of_damage(folder: Path, missing: list[Path], num_parts: int) -> None:
    damaged = [file.name for file in missing if file.exists()]
    if damaged:
        warnings.warn(
            f"{len(damaged):,} of {num_parts:,} parts in {folder} are damaged, {damaged[0]} the first; "
            "they are computed again.",
            Notice,
            stacklevel=3,
        )


def check_blame(folder: Path, asked: bool | int) -> bool | int:
    """What is to be blamed: a scan that was begun with blame goes on with it, and refuses to blame otherwise."""
    held: bool | int = asked
    with suppress(InputError):
        held = read_manifest(folder).get("blame", {}).get("asked", asked)
    if asked is not False and held != asked:
        raise InputError(
            f"Expected blame={held}, as in the scan that is in {folder} (got {asked}); choose another folder."
        )
    return held


def finish(
    folder: Path,
    plan: Plan,
    num_failed: int,
    frames: Mapping[str, pd.DataFrame],
    blame: tuple[bool | int, int] | None,
    write_flips: Callable[[dict[str, Any]], dict[str, str]] | None,
) -> None:
    """Write the tables, those of the flips, and last the manifest; `blame`: what was asked, and its number of parts."""
    held = {
        **describe(plan), "num_failed": num_failed, "num_explained": len(plan.targets) - num_failed,
        "num_changes": len(frames[CHANGED]), "num_nodes": len(frames[NODES]), "complete": True,
    }  # fmt: skip
    held["parts"] = [
        {"file": part_name(part), "targets": len(plan.targets[plan.part(part)]),
         "sha256": recorded_digest(part_file(folder, part))}
        for part in range(plan.num_parts)
    ]  # fmt: skip
    held["tables"] = write_tables(folder, frames, plan.digest)
    if blame is not None:
        asked, num_parts = blame
        files = [effects_file(folder, part) for part in range(num_parts)]
        held["blame"] = {
            "asked": asked, "num_changes": len(frames[CHANGED]), "num_targets": len(frames[BLAMED]),
            "num_sampled": len(frames[SAMPLED]),
            "parts": [
                {"file": file.relative_to(folder).as_posix(), "rows": pq.read_metadata(file).num_rows,
                 "sha256": recorded_digest(file)} for file in files
            ],
        }  # fmt: skip
    if write_flips is not None:
        held["tables"] |= write_flips(held)
    write_manifest(folder, held)


def part_file(folder: Path, part: int) -> Path:
    """Where a part is written."""
    return folder / part_name(part)


def part_name(part: int) -> str:
    """The same, beneath the folder, as a manifest has it."""
    return f"{PARTS}/part-{part:06d}.parquet"


def effects_file(folder: Path, part: int) -> Path:
    """Where a part of the blame is written."""
    return folder / f"{BLAME_PARTS}/facts-{part:06d}.parquet"


def describe(plan: Plan) -> dict[str, Any]:
    """What a plan says of itself: nothing that depends on when, where or how it is carried out."""
    return {
        **SCAN_FORM.head,
        "scan": plan.digest,
        "origin": to_plain(plan.origin),
        "task": plan.task,
        "question": {**asdict(plan.question), "budget": int(plan.question.budget)},
        "thresholds": asdict(plan.thresholds),
        "num_moved": len(plan.moved),
        "num_flipped": int(find_flipped(plan.moved).sum()),
        "num_targets": len(plan.targets),
        "num_too_large": len(plan.too_large),
    }


def write_manifest(folder: Path, values: dict[str, Any]) -> None:
    """Write atomically, with its own digest."""
    held = {**values, "sha256": _digest(values)}
    write_text(folder / MANIFEST, json.dumps(held, indent=1, sort_keys=True) + "\n")


def _digest(values: Mapping[str, Any]) -> str:
    held = {key: value for key, value in values.items() if key != "sha256"}
    return digest_of(json.dumps(held, sort_keys=True))


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, checked to be one."""
    try:
        held = read_json(folder / MANIFEST)
    except MissingFile:
        raise MissingFile(f"Expected the folder of a scan at {folder} (found no {MANIFEST} there).") from None
    stripped = SCAN_FORM.open(held, f" in {folder / MANIFEST}")
    if held.get("complete") is True:
        decode(Manifest, stripped, f"a scan's {MANIFEST} in {folder}")
    elif not isinstance(held.get("blame", {}), dict):
        raise InputError(f"Expected a scan's {MANIFEST} in {folder} (it is damaged).")
    return dict(held)


Digest: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True)
class PartNote:
    """A part, by its name beneath the folder."""

    file: Text
    sha256: Digest
    targets: Count


@dataclass(frozen=True)
class EffectsNote:
    """A part of what changes do to targets."""

    file: Text
    sha256: Digest
    rows: Count


@dataclass(frozen=True)
class BlameNotes:
    """What a scan says of its blame."""

    asked: Any
    num_changes: Count
    num_targets: Count
    num_sampled: Count
    parts: tuple[EffectsNote, ...]

    def check(self) -> None:
        """Every file is one of this folder's."""
        files = [effects_file(Path(), i).as_posix() for i in range(len(self.parts))]
        require([part.file for part in self.parts] == files, "`blame.parts` should be files that a scan writes")


@dataclass(frozen=True)
class Manifest:
    """What a finished scan says of itself."""

    partial: ClassVar = True

    scan: Text
    origin: Origin
    task: Task
    question: dict[str, Any]
    thresholds: Thresholds
    num_moved: Count
    num_flipped: Count
    num_targets: Count
    num_too_large: Count
    num_failed: Count
    num_explained: Count
    parts: tuple[PartNote, ...]
    tables: dict[str, Digest]
    complete: bool
    num_changes: Count | None = None  # rows of the tables of the graphs, where these are written
    num_nodes: Count | None = None
    blame: BlameNotes | None = None
    sha256: Text = ""  # of all else; release 0.2 wrote none

    def check(self) -> None:
        """Counts fit each other, and every file is one of this folder's."""
        files = [part_name(i) for i in range(len(self.parts))]
        require([part.file for part in self.parts] == files, "`parts` should be files that a scan writes")
        require(sum(part.targets for part in self.parts) == self.num_targets, "`parts` should have all targets")
        whole = self.num_explained + self.num_failed == self.num_targets
        require(whole, "`num_targets` should be those explained and failed")
        needed = {*OF_PLAN, *(OF_BLAME if self.blame is not None else ())}
        listed = needed <= {*self.tables} <= {*needed, *OF_GRAPHS, *FLIP_FILES}
        require(listed, f"`tables` should be {', '.join(sorted(needed))}")
        of_changes = self.num_changes is not None or self.blame is not None or CHANGED not in self.tables
        counted = of_changes and (self.num_nodes is not None or NODES not in self.tables)
        require(counted, f"`tables` should have {CHANGED} and {NODES} with the number of their rows")

"""The folder that a scan writes: locked while it is written to, and whole only when its manifest says so.

manifest.json       what was asked, how many nodes were found, and every file with its digest; written last
moved.parquet       every node that an altered path reaches
too_large.parquet   nodes that the memory budget cannot hold, with their number of paths
parts/part-*.parquet
parts/part-*.sha256 the digest of each part, recorded as it was written

flips.parquet       each flip, what did it and what would undo it; summary.json the same for programs (see flips.py)
changes.parquet     what happened to the graph, a row per change
nodes.parquet       the nodes: predicted classes, degrees, neighbours of the same class (see nodes.py)

Where changes are blamed also blame/facts-*.parquet with digests, blamed.parquet (the targets) and sampled.parquet
(exact blame of some of them); see facts.py.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from ..errors import InputError, MissingFile, Notice
from ..explain.moved import find_flipped
from ..files.folder import ResumableFolder
from ..storage.codec import Count, FileForm, Text, decode, require, to_plain
from ..storage.origin import Origin
from ..storage.parquet import is_whole, recorded_digest, with_notes, write_parquet
from ..storage.parquet_pages import open_parquet
from ..storage.safe import Damaged, read_json
from ..storage.writing import write_text
from .facts import facts_file, facts_name
from .flips import FLIP_FILES, FLIPS, SUMMARY
from .parts import PARTNER, Task, notes_of, written_for
from .plan import Plan, Thresholds

SCAN_FORM = FileForm("scan", 2, remedy="run it again")
MANIFEST, MOVED, TOO_LARGE, PARTS = "manifest.json", "moved.parquet", "too_large.parquet", "parts"
BLAME_PARTS = "blame"
CHANGED, BLAMED, SAMPLED = BLAME_TABLES = "changes.parquet", "blamed.parquet", "sampled.parquet"
NODES = "nodes.parquet"
# Memory that a file may take which is compared with the table that should be there: what open_parquet counts for it.
ROOM, GREATEST_GROWTH = 50e6, 50
WRITTEN = (
    MANIFEST, MOVED, TOO_LARGE, NODES, *FLIP_FILES, *BLAME_TABLES, f"{PARTS}/part-*.parquet", f"{PARTS}/part-*.sha256",
    f"{BLAME_PARTS}/facts-*.parquet", f"{BLAME_PARTS}/facts-*.sha256",
)  # fmt: skip
BESIDE_PLAN = (CHANGED, NODES)  # tables of the graphs, which scans of earlier releases do not have


def as_resumable(folder: Path) -> ResumableFolder:
    """The folder of a scan, some of which may lie elsewhere and be linked to."""
    return ResumableFolder(folder, "scan", links=True)


def check_folder(folder: Path, plan: Plan) -> None:
    """Refuse a folder in which a name that this scan would write is taken by something else; nothing is touched."""
    held = as_resumable(folder)
    held.check_folder()
    parts = [
        path.relative_to(folder).as_posix()
        for place, name in ((PARTS, "part"), (BLAME_PARTS, "facts"))
        for end in ("parquet", "sha256")
        for path in sorted((folder / place).glob(f"{name}-{'[0-9]' * 6}.{end}"))
    ]
    tables = {path.name: frame for path, frame in _tables(folder, plan)}
    taken = held.foreign([MANIFEST, *tables, *BESIDE_PLAN, *FLIP_FILES, *parts], [PARTS, BLAME_PARTS])
    began = held.is_plain(MANIFEST)
    manifest = _own_manifest(folder, plan) if began else {}
    listed = manifest.get("tables", {}) if manifest.get("complete") else {}
    beside = [name for name in BESIDE_PLAN if held.is_plain(name) and name not in listed]
    beside += [FLIPS] * (held.is_plain(FLIPS) and FLIPS not in listed)
    taken += [name for name in beside if written_for(folder / name) != plan.digest]
    if held.is_plain(SUMMARY) and SUMMARY not in listed and _summary_of(folder) != plan.digest:
        taken.append(SUMMARY)
    if not manifest.get("complete"):  # a table is there only if the scan was stopped just before its manifest
        there = [name for name in tables if (folder / name).exists()]
        taken += [name for name in there if not (began and _holds(folder / name, tables[name]))]
    taken += [name for name in parts if not _is_ours((folder / name).with_suffix(".parquet"), plan, began)]
    held.refuse(taken)


def _own_manifest(folder: Path, plan: Plan) -> dict[str, Any]:
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


def _summary_of(folder: Path) -> Any:
    """The digest of the scan that a summary is of; None of any other file."""
    with suppress(InputError):
        held = read_json(folder / SUMMARY)
        return held.get("scan") if isinstance(held, dict) else None
    return None


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock; leave no drafts, whatever happens."""
    with as_resumable(folder).locked(*WRITTEN):
        (folder / PARTS).mkdir(exist_ok=True)
        yield


def is_finished(folder: Path, plan: Plan, blame: bool | int = False, *, flips: bool = False) -> bool:
    """Whether this scan is there as a whole, with the blame and the flips it was asked for: nothing is left to write.

    Every file has the digest and the rows that the manifest gives it, and the manifest says what the plan does.
    """
    try:
        held = read_manifest(folder)
        if not held.get("complete") or (blame is not False and held.get("blame", {}).get("asked") != blame):
            return False
        if flips and SUMMARY not in held["tables"]:
            return False
        if any(held.get(key) != value for key, value in json.loads(json.dumps(describe(plan))).items()):
            return False
        if as_resumable(folder).missing(_digests(held, _facts_of(held))) or missing_parts(folder, plan):
            return False
        if not all(part["sha256"] == recorded_digest(folder / part["file"]) for part in held["parts"]):
            return False
        if blame is not False and not _counts_blame(folder, held):
            return False
        if not all(held[_number_of(name)] == _num_rows(folder / name) for name in {*BESIDE_PLAN} & {*held["tables"]}):
            return False
    except (OSError, ValueError, LookupError, pa.ArrowException):
        return False
    return all(_holds(path, frame) for path, frame in _tables(folder, plan))


def is_intact(folder: Path) -> bool:
    """Whether a whole scan is there, every file with the digest that the manifest gives it; of whatever plan."""
    try:
        held = read_manifest(folder)
        return bool(held.get("complete")) and not as_resumable(folder).missing(
            _digests(held, held["parts"], _facts_of(held))
        )
    except (OSError, ValueError, LookupError):
        return False


def begin(folder: Path, plan: Plan) -> list[int]:
    """Which parts are missing; a warning says which are damaged."""
    check_folder(folder, plan)  # again, now that nobody else writes there
    if not (folder / MANIFEST).exists() or not _own_manifest(folder, plan):
        write_manifest(folder, {**describe(plan), "complete": False})
    missing = missing_parts(folder, plan)
    _warn_of_damage(folder, [part_file(folder, part) for part in missing], plan.num_parts)
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


def missing_parts(folder: Path, plan: Plan) -> list[int]:
    """Parts that are not there, or not as they were written."""
    found = []
    for part in range(plan.num_parts):
        targets = plan.part(part)
        notes = notes_of(plan.digest, targets.stop - targets.start, plan.origin, plan.task)
        if not is_whole(part_file(folder, part), notes):
            found.append(part)
    return found


def check_blame(folder: Path, asked: bool | int) -> None:
    """Refuse to blame otherwise than the scan that is there did."""
    held = asked_blame(folder, asked)
    if held != asked:
        raise InputError(
            f"Expected blame={held}, as in the scan that is in {folder} (got {asked}); choose another folder."
        )


def asked_blame(folder: Path, otherwise: bool | int) -> bool | int:
    """What the scan that is there was asked to blame; `otherwise` where it was not, or its manifest cannot be read."""
    with suppress(InputError):
        held: bool | int = read_manifest(folder).get("blame", {}).get("asked", otherwise)
        return held
    return otherwise


def missing_facts(folder: Path, num_parts: int, notes: dict[str, Any]) -> list[int]:
    """Parts of facts that are not there, or not as they were written; a warning says which are damaged."""
    missing = [part for part in range(num_parts) if not is_whole(facts_file(folder / BLAME_PARTS, part), notes)]
    _warn_of_damage(folder / BLAME_PARTS, [facts_file(folder / BLAME_PARTS, part) for part in missing], num_parts)
    return missing


def finish_blame(
    folder: Path, asked: bool | int, num_parts: int, num_changes: int, frames: dict[str, pd.DataFrame]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Write the tables that go with the facts; what the manifest says of the facts, and the tables' digests."""
    tables = {}
    for name, frame in frames.items():
        table = _to_table(frame)
        tables[name] = write_parquet(folder / name, [table], table.schema)
    parts = []
    for part in range(num_parts):
        file = facts_file(folder / BLAME_PARTS, part)
        held = {"file": f"{BLAME_PARTS}/{file.name}", "rows": _num_rows(file)}
        parts.append({**held, "sha256": recorded_digest(file)})
    numbers = {"num_changes": num_changes, "num_targets": len(frames[BLAMED])}
    return {"asked": asked, **numbers, "num_sampled": len(frames[SAMPLED]), "parts": parts}, tables


def _num_rows(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def _digests(held: dict[str, Any], *lists: Any) -> dict[str, str]:
    """The digests of a manifest's tables and of the parts in these lists, by file."""
    return {**held["tables"], **{part["file"]: part["sha256"] for parts in lists for part in parts}}


def _facts_of(held: dict[str, Any]) -> Any:
    return held.get("blame", {}).get("parts", ())


def _counts_blame(folder: Path, held: dict[str, Any]) -> bool:
    """Whether the facts and the tables beside them have the rows that the manifest gives them."""
    manifest = held["blame"]
    rows = {part["file"]: part["rows"] for part in manifest["parts"]}
    rows |= dict(
        zip(BLAME_TABLES, (manifest["num_changes"], manifest["num_targets"], manifest["num_sampled"]), strict=True)
    )
    return all(_num_rows(folder / name) == number for name, number in rows.items())


def finish(
    folder: Path,
    plan: Plan,
    num_failed: int,
    beside: dict[str, pd.DataFrame],
    blame: tuple[dict[str, Any], dict[str, str]] | None = None,
    write_flips: Callable[[dict[str, Any]], dict[str, str]] | None = None,
) -> None:
    """Write the tables of the plan and those `beside` it, by name, what is said of flips, and last the manifest."""
    tables = {} if blame is None else dict(blame[1])
    for path, frame in _tables(folder, plan):
        table = _to_table(frame)
        tables[path.name] = write_parquet(path, [table], table.schema)
    for name, frame in beside.items():  # which say whose they are
        table = _to_table(frame)
        schema = with_notes(table.schema, {"scan": plan.digest})
        tables[name] = write_parquet(folder / name, [table.cast(schema)], schema)
    parts = []
    for part in range(plan.num_parts):
        file, targets = part_file(folder, part), plan.part(part)
        held = {"file": part_name(part), "targets": targets.stop - targets.start}
        parts.append({**held, "sha256": recorded_digest(file)})
    numbers = {"num_failed": num_failed, "num_explained": len(plan.targets) - num_failed}
    numbers |= {_number_of(name): len(frame) for name, frame in beside.items()}
    held = {**describe(plan), **numbers, "parts": parts, "tables": tables, "complete": True}
    if write_flips is not None:
        tables |= write_flips(held)
    write_manifest(folder, held if blame is None else {**held, "blame": blame[0]})


def part_file(folder: Path, part: int) -> Path:
    """Where a part is written."""
    return folder / part_name(part)


def part_name(part: int) -> str:
    """The same, beneath the folder, as a manifest has it."""
    return f"{PARTS}/part-{part:06d}.parquet"


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
class FactsNote:
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
    parts: tuple[FactsNote, ...]

    def check(self) -> None:
        """Every file is one of this folder's."""
        files = [f"{BLAME_PARTS}/{facts_name(i)}" for i in range(len(self.parts))]
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

    def check(self) -> None:
        """Counts fit each other, and every file is one of this folder's."""
        files = [part_name(i) for i in range(len(self.parts))]
        require([part.file for part in self.parts] == files, "`parts` should be files that a scan writes")
        require(sum(part.targets for part in self.parts) == self.num_targets, "`parts` should have all targets")
        whole = self.num_explained + self.num_failed == self.num_targets
        require(whole, "`num_targets` should be those explained and failed")
        needed = {MOVED, TOO_LARGE, *(BLAME_TABLES if self.blame is not None else ())}
        require(
            needed <= {*self.tables} <= {*needed, *BESIDE_PLAN, *FLIP_FILES},
            f"`tables` should be {', '.join(sorted(needed))}",
        )
        for name, number in ((CHANGED, self.num_changes), (NODES, self.num_nodes)):
            counted = number is not None or name not in self.tables or self.blame is not None
            require(counted, f"`tables` should have {name} with the number of its rows")


def _number_of(name: str) -> str:
    return f"num_{name.removesuffix('.parquet')}"


def write_manifest(folder: Path, values: dict[str, Any]) -> None:
    """Write atomically."""
    write_text(folder / MANIFEST, json.dumps(values, indent=1, sort_keys=True) + "\n")


def _is_ours(part: Path, plan: Plan, began: bool) -> bool:
    """A part says whose it is; where it is too damaged for that, its record does, in a folder that this scan began."""
    with suppress(OSError, ValueError):
        if began and recorded_digest(part):
            return True
    return written_for(part) == plan.digest


def _tables(folder: Path, plan: Plan) -> list[tuple[Path, pd.DataFrame]]:
    return [(folder / MOVED, plan.moved), (folder / TOO_LARGE, plan.too_large)]


def _holds(path: Path, frame: pd.DataFrame) -> bool:
    """Whether a file is the table that the scan writes there."""
    table = _to_table(frame)
    with suppress(OSError, pa.ArrowException, ValueError, LookupError, Damaged):
        if path.is_file():
            open_parquet(path, ROOM + GREATEST_GROWTH * table.nbytes).close()  # whatever it says, it is bounded
            return bool(pq.read_table(path).equals(table))
    return False


def _to_table(frame: pd.DataFrame) -> pa.Table:
    if "target" in frame and frame.target.dtype == object:  # pairs lie in two columns
        ends = np.array(frame.target.tolist(), dtype=np.int64).reshape(-1, 2)
        frame = frame.assign(target=ends[:, 0])
        frame.insert(1, PARTNER, ends[:, 1])
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    for i, name in enumerate(table.column_names):
        if name.endswith("name"):  # text, also where there are no rows to see it by, and in every release of pandas
            table = table.set_column(i, name, table.column(i).cast(pa.string()))
    return table

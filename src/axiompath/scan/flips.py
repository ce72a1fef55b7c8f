"""Session + flips -> a Brief of each, within a stated time: flips.parquet and summary.json of a scan.

Flips are briefed in order of their divergence, some at a time by each worker, until all are done or the time is over;
how many were reached is written down. What is written of a flip never depends on the time, the machine or the workers.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from threadpoolctl import threadpool_limits

from ..blame.brief import Brief, Cause, LeastUndo, brief_target
from ..blame.engine import SubsetEngine
from ..blame.root import Root
from ..errors import InputError, Notice
from ..explain.moved import find_flipped
from ..explain.question import is_number
from ..graphs.changes import CHANGES
from ..session import Session
from ..storage import parquet
from ..storage.codec import Count, FileForm, Finite, Text, decode, to_plain
from ..storage.columns import columns_of
from ..storage.safe import read_json
from ..storage.writing import file_digest, write_text
from .work import Load

FLIPS, SUMMARY = FLIP_FILES = "flips.parquet", "summary.json"
SUMMARY_FORM = FileForm("summary", 1, remedy="run the scan again")
FLIP_SECONDS = 60.0  # for all flips of a scan, by default
FLIPS_OF_A_PART = 4
OF_CHANGES = tuple(kind.replace(" ", "_") for kind in CHANGES)
FIGURES = ("flips", "moved", "explained", "reached", "by_time", *OF_CHANGES)  # that conditions are about
WORTH_A_LOOK = 5  # predictions that have a brief, flips or not
FEW = 8  # flips, for which no worker is started
WORKER_BYTES = 400e6  # of a worker that has loaded what running a model needs


@dataclass(frozen=True)
class FlipRow:
    """A row of flips.parquet."""

    target: int
    partner: int | None  # the second end of a link
    name: str
    answer_before: str
    answer_after: str
    before: float
    after: float
    by_time: float
    num_in_sight: int
    num_enough: int
    headline: str
    cause: str
    remedy: str
    causes: tuple[Cause, ...]
    undo: tuple[int, ...]
    num_undo: int
    restored: bool
    proved: bool


FLIP_COLUMNS = pa.schema(list(columns_of(FlipRow).items()))


@dataclass(frozen=True, eq=False)
class StepSummary:
    """The result of a scan for other programs: counts, and a Brief of each flip that was analysed, largest first."""

    scan: Text  # the digest of the scan
    num_moved: Count
    num_flipped: Count
    num_explained: Count
    num_reached: Count  # flips with a brief
    seconds: Finite  # that these were given
    changes: dict[str, Count]  # how often each kind of change happened
    by_time: Finite  # of the probability that the flips moved: the share that is due only to time
    moved: Finite  # that probability, summed over flips
    flips: tuple[Brief, ...]
    others: tuple[Brief, ...] = ()  # where there are few flips: what moved the most and kept its answer

    @property
    def share_by_time(self) -> float:
        """The part of the flips' total change that is due only to time."""
        return self.by_time / self.moved if self.moved > 0 else 0.0


@dataclass(frozen=True, eq=False)
class FlipLoad(Load):
    """What a worker needs to brief any part of the flips; each part is a file of records."""

    engine: SubsetEngine
    roots: tuple[Root, ...]
    names: tuple[str, ...]
    class_names: tuple[str, ...]
    folder: Path
    deadline: float  # on the clock that all processes of a machine share

    idle_bytes = WORKER_BYTES
    remedy = "flip_seconds=0 leaves blame and undo of flips out"

    def need_of(self, part: int) -> float:
        """Bytes that a worker takes at most for a part, the worker itself included."""
        del part
        return 2 * WORKER_BYTES

    def do(self, kind: str, number: int) -> int:
        """Brief the flips of a part, as far as the time goes, and write what was found."""
        del kind
        found = []
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)
            for place in range(number * FLIPS_OF_A_PART, min((number + 1) * FLIPS_OF_A_PART, len(self.roots))):
                if place and time.time() > self.deadline:
                    break
                brief = brief_target(self.engine, self.roots[place], self.names[place], self.class_names)
                found.append(brief.to_dict())
        write_text(self.folder / f"{number:06d}.json", json.dumps(found))
        return number


def brief_flips(
    session: Session,
    folder: Path,
    moved: pd.DataFrame,
    seconds: float,
    run: Callable[[Load, list[int]], None],
) -> list[Brief]:
    """The flips among `moved` in order, as many as the time holds; where they are few, what else moved the most."""
    is_flip = find_flipped(moved)
    others = moved[~is_flip].head(max(WORTH_A_LOOK - int(is_flip.sum()), 0))
    flipped = pd.concat([moved[is_flip], others]) if len(others) else moved[is_flip]
    if flipped.empty or seconds <= 0:
        return []
    deadline = time.time() + seconds
    session.subsets.players(open_nodes=False)
    place = Path(tempfile.mkdtemp(prefix=".flips-", dir=folder))
    try:
        roots = tuple(map(session.root, flipped.target.tolist()))
        load = FlipLoad(session.subsets, roots, tuple(flipped.name), session.caption.class_names, place, deadline)
        parts = list(range(-(-len(roots) // FLIPS_OF_A_PART)))[::-1]
        if len(roots) <= FEW:
            for part in parts[::-1]:
                load.do("part", part)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Notice)  # workers that cannot read the model: it is run here
                run(load, parts)
        written = [read_json(place / f"{part:06d}.json") for part in parts[::-1]]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return [Brief.from_dict(record) for records in written for record in records]


def check_flip_seconds(seconds: object) -> None:
    """Refuse what is no time."""
    if not is_number(seconds) or not 0 <= seconds < float("inf"):  # type: ignore[operator]  # a number, as was asked
        raise InputError(f"Expected `flip_seconds` to be a number of 0 or more (got {seconds!r}).")


def summarise(held: dict[str, Any], changes: pd.DataFrame, seconds: float, briefs: list[Brief]) -> StepSummary:
    """The summary of a scan, of what its manifest says and its briefs."""
    flips = held["num_flipped"]
    found, others = (sorted(some, key=attrgetter("rank")) for some in (briefs[:flips], briefs[flips:]))
    kinds = changes.kind.astype(str).value_counts()
    moved = [brief.moved for brief in found]
    signs = [1.0 if one >= 0 else -1.0 for one in moved]
    by_time = sum(sign * brief.by_time for sign, brief in zip(signs, found, strict=True))
    return StepSummary(
        str(held["scan"]), held["num_moved"], held["num_flipped"], held["num_explained"], len(found), float(seconds),
        {str(kind): int(number) for kind, number in kinds.items() if number}, float(by_time),
        float(sum(map(abs, moved))), tuple(found), tuple(others),
    )  # fmt: skip


def write_summary(folder: Path, summary: StepSummary) -> dict[str, str]:
    """flips.parquet and summary.json; the digests of both, by name."""
    schema = parquet.with_notes(FLIP_COLUMNS, {"scan": summary.scan})
    rows = [to_plain(describe_flip(brief)) for brief in summary.flips]
    for cause in (cause for row in rows for cause in row["causes"]):
        cause["node"] = None if cause["node"] < 0 else cause["node"]
    digest = parquet.write_parquet(folder / FLIPS, [pa.Table.from_pylist(rows, schema=schema)], schema)
    held: dict[str, Any] = {**SUMMARY_FORM.head, **to_plain(summary)}
    for plain, brief in zip(held["flips"] + held["others"], summary.flips + summary.others, strict=True):
        plain |= {"sentences": [brief.headline, brief.cause, brief.remedy]}
    write_text(folder / SUMMARY, json.dumps(held) + "\n")
    return {FLIPS: digest, SUMMARY: file_digest(folder / SUMMARY)}


def describe_flip(brief: Brief) -> FlipRow:
    """A row of flips.parquet."""
    ends = brief.target if isinstance(brief.target, tuple) else (brief.target, None)
    answers = [brief.class_name(label) for label in (brief.class_before, brief.class_after)]
    undo = brief.undo or LeastUndo("", (), 0, restored=False, proved=False)
    return FlipRow(
        ends[0], ends[1], brief.name, answers[0], answers[1], brief.before, brief.after, brief.by_time,
        brief.num_in_sight, brief.num_enough, brief.headline, brief.cause, brief.remedy, brief.causes,
        undo.changes, undo.num_changes, undo.restored, undo.proved,
    )  # fmt: skip


def read_summary(folder: Path) -> StepSummary:
    """What `write_summary` wrote."""
    path = folder / SUMMARY
    held = SUMMARY_FORM.open(read_json(path), f" in {path}")
    records = {}
    for name in ("flips", "others"):
        briefs = held.get(name)
        if not isinstance(briefs, list) or not all(isinstance(brief, dict) for brief in briefs):
            raise InputError(f"Expected a list of `{name}` in {path} (it is damaged); run the scan again.")
        records[name] = [Brief.form.open({key: brief[key] for key in brief if key != "sentences"}) for brief in briefs]
    return decode(StepSummary, {**held, **records}, f"a scan's summary in {path}")

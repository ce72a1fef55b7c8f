"""Session + question -> Scan: every moved node explained, in a folder; a scan that was stopped goes on there."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from rich.progress import Progress

from ..errors import InputError
from ..explain.explanation import Explanation
from ..explain.question import Question
from ..graphs.names import meant_target
from ..outputs import BINARY, CLASSES, Output
from ..paths.search import known_of
from ..session import Session
from ..storage.codec import decode
from ..storage.notebook import bar_console, show
from ..storage.origin import Origin
from ..storage.safe import blamed
from ..storage.writing import file_digest
from .effects import write_effects
from .flips import (
    FIGURES,
    FLIP_FILES,
    OF_CHANGES,
    SUMMARY,
    StepSummary,
    brief_flips,
    read_summary,
    summarise,
    write_summary,
)
from .folder import (
    MANIFEST,
    PARTS,
    begin,
    check_blame,
    check_folder,
    finish,
    is_finished,
    opened,
    part_file,
    read_manifest,
)
from .part_table import FRAME_COLUMNS, list_targets, tabulate_part
from .parts import Failure, Task, read_part, read_row
from .plan import Thresholds, make_plan
from .run import Engine, order_parts
from .scan_blame import ChangeShares, ScanBlame, read_shares, sum_shares
from .signals import stoppable
from .tables import CHANGED, MOVED, NODES, OF_BLAME, TOO_LARGE, list_nodes, read_frame
from .work import PROCESS_BYTES, Workload, share_change


@dataclass(frozen=True, eq=False)
class Scan:
    """A finished scan: iterate for its Explanations, largest KL first, read from the folder as you go."""

    folder: Path
    manifest: Mapping[str, Any]

    def __len__(self) -> int:
        """Number of Explanations."""
        return int(self.manifest["num_explained"])

    def __iter__(self) -> Iterator[Explanation]:
        """Every target that was explained."""
        return (found for found in self._read() if isinstance(found, Explanation))

    def __getitem__(self, target: Any) -> Explanation:
        """The Explanation of one target, by number (of a link, both) or by name; by type and either, where it has one.

        A node of several types is ("author", 5) or ("author", "Ada").
        """
        wanted = meant_target(self.types, target)
        for path, listed in self._listed():
            here = listed.name == wanted if isinstance(wanted, str) else listed.target.map(lambda one: one == wanted)
            for row in np.flatnonzero(here)[:1]:
                found = read_row(path, int(row))
                if isinstance(found, Failure):
                    raise InputError(f"Expected a target that could be explained (got {target!r}: {found.problem}).")
                return found
        raise InputError(
            f"Expected a target that this scan explained (got {target!r}); `to_frame()` lists them, `moved()` all that "
            "moved."
        )

    def __repr__(self) -> str:
        """Where it is, and the summary."""
        return f"Scan in {self.folder}: {self.summary}"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(repr(self), self.to_frame())

    @property
    def left_out(self) -> str:
        """Why not all moved predictions were explained, in a sentence; empty if all were."""
        held = self.manifest
        asked = held.get("thresholds", {})
        left = held["num_moved"] - held["num_explained"] - held["num_failed"] - held["num_too_large"]
        if left <= 0 or "min_kl" not in asked:
            return ""
        if asked.get("only_flips"):
            return f" The other {left:,} kept their class, and only flips were asked for."
        return f" The other {left:,} moved by less than {asked['min_kl']:g} nats and kept their class."

    @property
    def summary(self) -> str:
        """The results, in a sentence or two."""
        held = self.manifest
        text = f"{held['num_moved']:,} prediction{'s' * (held['num_moved'] != 1)} moved"
        if self.output.flip:
            text += f", {held['num_flipped']:,} of them {self.output.flip}"
        text += f". Explained: {held['num_explained']:,}"
        if held["num_failed"]:
            text += f"; failed: {held['num_failed']:,}"
        if held["num_too_large"]:
            text += f"; too many paths for the memory budget: {held['num_too_large']:,}"
        return f"{text}.{self.left_out}"

    @property
    def output(self) -> Output:
        """What the columns of the logits mean."""
        return self.task.output

    @property
    def origin(self) -> Origin:
        """Origin of the scan: the release, and digests of the model and both graphs."""
        return decode(Origin, self.manifest["origin"], f"the origin of the scan in {self.folder}")

    def moved(self) -> pd.DataFrame:
        """Every node whose prediction can have moved, explained or not: the columns of `Explainer.moved`."""
        of_classes = self.output.kind in (CLASSES, BINARY)
        more = {"class_before": "i", "class_after": "i"} if of_classes else {}
        return self._read_table(MOVED, self.manifest["num_moved"], **more)

    def too_large(self) -> pd.DataFrame:
        """Nodes left out because the memory budget cannot hold their paths: target, name, num_paths, bytes."""
        return self._read_table(TOO_LARGE, self.manifest["num_too_large"])

    def failures(self) -> pd.DataFrame:
        """Nodes that could not be explained: target, name, problem."""
        listed = [frame[frame.problem.notna()] for _, frame in self._listed()]
        return pd.concat([pd.DataFrame(columns=["target", "name", "problem"]), *listed], ignore_index=True)

    def to_frame(self) -> pd.DataFrame:
        """One row per explained target.

        explained is the share of the change that the chosen paths account for; by_gained, by_lost, by_reweighted and
        by_feature (and by_model) what each cause did to the new class against the old one; best_path and best_kind the
        most important path.
        """
        frames = [tabulate_part(path, self.task) for path, _ in self.files()]
        frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=FRAME_COLUMNS)
        unnamed = [
            name for name in ("class_before_name", "class_after_name") if name in frame and frame[name].isna().all()
        ]
        return frame.drop(columns=unnamed)

    def blame(self, *, by: Any = None) -> ScanBlame:
        """Which changes moved how many predictions, and by how much in total: an estimate, with its error.

        `by` sums by groups: a column of `changes()`, a dict of ids, a function of a row, or one label per row.
        """
        if self.shares is None:
            raise InputError(
                f"Expected a scan with blame in {self.folder} (got one without); run the same scan with blame=True: it "
                "resumes from what is there."
            )
        return sum_shares(self.shares, by, self.output)

    @cached_property
    def shares(self) -> ChangeShares | None:
        """What each change did to each target, as estimated; None where the scan has no blame."""
        held = self.manifest.get("blame")
        if held is None:
            return None
        for name in OF_BLAME:
            _check_digest(self.folder / name, self.manifest["tables"][name])
        for part in held["parts"]:
            _check_digest(self.folder / part["file"], part["sha256"])
        return read_shares(self.folder, held)

    def flips(self) -> StepSummary | None:
        """A Brief (causes and the least to undo) of every flip that the time allowed; None if the scan has none."""
        held = self.manifest["tables"]
        if SUMMARY not in held:
            return None
        for name in FLIP_FILES:
            _check_digest(self.folder / name, held[name])
        return read_summary(self.folder)

    def figures(self) -> dict[str, float]:
        """The figures that `--fail-if` compares, by name: flips, moved, explained, reached, time, changes."""
        held, found = self.manifest, self.flips()
        changes, table = {} if found is None else found.changes, self.changes() if found is None else None
        if table is not None:
            changes = {str(kind): int(number) for kind, number in table.kind.value_counts().items()}
        reached, by_time = (0, 0.0) if found is None else (found.num_reached, found.share_by_time)
        counts = [changes.get(name.replace("_", " "), 0) for name in OF_CHANGES]
        values = [held["num_flipped"], held["num_moved"], held["num_explained"], reached, by_time, *counts]
        return dict(zip(FIGURES, values, strict=True))

    def changes(self) -> pd.DataFrame | None:
        """What happened to the graph, the table of `Explainer.changes`; None if it was not written."""
        size = self.manifest.get("num_changes", self.manifest.get("blame", {}).get("num_changes"))
        return self._read_table(CHANGED, size) if CHANGED in self.manifest["tables"] else None

    def nodes(self) -> pd.DataFrame | None:
        """One row per node: predicted classes, degrees and neighbours of its own class, before and after; or None."""
        return self._read_table(NODES, self.manifest["num_nodes"]) if NODES in self.manifest["tables"] else None

    def at(self, place: int) -> Explanation | Failure:
        """The result at one position, counted over all parts from 0; nothing else is read."""
        starts = np.cumsum([0, *(part["targets"] for part in self.manifest["parts"])])
        if not 0 <= place < starts[-1]:
            raise InputError(f"Expected a place below {starts[-1]:,}, the targets of this scan (got {place}).")
        number = int(np.searchsorted(starts, place, side="right")) - 1
        part = self.manifest["parts"][number]
        _check_digest(self.folder / part["file"], part["sha256"])
        return read_row(self.folder / part["file"], place - int(starts[number]))

    def report(self, path: str | Path, *, title: str | None = None, by: Any = None, num_pages: int = 1000) -> Path:
        """Write one self-contained HTML page on every prediction that moved: the causes, and a table of all
        explanations; `num_pages` of them have their own page in the file. `by` groups changes, as in `blame`."""
        from ..report import save_report

        return save_report(path, self, title=title, by=by, num_pages=num_pages)

    @property
    def types(self) -> tuple[str, ...]:
        """The types that nodes have; none where there is only one kind."""
        return self.task.types

    @cached_property
    def task(self) -> Task:
        """What the targets are, and by how many models."""
        return decode(Task, self.manifest["task"], f"the task of the scan in {self.folder}")

    @property
    def unit(self) -> str:
        """What is predicted: a node, a graph or a link."""
        return self.task.unit

    def _read_table(self, name: str, num_rows: int, **more: str) -> pd.DataFrame:
        _check_digest(self.folder / name, self.manifest["tables"][name])
        return read_frame(self.folder / name, num_rows, **more)

    def _listed(self) -> Iterator[tuple[Path, pd.DataFrame]]:
        """Of each part its targets: target, name, problem."""
        for path, part in self.files():
            yield path, list_targets(path, part["targets"], self.task)

    def files(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """Parts in order with their entries in the manifest, each checked against these."""
        for part in self.manifest["parts"]:
            _check_digest(self.folder / part["file"], part["sha256"])
            yield self.folder / part["file"], part

    def _read(self) -> Iterator[Explanation | Failure]:
        for path, part in self.files():
            yield from read_part(path, part["targets"])


def scan_session(
    session: Session,
    out: str | Path | None,
    question: Question,
    thresholds: Thresholds,
    engine: Engine,
    *,
    progress: bool,
    blame: bool | int = False,
    flip_seconds: float = 0.0,
) -> Scan:
    """Every moved node of a session, in the folder `out`, with a progress bar; without one, in a temporary folder."""
    with Progress(console=bar_console(stderr=True), transient=True, disable=not progress) as bar:
        task = bar.add_task("Scanning", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        def run(folder: Path) -> Scan:
            return _run(session, folder, question, thresholds, engine, blame, flip_seconds, report)

        with stoppable():
            return _run_aside(run) if out is None else run(Path(out))


def _run(
    session: Session,
    folder: Path,
    question: Question,
    thresholds: Thresholds,
    engine: Engine,
    blame: bool | int,
    flip_seconds: float,
    report: Callable[[int, int], None],
) -> Scan:
    """Plan, run what is missing, write the manifest; `report` receives how many targets are done, of how many."""
    paths = session.paths
    paths.check(question)
    change, caption = paths.change, paths.caption
    room = engine.memory - PROCESS_BYTES
    plan = make_plan(
        change, session.moved_rows(), paths.num_paths, paths.num_bytes, question, thresholds, room, caption
    )
    check_folder(folder, plan)
    blame = check_blame(folder, blame)
    if is_finished(folder, plan, blame, flips=flip_seconds > 0):
        return read_scan(folder)
    with opened(folder):
        missing = begin(folder, plan)
        total = len(plan.targets)
        done = total - sum(len(plan.targets[plan.part(part)]) for part in missing)
        report(done, total)
        shared = share_change(change) if missing else change
        known = known_of(change) if missing and (plan.walks.counts > 0).any() else None
        parts = (folder / PARTS).resolve()
        load = Workload(shared, question, plan.walks, plan.indptr, plan.digest, parts, caption, known)
        with closing(engine.run(load, order_parts(missing, plan.cost_of))) as finished:
            for part in finished:
                done += len(plan.targets[plan.part(part)])
                report(done, total)
        failed = sum(_num_failed(part_file(folder, part)) for part in range(plan.num_parts))
        frames = {MOVED: plan.moved, TOO_LARGE: plan.too_large, CHANGED: session.changes(), NODES: list_nodes(change)}
        of_blame = None
        if blame is not False:
            num_parts, tables = write_effects(session, folder, plan, engine, blame)
            frames, of_blame = {**frames, **tables}, (blame, num_parts)

        def write_flips(held: dict[str, Any]) -> dict[str, str]:
            found = brief_flips(session, folder, plan.moved, flip_seconds, engine.finish)
            return write_summary(folder, summarise(held, frames[CHANGED], flip_seconds, found))

        finish(folder, plan, failed, frames, of_blame, write_flips if flip_seconds > 0 else None)
    return read_scan(folder)


def _run_aside(run: Callable[[Path], Scan]) -> Scan:
    """A scan into a temporary folder that goes when the Scan does."""
    folder = Path(tempfile.mkdtemp(prefix="axiompath-scan-"))
    try:
        scan = run(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(scan, shutil.rmtree, folder, ignore_errors=True)
    return scan


def read_scan(folder: str | Path) -> Scan:
    """Open a finished scan."""
    manifest = read_manifest(Path(folder))
    if not manifest.get("complete"):
        raise InputError(
            f"Expected a finished scan in {folder} (it was stopped, or is still running); "
            "run the same scan again and it resumes where it stopped."
        )
    return Scan(Path(folder), manifest)


def read_scans(folder: str | Path) -> list[Scan]:
    """The scan in a folder, or those of a sequence or of a watch, in order; what is a link is none of them."""
    found = [path for pattern in ("step-*", "steps/[0-9]*", "[0-9]*") for path in Path(folder).glob(pattern)]
    steps = sorted(path for path in found if (path / MANIFEST).is_file() and not path.is_symlink())
    if (Path(folder) / MANIFEST).exists() or not steps:
        return [read_scan(folder)]
    return [read_scan(step) for step in steps]


def _check_digest(path: Path, digest: str) -> None:
    with blamed(f"Expected {path} to be read to its end (it cannot be)."):
        if path.is_file() and digest == file_digest(path):
            return
    raise InputError(
        f"Expected {path} as the scan wrote it (it is missing or was changed); remove it and run the same scan again."
    )


def _num_failed(path: Path) -> int:
    column = pq.read_table(path, columns=["problem"]).column("problem")
    return len(column) - int(column.null_count)

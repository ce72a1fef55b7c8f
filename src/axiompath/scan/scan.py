"""Session + question -> Scan: every moved node explained, in a folder; a scan that was stopped goes on there."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import Progress

from ..errors import InputError
from ..explain.explanation import Explanation
from ..explain.question import Question
from ..graphs.changes import CHANGES, MODEL_RETRAINED
from ..graphs.labels import target_column
from ..graphs.names import meant_target
from ..graphs.places import LINKS, UNIT_OF
from ..outputs import BINARY, CLASSES, LABELS, VALUE, Output
from ..paths.search import known_of
from ..session import Session
from ..storage.codec import decode, to_plain
from ..storage.memory import show_bytes
from ..storage.notebook import bar_console, show
from ..storage.origin import Origin
from ..storage.safe import blamed
from ..storage.writing import file_digest
from .facts import TORCH_BYTES, plan_facts, read_blame_tables, read_facts
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
    BLAME_PARTS,
    BLAME_TABLES,
    BLAMED,
    CHANGED,
    MANIFEST,
    MOVED,
    NODES,
    PARTS,
    SAMPLED,
    TOO_LARGE,
    asked_blame,
    begin,
    check_blame,
    check_folder,
    finish,
    finish_blame,
    is_finished,
    missing_facts,
    opened,
    part_file,
    read_manifest,
)
from .frame import describe_part
from .nodes import NODE_COLUMNS, list_nodes
from .parts import PARTNER, Failure, Task, read_columns, read_part, read_row
from .plan import Counts, Plan, Thresholds, make_plan
from .run import order_parts, run_local, run_ray
from .signals import stoppable
from .tally import Facts, Tally, tally_facts
from .work import PROCESS_BYTES, Load, Workload, share_change

ENGINES = ("local", "ray")
CHANGE_COLUMNS = {
    "id": "i",
    "kind": "OUT",
    "src": "i",
    "dst": "i",
    "src_name": "OUT",
    "dst_name": "OUT",
    "directed": "b",
}
MIN_MEMORY = 200e6  # bytes: a worker, and something to work with


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
        asked, target = target, meant_target(self.types, target)
        for path, part in self.files():
            ends = ["target", PARTNER] if self._of_links else ["target"]
            frame = _join_targets(read_columns(path, part["targets"], [*ends, "name"]).to_pandas())
            wanted = (frame.name == target) if isinstance(target, str) else frame.target.map(lambda one: one == target)
            for row in np.flatnonzero(wanted)[:1]:
                found = read_row(path, int(row))
                if isinstance(found, Failure):
                    raise InputError(f"Expected a target that could be explained (got {asked!r}: {found.problem}).")
                return found
        raise InputError(
            f"Expected a target that this scan explained (got {asked!r}); `to_frame()` lists them, `moved()` all that "
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
        return self._task.output

    @property
    def origin(self) -> Origin:
        """Origin of the scan: the release, and digests of the model and both graphs."""
        return decode(Origin, self.manifest["origin"], f"the origin of the scan in {self.folder}")

    def moved(self) -> pd.DataFrame:
        """Every node whose prediction can have moved, explained or not: the columns of `Explainer.moved`."""
        wanted = {"target", "kl", "num_paths"}
        if self.output.kind in (CLASSES, BINARY):
            wanted |= {"class_before", "class_after"}
        return self._read_table(MOVED, wanted, self.manifest["num_moved"])

    def too_large(self) -> pd.DataFrame:
        """Nodes left out because the memory budget cannot hold their paths: target, name, num_paths, bytes."""
        return self._read_table(TOO_LARGE, {"target", "num_paths", "bytes"}, self.manifest["num_too_large"])

    def failures(self) -> pd.DataFrame:
        """Nodes that could not be explained: target, name, problem."""
        failed = [(f.target, f.name, f.problem) for f in self._read() if isinstance(f, Failure)]
        return pd.DataFrame(failed, columns=["target", "name", "problem"])

    def to_frame(self) -> pd.DataFrame:
        """One row per explained target.

        explained is the share of the change that the chosen paths account for; by_gained, by_lost, by_reweighted and
        by_feature (and by_model) what each cause did to the new class against the old one; best_path and best_kind the
        most important path.
        """
        names = ["target", "name", "class_before", "class_before_name", "class_after", "class_after_name", "kl"]
        names += ["num_paths", "kl_residual", "kl_bound", "gap", "fidelity_minus", "fidelity_plus", "completeness"]
        names += ["problem"]
        if self._of_links:
            names.insert(1, PARTNER)
        tables = [read_columns(path, part["targets"], names) for path, part in self.files()]
        frame = _join_targets(pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame(columns=names))
        frame = frame[frame.problem.isna()].drop(columns="problem").reset_index(drop=True)
        if tables:
            parts = [describe_part(path, self.output, relations=self._task.relations) for path, _ in self.files()]
            frame = pd.concat([frame, pd.concat(parts, ignore_index=True)], axis=1)
        if self.output.kind in (LABELS, VALUE):
            about = "label" if self.output.kind == LABELS else "column"
            return frame.drop(columns=["class_before_name", "class_after", "class_after_name"]).rename(
                columns={"class_before": about}
            )
        unnamed = [name for name in ("class_before_name", "class_after_name") if frame[name].isna().all()]
        return frame.drop(columns=unnamed)

    def blame(self, *, by: Any = None) -> Tally:
        """Which changes moved how many predictions, and by how much in total: an estimate, with its error.

        `by` sums by groups: a column of `changes()`, a dict of ids, a function of a row, or one label per row.
        """
        found = read_blame_of(self)
        if found is None:
            raise InputError(
                f"Expected a scan with blame in {self.folder} (got one without); run the same scan with blame=True: it "
                "resumes from what is there."
            )
        return tally_facts(*found, by, self.output)

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
        return self._read_beside(CHANGED)

    def nodes(self) -> pd.DataFrame | None:
        """One row per node: predicted classes, degrees and neighbours of its own class, before and after; or None."""
        return self._read_beside(NODES)

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

    def _read_beside(self, name: str) -> pd.DataFrame | None:
        held = self.manifest.get("tables", {})
        if name not in held:
            return None
        _check_digest(self.folder / name, held[name])
        size = self.manifest.get(f"num_{Path(name).stem}", self.manifest.get("blame", {}).get("num_changes"))
        table = read_columns(self.folder / name, size)
        frame: pd.DataFrame = table.to_pandas()
        for end in {"src", "dst"} & {*frame.columns}:  # numbers to their last digit, where some are missing
            frame[end] = table.select([end]).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)[end]
        kinds = CHANGE_COLUMNS if name == CHANGED else dict.fromkeys(NODE_COLUMNS, "i")
        held = {column: frame[column].dtype.kind for column in frame.columns}
        fits = all(column in held and held[column] in letters for column, letters in kinds.items())
        if not fits or (name == CHANGED and not {*frame.kind} <= {*CHANGES, MODEL_RETRAINED}):
            raise InputError(f"Expected the columns that a scan writes in {self.folder / name} (got others).")
        return frame

    @property
    def types(self) -> tuple[str, ...]:
        """The types that nodes have; none where there is only one kind."""
        return self._task.types

    @cached_property
    def _task(self) -> Task:
        return decode(Task, self.manifest["task"], f"the task of the scan in {self.folder}")

    @property
    def unit(self) -> str:
        """What is predicted: a node, a graph or a link."""
        return self._task.unit

    def _read_table(self, name: str, wanted: set[str], num_rows: int) -> pd.DataFrame:
        """A table of targets."""
        path = self.folder / name
        _check_digest(path, self.manifest["tables"][name])
        frame: pd.DataFrame = read_columns(path, num_rows).to_pandas()
        ends = ["target", PARTNER] if self._of_links else ["target"]
        wanted = {*wanted, "name", *ends}
        whole = {*ends, "class_before", "class_after"} & wanted
        wrong = not wanted <= {*frame.columns} or any(frame[name].dtype.kind not in "iuf" for name in wanted - {"name"})
        if wrong or any(frame[name].dtype != "int64" for name in whole):
            raise InputError(f"Expected the columns {', '.join(sorted(wanted))} in {path} (got others).")
        return _join_targets(frame)

    @property
    def _of_links(self) -> bool:
        return self.unit == UNIT_OF[LINKS]

    def files(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """Parts in order with their entries in the manifest, each checked against these."""
        for part in self.manifest["parts"]:
            _check_digest(self.folder / part["file"], part["sha256"])
            yield self.folder / part["file"], part

    def _read(self) -> Iterator[Explanation | Failure]:
        for path, part in self.files():
            yield from read_part(path, part["targets"])


def read_blame_of(scan: Scan) -> tuple[Facts, list[pd.DataFrame]] | None:
    """What each change does to each target, and the tables of changes, targets and the sample; None without blame.

    `Scan.blame` makes shares of them.
    """
    held = scan.manifest.get("blame")
    if held is None:
        return None
    for name in BLAME_TABLES:
        _check_digest(scan.folder / name, scan.manifest["tables"][name])
    for part in held["parts"]:
        _check_digest(scan.folder / part["file"], part["sha256"])
    return read_facts(scan.folder, held), read_blame_tables(scan.folder, held, BLAME_TABLES)


def _join_targets(frame: pd.DataFrame) -> pd.DataFrame:
    """The two columns of a pair as one of tuples."""
    if PARTNER not in frame:
        return frame
    pairs = target_column(frame[["target", PARTNER]].to_numpy(dtype=np.int64).reshape(-1, 2))
    return frame.drop(columns=PARTNER).assign(target=pairs)


@dataclass(frozen=True)
class Engine:
    """Who runs a scan, and with how much memory for all workers of a machine."""

    name: str
    memory: float  # bytes
    workers: int | None = None
    ray_address: str | None = None

    def __post_init__(self) -> None:
        """Check here, before any work."""
        if self.name not in ENGINES:
            raise InputError(f"Expected an engine among {', '.join(ENGINES)} (got {self.name!r}).")
        workers = self.workers
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise InputError(f"Expected 1 worker or more (got {workers!r}).")
        if self.memory < MIN_MEMORY:
            raise InputError(
                f"Expected a memory budget of at least {show_bytes(MIN_MEMORY, up=True)} for a scan (got "
                f"{show_bytes(self.memory)}): a worker takes {show_bytes(PROCESS_BYTES)} before it has explained "
                "anything."
            )

    def run(self, load: Load, parts: list[int]) -> Generator[int, None, None]:
        """Yield each part when its file is there."""
        if self.name == "ray":
            return run_ray(load, parts, self.memory, self.workers, self.ray_address)
        return run_local(load, parts, self.memory, self.workers)


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
    counts = Counts(paths.num_paths, paths.num_bytes)
    plan = make_plan(change, session.moved_rows(), counts, question, thresholds, engine.memory - PROCESS_BYTES, caption)
    check_folder(folder, plan)
    if blame is not False:
        check_blame(folder, blame)
    else:  # one that was begun with blame goes on with it
        blame = asked_blame(folder, False)
    if is_finished(folder, plan, blame, flips=flip_seconds > 0):
        return read_scan(folder)
    with opened(folder):
        missing = begin(folder, plan)
        total = len(plan.targets)
        done = total - sum(plan.part(part).stop - plan.part(part).start for part in missing)
        report(done, total)
        shared = share_change(change) if missing else change
        parts = (folder / PARTS).resolve()
        known = known_of(change) if missing and (plan.walks.counts > 0).any() else None
        load = Workload(shared, question, plan.walks, plan.indptr, plan.digest, parts, caption, known)
        with closing(engine.run(load, order_parts(missing, plan.cost_of))) as finished:
            for part in finished:
                done += plan.part(part).stop - plan.part(part).start
                report(done, total)
        failed = sum(_num_failed(part_file(folder, part)) for part in range(plan.num_parts))
        beside = {CHANGED: session.changes(), NODES: list_nodes(change)}

        def write_flips(held: dict[str, Any]) -> dict[str, str]:
            found = brief_flips(session, folder, plan.moved, flip_seconds, engine.run)
            return write_summary(folder, summarise(held, beside[CHANGED], flip_seconds, found))

        blamed = None if blame is False else _blame(session, folder, plan, engine, blame)
        finish(folder, plan, failed, beside, blamed, write_flips if flip_seconds > 0 else None)
    return read_scan(folder)


def _blame(
    session: Session, folder: Path, plan: Plan, engine: Engine, asked: bool | int
) -> tuple[dict[str, Any], dict[str, str]]:
    """Write the facts that are missing and the tables beside them; what the manifest says of them."""
    facts = plan_facts(session, plan.targets, asked, plan.digest)
    notes = {"scan": plan.digest, "facts": facts.digest, "origin": to_plain(plan.origin), "task": plan.task}
    parts = (folder / BLAME_PARTS).resolve()
    parts.mkdir(exist_ok=True)
    missing = missing_facts(folder, facts.num_parts, notes)
    if facts.graph is None:
        for part in missing:
            facts.write_here(parts, part, notes)
    elif len(missing) == 1:  # not worth a worker
        facts.load(parts, engine.memory, TORCH_BYTES, notes).do("part", missing[0])
    elif missing:
        load = facts.load(parts, engine.memory, TORCH_BYTES, notes)
        with closing(engine.run(load, order_parts(missing, load.need_of))) as finished:
            for _ in finished:
                pass
    frames = {BLAMED: facts.targets.to_frame(), SAMPLED: facts.sample()}
    return finish_blame(folder, asked, facts.num_parts, len(session.changes()), frames)


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

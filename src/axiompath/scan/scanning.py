"""Change + question -> Scan: every moved node explained, in a folder; a scan that was stopped goes on there."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..activations import FloatArray
from ..batches import BATCH_BYTES
from ..change import Change
from ..choice import Question
from ..errors import InputError
from ..explanation import Explanation
from ..trust import file_digest
from .cluster import run_ray
from .engines import order_parts, run_local
from .folder import MOVED, PARTS, TOO_LARGE, begin, clear_drafts, finish, locked, part_file, read_manifest
from .parts import Failure, read_columns, read_part
from .plan import Thresholds, make_plan
from .work import PROCESS_BYTES, Workload, share_change

ENGINES = ("local", "ray")
MIN_MEMORY = 2 * PROCESS_BYTES


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

    @property
    def summary(self) -> str:
        """What was found, in a sentence or two."""
        held = self.manifest
        text = (
            f"{held['num_moved']:,} predictions moved, {held['num_flipped']:,} of them to another class. "
            f"Explained: {held['num_explained']:,}"
        )
        if held["num_failed"]:
            text += f"; failed: {held['num_failed']:,}"
        if held["num_too_large"]:
            text += f"; too many paths for the memory budget: {held['num_too_large']:,}"
        return text + "."

    def moved(self) -> pd.DataFrame:
        """Every node that an altered path reaches, explained or not: node, classes, kl, num_paths."""
        columns = ["node", "class_before", "class_after", "kl", "num_paths"]
        return self._read_table(MOVED, columns, self.manifest["num_moved"])

    def too_large(self) -> pd.DataFrame:
        """Nodes that were left out because the memory budget cannot hold their paths: node, num_paths, bytes."""
        return self._read_table(TOO_LARGE, ["node", "num_paths", "bytes"], self.manifest["num_too_large"])

    def failures(self) -> pd.DataFrame:
        """Nodes that could not be explained: node, problem."""
        failed = [(f.target, f.problem) for f in self._read() if isinstance(f, Failure)]
        return pd.DataFrame(failed, columns=["node", "problem"])

    def to_frame(self) -> pd.DataFrame:
        """One row an explained node: its numbers, without paths."""
        names = ["target", "class_before", "class_after", "kl", "num_paths", "kl_residual", "kl_bound", "gap"]
        names += ["fidelity_minus", "fidelity_plus", "completeness", "problem"]
        frames = [read_columns(path, names, part["targets"]) for path, part in self._files()]
        frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)
        return frame[frame.problem.isna()].drop(columns="problem").reset_index(drop=True)

    def _read_table(self, name: str, columns: list[str], num_rows: int) -> pd.DataFrame:
        """A table beside the parts, checked against the manifest; scans of release 0.1 have no digest of it."""
        path = self.folder / name
        self._check(path, self.manifest.get("tables", {}).get(name))
        return read_columns(path, columns, num_rows)

    def _files(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """Parts in order, each checked against the manifest, and what that says of them."""
        for part in self.manifest["parts"]:
            path = self.folder / part["file"]
            self._check(path, part["sha256"])
            yield path, part

    def _check(self, path: Path, digest: str | None) -> None:
        if not path.is_file() or digest not in (None, file_digest(path)):
            raise InputError(
                f"Expected {path} as the scan wrote it (it is missing or was changed); "
                "remove it and run the same scan again."
            )

    def _read(self) -> Iterator[Explanation | Failure]:
        for path, part in self._files():
            yield from read_part(path, part["targets"])


def run_scan(
    change: Change,
    num_paths: NDArray[Any],
    num_bytes: FloatArray,
    question: Question,
    thresholds: Thresholds,
    out: str | Path,
    *,
    memory: float,
    workers: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    node_names: Mapping[int, str] | None = None,
    class_names: tuple[str, ...] = (),
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Scan:
    """Plan, run what is missing, write the manifest.

    `num_paths` and `num_bytes` are those of every node; `report` is told how many targets are done, of how many.
    """
    if engine not in ENGINES:
        raise ValueError(f"Expected an engine among {', '.join(ENGINES)} (got {engine!r}).")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ValueError(f"Expected 1 worker or more (got {workers!r}).")
    if memory < MIN_MEMORY:
        raise ValueError(
            f"Expected a memory budget of at least {MIN_MEMORY / 1e6:.0f}MB for a scan (got {memory / 1e6:.0f}MB): "
            f"a worker takes {PROCESS_BYTES / 1e6:.0f}MB before it has explained anything."
        )
    room = memory - PROCESS_BYTES
    folder = Path(out)
    with locked(folder) as lock:
        plan = make_plan(
            change, num_paths, num_bytes, question, thresholds, room, [class_names, sorted((node_names or {}).items())]
        )
        missing = begin(folder, plan)
        total = len(plan.targets)
        done = total - sum(plan.part(part).stop - plan.part(part).start for part in missing)
        report(done, total)
        load = Workload(
            share_change(change) if missing else change,
            question,
            plan.targets,
            plan.sizes,
            plan.indptr,
            plan.pieces,
            plan.digest,
            (folder / PARTS).resolve(),
            min(room, BATCH_BYTES),
            node_names or {},
            class_names,
        )
        ordered = order_parts(missing, plan.cost_of)
        if engine == "ray":
            finished = run_ray(load, ordered, memory, workers, ray_address)
        else:
            finished = run_local(load, ordered, memory, workers, [lock])
        try:
            with closing(finished):
                for part in finished:
                    done += plan.part(part).stop - plan.part(part).start
                    report(done, total)
        finally:
            clear_drafts(folder)
        failed = sum(_num_failed(part_file(folder, part)) for part in range(plan.num_parts))
        finish(folder, plan, failed)
    return read_scan(folder)


def run_aside(run: Callable[[Path], Scan]) -> Scan:
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
    """A finished scan."""
    manifest = read_manifest(Path(folder))
    if not manifest.get("complete"):
        raise InputError(
            f"Expected a finished scan in {folder} (it was stopped, or is still running); "
            "run the same scan again and it goes on where it stopped."
        )
    return Scan(Path(folder), manifest)


def _num_failed(path: Path) -> int:
    column = pq.read_table(path, columns=["problem"]).column("problem")
    return len(column) - int(column.null_count)

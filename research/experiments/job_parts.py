"""Jobs -> one table: each job's rows are a parquet file of their own, so that a run which was stopped goes on.

A part belongs to one job and the settings it was run with; other settings give other names, and rows never depend on
the order or on the process in which jobs ran. storage/parquet.py says what is whole and what is made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from axiompath.errors import InputError
from axiompath.files.folder import ResumableFolder
from axiompath.storage.parquet import is_whole, read_notes, with_notes, write_parquet, write_part


@dataclass(frozen=True)
class Job:
    """What one part is about."""

    dataset: str
    layers: int
    evolution: str
    repeat: int
    aggregation: str = "sum"  # how a node takes its neighbours: sum, mean or max
    edges: str = "merged"  # or parallel, as in the paper's loader
    training: int = 0  # seed of the network's training

    def __str__(self) -> str:
        """What a bar says of it."""
        return f"{self.dataset}, {self.layers} layers, training {self.training}, repeat {self.repeat}"

    def file_name(self, settings: Mapping[str, Any]) -> str:
        """A name that says which job, and a digest of the settings."""
        text = json.dumps([asdict(self), settings], sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{self.dataset}-{self.layers}layers-{self.evolution}-{self.repeat:03d}-{digest}.parquet"


Run: TypeAlias = Callable[[Job], pd.DataFrame]


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """The frame and its `attrs` as parquet; the file appears when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = _to_table(frame)
    write_parquet(path, [table], table.schema)


def read_table(path: Path) -> pd.DataFrame:
    """What `write_table` wrote."""
    try:
        table = pq.read_table(path)
        frame: pd.DataFrame = table.to_pandas()
        frame.attrs = read_notes(table.schema)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"Expected a whole Parquet table at {path} (it is cut short or damaged).") from error
    return frame


def run_parts(
    jobs: Sequence[Job], run: Run, folder: Path, settings: Mapping[str, Any], workers: int = 1
) -> Iterator[tuple[Job, pd.DataFrame]]:
    """Each job with its rows, as they become known: those on disk first; `run` must be importable if workers > 1."""
    files = {job: folder / job.file_name(settings) for job in jobs}
    with ResumableFolder(folder, "experiment").locked("*.parquet", "*.sha256"):
        missing = []
        for job, file in files.items():
            if is_whole(file):
                yield job, read_table(file)
            else:
                missing.append(job)
        if workers == 1 or len(missing) < 2:
            for job in missing:
                _run_and_write(run, job, files[job])
                yield job, read_table(files[job])
            return
        with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
            running = {pool.submit(_run_and_write, run, job, files[job]): job for job in missing}
            for done in as_completed(running):
                done.result()
                yield running[done], read_table(files[running[done]])


def merge_parts(parts: Mapping[Job, pd.DataFrame], jobs: Sequence[Job]) -> pd.DataFrame:
    """All rows in the order of the jobs; jobs without a row leave none."""
    frames = [parts[job] for job in jobs if len(parts[job])]
    if not frames:
        raise InputError("Expected at least one target (got none): no prediction changed; try more repeats.")
    merged = pd.concat([frame.copy() for frame in frames], ignore_index=True)
    merged.attrs = {}
    return merged


def _run_and_write(run: Run, job: Job, file: Path) -> None:
    table = _to_table(run(job))
    write_part(file, [table], table.schema)


def _to_table(frame: pd.DataFrame) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return table.replace_schema_metadata(with_notes(table.schema, frame.attrs).metadata)

"""Settings of the comparison -> its table, its record and its figures, in a folder; a stopped run goes on there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from axiompath.errors import InputError
from axiompath.storage.writing import write_text

from .. import datasets
from .conditions import write_results
from .fidelity import (
    AGGREGATIONS,
    COMPARED,
    EVOLUTIONS,
    LOADED_EDGES,
    OPTIONAL_METHODS,
    run_fidelity,
    table_by_level,
    training_graph,
)
from .fidelity_page import write_fidelity_page
from .figures import draw_fidelity
from .job_parts import Job, merge_parts, run_parts
from .trained import ALGORITHM, SEED, prepare, settings_for, train


@dataclass(frozen=True)
class Comparison:
    """What to compare on what. The number of workers and the folder are not part of it: they change no number."""

    names: tuple[str, ...] = datasets.NAMES
    layers: tuple[int, ...] = (2, 3)
    repeats: int = 10
    evolution: str = "added"
    aggregation: str = "sum"
    edges: str = "merged"
    trainings: int = 1
    methods: tuple[tuple[str, str], ...] = COMPARED
    max_targets: int | None = None
    memory: str = "2GB"

    def __post_init__(self) -> None:
        """Check here, before any work."""
        for value, allowed, what in (
            *((name, datasets.NAMES, "a data set") for name in self.names),
            *((depth, range(1, 10), "a number of layers") for depth in self.layers),
            *((method, (*COMPARED, *OPTIONAL_METHODS), "a method and its objective") for method in self.methods),
            (self.evolution, tuple(EVOLUTIONS), "an evolution"),
            (self.aggregation, AGGREGATIONS, "an aggregation"),
            (self.edges, LOADED_EDGES, "edges"),
        ):
            if value not in allowed:
                raise InputError(f"Expected {what} among {', '.join(map(str, allowed))} (got {value!r}).")
        if self.repeats < 1:
            raise InputError(f"Expected at least 1 repeat (got {self.repeats}).")

    @property
    def options(self) -> dict[str, Any]:
        """How methods are compared on each of them."""
        return {"methods": self.methods, "max_targets": self.max_targets, "memory": self.memory}

    @property
    def jobs(self) -> list[Job]:
        """A part for each data set, depth, training and repeat."""
        return [
            Job(name, depth, self.evolution, repeat, self.aggregation, self.edges, training)
            for name in self.names
            for depth in self.layers
            for training in range(self.trainings)
            for repeat in range(self.repeats)
        ]


def run_comparison(
    comparison: Comparison,
    out: Path,
    *,
    root: str | Path | None = None,
    workers: int = 1,
    report: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> pd.DataFrame:
    """Train, run what is missing, merge: `fidelity.parquet`, `fidelity.json`, page and figures in `out`.

    `report` receives how many parts are done, of how many, and what was done last.
    """
    start = time.perf_counter()
    jobs = comparison.jobs
    report(0, len(jobs), "training")
    accuracies = []
    for name in comparison.names:
        data = prepare(datasets.load(name, root))
        for depth, seed in itertools.product(comparison.layers, range(comparison.trainings)):
            report(0, len(jobs), f"training {name}, {depth} layers")
            training = settings_for(name, depth, comparison.aggregation, comparison.edges, seed)
            trained = train(training_graph(data, training), training, out / "weights")
            accuracy = {"test": trained.test_accuracy, "val": trained.val_accuracy}
            what = {"dataset": name, "layers": depth, "training": seed}
            accuracies.append({**what, **accuracy, "weights": trained.digest})
    training_seconds = time.perf_counter() - start
    run = partial(_run_job, comparison=comparison, root=root, cache=out / "weights")
    settings = {"training": ALGORITHM, **comparison.options}  # what decides the rows of a part, beside its job
    parts: dict[Job, pd.DataFrame] = {}
    for job, frame in run_parts(jobs, run, out / "parts", settings, workers):
        parts[job] = frame
        report(len(parts), len(jobs), str(job))
    table = merge_parts(parts, jobs)
    targets = [{**asdict(job), **parts[job].attrs} for job in jobs]
    write_results(
        out,
        "fidelity",
        table,
        {
            "comparison": asdict(comparison),
            "seeds": {
                "training": list(range(comparison.trainings)),
                "sample": SEED,
                "evolution": list(range(comparison.repeats)),
            },
            "accuracies": accuracies,
            "targets": targets,
            "seconds_of_parts": sum(float(frame.attrs.get("seconds", 0.0)) for frame in parts.values()),
            "training_seconds": training_seconds,
            "seconds": time.perf_counter() - start,
            "workers": workers,
        },
    )
    write_text(out / "fidelity-by-level.csv", table_by_level(table).to_csv(index=False, float_format="%.6g"))
    write_text(out / "fidelity.md", write_fidelity_page(table, accuracies, targets))
    draw_fidelity(table, out)
    return table


def _run_job(job: Job, comparison: Comparison, root: str | Path | None, cache: Path) -> pd.DataFrame:
    start = time.perf_counter()
    frame = run_fidelity(job, root, cache, **comparison.options)
    frame.attrs["seconds"] = time.perf_counter() - start
    return frame

"""The paper's comparison: Fidelity-KL-minus of every method at ten levels of complexity.

200 random edges are added to a graph on which a SumGNN was trained. Targets are the nodes whose predicted class changed
and that have more than 10 altered paths; the budgets of their ten levels depend on the number m of these.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from axiompath.explain.answer import Ranking, answer, open_batch
from axiompath.explain.question import Question
from axiompath.explainer import Explainer
from axiompath.files.sum_gnn import SumGNN
from axiompath.session import Session

from .. import datasets
from .gnnexplainer import best_by_gnnexplainer
from .job_parts import Job
from .multigraphs import with_parallel_edges
from .trained import SEED, Training, prepare, settings_for, train

PAPER_METHODS = ("grad", "gnnlrp", "deeplift", "topk", "linear", "convex")
COMPARED = (*((method, "sufficiency") for method in (*PAPER_METHODS, "exact")), ("exact", "necessity"))
OPTIONAL_METHODS = (("gnnexplainer", "sufficiency"),)  # slow: trains a mask for every target
EVOLUTIONS = {"added": (200, 0), "removed": (0, 200), "both": (100, 100)}
AGGREGATIONS = ("sum", "mean", "max")
LOADED_EDGES = ("merged", "parallel")
MEASURES = ("kl", "fidelity_minus", "fidelity_plus", "kl_residual", "kl_bound")
GROUPS = ("11 to 30 paths", "31 to 99 paths", "100 paths and more")  # that have levels of their own in the paper
FEWEST_PATHS = 10  # targets with this many or fewer are skipped


def budgets_for(num_paths: int) -> list[int]:
    """The ten levels of a target with m altered paths, from the paper's appendix (m = 100 in the last group)."""
    if num_paths <= FEWEST_PATHS:
        return []
    if num_paths <= 30:
        return list(range(1, 11))
    return list(range(10, 29, 2)) if num_paths < 100 else list(range(10, 56, 5))


def run_fidelity(
    job: Job, root: str | Path | None = None, cache: str | Path | None = None, **options: Any
) -> pd.DataFrame:
    """A row for each target, level and method of one job; `options` are those of `compare_methods`."""
    return with_job(compare_methods(*evolve_job(job, root, cache), **options), job)


def evolve_job(job: Job, root: str | Path | None, cache: str | Path | None) -> tuple[SumGNN, Data, Data]:
    """The network that a job is about, trained on the graph before; that graph, and the one after."""
    training = settings_for(job.dataset, job.layers, job.aggregation, job.edges, job.training)
    model, before = _load_trained(training, root, cache)
    added, removed = EVOLUTIONS[job.evolution]
    merged = datasets.evolve(before, added=added, removed=removed, seed=job.repeat)
    if job.edges == "merged":
        return model, before, merged
    return model, with_parallel_edges(before, job.dataset), with_parallel_edges(merged, job.dataset, before)


@lru_cache(maxsize=1)  # the repeats of one data set and depth follow each other
def _load_trained(training: Training, root: str | Path | None, cache: str | Path | None) -> tuple[SumGNN, Data]:
    """The network, and the graph with its edges merged, whatever it was trained on."""
    before = prepare(datasets.load(training.dataset, root))
    return train(training_graph(before, training), training, cache).model, before


def training_graph(prepared: Data, training: Training) -> Data:
    """The graph that a network is trained on: with parallel edges where its settings say so."""
    return prepared if training.edges == "merged" else with_parallel_edges(prepared, training.dataset)


def with_job(rows: pd.DataFrame, job: Job) -> pd.DataFrame:
    """The rows, each saying first which job it is of."""
    for place, (key, value) in enumerate(asdict(job).items()):
        rows.insert(place, key, value)
    return rows


def find_targets(explainer: Explainer) -> pd.DataFrame:
    """Of what moved, the nodes whose class changed and that have enough paths."""
    moved = explainer.moved()
    return moved[(moved.class_before != moved.class_after) & (moved.num_paths > FEWEST_PATHS)]


def compare_methods(
    model: SumGNN,
    before: Data,
    after: Data,
    *,
    methods: Sequence[tuple[str, str]] = COMPARED,
    memory: str = "2GB",
    max_targets: int | None = None,
) -> pd.DataFrame:
    """A row for each target, level and method; `attrs` holds the numbers of targets met and left out.

    A target that would not fit into the memory budget is skipped. With `max_targets`, a random sample of the others.
    """
    explainer = Explainer(model, before, after, memory=memory)
    moved = explainer.moved()
    changed = int((moved.class_before != moved.class_after).sum())
    targets = np.sort(find_targets(explainer).target.to_numpy())
    fits = explainer.num_bytes[targets] <= explainer.memory
    sampled = targets[fits]
    if max_targets is not None and len(sampled) > max_targets:
        sampled = np.sort(np.random.default_rng(SEED).choice(sampled, max_targets, replace=False))
    rows = [
        row for target in sampled.tolist() for row in _compare_target(explainer.session, model, after, target, methods)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs = {
        "changed": changed,
        "few_paths": changed - len(targets),
        "too_large": int((~fits).sum()),
        "not_sampled": int(fits.sum()) - len(sampled),
        "targets": len(sampled),
    }
    return frame


def _compare_target(
    session: Session, model: SumGNN, graph: Data, target: int, methods: Sequence[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """Walked once for all methods; the seconds of a method are those of choosing and replaying, by level."""
    start = time.perf_counter()
    engine, rows = session.locate([target])
    batch = open_batch(engine.change, rows)
    walking = time.perf_counter() - start
    budgets = budgets_for(batch.sources[0].num_paths[0])
    for method, objective in methods:
        start = time.perf_counter()
        if method == "gnnexplainer":
            questions = [Question(budget, objective=objective) for budget in budgets]
            rank: Ranking | None = partial(best_by_gnnexplainer, model, graph)
        else:
            questions, rank = [Question(budget, method, objective) for budget in budgets], None
        found = answer(engine.change, batch, questions, engine.caption, rank)
        seconds = (time.perf_counter() - start) / len(budgets)
        for level, explanation in enumerate(found, start=1):
            yield {
                "target": int(target),
                "num_paths": explanation.num_paths,
                "level": level,
                "budget": explanation.budget,
                "method": method,
                "objective": objective,
                **{key: getattr(explanation, key) for key in MEASURES},
                "seconds": seconds,
                "walking_seconds": walking,
            }


def mean_by_level(rows: pd.DataFrame, measure: str = "fidelity_minus") -> pd.DataFrame:
    """Mean over targets and repeats: a row for each data set, depth, evolution and method, a column for each level."""
    means: pd.DataFrame = _by_level(rows, measure).mean().unstack("level")
    return means


def deviation_by_level(rows: pd.DataFrame) -> pd.DataFrame:
    """Standard deviation over targets and repeats, in the same form."""
    deviations: pd.DataFrame = _by_level(rows, "fidelity_minus").std().unstack("level")
    return deviations


def table_by_level(rows: pd.DataFrame) -> pd.DataFrame:
    """All of it, to be taken elsewhere: mean, standard deviation and error, median and count by group and level.

    The paper's three groups are by number of altered paths; "all" stands for all of them together.
    """
    groups = np.select([rows.num_paths <= 30, rows.num_paths < 100], GROUPS[:2], GROUPS[2])
    both = pd.concat([rows.assign(group="all"), rows.assign(group=groups)])
    both["kl_left"] = both.kl_residual / both.kl
    keys = ["dataset", "layers", "evolution", "aggregation", "edges", "group", "method", "objective", "level"]
    found = both.groupby(keys, sort=False)
    measures = {
        f"{measure}_{name}": found[measure].agg(how)
        for measure in ("fidelity_minus", "fidelity_plus", "kl_left")
        for name, how in (("mean", "mean"), ("std", "std"), ("error", "sem"), ("median", "median"))
    }
    return pd.DataFrame({"count": found.size(), **measures}).reset_index()


def _by_level(rows: pd.DataFrame, measure: str) -> Any:
    keys = ["dataset", "layers", "evolution", "method", "objective", "level"]
    return rows.groupby(keys, sort=False)[measure]

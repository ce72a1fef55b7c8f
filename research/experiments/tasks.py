"""Real tasks: molecules, trees of posts, links -> how well the methods explain what a model trained here changed.

    mutag         a few bonds of each molecule removed and as many added, at random; five models, each explaining the
                  molecules that it was not trained on
    mutag_bonds   the same with the kinds of bonds in a GINE: one bond removed, one added, one of another kind
    rumour_trees  a tree of posts after one hour against after a day; the trees of the test part
    bitcoinotc    links of three months against those of the three months a month later, each pair a target; months
                  after those that the model was trained on

A task is cut into parts that can be run one by one; see `run_tasks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch_geometric.data import Batch, Data

from axiompath.arrays import FloatArray, IntArray
from axiompath.errors import InputError
from axiompath.explainer import Explainer

from .. import datasets
from ..datasets.archives import check_timed, open_archive
from ..datasets.graph_sets import ATOMS
from .bonds import BondModel, evolve_bonds
from .conditions import write_results
from .job_parts import Job, merge_parts, run_parts
from .relational import Trial, try_activity, try_relation, try_trust
from .task_models import (
    LinkPredictor,
    MoleculeModel,
    TreeModel,
    accuracy_on_graphs,
    auc_of_links,
    train_on_graphs,
    train_on_links,
)
from .trained import SEED

TASKS = ("mutag", "mutag_bonds", "rumour_trees", "bitcoinotc")
RELATIONAL_TASKS = ("icews_activity", "icews_relation", "otc_trust")  # only by name: see relational.py
TASK_METHODS = ("exact", "convex", "linear", "topk", "deeplift", "gnnlrp", "grad")
TASK_BUDGETS = (5, 10)
MIN_KL = 1e-3  # a prediction moved where its KL is at least this, or its class is another
NUM_FOLDS = 5
NUM_BONDS = 2  # removed, and as many added
HOUR, DAY = 60.0, 24 * 60.0  # in minutes
MONTH = 30 * 24 * 3600  # in seconds
MONTHS_SEEN = 3  # links of so many months make a snapshot
FROZEN, LEARNT = 0.4, 0.7  # shares of the ratings: features are of the first; the model is trained up to the second
NUM_MONTHS = 3  # transitions that are explained


@dataclass(frozen=True)
class TaskSettings:
    """What is run; the tests run less of it."""

    tasks: tuple[str, ...] = TASKS
    methods: tuple[str, ...] = TASK_METHODS
    budgets: tuple[int, ...] = TASK_BUDGETS
    max_targets: int = 100  # explained by every method, a part; drawn from those that moved
    largest_tree: int = 300  # posts after a day
    epochs: int = 100  # of molecules; trees and links take half of them
    seed: int = SEED

    def __post_init__(self) -> None:
        """Check here, before any work."""
        for task in self.tasks:
            if task not in (*TASKS, *RELATIONAL_TASKS):
                raise InputError(f"Expected tasks among {', '.join((*TASKS, *RELATIONAL_TASKS))} (got {task!r}).")

    @property
    def jobs(self) -> list[Job]:
        """The parts: folds, one of trees, months."""
        parts = {
            "mutag": ("bonds", NUM_FOLDS),
            "mutag_bonds": ("kinds of bonds", NUM_FOLDS),
            "rumour_trees": ("hour to day", 1),
            "bitcoinotc": ("month", NUM_MONTHS),
        }
        parts |= dict.fromkeys(TRIALS, ("month", 1))
        return [Job(task, 2, parts[task][0], part) for task in self.tasks for part in range(parts[task][1])]


@dataclass(frozen=True, eq=False)
class Exam:
    """A trained model, what it is asked to explain, and how good it is on what it never saw."""

    model: nn.Module
    before: Data
    after: Data
    scores: Mapping[str, float]
    class_names: tuple[str, ...]
    node_names: Mapping[int, str] = field(default_factory=dict)
    links: IntArray | None = None


def run_tasks(
    settings: TaskSettings,
    out: Path,
    *,
    root: str | Path | None = None,
    report: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> pd.DataFrame:
    """`tasks.parquet`, a row for each target, method and budget, and `tasks.json`, in `out`; goes on where it was."""
    jobs, parts = settings.jobs, {}
    run = partial(run_exam, settings=settings, root=root)
    report(0, len(jobs), "training")
    for job, frame in run_parts(jobs, run, out / "parts", asdict(settings)):
        parts[job] = frame
        report(len(parts), len(jobs), job.dataset)
    table = merge_parts(parts, jobs)
    facts = [{"dataset": job.dataset, "part": job.repeat, **parts[job].attrs} for job in jobs]
    write_results(out, "tasks", table, {"settings": asdict(settings), "parts": facts})
    table.attrs = {"parts": facts}
    return table


def run_exam(job: Job, settings: TaskSettings, root: str | Path | None = None) -> pd.DataFrame:
    """Rows of one part; `attrs` holds its facts and one change in words."""
    start = time.perf_counter()
    exam: Exam | Trial
    if job.dataset in TRIALS:
        exam = TRIALS[job.dataset](job.repeat, settings.epochs // 2, settings.seed, root)
    else:
        exam = EXAMS[job.dataset](job.repeat, settings, root)
    trained = time.perf_counter()
    names = dict(exam.node_names)
    explainer = Explainer(
        exam.model, exam.before, exam.after, links=exam.links, node_names=names, class_names=exam.class_names
    )
    moved = explainer.moved()
    list(explainer.attribute_many(moved.target[:1]))  # loops are compiled on first use
    worst, num_paths, attributed = 0.0, 0, time.perf_counter()
    for found in explainer.attribute_many(moved.target):
        scale = max(1.0, np.abs(found.logits_before).max(), np.abs(found.logits_after).max())
        worst, num_paths = max(worst, float(found.residual / scale)), num_paths + len(found.paths)
    attributing = time.perf_counter() - attributed
    flipped = moved.class_before != moved.class_after
    wanted = moved[(moved.kl >= MIN_KL) | flipped]
    wanted = wanted[wanted.num_paths > max(settings.budgets)]
    if len(wanted) > settings.max_targets:
        wanted = wanted.sample(settings.max_targets, random_state=settings.seed).sort_index()
    rows: list[dict[str, Any]] = []
    for method in settings.methods:
        for budget in settings.budgets:
            rows += _ask(explainer, wanted, method, budget)
    frame = pd.DataFrame([{"dataset": job.dataset, "part": job.repeat, **row} for row in rows])
    frame.attrs = {
        "scores": dict(exam.scores),
        "asked": len(explainer.change.root_ids),
        "reached": len(moved),
        "moved": int(((moved.kl >= MIN_KL) | flipped).sum()),
        "flipped": int(flipped.sum()),
        "explained": len(wanted),
        "median_paths": float(moved.num_paths.median()),
        "largest_residual": worst,
        "ms_a_target": 1000 * attributing / max(len(moved), 1),
        "ns_a_path": 1e9 * attributing / max(num_paths, 1),
        "training_seconds": trained - start,
        "example": _tell(explainer, wanted),
    }
    return frame


def summarise_tasks(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each task, method and budget: mean and median fidelity, share explained, time a target."""
    grouped = table.groupby(["dataset", "method", "budget"], sort=False)
    return grouped.agg(
        targets=("target", "size"),
        minus=("fidelity_minus", "mean"),
        minus_median=("fidelity_minus", "median"),
        plus=("fidelity_plus", "mean"),
        plus_median=("fidelity_plus", "median"),
        ms=("ms", "mean"),
    ).reset_index()


def _ask(explainer: Explainer, wanted: pd.DataFrame, method: str, budget: int) -> list[dict[str, Any]]:
    list(explainer.explain_many(wanted.target[:1], budget, method, progress=False))  # loops are compiled on first use
    start = time.perf_counter()
    found = list(explainer.explain_many(wanted.target, budget, method, progress=False))
    milliseconds = 1000 * (time.perf_counter() - start) / max(len(found), 1)
    return [
        {
            "target": str(one.target),
            "method": method,
            "budget": budget,
            "kl": one.kl,
            "num_paths": one.num_paths,
            "flipped": one.class_before != one.class_after,
            "fidelity_minus": one.fidelity_minus,
            "fidelity_plus": one.fidelity_plus,
            "kl_residual": one.kl_residual,
            "ms": milliseconds,
        }
        for one in found
    ]


def _tell(explainer: Explainer, wanted: pd.DataFrame) -> str:
    """The change of class that five paths explain best, the network agreeing; of those with fewest paths."""
    flips = wanted[wanted.class_before != wanted.class_after].sort_values("num_paths", kind="stable").head(20)
    found = list(explainer.explain_many((flips if len(flips) else wanted.head(20)).target, 5, "exact", progress=False))
    best = max(found, key=lambda one: min(one.explained, one.network_share), default=None)
    return "" if best is None else best.summary()


def examine_molecules(part: int, settings: TaskSettings, root: str | Path | None, *, bonds: bool = False) -> Exam:
    """One fold of five; the next one picks the epoch."""
    molecules = datasets.load_molecules(root, bonds=bonds)
    fold = np.random.default_rng(settings.seed).permutation(len(molecules)) % NUM_FOLDS
    parts = [[m for m, f in zip(molecules, fold, strict=True) if f == k] for k in range(NUM_FOLDS)]
    test, check = parts[part], parts[(part + 1) % NUM_FOLDS]
    rest = [m for k in range(NUM_FOLDS) if k not in (part, (part + 1) % NUM_FOLDS) for m in parts[k]]
    model = train_on_graphs(
        partial(BondModel if bonds else MoleculeModel, len(ATOMS), 2),
        rest,
        check,
        epochs=settings.epochs,
        seed=settings.seed,
    )
    seeds = [settings.seed + int(m.n_id[0]) for m in test]
    evolved = [
        evolve_bonds(m, NUM_BONDS // 2, seed)
        if bonds
        else datasets.evolve(m, added=NUM_BONDS, removed=NUM_BONDS, seed=seed)
        for m, seed in zip(test, seeds, strict=True)
    ]
    before, after = Batch.from_data_list(test), Batch.from_data_list(evolved)
    scores = {"accuracy": accuracy_on_graphs(model, before), "majority": _majority(test)}
    kinds = before.x.argmax(dim=1).tolist()
    number = (before.n_id - torch.tensor([int(m.n_id[0]) for m in test])[before.batch]).tolist()
    names = {n: f"{ATOMS[kind]}{i}" for n, kind, i in zip(before.n_id.tolist(), kinds, number, strict=True)}
    return Exam(model, before, after, scores, ("not mutagenic", "mutagenic"), names)


def examine_trees(part: int, settings: TaskSettings, root: str | Path | None) -> Exam:
    """Three fifths of the trees to train on, both as they stand after an hour and after a day; a fifth to test."""
    assert part == 0
    early, late = datasets.load_trees(HOUR, root), datasets.load_trees(DAY, root)
    small = np.flatnonzero([tree.num_nodes <= settings.largest_tree for tree in late])
    order = np.random.default_rng(settings.seed).permutation(small)
    train, check, test = np.split(order, [3 * len(order) // 5, 4 * len(order) // 5])
    both = [[tree for i in part for tree in (early[i], late[i])] for part in (train, check)]
    inputs, classes = late[0].x.shape[1], 4
    model = train_on_graphs(
        partial(TreeModel, inputs, classes), *both, epochs=settings.epochs // 2, batches=12, seed=settings.seed
    )
    before, after = (Batch.from_data_list([trees[i] for i in test]) for trees in (early, late))
    scores = {
        "accuracy": accuracy_on_graphs(model, after),
        "accuracy after an hour": accuracy_on_graphs(model, before),
        "majority": _majority([late[i] for i in test]),
    }
    starts = after.n_id[after.ptr[:-1]][after.batch]
    names = {
        n: "first post" if i == 0 else f"post {i}"
        for n, i in zip(after.n_id.tolist(), (after.n_id - starts).tolist(), strict=True)
    }
    # As the file lists them.
    return Exam(model, before, after, scores, ("non-rumor", "true", "false", "unverified"), names)


def examine_links(part: int, settings: TaskSettings, root: str | Path | None) -> Exam:
    """One transition, from the links of three months to those of the three months that end a month later.

    Half of the pairs are the new links of the month after that, half are drawn at random.
    """
    model, timeline, first, auc = _trained_on_months(settings, root)
    before, after = (timeline.month(first + part + k, settings.seed) for k in (0, 1))
    links = after.edge_label_index.T.numpy()
    scores = {"AUC": auc, "AUC of the month": auc_of_links(model, [after])}
    sides = [Data(x=data.x, edge_index=data.edge_index) for data in (before, after)]
    return Exam(model, sides[0], sides[1], scores, ("no", "yes"), links=links)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Ratings in order of time, and what is known of people when the features are frozen."""

    ends: IntArray  # [2, num_ratings]: who rated whom
    times: IntArray
    start: int  # when the features are frozen
    x: torch.Tensor

    def month(self, number: int, seed: int) -> Data:
        """Links of three months up to one, both ways; the new links of the month after, as many random pairs, and y.

        Pairs are of people who had rated or been rated by then.
        """
        now = self.start + MONTH * number
        first, here, last = np.searchsorted(self.times, [now - MONTHS_SEEN * MONTH, now, now + MONTH])
        seen, known = self.ends[:, first:here], np.unique(self.ends[:, :here])
        coming = np.unique(self.ends[:, here:last], axis=1)
        size = len(self.x)
        fresh = ~np.isin(coming[0] * size + coming[1], self.ends[0, :here] * size + self.ends[1, :here])
        coming = coming[:, fresh & np.isin(coming, known).all(axis=0) & (coming[0] != coming[1])]
        drawn = np.random.default_rng([seed, number]).choice(known, (2, 2 * coming.shape[1] + 10))
        taken = np.concatenate([self.ends[:, :here], coming], axis=1)
        free = ~np.isin(drawn[0] * size + drawn[1], taken[0] * size + taken[1]) & (drawn[0] != drawn[1])
        drawn = np.unique(drawn[:, free], axis=1)
        drawn = drawn[:, np.random.default_rng([seed, number]).permutation(drawn.shape[1])[: coming.shape[1]]]
        both = np.unique(np.concatenate([seen, seen[::-1]], axis=1), axis=1)
        labels = np.repeat([1, 0], [coming.shape[1], drawn.shape[1]])
        return Data(
            x=self.x,
            edge_index=torch.from_numpy(both[:, both[0] != both[1]]),
            edge_label_index=torch.from_numpy(np.concatenate([coming, drawn], axis=1)),
            y=torch.from_numpy(labels),
        )


def open_timeline(root: str | Path | None) -> tuple[Timeline, int]:
    """The ratings of Bitcoin-OTC, and the first month after those that a model may be trained on."""
    arrays, path = open_archive("bitcoinotc", root, "timed graph")
    check_timed(arrays, path)
    ends = np.stack([arrays["edge_src"], arrays["edge_dst"]]).astype(np.int64)
    times = arrays["edge_time"].astype(np.int64)
    start, stop = (int(times[int(share * len(times))]) for share in (FROZEN, LEARNT))
    old = times < start
    x = _trust(ends[:, old], arrays["edge_weight"][old].astype(np.float64), int(arrays["num_nodes"]))
    return Timeline(ends, times, start, torch.from_numpy(x)), 1 + (stop - start) // MONTH


def _trust(ends: IntArray, ratings: FloatArray, num_nodes: int) -> FloatArray:
    """What is known of everybody: 1, and of ratings received and given their number, in logarithms, and their mean."""
    columns = [np.ones(num_nodes)]
    for side in (ends[1], ends[0]):
        count = np.bincount(side, minlength=num_nodes)
        total = np.bincount(side, weights=ratings, minlength=num_nodes)
        columns += [np.log1p(count), total / np.maximum(count, 1) / 10]
    return np.stack(columns, axis=1)


@lru_cache(maxsize=1)
def _trained_on_months(settings: TaskSettings, root: str | Path | None) -> tuple[nn.Module, Timeline, int, float]:
    """The model, and its AUC on the months that are explained, none of which it was trained on."""
    timeline, first = open_timeline(root)
    # The links of the last month of training come before the first snapshot that is explained.
    months = [timeline.month(number, settings.seed) for number in range(1, first)]
    inputs = timeline.x.shape[1]
    model = train_on_links(
        partial(LinkPredictor, inputs), months[:-1], months[-1], epochs=settings.epochs // 2, seed=settings.seed
    )
    later = [timeline.month(first + k, settings.seed) for k in range(NUM_MONTHS + 1)]
    return model, timeline, first, auc_of_links(model, later)


def _majority(graphs: Sequence[Data]) -> float:
    labels = np.array([int(graph.y) for graph in graphs])
    return float(np.bincount(labels).max() / len(labels))


TRIALS: dict[str, Callable[[int, int, int, str | Path | None], Trial]] = {
    "icews_activity": try_activity,
    "icews_relation": try_relation,
    "otc_trust": try_trust,
}
EXAMS: dict[str, Callable[[int, TaskSettings, str | Path | None], Exam]] = {
    "mutag": examine_molecules,
    "mutag_bonds": partial(examine_molecules, bonds=True),
    "rumour_trees": examine_trees,
    "bitcoinotc": examine_links,
}

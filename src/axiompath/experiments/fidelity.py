"""The paper's comparison: Fidelity-KL-minus of every method at ten levels of complexity.

200 random edges are added to a graph on which a SumGNN was trained. Targets are the nodes whose predicted class changed
and that have more than 10 altered paths; the budgets of their ten levels depend on the number m of these.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from .. import datasets
from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..explain.answer import RIVALS
from ..explain.replay import replay_paths
from ..explainer import Explainer
from ..files.sum_gnn import SumGNN
from ..metrics import fidelity_minus, fidelity_plus, kl_divergence
from ..paths.attribution import attribute_paths
from ..paths.walk import PathSet, find_rows, walk_paths
from ..selection import select_budgets
from .gnnexplainer import best_by_gnnexplainer
from .training import SEED, prepare, settings_for, train

PAPER_METHODS = ("grad", "gnnlrp", "deeplift", "topk", "linear", "convex")
METHODS = (*((method, "sufficiency") for method in (*PAPER_METHODS, "exact")), ("exact", "necessity"))
OPTIONAL_METHODS = (("gnnexplainer", "sufficiency"),)  # slow: trains a mask for every target
EVOLUTIONS = {"added": (200, 0), "removed": (0, 200), "both": (100, 100)}
FEWEST_PATHS = 10  # targets with this many or fewer are skipped


def budgets_for(num_paths: int) -> list[int]:
    """The ten levels of a target with m altered paths, from the paper's appendix (m = 100 in the last group)."""
    if num_paths <= FEWEST_PATHS:
        return []
    if num_paths <= 30:
        return list(range(1, 11))
    return list(range(10, 29, 2)) if num_paths < 100 else list(range(10, 56, 5))


def run_fidelity(
    name: str,
    layers: int,
    repeat: int,
    *,
    evolution: str = "added",
    methods: Sequence[tuple[str, str]] = METHODS,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    memory: str = "2GB",
    max_targets: int | None = None,
) -> pd.DataFrame:
    """A row for each target, level and method of one repeat."""
    before, model = _load_trained(name, layers, root, cache)
    added, removed = EVOLUTIONS[evolution]
    after = datasets.evolve(before, added=added, removed=removed, seed=repeat)
    frame = compare_methods(model, before, after, methods=methods, memory=memory, max_targets=max_targets)
    notes = frame.attrs
    frame = frame.assign(dataset=name, layers=layers, evolution=evolution, repeat=repeat)
    first = ["dataset", "layers", "evolution", "repeat"]
    frame = frame[[*first, *(column for column in frame.columns if column not in first)]]
    frame.attrs = notes
    return frame


@lru_cache(maxsize=1)  # the repeats of one data set and depth follow each other
def _load_trained(name: str, layers: int, root: str | Path | None, cache: str | Path | None) -> tuple[Data, SumGNN]:
    before = prepare(datasets.load(name, root))
    return before, train(before, settings_for(name, layers), cache).model


def compare_methods(
    model: SumGNN,
    before: Data,
    after: Data,
    *,
    methods: Sequence[tuple[str, str]] = METHODS,
    memory: str = "2GB",
    max_targets: int | None = None,
) -> pd.DataFrame:
    """A row for each target, level and method; `attrs` holds the numbers of targets met and left out.

    A target that would not fit into the memory budget is skipped. With `max_targets`, a random sample of the others.
    """
    explainer = Explainer(model, before, after, memory=memory)
    moved = explainer.moved()
    moved = moved[moved.class_before != moved.class_after]
    wanted = moved[moved.num_paths > FEWEST_PATHS]
    targets = np.sort(wanted.target.to_numpy())
    fits = explainer.num_bytes[targets] <= explainer.memory
    sampled = targets[fits]
    if max_targets is not None and len(sampled) > max_targets:
        sampled = np.sort(np.random.default_rng(SEED).choice(sampled, max_targets, replace=False))
    rows = [
        row for target in sampled.tolist() for row in _compare_target(explainer.change, model, after, target, methods)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs = {
        "changed": len(moved),
        "few_paths": len(moved) - len(wanted),
        "too_large": int((~fits).sum()),
        "not_sampled": int(fits.sum()) - len(sampled),
        "targets": len(sampled),
    }
    return frame


def _compare_target(
    change: Change, model: SumGNN, graph: Data, target: int, methods: Sequence[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """All methods' choices of one target are replayed together."""
    start = time.perf_counter()
    found = walk_paths(change, np.array([target]))
    contributions = attribute_paths(change, found).contributions
    walking = time.perf_counter() - start
    budgets = budgets_for(len(found.paths))
    before, after = change.before_pass.logits[target], change.after_pass.logits[target]
    chosen: list[IntArray] = []
    known: list[dict[str, Any]] = []
    for method, objective in methods:
        start = time.perf_counter()
        if method in RIVALS or method == "gnnexplainer":
            ranked = _rank(change, model, graph, target, method, budgets[-1])
            answers = _judge_ranking(found, contributions, ranked, budgets, before, after)
        else:
            selections = select_budgets(contributions, before, after, budgets, method=method, objective=objective)
            answers = [(found.paths[s.chosen], s.kl_residual, s.kl_bound) for s in selections]
        seconds = (time.perf_counter() - start) / len(budgets)
        for level, (budget, (paths, residual, bound)) in enumerate(zip(budgets, answers, strict=True), start=1):
            chosen.append(paths)
            known.append(
                {"level": level, "budget": budget, "method": method, "objective": objective, "kl_residual": residual,
                 "kl_bound": bound, "seconds": seconds}
            )  # fmt: skip
    jobs = np.repeat(np.arange(len(chosen)), [len(paths) for paths in chosen])
    roots, paths = np.full(len(chosen), target), np.concatenate(chosen)
    minus = fidelity_minus(replay_paths(change, roots, jobs, paths), before, after)
    plus = fidelity_plus(replay_paths(change, roots, jobs, paths, add=True), before, after)
    for row, low, high in zip(known, minus, plus, strict=True):
        yield {
            "target": int(target),
            "num_paths": len(found.paths),
            **{key: row[key] for key in ("level", "budget", "method", "objective")},
            "fidelity_minus": float(low),
            "fidelity_plus": float(high),
            **{key: row[key] for key in ("kl_residual", "kl_bound", "seconds")},
            "walking_seconds": walking,
        }


def _rank(change: Change, model: SumGNN, graph: Data, target: int, method: str, most: int) -> IntArray:
    """The `most` best paths of `after` in the eyes of an explainer of static predictions."""
    if method == "gnnexplainer":
        return best_by_gnnexplainer(change, model, graph, target, most)
    label = int(change.after_pass.logits[target].argmax())
    return RIVALS[method](change, target, most, label)[0]


def _judge_ranking(
    found: PathSet, contributions: FloatArray, ranked: IntArray, budgets: Sequence[int], before: FloatArray,
    after: FloatArray,
) -> list[tuple[IntArray, float, float]]:  # fmt: skip
    """Paths, KL(P_after || P_n) and a trivial bound at each budget; a path that is not altered contributes nothing."""
    place = find_rows(found.paths, ranked)
    shares = np.where((place >= 0)[:, None], contributions[place], 0.0)
    reached = before + np.concatenate([np.zeros((1, len(before))), np.cumsum(shares, axis=0)])
    sizes = [min(budget, len(ranked)) for budget in budgets]
    residuals = kl_divergence(after, reached[sizes])
    return [(ranked[:n], float(residual), 0.0) for n, residual in zip(sizes, residuals, strict=True)]


def mean_by_level(rows: pd.DataFrame, value: str = "fidelity_minus") -> pd.DataFrame:
    """Mean over targets and repeats: a row for each data set, depth, evolution and method, a column for each level."""
    means: pd.DataFrame = _by_level(rows, value).mean().unstack("level")
    return means


def deviation_by_level(rows: pd.DataFrame, value: str = "fidelity_minus") -> pd.DataFrame:
    """Standard deviation over targets and repeats, in the same form."""
    deviations: pd.DataFrame = _by_level(rows, value).std().unstack("level")
    return deviations


def _by_level(rows: pd.DataFrame, value: str) -> Any:
    return rows.groupby(["dataset", "layers", "evolution", "method", "objective", "level"], sort=False)[value]

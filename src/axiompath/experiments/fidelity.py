"""The paper's comparison: Fidelity-KL-minus of every method at ten levels of complexity.

200 random edges are added to a graph on which a SumGNN was trained. Targets are the nodes whose predicted class changed
and that have more than 10 altered paths; the budgets of their ten levels depend on the number m of these.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .. import datasets
from ..attribution import attribute_paths
from ..choice import Question, choose_budgets
from ..explainer import Explainer
from ..paths import walk_paths
from .training import Training, prepare, train

PAPER_METHODS = ("grad", "gnnlrp", "deeplift", "topk", "linear", "convex")
METHODS = (*((method, "sufficiency") for method in (*PAPER_METHODS, "exact")), ("exact", "necessity"))
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
) -> Iterator[dict[str, Any]]:
    """A row for each target, level and method of one repeat."""
    before = prepare(datasets.load(name, root))
    trained = train(before, Training(name, layers), cache)
    added, removed = EVOLUTIONS[evolution]
    explainer = Explainer(trained.model, before, datasets.evolve(before, added=added, removed=removed, seed=repeat))
    frame = explainer.changes()
    frame = frame[(frame.class_before != frame.class_after) & (frame.num_paths > FEWEST_PATHS)]
    for node in np.sort(frame.node.to_numpy()):
        start = time.perf_counter()
        found = walk_paths(explainer.change, np.array([node]))
        contributions = attribute_paths(explainer.change, found)
        walking = time.perf_counter() - start
        budgets = budgets_for(len(found.paths))
        for method, objective in methods:
            start = time.perf_counter()
            questions = [Question(budget, method, objective) for budget in budgets]
            choices = choose_budgets(explainer.change, found, contributions, questions)
            choosing = (time.perf_counter() - start) / len(budgets)
            for level, choice in enumerate(choices, start=1):
                e = choice.to_explanation(explainer.change, before)
                yield {
                    "dataset": name,
                    "layers": layers,
                    "evolution": evolution,
                    "repeat": repeat,
                    "target": e.target,
                    "num_paths": e.num_paths,
                    "level": level,
                    "budget": e.budget,
                    "method": method,
                    "objective": objective,
                    "fidelity_minus": e.fidelity_minus,
                    "fidelity_plus": e.fidelity_plus,
                    "kl_residual": e.kl_residual,
                    "kl_bound": e.kl_bound,
                    "seconds": choosing,
                    "walking_seconds": walking,
                }


def mean_by_level(rows: pd.DataFrame, value: str = "fidelity_minus") -> pd.DataFrame:
    """Mean over targets and repeats: a row for each data set, depth, evolution and method, a column for each level."""
    keys = ["dataset", "layers", "evolution", "method", "objective"]
    return rows.groupby([*keys, "level"], sort=False)[value].mean().unstack("level")

"""How long does each step take, by number of paths? Walking and attribution, our two solvers, and cvxpy with SCS.

The paper solves its relaxation with cvxpy and SCS and found that slow where paths are many. Here both are given the
same targets, in the same process, one after the other; SCS a sample of them, spread evenly over the numbers of paths.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from scipy import special

from ..arrays import FloatArray
from ..explain.walks import walk_rows
from ..explainer import Explainer
from ..metrics import kl_divergence
from ..selection import select
from .fidelity import budgets_for, evolve_job, find_targets, with_job
from .job_parts import Job

LEVEL = 5  # of the paper's ten: whose budget is solved for
SCS_SECONDS = 60.0  # SCS gives up after this long
SCS_PATHS = 200_000  # and is not asked about more paths than this: it would not fit into memory
Answer = TypeVar("Answer")


def can_compare() -> bool:
    """Whether cvxpy and SCS are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("cvxpy", "scs"))


def run_runtime(
    job: Job,
    *,
    sample: int = 8,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    memory: str = "2GB",
) -> pd.DataFrame:
    """A row for each target, with seconds of each step; scs_seconds is missing where SCS was not asked."""
    explainer = Explainer(*evolve_job(job, root, cache), memory=memory)
    moved = find_targets(explainer)
    moved = moved[explainer.num_bytes[moved.target] <= explainer.memory].sort_values("num_paths")
    targets = moved.target.to_numpy()
    asked = set(np.linspace(0, len(targets) - 1, min(sample, len(targets))).astype(int)) if can_compare() else set()
    rows = []
    for i, target in enumerate(targets[:1].tolist() + targets.tolist(), start=-1):
        row = _time_target(explainer, target, with_scs=i in asked or (i < 0 and bool(asked)))
        if i >= 0:  # the first target is measured twice: kernels and libraries are loaded on first use
            rows.append({"target": target, **row})
    return with_job(pd.DataFrame(rows), job)


def _time_target(explainer: Explainer, target: int, with_scs: bool) -> dict[str, Any]:
    change = explainer.change

    def attribute() -> tuple[int, FloatArray]:
        found, shares = walk_rows(change, explainer.case.find([target])[1])
        return len(found.paths), shares.contributions

    walking, (num_paths, contributions) = _timed(attribute)
    before, after = change.before_pass.logits[target], change.after_pass.logits[target]
    budget = budgets_for(num_paths)[LEVEL - 1]
    convex, relaxed = _timed(lambda: select(contributions, before, after, budget, "convex"))
    exact, chosen = _timed(lambda: select(contributions, before, after, budget, "exact"))
    row = {
        "num_paths": num_paths,
        "budget": budget,
        "walking_seconds": walking,
        "convex_seconds": convex,
        "exact_seconds": exact,
        "kl_bound": relaxed.kl_bound,
        "kl_convex": relaxed.kl_residual,
        "kl_exact": chosen.kl_residual,
        "scs_seconds": np.nan,
        "kl_scs": np.nan,
    }
    if with_scs and num_paths <= SCS_PATHS:
        row["scs_seconds"], weights = _timed(lambda: solve_with_scs(contributions, before, after, budget))
        if weights is not None:
            best = np.argsort(-weights, kind="stable")[:budget]
            row["kl_scs"] = float(kl_divergence(after, before + contributions[best].sum(axis=0)))
    return row


def solve_with_scs(
    contributions: FloatArray, logits_before: FloatArray, logits_after: FloatArray, budget: int
) -> FloatArray | None:
    """Weights [m] of the relaxation as the paper solves it; None where SCS found none in time."""
    import cvxpy

    x = cvxpy.Variable(len(contributions))
    shift = contributions.T @ x
    objective = cvxpy.Minimize(-special.softmax(logits_after) @ shift + cvxpy.log_sum_exp(logits_before + shift))
    problem = cvxpy.Problem(objective, [x >= 0, x <= 1, cvxpy.sum(x) == budget])
    try:
        problem.solve(solver=cvxpy.SCS, time_limit_secs=SCS_SECONDS)
    except cvxpy.error.SolverError:
        return None
    return None if x.value is None else np.asarray(x.value)


def _timed(work: Callable[[], Answer]) -> tuple[float, Answer]:
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer

"""How long does each step take, by number of paths? Walking and attribution, our two solvers, SCS, and scipy's.

The paper solves its relaxation with cvxpy and SCS, found that slow where paths are many, and lays it to "the optimizer
in scipy", which early stopping might help. Here all are given the same targets, in the same process, one after the
other; SCS, SCS stopped early and scipy's SLSQP a sample of them, spread evenly over the numbers of paths.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from scipy import optimize, special

from axiompath.arrays import FloatArray
from axiompath.explain.walks import walk_rows
from axiompath.explainer import Explainer
from axiompath.metrics import kl_divergence
from axiompath.selection import select

from .fidelity import budgets_for, evolve_job, find_targets, with_job
from .job_parts import Job

LEVEL = 5  # of the paper's ten: whose budget is solved for
SCS_SECONDS = 60.0  # SCS gives up after this long
SCS_PATHS = 200_000  # and is not asked about more paths than this: it would not fit into memory
EARLY = 50  # steps of SCS after which it is stopped early
SCIPY_PATHS = 1_000  # SLSQP factors a matrix of this many rows in every step
SCIPY_STEPS = 200
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
        table = walk_rows(change, explainer.session.locate([target])[1]).table
        return len(table.paths), table.contributions

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
    }
    problem = contributions, before, after, budget
    solvers: dict[str, tuple[int, Callable[[], FloatArray | None]]] = {
        "scs": (SCS_PATHS, lambda: solve_with_scs(*problem)),
        "early": (SCS_PATHS, lambda: solve_with_scs(*problem, max_iters=EARLY)),
        "scipy": (SCIPY_PATHS, lambda: solve_with_scipy(*problem)),
    }
    for name, (most, solve) in solvers.items():
        row[f"{name}_seconds"] = row[f"kl_{name}"] = np.nan
        if with_scs and num_paths <= most:
            row[f"{name}_seconds"], weights = _timed(solve)
            if weights is not None:
                best = np.argsort(-weights, kind="stable")[:budget]
                row[f"kl_{name}"] = float(kl_divergence(after, before + contributions[best].sum(axis=0)))
    return row


def solve_with_scs(
    contributions: FloatArray, logits_before: FloatArray, logits_after: FloatArray, budget: int, **options: Any
) -> FloatArray | None:
    """Weights [m] of the relaxation as the paper solves it; None where SCS found none in time. `options` are SCS's."""
    import cvxpy

    x = cvxpy.Variable(len(contributions))
    shift = contributions.T @ x
    objective = cvxpy.Minimize(-special.softmax(logits_after) @ shift + cvxpy.log_sum_exp(logits_before + shift))
    problem = cvxpy.Problem(objective, [x >= 0, x <= 1, cvxpy.sum(x) == budget])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")  # stopped early, it is
            problem.solve(solver=cvxpy.SCS, time_limit_secs=SCS_SECONDS, **options)
    except cvxpy.error.SolverError:
        return None
    return None if x.value is None else np.asarray(x.value)


def solve_with_scipy(
    contributions: FloatArray, logits_before: FloatArray, logits_after: FloatArray, budget: int
) -> FloatArray:
    """Weights [m] by scipy's SLSQP, with the gradient given, from equal weights."""
    wanted = special.softmax(logits_after)

    def value(x: FloatArray) -> float:
        shift = contributions.T @ x
        return float(special.logsumexp(logits_before + shift) - wanted @ shift)

    def slope(x: FloatArray) -> FloatArray:
        return np.asarray(contributions @ (special.softmax(logits_before + contributions.T @ x) - wanted))

    m = len(contributions)
    total = {"type": "eq", "fun": lambda x: x.sum() - budget, "jac": lambda x: np.ones(m)}
    start = np.full(m, budget / m)
    found = optimize.minimize(
        value,
        start,
        jac=slope,
        method="SLSQP",
        bounds=[(0, 1)] * m,
        constraints=[total],
        options={"maxiter": SCIPY_STEPS},
    )
    return np.asarray(found.x)


def _timed(work: Callable[[], Answer]) -> tuple[float, Answer]:
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer

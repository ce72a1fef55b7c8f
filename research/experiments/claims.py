"""Table of fidelities -> the paper's claims about it, each measured, with all exceptions and their margins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from .fidelity import PAPER_METHODS, deviation_by_level, mean_by_level

SLACK = 1e-9  # differences below this are rounding

Cases: TypeAlias = dict[tuple[str, int], pd.DataFrame]  # data set, layers -> one row per method, one column per level

# A claim, the method that it is about, and those that it is at or below.
ORDERS = (
    ("deeplift is the runner-up: below the other four", "deeplift", ("grad", "gnnlrp", "topk", "linear")),
    ("linear is third: below topk, gnnlrp and grad", "linear", ("topk", "gnnlrp", "grad")),
    ("linear is below topk", "linear", ("topk",)),
    ("convex is below gnnexplainer", "convex", ("gnnexplainer",)),
    ("deeplift is below gnnexplainer", "deeplift", ("gnnexplainer",)),
    ("exact is at or below convex", "exact", ("convex",)),
    ("exact for necessity is at or below convex", "exact, necessity", ("convex",)),
)


@dataclass(frozen=True)
class Verdict:
    """One claim, over all data sets, depths and levels of a table."""

    claim: str
    held: int
    cases: int
    exceptions: tuple[str, ...]  # the largest margin first

    @property
    def holds(self) -> bool:
        """Whether there is no exception."""
        return self.held == self.cases


def check_claims(rows: pd.DataFrame) -> list[Verdict]:
    """The paper's claims that can be read off the means and standard deviations by level, and ours about `exact`."""
    rows = rows.assign(method=rows.method.where(rows.objective == "sufficiency", rows.method + ", " + rows.objective))
    means, deviations = _by_case(mean_by_level(rows)), _by_case(deviation_by_level(rows))
    over_levels = {case: table.mean(axis=1).to_frame("all") for case, table in means.items()}
    held = set(rows.method)
    others = [name for name in PAPER_METHODS if name in held and name != "convex"]
    orders = (
        (means, "convex has the smallest mean fidelity of the paper's six", "convex", others),
        (deviations, "convex has the smallest standard deviation of the six", "convex", others),
        *((means, *order) for order in ORDERS),
        (over_levels, "exact, averaged over levels, is at or below convex", "exact", ("convex",)),
    )
    verdicts = [
        _below(cases, claim, method, rivals)
        for cases, claim, method, rivals in orders
        if rivals and held.issuperset((method, *rivals))
    ]
    falling = ("convex", "exact", "deeplift", "linear", "topk")
    verdicts += [_falls(means, f"{method} falls from level to level", method) for method in falling if method in held]
    if {"kl", "kl_residual", "fidelity_plus"}.issubset(rows.columns):  # not in tables of earlier releases
        verdicts += _approaches(rows.assign(kl_left=rows.kl_residual / rows.kl), [m for m in falling if m in held])
    if "gnnlrp" in held:
        verdicts.append(_rises(means, "gnnlrp rises somewhere as the level goes up", "gnnlrp"))
    return verdicts


def _approaches(rows: pd.DataFrame, methods: Sequence[str]) -> list[Verdict]:
    """Whether P_n comes closer to P_after as n grows: by the sums of shares, and by the network itself."""
    return [
        _falls(cases, f"{what} falls from level to level: {method}", method)
        for what, measure in (("what is left of the KL", "kl_left"), ("fidelity-KL-plus", "fidelity_plus"))
        for cases in [_by_case(mean_by_level(rows, measure))]
        for method in methods
    ]


def _by_case(table: pd.DataFrame) -> Cases:
    named = table.droplevel(["evolution", "objective"])
    return {key[:2]: named.loc[key[:2]] for key in named.index}


def _below(cases: Cases, claim: str, method: str, rivals: Sequence[str]) -> Verdict:
    """Whether a method's value is at or below each rival's, level by level."""
    found = {}
    for (dataset, layers), table in cases.items():
        for level in table.columns:
            mine, others = table[level][method], table[level][list(rivals)]
            shown = f"{mine:.4f} against {others.idxmin()} {others.min():.4f}"
            found[f"{dataset}, {layers} layers, level {level}: {shown}"] = float(mine - others.min())
    return _verdict(claim, found)


def _falls(cases: Cases, claim: str, method: str) -> Verdict:
    """Whether a method's mean never goes up from one level to the next."""
    found = {}
    for (dataset, layers), table in cases.items():
        for i, step in enumerate(np.diff(table.loc[method].to_numpy()), start=1):
            found[f"{dataset}, {layers} layers, level {i} to {i + 1}: up by {step:.4f}"] = float(step)
    return _verdict(claim, found)


def _rises(cases: Cases, claim: str, method: str) -> Verdict:
    """Whether a method's mean goes up somewhere on every data set and depth."""
    steps = {case: np.diff(table.loc[method].to_numpy()) for case, table in cases.items()}
    return _verdict(claim, {f"{name}, {n} layers": float((step <= SLACK).all()) for (name, n), step in steps.items()})


def _verdict(claim: str, margins: dict[str, float]) -> Verdict:
    """Exceptions are the cases, in words, whose margin is above 0."""
    worst = sorted((words for words, margin in margins.items() if margin > SLACK), key=lambda words: -margins[words])
    return Verdict(claim, len(margins) - len(worst), len(margins), tuple(worst))

"""Table of fidelities -> the paper's claims about it, each measured, with all exceptions and their margins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from .fidelity import PAPER_METHODS, deviation_by_level, mean_by_level

SLACK = 1e-9  # differences below this are rounding


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
    rows = rows.assign(name=rows.method.where(rows.objective == "sufficiency", rows.method + ", " + rows.objective))
    means, deviations = (_by_name(rows, table) for table in (mean_by_level, deviation_by_level))
    held = set(means.index.get_level_values("name"))
    others = [name for name in PAPER_METHODS if name in held and name != "convex"]
    verdicts = []
    if "convex" in held and others:
        verdicts.append(_below("convex has the smallest mean fidelity of the paper's six", means, "convex", others))
        verdicts.append(_below("convex has the smallest standard deviation of the six", deviations, "convex", others))
    pairs = [
        ("deeplift is the runner-up: below the other four", "deeplift", ("grad", "gnnlrp", "topk", "linear")),
        ("linear is third: below topk, gnnlrp and grad", "linear", ("topk", "gnnlrp", "grad")),
        ("linear is below topk", "linear", ("topk",)),
        ("convex is below gnnexplainer", "convex", ("gnnexplainer",)),
        ("deeplift is below gnnexplainer", "deeplift", ("gnnexplainer",)),
        ("exact is at or below convex", "exact", ("convex",)),
        ("exact for necessity is at or below convex", "exact, necessity", ("convex",)),
    ]
    for claim, method, rivals in pairs:
        if held.issuperset((method, *rivals)):
            verdicts.append(_below(claim, means, method, list(rivals)))
    over_levels = means.mean(axis=1).to_frame("all")
    if held.issuperset(("exact", "convex")):
        verdicts.append(_below("exact, averaged over levels, is at or below convex", over_levels, "exact", ["convex"]))
    verdicts += [
        _falls(f"{method} falls from level to level", means, method)
        for method in ("convex", "exact", "deeplift", "linear", "topk")
        if method in held
    ]
    if "gnnlrp" in held:
        verdicts.append(_rises("gnnlrp rises somewhere as the level goes up", means, "gnnlrp"))
    return verdicts


def _by_name(rows: pd.DataFrame, by_level: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    table = by_level(rows.assign(method=rows.name))
    table.index = pd.MultiIndex.from_tuples(
        [(dataset, layers, method) for dataset, layers, _, method, _ in table.index],
        names=["dataset", "layers", "name"],
    )
    return table


def _values(table: pd.DataFrame) -> dict[tuple[str, int, str], FloatArray]:
    """(data set, layers, method) -> its values by level."""
    return dict(zip(table.index, table.to_numpy(), strict=True))


def _cases(table: pd.DataFrame) -> list[tuple[str, int]]:
    return list(dict.fromkeys((key[0], key[1]) for key in table.index))


def _below(claim: str, table: pd.DataFrame, method: str, rivals: list[str]) -> Verdict:
    """Whether a method's value is at or below each rival's, level by level."""
    found: list[tuple[float, str]] = []
    cases, values = 0, _values(table)
    for dataset, layers in _cases(table):
        mine = values[dataset, layers, method]
        best = np.stack([values[dataset, layers, rival] for rival in rivals])
        for i, level in enumerate(table.columns):
            cases += 1
            margin = float(mine[i] - best[:, i].min())
            if margin > SLACK:
                rival = rivals[int(best[:, i].argmin())]
                shown = f"{mine[i]:.4f} against {rival} {best[:, i].min():.4f}"
                found.append((margin, f"{dataset}, {layers} layers, level {level}: {shown}"))
    return _verdict(claim, cases, found)


def _falls(claim: str, table: pd.DataFrame, method: str) -> Verdict:
    """Whether a method's mean never goes up from one level to the next."""
    found: list[tuple[float, str]] = []
    cases, values = 0, _values(table)
    for dataset, layers in _cases(table):
        steps = np.diff(values[dataset, layers, method])
        cases += len(steps)
        found += [
            (float(step), f"{dataset}, {layers} layers, level {i + 1} to {i + 2}: up by {step:.4f}")
            for i, step in enumerate(steps)
            if step > SLACK
        ]
    return _verdict(claim, cases, found)


def _rises(claim: str, table: pd.DataFrame, method: str) -> Verdict:
    """Whether a method's mean goes up somewhere on every data set and depth."""
    cases = _cases(table)
    steps = {case: np.diff(_values(table)[(*case, method)]) for case in cases}
    found = [(0.0, f"{name}, {layers} layers") for (name, layers), step in steps.items() if (step <= SLACK).all()]
    return _verdict(claim, len(cases), found)


def _verdict(claim: str, cases: int, found: list[tuple[float, str]]) -> Verdict:
    told = tuple(text for _, text in sorted(found, key=lambda item: -item[0]))
    return Verdict(claim, cases - len(told), cases, told)

"""Table of fidelities and the record of its run -> the tables of docs/results.md, means with standard errors.

A target's fidelity is the mean over its ten levels; ± is the standard error over targets. Where networks were trained
from several seeds, a network's fidelity is the mean over its targets, and ± the standard deviation over networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .fidelity import PAPER_METHODS

SHOWN_METHODS = ("gnnexplainer", "grad", "gnnlrp", "topk", "linear", "deeplift", "convex", "exact", "exact*")
OF_A_SETTING = ["dataset", "layers"]
OF_A_TARGET = [*OF_A_SETTING, "training", "repeat", "target"]


def write_fidelity_page(
    rows: pd.DataFrame, accuracies: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]
) -> str:
    """Markdown: networks and targets, means by method, and the spread over trainings where there are several.

    `accuracies` and `jobs` are what the run's record says of each network, and of each part.
    """
    targets = mean_of_targets(rows)
    parts = [_networks(targets, pd.DataFrame(accuracies), pd.DataFrame(jobs)), _means(targets)]
    if rows.training.nunique() > 1:
        parts.append(_spread(targets, pd.DataFrame(accuracies)))
    return "\n\n".join(parts) + "\n"


def mean_of_targets(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per target, with its number of paths, and one column per method: the mean over levels (*: necessity)."""
    labels = rows.method.where(rows.objective == "sufficiency", rows.method + "*")
    wide = rows.assign(method=labels).pivot_table("fidelity_minus", [*OF_A_TARGET, "num_paths"], "method", sort=False)
    return wide[[method for method in SHOWN_METHODS if method in wide]]


def lead_of_convex(targets: pd.DataFrame) -> tuple[str, float, float]:
    """The best of the paper's other methods, by how much convex is below it, and the standard error of that."""
    best = str(targets[[name for name in PAPER_METHODS if name in targets and name != "convex"]].mean().idxmin())
    lead = (targets[best] - targets["convex"]).to_numpy(dtype=np.float64)
    return best, float(lead.mean()), float(lead.std(ddof=1) / np.sqrt(len(lead))) if len(lead) > 1 else np.nan


def _networks(targets: pd.DataFrame, accuracies: pd.DataFrame, jobs: pd.DataFrame) -> str:
    heads = (
        "data set",
        "layers",
        "test accuracy",
        "predictions changed",
        "explained",
        "paths: median",
        "largest",
        "all",
    )
    lines = _heads(heads, 1)
    for key, part in targets.groupby(OF_A_SETTING, sort=False):
        paths = part.index.get_level_values("num_paths").to_numpy()
        counts = [_of(jobs, key).changed.sum(), len(part), int(np.median(paths)), paths.max(), paths.sum()]
        lines.append(
            f"| {key[0]} | {key[1]} | {_of(accuracies, key).test.mean():.3f} | {' | '.join(f'{n:,}' for n in counts)} |"
        )
    return "\n".join(lines)


def _means(targets: pd.DataFrame) -> str:
    papers = [method for method in targets.columns if method in PAPER_METHODS]
    compared = "convex" in papers and len(papers) > 1
    lines = _heads(("data set", "layers", *targets.columns, *(["convex ahead of the next by"] if compared else [])), 1)
    for (name, layers), part in targets.groupby(OF_A_SETTING, sort=False):
        best = part.mean()[papers].idxmin() if papers else None
        cells = [
            f"{f'**{mean:.3f}**' if method == best else f'{mean:.3f}'} ± {error:.3f}"
            for method, mean, error in zip(targets.columns, part.mean(), part.sem(), strict=True)
        ]
        if compared:
            rival, lead, error = lead_of_convex(part)
            cells.append(f"{lead:.3f} ± {error:.3f} ({rival})")
        lines.append(f"| {name} | {layers} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(targets: pd.DataFrame, accuracies: pd.DataFrame) -> str:
    lines = _heads(("data set", "layers", "trainings", "test accuracy", *targets.columns, "convex lowest"), 1)
    ours = [name for name in targets.columns if name in PAPER_METHODS]
    for key, part in targets.groupby(OF_A_SETTING, sort=False):
        networks = part.groupby("training").mean()
        tested = _of(accuracies, key).test
        cells = [f"{networks[name].mean():.3f} ± {networks[name].std():.3f}" for name in targets.columns]
        lowest = int((networks[ours].idxmin(axis=1) == "convex").sum())
        numbers = f"{len(networks)} | {tested.mean():.3f} ± {tested.std():.3f} | {' | '.join(cells)}"
        lines.append(f"| {key[0]} | {key[1]} | {numbers} | {lowest} of {len(networks)} |")
    return "\n".join(lines)


def _of(records: pd.DataFrame, setting: Sequence[object]) -> pd.DataFrame:
    """What a record says of one data set and depth."""
    name, layers = setting
    return records[(records.dataset == name) & (records.layers == layers)]


def _heads(heads: Sequence[str], left: int) -> list[str]:
    """The head of a table and the line below it, its first columns set to the left."""
    return [f"| {' | '.join(heads)} |", "|" + "---|" * left + "---:|" * (len(heads) - left)]

"""Frontiers of Explanations -> plain values that JSON can hold: what a page shows of each target, and of all of them.

A number is rounded to eight significant digits, enough for every digit that the page prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import InputError
from ..explain.explanation import Explanation
from ..metrics import kl_divergence
from .movers import Movers

# Rows of the overview's tables; more would make the file heavy and nobody reads them. The page says what it leaves out.
MAX_ROWS = 5000
MAX_MOVERS = 500
# Numbers of a choice, and of the prediction, that a page shows under the names that an Explanation gives them.
MEASURED = ("kl_residual", "kl_bound", "gap", "explained", "fidelity_minus", "fidelity_plus")
PREDICTED = ("prob_before", "prob_after", "logits_before", "logits_after")


def describe_target(frontier: Sequence[Explanation]) -> dict[str, Any]:
    """One target: its prediction on both graphs, every path that any budget chose, and each budget's choice."""
    if not frontier:
        raise InputError("Expected at least one Explanation of the target (got none).")
    first = frontier[0]
    ends = (first.logits_after, first.logits_before)
    whole = kl_divergence(*(ends if first.objective == "sufficiency" else ends[::-1]))
    names: dict[int, str] = {}
    rows: dict[tuple[int, ...], int] = {}
    paths: list[dict[str, Any]] = []
    choices = []
    for e in frontier:
        names |= e.node_names
        chosen = []
        for path, kind, shares in zip(e.paths.tolist(), e.kinds, e.contributions, strict=True):
            key = tuple(path)
            if key not in rows:
                rows[key] = len(paths)
                paths.append({"nodes": path, "kind": kind, "shares": rounded(shares)})
            chosen.append(rows[key])
        choices.append(
            {
                "budget": e.budget,
                "chosen": chosen,
                "weights": rounded(e.weights),
                **{key: number(getattr(e, key)) for key in MEASURED},
                "replayed": e.replayed,
                "disagrees": bool(e.disagrees),
                "status": e.status,
            }
        )
    return {
        "target": first.target,
        "name": first.name_of(first.target),
        "method": first.method,
        "objective": first.objective,
        "classes": [first.class_name(label) for label in range(len(first.logits_before))],
        "class_before": first.class_before,
        "class_after": first.class_after,
        **{key: rounded(getattr(first, key)) for key in PREDICTED},
        "kl": number(first.kl),
        "kl_whole": number(float(whole)),
        "num_paths": first.num_paths,
        "causes": {kind: rounded(value) for kind, value in first.causes.items()},
        "completeness": number(first.completeness),
        "names": {str(node): name for node, name in names.items()},
        "paths": paths,
        "choices": choices,
    }


def describe_moved(moved: pd.DataFrame, shown: Iterable[int]) -> dict[str, Any]:
    """The table of all nodes whose prediction moved; those that have a section of their own are always in it."""
    kept = moved.head(MAX_ROWS)
    later = moved.iloc[MAX_ROWS:]
    kept = pd.concat([kept, later[later.target.isin(list(shown))]]) if len(later) else kept
    return {
        "total": len(moved),
        "flipped": int((moved.class_before != moved.class_after).sum()),
        "kl": rounded(kept.kl.to_numpy()),
        **{key: kept[key].tolist() for key in ("target", "name", "class_before", "class_after", "num_paths")},
    }


def describe_movers(movers: Movers, node_names: Mapping[int, str]) -> list[dict[str, Any]]:
    """The edges that moved the most predictions."""
    return [
        {
            "edge": [node_names.get(int(node), str(int(node))) for node in movers.edges[i]],
            "directed": bool(movers.directed[i]),
            "change": movers.changes[i],
            "moved": number(movers.moved[i]),
            "targets": int(movers.num_targets[i]),
            "top": node_names.get(int(movers.top_target[i]), str(int(movers.top_target[i]))),
        }
        for i in range(min(len(movers.edges), MAX_MOVERS))
    ]


def number(value: float) -> float | None:
    """Eight significant digits; None where it is not finite, for which JSON has no word."""
    return float(f"{float(value):.8g}") if math.isfinite(value) else None


def rounded(values: FloatArray) -> list[float | None]:
    """The same for each of an array."""
    return [number(value) for value in np.asarray(values, dtype=np.float64).tolist()]

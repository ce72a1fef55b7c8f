"""Frontiers of Explanations -> plain values that JSON can hold: what a page shows of each target, and of all of them.

A number is rounded to eight significant digits, enough for every digit that the page prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import InputError
from ..explain import sentences
from ..explain.explanation import Explanation, Group
from ..explain.moved import find_flipped
from ..graphs.places import Target
from ..outputs import VALUE, show_apart
from .drawn import as_drawn, key_of

# Rows of the overview's tables; more would make the file heavy and nobody reads them. The page says what it leaves out.
MAX_ROWS = 5000
# Numbers of a choice, and of the prediction, that a page shows under the names that an Explanation gives them.
MEASURED = ("kl_residual", "kl_bound", "gap", "explained", "fidelity_minus", "fidelity_plus")
PREDICTED = ("prob_before", "prob_after", "logits_before", "logits_after")


def describe_target(frontier: Sequence[Explanation]) -> dict[str, Any]:
    """One target: its prediction on both graphs, every path that any budget chose, and each budget's choice."""
    if not frontier:
        raise InputError("Expected at least one Explanation of the target (got none).")
    record = frontier[0]
    first = as_drawn(record)
    ends = (record.logits_after, record.logits_before)
    whole = record.output.divergence(*(ends if record.objective == "sufficiency" else ends[::-1]))
    names: dict[int, str] = {}
    rows: dict[tuple[int, ...], int] = {}
    paths: list[dict[str, Any]] = []
    choices = []
    for e in frontier:
        seen = as_drawn(e)
        names |= seen.node_names
        chosen = []
        groups = {group.row: group for group in seen.groups}
        for i, (path, kind, shares) in enumerate(zip(seen.paths.tolist(), seen.kinds, seen.contributions, strict=True)):
            key = (*e.paths[i].tolist(),)
            if key not in rows:
                rows[key] = len(paths)
                drawn = {"nodes": path, "kind": kind, "shares": rounded(shares)}
                if e.edge_places or e.relations:  # people read nodes, the edge that a path begins at, and relations
                    drawn["label"] = e.unit_name(i)
                if e.edge_places:
                    drawn["over"] = [e.edge_places[place][:2] for place in key if place in e.edge_places]
                paths.append(drawn | (_describe_group(groups[i], seen, i) if i in groups else {}))
            chosen.append(rows[key])
        choices.append(
            {
                "budget": e.budget,
                "chosen": chosen,
                "weights": rounded(e.weights),
                **{key: number(getattr(e, key)) for key in MEASURED},
                "of_models": None if e.retrained is None else e.verdict.removeprefix(f"{e.headline}. "),
                "replayed": e.replayed,
                "others": e.others,
                "disagrees": bool(e.disagrees),
                "status": e.status,
                "verdict": sentences.chosen_explain(e),
            }
        )
    return {
        "target": key_of(record.target),
        "end": first.target,
        "name": record.name,
        "headline": named_headline(record.headline, record),
        "unit": record.unit,
        "values": record.output.kind == VALUE,
        "method": first.method,
        "objective": first.objective,
        "classes": name_columns(first),
        "class_before": first.class_before,
        "class_after": first.class_after,
        **{key: rounded(getattr(first, key)) for key in PREDICTED},
        "slopes": None if record.output.kind == VALUE else rounded(sentences.chance_weights(first)),
        "kl": number(first.kl),
        "kl_whole": number(float(whole)),
        "num_paths": first.num_paths,
        "causes": {kind: rounded(value) for kind, value in first.causes.items()},
        "completeness": number(first.completeness),
        "names": {str(node): name for node, name in names.items()},
        "paths": paths,
        "choices": choices,
    }


def named_headline(headline: str, e: Explanation) -> str:
    """A headline of a target: a name needs no word before it."""
    return headline.removeprefix("Node ") if e.name != str(e.target) else headline


def _describe_group(group: Group, seen: Explanation, row: int) -> dict[str, Any]:
    """What a page has of a group beside its sum: it opens into its largest paths and the rest."""
    shown = zip(group.paths.tolist(), group.kinds, group.contributions, strict=True)
    members: list[dict[str, Any]] = [
        {"nodes": path, "kind": kind, "shares": rounded(shares)} for path, kind, shares in shown
    ]
    for member in members if seen.relations else ():
        member["label"] = seen.path_name(member["nodes"])
    return {"label": seen.unit_name(row), "size": group.size, "members": members}


def name_columns(drawn: Explanation) -> list[str]:
    """What the columns of a target are called in pictures."""
    name = drawn.column_name if drawn.output.kind == VALUE else drawn.class_name
    return [name(column) for column in range(len(drawn.logits_before))]


def describe_moved(
    moved: pd.DataFrame, shown: Iterable[Target], class_names: Sequence[str], by: FloatArray
) -> dict[str, Any]:
    """The table of all nodes whose prediction moved; those that have a section of their own are always in it.

    `by` is by how much the probability of what is predicted now changed, or the value. [num_moved].
    """
    moved = moved.assign(by=by)
    kept = moved.head(MAX_ROWS)
    later = moved.iloc[MAX_ROWS:]
    kept = pd.concat([kept, later[later.target.isin(list(shown))]]) if len(later) else kept
    return {
        "total": len(moved),
        "flipped": int(find_flipped(moved).sum()),
        "flips": find_flipped(kept).tolist(),
        "by": rounded(kept.by.to_numpy()),
        "kl": rounded(kept.kl.to_numpy()),
        "target": [key_of(target) for target in kept.target.tolist()],
        **{key: kept[key].tolist() for key in ("name", "num_paths")},
        **_show_ends(kept, class_names),
    }


def _show_ends(moved: pd.DataFrame, class_names: Sequence[str]) -> dict[str, Any]:
    """What each prediction was and is, in words, and what the two columns are called."""
    if "class_before" in moved:
        known = dict(enumerate(class_names))
        before, after = (
            [known.get(label, str(label)) for label in moved[column].tolist()]
            for column in ("class_before", "class_after")
        )
        return {"columns": ["Class before", "Class after"], "before": before, "after": after}
    column, kind = ("label", "prob") if "label" in moved else ("column", "value")
    labels = [class_names[k] if k < len(class_names) else f"{column} {k}" for k in moved[column].tolist()]
    pairs = zip(moved[f"{kind}_before"].tolist(), moved[f"{kind}_after"].tolist(), strict=True)
    ends = [[f"{name}: {text}" for text in show_apart(pair, 4, "g")] for name, pair in zip(labels, pairs, strict=True)]
    before, after = ([pair[end] for pair in ends] for end in (0, 1))
    return {"columns": ["Before", "After"], "before": before, "after": after}


def number(value: float) -> float | None:
    """Eight significant digits; None where it is not finite, for which JSON has no word."""
    return float(f"{float(value):.8g}") if math.isfinite(value) else None


def rounded(values: FloatArray) -> list[float | None]:
    """The same for each of an array."""
    return [number(value) for value in np.asarray(values, dtype=np.float64).tolist()]

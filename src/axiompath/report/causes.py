"""Happened + the paths of a page -> plain values: a waterfall of changes, each with the paths that carry it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..blame.blame import Blame
from ..blame.happened import Happened
from ..graphs.changes import EDGE_CHANGES, FEATURES_CHANGED
from ..outputs import VALUE
from .page import number

MAX_CHANGES = 12  # of the waterfall; further ones share one step


def describe_happened(happened: Happened, paths: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a page shows first; `carried` are places among its paths."""
    undo = happened.undo
    told: dict[str, Any] = {
        "undo": None if undo is None else undo.sentence,
        "proved": undo is not None and undo.proved,
        "blame": None,
        "note": happened.too_many,
    }
    blame = happened.blame
    if blame is None:
        return told
    shown = min(len(blame.prob_shares), MAX_CHANGES)
    steps = [
        {
            "name": blame.row_name(row),
            "share": number(blame.prob_shares[row]),
            "error": number(blame.prob_errors[row]),
            "carried": _carriers(blame, row, paths),
        }
        for row in range(shown)
    ]
    rest = blame.prob_shares[shown:]
    how = "exact, by all subsets of the changes" if blame.exact else "estimated along random orders of the changes"
    return {
        **told,
        "blame": steps,
        "rest": {"count": len(rest), "share": number(rest.sum())} if len(rest) else None,
        "told": blame.told,
        "value": blame.output.kind == VALUE,
        "before": number(blame.told_before),
        "after": number(blame.told_after),
        "note": f"Shapley shares of {blame.told}, {how} ({blame.num_evaluations:,} evaluations).",
    }


def _carriers(blame: Blame, row: int, paths: Sequence[dict[str, Any]]) -> list[int]:
    """Paths over a changed edge, in either direction; from a leaf whose features changed; through a node that came."""
    src, dst = blame.ends[row]
    kind = blame.kinds[row]
    found = []
    for place, path in enumerate(paths):
        nodes = path["nodes"]
        if kind in EDGE_CHANGES:
            carries = any({a, b} == {src, dst} for a, b in path.get("over") or pairwise(nodes))
        elif kind == FEATURES_CHANGED:
            carries = next((node for node in nodes if node >= 0), -1) == src
        else:
            carries = src in nodes
        if carries:
            found.append(place)
    return found

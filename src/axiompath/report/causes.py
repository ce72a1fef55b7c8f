"""Happened + the paths of a page -> plain values: a waterfall of changes, each with the paths that carry it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..blame.blame import Blame
from ..blame.brief import Brief
from ..blame.happened import Happened
from ..graphs.changes import EDGE_CHANGES, FEATURES_CHANGED
from ..outputs import VALUE
from .page import number

MAX_CHANGES = 12  # of the waterfall; further ones share one step


def describe_happened(happened: Happened, paths: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a page shows first; `carried` are places among its paths."""
    undo = happened.undo
    base: dict[str, Any] = {
        "undo": None if undo is None else undo.sentence,
        "proved": undo is not None and undo.proved,
        "blame": None,
        "note": happened.too_many,
    }
    blame = happened.blame
    if blame is None:
        return base
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
    return {
        **base,
        "blame": steps,
        "rest": {"count": len(rest), "share": number(rest.sum())} if len(rest) else None,
        "quantity": blame.quantity,
        "value": blame.output.kind == VALUE,
        "before": number(blame.predicted_before),
        "after": number(blame.predicted_after),
        "note": f"How sure: {' '.join(blame.describe_certainty())}",
        "differs": _describe_difference(steps),
    }


def _describe_difference(steps: Sequence[dict[str, Any]]) -> str:
    """A sentence where the paths that a page shows do not run over the change that did most."""
    if not steps or steps[0]["carried"] or not any(step["carried"] for step in steps):
        return ""
    first, other = steps[0]["name"], next(step["name"] for step in steps if step["carried"])
    return f"By blame {first} did most; the paths shown below run over {other} instead: they share out the same change."


def describe_cause(happened: dict[str, Any]) -> str:
    """What did most of it, in a sentence; less than a hundredth of it did not."""
    moved = (happened.get("after") or 0.0) - (happened.get("before") or 0.0)
    first = [step for step in happened["blame"] or () if step["share"] * moved > 0.01 * moved**2][:2]
    causes = [f"{step['name']} ({step['share']:+.2g})" for step in first]
    return f"Because of {' and '.join(causes)}." if causes else ""


def describe_lead(pages: Sequence[dict[str, Any]]) -> list[Any]:
    """The sentences that an overview opens with: the flip that moved most, else what moved most; and its page."""
    flips = [place for place, page in enumerate(pages) if page["class_before"] != page["class_after"]]
    if not pages:
        return []
    place = flips[0] if flips else 0
    page = pages[place]
    happened = page.get("happened")
    why = [] if happened is None else [describe_cause(happened), happened["undo"] or ""]
    return [f"{page['headline']}.", " ".join(filter(None, why)), place]


def describe_brief(brief: Brief, to_undo: Sequence[str]) -> dict[str, Any]:
    """The same out of what a scan knows of a flip: exact shares of groups of changes; each change to undo in words."""
    shown = brief.causes[:MAX_CHANGES]
    return {
        "undo": brief.remedy or None,
        "proved": brief.undo is not None and brief.undo.proved,
        "to_undo": list(to_undo),
        "to_undo_more": 0 if brief.undo is None else brief.undo.num_changes - len(to_undo),
        "blame": [
            {"name": cause.words, "share": number(cause.share), "error": 0.0, "carried": []} for cause in shown
        ],
        "rest": None,
        "quantity": "",
        "value": brief.output.kind == VALUE,
        "before": number(brief.before),
        "after": number(brief.after),
        "note": f"How sure: the shares of these changes and groups of changes are exact; they account for all of "
        f"{brief.moved:+.3g}, of {brief.num_in_sight:,} changes that reach it.",
    }  # fmt: skip


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

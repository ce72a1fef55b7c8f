"""A scan's blame -> Moves: which change, or group of changes, carried how much of which prediction's move.

A prediction v moved by m_v, of the probability of what is predicted now, or of its value. A unit carried its share of
that times the sign of m_v, so that what held v back counts against it; over units that sums to |m_v|. Units are single
changes where the scan has blame of them (`shares`), else the causes in the briefs of its flips, whose shares are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..blame.blame import Blame
from ..blame.groups import label_rows, number_groups
from ..graphs.changes import EDGES_GONE, MODEL_RETRAINED, NODE_ADDED, NODES_GONE, TIME_PASSED, name_kinds
from ..graphs.labels import ONE_WAY, TO
from ..scan.flips import StepSummary
from ..scan.scan_blame import ChangeShares

CHANGES, FLIPS = "changes", "flips"  # what the units are
BESIDE = {MODEL_RETRAINED: "the retrained model", TIME_PASSED: "the passing of time"}
NONE = -1  # in a column of numbers


@dataclass(frozen=True, eq=False)
class Moves:
    """Who carried what. Units have the columns words, kind, number (of changes), and what they may be summed by:
    src, dst, low and high (classes of the ends), relation, day, group; -1 or nothing where that is not known."""

    units: pd.DataFrame
    unit: IntArray  # [num_credits]
    target: IntArray  # [num_credits]: places among the predictions
    carried: FloatArray  # [num_credits]
    moved: FloatArray  # [num_targets]: by how much, without its sign
    found_by: str  # CHANGES or FLIPS
    names: dict[int, str]  # of nodes that changed

    @property
    def by_unit(self) -> FloatArray:
        """What each unit carried. [num_units]."""
        return np.bincount(self.unit, self.carried, len(self.units)).astype(np.float64)

    @property
    def total(self) -> float:
        """All that moved."""
        return float(self.moved.sum())


def moves_of_shares(known: ChangeShares, units: pd.DataFrame, names: dict[int, str]) -> Moves:
    """Of single changes, as `Scan.blame` estimates them."""
    carried = known.shares * np.sign(known.moved_by)[known.targets]
    return Moves(units, known.changes, known.targets, carried, np.abs(known.moved_by), CHANGES, names)


def moves_of_blames(blames: Sequence[Blame], units: pd.DataFrame, names: dict[int, str]) -> Moves:
    """Of single changes, as `Explainer.blame` has them; `units` in the order of `changes()`."""
    unit, target, carried, moved = list[int](), list[int](), list[float](), list[float]()
    for place, blame in enumerate(blames):
        moved.append(blame.predicted_after - blame.predicted_before)
        for ids, share in zip(blame.changes, blame.prob_shares.tolist(), strict=True):
            unit += [number % len(units) for number in ids]  # the passing of time, -1, is the last
            target += [place] * len(ids)
            carried += [share * float(np.sign(moved[-1])) / len(ids)] * len(ids)
    places = np.array(unit, dtype=np.int64), np.array(target, dtype=np.int64)
    return Moves(units, *places, np.array(carried), np.abs(moved), CHANGES, names)


def moves_of_flips(summary: StepSummary, units: pd.DataFrame, names: dict[int, str]) -> Moves:
    """Of the causes of flips. The share of a cause of several changes is theirs in equal parts; where a brief lists
    only the first of very many, the cause is a unit of its own."""
    lonely = (units.kind.isin((NODE_ADDED, *NODES_GONE)) & (units.dst == NONE)).to_numpy()
    units = units.copy()
    keys: dict[tuple[object, ...], int] = {}
    large: list[dict[str, Any]] = []
    unit, target, carried = list[int](), list[int](), list[float]()
    for place, brief in enumerate(summary.flips):
        for cause in brief.causes:
            rows = list(cause.changes)
            if cause.node >= 0:  # nodes that came or went with an edge to that one
                units.loc[[row for row in rows if lonely[row]], "dst"] = cause.node
            if cause.num_changes > len(rows):
                row = keys.setdefault((cause.kind, cause.node, cause.reason), len(large))
                if row == len(large):
                    large.append({"kind": cause.kind, "number": 0, "src": cause.node})
                large[row]["number"] = max(large[row]["number"], cause.num_changes)
                rows = [len(units) + row]
            unit += rows
            target += [place] * len(rows)
            carried += [cause.share * float(np.sign(brief.moved)) / len(rows)] * len(rows)
    if large:
        more = pd.DataFrame(large).assign(dst=NONE, low=NONE, high=NONE)
        more["words"] = [
            f"{count_changes_of(kind, number)}{f' at {names.get(node, node)}' if node >= 0 else ' elsewhere'}"
            for kind, number, node in more[["kind", "number", "src"]].itertuples(index=False)
        ]
        text = {name: "" for name in ("group", "relation", "day") if name in units}
        units = pd.concat([units, more.assign(**text)], ignore_index=True)
    moved = np.abs([brief.moved for brief in summary.flips])
    places = np.array(unit, dtype=np.int64), np.array(target, dtype=np.int64)
    return Moves(units, *places, np.array(carried), moved, FLIPS, names)


def list_units(changes: pd.DataFrame, classes: Any, by: object) -> pd.DataFrame:
    """A row per change, with what it may be summed by; `by` groups changes as in `Scan.blame`."""
    units = pd.DataFrame({"kind": changes.kind.astype(str), "words": _words(changes), "number": 1})
    for end in ("src", "dst"):
        units[end] = changes[end].fillna(NONE).to_numpy(dtype=np.int64)
    both = [classes.reindex(units[end]).fillna(NONE).to_numpy(dtype=np.int64) for end in ("src", "dst")]
    of_node = units.dst.to_numpy() == NONE
    low, high = np.minimum(*both), np.maximum(*both)
    units["low"], units["high"] = np.where(of_node, both[0], low), np.where(of_node, both[0], high)
    if "relation" in changes and changes.relation.nunique() > 1:
        units["relation"] = name_kinds(changes)
    if "date" in changes:
        units["day"] = changes.date.fillna("").astype(str)
    elif "last_event" in changes and changes.last_event.dtype.kind == "M":
        units["day"] = changes.last_event.dt.strftime("%Y-%m-%d").fillna("")
    if by is not None:
        codes, groups = number_groups(label_rows(changes, by, np.arange(len(changes))))
        units["group"] = np.asarray(groups, dtype=object)[codes]
    return units


def name_nodes(changes: pd.DataFrame) -> dict[int, str]:
    """What the nodes that changed are called."""
    held: dict[int, str] = {}
    for end in ("src", "dst"):
        known = changes[changes[end].notna()]
        held |= dict(zip(known[end].astype(np.int64).tolist(), known[f"{end}_name"].astype(str).tolist(), strict=True))
    return held


def count_changes_of(kind: str, number: int) -> str:
    """So many changes of a kind, in words."""
    several = "s" * (number != 1)
    what, _, how = kind.partition(" ")
    if kind in (NODE_ADDED, *NODES_GONE) or (kind.startswith("edge ") and "features" not in kind):
        return f"{number:,} {what}{several} {how}"
    if kind in BESIDE:
        return BESIDE[kind]
    whose = "edge" if kind.startswith("edge") else "node"
    return f"features of {number:,} {whose}{several} changed" if "features" in kind else f"{number:,} change{several}"


def tone_of(kind: str) -> str:
    """The colour of a kind of change, as the style sheet calls it."""
    if kind in (*EDGES_GONE, *NODES_GONE):
        return "lost"
    if kind.endswith(" added"):
        return "gained"
    return "model" if kind == MODEL_RETRAINED else "feature" if "features" in kind else "reweighted"


def _words(changes: pd.DataFrame) -> list[str]:
    """Each change as people call it, with the day of its last event."""
    parts = []
    nothing = [None] * len(changes)
    last = changes.last_event.tolist() if "last_event" in changes else nothing
    dates = changes.date.tolist() if "date" in changes else nothing
    columns = (name_kinds(changes), changes.src_name, changes.dst_name, changes.directed, last, dates)
    for kind, src, dst, directed, moment, date in zip(*columns, strict=True):
        if kind in BESIDE:
            parts.append(BESIDE[kind])
            continue
        ends = f"{src}{ONE_WAY if directed else TO}{dst}" if isinstance(dst, str) else str(src)
        when = f" (last event {moment:%Y-%m-%d})" if isinstance(moment, pd.Timestamp) and not pd.isna(moment) else ""
        parts.append(f"{kind} {ends}{when}{f' on {date}' if isinstance(date, str) else ''}")
    return parts

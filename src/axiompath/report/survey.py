"""Scan -> Survey: what a scan says as a whole, found in one pass over its parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..blame.brief import Brief
from ..change.states import CAUSE_WORDS, MODEL, RARE
from ..errors import InputError
from ..explain.moved import find_flipped
from ..explain.neighbourhood import ADDED, KEPT, REMOVED
from ..graphs.changes import EDGE_ADDED, EDGES_GONE
from ..graphs.places import Target
from ..outputs import BINARY, NO_YES, VALUE, Output
from ..scan.part_table import PartArrays, read_arrays
from ..scan.scan import Scan
from ..scan.tables import MOVED
from .moves import Moves, list_units, moves_of_flips, moves_of_shares, name_nodes
from .statements import CauseSummary, find_causes


@dataclass(frozen=True, eq=False)
class Survey:
    """Everything that a page on a scan shows, but for single explanations."""

    scan: Scan
    rows: dict[str, Any]  # column -> [num_explained], see `_columns`
    names: list[str] | None  # of the targets; None where they are their numbers
    class_names: dict[int, str]
    flows: list[tuple[int, int, int]]  # class before, class after, how many; only flips
    causes: dict[str, float]  # cause -> part of all that moved
    total: float  # all that moved: probability, or value
    moves: Moves | None  # None where the scan has no blame
    summary: CauseSummary | None  # what did it; None without blame
    error: float | None  # of blame of single changes, on a sample
    places: IntArray  # [num_blamed]: which row each prediction of `moves` is, -1 for none
    briefs: dict[int, Brief]  # by row: of flips, and where these are few of the largest others
    num_changes: int

    @cached_property
    def edge_states(self) -> tuple[dict[tuple[int, int], int], bool]:
        """What became of each changed edge, by its ends in either direction; and whether directions count."""
        changes = self.scan.changes()
        if changes is None:
            return {}, True
        edges = changes[changes.dst.notna()]
        found: dict[tuple[int, int], int] = {}
        for kind, src, dst in zip(edges.kind, edges.src.tolist(), edges.dst.tolist(), strict=True):
            state = ADDED if kind == EDGE_ADDED else REMOVED if kind in EDGES_GONE else KEPT
            found[src, dst] = found[dst, src] = state
        return found, bool(edges.directed.any())

    @cached_property
    def node_classes(self) -> pd.DataFrame:
        """Classes before and after, by the number of the node."""
        table = self.scan.nodes()
        columns = ["class_before", "class_after"]
        return pd.DataFrame(columns=columns) if table is None else table.set_index("node")[columns]


def survey_scan(scan: Scan, *, by: Any = None) -> Survey:
    """One pass over the parts; `by` groups changes as `Scan.blame` does, for statements about groups of the user's."""
    output, names = scan.output, class_names_of(scan)
    pieces: list[dict[str, Any]] = []
    labels: list[list[str] | None] = []
    causes, total, first = np.zeros(len(CAUSE_WORDS)), 0.0, 0
    asked = scan.manifest.get("question")
    objective = asked.get("objective") if isinstance(asked, dict) else None
    for path, part in scan.files():
        flat = read_arrays(path, scan.task)
        if len(flat.rows):
            output.check_width(flat.logits_before.shape[1], str(path))
        slopes = output.slopes(flat.classes[:, 1], flat.logits_before, flat.logits_after)
        moved = (slopes * (flat.logits_after - flat.logits_before)).sum(axis=1)
        by_cause = np.einsum("nc,nkc->nk", slopes, flat.causes) * np.sign(moved)[:, None]
        pieces.append(_columns(flat, output, objective, moved, by_cause) | {"place": flat.rows + first})
        labels.append(flat.names)
        causes += by_cause.sum(axis=0)
        total += float(np.abs(moved).sum())
        first += part["targets"]
    rows = _join(pieces)
    spelled = None if all(one is None for one in labels) else _spell(labels, pieces)
    changes, summary = scan.changes(), scan.flips()
    row_of = _row_of(rows)
    briefs = {} if summary is None else {
        row_of[brief.target]: brief for brief in (*summary.flips, *summary.others) if brief.target in row_of
    }  # fmt: skip
    moves, error, places = None, None, np.zeros(0, dtype=np.int64)
    if changes is not None:
        units, called = list_units(changes, _class_of(scan), by), name_nodes(changes)
        if scan.shares is not None:
            moves, error = moves_of_shares(scan.shares, units, called), scan.shares.error
            places = np.full(max(first, len(moves.moved)), -1)
            places[rows["place"]] = np.arange(len(rows["place"]))
            places = places[: len(moves.moved)]
        elif summary is not None and summary.flips:
            moves = moves_of_flips(summary, units, called)
            places = np.array([row_of.get(brief.target, -1) for brief in summary.flips], dtype=np.int64)
    return Survey(
        scan, rows, spelled, names, _flows(scan), {
            word: float(part / total) if total else 0.0
            for word, part in zip(CAUSE_WORDS, causes, strict=True)
            if part or word not in (*RARE, MODEL)
        },
        total, moves, None if moves is None else find_causes(moves, names), error, places, briefs,
        0 if changes is None else len(changes),
    )  # fmt: skip


def causes_of_flips(scan: Scan) -> CauseSummary | None:
    """What did the flips of a scan, without a look at its parts; None without flips whose causes were found."""
    changes, summary = scan.changes(), scan.flips()
    if changes is None or summary is None or not summary.flips:
        return None
    units = list_units(changes, _class_of(scan), None)
    return find_causes(moves_of_flips(summary, units, name_nodes(changes)), class_names_of(scan))


def _row_of(rows: dict[str, Any]) -> dict[Target, int]:
    """The row of each target."""
    targets = rows["target"].tolist()
    keys = zip(targets, rows["partner"].tolist(), strict=True) if "partner" in rows else targets
    return {key: row for row, key in enumerate(keys)}


def class_names_of(scan: Scan) -> dict[int, str]:
    """What classes are called, by number; nothing of those that nothing moved to or from."""
    found = dict(enumerate(NO_YES)) if scan.output.kind == BINARY else {}
    moved = scan.moved()
    for end in ("class_before", "class_after", "label", "column"):
        if f"{end}_name" in moved and end in moved:
            pairs = moved[[end, f"{end}_name"]].drop_duplicates()
            if pairs[end].dtype.kind != "i":
                raise InputError(f"Expected numbers of classes in {scan.folder / MOVED} (got others).")
            found |= {int(label): str(name) for label, name in pairs.itertuples(index=False)}
    return found


def _columns(
    flat: PartArrays, output: Output, objective: Any, moved: FloatArray, by_cause: FloatArray
) -> dict[str, Any]:
    """What the table of all predictions shows."""
    ends = (flat.logits_after, flat.logits_before)
    whole = output.divergence(*(ends[::-1] if objective == "necessity" else ends))
    left = np.where(whole > 0, flat.residual / np.where(whole > 0, whole, 1.0), 0.0)
    return {
        "target": flat.targets[:, 0],
        **({"partner": flat.targets[:, 1]} if flat.targets.shape[1] == 2 else {}),
        "before": flat.classes[:, 0],
        "after": flat.classes[:, 1],
        "moved": moved,
        "kl": flat.kl,
        "explained": 1.0 - (np.sqrt(left) if output.kind == VALUE else left),
        "cause": by_cause.argmax(axis=1),
        "paths": flat.num_paths,
    }


def _join(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    if not pieces:
        empty = {"target": np.zeros(0, dtype=np.int64)}
        floats = {key: np.zeros(0) for key in ("moved", "kl", "explained", "paths")}
        return empty | {key: np.zeros(0, dtype=np.int64) for key in ("before", "after", "cause", "place")} | floats
    return {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}


def _spell(labels: list[list[str] | None], pieces: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for names, piece in zip(labels, pieces, strict=True):
        found += names if names is not None else [str(number) for number in piece["target"].tolist()]
    return found


def _class_of(scan: Scan) -> Any:
    """The class of each node by its number, as a Series: that before, where it was there."""
    table = scan.nodes()
    if table is None:
        return pd.Series([], dtype=np.int64)
    old, new = table.class_before.to_numpy(), table.class_after.to_numpy()
    return pd.Series(np.where(old >= 0, old, new), index=table.node)


def _flows(scan: Scan) -> list[tuple[int, int, int]]:
    moved = scan.moved()
    if "class_before" not in moved:
        return []
    if any(moved[end].dtype.kind != "i" for end in ("class_before", "class_after")):
        raise InputError(f"Expected numbers of classes in {scan.folder / MOVED} (got others).")
    flips = moved[find_flipped(moved)]
    pairs, counts = np.unique(
        flips[["class_before", "class_after"]].to_numpy(dtype=np.int64), axis=0, return_counts=True
    )
    order = np.argsort(-counts, kind="stable")
    return [(int(old), int(new), int(count)) for (old, new), count in zip(pairs[order], counts[order], strict=True)]

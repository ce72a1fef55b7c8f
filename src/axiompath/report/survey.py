"""Scan -> Survey: what a scan says as a whole, found in one pass over its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..change.states import CAUSE_WORDS, MODEL, RARE
from ..errors import InputError
from ..explain.moved import find_flipped
from ..outputs import BINARY, NO_YES, VALUE, Output
from ..scan.flat import Flat, read_flat
from ..scan.folder import MOVED
from ..scan.scan import Scan, read_blame_of
from .credits import Credits, Index, credit_facts, credit_paths, index_changes, match_paths
from .patterns import NodeTable, Pattern, code_paths, count_patterns, join_patterns, read_nodes
from .statements import NUM_STATEMENTS, Statement, find_statements, list_units, sum_credits

BY_BLAME = "blame"  # how the credits were found
BY_PATHS = "paths"


@dataclass(frozen=True, eq=False)
class Survey:
    """Everything that a page on a scan shows, but for single explanations."""

    scan: Scan
    rows: dict[str, Any]  # column -> [num_explained], see `_columns`
    names: list[str] | None  # of the targets; None where they are their numbers
    class_names: dict[int, str]
    flows: list[tuple[int, int, int]]  # class before, class after, how many; flips alone
    causes: dict[str, float]  # cause -> part of all that moved
    total: float  # all that moved: probability, or value
    statements: list[Statement]
    found_by: str  # BY_BLAME, BY_PATHS, or empty where there is no table of changes
    error: float | None  # of blame, on a sample
    num_blamed: int  # predictions that the statements are of
    places: IntArray  # [num_blamed]: which row each of them is, -1 for none
    known: float  # part that is credited to anything
    singles: float  # part that the ten largest single changes carry
    num_changes: int
    patterns: list[Pattern]
    index: Index | None
    nodes: NodeTable

    @property
    def coverage(self) -> float:
        """The part of all that moved that the statements carry."""
        return sum(statement.carried for statement in self.statements)


def survey_scan(scan: Scan, *, by: Any = None) -> Survey:
    """One pass over the parts; `by` groups changes as `Scan.blame` does, for statements about groups of the user's."""
    changes, table = scan.changes(), scan.nodes()
    index = None if changes is None else index_changes(changes)
    nodes = read_nodes(_NO_NODES if table is None else table)
    output, names = scan.output, class_names_of(scan)
    blamed = read_blame_of(scan) if changes is not None else None
    pieces: list[dict[str, Any]] = []
    credits: list[Credits] = []
    patterns: list[pd.DataFrame] = []
    labels: list[list[str] | None] = []
    causes, total, done, first = np.zeros(len(CAUSE_WORDS)), 0.0, 0, 0
    asked = scan.manifest.get("question")
    objective = asked.get("objective") if isinstance(asked, dict) else None
    for path, part in scan.files():
        flat = read_flat(path)
        if len(flat.rows):
            output.check_width(flat.logits_before.shape[1], str(path))
        slopes = output.slopes(flat.classes[:, 1], flat.logits_before, flat.logits_after)
        moved = (slopes * (flat.logits_after - flat.logits_before)).sum(axis=1)
        sign, owner = np.sign(moved), flat.chosen.owner
        by_cause = np.einsum("nc,nkc->nk", slopes, flat.causes) * sign[:, None]
        carried = np.einsum("pc,pc->p", slopes[owner], flat.chosen.contributions) * sign[owner]
        pieces.append(_columns(flat, output, objective, moved, by_cause) | {"place": flat.rows + first})
        labels.append(flat.names)
        causes += by_cause.sum(axis=0)
        total += float(np.abs(moved).sum())
        if index is not None:
            matched = match_paths(index, flat)
            counted = count_patterns(code_paths(nodes, flat, matched), owner, carried)
            patterns.append(counted.assign(example=counted.example + done))
            if blamed is None:
                found = credit_paths(index, flat, matched, carried)
                credits.append(_shift(found, done))
                if by_cause[:, -1].any():
                    model = np.full(len(moved), index.model)
                    credits.append(_shift(Credits(model, np.arange(len(moved)), by_cause[:, -1]), done))
        done += len(moved)
        first += part["targets"]
    rows = _join(pieces)
    told = None if all(one is None for one in labels) else _spell(labels, pieces)
    statements: list[Statement] = []
    found_by, error, known, singles, places, size = "", None, 0.0, 0.0, np.arange(done), done
    if index is not None and changes is not None:
        found_by, moves = BY_PATHS, np.abs(rows["moved"])
        if blamed is None:
            held = _concat(credits)
        else:
            facts, tables = blamed
            found_by, error = BY_BLAME, scan.blame().error
            moved_by = (tables[1].told_after - tables[1].told_before).to_numpy()
            held, moves, size = credit_facts(facts, moved_by), np.abs(moved_by), len(moved_by)
            places = np.full(first, -1)
            places[rows["place"]] = np.arange(done)
            places = places[:size]
        units = list_units(changes, index, _class_of(nodes), names, by)
        statements = find_statements(units, held, moves)
        known = float(held.carried.sum() / (moves.sum() or 1.0))
        alone = sum_credits(units, held)[: index.num_changes]
        singles = float(np.sort(alone)[::-1][:NUM_STATEMENTS].sum() / (moves.sum() or 1.0))
    return Survey(
        scan, rows, told, names, _flows(scan), {
            word: float(part / total) if total else 0.0
            for word, part in zip(CAUSE_WORDS, causes, strict=True)
            if part or word not in (*RARE, MODEL)
        },
        total, statements, found_by, error, size, places, known, singles,
        0 if index is None else index.num_changes, join_patterns(patterns, total), index, nodes,
    )  # fmt: skip


_NO_NODES = pd.DataFrame(
    {
        name: np.zeros(0, dtype=np.int64)
        for name in ("node", "class_before", "class_after", "degree_before", "degree_after", "num_own_after")
    }
)


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


def _columns(flat: Flat, output: Output, objective: Any, moved: FloatArray, by_cause: FloatArray) -> dict[str, Any]:
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


def _shift(credits: Credits, start: int) -> Credits:
    """Places among all predictions; in half the bytes."""
    return Credits(
        credits.units.astype(np.int32), (credits.targets + start).astype(np.int32), credits.carried.astype(np.float32)
    )


def _concat(parts: list[Credits]) -> Credits:
    if not parts:
        return Credits(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    return Credits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _class_of(nodes: NodeTable) -> Any:
    old, new = nodes.classes.T if len(nodes.ids) else (np.zeros(0), np.zeros(0))
    return pd.Series(np.where(old >= 0, old, new), index=nodes.ids)


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

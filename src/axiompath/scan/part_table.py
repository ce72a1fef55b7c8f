"""A part of a scan -> the targets that were explained as arrays, or as a table, without a record of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.states import CAUSE_WORDS
from ..graphs.labels import label_nodes, name_step, target_column
from ..outputs import BINARY, LABELS, VALUE, Output
from ..storage.safe import Damaged
from .parts import PARTNER, Task, damaged, read_table

NUMBERS = ("kl", "num_paths", "kl_residual", "kl_bound", "gap", "fidelity_minus", "fidelity_plus", "completeness")
CLASSES_OF = ("class_before", "class_before_name", "class_after", "class_after_name")

FRAME_COLUMNS = ["target", "name", *CLASSES_OF, *NUMBERS]


class PartArrays(NamedTuple):
    """The n targets of a part that were explained."""

    rows: IntArray  # [n]: places among all rows of the part, failures included
    targets: IntArray  # [n, 1], or [n, 2] of links
    names: list[str] | None  # [n]; None where they are the numbers
    classes: IntArray  # [n, 2]
    kl: FloatArray  # [n]
    num_paths: FloatArray  # [n]
    residual: FloatArray  # [n]
    logits_before: FloatArray  # [n, num_classes]
    logits_after: FloatArray  # [n, num_classes]
    causes: FloatArray  # [n, len(CAUSE_WORDS), num_classes]


def list_targets(path: Path, num_targets: int, task: Task) -> pd.DataFrame:
    """Every row of a part, failures too: target, name, problem."""
    ends = ["target", PARTNER] if task.of_links else ["target"]
    with damaged(path):
        table = read_table(path, num_targets, [*ends, "name", "problem"])
        targets = np.stack([_numbers(table, name) for name in ends], axis=1)
        frame: pd.DataFrame = table.select(["name", "problem"]).to_pandas()
    frame.insert(0, "target", target_column(targets if task.of_links else targets[:, 0]))
    return frame


def read_arrays(path: Path, task: Task) -> PartArrays:
    """All of a part; ask `Scan` for its digest first."""
    ends = ["target", PARTNER] if task.of_links else ["target"]
    with damaged(path):
        rows, table = _explained(path, [*ends, "name", "class_before", "class_after", *NUMBERS[:3]], task)
        return _arrays(table, rows, ends, task.output)


def tabulate_part(path: Path, task: Task) -> pd.DataFrame:
    """A row per target: its classes, how well it is explained, what each cause did, and the best path in words.

    The share of a cause is of the new class against the old one, or of the column that moved most, as everywhere.
    """
    ends, output = ["target", PARTNER] if task.of_links else ["target"], task.output
    more = ["objective", "paths", "kinds", "node_names", *(["relations"] if task.relations else [])]
    with damaged(path):
        rows, table = _explained(path, [*ends, "name", *CLASSES_OF, *NUMBERS, *more], task)
        part = _arrays(table, rows, ends, output)
        plain = table.select(["name", *CLASSES_OF, *NUMBERS]).to_pandas()
        plain.insert(0, "target", target_column(part.targets if task.of_links else part.targets[:, 0]))
        whole = _divergences(output, table.column("objective").to_pylist(), part)
        shares: dict[str, Any] = {}
        if output.kind in (LABELS, VALUE):
            word, here = "value" if output.kind == VALUE else "prob", (np.arange(len(rows)), part.classes[:, 0])
            shares[f"{word}_before"] = output.means(part.logits_before)[here]
            shares[f"{word}_after"] = output.means(part.logits_after)[here]
        shares["explained"] = list(map(output.explained, whole.tolist(), part.residual.tolist()))
        weights = _weights(output, part.classes, part.logits_before.shape[1])
        for cause in (field.name for field in _whole(table, "causes").type):
            by = part.causes[:, CAUSE_WORDS.index(cause)] * weights
            shares[f"by_{cause.replace(' ', '_')}"] = by.sum(axis=1)
        paths, kinds = _best_paths(table)
    frame: pd.DataFrame = pd.concat([plain, pd.DataFrame(shares, dtype=np.float64)], axis=1).assign(
        best_path=paths, best_kind=kinds
    )
    if output.kind in (LABELS, VALUE):
        about = "label" if output.kind == LABELS else "column"
        frame = frame.drop(columns=list(CLASSES_OF[1:])).rename(columns={"class_before": about})
    return frame


def _explained(path: Path, names: list[str], task: Task) -> tuple[IntArray, pa.Table]:
    """The rows that have no problem: their places, and these columns with logits and causes, in one piece each."""
    table = read_table(path, names=[*names, "problem", "logits_before", "logits_after", "causes"])
    rows = np.flatnonzero(pc.is_null(table.column("problem")).to_numpy())
    return rows, table.take(pa.array(rows)).combine_chunks()


def _arrays(table: pa.Table, rows: IntArray, ends: list[str], output: Output) -> PartArrays:
    n = len(rows)
    before, after = (_matrix(_whole(table, name), n) for name in ("logits_before", "logits_after"))
    size, causes = before.shape[1], _whole(table, "causes")
    none = np.zeros((n, size))  # a cause that nobody knew when the scan was written
    held = {field.name: _matrix(causes.field(field.name), n, size) for field in causes.type}
    if after.shape != before.shape or not {*held} <= {*CAUSE_WORDS}:
        raise Damaged("logits or causes of another shape")
    classes = np.stack([_numbers(table, name) for name in ("class_before", "class_after")], axis=1)
    if n and not 0 <= classes.min() <= classes.max() < (2 if output.kind == BINARY else size):
        raise Damaged("classes that no logits have")
    if not all(np.isfinite(values).all() for values in (before, after, *held.values())):
        raise Damaged("numbers that are none")
    targets = np.stack([_numbers(table, name) for name in ends], axis=1)
    names: list[str] | None = [str(name) for name in table.column("name").to_pylist()]
    if len(ends) == 1 and names == list(map(str, targets[:, 0].tolist())):
        names = None
    kl, num_paths, residual = (_numbers(table, name).astype(np.float64) for name in NUMBERS[:3])
    by_cause = np.stack([held.get(name, none) for name in CAUSE_WORDS], axis=1)
    return PartArrays(rows, targets, names, classes, kl, num_paths, residual, before, after, by_cause)


def _whole(table: pa.Table, name: str) -> Any:
    """A column in one piece."""
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    column = _whole(table, name)
    if column.null_count:
        raise Damaged("a number that is missing")
    return np.asarray(column)


def _matrix(lists: Any, num_rows: int, width: int | None = None) -> FloatArray:
    """Lists of one length -> [num_rows, length]."""
    values = lists.flatten()
    lengths = np.asarray(pc.list_value_length(lists))
    size = width if width is not None else int(lengths[0]) if num_rows else 1  # of no rows, any width will do
    if len(lists) != num_rows or lists.null_count or values.null_count or (lengths != size).any():
        raise Damaged("lists of other lengths")
    return np.asarray(values).reshape(num_rows, size)


def _divergences(output: Output, objectives: list[str], part: PartArrays) -> FloatArray:
    """What there was to be explained of each, by what was asked of it."""
    first = np.array([word == "sufficiency" for word in objectives], dtype=np.bool_)[:, None]
    before, after = part.logits_before, part.logits_after
    return output.divergence(np.where(first, after, before), np.where(first, before, after))


def _weights(output: Output, classes: IntArray, num_columns: int) -> FloatArray:
    """The weights of the columns that shares refer to, one row per target."""
    pairs, place = np.unique(classes, axis=0, return_inverse=True)
    known = [output.weights(int(old), int(new), num_columns) for old, new in pairs]
    return np.stack(known)[place.ravel()] if known else np.zeros((0, num_columns))


def _best_paths(table: pa.Table) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    """The first chosen path of each row in words, and its kind; nothing where none was chosen."""
    paths, kinds = _whole(table, "paths"), _whole(table, "kinds")
    found = np.full(len(table), "", dtype=object), np.full(len(table), "", dtype=object)
    starts, inner = np.asarray(paths.offsets), np.asarray(paths.values.offsets)
    rows = np.flatnonzero(np.diff(starts))
    if not len(rows):
        return found
    length = int(inner[starts[rows[0]] + 1] - inner[starts[rows[0]]])
    if (np.diff(inner) != length).any():
        raise Damaged("paths of several lengths")
    nodes = np.asarray(paths.values.values)[inner[starts[rows]][:, None] + np.arange(length)]
    named = _whole(table, "node_names")
    names = dict(zip(np.asarray(named.keys).tolist(), named.items.to_pylist(), strict=True))
    words, arrows = label_nodes(nodes, names), _arrows(table, nodes)
    text = words[:, 0]
    for hop in range(1, length):
        text = text + arrows[:, hop - 1] + words[:, hop]
    found[0][rows] = text
    found[1][rows] = np.asarray(kinds.values.take(pa.array(np.asarray(kinds.offsets)[rows])).to_pylist(), dtype=object)
    return found


def _arrows(table: pa.Table, nodes: IntArray) -> NDArray[np.object_]:
    """What stands between two nodes of each path: an arrow, and the relation where the scan says it. [n, hops]."""
    hops = np.stack([nodes[:, :-1], nodes[:, 1:]], axis=2)
    if "relations" not in table.column_names:
        return np.full(hops.shape[:2], name_step(""), dtype=object)
    steps = _whole(table, "relations").flatten()
    ends = (np.asarray(steps.field(end)).tolist() for end in ("src", "dst"))
    known = dict(zip(zip(*ends, strict=True), steps.field("relation").to_pylist(), strict=True))
    unique, place = np.unique(hops.reshape(-1, 2), axis=0, return_inverse=True)
    texts = [name_step(known.get((u, v), "")) for u, v in unique.tolist()]
    return np.array(texts, dtype=object)[place.reshape(hops.shape[:2])]

"""A part of a scan -> what one filters its targets by: the share explained, what each cause did, the best path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..graphs.labels import label_nodes, name_step
from ..outputs import BINARY, LABELS, VALUE, Output
from ..storage.safe import Damaged, blamed
from .flat import read_matrix, read_whole
from .parts import read_nested

FRAME_COLUMNS = ["problem", "objective", "class_before", "class_after", "kl_residual", "logits_before", "logits_after",
          "causes", "paths", "kinds", "node_names"]  # fmt: skip


def describe_part(path: Path, output: Output, *, relations: bool = False) -> pd.DataFrame:
    """One row per target that was explained, in order: explained, one column per cause, best_path and best_kind.

    The share of a cause is of the new class against the old one, or of the column that moved most, as everywhere.
    With `relations` edges have types, which the path names.
    """
    table = read_nested(path, [*FRAME_COLUMNS, *(["relations"] if relations else [])])
    with blamed(f"Expected a whole part of a scan at {path} (its columns do not fit together)."):
        return _describe(table, output)


def _describe(table: pa.Table, output: Output) -> pd.DataFrame:
    table = table.filter(pa.compute.is_null(table.column("problem"))).combine_chunks()
    size = len(table)
    before, after = (read_matrix(read_whole(table, name), size) for name in ("logits_before", "logits_after"))
    old, new = (np.asarray(table.column(name)) for name in ("class_before", "class_after"))
    most = 2 if output.kind == BINARY else before.shape[1]
    if size and not (min(old.min(), new.min()) >= 0 and max(old.max(), new.max()) < most):
        raise Damaged("classes that no logits have")
    towards = table.column("objective").to_pylist()
    first = np.array([word == "sufficiency" for word in towards], dtype=np.bool_)[:, None]
    whole = output.divergence(np.where(first, after, before), np.where(first, before, after))
    left = np.asarray(table.column("kl_residual"))
    explained = list(map(output.explained, whole.tolist(), left.tolist()))
    frame = pd.DataFrame({**_ends(output, old, before, after), "explained": explained}, dtype=np.float64)
    weights = _weights(output, old, new, before.shape[1])
    causes = read_whole(table, "causes")
    for field in causes.type:
        shares = read_matrix(causes.field(field.name), size)
        frame[f"by_{field.name.replace(' ', '_')}"] = (shares * weights).sum(axis=1) if shares.size else np.zeros(size)
    frame["best_path"], frame["best_kind"] = _best(table)
    return frame


def _ends(output: Output, columns: IntArray, before: FloatArray, after: FloatArray) -> dict[str, FloatArray]:
    """Of labels and values, what the column that moved most was before and after."""
    if output.kind not in (LABELS, VALUE):
        return {}
    word, here = "value" if output.kind == VALUE else "prob", np.arange(len(columns))
    return {
        f"{word}_{end}": output.means(logits)[here, columns] for end, logits in (("before", before), ("after", after))
    }


def _weights(output: Output, old: IntArray, new: IntArray, num_columns: int) -> FloatArray:
    """The weights of the columns that shares refer to, one row per target."""
    pairs, place = np.unique(np.stack([old, new], axis=1), axis=0, return_inverse=True)
    known = [output.weights(int(a), int(b), num_columns) for a, b in pairs]
    return np.stack(known)[place.ravel()] if known else np.zeros((0, num_columns))


def _best(table: pa.Table) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    """The first chosen path of each row in words, and its kind; nothing where none was chosen."""
    paths, kinds = read_whole(table, "paths"), read_whole(table, "kinds")
    found = np.full(len(table), "", dtype=object), np.full(len(table), "", dtype=object)
    starts, inner = np.asarray(paths.offsets), np.asarray(paths.values.offsets)
    rows = np.flatnonzero(np.diff(starts))
    if not len(rows):
        return found
    length = int(inner[starts[rows[0]] + 1] - inner[starts[rows[0]]])
    if (np.diff(inner) != length).any():
        raise Damaged("paths of several lengths")
    nodes = np.asarray(paths.values.values)[inner[starts[rows]][:, None] + np.arange(length)]
    named = read_whole(table, "node_names")
    names = dict(zip(np.asarray(named.keys).tolist(), named.items.to_pylist(), strict=True))
    words = label_nodes(nodes, names)
    arrows = _arrows(table, nodes)
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
    steps = read_whole(table, "relations").flatten()
    ends = (np.asarray(steps.field(end)).tolist() for end in ("src", "dst"))
    known = dict(zip(zip(*ends, strict=True), steps.field("relation").to_pylist(), strict=True))
    unique, place = np.unique(hops.reshape(-1, 2), axis=0, return_inverse=True)
    texts = [name_step(known.get((u, v), "")) for u, v in unique.tolist()]
    return np.array(texts, dtype=object)[place.reshape(hops.shape[:2])]

"""The tables beside the parts of a scan: frames -> Parquet files that say whose they are, and back, checked.

moved.parquet       every prediction that an altered path reaches
too_large.parquet   predictions that the memory budget cannot hold, with their number of paths
changes.parquet     what happened to the graph, a row per change
nodes.parquet       the nodes: predicted classes, degrees, neighbours of the same class
blamed.parquet      where changes are blamed, the targets; sampled.parquet: exact blame of some of them
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from ..arrays import IntArray
from ..change.comparison import Change
from ..errors import InputError
from ..explain.neighbourhood import UNPREDICTED
from ..graphs.changes import CHANGES, MODEL_RETRAINED
from ..graphs.labels import target_column
from ..graphs.snapshot import Snapshot
from ..outputs import CLASSES
from ..storage import parquet
from .parts import PARTNER, read_table

MOVED, TOO_LARGE, CHANGED, NODES = "moved.parquet", "too_large.parquet", "changes.parquet", "nodes.parquet"
BLAMED, SAMPLED = "blamed.parquet", "sampled.parquet"
OF_PLAN, OF_BLAME = (MOVED, TOO_LARGE), (CHANGED, BLAMED, SAMPLED)
SIDES, OF_A_NODE = ("before", "after"), ("class", "degree", "num_own")
# Columns that are made use of: i for whole numbers and f for finite ones, none missing; n for any numbers, t for text.
COLUMNS: dict[str, dict[str, str]] = {
    MOVED: {"target": "i", "name": "t", "kl": "n", "num_paths": "n"},
    TOO_LARGE: {"target": "i", "name": "t", "num_paths": "n", "bytes": "n"},
    CHANGED: {"id": "i", "kind": "t", "src": "n", "dst": "n", "src_name": "t", "dst_name": "t", "directed": "b"},
    NODES: dict.fromkeys(("node", *(f"{what}_{side}" for side in SIDES for what in OF_A_NODE)), "i"),
    BLAMED: {"target": "i", "told_before": "f", "told_after": "f"},
    SAMPLED: {"target": "i", "change": "i", "share": "f"},
}  # fmt: skip
LETTERS = {"i": "i", "f": "f", "n": "iuf", "t": "OUT", "b": "b"}  # kinds of NumPy's


def write_tables(folder: Path, frames: Mapping[str, pd.DataFrame], scan: str) -> dict[str, str]:
    """Write each under its name, for the scan of this digest; their own digests, by name."""
    found = {}
    for name, frame in frames.items():
        if "target" in frame and frame.target.dtype == object:  # pairs lie in two columns
            ends = np.array(frame.target.tolist(), dtype=np.int64).reshape(-1, 2)
            frame = frame.assign(target=ends[:, 0])
            frame.insert(1, PARTNER, ends[:, 1])
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        for i, column in enumerate(table.column_names):
            if column.endswith("name"):  # text, also where there are no rows to see it by, in every release of pandas
                table = table.set_column(i, column, table.column(i).cast(pa.string()))
        schema = parquet.with_notes(table.schema, {"scan": scan})
        found[name] = parquet.write_parquet(folder / name, [table.cast(schema)], schema)
    return found


def read_frame(path: Path, num_rows: int, **more: str) -> pd.DataFrame:
    """A table again; refuses other columns than it should have, and than `more` says."""
    table = read_table(path, num_rows)
    frame: pd.DataFrame = table.to_pandas()
    wanted = COLUMNS[path.name] | more
    for name, kind in wanted.items():
        known = name in frame and frame[name].dtype.kind in LETTERS[kind]
        whole = known and (kind not in "if" or not table.column(name).null_count)
        if not (whole and (kind != "f" or np.isfinite(frame[name]).all())):
            raise InputError(
                f"Expected the columns {', '.join(wanted)} in {path}, as a scan writes them (got others, or numbers "
                "that are none); run the scan again."
            )
    if path.name == CHANGED:
        for end in ("src", "dst"):  # numbers to their last digit, where some are missing
            frame[end] = table.select([end]).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)[end]
        if not {*frame.kind} <= {*CHANGES, MODEL_RETRAINED}:
            raise InputError(f"Expected kinds of changes that a scan writes in {path} (got others).")
    if PARTNER not in frame:
        return frame
    pairs = target_column(frame[["target", PARTNER]].to_numpy(dtype=np.int64).reshape(-1, 2))
    return frame.drop(columns=PARTNER).assign(target=pairs)


def list_nodes(change: Change) -> pd.DataFrame:
    """A row per node: node, class, degree and num_own of both graphs; of stored graphs, of what the change reaches.

    The degree counts edges that lead to it, `num_own` those of them from nodes of its own predicted class; a class is
    UNPREDICTED where nodes are not what is predicted, or where there is no such node.
    """
    named = change.before.places is None and change.output.kind == CLASSES
    columns: dict[str, IntArray] = {"node": change.before.node_ids}
    for side, snapshot, logits in (
        ("before", change.before, change.logits_before),
        ("after", change.after, change.logits_after),
    ):
        classes = np.full(change.num_nodes, UNPREDICTED)
        if named:
            classes[snapshot.present] = change.output.decide(logits[snapshot.present])
        degree, own = _count_neighbours(snapshot, classes)
        columns |= {f"class_{side}": classes, f"degree_{side}": degree, f"num_own_{side}": own}
    return pd.DataFrame(columns)


def _count_neighbours(snapshot: Snapshot, classes: IntArray) -> tuple[IntArray, IntArray]:
    """Who sends to each node but itself, and how many of them have its own class, where it has one."""
    senders, receivers = snapshot.edge_index[:, snapshot.edge_index[0] != snapshot.edge_index[1]]
    alike = (classes[receivers] == classes[senders]) & (classes[receivers] >= 0)
    return (
        np.bincount(receivers, minlength=len(classes)),
        np.bincount(receivers[alike], minlength=len(classes)),
    )

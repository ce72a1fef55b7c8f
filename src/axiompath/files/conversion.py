"""An edge list and its nodes -> a stored graph: a folder that `axiompath.open_graph` opens memory-mapped.

Tables and arrays are read a batch at a time; what stays in memory is the nodes' names, and nothing where these are 0 to
N - 1 in order. A graph in one file, .npz or .pt, is read whole. The folder appears under its name once it is whole: it
is written under another one beside it, its header last.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.compute
import torch
from rich.console import Console
from rich.progress import Progress as Bars
from scipy import sparse
from torch_geometric.data import HeteroData

from ..errors import InputError
from ..graphs.data_fields import parts_of
from ..graphs.snapshot import read_snapshot
from ..graphs.stored import HEADER, STORED, StoredGraph, open_graph
from ..storage.memory import parse_memory, pieces, release
from ..storage.safe import blamed, map_array
from .graph_file import read_graph
from .order import EdgeList, Numbering, create_array, sort_edges
from .tables import (
    IDS,
    LABELS,
    ROWS_AT_A_TIME,
    as_features,
    as_names,
    as_numbers,
    column_names,
    find_column,
    find_edge_columns,
    is_class,
    listed,
    read_parts,
    table_kind,
    whole_numbers,
)
from .typed_folder import is_typed_folder

TABLE_BYTES = 32e6  # pages of a Parquet file, packed and unpacked; what pandas and Arrow keep for themselves
NUMBER_BYTES = 48  # at the peak, a number of a table as read, as float64, stacked, and as it is written
SPARSE_PARTS = ("x_data", "x_indices", "x_indptr")
TYPED = (
    "Expected a graph of one kind of nodes to be stored (got {}, with several); a stored graph holds one table of "
    "features and no types, so give this one to the commands as it is: it is read into memory."
)


def convert_graph(
    edges: str | Path,
    out: str | Path,
    *,
    nodes: str | Path | None = None,
    features_of: str | Path | None = None,
    weights: str | Path | None = None,
    memory: str | float = "2GB",
    progress: Console | None = None,
) -> StoredGraph:
    """Store a graph in a folder that can be opened without loading it into memory.

    edges: Parquet, CSV or TSV with the columns source, target and perhaps weight; edge_index.npy [2, num_edges] or
        [num_edges, 2]; or a graph as .npz or .pt, which is read into memory (8 GB at the most).
    nodes: a node table (Parquet, CSV, TSV), or x.npy [num_nodes, num_features], whose rows number the nodes.
    features_of: a stored graph with the same nodes and features, to which the new one links, instead of nodes.
    weights: edge_weight.npy [num_edges], if edges is an .npy file.
    memory: the memory for sorting.
    """
    source, target, budget = Path(edges), Path(out), parse_memory(memory)
    if target.exists():
        raise InputError(f"Expected a folder that does not exist yet ({target} does); remove it or choose another.")
    if not target.absolute().parent.is_dir():
        raise InputError(f"Expected a folder to put {target.name} into ({target.absolute().parent} does not exist).")
    if weights is not None and source.suffix != ".npy":
        raise InputError(f"Expected --weights only with an edge list as .npy (got {source}).")
    is_whole = source.suffix in (".npz", ".pt", ".pth")
    if os.path.isdir(source):
        if is_typed_folder(source):
            raise InputError(TYPED.format(f"the folder {source}"))
        raise InputError(f"Expected an edge list (got the folder {source}); name its edges and its --nodes.")
    if not (is_whole or table_kind(source) or source.suffix == ".npy"):
        raise InputError(f"Expected edges as .parquet, .csv, .tsv, .npy, .npz or .pt (got {source}).")
    if (nodes is not None) + (features_of is not None) + is_whole != 1:
        raise InputError(
            f"Expected the nodes of {source} in one place: a table or x.npy (--nodes), another stored graph "
            "(--features-of), or the .npz or .pt itself."
        )
    draft = target.absolute().parent / f".{target.name}.{os.getpid()}.part"
    draft.mkdir()
    try:
        if is_whole:
            listed_edges, numbering, described = _store_whole(source, draft)
        else:
            listed_edges = _open_table(source) if table_kind(source) else _open_arrays(source, weights)
            if features_of is not None:
                numbering, described = _link_nodes(open_graph(features_of), draft)
            else:
                numbering, described = _store_nodes(Path(str(nodes)), draft, budget)
        with Bars(console=progress or Console(quiet=True), transient=True) as bars:
            tasks: dict[str, Any] = {}

            def advance(text: str, count: int) -> None:
                if text not in tasks:
                    known = [bars.tasks[task].completed for task in tasks.values()]
                    tasks[text] = bars.add_task(text, total=known[0] if known else None)
                bars.advance(tasks[text], count)

            num_edges = sort_edges(listed_edges, numbering, draft, budget, advance)
        header = {
            **STORED.head, "num_nodes": numbering.num_nodes, "num_edges": num_edges,
            "weighted": listed_edges.weight_dtype is not None, "named": (draft / "names.npy").exists(), **described,
        }  # fmt: skip
        (draft / HEADER).write_text(json.dumps(header, indent=1), encoding="utf-8")
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return open_graph(target)


# ---- edges ----------------------------------------------------------------------------------------------------------
def _open_table(path: Path) -> EdgeList:
    source, target, weight = find_edge_columns(column_names(path), path)
    wanted = [name for name in (source, target, weight) if name is not None]

    def batches(size: int) -> Iterator[tuple[Any, Any, Any]]:
        for part in read_parts(path, size, wanted):
            weights = None if weight is None else as_numbers(part[weight], weight, path)
            yield _read_ids(part[source], path), _read_ids(part[target], path), weights

    return EdgeList(path, None if weight is None else np.float32, TABLE_BYTES, batches)


def _open_arrays(path: Path, weights: str | Path | None) -> EdgeList:
    """edge_index [2, num_edges] or [num_edges, 2] and weights [num_edges], mapped."""
    edge_index, edge_weight = map_array(path), None if weights is None else map_array(Path(weights))
    if edge_index.ndim != 2 or 2 not in edge_index.shape or edge_index.dtype.kind not in "iu":
        raise InputError(
            f"Expected whole numbers of shape [2, num_edges] or [num_edges, 2] in {path} "
            f"(got {edge_index.dtype} of shape {edge_index.shape})."
        )
    ends = edge_index if edge_index.shape[0] == 2 else edge_index.T
    if edge_weight is not None and (edge_weight.shape != ends.shape[1:] or edge_weight.dtype.kind not in "iuf"):
        raise InputError(
            f"Expected a weight for each of the {ends.shape[1]:,} edges of {path} "
            f"(got {edge_weight.dtype} of shape {edge_weight.shape})."
        )
    return _take_edges(path, ends, edge_weight)


def _take_edges(path: Path, ends: Any, weights: Any) -> EdgeList:
    def batches(size: int) -> Iterator[tuple[Any, Any, Any]]:
        for start in range(0, ends.shape[1], size):
            part = slice(start, start + size)
            own = None if weights is None else np.array(weights[part], dtype=np.float64)
            yield ends[0, part].astype(np.int64), ends[1, part].astype(np.int64), own
            release(ends, weights)

    dtype = None if weights is None else np.float64 if weights.dtype == np.float64 else np.float32
    return EdgeList(path, dtype, 0.0, batches)


# ---- nodes: features and names are written to the draft; their numbering, and the names of the classes --------------
def _store_nodes(path: Path, draft: Path, memory: float) -> tuple[Numbering, dict[str, Any]]:
    if path.suffix == ".npy":
        x = _copy_features(map_array(path), draft, path)
        return Numbering(path, len(x)), _describe(x, ())
    if not table_kind(path):
        raise InputError(f"Expected nodes as .parquet, .csv, .tsv or .npy (got {path}).")
    head = column_names(path)
    key, label = find_column(head, IDS), find_column(head, LABELS)
    if key is None:
        raise InputError(f"Expected a column `id` in the node table {path} (got {listed(head)}).")
    columns = [column for column in head.columns if column not in (key, label)]
    if not columns:
        raise InputError(f"Expected features, one number per column, in the node table {path} (got only names).")
    ids, labels = [], set[str]()
    for part in read_parts(path, ROWS_AT_A_TIME, [name for name in (key, label) if name is not None]):
        ids.append(_read_ids(part[key], path))
        if label is not None:
            labels.update(str(value) for value in part[label].unique())
    num_nodes = sum(map(len, ids))
    if not num_nodes:
        raise InputError(f"Expected at least one node in {path} (got none).")
    x, start = create_array(draft / "x.npy", np.float32, (num_nodes, len(columns))), 0
    num_rows = int(memory / 4 / NUMBER_BYTES / len(head.columns))
    for part in read_parts(path, min(max(num_rows, 256), ROWS_AT_A_TIME)):
        x[start : start + len(part)] = as_features(part, columns, path)
        start += len(part)
        release(x)
    whole = all(isinstance(part, np.ndarray) for part in ids)
    joined = np.concatenate(ids) if whole else pyarrow.concat_arrays([_as_text(part) for part in ids])
    is_worded = not all(is_class(label) for label in labels)
    return _number_nodes(joined, path, draft), _describe(x, sorted(labels) if is_worded else ())


def _link_nodes(graph: StoredGraph, draft: Path) -> tuple[Numbering, dict[str, Any]]:
    """Features and names of another stored graph, as links to its files: they take no space, and compare at once."""
    features = SPARSE_PARTS if sparse.issparse(graph.x) else ("x",)
    for name in (*features, *(() if graph.names is None else ("names", "names_indptr"))):
        source, target = graph.folder / f"{name}.npy", draft / f"{name}.npy"
        try:
            os.link(source, target)
        except OSError:  # another disk, or one that knows no links
            shutil.copyfile(source, target)
    return Numbering(graph.folder, graph.num_nodes, graph.names), _describe(graph.x, graph.class_names)


def _store_whole(path: Path, draft: Path) -> tuple[EdgeList, Numbering, dict[str, Any]]:
    """A graph that is one file; its edges name nodes by row."""
    graph = read_graph(path)
    data = graph.data
    if isinstance(data, HeteroData):
        raise InputError(TYPED.format("a HeteroData"))
    snapshot = read_snapshot(data, path.name)
    x, dtype = snapshot.x, np.float64 if data.x.dtype == torch.float64 else np.float32
    if sparse.issparse(x):
        for name, part, kind in zip(SPARSE_PARTS, parts_of(x), (dtype, np.int64, np.int64), strict=True):
            np.save(draft / f"{name}.npy", part.astype(kind))
    else:
        np.save(draft / "x.npy", np.ascontiguousarray(x, dtype=dtype))
    if graph.row_names:
        _number_nodes(pyarrow.array(graph.row_names, pyarrow.large_string()), path, draft)
    elif snapshot.numbered:
        _number_nodes(snapshot.node_ids, path, draft)
    weights = snapshot.edge_weight
    if weights is not None and data.edge_weight.dtype != torch.float64:
        weights = weights.astype(np.float32)
    edges = _take_edges(path, snapshot.edge_index, weights)
    return edges, Numbering(path, snapshot.num_nodes), _describe(x, graph.class_names)


def _describe(x: Any, class_names: Collection[str]) -> dict[str, Any]:
    """What the header says of features and classes."""
    return {"num_features": x.shape[1], "sparse": sparse.issparse(x), "class_names": list(class_names)}


def _copy_features(x: Any, draft: Path, where: Path) -> Any:
    """Features of a mapped array, a piece at a time."""
    if x.ndim != 2 or x.dtype.kind not in "iuf":
        raise InputError(f"Expected numbers of shape [num_nodes, num_features] in {where} (got {x.dtype} {x.shape}).")
    copied = create_array(draft / "x.npy", np.float64 if x.dtype == np.float64 else np.float32, x.shape)
    start = 0
    for piece in pieces(x, max(ROWS_AT_A_TIME * 16 // max(x.shape[1], 1), 1)):
        if not np.isfinite(piece).all():
            raise InputError(f"Expected finite features in {where} (got NaN or infinite ones).")
        copied[start : start + len(piece)] = piece
        start += len(piece)
        release(copied)
    return copied


def _number_nodes(ids: Any, where: Path, draft: Path) -> Numbering:
    """Rows of these ids, whole numbers or text, each of which must be there once; their names are written."""
    numbers = ids if isinstance(ids, np.ndarray) else whole_numbers(ids)
    if numbers is not None and np.array_equal(numbers, np.arange(len(numbers))):
        return Numbering(where, len(numbers))
    names = _as_text(ids)
    counts = pyarrow.compute.value_counts(names)
    twice = counts.filter(pyarrow.compute.greater(counts.field("counts"), 1)).field("values")
    if len(twice):
        raise InputError(f"Expected every node once in {where} (got {twice[0].as_py()!s:.40} twice).")
    _, ends, text = names.buffers()
    begins = np.frombuffer(ends, dtype=np.int64)[names.offset : names.offset + len(names) + 1]
    np.save(draft / "names_indptr.npy", begins - begins[0])
    np.save(draft / "names.npy", np.frombuffer(text or b"", dtype=np.uint8)[begins[0] : begins[-1]])
    return Numbering(where, len(names), names)


def _read_ids(column: pd.Series[Any], path: Path) -> Any:
    """Whole numbers as int64, anything else as text without blanks around it."""
    with blamed(f"Expected text or numbers that name the nodes in {path} (got {column.dtype})."):
        if pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any():
            return column.to_numpy(dtype=np.int64)
        words = pyarrow.array(as_names(column, path), pyarrow.large_string())
    return words.combine_chunks() if isinstance(words, pyarrow.ChunkedArray) else words


def _as_text(ids: Any) -> Any:
    return pyarrow.array(ids).cast(pyarrow.large_string()) if isinstance(ids, np.ndarray) else ids

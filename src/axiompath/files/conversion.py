"""An edge list and its nodes -> a stored graph: a folder that `axiompath.open_graph` opens memory-mapped.

The folder appears under its name once it is whole: it is written under another one beside it, its header last.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from rich.console import Console
from rich.progress import Progress as Bars
from scipy import sparse
from torch_geometric.data import HeteroData

from ..errors import InputError
from ..graphs.stored import HEADER, STORED, StoredGraph, open_graph
from ..storage.memory import parse_memory
from ..storage.safe import map_array
from .edgelists import EdgeList, is_table, open_arrays, open_table
from .graph_file import NAME_FIELDS, SPARSE, GraphFile, read_graph, read_name_field, sparse_shape
from .nodelists import Numbering, link_nodes, number_nodes, store_array, store_names, store_sparse, store_table
from .npz import unpack_arrays
from .order import sort_edges
from .typed_folder import is_typed_folder

TYPED = (
    "Expected a graph of one kind of nodes to be stored (got {}, with several); a stored graph holds one table of "
    "features and no types, so give this one to the commands as it is: it is read into memory."
)


class GraphParts(NamedTuple):
    """Where the parts of a graph are."""

    edges: Path
    nodes: str | Path | None
    features_of: str | Path | None
    weights: str | Path | None


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
        [num_edges, 2]; or a graph as .npz or .pt.
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
    draft = target.absolute().parent / f".{target.name}.{os.getpid()}.part"
    draft.mkdir()
    try:
        given = GraphParts(source, nodes, features_of, weights)
        header = _write(given, draft, budget, progress or Console(quiet=True))
        for left in [*draft.glob("unpacked_*"), *draft.glob("range_*")]:
            left.unlink()
        (draft / HEADER).write_text(json.dumps(header, indent=1), encoding="utf-8")
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return open_graph(target)


def _write(given: GraphParts, draft: Path, memory: float, console: Console) -> dict[str, Any]:
    """Write all arrays; the header."""
    source, nodes, features_of, weights = given
    whole: dict[str, Any] | None = None
    if source.suffix == ".npz":
        whole = unpack_arrays(source, {*SPARSE, *NAME_FIELDS, "x", "edge_index", "edge_weight", "n_id"}, draft)
    elif source.suffix in (".pt", ".pth"):
        whole = _as_arrays(read_graph(source))
    elif os.path.isdir(source) and is_typed_folder(source):
        raise InputError(TYPED.format(f"the folder {source}"))
    elif os.path.isdir(source):
        raise InputError(f"Expected an edge list (got the folder {source}); name its edges and its --nodes.")
    elif not is_table(source) and source.suffix != ".npy":
        raise InputError(f"Expected edges as .parquet, .csv, .tsv, .npy, .npz or .pt (got {source}).")
    if (nodes is not None) + (features_of is not None) + (whole is not None) != 1:
        raise InputError(
            f"Expected the nodes of {source} in one place: a table or x.npy (--nodes), another stored graph "
            "(--features-of), or the .npz or .pt itself."
        )
    if whole is not None:
        numbering, header = _store_whole(whole, source, draft)
        edges = open_arrays(source, whole["edge_index"], whole.get("edge_weight"))
    else:
        edges = open_table(source) if is_table(source) else _open_npy(source, weights)
        numbering, header = _store_nodes(nodes, features_of, draft, memory)
    with Bars(console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def advance(text: str, count: int) -> None:
            if text not in tasks:
                known = [bars.tasks[task].completed for task in tasks.values()]
                tasks[text] = bars.add_task(text, total=known[0] if known else None)
            bars.advance(tasks[text], count)

        num_edges = sort_edges(edges, numbering, draft, memory, advance)
    return {
        **STORED.head, "num_nodes": numbering.num_nodes, "num_edges": num_edges,
        "weighted": edges.weight_dtype is not None, **header,
    }  # fmt: skip


def _open_npy(path: Path, weights: str | Path | None) -> EdgeList:
    return open_arrays(path, map_array(path), None if weights is None else map_array(Path(weights)))


def _store_nodes(
    nodes: str | Path | None, features_of: str | Path | None, draft: Path, memory: float
) -> tuple[Numbering, dict[str, Any]]:
    """Write features and names; the rest of the header."""
    classes: tuple[str, ...] = ()
    if features_of is not None:
        graph = open_graph(features_of)
        link_nodes(graph, draft)
        names = graph.names
        numbering = Numbering(graph.num_nodes) if names is None else number_nodes(names, graph.folder)
        width, is_sparse, classes = graph.num_features, sparse.issparse(graph.x), graph.class_names
    else:
        assert nodes is not None
        path, is_sparse = Path(nodes), False
        if path.suffix == ".npy":
            x = map_array(path)
            store_array(x, draft, path)
            numbering, width = Numbering(len(x)), x.shape[1]
        elif is_table(path):
            numbering, width, classes = store_table(path, draft, memory)
        else:
            raise InputError(f"Expected nodes as .parquet, .csv, .tsv or .npy (got {path}).")
        if numbering.names is not None:
            store_names(numbering.names, draft)
    named = numbering.names is not None
    return numbering, {"num_features": width, "sparse": is_sparse, "named": named, "class_names": list(classes)}


def _store_whole(whole: dict[str, Any], path: Path, draft: Path) -> tuple[Numbering, dict[str, Any]]:
    """The same for a graph that is one file; its edges name nodes by row."""
    is_sparse = all(key in whole for key in SPARSE)
    if "edge_index" not in whole or not (is_sparse or "x" in whole):
        raise InputError(f"Expected the arrays `x` and `edge_index` in {path} (got {', '.join(whole) or 'neither'}).")
    if is_sparse:
        num_nodes, width = sparse_shape(whole, path)
        store_sparse(whole, draft)
    else:
        store_array(whole["x"], draft, path)
        num_nodes, width = whole["x"].shape
    names: Any = None
    if words := read_name_field(whole.get("node_names"), "node_names", path):
        names = pyarrow.array(words, pyarrow.large_string())
    elif "n_id" in whole:
        names = np.asarray(whole["n_id"])
        if names.ndim != 1 or names.dtype.kind not in "iu":
            raise InputError(f"Expected whole numbers as `n_id` in {path} (got {names.dtype} of shape {names.shape}).")
        names = names.astype(np.int64)
    named = None if names is None else number_nodes(names, path).names
    if named is not None:
        if len(named) != num_nodes:
            raise InputError(f"Expected a name for each of the {num_nodes} nodes in {path} (got {len(named)} names).")
        store_names(named, draft)
    classes = list(read_name_field(whole.get("class_names"), "class_names", path))
    header = {"num_features": width, "sparse": is_sparse, "named": named is not None, "class_names": classes}
    return Numbering(num_nodes), header


def _as_arrays(graph: GraphFile) -> dict[str, Any]:
    """What an .npz would hold."""
    data = graph.data
    if isinstance(data, HeteroData):
        raise InputError(TYPED.format("a HeteroData"))
    found: dict[str, Any] = {"edge_index": np.asarray(data.edge_index)}
    if data.x.is_sparse_csr:
        parts = data.x.values(), data.x.col_indices(), data.x.crow_indices(), list(data.x.shape)
        found |= {key: np.asarray(part) for key, part in zip(SPARSE, parts, strict=True)}
    else:
        found["x"] = np.asarray(data.x)
    for key in ("edge_weight", "n_id"):
        if data.get(key) is not None:
            found[key] = np.asarray(data[key])
    if graph.row_names:
        found["node_names"] = graph.row_names
    if graph.class_names:
        found["class_names"] = graph.class_names
    return found

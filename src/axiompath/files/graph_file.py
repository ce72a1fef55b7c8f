"""path -> GraphFile: a graph, the names of its nodes and classes. Several of them -> the same, matched by name.

.npz      pickle-free arrays: x [num_nodes, num_features], or x_data, x_indices, x_indptr, x_shape (CSR); edge_index
          [2, num_edges]; and where there are any edge_weight, edge_attr,
          edge_type, n_id, y, node_names, class_names, relation_names
.pt       a torch_geometric Data or HeteroData, or a dict of the same keys (see tensors.py)
.csv ...  an edge list with a node table beside it (see tables.py), or a folder that holds edges.* and nodes.*
folder    one table per node type and one per relation (see typed_folder.py); or a stored graph, which is opened and not
          read (see graphs/stored.py)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data, HeteroData

from ..errors import InputError
from ..graphs.data_fields import ascends, fields_of_edges, read_array, read_ends, read_types, to_torch_csr
from ..graphs.expiry import DATED, EDGE_TIME, TIME_FIELDS, WINDOW
from ..graphs.names import Names, read_class_names, read_names
from ..graphs.snapshot import read_snapshot
from ..graphs.stack import find_schema, stack
from ..graphs.stored import StoredGraph, is_stored, open_graph
from ..storage.safe import MAX_BYTES, Damaged, blamed, bound_together, check_file, check_size
from ..storage.writing import whole_file
from .npz import arrays_size, read_arrays
from .tables import SUFFIXES, edge_fields, find_ends, read_classes, read_edges, read_nodes, table_kind
from .tensors import Stores, read_tensors
from .typed_folder import is_typed_folder, match_types, read_typed_folder, read_typed_values

SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
ARRAYS = (
    "x", "edge_index", "edge_weight", "edge_attr", "edge_type", "n_id", "y", "batch", "graph_id", "edge_label_index",
    *TIME_FIELDS,
)  # fmt: skip
NAME_FIELDS = ("node_names", "class_names")
RELATIONS_CALLED = "relation_names"
FIELDS = {*SPARSE, *ARRAYS, *NAME_FIELDS, RELATIONS_CALLED, "version"}
NPZ_VERSION = 1


@dataclass(frozen=True, eq=False)
class GraphFile:
    """A graph as a file holds it."""

    data: Any  # torch_geometric Data or HeteroData, or a StoredGraph
    row_names: tuple[str, ...] = ()  # of the rows of x; empty where the file has none
    class_names: tuple[str, ...] = ()

    @property
    def numbered(self) -> bool:
        """Whether the graph numbers its nodes by `n_id`."""
        return isinstance(self.data, Data) and self.data.get("n_id") is not None

    @property
    def node_names(self) -> dict[int, str]:
        """Name of each node by its number: `n_id` where the graph has it, else its row. None where nodes are stored, or
        have types, by which they are named."""
        if not isinstance(self.data, Data):
            return {}
        ids = self.data.get("n_id")
        numbers = range(len(self.row_names)) if ids is None else ids.tolist()
        return dict(zip(numbers, self.row_names, strict=False))


def read_graph(path: str | Path, nodes: str | Path | None = None, *, max_bytes: float = MAX_BYTES) -> GraphFile:
    """Read a graph of any of the kinds above; `nodes` is the node table of an edge list."""
    file = Path(path)
    if is_stored(file):
        stored = open_graph(file)
        return GraphFile(stored, class_names=stored.class_names)
    if os.path.isdir(file) and is_typed_folder(file):
        typed, class_names = read_typed_folder(file, max_bytes)
        return _checked(GraphFile(typed, class_names=class_names), file)
    if os.path.isdir(file):
        file, found = _find_table(file, "edges"), _find_table(file, "nodes")
        nodes = nodes or found
    if file.suffix == ".npz":
        graph = _from_values(read_arrays(file, FIELDS, max_bytes), file)
    elif file.suffix in (".pt", ".pth"):
        values = read_tensors(file, max_bytes)
        if isinstance(values, Stores):
            return _checked(GraphFile(read_typed_values(values.nodes, values.edges, file)), file)
        graph = _from_values(values, file)
    elif table_kind(file):
        graph = _read_tables(file, nodes, max_bytes)
    else:
        raise InputError(
            f"Expected a graph as .npz, .pt, .csv, .tsv or .parquet, or a folder with edges and nodes (got {path})."
        )
    return _checked(graph, file)


def _check_beside(data: Data, name: str) -> None:
    """Refuse fields that the graph does not need, and a model may take, where they do not fit its nodes and edges."""
    size = data.edge_index.shape[1]
    for key, what, *shapes in (
        ("edge_attr", f"[{size}, num_edge_features], finite numbers", (size,), (size, None)),
        (EDGE_TIME, f"a time for each of {size} edges", (size,)), (WINDOW, "its start and end", (2,)),
        (DATED, "yes or no", ()),
    ):  # fmt: skip
        if data.get(key) is not None:
            read_array(data[key], f"{name}.{key}", what, *shapes)
    if data.get("edge_type") is not None:
        read_types(data.edge_type, size, f"{name}.edge_type")
    if data.get("edge_label_index") is not None:
        read_ends(data.edge_label_index, [data.x.shape[0]] * 2, f"{name}.edge_label_index")


def check_together(paths: Sequence[Path], max_bytes: float = MAX_BYTES) -> None:
    """Refuse graphs in .npz that together would take more than one file of their size may."""
    for path in paths:
        check_file(path)
    limit, size = bound_together(paths, max_bytes), 0.0
    for path in paths:
        size += arrays_size(path, FIELDS, limit)
        check_size(path.parent, size, limit)


def _checked(graph: GraphFile, file: Path) -> GraphFile:
    """A graph looked at as a whole; what is amiss is said of its file."""
    try:
        data = graph.data
        if isinstance(data, HeteroData):
            data = stack(data, find_schema([data]), file.name)
        read_snapshot(data, file.name, fields_of_edges(data, data))
        _check_beside(data, file.name)
    except InputError as error:
        raise type(error)(f"{file}: {error}") from error
    return graph


def match_graphs(*graphs: GraphFile) -> tuple[GraphFile, ...]:
    """Number nodes alike in all graphs: by `n_id` if all have it, else by name if all have names, else by row."""
    kinds = [isinstance(graph.data, StoredGraph) for graph in graphs]
    if all(kinds):
        return graphs  # an Explainer matches these itself, without reading their names into memory
    typed = [isinstance(graph.data, HeteroData) for graph in graphs]
    if all(typed):
        matched = match_types([graph.data for graph in graphs])
        return tuple(replace(graph, data=data) for graph, data in zip(graphs, matched, strict=True))
    if any(typed):
        raise InputError("Expected graphs with types of nodes, or none of them (got some of each).")
    if any(kinds):
        raise InputError("Expected all graphs stored or none (got some); convert the others with `axiompath convert`.")
    has_ids = [graph.numbered for graph in graphs]
    if all(has_ids):
        return graphs
    if any(has_ids):
        raise InputError(f"Expected `n_id` in all graphs or in none (got it in {sum(has_ids)} of {len(graphs)}).")
    if all(graph.row_names for graph in graphs) and len({graph.row_names for graph in graphs}) > 1:
        names = dict.fromkeys(name for graph in graphs for name in graph.row_names)
        numbers = {name: i for i, name in enumerate(names)}
        return tuple(_numbered(graph, numbers) for graph in graphs)
    return graphs


def save_graph(
    path: str | Path, data: Data, node_names: Names | None = None, class_names: Collection[str] | None = None
) -> Path:
    """Write a graph as pickle-free .npz; an existing file is replaced only when the new one is complete.

    A mapping of names refers to node numbers; a list, an array or a Series to the graph's rows. Nodes without a name
    are called by their number.
    """
    snapshot = read_snapshot(data, "data")
    known = read_names(node_names, [snapshot.node_ids])
    called = [known.get(node, str(node)) for node in snapshot.node_ids.tolist()] if known else []
    if len(set(called)) < len(called):
        twice = next(name for name, count in Counter(called).items() if count > 1)
        raise InputError(f"Expected every name once in `node_names` (got {twice!r} twice); names identify nodes.")
    arrays: dict[str, Any] = {"version": np.array(NPZ_VERSION), "edge_index": snapshot.edge_index}
    if sparse.issparse(snapshot.x):
        x = sparse.csr_array(snapshot.x)
        parts = (x.data, x.indices, x.indptr, np.array(x.shape))
        arrays |= dict(zip(SPARSE, parts, strict=True))
    else:
        arrays["x"] = np.asarray(data.x.detach().cpu()) if isinstance(data.x, torch.Tensor) else snapshot.x
    for key in ARRAYS[2:]:
        if data.get(key) is not None:
            arrays[key] = np.asarray(torch.as_tensor(data[key]).detach().cpu())
    relations = [str(name) for name in data.get(RELATIONS_CALLED) or ()]
    called_by = (called, read_class_names(class_names), relations)
    for key, names in zip((*NAME_FIELDS, RELATIONS_CALLED), called_by, strict=True):
        cut = next((name for name in names if name.endswith("\0")), None)
        if cut is not None:  # arrays of text drop it
            raise InputError(f"Expected names that do not end with a NUL character in `{key}` (got {cut!r}).")
        if names:
            arrays[key] = np.array(names)
    target = Path(path).with_suffix(".npz")
    with whole_file(target) as stream:
        np.savez_compressed(stream, **arrays)
    return target


def _numbered(graph: GraphFile, numbers: dict[str, int]) -> GraphFile:
    data = graph.data.clone()
    data.n_id = torch.tensor([numbers[name] for name in graph.row_names])
    return replace(graph, data=data)


def _from_values(values: dict[str, Any], path: Path) -> GraphFile:
    version = values.get("version", NPZ_VERSION)
    if str(version) not in (f"{NPZ_VERSION}", f"tensor({NPZ_VERSION})"):
        shown = str(version)[:20] if isinstance(version, (int, np.ndarray)) else "another"
        raise InputError(
            f"Expected version {NPZ_VERSION} of the graph format in {path} (got {shown}); save the graph again."
        )
    if all(key in values for key in SPARSE):
        x: Any = _sparse_features(values, path)
    else:
        x = values.get("x")
    if x is None or values.get("edge_index") is None:
        known = ", ".join(key[:30] for key in list(values)[:8]) or "none that is known"
        raise InputError(f"Expected the arrays `x` and `edge_index` in {path} (got {known}).")
    parts = {"x": x} | {key: values[key] for key in ARRAYS[1:] if values.get(key) is not None}
    names = {key: _read_name_field(values.get(key), key, path) for key in NAME_FIELDS}
    data = Data(**{key: _tensor(value, key, path) for key, value in parts.items()})
    if data.x.dim() != 2:
        raise InputError(f"Expected `x` of shape [num_nodes, num_features] in {path} (got {tuple(data.x.shape)}).")
    if names["node_names"] and len(names["node_names"]) != data.x.shape[0]:
        raise InputError(
            f"Expected a name for each of the {data.x.shape[0]} nodes in {path} (got {len(names['node_names'])} names)."
        )
    relations = _read_name_field(values.get(RELATIONS_CALLED), RELATIONS_CALLED, path)
    if relations:
        data.relation_names = list(relations)
    return GraphFile(data, names["node_names"], names["class_names"])


def _tensor(value: Any, key: str, path: Path) -> torch.Tensor:
    with blamed(f"Expected numbers in the arrays of {path} (`{key}` holds something else).", TypeError):
        if isinstance(value, torch.Tensor):
            return value
        if not isinstance(value, np.ndarray):
            raise Damaged("a list may hold anything")
        if value.dtype.kind not in "biufc":
            raise Damaged("text")
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("="), copy=False))


def _sparse_features(values: dict[str, Any], path: Path) -> torch.Tensor:
    """The sparse features in the x_ arrays, which must be of the right kinds and fit together."""
    with blamed(f"Expected a sparse matrix in the x_ arrays of {path} (they do not fit together)."):
        parts = data, indices, indptr, shape = [np.asarray(values[key]) for key in SPARSE]
        are_whole = all(part.dtype.kind in "iu" for part in parts[1:]) and data.dtype.kind in "biuf"
        if not are_whole or any(part.ndim != 1 for part in parts):
            raise InputError(
                f"Expected numbers as x_data and whole numbers as x_indices, x_indptr and x_shape in {path} "
                f"(got {data.dtype}, {indices.dtype}, {indptr.dtype} and {shape.dtype}, or other shapes)."
            )
        num_nodes, width = (int(n) for n in shape)
        if len(indptr) != num_nodes + 1 or not 0 <= width < 2**31 or not ascends(indptr, len(indices)):
            raise Damaged("other lengths, or rows that end before they begin")
        matrix = sparse.csr_array((data.astype(np.float64), indices, indptr), shape=(num_nodes, width))
        matrix.check_format(full_check=True)
        return to_torch_csr(matrix, torch.float64 if data.dtype == np.float64 else torch.float32)


def _read_name_field(value: Any, key: str, path: Path) -> tuple[str, ...]:
    """Names in an array or a list; none where there is nothing."""
    if value is None:
        return ()
    with blamed(f"Expected a list of names in `{key}` of {path} (got something else)."):
        if isinstance(value, (np.ndarray, torch.Tensor)):
            value = value.tolist() if value.ndim == 1 else None
        if not isinstance(value, (list, tuple)) or not all(type(name) in (str, int, float, bool) for name in value):
            raise Damaged("no names")
        names = tuple(str(name).encode().decode() for name in value)  # half a letter cannot be written anywhere
    if key == "node_names" and len(set(names)) != len(names):
        raise InputError(f"Expected every name once in `node_names` of {path} (got one twice).")
    return names


def _find_table(folder: Path, stem: str) -> Path:
    for suffix in SUFFIXES:
        if (folder / f"{stem}{suffix}").is_file():
            return folder / f"{stem}{suffix}"
    raise InputError(f"Expected {stem}.csv or {stem}.parquet in the folder {folder} (found neither).")


def _read_tables(path: Path, nodes: str | Path | None, max_bytes: float) -> GraphFile:
    if nodes is None:
        raise InputError(f"Expected a node table for the edge list {path} (got none); give it with --nodes.")
    names, x, labels = read_nodes(Path(nodes), max_bytes)
    edges = read_edges(path, max_bytes)
    ends = [find_ends(edges, side, names, nodes, path) for side in ("source", "target")]
    data = Data(
        x=torch.from_numpy(x.astype(np.float32)),
        edge_index=torch.from_numpy(np.stack(ends)),
    )
    data.update(edge_fields(edges))
    class_names: tuple[str, ...] = ()
    if labels is not None:
        data.y, class_names = read_classes(labels)
    return GraphFile(data, tuple(names), class_names)

"""Folder -> StoredGraph: a graph on disk, opened memory-mapped, so that it may be larger than memory.

    graph.json       format, version and sizes; written last
    indptr.npy       int64 [num_nodes + 1]: where the edges into each node begin
    senders.npy      int32 or int64 [num_edges]: who sends along them, ascending for each receiver
    weights.npy      float32 or float64 [num_edges], where edges have weights
    x.npy            float32 or float64 [num_nodes, num_features]; or, where features are sparse,
    x_data.npy, x_indices.npy, x_indptr.npy
    names.npy, names_indptr.npy    UTF-8 text of all names and where each begins, where nodes have names

Opening reads the edges once, to check them; features are checked where they are used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import pyarrow
from msgspec import Meta
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..storage.codec import FileForm, Text, decode
from ..storage.memory import CHUNK, pieces
from ..storage.safe import blamed, map_array, read_json
from .adjacency import NO_IDS, NO_VALUES, Incoming
from .data_fields import Features
from .snapshot import Snapshot

STORED = FileForm("graph", 1, remedy="convert it again")
HEADER = "graph.json"
MAX_HEADER = 10**7

Size: TypeAlias = Annotated[int, Meta(ge=0, lt=2**60)]


@dataclass(frozen=True)
class Header:
    """What graph.json says of the arrays beside it."""

    num_nodes: Annotated[int, Meta(ge=1, lt=2**60)]
    num_edges: Size
    weighted: bool
    num_features: Size
    sparse: bool
    named: bool
    class_names: tuple[Text, ...]


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """A graph on disk. Its arrays are memory-mapped: only what is read takes memory."""

    folder: Path
    indptr: IntArray  # [num_nodes + 1]
    senders: IntArray  # [num_edges]; int32 or int64
    weights: FloatArray | None  # [num_edges]; float32 or float64, as x is
    x: Features  # [num_nodes, num_features]
    names: Any  # pyarrow.LargeStringArray [num_nodes], or None where nodes are known by their position
    class_names: tuple[str, ...] = ()

    @property
    def num_nodes(self) -> int:
        """Rows of x."""
        return int(self.x.shape[0])

    @property
    def num_features(self) -> int:
        """Columns of x."""
        return int(self.x.shape[1])

    @property
    def num_edges(self) -> int:
        """Every direction and every parallel edge counts."""
        return len(self.senders)

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return self.weights is not None


def map_snapshot(graph: StoredGraph) -> Snapshot:
    """The same as everything else takes it, still on disk."""
    edges = Incoming(graph.indptr, graph.senders, NO_VALUES if graph.weights is None else graph.weights)
    everywhere = np.broadcast_to(np.True_, graph.num_nodes)
    return Snapshot(graph.x, edges, graph.weights, NO_IDS, everywhere)


def is_stored(path: str | Path) -> bool:
    """Whether a folder says that it is a stored graph."""
    return os.path.isfile(Path(path) / HEADER)  # no where no such name can be


def open_graph(folder: str | Path) -> StoredGraph:
    """Open a folder that `axiompath convert` wrote."""
    place = Path(folder)
    header = _read_header(place)
    num_nodes, num_edges, num_features = header.num_nodes, header.num_edges, header.num_features
    indptr = _open_array(place, "indptr", (np.int64,), (num_nodes + 1,))
    senders = _open_array(place, "senders", (np.int32, np.int64), (num_edges,))
    weights = _open_array(place, "weights", (np.float32, np.float64), (num_edges,)) if header.weighted else None
    if header.sparse:
        x = _open_sparse(place, num_nodes, num_features)
    else:
        x = _open_array(place, "x", (np.float32, np.float64), (num_nodes, num_features))
    names = _open_names(place, num_nodes) if header.named else None
    graph = StoredGraph(place, indptr, senders, weights, x, names, header.class_names)
    _check_edges(graph)
    return graph


def _read_header(folder: Path) -> Header:
    path = folder / HEADER
    if not os.path.isfile(path):
        raise InputError(f"Expected a folder written by `axiompath convert` at {folder} (it has no {HEADER}).")
    held = STORED.open(read_json(path, MAX_HEADER), f" in {path}")
    return decode(Header, held, f"the header of a stored graph in {path}")


def _open_array(folder: Path, name: str, dtypes: tuple[type, ...], shape: tuple[int, ...]) -> Any:
    path = folder / f"{name}.npy"
    array = map_array(path)
    if array.dtype not in [np.dtype(kind) for kind in dtypes] or array.shape != shape or not array.flags.c_contiguous:
        raise InputError(
            f"Expected {' or '.join(np.dtype(kind).name for kind in dtypes)} of shape {shape} in {path} "
            f"(got {array.dtype} of shape {array.shape})."
        )
    return array


def _open_sparse(folder: Path, num_nodes: int, num_features: int) -> sparse.csr_array:
    indptr = _open_array(folder, "x_indptr", (np.int64,), (num_nodes + 1,))
    _check_indptr(indptr, None, folder / "x_indptr.npy")
    num_entries = int(indptr[-1])
    x = sparse.csr_array((num_nodes, num_features))
    # Given to the constructor, the arrays would be read into memory.
    x.data = _open_array(folder, "x_data", (np.float32, np.float64), (num_entries,))
    x.indices, x.indptr = _open_array(folder, "x_indices", (np.int64,), (num_entries,)), indptr
    return x


def _open_names(folder: Path, num_nodes: int) -> Any:
    indptr = _open_array(folder, "names_indptr", (np.int64,), (num_nodes + 1,))
    _check_indptr(indptr, None, folder / "names_indptr.npy")
    text = _open_array(folder, "names", (np.uint8,), (int(indptr[-1]),))
    names = pyarrow.LargeStringArray.from_buffers(num_nodes, pyarrow.py_buffer(indptr), pyarrow.py_buffer(text))
    with blamed(f"Expected names in {folder / 'names.npy'} (they are damaged)."):
        names.validate(full=True)
    return names


def _check_indptr(indptr: IntArray, num_entries: int | None, path: Path) -> None:
    ordered = indptr[0] == 0 and (num_entries is None or indptr[-1] == num_entries)
    for part in pieces(indptr, CHUNK, overlap=1):
        ordered = ordered and bool((np.diff(part) >= 0).all())
    if not ordered:
        raise InputError(f"Expected numbers that ascend from 0 to the number of entries in {path} (they do not).")


def _check_edges(graph: StoredGraph) -> None:
    _check_indptr(graph.indptr, graph.num_edges, graph.folder / "indptr.npy")
    edges = map_snapshot(graph).incoming()
    for start, stop in edges.ranges():
        part = slice(edges.indptr[start], edges.indptr[stop])
        senders, weights = edges.senders[part], edges.values[part]
        descends = np.flatnonzero(senders[1:] < senders[:-1]) + 1 + part.start  # only where another row begins
        if not np.isin(descends, edges.indptr[start:stop]).all() or (
            len(senders) and not 0 <= senders.min() <= senders.max() < graph.num_nodes
        ):
            raise InputError(
                f"Expected the senders of each node in ascending order, all of them nodes 0 to {graph.num_nodes - 1}, "
                f"in {graph.folder / 'senders.npy'} (they are not); convert the graph again."
            )
        if not np.isfinite(weights).all():
            raise InputError(f"Expected finite weights in {graph.folder / 'weights.npy'} (got NaN or infinite ones).")

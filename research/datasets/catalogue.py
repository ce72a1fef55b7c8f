"""name -> Data, or a sequence of Data.

Graphs come from pickle-free `.npz` files in the folder given as `root`, else in AXIOMPATH_DATA; a static graph that is
not there is downloaded by torch_geometric's own data set classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.datasets
from numpy.typing import NDArray
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from axiompath.errors import InputError, MissingFile
from axiompath.graphs.data_fields import to_torch_csr

from .archives import (
    CHECKSUMS,
    GRAPH_SETS,
    MASKS,
    Arrays,
    check_static,
    check_timed,
    find_root,
    open_archive,
    read_archive,
    read_features,
)

# name -> torch_geometric's class and its name there
CLASSES = {
    "cora": ("Planetoid", "Cora"),
    "citeseer": ("Planetoid", "CiteSeer"),
    "pubmed": ("Planetoid", "PubMed"),
    "amazon_computers": ("Amazon", "Computers"),
    "amazon_photo": ("Amazon", "Photo"),
    "coauthor_cs": ("Coauthor", "CS"),
    "coauthor_physics": ("Coauthor", "Physics"),
}
NAMES = tuple(CLASSES)
TIMED = tuple(name for name in CHECKSUMS if name not in (*CLASSES, *GRAPH_SETS))
DOWNLOADS = Path("~/.cache/axiompath")  # where to, when no folder is given
FEATURES = ("own", "identity", "degree")
DEGREE_BUCKETS = 12  # of a one-hot degree: 0, 1, 2-3, 4-7, ... 1024 and more


def load(name: str, root: str | Path | None = None) -> Data:
    """A static graph: x as sparse CSR float32, edge_index in both directions, y, masks where a split is standard."""
    if name not in NAMES:
        raise InputError(f"Expected one of the data sets {', '.join(NAMES)} (got {name!r}).")
    folder = find_root(root)
    if folder is None or not (folder / f"{name}.npz").is_file():
        return _download(name, folder)
    path = folder / f"{name}.npz"
    arrays = read_archive(path, name)
    check_static(arrays, path)
    return Data(
        x=to_torch_csr(read_features(arrays, path), torch.float32),
        edge_index=torch.from_numpy(arrays["edge_index"].astype(np.int64)),
        y=torch.from_numpy(arrays["y"].astype(np.int64)),
        **{mask: torch.from_numpy(arrays[mask].astype(np.bool_)) for mask in MASKS if mask in arrays},
    )


def load_sequence(
    name: str,
    windows: int | Sequence[float] = 10,
    root: str | Path | None = None,
    *,
    cumulative: bool = False,
    features: str = "own",
) -> list[Data]:
    """A timed graph as snapshots of the same nodes, one per window of time, oldest first.

    `windows` is a number of windows with about equally many events, or ascending times [k + 1]: window i holds the
    events from times[i] up to, not including, times[i + 1] (the last window includes its end). Edges are made
    undirected and counted once per window; ratings are left out. With `cumulative`, a window also holds all earlier
    events of the sequence. Features: `own` where the data has some, else one-hot node numbers (`identity`); `degree` is
    a one-hot of the degree's power of two, and changes with the edges.
    Each Data also carries y (-1 where unknown) where there are labels, and `window`, the times it spans.
    """
    if name not in TIMED:
        raise InputError(f"Expected one of the timed graphs {', '.join(TIMED)} (got {name!r}).")
    if features not in FEATURES:
        raise InputError(f"Expected features among {', '.join(FEATURES)} (got {features!r}).")
    arrays, path = open_archive(name, root, "timed graph")
    check_timed(arrays, path)
    num_nodes = int(arrays["num_nodes"])
    x = _node_features(arrays, path, num_nodes, root) if features == "own" else None
    if x is None and features != "degree":
        x = to_torch_csr(sparse.csr_array(sparse.eye_array(num_nodes)), torch.float32)
    times = arrays["edge_time"]
    bounds = _window_times(times, windows)
    first = np.searchsorted(times, bounds[:-1], side="left")
    last = np.append(first[1:], np.searchsorted(times, bounds[-1], side="right"))
    labels = {"y": torch.from_numpy(arrays["y"].astype(np.int64))} if "y" in arrays else {}
    snapshots = []
    for i, (start, stop) in enumerate(zip(first, last, strict=True)):
        events = slice(first[0] if cumulative else start, stop)
        ends = np.stack([arrays["edge_src"][events], arrays["edge_dst"][events]]).astype(np.int64)
        both = np.concatenate([ends, ends[::-1]], axis=1)[:, np.tile(ends[0] != ends[1], 2)]
        edge_index = coalesce(torch.from_numpy(both), num_nodes=num_nodes)
        window = (float(bounds[0 if cumulative else i]), float(bounds[i + 1]))
        shown = _degree_features(edge_index, num_nodes) if features == "degree" else x
        snapshots.append(Data(x=shown, edge_index=edge_index, window=window, **labels))
    return snapshots


def _download(name: str, folder: Path | None) -> Data:
    """The graph from torch_geometric's own class, with features sparse and without what only PyG's version has."""
    kind, its_name = CLASSES[name]
    place = (folder or DOWNLOADS.expanduser()) / "torch_geometric"
    try:
        source = getattr(torch_geometric.datasets, kind)(str(place), its_name)[0]
    except Exception as error:  # whatever a failed download or a half-written file raises
        raise MissingFile(
            f"Expected the data set's file at {folder / f'{name}.npz' if folder else f'{name}.npz'} (found none), and "
            f"torch_geometric could not download it ({type(error).__name__}: {error}); put {name}.npz "
            f"{'there' if folder else 'into a folder and pass `root=` or set the environment variable AXIOMPATH_DATA'}."
        ) from error
    x = to_torch_csr(sparse.csr_array(source.x.numpy()), torch.float32)
    masks = {mask: source[mask] for mask in MASKS if source.get(mask) is not None}
    return Data(x=x, edge_index=source.edge_index, y=source.y, **masks)


def _node_features(arrays: Arrays, path: Path, num_nodes: int, root: str | Path | None) -> torch.Tensor | None:
    """Features that the file holds, or points to; None where there are none."""
    if "x_shape" in arrays:
        return to_torch_csr(read_features(arrays, path), torch.float32)
    if "node_index" not in arrays:
        return None
    # Rows of another graph's features.
    whole = load("pubmed", root).x
    rows = sparse.csr_array(
        (whole.values().numpy(), whole.col_indices().numpy(), whole.crow_indices().numpy()), shape=tuple(whole.shape)
    )[arrays["node_index"]]
    if rows.shape[0] != num_nodes:
        raise InputError(f"Expected `node_index` of {num_nodes} rows in {path} (got {rows.shape[0]}).")
    return to_torch_csr(sparse.csr_array(rows), torch.float32)


def _degree_features(edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
    degree = np.bincount(edge_index[1].numpy(), minlength=num_nodes)
    bucket = np.minimum(np.ceil(np.log2(degree + 1)).astype(np.int64), DEGREE_BUCKETS - 1)
    parts = np.ones(num_nodes), bucket, np.arange(num_nodes + 1)
    return to_torch_csr(sparse.csr_array(parts, shape=(num_nodes, DEGREE_BUCKETS)), torch.float32)


def _window_times(times: NDArray[Any], windows: int | Sequence[float]) -> NDArray[Any]:
    """The times [k + 1] that bound k windows; events at one time stay together."""
    if isinstance(windows, (int, np.integer)):
        if isinstance(windows, bool) or windows < 1:
            raise InputError(f"Expected at least 1 window (got {windows}).")
        bounds = np.append(times[len(times) * np.arange(windows) // windows], times[-1])
        if (np.diff(bounds[:-1]) <= 0).any() or (windows > 1 and bounds[-2] > bounds[-1]):
            raise InputError(
                f"Expected fewer windows (got {windows}); the {len(np.unique(times))} different times of this graph "
                "cannot be cut into so many of equal count; pass the times instead."
            )
        return bounds
    bounds = np.asarray(windows)
    if bounds.ndim != 1 or len(bounds) < 2 or (np.diff(bounds) <= 0).any():
        raise InputError(f"Expected a number of windows or at least two ascending times (got {windows!r}).")
    if bounds[-1] < times[0] or bounds[0] > times[-1]:
        raise InputError(f"Expected times between {times[0]} and {times[-1]}, those of the graph (got {windows!r}).")
    return bounds

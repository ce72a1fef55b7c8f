"""name -> checked arrays: the pickle-free `.npz` files, each looked for, read whole and checked before use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from axiompath.errors import InputError, MissingFile
from axiompath.files.npz import read_arrays
from axiompath.storage.safe import MAX_BYTES
from axiompath.storage.writing import file_digest

Arrays: TypeAlias = dict[str, NDArray[Any]]

MASKS = ("train_mask", "val_mask", "test_mask")  # of a standard split

# sha256 of the files whose numbers docs/results.md and docs/tasks.md report.
CHECKSUMS = {
    "cora": "bf1ed374e1ff1e93200022c641009a0758cbb82b7cf1b66eef198f9d7947a986",
    "citeseer": "8b0e57b8ae22a2cf53c1dadb575326313bbccf5400640a67b445ef54df5404c3",
    "pubmed": "318a0789aa45730e6cb34f9cb291dd70f5854ead2e3330b35c451ad0728d7a83",
    "amazon_computers": "3503d2ca35237f6cd1622f14c4b57a9d0385d08fd51dba1158193e81ee1b2c24",
    "amazon_photo": "b22efd28fbb7b86b831d7f05c038a2d1fab2c4eed0c69cb51918b3035e76d478",
    "coauthor_cs": "25e6380b48f4e6a88a98f674e7e9fa877603601b35936df5835fa176ab838b76",
    "coauthor_physics": "0af41d5b41b870a14a6d5ae5d8f1f605aadf98a22c6d14fd48a1aadf91e20626",
    "uci_messages": "ccc61b33e50ce289065630681d342021aa1a5dcec3087e8a91bf8f62895c6695",
    "bitcoinotc": "a67e71fe0c6db70e2d72ec60791e65fdc4784e1990f5b79495bd687c17ecc971",
    "bitcoinalpha": "cc990b80d3966739cd606be8d011ccf3987784c70ca9c908822cdd9fe77d39f3",
    "highschool_2013": "581d1addfbfa7b43dcc6bb8f44b6426f916e3d1f25e65d2cfb1de7ecbc0d6c1c",
    "primaryschool": "d4905a122941f8ce0b2bad92dc387aed7e3ad3a292f5a83070b1601b3d50b1e1",
    "dblp_coauthor": "7db74294e5b0062c72933f227f36b90cd232fa0bd595b881d301228a2b43eba3",
    "patent_citation": "2679555c2a44176da465e1ed915b56179e8fe8a7c9a0f174fe2dd2dc604d9b63",
    "pubmed_pmid": "dbaebf1e47cafc50efdfa06790dc146f297d66336705894b38fb39384df83a3c",
    "mutag": "6b4d9dcee9a0569557a3280dd4b37efb0d20e8c78a27b749cff64a7d0c6cd2ee",
    "rumour_trees": "0d0b3138fbd506d45512e8e9d3444f6a3e2789d7ff549243074f1d9da1aa0958",
}
GRAPH_SETS = ("mutag", "rumour_trees")  # many graphs in one file, see graph_sets.py


def find_root(root: str | Path | None = None) -> Path | None:
    """The folder of the data files: `root`, else AXIOMPATH_DATA, else None; one that is named must be there."""
    chosen = root or os.environ.get("AXIOMPATH_DATA")
    if not chosen:
        return None
    if not Path(chosen).is_dir():
        raise MissingFile(
            f"Expected a folder with the data sets' .npz files (got {chosen}, which is none); "
            "pass `root=` or set the environment variable AXIOMPATH_DATA."
        )
    return Path(chosen)


def open_archive(name: str, root: str | Path | None, what: str) -> tuple[Arrays, Path]:
    """All arrays of a file that cannot be downloaded, and where it is; `what` it is, for people."""
    folder = find_root(root)
    path = (folder or Path()) / f"{name}.npz"
    if folder is None or not path.is_file():
        raise MissingFile(
            f"Expected the file of the {what}, {name}.npz, in the folder given as `root=` or AXIOMPATH_DATA "
            f"(got {folder or 'no folder'}, without it); put {name}.npz there."
        )
    return read_archive(path, name), path


def read_archive(path: Path, name: str) -> Arrays:
    """All arrays of one file; raises InputError with a sentence where it is damaged or not the file it should be."""
    arrays = read_arrays(path, None, MAX_BYTES, remedy=f"put a fresh copy of {name}.npz there")
    known = CHECKSUMS.get(name)
    digest = file_digest(path)
    if known is not None and digest != known:
        raise InputError(
            f"Expected {path} to have the sha256 {known} (got {digest}); "
            f"it is damaged or another version: put the published {name}.npz there."
        )
    return arrays


def check_static(arrays: Arrays, path: Path) -> None:
    """A static graph: edge_index, x (CSR), y, and masks of the right length."""
    _need(arrays, ("edge_index", "x_indptr", "x_indices", "x_data", "x_shape", "y"), path)
    num_nodes = len(arrays["y"])
    features = read_features(arrays, path)
    edges = arrays["edge_index"]
    _expect(features.shape[0] == num_nodes, path, f"a row of x for each of {num_nodes} labels", features.shape)
    _expect(edges.ndim == 2 and edges.shape[0] == 2, path, "`edge_index` of shape [2, num_edges]", edges.shape)
    _expect(_within(edges, num_nodes), path, f"`edge_index` to name nodes 0 to {num_nodes - 1}", _range(edges))
    _expect(bool((arrays["y"] >= 0).all()), path, "labels of 0 or more", _range(arrays["y"]))
    for mask in MASKS:
        if mask in arrays:
            _expect(arrays[mask].shape == (num_nodes,), path, f"`{mask}` of {num_nodes} values", arrays[mask].shape)


def check_timed(arrays: Arrays, path: Path) -> None:
    """A timed graph: edge_src, edge_dst and ascending edge_time of one length, num_nodes; perhaps y and x."""
    _need(arrays, ("edge_src", "edge_dst", "edge_time", "num_nodes"), path)
    num_nodes, num_events = int(arrays["num_nodes"]), len(arrays["edge_time"])
    for end in ("edge_src", "edge_dst"):
        _expect(arrays[end].shape == (num_events,), path, f"`{end}` of {num_events} values", arrays[end].shape)
        _expect(_within(arrays[end], num_nodes), path, f"`{end}` within 0 to {num_nodes - 1}", _range(arrays[end]))
    _expect(bool((np.diff(arrays["edge_time"]) >= 0).all()), path, "`edge_time` in ascending order", "another order")
    if "y" in arrays:
        _expect(arrays["y"].shape == (num_nodes,), path, f"a label for each of {num_nodes} nodes", arrays["y"].shape)
    if "x_shape" in arrays:
        features = read_features(arrays, path)
        _expect(features.shape[0] == num_nodes, path, f"a row of x for each of {num_nodes} nodes", features.shape)


def check_events(arrays: Arrays, path: Path) -> None:
    """Dated events: source, relation, target and time of one length, none below 0."""
    names = ("source", "relation", "target", "time")
    _need(arrays, names, path)
    for name in names:
        values, size = arrays[name], len(arrays["time"])
        _expect(values.shape == (size,), path, f"`{name}` of {size} values", values.shape)
        _expect(bool((values >= 0).all()), path, f"`{name}` of 0 or more", _range(values))


def check_molecules(arrays: Arrays, path: Path) -> None:
    """Many graphs in a row: the graph of each node, ascending; edges within graphs; a label a graph and a node."""
    _need(arrays, ("edge_index", "node_graph", "node_label", "graph_label"), path)
    graphs, edges, num_graphs = arrays["node_graph"], arrays["edge_index"], len(arrays["graph_label"])
    _expect(_within(graphs, num_graphs), path, f"`node_graph` within 0 to {num_graphs - 1}", _range(graphs))
    _expect(bool((np.diff(graphs) >= 0).all()), path, "`node_graph` in ascending order", "another order")
    _expect(arrays["node_label"].shape == graphs.shape, path, "a label for each node", arrays["node_label"].shape)
    _expect(edges.ndim == 2 and edges.shape[0] == 2, path, "`edge_index` of shape [2, num_edges]", edges.shape)
    _expect(_within(edges, len(graphs)), path, f"`edge_index` to name nodes 0 to {len(graphs) - 1}", _range(edges))
    _expect(bool((graphs[edges[0]] == graphs[edges[1]]).all()), path, "edges within one graph", "others")


def check_trees(arrays: Arrays, path: Path) -> None:
    """Many trees in a row: a root first, then nodes whose parents come before them; minutes; a label a tree."""
    _need(arrays, ("parent", "minutes", "tree_ptr", "label", "label_names"), path)
    parents, ends = arrays["parent"], arrays["tree_ptr"]
    starts = ends[:-1]
    whole = len(ends) == len(arrays["label"]) + 1 and ends[0] == 0 and ends[-1] == len(parents)
    _expect(whole and bool((np.diff(ends) > 0).all()), path, "`tree_ptr` with an end for each label", ends.shape)
    place = np.arange(len(parents)) - np.repeat(starts, np.diff(ends))
    _expect(
        bool(((parents < place) & ((parents >= 0) == (place > 0))).all()), path, "parents before children", "others"
    )
    minutes = arrays["minutes"]
    _expect(minutes.shape == parents.shape and bool((minutes >= 0).all()), path, "minutes of 0 or more", minutes.shape)


def read_features(arrays: Arrays, path: Path) -> sparse.csr_array:
    """The features of a file as CSR float32, checked."""
    shape = tuple(int(size) for size in arrays["x_shape"])
    parts = arrays["x_data"].astype(np.float32), arrays["x_indices"], arrays["x_indptr"]
    _expect(bool(np.isfinite(parts[0]).all()), path, "finite features", "NaN or infinite ones")
    try:
        x = sparse.csr_array(parts, shape=shape)
        x.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise InputError(f"Expected features in CSR form in {path} (got something else: {error}).") from error
    return x


def _need(arrays: Arrays, keys: tuple[str, ...], path: Path) -> None:
    missing = [key for key in keys if key not in arrays]
    _expect(not missing, path, f"the arrays {', '.join(keys)}", f"no {', '.join(missing)}")


def _expect(holds: bool, path: Path, expected: str, got: Any) -> None:
    if not holds:
        raise InputError(f"Expected {expected} in {path} (got {got}); put the published file there.")


def _within(values: NDArray[Any], limit: int) -> bool:
    return values.size == 0 or bool(values.min() >= 0 and values.max() < limit)


def _range(values: NDArray[Any]) -> str:
    return f"{values.min()} to {values.max()}"

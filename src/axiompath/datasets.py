"""name -> Data; Data -> an evolution of it.

The graphs come from pickle-free `.npz` files in the folder given as `root`, else in AXIOMPATH_DATA.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from .activations import IntArray
from .snapshot import to_torch_csr

NAMES = (
    "cora",
    "citeseer",
    "pubmed",
    "amazon_computers",
    "amazon_photo",
    "coauthor_cs",
    "coauthor_physics",
)


def find_root(root: str | Path | None = None) -> Path:
    """The folder of the data files: `root`, else AXIOMPATH_DATA."""
    chosen = root or os.environ.get("AXIOMPATH_DATA")
    if not chosen or not Path(chosen).is_dir():
        raise FileNotFoundError(
            f"Expected a folder with the data sets' .npz files (got {str(chosen) if chosen else 'none'}); "
            "pass `root=` or set the environment variable AXIOMPATH_DATA."
        )
    return Path(chosen)


def load(name: str, root: str | Path | None = None) -> Data:
    """A static graph: x as sparse CSR float32, edge_index in both directions, y, masks where a split is standard."""
    if name not in NAMES:
        raise ValueError(f"Expected one of the data sets {', '.join(NAMES)} (got {name!r}).")
    path = find_root(root) / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"Expected the data set's file at {path} (found none); put {name}.npz there.")
    with np.load(path, allow_pickle=False) as arrays:
        parts = arrays["x_data"].astype(np.float32), arrays["x_indices"], arrays["x_indptr"]
        x = sparse.csr_array(parts, shape=tuple(arrays["x_shape"].tolist()))
        data = Data(
            x=to_torch_csr(x, torch.float32),
            edge_index=torch.from_numpy(arrays["edge_index"].astype(np.int64)),
            y=torch.from_numpy(arrays["y"].astype(np.int64)),
        )
        for mask in ("train_mask", "val_mask", "test_mask"):
            if mask in arrays:
                data[mask] = torch.from_numpy(arrays[mask].astype(np.bool_))
    return data


def evolve(data: Data, *, added: int = 0, removed: int = 0, seed: int = 0) -> Data:
    """The same graph with some undirected edges more and some fewer, drawn at random.

    New edges join two different nodes that had none between them. Returns a new Data that shares x and y.
    """
    if data.get("edge_weight") is not None:
        raise ValueError("Expected a graph without edge weights (got some); random edges would have none.")
    rng = np.random.default_rng(seed)
    num_nodes = int(data.num_nodes or 0)
    edges = data.edge_index.cpu().numpy()
    low, high = np.sort(edges, axis=0)
    pairs = np.unique((low.astype(np.int64) * num_nodes + high)[low != high])
    if removed > len(pairs):
        raise ValueError(f"Expected at most {len(pairs):,} edges to remove (got {removed:,}).")
    possible = num_nodes * (num_nodes - 1) // 2 - len(pairs)
    if added > possible:
        raise ValueError(f"Expected at most {possible:,} edges to add (got {added:,}).")
    gone = rng.choice(pairs, removed, replace=False)
    fresh = _draw_pairs(rng, num_nodes, pairs, added)
    stays = ~np.isin(low.astype(np.int64) * num_nodes + high, gone)
    u, v = fresh // num_nodes, fresh % num_nodes
    new = np.concatenate([edges[:, stays], [u, v], [v, u]], axis=1)
    after = data.clone()
    after.edge_index = coalesce(torch.from_numpy(new), num_nodes=num_nodes)
    return after


def _draw_pairs(rng: np.random.Generator, num_nodes: int, taken: IntArray, count: int) -> IntArray:
    chosen = np.zeros(0, dtype=np.int64)
    while len(chosen) < count:
        u, v = rng.integers(0, num_nodes, size=(2, 2 * count + 10))
        keys = np.minimum(u, v) * num_nodes + np.maximum(u, v)
        keys = keys[(u != v) & ~np.isin(keys, taken)]
        everything = np.concatenate([chosen, keys])
        _, first = np.unique(everything, return_index=True)
        chosen = everything[np.sort(first)]
    return chosen[:count]

"""Files of many graphs -> a list of Data: molecules, and trees of posts as they stood at a time.

Every graph has its number in the file (`graph_id`) and every node a number of its own in the whole file (`n_id`), so
that a Batch of some of the graphs before and one of the same graphs after are matched, whichever nodes came.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from axiompath.arrays import FloatArray, IntArray

from .archives import check_molecules, check_trees, open_archive

ATOMS = ("C", "N", "O", "F", "I", "Cl", "Br")  # of MUTAG, by node label
BONDS = ("aromatic", "single", "double", "triple")  # of MUTAG, by edge label
TREE_FEATURES = ("one", "log minutes", "depth", "is root")


def load_molecules(root: str | Path | None = None, *, bonds: bool = False) -> list[Data]:
    """MUTAG: x the kind of each atom (one-hot, as in ATOMS), bonds in both directions, y 1 for mutagenic.

    With `bonds`, edge_attr is the kind of each (one-hot, as in BONDS).
    """
    arrays, path = open_archive("mutag", root, "molecules")
    check_molecules(arrays, path)
    graphs, kinds = arrays["node_graph"], arrays["node_label"].astype(np.int64)
    edges = arrays["edge_index"].astype(np.int64)
    ends = np.searchsorted(graphs, np.arange(len(arrays["graph_label"]) + 1))
    order = np.argsort(graphs[edges[0]], kind="stable")
    cuts = np.searchsorted(graphs[edges[0]][order], np.arange(len(ends)))
    x = torch.eye(len(ATOMS), dtype=torch.float64)[torch.from_numpy(kinds)]
    bond_kinds = torch.eye(len(BONDS), dtype=torch.float64)[torch.from_numpy(arrays["edge_label"].astype(np.int64))]
    return [
        Data(
            x=x[start:stop],
            edge_index=torch.from_numpy(edges[:, order[first:last]] - start),
            n_id=torch.arange(start, stop),
            y=torch.tensor([int(label)]),
            graph_id=torch.tensor([number]),
            **({"edge_attr": bond_kinds[torch.from_numpy(order[first:last])]} if bonds else {}),
        )
        for number, (start, stop, first, last, label) in enumerate(
            zip(ends[:-1], ends[1:], cuts[:-1], cuts[1:], arrays["graph_label"], strict=True)
        )
    ]


def load_trees(minutes: float, root: str | Path | None = None) -> list[Data]:
    """Every tree as it stood so many minutes after its first post; y one of four labels.

    x says nothing that changes as the tree grows, see TREE_FEATURES: how late a post came, in logarithms, how deep it
    stands, and whether it is the first. An edge joins each post to the one that it answers, in both directions. A post
    that the source dates before the one that it answers is taken to have come with it.
    """
    arrays, path = open_archive("rumour_trees", root, "trees")
    check_trees(arrays, path)
    ends = arrays["tree_ptr"].astype(np.int64)
    is_root = arrays["parent"] < 0
    parents = np.where(is_root, -1, np.repeat(ends[:-1], np.diff(ends)) + arrays["parent"])
    depth, came = _trace(parents, arrays["minutes"].astype(np.float64))
    x = np.stack([np.ones(len(came)), np.log1p(came) / 5.0, depth / 5.0, is_root], axis=1)
    trees = []
    for number, (start, stop, label) in enumerate(zip(ends[:-1], ends[1:], arrays["label"], strict=True)):
        here = start + np.flatnonzero(came[start:stop] <= minutes)
        child = np.flatnonzero(parents[here] >= 0)
        edges = np.stack([np.searchsorted(here, parents[here[child]]), child])
        trees.append(
            Data(
                x=torch.from_numpy(x[here]),
                edge_index=torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1)),
                n_id=torch.from_numpy(here),
                y=torch.tensor([int(label)]),
                graph_id=torch.tensor([number]),
            )
        )
    return trees


def _trace(parents: IntArray, minutes: FloatArray) -> tuple[IntArray, FloatArray]:
    """Depth of every node, and when it and all above it were there; one round a level, parents first."""
    depth, came = np.zeros(len(parents), dtype=np.int64), minutes.copy()
    level = np.flatnonzero(parents < 0)
    order = np.argsort(parents, kind="stable")
    sorted_parents = parents[order]
    while len(level):
        first, last = (np.searchsorted(sorted_parents, level, side=side) for side in ("left", "right"))
        count = last - first
        children = order[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
        depth[children] = depth[parents[children]] + 1
        came[children] = np.maximum(came[children], came[parents[children]])
        level = children
    return depth, came

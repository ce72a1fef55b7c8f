"""Published graphs from the `.npz` files of the data folder (its README says what they hold)."""

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, one_hot, to_undirected


def load_graph(name, root):
    """A static graph: sparse x, edge_index in both directions, y."""
    held = np.load(root / f"{name}.npz", allow_pickle=False)
    rows, columns, values = (torch.from_numpy(held[f"x_{part}"]) for part in ("indptr", "indices", "data"))
    x = torch.sparse_csr_tensor(rows.long(), columns.long(), values.float(), size=held["x_shape"].tolist())
    return Data(x=x, edge_index=torch.from_numpy(held["edge_index"]).long(), y=torch.from_numpy(held["y"]).long())


def load_growth(name, num_snapshots, root):
    """A timed graph as it grew, by equally many events a snapshot; x is a one-hot of the degree's power of two."""
    held = np.load(root / f"{name}.npz", allow_pickle=False)
    ends = torch.from_numpy(np.stack([held["edge_src"], held["edge_dst"]])).long()
    num_nodes, num_events = int(held["num_nodes"]), ends.shape[1]
    snapshots = []
    for number in range(1, num_snapshots + 1):
        so_far = ends[:, : num_events * number // num_snapshots]
        edge_index = coalesce(to_undirected(so_far[:, so_far[0] != so_far[1]]), num_nodes=num_nodes)
        degree = torch.bincount(edge_index[1], minlength=num_nodes)
        bucket = torch.log2(degree + 1.0).ceil().long().clamp(max=11)
        snapshots.append(Data(x=one_hot(bucket, 12), edge_index=edge_index))
    return snapshots

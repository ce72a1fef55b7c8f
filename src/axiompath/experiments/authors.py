"""The trained models of the method's authors, and graphs that change under them: molecules, links by the month."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_mean_pool

from .. import datasets
from ..arrays import IntArray
from ..datasets.archives import open_archive
from .tasks import MONTH, NUM_BONDS, Exam
from .trained import SEED

# Their names of the weights -> the data set.
AUTHORS_LINKS = {"uci": "uci_messages", "bitcoinotc": "bitcoinotc", "bitcoinalpha": "bitcoinalpha"}
AUTHORS_SETTINGS = ("mutag", *AUTHORS_LINKS)


class AuthorsMolecules(nn.Module):
    """Two GCN layers and the mean over atoms."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(7, 16, bias=False), GCNConv(16, 2, bias=False)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """Logits, [num_graphs, 2]."""
        return global_mean_pool(self.conv2(self.conv1(x, edge_index).relu(), edge_index), batch)


class AuthorsLinks(nn.Module):
    """Two GCN layers and a linear map of both ends side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(8, 4, bias=False), GCNConv(4, 4, bias=False)
        self.linear = nn.Linear(8, 2, bias=False)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_label_index: torch.Tensor) -> torch.Tensor:
        """Logits of no and yes, [num_pairs, 2]."""
        h = self.conv2(self.conv1(x, edge_index).relu(), edge_index)
        logits: torch.Tensor = self.linear(torch.cat([h[edge_label_index[0]], h[edge_label_index[1]]], dim=-1))
        return logits


def open_authors(name: str, root: str | Path | None = None, *, seed: int = SEED) -> Exam:
    """One setting: bonds of every molecule removed and added at random, or the links of one month against the next."""
    if name == "mutag":
        molecules = datasets.load_molecules(root)
        evolved = [
            datasets.evolve(m, added=NUM_BONDS, removed=NUM_BONDS, seed=seed + int(m.n_id[0])) for m in molecules
        ]
        model = _with_weights(AuthorsMolecules(), name, root)
        before, after = Batch.from_data_list(molecules), Batch.from_data_list(evolved)
        return Exam(model, before, after, {}, ("not mutagenic", "mutagenic"))
    data_set = AUTHORS_LINKS[name]
    held, _ = open_archive(data_set, root, "timed graph")
    x = torch.from_numpy(open_archive("link_features", root, "features of links")[0][data_set].astype(np.float64))
    edges = np.stack([held["edge_src"], held["edge_dst"]]).astype(np.int64)
    times = held["edge_time"].astype(np.int64)
    bounds = np.searchsorted(times, times[len(times) // 2] + MONTH * np.arange(3))
    parts = [edges[:, first:last] for first, last in pairwise(bounds.tolist())]
    before, after = (Data(x=x, edge_index=both_ways(part), n_id=torch.arange(len(x))) for part in parts)
    pairs = np.unique(np.concatenate(parts, axis=1), axis=1)
    model = _with_weights(AuthorsLinks(), name, root)
    return Exam(model, before, after, {}, ("no", "yes"), links=pairs[:, pairs[0] != pairs[1]].T)


def both_ways(edges: IntArray) -> torch.Tensor:
    """Both directions of every edge, each once, no loops."""
    real = edges[:, edges[0] != edges[1]]
    return torch.from_numpy(np.unique(np.concatenate([real, real[::-1]], axis=1), axis=1).reshape(2, -1))


def _with_weights(model: nn.Module, name: str, root: str | Path | None) -> nn.Module:
    held, _ = open_archive("authors_models", root, "authors' weights")
    own = {key.removeprefix(f"{name}."): torch.tensor(held[key]) for key in held if key.startswith(f"{name}.")}
    model.load_state_dict(own)
    return model.double().eval()

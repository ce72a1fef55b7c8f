"""Graphs or pairs with labels -> small models trained in plain torch: of molecules, of trees, of links.

Seeded, so that equal data gives equal weights on one machine; unlike those of `trained.py` they may differ in the last
bits between processors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GINConv, global_add_pool

from axiompath.sequences.fit import fit, rank_auc

WIDTH = 16


class MoleculeModel(nn.Module):
    """Two GIN layers, the sum over atoms, two layers on it."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        widths = (inputs, WIDTH, WIDTH)
        self.convs = nn.ModuleList(GINConv(_mlp(a, WIDTH, b)) for a, b in pairwise(widths))
        self.head = _mlp(WIDTH, WIDTH, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """Logits, [num_graphs, num_classes]."""
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index))
        logits: torch.Tensor = self.head(global_add_pool(x, batch))
        return logits


class TreeModel(nn.Module):
    """Two GCN layers, the sum over posts in hundreds, two layers on it."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(inputs, 2 * WIDTH), GCNConv(2 * WIDTH, 2 * WIDTH)])
        self.head = _mlp(2 * WIDTH, 2 * WIDTH, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """Logits, [num_graphs, num_classes]."""
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index))
        logits: torch.Tensor = self.head(global_add_pool(x, batch) / 100)
        return logits


class LinkPredictor(nn.Module):
    """Two GCN layers, then two layers on both ends side by side: whether the one will rate the other."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(inputs, WIDTH), GCNConv(WIDTH, WIDTH)])
        self.head = _mlp(2 * WIDTH, WIDTH, 2)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_label_index: torch.Tensor) -> torch.Tensor:
        """Logits of no and yes, [num_pairs, 2]."""
        x = self.convs[1](torch.relu(self.convs[0](x, edge_index)), edge_index)
        logits: torch.Tensor = self.head(torch.cat([x[edge_label_index[0]], x[edge_label_index[1]]], dim=-1))
        return logits


def train_on_graphs(
    model: Callable[[], nn.Module],
    train: Sequence[Data],
    check: Sequence[Data],
    *,
    epochs: int,
    batches: int = 1,
    seed: int = 0,
) -> nn.Module:
    """Adam on cross-entropy, one step per batch; the weights of the epoch that did best on the graphs to `check`."""
    parts = np.array_split(np.random.default_rng(seed).permutation(len(train)), batches)
    steps = [Batch.from_data_list([train[i] for i in part]) for part in parts]
    held = Batch.from_data_list(list(check))
    return fit(model, steps, loss_on_labels, lambda net: accuracy_on_graphs(net, held), epochs, seed)


def accuracy_on_graphs(model: nn.Module, batch: Any) -> float:
    """Share of the graphs whose label is the likeliest class."""
    with torch.no_grad():
        return float((_answer(model, batch).argmax(dim=1) == batch.y).double().mean())


def train_on_links(
    model: Callable[[], nn.Module], months: Sequence[Data], check: Data, *, epochs: int, seed: int = 0
) -> nn.Module:
    """The same on pairs: each Data has edge_label_index and y, and all months make one step each per epoch."""
    return fit(model, months, loss_on_labels, lambda net: auc_of_links(net, [check]), epochs, seed)


def auc_of_links(model: nn.Module, months: Sequence[Data]) -> float:
    """Chance that a pair that was linked stands above one that was not, over all months together."""
    with torch.no_grad():
        logits = [model(data.x, data.edge_index, data.edge_label_index).numpy() for data in months]
    scores = np.concatenate(logits) @ [-1.0, 1.0]
    return rank_auc(scores, np.concatenate([data.y.numpy() for data in months]))


def loss_on_labels(net: nn.Module, data: Any) -> torch.Tensor:
    """Cross-entropy of the rows that have a label, which is -1 where there is none."""
    return nn.functional.cross_entropy(_answer(net, data), data.y, ignore_index=-1)


def accuracy_on_rows(model: nn.Module, data: Data) -> float:
    """Share of the rows that have a label whose likeliest class it is."""
    with torch.no_grad():
        found = _answer(model, data).argmax(dim=1)
    known = data.y >= 0
    return float((found[known] == data.y[known]).double().mean())


def _answer(model: nn.Module, data: Any) -> torch.Tensor:
    """Logits for the nodes, the pairs or the graphs of the data, by the fields that it has."""
    names = ("x", "edge_index", "edge_type", "edge_attr", "edge_label_index", "batch")
    logits: torch.Tensor = model(**{name: data[name] for name in names if data.get(name) is not None})
    return logits


def _mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

"""MUTAG with the kinds of its bonds: molecules that a few bonds were taken from, given to or changed in, and a GINE.

A bond is an edge in both directions, with its kind as a feature of the edge (one-hot, as in BONDS).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GINEConv, global_add_pool

from axiompath.arrays import IntArray

from ..datasets.graph_sets import BONDS
from .task_models import WIDTH

SINGLE, DOUBLE = BONDS.index("single"), BONDS.index("double")


class BondModel(nn.Module):
    """Two GINE layers, the sum over atoms, two layers on it."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.atoms = nn.Linear(inputs, WIDTH)
        self.convs = nn.ModuleList(GINEConv(_mlp(a, b), edge_dim=len(BONDS)) for a, b in pairwise([WIDTH] * 3))
        self.head = _mlp(WIDTH, classes)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor, edge_attr: torch.Tensor
    ) -> torch.Tensor:
        """Logits, [num_graphs, num_classes]."""
        x = self.atoms(x)
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index, edge_attr))
        logits: torch.Tensor = self.head(global_add_pool(x, batch))
        return logits


def evolve_bonds(molecule: Data, count: int, seed: int) -> Data:
    """So many bonds gone, as many single ones come between atoms that had none, and as many of another kind.

    A single bond becomes a double one, any other a single one. All are drawn at random, none twice.
    """
    rng = np.random.default_rng(seed)
    ends, kinds = molecule.edge_index.numpy(), molecule.edge_attr.argmax(dim=1).numpy().copy()
    bonds = np.flatnonzero(ends[0] < ends[1])
    drawn = rng.permutation(bonds)[: 2 * count]
    gone, changed = (_both_ways(ends, some) for some in (drawn[:count], drawn[count:]))
    kinds[changed] = np.where(kinds[changed] == SINGLE, DOUBLE, SINGLE)
    free = ~np.eye(molecule.num_nodes, dtype=np.bool_)
    free[ends[0], ends[1]] = False
    u, v = np.nonzero(np.triu(free))
    new = rng.permutation(len(u))[:count]
    fresh = np.stack([np.concatenate([u[new], v[new]]), np.concatenate([v[new], u[new]])])
    stays = np.setdiff1d(np.arange(len(kinds)), gone)
    after = molecule.clone()
    after.edge_index = torch.from_numpy(np.concatenate([ends[:, stays], fresh], axis=1))
    bond_kinds = np.concatenate([kinds[stays], np.full(fresh.shape[1], SINGLE)])
    after.edge_attr = torch.eye(len(BONDS), dtype=torch.float64)[torch.from_numpy(bond_kinds)]
    return after


def _both_ways(ends: IntArray, bonds: IntArray) -> IntArray:
    """Places of these edges and of those back."""
    back = [np.flatnonzero((ends[0] == v) & (ends[1] == u)) for u, v in ends[:, bonds].T]
    return np.concatenate([bonds, *back])


def _mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs))

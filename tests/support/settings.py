"""Settings of layers and models whose shares were written down: name and seed -> model and two graphs; their digest."""

import hashlib
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn import models

from support.convolutions import ATTR, CONVOLUTIONS, EVOLUTIONS, TYPE, Convolutions, evolution, randomise
from support.readings import shares_of, without_biases

PNA_OF = {
    "aggregators": ["mean", "min", "max"],
    "scalers": ["identity", "amplification"],
    "deg": torch.tensor([1, 3, 4, 2]),
}
ACTS = ("relu", "elu", "tanh", "leaky_relu", "gelu")
NORMS = (
    {},
    {"norm": "batch_norm"},
    {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}},
    {"norm": "layer_norm"},
    {"norm": "graph_norm"},
    {"norm": "pair_norm"},
)
JUMPS = (None, "cat", "last", "max")
BASIC = {
    "GCN": models.GCN,
    "GraphSAGE": models.GraphSAGE,
    "GIN": models.GIN,
    "GAT": models.GAT,
    "GATv2": lambda *a, **k: models.GAT(*a, v2=True, **k),
    "PNA": lambda *a, **k: models.PNA(*a, **PNA_OF, **k),
    "EdgeCNN": models.EdgeCNN,
}


class Deep(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.first = nn.Linear(3, 6)
        self.layer = models.DeepGCNLayer(pyg.GENConv(6, 6), nn.LayerNorm(6), nn.ReLU(), block=block)
        self.last = pyg.GCNConv(12 if block == "dense" else 6, 3)

    def forward(self, x, edge_index):
        return self.last(self.layer(self.first(x), edge_index), edge_index)


OTHERS = {
    "RECT_L": lambda seed: models.RECT_L(3, 4 + seed % 3),
    "PMLP": lambda seed: models.PMLP(3, 6, 3, 2 + seed % 2),
    "DeepGCNLayer": lambda seed: Deep(("res+", "res", "dense", "plain")[seed % 4]),
}
NAMES = [*CONVOLUTIONS, *(f"model {name}" for name in (*BASIC, *OTHERS))]


def setting(name, seed):
    """A model without biases, and what happens to its graph."""
    start = 1000 * seed + sum(map(ord, name))
    if name.startswith("model "):
        kind = name.removeprefix("model ")
        rng = np.random.default_rng(start)
        torch.manual_seed(start)
        if kind in OTHERS:
            model = OTHERS[kind](seed)
        else:
            options = {
                **NORMS[rng.integers(len(NORMS))],
                "act": ACTS[rng.integers(len(ACTS))],
                "jk": JUMPS[rng.integers(len(JUMPS))],
                "act_first": bool(rng.integers(2)),
            }
            model = BASIC[kind](3, 6, int(1 + rng.integers(3)), 3, **options)
        told = False
    else:
        make, weighted = CONVOLUTIONS[name]
        widths = [3, 3] if seed % 2 == 0 else [3, 6, 3]
        torch.manual_seed(start)
        model = Convolutions([make(a, b) for a, b in pairwise(widths)], weighted, nn.ReLU())
        told = weighted in (ATTR, TYPE)
    model = without_biases(randomise(model, start))
    return model, evolution(start, EVOLUTIONS[seed % 4], num_nodes=7 if seed % 2 == 0 else 5, told=told)


def weight(*key):
    """A number between -1 and 1 for each key."""
    raw = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(raw, "big") / 2**63 - 1


def digest(explainer):
    """The shares of all paths of all targets, each times a number drawn for it; and the largest share."""
    total, scale = 0.0, 1.0
    for target in explainer.moved().target.tolist():
        for path, share in shares_of(explainer.attribute(target)).items():
            scale = max(scale, float(np.abs(share).max()))
            total += sum(one * weight(target, path, c) for c, one in enumerate(share.tolist()))
    return total, scale

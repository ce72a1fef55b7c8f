"""What is read of a model: shares by path, and the lines that its layers were read from."""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    APPNP,
    ChebConv,
    ClusterGCNConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    SGConv,
    TAGConv,
    TransformerConv,
)

NODES, WIDTH = 12, 5
PAIRS = {
    "GCN": lambda: (GCNConv(WIDTH, 8), GCNConv(8, 3)),
    "SAGE": lambda: (SAGEConv(WIDTH, 8), SAGEConv(8, 3)),
    "SAGE, max": lambda: (SAGEConv(WIDTH, 8, aggr="max"), SAGEConv(8, 3, aggr="max")),
    "GIN": lambda: (GINConv(nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 8))), GINConv(nn.Linear(8, 3))),
    "GAT": lambda: (GATConv(WIDTH, 4, heads=2), GATConv(8, 3)),
    "GATv2": lambda: (GATv2Conv(WIDTH, 4, heads=2), GATv2Conv(8, 3)),
    "Transformer": lambda: (TransformerConv(WIDTH, 4, heads=2), TransformerConv(8, 3)),
    "GraphConv": lambda: (GraphConv(WIDTH, 8), GraphConv(8, 3)),
    "Cheb": lambda: (ChebConv(WIDTH, 8, K=3), ChebConv(8, 3, K=2)),
    "TAG": lambda: (TAGConv(WIDTH, 8, K=2), TAGConv(8, 3, K=1)),
    "SG": lambda: (SGConv(WIDTH, 8, K=2), SGConv(8, 3)),
    "APPNP": lambda: (GCNConv(WIDTH, 3), APPNP(3, 0.1)),
    "ClusterGCN": lambda: (ClusterGCNConv(WIDTH, 8), ClusterGCNConv(8, 3)),
}


class Two(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.first, self.second = layers

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def snapshots(seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(NODES, WIDTH, generator=draw, dtype=torch.float64)
    edges = torch.unique(torch.randint(0, NODES, (2, 30), generator=draw), dim=1)
    edges = edges[:, edges[0] != edges[1]]
    others = torch.unique(torch.cat([edges[:, 3:], torch.tensor([[0, 5, 7], [7, 2, 1]])], dim=1), dim=1)
    moved = x.clone()
    moved[3] += 1.0
    return Data(x=x, edge_index=edges), Data(x=moved, edge_index=others)


def without_biases(model):
    """The same model with every bias at 0, and norms that shift nothing."""
    for name, parameter in model.named_parameters():
        if "bias" in name.rsplit(".", 1)[-1]:
            torch.nn.init.zeros_(parameter)
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            torch.nn.init.zeros_(module.running_mean)
    return model


def shares_of(found):
    """Places of each path that has a share -> its shares; edges by their ends."""
    places = {number: tuple(place)[:2] for number, place in found.edge_places.items()}
    shares = {}
    for path, share in zip(found.paths.tolist(), found.contributions, strict=True):
        key = tuple(places.get(place, place) for place in path)
        shares[key] = shares.get(key, 0.0) + share
    return shares


def names_lines(network):
    """Whether a network was read by the operations that a model makes: its layers are named by their lines."""
    return all(".py:" in layer.blocks[-1].name for layer in network.layers)

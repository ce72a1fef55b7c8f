"""Graphs, links and columns: models of every task, and graphs that evolve."""

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, InnerProductDecoder, SAGEConv


def random_graph(rng, num_nodes, density=0.3):
    u, v = np.nonzero(rng.random((num_nodes, num_nodes)) < density)
    x = torch.from_numpy(rng.normal(size=(num_nodes, 4)))
    return Data(x=x, edge_index=torch.from_numpy(np.stack([u, v])))


def evolve(rng, data, edges=2, node=False):
    after = data.clone()
    keep = rng.permutation(after.edge_index.shape[1])[edges:]
    new = torch.from_numpy(rng.integers(0, data.num_nodes, size=(2, edges)))
    after.edge_index = torch.cat([after.edge_index[:, keep], new], dim=1)
    if node:
        after.x = torch.cat([after.x, torch.from_numpy(rng.normal(size=(1, 4)))])
        fresh = torch.tensor([[data.num_nodes, 0], [0, data.num_nodes]])
        after.edge_index = torch.cat([after.edge_index, fresh], dim=1)
    return after


RNG = np.random.default_rng(5)


BEFORE = random_graph(RNG, 9)


class Pooled(nn.Module):
    """A model of whole graphs as people write them; `pool` takes features and `batch`."""

    def __init__(self, pool, conv=GCNConv, out=3):
        super().__init__()
        self.first, self.second, self.pool = conv(4, 6), conv(6, 6), pool
        self.head = nn.Sequential(nn.Linear(12, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, out))

    def forward(self, x, edge_index, batch):
        h = self.first(x, edge_index).relu()
        g = self.second(h, edge_index).tanh()
        return self.head(torch.cat([self.pool(h, batch), self.pool(g, batch)], dim=-1))


class Linked(nn.Module):
    """A model of links as people write them."""

    def __init__(self, decoder):
        super().__init__()
        self.first, self.second = GCNConv(4, 6), SAGEConv(6, 5)
        self.linear, self.matrix = nn.Linear(10, 2), nn.Parameter(torch.randn(5, 5))
        self.bilinear = nn.Bilinear(5, 5, 3)
        self.mlp = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))
        self.decoder, self.inner = decoder, InnerProductDecoder()

    def forward(self, x, edge_index, edge_label_index):
        z = self.second(self.first(x, edge_index).relu(), edge_index)
        u, v = z[edge_label_index[0]], z[edge_label_index[1]]
        return {
            "dot": lambda: (u * v).sum(dim=-1).sigmoid(),
            "raw dot": lambda: (u * v).sum(dim=-1),
            "inner": lambda: self.inner(z, edge_label_index),
            "bilinear": lambda: (u @ self.matrix * v).sum(dim=-1, keepdim=True).sigmoid(),
            "bilinear module": lambda: self.bilinear(u, v),
            "concatenated": lambda: self.linear(torch.cat([u, v], dim=-1)),
            "multiplied": lambda: self.mlp(u * v).sigmoid().view(-1),
            "selected": lambda: self.linear(
                torch.cat([z.index_select(0, edge_label_index[0]), z.index_select(0, edge_label_index[1])], 1)
            ).log_softmax(-1),
        }[self.decoder]()


def logits_of(answer, output):
    """What the model gave, undone by hand: the logits that a sigmoid or softmax was given."""
    values = answer.detach().double().reshape(len(answer), -1)
    return torch.logit(values).numpy() if output == "sigmoid" else values.numpy()


class Columns(nn.Module):
    def __init__(self, columns, end):
        super().__init__()
        self.first, self.second, self.end = GCNConv(4, 6), GCNConv(6, columns), end

    def forward(self, x, edge_index):
        h = self.second(self.first(x, edge_index).relu(), edge_index)
        return h.sigmoid() if self.end else h

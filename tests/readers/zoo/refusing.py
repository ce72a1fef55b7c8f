"""Models that must be refused, or may be: chance, choices by features, values that leave torch, states and caches."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GCNConv, SAGPooling, global_mean_pool
from torch_geometric.utils import softmax

from .scattering import neighbour_mean


class Small(nn.Module):
    """A convolution and a head, which each of the others uses in its own way."""

    def __init__(self, hidden=5, outputs=3):
        super().__init__()
        self.conv, self.out = nn.Linear(4, 5), nn.Linear(hidden, outputs)

    def embed(self, x, edge_index):
        return F.relu(self.conv(x + neighbour_mean(x, edge_index)))


class BestScores(Small):
    """Only the three nodes of highest score are read out."""

    def forward(self, x, edge_index):
        h = self.embed(x, edge_index)
        best = h.sum(dim=1).topk(3).indices
        return self.out(h[best].mean(dim=0, keepdim=True))


class PooledByScore(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool, self.out = GCNConv(4, 5), SAGPooling(5, ratio=0.5), nn.Linear(5, 3)

    def forward(self, x, edge_index, batch):
        h = F.relu(self.conv(x, edge_index))
        h, _, _, batch, _, _ = self.pool(h, edge_index, None, batch)
        return self.out(global_mean_pool(h, batch))


class SortedNodes(Small):
    """SortPool: nodes in the order of their last column, the first four side by side."""

    def __init__(self):
        super().__init__(hidden=20)

    def forward(self, x, edge_index):
        h = self.embed(x, edge_index)
        order = torch.argsort(h[:, -1] + 1e-3 * h[:, 0], descending=True)
        return self.out(h[order[:4]].reshape(1, -1))


class DropoutLeftOn(Small):
    def forward(self, x, edge_index):
        return self.out(F.dropout(self.embed(x, edge_index), 0.5))


class RandomColumns(Small):
    """Random features for each node, as some positional codes are."""

    def __init__(self):
        super().__init__(hidden=7)

    def forward(self, x, edge_index):
        noise = torch.randn(x.size(0), 2, dtype=x.dtype)
        return self.out(torch.cat([self.embed(x, edge_index), noise], dim=1))


class SampledNeighbours(Small):
    """A random half of the edges, in evaluation too."""

    def forward(self, x, edge_index):
        kept = torch.randperm(edge_index.size(1))[: edge_index.size(1) // 2]
        return self.out(self.embed(x, edge_index[:, kept]))


class GumbelEdges(Small):
    """Edges are kept or not by a draw from a learnt probability."""

    def forward(self, x, edge_index):
        h = F.relu(self.conv(x))
        scores = (h[edge_index[0]] * h[edge_index[1]]).sum(-1)
        gate = F.gumbel_softmax(torch.stack([scores, -scores], dim=-1), hard=True)[:, :1]
        return self.out(torch.zeros_like(h).index_add_(0, edge_index[1], gate * h[edge_index[0]]))


class NumpyOfFeatures(Small):
    def forward(self, x, edge_index):
        h = self.embed(x, edge_index)
        return self.out(h + torch.from_numpy(np.tanh(h.detach().numpy())))


class PythonNumbers(Small):
    """A Python list of what nodes hold."""

    def forward(self, x, edge_index):
        scale = max(abs(value) for value in x[:, 0].tolist())
        return self.out(self.embed(x, edge_index) / (1 + scale))


class BranchOnFeatures(Small):
    def forward(self, x, edge_index):
        h = self.embed(x, edge_index)
        if h.abs().max() > 1:
            h = h / 2
        return self.out(h)


class StopsWhenSettled(Small):
    """Propagates until nothing moves by more than a tolerance."""

    def forward(self, x, edge_index):
        h = self.embed(x, edge_index)
        for _ in range(10):
            new = 0.5 * neighbour_mean(h, edge_index) + 0.1 * h
            if (new - h).norm() < 0.3:
                break
            h = new
        return self.out(h)


class NearestNeighbours(Small):
    """Edges of its own: the three nearest in feature space."""

    def forward(self, x, edge_index):
        nearest = torch.cdist(x, x).topk(3, largest=False).indices
        return self.out(self.embed(x, edge_index) + F.relu(self.conv(x))[nearest].mean(dim=1))


class SimilarityGraph(Small):
    """An adjacency of all pairs more similar than a threshold."""

    def forward(self, x, edge_index):
        unit = F.normalize(x, dim=-1)
        adj = (unit @ unit.t() > 0.3).to(x.dtype)
        return self.out(self.embed(x, edge_index) + (adj / adj.sum(1, keepdim=True)) @ F.relu(self.conv(x)))


class HardestNeighbour(Small):
    """Each node listens to the neighbour of the highest score, found by argmax."""

    def forward(self, x, edge_index):
        n = x.size(0)
        adj = torch.zeros(n, n, dtype=torch.bool)
        adj[edge_index[1], edge_index[0]] = True
        adj.fill_diagonal_(True)
        h = F.relu(self.conv(x))
        best = (h @ h.t()).masked_fill(~adj, -1e9).argmax(dim=1)
        return self.out(h + h[best])


class MedianNeighbour(Small):
    """The median of what neighbours send."""

    def forward(self, x, edge_index):
        h = F.relu(self.conv(x))
        heard = [torch.cat([h[v : v + 1], h[edge_index[0][edge_index[1] == v]]]) for v in range(x.size(0))]
        return self.out(torch.stack([rows.median(dim=0).values for rows in heard]))


class LstmOfNeighbours(nn.Module):
    """Neighbours in the order of their edges, read by an LSTM."""

    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        rows = []
        for v in range(x.size(0)):
            heard = torch.cat([x[v : v + 1], x[edge_index[0][edge_index[1] == v]]])
            rows.append(self.lstm(heard[None])[1][0][0, 0])
        return self.out(torch.stack(rows))


class CachedConv(nn.Module):
    """PyG's own cache of a normalisation."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = GCNConv(4, 5, cached=True), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        return self.out(F.relu(self.conv(x, edge_index)))


class OwnCache(Small):
    """Degrees are computed on the first call, and kept."""

    def __init__(self):
        super().__init__()
        self.scale = None

    def forward(self, x, edge_index):
        if self.scale is None:
            self.scale = torch.bincount(edge_index[1], minlength=x.size(0)).clamp(min=1).to(x.dtype)[:, None]
        return self.out(self.embed(x, edge_index) / self.scale)


def used_before(make):
    """A model that has answered for another graph before."""
    model, ring = make().double(), torch.arange(9)
    model(torch.ones(9, 4, dtype=torch.float64), torch.stack([ring, ring.roll(1)]))
    return model


def without_cache(model):
    """What PyG's caches are taken to mean: the convolution itself, on the graph that is given."""
    model.conv.cached, model.conv._cached_edge_index = False, None
    return model


class KeepsState(Small):
    """What it answered last time is a part of what it answers now."""

    def __init__(self):
        super().__init__()
        self.register_buffer("memory", torch.zeros(5))

    def forward(self, x, edge_index):
        h = self.embed(x, edge_index) + self.memory
        self.memory = 0.5 * self.memory + 0.5 * h.mean(dim=0).detach()
        return self.out(h)


class CountsCalls(Small):
    """A Python number that grows with every call scales the answer."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, edge_index):
        self.calls += 1
        return self.out(self.embed(x, edge_index) * (1 + 0.1 * self.calls))


class OwnAdjacency(Small):
    """A matrix that the model was built with; the graph's own edges are not looked at."""

    def __init__(self):
        super().__init__()
        self.adj = torch.eye(9, dtype=torch.float64).roll(1, 0)

    def forward(self, x, edge_index):
        return self.out(F.relu(self.adj @ self.conv(x)))


SCALE = torch.linspace(0.5, 1.5, 5, dtype=torch.float64)


class ClosedOver(Small):
    """A tensor of the module's file, neither parameter nor argument."""

    def forward(self, x, edge_index):
        return self.out(self.embed(x, edge_index) * SCALE)


class BatchStatistics(nn.Module):
    """Batch norm without statistics of its own."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 5), nn.BatchNorm1d(5, track_running_stats=False)
        self.out = nn.Linear(5, 3)

    def forward(self, x, edge_index):
        return self.out(F.relu(self.norm(self.linear(neighbour_mean(x, edge_index)))))


class LinearAttention(Small):
    """Every node hears every other through keys times values, summed once."""

    def forward(self, x, edge_index):
        h = self.embed(x, edge_index)
        q, k = F.softmax(h, dim=-1), F.softmax(h, dim=0)
        return self.out(h + q @ (k.t() @ h))


class CodedFeatures(Small):
    """A feature's sign picks a row of a table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2, 4)

    def forward(self, x, edge_index):
        return self.out(self.embed(x + self.table((x[:, 0] > 0).long()), edge_index))


class HardGate(Small):
    """Messages pass where a score of both ends is positive."""

    def forward(self, x, edge_index):
        h = F.relu(self.conv(x))
        scores = (h[edge_index[0]] - h[edge_index[1]]).sum(-1, keepdim=True)
        message = torch.where(scores > 0, h[edge_index[0]], torch.zeros_like(h[edge_index[0]]))
        return self.out(h + torch.zeros_like(h).index_add_(0, edge_index[1], message))


class RoundedFeatures(Small):
    def forward(self, x, edge_index):
        return self.out(self.embed(torch.round(x), edge_index))


class AttentionDropped(Small):
    """Attention below a threshold is set to zero, as sparse attention does."""

    def forward(self, x, edge_index):
        h = F.relu(self.conv(x))
        src, dst = edge_index
        alpha = softmax((h[src] * h[dst]).sum(-1), dst, num_nodes=x.size(0))
        alpha = torch.where(alpha > 0.2, alpha, torch.zeros_like(alpha))
        return self.out(h + torch.zeros_like(h).index_add_(0, dst, alpha[:, None] * h[src]))

"""Relations: loops over edge types, bases, embeddings of relations, types of nodes by hand, several edge lists."""

import torch
import torch.nn.functional as F
from torch import nn


def mean_along(h, edge_index):
    ones = torch.ones_like(edge_index[1], dtype=h.dtype)
    count = torch.zeros(h.size(0), dtype=h.dtype).scatter_add_(0, edge_index[1], ones).clamp(min=1)
    return torch.zeros_like(h).index_add_(0, edge_index[1], h[edge_index[0]]) / count[:, None]


class RelationLoop(nn.Module):
    """RGCN by hand."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, 4, 5))
        self.root, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_type):
        out = self.root(x)
        for r in range(2):
            out = out + mean_along(x, edge_index[:, edge_type == r]) @ self.weight[r]
        return self.out(F.relu(out))


class MaskedMessages(RelationLoop):
    """Messages are computed for all edges and taken by mask."""

    def forward(self, x, edge_index, edge_type):
        out = self.root(x)
        for r in edge_type.unique():
            message = (x[edge_index[0]] @ self.weight[r])[edge_type == r]
            out.index_add_(0, edge_index[1][edge_type == r], message)
        return self.out(F.relu(out))


class BasisDecomposition(nn.Module):
    """Weights of relations as mixtures of bases, one matrix gathered for each edge."""

    def __init__(self):
        super().__init__()
        self.bases, self.mix = nn.Parameter(torch.empty(3, 4, 5)), nn.Parameter(torch.empty(2, 3))
        self.root, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_type):
        weight = torch.einsum("rb,bio->rio", self.mix, self.bases)
        message = torch.bmm(x[edge_index[0]].unsqueeze(1), weight[edge_type]).squeeze(1)
        return self.out(torch.relu(self.root(x).index_add(0, edge_index[1], message)))


class ComposedRelations(nn.Module):
    """CompGCN by hand: what is sent is the sender times, or less, the relation's vector."""

    def __init__(self):
        super().__init__()
        self.relation, self.update = nn.Embedding(2, 4), nn.Linear(4, 4)
        self.multiplied, self.subtracted, self.out = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_type):
        src, dst = edge_index
        r = self.relation(edge_type)
        message = self.multiplied(x[src] * r) + self.subtracted(x[src] - r)
        h = torch.zeros(x.size(0), 5, dtype=x.dtype).index_add_(0, dst, message)
        return self.out(torch.tanh(h / edge_index.size(1)))


class LookedUpByRelation(nn.Module):
    """All relations' maps of all nodes, stacked, and picked by (relation, sender)."""

    def __init__(self):
        super().__init__()
        self.maps, self.root = nn.ModuleList(nn.Linear(4, 5, bias=False) for _ in range(2)), nn.Linear(4, 5)
        self.out = nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_type):
        mapped = torch.stack([linear(x) for linear in self.maps])
        message = mapped[edge_type, edge_index[0]]
        return self.out(F.silu(self.root(x).index_add(0, edge_index[1], message)))


class SideBySideRelations(nn.Module):
    """The inter-relation aggregator of fraud detectors: means along three relations beside the node's own."""

    def __init__(self):
        super().__init__()
        self.label, self.inner = nn.Linear(4, 2), nn.ModuleList(nn.Linear(8, 5) for _ in range(3))
        self.out = nn.Linear(4 + 15 + 2, 3)

    def forward(self, x, edge_index, edge_type):
        lists = [edge_index[:, edge_type == 0], edge_index[:, edge_type == 1], edge_index]
        found = [
            F.relu(linear(torch.cat([x, mean_along(x, one)], dim=1)))
            for linear, one in zip(self.inner, lists, strict=True)
        ]
        return self.out(torch.cat([x, *found, torch.tanh(self.label(x))], dim=1))


class ThresholdedRelations(nn.Module):
    """Relations mixed by learnt thresholds, summed in the aggregator."""

    def __init__(self):
        super().__init__()
        self.linear, self.alpha, self.out = nn.Linear(4, 5), nn.Parameter(torch.empty(2, 5)), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_type):
        h = self.linear(x)
        weight = F.softmax(self.alpha, dim=0)
        parts = [mean_along(h, edge_index[:, edge_type == r]) * weight[r] for r in range(2)]
        return self.out(F.relu(h + sum(parts)))


class NearAndFar(nn.Module):
    """Two lists of edges over the same nodes."""

    def __init__(self):
        super().__init__()
        self.near, self.far, self.root, self.out = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_index2):
        h = self.root(x) + self.near(mean_along(x, edge_index)) + self.far(mean_along(x, edge_index2))
        return self.out(mean_along(F.relu(h), edge_index2))


class BalanceTheory(nn.Module):
    """Signed GCN by hand: friends of friends and enemies of enemies."""

    def __init__(self):
        super().__init__()
        self.friend1, self.enemy1 = nn.Linear(8, 3), nn.Linear(8, 3)
        self.friend2, self.enemy2, self.out = nn.Linear(9, 3), nn.Linear(9, 3), nn.Linear(6, 3)

    def forward(self, x, edge_index, edge_index2):
        good = torch.tanh(self.friend1(torch.cat([mean_along(x, edge_index), x], 1)))
        bad = torch.tanh(self.enemy1(torch.cat([mean_along(x, edge_index2), x], 1)))
        friends = [mean_along(good, edge_index), mean_along(bad, edge_index2), good]
        enemies = [mean_along(bad, edge_index), mean_along(good, edge_index2), bad]
        return self.out(torch.cat([self.friend2(torch.cat(friends, 1)), self.enemy2(torch.cat(enemies, 1))], 1))


class TypesOfNodes(nn.Module):
    """Two types of nodes by hand: each has a map of its own, rows are written back by mask."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 3)
        self.across = nn.Linear(5, 5)

    def forward(self, x, edge_index, node_type):
        h = torch.zeros(x.size(0), 5, dtype=x.dtype)
        for kind, linear in enumerate((self.first, self.second)):
            h[node_type == kind] = F.relu(linear(x[node_type == kind]))
        across = node_type[edge_index[0]] != node_type[edge_index[1]]
        return self.out(h + torch.relu(self.across(mean_along(h, edge_index[:, across]))))


class SemanticAttention(nn.Module):
    """HAN by hand: relations weighed by a softmax of scores averaged over all nodes."""

    def __init__(self):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(4, 5) for _ in range(2))
        self.project = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1, bias=False))
        self.out = nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_type):
        z = torch.stack(
            [F.elu(linear(mean_along(x, edge_index[:, edge_type == r]))) for r, linear in enumerate(self.maps)], dim=1
        )
        beta = torch.softmax(self.project(z).mean(0), dim=0)
        return self.out((beta.expand(z.shape[0], *beta.shape) * z).sum(1))


class RelationAsColumn(nn.Module):
    """An edge's relation, one-hot, beside its features in an MLP on edges."""

    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(4 + 3 + 2, 5), nn.ReLU(), nn.Linear(5, 4))
        self.out = nn.Linear(4, 3)

    def forward(self, x, edge_index, edge_attr, edge_type):
        said = torch.cat([x[edge_index[0]], edge_attr, F.one_hot(edge_type, 2).to(x.dtype)], dim=-1)
        return self.out(x + torch.zeros_like(x).index_add_(0, edge_index[1], self.message(said)))

"""Gates: recurrent cells after aggregation, highway connections, GRUs and LSTMs written out, several edge lists."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GCNConv


def neighbour_sum(h, edge_index):
    return torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]])


class GruAfterAggregation(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.cell = nn.Linear(4, 5), nn.GRUCell(5, 5)
        self.message, self.out = nn.Linear(5, 5, bias=False), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = torch.tanh(self.embed(x))
        for _ in range(2):
            h = self.cell(neighbour_sum(self.message(h), edge_index), h)
        return self.out(h)


class GruWrittenOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.update, self.reset, self.candidate = (nn.Linear(8, 4) for _ in range(3))
        self.out = nn.Linear(4, 3)

    def forward(self, x, edge_index):
        m = neighbour_sum(x, edge_index)
        z = torch.sigmoid(self.update(torch.cat([m, x], dim=1)))
        r = torch.sigmoid(self.reset(torch.cat([m, x], dim=1)))
        n = torch.tanh(self.candidate(torch.cat([m, r * x], dim=1)))
        return self.out((1 - z) * x + z * n)


class GatedPropagator(nn.Module):
    """GGNN's propagator on in- and out-matrices, as the well-known PyTorch port has it."""

    def __init__(self):
        super().__init__()
        self.inward, self.outward = nn.Linear(4, 4), nn.Linear(4, 4)
        self.reset = nn.Sequential(nn.Linear(12, 4), nn.Sigmoid())
        self.update = nn.Sequential(nn.Linear(12, 4), nn.Sigmoid())
        self.transform = nn.Sequential(nn.Linear(12, 4), nn.Tanh())
        self.out = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 3))

    def forward(self, x, adj):
        h = x
        for _ in range(2):
            a_in, a_out = torch.mm(adj, self.inward(h)), torch.mm(adj.t(), self.outward(h))
            joined = torch.cat((a_in, a_out, h), 1)
            r, z = self.reset(joined), self.update(joined)
            candidate = self.transform(torch.cat((a_in, a_out, r * h), 1))
            h = (1 - z) * h + z * candidate
        return self.out(torch.cat((h, x), 1))


class LstmCell(nn.Module):
    """An LSTM cell takes what arrives, twice."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(4, 4), nn.Linear(4, 3)

    def forward(self, x, edge_index):
        h, c = x, torch.zeros_like(x)
        for _ in range(2):
            h, c = self.cell(neighbour_sum(h, edge_index), (h, c))
        return self.out(h)


class TwoSnapshots(nn.Module):
    """One convolution over two lists of edges in turn, and a GRU between them."""

    def __init__(self):
        super().__init__()
        self.conv, self.cell, self.out = GCNConv(4, 5), nn.GRUCell(5, 5), nn.Linear(5, 3)

    def forward(self, x, lists):
        h = torch.zeros(x.size(0), 5, dtype=x.dtype)
        for edge_index in lists:
            h = self.cell(F.relu(self.conv(x, edge_index)), h)
        return self.out(h)


class Highway(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.gate, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x, adj):
        t = torch.sigmoid(self.gate(x))
        return self.out(t * F.relu(adj @ self.linear(x)) + (1 - t) * x)


class GraphGru(nn.Module):
    """T-GCN's cell: the gates are graph convolutions."""

    def __init__(self):
        super().__init__()
        self.gates, self.candidate, self.out = nn.Linear(9, 10), nn.Linear(9, 5), nn.Linear(5, 3)
        self.first = nn.Linear(4, 5)

    def forward(self, x, adj):
        h = torch.tanh(self.first(x))
        for _ in range(2):
            r, u = torch.chunk(torch.sigmoid(self.gates(adj @ torch.cat([x, h], dim=1))), 2, dim=1)
            c = torch.tanh(self.candidate(adj @ torch.cat([x, r * h], dim=1)))
            h = u * h + (1.0 - u) * c
        return self.out(h)


class FeatureModulation(nn.Module):
    """FiLM by hand: the receiver scales and shifts what it hears."""

    def __init__(self):
        super().__init__()
        self.message, self.film, self.out = nn.Linear(4, 5, bias=False), nn.Linear(4, 10), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        src, dst = edge_index
        beta, gamma = self.film(x).split(5, dim=-1)
        message = F.relu(gamma[dst] * self.message(x)[src] + beta[dst])
        return self.out(torch.zeros(x.size(0), 5, dtype=x.dtype).index_add_(0, dst, message))


class GatedLinearUnit(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(8, 10), nn.Linear(5, 3)

    def forward(self, x, adj):
        return self.out(F.glu(self.linear(torch.cat([x, adj @ x], dim=-1)), dim=-1))


class SqueezeAndExcite(nn.Module):
    """Columns scaled by a gate of what the whole graph holds."""

    def __init__(self):
        super().__init__()
        self.linear, self.gate, self.out = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = F.relu(self.linear(x + neighbour_sum(x, edge_index)))
        return self.out(h * torch.sigmoid(self.gate(h.mean(dim=0, keepdim=True))))


class PaddedTypedGates(nn.Module):
    """GGNN: features padded to the width of the state, a matrix for each type of edge, a GRU, a gated readout."""

    def __init__(self):
        super().__init__()
        self.maps, self.cell = nn.Parameter(torch.empty(2, 5, 5)), nn.GRUCell(5, 5)
        self.gate, self.out = nn.Linear(9, 1), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_type, batch):
        h = F.pad(x, (0, 1))
        for _ in range(2):
            message = torch.bmm(h[edge_index[0]].unsqueeze(1), self.maps[edge_type]).squeeze(1)
            h = self.cell(torch.zeros_like(h).index_add_(0, edge_index[1], message), h)
        gated = torch.sigmoid(self.gate(torch.cat([h, x], dim=1))) * torch.tanh(h)
        return self.out(torch.zeros(int(batch.max()) + 1, 5, dtype=x.dtype).index_add(0, batch, gated))

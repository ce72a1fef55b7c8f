"""Models that gather and scatter by themselves: index_add, scatter, DGL-style messages, loops, padded lists."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.utils import degree, scatter


def neighbour_mean(h, edge_index):
    total = torch.zeros_like(h)
    total.index_add_(0, edge_index[1], h[edge_index[0]])
    ones = torch.ones(edge_index.shape[1], dtype=h.dtype)
    count = torch.zeros(h.shape[0], dtype=h.dtype).index_add_(0, edge_index[1], ones).clamp_(min=1)
    return total / count.unsqueeze(-1)


class SageByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.self1, self.neigh1 = nn.Linear(4, 5), nn.Linear(4, 5, bias=False)
        self.self2, self.neigh2 = nn.Linear(5, 3), nn.Linear(5, 3, bias=False)

    def forward(self, x, edge_index):
        h = F.relu(self.self1(x) + self.neigh1(neighbour_mean(x, edge_index)))
        return self.self2(h) + self.neigh2(neighbour_mean(h, edge_index))


class ScaledOnBothSides(nn.Module):
    """Features divided by the root of the degree before and after they are sent."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))

    def forward(self, x, edge_index):
        h = z = self.mlp(x)
        root = (torch.bincount(edge_index[1], minlength=x.size(0)).to(x.dtype) + 1).rsqrt()[:, None]
        for _ in range(2):
            message = z * root
            arriving = message.clone()
            arriving.index_add_(0, edge_index[1], message[edge_index[0]])
            z = 0.9 * arriving * root + 0.1 * h
        return z


class Frame(dict):
    """Features by name."""


class Graph:
    """What DGL code uses of a graph, in plain torch."""

    def __init__(self, edge_index, num_nodes):
        self.senders, self.receivers = edge_index
        self.num_nodes, self.ndata, self.edata = num_nodes, Frame(), Frame()

    def apply_edges(self, function):
        self.edata.update(function(self))

    def update_all(self, message, reduce, name):
        sent = message(self)
        out = torch.zeros(self.num_nodes, *sent.shape[1:], dtype=sent.dtype)
        self.ndata[name] = reduce(out, self.receivers, sent)


class DglStyle(nn.Module):
    """Messages and reductions as functions of a graph that holds features by name."""

    def __init__(self):
        super().__init__()
        self.own, self.neigh, self.out = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        g = Graph(edge_index, x.size(0))
        g.ndata["h"] = x
        g.update_all(lambda g: self.neigh(g.ndata["h"])[g.senders], lambda o, i, m: o.index_add(0, i, m), "n")
        g.ndata["h"] = F.relu(self.own(x) + g.ndata["n"])
        g.apply_edges(lambda g: {"m": (g.ndata["h"][g.senders] - g.ndata["h"][g.receivers]).abs()})
        g.update_all(lambda g: g.edata["m"], lambda o, i, m: o.index_add(0, i, m), "d")
        return self.out(g.ndata["h"] + g.ndata.pop("d"))


class EdgeFeaturesSelected(nn.Module):
    """GIN with edge features: index_select, and scatter_add along a repeated index."""

    def __init__(self):
        super().__init__()
        self.bond = nn.Linear(3, 4)
        self.mlp = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))
        self.eps = nn.Parameter(torch.zeros(1))

    def forward(self, x, edge_index, edge_attr):
        message = torch.relu(torch.index_select(x, 0, edge_index[0]) + self.bond(edge_attr))
        arriving = torch.zeros(x.size(0), 4).to(message)
        arriving.scatter_add_(0, edge_index[1].unsqueeze(-1).repeat(1, 4), message)
        return self.mlp((1 + self.eps) * x + arriving)


class LargestNeighbour(nn.Module):
    """The largest and the least of what neighbours send, by scatter_reduce."""

    def __init__(self):
        super().__init__()
        self.pool, self.out = nn.Linear(4, 5), nn.Linear(14, 3)

    def forward(self, x, edge_index):
        sent = F.relu(self.pool(x))[edge_index[0]]
        index = edge_index[1].view(-1, 1).expand_as(sent)
        high = torch.zeros(x.size(0), 5, dtype=x.dtype).scatter_reduce(0, index, sent, "amax", include_self=False)
        low = torch.zeros(x.size(0), 5, dtype=x.dtype).scatter_reduce(0, index, sent, "amin", include_self=False)
        return self.out(torch.cat([x, high, low], dim=1))


class ScatterMeanReduce(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(8, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        index = edge_index[1].unsqueeze(1).expand(-1, 4)
        mean = torch.zeros_like(x).scatter_reduce_(0, index, x[edge_index[0]], reduce="mean", include_self=False)
        return self.out(F.softplus(self.first(torch.cat([x, mean], dim=-1))))


class DegreeScalers(nn.Module):
    """PNA by hand: mean, largest, deviation, each times three functions of the degree."""

    def __init__(self):
        super().__init__()
        self.pre, self.post = nn.Linear(8, 4), nn.Linear(4 + 36, 3)

    def forward(self, x, edge_index):
        senders, receivers = edge_index
        n = x.size(0)
        h = self.pre(torch.cat([x[receivers], x[senders]], dim=-1))
        mean = scatter(h, receivers, dim=0, dim_size=n, reduce="mean")
        square = scatter(h * h, receivers, dim=0, dim_size=n, reduce="mean")
        deviation = torch.sqrt(F.relu(square - mean * mean) + 1e-5)
        found = torch.cat([mean, scatter(h, receivers, dim=0, dim_size=n, reduce="max"), deviation], dim=-1)
        size = torch.log(degree(receivers, n, dtype=x.dtype).view(-1, 1) + 1)
        scaled = torch.cat([found, found * (size / 1.2), found * (1.2 / size.clamp(min=0.5))], dim=-1)
        return self.post(torch.cat([x, scaled], dim=-1))


class IndexPut(nn.Module):
    """index_put with accumulate, and rows written where the mask says."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = torch.tanh(self.linear(x))
        arriving = torch.zeros_like(h).index_put((edge_index[1],), h[edge_index[0]], accumulate=True)
        hears = torch.zeros(x.size(0), dtype=torch.bool)
        hears[edge_index[1]] = True
        updated = h.clone()
        updated[hears] = torch.tanh(arriving[hears])
        return self.out(updated)


class LoopOverNodes(nn.Module):
    """The first GNN of many: for each node, the mean of its neighbours."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(8, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        rows = []
        for v in range(x.size(0)):
            neighbours = edge_index[0][edge_index[1] == v]
            mean = x[neighbours].mean(dim=0) if len(neighbours) else torch.zeros(4, dtype=x.dtype)
            rows.append(torch.cat([x[v], mean]))
        return self.out(torch.relu(self.first(torch.stack(rows))))


class LoopOverEdges(nn.Module):
    """Rows added one edge at a time."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = self.linear(x)
        out = h.clone()
        for u, v in edge_index.t().tolist():
            out[v] += 0.5 * h[u]
        return self.out(torch.relu(out))


class PaddedNeighbours(nn.Module):
    """Neighbour lists padded to the largest degree, and a mask, as molecule code has them."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(9, 3)

    def forward(self, x, edge_index):
        n = x.size(0)
        lists = [[u for u, w in edge_index.t().tolist() if w == v] for v in range(n)]
        longest = max(map(len, lists))
        table = torch.tensor([one + [n] * (longest - len(one)) for one in lists])
        padded = torch.cat([torch.relu(self.linear(x)), torch.zeros(1, 5, dtype=x.dtype)])
        gathered = padded.index_select(0, table.view(-1)).view(n, longest, 5)
        return self.out(torch.cat([x, gathered.sum(dim=1)], dim=1))


class BondMessages(nn.Module):
    """Messages live on edges and never turn back, as in D-MPNN."""

    def __init__(self):
        super().__init__()
        self.input, self.hidden, self.out = nn.Linear(7, 5), nn.Linear(5, 5, bias=False), nn.Linear(9, 3)

    def forward(self, x, edge_index, edge_attr):
        senders, receivers = edge_index
        follows = (receivers[None, :] == senders[:, None]) & (senders[None, :] != receivers[:, None])
        first = self.input(torch.cat([x[senders], edge_attr], dim=1))
        message = F.relu(first)
        for _ in range(2):
            message = F.relu(first + self.hidden(follows.to(x.dtype) @ message))
        arriving = torch.zeros(x.size(0), 5, dtype=x.dtype).index_add_(0, receivers, message)
        return self.out(torch.cat([x, arriving], dim=1))


def segment_sum(values, index, size):
    """As EGNN's code has it."""
    out = values.new_full((size, values.size(1)), 0)
    return out.scatter_add_(0, index.unsqueeze(-1).expand(-1, values.size(1)), values)


class EquivariantLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * width + 1, 5), nn.SiLU(), nn.Linear(5, 5), nn.SiLU())
        self.node = nn.Sequential(nn.Linear(width + 5, 5), nn.SiLU(), nn.Linear(5, width))
        self.coordinate = nn.Sequential(nn.Linear(5, 5), nn.SiLU(), nn.Linear(5, 1, bias=False))

    def forward(self, h, pos, edge_index):
        row, col = edge_index
        difference = pos[row] - pos[col]
        radial = torch.sum(difference**2, 1).unsqueeze(1)
        message = self.edge(torch.cat([h[row], h[col], radial], dim=1))
        pos = pos + segment_sum(difference * self.coordinate(message), row, pos.size(0))
        return h + self.node(torch.cat([h, segment_sum(message, row, h.size(0))], dim=1)), pos


class Equivariant(nn.Module):
    """EGNN, with positions that the layers move."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = EquivariantLayer(4), EquivariantLayer(4), nn.Linear(4, 3)

    def forward(self, x, edge_index, pos):
        h, pos = self.first(x, pos, edge_index)
        h, pos = self.second(h, pos, edge_index)
        return self.out(h)


class SortedSegments(nn.Module):
    """Edges sorted by receiver, and segment_reduce over row lengths."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        order = torch.argsort(edge_index[1], stable=True)
        lengths = torch.bincount(edge_index[1], minlength=x.size(0))
        h = self.linear(x)
        arriving = torch.segment_reduce(h[edge_index[0][order]], "sum", lengths=lengths, initial=0)
        return self.out(F.relu(h + arriving))


class NormalisedGates(nn.Module):
    """GatedGCN by hand: gates on edges, divided by their sum at the receiver."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.d, self.e = (nn.Linear(4, 4) for _ in range(4))
        self.c, self.norm, self.out = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x, edge_index, edge_attr):
        src, dst = edge_index
        gate = torch.sigmoid(self.d(x)[src] + self.e(x)[dst] + self.c(edge_attr))
        above = torch.zeros_like(x).index_add_(0, dst, gate * self.b(x)[src])
        below = torch.zeros_like(x).index_add_(0, dst, gate)
        return self.out(x + F.relu(self.norm(self.a(x) + above / (below + 1e-6))))


class GraphNetworkBlock(nn.Module):
    """Edge, node and global updates in turn."""

    def __init__(self):
        super().__init__()
        self.edge, self.node, self.whole = nn.Linear(15, 5), nn.Linear(13, 4), nn.Linear(8, 4)
        self.out = nn.Linear(8, 3)

    def forward(self, x, edge_index, edge_attr):
        row, col = edge_index
        u = x.mean(dim=0, keepdim=True)
        e = F.relu(self.edge(torch.cat([x[row], x[col], edge_attr, u.expand(row.size(0), -1)], dim=1)))
        arriving = scatter(e, col, dim=0, dim_size=x.size(0), reduce="mean")
        h = F.relu(self.node(torch.cat([x, arriving, u.expand(x.size(0), -1)], dim=1)))
        u = self.whole(torch.cat([u, h.mean(dim=0, keepdim=True)], dim=1))
        return self.out(torch.cat([h, u.expand(x.size(0), -1)], dim=1))


class SignedWeights(nn.Module):
    """Edges of positive and of small weight go different ways."""

    def __init__(self):
        super().__init__()
        self.strong, self.weak, self.root = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x, edge_index, edge_weight):
        out = self.root(x)
        for mask, linear in ((edge_weight > 1, self.strong), (edge_weight <= 1, self.weak)):
            part = edge_index[:, mask]
            out = out.index_add(0, part[1], F.relu(linear(x))[part[0]] * edge_weight[mask].unsqueeze(-1))
        return out


class ColumnsInPlace(nn.Module):
    """A buffer whose columns are written, added to and scaled in place."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 4), nn.Linear(8, 3)

    def forward(self, x, edge_index):
        buffer = torch.zeros(x.size(0), 8, dtype=x.dtype)
        buffer[:, :4] = F.relu(self.linear(x))
        buffer[:, 4:].index_add_(0, edge_index[1], buffer[:, :4][edge_index[0]])
        buffer[:, :2] *= 2
        return self.out(buffer)


class SizesInArithmetic(nn.Module):
    """Numbers of nodes and edges as plain numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        scale = edge_index.size(1) / x.size(0)
        h = F.relu(self.first(torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]]) / scale))
        return self.out(h + h.mean(0) / len(edge_index[0]) ** 0.5)


class ChoosesByDegree(nn.Module):
    """Another map for nodes of high degree, and a mean only where there is something to average."""

    def __init__(self):
        super().__init__()
        self.low, self.high = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x, edge_index):
        count = degree(edge_index[1], x.size(0), dtype=x.dtype)[:, None]
        total = scatter(x[edge_index[0]], edge_index[1], dim=0, dim_size=x.size(0))
        h = torch.where(count > 1, total / count.clamp(min=1), x)
        return torch.where(count > 2, self.low(h), self.high(F.relu(h)))


class DecidesOnSizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = F.relu(self.linear(neighbour_mean(x, edge_index)))
        return self.out(h * 0.5 if edge_index.size(1) > 14 else h)


class PreNormResidual(nn.Module):
    """Layer norm first, and a residual after the activation."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Linear(4, 5), nn.Linear(5, 3)
        self.norms = nn.ModuleList(nn.LayerNorm(5) for _ in range(2))
        self.maps = nn.ModuleList(nn.Linear(5, 5) for _ in range(2))

    def forward(self, x, edge_index):
        h = self.embed(x)
        for norm, linear in zip(self.norms, self.maps, strict=True):
            h = h + F.gelu(linear(neighbour_mean(norm(h), edge_index)))
        return self.out(h)


class PairNormByHand(nn.Module):
    """Columns centred over all nodes, and one length for the whole graph."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = self.first(neighbour_mean(x, edge_index))
        h = h - h.mean(dim=0)
        h = h / (1e-6 + h.pow(2).sum(dim=1).mean()).sqrt()
        return self.out(F.relu(h))


class JumpsByHand(nn.Module):
    """All layers stacked, and the largest of each column."""

    def __init__(self):
        super().__init__()
        self.maps, self.out = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 3)

    def forward(self, x, edge_index):
        layers = []
        for linear in self.maps:
            x = F.relu(linear(x + neighbour_mean(x, edge_index)))
            layers.append(x)
        return self.out(torch.stack(layers, dim=0).max(dim=0)[0])


class StandardisedRows(nn.Module):
    """Layer norm written out with std, and rows of length 1."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(4, 5), nn.Linear(5, 3)
        self.gain, self.shift = nn.Parameter(torch.empty(5)), nn.Parameter(torch.empty(5))

    def forward(self, x, edge_index):
        h = self.first(x)
        h = self.gain * (h - h.mean(-1, keepdim=True)) / (h.std(-1, keepdim=True) + 1e-6) + self.shift
        return self.out(F.normalize(neighbour_mean(F.relu(h), edge_index) + x.sum(1, keepdim=True), p=2, dim=-1))


class SwishByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = self.first(neighbour_mean(x, edge_index))
        h = torch.where(h > 0, h, 0.1 * h)
        return self.out(h * torch.sigmoid(h))


class ParityOfNodes(nn.Module):
    """Nodes of even number get one map, the others another; results are put back by slices."""

    def __init__(self):
        super().__init__()
        self.even, self.odd, self.out = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = torch.empty(x.size(0), 5, dtype=x.dtype)
        h[0::2] = F.relu(self.even(x[0::2]))
        h[1::2] = F.relu(self.odd(x[1::2]))
        return self.out(neighbour_mean(h, edge_index) + h)

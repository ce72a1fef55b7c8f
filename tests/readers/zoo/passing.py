"""Layers that people write on PyG's MessagePassing: the tutorials' first ones, and what follows them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import add_self_loops, degree, remove_self_loops, softmax


class Stacked(nn.Module):
    """Two layers of one kind with an activation between them."""

    def __init__(self, layer, *arguments):
        super().__init__()
        self.first, self.second = layer(4, 5, *arguments), layer(5, 3, *arguments)

    def forward(self, x, edge_index):
        h = F.relu(self.first(x, edge_index))
        return self.second(F.dropout(h, 0.5, training=self.training), edge_index)


class TutorialConv(MessagePassing):
    def __init__(self, inputs, outputs):
        super().__init__(aggr="add")
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        x = self.linear(x)
        senders, receivers = edge_index
        root = degree(receivers, x.size(0), dtype=x.dtype).pow(-0.5)
        root[root == float("inf")] = 0
        return self.propagate(edge_index, x=x, norm=root[senders] * root[receivers]) + self.bias

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


class TutorialGCN(nn.Module):
    """The custom layer of PyG's documentation, twice."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([TutorialConv(4, 5), TutorialConv(5, 3)])

    def forward(self, x, edge_index):
        x = F.dropout(F.relu(self.convs[0](x, edge_index)), training=self.training)
        return F.log_softmax(self.convs[1](x, edge_index), dim=1)


class EdgeLayer(MessagePassing):
    """The tutorial's edge convolution, by any aggregation."""

    def __init__(self, inputs, outputs, aggr):
        super().__init__(aggr=aggr)
        self.mlp = nn.Sequential(nn.Linear(2 * inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.mlp(torch.cat([x_i, x_j - x_i], dim=1))


class MeanLayer(MessagePassing):
    """GraphSAGE by hand: update sees what arrives beside the node's own features."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr="mean")
        self.message_map, self.update_map = nn.Linear(inputs, outputs), nn.Linear(inputs + outputs, outputs)

    def forward(self, x, edge_index):
        edge_index, _ = remove_self_loops(edge_index)
        return self.propagate(edge_index, x=x, size=(x.size(0), x.size(0)))

    def message(self, x_j):
        return F.relu(self.message_map(x_j))

    def update(self, arriving, x):
        return self.update_map(torch.cat([arriving, x], dim=-1))


class SumLayer(MessagePassing):
    """GIN by hand, with a learnt epsilon and batch norm."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr="add")
        self.mlp = nn.Sequential(nn.Linear(inputs, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, outputs))
        self.eps = nn.Parameter(torch.zeros(1))

    def forward(self, x, edge_index):
        return self.mlp((1 + self.eps) * x + self.propagate(edge_index, x=x))


class WeightedLayer(MessagePassing):
    def __init__(self, inputs, outputs):
        super().__init__(aggr="add", flow="target_to_source")
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, edge_index, edge_weight):
        return self.propagate(edge_index, x=self.linear(x), edge_weight=edge_weight)

    def message(self, x_j, edge_weight):
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j


class WeightedBackwards(nn.Module):
    """Weights of edges, messages against their direction."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = WeightedLayer(4, 5), WeightedLayer(5, 3)

    def forward(self, x, edge_index, edge_weight):
        return self.conv2(torch.tanh(self.conv1(x, edge_index, edge_weight)), edge_index, edge_weight)


class BondLayer(MessagePassing):
    """The layer of OGB's molecules: relu of the sender plus the bond."""

    def __init__(self, width):
        super().__init__(aggr="add")
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.eps, self.bond = nn.Parameter(torch.zeros(1)), nn.Linear(3, width)

    def forward(self, x, edge_index, edge_attr):
        return self.mlp((1 + self.eps) * x + self.propagate(edge_index, x=x, edge_attr=self.bond(edge_attr)))

    def message(self, x_j, edge_attr):
        return F.relu(x_j + edge_attr)

    def update(self, arriving):
        return arriving


class Bonds(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = BondLayer(4), nn.Linear(4, 3)

    def forward(self, x, edge_index, edge_attr):
        return self.out(F.relu(self.conv(x, edge_index, edge_attr)))


class MatrixLayer(MessagePassing):
    """A matrix for each edge, made of its features."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr="mean")
        self.inputs, self.outputs = inputs, outputs
        self.network = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, inputs * outputs))
        self.root = nn.Linear(inputs, outputs)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr) + self.root(x)

    def message(self, x_j, edge_attr):
        weight = self.network(edge_attr).view(-1, self.inputs, self.outputs)
        return torch.matmul(x_j.unsqueeze(1), weight).squeeze(1)


class EdgeMatrices(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = MatrixLayer(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_attr):
        return self.out(F.elu(self.conv(x, edge_index, edge_attr)))


class AttentionLayer(MessagePassing):
    """Attention by hand, normalised by PyG's softmax over the edges of a receiver."""

    def __init__(self, inputs, outputs, heads):
        super().__init__(aggr="add", node_dim=0)
        self.linear = nn.Linear(inputs, heads * outputs, bias=False)
        self.attention = nn.Parameter(torch.empty(1, heads, 2 * outputs))
        self.heads, self.outputs = heads, outputs

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=x.size(0))
        x = self.linear(x).view(-1, self.heads, self.outputs)
        return self.propagate(edge_index, x=x).mean(dim=1)

    def message(self, x_i, x_j, index, ptr, size_i):
        scores = (torch.cat([x_i, x_j], dim=-1) * self.attention).sum(dim=-1)
        alpha = softmax(F.leaky_relu(scores, 0.2), index, ptr, size_i)
        return x_j * F.dropout(alpha, 0.6, training=self.training).unsqueeze(-1)


class EdgeUpdateLayer(MessagePassing):
    """Attention computed by edge_updater first."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr="add")
        self.linear = nn.Linear(inputs, outputs)
        self.source, self.target = nn.Linear(outputs, 1, bias=False), nn.Linear(outputs, 1, bias=False)

    def forward(self, x, edge_index):
        x = self.linear(x)
        alpha = self.edge_updater(edge_index, alpha=(self.source(x), self.target(x)))
        return self.propagate(edge_index, x=x, alpha=alpha)

    def edge_update(self, alpha_j, alpha_i, index, ptr, size_i):
        return softmax(torch.tanh(alpha_j + alpha_i), index, ptr, size_i)

    def message(self, x_j, alpha):
        return x_j * alpha


class GruLayer(MessagePassing):
    """A GRU cell as update."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr="add")
        self.inner, self.cell = nn.Linear(inputs, outputs), nn.GRUCell(outputs, outputs)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_j):
        return self.inner(x_j)

    def update(self, arriving, x):
        return self.cell(arriving, x)


class GruUpdates(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.conv, self.out = nn.Linear(4, 5), GruLayer(5, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = self.embed(x)
        for _ in range(2):
            h = self.conv(h, edge_index)
        return self.out(h)


class GatedLayer(MessagePassing):
    """A gate of both ends multiplies what is sent."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr="add")
        self.gate, self.linear, self.skip = (nn.Linear(size, outputs) for size in (2 * inputs, inputs, inputs))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x) + self.skip(x)

    def message(self, x_i, x_j):
        return torch.sigmoid(self.gate(torch.cat([x_i, x_j], dim=-1))) * self.linear(x_j)


class SeveralAggregations(MessagePassing):
    """Sum, mean and maximum side by side."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr=["sum", "mean", "max"])
        self.linear = nn.Linear(4 * inputs, outputs)

    def forward(self, x, edge_index):
        return self.linear(torch.cat([x, self.propagate(edge_index, x=x)], dim=-1))

    def message(self, x_j):
        return x_j


class HopsSideBySide(MessagePassing):
    """Powers of the normalised adjacency, one linear map for each."""

    def __init__(self):
        super().__init__(aggr="add")
        self.maps = nn.ModuleList(nn.Linear(4, 3, bias=i == 0) for i in range(3))

    def forward(self, x, edge_index):
        senders, receivers = edge_index
        root = degree(receivers, x.size(0), dtype=x.dtype).clamp(min=1).rsqrt()
        out = self.maps[0](x)
        for linear in self.maps[1:]:
            x = self.propagate(edge_index, x=x, norm=(root[senders] * root[receivers])[:, None])
            out = out + linear(x)
        return out

    def message(self, x_j, norm):
        return norm * x_j


class FusedLayer(MessagePassing):
    """message_and_aggregate of a sparse matrix, as the tutorial on memory has it."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr="add")
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, edge_index):
        n = x.size(0)
        ones = torch.ones(edge_index.size(1), dtype=x.dtype)
        matrix = torch.sparse_coo_tensor(edge_index.flip(0), ones, (n, n)).coalesce()
        return self.linear(self.propagate(matrix, x=x))

    def message(self, x_j):
        return x_j

    def message_and_aggregate(self, edge_index, x):
        return torch.sparse.mm(edge_index, x)


class SenderAndReceiverMaps(MessagePassing):
    """A pair of feature matrices is sent, as bipartite layers do."""

    def __init__(self, inputs, outputs):
        super().__init__(aggr="max")
        self.sender, self.receiver = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=(self.sender(x), self.receiver(x)))

    def message(self, x_i, x_j):
        return F.leaky_relu(x_i + x_j)

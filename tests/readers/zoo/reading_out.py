"""Graphs and links: readouts by hand, what is given back to nodes, virtual nodes, decoders, recommenders."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import (
    GCNConv,
    GINConv,
    GraphNorm,
    MetaLayer,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import scatter, softmax


class MeanPool(nn.Module):
    """The tutorial's graph classifier."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.linear = GCNConv(4, 5), GCNConv(5, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index, batch):
        x = self.conv2(self.conv1(x, edge_index).relu(), edge_index)
        x = global_mean_pool(x, batch)
        return self.linear(F.dropout(x, p=0.5, training=self.training))


class PooledByHand(nn.Module):
    """Sum, mean and maximum over a graph by index_add and scatter_reduce."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = GCNConv(4, 5), nn.Linear(15, 3)

    def forward(self, x, edge_index, batch):
        h = torch.tanh(self.conv(x, edge_index))
        size = int(batch.max()) + 1
        total = torch.zeros(size, 5, dtype=x.dtype).index_add_(0, batch, h)
        count = torch.zeros(size, dtype=x.dtype).index_add_(0, batch, torch.ones_like(batch, dtype=x.dtype))
        index = batch[:, None].expand_as(h)
        high = torch.full((size, 5), -1e9, dtype=x.dtype).scatter_reduce(0, index, h, "amax")
        return self.out(torch.cat([total, total / count[:, None], high], dim=1))


class OneGraph(nn.Module):
    """A single graph: the mean of its rows."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = GCNConv(4, 5), nn.Linear(10, 3)

    def forward(self, x, edge_index):
        h = F.relu(self.conv(x, edge_index))
        return self.out(torch.cat([h.sum(0, keepdim=True) / x.size(0), h.max(dim=0, keepdim=True).values], dim=1))


class AttentionReadout(nn.Module):
    """A gate's softmax over the nodes of each graph."""

    def __init__(self):
        super().__init__()
        self.conv, self.gate, self.out = GCNConv(4, 5), nn.Linear(5, 1), nn.Linear(5, 3)

    def forward(self, x, edge_index, batch):
        h = F.relu(self.conv(x, edge_index))
        return self.out(global_add_pool(softmax(self.gate(h), batch) * h, batch))


class EveryLayerRead(nn.Module):
    """GIN's readout: a linear map of every layer's pool, summed."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(GINConv(nn.Linear(width, 5)) for width in (4, 5))
        self.maps = nn.ModuleList(nn.Linear(width, 3) for width in (4, 5, 5))

    def forward(self, x, edge_index, batch):
        out = self.maps[0](global_add_pool(x, batch))
        for conv, linear in zip(self.convs, self.maps[1:], strict=True):
            x = F.relu(conv(x, edge_index))
            out = out + linear(global_max_pool(x, batch))
        return out


class ReadoutGivenBack(nn.Module):
    """Every node hears the mean of its graph."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = GCNConv(4, 5), nn.Linear(10, 3)

    def forward(self, x, edge_index, batch):
        h = F.relu(self.conv(x, edge_index))
        return self.out(torch.cat([h, global_mean_pool(h, batch)[batch]], dim=-1))


class VirtualEmbedding(nn.Module):
    """OGB's virtual node: a state for each graph, added to its nodes and updated from them."""

    def __init__(self):
        super().__init__()
        self.start = nn.Embedding(1, 4)
        self.convs = nn.ModuleList(GCNConv(4, 4) for _ in range(2))
        self.update = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.out = nn.Linear(4, 3)

    def forward(self, x, edge_index, batch):
        state = self.start(torch.zeros(int(batch[-1].item()) + 1, dtype=torch.long))
        h = x + state[batch]
        h = F.relu(self.convs[0](h, edge_index))
        state = state + self.update(global_add_pool(h, batch) + state)
        return self.out(self.convs[1](h + state[batch], edge_index))


class VirtualRow(nn.Module):
    """A node appended to the features, with edges from and to everyone."""

    def __init__(self):
        super().__init__()
        self.row, self.conv, self.out = nn.Parameter(torch.empty(1, 4)), GCNConv(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        n = x.size(0)
        everyone = torch.arange(n)
        hub = torch.full_like(everyone, n)
        edge_index = torch.cat([edge_index, torch.stack([everyone, hub]), torch.stack([hub, everyone])], dim=1)
        return self.out(F.relu(self.conv(torch.cat([x, self.row]), edge_index)))[:n]


class SoftPool(nn.Module):
    """DiffPool: nodes are shared out among two clusters by a softmax of their features."""

    def __init__(self):
        super().__init__()
        self.embed, self.assign, self.out = nn.Linear(4, 5), nn.Linear(4, 2), nn.Linear(5, 3)

    def forward(self, x, adj):
        z = torch.relu(adj @ self.embed(x))
        s = torch.softmax(adj @ self.assign(x), dim=-1)
        pooled, small = s.t() @ z, s.t() @ adj @ s
        return self.out((small @ pooled).mean(dim=0, keepdim=True))


class DotDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(4, 5), GCNConv(5, 4)

    def encode(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    def decode(self, z, edge_label_index):
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)

    def forward(self, x, edge_index, edge_label_index):
        return self.decode(self.encode(x, edge_index), edge_label_index)


class BilinearDecoder(DotDecoder):
    def __init__(self):
        super().__init__()
        self.bilinear = nn.Bilinear(4, 4, 1)

    def decode(self, z, edge_label_index):
        return self.bilinear(z[edge_label_index[0]], z[edge_label_index[1]]).squeeze(-1)


class MlpDecoder(DotDecoder):
    """Both ends side by side, their product and their difference, then an MLP and a sigmoid."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 1))

    def decode(self, z, edge_label_index):
        u, v = z[edge_label_index[0]], z[edge_label_index[1]]
        return torch.sigmoid(self.mlp(torch.cat([u, v, u * v, (u - v).abs()], dim=-1)))


class WholeMatrixDecoder(DotDecoder):
    """All pairs at once, of which some are picked."""

    def decode(self, z, edge_label_index):
        return (z @ z.t())[edge_label_index[0], edge_label_index[1]]


class CosineDecoder(DotDecoder):
    def decode(self, z, edge_label_index):
        return 3 * F.cosine_similarity(z[edge_label_index[0]], z[edge_label_index[1]], dim=-1)


class DistanceDecoder(DotDecoder):
    """Minus the squared distance between both ends."""

    def decode(self, z, edge_label_index):
        return 2.0 - (z[edge_label_index[0]] - z[edge_label_index[1]]).pow(2).sum(dim=1)


class LightRecommender(nn.Module):
    """LightGCN with user and item features: the mean of all layers, a dot product."""

    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Linear(4, 5, bias=False), nn.Linear(4, 5, bias=False)

    def forward(self, x, adj, pairs):
        users = x.size(0) // 2
        all_embeddings = torch.cat([self.user(x[:users]), self.item(x[users:])])
        layers = [all_embeddings]
        for _ in range(2):
            all_embeddings = torch.sparse.mm(adj, all_embeddings)
            layers.append(all_embeddings)
        out = torch.stack(layers, dim=1).mean(dim=1)
        return torch.sum(out[pairs[0]] * out[pairs[1]], dim=1)


class EmbeddingRecommender(nn.Module):
    """LightGCN as published: rows that users and items have for themselves, and no features."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(4, 5), nn.Embedding(5, 5)

    def forward(self, x, adj, pairs):
        out = h = torch.cat([self.users.weight, self.items.weight], dim=0)
        for _ in range(2):
            h = torch.sparse.mm(adj, h)
            out = out + h
        users, items = torch.split(out / 3, [4, 5])
        both = torch.cat([users, items])
        return (both[pairs[0]] * both[pairs[1]]).sum(1)


class CollaborativeFilter(nn.Module):
    """NGCF: neighbours and their product with oneself, layers of length 1 side by side."""

    def __init__(self):
        super().__init__()
        self.sums, self.products = (nn.ModuleList(nn.Linear(4, 4) for _ in range(2)) for _ in range(2))

    def forward(self, x, adj, pairs):
        layers = [x]
        for w1, w2 in zip(self.sums, self.products, strict=True):
            side = torch.sparse.mm(adj, x)
            x = F.leaky_relu(w1(x + side) + w2(x * side), 0.2)
            layers.append(F.normalize(x, p=2, dim=1))
        out = torch.cat(layers, dim=1)
        return (out[pairs[0]] * out[pairs[1]]).sum(dim=1)


class MapOfParts(nn.Module):
    """Two layers on several tensors side by side."""

    def __init__(self, width, out):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 5), nn.ReLU(), nn.Linear(5, out))

    def forward(self, *parts):
        return self.layers(torch.cat(parts, dim=1))


class OfEdges(MapOfParts):
    def forward(self, senders, receivers, edge_attr, u, batch):
        return super().forward(senders, receivers, edge_attr, u[batch])


class OfNodes(MapOfParts):
    def forward(self, x, edge_index, edge_attr, u, batch):
        heard = scatter(edge_attr, edge_index[1], dim=0, dim_size=x.size(0), reduce="mean")
        return super().forward(x, heard, u[batch])


class OfGraphs(MapOfParts):
    def forward(self, x, edge_index, edge_attr, u, batch):
        return super().forward(u, scatter(x, batch, dim=0, reduce="mean"))


class MessagesAndGlobals(nn.Module):
    """MetaLayer twice: models of edges, of nodes and of whole graphs, which hear one another."""

    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.empty(1, 2))
        self.first, self.last = (MetaLayer(OfEdges(13, 3), OfNodes(9, 4), OfGraphs(6, out)) for out in (2, 3))

    def forward(self, x, edge_index, edge_attr, batch):
        u = self.start.expand(int(batch.max()) + 1, -1)
        x, edge_attr, u = self.first(x, edge_index, edge_attr, u, batch)
        return self.last(x, edge_index, edge_attr, u, batch)[2]


class GraphNormed(nn.Module):
    """The norm makes a batch of zeros itself."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = GCNConv(4, 5), GraphNorm(5), GCNConv(5, 3)

    def forward(self, x, edge_index):
        return self.last(torch.relu(self.norm(self.first(x, edge_index))), edge_index)

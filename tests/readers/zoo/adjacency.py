"""Models that multiply by an adjacency matrix: dense, sparse, normalised outside or inside, by einsum, in batches."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.utils import to_dense_adj


def dense(data):
    """Rows are receivers; entries are weights of edges."""
    matrix = torch.zeros(data.num_nodes, data.num_nodes, dtype=data.x.dtype)
    matrix[data.edge_index[1], data.edge_index[0]] = data.edge_weight
    return matrix


def row_normalised(data):
    """As pygcn's data is prepared: weights, self-loops, rows that sum to 1."""
    matrix = dense(data) + torch.eye(data.num_nodes, dtype=data.x.dtype)
    return matrix / matrix.sum(dim=1, keepdim=True)


class GraphConvolution(nn.Module):
    """The layer of tkipf/pygcn."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x, adj):
        support = torch.mm(x, self.weight)
        return torch.spmm(adj, support) + self.bias


class Pygcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1, self.gc2 = GraphConvolution(4, 5), GraphConvolution(5, 3)

    def forward(self, x, adj):
        x = F.dropout(F.relu(self.gc1(x, adj)), 0.5, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


class SparseInside(Pygcn):
    """The matrix is built of the edges in forward."""

    def forward(self, x, edge_index):
        n = x.shape[0]
        ones = torch.ones(edge_index.size(1), dtype=x.dtype)
        return super().forward(x, torch.sparse_coo_tensor(edge_index.flip(0), ones, (n, n)).coalesce())


class CsrProduct(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, adj):
        return adj @ self.second(F.relu(adj @ self.first(x)))


class NormalisesItself(nn.Module):
    """Self-loops and both roots of the degree, of a dense matrix."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, adj):
        adj = adj + torch.eye(adj.size(0), dtype=adj.dtype)
        root = torch.diag(adj.sum(dim=1).pow(-0.5))
        adj = root @ adj @ root
        return adj @ self.second(torch.relu(adj @ self.first(x)))


class FilledFromEdges(nn.Module):
    """A dense matrix written entry by entry, and an in-place power of the degrees."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.empty(4, 5)), nn.Parameter(torch.empty(5, 3))

    def forward(self, x, edge_index):
        adj = torch.zeros(x.size(0), x.size(0), dtype=x.dtype)
        adj[edge_index[1], edge_index[0]] = 1.0
        adj.fill_diagonal_(1.0)
        root = adj.sum(-1)
        root[root > 0] **= -0.5
        adj = root[:, None] * adj * root[None, :]
        return adj @ torch.relu(adj @ x @ self.first) @ self.second


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.empty(4, 5)), nn.Parameter(torch.empty(5, 3))
        self.bias = nn.Parameter(torch.empty(3))

    def forward(self, x, adj):
        hidden = torch.relu(torch.einsum("vu,uf,fo->vo", adj, x, self.first))
        return torch.einsum("vu,uf,fo->vo", adj, hidden, self.second) + self.bias


class BatchOfOne(nn.Module):
    """Dense graphs in batches: [batch, nodes, nodes] and a mask of real nodes."""

    def __init__(self):
        super().__init__()
        self.relative, self.root, self.out = nn.Linear(4, 5, bias=False), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, adj):
        mask = torch.ones(x.shape[:2], dtype=torch.bool)
        h = torch.bmm(adj, x) / adj.sum(dim=-1, keepdim=True).clamp(min=1)
        h = F.relu(self.relative(h) + self.root(x)) * mask.unsqueeze(-1)
        return self.out(torch.bmm(adj, h))


class TransposedLayout(nn.Module):
    """Columns are nodes: 1x1 convolutions, and a product from the right."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(4, 5, 1), nn.Conv1d(5, 3, 1)

    def forward(self, x, edge_index):
        adj = to_dense_adj(edge_index, max_num_nodes=x.size(0))
        h = torch.matmul(F.relu(self.first(x.t()[None])), adj.to(x.dtype))
        return torch.matmul(self.second(h), adj.to(x.dtype))[0].t()


class SkeletonGraph(nn.Module):
    """ST-GCN's block: kernels of the adjacency over channels and time steps, then a convolution over time."""

    def __init__(self):
        super().__init__()
        self.kernels = 2
        self.spatial = nn.Conv2d(2, 3 * self.kernels, kernel_size=1)
        self.temporal = nn.Conv2d(3, 3, kernel_size=(2, 1))

    def forward(self, x, adj):
        n = x.size(0)
        x = x.view(n, 2, 2).permute(2, 1, 0).unsqueeze(0)  # [batch, channels, time, nodes]
        kernels = torch.stack([torch.eye(n, dtype=x.dtype), adj.t()])
        h = self.spatial(x).view(1, self.kernels, 3, 2, n)
        h = F.relu(torch.einsum("nkctv,kvw->nctw", h, kernels))
        return self.temporal(h)[0, :, 0].t()


class Chebyshev(nn.Module):
    """Chebyshev polynomials of a scaled Laplacian, written out."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(3, 4, 3)), nn.Parameter(torch.empty(3))

    def forward(self, x, adj):
        degree = adj.sum(1).clamp(min=1e-6)
        root = degree.rsqrt()
        laplacian = -root[:, None] * adj * root[None, :]
        terms = [x, laplacian @ x]
        terms.append(2 * laplacian @ terms[1] - terms[0])
        return sum(torch.matmul(term, weight) for term, weight in zip(terms, self.weight, strict=True)) + self.bias


class Diffusion(nn.Module):
    """DCRNN's diffusion: random walks along and against the edges, side by side."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(20, 5), nn.Linear(5, 3)

    def forward(self, x, adj):
        parts = [x]
        for matrix in (adj, adj.t()):
            walk = matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1e-9)
            h = x
            for _ in range(2):
                h = walk @ h
                parts.append(h)
        return self.out(torch.tanh(self.linear(torch.cat(parts, dim=-1))))


class AdaptiveAdjacency(nn.Module):
    """Graph WaveNet: a learnt adjacency beside the given one."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Parameter(torch.empty(9, 2)), nn.Parameter(torch.empty(2, 9))
        self.linear, self.out = nn.Linear(12, 5), nn.Linear(5, 3)

    def forward(self, x, adj):
        learnt = F.softmax(F.relu(torch.mm(self.source, self.target)), dim=1)
        h = torch.cat([x, torch.einsum("wv,vc->wc", adj, x), torch.einsum("wv,vc->wc", learnt, x)], dim=1)
        return self.out(F.relu(self.linear(h)))


class InitialResidual(nn.Module):
    """GCNII on a matrix: initial residual and identity mapping."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(5, 5)) for _ in range(2))

    def forward(self, x, adj):
        h = h0 = F.relu(self.first(x))
        for depth, weight in enumerate(self.weights, start=1):
            beta = 0.5 / depth
            support = 0.9 * torch.spmm(adj, h) + 0.1 * h0
            h = F.relu(beta * torch.mm(support, weight) + (1 - beta) * support)
        return self.last(h)


class PersonalisedPropagation(nn.Module):
    """APPNP on a dense matrix: an MLP first, then ten steps."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))

    def forward(self, x, adj):
        z = h = self.mlp(x)
        for _ in range(3):
            z = 0.85 * (adj @ z) + 0.15 * h
        return F.log_softmax(z, dim=-1)


class TwoHopNeighbours(nn.Module):
    """H2GCN: neighbours one and two hops away apart, by a boolean square of the matrix."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Linear(4, 5, bias=False), nn.Linear(15, 3, bias=False)

    def forward(self, x, edge_index):
        n = x.size(0)
        adj = torch.zeros(n, n, dtype=x.dtype)
        adj[edge_index[1], edge_index[0]] = 1
        two = ((adj @ adj) > 0).to(x.dtype) - adj - torch.eye(n, dtype=x.dtype)
        two = two.clamp(min=0)
        h = F.relu(self.embed(x))
        scaled = [matrix / matrix.sum(1, keepdim=True).clamp(min=1) for matrix in (adj, two)]
        return self.out(torch.cat([h, scaled[0] @ h, scaled[1] @ h], dim=1))


class ThreeExperts(nn.Module):
    """Itself, in-neighbours and out-neighbours, mixed by a softmax of the node's own features."""

    def __init__(self):
        super().__init__()
        self.own, self.inward, self.outward = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(4, 5)
        self.gate, self.out = nn.Linear(4, 3), nn.Linear(5, 3)

    def forward(self, x, adj):
        w = F.softmax(self.gate(x), dim=-1)
        h = w[..., 0:1] * self.own(x)
        h = h + w[..., 1:2] * torch.matmul(adj, self.inward(x)) + w[..., 2:3] * torch.matmul(adj.T, self.outward(x))
        return self.out(F.gelu(h))


class FusedAffine(nn.Module):
    """addmm and sparse.addmm in place of a product and a sum."""

    def __init__(self):
        super().__init__()
        self.first, self.bias = nn.Parameter(torch.empty(4, 5)), nn.Parameter(torch.empty(5))
        self.root, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, adj):
        support = torch.addmm(self.bias, x, self.first)
        return self.out(torch.relu(torch.sparse.addmm(self.root(x), adj, support, beta=0.5, alpha=0.5)))


class StackedRelations(nn.Module):
    """A dense matrix for each relation, all of them in one einsum."""

    def __init__(self):
        super().__init__()
        self.maps, self.root, self.out = nn.Parameter(torch.empty(2, 4, 5)), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_type):
        n = x.size(0)
        matrices = torch.zeros(2, n, n, dtype=x.dtype)
        matrices[edge_type, edge_index[1], edge_index[0]] = 1.0
        matrices = matrices / matrices.sum(dim=-1, keepdim=True).clamp(min=1.0)
        return self.out(torch.relu(self.root(x) + torch.einsum("rij,jd,rde->ie", matrices, x, self.maps)))


class RowsOfTheMatrix(nn.Module):
    """LINKX: a linear map of each row of the adjacency matrix, beside one of the features."""

    def __init__(self):
        super().__init__()
        self.rows, self.features, self.out = nn.Linear(9, 5), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        n = x.size(0)
        ones = torch.ones(edge_index.size(1), dtype=x.dtype)
        matrix = torch.sparse_coo_tensor(edge_index.flip(0), ones, (n, n)).to_dense()
        return self.out(torch.relu(self.rows(matrix) + self.features(x)))


class PooledTwice(nn.Module):
    """DiffPool on a batch of one: clusters, a smaller graph, and a convolution on it."""

    def __init__(self):
        super().__init__()
        self.assign, self.embed = pyg.DenseGCNConv(4, 3), pyg.DenseGCNConv(4, 5)
        self.conv, self.out = pyg.DenseGraphConv(5, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        adj = to_dense_adj(edge_index, max_num_nodes=x.size(0)).to(x.dtype)
        shares, h = torch.softmax(self.assign(x, adj), dim=-1), torch.relu(self.embed(x, adj))
        h, adj = shares.transpose(1, 2) @ h, shares.transpose(1, 2) @ adj @ shares
        return self.out(self.conv(h, adj).mean(dim=1))

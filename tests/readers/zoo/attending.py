"""Attention as people write it: dense with a mask, over edges with a scatter softmax, in heads, over hops."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.utils import softmax


def with_loops(edge_index, num_nodes):
    loops = torch.arange(num_nodes)
    return torch.cat([edge_index, torch.stack([loops, loops])], dim=1)


def scatter_softmax(scores, receivers, num_nodes):
    """exp, sum over the receiver's edges, divide."""
    scores = torch.exp(scores - scores.max())
    index = receivers[:, None].expand_as(scores)
    total = torch.zeros(num_nodes, scores.size(1), dtype=scores.dtype).scatter_add_(0, index, scores)
    return scores / (total[receivers] + 1e-16)


class EdgeAttention(nn.Module):
    """GAT on edges, in heads, everything by hand."""

    def __init__(self, inputs, outputs, heads):
        super().__init__()
        self.linear = nn.Linear(inputs, heads * outputs, bias=False)
        self.source, self.target = (nn.Parameter(torch.empty(1, heads, outputs)) for _ in range(2))
        self.heads, self.outputs = heads, outputs

    def forward(self, x, edge_index):
        n = x.size(0)
        z = self.linear(x).view(n, self.heads, self.outputs)
        src, dst = edge_index
        scores = (z * self.source).sum(-1).index_select(0, src) + (z * self.target).sum(-1).index_select(0, dst)
        alpha = scatter_softmax(F.leaky_relu(scores, 0.2), dst, n)
        out = torch.zeros(n, self.heads, self.outputs, dtype=x.dtype)
        out.scatter_add_(0, dst[:, None, None].expand(-1, self.heads, self.outputs), alpha.unsqueeze(-1) * z[src])
        return out


class GatByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = EdgeAttention(4, 3, 2), EdgeAttention(6, 3, 2)

    def forward(self, x, edge_index):
        edge_index = with_loops(edge_index, x.size(0))
        h = F.elu(self.first(x, edge_index).flatten(1))
        return F.log_softmax(self.second(h, edge_index).mean(dim=1), dim=-1)


class DenseAttention(nn.Module):
    """The layer of Diego999/pyGAT."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.attention = (
            nn.Parameter(torch.empty(inputs, outputs)),
            nn.Parameter(torch.empty(2 * outputs, 1)),
        )
        self.outputs = outputs

    def forward(self, h, adj):
        wh = torch.mm(h, self.weight)
        left = torch.matmul(wh, self.attention[: self.outputs])
        right = torch.matmul(wh, self.attention[self.outputs :])
        scores = F.leaky_relu(left + right.T, 0.2)
        scores = torch.where(adj > 0, scores, -9e15 * torch.ones_like(scores))
        alpha = F.dropout(F.softmax(scores, dim=1), 0.6, training=self.training)
        return torch.matmul(alpha, wh)


class PyGat(nn.Module):
    """Dense heads side by side, then one more layer."""

    def __init__(self):
        super().__init__()
        self.heads = [DenseAttention(4, 3) for _ in range(2)]
        for i, head in enumerate(self.heads):
            self.add_module(f"attention_{i}", head)
        self.last = DenseAttention(6, 3)

    def forward(self, x, adj):
        x = F.dropout(x, 0.6, training=self.training)
        x = F.elu(torch.cat([head(x, adj) for head in self.heads], dim=1))
        return F.log_softmax(F.elu(self.last(x, adj)), dim=1)


class DynamicAttention(nn.Module):
    """GATv2 by hand: the non-linearity before the attention vector."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.attention = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 1, bias=False)
        self.out = nn.Linear(5, 3)

    def forward(self, x, edge_index):
        src, dst = with_loops(edge_index, x.size(0))
        left, right = self.left(x), self.right(x)
        alpha = softmax(self.attention(F.leaky_relu(left[src] + right[dst])), dst, num_nodes=x.size(0))
        return self.out(torch.zeros_like(left).index_add_(0, dst, alpha * left[src]))


class EdgeTransformer(nn.Module):
    """Queries and keys on edges, edge features in the scores, a clamp and exp, as graph transformers in DGL have it."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 6) for _ in range(3))
        self.edge, self.out = nn.Linear(3, 2), nn.Linear(6, 3)

    def forward(self, x, edge_index, edge_attr):
        src, dst = edge_index
        q, k, v = (f(x).view(-1, 2, 3) for f in (self.query, self.key, self.value))
        scores = (q[dst] * k[src]).sum(-1) / math.sqrt(3) + self.edge(edge_attr)
        scores = torch.exp(scores.clamp(-5, 5))
        total = torch.zeros(x.size(0), 2, dtype=x.dtype).index_add_(0, dst, scores)
        above = torch.zeros(x.size(0), 2, 3, dtype=x.dtype).index_add_(0, dst, v[src] * scores[..., None])
        return self.out((above / (total[..., None] + 1e-6)).flatten(1) + q.flatten(1))


class MaskedTransformer(nn.Module):
    """nn.MultiheadAttention with the adjacency as mask."""

    def __init__(self):
        super().__init__()
        self.attention, self.out = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x, edge_index):
        n = x.size(0)
        mask = torch.ones(n, n, dtype=torch.bool)
        mask[edge_index[1], edge_index[0]] = False
        mask.fill_diagonal_(False)
        h, _ = self.attention(x[None], x[None], x[None], attn_mask=mask)
        return self.out(F.relu(h[0] + x))


class ScaledDotProduct(nn.Module):
    """Heads by view and transpose, masked_fill, and F.scaled_dot_product_attention without a kernel of its own."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 3)

    def forward(self, x, adj):
        n = x.size(0)
        q, k, v = (part.view(n, 2, 2).transpose(0, 1) for part in self.qkv(x).chunk(3, dim=-1))
        mask = (adj + torch.eye(n, dtype=adj.dtype)) > 0
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(h.transpose(0, 1).reshape(n, 4) + x)


class BiasedAttention(nn.Module):
    """Every node attends to every other; a learnt number for each kind of pair is added to the scores."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.bias, self.degree, self.out = nn.Embedding(2, 1), nn.Embedding(20, 4), nn.Linear(4, 3)

    def forward(self, x, adj):
        adj = (adj > 0).long()
        x = x + self.degree(adj.sum(dim=1))
        scores = self.query(x) @ self.key(x).t() / 2 + self.bias(adj).squeeze(-1)
        return self.out(torch.softmax(scores, dim=-1) @ self.value(x))


class CosineAttention(nn.Module):
    """AGNN: cosine of both ends, times a learnt temperature."""

    def __init__(self):
        super().__init__()
        self.embed, self.beta, self.out = nn.Linear(4, 5), nn.Parameter(torch.ones(1)), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        src, dst = with_loops(edge_index, x.size(0))
        h = F.relu(self.embed(x))
        unit = F.normalize(h, p=2, dim=-1)
        alpha = softmax(self.beta * (unit[dst] * unit[src]).sum(dim=-1), dst, num_nodes=x.size(0))
        return self.out(torch.zeros_like(h).index_add_(0, dst, h[src] * alpha.view(-1, 1)))


class AttentionOverHops(nn.Module):
    """A softmax over what one, two and three hops brought, for each node."""

    def __init__(self):
        super().__init__()
        self.embed, self.score, self.out = nn.Linear(4, 5), nn.Linear(5, 1), nn.Linear(5, 3)

    def forward(self, x, adj):
        hops = [torch.tanh(self.embed(x))]
        for _ in range(2):
            hops.append(adj @ hops[-1])
        stacked = torch.stack(hops, dim=1)  # [nodes, hops, width]
        weight = torch.softmax(self.score(stacked), dim=1)
        return self.out((weight * stacked).sum(dim=1))


class LearntHopWeights(nn.Module):
    """GPR-GNN: a parameter for each hop."""

    def __init__(self):
        super().__init__()
        self.mlp, self.gamma = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), nn.Parameter(torch.empty(4))

    def forward(self, x, adj):
        h = self.mlp(x)
        out = self.gamma[0] * h
        for k in range(3):
            h = adj @ h
            out = out + self.gamma[k + 1] * h
        return out


class SoftmaxOfWeights(nn.Module):
    """Weights of edges, turned into shares of each receiver."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_weight):
        share = softmax(edge_weight, edge_index[1], num_nodes=x.size(0)).view(-1, 1)
        h = torch.zeros_like(x).index_add_(0, edge_index[1], share * x[edge_index[0]])
        return self.out(F.relu(self.linear(h)))

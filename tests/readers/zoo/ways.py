"""Ways of writing and running a model: forward(data), Lightning, TorchScript, torch.compile, Sequential, tuples."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg
from torch_geometric.utils import coalesce, to_undirected

from .scattering import SageByHand, neighbour_mean


class TakesData(nn.Module):
    """forward(data), as the tutorial on Cora has it."""

    def __init__(self):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, data):
        x, edge_index = data.x, data.edge_index
        h = F.relu(self.linear1(neighbour_mean(x, edge_index)))
        return F.log_softmax(self.linear2(neighbour_mean(h, edge_index)), dim=1)


class LightningLike(nn.Module):
    """A module in the shape of a LightningModule: the network inside, steps and losses beside forward."""

    def __init__(self, hidden=5):
        super().__init__()
        self.hparams = {"hidden": hidden}
        self.net = nn.ModuleDict({"in": nn.Linear(4, hidden), "out": nn.Linear(hidden, 3)})
        self.loss = nn.CrossEntropyLoss()

    def forward(self, batch, mode="test"):
        h = torch.relu(self.net["in"](batch.x + neighbour_mean(batch.x, batch.edge_index)))
        out = self.net["out"](h)
        return out if mode != "loss" else self.loss(out, batch.y)

    def training_step(self, batch, _):
        return self(batch, mode="loss")


@torch.jit.script
def scripted_layer(x: torch.Tensor, edge_index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]]) @ weight


class CallsScript(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4, 3))

    def forward(self, x, edge_index):
        return scripted_layer(torch.tanh(x), edge_index, self.weight)


class Plain(nn.Module):
    """What torch.jit.script takes as a whole."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.linear(x))
        return self.out(h + torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]]))


class Compiled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = SageByHand()

    def forward(self, x, edge_index):
        return torch.compile(self.inner, backend="eager")(x, edge_index)


def sequential():
    """PyG's Sequential with arguments by name."""
    layers = [
        (pyg.GCNConv(4, 5), "x, edge_index -> h1"),
        nn.ReLU(inplace=True),
        (pyg.SAGEConv(5, 5), "h1, edge_index -> h2"),
        (lambda a, b: torch.cat([a, b], dim=-1), "h1, h2 -> h"),
        (nn.Linear(10, 3), "h -> h"),
    ]
    return pyg.Sequential("x, edge_index", layers)


class SumFunction(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx, h, edge_index):
        return torch.zeros_like(h).index_add_(0, edge_index[1], h[edge_index[0]])

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class OwnFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x, edge_index):
        return self.out(F.relu(SumFunction.apply(self.linear(x), edge_index)))


class AnswersWithMore(nn.Module):
    """Logits beside embeddings and a regulariser."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = F.relu(self.linear(neighbour_mean(x, edge_index)))
        return {"logits": self.out(h), "embedding": h, "penalty": h.pow(2).mean()}


class Checkpointed(nn.Module):
    """Activations are computed again when gradients need them."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = checkpoint(lambda x: torch.tanh(self.linear(neighbour_mean(x, edge_index))), x, use_reentrant=False)
        return self.out(h)


class Parametrised(nn.Module):
    """Weights that are computed from others on each call."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = parametrizations.weight_norm(nn.Linear(4, 5)), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        return self.out(F.relu(self.linear(x + neighbour_mean(x, edge_index))))


class CoalescesItself(nn.Module):
    """Edges made undirected and unique inside."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = pyg.GCNConv(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        edge_index = to_undirected(coalesce(edge_index), num_nodes=x.size(0))
        return self.out(F.relu(self.conv(x, edge_index)))


class StructureByScipy(nn.Module):
    """The matrix is built by scipy of the edges only."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, edge_index):
        from scipy.sparse import coo_matrix

        senders, receivers = edge_index.numpy()
        n = x.size(0)
        matrix = coo_matrix(([1.0] * len(senders), (receivers, senders)), shape=(n, n)).toarray()
        return torch.from_numpy(matrix) @ self.linear(x)


class AddedEmbedding(nn.Module):
    """A learnt row for each node, added to its features."""

    def __init__(self):
        super().__init__()
        self.rows, self.conv, self.out = nn.Embedding(9, 4), pyg.GCNConv(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        return self.out(F.relu(self.conv(x + self.rows.weight, edge_index)))


class PositionalEncoding(nn.Module):
    """Powers of the random walk's diagonal beside the features."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        n = x.size(0)
        walk = torch.zeros(n, n, dtype=x.dtype)
        walk[edge_index[0], edge_index[1]] = 1.0
        walk = walk / walk.sum(1, keepdim=True).clamp(min=1)
        square = walk @ walk
        places = torch.stack([square.diagonal(), (square @ walk).diagonal()], dim=1)
        h = self.linear(torch.cat([x, places], dim=1))
        return self.out(F.relu(h + walk.t() @ h))


class MixedPrecision(nn.Module):
    """A double sum inside, whatever the model's own precision."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = torch.relu(self.linear(x))
        total = torch.zeros(x.size(0), 5, dtype=torch.float64).index_add_(0, edge_index[1], h.double()[edge_index[0]])
        return self.out(total.to(h.dtype) + h.detach())

"""Temporal GNNs as people have them, each as a model of a window.

The cells of torch_geometric_temporal are written as they are defined there (release 0.56.2), since its import needs
torch_sparse; the names in front say which. Each is called as its own example calls it.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import ChebConv, GCNConv, MessagePassing, RGCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import dense_to_sparse, to_dense_adj

import axiompath
from support.windows import CELLS, NUM_FEATURES, WIDTH

NUM_NODES, STEPS = 7, 3


class GConvGRU(nn.Module):
    def __init__(self, in_channels=NUM_FEATURES, width=WIDTH, K=2):
        super().__init__()
        self.width = width
        self.x_z, self.x_r, self.x_h = (ChebConv(in_channels, width, K) for _ in range(3))
        self.h_z, self.h_r, self.h_h = (ChebConv(width, width, K) for _ in range(3))

    def forward(self, X, edge_index, edge_weight=None, H=None):
        if H is None:
            H = torch.zeros(X.shape[0], self.width).to(X)
        Z = torch.sigmoid(self.x_z(X, edge_index, edge_weight) + self.h_z(H, edge_index, edge_weight))
        R = torch.sigmoid(self.x_r(X, edge_index, edge_weight) + self.h_r(H, edge_index, edge_weight))
        H_tilde = torch.tanh(self.x_h(X, edge_index, edge_weight) + self.h_h(H * R, edge_index, edge_weight))
        return Z * H + (1 - Z) * H_tilde


class GConvLSTM(nn.Module):
    def __init__(self, K=2):
        super().__init__()
        self.x_i, self.x_f, self.x_c, self.x_o = (ChebConv(NUM_FEATURES, WIDTH, K) for _ in range(4))
        self.h_i, self.h_f, self.h_c, self.h_o = (ChebConv(WIDTH, WIDTH, K) for _ in range(4))
        self.w_i, self.w_f, self.w_o = (nn.Parameter(torch.randn(1, WIDTH)) for _ in range(3))
        self.b_i, self.b_f, self.b_c, self.b_o = (nn.Parameter(torch.randn(1, WIDTH)) for _ in range(4))

    def forward(self, X, edge_index, edge_weight=None, H=None, C=None):
        if H is None:
            H, C = torch.zeros(X.shape[0], WIDTH).to(X), torch.zeros(X.shape[0], WIDTH).to(X)
        both = X, H, edge_index, edge_weight
        i = torch.sigmoid(self._sum(self.x_i, self.h_i, *both) + self.w_i * C + self.b_i)
        f = torch.sigmoid(self._sum(self.x_f, self.h_f, *both) + self.w_f * C + self.b_f)
        C = f * C + i * torch.tanh(self._sum(self.x_c, self.h_c, *both) + self.b_c)
        o = torch.sigmoid(self._sum(self.x_o, self.h_o, *both) + self.w_o * C + self.b_o)
        return o * torch.tanh(C), C

    @staticmethod
    def _sum(of_x, of_h, X, H, edge_index, edge_weight):
        return of_x(X, edge_index, edge_weight) + of_h(H, edge_index, edge_weight)


class GCLSTM(nn.Module):
    def __init__(self, K=2):
        super().__init__()
        self.i, self.f, self.c, self.o = (ChebConv(WIDTH, WIDTH, K) for _ in range(4))
        self.w = nn.ParameterList([nn.Parameter(torch.randn(NUM_FEATURES, WIDTH)) for _ in range(4)])
        self.b = nn.ParameterList([nn.Parameter(torch.randn(1, WIDTH)) for _ in range(4)])

    def forward(self, X, edge_index, edge_weight=None, H=None, C=None):
        if H is None:
            H, C = torch.zeros(X.shape[0], WIDTH).to(X), torch.zeros(X.shape[0], WIDTH).to(X)
        convs = self.i, self.f, self.c, self.o
        i, f, t, o = (
            torch.matmul(X, w) + conv(H, edge_index, edge_weight) + b
            for w, conv, b in zip(self.w, convs, self.b, strict=True)
        )
        C = torch.sigmoid(f) * C + torch.sigmoid(i) * torch.tanh(t)
        return torch.sigmoid(o) * torch.tanh(C), C


class TGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_z, self.conv_r, self.conv_h = (GCNConv(NUM_FEATURES, WIDTH) for _ in range(3))
        self.linear_z, self.linear_r, self.linear_h = (nn.Linear(2 * WIDTH, WIDTH) for _ in range(3))

    def forward(self, X, edge_index, edge_weight=None, H=None):
        if H is None:
            H = torch.zeros(X.shape[0], WIDTH).to(X)
        Z = torch.sigmoid(self.linear_z(torch.cat([self.conv_z(X, edge_index, edge_weight), H], axis=1)))
        R = torch.sigmoid(self.linear_r(torch.cat([self.conv_r(X, edge_index, edge_weight), H], axis=1)))
        H_tilde = torch.tanh(self.linear_h(torch.cat([self.conv_h(X, edge_index, edge_weight), H * R], axis=1)))
        return Z * H + (1 - Z) * H_tilde


class DConv(MessagePassing):
    """Diffusion both ways along edges, normalised by the weights that go out and come in."""

    def __init__(self, in_channels, out_channels, K):
        super().__init__(aggr="add", flow="source_to_target")
        self.weight = nn.Parameter(torch.randn(2, K, in_channels, out_channels))
        self.bias = nn.Parameter(torch.randn(out_channels))

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j

    def forward(self, X, edge_index, edge_weight):
        dense = to_dense_adj(edge_index, edge_attr=edge_weight)
        dense = dense.reshape(dense.size(1), dense.size(2))
        deg_out = torch.matmul(dense, torch.ones(size=(dense.size(0), 1)).to(X)).flatten()
        deg_in = torch.matmul(torch.ones(size=(1, dense.size(0))).to(X), dense).flatten()
        row = edge_index[0]
        norm_out, norm_in = torch.reciprocal(deg_out)[row], torch.reciprocal(deg_in)[row]
        reverse, _ = dense_to_sparse(dense.transpose(0, 1))
        Tx_0, Tx_1 = X, X
        H = torch.matmul(Tx_0, self.weight[0][0]) + torch.matmul(Tx_0, self.weight[1][0])
        if self.weight.size(1) > 1:
            Tx_1_o = self.propagate(edge_index, x=X, norm=norm_out, size=None)
            Tx_1_i = self.propagate(reverse, x=X, norm=norm_in, size=None)
            H = H + torch.matmul(Tx_1_o, self.weight[0][1]) + torch.matmul(Tx_1_i, self.weight[1][1])
        for k in range(2, self.weight.size(1)):
            Tx_2_o = 2.0 * self.propagate(edge_index, x=Tx_1_o, norm=norm_out, size=None) - Tx_0
            Tx_2_i = 2.0 * self.propagate(reverse, x=Tx_1_i, norm=norm_in, size=None) - Tx_0
            H = H + torch.matmul(Tx_2_o, self.weight[0][k]) + torch.matmul(Tx_2_i, self.weight[1][k])
            Tx_0, Tx_1_o, Tx_1_i = Tx_1, Tx_2_o, Tx_2_i
        H += self.bias
        return H


class DCRNN(nn.Module):
    def __init__(self, K=3):
        super().__init__()
        self.z, self.r, self.h = (DConv(NUM_FEATURES + WIDTH, WIDTH, K) for _ in range(3))

    def forward(self, X, edge_index, edge_weight=None, H=None):
        if H is None:
            H = torch.zeros(X.shape[0], WIDTH).to(X)
        Z = torch.sigmoid(self.z(torch.cat([X, H], dim=1), edge_index, edge_weight))
        R = torch.sigmoid(self.r(torch.cat([X, H], dim=1), edge_index, edge_weight))
        H_tilde = torch.tanh(self.h(torch.cat([X, H * R], dim=1), edge_index, edge_weight))
        return Z * H + (1 - Z) * H_tilde


class LRGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = nn.ModuleList([RGCNConv(NUM_FEATURES, WIDTH, 2, num_bases=2) for _ in range(4)])
        self.h = nn.ModuleList([RGCNConv(WIDTH, WIDTH, 2, num_bases=2) for _ in range(4)])

    def forward(self, X, edge_index, edge_type, H=None, C=None):
        if H is None:
            H, C = torch.zeros(X.shape[0], WIDTH).to(X), torch.zeros(X.shape[0], WIDTH).to(X)
        i, f, t, o = (
            of_x(X, edge_index, edge_type) + of_h(H, edge_index, edge_type)
            for of_x, of_h in zip(self.x, self.h, strict=True)
        )
        C = torch.sigmoid(f) * C + torch.sigmoid(i) * torch.tanh(t)
        return torch.sigmoid(o) * torch.tanh(C), C


class GCNConvFixedW(MessagePassing):
    """A graph convolution whose weight is handed in."""

    def __init__(self):
        super().__init__(aggr="add")

    def forward(self, W, x, edge_index, edge_weight=None):
        edge_index, edge_weight = gcn_norm(edge_index, edge_weight, x.size(self.node_dim), False, True)
        return self.propagate(edge_index, x=torch.matmul(x, W), edge_weight=edge_weight, size=None)

    def message(self, x_j, edge_weight):
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j


class EvolveGCNO(nn.Module):
    """Its weight goes on with every call, for ever; `reinitialize_weight` has it begin anew."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.initial_weight = nn.Parameter(torch.randn(1, width, width))
        self.weight = None
        self.recurrent_layer = nn.GRU(input_size=width, hidden_size=width, num_layers=1)
        self.conv_layer = GCNConvFixedW()

    def reinitialize_weight(self):
        self.weight = None

    def forward(self, X, edge_index, edge_weight=None):
        begin = self.initial_weight if self.weight is None else self.weight
        _, self.weight = self.recurrent_layer(begin, begin)
        return self.conv_layer(self.weight.squeeze(dim=0), X, edge_index, edge_weight)


class EvolveGCN(nn.Module):
    """Linear, EvolveGCN-O, Linear; as shipped, unless each window begins anew."""

    def __init__(self, anew=True):
        super().__init__()
        self.first, self.evolving, self.head, self.anew = (
            nn.Linear(NUM_FEATURES, WIDTH),
            EvolveGCNO(),
            nn.Linear(WIDTH, 2),
            anew,
        )

    def forward(self, window):
        if self.anew:
            self.evolving.reinitialize_weight()
        for data in window:
            h = self.evolving(self.first(data.x), data.edge_index)
        return self.head(h.relu())


class A3TGCN(nn.Module):
    """Attention over the periods of a window, each with the state of none."""

    def __init__(self):
        super().__init__()
        self.base, self.head = TGCN(), nn.Linear(WIDTH, 2)
        self.attention = nn.Parameter(torch.rand(STEPS))

    def forward(self, window):
        X = torch.stack([data.x for data in window], dim=2)
        probs, H = F.softmax(self.attention, dim=0), 0
        for period in range(STEPS):
            H = H + probs[period] * self.base(X[:, :, period], window[-1].edge_index)
        return self.head(H.relu())


class MPNNLSTM(nn.Module):
    """All steps as one graph, two convolutions, then two LSTMs over the steps of each node."""

    def __init__(self):
        super().__init__()
        self.conv_1, self.conv_2 = GCNConv(NUM_FEATURES, WIDTH), GCNConv(WIDTH, WIDTH)
        self.norm_1, self.norm_2 = nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)
        self.recurrent_1, self.recurrent_2 = nn.LSTM(2 * WIDTH, WIDTH, 1), nn.LSTM(WIDTH, WIDTH, 1)
        self.head = nn.Linear(2 * WIDTH + NUM_FEATURES + STEPS - 1, 2)

    def forward(self, window):
        X = torch.cat([data.x for data in window])
        edge_index = torch.cat([data.edge_index + k * NUM_NODES for k, data in enumerate(window)], dim=1)
        S = torch.transpose(X.view(-1, STEPS, NUM_NODES, NUM_FEATURES), 1, 2).reshape(-1, STEPS, NUM_FEATURES)
        S = torch.cat([S[:, 0, :], *(S[:, step, NUM_FEATURES - 1].unsqueeze(1) for step in range(1, STEPS))], dim=1)
        first = self.norm_1(F.relu(self.conv_1(X, edge_index)))
        second = self.norm_2(F.relu(self.conv_2(first, edge_index)))
        X = torch.cat([first, second], dim=1)
        X = torch.transpose(X.view(-1, STEPS, NUM_NODES, X.size(1)), 0, 1)
        X = X.contiguous().view(STEPS, -1, X.size(3))
        X, (H_1, _) = self.recurrent_1(X)
        X, (H_2, _) = self.recurrent_2(X)
        return self.head(torch.cat([H_1[0], H_2[0], S], dim=1))


class TemporalConv(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size=2):
        super().__init__()
        self.one, self.two, self.three = (nn.Conv2d(in_channels, out_channels, (1, kernel_size)) for _ in range(3))

    def forward(self, X):
        X = X.permute(0, 3, 2, 1)
        H = F.relu(self.one(X) * torch.sigmoid(self.two(X)) + self.three(X))
        return H.permute(0, 3, 2, 1)


class STConv(nn.Module):
    """STGCN: a temporal convolution, ChebConv at each step, a temporal convolution."""

    def __init__(self):
        super().__init__()
        self.before, self.after = TemporalConv(NUM_FEATURES, WIDTH), TemporalConv(WIDTH, WIDTH)
        self.conv, self.norm, self.head = ChebConv(WIDTH, WIDTH, 2), nn.BatchNorm2d(NUM_NODES), nn.Linear(WIDTH, 2)

    def forward(self, window):
        first = self.before(torch.stack([data.x for data in window])[None])
        T = torch.zeros_like(first)
        for b in range(first.size(0)):
            for t in range(first.size(1)):
                T[b][t] = self.conv(first[b][t], window[-1].edge_index)
        T = self.after(F.relu(T)).permute(0, 2, 1, 3)
        return self.head(self.norm(T).permute(0, 2, 1, 3)[0, -1])


class Roland(nn.Module):
    """ROLAND: at each step, each layer's embedding is brought up to date by a GRU cell."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(NUM_FEATURES, WIDTH), nn.Linear(WIDTH, 2)
        self.convs = nn.ModuleList([GCNConv(WIDTH, WIDTH) for _ in range(2)])
        self.updates = nn.ModuleList([nn.GRUCell(WIDTH, WIDTH) for _ in range(2)])

    def forward(self, window):
        held = [torch.zeros(window[0].x.shape[0], WIDTH).to(window[0].x) for _ in range(2)]
        for data in window:
            h = self.first(data.x).relu()
            for i in range(2):
                h = held[i] = self.updates[i](self.convs[i](h, data.edge_index).relu(), held[i])
        return self.head(h)


class Attention(nn.Module):
    """Attention of the last step to all steps of the same node."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(NUM_FEATURES, WIDTH), nn.Linear(WIDTH, 2)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, window):
        h = torch.stack([self.conv(data.x, data.edge_index).relu() for data in window], dim=1)
        weights = torch.softmax((self.query(h[:, -1:]) * self.key(h)).sum(-1) / WIDTH**0.5, dim=1)
        return self.head((weights[..., None] * self.value(h)).sum(1))


class OverSteps(nn.Module):
    """A convolution of each step, then a layer of torch over the steps of each node."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.conv, self.head = kind, GCNConv(NUM_FEATURES, WIDTH), nn.Linear(WIDTH, 2)
        self.over = {
            "GRU": lambda: nn.GRU(WIDTH, WIDTH, num_layers=2),
            "LSTM": lambda: nn.LSTM(WIDTH, WIDTH),
            "LSTMCell": lambda: nn.LSTMCell(WIDTH, WIDTH),
            "Conv1d": lambda: nn.Conv1d(WIDTH, WIDTH, STEPS),
            "Conv2d": lambda: nn.Conv2d(WIDTH, WIDTH, (1, STEPS), padding=(0, 1)),
        }[kind]()

    def forward(self, window):
        h = torch.stack([self.conv(data.x, data.edge_index).relu() for data in window])
        if self.kind in ("GRU", "LSTM"):
            return self.head(self.over(h)[0][-1])
        if self.kind == "Conv1d":
            return self.head(self.over(h.permute(1, 2, 0))[..., -1].relu())
        if self.kind == "Conv2d":
            return self.head(self.over(h.permute(2, 1, 0)[None])[0, :, :, -1].T.relu())
        state = None
        for step in h:
            state = self.over(step, state)
        return self.head(state[0])


def unrolled(cell, num_states=0):
    return axiompath.unroll(cell(), head=nn.Linear(WIDTH, 2), state=(WIDTH,) * num_states)


MODELS = {
    **{name: lambda cell=cell, states=states: unrolled(cell, states) for name, (cell, states) in CELLS.items()},
    **{
        cell.__name__: lambda cell=cell: unrolled(cell)
        for cell in (GConvGRU, GConvLSTM, GCLSTM, TGCN, DCRNN, LRGCN)
    },
    **{model.__name__: model for model in (EvolveGCN, A3TGCN, MPNNLSTM, STConv, Roland, Attention)},
    **{f"nn.{kind}": lambda kind=kind: OverSteps(kind) for kind in ("GRU", "LSTM", "LSTMCell", "Conv1d", "Conv2d")},
}  # fmt: skip


def suited(name, data):
    """A snapshot with what the model needs: types of edges, or a weighted edge out of and into every node."""
    if name == "LRGCN":
        data.edge_type = data.edge_index.sum(0) % 2
    if name == "DCRNN":
        ring = torch.stack([torch.arange(NUM_NODES), (torch.arange(NUM_NODES) + 1) % NUM_NODES])
        data.edge_index = torch.unique(torch.cat([data.edge_index, ring], dim=1), dim=1)
        data.edge_weight = (1.0 + data.edge_index.sum(0) % 3).double()
    return data


def make(name, seed):
    torch.manual_seed(seed)
    return MODELS[name]().double().eval()

"""A seed -> a random model made of the operations that graph networks are written in.

A program is a list of steps. Each step applies one operation to values that earlier steps made, and adds one value. A
value has rows of nodes, of edges or of graphs, and four columns; operations are methods, one for each way of writing.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.utils import scatter, softmax

WIDTH = 4
NODES, EDGES, GRAPHS = "nodes", "edges", "graphs"
OPERATIONS = {}  # name -> (rows of its inputs, rows of its result, hops, how many linear maps of which width)
ACTIVATIONS = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "elu": F.elu,
    "gelu": F.gelu,
    "leaky": lambda h: F.leaky_relu(h, 0.2),
    "softplus": F.softplus,
    "abs": torch.abs,
    "square": lambda h: 0.3 * h**2,
    "swish by hand": lambda h: h * torch.sigmoid(h),
    "clamp": lambda h: h.clamp(-1.0, 1.0),
    "clamp below": lambda h: h.clamp(min=-0.5),
    "where": lambda h: torch.where(h > 0, h, 0.1 * h),
    "masked_fill": lambda h: h.masked_fill(h < 0, 0.0),
}


def operation(inputs, result, *, hops=0, maps=(), often=1.0):
    """Declare a method of Program as an operation; `maps` are the widths of what its linear maps are given."""

    def declare(method):
        OPERATIONS[method.__name__] = (inputs, result, hops, maps, often)
        return method

    return declare


class Program(nn.Module):
    """A random model. `steps` are (operation, numbers of values, option); `say` prints them."""

    def __init__(self, steps, of_graphs):
        super().__init__()
        self.steps, self.of_graphs = steps, of_graphs
        self.maps = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, WIDTH, bias=option["bias"]) for width in OPERATIONS[name][3])
            for name, _, option in steps
        )
        self.first, self.last = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 3)
        self.edge, self.cell, self.table = nn.Linear(3, WIDTH), nn.GRUCell(WIDTH, WIDTH), nn.Embedding(8, WIDTH)
        self.vector = nn.Parameter(torch.empty(WIDTH))

    def say(self):
        """One line for each step."""
        return "\n".join(f"{i}: {name}{inputs} {option}" for i, (name, inputs, option) in enumerate(self.steps, 1))

    def forward(self, x, edge_index, edge_weight, edge_attr, edge_type, batch):
        self.n, self.senders, self.receivers = x.size(0), edge_index[0], edge_index[1]
        self.edge_index, self.weight, self.attr, self.kind, self.batch = (
            edge_index, edge_weight, edge_attr, edge_type, batch,
        )  # fmt: skip
        values = [self.first(x)]
        for (name, inputs, option), maps in zip(self.steps, self.maps, strict=True):
            values.append(getattr(self, name)(*(values[i] for i in inputs), maps=maps, **option))
        return self.last(values[-1])

    # ---- rows of any kind

    @operation(["a"], "a", maps=(WIDTH,))
    def linear(self, h, maps, **option):
        return maps[0](h)

    @operation(["a"], "a", often=3)
    def activate(self, h, maps, name, **option):
        return ACTIVATIONS[name](h)

    @operation(["a", "a"], "a", often=2)
    def add(self, a, b, maps, scale, **option):
        return a + scale * b

    @operation(["a", "a"], "a")
    def subtract(self, a, b, maps, **option):
        return a - b

    @operation(["a", "a"], "a", often=2)
    def multiply(self, a, b, maps, **option):
        return a * b

    @operation(["a", "a"], "a", maps=(WIDTH,))
    def gate(self, a, b, maps, **option):
        z = torch.sigmoid(maps[0](a))
        return (1 - z) * a + z * b

    @operation(["a", "a"], "a")
    def interpolate(self, a, b, maps, **option):
        z = torch.sigmoid(b)
        return a + z * (b - a)

    @operation(["a", "a"], "a", maps=(2 * WIDTH,))
    def concatenate(self, a, b, maps, **option):
        return maps[0](torch.cat([a, b], dim=-1))

    @operation(["a", "a"], "a")
    def larger(self, a, b, maps, **option):
        return torch.maximum(a, b)

    @operation(["a", "a"], "a")
    def smaller(self, a, b, maps, **option):
        return torch.min(a, b)

    @operation(["a", "a"], "a")
    def stack_and_take_largest(self, a, b, maps, **option):
        return torch.stack([a, b], dim=1).max(dim=1).values

    @operation(["a", "a"], "a")
    def stack_and_average(self, a, b, maps, **option):
        return torch.stack([a, b]).mean(dim=0)

    @operation(["a", "a"], "a")
    def slices(self, a, b, maps, **option):
        return torch.cat([a[:, 2:], b[:, :1], a[:, 1:2]], dim=1)

    @operation(["a"], "a")
    def heads(self, h, maps, **option):
        return h.reshape(-1, 2, WIDTH // 2).transpose(1, 2).reshape(-1, WIDTH)

    @operation(["a"], "a")
    def sum_of_heads(self, h, maps, **option):
        return h.reshape(-1, 2, WIDTH // 2).sum(dim=1).repeat(1, 2)

    @operation(["a"], "a")
    def folded_linear(self, h, maps, **option):
        return (h.reshape(-1, 2) @ self.vector.view(2, 2)).view(-1, WIDTH)

    @operation(["a"], "a")
    def chunks(self, h, maps, **option):
        left, right = h.chunk(2, dim=-1)
        return torch.cat([right, left * torch.sigmoid(right)], dim=-1)

    @operation(["a"], "a")
    def write_columns(self, h, maps, **option):
        out = torch.zeros_like(h)
        out[:, :2] = h[:, 1:3]
        out[:, 2:] += 0.5 * h[:, :2]
        return out

    @operation(["a"], "a")
    def in_place(self, h, maps, **option):
        out = h.clone()
        out.mul_(0.5).add_(self.vector)
        out[:, 0] = 2 * out[:, 1]
        return out

    @operation(["a"], "a")
    def overwritten_base(self, h, maps, **option):
        base = h * 1.0
        view = base[:, :2]
        kept = view + 1.0
        base[:, 1:] = 0.5 * h[:, :3]
        return torch.cat([kept, view], dim=1)

    @operation(["a"], "a")
    def unit_length(self, h, maps, **option):
        return F.normalize(h, dim=-1)

    @operation(["a"], "a")
    def layer_norm(self, h, maps, **option):
        return F.layer_norm(h, (WIDTH,), self.vector)

    @operation(["a"], "a")
    def layer_norm_by_hand(self, h, maps, **option):
        centred = h - h.mean(dim=-1, keepdim=True)
        return centred / torch.sqrt(centred.pow(2).mean(dim=-1, keepdim=True) + 1e-5)

    @operation(["a"], "a")
    def softmax_of_columns(self, h, maps, **option):
        return torch.softmax(h, dim=-1) * h

    @operation(["a"], "a")
    def scalar_gate(self, h, maps, **option):
        return torch.sigmoid(h @ self.vector).unsqueeze(-1) * h

    @operation(["a"], "a")
    def dropout(self, h, maps, **option):
        return F.dropout(h, 0.5, training=self.training)

    @operation(["a"], "a")
    def size_as_number(self, h, maps, **option):
        return h * (self.edge_index.size(1) / self.n) - 1.0 / len(h)

    @operation(["a"], "a")
    def decide_on_size(self, h, maps, **option):
        return h * 0.5 if self.edge_index.shape[1] > 13 else h + 0.1

    # ---- from nodes to edges and back

    @operation([NODES], EDGES, often=4)
    def gather_senders(self, h, maps, **option):
        return h[self.senders]

    @operation([NODES], EDGES)
    def select_receivers(self, h, maps, **option):
        return torch.index_select(h, 0, self.receivers)

    @operation([NODES], EDGES)
    def embed_senders(self, h, maps, **option):
        return F.embedding(self.senders, h)

    @operation([NODES], EDGES)
    def gather_function(self, h, maps, **option):
        return h.gather(0, self.senders.view(-1, 1).expand(-1, WIDTH))

    @operation([NODES, NODES], EDGES, maps=(2 * WIDTH,), often=2)
    def both_ends(self, a, b, maps, **option):
        return maps[0](torch.cat([a[self.receivers], b[self.senders] - a[self.receivers]], dim=1))

    @operation([NODES, NODES], EDGES)
    def product_of_ends(self, a, b, maps, **option):
        return a[self.receivers] * b[self.senders]

    @operation([EDGES], EDGES)
    def weigh(self, m, maps, **option):
        return m * self.weight.view(-1, 1)

    @operation([EDGES], EDGES)
    def add_edge_features(self, m, maps, **option):
        return m + self.edge(self.attr)

    @operation([EDGES], EDGES)
    def multiply_edge_features(self, m, maps, **option):
        return m * torch.tanh(self.edge(self.attr))

    @operation([EDGES], EDGES)
    def mask_by_relation(self, m, maps, **option):
        return m * (self.kind == 1).to(m.dtype).unsqueeze(-1)

    @operation([EDGES], EDGES)
    def normalise_by_degree(self, m, maps, **option):
        root = self.degree(m).rsqrt()
        return m * (root[self.senders] * root[self.receivers])[:, None]

    @operation([EDGES], NODES, hops=1, often=2)
    def index_add(self, m, maps, **option):
        return torch.zeros(self.n, WIDTH, dtype=m.dtype).index_add_(0, self.receivers, m)

    @operation([EDGES], NODES, hops=1)
    def scatter_add(self, m, maps, **option):
        index = self.receivers[:, None].expand_as(m)
        return m.new_zeros(self.n, WIDTH).scatter_add_(0, index, m)

    @operation([EDGES], NODES, hops=1)
    def index_put(self, m, maps, **option):
        return m.new_zeros(self.n, WIDTH).index_put_((self.receivers,), m, accumulate=True)

    @operation([EDGES], NODES, hops=1)
    def scatter_mean(self, m, maps, **option):
        return scatter(m, self.receivers, dim=0, dim_size=self.n, reduce="mean")

    @operation([EDGES], NODES, hops=1)
    def scatter_largest(self, m, maps, **option):
        return scatter(m, self.receivers, dim=0, dim_size=self.n, reduce="max")

    @operation([EDGES], NODES, hops=1)
    def reduce_largest(self, m, maps, **option):
        index = self.receivers[:, None].expand_as(m)
        return m.new_zeros(self.n, WIDTH).scatter_reduce(0, index, m, "amax", include_self=True)

    @operation([EDGES], NODES, hops=1)
    def reduce_least(self, m, maps, **option):
        index = self.receivers[:, None].expand_as(m)
        return m.new_zeros(self.n, WIDTH).scatter_reduce(0, index, m, "amin", include_self=False)

    @operation([EDGES], NODES, hops=1)
    def add_to_senders(self, m, maps, **option):
        return m.new_zeros(self.n, WIDTH).index_add(0, self.senders, m) / self.degree(m)[:, None]

    @operation([EDGES, EDGES], NODES, hops=1)
    def attend(self, m, other, maps, **option):
        alpha = softmax((other * self.vector).sum(-1), self.receivers, num_nodes=self.n)
        return m.new_zeros(self.n, WIDTH).index_add_(0, self.receivers, alpha[:, None] * m)

    @operation([EDGES], NODES, hops=1)
    def attend_by_hand(self, m, maps, **option):
        scores = torch.exp((m @ self.vector).clamp(-5, 5))
        total = m.new_zeros(self.n).index_add_(0, self.receivers, scores)
        alpha = scores / (total[self.receivers] + 1e-16)
        return m.new_zeros(self.n, WIDTH).index_add_(0, self.receivers, alpha.unsqueeze(-1) * m)

    @operation([EDGES], NODES, hops=1)
    def normalised_gates(self, m, maps, **option):
        gate = torch.sigmoid(m)
        above = m.new_zeros(self.n, WIDTH).index_add_(0, self.receivers, gate * m)
        return above / (m.new_zeros(self.n, WIDTH).index_add_(0, self.receivers, gate) + 1e-6)

    # ---- products with matrices

    def degree(self, like):
        """How many edges arrive at each node, and one more."""
        return torch.bincount(self.receivers, minlength=self.n).to(like.dtype) + 1

    def matrix(self, like, name):
        """A dense adjacency: plain, weighted, with loops, normalised by rows or by both roots."""
        matrix = torch.zeros(self.n, self.n, dtype=like.dtype)
        matrix[self.receivers, self.senders] = self.weight if name == "weighted" else 1.0
        if name in ("rows", "roots"):
            matrix.fill_diagonal_(1.0)
            degree = matrix.sum(dim=1)
            matrix = matrix / degree[:, None] if name == "rows" else degree.rsqrt()[:, None] * matrix * degree.rsqrt()
        return matrix

    @operation([NODES], NODES, hops=1, often=2)
    def dense_product(self, h, maps, matrix, **option):
        return self.matrix(h, matrix) @ h

    @operation([NODES], NODES, hops=1)
    def product_from_the_right(self, h, maps, matrix, **option):
        return (h.t() @ self.matrix(h, matrix)).t()

    @operation([NODES], NODES, hops=1)
    def sparse_product(self, h, maps, matrix, **option):
        return torch.sparse.mm(self.matrix(h, matrix).to_sparse(), h)

    @operation([NODES], NODES, hops=1)
    def coordinate_product(self, h, maps, **option):
        size = (self.n, self.n)
        adj = torch.sparse_coo_tensor(self.edge_index.flip(0), self.weight, size, check_invariants=False)
        return torch.spmm(adj.coalesce(), h)

    @operation([NODES], NODES, hops=1)
    def einsum_product(self, h, maps, matrix, **option):
        return torch.einsum("vu,uf->vf", self.matrix(h, matrix), h)

    @operation([NODES], NODES, hops=1)
    def batched_product(self, h, maps, matrix, **option):
        return torch.bmm(self.matrix(h, matrix)[None], h[None]).squeeze(0)

    @operation([NODES, NODES], NODES, hops=1)
    def dense_attention(self, h, other, maps, **option):
        scores = (other @ other.t()) / math.sqrt(WIDTH)
        scores = scores.masked_fill(self.matrix(h, "rows") == 0, float("-inf"))
        return torch.softmax(scores, dim=-1) @ h

    @operation([NODES], NODES, hops=1)
    def relational_means(self, h, maps, **option):
        out = 0.1 * h
        for relation in range(2):
            senders, receivers = self.edge_index[:, self.kind == relation]
            count = torch.bincount(receivers, minlength=self.n).clamp(min=1).to(h.dtype)
            total = torch.zeros_like(h).index_add_(0, receivers, h[senders])
            out = out + (relation + 0.5) * total / count[:, None]
        return out

    # ---- nodes and structure

    @operation([NODES], NODES)
    def divide_by_degree(self, h, maps, **option):
        return h / self.degree(h).unsqueeze(-1)

    @operation([NODES], NODES)
    def scale_by_log_degree(self, h, maps, **option):
        return torch.cat([h[:, :2], h[:, 2:] * torch.log(self.degree(h) + 1)[:, None]], dim=1)

    @operation([NODES], NODES)
    def add_degree(self, h, maps, **option):
        return h + self.degree(h)[:, None] * self.vector

    @operation([NODES], NODES)
    def embed_degree(self, h, maps, **option):
        return h + self.table((self.degree(h).long() - 1).clamp(max=7))

    @operation([NODES, NODES], NODES)
    def where_degree(self, a, b, maps, **option):
        return torch.where((self.degree(a) > 2).unsqueeze(1), a, 0.5 * b)

    @operation([NODES, NODES], NODES)
    def write_rows_of_mask(self, a, b, maps, **option):
        hears = torch.zeros(self.n, dtype=torch.bool)
        hears[self.receivers] = True
        out = a.clone()
        out[hears] = b[hears]
        return out

    @operation([NODES, NODES], NODES)
    def recurrent_cell(self, a, b, maps, **option):
        return self.cell(a, b)

    # ---- nodes and graphs

    @operation([NODES], GRAPHS, often=0.5)
    def add_up(self, h, maps, **option):
        return h.new_zeros(int(self.batch.max()) + 1, WIDTH).index_add_(0, self.batch, h)

    @operation([NODES], GRAPHS, often=0.5)
    def average(self, h, maps, **option):
        return scatter(h, self.batch, dim=0, reduce="mean")

    @operation([NODES], GRAPHS, often=0.5)
    def largest_of_graph(self, h, maps, **option):
        return scatter(h, self.batch, dim=0, reduce="max")

    @operation([GRAPHS, NODES], NODES)
    def give_back(self, g, h, maps, **option):
        return h + 0.5 * g[self.batch]

    @operation([NODES], NODES, hops=1, often=0.5)
    def centre_over_nodes(self, h, maps, **option):
        return h - h.mean(dim=0)

    @operation([NODES], NODES, hops=1, often=0.5)
    def spread_mean(self, h, maps, **option):
        return torch.cat([h[:, :2], h.mean(dim=0, keepdim=True).expand(self.n, -1)[:, 2:]], dim=1)

    # ---- what must be refused, or be right on every graph

    @operation([NODES], NODES, often=0.15)
    def branch_on_values(self, h, maps, **option):
        return h if h.sum() > 0 else -h

    @operation([NODES], NODES, often=0.15)
    def best_rows(self, h, maps, **option):
        best = h[:, 0].topk(3).indices
        return h + h[best].mean(dim=0)

    @operation([NODES], NODES, often=0.15)
    def dropout_left_on(self, h, maps, **option):
        return F.dropout(h, 0.5)

    @operation([NODES], NODES, often=0.15)
    def through_numpy(self, h, maps, **option):
        return h + torch.from_numpy(np.sin(h.detach().numpy()))


MOST_HOPS = 3


def make_program(seed):
    """A random program of three to nine steps, whose last value is of nodes, or now and then of graphs."""
    rng = np.random.default_rng(seed)
    of_graphs = bool(rng.random() < 0.15)
    length, names = int(rng.integers(3, 10)), list(OPERATIONS)
    # Few values are of edges, so that what works on them is drawn more often.
    weights = np.array([row[4] * (3 if row[0] == [EDGES] else 1) for row in OPERATIONS.values()])
    steps, rows, hops = [], [NODES], [0]

    def pick(name, most_hops):
        """Values for an operation and the rows that "a" stands for; None where there are none."""
        inputs, _, more, _, _ = OPERATIONS[name]
        kind = str(rng.choice(list(dict.fromkeys(rows)))) if "a" in inputs else None
        picked = []
        for wanted in inputs:
            found = [i for i, row in enumerate(rows) if row == (kind if wanted == "a" else wanted)]
            found = [i for i in found if hops[i] + more <= most_hops]
            if not found:
                return None
            chance = np.arange(1, len(found) + 1) ** 2.0  # later values are likelier
            picked.append(int(rng.choice(found, p=chance / chance.sum())))
        return picked, kind

    def step(choices, most_hops=MOST_HOPS):
        """Add one step; some choice must have values to work on."""
        chances = np.array([weights[names.index(name)] for name in choices])
        found = None
        while found is None:
            name = str(rng.choice(choices, p=chances / chances.sum()))
            found = pick(name, most_hops)
        picked, kind = found
        _, result, more, _, _ = OPERATIONS[name]
        option = {
            "bias": bool(rng.integers(2)), "name": str(rng.choice(list(ACTIVATIONS))),
            "matrix": str(rng.choice(["plain", "weighted", "rows", "roots"])),
            "scale": float(rng.choice([-1.0, 0.5, 2.0])),
        }  # fmt: skip
        steps.append((name, tuple(picked), option))
        rows.append(kind if result == "a" else result)
        hops.append(max(hops[i] for i in picked) + more)

    for _ in range(length):
        step(names)
    if not any(hops):
        step(["dense_product", "relational_means", "sparse_product"])
    if rows[-1] == EDGES:
        step(["index_add", "scatter_mean", "attend"], MOST_HOPS + 1)
    if of_graphs and rows[-1] != GRAPHS:
        step(["add_up", "average"])
    if not of_graphs and rows[-1] == GRAPHS:
        step(["give_back"])
    return Program(steps, of_graphs)

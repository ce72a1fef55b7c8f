"""Random evolutions and models for tests of blame and undo, and the user's own model on literal graphs."""

import itertools

import numpy as np
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data

import axiompath
from support.references import literal_applied

ON = "x, edge_index -> x"


def evolve(
    seed, num_changes=5, num_nodes=9, symmetric=True, weighted=False, kinds=("edges", "features", "nodes"), relations=0
):
    """(before, after): a random graph and some random changes of it; with relations, its edges have types."""
    rng = np.random.default_rng(seed)
    here = rng.random((num_nodes, num_nodes)) < 0.3
    here = np.triu(here, 1) | np.triu(here, 1).T if symmetric else here & ~np.eye(num_nodes, dtype=bool)
    weights = rng.uniform(0.5, 2, size=here.shape)
    weights = np.maximum(weights, weights.T) if symmetric else weights
    edges, values = [here, here.copy()], [weights, weights.copy()]
    of = np.random.default_rng(seed).integers(max(relations, 1), size=here.shape)
    types = [np.maximum(of, of.T) if symmetric else of.copy() for _ in range(2)]
    kinds = (*kinds, *(["types"] if relations else []))
    ids = [np.arange(num_nodes)] * 2
    x = [rng.normal(size=(num_nodes, 4))] * 2
    for _ in range(num_changes):
        kind = rng.choice([*kinds, *(["weights"] if weighted else [])])
        u, v = rng.choice(num_nodes, 2, replace=False)
        if kind == "edges":
            edges[1][u, v] = ~edges[0][u, v]
            if symmetric:
                edges[1][v, u] = edges[1][u, v]
        elif kind == "weights":
            values[1][u, v] = rng.uniform(0.5, 2)
            if symmetric:
                values[1][v, u] = values[1][u, v]
        elif kind == "types":
            types[1][u, v] = rng.integers(relations)
            if symmetric:
                types[1][v, u] = types[1][u, v]
        elif kind == "features":
            x = [x[0], x[1].copy()]
            x[1][u] += rng.normal(size=4)
        elif u != 0:
            side = int(rng.integers(2))
            ids[side] = ids[side][ids[side] != u]
    graphs = []
    for side in range(2):
        nodes = ids[side]
        u, v = np.nonzero(edges[side][np.ix_(nodes, nodes)])
        data = Data(x=torch.tensor(x[side][nodes]), edge_index=torch.tensor(np.stack([u, v])), n_id=torch.tensor(nodes))
        if weighted:
            data.edge_weight = torch.tensor(values[side][nodes[u], nodes[v]])
        if relations:
            data.edge_type = torch.tensor(types[side][nodes[u], nodes[v]])
        graphs.append(data)
    return graphs


class Pooled(nn.Module):
    def __init__(self, mean=True):
        super().__init__()
        self.first, self.second, self.mean = pyg.GCNConv(4, 6), pyg.SAGEConv(6, 6), mean
        self.last = nn.Linear(6, 3)

    def forward(self, x, edge_index, batch):
        h = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        return self.last((pyg.global_mean_pool if self.mean else pyg.global_add_pool)(h, batch))


class Link(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(4, 6), pyg.GCNConv(6, 5)

    def forward(self, x, edge_index, edge_label_index):
        h = self.second(self.first(x, edge_index).relu(), edge_index)
        return (h[edge_label_index[0]] * h[edge_label_index[1]]).sum(-1)


class Related(nn.Module):
    """RGCN, and a convolution that looks at no relation beside it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.RGCNConv(4, 6, 3, num_bases=2), pyg.FastRGCNConv(6, 3, 3)
        self.beside = pyg.GCNConv(4, 6)

    def forward(self, x, edge_index, edge_type):
        h = self.first(x, edge_index, edge_type) + self.beside(x, edge_index)
        return self.second(h.relu(), edge_index, edge_type)


class Unreadable(nn.Module):
    """A median of messages is no weighted sum of them: it is refused."""

    def __init__(self):
        super().__init__()
        mlp = nn.Sequential(nn.Linear(8, 6), nn.Tanh())
        self.first, self.second = pyg.EdgeConv(mlp, aggr="median"), pyg.GCNConv(6, 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index), edge_index)


def make(name, seed=0):
    torch.manual_seed(seed)
    model = {
        "gcn": lambda: pyg.GCN(4, 6, 2, 3),
        "gcn3": lambda: pyg.GCN(4, 5, 3, 3, act="tanh"),
        "sage": lambda: pyg.GraphSAGE(4, 6, 2, 3),
        "sum": lambda: pyg.GCN(4, 6, 2, 3, normalize=False),
        "gat": lambda: pyg.GAT(4, 6, 2, 3, heads=2),
        "gatv2": lambda: pyg.GAT(4, 6, 2, 3, v2=True),
        "transformer": lambda: pyg.Sequential(
            "x, edge_index",
            [(pyg.TransformerConv(4, 6), ON), nn.ReLU(), (pyg.TransformerConv(6, 3), ON)],
        ),
        "cluster": lambda: pyg.Sequential(
            "x, edge_index",
            [(pyg.ClusterGCNConv(4, 6, diag_lambda=0.3), ON), nn.ReLU(), (pyg.SAGEConv(6, 3), ON)],
        ),
        "layer_norm": lambda: pyg.GCN(4, 6, 2, 3, norm="layer_norm", norm_kwargs={"mode": "node"}),
        "batch_norm": lambda: pyg.GCN(4, 6, 2, 3, norm="batch_norm"),
        "gin": lambda: pyg.GIN(4, 6, 2, 3, norm="batch_norm"),
        "appnp": lambda: pyg.Sequential(
            "x, edge_index", [(nn.Linear(4, 3), "x -> x"), (pyg.APPNP(3, 0.2), "x, edge_index -> x")]
        ),
        "backwards": lambda: pyg.Sequential(
            "x, edge_index",
            [(pyg.GCNConv(4, 6, flow="target_to_source"), ON), nn.ReLU(), (pyg.GCNConv(6, 3), ON)],
        ),
        "size_norm": lambda: pyg.Sequential(
            "x, edge_index",
            [(pyg.GCNConv(4, 6), ON), (pyg.GraphSizeNorm(), "x -> x"), (pyg.GCNConv(6, 3), ON)],
        ),
        "max": lambda: pyg.GraphSAGE(4, 6, 2, 3, aggr="max"),
        "several": lambda: pyg.GraphSAGE(4, 6, 2, 3, aggr=["mean", "min", "std"]),
        "pooled": Pooled,
        "pooled_sum": lambda: Pooled(False),
        "link": Link,
        "unreadable": Unreadable,
        "rgcn": Related,
    }[name]().double()  # fmt: skip
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.uniform_(module.running_mean), nn.init.uniform_(module.running_var, 0.5, 2)
    return model.eval()


def own_answers(model, graphs, target):
    """The user's model on literal graphs, as one batch: logits [num_graphs, num_logits] of the target."""
    items = []
    for nodes, edges in graphs:
        place = {node: row for row, node in enumerate(nodes)}
        pairs = torch.tensor([[place[u], place[v]] for u, v, *_ in edges], dtype=torch.long).reshape(-1, 2).T
        weight = torch.tensor([w for _, _, w, _ in edges], dtype=torch.float64)
        types = torch.tensor([t for *_, t in edges], dtype=torch.long)
        x = torch.tensor(np.stack(list(nodes.values())))
        items.append(Data(x=x, edge_index=pairs, edge_weight=weight, edge_type=types))
    batch = Batch.from_data_list(items)
    offsets = batch.ptr[:-1].tolist()
    with torch.no_grad():
        if isinstance(model, Pooled):
            return model(batch.x, batch.edge_index, batch.batch).numpy()
        rows = [
            [list(nodes).index(end) + o for end in np.atleast_1d(target)]
            for (nodes, _), o in zip(graphs, offsets, strict=True)
        ]
        if isinstance(model, Link):
            return model(batch.x, batch.edge_index, torch.tensor(rows).T).reshape(-1, 1).numpy()
        third = {pyg.GCN: (batch.edge_weight,), Related: (batch.edge_type,)}.get(type(model), ())
        out = model(batch.x, batch.edge_index, *third)
        return out[torch.tensor(rows)[:, 0]].numpy()


def brute(model, before, after, changes, rows, target, opened=False, standing=()):
    """v of every subset of these rows (all others applied), by the user's own model: dict of frozensets of places."""
    others = set(changes.id) - set(rows)
    sets = [frozenset(s) for r in range(len(rows) + 1) for s in itertools.combinations(range(len(rows)), r)]
    graphs = [
        literal_applied(before, after, changes, others | {rows[i] for i in chosen}, opened, standing) for chosen in sets
    ]
    return dict(zip(sets, own_answers(model, graphs, target), strict=True))


NODE_MODELS = (
    "gcn", "gcn3", "sage", "sum", "gat", "gatv2", "transformer", "cluster", "layer_norm", "gin", "appnp", "backwards",
    "size_norm",
)  # fmt: skip


def open_model(name, before, after, seed=0, **options):
    model = make(name, seed)
    shared = sorted(set(before.n_id.tolist()) & set(after.n_id.tolist()))
    links = [(0, node) for node in shared if node][:2] if name == "link" else None
    output = "binary" if name == "link" else "auto"
    return model, axiompath.Explainer(model, before, after, links=links, output=output, **options)


def targets_of(name, before, after):
    shared = sorted(set(before.n_id.tolist()) & set(after.n_id.tolist()))
    return {"link": [(0, shared[-1])], "pooled": [0], "pooled_sum": [0]}.get(name, shared[:2])

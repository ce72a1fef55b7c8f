"""Sixty cases for the golden record: models, graphs before and after, and options, made from fixed seeds.

Only the public interface and PyG are used, so that the cases outlive any change inside the library.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data, HeteroData

import axiompath

WIDTH, CLASSES = 4, 3
TYPED_WIDTHS = {"author": 2, "paper": 4}
TYPED_SIZES = {"author": 9, "paper": 14}
RELATIONS = (("author", "writes", "paper"), ("paper", "by", "author"), ("paper", "cites", "paper"))


@dataclass(frozen=True)
class Sequence:
    """Models (one, or one a snapshot) and snapshots, for scans of sequences and stories."""

    model: Any
    snapshots: Any
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A name, and what makes an Explainer or a Sequence; `make` may write files into the folder it is given."""

    name: str
    make: Callable[[Path], Any]
    quick: bool = False
    every: bool = False  # all combinations of method, objective and unit are asked, not a sample
    reads: bool = True  # False where the model is run as it is (paths=False)


CASES: list[Case] = []


def case(quick=False, every=False, reads=True):
    """Register a function folder -> Explainer or Sequence under its own name."""

    def keep(make):
        CASES.append(Case(make.__name__, make, quick, every, reads))
        return make

    return keep


# ---- graphs ---------------------------------------------------------------------------------------------------------
def random_edges(rng, num_nodes, degree, symmetric=True):
    found = rng.random((num_nodes, num_nodes)) < degree / num_nodes / (2 if symmetric else 1)
    found = found | found.T if symmetric else found
    np.fill_diagonal(found, False)
    return found


def toggled(rng, edges, remove, add, symmetric=True):
    """The same edges with some removed and others added."""
    after = edges.copy()
    for number, where in ((remove, edges), (add, ~edges & ~np.eye(len(edges), dtype=bool))):
        u, v = np.nonzero(np.triu(where) if symmetric else where)
        for i in rng.choice(len(u), number, replace=False):
            after[u[i], v[i]] ^= True
            if symmetric:
                after[v[i], u[i]] ^= True
    return after


def to_data(edges, x, ids=None, weights=None, attr=None, types=None):
    numbered, ids = ids is not None, np.arange(len(x)) if ids is None else ids
    u, v = np.nonzero(edges[np.ix_(ids, ids)])
    data = Data(x=torch.from_numpy(x[ids].copy()), edge_index=torch.from_numpy(np.stack([u, v])))
    for name, values in (("edge_weight", weights), ("edge_attr", attr), ("edge_type", types)):
        if values is not None:
            data[name] = torch.from_numpy(values[ids[u], ids[v]].copy())
    if numbered:
        data.n_id = torch.from_numpy(ids)
    return data


def graphs(
    seed, n=30, degree=4.0, remove=3, add=3, features=0, reweight=0, symmetric=True,
    weighted=False, attr=0, relations=0, gone=0, new=0, steps=1,
):  # fmt: skip
    """Snapshots of one graph, each made from the one before it."""
    rng = np.random.default_rng(seed)
    edges, x = random_edges(rng, n, degree, symmetric), rng.normal(size=(n, WIDTH))
    weights = rng.uniform(0.3, 2.0, size=(n, n))
    weights = (weights + weights.T) / 2
    told, types = rng.normal(size=(n, n, max(attr, 1))), rng.integers(0, max(relations, 1), size=(n, n))
    first, last = np.arange(n - new), np.arange(gone, n)
    found = []
    for step in range(steps + 1):
        if step:
            edges, x, weights, told = toggled(rng, edges, remove, add, symmetric), x.copy(), weights.copy(), told.copy()
            x[rng.choice(n, features, replace=False)] += rng.normal(size=(features, WIDTH))
            u, v = np.nonzero(np.triu(edges))
            for i in rng.choice(len(u), reweight, replace=False):
                weights[u[i], v[i]] = weights[v[i], u[i]] = rng.uniform(0.3, 2.0)
                told[u[i], v[i]] = rng.normal(size=max(attr, 1))
        ids = (first if step == 0 else last) if gone or new else None
        found.append(
            to_data(edges, x, ids, weights if weighted else None, told if attr else None, types if relations else None)
        )
    return found


def typed_graphs(seed, gone=0, features=1):
    """(before, after) with two types of nodes and three relations; authors may be gone after."""
    rng = np.random.default_rng(seed)
    x = {kind: rng.normal(size=(TYPED_SIZES[kind], width)) for kind, width in TYPED_WIDTHS.items()}
    edges = {r: rng.random((TYPED_SIZES[r[0]], TYPED_SIZES[r[2]])) < 0.2 for r in RELATIONS}
    found = []
    for step in range(2):
        if step:
            for r in RELATIONS:
                u, v = rng.integers(0, TYPED_SIZES[r[0]], 2), rng.integers(0, TYPED_SIZES[r[2]], 2)
                edges[r] = edges[r].copy()
                edges[r][u, v] ^= True
            x["author"] = x["author"].copy()
            x["author"][:features] += 1.0
        ids = {kind: np.arange(gone if step and kind == "author" else 0, size) for kind, size in TYPED_SIZES.items()}
        data = HeteroData()
        for kind, rows in ids.items():
            data[kind].x = torch.from_numpy(x[kind][rows].copy())
            data[kind].n_id = torch.from_numpy(rows)
        for r in RELATIONS:
            here = np.nonzero(edges[r][np.ix_(ids[r[0]], ids[r[2]])])
            data[r].edge_index = torch.from_numpy(np.stack(here))
        found.append(data)
    return found


# ---- models ---------------------------------------------------------------------------------------------------------
def settled(model, seed, std=0.8):
    """Every parameter and statistic from the seed, in float64, for evaluation."""
    torch.manual_seed(seed)
    model = model.double().eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=std)
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            nn.init.normal_(module.running_mean, std=0.5)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return model


class Convs(nn.Module):
    """Convolutions with an activation between them; `given` is the field of edges that they take besides."""

    def __init__(self, *convs, given=None, act=torch.relu):
        super().__init__()
        self.convs, self.given, self.act = nn.ModuleList(convs), given, act

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, edge_type=None):
        more = {"edge_weight": edge_weight, "edge_attr": edge_attr, "edge_type": edge_type}.get(self.given)
        for i, conv in enumerate(self.convs):
            x = self.act(x) if i else x
            x = conv(x, edge_index) if self.given is None else conv(x, edge_index, more)
        return x


class Sandwich(nn.Module):
    """Linear, conv, norm, activation, residual, conv, Linear: as people write it by hand."""

    def __init__(self, norm=None, residual=False, conv=pyg.GCNConv, jump=None, out=CLASSES, last=None):
        super().__init__()
        self.enter, self.first, self.second = nn.Linear(WIDTH, 6), conv(6, 6), conv(6, 6)
        self.norm, self.residual, self.last = norm or nn.Identity(), residual, last
        self.jump = pyg.JumpingKnowledge(jump) if jump else None
        self.leave = nn.Linear(12 if jump == "cat" else 6, out)

    def forward(self, x, edge_index):
        x = self.enter(x).tanh()
        h = torch.relu(self.norm(self.first(x, edge_index)))
        h = h + x if self.residual else h
        g = self.second(h, edge_index)
        g = g + h if self.residual else g
        g = self.leave(self.jump([h, g]) if self.jump else g)
        return g if self.last is None else self.last(g)


class PooledModel(nn.Module):
    """A model of whole graphs."""

    def __init__(self, pool, conv=pyg.GCNConv, out=CLASSES):
        super().__init__()
        self.first, self.second, self.pool = conv(WIDTH, 6), conv(6, 6), pool
        self.head = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, out))

    def forward(self, x, edge_index, batch):
        h = self.first(x, edge_index).relu()
        return self.head(self.pool(self.second(h, edge_index).relu(), batch))


class PooledBonds(nn.Module):
    """A model of whole graphs with edge features."""

    def __init__(self):
        super().__init__()
        self.first = pyg.GINEConv(nn.Linear(WIDTH, 6), edge_dim=2)
        self.second = pyg.GINEConv(nn.Linear(6, 6), edge_dim=2)
        self.head = nn.Linear(6, 2)

    def forward(self, x, edge_index, edge_attr, batch):
        h = self.first(x, edge_index, edge_attr).relu()
        return self.head(pyg.global_max_pool(self.second(h, edge_index, edge_attr).relu(), batch))


class Linked(nn.Module):
    """A model of links: a product of both ends, or two layers on both side by side."""

    def __init__(self, product):
        super().__init__()
        self.first, self.second, self.product = pyg.GCNConv(WIDTH, 6), pyg.SAGEConv(6, 5), product
        self.head = nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x, edge_index, edge_label_index):
        z = self.second(self.first(x, edge_index).relu(), edge_index)
        u, v = z[edge_label_index[0]], z[edge_label_index[1]]
        return (u * v).sum(dim=-1).sigmoid() if self.product else self.head(torch.cat([u, v], dim=-1))


class Typed(nn.Module):
    """HeteroConv as people write it."""

    def __init__(self, conv, whole=False):
        super().__init__()
        self.enter = nn.ModuleDict({kind: nn.Linear(width, 4) for kind, width in TYPED_WIDTHS.items()})
        self.convs = nn.ModuleList(pyg.HeteroConv({r: conv() for r in RELATIONS}) for _ in range(2))
        self.leave, self.whole = nn.Linear(4, CLASSES), whole

    def forward(self, x_dict, edge_index_dict):
        x = {kind: self.enter[kind](part).relu() for kind, part in x_dict.items()}
        x = {kind: part.relu() for kind, part in self.convs[0](x, edge_index_dict).items()}
        x = {kind: self.leave(part) for kind, part in self.convs[1](x, edge_index_dict).items()}
        return x if self.whole else x["paper"]


class Attending(nn.Module):
    """HGT or HAN as their examples have it."""

    def __init__(self, conv):
        super().__init__()
        metadata = (list(TYPED_WIDTHS), list(RELATIONS))
        self.first = conv(TYPED_WIDTHS, 4, metadata, heads=2)
        self.second = conv(dict.fromkeys(TYPED_WIDTHS, 4), 4, metadata, heads=2)
        self.leave = nn.Linear(4, CLASSES)

    def forward(self, x_dict, edge_index_dict):
        return self.leave(self.second(self.first(x_dict, edge_index_dict), edge_index_dict)["paper"])


class PlainTyped(nn.Module):
    """For to_hetero."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.SAGEConv((-1, -1), 4), pyg.GATv2Conv((-1, -1), CLASSES, add_self_loops=False)
        self.norm = nn.LayerNorm(4)

    def forward(self, x, edge_index):
        return self.second(self.norm(self.first(x, edge_index).relu()), edge_index)


def mlp(a, b):
    return nn.Sequential(nn.Linear(a, 5), nn.ReLU(), nn.Linear(5, b))


def opened(model, pair, seed, std=0.8, **options):
    return axiompath.Explainer(settled(model, seed, std), *pair, **options)


# ---- node classification: convolutions ------------------------------------------------------------------------------
@case(quick=True, every=True)
def gcn(folder):
    return opened(pyg.GCN(WIDTH, 8, 2, CLASSES), graphs(1, n=60, degree=5.0, remove=5, add=4, features=1), 1)


@case(every=True)
def gcn_three_layers(folder):
    return opened(pyg.GCN(WIDTH, 6, 3, CLASSES), graphs(2, n=40, degree=3.5, remove=3, add=3), 2)


@case()
def sage(folder):
    return opened(
        pyg.GraphSAGE(WIDTH, 8, 3, CLASSES), graphs(3, n=50, degree=5.0, symmetric=False, remove=4, add=4), 3, std=0.5
    )


@case()
def gin(folder):
    return opened(Convs(pyg.GINConv(mlp(WIDTH, 6)), pyg.GINConv(mlp(6, CLASSES))), graphs(4), 4, std=0.5)


@case(every=True)
def gat(folder):
    model = Convs(pyg.GATConv(WIDTH, 4, heads=2), pyg.GATConv(8, CLASSES), act=nn.functional.elu)
    return opened(model, graphs(5, n=40, degree=4.0, remove=3, add=3), 5)


@case(quick=True)
def gatv2(folder):
    return opened(Convs(pyg.GATv2Conv(WIDTH, 4, heads=2), pyg.GATv2Conv(8, CLASSES)), graphs(6, features=1), 6)


@case()
def transformer(folder):
    return opened(Convs(pyg.TransformerConv(WIDTH, 4, heads=2), pyg.TransformerConv(8, CLASSES)), graphs(7), 7)


@case()
def cheb(folder):
    return opened(
        Convs(pyg.ChebConv(WIDTH, 5, 3), pyg.ChebConv(5, CLASSES, 2)), graphs(8, n=24, degree=2.0), 8, std=0.5
    )


@case()
def pna(folder):
    degrees = torch.tensor([0, 4, 10, 8, 4, 2])
    ways = {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"], "deg": degrees}
    return opened(Convs(pyg.PNAConv(WIDTH, 4, **ways), pyg.PNAConv(4, CLASSES, **ways)), graphs(9, n=20), 9, std=0.3)


@case(quick=True)
def gine_edge_features(folder):
    model = Convs(
        pyg.GINEConv(nn.Linear(WIDTH, 6), edge_dim=2),
        pyg.GINEConv(nn.Linear(6, CLASSES), edge_dim=2),
        given="edge_attr",
    )
    return opened(model, graphs(10, n=24, attr=2, reweight=2), 10, std=0.5)


@case()
def nnconv_edge_features(folder):
    model = Convs(
        pyg.NNConv(WIDTH, 4, mlp(2, 4 * WIDTH)), pyg.NNConv(4, CLASSES, mlp(2, 4 * CLASSES)), given="edge_attr"
    )
    return opened(model, graphs(11, n=20, degree=2.5, attr=2, reweight=1, remove=1, add=1), 11, std=0.4)


@case()
def rgcn(folder):
    model = Convs(pyg.RGCNConv(WIDTH, 6, 3), pyg.RGCNConv(6, CLASSES, 3), given="edge_type")
    return opened(model, graphs(12, relations=3, symmetric=False), 12, std=0.5)


@case()
def sage_max(folder):
    model = Convs(pyg.SAGEConv(WIDTH, 6, aggr="max"), pyg.SAGEConv(6, CLASSES, aggr="max"))
    return opened(model, graphs(13), 13)


# ---- norms, skips, gates --------------------------------------------------------------------------------------------
@case()
def batch_norm(folder):
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES, norm="batch"), graphs(14), 14)


@case()
def layer_norm(folder):
    return opened(Sandwich(nn.LayerNorm(6)), graphs(15), 15)


@case()
def graph_norm(folder):
    return opened(Sandwich(pyg.GraphNorm(6)), graphs(16, n=12, remove=1, add=1), 16)


@case()
def pair_norm(folder):
    return opened(Sandwich(pyg.PairNorm()), graphs(17, n=12, remove=1, add=1), 17)


@case()
def residual(folder):
    return opened(Sandwich(residual=True), graphs(18), 18)


@case()
def jumping_cat(folder):
    return opened(Sandwich(jump="cat", conv=pyg.GraphConv), graphs(19), 19, std=0.4)


@case()
def jumping_max(folder):
    return opened(Sandwich(jump="max"), graphs(20), 20)


@case(quick=True)
def gated_graph(folder):
    return opened(Sandwich(conv=lambda a, b: pyg.GatedGraphConv(b, 1)), graphs(21, n=16, degree=2.0), 21)


@case()
def res_gated(folder):
    return opened(
        Convs(pyg.ResGatedGraphConv(WIDTH, 5), pyg.ResGatedGraphConv(5, CLASSES)), graphs(22, n=20), 22, std=0.5
    )


@case()
def film(folder):
    return opened(
        Convs(pyg.FiLMConv(WIDTH, 5), pyg.FiLMConv(5, CLASSES)), graphs(23, n=20, symmetric=False), 23, std=0.5
    )


@case()
def linear_and_conv(folder):
    return opened(Sandwich(conv=pyg.SAGEConv), graphs(24, features=2), 24)


@case()
def appnp(folder):
    class Propagated(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.spread = mlp(WIDTH, CLASSES), pyg.APPNP(2, 0.1)

        def forward(self, x, edge_index):
            return self.spread(self.enter(x), edge_index).log_softmax(dim=-1)

    return opened(Propagated(), graphs(25), 25)


@case()
def tag_conv(folder):
    return opened(Convs(pyg.TAGConv(WIDTH, 5, K=1), pyg.TAGConv(5, CLASSES, K=1)), graphs(26, n=24), 26)


# ---- what changed ---------------------------------------------------------------------------------------------------
@case(quick=True)
def edge_weights_changed(folder):
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(27, n=36, weighted=True, reweight=4, remove=0, add=0), 27)


@case()
def edge_weights_and_edges(folder):
    model = Convs(pyg.GraphConv(WIDTH, 6), pyg.GraphConv(6, CLASSES), given="edge_weight")
    return opened(model, graphs(28, weighted=True, reweight=2, symmetric=False), 28, std=0.4)


@case()
def features_changed_only(folder):
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(29, remove=0, add=0, features=4), 29)


@case()
def edges_removed_only(folder):
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(30, remove=5, add=0), 30)


@case()
def edges_added_only(folder):
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(31, remove=0, add=5), 31)


@case()
def directed_mixture(folder):
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(32, n=60, symmetric=False, remove=4, add=4, features=2), 32)


@case(quick=True)
def new_nodes(folder):
    names = {node: f"member {node}" for node in range(34)}
    options = {"node_names": names, "class_names": ["red", "green", "blue"]}
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(33, n=34, new=2, remove=1, add=1), 33, **options)


@case()
def nodes_come_and_go(folder):
    return opened(pyg.GraphSAGE(WIDTH, 6, 2, CLASSES), graphs(34, new=2, gone=2, remove=1, add=1, features=1), 34)


@case()
def without_before(folder):
    (_, after) = graphs(35, n=14, degree=2.0)
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), (None, after), 35)


@case()
def sparse_features(folder):
    pair = graphs(36)
    for data in pair:
        data.x = (data.x * (data.x > 0)).to_sparse_csr()
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), pair, 36)


@case()
def many_changes(folder):
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(37, n=30, degree=4.0, remove=22, add=22), 37)


# ---- what is predicted ----------------------------------------------------------------------------------------------
@case(quick=True)
def values(folder):
    return opened(Sandwich(out=1), graphs(38), 38, output="value")


@case(every=True)
def values_with_scales(folder):
    return opened(Sandwich(out=2, conv=pyg.SAGEConv), graphs(39), 39, output="value", scales=[0.5, 2.0])


@case(quick=True)
def labels(folder):
    return opened(Sandwich(out=3, last=torch.sigmoid), graphs(40), 40)


@case()
def binary(folder):
    return opened(Sandwich(out=1, last=torch.sigmoid), graphs(41), 41)


@case()
def one_graph(folder):
    return opened(PooledModel(pyg.global_mean_pool), graphs(42, n=60), 42)


@case(quick=True)
def batch_of_graphs(folder):
    pairs = [graphs(430 + i, n=8 + i, remove=1, add=1) for i in range(4)]
    before, after = (Batch.from_data_list([pair[side] for pair in pairs]) for side in range(2))
    return opened(PooledModel(pyg.global_add_pool, pyg.SAGEConv), (before, after), 43, std=0.4)


@case(every=True)
def batch_with_edge_features(folder):
    pairs = [graphs(440 + i, n=7 + i, remove=1, add=1, attr=2, reweight=1) for i in range(3)]
    before, after = (Batch.from_data_list([pair[side] for pair in pairs]) for side in range(2))
    return opened(PooledBonds(), (before, after), 44, std=0.5)


@case(quick=True)
def links_product(folder):
    pair = graphs(45, n=24, degree=4.0)
    for data in pair:
        data.edge_label_index = torch.tensor([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]])
    return opened(Linked(product=True), pair, 45)


@case()
def links_side_by_side(folder):
    pair = graphs(46, n=24, degree=4.0)
    for data in pair:
        data.edge_label_index = torch.tensor([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]])
    return opened(Linked(product=False), pair, 46, class_names=["no", "yes"])


@case()
def links_autoencoder(folder):
    encoder = Convs(pyg.GCNConv(WIDTH, 6), pyg.GCNConv(6, 4))
    return opened(pyg.GAE(encoder), graphs(47, n=24), 47, links=[(0, 5), (1, 8), (2, 9), (3, 12)], output="binary")


# ---- types ----------------------------------------------------------------------------------------------------------
@case(quick=True)
def typed_conv(folder):
    return opened(Typed(lambda: pyg.SAGEConv((4, 4), 4)), typed_graphs(48), 48)


@case()
def typed_all_types(folder):
    return opened(Typed(lambda: pyg.GATConv((4, 4), 4, add_self_loops=False), whole=True), typed_graphs(49, gone=1), 49)


@case()
def typed_by_transformation(folder):
    pair = typed_graphs(50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pyg.to_hetero(PlainTyped(), pair[0].metadata()).double()
    with torch.no_grad():
        model(pair[0].x_dict, pair[0].edge_index_dict)
    return opened(model, pair, 50, call=lambda model, data: model(data.x_dict, data.edge_index_dict)["paper"])


@case()
def typed_hgt(folder):
    return opened(Attending(pyg.HGTConv), typed_graphs(51), 51)


@case()
def typed_han(folder):
    return opened(Attending(pyg.HANConv), typed_graphs(52, features=0), 52)


# ---- retrained models -----------------------------------------------------------------------------------------------
@case(quick=True)
def retrained(folder):
    old = settled(pyg.GCN(WIDTH, 6, 2, CLASSES), 530)
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(53), 53, model_before=old)


@case()
def retrained_deeper(folder):
    old = settled(pyg.GraphSAGE(WIDTH, 6, 1, CLASSES), 540)
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), graphs(54, n=24, features=1), 54, model_before=old)


# ---- stored graphs --------------------------------------------------------------------------------------------------
def stored(folder, pair, weighted=False):
    np.save(folder / "x.npy", pair[0].x.numpy())
    for name, data in zip(("before", "after"), pair, strict=True):
        np.save(folder / f"{name}.npy", data.edge_index.numpy())
        given = {"nodes": folder / "x.npy"} if name == "before" else {"features_of": folder / "before"}
        if weighted:
            np.save(folder / f"{name}_weights.npy", data.edge_weight.numpy())
            given["weights"] = folder / f"{name}_weights.npy"
        axiompath.convert_graph(folder / f"{name}.npy", folder / name, **given)
    return [axiompath.open_graph(folder / name) for name in ("before", "after")]


@case(quick=True)
def stored_graphs(folder):
    return opened(pyg.GCN(WIDTH, 6, 2, CLASSES), stored(folder, graphs(55, n=60)), 55)


@case()
def stored_weighted(folder):
    model = Convs(pyg.GraphConv(WIDTH, 6), pyg.GraphConv(6, CLASSES), given="edge_weight")
    return opened(model, stored(folder, graphs(56, n=60, weighted=True, reweight=2), weighted=True), 56, std=0.4)


# ---- sequences ------------------------------------------------------------------------------------------------------
@case(quick=True)
def sequence(folder):
    return Sequence(settled(pyg.GCN(WIDTH, 6, 2, CLASSES), 57), graphs(57, steps=3, features=1))


@case()
def sequence_of_models(folder):
    models = [settled(pyg.GCN(WIDTH, 6, 2, CLASSES), 580 + i) for i in range(3)]
    return Sequence(models, graphs(58, n=24, steps=2), {"class_names": ["red", "green", "blue"]})


@case()
def sequence_of_events(folder):
    rng = np.random.default_rng(59)
    rows = [(f"n{u}", f"n{v}", float(t)) for t, (u, v) in enumerate(rng.integers(0, 20, size=(120, 2))) if u != v]
    features = {f"n{i}": rng.normal(size=WIDTH).tolist() for i in range(20)}
    found = axiompath.snapshots(rows, every=20.0, window=60.0)
    for data in found.graphs:
        data.x = torch.tensor([features[name] for name in data.node_names], dtype=torch.float64)
    axiompath.save_snapshots(found, folder / "snapshots")
    return Sequence(settled(pyg.GCN(WIDTH, 6, 2, CLASSES), 59), axiompath.snapshots(folder / "snapshots"))


# ---- models that are run as they are --------------------------------------------------------------------------------
@case(quick=True, reads=False)
def unread_median(folder):
    model = Convs(pyg.SAGEConv(WIDTH, 6, aggr="median"), pyg.SAGEConv(6, CLASSES))
    return opened(model, graphs(60, n=20), 60, paths=False)

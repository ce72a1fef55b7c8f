"""The zoo: every convolution, option, norm and model is read exactly, and its attribution is complete."""

import inspect
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.nn import conv as pyg_conv
from torch_geometric.nn import models

import axiompath
from axiompath.readers.assembly import READERS, REASONS
from axiompath.readers.refusals import WHOLE_MODELS
from effort import examples
from evolutions import attributed_pairs
from references import LiteralAttribution

HOMOGENEOUS = {"relu", "leaky_relu", "prelu", "abs"}
# What happens between the two snapshots, in turn.
EVOLUTIONS = (
    {"add", "remove", "reweight"},
    {"features", "add"},
    {"nodes", "remove", "reweight"},
    {"add", "remove", "reweight", "features", "nodes"},
)


def evolution(seed, kinds, num_nodes=7, width=3, repeat=True, told=False):
    """(before, after), both weighted, with self-loops and parallel edges among their edges."""
    rng = np.random.default_rng(seed)
    kept = rng.random((num_nodes, num_nodes)) < 0.2
    edges = {"before": kept.copy(), "after": kept.copy()}
    edges["after"] |= (rng.random(kept.shape) < 0.1) & ("add" in kinds)
    edges["before"] |= (rng.random(kept.shape) < 0.1) & ("remove" in kinds)
    weights = {"before": rng.uniform(0.2, 2, size=kept.shape)}
    weights["after"] = weights["before"].copy()
    if "reweight" in kinds:
        weights["after"][rng.random(kept.shape) < 0.3] *= 1.4
    attr = {"before": rng.normal(size=(*kept.shape, 2))}
    attr["after"] = attr["before"].copy()
    if "reweight" in kinds:
        attr["after"][rng.random(kept.shape) < 0.3] *= 0.7
    features = {"before": rng.normal(size=(num_nodes, width))}
    features["after"] = features["before"].copy()
    if "features" in kinds:
        features["after"][rng.integers(num_nodes)] += rng.normal(size=width)
    nodes = {name: np.arange(num_nodes) for name in edges}
    if "nodes" in kinds:
        nodes["before"], nodes["after"] = np.arange(num_nodes - 1), rng.permutation(np.arange(1, num_nodes))
    graphs = []
    for name, ids in nodes.items():
        u, v = np.nonzero(edges[name][np.ix_(ids, ids)])
        if repeat:
            u, v = np.concatenate([u, u[:2]]), np.concatenate([v, v[:2]])
        data = Data(x=torch.from_numpy(features[name][ids]), edge_index=torch.from_numpy(np.stack([u, v])))
        data.edge_weight = torch.from_numpy(weights[name][ids[u], ids[v]])
        if told:
            said = attr[name][ids[u], ids[v]]
            said[len(said) - 2 * repeat :] += 0.5  # parallel edges differ in what is said of them
            data.edge_attr = torch.from_numpy(said)
            data.edge_type = (data.edge_attr[:, 0] > 0.4).long()
        if "nodes" in kinds:
            data.n_id = torch.from_numpy(ids)
        graphs.append(data)
    return tuple(graphs)


def randomise(model, seed=0):
    """Every parameter and every statistic random, in float64."""
    torch.manual_seed(seed)
    model = model.double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            nn.init.normal_(module.running_mean, std=0.5)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return model


def assert_read_exactly(model, before, after):
    """Logits equal the model's own on both graphs, and contributions sum to their change."""
    explainer = axiompath.Explainer(model, before, after)
    change = explainer.change
    scale = 1.0
    for data, snapshot, ours in (
        (before, change.before, change.before_pass),
        (after, change.after, change.after_pass),
    ):
        with torch.no_grad():
            theirs = call(model, data).numpy()
        ids = data.n_id.numpy() if "n_id" in data else np.arange(len(theirs))
        rows = [int(np.flatnonzero(snapshot.node_ids == i)[0]) for i in ids]
        scale = max(scale, np.abs(theirs).max())
        np.testing.assert_allclose(ours.logits[rows], theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())
    found = list(explainer.attribute_many(explainer.moved().target))
    assert max((one.residual for one in found), default=0.0) < 1e-9 * scale
    assert_undone(explainer, found, scale)
    return explainer


def assert_undone(explainer, found, scale):
    """Undoing all altered paths gives `before` where phi(s z) = s phi(z), s > 0, or nothing shared was reweighted."""
    change = explainer.change
    blocks = [block for layer in change.network.layers[change.lowest_hop :] for block in layer.blocks]
    homogeneous = all(block.activation is None or block.activation.name in HOMOGENEOUS for block in blocks)
    reweighted = any(((layer.kept != 0) & (layer.before != layer.after)).any() for layer in change.layers)
    if homogeneous or not reweighted:
        for one in found[:3]:
            undone = explainer.replay(one.target, one.paths)
            np.testing.assert_allclose(undone, one.logits_before, rtol=0, atol=1e-8 * scale)
            added = explainer.replay(one.target, one.paths, add=True)
            np.testing.assert_allclose(added, one.logits_after, rtol=0, atol=1e-8 * scale)


def call(model, data):
    takes = model.forward.__code__.co_varnames[: model.forward.__code__.co_argcount]
    given = [key for key in ("edge_weight", "edge_attr", "edge_type") if key in takes and key in data]
    return model(data.x, data.edge_index, **{key: data[key] for key in given})


ATTR, TYPE = "edge_attr", "edge_type"


class Convolutions(nn.Module):
    """Convolutions with an activation between, edge weights, features or relations where they take any."""

    def __init__(self, convs, weighted, act):
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.weighted = weighted
        self.act = act

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, edge_type=None):
        for i, conv in enumerate(self.convs):
            x = self.act(x) if i else x
            if self.weighted == TYPE:
                x = conv(x, edge_index, edge_type, edge_attr)
            elif self.weighted == ATTR:
                x = conv(x, edge_index, edge_attr=edge_attr)
            else:
                x = conv(x, edge_index, edge_weight) if self.weighted else conv(x, edge_index)
        return x


def mlp(a, b):
    return nn.Sequential(nn.Linear(a, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, b))


class Mapped(nn.Module):
    """A Linear map, then a convolution that has none of its own."""

    def __init__(self, conv, a, b, twice=False, weighted=True):
        super().__init__()
        self.lin, self.conv, self.twice, self.weighted = nn.Linear(a, b), conv, twice, weighted

    def forward(self, x, edge_index, edge_weight):
        x = self.lin(x)
        given = (x, x.tanh()) if self.twice else (x,)
        return self.conv(*given, edge_index, edge_weight) if self.weighted else self.conv(*given, edge_index)


class MappedTold(nn.Module):
    """A Linear map, then a convolution that is given edge features."""

    def __init__(self, conv, a, b):
        super().__init__()
        self.lin, self.conv = nn.Linear(a, b), conv

    def forward(self, x, edge_index, edge_attr):
        return self.conv(self.lin(x), edge_index, edge_attr=edge_attr)


class Without(nn.Module):
    """A convolution that is not given the weights."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index)


class ThenMapped(nn.Module):
    """A convolution, then a Linear map of what it gave."""

    def __init__(self, conv, a, b):
        super().__init__()
        self.conv, self.lin = conv, nn.Linear(a, b)

    def forward(self, x, edge_index, edge_weight):
        return self.lin(self.conv(x, edge_index, edge_weight))


def pna(a, b, aggregators=("mean", "sum"), **settings):
    scalers = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
    return pyg.PNAConv(a, b, list(aggregators), scalers, torch.tensor([1, 3, 4, 2]), **settings)


def appnp(**settings):
    return lambda a, b: pyg.Sequential(
        "x, edge_index, edge_weight",
        [(nn.Linear(a, b), "x -> x"), (pyg.APPNP(**settings), "x, edge_index, edge_weight -> x")],
    )


class Typed(nn.Module):
    """A convolution that is given the relation of each edge, and its features if it takes them, too."""

    def __init__(self, conv, told=False):
        super().__init__()
        self.conv, self.told = conv, told

    def forward(self, x, edge_index, edge_type, edge_attr):
        return self.conv(x, edge_index, edge_type, **({"edge_attr": edge_attr} if self.told else {}))


class Placed(nn.Module):
    """A Linear map, then a convolution on points that lie where the first two columns say."""

    def __init__(self, conv, a, b):
        super().__init__()
        self.lin, self.conv = nn.Linear(a, b), conv

    def forward(self, x, edge_index):
        x = self.lin(x)
        return self.conv(x, x[:, :2], edge_index)


FLOW = {"flow": "target_to_source"}
LOOPS = {"add_self_loops": False}
# name -> (inputs, outputs -> a convolution, whether it is given edge weights, or edge features)
CONVOLUTIONS = {
    "GCN": (lambda a, b: pyg.GCNConv(a, b), True),
    "GCN improved": (lambda a, b: pyg.GCNConv(a, b, improved=True), True),
    "GCN without loops": (lambda a, b: pyg.GCNConv(a, b, **LOOPS), True),
    "GCN not normalised, backwards": (lambda a, b: pyg.GCNConv(a, b, normalize=False, **FLOW), True),
    "SAGE": (lambda a, b: pyg.SAGEConv(a, b), False),
    "SAGE sum": (lambda a, b: pyg.SAGEConv(a, b, aggr="sum", bias=False), False),
    "SAGE add, no root": (lambda a, b: pyg.SAGEConv(a, b, aggr="add", root_weight=False), False),
    "SAGE projected": (lambda a, b: pyg.SAGEConv(a, b, project=True), False),
    "SAGE projected, backwards": (lambda a, b: pyg.SAGEConv(a, b, project=True, **FLOW), False),
    "GraphConv": (lambda a, b: pyg.GraphConv(a, b), True),
    "GraphConv unweighted": (lambda a, b: pyg.GraphConv(a, b, bias=False), False),
    "GraphConv mean": (lambda a, b: pyg.GraphConv(a, b, aggr="mean", **FLOW), True),
    "GIN": (lambda a, b: pyg.GINConv(mlp(a, b)), False),
    "GIN trained eps": (lambda a, b: pyg.GINConv(pyg.MLP([a, 4, b], act="elu"), train_eps=True), False),
    "GIN linear": (lambda a, b: pyg.GINConv(pyg.Linear(a, b), eps=0.3), False),
    "GIN LayerNorm": (lambda a, b: pyg.GINConv(nn.Sequential(nn.Linear(a, b), nn.LayerNorm(b), nn.ELU())), False),
    "GAT": (lambda a, b: pyg.GATConv(a, b), False),
    "GAT heads": (lambda a, b: pyg.GATConv(a, b // 3, heads=3, negative_slope=0.1), False),
    "GAT mean of heads": (lambda a, b: pyg.GATConv(a, b, heads=2, concat=False, bias=False), False),
    "GAT without loops": (lambda a, b: pyg.GATConv(a, b, **LOOPS), False),
    "GAT residual": (lambda a, b: pyg.GATConv(a, b, residual=True), False),
    "GAT backwards": (lambda a, b: pyg.GATConv(a, b, **FLOW), False),
    "GATv2": (lambda a, b: pyg.GATv2Conv(a, b), False),
    "GATv2 heads": (lambda a, b: pyg.GATv2Conv(a, b // 3, heads=3), False),
    "GATv2 mean of heads": (lambda a, b: pyg.GATv2Conv(a, b, heads=2, concat=False, bias=False), False),
    "GATv2 without loops": (lambda a, b: pyg.GATv2Conv(a, b // 3, heads=3, **LOOPS), False),
    "GATv2 shared": (lambda a, b: pyg.GATv2Conv(a, b, share_weights=True, residual=True), False),
    "GATv2 backwards": (lambda a, b: pyg.GATv2Conv(a, b, **FLOW, **LOOPS), False),
    "Transformer": (lambda a, b: pyg.TransformerConv(a, b), False),
    "Transformer heads": (lambda a, b: pyg.TransformerConv(a, b // 3, heads=3, bias=False), False),
    "Transformer mean of heads": (lambda a, b: pyg.TransformerConv(a, b, heads=2, concat=False), False),
    "Transformer no root": (lambda a, b: pyg.TransformerConv(a, b, root_weight=False, **FLOW), False),
    "SG": (lambda a, b: pyg.SGConv(a, b), True),
    "SG 2 hops": (lambda a, b: pyg.SGConv(a, b, K=2, **LOOPS), True),
    "SG backwards": (lambda a, b: pyg.SGConv(a, b, K=2, **FLOW), True),
    "TAG": (lambda a, b: pyg.TAGConv(a, b, K=2), True),
    "TAG not normalised": (lambda a, b: pyg.TAGConv(a, b, K=2, normalize=False, bias=False), True),
    "TAG 1 hop": (lambda a, b: pyg.TAGConv(a, b, K=1), True),
    "APPNP": (appnp(K=2, alpha=0.2, dropout=0.5), True),
    "APPNP without loops": (appnp(K=2, alpha=0.1, **LOOPS), True),
    "APPNP not normalised": (appnp(K=1, alpha=0.3, normalize=False), True),
    "SSG": (lambda a, b: pyg.SSGConv(a, b, alpha=0.3, K=2), True),
    "SSG without loops": (lambda a, b: pyg.SSGConv(a, b, alpha=0.3, **LOOPS), True),
    "LG": (lambda a, b: Mapped(pyg.LGConv(), a, b), True),
    "LG not normalised": (lambda a, b: Mapped(pyg.LGConv(normalize=False, **FLOW), a, b), True),
    "GCN2": (lambda a, b: Mapped(pyg.GCN2Conv(b, 0.2), a, b, True), True),
    "GCN2 shared": (lambda a, b: Mapped(pyg.GCN2Conv(b, 0.2, 0.5, 2, shared_weights=False), a, b, True), True),
    "GCN2 plain": (lambda a, b: Mapped(pyg.GCN2Conv(b, 0.2, normalize=False), a, b, True), True),
    "GAT of pairs": (lambda a, b: pyg.GATConv((a, a), b), False),
    "LE": (lambda a, b: pyg.LEConv(a, b), True),
    "LE unweighted": (lambda a, b: pyg.LEConv(a, b, bias=False, **FLOW), False),
    "ClusterGCN": (lambda a, b: pyg.ClusterGCNConv(a, b), False),
    "ClusterGCN diagonal": (lambda a, b: pyg.ClusterGCNConv(a, b, diag_lambda=0.4, bias=False), False),
    "ClusterGCN backwards": (lambda a, b: pyg.ClusterGCNConv(a, b, diag_lambda=0.4, **FLOW), False),
    "SAGE of length 1": (lambda a, b: pyg.SAGEConv(a, b, normalize=True), False),
    "Cheb": (lambda a, b: pyg.ChebConv(a, b, K=2), True),
    "Cheb 2 hops": (lambda a, b: pyg.ChebConv(a, b, K=3, normalization="rw", **FLOW), True),
    "Cheb not normalised": (lambda a, b: pyg.ChebConv(a, b, K=2, normalization=None, bias=False), True),
    "ARMA": (lambda a, b: pyg.ARMAConv(a, b, num_stacks=2), True),
    "ARMA 2 hops": (lambda a, b: pyg.ARMAConv(a, b, num_stacks=2, num_layers=2, act=nn.ELU()), True),
    "ARMA shared, 3 hops": (lambda a, b: pyg.ARMAConv(a, b, num_layers=3, shared_weights=True, act=None), True),
    "MixHop 2 hops": (lambda a, b: pyg.MixHopConv(a, b // 3), True),
    "MixHop of some 2 hops": (lambda a, b: pyg.MixHopConv(a, b // 3, powers=[2, 0, 1], bias=False, **FLOW), True),
    "FA": (lambda a, b: Mapped(pyg.FAConv(b, 0.2), a, b, True, False), True),
    "FA backwards": (lambda a, b: Mapped(pyg.FAConv(b, 0.2, **LOOPS, **FLOW), a, b, True, False), True),
    "FA weighted": (lambda a, b: Mapped(pyg.FAConv(b, 0.0, normalize=False), a, b, True), True),
    "SuperGAT": (lambda a, b: pyg.SuperGATConv(a, b // 3, heads=3), False),
    "SuperGAT dots": (lambda a, b: pyg.SuperGATConv(a, b, heads=2, concat=False, attention_type="SD", **LOOPS), False),
    "AGNN": (lambda a, b: Mapped(pyg.AGNNConv(), a, b, False, False), True),
    "AGNN backwards": (lambda a, b: Mapped(pyg.AGNNConv(**FLOW, **LOOPS), a, b, False, False), True),
    "FeaSt": (lambda a, b: pyg.FeaStConv(a, b, heads=2), False),
    "FeaSt sum": (lambda a, b: pyg.FeaStConv(a, b, heads=3, aggr="add", bias=False, **LOOPS), False),
    "General": (lambda a, b: pyg.GeneralConv(a, b), False),
    "General attention": (lambda a, b: pyg.GeneralConv(a, b, heads=2, attention=True, skip_linear=True), False),
    "General dots": (
        lambda a, b: pyg.GeneralConv(
            a, b, attention=True, attention_type="dot_product", l2_normalize=True, bias=False, skip_linear=True
        ),
        False,
    ),
    "Transformer gated": (lambda a, b: pyg.TransformerConv(a, b // 3, heads=3, beta=True), False),
    "Simple": (lambda a, b: Mapped(pyg.SimpleConv(), a, b), True),
    "Simple mean of a loop": (lambda a, b: Mapped(pyg.SimpleConv("mean", "self_loop"), a, b), True),
    "Simple beside": (lambda a, b: ThenMapped(pyg.SimpleConv(combine_root="cat", **FLOW), 2 * a, b), True),
    "WL": (lambda a, b: Mapped(pyg.WLConvContinuous(), a, b), True),
    "MF": (lambda a, b: pyg.MFConv(a, b, max_degree=3), False),
    "MF backwards": (lambda a, b: pyg.MFConv(a, b, max_degree=1, bias=False, **FLOW), False),
    "GEN": (lambda a, b: pyg.GENConv(a, b, aggr="mean"), False),
    "GEN sum": (lambda a, b: pyg.GENConv(a, b, aggr="add", norm="layer", bias=True, **FLOW), False),
    "PNA": (lambda a, b: pna(a, b), False),
    "PNA towers": (lambda a, b: pna(a, b, towers=3, divide_input=True, post_layers=2, **FLOW), False),
    "Gated": (lambda a, b: Mapped(pyg.GatedGraphConv(b, 1), a, b), True),
    "Gated 2 hops": (
        lambda a, b: ThenMapped(pyg.GatedGraphConv(max(a, b), 2, aggr="mean", bias=False, **FLOW), max(a, b), b),
        True,
    ),
    "EG": (lambda a, b: pyg.EGConv(a, b, num_heads=3, num_bases=2), False),
    "EG of several": (lambda a, b: pyg.EGConv(a, b, ["mean", "sum", "symnorm"], num_heads=1, num_bases=2), False),
    "EG without loops": (lambda a, b: pyg.EGConv(a, b, ["mean", "sum"], num_heads=3, **LOOPS), False),
    "SAGE max": (lambda a, b: pyg.SAGEConv(a, b, aggr="max"), False),
    "SAGE max of a projection": (lambda a, b: pyg.SAGEConv(a, b, aggr="max", project=True, **FLOW), False),
    "SAGE of several": (lambda a, b: pyg.SAGEConv(a, b, aggr=["mean", "max", "min", "softmax"]), False),
    "GraphConv max": (lambda a, b: pyg.GraphConv(a, b, aggr="max"), True),
    "GraphConv min": (lambda a, b: pyg.GraphConv(a, b, aggr="min", **FLOW), True),
    "GIN max": (lambda a, b: pyg.GINConv(mlp(a, b), aggr="max"), False),
    "GEN softmax": (lambda a, b: pyg.GENConv(a, b, t=0.7), False),
    "PNA max": (lambda a, b: pna(a, b, aggregators=["max", "mean", "min"]), False),
    "EG max": (lambda a, b: pyg.EGConv(a, b, ["max", "symnorm", "min"], num_heads=1), False),
    "Edge": (lambda a, b: pyg.EdgeConv(mlp(2 * a, b)), False),
    "Edge mean": (lambda a, b: pyg.EdgeConv(nn.Linear(2 * a, b), aggr="mean", **FLOW), False),
    "Hypergraph": (lambda a, b: pyg.HypergraphConv(a, b), False),
    "Hypergraph mean of heads": (lambda a, b: pyg.HypergraphConv(a, b, heads=2, concat=False, bias=False), False),
    "GPS": (lambda a, b: Mapped(pyg.GPSConv(b, pyg.GCNConv(b, b), heads=3), a, b, False, False), True),
    "GPS of attention": (lambda a, b: Mapped(pyg.GPSConv(b, None, norm=None, act="elu"), a, b, False, False), True),
    "GPS of edges": (
        lambda a, b: MappedTold(pyg.GPSConv(b, pyg.GINEConv(nn.Linear(b, b), edge_dim=2), heads=3), a, b),
        ATTR,
    ),
    "both ways": (lambda a, b: pyg.DirGNNConv(pyg.GCNConv(a, b)), False),
    "both ways, SAGE": (lambda a, b: pyg.DirGNNConv(pyg.SAGEConv(a, b), alpha=0.2, root_weight=False), False),
    "GINE": (lambda a, b: pyg.GINEConv(mlp(a, b), edge_dim=2), ATTR),
    "GINE mean, backwards": (lambda a, b: pyg.GINEConv(nn.Linear(a, b), 0.3, True, 2, aggr="mean", **FLOW), ATTR),
    "NN": (lambda a, b: pyg.NNConv(a, b, nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, a * b))), ATTR),
    "NN mean": (lambda a, b: pyg.NNConv(a, b, nn.Linear(2, a * b), aggr="mean", root_weight=False, **FLOW), ATTR),
    "CG": (lambda a, b: MappedTold(pyg.CGConv(b, 2, batch_norm=True), a, b), ATTR),
    "CG without edge features": (lambda a, b: ThenMapped(Without(pyg.CGConv(a, aggr="mean")), a, b), True),
    "ResGated": (lambda a, b: pyg.ResGatedGraphConv(a, b), False),
    "ResGated of edges": (lambda a, b: pyg.ResGatedGraphConv(a, b, act=nn.Tanh(), edge_dim=2, **FLOW), ATTR),
    "FiLM": (lambda a, b: pyg.FiLMConv(a, b), False),
    "FiLM without activation": (lambda a, b: pyg.FiLMConv(a, b, act=None, aggr="sum"), False),
    "PDN": (lambda a, b: pyg.PDNConv(a, b, 2, 3, **LOOPS), ATTR),
    "PDN not normalised": (lambda a, b: pyg.PDNConv(a, b, 2, 3, normalize=False, bias=False, **FLOW), ATTR),
    "GMM": (lambda a, b: pyg.GMMConv(a, b, 2, 3), ATTR),
    "GMM sum": (lambda a, b: pyg.GMMConv(a, b, 2, 2, aggr="add", root_weight=True, bias=False, **FLOW), ATTR),
    "GAT of edges": (lambda a, b: pyg.GATConv(a, b // 3, heads=3, edge_dim=2), ATTR),
    "GAT of edges, filled": (lambda a, b: pyg.GATConv(a, b, edge_dim=2, fill_value=0.3, **FLOW), ATTR),
    "GAT of edges without loops": (lambda a, b: pyg.GATConv(a, b, edge_dim=2, **LOOPS), ATTR),
    "GATv2 of edges": (lambda a, b: pyg.GATv2Conv(a, b // 3, heads=3, edge_dim=2), ATTR),
    "GATv2 of edges, backwards": (lambda a, b: pyg.GATv2Conv(a, b, edge_dim=2, **FLOW), ATTR),
    "Transformer of edges": (lambda a, b: pyg.TransformerConv(a, b // 3, heads=3, edge_dim=2), ATTR),
    "Transformer of edges, gated": (lambda a, b: pyg.TransformerConv(a, b, edge_dim=2, beta=True, **FLOW), ATTR),
    "GEN of edges": (lambda a, b: pyg.GENConv(a, b, aggr="mean", edge_dim=2), ATTR),
    "PNA of edges": (lambda a, b: pna(a, b, edge_dim=2), ATTR),
    "General of edges": (lambda a, b: pyg.GeneralConv(a, b, 2, heads=2, aggr="max", skip_linear=True), ATTR),
    "General attention of edges": (
        lambda a, b: pyg.GeneralConv(a, b, 2, heads=2, attention=True, skip_linear=True, **FLOW),
        ATTR,
    ),
    "General dots of both ends": (
        lambda a, b: pyg.GeneralConv(
            a, b, attention=True, attention_type="dot_product", directed_msg=False, skip_linear=True
        ),
        False,
    ),
    "SAGE deviation": (lambda a, b: pyg.SAGEConv(a, b, aggr=["std", "var"]), False),
    "GIN variance": (lambda a, b: pyg.GINConv(mlp(a, b), aggr="var"), False),
    "GINE deviation": (lambda a, b: pyg.GINEConv(mlp(a, b), edge_dim=2, aggr="std"), ATTR),
    "PNA deviation": (lambda a, b: pna(a, b, aggregators=["mean", "std"], edge_dim=2), ATTR),
    "PNA deviation of senders": (lambda a, b: pna(a, b, aggregators=["var", "std", "max"]), False),
    "PNA deep": (lambda a, b: pna(a, b, ["mean", "min"], pre_layers=2, edge_dim=2, **FLOW), ATTR),
    "EG deviation": (lambda a, b: pyg.EGConv(a, b, ["std", "var", "symnorm"], num_heads=1), False),
    "PointNet": (lambda a, b: Placed(pyg.PointNetConv(mlp(b + 2, 4), nn.Linear(4, b)), a, b), False),
    "PointNet mean": (lambda a, b: Placed(pyg.PointNetConv(mlp(b + 2, b), aggr="mean", **LOOPS, **FLOW), a, b), False),
    "PointGNN": (lambda a, b: Placed(pyg.PointGNNConv(mlp(b, 2), mlp(b + 2, 4), nn.Linear(4, b)), a, b), False),
    "PointTransformer": (lambda a, b: Placed(pyg.PointTransformerConv(b, b, nn.Linear(2, b)), a, b), False),
    "PointTransformer of networks": (
        lambda a, b: Placed(pyg.PointTransformerConv(b, b, mlp(2, b), mlp(b, b), **LOOPS, **FLOW), a, b),
        False,
    ),
    "RGAT": (lambda a, b: Typed(pyg.RGATConv(a, b // 3, 2, heads=3)), TYPE),
    "RGAT of edges": (
        lambda a, b: Typed(pyg.RGATConv(a, b, 2, num_bases=2, heads=2, concat=False, edge_dim=2, **FLOW), True),
        TYPE,
    ),
    "RGAT within relations": (
        lambda a, b: Typed(pyg.RGATConv(a, b, 2, num_blocks=3, attention_mechanism="within-relation", bias=False)),
        TYPE,
    ),
    "RGCN": (lambda a, b: Typed(pyg.RGCNConv(a, b, 2, num_bases=3)), TYPE),
    "RGCN max": (lambda a, b: Typed(pyg.RGCNConv(a, b, 2, num_blocks=3, aggr="max")), TYPE),
    "FastRGCN sum": (lambda a, b: Typed(pyg.FastRGCNConv(a, b, 2, aggr="add", root_weight=False)), TYPE),
    "FiLM of relations": (lambda a, b: Typed(pyg.FiLMConv(a, b, 2)), TYPE),
    "FiLM max of relations": (lambda a, b: Typed(pyg.FiLMConv(a, b, 2, aggr="max")), TYPE),
    "AntiSymmetric": (lambda a, b: Mapped(pyg.AntiSymmetricConv(b), a, b, False, False), True),
    "AntiSymmetric 2 hops": (lambda a, b: Mapped(pyg.AntiSymmetricConv(b, pyg.GraphConv(b, b), 2), a, b), True),
}
# Not read as a whole: what they are made of is.
LOOKED_INTO = {
    "AntiSymmetricConv": "looked into: the convolution inside it, an activation and a residual",
    "HeteroConv": "looked into: each of its convolutions, along the edges of its relation; then their sum, mean or all",
}
TYPED = {"HeteroConv", "HGTConv", "HANConv"}  # tried in test_types.py
PAGE = Path(__file__).parent.parent / "docs" / "models.md"
MARKS = ("<!-- convolutions -->", "<!-- end of convolutions -->")
MODEL_MARKS = ("<!-- models -->", "<!-- end of models -->")
MODEL_CLASSES = [name for name in models.__all__ if isinstance(getattr(models, name), type)]


def tell_convolutions():
    """A table of every convolution of PyG: how it is read, in the words of its reader, or why it is not."""
    rows = ["| convolution | read | as, or why not |", "|---|---|---|"]
    for name in sorted(set(pyg_conv.__all__) - {"MessagePassing"}, key=str.lower):
        kind = getattr(pyg_conv, name)
        if kind in READERS:
            rows.append(f"| `{name}` | yes | {READERS[kind].__doc__.splitlines()[0]} |")
        elif name in LOOKED_INTO:
            rows.append(f"| `{name}` | yes | {LOOKED_INTO[name]} |")
        else:
            rows.append(f"| `{name}` | no | {REASONS[kind]} |")
    return "\n".join(rows)


def tell_models():
    """The same of every model."""
    rows = ["| model | read | as, or why not |", "|---|---|---|"]
    for name in sorted(MODEL_CLASSES, key=str.lower):
        reason = WHOLE_MODELS.get(getattr(models, name))
        rows.append(f"| `{name}` | {'no' if reason else 'yes'} | {reason or TRIED_MODELS[name][0]} |")
    return "\n".join(rows)


def test_the_page_of_models_lists_every_convolution_and_every_model_of_pyg():
    """A new one must not go unnoticed: it is read, or refused for a reason of its own. (Run this file to write it.)"""
    page = PAGE.read_text()
    for marks, told in ((MARKS, tell_convolutions()), (MODEL_MARKS, tell_models())):
        assert page.split(marks[0])[1].split(marks[1])[0].strip() == told


def test_every_convolution_that_is_read_is_tried():
    tried = {type(part).__name__ for make, _ in CONVOLUTIONS.values() for part in make(6, 6).modules()}
    read = {kind.__name__ for kind in READERS if kind.__name__ in pyg_conv.__all__}
    assert (read | set(LOOKED_INTO)) - tried - TYPED == set()
    assert len(read | set(LOOKED_INTO)) >= 51


BY_ANY = ("sum", "mean", "max", "min", "softmax", "var", "std")
# Every convolution whose constructor takes `aggr`: how it is made, what it is given beside edges, what it is read by.
AGGREGATED = {
    "CGConv": (lambda **by: pyg.CGConv(3, **by), False, BY_ANY),
    "EdgeConv": (lambda **by: pyg.EdgeConv(nn.Linear(6, 3), **by), False, BY_ANY),
    "FastRGCNConv": (lambda **by: Typed(pyg.FastRGCNConv(3, 3, 2, **by)), TYPE, ("sum", "mean")),
    "FiLMConv": (lambda **by: pyg.FiLMConv(3, 3, **by), False, BY_ANY),
    "GatedGraphConv": (lambda **by: pyg.GatedGraphConv(3, 2, **by), False, BY_ANY),
    "GeneralConv": (lambda **by: pyg.GeneralConv(3, 3, **by), False, BY_ANY),
    "GeneralConv(attention=True)": (lambda **by: pyg.GeneralConv(3, 3, attention=True, **by), False, ("sum",)),
    "GENConv": (lambda **by: pyg.GENConv(3, 3, **by), False, BY_ANY),
    "GMMConv": (lambda **by: pyg.GMMConv(3, 3, 2, 2, **by), ATTR, ("sum", "mean")),
    "GraphConv": (lambda **by: pyg.GraphConv(3, 3, **by), False, BY_ANY),
    "NNConv": (lambda **by: pyg.NNConv(3, 3, nn.Linear(2, 9), **by), ATTR, BY_ANY),
    "RGCNConv": (lambda **by: Typed(pyg.RGCNConv(3, 3, 2, **by)), TYPE, BY_ANY),
    "SAGEConv": (lambda **by: pyg.SAGEConv(3, 3, **by), False, BY_ANY),
    "SimpleConv": (lambda **by: pyg.SimpleConv(**by), False, BY_ANY),
    'SimpleConv(combine_root="self_loop")': (
        lambda **by: pyg.SimpleConv(combine_root="self_loop", **by), False, ("sum", "mean"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AGGREGATED)
def test_convolutions_are_read_by_the_aggregations_that_the_page_says(name):
    make, weighted, expected = AGGREGATED[name]
    before, _ = evolution(1, EVOLUTIONS[0], told=weighted in (ATTR, TYPE))
    found = [
        aggr
        for aggr in BY_ANY
        if axiompath.check(randomise(Convolutions([make(aggr=aggr)], weighted, nn.ReLU())), before).readable
    ]
    assert found == list(expected)
    page = " ".join(PAGE.read_text().split())
    said = f"`{name}` by {' and '.join(expected)}"
    assert (said in page) == (expected != BY_ANY)


def test_every_convolution_that_takes_an_aggregation_is_tried_with_each():
    kinds = [getattr(pyg_conv, name) for name in pyg_conv.__all__]
    taking = {kind.__name__ for kind in kinds if kind in READERS and "aggr" in inspect.signature(kind).parameters}
    assert taking == {name.split("(")[0] for name in AGGREGATED}


DIVIDES = "Cheb not normalised"  # by the largest degree of the graph: without edges it gives no numbers itself
ACTIVATIONS = (nn.ReLU(), nn.ELU(), nn.Sigmoid(), nn.Tanh(), nn.LeakyReLU(0.1), nn.Softplus())


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("depth", [1, 2, *(pytest.param(depth, marks=pytest.mark.slow) for depth in (3, 4))])
def test_every_convolution_is_read_exactly(name, depth):
    make, weighted = CONVOLUTIONS[name]
    several = name.startswith(("SG ", "SSG", "TAG", "APPNP")) or "hops" in name
    if several and depth > 2:
        pytest.skip("two layers of it have four hops")
    widths = [3] + [6] * (depth - 1) + [3]
    seed = sum(map(ord, name)) + depth
    act = ACTIVATIONS[seed % len(ACTIVATIONS)]
    model = randomise(Convolutions([make(a, b) for a, b in itertools.pairwise(widths)], weighted, act), seed)
    before, after = evolution(seed, EVOLUTIONS[(seed + depth) % len(EVOLUTIONS)], told=weighted in (ATTR, TYPE))
    explainer = assert_read_exactly(model, before, after)
    assert len(explainer.moved())


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_path_of_every_convolution_equals_the_literal_twin(name):
    make, weighted = CONVOLUTIONS[name]
    model = randomise(Convolutions([make(3, 3), make(3, 3)], weighted, nn.ELU()), 1)
    before, after = evolution(3, EVOLUTIONS[3], num_nodes=5, told=weighted in (ATTR, TYPE))
    explainer = axiompath.Explainer(model, before, after)
    change = explainer.change
    reference = LiteralAttribution(change.network, change.before, change.after, (change.before_pass, change.after_pass))
    targets = np.flatnonzero(change.before.present & change.after.present)
    ids = change.before.node_ids
    for target in targets[:2]:
        expected = reference(target)
        found = explainer.attribute(int(ids[target]))
        row = {int(i): k for k, i in enumerate(ids)} | {-1: -1}
        paths = [tuple(row[i] for i in path) for path in found.paths.tolist()]
        assert set(paths) == set(expected)
        scale = max([1.0, *(np.abs(value).max() for value in expected.values())])
        for path, value in zip(paths, found.contributions, strict=True):
            np.testing.assert_allclose(value, expected[path], rtol=0, atol=1e-10 * scale)


NORMS = {
    "none": {},
    "BatchNorm": {"norm": "batch_norm"},
    "torch's BatchNorm": {"norm": nn.BatchNorm1d(6)},
    "LayerNorm of nodes": {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}},
    "torch's LayerNorm": {"norm": nn.LayerNorm(6)},
    "InstanceNorm with statistics": {
        "norm": "instance_norm",
        "norm_kwargs": {"track_running_stats": True, "affine": True},
    },
    "GraphSizeNorm": {"norm": pyg.GraphSizeNorm()},
    "RMSNorm": {"norm": nn.RMSNorm(6, eps=1e-6)},
    "LayerNorm of a graph": {"norm": "layer_norm"},
    "GraphNorm": {"norm": "graph_norm"},
    "PairNorm": {"norm": "pair_norm"},
    "PairNorm of single nodes": {"norm": "pair_norm", "norm_kwargs": {"scale_individually": True}},
    "InstanceNorm": {"norm": "instance_norm", "norm_kwargs": {"affine": True}},
    "MeanSubtractionNorm": {"norm": pyg.MeanSubtractionNorm()},
    "BatchNorm without statistics": {"norm": nn.BatchNorm1d(6, track_running_stats=False)},
}
MODELS = {
    "GCN": lambda layers, **settings: pyg.GCN(3, 6, layers, 3, **settings),
    "GraphSAGE": lambda layers, **settings: pyg.GraphSAGE(3, 6, layers, 3, **settings),
    "GIN": lambda layers, **settings: pyg.GIN(3, 6, layers, 3, **settings),
    "GAT": lambda layers, **settings: pyg.GAT(3, 6, layers, 3, heads=2, dropout=0.3, **settings),
    "GATv2": lambda layers, **settings: pyg.GAT(3, 6, layers, 3, v2=True, **settings),
}
MODEL_ACTIVATIONS = (
    "relu", "elu", "gelu", "silu", "tanh", "leaky_relu", "PReLU", "sigmoid", "softplus", "relu6", "hardtanh", "selu",
    "celu", "mish", "softsign", "log_sigmoid", None,
)  # fmt: skip


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", MODELS)
def test_models_of_pyg_are_read_exactly_with_every_norm(name, norm):
    # GIN's own MLP has hidden layers of width 6 and 3, for which only norms given by name are rebuilt.
    options = NORMS[norm] if name != "GIN" or isinstance(NORMS[norm].get("norm", ""), str) else {"norm": "batch_norm"}
    for layers, jk, act_first in ((1, None, False), (2, "cat", True), (3, "last", False), (2, "max", True)):
        model = randomise(MODELS[name](layers, jk=jk, act_first=act_first, **options), layers)
        assert_read_exactly(model, *evolution(layers, EVOLUTIONS[layers % len(EVOLUTIONS)]))


@pytest.mark.parametrize("act", MODEL_ACTIVATIONS)
def test_models_of_pyg_are_read_exactly_with_every_activation(act):
    model = randomise(pyg.GraphSAGE(3, 6, 3, 3, act=act, jk="cat"))
    if act == "PReLU":
        model.act.weight.data.fill_(0.3)
    assert_read_exactly(model, *evolution(2, EVOLUTIONS[3]))


@pytest.mark.parametrize("layers", [1, 3, *(pytest.param(layers, marks=pytest.mark.slow) for layers in (2, 4))])
@pytest.mark.parametrize("name", MODELS)
def test_models_of_pyg_are_read_exactly_at_every_depth(name, layers):
    explainer = assert_read_exactly(randomise(MODELS[name](layers)), *evolution(layers, EVOLUTIONS[3]))
    assert explainer.change.network.num_hops == layers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attention_and_norms_are_read_in_single_precision_too(dtype):
    before, after = evolution(0, EVOLUTIONS[3])
    for v2 in (False, True):
        model = randomise(pyg.GAT(3, 6, 3, 3, heads=2, v2=v2, norm=nn.LayerNorm(6))).to(dtype)
        explainer = axiompath.Explainer(model, before, after)
        assert max(found.residual for found in explainer.attribute_many(explainer.moved().target)) < 1e-9


@pytest.mark.parametrize("name", ["GCN", "SAGE", "GIN", "GAT heads", "GATv2", "APPNP", "TAG"])
def test_sparse_features_give_the_same_as_dense_ones(name):
    make, weighted = CONVOLUTIONS[name]
    model = randomise(Convolutions([make(3, 6), make(6, 3)], weighted, nn.ELU()))
    before, after = evolution(0, EVOLUTIONS[3])
    dense = axiompath.Explainer(model, before, after)
    for data in (before, after):
        data.x = data.x.to_sparse_csr()
    found = axiompath.Explainer(model, before, after)
    np.testing.assert_allclose(found.change.after_pass.logits, dense.change.after_pass.logits, atol=1e-12)
    for node in dense.moved().target:
        one, other = dense.attribute(node), found.attribute(node)
        np.testing.assert_array_equal(one.paths, other.paths)
        np.testing.assert_allclose(one.contributions, other.contributions, atol=1e-11)


@settings(deadline=None, max_examples=examples(80), suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.sampled_from(sorted(set(CONVOLUTIONS) - {DIVIDES})), st.integers(0, 5), attributed_pairs(weighted=True))
def test_graphs_without_edges_with_one_node_or_unchanged_are_no_exception(name, seed, graphs):
    make, weighted = CONVOLUTIONS[name]
    model = randomise(Convolutions([make(3, 6), make(6, 3)], weighted, ACTIVATIONS[seed]), seed)
    for data in graphs:
        data.x = data.x.to_dense()
        data.edge_type = (data.edge_attr[:, 0] > 0).long()
    try:
        with torch.no_grad():
            for data in graphs:
                model(data.x, data.edge_index, data.edge_weight, data.edge_attr, data.edge_type)
    except RuntimeError:  # FeaStConv of heads and no loops cannot be run without edges
        with pytest.raises(axiompath.UnreadableModel, match="The model could not be run"):
            axiompath.Explainer(model, *graphs)
        return
    assert_read_exactly(model, *graphs)


def test_the_order_of_edges_leaves_no_path_behind():
    before, _ = evolution(0, EVOLUTIONS[0], told=True)
    order = torch.randperm(before.num_edges)
    after = Data(x=before.x, edge_index=before.edge_index[:, order])
    for key in ("edge_weight", "edge_attr", "edge_type"):
        after[key] = before[key][order]
    for make, weighted in CONVOLUTIONS.values():
        model = randomise(Convolutions([make(3, 6), make(6, 3)], weighted, nn.ReLU()))
        assert axiompath.Explainer(model, before, after).num_paths.sum() == 0


def layers_of(model):
    network = axiompath.Explainer(randomise(model), *evolution(0, EVOLUTIONS[0])).change.network
    return ["local" if layer.local else "hop" for layer in network.layers]


def sequential(*parts):
    return pyg.Sequential("x, edge_index", [(p, "x, edge_index -> x" if edges else "x -> x") for p, edges in parts])


def test_what_is_affine_costs_no_layer():
    conv = lambda a, b: (pyg.SAGEConv(a, b), True)  # noqa: E731
    plain = lambda *modules: [(m, False) for m in modules]  # noqa: E731
    assert layers_of(sequential(conv(3, 6), *plain(nn.BatchNorm1d(6), nn.Linear(6, 3)))) == ["hop"]
    assert layers_of(sequential(*plain(nn.Linear(3, 6, bias=False)), conv(6, 3))) == ["hop"]
    assert layers_of(sequential(*plain(nn.Linear(3, 6)), conv(6, 3))) == ["local", "hop"]
    assert layers_of(sequential(conv(3, 6), *plain(nn.ReLU()), conv(6, 3))) == ["hop", "hop"]
    assert layers_of(sequential(conv(3, 6), *plain(nn.LayerNorm(6), nn.ReLU()), conv(6, 3))) == ["hop", "local", "hop"]
    assert layers_of(pyg.GIN(3, 6, 2, 3, norm="batch_norm")) == ["hop", "local", "hop", "local"]
    assert layers_of(pyg.GraphSAGE(3, 6, 2, 3, jk="cat")) == ["hop", "hop", "local"]


def test_layers_for_later_are_carried_at_the_width_of_what_becomes_of_them():
    explainer = assert_read_exactly(randomise(pyg.GraphSAGE(3, 6, 3, 2, jk="cat")), *evolution(0, EVOLUTIONS[0]))
    assert [layer.width for layer in explainer.change.network.layers] == [6, 6 + 2, 6 + 2 + 2, 2]


def test_branches_of_unequal_depth_share_their_hops():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.early, self.late = pyg.GraphConv(3, 4), pyg.GraphConv(4, 4)
            self.encoder, self.head = nn.Linear(3, 4), nn.Linear(4, 3)

        def forward(self, x, edge_index):
            one = torch.relu(self.head(torch.relu(self.early(x, edge_index))))
            two = self.late(torch.relu(self.encoder(x)), edge_index)
            return one + self.head(torch.relu(two))

    explainer = assert_read_exactly(randomise(Branches()), *evolution(1, EVOLUTIONS[3]))
    assert explainer.change.network.num_hops == 1


class RandomGraphOfLayers(nn.Module):
    """Values made of earlier values at random: every way to combine them that can be read."""

    def __init__(self, seed, num_steps=7, width=6):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.plan = []
        self.parts = nn.ModuleList()
        kinds = ("conv", "conv", "linear", "act", "norm", "add", "cat", "scale", "columns")
        for _ in range(num_steps):
            kind = str(rng.choice(kinds))
            part = {
                "conv": lambda: CONVOLUTIONS[rng.choice(("GCN", "SAGE", "GAT", "GATv2 without loops", "LE"))],
                "linear": lambda: nn.Linear(width, width, bias=bool(rng.integers(2))),
                "act": lambda: (nn.ReLU(), nn.Sigmoid(), nn.ELU())[rng.integers(3)],
                "norm": lambda: (nn.LayerNorm(width), nn.BatchNorm1d(width))[rng.integers(2)],
                "cat": lambda: nn.Linear(2 * width, width),
            }.get(kind, nn.Identity)()
            weighted = False
            if kind == "conv":
                make, weighted = part
                part = make(width, width)
            self.parts.append(part)
            # Mostly the latest values, now and then one from far below.
            picks = [int(-1 - min(rng.geometric(0.5) - 1, 20)) for _ in range(2)]
            self.plan.append((kind, weighted, picks, float(rng.normal())))
        self.first, self.last = nn.Linear(3, width), pyg.GraphConv(width, 3)

    def forward(self, x, edge_index, edge_weight=None):
        values = [self.first(x)]
        for (kind, weighted, picks, number), part in zip(self.plan, self.parts, strict=True):
            a, b = (values[max(pick, -len(values))] for pick in picks)
            if kind == "conv":
                values.append(part(a, edge_index, edge_weight) if weighted else part(a, edge_index))
            elif kind in ("linear", "act", "norm"):
                values.append(part(a))
            elif kind == "add":
                values.append(a - number * b)
            elif kind == "cat":
                values.append(part(torch.cat([a, b], dim=-1)))
            elif kind == "scale":
                values.append((a + number) / 2)
            else:
                values.append(torch.cat([a[:, 2:], b[:, :2]], dim=1))
        return self.last(values[-1] + values[len(values) // 2], edge_index)


@pytest.mark.parametrize("seed", range(60))
def test_any_way_to_combine_layers_is_read_exactly(seed):
    model = randomise(RandomGraphOfLayers(seed), seed)
    before, after = evolution(seed, EVOLUTIONS[seed % 4], num_nodes=5)
    explainer = assert_read_exactly(model, before, after)
    change = explainer.change
    if change.network.num_hops <= 3:
        reference = LiteralAttribution(change.network, change.before, change.after)
        target = int(np.flatnonzero(change.before.present & change.after.present)[0])
        found = explainer.attribute(int(change.before.node_ids[target]))
        expected = reference(target)
        assert len(found.paths) == len(expected)
        np.testing.assert_allclose(
            np.sort(found.contributions.sum(axis=1)), np.sort([v.sum() for v in expected.values()]), atol=1e-9
        )


class Deep(nn.Module):
    """One layer of a deep network, with a block of a given kind."""

    def __init__(self, block):
        super().__init__()
        self.first = nn.Linear(3, 6)
        self.layer = models.DeepGCNLayer(pyg.GENConv(6, 6), nn.LayerNorm(6), nn.ReLU(), block=block)
        self.last = pyg.GCNConv(12 if block == "dense" else 6, 3)

    def forward(self, x, edge_index):
        return self.last(self.layer(self.first(x), edge_index), edge_index)


class Encoded(nn.Module):
    """What an encoder of positions makes of features and a further field, then a convolution."""

    def __init__(self):
        super().__init__()
        self.encoder, self.conv = models.GPSENodeEncoder(8, 3, 4, 3, expand_x=True), pyg.GCNConv(8, 3)

    def forward(self, x, edge_index):
        return self.conv(self.encoder(x, 2.0 * x), edge_index)


class MeanAndDeviation(nn.Module):
    """An encoder as VGAE wants it."""

    def __init__(self):
        super().__init__()
        self.mean, self.deviation = pyg.GCNConv(3, 4), pyg.GCNConv(3, 4)

    def forward(self, x, edge_index):
        return self.mean(x, edge_index), self.deviation(x, edge_index)


BASIC = "looked into: its convolutions, norms, activations and jumps"
PNA_OF = {"scalers": ["identity", "amplification"], "deg": torch.tensor([1, 3, 4, 2])}
# name -> (how it is read, what is tried)
TRIED_MODELS = {
    "MLP": ("looked into: linear maps, norms and activations", [lambda: pyg.GINConv(models.MLP([3, 6, 3]))]),
    "GCN": (BASIC, [lambda: models.GCN(3, 6, 2, 3)]),
    "GraphSAGE": (BASIC, [lambda: models.GraphSAGE(3, 6, 2, 3, aggr="max")]),
    "GIN": (BASIC, [lambda: models.GIN(3, 6, 2, 3)]),
    "GAT": (BASIC, [lambda: models.GAT(3, 6, 2, 3, heads=2)]),
    "PNA": (BASIC, [lambda: models.PNA(3, 6, 2, 3, aggregators=["mean", "min", "max"], **PNA_OF)]),
    "EdgeCNN": (BASIC, [lambda: models.EdgeCNN(3, 6, 2, 3)]),
    "JumpingKnowledge": (
        'looked into: "cat" and "max"; "lstm" is refused',
        [lambda: models.GCN(3, 6, 2, 3, jk="max"), lambda: models.GCN(3, 6, 2, 3, jk="cat")],
    ),
    "HeteroJumpingKnowledge": ("looked into: a JumpingKnowledge for each type", []),  # see test_types.py
    "InnerProductDecoder": ("looked into: a product of both ends of a pair", [lambda: models.GAE(pyg.GCNConv(3, 4))]),
    "GAE": ("looked into: its encoder, and its decoder for pairs", [lambda: models.GAE(pyg.GCNConv(3, 4))]),
    "VGAE": ("as GAE, by the mean", [lambda: models.VGAE(MeanAndDeviation())]),
    "ARGA": ("as GAE", [lambda: models.ARGA(pyg.GCNConv(3, 4), nn.Linear(4, 1))]),
    "ARGVA": ("as GAE, by the mean", [lambda: models.ARGVA(MeanAndDeviation(), nn.Linear(4, 1))]),
    "GPSENodeEncoder": ("looked into: linear maps of features side by side", [Encoded]),
    "DeepGCNLayer": (
        "looked into: its convolution, norm, activation and skip",
        [lambda block=block: Deep(block) for block in ("res+", "res", "dense", "plain")],
    ),
    "RECT_L": ("looked into: a convolution and a linear map", [lambda: models.RECT_L(3, 6)]),
    "PMLP": (
        "looked into: linear maps, and the messages that it passes at evaluation",
        [lambda: models.PMLP(3, 6, 3, 2)],
    ),
}


def test_every_model_of_pyg_is_read_or_refused():
    refused = {kind.__name__ for kind in WHOLE_MODELS}
    assert {*TRIED_MODELS} | refused == {*MODEL_CLASSES}
    assert not {*TRIED_MODELS} & refused


@pytest.mark.parametrize("name", TRIED_MODELS)
def test_every_model_that_is_read_is_read_exactly(name):
    for seed, make in enumerate(TRIED_MODELS[name][1]):
        model, graphs = randomise(make(), seed), evolution(seed, EVOLUTIONS[seed % len(EVOLUTIONS)])
        if isinstance(model, models.GAE):
            for data in graphs:
                del data.edge_weight
            explainer = axiompath.Explainer(model, *graphs, links=[(0, 3), (2, 5)])
            found = list(explainer.attribute_many(explainer.moved().target))
            assert len(found)
            assert max(one.residual for one in found) < 1e-9 * max(1.0, *(np.abs(f.logits_after).max() for f in found))
        else:
            assert len(assert_read_exactly(model, *graphs).moved())


@pytest.mark.parametrize("kind", WHOLE_MODELS, ids=lambda kind: kind.__name__)
def test_every_model_that_is_not_read_says_why(kind):
    """It is told by its type alone, before it is run: so one that was never made will do."""
    inside = nn.Sequential(nn.Linear(3, 3))
    inside.add_module("part", kind.__new__(kind))
    nn.Module.__init__(inside.part)
    with pytest.raises(axiompath.UnreadableModel) as refusal:
        axiompath.Explainer(inside, *evolution(0, EVOLUTIONS[0]))
    for words in (f"part ({kind.__name__}): {WHOLE_MODELS[kind]}", "paths=False", "blame, undo"):
        assert words in str(refusal.value)


if __name__ == "__main__":
    for marks, told in ((MARKS, tell_convolutions()), (MODEL_MARKS, tell_models())):
        page = PAGE.read_text()
        PAGE.write_text(f"{page.split(marks[0])[0]}{marks[0]}\n\n{told}\n\n{marks[1]}{page.split(marks[1])[1]}")

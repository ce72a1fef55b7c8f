"""Convolutions with every option, evolutions of each kind of graph, and the check that a model is read exactly."""

import numpy as np
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import axiompath

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


class Kinds(nn.Module):
    """A convolution that is given types of nodes, every other node of one, beside those of edges and their features."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x, edge_index, edge_type, edge_attr):
        return self.conv(x, edge_index, torch.arange(len(x)) % 2, edge_type, edge_attr)


class SignedEdges(nn.Module):
    """A convolution of positive and negative edges: those to later nodes, and the others."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x, edge_index, edge_weight):
        later = edge_index[0] < edge_index[1]
        return self.conv(x, edge_index[:, later], edge_index[:, ~later])


class Stacked(nn.Module):
    """A convolution of what earlier layers held, stacked."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x, edge_index):
        return self.conv(torch.stack([x, x.tanh()], dim=1), edge_index)


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
    "HEAT": (lambda a, b: Kinds(pyg.HEATConv(a, b, 2, 2, 3, 2, 4)), TYPE),
    "Signed": (lambda a, b: ThenMapped(SignedEdges(pyg.SignedConv(a, 2, True)), 4, b), True),
    "DNA": (lambda a, b: Mapped(Stacked(pyg.DNAConv(b)), a, b, False, False), True),
    "AntiSymmetric": (lambda a, b: Mapped(pyg.AntiSymmetricConv(b), a, b, False, False), True),
    "AntiSymmetric 2 hops": (lambda a, b: Mapped(pyg.AntiSymmetricConv(b, pyg.GraphConv(b, b), 2), a, b), True),
}

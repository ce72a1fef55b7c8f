"""Graphs and models of several node types, and what is asserted of them."""

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import HeteroData

import axiompath
from support.references import LiteralAttribution

RELATIONS = (("author", "writes", "paper"), ("paper", "written by", "author"), ("paper", "cites", "paper"))


WIDTHS = {"author": 2, "paper": 3}


relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def any_hetero(rng, sizes, ids, edges, features):
    data = HeteroData()
    for kind in WIDTHS:
        data[kind].x = torch.from_numpy(features[kind][ids[kind]])
        data[kind].n_id = torch.from_numpy(ids[kind])
    for relation in RELATIONS:
        here = edges[relation][np.ix_(ids[relation[0]], ids[relation[2]])]
        u, v = np.nonzero(here)
        order = rng.permutation(len(u))
        data[relation].edge_index = torch.from_numpy(np.stack([u[order], v[order]]))
    return data


@st.composite
def typed_pairs(draw, max_nodes=4):
    """(before, after): HeteroData that differ in edges of any relation, features, and nodes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.sets(st.sampled_from(("add", "remove", "features", "nodes"))))
    sizes = {kind: draw(st.integers(1, max_nodes)) for kind in WIDTHS}
    features = [{kind: rng.normal(size=(sizes[kind], WIDTHS[kind])) for kind in WIDTHS}]
    features.append({kind: values.copy() for kind, values in features[0].items()})
    if "features" in kinds:
        kind = draw(st.sampled_from(list(WIDTHS)))
        features[1][kind][0] = rng.normal(size=WIDTHS[kind])
    kept = {r: rng.random((sizes[r[0]], sizes[r[2]])) < 0.35 for r in RELATIONS}
    edges = [{r: here.copy() for r, here in kept.items()} for _ in range(2)]
    for side, change in ((1, "add"), (0, "remove")):
        for relation in RELATIONS if change in kinds else ():
            edges[side][relation] |= rng.random(kept[relation].shape) < 0.2
    ids = [{kind: np.arange(size) for kind, size in sizes.items()} for _ in range(2)]
    if "nodes" in kinds and sizes["author"] > 1:
        ids[draw(st.integers(0, 1))]["author"] = np.delete(np.arange(sizes["author"]), 0)
    return tuple(any_hetero(rng, sizes, ids[side], edges[side], features[side]) for side in range(2))


def bipartite(kind):
    return {
        "sage": lambda relation, a, b: pyg.SAGEConv((a, a), b),
        "graph": lambda relation, a, b: pyg.GraphConv((a, a), b, aggr="mean"),
        "gat": lambda relation, a, b: pyg.GATConv((a, a), b, heads=2, concat=False, add_self_loops=False),
        "gatv2": lambda relation, a, b: pyg.GATv2Conv((a, a), b, add_self_loops=False, residual=True),
        "transformer": lambda relation, a, b: pyg.TransformerConv((a, a), b),
        "gin": lambda relation, a, b: pyg.GINConv(nn.Sequential(nn.Linear(a, b), nn.Tanh())),
        "max": lambda relation, a, b: pyg.SAGEConv((a, a), b, aggr="max"),
        "several": lambda relation, a, b: pyg.SAGEConv((a, a), b, aggr=["min", "softmax", "std"]),
        # Within one type any convolution will do.
        "gcn": lambda relation, a, b: pyg.GCNConv(a, b) if relation[0] == relation[2] else pyg.LEConv((a, a), b),
        "general": lambda relation, a, b: (
            pyg.GATConv(a, b) if relation[0] == relation[2] else pyg.SAGEConv((a, a), b, aggr="sum", project=True)
        ),
    }[kind]


class Hetero(nn.Module):
    """HeteroConv as people write it: features to one width, two rounds, one type or all predicted."""

    def __init__(self, kind, aggr="sum", whole=False, width=4):
        super().__init__()
        make = bipartite(kind)
        self.first = nn.ModuleDict({name: nn.Linear(size, width) for name, size in WIDTHS.items()})
        self.convs = nn.ModuleList(
            pyg.HeteroConv({relation: make(relation, width, width) for relation in RELATIONS}, aggr) for _ in range(2)
        )
        self.last, self.whole = nn.Linear(width, 3), whole

    def forward(self, x_dict, edge_index_dict):
        x = {name: self.first[name](part).relu() for name, part in x_dict.items()}
        x = {name: part.relu() for name, part in self.convs[0](x, edge_index_dict).items()}
        x = {name: self.last(part) for name, part in self.convs[1](x, edge_index_dict).items()}
        return x if self.whole else x["paper"]


def randomise(model, seed=0):
    torch.manual_seed(seed)
    model = model.double().eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.6)
    return model


def answers(model, data):
    """Logits by (type, own number), by the model itself."""
    told = [data.edge_attr_dict] if any("edge_attr" in part for part in data.edge_stores) else []
    with torch.no_grad():
        found = model(data.x_dict, data.edge_index_dict, *told)
    found = found if isinstance(found, dict) else {"paper": found}
    return {
        (kind, int(i)): row.numpy()
        for kind, part in found.items()
        for i, row in zip(data[kind].n_id, part, strict=True)
    }


def assert_exact(model, before, after, twins=1):
    """Logits are the model's own, shares sum to their change, and every path equals the literal twin's."""
    explainer = axiompath.Explainer(model, before, after)
    change = explainer.change
    schema = change.before.schema
    row = {int(number): i for i, number in enumerate(change.before.node_ids)}
    own = [answers(model, data) for data in (before, after)]
    scale = max([1.0, *(np.abs(values).max() for side in own for values in side.values())])
    for side, ours in zip(own, (change.before_pass, change.after_pass), strict=True):
        for (kind, node), theirs in side.items():
            found = ours.logits[row[schema.number(kind, node)]]
            np.testing.assert_allclose(found, theirs, rtol=0, atol=1e-9 * scale)
    moved = explainer.moved()
    assert set(moved.target) <= {schema.number(*node) for node in own[0].keys() & own[1].keys()}
    reference = LiteralAttribution(change.network, change.before, change.after)
    back = {int(i): k for k, i in enumerate(change.before.node_ids)} | {-1: -1}
    for place, target in enumerate(moved.target.tolist()):
        found = explainer.attribute(target)
        assert found.residual < 1e-9 * scale
        if place >= twins:
            continue
        expected = reference(row[target])
        paths = [tuple(back[i] for i in path) for path in found.paths.tolist()]
        assert set(paths) == set(expected)
        for path, value in zip(paths, found.contributions, strict=True):
            np.testing.assert_allclose(value, expected[path], rtol=0, atol=1e-10 * scale)
    return explainer


def typed(**widths):
    data = HeteroData()
    for name, width in (WIDTHS | widths).items():
        data[name].x = torch.ones(3, width).double()
    for relation in RELATIONS:
        data[relation].edge_index = torch.tensor([[0, 1], [1, 2]])
    return data

"""Features of edges where nodes have types: leaves of their relation's edges, complete and equal to the twin."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg

import axiompath
from references import LiteralAttribution
from test_types import RELATIONS, WIDTHS, randomise, relaxed, typed_pairs

TOLD = dict(zip(RELATIONS, (2, 1, 3), strict=True))  # columns of the features of each relation's edges


@st.composite
def told_pairs(draw, max_nodes=4):
    """(before, after): typed graphs whose edges have features, of which some changed."""
    graphs = draw(typed_pairs(max_nodes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    changed = draw(st.sampled_from((0.0, 0.5)))
    for relation, width in TOLD.items():
        said = rng.normal(size=(max_nodes, max_nodes, width))
        other = np.where(rng.random((max_nodes, max_nodes, 1)) < changed, rng.normal(size=said.shape), said)
        for data, values in zip(graphs, (said, other), strict=True):
            ends = [data[kind].n_id[row] for kind, row in zip(relation[::2], data[relation].edge_index, strict=True)]
            data[relation].edge_attr = torch.from_numpy(values[ends[0], ends[1]])
    return graphs


def network(a, b):
    return nn.Sequential(nn.Linear(a, 3), nn.Tanh(), nn.Linear(3, b))


def wide(conv):
    """Kernels so wide that no weight is less than a number can be."""
    nn.init.uniform_(conv.sigma, 0.8, 1.5)
    conv.sigma.requires_grad_(False)
    return conv


CONVOLUTIONS = {
    "gine": lambda d, a, b: pyg.GINEConv(network(a, b), edge_dim=d),
    "nn": lambda d, a, b: pyg.NNConv((a, a), b, network(d, a * b), aggr="mean"),
    "cg": lambda d, a, b: pyg.CGConv((a, a), d),
    "gat": lambda d, a, b: pyg.GATConv((a, a), b, heads=2, concat=False, add_self_loops=False, edge_dim=d),
    "gatv2": lambda d, a, b: pyg.GATv2Conv((a, a), b, add_self_loops=False, edge_dim=d),
    "transformer": lambda d, a, b: pyg.TransformerConv((a, a), b, edge_dim=d),
    "gen": lambda d, a, b: pyg.GENConv((a, a), b, edge_dim=d, aggr="max"),
    "gated": lambda d, a, b: pyg.ResGatedGraphConv((a, a), b, edge_dim=d),
    "general": lambda d, a, b: pyg.GeneralConv((a, a), b, in_edge_channels=d, attention=True),
    "gmm": lambda d, a, b: wide(pyg.GMMConv((a, a), b, dim=d, kernel_size=2)),
}


class Told(nn.Module):
    """HeteroConv that is given the features of edges, as its documentation says."""

    def __init__(self, kind, width=3):
        super().__init__()
        self.first = nn.ModuleDict({name: nn.Linear(size, width) for name, size in WIDTHS.items()})
        self.convs = nn.ModuleList(
            pyg.HeteroConv({of: CONVOLUTIONS[kind](TOLD[of], width, width) for of in RELATIONS}) for _ in range(2)
        )
        self.last = nn.Linear(width, 3)

    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        x = {name: self.first[name](part).relu() for name, part in x_dict.items()}
        for conv in self.convs:
            x = {name: part.relu() for name, part in conv(x, edge_index_dict, edge_attr_dict=edge_attr_dict).items()}
        return self.last(x["paper"])


def assert_exact(model, before, after):
    explainer = axiompath.Explainer(model, before, after)
    change = explainer.change
    schema = change.before.schema
    row = {int(number): i for i, number in enumerate(change.before.node_ids)}
    scale = 1.0
    for data, ours in ((before, change.before_pass), (after, change.after_pass)):
        with torch.no_grad():
            theirs = model(data.x_dict, data.edge_index_dict, data.edge_attr_dict).numpy()
        rows = [row[schema.number("paper", int(i))] for i in data["paper"].n_id]
        scale = max(scale, np.abs(theirs).max(initial=0.0))
        np.testing.assert_allclose(ours.logits[rows], theirs, rtol=0, atol=1e-9 * scale)
    reference = LiteralAttribution(change.network, change.before, change.after)
    back = {int(i): k for k, i in enumerate(change.before.node_ids)} | {-1: -1}
    for place, target in enumerate(explainer.moved().target.tolist()):
        found = explainer.attribute(target)
        assert found.residual < 1e-9 * scale
        if place:
            continue
        expected = reference(row[target])
        paths = [tuple(back[i] for i in path) for path in found.paths.tolist()]
        assert set(paths) == set(expected)
        for path, value in zip(paths, found.contributions, strict=True):
            np.testing.assert_allclose(value, expected[path], rtol=0, atol=1e-10 * scale)
    return explainer


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@settings(relaxed, max_examples=4)
@given(graphs=told_pairs(max_nodes=3))
def test_convolutions_that_are_given_edge_features_are_complete_path_by_path(kind, graphs):
    assert_exact(randomise(Told(kind), len(kind)), *graphs)

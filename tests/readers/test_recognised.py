"""Coefficients that a model computed are replaced by the rule that gives them, so that blame is fast."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import axiompath
from axiompath.blame.variants import knows
from support.convolutions import CONVOLUTIONS, EVOLUTIONS, Convolutions, evolution, randomise

BY_RULES = [
    "GCN", "GCN improved", "GCN without loops", "GCN not normalised, backwards", "SAGE", "SAGE sum", "GraphConv",
    "GraphConv mean", "GIN", "GIN LayerNorm", "GAT", "GAT heads", "GAT without loops", "GAT backwards", "GATv2 heads",
    "GATv2 shared", "Transformer heads", "SG 2 hops", "APPNP", "GCN2", "GEN sum",
]  # fmt: skip
BY_NO_RULE = ["PNA", "SuperGAT", "FA"]


class OwnAttention(nn.Module):
    """GAT by hand, of what two layers hold side by side."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(7, 3)
        self.own, self.other = nn.Linear(3, 1, bias=False), nn.Linear(3, 1)

    def forward(self, x, edge_index):
        h = torch.cat([x, torch.relu(self.first(x))], dim=1)
        h = self.second(h)
        source, target = edge_index
        score = nn.functional.leaky_relu(self.own(h)[target] + self.other(h)[source], 0.1).squeeze(-1)
        share = score.exp()
        total = torch.zeros(len(x), dtype=x.dtype).index_add(0, target, share)
        share = share / total[target]
        return torch.zeros_like(h).index_add(0, target, share.unsqueeze(-1) * h[source])


class OwnMean(nn.Module):
    """D^-1 (A + I) x W with a matrix that the model makes itself."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x, edge_index):
        adjacency = torch.zeros(len(x), len(x), dtype=x.dtype)
        adjacency[edge_index[1], edge_index[0]] = 1.0
        adjacency.fill_diagonal_(1.0)
        return self.linear(adjacency @ x / adjacency.sum(1, keepdim=True))


class SquaredDegree(nn.Module):
    """A sum over the square of the degree, which no rule gives."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x, edge_index):
        source, target = edge_index
        degree = torch.bincount(target, minlength=len(x)).clamp(min=1)
        return torch.zeros(len(x), 2, dtype=x.dtype).index_add(0, target, self.linear(x)[source]) / degree[:, None] ** 2


def opened(model, kinds=EVOLUTIONS[0], **options):
    graphs = evolution(3, kinds, **options)
    return axiompath.Explainer(model.double().eval(), *graphs), graphs


def layered(name):
    make, weighted = CONVOLUTIONS[name]
    return randomise(Convolutions([make(3, 3)], weighted, nn.ReLU()), sum(map(ord, name)))


@pytest.mark.parametrize("name", BY_RULES)
def test_rules_stand_for_what_layers_computed(name):
    explainer, _ = opened(layered(name))
    network = explainer.change.network
    assert not network.recorded
    assert knows(network)


@pytest.mark.parametrize("name", BY_NO_RULE)
def test_layers_that_follow_no_rule_are_known_on_both_graphs_only(name):
    explainer, _ = opened(layered(name))
    assert explainer.change.network.recorded


@pytest.mark.parametrize("make", [OwnAttention, OwnMean, SquaredDegree])
def test_blame_of_layers_of_ones_own_equals_that_of_the_model_itself(make):
    torch.manual_seed(0)
    model = make()
    explainer, graphs = opened(model, repeat=False)
    assert explainer.change.network.recorded == (make is SquaredDegree)
    alone = axiompath.Explainer(model, *graphs, paths=False)
    for target in explainer.moved().target[:3]:
        ours, theirs = (one.blame(target).shares for one in (explainer, alone))
        ours, theirs = (one[np.abs(one).max(axis=1) > 1e-12] for one in (ours, theirs))  # of changes that matter
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


def test_a_mean_that_looks_like_a_sum_on_both_graphs_is_not_taken_for_one():
    """Each node has one neighbour before and after, but two where only the added edges are applied."""
    torch.manual_seed(0)
    x = torch.rand(4, 3, dtype=torch.float64)
    before = Data(x=x, edge_index=torch.tensor([[0, 2, 3], [2, 0, 1]]))
    after = Data(x=x, edge_index=torch.tensor([[1, 3, 2], [2, 0, 1]]))
    model = OwnMean().double()
    read, unread = (axiompath.Explainer(model, before, after, paths=paths) for paths in (True, False))
    assert read.change.network.recorded
    for target in read.moved().target:
        changes = read.changes().id.to_numpy()
        for chosen in itertools.product((False, True), repeat=len(changes)):
            undone = changes[np.array(chosen)].tolist()
            ours, theirs = (one.what_if(target, undo=undone) for one in (read, unread))
            np.testing.assert_allclose(ours, theirs, atol=1e-9)

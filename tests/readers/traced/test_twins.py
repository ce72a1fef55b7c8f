"""What is read from a model's operations equals what the readers of its classes say: same paths, same shares."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    APPNP,
    ChebConv,
    ClusterGCNConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    MessagePassing,
    SAGEConv,
    SGConv,
    TAGConv,
    TransformerConv,
)

import axiompath
from axiompath.readers import UnreadableModel, reader
from support.readings import names_lines

NODES, WIDTH = 12, 5
PAIRS = {
    "GCN": lambda: (GCNConv(WIDTH, 8), GCNConv(8, 3)),
    "SAGE": lambda: (SAGEConv(WIDTH, 8), SAGEConv(8, 3)),
    "SAGE, max": lambda: (SAGEConv(WIDTH, 8, aggr="max"), SAGEConv(8, 3, aggr="max")),
    "GIN": lambda: (GINConv(nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 8))), GINConv(nn.Linear(8, 3))),
    "GAT": lambda: (GATConv(WIDTH, 4, heads=2), GATConv(8, 3)),
    "GATv2": lambda: (GATv2Conv(WIDTH, 4, heads=2), GATv2Conv(8, 3)),
    "Transformer": lambda: (TransformerConv(WIDTH, 4, heads=2), TransformerConv(8, 3)),
    "GraphConv": lambda: (GraphConv(WIDTH, 8), GraphConv(8, 3)),
    "Cheb": lambda: (ChebConv(WIDTH, 8, K=3), ChebConv(8, 3, K=2)),
    "TAG": lambda: (TAGConv(WIDTH, 8, K=2), TAGConv(8, 3, K=1)),
    "SG": lambda: (SGConv(WIDTH, 8, K=2), SGConv(8, 3)),
    "APPNP": lambda: (GCNConv(WIDTH, 3), APPNP(3, 0.1)),
    "ClusterGCN": lambda: (ClusterGCNConv(WIDTH, 8), ClusterGCNConv(8, 3)),
}


class Two(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.first, self.second = layers

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def snapshots(seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(NODES, WIDTH, generator=draw, dtype=torch.float64)
    edges = torch.unique(torch.randint(0, NODES, (2, 30), generator=draw), dim=1)
    edges = edges[:, edges[0] != edges[1]]
    others = torch.unique(torch.cat([edges[:, 3:], torch.tensor([[0, 5, 7], [7, 2, 1]])], dim=1), dim=1)
    moved = x.clone()
    moved[3] += 1.0
    return Data(x=x, edge_index=edges), Data(x=moved, edge_index=others)


def without_biases(model):
    for name, parameter in model.named_parameters():
        if "bias" in name:
            nn.init.zeros_(parameter)
    return model.double().eval()


def refuse(*_args, **_settings):
    raise UnreadableModel("a class that nobody knows")


def contributions(explainer):
    found = {}
    for target in explainer.moved().target[:5].tolist():
        one = explainer.attribute(target)
        assert one.residual < 1e-9
        found |= {tuple(path): share for path, share in zip(one.paths.tolist(), one.contributions, strict=True)}
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_operations_and_classes_say_the_same(name, monkeypatch):
    torch.manual_seed(len(name))
    model = without_biases(Two(PAIRS[name]()))
    graphs = snapshots(len(name))
    by_class = contributions(axiompath.Explainer(model, *graphs))
    monkeypatch.setattr(reader, "_read_and_check", refuse)
    explainer = axiompath.Explainer(model, *graphs)
    assert names_lines(explainer.change.network)
    by_operation = contributions(explainer)
    assert by_class.keys() == by_operation.keys()
    for path, share in by_class.items():
        np.testing.assert_allclose(by_operation[path], share, rtol=0, atol=1e-9)


class Own(MessagePassing):
    def __init__(self):
        super().__init__(aggr="add")
        self.lin = nn.Linear(WIDTH, 3)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x)).relu() + self.lin(x)

    def message(self, x_j):
        return x_j.tanh()


def test_a_layer_of_ones_own_is_explained_blamed_and_checked():
    torch.manual_seed(0)
    model, graphs = Own().double().eval(), snapshots(5)
    explainer = axiompath.Explainer(model, *graphs)
    target = int(explainer.moved().target[0])
    explanation = explainer.explain(target, budget=3)
    assert len(explanation.paths) <= 3
    blame = explainer.blame(target)
    with torch.no_grad():
        change = (model(graphs[1].x, graphs[1].edge_index) - model(graphs[0].x, graphs[0].edge_index))[target]
    np.testing.assert_allclose(blame.shares.sum(axis=0), change.numpy(), atol=1e-9)
    checked = axiompath.check(model, graphs[0])
    assert checked.readable
    assert any("scatter" in row.reading and row.module.startswith("test_twins.py:") for row in checked.rows)


class Refusing(nn.Module):
    def __init__(self, decide):
        super().__init__()
        self.conv, self.decide = GCNConv(WIDTH, 3), decide

    def forward(self, x, edge_index):
        return self.decide(self.conv(x, edge_index))


@pytest.mark.parametrize(
    ("decide", "words"),
    [
        (lambda h: h + torch.randn_like(h), "draws random numbers"),
        (lambda h: nn.functional.dropout(h, training=True), "draws random numbers"),
        (lambda h: h * torch.tensor(h.numpy()), "features leave torch"),
        (lambda h: h if bool(h.sum() > 0) else -h, "Python looks at the value of features"),
        (lambda h: h[h.sum(dim=1).argsort()], "chooses rows by features"),
        (lambda h: torch.sort(h, dim=1).values, "has no exact reading"),
    ],
)
def test_a_refusal_names_the_line_and_the_reason(decide, words):
    with pytest.raises(UnreadableModel, match=rf"test_twins\.py:\d+: .*{words}") as caught:
        axiompath.Explainer(Refusing(decide).double().eval(), *snapshots(1))
    assert "paths=False" in str(caught.value)


def test_the_users_model_stays_as_it_is():
    model = Own().double()
    held = copy.deepcopy(model.state_dict())
    axiompath.Explainer(model, *snapshots(2))
    assert model.training
    assert all(torch.equal(held[key], value) for key, value in model.state_dict().items())

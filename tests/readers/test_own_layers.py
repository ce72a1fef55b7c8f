"""A layer of one's own is explained, blamed and checked; refusals name the line."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, MessagePassing

import axiompath
from axiompath.readers import UnreadableModel
from support.readings import WIDTH, snapshots


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
    assert any("scatter" in row.reading and row.line.startswith("test_own_layers.py:") for row in checked.rows)


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
    with pytest.raises(UnreadableModel, match=rf"test_own_layers\.py:\d+: .*{words}") as caught:
        axiompath.Explainer(Refusing(decide).double().eval(), *snapshots(1))
    assert "paths=False" in str(caught.value)


def test_the_users_model_stays_as_it_is():
    model = Own().double()
    held = copy.deepcopy(model.state_dict())
    axiompath.Explainer(model, *snapshots(2))
    assert model.training
    assert all(torch.equal(held[key], value) for key, value in model.state_dict().items())

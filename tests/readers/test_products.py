"""Products of features as people write them: gates, powers, decoders; graphs whose `batch` the model makes itself."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, MeanAggregation, MultiAggregation, global_add_pool, global_mean_pool

import axiompath

GENERATOR = torch.Generator().manual_seed(0)


def random_graph(num_nodes):
    edges = torch.randint(num_nodes, (2, 3 * num_nodes), generator=GENERATOR)
    return Data(x=torch.rand(num_nodes, 4, generator=GENERATOR, dtype=torch.float64), edge_index=edges)


def evolve(data, grown=0):
    after = data.clone()
    after.edge_index = data.edge_index[:, 3:]
    after.x = torch.cat([data.x, torch.rand(grown, 4, generator=GENERATOR, dtype=torch.float64)])
    return after


BEFORE = random_graph(11)
AFTER = evolve(BEFORE)


class Gated(nn.Module):
    def __init__(self, gate):
        super().__init__()
        torch.manual_seed(1)
        self.value, self.other, self.last = GCNConv(4, 6), GCNConv(4, 6), GCNConv(6, 3)
        self.linear, self.film = nn.Linear(6, 6), nn.Linear(4, 12)
        self.gate = gate

    def forward(self, x, edge_index):
        h, other = self.value(x, edge_index), self.other(x, edge_index)
        return self.last(self.gate(self, x, h, other), edge_index)


def film(model, x, h, other):
    scale, shift = model.film(x).chunk(2, dim=-1)
    return scale * h + shift


GATES = {
    "sigmoid": lambda m, x, h, other: h * torch.sigmoid(m.linear(h)),
    "silu": lambda m, x, h, other: functional.silu(other) * h,
    "glu": lambda m, x, h, other: functional.glu(torch.cat([h, other], dim=-1)),
    "film": film,
    "three": lambda m, x, h, other: h * m.linear(h) * other,
    "three, two of them gates": lambda m, x, h, other: h * torch.sigmoid(m.linear(h)) * torch.tanh(other),
    "square": lambda m, x, h, other: h**2,
    "cube": lambda m, x, h, other: torch.pow(h, 3),
    "einsum": lambda m, x, h, other: torch.einsum("nd, nd -> nd", h, other),
}


@pytest.mark.parametrize("name", GATES)
def test_gates_are_complete_and_undone(name):
    model = Gated(GATES[name]).double().eval()
    explainer = axiompath.Explainer(model, BEFORE, AFTER)
    with torch.no_grad():
        own = model(AFTER.x, AFTER.edge_index).numpy()
    np.testing.assert_allclose(explainer.change.after_pass.logits, own, rtol=0, atol=1e-12)
    for target in explainer.moved().target[:3].tolist():
        found = explainer.attribute(target)
        scale = max(1.0, np.abs(own).max())
        assert found.residual < 1e-9 * scale
        np.testing.assert_allclose(explainer.replay(target, []), own[target], rtol=0, atol=1e-12)
        np.testing.assert_allclose(explainer.replay(target, found.paths), found.logits_before, atol=1e-9 * scale)
    rows = axiompath.check(model, BEFORE).to_frame()
    assert rows.reading.str.startswith("product, shared by its").any()


@pytest.mark.parametrize(
    "gate",
    [
        lambda m, x, h, other: h**7,
        lambda m, x, h, other: torch.einsum("nd,md->nm", h, h) @ h,
        lambda m, x, h, other: functional.glu(h, dim=0).repeat(2, 1),
    ],
)
def test_high_powers_values_of_pairs_and_gates_of_other_nodes_are_read_by_their_operations(gate):
    even = random_graph(10)
    explainer = axiompath.Explainer(Gated(gate).double().eval(), even, evolve(even))
    for target in explainer.moved().target[:3].tolist():
        found = explainer.attribute(target)
        assert found.residual < 1e-9 * max(1.0, np.abs(found.logits_after).max())


class Paired(nn.Module):
    def __init__(self, decoder):
        super().__init__()
        torch.manual_seed(2)
        self.conv, self.head = GCNConv(4, 5), nn.Linear(5, 2)
        self.decoder = decoder

    def forward(self, x, edge_index, edge_label_index):
        z = self.conv(x, edge_index).relu()
        return self.decoder(self, z[edge_label_index[0]], z[edge_label_index[1]])


def two_columns(model, u, v):
    score = (u * v).sum(dim=-1)
    return torch.stack([-score, score], dim=-1)


DECODERS = {
    "einsum": lambda m, u, v: torch.einsum("nd,nd->n", u, v).sigmoid(),
    "one column of two": lambda m, u, v: m.head(u * v)[:, 1].sigmoid(),
    "squared distance": lambda m, u, v: torch.sigmoid(-(u - v).square().sum(dim=-1)),
    "two columns of one": two_columns,
}


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_as_people_write_them(name):
    model = Paired(DECODERS[name]).double().eval()
    explainer = axiompath.Explainer(model, BEFORE, AFTER, links=[(3, 8), (0, 5)])
    with torch.no_grad():
        own = model(AFTER.x, AFTER.edge_index, torch.tensor([[3], [8]]))
    found = explainer.attribute((3, 8))
    assert found.residual < 1e-12
    np.testing.assert_allclose(explainer.replay((3, 8), found.paths), found.logits_before, atol=1e-9)
    logits = own if name == "two columns of one" else torch.logit(own)
    np.testing.assert_allclose(found.logits_after, logits.reshape(-1).numpy(), atol=1e-12)


class WholeGraph(nn.Module):
    """Of one graph without `batch`, too, as PyG's own examples are."""

    def __init__(self, pool, own_zeros, width=6):
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.head = GCNConv(4, 6), nn.Linear(width, 3)
        self.pool, self.own_zeros = pool, own_zeros

    def forward(self, x, edge_index, batch=None):
        if self.own_zeros and batch is None:
            batch = torch.zeros(x.size(0), dtype=torch.long, device=x.device)
        return self.head(self.pool(self.conv(x, edge_index).relu(), batch))


POOLS = {
    "sum": global_add_pool,
    "mean": global_mean_pool,
    "mean module": MeanAggregation(),
    "both": MultiAggregation(["mean", "sum"]),
}


@pytest.mark.parametrize("own_zeros", [False, True])
@pytest.mark.parametrize("name", POOLS)
def test_one_graph_needs_no_batch(name, own_zeros):
    model = WholeGraph(POOLS[name], own_zeros, 12 if name == "both" else 6).double().eval()
    grown = evolve(BEFORE, grown=2)
    grown.edge_index = torch.cat([grown.edge_index, torch.tensor([[11, 0, 12], [0, 11, 11]])], dim=1)
    for after in (AFTER, grown):  # a mean over more nodes has other coefficients
        explainer = axiompath.Explainer(model, BEFORE, after)
        found = explainer.attribute(0)
        with torch.no_grad():
            own = model(after.x, after.edge_index)[0].numpy()
        assert found.residual < 1e-12
        np.testing.assert_allclose(found.logits_after, own, rtol=0, atol=1e-12)
        np.testing.assert_allclose(explainer.replay(0, found.paths), found.logits_before, atol=1e-9)
    sides = [Batch.from_data_list([first, BEFORE]) for first in (BEFORE, AFTER)]
    assert axiompath.Explainer(model, *sides).moved().target.tolist() == [0]


def test_a_graph_summed_up_without_a_row_of_its_own():
    class Summed(WholeGraph):
        def forward(self, x, edge_index):
            return self.head(self.conv(x, edge_index).relu().sum(0))  # [3], not [1, 3]

    explainer = axiompath.Explainer(Summed(None, False).double().eval(), BEFORE, AFTER)
    assert explainer.change.output.kind == "classes"
    assert explainer.attribute(0).residual < 1e-12

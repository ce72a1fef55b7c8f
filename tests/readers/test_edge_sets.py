"""A model that takes several lists of edges: every set is told apart, in changes, on paths, and in blame."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import axiompath


class NearAndFar(nn.Module):
    """Sums over one edge set, weighted sums over the other, then a gate."""

    def __init__(self):
        super().__init__()
        self.near, self.far, self.out = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x, edge_index, edge_index_far, edge_weight_far):
        nothing = torch.zeros(x.shape[0], 4, dtype=x.dtype)
        near = nothing.index_add(0, edge_index[1], self.near(x)[edge_index[0]])
        far = nothing.index_add(0, edge_index_far[1], edge_weight_far[:, None] * self.far(x)[edge_index_far[0]])
        return self.out(torch.tanh(near) * torch.sigmoid(far) + self.near(x))


def graph(rng, num_nodes=6):
    pairs = np.array([(u, v) for u in range(num_nodes) for v in range(num_nodes) if u != v])
    near, far = (pairs[rng.random(len(pairs)) < 0.3].T for _ in range(2))
    weight = torch.from_numpy(rng.integers(1, 4, size=far.shape[1]) / 2.0)
    x = torch.from_numpy(rng.normal(size=(num_nodes, 3)))
    return Data(x=x, edge_index=torch.from_numpy(near), edge_index_far=torch.from_numpy(far), edge_weight_far=weight)


def evolve(rng, before):
    """Few edges of either set toggled, one node's features moved."""
    after = before.clone()
    after.x[0] += 1.0
    after.edge_index = before.edge_index[:, 1:]
    after.edge_index_far = torch.cat([before.edge_index_far[:, 1:], before.edge_index[:, :1]], dim=1)
    after.edge_weight_far = torch.cat([before.edge_weight_far[1:] * 1.0, torch.tensor([0.7], dtype=torch.float64)])
    return after


def weights_of(data, name):
    return data.edge_weight_far.tolist() if name == "edge_index_far" else [1.0] * data[name].shape[1]


@pytest.mark.parametrize("seed", range(4))
def test_both_sets_are_explained(seed):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    model, before = NearAndFar().double(), graph(rng)
    after = evolve(rng, before)
    explainer = axiompath.Explainer(model, before, after)
    edges = explainer.changes(directed=True).query("dst.notna()")
    told = {
        (name, int(src), int(dst)) for name, src, dst in zip(edges.relation_name, edges.src, edges.dst, strict=True)
    }
    for name in ("edge_index", "edge_index_far"):
        sides = [
            {tuple(edge) for edge in zip(*data[name].tolist(), weights_of(data, name), strict=True)}
            for data in (before, after)
        ]
        differing = {(name, src, dst) for src, dst, _ in sides[0] ^ sides[1]}
        assert differing == {one for one in told if one[0] == name}
    difference = (model(**after.to_dict()) - model(**before.to_dict())).detach().numpy()
    for target in range(6):
        found = explainer.attribute(target)
        np.testing.assert_allclose(found.contributions.sum(axis=0), difference[target], atol=1e-10)


def test_blame_is_that_of_plain_calls_of_the_model():
    rng = np.random.default_rng(1)
    torch.manual_seed(1)
    model, before = NearAndFar().double(), graph(rng)
    after = evolve(rng, before)
    explainer = axiompath.Explainer(model, before, after, output="value")
    found = max((explainer.blame(target) for target in explainer.moved().target), key=len)
    target = found.target
    changes = [number for (number,) in found.changes]
    assert set(explainer.changes().loc[changes, "relation_name"].dropna()) == {"edge_index", "edge_index_far"}

    def value(some):
        """The model on `before` with these rows of the table applied by hand."""
        mixed, table = before.clone(), explainer.changes()
        sets = {
            name: {tuple(edge): w for *edge, w in zip(*data.tolist(), weights.tolist(), strict=True)}
            for name, data, weights in (
                ("edge_index", before.edge_index, torch.ones(before.edge_index.shape[1])),
                ("edge_index_far", before.edge_index_far, before.edge_weight_far),
            )
        }
        for row in table.loc[list(some)].itertuples():
            if row.kind == "features changed":
                mixed.x[row.src] = after.x[row.src]
                continue
            ends = [(row.src, row.dst), *([] if row.directed else [(row.dst, row.src)])]
            for edge in ends:
                sets[row.relation_name].pop(edge, None)
                if not math.isnan(row.weight_after):
                    sets[row.relation_name][edge] = row.weight_after
        near, far = (torch.tensor(list(sets[name])).T for name in ("edge_index", "edge_index_far"))
        weight = torch.tensor(list(sets["edge_index_far"].values()), dtype=torch.float64)
        return model(mixed.x, near, far, weight)[target].detach().numpy()

    n = len(changes)
    expected = np.zeros((n, 2))
    for i, own in enumerate(changes):
        others = [one for one in changes if one != own]
        for size in range(n):
            share = math.factorial(size) * math.factorial(n - 1 - size) / math.factorial(n)
            for some in itertools.combinations(others, size):
                expected[i] += share * (value([*some, own]) - value(some))
    np.testing.assert_allclose(found.shares, expected, atol=1e-9)

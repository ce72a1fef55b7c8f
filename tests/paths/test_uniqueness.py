"""What pins contributions down, and what does not: the counterexamples of docs/mathematics.md, in numbers."""

import itertools

import numpy as np
import pytest
import torch
from scipy import special
from torch_geometric.data import Data

import axiompath
from axiompath.files.sum_gnn import SumGNN
from axiompath.metrics import kl_divergence
from axiompath.selection import select


def paths_of(attribution):
    return dict(zip(map(tuple, attribution.paths.tolist()), attribution.contributions, strict=True))


def sum_gnn(*weights):
    model = SumGNN([len(weights[0]), *(len(weight[0]) for weight in weights)]).double()
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(weight, dtype=torch.float64).T)
    return model


def graph(x, *edges):
    return Data(x=torch.tensor(x, dtype=torch.float64), edge_index=torch.tensor(edges).T.reshape(2, -1))


def rate(low, high, otherwise=np.nan):
    """The only slope that takes a ReLU from one value of z to another; any will do where there is no step."""
    return (max(high, 0.0) - max(low, 0.0)) / (high - low) if high != low else otherwise


# A hidden node 2 hears 0 and, from `after` on, 1; the target 3 hears 2. One column everywhere.
X = [[1.0], [-3.0], [0.0], [0.0]]
FIRST, WHOLE = [(0, 2), (2, 3)], [(0, 2), (2, 3), (1, 2)]
WEIGHTS = [[1.0]], [[1.0, -1.0]]


def test_given_the_references_completeness_at_every_neuron_leaves_one_answer():
    shares = paths_of(axiompath.Explainer(sum_gnn(*WEIGHTS), graph(X, *FIRST), graph(X, *WHOLE)).attribute(3))
    # z of node 2 goes from 1 to -2, h from 1 to 0: one slope, 1/3, for whatever came in.
    assert list(shares) == [(1, 2, 3)]
    np.testing.assert_allclose(shares[1, 2, 3], rate(1, -2) * X[1][0] * np.array(WEIGHTS[1][0]), atol=1e-15)


def test_another_reference_below_a_new_edge_is_as_complete_and_gives_other_shares():
    # The edge 2 -> 3 is new, and so is 1 -> 2. Below the first, the paper's reference is 0: shares of h_after by its
    # own slope. h_after is as well h_before plus what changed: both are complete, and they split 0 and 1 otherwise.
    x = [[4.0], [-3.0], [0.0], [0.0]]
    model = sum_gnn([[1.0]], [[1.0, 2.0]])
    ours = paths_of(axiompath.Explainer(model, graph(x, (0, 2)), graph(x, *WHOLE)).attribute(3))
    weights = np.array([1.0, 2.0])
    other = {(0, 2, 3): rate(0, 4) * 4 * weights, (1, 2, 3): rate(4, 1) * -3 * weights}
    np.testing.assert_allclose(sum(ours.values()), sum(other.values()), atol=1e-14)
    np.testing.assert_allclose(ours[0, 2, 3], 4 * weights, atol=1e-14)
    # Here both agree, since the ReLU is open all the way; let node 1 close it for a while and they do not.
    x[1] = [-5.0]
    ours = paths_of(axiompath.Explainer(model, graph(x, (0, 2)), graph(x, *WHOLE)).attribute(3))
    other = {(0, 2, 3): rate(0, 4) * 4 * weights, (1, 2, 3): rate(4, -1) * -5 * weights}
    np.testing.assert_allclose(sum(other.values()), 0, atol=1e-14)
    np.testing.assert_allclose(sum(ours.values(), np.zeros(2)), 0, atol=1e-14)
    assert np.abs(ours[0, 2, 3] - other[0, 2, 3]).max() > 3


def test_where_nothing_steps_no_axiom_says_how_much_two_that_cancel_have():
    # Node 2 gains two neighbours that cancel: its z stays 1, and every slope is complete. Ours is the derivative.
    x = [[1.0], [-2.0], [2.0], [0.0], [0.0]]
    before, after = [(0, 3), (3, 4)], [(0, 3), (3, 4), (1, 3), (2, 3)]
    shares = paths_of(axiompath.Explainer(sum_gnn(*WEIGHTS), graph(x, *before), graph(x, *after)).attribute(4))
    for slope in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(sum(slope * value * np.array(WEIGHTS[1][0]) for value in (-2.0, 2.0)), 0, atol=1e-15)
    np.testing.assert_allclose(shares[1, 3, 4], [-2, 2], atol=1e-15)
    np.testing.assert_allclose(shares[1, 3, 4] + shares[2, 3, 4], 0, atol=1e-15)


def test_a_coefficient_that_changed_can_be_split_in_more_than_one_complete_way():
    a, h = (0.5, 0.8), (2.0, 5.0)
    whole = a[1] * h[1] - a[0] * h[0]
    ways = {
        "the smaller is kept": (min(a) * (h[1] - h[0]), (a[1] - min(a)) * h[1]),
        "the larger is kept": (max(a) * (h[1] - h[0]), (a[1] - a[0]) * h[0]),
        "even": (np.mean(a) * (h[1] - h[0]), (a[1] - a[0]) * np.mean(h)),
    }
    for value, coefficient in ways.values():
        assert value + coefficient == pytest.approx(whole, abs=1e-15)
    assert len({round(value, 12) for value, _ in ways.values()}) == 3


def test_several_edges_taken_one_by_one_give_what_their_order_gives():
    # 1 -> 2 closes the ReLU of node 2, 4 -> 2 opens it again; the target hears 2 alone.
    x = [[1.0], [-3.0], [0.0], [0.0], [5.0]]
    edges = {"closes": (1, 2), "opens": (4, 2)}
    model = sum_gnn(*WEIGHTS)
    found = {}
    for order in itertools.permutations(edges):
        total = dict.fromkeys([(1, 2, 3), (4, 2, 3)], np.zeros(2))
        held = list(FIRST)
        for name in order:
            step = axiompath.Explainer(model, graph(x, *held), graph(x, *held, edges[name]))
            held.append(edges[name])
            for path, share in paths_of(step.attribute(3)).items():
                total[path] = total[path] + share
        found[order] = total
    once = paths_of(axiompath.Explainer(model, graph(x, *FIRST), graph(x, *held)).attribute(3))
    for total in (*found.values(), once):  # each is complete: 3 - 1
        np.testing.assert_allclose(sum(total.values()), [2, -2], atol=1e-14)
    closes, opens = (found[order][1, 2, 3][0] for order in (("closes", "opens"), ("opens", "closes")))
    assert closes == pytest.approx(-1, abs=1e-14)  # all that was left to take away
    assert opens == pytest.approx(-3, abs=1e-14)  # all of it, the ReLU being open throughout
    assert once[1, 2, 3][0] == pytest.approx(-3, abs=1e-14)


def test_without_an_activation_every_order_and_one_shot_agree():
    x = [[1.0, 2.0], [-3.0, 1.0], [0.5, 0.0], [0.0, 1.0]]
    linear = sum_gnn(*[[[1.0, -2.0], [0.5, 1.0]]] * 2)
    added = [(1, 2), (0, 1), (3, 1)]

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = linear.convs

        def forward(self, x, edge_index):
            for conv in self.convs:
                x = conv(x, edge_index)
            return x

    once = paths_of(axiompath.Explainer(Plain(), graph(x, *FIRST), graph(x, *FIRST, *added)).attribute(3))
    for order in itertools.permutations(added):
        total, held = {}, list(FIRST)
        for edge in order:
            step = axiompath.Explainer(Plain(), graph(x, *held), graph(x, *held, edge)).attribute(3)
            held.append(edge)
            for path, share in paths_of(step).items():
                total[path] = total.get(path, 0) + share
        assert set(total) == set(once)
        for path, share in once.items():
            np.testing.assert_allclose(total[path], share, atol=1e-13)


def test_the_relaxation_has_many_minimisers():
    # Three paths of two classes that are one another's mean: mixing them differently moves nothing.
    contributions = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.3, -0.2]])
    z0, n = np.array([0.2, -0.4]), 2
    z1 = z0 + contributions.sum(axis=0)

    def left(x):
        assert x.sum() == pytest.approx(n)
        return kl_divergence(z1, z0 + contributions.T @ x)

    best = select(contributions, z0, z1, n, method="convex").kl_bound
    first, second = np.array([0.5, 0.5, 0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])
    assert left(first) == pytest.approx(left(second), abs=1e-15)
    assert left(first) == pytest.approx(best, abs=1e-12)


# What the paper says of log-odds, of magnitudes and of logistic regression: docs/mathematics.md, "Why not log-odds".


def test_log_odds_of_the_two_predicted_classes_can_be_zero_or_point_the_wrong_way():
    same = np.array([0.5, 0.2, 0.3]), np.array([0.3, 0.2, 0.5])
    assert np.log(same[0].max() / same[1].max()) == 0
    assert kl_divergence(*(np.log(p) for p in reversed(same))) == pytest.approx(0.2 * np.log(5 / 3), abs=1e-15)
    less = np.array([0.4, 0.25, 0.2, 0.15]), np.array([0.24, 0.3, 0.26, 0.2])
    assert (less[0].argmax(), less[1].argmax()) == (0, 1)
    assert np.log(less[0].max() / less[1].max()) > 0  # "class 0 is more likely", though class 1 is predicted now
    assert kl_divergence(*(np.log(p) for p in reversed(less))) > 0


def test_the_largest_are_not_the_best():
    # 2 = -9 + 10 + 1: one path of share 1 comes as near as 10 and -9 together, and nearer than any with the 10 alone.
    shares, whole = np.array([-9.0, 10.0, 1.0]), 2.0
    errors = {
        chosen: abs(whole - shares[list(chosen)].sum())
        for size in range(3)
        for chosen in itertools.combinations(range(3), size)
    }
    assert min(errors.values()) == errors[(2,)] == errors[(0, 1)] == 1
    found = select(shares[:, None], np.zeros(1), np.array([whole]), 2, method="exact", output="value")
    assert abs(whole - shares[found.chosen].sum()) == 1
    assert (
        found.kl_residual
        <= select(shares[:, None], np.zeros(1), np.array([whole]), 2, method="topk", output="value").kl_residual
    )


def test_the_objective_is_one_row_of_a_logistic_regression():
    rng = np.random.default_rng(0)
    contributions, z0, z1 = rng.normal(size=(6, 4)), rng.normal(size=4), rng.normal(size=4)
    x = torch.rand(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    label = torch.from_numpy(special.softmax(z1))
    logits = torch.from_numpy(z0) + x @ torch.from_numpy(contributions)
    loss = torch.nn.functional.cross_entropy(logits, label)
    loss.backward()
    left = kl_divergence(z1, z0 + contributions.T @ x.detach().numpy())
    entropy = -(label * label.log()).sum().item()
    assert loss.item() - entropy == pytest.approx(left, abs=1e-14)
    prices = contributions @ (special.softmax(logits.detach().numpy()) - label.numpy())
    np.testing.assert_allclose(x.grad, prices, atol=1e-14)

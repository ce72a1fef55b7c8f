"""GNN-LRP and Grad: the best n of all paths of `after`, equal to ranking every path by its definition."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import axiompath
from axiompath.baselines import best_by_gradient, best_by_relevance, gnnlrp, gradient
from axiompath.baselines.gradient import edge_scores
from support.effort import examples
from support.evolutions import SumGNN, aligned, any_networks, find, graph_pairs, random_pair
from support.references import LiteralAttribution
from support.twins import all_paths_of

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, max_examples=examples(150))


class EverythingGained(LiteralAttribution):
    """GNN-LRP by Theorem 1: the attribution from a graph without edges, whose every path is gained."""

    def __init__(self, network, after):
        super().__init__(network, after, after)

    def __call__(self, target):
        assert super().__call__(target) == {}  # nothing differs from itself
        self.start()
        everything = np.ones(self.network.num_classes, dtype=bool)
        self.descend(len(self.network.layers), target, "after-gained", [], [target], everything)
        return self.finish()


@settings(relaxed)
@given(any_networks(), graph_pairs(max_nodes=5), st.integers(1, 12), st.booleans())
def test_relevance_ranks_all_paths_of_after(network, graphs, budget, small_blocks):
    before, after = aligned(*graphs)
    change = find(network, before, after)
    twin = EverythingGained(network, after)
    with pytest.MonkeyPatch.context() as patch:
        if small_blocks:
            patch.setattr(gnnlrp, "BLOCK_BYTES", 100)
        for target in np.flatnonzero(after.present)[:3]:
            expected = twin(target)
            for label in range(network.num_classes):
                paths, scores = best_by_relevance(change, target, budget, label)
                every = np.sort([value[label] for value in expected.values()])[::-1]
                scale = max(1, np.abs(every).max(initial=0))
                assert len(paths) == min(budget, len(every))
                np.testing.assert_allclose(scores, every[:budget], atol=1e-10 * scale)
                for path, score in zip(paths.tolist(), scores, strict=True):
                    assert expected[tuple(path)][label] == pytest.approx(score, abs=1e-10 * scale)
                assert len({tuple(path) for path in paths.tolist()}) == len(paths)


@settings(relaxed)
@given(any_networks(), graph_pairs(max_nodes=5), st.integers(1, 12))
def test_gradient_ranks_all_paths_of_after(network, graphs, budget):
    before, after = aligned(*graphs)
    change = find(network, before, after)
    reference = LiteralAttribution(network, before, after)
    for target in np.flatnonzero(after.present)[:3]:
        keys, values = edge_scores(change, target, 0)
        score_of = dict(zip(keys.tolist(), values, strict=True))
        n = change.num_nodes
        paths, scores = best_by_gradient(change, target, budget, 0)
        whole = [path for path in all_paths_of(reference, target, "after") if path[0] >= 0]
        every = np.sort([sum(score_of[v * n + u] for u, v in pairwise(p)) for p in whole])[::-1]
        assert len(paths) == min(budget, len(every))
        np.testing.assert_allclose(scores, every[:budget], atol=1e-10)
        assert {tuple(path) for path in paths.tolist()} <= set(whole)
        assert len({tuple(path) for path in paths.tolist()}) == len(paths)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_edge_gradients_equal_autograd(depth):
    torch.manual_seed(depth)
    before, after = random_pair(20, 60)
    model = SumGNN(*([5] + [6] * (depth - 1) + [3])).double()
    change = axiompath.Explainer(model, before, after).change
    mask = torch.ones(after.num_edges, dtype=torch.float64, requires_grad=True)
    x = after.x
    for conv in model.convs:
        x = conv(x if conv is model.convs[0] else torch.relu(x), after.edge_index, mask)
    for target in (3, 7):
        (gradient,) = torch.autograd.grad(x[target, 1], mask, retain_graph=True)
        keys, scores = edge_scores(change, target, 1)
        u, v = after.edge_index.numpy()
        by_edge = np.zeros((20, 20))
        np.add.at(by_edge, (v, u), gradient.numpy())  # parallel edges are one entry
        np.testing.assert_allclose(scores, np.abs(by_edge.reshape(-1)[keys]), atol=1e-12)
        rest = np.delete(by_edge.reshape(-1), keys)
        np.testing.assert_allclose(rest, 0, atol=1e-12)


def test_gradients_are_taken_of_the_rows_in_reach_alone(monkeypatch):
    num_nodes, seen = 500, []
    torch.manual_seed(0)
    steps = torch.arange(num_nodes)
    edges = torch.stack([steps, (steps + 1) % num_nodes])
    x = torch.randn(num_nodes, 4, dtype=torch.float64)
    model = SumGNN(4, 6, 6, 3).double()
    change = axiompath.Explainer(model, Data(x=x, edge_index=edges[:, 1:]), Data(x=x, edge_index=edges)).change
    project = gradient.project
    monkeypatch.setattr(gradient, "project", lambda h, channel: (seen.append(len(h)), project(h, channel))[1])
    paths, _ = best_by_gradient(change, 3, 5, 0)
    assert paths.tolist() == [[0, 1, 2, 3]]
    assert seen
    assert max(seen) == 1


METHODS = ("convex", "exact", "linear", "topk", "deeplift", "gnnlrp", "grad")


def two_islands(lonely):
    """An edge comes on one island; on the other nothing changes, or (if lonely) its node has no edge at all."""
    edges = [[0, 1], [1, 2], [2, 0]] + ([] if lonely else [[3, 4], [4, 3]])
    x = torch.eye(5, dtype=torch.float64)
    before = Data(x=x, edge_index=torch.tensor(edges).T)
    after = Data(x=x, edge_index=torch.tensor([*edges, [0, 2]]).T)
    return before, after


@pytest.mark.parametrize("lonely", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_node_that_nothing_reached_has_an_empty_explanation(method, lonely):
    torch.manual_seed(0)
    explainer = axiompath.Explainer(SumGNN(5, 4, 3).double(), *two_islands(lonely))
    for found in (explainer.explain(3, budget=4, method=method), explainer.frontier(3, [0, 4], method=method)[1]):
        assert found.num_paths == 0
        assert set(found.kinds) <= {"unchanged"}
        assert lonely == (len(found.paths) == 0) or method not in ("gnnlrp", "grad")
        assert np.abs(found.contributions).sum() == 0
        assert found.kl_residual == 0


@pytest.mark.parametrize("method", METHODS)
def test_no_budget_is_no_paths(method):
    torch.manual_seed(0)
    explainer = axiompath.Explainer(SumGNN(5, 4, 3).double(), *random_pair(20, 60))
    target = int(explainer.change.before.node_ids[np.argmax(explainer.num_paths)])
    for found in (explainer.explain(target, budget=0, method=method), *explainer.frontier(target, [0], method=method)):
        assert found.paths.shape == (0, 3)
        assert found.explained == pytest.approx(0.0, abs=1e-12)
        assert found.kl_residual == pytest.approx(found.kl, rel=1e-12)

"""Graphs of a batch and pairs of nodes: whatever their order, and whenever they are asked for."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_mean_pool

import axiompath
from axiompath import datasets
from axiompath.errors import TooLarge


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(3, 8), nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        return self.head(global_mean_pool(torch.relu(self.conv(x, edge_index)), batch))


class Paired(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(3, 8), GCNConv(8, 8)])
        self.head = nn.Linear(16, 2)

    def forward(self, x, edge_index, edge_label_index):
        x = self.convs[1](torch.relu(self.convs[0](x, edge_index)), edge_index)
        return self.head(torch.cat([x[edge_label_index[0]], x[edge_label_index[1]]], dim=-1))


def ring(num_nodes, seed, **fields):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.stack([torch.arange(num_nodes), (torch.arange(num_nodes) + 1) % num_nodes])
    x = torch.rand(num_nodes, 3, generator=generator, dtype=torch.float64)
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1), **fields)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_graphs_of_a_batch_may_stand_in_any_order(order):
    """A model answers for the graphs in the order of the batch, whatever numbers they have."""
    torch.manual_seed(0)
    model = Pooled().double().eval()
    graphs = [ring(5 + i, i, graph_id=torch.tensor([10 * i])) for i in order]
    evolved = [datasets.evolve(graph, removed=2, added=1, seed=3) for graph in graphs]
    before, after = Batch.from_data_list(graphs), Batch.from_data_list(evolved)
    explainer = axiompath.Explainer(model, before, after)
    with torch.no_grad():
        own = model(after.x, after.edge_index, after.batch).numpy()
    for place, i in enumerate(order):
        found = explainer.attribute(10 * i)
        np.testing.assert_allclose(found.logits_after, own[place], rtol=0, atol=1e-12)
        # With no path to exchange, the user's own model is asked for the very graph.
        np.testing.assert_allclose(explainer.replay_edges(10 * i, []), own[place], rtol=0, atol=1e-12)


def test_pairs_beyond_the_number_of_nodes_are_attributed_and_refused_by_name():
    """There are more pairs than nodes: what is said of a pair must not be looked up among the nodes."""
    torch.manual_seed(0)
    before = ring(6, 0)
    after = datasets.evolve(before, added=2, removed=2)
    pairs = [(u, v) for u in range(6) for v in range(6) if u != v]
    model = Paired().double().eval()
    found = list(axiompath.Explainer(model, before, after, links=pairs).attribute_many(pairs))
    assert max(one.residual for one in found) < 1e-12
    with pytest.raises(TooLarge, match=r"Link \(5, 4\) has [\d,]+ altered paths, .* or explain a link with fewer"):
        axiompath.Explainer(model, before, after, links=pairs, memory=100).attribute((5, 4))
    graph = Batch.from_data_list([ring(5, 0, graph_id=torch.tensor([7]))])
    evolved = Batch.from_data_list([datasets.evolve(graph[0], removed=2)])
    with pytest.raises(TooLarge, match=r"Graph 7 has [\d,]+ altered paths, .* or explain a graph with fewer"):
        axiompath.Explainer(Pooled().double().eval(), graph, evolved, memory=100).attribute(7)


@pytest.mark.parametrize("seed", range(5))
def test_a_pair_asked_for_later_has_the_answer_of_one_that_was_given(seed):
    """What is known of the nodes is taken over from what other pairs needed; nothing of the answer may depend on it."""
    torch.manual_seed(seed)
    before = ring(9, seed)
    after = datasets.evolve(before, added=2, removed=2, seed=seed)
    after.x = before.x.clone()
    after.x[0] += 1.0
    pairs = [(u, v) for u in range(9) for v in range(9) if u != v]
    model = Paired().double().eval()
    given, later = axiompath.Explainer(model, before, after, links=pairs), axiompath.Explainer(model, before, after)
    for pair in pairs[::7]:
        one, other = given.attribute(pair), later.attribute(pair)
        np.testing.assert_array_equal(one.paths, other.paths)
        np.testing.assert_allclose(one.contributions, other.contributions, rtol=0, atol=1e-12)
        assert list(one.kinds) == list(other.kinds)
        first, second = given.explain(pair, 3), later.explain(pair, 3)
        assert first.num_paths == second.num_paths == len(one.paths)
        assert first.fidelity_minus == pytest.approx(second.fidelity_minus, abs=1e-9, nan_ok=True)
        assert first.fidelity_plus == pytest.approx(second.fidelity_plus, abs=1e-9, nan_ok=True)

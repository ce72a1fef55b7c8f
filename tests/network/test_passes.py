"""The forward passes on two graphs: what differs between their edges, what is held, and in how many digits."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN

import axiompath
from axiompath.graphs.adjacency import sort_by_receiver
from axiompath.graphs.pair import match_snapshots
from support.effort import examples
from support.evolutions import GCNStack, aligned, graph_pairs

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
FLOWS = ("source_to_target", "target_to_source")


@settings(relaxed, max_examples=examples(200))
@given(graph_pairs(), st.sampled_from(FLOWS))
def test_touched_nodes_are_those_with_other_incoming_edges(graphs, flow):
    before, after = aligned(*graphs)
    lists = []
    for snapshot in (before, after):
        senders, receivers = snapshot.edge_index if flow == FLOWS[0] else snapshot.edge_index[::-1]
        weights = np.ones(len(senders)) if snapshot.edge_weight is None else snapshot.edge_weight
        into = [receivers == v for v in range(before.num_nodes)]
        lists.append([sorted(zip(senders[here], weights[here], strict=True)) for here in into])
    expected = np.array([a != b for a, b in zip(*lists, strict=True)]) | (before.present != after.present)
    found = match_snapshots(before, after, backwards=flow != FLOWS[0]).touched
    # Parallel edges whose weights swap places count as touched.
    assert (found >= expected).all()
    if before.edge_weight is None:
        assert (found == expected).all()


def ring(num_nodes):
    u = torch.arange(num_nodes)
    return torch.stack([u, (u + 1) % num_nodes])


def test_a_shuffled_edge_list_is_no_change():
    edges = torch.cat([ring(50), ring(50).flip(0)], dim=1)
    x = torch.randn(50, 4, dtype=torch.float64)
    shuffled = edges[:, torch.randperm(edges.shape[1])]
    explainer = axiompath.Explainer(
        GCNStack([4, 8, 3], torch.relu, True).double(), Data(x=x, edge_index=edges), Data(x=x, edge_index=shuffled)
    )
    assert len(explainer.moved()) == 0
    np.testing.assert_array_equal(explainer.change.after_pass.logits, explainer.change.before_pass.logits)


def test_edges_are_sorted_by_receiver_in_their_own_order():
    edge_index = np.array([[3, 1, 2, 0, 1], [1, 0, 1, 2, 1]])
    snapshot = aligned(*[Data(x=torch.ones(4, 1), edge_index=torch.from_numpy(edge_index))] * 2)[0]
    places = np.arange(5)
    found = sort_by_receiver(*snapshot.edge_index[::-1], places, snapshot.num_nodes)
    assert found.indptr.tolist() == [0, 1, 4, 5, 5]
    assert found.values.tolist() == [1, 0, 2, 4, 3]
    assert found.senders.tolist() == [1, 3, 2, 1, 0]


def test_opening_holds_features_once_edges_as_they_lie_and_no_matrix_twice():
    x, edges = torch.randn(30, 4), ring(30)
    graphs = Data(x=x, edge_index=edges), Data(x=x, edge_index=edges[:, 1:].contiguous())
    paths = axiompath.Explainer(GCNStack([4, 8, 3], torch.relu, True), *graphs).session.paths
    before, after = paths.region.before, paths.region.after
    assert before.x is after.x
    for side, data in zip((before, after), graphs, strict=True):
        assert np.shares_memory(side.edge_index, data.edge_index.numpy())
    assert all(not any(side.coefficients) for side in (paths.change.before_pass, paths.change.after_pass))


def test_features_of_two_tensors_are_read_twice():
    x, edges = torch.randn(30, 4), ring(30)
    other = x.clone()
    other[3, 1] += 1.0
    change = axiompath.Explainer(
        GCNStack([4, 8, 3], torch.relu, True), Data(x=x, edge_index=edges), Data(x=other, edge_index=edges)
    ).change
    assert np.flatnonzero(change.differs[0]).tolist() == [3]


@pytest.mark.parametrize("convolution", [GCN, GAT])
def test_features_that_are_held_as_single_numbers_are_computed_with_as_double_ones(convolution, monkeypatch):
    torch.manual_seed(0)
    x, edges = torch.randn(60, 6), torch.randint(0, 60, (2, 240))
    other = x.clone()
    other[3, 1] += 0.1
    graphs = Data(x=x, edge_index=edges), Data(x=other, edge_index=edges[:, 4:])
    model = convolution(6, 8, num_layers=2, out_channels=3).eval()
    slow = axiompath.Explainer(model, *graphs)
    monkeypatch.setattr("axiompath.graphs.data_fields.SINGLE", 1)
    held = axiompath.Explainer(model, *graphs)
    assert slow.change.after_pass.x.dtype == np.float64
    assert held.change.after_pass.x.dtype == np.float32
    assert np.shares_memory(held.change.after_pass.x, other.numpy())
    for ours, theirs in zip(held.change.after_pass.z, slow.change.after_pass.z, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    targets = slow.moved().target.tolist()[:5]
    for ours, theirs in zip(held.explain_many(targets, 3), slow.explain_many(targets, 3), strict=True):
        np.testing.assert_array_equal(ours.contributions, theirs.contributions)
        assert (ours.kl_residual, ours.origin) == (theirs.kl_residual, theirs.origin)
    pd.testing.assert_frame_equal(held.features(targets[0]), slow.features(targets[0]))


@pytest.mark.slow
def test_opening_takes_less_than_two_and_a_half_times_what_it_is_given():
    """As Python counts it; what a process of ten million edges holds is in docs/how-to-scan.md."""
    num_nodes, num_edges = 220_000, 2_200_000
    rng = np.random.default_rng(0)
    x, edges = torch.randn(num_nodes, 32), torch.from_numpy(rng.integers(0, num_nodes, (2, num_edges)))
    graphs = Data(x=x, edge_index=edges), Data(x=x, edge_index=edges[:, 100:].contiguous())
    given = sum(array.element_size() * array.nelement() for array in (x, *(data.edge_index for data in graphs)))
    model = GCNStack([32, 16, 8], torch.relu, True)
    axiompath.Explainer(model, *(Data(x=x[:50], edge_index=ring(50)) for _ in range(2)))  # compiles
    tracemalloc.start()
    try:
        axiompath.Explainer(model, *graphs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * given

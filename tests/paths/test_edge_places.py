"""Edges as places: messages made on their edge, edge features as leaves; held against the literal twins."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from axiompath.change.comparison import find_change
from axiompath.explain.replay import replay_paths
from axiompath.network import activations
from axiompath.network.coefficients import Factor, Identity
from axiompath.network.layers import Block, Channel, Layer, Network, run_network, run_pair
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.search import sum_each
from axiompath.paths.walk import count_paths, walk_paths
from support.edge_rules import SENDER, Delivered, Gathered
from support.effort import examples
from support.evolutions import HOMOGENEOUS_NAMES, attributed_pairs, edge_networks, widened
from support.references import LiteralAttribution, LiteralReplay
from support.twins import assert_twin

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck))


def find(network, before, after):
    return find_change(network, before, after, run_network(network, before), run_network(network, after))


@settings(relaxed, max_examples=examples(80))
@given(edge_networks(), attributed_pairs())
def test_paths_over_edges_equal_the_literal_twin(network, graphs):
    before, after = widened(*graphs)
    change = find(network, before, after)
    targets = np.flatnonzero(change.in_both)
    assert (targets < before.first_edge).all()
    assert_twin(change, targets)
    causes = attribute_paths(change, walk_paths(change, targets)).causes
    for target, own, count in zip(targets, causes, count_paths(change)[targets], strict=True):
        tolerance = 1e-9 * max(1.0, np.abs(own).max()) * max(1, count)
        np.testing.assert_allclose(sum_each(change, np.array([target]))[0], own, atol=tolerance)


@settings(relaxed, max_examples=examples(60))
@given(edge_networks(), attributed_pairs(max_nodes=4), st.integers(0, 2**32 - 1), st.booleans())
def test_any_choice_equals_the_literal_tree(network, graphs, seed, add):
    before, after = widened(*graphs)
    change = find(network, before, after)
    rng, reference = np.random.default_rng(seed), LiteralAttribution(network, before, after)
    targets = np.flatnonzero(change.in_both)[:2]
    for target in targets.tolist():
        found = walk_paths(change, np.array([target]))
        chosen = found.paths[rng.random(len(found.paths)) < 0.5]
        nothing = np.zeros((0, chosen.shape[1]), dtype=np.int64)
        for paths in (chosen, nothing):
            job = np.zeros(len(paths), dtype=np.int64)
            logits = replay_paths(change, np.array([target]), job, paths, add=add)[0]
            expected = LiteralReplay(reference, target, {tuple(path) for path in paths.tolist()}, add).logits()
            np.testing.assert_allclose(logits, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))


@settings(relaxed, max_examples=examples(60))
@given(edge_networks(HOMOGENEOUS_NAMES), attributed_pairs(), st.booleans())
def test_undoing_everything_gives_before(network, graphs, add):
    before, after = widened(*graphs)
    change = find(network, before, after)
    targets = np.flatnonzero(change.in_both)
    found = walk_paths(change, targets)
    job = np.repeat(np.arange(len(targets)), np.diff(found.indptr))
    logits = replay_paths(change, targets, job, found.paths, add=add)
    expected = (change.logits_after if add else change.logits_before)[targets]
    scale = max(1.0, *(np.abs(z).max(initial=0) for run in (change.before_pass, change.after_pass) for z in run.z))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("add", [False, True])
def test_undoing_everything_leaves_the_bias_of_a_further_factor_whole(add):
    """A message (x + 2) * (e + 3) on its edge, their mean at the receiver: a new edge makes a kept coefficient 1/2."""
    one = np.ones((1, 1))
    both = slice(0, 2)
    made = (
        Channel(Gathered(SENDER), one, slice(0, 1), slice(0, 1)),
        Channel(Factor(Identity(), 1), one, slice(1, 2), slice(1, 2)),
    )
    taken = (Channel(Delivered(mean=True), np.ones((2, 1)), both, slice(0, 1)),)
    product = Block(both, activations.product(2), "edges")
    network = Network((Layer(made, np.array([2.0, 3.0]), (product,), 2), Layer(taken, None, (), 1)), 2)
    x = torch.tensor([[1.0], [0.0], [4.0]])
    graphs = (
        Data(x=x, edge_index=torch.tensor([[0], [1]]), edge_attr=torch.tensor([[5.0]])),
        Data(x=x, edge_index=torch.tensor([[0, 2], [1, 1]]), edge_attr=torch.tensor([[5.0], [7.0]])),
    )
    before, after = widened(*graphs)
    change = find(network, before, after)
    np.testing.assert_allclose([change.logits_before[1, 0], change.logits_after[1, 0]], [24.0, 42.0], rtol=1e-12)
    target = np.array([1])
    paths = walk_paths(change, target).paths
    logits = replay_paths(change, target, np.zeros(len(paths), dtype=np.int64), paths, add=add)
    np.testing.assert_allclose(logits[0], [42.0 if add else 24.0], rtol=1e-12)


@settings(relaxed, max_examples=examples(40))
@given(edge_networks(), attributed_pairs())
def test_the_pass_after_a_change_equals_the_whole_pass(network, graphs):
    before, after = widened(*graphs)
    both = run_pair(network, before, after)
    for found, snapshot in zip(both, (before, after), strict=True):
        for mine, theirs in zip(found.z, run_network(network, snapshot).z, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)

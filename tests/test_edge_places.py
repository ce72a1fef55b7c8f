"""Edges as places: messages made on their edge, edge features as leaves; held against the literal twins."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axiompath.change.comparison import find_change
from axiompath.change.states import KINDS
from axiompath.explain.replay import replay_paths
from axiompath.network.layers import run_network
from axiompath.network.update import run_pair
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.search import sum_paths
from axiompath.paths.walk import count_paths, walk_paths
from evolutions import HOMOGENEOUS_NAMES, attributed_pairs, edge_networks, widened
from references import LiteralAttribution, LiteralReplay, literal_causes, literal_kind

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck))


def find(network, before, after):
    return find_change(network, before, after, run_network(network, before), run_network(network, after))


@settings(relaxed, max_examples=80)
@given(edge_networks(), attributed_pairs())
def test_paths_over_edges_equal_the_literal_twin(network, graphs):
    before, after = widened(*graphs)
    change = find(network, before, after)
    reference = LiteralAttribution(network, before, after)
    targets = np.flatnonzero(change.in_both)
    assert (targets < before.first_edge).all()
    found = walk_paths(change, targets)
    shares = attribute_paths(change, found)
    counts = count_paths(change)[targets]
    for i, target in enumerate(targets):
        rows = slice(found.indptr[i], found.indptr[i + 1])
        expected = reference(target)
        paths = [tuple(path) for path in found.paths[rows].tolist()]
        assert len(set(paths)) == len(paths) == counts[i]
        assert set(paths) == set(expected)
        parts = [part for causes in reference.shares.values() for part in causes.values()]
        scale = max([1.0, *(np.abs(part).max() for part in parts)])
        for path, value, kind in zip(paths, shares.contributions[rows], shares.kinds[rows], strict=True):
            np.testing.assert_allclose(value, expected[path], rtol=0, atol=1e-10 * scale)
            name, margin = literal_kind(reference, path)
            if margin > 1e-10 * scale:  # which of two equal shares is larger is a matter of rounding
                assert KINDS[kind] == name
        change_of_logits = change.after_pass.logits[target] - change.before_pass.logits[target]
        tolerance = 1e-9 * scale * max(1, counts[i])
        np.testing.assert_allclose(shares.contributions[rows].sum(axis=0), change_of_logits, atol=tolerance)
        np.testing.assert_allclose(sum_paths(change, target), shares.causes[i], atol=tolerance)
        for cause, value in zip(KINDS, shares.causes[i], strict=True):
            np.testing.assert_allclose(value, literal_causes(reference)[cause], atol=tolerance)


@settings(relaxed, max_examples=60)
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


@settings(relaxed, max_examples=60)
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


@settings(relaxed, max_examples=40)
@given(edge_networks(), attributed_pairs())
def test_the_pass_after_a_change_equals_the_whole_pass(network, graphs):
    before, after = widened(*graphs)
    both = run_pair(network, before, after)
    for found, snapshot in zip(both, (before, after), strict=True):
        for mine, theirs in zip(found.z, run_network(network, snapshot).z, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)

"""Whole graphs, links, products: the same engine, held against the literal twin and against the models themselves."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axiompath.change.comparison import find_change
from axiompath.change.states import KINDS
from axiompath.explain.replay import replay_paths
from axiompath.network.layers import run_network
from axiompath.network.update import run_pair
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.walk import count_paths, walk_paths
from evolutions import HOMOGENEOUS_NAMES, aligned, any_tasks, graph_pairs, with_places
from references import LiteralAttribution, LiteralReplay, literal_causes

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
seeds = st.integers(0, 2**32 - 1)


def open_task(task, graphs, seed, renewed=False):
    """The change between two snapshots; `renewed`, where `after` is computed only as far as the change reaches."""
    network, kind = task
    before, after = with_places(kind, *aligned(*graphs), np.random.default_rng(seed))
    passes = run_pair(network, before, after) if renewed else [run_network(network, side) for side in (before, after)]
    change = find_change(network, before, after, *passes)
    return change, np.flatnonzero(change.in_both)


def assert_complete(change, targets):
    """Counted, walked and summed: shares and causes, each to the change of the logits."""
    found = walk_paths(change, targets)
    shares = attribute_paths(change, found)
    assert (np.diff(found.indptr) == count_paths(change)[targets]).all()
    for i, target in enumerate(targets):
        rows = slice(found.indptr[i], found.indptr[i + 1])
        ends = change.before_pass.logits[target], change.after_pass.logits[target]
        scale = max(1.0, *(np.abs(end).max() for end in ends), np.abs(shares.contributions[rows]).max(initial=0.0))
        assert np.abs(shares.contributions[rows].sum(axis=0) - (ends[1] - ends[0])).max() < 1e-9 * scale
        assert np.abs(shares.causes[i].sum(axis=0) - (ends[1] - ends[0])).max() < 1e-9 * scale


def assert_twin(change, targets):
    """Path by path what the definition gives, written out; and cause by cause."""
    reference = LiteralAttribution(change.network, change.before, change.after)
    found = walk_paths(change, targets)
    shares = attribute_paths(change, found)
    for i, target in enumerate(targets):
        rows = slice(found.indptr[i], found.indptr[i + 1])
        expected = reference(target)
        paths = [tuple(path) for path in found.paths[rows].tolist()]
        assert sorted(paths) == sorted(expected)
        parts = [part for causes in reference.shares.values() for part in causes.values()]
        scale = max([1.0, *(np.abs(part).max() for part in parts)])
        for path, value in zip(paths, shares.contributions[rows], strict=True):
            np.testing.assert_allclose(value, expected[path], rtol=0, atol=1e-10 * scale)
        for cause, value in zip(KINDS, shares.causes[i], strict=True):
            tolerance = 1e-9 * scale * max(1, len(paths))
            np.testing.assert_allclose(value, literal_causes(reference)[cause], atol=tolerance)


def assert_nothing_undone(change, targets):
    no_path, no_job = np.zeros((0, change.network.num_positions), dtype=np.int64), np.zeros(0, dtype=np.int64)
    undone = replay_paths(change, targets, no_job, no_path)
    np.testing.assert_array_equal(undone, change.after_pass.logits[targets])


def assert_all_undone(change, targets):
    """Where DESIGN promises it: everything undone gives `before`, everything added gives `after`."""
    found = walk_paths(change, targets)
    job = np.repeat(np.arange(len(targets)), np.diff(found.indptr))
    ends = change.before_pass.logits[targets], change.after_pass.logits[targets]
    inner = [np.abs(z).max(initial=0.0) for side in (change.before_pass, change.after_pass) for z in side.z]
    for end, add in zip(ends, (False, True), strict=True):
        undone = replay_paths(change, targets, job, found.paths, add=add)
        np.testing.assert_allclose(undone, end, rtol=0, atol=1e-9 * max(1.0, *inner))


def assert_any_choice(change, targets, seed, add):
    """Undoing some of the altered paths, or adding them, gives what the whole tree gives, written out."""
    reference = LiteralAttribution(change.network, change.before, change.after)
    rng = np.random.default_rng(seed)
    chosen = []
    for target in targets:
        offered = sorted(reference(target))
        keep = rng.random(len(offered)) < rng.choice([0.2, 0.6, 1.0])
        chosen.append([path for path, wanted in zip(offered, keep, strict=True) if wanted])
    rows = np.array([path for paths in chosen for path in paths], dtype=np.int64)
    job = np.repeat(np.arange(len(targets)), [len(paths) for paths in chosen])
    found = replay_paths(change, targets, job, rows.reshape(-1, change.network.num_positions), add=add)
    for i, target in enumerate(targets):
        expected = LiteralReplay(reference, target, set(chosen[i]), add).logits()
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-9 * max(1, np.abs(expected).max()))


# With the tests below, a thousand evolutions; the last test asks everything of each of another thousand.
@settings(relaxed, max_examples=400)
@given(any_tasks(), graph_pairs(max_nodes=6), seeds)
def test_every_form_is_complete_and_undoing_nothing_changes_nothing(task, graphs, seed):
    change, targets = open_task(task, graphs, seed, renewed=True)
    assert_complete(change, targets)
    assert_nothing_undone(change, targets)
    for network_pass, side in ((change.before_pass, change.before), (change.after_pass, change.after)):
        again = run_network(change.network, side)
        np.testing.assert_allclose(network_pass.logits, again.logits, rtol=1e-9, atol=1e-9)


@settings(relaxed, max_examples=200)
@given(any_tasks(), graph_pairs(max_nodes=5), seeds)
def test_every_form_equals_the_literal_twin_path_by_path(task, graphs, seed):
    assert_twin(*open_task(task, graphs, seed))


@settings(relaxed, max_examples=150)
@given(any_tasks(), graph_pairs(max_nodes=4), seeds, st.booleans())
def test_undoing_any_choice_equals_the_literal_tree(task, graphs, seed, add):
    assert_any_choice(*open_task(task, graphs, seed), seed, add)


@settings(relaxed, max_examples=250)
@given(any_tasks(activation_names=HOMOGENEOUS_NAMES), graph_pairs(max_nodes=5), seeds)
def test_undoing_everything_gives_before_and_adding_everything_gives_after(task, graphs, seed):
    assert_all_undone(*open_task(task, graphs, seed))


@pytest.mark.slow
@settings(relaxed, max_examples=1000)
@given(st.booleans(), st.data(), graph_pairs(max_nodes=5), seeds)
def test_a_thousand_evolutions_hold_all_of_it(homogeneous, data, graphs, seed):
    task = data.draw(any_tasks(activation_names=HOMOGENEOUS_NAMES if homogeneous else None))
    change, targets = open_task(task, graphs, seed)
    assert_complete(change, targets)
    assert_twin(change, targets)
    assert_nothing_undone(change, targets)
    if homogeneous:
        assert_all_undone(change, targets)

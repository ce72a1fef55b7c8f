"""Whole graphs, links, products: the same engine, held against the literal twin and against the models themselves."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from axiompath.change.comparison import find_change
from axiompath.explain.replay import replay_paths
from axiompath.network import activations
from axiompath.network.coefficients import Identity, SymmetricNorm
from axiompath.network.layers import Block, Channel, Layer, Network, run_network
from axiompath.network.update import run_pair
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.walk import count_paths, walk_paths
from effort import examples
from evolutions import HOMOGENEOUS_NAMES, NodeScale, aligned, any_tasks, graph_pairs, product_layer, with_places
from references import LiteralAttribution, LiteralReplay
from twins import assert_twin

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
seeds = st.integers(0, 2**32 - 1)
MOST_STEPS = 300_000  # of a literal tree; deep networks of maxima and norms have trees without end


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
    trees = [LiteralReplay(reference, target, set(paths), add) for target, paths in zip(targets, chosen, strict=True)]
    assume(sum(tree.most_steps() for tree in trees) < MOST_STEPS)
    for i, tree in enumerate(trees):
        expected = tree.logits()
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-9 * max(1, np.abs(expected).max()))


# With the tests below, a thousand evolutions; the last test asks everything of each of another thousand.
@settings(relaxed, max_examples=examples(400))
@given(any_tasks(), graph_pairs(max_nodes=6), seeds)
def test_every_form_is_complete_and_undoing_nothing_changes_nothing(task, graphs, seed):
    change, targets = open_task(task, graphs, seed, renewed=True)
    assert_complete(change, targets)
    assert_nothing_undone(change, targets)
    for network_pass, side in ((change.before_pass, change.before), (change.after_pass, change.after)):
        again = run_network(change.network, side)
        np.testing.assert_allclose(network_pass.logits, again.logits, rtol=1e-9, atol=1e-9)


@settings(relaxed, max_examples=examples(200))
@given(any_tasks(), graph_pairs(max_nodes=5), seeds)
def test_every_form_equals_the_literal_twin_path_by_path(task, graphs, seed):
    assert_twin(*open_task(task, graphs, seed))


def test_what_rounding_alone_moved_is_a_path_in_both_or_in_neither():
    """Two loops of a half each against one: coefficients of 1 + 2e-16 and 1, and above them scales of features that are
    the same number or not by how a pass rounds. Where not, the bias in between has a path (of share 0). The literal
    twin once had a pass of its own, which rounds otherwise, and so a path more in some of these."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = torch.from_numpy(rng.normal(size=(2, 3)))
        graphs = [Data(x=x, edge_index=torch.tensor([loops, loops])) for loops in ([0, 0, 1], [0, 1])]
        tanh = (Block(slice(0, 4), activations.tanh(), "tanh"),)
        multiplied, joined = product_layer(rng, 4, lambda i: Identity(), 2, True)
        weight = joined @ rng.normal(size=(joined.shape[1], 3))
        hop = Channel(SymmetricNorm(False, None), rng.normal(size=(3, 4)), slice(0, 3), slice(0, 4))
        local = Channel(Identity(), rng.normal(size=(4, 4)), slice(0, 4), slice(0, 4))
        scale = Channel(NodeScale(), weight, slice(0, len(weight)), slice(0, 3))
        layers = (
            Layer((hop,), None, tanh, 4), Layer((local,), rng.normal(size=4), tanh, 4), multiplied,
            Layer((scale,), None, (), 3),
        )  # fmt: skip
        assert_twin(*open_task((Network(layers, 3), None), graphs, 0))


@settings(relaxed, max_examples=examples(150))
@given(any_tasks(), graph_pairs(max_nodes=4), seeds, st.booleans())
def test_undoing_any_choice_equals_the_literal_tree(task, graphs, seed, add):
    assert_any_choice(*open_task(task, graphs, seed), seed, add)


@settings(relaxed, max_examples=examples(250))
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

"""Replay: undoing nothing, everything and anything between; equal to the literal tree."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import axiompath
from axiompath.change.comparison import find_change
from axiompath.explain.replay import replay_paths
from axiompath.network.layers import run_network
from axiompath.paths.walk import walk_paths
from support.effort import examples
from support.evolutions import aligned, any_networks, gcn_models, graph_pairs
from support.references import LiteralAttribution, LiteralReplay
from support.twins import all_paths_of

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@settings(relaxed, max_examples=examples(200))
@given(any_networks(), graph_pairs(max_nodes=5), st.integers(0, 2**32 - 1), st.booleans())
def test_any_choice_equals_the_literal_tree(network, graphs, seed, add):
    before, after = aligned(*graphs)
    passes = run_network(network, before), run_network(network, after)
    change = find_change(network, before, after, *passes)
    reference = LiteralAttribution(network, before, after)
    targets = np.flatnonzero(before.present & after.present)
    rng = np.random.default_rng(seed)
    chosen = []
    for target in targets:
        # Rankings of `after` may choose paths that are the same in both graphs, so those are offered too.
        offered = sorted(set(reference(target)) | all_paths_of(reference, target, "after"))
        keep = rng.random(len(offered)) < rng.choice([0.2, 0.6, 1.0])
        chosen.append([path for path, wanted in zip(offered, keep, strict=True) if wanted])
    rows = np.array([path for paths in chosen for path in paths], dtype=np.int64).reshape(-1, network.num_positions)
    job = np.repeat(np.arange(len(targets)), [len(paths) for paths in chosen])
    found = replay_paths(change, targets, job, rows, add=add)
    for i, target in enumerate(targets):
        expected = LiteralReplay(reference, target, set(chosen[i]), add).logits()
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-9 * max(1, np.abs(expected).max()))


@settings(relaxed, max_examples=examples(300))
@given(gcn_models(), graph_pairs())
def test_undoing_everything_gives_before_and_adding_everything_gives_after(model, graphs):
    explainer = axiompath.Explainer(model, *graphs)
    change = explainer.change
    targets = np.flatnonzero(change.before.present & change.after.present)
    paths = walk_paths(change, targets)
    job = np.repeat(np.arange(len(targets)), np.diff(paths.indptr))
    homogeneous = all(
        block.activation is None or block.activation.piecewise_linear
        for layer in change.network.layers for block in layer.blocks
    )  # fmt: skip
    kept_change = any(((layer.kept != 0) & (layer.before != layer.after)).any() for layer in change.layers)
    for add, start, end in (
        (False, change.after_pass, change.before_pass),
        (True, change.before_pass, change.after_pass),
    ):
        nothing = replay_paths(change, targets, job[:0], paths.paths[:0], add=add)
        np.testing.assert_array_equal(nothing, start.logits[targets])
        everything = replay_paths(change, targets, job, paths.paths, add=add)
        if homogeneous or not kept_change:
            scale = max(1, np.abs(end.logits).max(initial=0), np.abs(start.logits).max(initial=0))
            np.testing.assert_allclose(everything, end.logits[targets], rtol=0, atol=1e-9 * scale)

"""A change held against the definition written out, one path at a time."""

import numpy as np
from hypothesis import assume

from axiompath.change.comparison import find_change
from axiompath.change.states import KINDS
from axiompath.explain.replay import replay_paths
from axiompath.network.layers import run_pair
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.walk import count_paths, walk_paths
from support.evolutions import aligned, with_places
from support.references import LiteralAttribution, LiteralReplay, literal_causes, literal_kind


def assert_twin(change, targets):
    """The same paths, counts, shares, kinds and causes; and both sums are the change of the logits."""
    reference = LiteralAttribution(change.network, change.before, change.after)
    found = walk_paths(change, targets)
    shares, counts = attribute_paths(change, found), count_paths(change)[targets]
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
        np.testing.assert_allclose(shares.causes[i].sum(axis=0), change_of_logits, atol=tolerance)
        for cause, value in zip(KINDS, shares.causes[i], strict=True):
            np.testing.assert_allclose(value, literal_causes(reference)[cause], atol=tolerance)


def all_paths_of(reference, target, side):
    """Every path of one snapshot's tree, altered or not, bias sources included."""
    network, found = reference.network, set()
    lowest = next(t for t, layer in enumerate(network.layers) if not layer.local)

    def descend(t, v, nodes, columns):
        if t == lowest:
            found.add(nodes)
            return
        layer = network.layers[t - 1]
        if layer.bias is not None and layer.bias[columns].any():
            found.add(nodes)
        for u in reference.neighbours[t - 1].get(v, ()):
            open_channels = [a.get((v, u), 0.0) != 0 for a in reference.passes[side].coefficients[t - 1]]
            carried = reference.carried(t - 1, columns, open_channels)
            if carried.any():
                descend(t - 1, u, nodes if layer.local else (u, *nodes), carried)

    descend(len(network.layers), target, (target,), np.ones(network.num_classes, dtype=bool))
    return {(-1,) * (network.num_positions - len(nodes)) + nodes for nodes in found}


MOST_STEPS = 300_000  # of a literal tree; deep networks of maxima and norms have trees without end


def open_task(task, graphs, seed):
    """The change between two snapshots."""
    network, kind = task
    before, after = with_places(kind, *aligned(*graphs), np.random.default_rng(seed))
    change = find_change(network, before, after, *run_pair(network, before, after))
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

"""Groups of paths that end alike: exact sums that no path is walked for, partitions, and what is chosen among them."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axiompath.change.comparison import find_change
from axiompath.explain.replay import replay_paths
from axiompath.network.layers import run_network
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.bundles import ANY, count_hops, count_members, depth_of, is_group, open_groups
from axiompath.paths.walk import count_paths, walk_paths
from evolutions import HOMOGENEOUS_NAMES, aligned, any_networks, any_tasks, graph_pairs, with_places

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@st.composite
def changes(draw, activation_names=None):
    """Of nodes, graphs or links; networks of any kind."""
    network, kind = draw(st.one_of(any_tasks(3, activation_names), any_networks(3, activation_names).map(lambda n: (n, None))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    before, after = with_places(kind, *aligned(*draw(graph_pairs(max_nodes=6))), rng)
    return find_change(network, before, after, run_network(network, before), run_network(network, after))


def listed(change, target):
    """All paths of a target, their contributions and what they are worth together."""
    found = walk_paths(change, np.array([target]))
    shares = attribute_paths(change, found)
    return found.paths, shares.contributions, max(1.0, float(np.abs(shares.contributions).sum()))


def members(paths, end):
    """Which of these paths end so."""
    return (paths == end)[:, end != ANY].all(axis=1)


def all_of(change, target):
    """The group of all paths of a target."""
    return np.array([[ANY] * count_hops(change) + [target]])


def check_partition(change, groups, target, rng):
    """Open groups of one depth, hold what comes against a list, and go on with some of them."""
    paths, contributions, scale = listed(change, target)
    opened = open_groups(change, target, groups)
    sizes = count_members(change, opened.paths)
    for group in groups:
        inside = opened.paths[members(opened.paths, group)]
        covered = np.stack([members(paths, end) for end in inside]) if len(inside) else np.zeros((0, len(paths)))
        np.testing.assert_array_equal(covered.sum(axis=0), members(paths, group))
    for end, share, size, parent in zip(opened.paths, opened.contributions, sizes, opened.parents, strict=True):
        inside = members(paths, end)
        assert size == inside.sum()
        assert members(end[None], groups[parent]).all()
        np.testing.assert_allclose(share, contributions[inside].sum(axis=0), rtol=0, atol=1e-10 * scale)
    longer = opened.paths[is_group(opened.paths)]
    if len(longer):
        check_partition(change, longer[rng.permutation(len(longer))[:3]], target, rng)


@settings(relaxed, max_examples=200)
@given(changes(), st.integers(0, 99))
def test_a_group_contributes_the_sum_of_its_paths_and_opens_into_a_partition(change, seed):
    rng = np.random.default_rng(seed)
    for target in np.flatnonzero(count_paths(change) > 0).tolist():
        check_partition(change, all_of(change, target), target, rng)


def some_units(change, target, rng):
    """A random partition into ends, and some of it."""
    units = open_groups(change, target, all_of(change, target)).paths
    for _ in range(3):
        groups = np.flatnonzero(is_group(units))
        if len(groups) == 0:
            break
        one = rng.choice(groups)
        units = np.concatenate([np.delete(units, one, axis=0), open_groups(change, target, units[[one]]).paths])
    return units[rng.random(len(units)) < 0.6]


@pytest.mark.parametrize("add", [False, True])
@settings(relaxed, max_examples=100)
@given(changes(HOMOGENEOUS_NAMES), st.integers(0, 99))
def test_undoing_a_group_is_undoing_its_paths_one_by_one(add, change, seed):
    rng = np.random.default_rng(seed)
    for target in np.flatnonzero(count_paths(change) > 0).tolist():
        units = some_units(change, target, rng)
        paths, _, scale = listed(change, target)
        inside = np.zeros(len(paths), dtype=bool)
        for unit in units:
            inside |= members(paths, unit)
        where = np.array([target])
        undone = replay_paths(change, where, np.zeros(len(units), dtype=np.int64), units, add=add)
        literal = replay_paths(change, where, np.zeros(inside.sum(), dtype=np.int64), paths[inside], add=add)
        np.testing.assert_allclose(undone, literal, rtol=0, atol=1e-9 * scale)
        twice = np.concatenate([units, paths[inside]])  # what a group holds is not undone again
        again = replay_paths(change, where, np.zeros(len(twice), dtype=np.int64), twice, add=add)
        np.testing.assert_allclose(again, undone, rtol=0, atol=1e-9 * scale)
        everything = replay_paths(change, where, np.zeros(1, dtype=np.int64), all_of(change, target), add=add)
        ends = (change.after_pass, change.before_pass)[not add].logits[where]
        np.testing.assert_array_equal(everything, ends)

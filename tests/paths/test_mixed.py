"""Forms at once: edges as places, relations, loops, maxima, softmaxes, gates; of nodes, graphs and links."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axiompath.change.comparison import find_change
from axiompath.network.layers import run_pair
from support.effort import examples
from support.evolutions import HOMOGENEOUS_NAMES, any_tasks, attributed_pairs, related, widened
from support.twins import assert_all_undone, assert_any_choice, assert_complete, assert_nothing_undone, assert_twin

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
seeds = st.integers(0, 2**32 - 1)
graphs, small = (attributed_pairs(max_nodes=size).map(related) for size in (4, 3))
tasks, homogeneous_tasks = any_tasks(mixed=True), any_tasks(activation_names=HOMOGENEOUS_NAMES, mixed=True)


def open_mixed(task, pair, seed):
    network, kind = task
    before, after = widened(*pair, kind, np.random.default_rng(seed))
    change = find_change(network, before, after, *run_pair(network, before, after))
    return change, np.flatnonzero(change.in_both)


@settings(relaxed, max_examples=examples(60))
@given(tasks, graphs, seeds)
def test_all_forms_together_are_complete_also_where_only_what_changed_is_computed(task, pair, seed):
    change, targets = open_mixed(task, pair, seed)
    assert_complete(change, targets)
    assert_nothing_undone(change, targets)


@settings(relaxed, max_examples=15)
@given(tasks, small, seeds)
def test_all_forms_together_equal_the_literal_twin_path_by_path(task, pair, seed):
    assert_twin(*open_mixed(task, pair, seed))


@settings(relaxed, max_examples=25)
@given(homogeneous_tasks, small, seeds)
def test_undoing_everything_gives_before_and_adding_everything_gives_after(task, pair, seed):
    assert_all_undone(*open_mixed(task, pair, seed))


@pytest.mark.slow
@settings(relaxed, max_examples=400)
@given(st.booleans(), st.data(), small, seeds, st.booleans())
def test_hundreds_of_evolutions_hold_all_of_it(homogeneous, data, pair, seed, add):
    change, targets = open_mixed(data.draw(homogeneous_tasks if homogeneous else tasks), pair, seed)
    assert_complete(change, targets)
    assert_twin(change, targets)
    assert_nothing_undone(change, targets)
    assert_any_choice(change, targets[:2], seed, add)
    if homogeneous:
        assert_all_undone(change, targets)

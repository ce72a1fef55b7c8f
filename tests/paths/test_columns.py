"""Maxima, softmaxes a column, norms over a graph: complete, equal to the literal twin, undone, steady at near ties."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv, SimpleConv

import axiompath
from axiompath.native.maxima import line_shares
from support.effort import examples
from support.evolutions import HOMOGENEOUS_NAMES, any_tasks, graph_pairs
from support.references import literal_line
from support.twins import (
    assert_all_undone,
    assert_any_choice,
    assert_complete,
    assert_nothing_undone,
    assert_twin,
    open_task,
)

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
seeds = st.integers(0, 2**32 - 1)
tasks = any_tasks(columns=True)


@settings(relaxed, max_examples=examples(60))
@given(tasks, graph_pairs(max_nodes=6), seeds)
def test_columns_are_complete_also_where_only_what_changed_is_computed(task, graphs, seed):
    change, targets = open_task(task, graphs, seed)
    assert_complete(change, targets)
    assert_nothing_undone(change, targets)


@settings(relaxed, max_examples=examples(60))
@given(tasks, graph_pairs(max_nodes=5), seeds)
def test_columns_equal_the_literal_twin_path_by_path(task, graphs, seed):
    assert_twin(*open_task(task, graphs, seed))


@settings(relaxed, max_examples=examples(40))
@given(tasks, graph_pairs(max_nodes=4), seeds, st.booleans())
def test_undoing_any_choice_equals_the_literal_tree(task, graphs, seed, add):
    assert_any_choice(*open_task(task, graphs, seed), seed, add)


@settings(relaxed, max_examples=examples(60))
@given(any_tasks(activation_names=HOMOGENEOUS_NAMES, columns=True), graph_pairs(max_nodes=5), seeds)
def test_undoing_everything_gives_before_and_adding_everything_gives_after(task, graphs, seed):
    assert_all_undone(*open_task(task, graphs, seed))


@pytest.mark.slow
@settings(relaxed, max_examples=600)
@given(st.booleans(), st.data(), graph_pairs(max_nodes=5), seeds, st.booleans())
def test_hundreds_of_evolutions_hold_all_of_it(homogeneous, data, graphs, seed, add):
    names = HOMOGENEOUS_NAMES if homogeneous else None
    change, targets = open_task(data.draw(any_tasks(activation_names=names, columns=True)), graphs, seed)
    assert_complete(change, targets)
    assert_twin(change, targets)
    assert_nothing_undone(change, targets)
    assert_any_choice(change, targets, seed, add)
    if homogeneous:
        assert_all_undone(change, targets)


def test_lines_that_meet_at_an_end_do_not_cross_before_it():
    """What ties in one snapshot alone: all of the way belongs to one, to the last bit, in the twin and in the loop."""
    ends = np.array([-0.6615280219, 0.9350499941]), np.full(2, 0.1885191876)
    rng = np.random.default_rng(0)
    tied = [(rng.normal(size=3), np.full(3, rng.normal())) for _ in range(200)]
    for pair in [ends, *tied, *(pair[::-1] for pair in tied)]:
        low, high = pair
        shares = np.empty(len(low))
        line_shares(np.array([0, len(low)]), low, high, np.ones(len(low), dtype=np.uint8), shares)
        expected = literal_line(dict(enumerate(low)), dict(enumerate(high)))
        assert list(expected.values()) == shares.tolist() == (np.arange(len(low)) == np.argmax(low + high)).tolist()


class Largest(torch.nn.Module):
    """What is sent, by the largest; two logits of which one moves."""

    def __init__(self, aggr="max"):
        super().__init__()
        self.conv = SimpleConv(aggr)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index) @ torch.tensor([[1.0, 0.0]], dtype=x.dtype)


def star(values, senders=None):
    """Node 0 takes from the others."""
    senders = range(1, len(values)) if senders is None else senders
    x = torch.tensor(values, dtype=torch.float64)[:, None]
    return Data(x=x, edge_index=torch.tensor([list(senders), [0] * len(list(senders))]))


@pytest.mark.parametrize(
    ("before", "after", "shares"),
    [
        ([0, 1, 50], [0, 101, 50], {(1, 0): 51.0}),  # half of the way, as the larger one
        ([0, 5, 5], [0, 5, 5 + 1e-12], {(2, 0): 1e-12}),
        ([0, 5, 5], [0, 5, 5 - 1e-12], {}),
        ([0, 5, 5 - 1e-12], [0, 5, 5 + 1e-12], {(2, 0): 1e-12}),
        ([0, 5 - 1e-12, 5], [0, 4, 5], {}),
    ],
)
def test_a_change_of_features_stays_one_and_near_ties_do_not_jump(before, after, shares):
    found = axiompath.Explainer(Largest(), star(before), star(after)).attribute(0)
    assert found.residual < 1e-15
    taken = {tuple(path): share[0] for path, share in zip(found.paths.tolist(), found.contributions, strict=True)}
    for path in taken.keys() | shares.keys():
        assert taken.get(path, 0.0) == pytest.approx(shares.get(path, 0.0), abs=1e-14)
    np.testing.assert_allclose(found.causes["feature"], found.delta_logits, rtol=0, atol=1e-15)


def test_who_comes_takes_the_maximum_from_who_held_it():
    found = axiompath.Explainer(Largest(), star([0, 3, 7], [1]), star([0, 3, 7])).attribute(0)
    taken = {tuple(path): share[0] for path, share in zip(found.paths.tolist(), found.contributions, strict=True)}
    assert taken == {(1, 0): -3.0, (2, 0): 7.0}
    assert found.causes["gained"][0] == 7.0
    assert found.causes["reweighted"][0] == -3.0
    least = axiompath.Explainer(Largest("min"), star([0, 3, 7], [1]), star([0, 3, 7]))
    assert len(least.attribute(0).paths) == 0


def test_a_wide_maximum_has_one_set_of_states():
    """The number of sets does not grow with the columns, since they are one family."""
    rng, sizes = np.random.default_rng(0), []
    for width in (4, 32):
        torch.manual_seed(0)
        model = SAGEConv(width, 3, aggr="max").double().eval()
        x = torch.from_numpy(rng.normal(size=(12, width)))
        edges = [torch.from_numpy(rng.integers(0, 12, size=(2, 40))) for _ in range(2)]
        change = axiompath.Explainer(model, Data(x=x, edge_index=edges[0]), Data(x=x, edge_index=edges[1])).change
        sizes.append(max(len(sets.held) for sets in change.steps.sets.values()))
    assert sizes[1] <= sizes[0] + 4


def test_edges_as_units_are_refused_for_maxima():
    explainer = axiompath.Explainer(Largest(), star([0, 3, 7], [1]), star([0, 3, 7]))
    with pytest.raises(axiompath.InputError, match="ask for paths, or for `blame`"):
        explainer.explain(0, by="edge")


def test_who_holds_a_maximum_on_the_way_alone_has_a_path_that_can_be_undone():
    """Node 2 is the largest neither before nor after, but in between."""
    explainer = axiompath.Explainer(Largest(), star([0, 10, 6, 0]), star([0, 0, 7, 10]))
    found = explainer.attribute(0)
    assert (2, 0) in {tuple(path) for path in found.paths.tolist()}
    np.testing.assert_allclose(explainer.replay(0, found.paths), found.logits_before, atol=1e-12)
    np.testing.assert_allclose(explainer.replay(0, found.paths, add=True), found.logits_after, atol=1e-12)

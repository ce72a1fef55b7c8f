"""A brief: exact shares of groups of changes, and sets whose undoing the user's own model confirms."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from axiompath.blame.brief import MOST_LISTED, MOST_PLAYERS, Brief, Cause, LeastUndo, brief_target, group_values
from axiompath.blame.goal import predicted_values
from axiompath.blame.shapley import all_subsets, shapley_weights
from axiompath.explain.moved import find_flipped
from support.players import evolve, open_model

MODELS = ("gcn", "gat", "pooled", "link", "size_norm")


def briefs(name, changes=14, seed=3):
    before, after = evolve(seed, changes, num_nodes=16, symmetric=name != "gat")
    _, explainer = open_model(name, before, after, 2)
    moved = explainer.moved()
    for target in [*moved[find_flipped(moved)].target.tolist()[:3], *moved.target.tolist()[:2]]:
        yield explainer, target, brief_target(explainer.session.subsets, explainer.session.root(target), "it", ())


@pytest.mark.parametrize("name", MODELS)
def test_groups_applied_as_a_whole_are_their_changes_applied(name):
    rng = np.random.default_rng(0)
    for explainer, target, _ in briefs(name):
        evaluator = explainer.session.subsets.open(explainer.session.root(target))
        codes = rng.integers(0, 4, evaluator.num_changes)
        groups = [np.flatnonzero(codes == code) for code in range(4)]
        subsets = all_subsets(4)
        np.testing.assert_allclose(
            group_values(evaluator, groups, subsets), evaluator.run(subsets[:, codes]), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("name", MODELS)
def test_shares_are_exact_for_the_groups_and_sum_to_the_change(name):
    for explainer, target, brief in briefs(name):
        assert len(brief.causes) <= MOST_PLAYERS
        assert sum(cause.num_changes for cause in brief.causes) == brief.num_in_sight
        assert sum(cause.share for cause in brief.causes) == pytest.approx(brief.moved, abs=1e-9)
        ids = [np.array(cause.changes) for cause in brief.causes]
        if any(cause.num_changes > MOST_LISTED for cause in brief.causes) or not ids:
            continue
        evaluator = explainer.session.subsets.open(explainer.session.root(target))
        groups = [np.flatnonzero(np.isin(evaluator.changes.id, some)) for some in ids]
        subsets, output = all_subsets(len(ids)), explainer.session.output
        found = predicted_values(output, brief.class_after, group_values(evaluator, groups, subsets))
        for place in np.random.default_rng(0).permutation(len(subsets))[:10]:  # the literal twin: the user's own model
            undone = [number for some, kept in zip(ids, subsets[place], strict=True) if not kept for number in some]
            logits = np.atleast_2d(explainer.what_if(target, undo=undone))
            assert predicted_values(output, brief.class_after, logits)[0] == pytest.approx(found[place], abs=1e-5)
        twin = [shapley_weights(subsets, player) @ found for player in range(len(ids))]
        np.testing.assert_allclose([cause.share for cause in brief.causes], twin, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_to_be_undone_gives_the_old_answer_back(name):
    tried = 0
    for explainer, target, brief in briefs(name):
        if brief.undo is None:
            assert brief.class_before == brief.class_after
            assert brief.remedy == ""
            continue
        tried += 1
        assert brief.undo.restored
        logits = explainer.what_if(target, undo=list(brief.undo.changes))
        assert int(explainer.session.output.decide(logits)) == brief.class_before
        exact = explainer.undo(target)
        assert brief.undo.num_changes >= len(exact.changes)
        if brief.undo.proved:
            assert brief.undo.num_changes == len(exact.changes)
        assert brief.undo.words in brief.summary()
    assert tried or name != "gcn"


def test_a_new_node_counts_with_the_edge_that_brings_it_to_the_target():
    torch.manual_seed(0)
    size, many = 12, 30
    x = torch.randn(size + many, 4)
    ring = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size])
    new = torch.stack([torch.arange(size, size + many), torch.zeros(many, dtype=torch.long)])
    far = torch.stack([torch.arange(2, 8), torch.arange(2, 8) + 2])  # of nodes that were there
    before = Data(x=x[:size], edge_index=torch.cat([ring, ring.flip(0)], dim=1), n_id=torch.arange(size))
    edges = torch.cat([ring, new, far], dim=1)
    after = Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), n_id=torch.arange(size + many))
    explainer = axiompath.Explainer(GCN(4, 8, 2, out_channels=2).eval(), before, after)
    brief = brief_target(explainer.session.subsets, explainer.session.root(0), "0", ())
    mine = [cause for cause in brief.causes if cause.node == 0]
    assert sum(cause.num_changes for cause in mine) == many
    assert {cause.kind for cause in mine} <= {"node added", "edge added"}
    told = [cause.words for cause in mine]
    assert any(words.endswith(" with its edge to 0") or " new edges of 0 (" in words for words in told), told
    assert not any("new nodes elsewhere" in cause.words for cause in brief.causes)


def test_a_set_within_a_group_is_looked_for():
    """Where nothing small was found, fewer than all of a group may do."""
    before, after = evolve(5, 60, num_nodes=16, symmetric=True)
    _, explainer = open_model("gcn", before, after, 2)
    moved = explainer.moved()
    for target in moved[find_flipped(moved)].target.tolist():
        brief = brief_target(explainer.session.subsets, explainer.session.root(target), "it", ())
        assert brief.undo.restored
        for one in brief.undo.changes if len(brief.undo.changes) > 1 else ():  # nothing in it is needless
            fewer = [change for change in brief.undo.changes if change != one]
            logits = explainer.what_if(target, undo=fewer)
            assert int(explainer.session.output.decide(logits)) != brief.class_before


def test_many_changes_are_grouped_by_what_happened_and_where():
    for _, target, brief in briefs("gcn", changes=60):
        again = Brief.from_dict(brief.to_dict())
        assert again.summary() == brief.summary()
        assert max(cause.num_changes for cause in brief.causes) > 1
        assert brief.num_enough <= len(brief.causes)
        assert any(f"of {target}" in cause.words or str(target) in cause.words for cause in brief.causes)


@pytest.mark.parametrize(
    ("expired", "words"),
    [
        (0, "Undo it all, and it is class 0 again: the probability of class 1 is then 0.20 (nothing smaller does)."),
        (1, "Undo it all (keeping what expired, for example with --window all), and it is class 0 again: "),
        (2, "Keeping it all (for example with --window all) makes it class 0 again: the probability of class 1 is"),
    ],
)
def test_what_expired_is_kept_not_undone(expired, words):
    undo = LeastUndo("it all", (1, 2), 2, restored=True, proved=True, after=0.2, num_expired=expired)
    assert Brief(7, "it", 0, 1, 0.1, 0.9, (), undo, 2).remedy.startswith(words)


@pytest.mark.parametrize(("before", "after", "tie"), [(0.4999, 0.503, True), (0.49, 0.51, False), (0.5, 0.9, False)])
def test_a_flip_between_two_equals_is_called_close_to_a_tie(before, after, tie):
    brief = Brief(7, "it", 0, 1, before, after, (), None, 2)
    assert brief.is_tie == tie == ("close to a tie" in brief.headline)


def test_what_is_named_and_others_sum_to_the_move():
    causes = tuple(Cause(name, "edge added", "", 3, 1, by, ()) for name, by in (("a", 0.3), ("b", 0.2), ("c", 0.1)))
    told = Brief(7, "it", 0, 1, 0.2, 0.8, causes, None, 3).cause
    assert told == "Because of a (+0.30) and b (+0.20), and others: +0.10."

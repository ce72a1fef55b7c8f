"""How many are enough: the fewest paths and the fewest changes that explain a share, against brute force."""

import itertools
import json

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCN

import axiompath
from axiompath.blame import enough, search
from axiompath.blame.cost import TooDear
from axiompath.blame.search import TriedSets
from axiompath.explain import answer
from axiompath.explain.question import Question
from axiompath.outputs import Output
from axiompath.selection import select_many
from support.certificates import make_problem
from support.evolutions import random_pair
from support.players import evolve, open_model, own_answers
from support.references import literal_applied
from support.scans import NO_NAMES, evolving_graph

OUTPUTS = {"classes": None, "labels": None, "value": [1.0, 2.0, 0.5]}


@pytest.fixture(scope="module")
def explainer():
    torch.manual_seed(0)
    return axiompath.Explainer(GCN(5, 8, 2, 3).double(), *random_pair())


def fewest_by_brute_force(C, z0, z1, until, output, most):
    """The least size of a set of rows that explains `until`; None where none of up to `most` does."""
    whole = float(output.divergence(z1, z0))
    for size in range(most + 1):
        for some in itertools.combinations(range(len(C)), size):
            left = float(output.divergence(z1, z0 + C[list(some)].sum(axis=0)))
            if output.explained(whole, left) >= until:
                return size
    return None


@pytest.mark.parametrize("kind", OUTPUTS)
def test_fewest_paths_equal_brute_force(kind):
    rng = np.random.default_rng(4)
    output = Output(kind, None if OUTPUTS[kind] is None else np.array(OUTPUTS[kind]))
    reached = 0
    for _ in range(30):
        C, z0, z1 = make_problem(rng, int(rng.integers(3, 11)), 3)
        until = float(rng.choice([0.5, 0.8, 0.9, 0.99]))
        most = int(rng.integers(1, 8))
        (found,) = select_many([C], z0[None], z1[None], most, "exact", output=kind, scales=OUTPUTS[kind], until=until)
        expected = fewest_by_brute_force(C, z0, z1, until, output, most)
        explained = output.explained(float(output.divergence(z1, z0)), found.kl_residual)
        if expected is None:
            assert found.fewest == "missed"
            assert found.budget == len(found.chosen) == min(most, len(C))
            continue
        reached += 1
        assert len(found.chosen) == found.budget == expected
        assert explained >= until - 1e-12
        assert found.fewest == "proved"  # so few are all tried
    assert reached > 10


def test_as_many_as_are_enough_are_what_that_budget_gives(explainer):
    for target in explainer.moved().target[:5]:
        for method in ("exact", "convex", "topk", "grad"):
            told = explainer.explain(target, method=method, until=0.8)
            same = explainer.explain(target, len(told.paths), method)
            assert told.until == 0.8
            assert told.budget == len(told.paths) <= 20
            assert told.paths.tolist() == same.paths.tolist()
            assert told.kl_residual == same.kl_residual
            assert told.kl_bound == same.kl_bound
            assert told.explained >= 0.8 or "until=0.8 was asked" in told.status


def test_fewest_of_an_order_is_its_shortest_start(explainer):
    target = int(explainer.moved().target[0])
    for method in ("linear", "gnnlrp"):
        shares = [e.explained for e in explainer.frontier(target, range(21), method)]
        first = next((number for number, share in enumerate(shares) if share >= 0.6), None)
        told = explainer.explain(target, method=method, until=0.6)
        if first is None:
            assert f"{len(told.paths)} paths explain" in told.status
        else:
            assert len(told.paths) == first
            assert "No shorter prefix of this ranking explains 0.6." in told.status


def test_the_default_is_nine_tenths_and_a_budget_takes_precedence(explainer):
    target = int(explainer.moved().target[0])
    told = explainer.explain(target)
    assert told.until == 0.9
    assert told.explained >= 0.9
    assert "No fewer explain 0.9." in told.status
    assert explainer.explain(target, 3).until is None
    assert len(explainer.explain(target, 3, until=0.1).paths) == 3
    again = axiompath.Explanation.from_dict(json.loads(json.dumps(told.to_dict())))
    assert again.to_dict() == told.to_dict()
    with pytest.raises(axiompath.InputError, match="share of the change above 0 and up to 1"):
        explainer.explain(target, until=1.5)
    with pytest.raises(axiompath.InputError, match="`until` should be a number or null; got text"):
        axiompath.Explanation.from_dict({**told.to_dict(), "until": "most"})


def test_twenty_that_are_not_enough_say_so_in_words(explainer):
    target = int(explainer.moved().query("num_paths > 30").target.iloc[0])
    told = explainer.explain(target, method="topk", until=1.0)
    share = np.floor(1e3 * told.explained) / 1e3
    assert len(told.paths) == 20
    assert told.status.endswith(f"20 paths explain {share:g}; until=1 was asked.")


@pytest.mark.parametrize("objective", ["sufficiency", "necessity"])
def test_searched_paths_have_the_fewest_of_listed_ones(objective):
    torch.manual_seed(0)
    found = axiompath.Explainer(GCN(8, 16, 2, 4).eval(), *evolving_graph(400, 40))
    for target in np.argsort(-found.num_paths, kind="stable")[:4].tolist():
        rows = np.array([target])
        for method in ("exact", "linear"):
            question = Question(20, method, objective, until=0.9)
            sources = [
                answer.open_batch(found.change, rows),
                answer.open_batch(found.change, rows, found.num_paths[rows]),
            ]
            one, other = (answer.answer(found.change, source, [question], NO_NAMES)[0] for source in sources)
            assert len(one.paths) == len(other.paths)
            assert one.kl_residual == pytest.approx(other.kl_residual, rel=1e-6)


@pytest.mark.parametrize("name", ["gcn", "gin", "link"])
def test_fewest_changes_equal_brute_force_on_the_users_model(name):
    for seed in range(3):
        before, after = evolve(seed, 6, symmetric=seed % 2 == 0)
        model, explainer = open_model(name, before, after, seed)
        moved = explainer.moved()
        target = moved.target[0]
        found = explainer.enough(target, until=0.8)
        changes, output = explainer.changes(), explainer.change.output
        free = [number for (number,) in explainer.blame(target).changes]
        whole = float(output.divergence(found.logits_after, found.logits_before))
        best = {}
        for size in range(len(free) + 1):
            sets = list(itertools.combinations(sorted(free), size))
            graphs = [literal_applied(before, after, changes, set(some)) for some in sets]
            logits = np.array(own_answers(model, graphs, target))
            best[size] = max(
                output.explained(whole, float(left)) for left in output.divergence(found.logits_after, logits)
            )
        expected = next(size for size, share in best.items() if share >= 0.8)
        assert found.proved
        assert len(found.changes) == expected
        assert found.explained >= 0.8
        assert found.num_in_sight == len(free)
        graph = literal_applied(before, after, changes, set(found.changes))
        np.testing.assert_allclose(own_answers(model, [graph], target)[0], found.logits, atol=1e-9)
        two = explainer.enough(target, budget=2)
        assert two.explained == pytest.approx(max(best[size] for size in range(min(2, len(free)) + 1)), abs=1e-9)
        assert (two.until, two.proved) == (None, True)
        assert found.sentence.startswith(f"{expected} of {len(free)} change")
        again = axiompath.Enough.from_dict(json.loads(json.dumps(found.to_dict())))
        for share in (1e308, -1e308, "most"):
            with pytest.raises(axiompath.InputError, match=r"`explained` should be a (share of at most 1|number)"):
                axiompath.Enough.from_dict({**found.to_dict(), "explained": share})
        assert again.to_dict() == found.to_dict()


@pytest.mark.parametrize("affordable", [True, False])
def test_a_budget_is_a_limit_and_never_worse_than_no_change(monkeypatch, affordable):
    """Of four changes that cancel in pairs, each alone moves the prediction away from where it went."""
    values = {(): 0.0, (0,): -3.0, (1,): 4.0, (2,): 5.0, (0, 1): 1.0, (0, 2): 2.0, (1, 2): 9.0, (0, 1, 2): 0.9}
    free = np.arange(3)

    class Game(TriedSets):
        left = 1.0

        def __init__(self):
            self.free = free

        def affords(self, number, part=0.5):
            return affordable

        def margins(self, undone, *, all_of_them=True):
            sets = [tuple(sorted(place for place in some if place >= 0)) for some in undone.tolist()]
            return np.array([-abs(values[some] - values[0, 1, 2]) for some in sets])

    assert [enough.find_best(Game(), number, [])[0].tolist() for number in (1, 2, 3)] == [[], [0, 1], [0, 1, 2]]


def test_many_changes_are_chosen_by_greedy_and_exchanges():
    before, after = evolve(3, 60, num_nodes=40, kinds=("edges",))
    _, explainer = open_model("gcn", before, after, 3)
    target = explainer.moved().target[0]
    found = explainer.enough(target, seconds=1.0)
    assert found.num_in_sight > 20
    assert found.explained >= 0.9
    assert found.how in found.summary()
    best = explainer.enough(target, budget=len(found.changes), seconds=1.0)
    assert best.explained >= found.explained - 1e-9
    blamed = [row[0] for row in explainer.blame(target, seconds=1.0).changes[: len(found.changes)]]
    by_blame = explainer.what_if(target, apply=blamed)
    assert (
        best.explained
        >= 1
        - float(explainer.change.output.divergence(best.logits_after, by_blame))
        / explainer.change.output.divergence(best.logits_after, best.logits_before)
        - 1e-9
    )
    with pytest.raises(axiompath.InputError, match="share of the change above 0"):
        explainer.enough(target, until=0)


def test_more_sets_than_the_time_holds_are_not_begun_one_by_one():
    """Where not all sets of a size fit into the time, it goes to greedy and exchanges, not to the first of them."""
    before, after = evolve(1, 300, num_nodes=40, kinds=("edges",))
    _, explainer = open_model("gcn", before, after)
    target = int(explainer.moved().target[0])
    in_sight = explainer.enough(target, budget=1).num_in_sight
    assert in_sight > 60
    ids = explainer.changes().id.tolist()
    chosen: list[int] = []
    after_all = explainer.what_if(target, undo=[])
    for _ in range(3):
        rest = [number for number in ids if number not in chosen]
        left = explainer.change.output.divergence(
            after_all, explainer.what_if(target, apply=[[*chosen, number] for number in rest])
        )
        chosen.append(rest[int(left.argmin())])
    whole = float(explainer.change.output.divergence(after_all, explainer.what_if(target, apply=[])))
    found = explainer.enough(target, budget=3, seconds=1.0)
    assert not found.proved
    assert found.explained >= 1 - float(left.min()) / whole - 1e-9


@pytest.mark.parametrize("number", [1, 3])
def test_where_the_time_ends_the_best_that_was_tried_is_the_answer(monkeypatch, number):
    before, after = evolve(1, 300, num_nodes=40, kinds=("edges",))
    _, explainer = open_model("gcn", before, after)
    target = int(explainer.moved().target[0])
    tried, margins = [], TriedSets.margins

    def record(self, undone, **options):
        found = margins(self, undone, **options)
        tried.extend(found[: len(found) if undone.shape[1] == number else 0])
        return found

    monkeypatch.setattr(TriedSets, "margins", record)
    monkeypatch.setattr(enough, "blame_target", lambda *_, **__: (_ for _ in ()).throw(TooDear("no time for it")))
    monkeypatch.setattr(TriedSets, "affords", lambda self, number, part=0.5: False)
    clock = itertools.count()
    monkeypatch.setattr(search.time, "monotonic", lambda: next(clock) * 0.1)
    found = explainer.enough(target, budget=number, seconds=1.0)
    tried = np.array(tried)
    assert np.isfinite(tried).sum() >= 2
    assert number > 1 or np.isinf(tried).any()  # the time ended before all were tried
    assert found.explained >= 0.9 + tried.max() - 1e-12


def test_an_effort_counted_in_evaluations_is_kept_and_tries_the_same_sets():
    before, after = evolve(1, 300, num_nodes=40, kinds=("edges",))
    _, explainer = open_model("gcn", before, after)
    target = int(explainer.moved().target[0])
    session = explainer.session
    asked = session.subsets, session.root(target), session.caption

    def ask(number, **options):
        return enough.enough_of_target(*asked, until=0.9, budget=3, seconds=np.inf, most_evaluations=number, **options)

    few, again, more = ask(700), ask(700), ask(6000)
    assert few.num_evaluations == again.num_evaluations <= 700
    assert few.changes == again.changes
    assert few.num_evaluations < more.num_evaluations <= 6000
    assert more.explained >= few.explained - 1e-12
    started = ask(700, starts=(more.changes,))  # a start is never left for less
    assert started.explained >= more.explained - 1e-12

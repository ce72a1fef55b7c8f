"""Explanations: right numbers, names, files; methods and budgets through the public interface."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from axiompath import Explanation
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.explain.explanation import DISAGREEMENT
from axiompath.metrics import kl_divergence
from support.evolutions import SumGNN, random_pair

METHODS = ("convex", "exact", "linear", "topk", "deeplift", "gnnlrp", "grad")


@pytest.fixture(scope="module")
def explainer():
    torch.manual_seed(0)
    before, after = random_pair()
    after.x = after.x.clone()
    after.x[3] += 1
    model = GCN(5, 8, 2, 3).double()
    return axiompath.Explainer(model, before, after, class_names=["red", "green", "blue"])


def target_of(explainer):
    frame = explainer.moved()
    return int(frame[frame.num_paths.between(30, 200)].target.iloc[0])


def kl(p, q):
    return float((p * np.log(p / q)).sum())


def softmax(z):
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


@pytest.mark.parametrize("objective", ["sufficiency", "necessity"])
@pytest.mark.parametrize("method", METHODS)
def test_every_number_of_an_explanation_follows_from_its_paths(explainer, method, objective):
    target = target_of(explainer)
    found = explainer.attribute(target)
    e = explainer.explain(target, 6, method, objective)
    share = {tuple(path): value for path, value in zip(found.paths.tolist(), found.contributions, strict=True)}
    assert len(e.paths) == 6
    for path, value, kind in zip(e.paths.tolist(), e.contributions, e.kinds, strict=True):
        np.testing.assert_allclose(value, share.get(tuple(path), np.zeros(3)), atol=1e-12)
        assert (kind == "unchanged") == (tuple(path) not in share)
    total = e.contributions.sum(axis=0)
    p0, p1 = e.prob_before, e.prob_after
    sufficient, necessary = kl(p1, softmax(e.logits_before + total)), kl(p0, softmax(e.logits_after - total))
    left = sufficient if objective == "sufficiency" else necessary
    assert e.kl_residual == pytest.approx(left, abs=1e-9)
    assert 0 <= e.kl_bound <= e.kl_residual + 1e-12
    assert e.gap == pytest.approx(e.kl_residual - e.kl_bound)
    assert e.kl == pytest.approx(kl(p1, p0), abs=1e-9)
    undone, added = explainer.replay(target, e.paths), explainer.replay(target, e.paths, add=True)
    assert e.fidelity_minus == pytest.approx(kl(softmax(undone), p0) / kl(p1, p0), abs=1e-9)
    assert e.fidelity_plus == pytest.approx(kl(softmax(added), p1) / kl(p0, p1), abs=1e-9)
    assert e.num_paths == len(found.paths)
    assert e.completeness < 1e-12
    np.testing.assert_allclose(sum(e.causes.values()), found.delta_logits, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_chosen_is_summed_by_its_sign(explainer, method):
    for target in explainer.moved().target[:6].tolist():
        found = explainer.attribute(target)
        for e in (explainer.explain(target, 4, method), *explainer.frontier(target, (0, 4), method)):
            _, weights = e.view
            chosen = {tuple(path) for path in e.paths.tolist()}
            others = [tuple(path) not in chosen for path in found.paths.tolist()]
            left = found.contributions[others] @ weights
            assert e.left_out == pytest.approx((left[left > 0].sum(), left[left < 0].sum()), abs=1e-12)
            if 0 < len(e.paths) < e.num_paths - 1:
                up, down = e.left_out
                assert f"add {up:.3g} to" in e.summary()
                assert f"take {-down:.3g} away" in e.summary()
            assert Explanation.from_dict(e.to_dict()).left_out == e.left_out
        everything = explainer.explain(target, 10**6, "exact")
        assert everything.left_out == (0.0, 0.0)
        assert everything.others == ""


def test_what_is_chosen_whole_has_the_weight_1(explainer):
    target = target_of(explainer)
    assert (explainer.explain(target, 6, "exact").weights == 1).all()
    assert (explainer.explain(target, 6, "exact", by="edge").weights == 1).all()
    assert (explainer.explain(target, 6, "convex").weights < 1).any()


def test_paths_that_cancel_are_told_of():
    """Two of +1.2 and -1.2 are left out by a choice that explains everything."""
    x = torch.tensor([[0.0], [1.2], [-1.2], [0.5]]).double()
    before = Data(x=x, edge_index=torch.tensor([[0], [0]]))
    after = Data(x=x, edge_index=torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]]))
    model = SumGNN(1, 1).double()
    torch.nn.init.ones_(model.convs[0].lin.weight)
    e = axiompath.Explainer(model, before, after, output="value").explain(0, 1)
    assert e.explained == pytest.approx(1.0)
    assert e.left_out == pytest.approx((1.2, -1.2))
    assert "The other 2 paths add 1.2 to the value and take 1.2 away." in e.summary()
    page = e.to_html()
    assert "The other 2 paths add 1.2 to the value and take 1.2 away." in page


def test_fidelity_is_1_for_nothing_and_0_for_everything(explainer):
    target = target_of(explainer)
    nothing, everything = (explainer.explain(target, budget) for budget in (0, 10**6))
    assert nothing.fidelity_minus == pytest.approx(1)
    assert nothing.fidelity_plus == pytest.approx(1)
    assert everything.fidelity_minus == pytest.approx(0, abs=1e-9)
    assert everything.fidelity_plus == pytest.approx(0, abs=1e-9)
    assert len(everything.paths) == everything.num_paths
    assert everything.kl_residual == pytest.approx(0, abs=1e-9)


def test_undoing_more_paths_of_one_direction_leads_further_back():
    # A star: every leaf pushes the root the same way, so each path undone takes the prediction further back.
    num_leaves = 6
    x = torch.eye(num_leaves + 1, dtype=torch.float64)
    edges = torch.stack([torch.arange(1, num_leaves + 1), torch.zeros(num_leaves, dtype=torch.long)])
    model = SumGNN(num_leaves + 1, 2).double()
    with torch.no_grad():
        model.convs[0].lin.weight.copy_(torch.stack([torch.full((num_leaves + 1,), 0.3), torch.zeros(num_leaves + 1)]))
    star = axiompath.Explainer(model, Data(x=x, edge_index=edges[:, :0]), Data(x=x, edge_index=edges))
    fidelities = [e.fidelity_minus for e in star.frontier(0, range(num_leaves + 1), method="exact")]
    assert fidelities[0] == pytest.approx(1)
    assert fidelities[-1] == pytest.approx(0, abs=1e-12)
    assert all(more < less for less, more in pairwise(fidelities))


def test_many_equals_one_by_one_and_frontier_equals_single_budgets(explainer):
    targets = explainer.moved().target[:20].tolist()
    for e, target in zip(explainer.explain_many(targets, 4, "exact", progress=False), targets, strict=True):
        assert e.to_dict() == explainer.explain(target, 4, "exact").to_dict()
    target, budgets = target_of(explainer), [1, 3, 9]
    for method in METHODS:
        for e, budget in zip(explainer.frontier(target, budgets, method), budgets, strict=True):
            assert e.to_dict() == explainer.explain(target, budget, method).to_dict()
    assert explainer.frontier(target, []) == []


def test_exact_is_never_worse_than_convex_and_at_most_may_take_fewer(explainer):
    for target in explainer.moved().target[:30]:
        convex, exact = (explainer.explain(target, 5, method) for method in ("convex", "exact"))
        fewer = explainer.explain(target, 5, "exact", at_most=True)
        assert exact.kl_residual <= convex.kl_residual + 1e-12
        assert fewer.kl_residual <= exact.kl_residual + 1e-12
        assert len(fewer.paths) <= 5


def test_a_saved_explanation_comes_back_whole(explainer, tmp_path):
    e = explainer.explain(target_of(explainer), 5)
    e.save(tmp_path / "e.json")
    back = Explanation.load(tmp_path / "e.json")
    assert back.to_dict() == e.to_dict()
    assert back.summary() == replace(e, ask=None).summary()
    assert [file.name for file in tmp_path.iterdir()] == ["e.json"]
    with pytest.raises(ValueError, match=r"Expected the graph `after`"):
        back.to_pyg()
    assert torch.equal(back.to_pyg(e.graph).edge_mask, e.to_pyg().edge_mask)
    empty = explainer.explain(target_of(explainer), 0)
    assert Explanation.from_dict(empty.to_dict()).to_dict() == empty.to_dict()


BROKEN = {
    "another file": (lambda d: {"a": 1}, r"Expected a saved explanation"),
    "another version": (lambda d: d | {"version": 99}, r"Expected version 4 to 6 of the format \(got 99\)"),
    "a field missing": (lambda d: {k: v for k, v in d.items() if k != "kl"}, r"missing: kl"),
    "a field too many": (lambda d: d | {"evil": 1}, r"unknown: evil"),
    "another shape": (
        lambda d: d | {"contributions": [[1.0]]},
        r"`contributions` should be numbers of shape \(paths, classes\); got shape \(1, 1\)",
    ),
    "an unknown kind": (lambda d: d | {"kinds": ["odd"] * 5}, r"`kinds\[0\]` should be one of gained, lost,"),
    "a class that is none": (
        lambda d: d | {"class_after": 7},
        r"`class_after` should be a class between 0 and 2; got 7",
    ),
    "text for a number": (lambda d: d | {"kl": "much"}, r"`kl` should be a number; got text"),
    "nothing for a list": (lambda d: d | {"logits_before": None}, r"`logits_before` should be numbers of shape"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_a_sentence(explainer, tmp_path, case):
    breaks, words = BROKEN[case]
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(breaks(explainer.explain(target_of(explainer), 5).to_dict())))
    with pytest.raises(ValueError, match=words):
        Explanation.load(path)
    path.write_text('{"format": "axiompath.expl')
    with pytest.raises(ValueError, match=r"Expected JSON in"):
        Explanation.load(path)


def test_to_pyg_sums_contributions_over_the_edges_of_after(explainer):
    e = explainer.explain(target_of(explainer), 8)
    pyg = e.to_pyg()
    pyg.validate()
    after = e.graph
    for i, (u, v) in enumerate(after.edge_index.T.tolist()):
        shares = zip(e.paths.tolist(), e.contributions[:, e.class_after], strict=True)
        over = [share for path, share in shares if (u, v) in pairwise(path)]
        assert float(pyg.edge_mask[i]) == pytest.approx(sum(over), abs=1e-6)
    assert pyg.get_explanation_subgraph().edge_index.shape[1] > 0


def test_the_summary_uses_the_users_names():
    model, before = train_karate()
    names = {8: "Anna", 32: "Otto"}
    explainer = axiompath.Explainer(
        model, before, evolve_karate(before), node_names=names, class_names=["north", "south", "east", "west"]
    )
    text = explainer.explain(8, 5, "exact").summary()
    assert text.startswith("Node Anna went from class north (0.")
    assert "to class south (0." in text
    assert "5 of 108 altered paths explain " in text
    assert "1 of 108 altered paths explains " in explainer.explain(8, 1, "exact").summary()
    assert "Otto → Anna" in text
    quiet = explainer.moved().query("class_before == class_after").target.iloc[0]
    assert "stayed in class" in explainer.explain(int(quiet), 2).summary()
    unmoved = set(range(34)) - set(explainer.moved().target)
    assert "nothing that reaches it changed" in explainer.explain(unmoved.pop(), 2).summary()
    with pytest.raises(ValueError, match=r"a name for each of the 4 classes \(got 2 names\)"):
        axiompath.Explainer(model, before, before, class_names=["a", "b"])


def test_the_default_is_exact_everywhere(explainer, tmp_path):
    import inspect

    from axiompath import report, selection
    from axiompath.cli import questions as cli

    asked = [
        explainer.explain, explainer.explain_many, explainer.frontier, explainer.scan, axiompath.select,
        selection.select_budgets, selection.select_many, axiompath.build_stories, axiompath.pyg.PyGAlgorithm,
        report.build_explainer_report,
        cli.explain, cli.story, cli.report, cli.scan, axiompath.explain.question.Question,
    ]  # fmt: skip
    assert {inspect.signature(function).parameters["method"].default for function in asked} == {"exact"}
    assert explainer.explain(target_of(explainer)).method == "exact"


def told(e, **numbers):
    return replace(e, **numbers).summary()


def test_the_summary_says_what_the_network_itself_answers(explainer):
    e = replace(explainer.explain(target_of(explainer), 5), kl_residual=0.0)  # the sums explain everything
    assert e.explained == 1.0
    agrees = replace(e, fidelity_plus=0.03, fidelity_minus=0.9)
    assert not agrees.disagrees
    assert "The network itself, run with these paths added to `before`, goes 97 % of the way to `after`." in str(agrees)
    edge = 1 - DISAGREEMENT
    assert not replace(e, fidelity_plus=1 - edge - 1e-9).disagrees
    assert replace(e, fidelity_plus=1 - edge + 1e-9).disagrees
    warned = told(e, fidelity_plus=0.62)
    assert (
        "explain 100 % of the change. But the network itself, run with these paths added to `before`, goes only "
        in warned
    )
    assert "38 % of the way to `after`" in warned
    assert "Read them with care" in warned
    assert "comes no nearer to `after`: on their own" in told(e, fidelity_plus=1.4)
    # Where the sums claim little, a network that does as little is no surprise.
    poor = replace(e, kl_residual=2 * e.kl, fidelity_plus=1.1)
    assert not poor.disagrees
    assert "comes no nearer to `after`." in poor.summary()
    needed = replace(e, objective="necessity", fidelity_plus=0.9, fidelity_minus=0.1)
    assert "run with these paths undone in `after`, goes 90 % of the way to `before`." in needed.summary()
    assert replace(needed, fidelity_minus=0.9).disagrees
    assert "network itself" not in told(e, fidelity_plus=float("nan"))
    assert explainer.explain(e.target, 0).replayed == ""


def test_the_share_of_the_network_is_what_it_says(explainer):
    e = explainer.explain(target_of(explainer), 5)
    added = explainer.replay(e.target, e.paths, add=True)
    whole = kl_divergence(e.logits_before, e.logits_after)
    assert e.network_share == pytest.approx(1 - kl_divergence(added, e.logits_after) / whole)


def test_edge_replay_runs_the_users_own_model():
    torch.manual_seed(1)
    before, after = random_pair()
    model = SumGNN(5, 8, 3).double()
    explainer = axiompath.Explainer(model, before, after)
    target = int(explainer.moved().target.iloc[0])
    everything = explainer.explain(target, 10**6)
    with torch.no_grad():
        expected = model(before.x, before.edge_index)[target].numpy()
        unchanged = model(after.x, after.edge_index)[target].numpy()
    # Under sum aggregation the altered paths contain every changed edge that reaches the target.
    np.testing.assert_allclose(explainer.replay_edges(target, everything.paths), expected, atol=1e-9)
    np.testing.assert_allclose(explainer.replay_edges(target, everything.paths[:0]), unchanged, atol=1e-12)


def test_bad_questions_are_refused_before_any_work(explainer):
    for budget in (-1, 1.5, True, "3"):
        with pytest.raises(ValueError, match=r"Expected a budget of 0 or more paths"):
            explainer.explain(0, budget)
    with pytest.raises(ValueError, match=r"Expected a method among convex, exact, .*grad \(got 'best'\)"):
        explainer.explain(0, 3, "best")
    with pytest.raises(ValueError, match=r"Expected an objective among sufficiency, necessity"):
        explainer.explain(0, 3, objective="beauty")
    with pytest.raises(ValueError, match=r"at_most only with the methods convex and exact \(got 'topk'\)"):
        explainer.explain(0, 3, "topk", at_most=True)
    with pytest.raises(ValueError, match=r"Expected paths of 3 node numbers each"):
        explainer.replay(0, [[1, 2]])
    with pytest.raises(ValueError, match=r"Expected paths that end at the target"):
        explainer.replay(0, [[1, 2, 3]])


@pytest.mark.parametrize("objective", ["sufficiency", "necessity"])
def test_explained_is_a_share_of_the_divergence_in_the_same_direction(explainer, objective):
    """0 for nothing, 1 for everything; for necessity the mirror image, whose whole is not `kl`."""
    target = target_of(explainer)
    nothing = explainer.explain(target, 0, "exact", objective)
    some = explainer.explain(target, 5, "exact", objective)
    everything = explainer.explain(target, 10**6, "exact", objective)
    p0, p1 = nothing.prob_before, nothing.prob_after
    total = some.contributions.sum(axis=0)
    whole, left = kl(p1, p0), kl(p1, softmax(some.logits_before + total))
    if objective == "necessity":
        whole, left = kl(p0, p1), kl(p0, softmax(some.logits_after - total))
        assert abs(whole - nothing.kl) > 1e-3 * whole
    assert nothing.explained == pytest.approx(0, abs=1e-12)
    assert some.explained == pytest.approx(1 - left / whole, abs=1e-9)
    assert everything.explained == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-8])
def test_tiny_changes_are_explained_as_honestly_as_large_ones(size):
    """Changes of 1e-7 to 1e-18 nats: nothing chosen explains nothing, everything explains everything."""
    torch.manual_seed(0)
    before, _ = random_pair(20, 60)
    after = before.clone()
    after.x = after.x + size * torch.randn(20, 5, dtype=torch.float64)
    found = axiompath.Explainer(GCN(5, 8, 2, 3).double(), before, after)
    target = int(found.change.before.node_ids[np.argmax(found.num_paths)])
    for objective in ("sufficiency", "necessity"):
        assert found.explain(target, 0, "exact", objective).explained == pytest.approx(0, abs=1e-6)
        assert found.explain(target, 10**6, "exact", objective).explained == pytest.approx(1, abs=1e-6)
        few = found.explain(target, 5, "exact", objective)
        assert few.kl_bound <= few.kl_residual
        assert few.explained <= 1

"""Groups of paths that end alike: exact sums that no path is walked for, partitions, and what is chosen among them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from axiompath.change.comparison import find_change
from axiompath.change.states import FEATURE, KINDS, REWEIGHTED
from axiompath.explain.answer import answer, open_batch
from axiompath.explain.explanation import Caption
from axiompath.explain.question import Question
from axiompath.explain.replay import replay_paths
from axiompath.graphs.labels import ANY
from axiompath.network.layers import run_network
from axiompath.outputs import BINARY, CLASSES, LABELS, VALUE
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.bundles import count_hops, count_members, is_group, open_groups, split_causes
from axiompath.paths.chosen import walk_chosen
from axiompath.paths.search import search_of
from axiompath.paths.walk import count_paths, walk_paths
from axiompath.storage.origin import Origin
from support import references
from support.effort import examples
from support.evolutions import HOMOGENEOUS_NAMES, aligned, any_networks, any_tasks, graph_pairs, with_places

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@st.composite
def changes(draw, activation_names=None):
    """Of nodes, graphs or links; networks of any kind."""
    network, kind = draw(
        st.one_of(any_tasks(3, activation_names), any_networks(3, activation_names).map(lambda n: (n, None)))
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    before, after = with_places(kind, *aligned(*draw(graph_pairs(max_nodes=6))), rng)
    outputs = (BINARY, VALUE) if network.num_classes == 1 else (CLASSES, CLASSES, LABELS, VALUE)
    network = replace(network, output=draw(st.sampled_from(outputs)))
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
    opened, parents = open_groups(change, target, groups)
    sizes = count_members(change, opened.paths)
    for group in groups:
        inside = opened.paths[members(opened.paths, group)]
        covered = np.stack([members(paths, end) for end in inside]) if len(inside) else np.zeros((0, len(paths)))
        np.testing.assert_array_equal(covered.sum(axis=0), members(paths, group))
    for end, share, size, parent in zip(opened.paths, opened.contributions, sizes, parents, strict=True):
        inside = members(paths, end)
        assert size == inside.sum()
        assert members(end[None], groups[parent]).all()
        np.testing.assert_allclose(share, contributions[inside].sum(axis=0), rtol=0, atol=1e-10 * scale)
    longer = opened.paths[is_group(opened.paths)]
    if len(longer):
        check_partition(change, longer[rng.permutation(len(longer))[:3]], target, rng)


@settings(relaxed, max_examples=examples(60))
@given(changes(), st.integers(0, 99))
def test_a_group_contributes_the_sum_of_its_paths_and_opens_into_a_partition(change, seed):
    rng = np.random.default_rng(seed)
    for target in np.flatnonzero(count_paths(change) > 0).tolist():
        check_partition(change, all_of(change, target), target, rng)


def some_units(change, target, rng):
    """A random partition into ends, and some of it."""
    units = open_groups(change, target, all_of(change, target))[0].paths
    for _ in range(3):
        groups = np.flatnonzero(is_group(units))
        if len(groups) == 0:
            break
        one = rng.choice(groups)
        units = np.concatenate([np.delete(units, one, axis=0), open_groups(change, target, units[[one]])[0].paths])
    return units[rng.random(len(units)) < 0.6]


@pytest.mark.parametrize("add", [False, True])
@settings(relaxed, max_examples=examples(30))
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


@settings(relaxed, max_examples=examples(40))
@given(changes(), st.integers(0, 99))
def test_causes_of_a_group_are_those_of_its_paths_and_a_search_within_it_finds_the_best(change, seed):
    rng = np.random.default_rng(seed)
    plain = all(len(layer.rules) == 1 for layer in change.network.layers)
    for target in np.flatnonzero(count_paths(change) > 0).tolist():
        paths, contributions, scale = listed(change, target)
        units = some_units(change, target, rng)
        for group in units[is_group(units)]:
            inside = members(paths, group)
            prices = rng.normal(size=change.network.num_classes)
            _, least = references.least_prices(paths[inside], contributions[inside], prices, 4)
            found = search_of(change).find(target, prices, 4, ends=group)
            np.testing.assert_allclose(found.prices, least, rtol=0, atol=1e-12 * scale)
            assert members(found.nodes, group).all()
            own, _ = walk_chosen(change, np.array([target]), paths[inside])
            shares = attribute_paths(change, own)
            causes = split_causes(change, group[None], contributions[inside].sum(axis=0)[None])[0]
            np.testing.assert_allclose(causes.sum(axis=0), shares.causes[0].sum(axis=0), rtol=0, atol=1e-10 * scale)
            np.testing.assert_allclose(causes[FEATURE], shares.causes[0][FEATURE], rtol=0, atol=1e-10 * scale)
            if plain and {*shares.kinds.tolist()} <= {REWEIGHTED, FEATURE}:
                np.testing.assert_allclose(causes, shares.causes[0], rtol=0, atol=1e-10 * scale)


def explained(change, target, question):
    """The one Explanation of a target."""
    caption = Caption(Origin("test", {}))
    return answer(change, open_batch(change, np.array([target])), [question], caption)[0]


METHODS = ("exact", "convex", "linear", "topk", "deeplift")


@settings(relaxed, max_examples=examples(30))
@given(
    changes(),
    st.integers(0, 5),
    st.sampled_from(METHODS),
    st.sampled_from(("sufficiency", "necessity")),
    st.sampled_from(("auto", "auto", 1, 2)),
)
def test_what_is_chosen_is_a_partition_with_its_rest_and_never_worse_than_ends_of_one_hop(
    change, budget, method, objective, depth
):
    if depth == 2 and count_hops(change) < 2:
        depth = 1
    for target in np.flatnonzero(change.in_both)[:3].tolist():
        paths, contributions, scale = listed(change, target)
        e = explained(change, target, Question(budget, method, objective, depth=depth))
        ids = np.append(change.before.node_ids, [ANY, -1])  # back to rows
        order = np.argsort(ids)
        back = np.append(np.arange(change.num_nodes), [ANY, -1])[order[np.searchsorted(ids[order], e.paths)]]
        rows = back if change.before.places is None else np.column_stack([back, np.full(len(back), target)])
        inside = np.array([members(paths, row) for row in rows]).reshape(len(rows), len(paths))
        assert inside.sum(axis=0).max(initial=0) <= 1  # no path in two units
        assert list(e.sizes) == inside.sum(axis=1).tolist()
        assert [group.row for group in e.groups] == [i for i, size in enumerate(e.sizes) if size > 1]
        for share, own in zip(e.contributions, inside, strict=True):
            np.testing.assert_allclose(share, contributions[own].sum(axis=0), rtol=0, atol=1e-10 * scale)
        rest = contributions[inside.sum(axis=0) == 0].sum(axis=0)
        np.testing.assert_allclose(
            e.contributions.sum(axis=0) + rest, e.logits_after - e.logits_before, rtol=0, atol=1e-9 * scale
        )
        for group in e.groups:
            assert (group.paths >= -1).all()
            assert set(group.kinds) <= set(KINDS)
        total = e.contributions.sum(axis=0)
        ends = (e.logits_after, e.logits_before + total)
        if objective == "necessity":
            ends = (e.logits_before, e.logits_after - total)
        left = float(change.output.divergence(*ends))
        assert abs(left - e.kl_residual) <= 1e-9 * max(1.0, e.kl, e.kl_residual)
        assert e.kl_bound <= e.kl_residual + 1e-12
        if depth == "auto":
            coarse = explained(change, target, Question(budget, method, objective, depth=1))
            assert e.kl_residual <= coarse.kl_residual + 1e-9 * max(1.0, coarse.kl_residual)


@pytest.fixture(scope="module")
def explainer():
    """A small hub of three hops, some edges added and some removed."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 40, (2, 220), generator=generator)
    before = Data(x=torch.rand(40, 8, generator=generator), edge_index=edges)
    new = torch.randint(0, 40, (2, 6), generator=generator)
    after = Data(x=before.x, edge_index=torch.cat([edges[:, 8:], new], dim=1))
    torch.manual_seed(1)
    model = GCN(8, 16, 3, 4).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return axiompath.Explainer(model, before, after)


def test_groups_are_told_saved_and_replayed(explainer, tmp_path):
    target = int(explainer.moved().target.iloc[0])
    plain, e = explainer.explain(target, 5), explainer.explain(target, 5, depth="auto")
    assert plain.groups == ()
    assert plain.sizes == (1,) * 5
    assert e.groups
    assert e.kl_residual < plain.kl_residual  # on this graph, as the page says; not promised
    first = e.groups[0]
    end = " → ".join(str(node) for node in e.paths[first.row].tolist() if node >= 0)
    assert f"any path that ends {end} ({first.size:,} paths)" in e.summary()
    assert f"(together {sum(e.sizes):,} of {e.num_paths:,} altered paths) explain" in e.summary()
    assert "The bound is that of a choice among" in e.status
    e.save(tmp_path / "e.json")
    again = axiompath.Explanation.load(tmp_path / "e.json")
    assert again.summary() == replace(e, ask=None).summary()
    assert again.to_dict() == e.to_dict()
    logits = explainer.replay(target, e.paths)
    output = explainer.change.output
    assert np.isclose(output.divergence(logits, e.logits_before) / e.kl, e.fidelity_minus)
    mask = e.to_pyg()  # each stated step of a group has its share
    assert np.isfinite(mask.edge_mask.numpy()).all()
    everything = [[ANY] * 3 + [target]]
    np.testing.assert_allclose(explainer.replay(target, everything), e.logits_before)
    numbers = explainer.frontier(target, [1, 3], depth="auto")
    assert [len(one.paths) for one in numbers] == [1, 3]
    assert e.plot() is not None


def test_what_groups_cannot_be_is_said(explainer):
    target = int(explainer.moved().target.iloc[0])
    for depth in (0, True, 1.5, "deep"):
        with pytest.raises(axiompath.InputError, match="depth of 1 hop or more, or 'auto'"):
            explainer.explain(target, depth=depth)
    with pytest.raises(axiompath.InputError, match=r"at most 3 hops, those of a whole path \(got 4\)"):
        explainer.explain(target, depth=4)
    for method in ("gnnlrp", "grad"):
        with pytest.raises(axiompath.InputError, match="which ranks whole paths"):
            explainer.explain(target, method=method, depth="auto")
    with pytest.raises(axiompath.InputError, match="-2 before the end of a group"):
        explainer.replay(target, [[ANY, target]])
    with pytest.raises(axiompath.InputError, match="which neither graph has"):
        explainer.replay(target, [[ANY, -1, 0, target]])
    values = explainer.explain(target, 5, depth="auto").to_dict()
    with pytest.raises(axiompath.InputError, match="`groups` should be one per path that holds -2"):
        axiompath.Explanation.from_dict({**values, "groups": []})
    broken = json.loads(json.dumps(values))
    broken["groups"][0]["size"] = "many"
    with pytest.raises(axiompath.InputError, match=r"`groups\[0\]\.size` should be a whole number; got text"):
        axiompath.Explanation.from_dict(broken)


def test_a_bundle_opens_into_its_largest_paths_and_the_rest(explainer, open_page, tmp_path):
    target = int(explainer.moved().target.iloc[0])
    e = explainer.explain(target, 5, depth="auto")
    e.save_html(tmp_path / "groups.html")
    page = open_page(tmp_path / "groups.html", viewport={"width": 1366, "height": 900})
    page.wait_for_selector("#waterfall tr")
    assert f"explain {100 * e.explained:.1f} %" in page.inner_text("#sentence").replace("100 %", "100.0 %")
    assert f"of {e.num_paths:,} altered paths" in page.inner_text("#sentence")
    num_others = e.num_paths - sum(e.sizes)
    assert f"{num_others:,} others" in page.inner_text("#flow")
    shares = "all => all.map(ribbon => Number(ribbon.dataset.share))"
    whole = sum(page.locator("#flow .ribbon").evaluate_all(shares))
    assert page.locator("#flow .bundle").count() == len(e.groups)
    for group in e.groups:
        assert f"{group.size} paths" in page.inner_text("#flow")
        page.locator(f'#flow rect[data-opens="{group.row}"]').click()
        assert page.locator(f'#flow .ribbon[data-opens="{group.row}"]').count() == min(group.size, 6)
        if group.size > 5:
            assert f"{group.size - 5} more" in page.inner_text("#flow")
        line = page.locator(f'#paths tr[data-row="{group.row}"]')
        assert line.locator("li").count() == min(group.size, 6)
        assert line.locator("button[aria-expanded=true]").count() == 1
        assert sum(page.locator("#flow .ribbon").evaluate_all(shares)) == pytest.approx(whole, abs=1e-6)
    page.locator("#flow .ribbon[data-opens]").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#paths button[aria-expanded=true]").count() == len(e.groups) - 1
    page.keyboard.press("Enter")  # what it is drawn as now has the focus
    assert page.locator("#paths button[aria-expanded=true]").count() == len(e.groups)
    page.locator("#paths button[aria-expanded=true]").first.click()
    assert page.locator("#paths button[aria-expanded=true]").count() == len(e.groups) - 1
    assert page.complaints == []
    page.close()

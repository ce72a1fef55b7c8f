"""The picture of a neighbourhood: what is in it, what is gathered, where it lies; and that page and figure agree."""

import re

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GIN, global_add_pool
from torch_geometric.utils import k_hop_subgraph

import axiompath
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.explain.neighbourhood import ADDED, GATHERED, KEPT, MOST_SPOTS, REMOVED, lay_out
from axiompath.report.graph_plot import describe_neighbourhood


@pytest.fixture(scope="module")
def explainer():
    model, before = train_karate()
    names = [f"<b>member {i}" for i in range(34)]
    return axiompath.Explainer(model, before, evolve_karate(before), node_names=names)


def sides(explainer):
    pair = explainer.session.pair
    return pair.before.data, pair.after.data


def test_it_holds_what_reaches_the_target_in_either_graph(explainer):
    before, after = sides(explainer)
    found = explainer.neighbourhood(8)
    seen = {n for data in (before, after) for n in k_hop_subgraph(8, 2, data.edge_index)[0].tolist()}
    assert set(found.ids.tolist()) == seen
    assert found.num_nodes == len(seen)
    assert not found.directed
    told = {
        tuple(sorted(found.ids[edge].tolist())): state for edge, state in zip(found.edges, found.states, strict=True)
    }
    old, new = ({tuple(sorted(e)) for e in data.edge_index.T.tolist()} for data in (before, after))
    assert {edge for edge, state in told.items() if state == ADDED} == new - old  # each friendship once
    assert {edge for edge, state in told.items() if state == REMOVED} == old - new
    assert {edge for edge, state in told.items() if state == KEPT} <= old & new
    logits = [explainer.change.logits_before, explainer.change.logits_after]
    np.testing.assert_array_equal(found.classes, np.stack([z[found.ids].argmax(axis=1) for z in logits], axis=1))


def test_page_and_figure_agree_and_nothing_is_random(explainer, tmp_path):
    one, two = explainer.neighbourhood(8), explainer.neighbourhood(explainer.explain(8))
    np.testing.assert_array_equal(one.places, two.places)
    np.testing.assert_allclose(describe_neighbourhood(one)["places"], one.places, atol=1e-4)
    offsets = [text.xy for text in one.plot().axes[0].texts]
    assert any(np.allclose(xy, one.places[one.hops == 0][0] * [1.5, 1.0]) for xy in offsets)
    for name in ("a.png", "a.svg"):
        one.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000
    assert "<b>" not in one._repr_html_()


def test_many_nodes_are_gathered_by_distance_and_class():
    rng = np.random.default_rng(0)
    leaves = np.arange(1, 901)
    pairs = np.concatenate([np.stack([leaves, np.zeros_like(leaves)]), rng.integers(1, 901, (2, 900))], axis=1)
    before = Data(x=torch.randn(901, 4), edge_index=torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1)))
    after = before.clone()
    after.edge_index = before.edge_index[:, ~((before.edge_index == 0).any(0) & (before.edge_index == 5).any(0))]
    explainer = axiompath.Explainer(GCN(4, 8, 2, 3).eval(), before, after)
    found = explainer.neighbourhood(0)
    assert (found.ids != GATHERED).sum() >= MOST_SPOTS
    assert (found.sizes[found.ids == GATHERED] > 1).all()
    far = np.linalg.norm(found.places, axis=1)
    assert far[found.ids == GATHERED].min() > far[found.ids != GATHERED].max() / 1.42  # around the others
    assert found.num_nodes == 901
    assert len(found.ids) <= MOST_SPOTS + 9 * 3
    paths = explainer.explain(0).paths
    assert set(paths[paths >= 0].tolist()) <= set(found.ids.tolist())
    assert REMOVED in found.states
    # Every edge between nodes of two spots is counted once.
    spot = {int(node): i for i, node in enumerate(found.ids.tolist()) if node != GATHERED}
    kept = {tuple(sorted(e)) for e in after.edge_index.T.tolist() if e[0] != e[1] and set(e) <= set(spot)}
    drawn = found.edges[(found.ids[found.edges] != GATHERED).all(axis=1) & (found.states == KEPT)]
    assert {tuple(sorted(found.ids[edge].tolist())) for edge in drawn} == kept


def test_places_keep_a_chain_in_line_and_a_pair_apart():
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    places = lay_out(4, edges, np.arange(4))
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    np.testing.assert_allclose(steps, steps[0], rtol=0.02)
    assert np.linalg.norm(places[3] - places[0]) == pytest.approx(3 * steps[0], rel=0.02)
    assert lay_out(1, edges[:0], np.zeros(1, dtype=int)).shape == (1, 2)
    assert np.linalg.norm(np.subtract(*lay_out(2, edges[:0], np.zeros(2, dtype=int)))) > 0.1


def test_graphs_and_links_begin_with_their_own_nodes():
    from torch_geometric.nn import GAE

    _, before = train_karate()
    after = evolve_karate(before)
    linked = axiompath.Explainer(GAE(GCN(34, 8, 2, 4)).eval(), before, after, links=[(0, 8)])
    found = linked.neighbourhood((0, 8))
    assert set(found.ids[found.hops == 0].tolist()) == {0, 8}
    assert (found.classes == -1).all()

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gnn, self.end = GIN(34, 8, 2), torch.nn.Linear(8, 2)

        def forward(self, x, edge_index, batch):
            return self.end(global_add_pool(self.gnn(x, edge_index), batch))

    for data in (before, after):
        data.batch = torch.zeros(34, dtype=torch.long)
    whole = axiompath.Explainer(Pooled().eval(), before, after).neighbourhood()
    assert (whole.hops == 0).sum() == 34


def test_a_page_draws_it_and_its_flows_follow_the_slider(explainer, open_page, tmp_path):
    path = tmp_path / "report.html"
    axiompath.save_report(path, explainer, [8], budgets=[0, 5], blame=False)
    page = open_page(path, color_scheme="dark")
    page.goto(path.as_uri() + "#node=8")
    page.wait_for_selector("#around-picture .spot")
    assert page.locator("#around-picture .spot").count() == explainer.neighbourhood(8).num_nodes
    assert page.locator("#around-picture .edge.added").count() == 3
    assert page.locator("#around-picture .edge.removed").count() == 2
    flows = page.locator("#around-picture .flow").count()
    assert flows > 0
    page.focus("#around-picture .spot")
    page.keyboard.press("ArrowRight")
    assert re.search("<b>member", page.inner_text("#tip"))
    page.evaluate("(s => { s.value = 0; s.dispatchEvent(new Event('input')); })(document.getElementById('budget'))")
    assert page.locator("#around-picture .flow").count() == 0
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground)[:3])) < 60  # dark
    page.click("#theme")
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert min(map(int, re.findall(r"\d+", ground)[:3])) > 200
    page.focus("#numbers .word >> nth=2")
    assert "no other choice" in page.inner_text("#tip")
    assert page.complaints == []
    page.close()

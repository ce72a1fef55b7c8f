"""The report, opened in a real browser: it draws, it adds up, and it can be used without a mouse."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAE, GCN, GCNConv

import axiompath
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.report.causes import describe_happened
from axiompath.report.html import render_frontier, to_script_json
from axiompath.report.moves import list_units, moves_of_blames, name_nodes
from axiompath.report.page import describe_target
from axiompath.report.plots import share_of, waterfall_steps

EVIL = '</script><img src=x onerror=alert(1)> & \u2028 "quoted" <b>Ann</b> {{ 7*7 }}'
CLASSES = ["north", "south <i>", "east", "west"]


@pytest.fixture(scope="module")
def explainer():
    model, before = train_karate()
    names = {8: EVIL, 13: "Ben", 33: "Otto"}
    return axiompath.Explainer(model, before, evolve_karate(before), node_names=names, class_names=CLASSES)


@pytest.fixture(scope="module")
def report(explainer, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    axiompath.save_report(path, explainer, [8, 13, 30, 19])
    return path


@pytest.fixture
def page(open_page, report):
    opened = open_page(report, viewport={"width": 1366, "height": 768})
    yield opened
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    opened.close()


def open_target(page, node):
    page.goto(re.sub("#.*", "", page.url) + f"#node={node}")
    page.wait_for_selector("#waterfall tr")


def number(page, selector):
    return float(page.get_attribute(selector, "data-value"))


def set_budget(page, place):
    page.evaluate(
        "place => { const s = document.getElementById('budget'); s.value = place;"
        " s.dispatchEvent(new Event('input')); }",
        place,
    )


def test_it_opens_with_an_overview_and_asks_the_network_for_nothing(page, explainer):
    assert page.is_visible("#overview")
    assert page.locator("#moved tbody tr").count() == len(explainer.moved())
    told = explainer.happened(8)
    assert page.inner_text("#lead p >> nth=0").startswith(told.headline.removeprefix("Node "))
    why = page.inner_text("#lead p >> nth=1")
    assert why.startswith(f"Because of {told.blame.row_name(0)} (")
    assert why.endswith(told.undo.sentence)
    assert page.locator("#statements > li").count() > 0
    assert "1 cause below, 5 of 5 changes" in page.inner_text("#coverage")
    heads = page.locator("#moved th").evaluate_all("all => all.map(th => th.dataset.key)")
    assert heads == ["name", "before", "after", "by", "bar", "paths", "kl"]
    e = explainer.explain(8, 1)
    first = page.locator("#moved tbody tr").first.locator("td:nth-child(4)").inner_text()
    assert float(first.replace("−", "-")) == pytest.approx(e.prob_after[1] - e.prob_before[1], abs=6e-4)


def test_sums_on_the_page_are_those_of_the_explanation(page, explainer):
    open_target(page, 8)
    budgets = page.evaluate("JSON.parse(document.getElementById('page-0').textContent).choices.map(c => c.budget)")
    frontier = explainer.frontier(8, budgets, "exact")
    for place in (0, 3, len(budgets) - 1):
        set_budget(page, place)
        e = frontier[place]
        shift = e.contributions[:, e.class_after] - e.contributions[:, e.class_before]
        delta = e.logits_after - e.logits_before
        whole = delta[e.class_after] - delta[e.class_before]
        assert number(page, "#sum-chosen") == pytest.approx(shift.sum(), abs=1e-6)
        assert number(page, "#sum-whole") == pytest.approx(whole, abs=1e-6)
        assert number(page, "#sum-chosen") + number(page, "#sum-rest") == pytest.approx(whole, abs=1e-6)
        shares = page.locator("#flow .ribbon").evaluate_all("all => all.map(r => Number(r.dataset.share))")
        assert sum(shares) == pytest.approx(whole, abs=1e-6)
        assert number(page, "#number-residual") == pytest.approx(e.kl_residual, abs=1e-7)
        assert number(page, "#number-bound") == pytest.approx(e.kl_bound, abs=1e-7)
        assert page.locator("#paths tbody tr").count() == len(e.paths)
        assert e.replayed in page.inner_text("#sentence")
        assert page.locator("#sentence.warned").count() == int(e.disagrees)
    assert {e.disagrees for e in frontier} == {True, False}


def test_what_happened_comes_first(page, explainer):
    open_target(page, 8)
    told = explainer.happened(8)
    assert page.inner_text("#undo") == told.undo.sentence
    assert "No smaller set is enough" in page.inner_text("#undo")
    rows = page.locator("#blame tbody tr")
    assert rows.count() == len(told.blame.shares) + 2
    assert rows.first.inner_text().startswith("before")
    assert told.blame.row_name(0) in rows.nth(1).inner_text()
    assert f"{told.blame.prob_shares[0]:+.3f}" in rows.nth(1).inner_text()
    tops = [page.locator(place).bounding_box()["y"] for place in ("#happened", "#sentence", "#flow", "#paths")]
    assert tops == sorted(tops)
    # Bars lie end to end, from before to after.
    bars = page.locator("#blame .track i").evaluate_all(
        "all => all.map(b => { const r = b.getBoundingClientRect(); return [r.left, r.right]; })"
    )
    level = bars[0][1]
    for share, (left, right) in zip(told.blame.prob_shares, bars[1:-1], strict=True):
        start, stop = (left, right) if share >= 0 else (right, left)
        assert start == pytest.approx(level, abs=1.5)
        level = stop
    assert level == pytest.approx(bars[-1][1], abs=1.5)


def test_each_change_is_shown_with_the_paths_that_carry_it(explainer):
    happened = explainer.happened(8)
    page = describe_target(explainer.frontier(8, [0, 5, 50], "exact"))
    told = describe_happened(happened, page["paths"])
    for row, step in enumerate(told["blame"]):
        ends = set(happened.blame.ends[row])
        for place, path in enumerate(page["paths"]):
            runs = any({a, b} == ends for a, b in pairwise(path["nodes"]))
            assert (place in step["carried"]) == runs
    assert sum(step["share"] for step in told["blame"]) == pytest.approx(told["after"] - told["before"], abs=1e-6)


def test_what_happened_can_be_left_out_and_fits_a_telephone(explainer, open_page, report, tmp_path):
    path = tmp_path / "plain.html"
    axiompath.save_report(path, explainer, [8], blame=False)
    plain = open_page(path, viewport={"width": 1280, "height": 800})
    open_target(plain, 8)
    assert plain.is_hidden("#happened")
    plain.close()
    assert "No smaller set is enough" in explainer.explain(8, 3).to_html(explainer.happened(8))
    small = open_page(report, viewport={"width": 360, "height": 740})
    open_target(small, 8)
    assert small.evaluate("document.documentElement.scrollWidth") <= 360
    small.close()


def test_the_slider_changes_picture_and_numbers(page):
    open_target(page, 8)
    set_budget(page, 2)
    few, left = page.locator("#flow .ribbon").count(), number(page, "#number-residual")
    page.focus("#budget")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("#flow .ribbon").count() > few
    assert number(page, "#number-residual") < left
    assert page.inner_text("#budget-value") in page.inner_text("#sentence")


def test_every_class_can_be_shown(page, explainer):
    open_target(page, 8)
    e = explainer.explain(8, 1)
    options = page.locator("#view option").all_inner_texts()
    assert options[:2] == ["logit of south <i> against north", "probability of south <i>"]
    for label, name in enumerate(CLASSES):
        page.select_option("#view", label=f"logit of class {name}")
        whole = e.logits_after[label] - e.logits_before[label]
        assert number(page, "#sum-whole") == pytest.approx(whole, abs=1e-6)


def test_search_finds_a_node_and_opens_it(page):
    page.fill("#find", "ben")
    assert page.locator("#targets li:visible").all_inner_texts() == ["Ben"]
    assert page.locator("#moved tbody tr").count() == 1
    page.keyboard.press("Enter")
    assert page.inner_text("#headline").startswith("Ben stayed in class")
    page.wait_for_selector("#waterfall tr")


def test_the_table_of_paths_sorts_and_searches(page):
    open_target(page, 8)
    set_budget(page, 8)
    shares = "[...document.querySelectorAll('#paths tbody tr')].map(r => r.cells[3].textContent.replace('−', '-'))"
    page.click("#paths th[data-key=share] button")
    values = [float(value) for value in page.evaluate(shares)]
    assert values == sorted(values, reverse=True)
    page.click("#paths th[data-key=share] button")
    values = [float(value) for value in page.evaluate(shares)]
    assert values == sorted(values)
    page.fill("#search-paths", "lost")
    kinds = page.locator("#paths tbody tr td:nth-child(3)").all_inner_texts()
    assert set(kinds) == {"lost"}


def test_names_are_text_never_markup(page, report):
    open_target(page, 8)
    assert page.evaluate("document.querySelectorAll('main img, main b b, nav img').length") == 0
    assert EVIL.split(" & ")[0] in page.inner_text("#headline")
    assert "</script><img" not in report.read_text()
    assert "49" not in page.inner_text("#headline").split("{{")[1].split("}}")[0]


def test_keyboard_reaches_every_control(page):
    open_target(page, 8)
    reached = set()
    page.evaluate("document.activeElement.blur()")
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("(e => e.id || (e.matches('.ribbon') ? 'ribbon' : e.textContent))(document.activeElement)")
        )
    assert {"to-overview", "find", "open-0", "open-3", "next", "budget", "view", "ribbon", "search-paths"} <= reached
    page.focus("#flow .ribbon")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#tip")
    told = page.inner_text("#tip")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#tip") != told
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, select')].filter(e => !e.labels.length && !e.ariaLabel).map(e => e.id)"
    )
    assert unnamed == []


def test_it_fits_a_narrow_window_and_prints(page, tmp_path):
    open_target(page, 8)
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    page.emulate_media(media="print")
    assert not page.is_visible("#budget")
    assert page.is_visible("#flow svg")
    assert len(page.pdf(path=tmp_path / "report.pdf")) > 10_000


def test_one_explanation_is_a_page_of_its_own(open_page, explainer, tmp_path):
    explainer.explain(8, 5).save_html(tmp_path / "one.html")
    page = open_page(tmp_path / "one.html")
    page.wait_for_selector("#waterfall tr")
    for absent in ("#budget", "#frontier", "#side"):  # one budget: nothing to slide, no curve; one target: no list
        assert not page.is_visible(absent)
    assert page.inner_text("#frontier-title") == "How good this choice is"
    assert "Certificate" in page.inner_text("#certificate")
    unmoved = (set(range(34)) - set(explainer.moved().target)).pop()
    for question in ((8, 0), (8, 4, "gnnlrp"), (8, 3, "exact", "necessity"), (8, 200), (unmoved, 3)):
        (tmp_path / "one.html").write_text(render_frontier([explainer.explain(*question)]), encoding="utf-8")
        page.reload()
        page.wait_for_selector("#waterfall tr")
    assert page.complaints == []
    page.close()


@pytest.mark.slow
def test_a_hundred_targets_are_small_and_open_fast(browser, data_root, tmp_path):
    import time

    import torch
    from torch_geometric.nn import GCN

    from axiompath.datasets import evolve
    from support.real_data import load_graph

    data = load_graph("cora", data_root)
    torch.manual_seed(0)
    model = GCN(data.x.shape[1], 16, 2, 7)
    explainer = axiompath.Explainer(model, data, evolve(data, added=200, removed=200))
    path = axiompath.save_report(tmp_path / "many.html", explainer, explainer.moved().target.head(100).tolist())
    assert path.stat().st_size < 15e6
    page = browser.new_page()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("#moved tbody tr")
        times.append(time.perf_counter() - start)
    page.close()
    assert min(times) < 2


def test_a_dollar_sign_is_no_mathematics():
    """Names of nodes and classes are drawn as they are in every figure."""
    torch.manual_seed(0)
    before = Data(x=torch.randn(6, 3), edge_index=torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]))
    after = Data(x=before.x, edge_index=before.edge_index[:, 1:])
    names, classes = [rf"$\frac{{ {i}" + "$" * (i % 2) for i in range(6)], ["$a_{$", "b$"]
    explainer = axiompath.Explainer(
        GCN(3, 4, 2, 2).eval(), before, after, node_names=dict(enumerate(names)), class_names=classes
    )
    for figure in (
        explainer.explain(1, 3).plot().figure, explainer.neighbourhood(1).plot(),
        explainer.blame(1).plot().figure, explainer.undo(1, below=0.999).plot().figure,
    ):  # fmt: skip
        figure.draw_without_rendering()


def test_every_page_says_what_it_may_do():
    """Of a target, a scan, a story and a watch; those of a server are of the same templates."""
    folder = Path(axiompath.__file__).parent
    pages = [path.read_text(encoding="utf-8") for path in folder.glob("report/[!_]*.html")]
    assert len(pages) >= 5
    for text in pages:
        own = "Content-Security-Policy" in text
        assert own != text.startswith('{% extends "')
        assert "unsafe-eval" not in text
        assert not re.search("(src|href)=.(https?:)?//", text)


def test_the_page_may_run_its_own_scripts_and_nothing_else(page, report):
    held = re.search('Content-Security-Policy" content="([^"]*)"', report.read_text()).group(1).replace("&#39;", "'")
    rules = dict(rule.strip().split(" ", 1) for rule in held.split(";"))
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    assert "unsafe" not in rules["script-src"]
    assert "http" not in held
    open_target(page, 8)
    tried = page.evaluate("""async () => {
        const found = [];
        // What a debugger runs at once may do anything; what it leaves to a timer is the page's own.
        await new Promise((wake) => setTimeout(() => {
            try { new Function("return 1")(); found.push("eval"); } catch (error) {}
            wake();
        }));
        try { await fetch("https://example.org/"); found.push("fetch"); } catch (error) {}
        const script = document.createElement("script");
        script.textContent = "window.strange = true";
        document.body.append(script);
        const image = document.createElement("div");
        image.innerHTML = '<img src=x onerror="window.strange = true">';
        document.body.append(image);
        await new Promise((wake) => setTimeout(wake, 200));
        if (window.strange) found.push("inline");
        return found;
    }""")
    assert tried == []
    assert page.complaints, "a browser says what it refused"
    assert [words for words in page.complaints if "Content Security Policy" not in words] == []
    page.complaints.clear()
    assert not [url for url in page.requests if url.startswith("http")]
    page.requests.clear()


def test_json_in_a_script_block_cannot_end_it():
    text = str(to_script_json({"name": EVIL}))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"name": EVIL}


def test_a_page_holds_every_number_and_no_nan(explainer):
    unmoved = set(range(34)) - set(explainer.moved().target)
    page = describe_target([explainer.explain(unmoved.pop(), 3)])
    assert page["num_paths"] == 0
    assert page["choices"][0]["fidelity_minus"] is None
    assert (page["choices"][0]["replayed"], page["choices"][0]["disagrees"]) == ("", False)
    e = explainer.explain(8, 5)
    choice = describe_target([e])["choices"][0]
    assert (choice["replayed"], choice["disagrees"]) == (e.replayed, e.disagrees)
    assert e.disagrees
    json.dumps(page, allow_nan=False)
    with pytest.raises(ValueError, match="Expected at least one Explanation"):
        describe_target([])


def test_the_overview_sums_the_blame_of_its_targets(explainer):
    """What did it: shares of each change over the targets with a page, counted for the way that each went."""
    targets = explainer.moved().target.head(6).tolist()
    blames = [explainer.happened(target).blame for target in targets]
    changes = explainer.changes()
    moves = moves_of_blames(blames, list_units(changes, pd.Series([], dtype=int), None), name_nodes(changes))
    expected = np.zeros(len(changes))
    for blame in blames:
        way = np.sign(blame.predicted_after - blame.predicted_before)
        for ids, share in zip(blame.changes, blame.prob_shares, strict=True):
            expected[ids[0]] += way * share
    np.testing.assert_allclose(moves.by_unit, expected, atol=1e-12)
    assert moves.by_unit.sum() == pytest.approx(moves.total)
    assert moves.units.words[0].startswith(f"{changes.kind[0]} {changes.src_name[0]}")


def test_a_target_that_is_too_large_is_named_and_left_out():
    model, before = train_karate()
    small = axiompath.Explainer(model, before, evolve_karate(before), memory="10KB")
    text = axiompath.build_report(small, [8, 12], budgets=[1, 2])
    assert "Node 8 has 108 altered paths" in text
    assert text.count('id="page-') == 1


def test_the_waterfall_sums_to_the_whole_change(explainer):
    for e in (
        explainer.explain(8, 6),
        explainer.explain(8, 20),
        explainer.explain(8, 0),
        explainer.explain(8, 5, "grad"),
    ):
        for label in (None, 0, 3):
            shown = share_of(e, label)
            total = sum(step.share for step in waterfall_steps(e, shown))
            assert shown.before + total == pytest.approx(shown.after)
            assert total == pytest.approx(float((e.logits_after - e.logits_before) @ shown.weights))
    with pytest.raises(ValueError, match="Expected a class between 0 and 3"):
        e.plot(7)


def test_a_notebook_shows_the_figure_and_escapes_names(explainer):
    html = explainer.explain(8, 3)._repr_html_()
    assert "data:image/png;base64," in html
    assert "</script>" not in html
    assert "<b>" not in html


def test_values_are_told_as_values_and_links_by_their_ends(open_page, explainer, tmp_path):
    before, after = (side.data for side in (explainer.session.pair.before, explainer.session.pair.after))

    class Value(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv = GCNConv(before.num_features, 1)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index).squeeze(-1)

    priced = axiompath.Explainer(Value().eval(), before, after, output="value", class_names=["price"])
    linked = axiompath.Explainer(GAE(GCN(before.num_features, 8, 2, 4)).eval(), before, after, links=[(0, 8), (2, 13)])
    for name, asked, target, words in (
        ("value", priced, int(priced.moved().target[0]), "Share of price"),
        ("link", linked, "0-8", "Share of the probability of linked"),
    ):
        path = tmp_path / f"{name}.html"
        axiompath.save_report(path, asked)
        opened = open_page(path)
        texts = [opened.inner_text("body")]
        open_target(opened, target)
        texts.append(opened.inner_text("body"))
        assert opened.complaints == []
        assert words in texts[1]
        if name == "value":
            assert not re.search(r"logit|nats|\bKL\b", " ".join(texts))
            assert "half the squared distance" in texts[0]
        else:
            assert "its ends" in texts[1]
        opened.close()

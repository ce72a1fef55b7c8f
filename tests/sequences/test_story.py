"""Stories: steps sum to the whole, absences and refusals are told, and the report can be read without a mouse."""

import json
import re
import weakref
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from rich.console import Console
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from axiompath import Explainer, Stories, Story, build_stories, explainer
from axiompath.cli import demo
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.report.story_page import describe_story
from axiompath.sequences.story_text import describe_classes
from support.effort import examples
from support.evolutions import GCNStack, gcn_models, graph_sequences
from support.real_data import load_growth

EVIL = '</script><img src=x onerror=alert(1)> & \u2028 "quoted" <b>Ann</b> {{ 7*7 }}'
CLASSES = ["north", "south <i>", "east", "west"]
KINDS = ("gained", "lost", "reweighted", "feature")


def softmax(z):
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


def nodes_in_all(graphs):
    ids = [set(data.n_id.tolist() if data.get("n_id") is not None else range(data.num_nodes)) for data in graphs]
    return sorted(set.intersection(*ids))


def karate_sequence():
    """Five snapshots: as it was, member 8 changes friends, goes back, changes again; member 12's features change."""
    model, first = train_karate()
    second = evolve_karate(first)
    last = second.clone()
    last.x = second.x.clone()
    last.x[12] = last.x[12].roll(3)
    return model, [first, second, first.clone(), second, last]


@pytest.fixture(scope="module")
def karate():
    return karate_sequence()


@pytest.fixture(scope="module")
def stories(karate):
    model, snapshots = karate
    return build_stories(model, snapshots, [8, 13, 30], 6, class_names=CLASSES, node_names={8: EVIL, 13: "Ben"})


# ---- the sum -------------------------------------------------------------------------------------------------------
@settings(max_examples=examples(30), deadline=None)
@given(model=gcn_models(), graphs=graph_sequences())
def test_contributions_of_consecutive_steps_sum_to_the_change_from_first_to_last(model, graphs):
    targets = nodes_in_all(graphs)
    steps = [Explainer(model, *pair) for pair in pairwise(graphs)]
    across = Explainer(model, graphs[0], graphs[-1])
    told = build_stories(model, graphs, targets, budget=3, method="linear")
    for target, story in zip(targets, told, strict=True):
        by_step = sum(step.attribute(target).contributions.sum(axis=0) for step in steps)
        at_once = across.attribute(target)
        scale = 1 + np.abs(story.logits).max()
        np.testing.assert_allclose(by_step, at_once.contributions.sum(axis=0), atol=1e-11 * scale)
        np.testing.assert_allclose(by_step, at_once.delta_logits, atol=1e-11 * scale)
        np.testing.assert_allclose(story.logits[-1] - story.logits[0], at_once.delta_logits, atol=1e-12 * scale)
        assert story.unbroken
        assert story.residual <= 1e-11 * scale


class Agreeing(torch.nn.Module):
    """Neighbours count as much as they point the same way: coefficients that follow no rule of structure."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)

    def forward(self, x, edge_index):
        h = torch.relu(self.first(x))
        unit = h / h.norm(dim=1, keepdim=True).clamp(min=1e-12)
        senders, receivers = edge_index
        alike = (unit[senders] * unit[receivers]).sum(dim=1).exp()
        total = torch.zeros(len(x), dtype=h.dtype).index_add(0, receivers, alike).clamp(min=1e-12)
        shares = (alike / total[receivers])[:, None]
        return self.last(h + torch.zeros_like(h).index_add(0, receivers, shares * h[senders]))


def test_a_model_without_rules_for_other_graphs_has_stories_of_those_that_moved_most():
    torch.manual_seed(0)
    model = Agreeing().double().eval()
    x = torch.randn(6, 4, dtype=torch.float64)
    edges = [[(0, 1), (1, 2), (2, 3)], [(0, 1), (4, 2), (2, 3)], [(0, 1), (4, 2), (3, 5)]]
    graphs = [Data(x=x, edge_index=torch.tensor(pairs).t()) for pairs in edges]
    assert Explainer(model, *graphs[:2]).change.network.recorded
    stories = build_stories(model, graphs)
    assert len(stories)
    for story in stories:
        with torch.no_grad():
            theirs = [model(data.x, data.edge_index)[story.target].numpy() for data in graphs]
        np.testing.assert_allclose(story.logits, theirs, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(graphs=graph_sequences())
def test_without_activations_every_single_path_sums_over_the_steps(graphs):
    torch.manual_seed(0)
    model = GCNStack([3, 4, 3], torch.nn.Identity(), True).double()
    steps = [Explainer(model, *pair) for pair in pairwise(graphs)]
    across = Explainer(model, graphs[0], graphs[-1])
    for target in nodes_in_all(graphs):
        sums: dict[tuple[int, ...], np.ndarray] = {}
        for step in steps:
            found = step.attribute(target)
            for path, share in zip(map(tuple, found.paths.tolist()), found.contributions, strict=True):
                sums[path] = sums.get(path, 0.0) + share
        whole = across.attribute(target)
        direct = dict(zip(map(tuple, whole.paths.tolist()), whole.contributions, strict=True))
        for path in sums.keys() | direct.keys():
            np.testing.assert_allclose(sums.get(path, np.zeros(3)), direct.get(path, np.zeros(3)), atol=1e-12)


def test_a_story_holds_what_the_model_says_and_sums_it_by_cause(karate, stories):
    model, snapshots = karate
    with torch.no_grad():
        own = np.stack([model(data.x, data.edge_index).double().numpy() for data in snapshots])
    for story in stories:
        np.testing.assert_allclose(story.logits, own[:, story.target], atol=1e-4)
        assert story.classes == tuple(own[:, story.target].argmax(axis=1))
        np.testing.assert_allclose(story.probabilities[2], softmax(story.logits[2]))
        assert story.residual < 1e-12
    member = stories[0]
    assert member.flips == (0, 1, 2)
    assert member.turning_point in (0, 1, 2)
    assert member.kl[member.turning_point] == max(member.kl)
    assert member.explanations[0].method == "exact"
    only_features = stories[1].causes[3]
    assert np.abs(only_features["feature"]).max() > 0.1
    assert not any(only_features[kind].any() for kind in KINDS[:3])


def test_frames_hold_one_row_a_step_and_one_a_chosen_path(stories):
    story = stories[0]
    frame = story.to_frame()
    assert frame.before.tolist() == ["snapshot 0", "snapshot 1", "snapshot 2", "snapshot 3"]
    label, weights = story.view
    assert "against" in label
    shift = (story.logits[1:] - story.logits[:-1]) @ weights
    np.testing.assert_allclose(frame[list(KINDS)].sum(axis=1), shift, atol=1e-12)
    assert set(frame.target) == {story.target}
    assert set(frame.name) == {story.name}
    shares = story.shares()
    called = {-1: "bias", 8: EVIL, 13: "Ben"}
    assert shares.path_names.tolist() == [tuple(called.get(node, str(node)) for node in path) for path in shares.path]
    columns = [f"class_{k} ({name})" for k, name in enumerate(CLASSES)]
    assert list(shares.columns) == ["target", "name", "path", "path_names", "steps", *columns]
    assert frame.class_after_name.tolist() == [CLASSES[k] for k in frame.class_after]
    chosen = sum(e.contributions.sum(axis=0) for e in story.explanations)
    np.testing.assert_allclose(shares[columns].sum().to_numpy(), chosen, atol=1e-12)
    assert sum(map(len, shares.steps)) == sum(len(e.paths) for e in story.explanations)
    assert stories.to_frame().flipped.tolist() == [1, 1, 1, 0]


# ---- what may be missing -------------------------------------------------------------------------------------------
def without(data, gone):
    keep = torch.ones(data.num_nodes, dtype=torch.bool)
    keep[list(gone)] = False
    part = Data(x=data.x, edge_index=data.edge_index).subgraph(keep)
    part.n_id = torch.arange(data.num_nodes)[keep]
    return part


def test_absent_nodes_are_told_and_break_the_sum_into_parts(karate):
    model, snapshots = karate
    graphs = [without(data, gone) for data, gone in zip(snapshots, ([13], [], [8], [], [30]), strict=True)]
    returned, late, left = build_stories(model, graphs, [8, 13, 30], 3)
    assert returned.classes[2] is None
    assert returned.explanations[1] is None
    assert returned.notes[1] == "Node 8 is absent from snapshot 2."
    assert np.isnan(returned.logits[2]).all()
    assert not returned.unbroken
    assert returned.residual < 1e-12
    assert "was gone at snapshot 2" in returned.headline
    assert "came back in class" in returned.headline
    assert "appeared in class" in late.headline
    assert late.notes[0] == "Node 13 is absent from snapshot 0."
    assert left.headline.endswith("was gone at snapshot 4")
    assert returned.to_frame().class_after.isna().tolist() == [False, True, False, False]
    assert Story.from_dict(json.loads(json.dumps(returned.to_dict()))).classes == returned.classes


def test_a_step_that_nothing_altered_is_explained_by_no_path(karate):
    model, snapshots = karate
    (story,) = build_stories(model, [snapshots[0], *snapshots[:2]], [8])
    assert [len(one.paths) > 0 for one in story.explanations] == [False, True]
    assert story.notes == ("", "")
    assert "absent" not in story.summary()


def test_a_step_that_is_too_large_has_the_sentence_and_the_story_goes_on(karate):
    model, snapshots = karate
    large, small = build_stories(model, snapshots, [8, 12], 2, memory="10KB")
    assert "Node 8 has 108 altered paths" in large.notes[0]
    assert large.explanations[0] is None
    assert large.flips == (0, 1, 2)
    assert np.isfinite(large.kl).all()
    assert "is not explained: Node 8 has 108 altered paths" in large.summary()
    assert small.unbroken
    nothing = build_stories(model, snapshots, [8], 2, memory="1B")[0]
    assert np.isnan(nothing.residual)
    assert "It moved most" in nothing.summary()


def test_a_session_is_opened_once_a_step_and_let_go(karate, monkeypatch):
    model, snapshots = karate
    opened, most = [], []

    open_session = explainer.open_session

    def counted(*arguments, **options):
        most.append(sum(reference() is not None for reference in opened))
        session = open_session(*arguments, **options)
        opened.append(weakref.ref(session))
        return session

    monkeypatch.setattr(explainer, "open_session", counted)
    told = build_stories(model, snapshots, [8, 13, 30])
    assert len(opened) == 4
    assert max(most) <= 1
    assert len(told) == 3


def test_a_sequence_in_which_nothing_moves_has_no_stories(karate):
    model, snapshots = karate
    still = build_stories(model, [snapshots[0]] * 3)
    assert len(still) == 0
    assert still.steps[1].reached == 0
    assert "No prediction moved" in axiompath.build_report(still)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"snapshots": 1}, ValueError, r"Expected a list of at least two snapshots, oldest first \(got 1\)"),
        ({"snapshots": None}, ValueError, r"Expected a list of at least two snapshots, oldest first \(got a Data\)"),
        ({"targets": [8, 99]}, ValueError, r"exist in two consecutive snapshots \(got 99, which none has\)"),
        ({"targets": []}, ValueError, "Expected at least one target"),
        ({"targets": ["Ann"]}, ValueError, "Expected the number of a node .got 'Ann', and no node has a name"),
        ({"budget": -1}, ValueError, "Expected a budget"),
        ({"method": "best"}, ValueError, "Expected a method among"),
        ({"snapshot_names": ["a"]}, ValueError, "Expected a name for each of the 5 snapshots"),
        ({"memory": "much"}, ValueError, "Expected a memory budget"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_one_sentence(karate, change, error, words):
    model, snapshots = karate
    given = {"snapshots": 5, "targets": [8], **change}
    number = given.pop("snapshots")
    with pytest.raises(error, match=words):
        build_stories(model, snapshots[0] if number is None else snapshots[:number], **given)


def test_snapshots_that_do_not_fit_together_are_named(karate):
    model, snapshots = karate
    wide = snapshots[0].clone()
    wide.x = torch.cat([wide.x, wide.x], dim=1)
    with pytest.raises(ValueError, match=r"same width in all snapshots \(got 34, 34, 68\)"):
        build_stories(model, [*snapshots[:2], wide])
    with pytest.raises(ValueError, match=r"`n_id` in all snapshots or in none \(got it in 1 of 3\)"):
        build_stories(model, [*snapshots[:2], without(snapshots[0], [])])
    bare = Data(edge_index=snapshots[0].edge_index)
    with pytest.raises(ValueError, match=r"Expected `snapshots\[2\]` to carry node features"):
        build_stories(model, [*snapshots[:2], bare])
    once = [without(snapshots[0], gone) for gone in ([], [8], [])]
    with pytest.raises(ValueError, match="got 8, which is only in snapshot 0, snapshot 2"):
        build_stories(model, once, [8])


# ---- words and files -----------------------------------------------------------------------------------------------
def test_the_summary_tells_classes_turning_point_and_sum(stories):
    text = stories[0].summary()
    assert re.search(r"began in class north \(\d\.\d\d\), went to class south <i> \(\d\.\d\d\) at snapshot 1", text)
    assert "went back to class north" in text
    assert re.search(r"It moved most from snapshot \d to snapshot \d \(KL [\d.]+\): \+[\d.]+ on the logit of", text)
    assert re.search(r"the steps sum to it to within \de-1\d", text)
    assert str(stories[0]) == text
    assert "Node Ben stayed in class" in stories[1].headline


def test_a_long_way_through_classes_is_cut_short():
    logits = np.log(np.tile([[0.6, 0.4], [0.4, 0.6]], (6, 1)))
    snapshots = tuple(str(i) for i in range(12))
    told = describe_classes(Story(0, "0", snapshots, ("a", "b"), logits, (None,) * 11, ("",) * 11))
    assert told.count("class") == 5
    assert "changed 7 times more" in told
    assert told.endswith("went back to class b (0.60) at 11")


def test_a_damaged_story_is_refused(stories, tmp_path):
    values = stories[0].to_dict()
    for wrong, words in (
        ([], "Expected a saved story"),
        ({**values, "format": "other"}, "Expected a saved story"),
        ({**values, "version": 9}, "Expected version 3"),
        ({key: value for key, value in values.items() if key != "notes"}, "missing: notes"),
        (
            {**values, "notes": ["one"]},
            r"`notes` should be a list of shape \(steps,\); got shape \(1,\), where `explanations` has 4",
        ),
        ({**values, "logits": 3}, "Expected a whole story: `logits` should be numbers of shape"),
    ):
        with pytest.raises(ValueError, match=words):
            Story.from_dict(wrong)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match="Expected JSON"):
        Story.load(tmp_path / "broken.json")


# ---- the report ----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def report(karate, stories, tmp_path_factory):
    """Three whole stories, and one with a step that nobody could explain and one in which it is absent."""
    model, snapshots = karate
    graphs = [without(data, gone) for data, gone in zip(snapshots, ([], [], [12], [], []), strict=True)]
    gaps = build_stories(model, graphs, [12, 33], 3, memory="12KB", class_names=CLASSES)
    path = tmp_path_factory.mktemp("story") / "story.html"
    return axiompath.save_report(path, Stories(stories.steps, (*stories, *gaps)), title="A club <b>over</b> time")


@pytest.fixture(scope="module")
def tab(open_page, report):
    """One tab for all: its charts' four megabytes of script are read once."""
    opened = open_page(report)
    yield opened
    opened.close()


@pytest.fixture
def page(tab):
    tab.set_viewport_size({"width": 1366, "height": 768})
    tab.goto(re.sub("#.*", "", tab.url) + "#all")
    tab.fill("#find", "")
    yield tab
    tab.emulate_media(media="screen", color_scheme="light")
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def open_story(page, node, step=""):
    page.goto(re.sub("#.*", "", page.url) + f"#node={node}{step}")
    page.wait_for_selector("#step-causes svg")


def number(page, selector):
    return float(page.get_attribute(selector, "data-value"))


def test_the_overview_shows_the_steps_and_the_stories(page, stories):
    assert page.locator("#sequence tbody tr").count() == 4
    first = page.locator("#sequence tbody tr").first.inner_text()
    assert "snapshot 0 → snapshot 1" in first
    rows = page.locator("#stories tbody tr")
    assert rows.count() == 5
    assert rows.first.locator("td").nth(1).inner_text() == "north → south <i> → north → south <i> → south <i>"
    page.fill("#find", "ben")
    assert rows.count() == 1
    page.keyboard.press("Enter")
    assert page.inner_text("#story-title") == f"Ben: {CLASSES[stories[1].classes[0]]}"


def test_causes_on_the_page_sum_to_the_change_from_first_to_last(page, stories):
    for story in stories:
        open_story(page, story.target)
        _, weights = story.view
        parts = [number(page, f"#story-{kind}") for kind in KINDS]
        whole = float((story.logits[-1] - story.logits[0]) @ weights)
        assert number(page, "#story-whole") == pytest.approx(whole, abs=1e-6)
        assert sum(parts) == pytest.approx(whole, abs=1e-6)
        page.select_option("#view", label="logit of class east")
        change = float(story.logits[-1, 2] - story.logits[0, 2])
        assert number(page, "#story-whole") == pytest.approx(change, abs=1e-6)
        for step, e in enumerate(story.explanations):
            page.click(f"#step-{step}")
            delta = float(e.logits_after[2] - e.logits_before[2])
            assert number(page, "#sum-whole") == pytest.approx(delta, abs=1e-6)
            assert number(page, "#sum-chosen") == pytest.approx(e.contributions[:, 2].sum(), abs=1e-6)
            assert page.locator("#paths tbody tr").count() == len(e.paths)


def test_steps_are_reached_by_keyboard_and_by_address(page):
    open_story(page, 8, "&step=3")
    assert page.get_attribute("#step-3", "aria-current") == "step"
    page.focus("#step-3")
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute("#step-2", "aria-current") == "step"
    assert page.evaluate("document.activeElement.id") == "step-2"
    assert page.url.endswith("#node=8&step=2")
    assert "went from class north" in page.inner_text("#headline")
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("(e => e.id || (e.matches('.ribbon') ? 'ribbon' : ''))(document.activeElement)"))
    assert {"to-overview", "find", "open-0", "next", "view", "step-0", "step-3", "ribbon", "search-paths"} <= reached
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, select')].filter(e => !e.labels.length && !e.ariaLabel).map(e => e.id)"
    )
    assert unnamed == []


def test_absences_and_refusals_are_shown_in_place_of_a_step(page):
    open_story(page, 12, "&step=1")
    assert page.inner_text("#step-note") == "Node 12 is absent from snapshot 2."
    assert not page.is_visible("#details")
    page.click("#step-3")
    assert page.is_visible("#details")
    assert "Steps are missing" in page.inner_text("#story-sum-note")
    assert "It is absent at snapshot 2" in page.inner_text("#trajectory-note")
    open_story(page, 33, "&step=0")
    assert "more than the budget" in page.inner_text("#step-note")
    assert "too large" in page.text_content("#step-causes")


def test_flips_are_marked_and_charts_speak(page, stories):
    open_story(page, 8)
    assert page.locator("#trajectory .shade").count() == len(stories[0].flips)
    spoken = [page.get_attribute(f"#{chart} svg", "aria-label") for chart in ("trajectory", "step-causes")]
    assert spoken[0].startswith("Prediction at each snapshot. snapshot 0: north")
    assert "gained" in spoken[1]
    fills = page.locator("#step-causes .step rect").evaluate_all("all => all.map(r => r.getAttribute('fill'))")
    hatched = {fill[5:-1] for fill in fills if fill and fill.startswith("url")}
    assert hatched
    assert all(page.locator(f"#{name} rect").count() for name in hatched)


def test_names_are_text_never_markup(page, report):
    open_story(page, 8)
    assert page.evaluate("document.querySelectorAll('main img, main b b, nav img, header b').length") == 0
    assert EVIL.split(" & ")[0] in page.inner_text("#story-title")
    assert "</script><img" not in report.read_text()
    assert "{{ 7*7 }}" in page.inner_text("#story-title")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_telephone_in_either_scheme_and_prints(page, scheme, tmp_path):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    open_story(page, 8)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light dark"
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert (min(map(int, re.findall(r"\d+", ink)[:3])) > 150) == (scheme == "dark")
    page.emulate_media(media="print")
    assert not page.is_visible("#picker")
    assert page.is_visible("#flow svg")
    assert len(page.pdf(path=tmp_path / "story.pdf")) > 10_000


def test_a_page_holds_no_nan(karate):
    model, snapshots = karate
    graphs = [without(data, gone) for data, gone in zip(snapshots, ([8], [], [8], [], []), strict=True)]
    (story,) = build_stories(model, graphs, [8], memory="1B")
    json.dumps(describe_story(story), allow_nan=False)


# ---- the command line ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def files(karate, tmp_path_factory):
    model, snapshots = karate
    folder = tmp_path_factory.mktemp("files")
    names = [f"member {i}" for i in range(34)]
    axiompath.save_model(model, folder / "model", demo.karate_arguments(snapshots[0]))
    days = ("monday", "tuesday", "friday")
    graphs = [axiompath.save_graph(folder / day, data, names) for day, data in zip(days, snapshots, strict=False)]
    return [folder / "model", *graphs]


def test_story_prints_words_a_table_and_json(call, files):
    code, text, _ = call("story", *files, "--target", "member 8", "--budget", 4)
    assert code == 0
    flat = " ".join(text.split())
    assert "Node member 8 began in class 0" in flat
    assert "went back to class 0" in flat
    assert "monday → tuesday" in flat
    assert "4 of 108" in flat
    code, text, _ = call("story", *files, "--json")
    found = json.loads(text)
    assert code == 0
    assert [story["target"] for story in found["stories"]] == [8]
    assert Story.from_dict(found["stories"][0]).snapshot_names == ("monday", "tuesday", "friday")
    assert [step["flipped"] for step in found["steps"]] == [1, 1]
    code, _, error = call("story", *files, "-t", 99)
    assert code == 2
    assert "Expected targets that exist in two consecutive snapshots (got 99" in " ".join(error.split())


def test_report_of_three_graphs_is_a_story(call, files, tmp_path):
    out = tmp_path / "s.html"
    code, text, _ = call("report", *files, "--out", out, "--top", 2, "--budget", 3, "--json")
    assert code == 0
    assert json.loads(text) == {"report": str(out), "targets": [8, 13], "bytes": out.stat().st_size}
    page = out.read_text()
    assert page.count('id="story-') >= 2
    assert "monday → friday, 3 snapshots" in page


@pytest.mark.slow
def test_the_large_demonstration_writes_both_reports(tmp_path, monkeypatch):
    small = demo.drifting_communities(num_nodes=300)
    monkeypatch.setattr(demo, "drifting_communities", lambda: small)
    found = demo.run_large_demo(Console(quiet=True), tmp_path, Console(quiet=True))
    assert len(found["steps"]) == 4
    edges = [{tuple(sorted(edge)) for edge in data.edge_index.T.tolist()} for data in small]
    assert [step["edges_added"] for step in found["steps"]] == [len(b - a) for a, b in pairwise(edges)]
    assert {"story.html", "report.html", "snapshot4.npz"} <= {path.name for path in tmp_path.iterdir()}


def test_a_story_over_a_real_sequence_sums(data_root):
    snapshots = load_growth("bitcoinalpha", 6, data_root)
    torch.manual_seed(0)
    model = GCN(snapshots[0].num_features, 16, 2, 3)
    told = build_stories(model, snapshots, top=3, budget=5, method="linear", memory="200MB")
    assert len(told) == 3
    for story in told:
        assert story.unbroken
        assert story.residual < 1e-12
        assert len(story.flips) >= 3

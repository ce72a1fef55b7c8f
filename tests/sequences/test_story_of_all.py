"""Stories of links, whole graphs, one logit, labels and values: held against the model as its user calls it."""

import json
import re

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import global_mean_pool

import axiompath
from axiompath.errors import InputError, WrongKind
from axiompath.graphs.targets import match_in_graphs
from support.tasks import BEFORE, Columns, Linked, Pooled, evolve, logits_of, random_graph

RNG = np.random.default_rng(11)
DAYS = [BEFORE]
for _ in range(3):
    DAYS.append(evolve(RNG, DAYS[-1]))
PAIRS = [(0, 5), (3, 2), (4, 4), (8, 1)]
# name -> model, further arguments, targets, what the model's end does to its logits, how the headline begins
TOLD = {
    "link": (lambda: Linked("dot"), {}, [(0, 5), (3, 2)], "sigmoid", r"Link 0 – 5 (began as|stayed) (not )?linked "),
    "link of classes": (lambda: Linked("concatenated"), {}, [(0, 5), (8, 1)], None, r"Link 0 – 5 .*class [01]"),
    "graph": (lambda: Pooled(global_mean_pool), {}, [0], None, r"Graph 0 (began|stayed) in class [012] "),
    "classes": (lambda: Columns(3, False), {}, [3, 7], None, r"Node 3 (began|stayed) in class [012] "),
    "logit": (lambda: Columns(1, False), {"output": "binary"}, [3, 7], None, r"Node 3 (began as|stayed) (no|yes) "),
    "labels": (lambda: Columns(3, True), {}, [3, 7], "sigmoid", r"Node 3: label \d was 0\.\d+ at snapshot 0, "),
    "values": (lambda: Columns(2, False), {"output": "value"}, [3, 7], None, r"Node 3: value \d was -?[\d.e-]+ at "),
}  # fmt: skip


def made(name):
    torch.manual_seed(3)
    return TOLD[name][0]().double().eval()


def own_logits(name, model, data, targets):
    """What the model itself says of the targets on one snapshot."""
    if name.startswith("link"):
        answer = model(data.x, data.edge_index, torch.tensor(targets).T)
        return logits_of(answer, TOLD[name][3])
    extra = [torch.zeros(data.num_nodes, dtype=torch.long)] if name == "graph" else []
    return logits_of(model(data.x, data.edge_index, *extra), TOLD[name][3])[targets]


@pytest.mark.parametrize("name", TOLD)
def test_a_story_says_what_the_model_says_and_its_steps_sum(name, tmp_path):
    _, options, targets, _, words = TOLD[name]
    model = made(name)
    stories = axiompath.build_stories(model, DAYS, targets, 4, **options)
    own = np.stack([own_logits(name, model, data, targets) for data in DAYS], axis=1)
    scales = stories[0].output.scales
    for story, target, logits in zip(stories, targets, own, strict=True):
        assert story.target == target
        np.testing.assert_allclose(story.logits, logits, atol=1e-9)
        assert story.residual < 1e-11 * (1 + np.abs(logits).max())
        assert story.unbroken
        total = sum(part for causes in story.causes for part in causes.values())
        np.testing.assert_allclose(total, logits[-1] - logits[0], atol=1e-10)
        np.testing.assert_allclose(story.kl, [e.kl for e in story.explanations], rtol=1e-9, atol=1e-14)
        assert all(e.unit == story.unit and e.output.kind == story.output.kind for e in story.explanations)
        label, weights = story.view
        frame = story.to_frame()
        shift = (logits[1:] - logits[:-1]) @ weights
        np.testing.assert_allclose(frame[["gained", "lost", "reweighted", "feature"]].sum(axis=1), shift, atol=1e-10)
        assert label in story.summary()
        story.save(tmp_path / "story.json")
        again = axiompath.Story.load(tmp_path / "story.json")
        assert again.summary() == story.summary()
        assert (again.unit, again.output.kind, again.target) == (story.unit, story.output.kind, target)
        assert len(story.shares()) > 0
    assert re.match(words, stories[0].headline)
    if name == "values":  # a unit is one and the same over all steps: what varies on the first snapshot
        first = logits_of(model(BEFORE.x, BEFORE.edge_index), None)
        np.testing.assert_allclose(scales, first.std(axis=0))
        assert all((e.output.scales == scales).all() for story in stories for e in story.explanations)
        assert stories[0].flips == ()
        assert set(stories[0].to_frame().columns) >= {"column", "value_before", "value_after"}
        assert "distance" in stories[0].summary()


@pytest.mark.parametrize("name", TOLD)
def test_without_targets_those_whose_decision_changed_most_often_come_first(name):
    _, options, _, _, _ = TOLD[name]
    model = made(name)
    links = {"links": PAIRS} if name.startswith("link") else {}
    targets = PAIRS if links else [0] if name == "graph" else list(range(BEFORE.num_nodes))
    told = axiompath.build_stories(model, DAYS, None, 2, **options, **links)
    own = np.stack([own_logits(name, model, data, targets) for data in DAYS], axis=1)
    kind, scales = told[0].output.kind, told[0].output.scales
    flips = np.zeros(len(targets), dtype=int)
    if kind == "classes":
        flips = (np.diff(own.argmax(axis=2), axis=1) != 0).sum(axis=1)
    elif kind != "value":
        flips = (np.diff(own > 0, axis=1) != 0).any(axis=2).sum(axis=1)
    moved = np.abs(np.diff(own, axis=1) / (1 if scales is None else scales)).sum(axis=(1, 2))
    assert {story.target for story in told} == {t for t, far in zip(targets, moved, strict=True) if far > 1e-9}
    order = {target: place for place, target in enumerate(targets)}
    assert [len(story.flips) for story in told] == [flips[order[story.target]] for story in told]
    ranks = [(-len(story.flips), -np.nansum(story.kl)) for story in told]
    assert ranks == sorted(ranks)


def test_a_batch_over_time_is_numbered_once_graph_by_graph():
    """Graphs that grow shift no row of the others: a node has one number over the whole sequence."""
    rng = np.random.default_rng(4)
    days = [[random_graph(rng, n) for n in (4, 5, 3)]]
    for grows in (0, 2):
        days.append([evolve(rng, data, 1, node=i == grows) for i, data in enumerate(days[-1])])
    sizes = [[data.num_nodes for data in graphs] for graphs in days]
    graphs = [np.repeat(np.arange(3), row) for row in sizes]
    ids = match_in_graphs(graphs)
    known = {}
    for batch, own in zip(graphs, ids, strict=True):
        place = [int((batch[:row] == graph).sum()) for row, graph in enumerate(batch)]
        for key, number in zip(zip(batch.tolist(), place, strict=True), own.tolist(), strict=True):
            assert known.setdefault(key, number) == number
    assert ids[0].tolist() == list(range(12))
    assert sorted(known.values()) == list(range(14))
    model = made("graph")
    stories = axiompath.build_stories(model, [Batch.from_data_list(graphs) for graphs in days], [0, 1, 2], 3)
    for graph, story in enumerate(stories):
        alone = np.stack([own_logits("graph", model, graphs[graph], [0])[0] for graphs in days])
        np.testing.assert_allclose(story.logits, alone, atol=1e-9)
        assert story.residual < 1e-11
        numbers = {number for (at, _), number in known.items() if at == graph}
        mentioned = {node for path in story.shares().path for node in path if node >= 0}
        assert mentioned <= numbers
    assert stories[0].unit == "graph"
    with pytest.raises(InputError, match=r"two consecutive snapshots \(got 9, which none has\)"):
        axiompath.build_stories(model, [Batch.from_data_list(graphs) for graphs in days], [9])


def test_a_pair_with_an_end_that_comes_and_goes_is_told_so():
    graphs = [data.clone() for data in DAYS]
    for data in graphs:
        data.n_id = torch.arange(9)
    keep = torch.arange(9) != 8
    graphs[2] = graphs[2].subgraph(keep)
    graphs[2].n_id = torch.arange(9)[keep]
    model = made("link")
    gone, there = axiompath.build_stories(model, graphs, [(8, 1), (0, 5)], 3)
    assert gone.notes == ("", "Link 8 – 1 is absent from snapshot 2.", "Link 8 – 1 is absent from snapshot 2.")
    assert not gone.unbroken
    assert gone.residual < 1e-11
    assert there.unbroken
    np.testing.assert_allclose(gone.logits[3], own_logits("link", model, graphs[3], [(8, 1)])[0], atol=1e-9)


@pytest.mark.parametrize(
    ("name", "targets", "error", "words"),
    [
        ("link", [3], WrongKind, "model of links to be pairs of node numbers"),
        ("link", [(0, 99)], InputError, r"two consecutive snapshots \(got \(0, 99\), which none has"),
        ("link", [(0, 1, 2)], InputError, r"pairs of node numbers, \[num_pairs, 2\]"),
        ("logit", [(0, 5)], InputError, "Expected a model of links"),
        ("graph", [4], InputError, "two consecutive snapshots"),
        ("logit", ["a"], InputError, "'a'"),
        ("logit", [1.5], WrongKind, "node numbers, integers"),
    ],
)
def test_targets_of_another_kind_are_refused(name, targets, error, words):
    with pytest.raises(error, match=words):
        axiompath.build_stories(made(name), DAYS, targets, **TOLD[name][1])


def test_links_of_nodes_that_no_snapshot_has_are_refused():
    with pytest.raises(InputError, match=r"links between nodes of the snapshots \(got \(0, 9\)\)"):
        axiompath.build_stories(made("link"), DAYS, links=[(0, 5), (0, 9)])


def test_a_raw_column_is_asked_for_and_not_guessed():
    with pytest.raises(InputError, match=r"binary.*value"):
        axiompath.build_stories(Columns(1, False).double().eval(), DAYS, [3])


@pytest.mark.parametrize("name", ["link", "labels", "values"])
def test_the_page_of_a_story_speaks_of_what_it_is_of(name, open_page, tmp_path):
    _, options, targets, _, _ = TOLD[name]
    stories = axiompath.build_stories(made(name), DAYS, targets, 3, **options)
    page = open_page(axiompath.save_report(tmp_path / "story.html", stories))
    try:
        story = stories[0]
        assert page.locator("#stories tbody tr").count() == len(targets)
        rows = [row.split("\t") for row in page.locator("#stories tbody tr").all_inner_texts()]
        assert [story.predicted_at(i) for i in range(4)] in [row[1].split(" → ") for row in rows]
        address = "-".join(map(str, np.atleast_1d(story.target)))
        page.goto(f"{page.url.split('#')[0]}#node={address}&step=1")
        page.wait_for_selector("#step-causes svg")
        whole = float(page.get_attribute("#story-whole", "data-value"))
        assert whole == pytest.approx((story.logits[-1] - story.logits[0]) @ story.view[1], abs=1e-6)
        assert page.inner_text("#story-title").startswith(f"{story.unit.capitalize()} {story.name}: ")
        assert story.headline.split(",")[0] in page.inner_text("#story-words")
        assert ("nats" in page.inner_text("#details")) == (story.output.kind != "value")
        assert page.complaints == []
    finally:
        page.close()


def test_the_command_line_tells_links_graphs_and_values(call, tmp_path, monkeypatch):
    (tmp_path / "told_models.py").write_text(
        f"from {__name__} import made\n"
        "def link():\n    return made('link')\n"
        "def graph():\n    return made('graph')\n"
        "def values():\n    return made('values')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    files = []
    for i, data in enumerate(DAYS[:3]):
        files.append(tmp_path / f"day{i}.npz")
        np.savez(files[-1], x=data.x.numpy(), edge_index=data.edge_index.numpy())
    (tmp_path / "pairs.csv").write_text("0,5\n3, 2\n")
    code, shown, complaint = call("story", "told_models:link", *files, "--target", "0,5", "--json")
    assert code == 0, complaint
    (found,) = json.loads(shown)["stories"]
    assert (found["target"], found["unit"], found["output"]["kind"]) == ([0, 5], "link", "binary")
    code, shown, complaint = call("story", "told_models:link", *files, "--links", tmp_path / "pairs.csv")
    assert code == 0, complaint
    assert re.search(r"Link (0 – 5|3 – 2) ", shown)
    assert "on the logit of linked" in shown
    code, shown, _ = call("story", "told_models:graph", *files, "--target", 0)
    assert code == 0
    assert "Graph 0 " in shown
    code, shown, _ = call("story", "told_models:values", *files, "--output", "value")
    assert code == 0
    assert "distance" in shown
    out = tmp_path / "story.html"
    code, shown, _ = call("report", "told_models:link", *files, "--target", "3,2", "--out", out)
    assert code == 0
    assert "Explained 1 link in" in shown
    for arguments, words in (
        (("told_models:link", *files, "--target", "05"), "two ends of a link"),
        (("told_models:graph", *files, "--target", "x"), "the number of a graph"),
        (("told_models:values", *files, "--output", "binary"), "--output to fit the model"),
    ):
        code, _, complaint = call("story", *arguments)
        assert code == 2
        assert words in " ".join(complaint.split())

"""Graphs, links, new nodes; one logit, labels, values: answers in the words of each, held against the user's model."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer as PyGExplainer
from torch_geometric.nn import (
    GAE,
    GCN,
    GATConv,
    GCNConv,
    GINConv,
    MeanAggregation,
    MedianAggregation,
    SAGEConv,
    SumAggregation,
    global_add_pool,
    global_mean_pool,
)  # fmt: skip

import axiompath
from axiompath.errors import InputError, WrongKind
from axiompath.explain.targets import find_rows
from support.scans import scan_and_compare
from support.tasks import BEFORE, RNG, Columns, Linked, Pooled, evolve, logits_of, random_graph

torch.manual_seed(0)


AFTER = evolve(RNG, BEFORE)


class EncodeDecode(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(4, 6), GCNConv(6, 3)

    def encode(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)

    def decode(self, z, edge_label_index):
        src, dst = edge_label_index
        return (z[src] * z[dst]).sum(dim=-1)


def assert_complete(explainer, target, undo=True):
    found = explainer.attribute(target)
    scale = max(1.0, np.abs(found.logits_after).max())
    assert found.target == target
    assert found.residual < 1e-9 * scale
    np.testing.assert_allclose(explainer.replay(target, []), found.logits_after, rtol=0, atol=1e-12 * scale)
    if undo:
        np.testing.assert_allclose(explainer.replay(target, found.paths), found.logits_before, atol=1e-9 * scale)
        added = explainer.replay(target, found.paths, add=True)
        np.testing.assert_allclose(added, found.logits_after, atol=1e-9 * scale)
    return found


# ---- whole graphs ---------------------------------------------------------------------------------------------------
POOLS = {
    "mean": global_mean_pool,
    "sum": global_add_pool,
    "mean module": MeanAggregation(),
    "sum module": SumAggregation(),
}


@pytest.mark.parametrize(
    ("name", "conv"), [*((name, GCNConv) for name in POOLS), ("mean", SAGEConv), ("mean", GATConv)]
)
def test_a_graph_is_one_target(name, conv):
    pool = POOLS[name]
    model = Pooled(pool, conv).double().eval()
    explainer = axiompath.Explainer(model, BEFORE, AFTER)
    batch = torch.zeros(BEFORE.num_nodes, dtype=torch.long)
    with torch.no_grad():
        for side, data in ((explainer.change.before_pass, BEFORE), (explainer.change.after_pass, AFTER)):
            np.testing.assert_allclose(side.logits, model(data.x, data.edge_index, batch).numpy(), atol=1e-12)
    found = assert_complete(explainer, 0, undo=False)
    assert found.paths.shape[1] == 3  # two hops, and no number for the graph
    assert list(explainer.moved().target) == [0]
    assert explainer.explain(budget=4).summary().startswith("Graph 0 ")


def test_undoing_all_paths_of_a_graph_gives_the_graph_before():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.head = GCNConv(4, 6), GCNConv(6, 6), nn.Linear(6, 3)

        def forward(self, x, edge_index, batch):
            return self.head(global_mean_pool(self.second(self.first(x, edge_index).relu(), edge_index).relu(), batch))

    after = evolve(np.random.default_rng(3), BEFORE, node=True)
    explainer = axiompath.Explainer(Plain().double().eval(), BEFORE, after)
    assert_complete(explainer, 0)


def batches(rng):
    before = [random_graph(rng, n) for n in (5, 7, 4, 6)]
    after = [evolve(rng, data, 1, node=i == 1) for i, data in enumerate(before)]
    after[2] = before[2].clone()  # unchanged
    return before, after


def test_a_batch_is_matched_graph_by_graph():
    before, after = batches(np.random.default_rng(1))
    model = Pooled(global_mean_pool).double().eval()
    explainer = axiompath.Explainer(model, Batch.from_data_list(before), Batch.from_data_list(after))
    assert set(explainer.moved().target) == {0, 1, 3}
    for graph in (0, 1, 3):
        found = assert_complete(explainer, graph, undo=False)
        alone = axiompath.Explainer(model, *(_with_ids(before[graph], 0), _with_ids(after[graph], 0))).attribute(0)
        assert len(alone.paths) == len(found.paths)
        np.testing.assert_allclose(
            np.sort(found.contributions, axis=0), np.sort(alone.contributions, axis=0), rtol=0, atol=1e-12
        )
    assert len(explainer.attribute(2).paths) == 0
    with pytest.raises(InputError, match="among the 4 graphs \\(got 9\\)"):
        explainer.explain(9)
    with pytest.raises(WrongKind, match="graph numbers"):
        explainer.explain((0, 1))
    with pytest.raises(InputError, match=r"the name of a target .*4 graphs"):
        explainer.explain()


def _with_ids(data, first):
    numbered = data.clone()
    numbered.n_id = torch.arange(first, first + data.num_nodes)
    return numbered


def test_graphs_of_one_snapshot_alone_are_listed_and_not_guessed():
    before, after = batches(np.random.default_rng(2))
    sides = []
    for graphs, ids in ((before[:3], [10, 20, 30]), (after[1:], [20, 30, 40])):
        batch = Batch.from_data_list(graphs)
        batch.graph_id = torch.tensor(ids)
        sides.append(batch)
    explainer = axiompath.Explainer(Pooled(global_add_pool).double().eval(), *sides)
    assert dict(zip(explainer.unmatched().target, explainer.unmatched().snapshot, strict=True)) == {
        10: "before",
        40: "after",
    }
    assert set(explainer.moved().target) == {20}
    assert_complete(explainer, 20, undo=False)
    with pytest.raises(InputError, match=r"exists in both snapshots \(got 40, which `before` does not have\)"):
        explainer.explain(40)
    sides[0].graph_id = torch.tensor([1, 1, 2])
    with pytest.raises(InputError, match="a different number"):
        axiompath.Explainer(Pooled(global_add_pool).double().eval(), *sides)


def test_batches_that_do_not_match_are_refused_by_what_is_amiss():
    model = Pooled(global_mean_pool).double().eval()
    before, after = (Batch.from_data_list(graphs) for graphs in batches(np.random.default_rng(1)))
    short, named = after.clone(), before.clone()
    short.batch = torch.zeros(3, dtype=torch.long)
    named.graph_id = torch.arange(4)
    nothing = Data(x=torch.zeros(0, 4, dtype=torch.float64), edge_index=torch.zeros(2, 0, dtype=torch.long))
    hollow = Batch.from_data_list([BEFORE, nothing, AFTER])
    for pair, words in (
        ((before, short), r"`after\.batch` to hold the number of each node's graph"),
        ((named, after), r"`graph_id` in both batches.*`after` has none"),
        ((hollow, hollow), r"a node in every graph of the batch \(graph 1 of `before` has none\)"),
    ):
        with pytest.raises(InputError, match=words):
            axiompath.Explainer(model, *pair)
    with pytest.raises(axiompath.readers.UnreadableModel, match="chooses rows by features"):
        axiompath.Explainer(Pooled(MedianAggregation()).double().eval(), BEFORE, AFTER)


# ---- links ----------------------------------------------------------------------------------------------------------
LINKS = [(0, 5), (3, 2), (4, 4), (8, 1)]
DECODERS = {
    "dot": ("binary", "sigmoid"), "inner": ("binary", "sigmoid"), "bilinear": ("binary", "sigmoid"),
    "concatenated": ("classes", None), "bilinear module": ("classes", None),
    "multiplied": ("binary", "sigmoid"), "selected": ("classes", "softmax"),
}  # fmt: skip


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_pair_is_a_target(decoder):
    kind, end = DECODERS[decoder]
    model = Linked(decoder).double().eval()
    explainer = axiompath.Explainer(model, BEFORE, AFTER, links=LINKS)
    assert explainer.change.output.kind == kind
    pairs = torch.tensor(LINKS).T
    with torch.no_grad():
        for side, data in ((explainer.change.before_pass, BEFORE), (explainer.change.after_pass, AFTER)):
            theirs = logits_of(model(data.x, data.edge_index, pairs), end)
            ours = side.logits
            if end == "softmax":
                ours = ours - np.logaddexp.reduce(ours, axis=1, keepdims=True)
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
    for pair in [*LINKS, (1, 7)]:  # the last was not asked for at the beginning
        found = assert_complete(explainer, pair)
        assert set(found.paths[:, -1]) <= set(pair)  # through which end it came
    told = explainer.explain((0, 5), 3)
    assert told.summary().startswith("Link 0 – 5 ")
    assert set(explainer.moved().target) <= set(LINKS)
    own = explainer.replay_edges((0, 5), found.paths[:0])
    shift = (own - told.logits_after)[0] if end == "softmax" else 0.0  # a softmax leaves a constant open
    np.testing.assert_allclose(own - shift, told.logits_after, atol=1e-9)


def test_encode_and_decode_are_a_model_of_links():
    models = [EncodeDecode().double().eval(), GAE(GCN(4, 6, 2, 3)).double().eval()]
    for model, output in zip(models, ("binary", "auto"), strict=True):
        explainer = axiompath.Explainer(model, BEFORE, AFTER, links=LINKS, output=output)
        assert explainer.change.output.kind == "binary"
        with torch.no_grad():
            theirs = model.decode(model.encode(AFTER.x, AFTER.edge_index), torch.tensor(LINKS).T)
        theirs = logits_of(theirs, "sigmoid" if isinstance(model, GAE) else None)
        np.testing.assert_allclose(explainer.change.after_pass.logits, theirs, atol=1e-9)
        assert_complete(explainer, (3, 2))


def test_pairs_that_cannot_be_are_refused():
    model = Linked("concatenated").double().eval()
    for links, words in (
        ([(0, 99)], r"between nodes of the graphs \(got \(0, 99\)\)"),
        ([(0, 1, 2)], "pairs of node numbers"),
        ([(0.5, 1.0)], "integers"),
        (torch.tensor([[0, 1], [2, 3], [4, 5]]), r"edge_label_index, \[2, num_pairs\]"),
    ):
        with pytest.raises((InputError, WrongKind), match=words):
            axiompath.Explainer(model, BEFORE, AFTER, links=links)
    two = axiompath.Explainer(model, BEFORE, AFTER, links=torch.tensor([[0, 3], [5, 2]]))  # as PyG has it, [2, n]
    assert two.change.root_ids.tolist() == [[0, 5], [3, 2]]
    explainer = axiompath.Explainer(model, BEFORE, AFTER)
    with pytest.raises(InputError, match=r"\(0, 99\)"):
        explainer.explain((0, 99))
    with pytest.raises((InputError, WrongKind)):
        explainer.explain(3)
    with pytest.raises(InputError, match="a model of links to go with `links`"):
        axiompath.Explainer(GCN(4, 6, 2, 3).double().eval(), BEFORE, AFTER, links=LINKS)


# ---- new nodes, and one graph alone ---------------------------------------------------------------------------------
def test_a_new_node_is_explained_against_itself_alone():
    after = evolve(np.random.default_rng(4), BEFORE, node=True)
    model = GCN(4, 6, 2, 3).double().eval()
    with pytest.warns(axiompath.errors.MatchedByRow):
        explainer = axiompath.Explainer(model, BEFORE, after)
    found = assert_complete(explainer, 9, undo=False)
    with torch.no_grad():
        alone = model(after.x[9:], torch.empty(2, 0, dtype=torch.long)).numpy()[0]
    np.testing.assert_allclose(found.logits_before, alone, atol=1e-12)
    assert list(explainer.unmatched().target) == [9]
    assert 9 not in set(explainer.moved().target)
    others = explainer.attribute(0)
    beside = next(explainer.session.with_newcomers.attribute(find_rows(explainer.session.with_newcomers, [0]), 2e9))
    np.testing.assert_allclose(others.contributions, beside.contributions, atol=1e-12)
    linked = Linked("dot").double().eval()
    with pytest.warns(axiompath.errors.MatchedByRow):
        assert_complete(axiompath.Explainer(linked, BEFORE, after), (0, 9), undo=False)


def test_one_graph_is_explained_against_itself_without_edges():
    model = GCN(4, 6, 2, 3).double().eval()
    weighted = AFTER.clone()
    weighted.edge_weight = torch.rand(AFTER.edge_index.shape[1], dtype=torch.float64)
    for data in (AFTER, weighted):
        explainer = axiompath.Explainer(model, None, data)
        with torch.no_grad():
            bare = model(data.x, torch.empty(2, 0, dtype=torch.long)).numpy()
        np.testing.assert_allclose(explainer.change.before_pass.logits, bare, atol=1e-12)
        assert_complete(explainer, 0, undo=False)
        assert explainer.changes().kind.unique().tolist() == ["edge added"]
    with pytest.raises(WrongKind, match="explained against itself without edges"):
        axiompath.Explainer(model, None, None)


# ---- outputs --------------------------------------------------------------------------------------------------------
def test_half_a_change_of_a_value_is_half_explained():
    model = Columns(1, False).double().eval()
    explainer = axiompath.Explainer(model, BEFORE, AFTER, output="value")
    target = int(explainer.moved().target[0])
    told = explainer.explain(target, 2)
    left = abs(told.logits_after - told.logits_before - told.contributions.sum(axis=0))[0]
    whole = abs(told.logits_after - told.logits_before)[0]
    assert told.explained == pytest.approx(1 - left / whole, abs=1e-9)
    # The network's own share of the way is a distance, too, so that the two can be compared.
    added = explainer.replay(target, told.paths, add=True)
    assert told.network_share == pytest.approx(1 - abs(told.logits_after - added)[0] / whole, abs=1e-7)
    assert told.output.scales[0] == pytest.approx(explainer.change.before_pass.logits.std(), rel=1e-12)
    given = axiompath.Explainer(model, BEFORE, AFTER, output="value", scales=[2.0]).explain(target, 2)
    assert given.output.scales.tolist() == [2.0]
    assert given.kl == pytest.approx(whole**2 / 8)
    for scales in ([0.0], [1.0, 2.0], [np.nan]):
        with pytest.raises(InputError, match="a positive number for each of 1 values"):
            axiompath.Explainer(model, BEFORE, AFTER, output="value", scales=scales)
    with pytest.raises(InputError, match="`scales` to go with values"):
        axiompath.Explainer(model, BEFORE, AFTER, output="binary", scales=[1.0])


# ---- scans, stories, PyG --------------------------------------------------------------------------------------------
def test_scans_of_links_and_graphs_say_what_explain_says(tmp_path):
    before, after = batches(np.random.default_rng(6))
    cases = {
        "links": axiompath.Explainer(Linked("dot").double().eval(), BEFORE, AFTER, links=LINKS),
        "graphs": axiompath.Explainer(
            Pooled(global_mean_pool).double().eval(), Batch.from_data_list(before), Batch.from_data_list(after)
        ),
        "labels": axiompath.Explainer(Columns(3, True).double().eval(), BEFORE, AFTER),
    }
    for name, explainer in cases.items():
        scan = scan_and_compare(explainer, tmp_path / name, 4, "convex")
        assert list(scan.to_frame().target) == list(explainer.moved().target)
        again = explainer.scan(tmp_path / name, 4, "convex", min_kl=0.0, workers=1, progress=False)
        assert again.manifest == scan.manifest
        assert "predictions moved" in scan.summary


@pytest.mark.parametrize("level", ["edge", "graph"])
def test_pyg_asks_for_edges_and_graphs(level):
    mode, model = "multiclass_classification", Linked("concatenated").double().eval()
    extra = {"edge_label_index": torch.tensor(LINKS).T}
    if level == "graph":
        model, extra = Pooled(global_mean_pool).double().eval(), {"batch": torch.zeros(9, dtype=torch.long)}
    explainer = PyGExplainer(
        model, axiompath.pyg.PyGAlgorithm(BEFORE, budget=4), explanation_type="model", edge_mask_type="object",
        model_config={"mode": mode, "task_level": level, "return_type": "raw"},
    )  # fmt: skip
    found = explainer(AFTER.x, AFTER.edge_index, index=0, **extra)
    assert found.edge_mask.shape == (AFTER.edge_index.shape[1],)
    assert found.explanations[0].target == ((0, 5) if level == "edge" else 0)
    if level == "edge":  # a pair may be listed twice
        twice = {"edge_label_index": torch.tensor([LINKS[0], *LINKS]).T}
        found = explainer(AFTER.x, AFTER.edge_index, index=2, **twice)
        assert found.explanations[0].target == LINKS[1]


@pytest.mark.parametrize(
    ("mode", "columns", "flat", "kind"),
    [
        ("binary_classification", 1, True, "binary"), ("binary_classification", 1, False, "binary"),
        ("binary_classification", 3, False, "labels"), ("regression", 1, False, "value"),
        ("regression", 2, False, "value"), ("multiclass_classification", 3, False, "classes"),
    ],
)  # fmt: skip
def test_pyg_says_what_raw_columns_mean(mode, columns, flat, kind):
    class Raw(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(4, columns)

        def forward(self, x, edge_index):
            out = self.conv(x, edge_index)
            return out.view(-1) if flat else out

    explainer = PyGExplainer(
        Raw().double().eval(), algorithm=axiompath.pyg.PyGAlgorithm(BEFORE, budget=3), explanation_type="model",
        edge_mask_type="object", model_config={"mode": mode, "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    found = explainer(AFTER.x, AFTER.edge_index, index=1)
    assert found.explanations[0].output.kind == kind
    assert found.explanations[0].contributions.shape[1] == columns


def test_the_command_line_takes_links_graphs_and_outputs(call, tmp_path, monkeypatch):
    (tmp_path / "models_of_mine.py").write_text(
        "import torch\nfrom support.tasks import Columns, Linked, Pooled\n"
        "from torch_geometric.nn import global_mean_pool\n"
        "def made(model):\n    return model.double().eval()\n"
        "def link():\n    torch.manual_seed(1)\n    return made(Linked('dot'))\n"
        "def graph():\n    torch.manual_seed(1)\n    return made(Pooled(global_mean_pool))\n"
        "def value():\n    torch.manual_seed(1)\n    return made(Columns(2, False))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    files = []
    for name, data in (("before", BEFORE), ("after", AFTER)):
        files.append(tmp_path / f"{name}.npz")
        np.savez(files[-1], x=data.x.numpy(), edge_index=data.edge_index.numpy())
    (tmp_path / "pairs.csv").write_text("0,5\n\n3, 2\n")

    def asked(*arguments):
        code, shown, complaint = call(*arguments)
        assert code == 0, complaint
        return json.loads(shown)

    (found,) = asked("explain", "models_of_mine:link", *files, "--target", "0,5", "--budget", 3, "--json")
    assert (found["target"], found["unit"], found["output"]["kind"]) == ([0, 5], "link", "binary")
    asked("explain", "models_of_mine:link", *files, "--target", "0,5", "--out", tmp_path / "told", "--json")
    assert (tmp_path / "told" / "0-5.json").is_file()
    links = ("--links", tmp_path / "pairs.csv")
    scanned = asked("scan", "models_of_mine:link", *files, *links, "--min-kl", 0, "--out", tmp_path / "scan", "--json")
    assert scanned[0]["num_moved"] <= 2
    assert {found.target for found in axiompath.read_scan(tmp_path / "scan")} <= {(0, 5), (3, 2)}
    (found,) = asked("explain", "models_of_mine:graph", *files, "--target", 0, "--json")
    assert (found["target"], found["unit"]) == (0, "graph")
    report = tmp_path / "report.html"
    asked("report", "models_of_mine:value", *files, "--output", "value", "--out", report, "--top", 2, "--json")
    assert "<html" in report.read_text()
    for arguments, words in (
        (("models_of_mine:link", *files, "--target", "05"), "two ends of a link"),
        (("models_of_mine:graph", *files, "--target", "x"), "the number of a graph"),
        (("models_of_mine:value", *files, "--output", "binary"), "--output to fit the model"),
        (("models_of_mine:link", *files, "--links", tmp_path / "none.csv"), "Expected a file"),
    ):
        code, _, complaint = call("explain", *arguments)
        assert code == 2
        assert words in " ".join(complaint.split())
    code, shown, _ = call("diff", *files, "--model", "models_of_mine:value", "--output", "value")
    assert code == 0
    assert "value before" in shown


def test_gin_with_sums_over_nodes_of_one_graph():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = GINConv(nn.Sequential(nn.Linear(4, 6), nn.ReLU())), nn.Linear(6, 2)

        def forward(self, x, edge_index):
            return self.head(self.conv(x, edge_index).mean(dim=0, keepdim=True))

    explainer = axiompath.Explainer(Whole().double().eval(), BEFORE, AFTER)
    assert_complete(explainer, 0)


# ---- every kind of output for every kind of target, in every way -------------------------------------------------
COLUMNS = {"classes": 3, "binary": 1, "labels": 3, "value": 1}
SPEAKS = {
    "classes": r"class \d",
    "binary": r"(yes|no|linked|not linked)\b",
    "labels": r"label \d",
    "value": r"the value",
}
BLAMES = {
    "classes": r"(stayed in|went from) class \d \(.*the change of the probability of class \d",
    "binary": r"(stayed|went from) (yes|no|(not )?linked)\b.*the change of the probability of (yes|no|(not )?linked)",
    "labels": r"label \d went from .*the change of the probability of label \d",
    "value": "the value went from .*the change of the value",
}
BELOW = {
    "classes": r"a probability of class \d below", "binary": r"a probability of (yes|no|linked|not linked) below",
    "labels": r"a probability of label \d below", "value": "a value below",
}  # fmt: skip
TABLE = {
    "classes": ["class_0", "class_1", "class_2"], "binary": ["logit"],
    "labels": ["label_0", "label_1", "label_2"], "value": ["value_0"],
}  # fmt: skip
METHODS = ("convex", "exact", "linear", "topk", "deeplift", "gnnlrp", "grad")
EIGHT = np.random.default_rng(2)
OLD = random_graph(EIGHT, 8)
NEW, GROWN = evolve(EIGHT, OLD), evolve(EIGHT, OLD, node=True)
SPARSE = Data(x=OLD.x, edge_index=torch.tensor([[0, 1, 3, 5, 2], [3, 3, 5, 0, 5]]))
GRAPHS = [random_graph(RNG, n) for n in (5, 6)]
BATCHES = Batch.from_data_list(GRAPHS), Batch.from_data_list([evolve(EIGHT, data) for data in GRAPHS])
# what is predicted, before, after, target
PLACES = {
    "node": ("node", OLD, NEW, 3), "link": ("link", OLD, NEW, (0, 5)), "graph": ("graph", *BATCHES, 1),
    "new node": ("node", OLD, GROWN, 8), "new link": ("link", OLD, GROWN, (0, 8)),
    "node alone": ("node", None, SPARSE, 3), "link alone": ("link", None, SPARSE, (0, 5)),
    "graph alone": ("graph", None, SPARSE, 0),
}  # fmt: skip
LESS_COMMON = ("new link", "link alone", "graph alone")


class Task(nn.Module):
    """Two convolutions, then a head for nodes, pairs or graphs, and the end that its columns have."""

    def __init__(self, unit, kind):
        super().__init__()
        self.kind, width = kind, 12 if unit == "link" else 6
        self.first, self.second, self.head = GCNConv(4, 6), GCNConv(6, 6), nn.Linear(width, COLUMNS[kind])

    def answer(self, x, edge_index, place=lambda z: z):
        logits = self.head(place(self.second(self.first(x, edge_index).relu(), edge_index)))
        if self.kind in ("binary", "labels"):
            return logits.sigmoid()
        return logits if self.kind == "value" else logits.log_softmax(dim=-1)


class OfNodes(Task):
    def forward(self, x, edge_index):
        return self.answer(x, edge_index)


class OfLinks(Task):
    def forward(self, x, edge_index, edge_label_index):
        u, v = edge_label_index
        return self.answer(x, edge_index, lambda z: torch.cat([z[u], z[v]], dim=-1))


class OfGraphs(Task):
    def forward(self, x, edge_index, batch):
        return self.answer(x, edge_index, lambda z: global_mean_pool(z, batch))


def made(unit, kind):
    torch.manual_seed(4)
    return {"node": OfNodes, "link": OfLinks, "graph": OfGraphs}[unit](unit, kind).double().eval()


def opened(place, kind):
    unit, before, after, target = PLACES[place]
    output = {"output": "value"} if kind == "value" else {}
    links = {"links": [target]} if unit == "link" and "new" not in place else {}
    return axiompath.Explainer(made(unit, kind), before, after, **output, **links), target


@pytest.mark.filterwarnings("ignore::axiompath.errors.MatchedByRow")
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=[pytest.mark.slow] * (place in LESS_COMMON)) for place in PLACES]
)
def test_every_question_is_answered_in_the_words_of_its_output(place, kind):
    explainer, target = opened(place, kind)
    found = explainer.attribute(target)
    assert found.residual < 1e-12
    assert list(found.to_frame().columns[-COLUMNS[kind] :]) == TABLE[kind]
    assert (" value " if kind == "value" else " logit") in repr(found)
    told = explainer.explain(target, 3)
    assert told.output.kind == kind
    assert told.unit == PLACES[place][0]
    assert told.contributions.shape == (min(3, len(found.paths)), COLUMNS[kind])
    assert 0 <= told.kl_bound <= told.kl_residual + 1e-15
    assert {"binary": "class_before", "labels": "label", "value": "column"}.get(
        kind, "class_after"
    ) in explainer.moved()
    assert re.search(SPEAKS[kind], told.headline)
    assert list(told.to_frame().columns[-COLUMNS[kind] :]) == TABLE[kind]
    again = axiompath.Explanation.from_dict(json.loads(json.dumps(told.to_dict())))
    assert again.summary() == replace(told, ask=None).summary()
    assert (again.target, again.unit, again.output.kind) == (target, told.unit, kind)
    assert "<html" in told.to_html()
    assert told.to_pyg().edge_mask.shape == (told.graph.edge_index.shape[1],)
    assert told.plot().get_yticks().size >= 3 + len(told.paths) - 1
    for by in ("edge", "layer_edge"):
        assert re.search(SPEAKS[kind], explainer.explain(target, 3, by=by).summary())
    for method in METHODS:
        other = explainer.explain(target, 2, method)
        assert np.isfinite([other.fidelity_minus, other.fidelity_plus]).all()
    every = explainer.frontier(target, [1, 2, len(found.paths)])[-1]
    assert every.kl_residual < 1e-12
    assert every.explained == pytest.approx(1.0, abs=1e-5) or every.kl == 0
    np.testing.assert_allclose(explainer.replay(target, []), found.logits_after, atol=1e-12)
    own = explainer.replay_edges(target, told.paths[:0])
    shift = (own - found.logits_after)[0] if kind == "classes" else 0.0  # log_softmax leaves a constant open
    np.testing.assert_allclose(own - shift, found.logits_after, atol=1e-9)
    assert re.search(BLAMES[kind], explainer.blame(target, seconds=0.2).summary())
    assert "account" in explainer.enough(target, seconds=0.2).summary()
    assert list(explainer.features(target).columns[-COLUMNS[kind] :]) == TABLE[kind]
    above = float(told.logits_after.max()) + 1.0 if kind == "value" else 0.999
    assert re.search(BELOW[kind], explainer.undo(target, below=above, seconds=0.2).summary())
    if not told.output.flipped(told.logits_before, told.logits_after):
        missing = {"value": "values have no class", "labels": "a label that came or went"}.get(kind, "class changed")
        with pytest.raises(InputError, match=missing):
            explainer.undo(target, seconds=0.2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::axiompath.errors.MatchedByRow")
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("place", ["node", "link", "graph"])
def test_scans_pages_stories_and_the_command_line_speak_of_it_too(place, kind, call, tmp_path, monkeypatch):
    unit, before, after, target = PLACES[place]
    explainer, _ = opened(place, kind)
    scan = explainer.scan(tmp_path / "scan", 3, min_kl=0.0, workers=1, progress=False, blame=True)
    frame = scan.to_frame()
    assert target in set(frame.target)
    assert all(name.isidentifier() for name in frame)  # so that frame.name and frame.query(name) work
    if kind in ("labels", "value"):
        ends = [f"{'value' if kind == 'value' else 'prob'}_{end}" for end in ("before", "after")]
        moved = explainer.moved().set_index("target").loc[frame.target]
        np.testing.assert_allclose(frame[ends].to_numpy(), moved[ends].to_numpy(), atol=1e-9)
    assert ("Total change in value" if kind == "value" else "Total change in probability") in scan.blame().summary()
    flip = {"classes": "to another class", "value": None}.get(kind, "to another answer")
    assert "to another" not in scan.summary if flip is None else flip in scan.summary
    assert scan.report(tmp_path / "scan.html").is_file()
    assert axiompath.save_report(tmp_path / "page.html", explainer).is_file()
    output = {"output": "value"} if kind == "value" else {}
    (story,) = axiompath.build_stories(made(unit, kind), [before, after, before], [target], 3, **output)
    assert re.search(SPEAKS[kind], story.summary())
    (tmp_path / "door_models.py").write_text(
        f"from {__name__} import made\ndef mine():\n    return made({unit!r}, {kind!r})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "door_models", raising=False)
    files = []
    for name, data in (("before", before), ("after", after)):
        files.append(tmp_path / f"{name}.pt")
        torch.save(data, files[-1])
    asked = ("--target", ",".join(map(str, np.atleast_1d(target))), *(("--output", kind) if output else ()))
    for command in (
        ("explain", "--budget", 3),
        ("blame", "--seconds", 0.2),
        ("report", "--out", tmp_path / "cli.html"),
    ):
        code, shown, complaint = call(command[0], "door_models:mine", *files, *asked, *command[1:])
        assert code == 0, complaint
        assert command[0] == "report" or re.search(SPEAKS[kind], shown)
    code, shown, complaint = call("check", "door_models:mine", files[1], *asked[2:])
    assert code == 0, complaint
    assert "Read exactly" in shown
    code, shown, complaint = call("diff", *files, "--model", "door_models:mine", *asked[2:])
    assert code == 0, complaint
    assert flip in " ".join(shown.split()) if flip else "to another" not in shown


@pytest.mark.parametrize("place", ["link", "graph"])
def test_stored_graphs_say_why_they_have_neither_links_nor_graphs(place, tmp_path):
    unit, _, _, target = PLACES[place]
    stored = []
    for name, data in (("before", OLD), ("after", NEW)):
        axiompath.save_graph(tmp_path / f"{name}.npz", Data(x=data.x, edge_index=data.edge_index))
        stored.append(axiompath.convert_graph(tmp_path / f"{name}.npz", tmp_path / name))
    for links in [None, [target]][: 1 + (unit == "link")]:
        with pytest.raises(InputError, match="a pooled graph takes from every node, and a pair may lie anywhere"):
            axiompath.Explainer(made(unit, "classes"), *stored, links=links)


def test_batches_and_pairs_come_back_from_files(tmp_path):
    batch = BATCHES[0].clone()
    torch.save(batch, tmp_path / "batch.pt")
    batch.graph_id = torch.tensor([7, 9])
    axiompath.save_graph(tmp_path / "batch.npz", batch)
    pairs = Data(x=OLD.x, edge_index=OLD.edge_index, edge_label_index=torch.tensor([[0, 3], [5, 2]]))
    axiompath.save_graph(tmp_path / "pairs.npz", pairs)
    for suffix in (".pt", ".npz"):
        found = axiompath.read_graph(tmp_path / f"batch{suffix}").data
        np.testing.assert_array_equal(found.batch, batch.batch)
    assert found.graph_id.tolist() == [7, 9]
    assert axiompath.read_graph(tmp_path / "pairs.npz").data.edge_label_index.tolist() == [[0, 3], [5, 2]]


def test_names_stand_beside_the_columns_that_they_are_of():
    explainer, _ = opened("node", "binary")
    model, before, after = explainer.session.models[-1], OLD, NEW
    named = axiompath.Explainer(model, before, after, class_names=["never", "ever"])
    assert list(named.attribute(3).to_frame().columns)[-1] == "logit (ever)"
    with pytest.raises(InputError, match=r"a pair of nodes, such as \(3, 8\), .* \(got 3\)"):
        opened("link", "classes")[0].explain(3)

"""Graphs of several node types through every other call: scans, stories, units, reports, undo, the command line."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import HeteroData

import axiompath

WIDTHS = {"author": 2, "paper": 4, "venue": 3}
SIZES = {"author": 6, "paper": 8, "venue": 3}
RELATIONS = (
    ("author", "writes", "paper"),
    ("paper", "by", "author"),
    ("paper", "cites", "paper"),
    ("venue", "prints", "paper"),
)


class Papers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = pyg.HeteroConv({r: pyg.SAGEConv((WIDTHS[r[0]], WIDTHS[r[2]]), 5) for r in RELATIONS})
        self.second = pyg.HeteroConv({r: pyg.SAGEConv((5, 5), 5) for r in RELATIONS if r[0] != "venue"})
        self.last = nn.Linear(5, 3)

    def forward(self, x_dict, edge_index_dict):
        x = {kind: part.relu() for kind, part in self.first(x_dict, edge_index_dict).items()}
        known = {r: edges for r, edges in edge_index_dict.items() if r[0] in x}
        return self.last(self.second(x, known)["paper"])


def make_graphs(seed=0):
    """(before, after, later): named nodes, an edge of every relation more and one less, another feature vector."""
    rng = np.random.default_rng(seed)
    edges = {r: rng.random((SIZES[r[0]], SIZES[r[2]])) < 0.3 for r in RELATIONS}
    features = {kind: rng.normal(size=(SIZES[kind], WIDTHS[kind])) for kind in WIDTHS}
    graphs = []
    for _ in range(3):
        data = HeteroData()
        for kind, x in features.items():
            data[kind].x = torch.from_numpy(x.copy())
            data[kind].name = [f"{kind[0].upper()}{i}" for i in range(SIZES[kind])]
        for r, here in edges.items():
            data[r].edge_index = torch.from_numpy(np.stack(np.nonzero(here)))
        graphs.append(data)
        for r in RELATIONS:
            edges[r] = edges[r].copy()
            edges[r][rng.integers(0, SIZES[r[0]], 2), rng.integers(0, SIZES[r[2]], 2)] ^= True
        features["author"][0] += 1.0
    return graphs


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    found = Papers().double().eval()
    for parameter in found.parameters():
        nn.init.normal_(parameter, std=0.8)
    return found


@pytest.fixture(scope="module")
def graphs():
    return make_graphs()


@pytest.fixture(scope="module")
def explainer(model, graphs):
    return axiompath.Explainer(model, *graphs[:2])


@pytest.fixture(scope="module")
def scanned(explainer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed") / "scan"
    return explainer.scan(folder, min_kl=0.0, workers=1, progress=False, blame=True)


def test_a_scan_holds_what_explain_says_relations_included(explainer, scanned):
    assert scanned.types == tuple(WIDTHS)
    frame = scanned.to_frame().set_index("target")
    assert len(frame) == len(explainer.moved())
    for found in scanned:
        expected = explainer.explain(found.target, 10)
        assert found.relations == expected.relations
        assert found.relations
        assert found.summary() == replace(expected, ask=None).summary()
        assert frame.best_path[found.target] == expected.unit_name(0)
    (number, _) = sorted((int(n), n) for n in frame.index)[0]
    name = found.name
    assert scanned[("paper", name.removeprefix("paper "))].target == found.target
    assert scanned[("paper", found.target // 3)].target == scanned[name].target == found.target
    assert scanned[number].target == number
    with pytest.raises(axiompath.InputError, match=r"a node type among author, paper, venue.*got \('card', 1\)"):
        scanned[("card", 1)]
    with pytest.raises(axiompath.InputError, match=r"that this scan explained \(got \('author', 1\)\)"):
        scanned[("author", 1)]


def test_blame_of_a_scan_names_relations_and_sums_by_them(scanned, tmp_path):
    kinds = scanned.blame().to_frame().kind
    edges = kinds[kinds.str.startswith("edge")]
    assert edges.str.endswith(tuple(f"({r[1]})" for r in RELATIONS)).all()
    by_relation = scanned.blame(by="relation_name").to_frame()
    assert set(by_relation.group) <= {*(r[1] for r in RELATIONS), "none"}
    with pytest.raises(axiompath.InputError, match=r"a column of `changes\(\)` among id, kind"):
        scanned.blame(by="node")
    page = scanned.report(tmp_path / "scan.html").read_text()
    assert any(f"{kind} ({r[1]})" in page for kind in ("edge added", "edge removed") for r in RELATIONS)


def test_reports_and_pictures_name_relations(explainer, tmp_path):
    target = int(explainer.moved().target[0])
    page = axiompath.build_report(explainer, [target])
    for _, _, name in explainer.explain(target, 3).relations:
        assert f"\\u2013{name}\\u2192" in page
    explainer.neighbourhood(target).save(tmp_path / "around.svg")
    assert explainer.explain(target)._repr_html_()
    assert explainer.explain(target, depth="auto").relations


def test_edges_as_units_say_what_they_are_called_and_are_read_again(explainer):
    target = int(explainer.moved().target[0])
    for by in ("edge", "layer_edge"):
        found = explainer.explain(target, by=by)
        assert found.completeness < 1e-9
        told = [found.unit_name(row) for row, (src, dst) in enumerate(found.edges.tolist()) if src != dst and dst >= 0]
        assert told
        assert all(any(f" –{r[1]}→ " in words for r in RELATIONS) for words in told)
        again = axiompath.Explanation.from_dict(found.to_dict())
        assert again.summary() == replace(found, ask=None).summary()


def test_columns_of_features_are_those_of_the_type(explainer, graphs):
    names = {kind: [f"{kind} column {i}" for i in range(width)] for kind, width in WIDTHS.items()}
    for target in explainer.moved().target.tolist():
        found = explainer.features(target, feature_names=names)
        for row in found[found.column >= 0].itertuples():
            kind, own = row.name.split()[0], int(row.name.split()[1][1:])
            assert row.column_name == f"{kind} column {row.column}"
            for side, data in zip((row.before, row.after), graphs[:2], strict=True):
                assert abs(float(data[kind].x[own, row.column]) - side) < 1e-12
    with pytest.raises(axiompath.InputError, match=r"by node type.*2 of author, 4 of paper, 3 of venue"):
        explainer.features(target, feature_names=["a"])


def test_undo_of_typed_changes_is_what_the_model_itself_answers(model, graphs):
    """The fewest changes that give the old class back, put back by hand in the user's own graphs."""
    found = None
    for seed in range(20):
        before, after, _ = make_graphs(seed)
        explainer = axiompath.Explainer(model, before, after)
        moved = explainer.moved()
        flipped = moved[moved.class_before != moved.class_after]
        if len(flipped):
            found = explainer.undo(int(flipped.target.iloc[0]))
            break
    assert found is not None
    assert found.restored
    changes = explainer.changes().set_index("id")
    mixed = after.clone()
    for change in changes.loc[list(found.changes)].itertuples():
        if change.kind == "features changed":
            kind, own = change.src_name.split()
            mixed[kind].x = mixed[kind].x.clone()
            mixed[kind].x[int(own[1:])] = before[kind].x[int(own[1:])]
            continue
        relation = RELATIONS[change.relation]
        pair = torch.tensor([[int(change.src_name.split()[1][1:])], [int(change.dst_name.split()[1][1:])]])
        edges = mixed[relation].edge_index
        kept = edges[:, (edges != pair).any(dim=0)]
        mixed[relation].edge_index = kept if change.kind == "edge added" else torch.cat([kept, pair], dim=1)
    with torch.no_grad():
        own = model(mixed.x_dict, mixed.edge_index_dict)[int(flipped.target.iloc[0]) // 3]
    np.testing.assert_allclose(found.logits, own.numpy(), rtol=0, atol=1e-9)
    assert int(own.argmax()) == int(flipped.class_before.iloc[0])


def test_two_models_and_types_have_blame_whose_shares_sum(graphs, model):
    torch.manual_seed(7)
    old = Papers().double().eval()
    explainer = axiompath.Explainer(model, *graphs[:2], model_before=old)
    target = int(explainer.moved().target[0])
    found = explainer.blame(target)
    assert found.residual < 1e-9
    assert "model retrained" in found.kinds
    assert explainer.changes().kind.tolist()[-1] == "model retrained"


def test_stories_of_typed_graphs_are_complete_and_name_relations(model, graphs):
    stories = axiompath.build_stories(model, graphs)
    assert max(story.residual for story in stories) < 1e-9
    assert stories[0].name.startswith("paper P")
    assert any(step is not None and step.relations for step in stories[0].explanations)
    again = axiompath.Story.from_dict(stories[0].to_dict())
    assert again.summary() == stories[0].summary()
    (one,) = axiompath.build_stories(model, graphs, [stories[0].target])
    assert one.summary() == stories[0].summary()


def test_one_typed_graph_alone_and_a_node_that_came(model, graphs):
    before, after, _ = make_graphs()
    alone = axiompath.Explainer(model, None, after)
    assert alone.attribute(("paper", "P1")).residual < 1e-9
    before["paper"].x, before["paper"].name = before["paper"].x[:7], before["paper"].name[:7]
    for data in (before, after):
        data["paper"].n_id = torch.arange(len(data["paper"].x))
    for r in RELATIONS:
        edges = before[r].edge_index
        fits = torch.ones(edges.shape[1], dtype=torch.bool)
        for row, kind in zip(edges, (r[0], r[2]), strict=True):
            fits &= (row < 7) | (kind != "paper")
        before[r].edge_index = edges[:, fits]
    explainer = axiompath.Explainer(model, before, after)
    assert explainer.attribute(("paper", 7)).residual < 1e-9
    assert "node added" in set(explainer.changes().kind)
    with pytest.raises(axiompath.InputError, match=r"6 of author, 8 of paper, 3 of venue \(got \('paper', 99\)\)"):
        explainer.explain(("paper", 99))


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Three folders of tables, and a module with a model of them."""
    later = ["P,Q\n", "P,Q\nR,Q\n", "P,R\nR,Q\n"]
    for name, cites in zip("abc", later, strict=True):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "nodes.author.csv").write_text("id,age,score\nAda,1,0.5\nBob,2,0.25\n")
        (folder / "nodes.paper.csv").write_text("id,a,b,c\nP,1,0,0\nQ,0,1,0\nR,0,0,1\n")
        (folder / "edges.author.writes.paper.csv").write_text("source,target\nAda,P\nBob,Q\n")
        (folder / "edges.paper.cites.paper.csv").write_text(f"source,target\n{cites}")
    (tmp_path / "typed_model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


MODULE = """
import torch
from torch import nn
from torch_geometric.nn import HeteroConv, SAGEConv

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = HeteroConv(
            {("author", "writes", "paper"): SAGEConv((2, 3), 4), ("paper", "cites", "paper"): SAGEConv((3, 3), 4)}
        )
        self.last = nn.Linear(4, 2)

    def forward(self, x_dict, edge_index_dict):
        return self.last(self.conv(x_dict, edge_index_dict)["paper"].relu())

def build():
    torch.manual_seed(0)
    return Net().eval()
"""


def test_the_command_line_takes_folders_of_types(call, folders):
    model = "typed_model:build"
    code, out, _ = call("check", model, "a")
    assert code == 0
    assert "Read exactly" in out
    assert "data.collect('x')" in " ".join(out.split()).replace(" ", "")
    code, out, _ = call("explain", model, "a", "b", "--target", "paper Q")
    assert code == 0
    assert "–cites→ paper Q" in out
    assert "edge added (cites) paper R → paper Q" in out
    code, out, _ = call("blame", model, "a", "b", "--by", "relation_name")
    assert code == 0
    assert "cites (1 change)" in out
    code, out, _ = call("undo", model, "a", "b")
    assert code == 0
    code, out, _ = call("scan", model, "a", "b", "--out", "s", "--min-kl", "0", "--blame", "--workers", "1")
    assert code == 0
    assert "edge added (cites) paper R → paper Q" in out
    assert axiompath.read_scan("s")["paper Q"].relations
    code, out, _ = call("story", model, "a", "b", "c", "--target", "paper Q")
    assert code == 0
    assert "Node paper Q" in out
    code, _, err = call("explain", model, "a", "b", "--target", "Q")
    assert code == 2
    assert "no node is called that; they are called 'paper Q' and the like" in " ".join(err.split())
    code, _, err = call("convert", "a", "--out", "stored")
    assert code == 2
    assert "holds one table of features and no types" in " ".join(err.split())

"""Models that take edge features: what is explained, blamed and said of an edge that changed."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GINEConv, GraphNorm, NNConv, Sequential, global_add_pool

import axiompath
from support.scans import scan_and_compare

GENERATOR = torch.Generator().manual_seed(3)


class Bonds(nn.Module):
    """Two convolutions over edge features, which an encoder of their own prepares; of nodes, or of whole graphs."""

    def __init__(self, pooled=False):
        super().__init__()
        torch.manual_seed(0)
        self.first = GINEConv(nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 4)), edge_dim=2)
        self.second, self.bond = GINEConv(nn.Linear(4, 3)), nn.Linear(2, 4)
        self.pooled = pooled

    def forward(self, x, edge_index, edge_attr, batch=None):
        h = self.first(x, edge_index, edge_attr).relu()
        h = self.second(h, edge_index, self.bond(edge_attr).relu())
        return global_add_pool(h, batch) if self.pooled else h


def evolution():
    """Edges added, removed, given other features; two parallel ones, of which one changes, and a loop."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 4, 5, 1, 2], [1, 2, 3, 4, 5, 5, 5, 0, 0]])
    before = Data(
        x=torch.rand(6, 3, generator=GENERATOR).double(),
        edge_index=edges,
        edge_attr=torch.rand(9, 2, generator=GENERATOR).double(),
    )
    after = before.clone()
    after.edge_attr[1] += 1.0
    after.edge_attr[5, 0] -= 0.5
    new = torch.rand(1, 2, generator=GENERATOR).double()
    after.edge_index = torch.cat([after.edge_index[:, 1:], torch.tensor([[5], [0]])], dim=1)
    after.edge_attr = torch.cat([after.edge_attr[1:], new])
    return before, after


BEFORE, AFTER = evolution()


@pytest.mark.parametrize("pooled", [False, True])
def test_explanations_are_complete_and_name_their_edges(pooled):
    model = Bonds(pooled).double().eval()
    explainer = axiompath.Explainer(model, BEFORE, AFTER)
    moved = explainer.moved()
    assert set(moved.target) == ({0} if pooled else {0, 1, 2, 3, 5})
    for found in explainer.attribute_many(moved.target):
        assert found.residual < 1e-12
        np.testing.assert_allclose(explainer.replay(found.target, []), found.logits_after, atol=1e-12)
        np.testing.assert_allclose(explainer.replay(found.target, found.paths), found.logits_before, atol=1e-9)
    told = explainer.explain(int(moved.target[0]), 1000)
    names = [told.unit_name(i) for i in range(len(told.paths))]
    assert len(set(names)) == len(names)  # parallel edges stay apart, and an edge from its sender
    assert any(name.startswith("edge (1 → 2)") for name in names) == ("edge feature" in told.kinds)
    again = axiompath.Explanation.from_dict(json.loads(json.dumps(told.to_dict())))
    assert again.summary() == replace(told, ask=None).summary()
    assert again.edge_places == told.edge_places
    carried = told.to_pyg()
    # Each path gives its share to each of its steps; a step from a node to itself over no edge is none.
    assert carried.edge_mask.shape == (AFTER.edge_index.shape[1],)
    assert (0, 1) in carried.lost_edges


def test_an_edge_whose_features_changed_is_a_change_that_is_blamed_and_undone():
    model = Bonds().double().eval()
    explainer = axiompath.Explainer(model, BEFORE, AFTER)
    happened = explainer.changes()
    told = [(kind, src, dst) for kind, src, dst in zip(happened.kind, happened.src, happened.dst, strict=True)]
    assert told == [
        ("edge added", 5, 0),
        ("edge removed", 0, 1),
        ("edge features changed", 1, 2),
        ("edge features changed", 4, 5),
    ]
    own = axiompath.Explainer(model, BEFORE, AFTER, paths=False)
    for target in explainer.moved().target.tolist():
        blame, literal = explainer.blame(target), own.blame(target)
        np.testing.assert_allclose(blame.shares.sum(axis=0), explainer.attribute(target).delta_logits, atol=1e-12)
        known = dict(zip(blame.changes, blame.shares, strict=True))
        for change, share in zip(literal.changes, literal.shares, strict=True):  # the model itself may look further
            np.testing.assert_allclose(known.get(change, 0.0), share, atol=1e-12)
    undone = AFTER.clone()
    undone.edge_attr[0] -= 1.0  # the edge from 1 to 2 is the first now
    with torch.no_grad():
        expected = model(undone.x, undone.edge_index, undone.edge_attr)[3].numpy()
    np.testing.assert_allclose(explainer.what_if(3, undo=[2]), expected, atol=1e-12)


def test_the_cause_of_other_edge_features_alone_is_theirs():
    model, after = Bonds().double().eval(), BEFORE.clone()
    after.edge_attr[2] = torch.tensor([3.0, -1.0])
    explainer = axiompath.Explainer(model, BEFORE, after)
    found = explainer.attribute(4)
    np.testing.assert_allclose(found.causes["edge feature"], found.delta_logits, atol=1e-12)
    assert {axiompath.Explainer(model, BEFORE, after).explain(4).kinds[0]} == {"edge feature"}
    columns = explainer.features(4)
    assert set(columns.name) == {"edge (2 → 3)"}
    shares = columns[[name for name in columns if name.startswith("class_")]].to_numpy()
    np.testing.assert_allclose(shares.sum(axis=0), found.delta_logits, atol=1e-12)


@pytest.mark.parametrize("pooled", [False, True])
def test_stories_find_by_themselves_whose_course_to_tell(pooled):
    """Whoever names no target has all of them ranked by their predictions, on graphs whose edges are places."""
    last = AFTER.clone()
    last.edge_attr[0] -= 2.0
    last.x[2] += 1.0
    stories = axiompath.build_stories(Bonds(pooled).double().eval(), [BEFORE, AFTER, last])
    assert {story.target for story in stories} == ({0} if pooled else {0, 1, 2, 3, 4, 5})
    assert max(story.residual for story in stories) < 1e-9


@pytest.mark.parametrize("pooled", [False, True])
def test_a_scan_holds_the_edges_on_its_paths(tmp_path, pooled):
    explainer = axiompath.Explainer(Bonds(pooled).double().eval(), BEFORE, AFTER)
    assert any(told.edge_places for told in scan_and_compare(explainer, tmp_path / "scan", 5))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data.update({"edge_attr": torch.rand(9, 3)}), r"edge features of the same width \(got 2 in"),
        (lambda data: data.update({"edge_attr": None}), "asks for `edge_attr`, which `after` does not have"),
        (lambda data: data.update({"edge_attr": data.edge_attr[:4]}), "holds? one row per edge|could not be run"),
        (lambda data: data.edge_attr.__setitem__((0, 0), float("nan")), "finite edge features|NaN"),
    ],
)
def test_edge_features_that_do_not_fit_are_refused_in_a_sentence(spoil, words):
    after = AFTER.clone()
    spoil(after)
    if after.edge_attr is None:
        del after.edge_attr
    with pytest.raises(axiompath.InputError, match=words):
        axiompath.Explainer(Bonds().double().eval(), BEFORE, after)


def test_norms_over_a_graph_are_of_its_nodes_beside_edges_and_refused_of_edges():
    """What stands in the rows of edges is no part of a mean over nodes, and edges have none that is read."""

    def given(inside, norm):
        steps = [
            (NNConv(3, 4, inside), "x, edge_index, edge_attr -> x"),
            (norm, "x -> x"),
            (GINEConv(nn.Linear(4, 3), edge_dim=2), "x, edge_index, edge_attr -> x"),
        ]
        torch.manual_seed(0)
        return Sequential("x, edge_index, edge_attr", steps).double().eval()

    explainer = axiompath.Explainer(given(nn.Linear(2, 12), GraphNorm(4)), BEFORE, AFTER)
    found = list(explainer.attribute_many(explainer.moved().target))
    assert max(one.residual for one in found) < 1e-12
    inside = nn.Sequential(nn.Linear(2, 12), GraphNorm(12))
    explainer = axiompath.Explainer(given(inside, nn.ReLU()), BEFORE, AFTER)  # read by its operations
    assert max(explainer.attribute(target).residual for target in explainer.moved().target[:3].tolist()) < 1e-9


class Kinds(nn.Module):
    """Bonds whose kinds are whole numbers, in one column or in two, each with rows of its own."""

    def __init__(self, columns):
        super().__init__()
        torch.manual_seed(1)
        self.rows = nn.ModuleList(nn.Embedding(4, 3) for _ in range(columns))
        self.first, self.second = GINEConv(nn.Linear(3, 3)), GINEConv(nn.Linear(3, 3))

    def forward(self, x, edge_index, edge_attr):
        columns = [edge_attr] if edge_attr.dim() == 1 else [edge_attr[:, i] for i in range(len(self.rows))]
        told = sum(rows(column) for rows, column in zip(self.rows, columns, strict=True))
        return self.second(self.first(x, edge_index, told).relu(), edge_index, told)


@pytest.mark.parametrize("columns", [1, 2])
def test_kinds_of_edges_are_looked_up_as_molecules_have_them(columns):
    before, after = BEFORE.clone(), AFTER.clone()
    for data in (before, after):
        kinds = torch.arange(9)[:, None] % torch.tensor([4, 3])[:columns]
        data.edge_attr = kinds[:, 0] if columns == 1 else kinds
    after.edge_index, after.edge_attr = before.edge_index, before.edge_attr.clone()
    after.edge_attr[4] = 3
    explainer = axiompath.Explainer(Kinds(columns).double().eval(), before, after)
    assert explainer.changes().kind.tolist() == ["edge features changed"]
    for found in explainer.explain_many(explainer.moved().target, 5, progress=False):
        assert found.completeness < 1e-9
        assert {cause for cause, shares in found.causes.items() if np.abs(shares).max() > 1e-12} == {"edge feature"}
    assert explainer.blame(5).residual < 1e-9


def test_units_of_edges_are_refused():
    explainer = axiompath.Explainer(Bonds().double().eval(), BEFORE, AFTER)
    with pytest.raises(axiompath.InputError, match="messages that go from node to node for edges as units"):
        explainer.explain(0, by="edge")


def test_files_hold_edge_features(tmp_path):
    saved = axiompath.read_graph(axiompath.save_graph(tmp_path / "graph.npz", BEFORE)).data
    np.testing.assert_array_equal(saved.edge_attr, BEFORE.edge_attr)
    torch.save(BEFORE.to_dict(), tmp_path / "graph.pt")
    np.testing.assert_array_equal(axiompath.read_graph(tmp_path / "graph.pt").data.edge_attr, BEFORE.edge_attr)
    told = {f"edge_attr_{name}": BEFORE.edge_attr[:, i].numpy() for i, name in enumerate(("length", "order"))}
    edges = pd.DataFrame({"source": BEFORE.edge_index[0], "target": BEFORE.edge_index[1], **told})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    pd.DataFrame(BEFORE.x.numpy(), columns=["a", "b", "c"]).rename_axis("id").to_csv(tmp_path / "nodes.csv")
    read = axiompath.read_graph(tmp_path).data
    np.testing.assert_allclose(read.edge_attr, BEFORE.edge_attr, rtol=1e-6)
    edges.drop(columns="edge_attr_order").assign(edge_attr_order="wide").to_csv(tmp_path / "edges.csv", index=False)
    with pytest.raises(axiompath.InputError, match="edge_attr_order"):
        axiompath.read_graph(tmp_path)

"""A model is read as its user calls it: with every field of Data that it takes, or refused by the field's name."""

import threading
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GCNConv,
    GraphConv,
    LayerNorm,
    SAGEConv,
    TGNMemory,
)
from torch_geometric.nn import Sequential as PyGSequential
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator
from torch_geometric.utils import to_dense_adj

import axiompath
from axiompath import InputError
from axiompath.explain.replay import exist_in_either
from axiompath.metrics import kl_divergence
from axiompath.pyg import PyGAlgorithm
from axiompath.readers import UnreadableModel


def snapshots(seed=0, num_nodes=30, num_edges=120, **fields):
    """Two graphs, six edges of which differ; each field is a function of (num_nodes, num_edges)."""
    torch.manual_seed(seed)
    x, edges = torch.randn(num_nodes, 4, dtype=torch.float64), torch.randint(num_nodes, (2, num_edges + 6))
    made = []
    for chosen in (slice(0, num_edges), slice(6, num_edges + 6)):
        data = Data(x=x, edge_index=edges[:, chosen])
        for name, make in fields.items():
            data[name] = make(num_nodes, num_edges)
        made.append(data)
    return made


def one_an_edge(num_nodes, num_edges):
    return torch.rand(num_edges, dtype=torch.float64) + 0.1


def column_an_edge(num_nodes, num_edges):
    return torch.rand(num_edges, 1, dtype=torch.float64) + 0.1


def three_an_edge(num_nodes, num_edges):
    return torch.rand(num_edges, 3, dtype=torch.float64)


def two_a_node(num_nodes, num_edges):
    return torch.randn(num_nodes, 2, dtype=torch.float64)


def assert_of_this_call(explainer, before, after, answer):
    """Logits and moved nodes are those of answer(data), the model as the user calls it."""
    with torch.no_grad():
        logits = [answer(data).double().numpy() for data in (before, after)]
    for ours, theirs in zip((explainer.change.before_pass, explainer.change.after_pass), logits, strict=True):
        np.testing.assert_allclose(ours.logits, theirs, rtol=1e-9, atol=1e-11)
    moved = set(np.flatnonzero(explainer.change.output.divergence(logits[1], logits[0]) > 1e-12).tolist())
    found = explainer.moved()
    assert moved <= set(found.target)
    assert set(found.target[found.kl > 1e-12]) == moved
    for node in found.target[:5]:
        assert explainer.attribute(int(node)).residual < 1e-10
    return explainer


class TwoLayers(nn.Module):
    def __init__(self, kind=GCNConv, width=4):
        super().__init__()
        torch.manual_seed(1)
        self.conv1, self.conv2 = kind(width, 6), kind(6, 3)


class WeightsByAttr(TwoLayers):
    def forward(self, x, edge_index, edge_attr=None):
        return self.conv2(self.conv1(x, edge_index, edge_attr).relu(), edge_index, edge_attr)


class WeightsFromData(TwoLayers):
    def forward(self, data):
        x, edge_index, weight = data.x, data.edge_index.long(), data.edge_attr.squeeze(-1).to(data.x.dtype)
        return self.conv2(self.conv1(x, edge_index, weight).relu(), edge_index, edge_weight=weight)


class WeightsOptional(TwoLayers):
    def forward(self, x, edge_index, edge_weight=None, batch=None):
        return self.conv2(self.conv1(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


class OddName(TwoLayers):
    def forward(self, features, adj, weights=None):
        return self.conv2(self.conv1(features, adj, weights).relu(), adj, weights)


class Positions(TwoLayers):
    def __init__(self):
        super().__init__(width=6)
        self.lift = nn.Linear(2, 6)

    def forward(self, data):
        h = self.conv1(torch.cat([data.x, data.pos], dim=1), data.edge_index).relu()
        return self.conv2(h + self.lift(data.pos), data.edge_index)


class AnyArguments(TwoLayers):
    def forward(self, *args, **kwargs):
        x, edge_index = args
        return self.conv2(self.conv1(x, edge_index, **kwargs).relu(), edge_index, **kwargs)


class KeywordsOnly(TwoLayers):
    def forward(self, *, edge_index, x, edge_weight=None):
        return self.conv2(self.conv1(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


class Scaled(TwoLayers):
    def forward(self, data):
        return self.conv2(self.conv1(data.x * data.scale, data.edge_index).relu(), data.edge_index)


READ = {
    "edge_attr as weights": (WeightsByAttr, {"edge_attr": one_an_edge}, lambda m, d: m(d.x, d.edge_index, d.edge_attr)),
    "a column of weights": (
        WeightsByAttr, {"edge_attr": column_an_edge}, lambda m, d: m(d.x, d.edge_index, d.edge_attr),
    ),
    "weights beside weights": (
        WeightsByAttr, {"edge_attr": one_an_edge, "edge_weight": one_an_edge},
        lambda m, d: m(d.x, d.edge_index, d.edge_attr),
    ),
    "edge_attr from Data": (WeightsFromData, {"edge_attr": column_an_edge}, lambda m, d: m(d)),
    "edge_attr not given": (WeightsByAttr, {}, lambda m, d: m(d.x, d.edge_index)),
    "optional weights": (
        WeightsOptional, {"edge_weight": one_an_edge}, lambda m, d: m(d.x, d.edge_index, d.edge_weight),
    ),
    "names of one's own": (OddName, {"weights": one_an_edge}, lambda m, d: m(d.x, d.edge_index, d.weights)),
    "a batch that nothing reads": (
        WeightsOptional, {"batch": lambda n, e: torch.zeros(n, dtype=torch.long)},
        lambda m, d: m(d.x, d.edge_index, batch=d.batch),
    ),
    "another field of each node": (Positions, {"pos": two_a_node}, lambda m, d: m(d)),
    "labels and masks": (
        WeightsOptional,
        {"y": lambda n, e: torch.randint(3, (n,)), "train_mask": lambda n, e: torch.rand(n) < 0.5},
        lambda m, d: m(d.x, d.edge_index),
    ),
    "any arguments": (AnyArguments, {}, lambda m, d: m(d.x, d.edge_index)),
    "keywords only": (
        KeywordsOnly, {"edge_weight": one_an_edge},
        lambda m, d: m(x=d.x, edge_index=d.edge_index, edge_weight=d.edge_weight),
    ),
    "a constant of both graphs": (Scaled, {"scale": lambda n, e: torch.tensor([0.7])}, lambda m, d: m(d)),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_a_model_is_explained_as_its_user_calls_it(case):
    kind, fields, call = READ[case]
    model = kind().double().eval()
    before, after = snapshots(**fields)
    explainer = assert_of_this_call(
        axiompath.Explainer(model, before, after), before, after, lambda data: call(model, data)
    )
    assert axiompath.check(model, after).readable
    said = axiompath.Explainer(model, before, after, call=call)
    np.testing.assert_array_equal(said.change.after_pass.logits, explainer.change.after_pass.logits)


@pytest.mark.parametrize("case", READ)
def test_replaying_edges_runs_the_same_call(case):
    """All edges of a node's paths exchanged: what the model says of the other snapshot, up to what lies further off."""
    kind, fields, call = READ[case]
    model = kind().double().eval()
    before, after = snapshots(**fields)
    explainer = axiompath.Explainer(model, before, after, call=call)
    node = int(explainer.moved().target[0])
    with torch.no_grad():
        theirs = call(model, after)[node].numpy()
    np.testing.assert_allclose(explainer.replay_edges(node, np.zeros((0, 3), dtype=int)), theirs, atol=1e-12)
    every = np.array([[u, v, node] for u in range(30) for v in range(30)])
    paths = every[exist_in_either(explainer.change, every)]
    replayed = explainer.replay_edges(node, paths)
    with torch.no_grad():
        np.testing.assert_allclose(replayed, call(model, _exchanged(before, after, paths))[node], atol=1e-12)


def _exchanged(before, after, paths):
    """`after`, where the edges of these paths, and all that is said of them, are those of `before`."""
    steps = {step for path in paths.tolist() for step in pairwise(path)}
    comes = torch.tensor([tuple(edge) in steps for edge in before.edge_index.T.tolist()])
    stays = torch.tensor([tuple(edge) not in steps for edge in after.edge_index.T.tolist()])
    mixed = after.clone()
    mixed.edge_index = torch.cat([after.edge_index[:, stays], before.edge_index[:, comes]], dim=1)
    for key in ("edge_attr", "edge_weight", "weights"):
        if key in before:
            mixed[key] = torch.cat([after[key][stays], before[key][comes]])
    return mixed


def test_a_matched_pair_is_compared_in_the_users_own_order_of_rows():
    before, after = snapshots(pos=two_a_node, edge_attr=one_an_edge)
    order = torch.randperm(30)
    place = torch.argsort(order)
    after = Data(x=after.x[order], pos=after.pos[order], edge_index=place[after.edge_index], edge_attr=after.edge_attr)
    before.n_id, after.n_id = torch.arange(30) + 100, order + 100
    model = Positions().double()
    explainer = axiompath.Explainer(model, before, after)
    with torch.no_grad():
        theirs = model(after)
    np.testing.assert_allclose(explainer.change.after_pass.logits[order], theirs, atol=1e-12)


def test_a_changed_field_of_a_node_is_a_changed_feature():
    before, after = snapshots(pos=two_a_node)
    after = before.clone()
    after.pos = before.pos.clone()
    after.pos[3] += 1
    model = Positions().double().eval()
    explainer = assert_of_this_call(axiompath.Explainer(model, before, after), before, after, model)
    found = explainer.attribute(int(explainer.moved().target[0]))
    assert set(found.paths[:, 0]) == {3}


def test_large_graphs_are_sampled_with_all_their_fields(monkeypatch):
    fields = {"edge_attr": column_an_edge, "pos": two_a_node, "y": lambda n, e: torch.randint(3, (n,))}
    before, after = snapshots(num_nodes=400, num_edges=3000, **fields)
    order = torch.randperm(400)
    after = Data(
        x=after.x[order], pos=after.pos[order], y=after.y[order], edge_attr=after.edge_attr,
        edge_index=torch.argsort(order)[after.edge_index],
    )  # fmt: skip
    before.n_id, after.n_id = torch.arange(400), order

    class Both(Positions):
        def forward(self, data):
            weight = data.edge_attr.view(-1)
            h = self.conv1(torch.cat([data.x, data.pos], dim=1), data.edge_index, weight).relu()
            return self.conv2(h + self.lift(data.pos), data.edge_index, weight)

    model = Both().double().eval()
    whole = axiompath.Explainer(model, before, after).moved()
    monkeypatch.setattr("axiompath.readers.model.WHOLE_EDGES", 1000)
    monkeypatch.setattr("axiompath.graphs.sample.MAX_EDGES", 800)
    monkeypatch.setattr("axiompath.graphs.sample.NUM_SEEDS", 20)
    explainer = axiompath.Explainer(model, before, after)
    assert explainer.moved().equals(whole)
    with torch.no_grad():
        np.testing.assert_allclose(explainer.change.after_pass.logits[order], model(after), atol=1e-11)
        np.testing.assert_allclose(explainer.change.before_pass.logits, model(before), atol=1e-11)


def test_stories_scans_and_pyg_pass_the_call_on(tmp_path):
    fields = {"edge_attr": one_an_edge}
    graphs = [*snapshots(**fields), snapshots(1, **fields)[0]]
    graphs[2].x = graphs[0].x
    model = OddName().double().eval()

    def call(model, data):
        return model(data.x, data.edge_index, weights=data.edge_attr)

    with torch.no_grad():
        logits = [call(model, data).numpy() for data in graphs]
    stories = axiompath.build_stories(model, graphs, budget=3, call=call, top=2)
    for story in stories:
        np.testing.assert_allclose(story.logits, [answer[story.target] for answer in logits], atol=1e-11)
    ranked = np.sum([kl_divergence(new, old) for old, new in pairwise(logits)], axis=0)
    flips = np.sum([new.argmax(1) != old.argmax(1) for old, new in pairwise(logits)], axis=0)
    assert [story.target for story in stories] == np.lexsort((-ranked, -flips))[:2].tolist()
    scans = list(axiompath.scan_sequence(model, graphs, tmp_path, call=call, workers=1, progress=False))
    for scan, (old, new) in zip(scans, pairwise(logits), strict=True):
        frame = scan.moved()
        np.testing.assert_allclose(frame.kl, kl_divergence(new, old)[frame.target], atol=1e-11)
    from torch_geometric.explain import Explainer as PyGExplainer

    settings = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    named = WeightsByAttr().double().eval()
    explainer = PyGExplainer(
        named, PyGAlgorithm(graphs[0], budget=2), explanation_type="model", edge_mask_type="object",
        model_config=settings,
    )  # fmt: skip
    found = explainer(graphs[1].x, graphs[1].edge_index, edge_attr=graphs[1].edge_attr, index=4)
    with torch.no_grad():
        theirs = named(graphs[1].x, graphs[1].edge_index, graphs[1].edge_attr)[4]
    np.testing.assert_allclose(found.explanations[0].logits_after, theirs, atol=1e-11)


def test_a_graph_with_as_many_edges_as_nodes_is_no_trap():
    before, after = snapshots(num_nodes=30, num_edges=30, weights=one_an_edge, pos=two_a_node)
    model = OddName().double().eval()
    explainer = axiompath.Explainer(model, before, after)
    assert_of_this_call(explainer, before, after, lambda d: model(d.x, d.edge_index, d.weights))
    node = int(explainer.moved().target[0])
    paths = explainer.attribute(node).paths
    with torch.no_grad():
        kept = model(after.x, after.edge_index, after.weights)[node]
    assert np.abs(explainer.replay_edges(node, paths) - kept.numpy()).max() > 1e-6


def test_the_users_graphs_are_left_as_they_were():
    class Writes(TwoLayers):
        def forward(self, data):
            data.x = self.conv1(data.x, data.edge_index).relu_()
            data.seen = data.pos.mul_(2)
            return self.conv2(data.x, data.edge_index)

    before, after = snapshots(pos=two_a_node)
    kept = [{key: value.clone() for key, value in data.to_dict().items()} for data in (before, after)]
    axiompath.Explainer(Writes().double(), before, after)
    for data, was in zip((before, after), kept, strict=True):
        assert data.to_dict().keys() == was.keys()
        assert all(torch.equal(data[key], was[key]) for key in was)


def test_fields_of_one_snapshot_that_nothing_reads_do_no_harm():
    class Moves(TwoLayers):
        def forward(self, data):
            data = data.to("cpu").clone()
            return self.conv2(self.conv1(data.x, data.edge_index).relu(), data.edge_index)

    before, after = snapshots(edge_attr=three_an_edge)
    before.target, after.pos, after.edge_type = torch.rand(30, 1), torch.rand(30, 2), torch.zeros(120)
    model = Moves().double().eval()
    assert_of_this_call(axiompath.Explainer(model, before, after), before, after, model)


def test_models_of_pyg_that_ignore_edge_features_may_be_given_them():
    before, after = snapshots(edge_attr=three_an_edge, edge_weight=one_an_edge)
    for model in (GAT(4, 6, 2, 3, heads=2), GCN(4, 6, 2, 3)):
        model = model.double().eval()
        explainer = axiompath.Explainer(model, before, after)
        assert_of_this_call(
            explainer, before, after, lambda d, m=model: m(d.x, d.edge_index, d.edge_weight, d.edge_attr)
        )
        assert "edge_attr" in axiompath.check(GCN(4, 6, 2, 3).double(), before).unused


def test_settings_that_differ_are_named_where_the_answer_differs():
    class Times(TwoLayers):
        def forward(self, data):
            return self.conv2(self.conv1(data.x * data.factor, data.edge_index).relu(), data.edge_index)

    before, after = snapshots()
    before.factor, after.factor = 2.0, 3.0
    with pytest.raises(UnreadableModel, match=r"The two graphs differ in `factor`, too"):
        axiompath.Explainer(Times().double(), before, after)
    after.factor = 2.0
    axiompath.Explainer(Times().double(), before, after)


# ---- what check says ----------------------------------------------------------------------------------------------
def test_check_lists_unused_fields_and_arguments_that_kept_their_default():
    data, _ = snapshots(edge_attr=three_an_edge, y=lambda n, e: torch.zeros(n, dtype=torch.long))
    found = axiompath.check(WeightsOptional().double(), data)
    assert found.readable
    assert found.unused == ("edge_attr", "y")
    assert found.defaults == ("edge_weight", "batch")
    assert found.call == "model(x, edge_index)"
    for words in ("does not depend on: edge_attr, y.", "kept their default, for want of a field: edge_weight, batch."):
        assert words in str(found)
        assert words in found._repr_html_()
    data.edge_weight = one_an_edge(30, 120)
    found = axiompath.check(WeightsOptional().double(), data)
    assert found.defaults == ("batch",)
    assert found.call == "model(x, edge_index, edge_weight=edge_weight)"
    whole = axiompath.check(WeightsFromData().double(), snapshots(edge_attr=column_an_edge, y=one_an_edge)[0])
    assert (whole.call, whole.unused, whole.defaults) == ("model(data)", ("y",), ())


# ---- what is refused, by name -------------------------------------------------------------------------------------
def written(forward, *parts):
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.parts = nn.ModuleList(parts or [GCNConv(4, 3)])

        def forward(self, data):
            return forward(self.parts, data)

    return Written().double().eval()


def mlp(width, out=4):
    return nn.Sequential(nn.Linear(width, out), nn.ReLU(), nn.Linear(out, out))


class Needs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 3)

    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index, edge_weight)


FIELDS = {
    "edge_attr": three_an_edge, "edge_weight": one_an_edge, "mask": lambda n, e: torch.rand(n) < 0.5,
    "group": lambda n, e: torch.randint(4, (n,)), "level": lambda n, e: torch.rand(n, dtype=torch.float64),
    "pos": two_a_node, "factor": lambda n, e: torch.rand(1, dtype=torch.float64),
    "batch": lambda n, e: torch.zeros(n, dtype=torch.long),
    "adj": lambda n, e: torch.eye(n, dtype=torch.float64).to_sparse(),
}  # fmt: skip
REFUSED = {
    "weights made of edge features": (
        written(lambda p, d: p[0](d.x, d.edge_index, d.edge_attr.mean(1))),
        r"parts\.0 \(GCNConv\): expected the edge_weight.*got one made of `edge_attr`.*into `edge_weight`",
    ),
    "a column of edge features": (
        written(lambda p, d: p[0](d.x, d.edge_index, d.edge_attr[:, 0])), r"got one made of `edge_attr`",
    ),
    "two fields of weights": (
        written(lambda p, d: p[1](p[0](d.x, d.edge_index, d.edge_weight), d.edge_index, d.other), GCNConv(4, 4),
                GCNConv(4, 3)),
        r"parts\.1 \(GCNConv\): expected one field as `edge_weight` .*`edge_weight`, `other`",
    ),
    "masked features": (written(lambda p, d: p[0](d.x * d.mask.view(-1, 1), d.edge_index)), "reads `mask`, which"),
    "picked nodes": (written(lambda p, d: p[0](d.x, d.edge_index)[d.mask]), "one row of logits for each of 30"),
    "an embedding of groups": (
        written(lambda p, d: p[1](d.x + p[0](d.group), d.edge_index), nn.Embedding(4, 4), GCNConv(4, 3)), r"`group`",
    ),
    "a number of each node": (written(lambda p, d: p[0](d.x + d.level.view(-1, 1), d.edge_index)), r"`level`"),
    "a field that differs": (written(lambda p, d: p[0](d.x * d.factor, d.edge_index)), r"`factor`"),
    "a decision on a field": (
        written(lambda p, d: p[0](d.x, d.edge_index) if bool(d.mask.any()) else d.x), r"looks at the values of `mask`",
    ),
    "a sparse matrix of edges": (
        written(lambda p, d: p[0](d.x, d.adj)), r"parts\.0 \(GCNConv\): .*got a sparse matrix",
    ),
}  # fmt: skip


# What these do to fields only their operations say.
READ_BY_OPERATIONS = (
    "weights made of edge features", "a column of edge features", "two fields of weights", "a decision on a field",
    "a sparse matrix of edges",
)  # fmt: skip


# What changed there cannot be listed, which one graph does not show.
SEEN_ON_TWO_GRAPHS = ("a field that differs", "masked features", "an embedding of groups", "a number of each node")


@pytest.mark.parametrize("case", READ_BY_OPERATIONS)
def test_a_field_that_no_class_reader_follows_is_read_by_its_operations(case):
    model, _ = REFUSED[case]
    before, after = snapshots(**FIELDS, other=one_an_edge)
    explainer = axiompath.Explainer(model, before, after)
    for target in explainer.moved().target[:3]:
        found = explainer.attribute(int(target))
        change = found.logits_after - found.logits_before
        np.testing.assert_allclose(found.contributions.sum(axis=0), change, atol=1e-9)
    assert axiompath.check(model, before).readable


@pytest.mark.parametrize("case", [case for case in REFUSED if case not in READ_BY_OPERATIONS])
def test_a_field_that_cannot_be_read_is_refused_by_name(case):
    model, words = REFUSED[case]
    before, after = snapshots(**FIELDS, other=one_an_edge)
    with pytest.raises(UnreadableModel, match=words):
        axiompath.Explainer(model, before, after)
    if case not in SEEN_ON_TWO_GRAPHS:
        checked = axiompath.check(model, before)
        assert not checked.readable


def test_what_one_snapshot_lacks_is_said():
    before, after = snapshots(edge_attr=one_an_edge, pos=two_a_node)
    bare = Data(x=after.x, edge_index=after.edge_index)
    with pytest.raises(InputError, match=r"`edge_attr`, an argument .*`before` has it, `after` has not.*add it to"):
        axiompath.Explainer(WeightsByAttr().double(), before, bare)
    with pytest.raises(InputError, match=r"`after` has it, `before` has not"):
        axiompath.Explainer(WeightsByAttr().double(), bare, before)
    with pytest.raises(InputError, match=r"Expected `pos`, which the model reads, .*`after` has none"):
        axiompath.Explainer(Positions().double(), before, bare)
    with pytest.raises(UnreadableModel, match=r"`before` has no `edge_attr`, `pos`, which the other graph has"):
        axiompath.Explainer(Positions().double(), bare, before)
    after.y = torch.zeros(30)  # that nothing reads
    axiompath.Explainer(Positions().double(), before, after)


def test_an_argument_that_the_graph_lacks_is_named_with_what_to_do():
    before, after = snapshots()
    words = r"asks for `edge_weight`, which `before` does not have \(its fields are `edge_index`, `x`\).*add it.*call="
    with pytest.raises(UnreadableModel, match=words):
        axiompath.Explainer(Needs().double(), before, after)
    ones = axiompath.Explainer(
        GCN(4, 6, 2, 3).double(), before, after, call=lambda model, data: model(data.x, data.edge_index)
    )
    assert len(ones.moved())


def test_open_arguments_and_fields_of_edges_need_a_call():
    before, after = snapshots(edge_weight=one_an_edge)
    model = AnyArguments().double().eval()
    with pytest.raises(UnreadableModel, match=r"takes any arguments.*`edge_weight` of `before`; say it with `call="):
        axiompath.Explainer(model, before, after)

    def call(model, data):
        return model(data.x, data.edge_index, edge_weight=data.edge_weight)

    assert_of_this_call(
        axiompath.Explainer(model, before, after, call=call), before, after, lambda data: call(model, data)
    )
    with pytest.raises(InputError, match=r"`call` to be a function .*got str"):
        axiompath.Explainer(model, before, after, call="forward")


def test_sequential_models_of_pyg_say_what_they_take():
    steps = [(GraphConv(4, 6), "x, edge_index, w -> x"), nn.ReLU(), (GraphConv(6, 3), "x, edge_index, w -> x")]
    model = PyGSequential("x, edge_index, w", steps).double().eval()
    before, after = snapshots(w=one_an_edge)
    explainer = axiompath.Explainer(model, before, after)
    assert_of_this_call(explainer, before, after, lambda d: model(d.x, d.edge_index, d.w))


def test_adj_t_in_place_of_edge_index_is_said():
    before, after = snapshots()
    alone = Data(x=before.x, adj_t=torch.eye(30).to_sparse())
    with pytest.raises(UnreadableModel, match=r"asks for `edge_weight`, which `before` does not have"):
        axiompath.Explainer(Needs(), alone, after)  # the edges are there; what the model weighs them by is not

    class ByMatrix(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(4, 3)

        def forward(self, x, adj_t):
            return self.conv(x, adj_t)

    model = ByMatrix().double().eval()
    assert_of_this_call(axiompath.Explainer(model, before, after), before, after, lambda d: model(d.x, d.edge_index))
    for data in (before, after):
        data.adj_t = torch.sparse_coo_tensor(data.edge_index.flip(0), torch.ones(120, dtype=torch.float64), (30, 30))
    with pytest.raises(UnreadableModel, match=r"reads `adj_t`, which differs between the two graphs"):
        axiompath.Explainer(model, before, after)


# ---- how people write forward -------------------------------------------------------------------------------------
def taking(signature, body="return self.conv(x, edge_index)", **parts):
    """A model whose forward has this signature and body."""
    made = {"torch": torch, "Data": Data, "Batch": Batch, "Tensor": torch.Tensor}
    exec(f"def forward(self, {signature}):\n    {body}", made)
    torch.manual_seed(3)
    model = type("Taking", (nn.Module,), {"forward": made["forward"]})()
    for name, part in ({"conv": GCNConv(4, 3)} | parts).items():
        setattr(model, name, part)
    return model.double().eval()


OF_DATA = "return self.conv({0}.x, {0}.edge_index)"
ZEROS = {"batch": lambda n, e: torch.zeros(n, dtype=torch.long)}
CALLED = {
    "g for the Data": (taking("g", OF_DATA.format("g")), {}, "model(data)"),
    "inputs for the Data": (taking("inputs", OF_DATA.format("inputs")), {}, "model(data)"),
    "batch for the Data": (taking("batch", OF_DATA.format("batch")), {}, "model(data)"),
    "batch for a Batch": (taking("batch", OF_DATA.format("batch")), ZEROS, "model(data)"),
    "batch as annotated": (taking("batch: 'Batch'", OF_DATA.format("batch")), ZEROS, "model(data)"),
    "an option beside the Data": (taking("graph, flag=True", OF_DATA.format("graph")), {}, "model(data)"),
    "an optional Data": (taking("one: 'Data | None', two=3", OF_DATA.format("one")), {}, "model(data)"),
    "Data and a field": (taking("g, x", "return self.conv(x, g.edge_index)"), {}, "model(data, x=x)"),
    "Data and keywords": (taking("data, **kwargs", OF_DATA.format("data")), {}, "model(data)"),
    "features and edges": (taking("feats, ei", "return self.conv(feats, ei)"), {}, "model(x, edge_index)"),
    "hidden features": (taking("h, edge_index", "return self.conv(h, edge_index)"), {}, "model(x, edge_index)"),
    "edges first": (taking("ei, x", "return self.conv(x, ei)"), {}, "model(edge_index, x)"),
    "edges by name first": (taking("edge_index, z", "return self.conv(z, edge_index)"), {}, "model(edge_index, x)"),
    "a state between": (taking("x, h=None, edge_index=None"), {}, "model(x, edge_index=edge_index)"),
    "an option that is no field": (taking("x, edge_index, training=False"), {}, "model(x, edge_index)"),
    "a keyword": (
        taking("x, edge_index, *, w", "return self.conv(x, edge_index, w)"), {"w": one_an_edge},
        "model(x, edge_index, w=w)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLED)
def test_every_argument_receives_what_its_name_says(case):
    model, fields, written_call = CALLED[case]
    before, after = snapshots(**fields)
    assert axiompath.check(model, before).call == written_call
    explainer = axiompath.Explainer(model, before, after)
    assert_of_this_call(explainer, before, after, lambda d: model.conv(d.x, d.edge_index, d.get("w")))


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("n_id, edge_index", "n_id"), ("n_id", "n_id"), ("pos, edge_index", "pos"), ("x, edge_weight", "edge_weight"),
        ("x, edge_attr", "edge_attr"), ("x, h", "h"), ("g, feats", "feats"), ("*, data", "data"),
        ("*, features, ei", "features"), ("x, row, col", "col"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("paths", [True, False])
def test_an_argument_named_after_what_the_graph_lacks_is_never_guessed(signature, name, paths):
    model = taking(signature, "raise AssertionError('called')")
    words = rf"asks for `{name}`, which .* \(its fields are `edge_index`, `x`\).*`call=lambda model, data: ...`"
    with pytest.raises(UnreadableModel, match=words) as caught:
        axiompath.Explainer(model, *snapshots(), paths=paths)
    assert "paths=False" not in str(caught.value)


def test_a_single_argument_named_after_a_field_receives_that_field():
    before, after = snapshots()
    after.edge_index = before.edge_index[:, 3:]
    model = taking("edge_index", "return self.conv(self.emb.weight, edge_index)", emb=nn.Embedding(30, 4))
    explainer = axiompath.Explainer(model, before, after)
    with torch.no_grad():
        theirs = model(after.edge_index) - model(before.edge_index)
    target = int(explainer.moved().target[0])
    np.testing.assert_allclose(explainer.attribute(target).contributions.sum(axis=0), theirs[target], atol=1e-6)
    explainer = axiompath.Explainer(model, before, after, paths=False)
    np.testing.assert_allclose(explainer.blame(target).shares.sum(axis=0), theirs[target], atol=1e-9)
    assert axiompath.check(taking("x", "return self.lin(x)", lin=nn.Linear(4, 3)), before).call == "model(x)"
    misnamed = taking("x", OF_DATA.format("x"))
    with pytest.raises(
        UnreadableModel, match=r"run as model\(x\).*a Data object, .*`call=lambda model, data: model\(data"
    ):
        axiompath.Explainer(misnamed, before, after)
    assert len(axiompath.Explainer(misnamed, before, after, call=lambda model, data: model(data)).moved())


@pytest.mark.parametrize("hidden", ["", ", None", ", h", ", torch.ones(len(x), 3).double()"])
def test_a_gru_starts_from_zeros_or_from_a_constant(hidden):
    model = taking(
        "x, edge_index, h=None", f"return self.cell(self.conv(x, edge_index){hidden})", cell=nn.GRUCell(3, 3)
    )
    before, after = snapshots()
    assert_of_this_call(axiompath.Explainer(model, before, after), before, after, lambda d: model(d.x, d.edge_index))


def test_a_gru_starts_from_states_that_the_model_keeps():
    body = "return self.cell(self.conv(x, edge_index), self.emb.weight)"
    model = taking("x, edge_index", body, cell=nn.GRUCell(3, 3), emb=nn.Embedding(30, 3))
    explainer = axiompath.Explainer(model, *snapshots())
    assert max(explainer.attribute(int(target)).residual for target in explainer.moved().target[:3]) < 1e-9


@pytest.mark.parametrize("paths", [True, False])
@pytest.mark.parametrize(
    ("ends", "taken"),
    [("out, x", r"\[0\]"), ("[out]", r"\[0\]"), ("{'scores': out}", r"\['scores'\]"), ("None", r"\.logits")],
)
def test_more_than_logits_are_refused_with_the_call_that_takes_them(ends, taken, paths):
    model = taking("x, edge_index", f"out = self.conv(x, edge_index); return {ends}")
    words = rf"one tensor of logits .*`call=lambda model, data: model\(data\.x, data\.edge_index\){taken}`"
    with pytest.raises(UnreadableModel, match=words) as caught:
        axiompath.Explainer(model, *snapshots(), paths=paths)
    assert "paths=False" not in str(caught.value)


def dense(data):
    return to_dense_adj(data.edge_index, max_num_nodes=data.num_nodes)[0].double()


@pytest.mark.parametrize("form", [dense, lambda d: dense(d).to_sparse(), lambda d: dense(d).to_sparse_csr()])
@pytest.mark.parametrize("signature", ["x, adj", "data"])
def test_a_matrix_in_place_of_edges_is_refused_for_what_it_is(form, signature):
    before, after = snapshots()
    after.edge_index = before.edge_index[:, 3:]
    for data in (before, after):
        data.adj = form(data)
    body = "return adj @ self.lin(x)" if signature != "data" else "return data.adj @ self.lin(data.x)"
    model = taking(signature, body, lin=nn.Linear(4, 3))
    with pytest.raises(
        InputError, match=r"got one that reads `adj`, which differs .*build it from `edge_index` in `call`"
    ):
        axiompath.Explainer(model, before, after, paths=False)

    def call(model, data):
        return dense(data) @ model.lin(data.x)

    explainer = axiompath.Explainer(model, before, after, paths=False, call=call)
    target = int(explainer.moved().target[0])
    with torch.no_grad():
        theirs = call(model, after) - call(model, before)
    np.testing.assert_allclose(explainer.blame(target).shares.sum(axis=0), theirs[target], atol=1e-9)
    ignoring = taking("data", OF_DATA.format("data"))
    assert len(axiompath.Explainer(ignoring, before, after, paths=False).moved())


@pytest.mark.parametrize("paths", [True, False])
def test_a_matrix_that_the_data_does_not_have_is_built_in_the_call(paths):
    before, after = snapshots()
    after.edge_index = before.edge_index[:, 3:]
    model = taking("x, adj", "return adj @ self.lin(x)", lin=nn.Linear(4, 3))
    words = r"argument `adj` received `edge_index`, because the data has no field `adj`.*paths=False.*to_dense_adj"
    with pytest.raises(InputError, match=words):
        axiompath.Explainer(model, before, after, paths=paths)


def test_a_setting_that_differs_is_refused_without_paths_too():
    before, after = snapshots()
    before.factor, after.factor = 2.0, 3.0
    model = taking("data", "return self.conv(data.x * data.factor, data.edge_index)")
    with pytest.raises(InputError, match=r"got one that reads `factor`, which differs"):
        axiompath.Explainer(model, before, after, paths=False)


# ---- models that hold more than parameters ------------------------------------------------------------------------
class WithMemory(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        parts = {"message_module": IdentityMessage(2, 4, 4), "aggregator_module": LastAggregator()}
        self.memory, self.conv = TGNMemory(30, 2, 4, 4, **parts), GCNConv(4, 3)

    def forward(self, x, edge_index):
        return self.conv(self.memory(torch.arange(len(x)))[0] + x, edge_index)


def test_a_memory_of_events_is_copied_after_plain_eval():
    model, graphs = WithMemory(), snapshots()
    graphs[1].edge_index = graphs[0].edge_index[:, 3:]
    for data in graphs:
        data.x = data.x.float()
    ends, times = torch.tensor([[0, 1, 5], [2, 3, 1]]), torch.tensor([1, 2, 3])
    model.memory.update_state(*ends, times, torch.randn(3, 2))
    model.eval()  # which writes what the events said into the memory, with its gradient
    assert not model.memory.memory.is_leaf
    kept = model.memory.memory.clone()
    explainer = axiompath.Explainer(model, *graphs, paths=False)
    target = int(explainer.moved().target[0])
    with torch.no_grad():
        theirs = model(graphs[1].x, graphs[1].edge_index) - model(graphs[0].x, graphs[0].edge_index)
    np.testing.assert_allclose(explainer.blame(target).shares.sum(axis=0), theirs[target], atol=1e-5)
    assert torch.equal(model.memory.memory, kept)
    assert model.memory.memory.grad_fn is not None


HOLDING = {
    "an output": lambda m: m.conv.lin.weight * 2, "a list of outputs": lambda m: [m.conv.lin.weight * 2],
    "outputs by name": lambda m: {"a": (m.conv.lin.weight * 2,)}, "a function": lambda m: lambda x: x,
    "a generator of numbers": lambda m: torch.Generator(),
}  # fmt: skip


@pytest.mark.parametrize("case", HOLDING)
def test_what_a_model_has_kept_does_not_stand_in_the_way(case):
    model = taking("x, edge_index")
    model.kept = HOLDING[case](model)
    model.register_buffer("seen", model.conv.lin.weight * 2)
    before, after = snapshots()
    assert_of_this_call(axiompath.Explainer(model, before, after), before, after, lambda d: model(d.x, d.edge_index))


def test_a_normalised_weight_is_copied():
    model = taking("x, edge_index", "return self.lin(self.conv(x, edge_index))", lin=nn.Linear(3, 3))
    with pytest.warns(FutureWarning, match="weight_norm"):
        nn.utils.weight_norm(model.lin)
    before, after = snapshots()
    assert_of_this_call(axiompath.Explainer(model, before, after), before, after, lambda d: model(d.x, d.edge_index))


@pytest.mark.parametrize("paths", [True, False])
@pytest.mark.parametrize("held", [threading.Lock(), (i for i in range(3)), torch], ids=["lock", "generator", "module"])
def test_what_cannot_be_copied_is_named(held, paths):
    model = taking("x, edge_index", inner=nn.Identity())
    model.inner.held = held
    words = r"Expected a model that can be copied.*cannot pickle .*attribute `inner\.held`\); take out"
    with pytest.raises(UnreadableModel, match=words):
        axiompath.Explainer(model, *snapshots(), paths=paths)


# ---- outputs ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("end", [lambda h: h, lambda h: h.squeeze(-1), lambda h: h.view(-1)])
def test_one_raw_column_is_asked_for_and_never_guessed(end):
    model = written(lambda p, d: end(p[0](d.x, d.edge_index)), GCNConv(4, 1))
    before, after = snapshots()
    with pytest.raises(axiompath.errors.InputError, match=r"one column.*\(30,.*output=\"binary\".*output=\"value\""):
        axiompath.Explainer(model, before, after)
    assert not axiompath.check(model, before).readable
    for output in ("binary", "value"):
        explainer = axiompath.Explainer(model, before, after, output=output)
        assert explainer.change.output.kind == output
        assert_of_this_call(explainer, before, after, lambda d: model(d).reshape(-1, 1))


@pytest.mark.parametrize("end", [torch.sigmoid, lambda h: h.sigmoid().clone(), nn.Sigmoid(), F.logsigmoid])
@pytest.mark.parametrize("columns", [1, 3])
def test_a_sigmoid_at_the_end_is_a_yes_or_no_a_column(end, columns):
    model = written(lambda p, d: end(p[0](d.x, d.edge_index)), GCNConv(4, columns))
    before, after = snapshots()
    explainer = axiompath.Explainer(model, before, after)
    assert explainer.change.output.kind == ("binary" if columns == 1 else "labels")
    assert_of_this_call(explainer, before, after, lambda d: model.parts[0](d.x, d.edge_index))
    with pytest.raises(axiompath.errors.InputError, match=r"`output` to fit the model \(got \"classes\""):
        axiompath.Explainer(model, before, after, output="classes")


def test_outputs_that_the_model_contradicts_are_refused():
    before, after = snapshots()
    several = written(lambda p, d: p[0](d.x, d.edge_index).log_softmax(-1))
    for output in ("binary", "labels", "value", "odd"):
        with pytest.raises(axiompath.errors.InputError, match=rf"Expected `output` .*'?{output}"):
            axiompath.Explainer(several, before, after, output=output)
    raw = written(lambda p, d: p[0](d.x, d.edge_index))
    for output in ("labels", "value", "classes"):
        assert axiompath.Explainer(raw, before, after, output=output).change.output.kind == output


def test_a_softmax_at_the_end_and_a_sigmoid_within_are_read_as_ever():
    before, after = snapshots()
    for end in (F.log_softmax, F.softmax):
        model = written(
            lambda p, d, end=end: end(p[1](p[0](d.x, d.edge_index).sigmoid(), d.edge_index), dim=-1),
            GCNConv(4, 4), GCNConv(4, 3),
        )  # fmt: skip
        explainer = axiompath.Explainer(model, before, after)
        ours = torch.from_numpy(explainer.change.after_pass.logits)
        with torch.no_grad():
            torch.testing.assert_close(end(ours, dim=-1), model(after))


# ---- words --------------------------------------------------------------------------------------------------------
class ByIds(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.emb, self.conv, self.whole = nn.Embedding(5, 4), GCNConv(4, 3), whole

    def forward(self, x, edge_index):
        return self.conv(self.emb((x if self.whole else x.long()).squeeze(-1)), edge_index)


class OwnFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.conv = nn.Embedding(30, 4), GCNConv(4, 3)

    def forward(self, data):
        return self.conv(self.emb.weight, data.edge_index)


def plain(conv):
    return written(lambda p, d: p[0](d.x, d.edge_index), conv)


def test_features_of_the_models_own_are_read():
    model, (before, after) = OwnFeatures().double(), snapshots()
    explainer = axiompath.Explainer(model, before, after)
    for target in explainer.moved().target[:3].tolist():
        assert explainer.attribute(target).residual < 1e-9


@pytest.mark.parametrize("whole", [True, False])
def test_rows_that_a_column_of_whole_numbers_names_are_features(whole):
    before, after = snapshots()
    for seed, data in enumerate((before, after)):
        data.x = torch.randint(5, (30, 1), generator=torch.Generator().manual_seed(seed))
        data.x = data.x if whole else data.x.double()
    model = ByIds(whole).double().eval()
    explainer = axiompath.Explainer(model, before, after)
    assert_of_this_call(explainer, before, after, lambda d: model(d.x, d.edge_index))
    found = explainer.attribute(0)
    assert found.residual < 1e-12
    assert np.abs(found.causes["feature"]).sum() > 0
    blamed = explainer.blame(0)
    np.testing.assert_allclose(blamed.shares.sum(axis=0), found.delta_logits, atol=1e-9)


def test_rows_named_by_what_was_made_of_features_are_looked_up():
    before, after = snapshots()
    for data in (before, after):
        data.x = torch.randint(5, (30, 2)).double()
    hidden = written(lambda p, d: p[1](p[0]((2 * d.x[:, 0]).long()), d.edge_index), nn.Embedding(9, 4), GCNConv(4, 3))
    explainer = axiompath.Explainer(hidden.double(), before, after)
    assert max(explainer.attribute(int(target)).residual for target in explainer.moved().target[:3]) < 1e-9


def test_a_sparse_matrix_stands_for_the_edges():
    """Graphs as T.ToSparseTensor gives them, and models that take `adj_t`."""
    graphs = snapshots()
    model = written(lambda p, d: p[0](d.x, d.edge_index), SAGEConv(4, 3)).double()
    given = []
    for data in graphs:
        data.edge_index = data.edge_index.unique(dim=1)
        ones = torch.ones(data.num_edges, dtype=torch.float64)
        size = (data.num_nodes, data.num_nodes)
        given.append(Data(x=data.x, adj_t=torch.sparse_coo_tensor(data.edge_index.flip(0), ones, size).to_sparse_csr()))
    plain_edges = [Data(x=data.x, edge_index=data.edge_index) for data in graphs]
    explainers = [axiompath.Explainer(model, *pair) for pair in (given, plain_edges)]
    target = explainers[1].moved().target[0]
    found = [explainer.attribute(target) for explainer in explainers]
    assert len(found[0].paths)
    np.testing.assert_allclose(found[0].contributions.sum(axis=0), found[1].contributions.sum(axis=0), atol=1e-12)
    assert axiompath.check(model, given[0]).readable
    given[0].adj_t = given[0].adj_t * 2
    with pytest.raises(axiompath.InputError, match="could not be run as call"):  # it takes no matrix
        axiompath.Explainer(model, *given)


def test_swish_is_silu():
    before, after = snapshots()
    model = GCN(4, 6, 2, 3, act="swish").double().eval()
    explainer = axiompath.Explainer(model, before, after)
    assert_of_this_call(explainer, before, after, lambda d: model(d.x, d.edge_index))
    gated = written(lambda p, d: torch.sigmoid(p[0](d.x, d.edge_index)) * p[1](d.x, d.edge_index), GCNConv(4, 3),
                    GCNConv(4, 3))  # fmt: skip
    assert_of_this_call(axiompath.Explainer(gated, before, after), before, after, lambda d: gated(d))


def test_nan_is_the_models_own_and_is_said_to_be():
    before, after = snapshots(edge_weight=one_an_edge)
    after.edge_weight[:] = -1.0  # degrees below 0, of which GCN takes the root
    model = GraphNan().double().eval()
    with torch.no_grad():
        assert torch.isnan(model(after)).any()
    with pytest.raises(UnreadableModel, match=r"The model itself gives NaN or infinite values on `after`"):
        axiompath.Explainer(model, before, after)
    assert "read wrongly" not in axiompath.check(model, after).problem


class GraphNan(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 3, add_self_loops=False)

    def forward(self, data):
        return self.conv(data.x, data.edge_index, data.edge_weight)


def test_bfloat16_data_is_read():
    before, after = snapshots(edge_weight=one_an_edge)
    for data in (before, after):
        data.x, data.edge_weight = data.x.bfloat16(), data.edge_weight.bfloat16()
    model = WeightsOptional().bfloat16()
    explainer = axiompath.Explainer(model, before, after)
    assert explainer.attribute(int(explainer.moved().target[0])).residual < 1e-10


def test_norms_that_heed_no_batch_may_be_given_one():
    before, after = snapshots(batch=lambda n, e: torch.zeros(n, dtype=torch.long))
    model = written(
        lambda p, d: p[2](p[1](p[0](d.x, d.edge_index), d.batch), d.edge_index),
        GCNConv(4, 4), LayerNorm(4, mode="node"), GCNConv(4, 3),
    )  # fmt: skip
    assert_of_this_call(axiompath.Explainer(model, before, after), before, after, model)

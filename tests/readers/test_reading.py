"""Reading a model: exact or refused, and the model is left as it was."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GCN, FiLMConv, GCNConv
from torch_geometric.nn import Sequential as PyGSequential

import axiompath
from axiompath.network.coefficients import SymmetricNorm
from axiompath.readers import UnreadableModel, calls


def graph(seed=0, num_nodes=12, num_edges=40, width=4, weighted=False, dtype=torch.float64):
    torch.manual_seed(seed)
    data = Data(x=torch.randn(num_nodes, width, dtype=dtype), edge_index=torch.randint(num_nodes, (2, num_edges)))
    if weighted:
        data.edge_weight = torch.rand(num_edges, dtype=dtype) + 0.1
    return data


def pair(**settings):
    before, after = graph(0, **settings), graph(0, **settings)
    after.edge_index = after.edge_index.clone()
    after.edge_index[:, :4] = torch.tensor([[0, 1, 2, 3], [5, 6, 7, 8]])
    return before, after


def residual(explainer):
    return max(found.residual for found in explainer.attribute_many(explainer.moved().target))


def logits_match(explainer, model, before, after):
    with torch.no_grad():
        for data, ours in ((before, explainer.change.before_pass), (after, explainer.change.after_pass)):
            arguments = {"edge_weight": data.edge_weight} if "edge_weight" in data else {}
            theirs = model.eval()(data.x, data.edge_index, **arguments)
            np.testing.assert_allclose(ours.logits, theirs.double().numpy(), rtol=1e-9, atol=1e-12)


class Inline(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(4, 6), GCNConv(6, 3)

    def forward(self, x, edge_index):
        x = F.dropout(F.elu(self.conv1(x, edge_index)), p=0.5, training=self.training)
        return F.log_softmax(self.conv2(x, edge_index), dim=1)


def sequential():
    return PyGSequential(
        "x, edge_index",
        [
            (nn.Dropout(0.5), "x -> x"),
            (GCNConv(4, 6), "x, edge_index -> x"),
            nn.ReLU(inplace=True),
            (GCNConv(6, 3), "x, edge_index -> x"),
        ],
    )


@pytest.mark.parametrize("model", [Inline(), sequential(), GCN(4, 6, 3, 3, act="gelu", dropout=0.3), GCN(4, 6, 1)])
def test_models_as_people_write_them_are_read_exactly(model):
    model = model.double()
    before, after = pair()
    explainer = axiompath.Explainer(model, before, after)
    assert residual(explainer) < 1e-12
    if not isinstance(model, Inline):  # whose output is not logits
        logits_match(explainer, model, before, after)


@pytest.mark.parametrize("settings", [{}, {"improved": True}, {"add_self_loops": False}, {"normalize": False}])
def test_every_setting_of_gcn_conv_is_read_exactly(settings):
    for weighted in (False, True):
        before, after = pair(weighted=weighted)
        for data in (before, after):  # loops of their own, one of them twice
            data.edge_index[:, -3:] = torch.tensor([[1, 1, 2], [1, 1, 2]])
        model = GCN(4, 6, 2, 3, **settings).double()
        explainer = axiompath.Explainer(model, before, after)
        logits_match(explainer, model, before, after)
        assert residual(explainer) < 1e-12


def test_a_cached_normalisation_is_not_carried_from_one_graph_to_another():
    before, after = pair()
    model = GCN(4, 6, 2, 3, cached=True).double()
    model(graph(5).x, graph(5).edge_index)  # what training leaves behind
    fresh = GCN(4, 6, 2, 3).double()
    fresh.load_state_dict(model.state_dict())
    explainer = axiompath.Explainer(model, before, after)
    logits_match(explainer, fresh, before, after)
    assert model.convs[0]._cached_edge_index is not None


@pytest.mark.parametrize(
    "convert", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr(), lambda x: sparse.csr_matrix(x.numpy())]
)
def test_sparse_features_give_the_same_as_dense_ones(convert):
    before, after = pair()
    after.x = after.x.clone()
    after.x[3] = 0
    model = GCN(4, 6, 2, 3).double()
    expected = axiompath.Explainer(model, before, after)
    for data in (before, after):
        data.x = convert(data.x)
    explainer = axiompath.Explainer(model, before, after)
    for node in expected.moved().target:
        one, other = expected.attribute(node), explainer.attribute(node)
        np.testing.assert_array_equal(one.paths, other.paths)
        np.testing.assert_allclose(one.contributions, other.contributions, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_models_of_any_dtype_are_read(dtype):
    before, after = pair()
    assert residual(axiompath.Explainer(GCN(4, 6, 2, 3).to(dtype), before, after)) < 1e-12


def snapshot_of(model):
    return {
        "state": copy.deepcopy(model.state_dict()),
        "training": [module.training for module in model.modules()],
        "hooks": [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()],
        "own forward": ["forward" in vars(module) for module in model.modules()],
        "grads": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "requires": [p.requires_grad for p in model.parameters()],
    }


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(4, 6)

    def forward(self, x, edge_index):
        raise RuntimeError("boom")


@pytest.mark.parametrize("model", [Inline().double(), Fails().double()])
def test_the_users_model_and_data_are_left_as_they_were_even_after_an_error(model):
    before, after = pair()
    model.train()
    model.conv1.lin.weight.grad = torch.ones(6, 4, dtype=torch.float64)
    kept = copy.deepcopy((before.to_dict(), after.to_dict()))
    was = snapshot_of(model)
    with pytest.raises(UnreadableModel, match="boom") if isinstance(model, Fails) else nullcontext():
        axiompath.Explainer(model, before, after).moved()
    now = snapshot_of(model)
    for key in ("training", "hooks", "own forward", "requires"):
        assert now[key] == was[key]
    assert all(torch.equal(now["state"][name], value) for name, value in was["state"].items())
    for one, other in zip(was["grads"], now["grads"], strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)
    for old, new in zip(kept, (before.to_dict(), after.to_dict()), strict=True):
        assert all(torch.equal(old[key], new[key]) for key in old)


def test_a_model_in_training_mode_is_read_in_eval_mode():
    before, after = pair()
    model = Inline().double().train()
    first, second = (axiompath.Explainer(model, before, after).moved() for _ in range(2))
    assert first.equals(second)
    assert model.training


def test_a_wrong_reader_is_caught_and_the_first_wrong_layer_named(monkeypatch):
    def wrong(conv, call):
        call.argument("edge_weight")
        form = call.aggregate(call.linear(conv.lin, call.x), SymmetricNorm()) + conv.bias.detach().numpy()
        return 1.000001 * form if "convs.1" in call.name else form

    monkeypatch.setitem(calls.READERS, GCNConv, wrong)
    before, after = pair()
    with pytest.raises(UnreadableModel, match=r"convs\.1 \(GCNConv\) is the first layer that was read wrongly"):
        axiompath.Explainer(GCN(4, 6, 3, 3).double(), before, after)


def module(forward, *convs):
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList(convs or [GCNConv(4, 3)])

        def forward(self, x, edge_index):
            return forward(self, x, edge_index)

    return Written().double()


REFUSED = {
    "no reader": (
        module(lambda m, x, e: m.convs[0](x, e), FiLMConv(4, 3, aggr="median")),
        r"chooses rows by features",
    ),
    "a decision on values": (
        module(lambda m, x, e: m.convs[0](x, e) if x.sum() > 0 else x),
        r"Python looks at the value of features",
    ),
    "random at evaluation": (
        module(lambda m, x, e: F.dropout(m.convs[0](x, e), 0.5)),
        r"draws random numbers \(aten\.bernoulli\).*set the model to eval mode",
    ),
    "max over nodes": (
        module(lambda m, x, e: m.convs[0](x, e) - x.max()),
        r"takes the largest over rows and columns at once",
    ),
    "two outputs": (module(lambda m, x, e: (m.convs[0](x, e), x)), r"return one tensor of logits .*got tuple"),
    "no message passing": (module(lambda m, x, e: torch.relu(x)), r"passes no messages"),
    "an output without features": (module(lambda m, x, e: torch.ones(3)), r"does not depend on the features of nodes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_a_reason(case):
    model, words = REFUSED[case]
    before, after = pair()
    with pytest.raises(UnreadableModel, match=words):
        axiompath.Explainer(model, before, after)


def test_a_softmax_in_the_middle_is_a_value():
    model = module(lambda m, x, e: torch.relu(torch.softmax(m.convs[0](x, e), 1)))
    before, after = pair()
    explainer = axiompath.Explainer(model, before, after)
    with torch.no_grad():
        own = model(after.x, after.edge_index).numpy()
    np.testing.assert_allclose(explainer.change.after_pass.logits, own, atol=1e-5)
    for target in explainer.moved().target[:3].tolist():
        assert explainer.attribute(target).residual < 1e-9


def changed(data, **values):
    copied = data.clone()
    for name, value in values.items():
        copied[name] = value
    return copied


BEFORE, AFTER = pair()
X, EDGES = BEFORE.x, BEFORE.edge_index
BAD_INPUT = {
    "width of one snapshot": ({"x": torch.rand(12, 5)}, ValueError, r"same width \(got 4 in `before` and 5"),
    "edge out of range": ({"edge_index": EDGES + 5}, ValueError, r"nodes 0 to 11.*got 1[2-6]"),
    "negative edge": ({"edge_index": EDGES - 12}, ValueError, r"whole numbers .*\(got -"),
    "edges not integer": ({"edge_index": EDGES.float()}, TypeError, r"to hold whole numbers .*\(got float(32|64) of"),
    "edges not a pair": ({"edge_index": EDGES[0]}, ValueError, r"\[2, num_edges\] \(got int64 of shape \(40,\)\)"),
    "no edges given": ({"edge_index": None}, ValueError, r"carry `edge_index`"),
    "NaN features": ({"x": X.masked_fill(X > 1, float("nan"))}, ValueError, r"in `after.x` \(got \d+ NaN"),
    "NaN sparse features": (
        {"x": X.masked_fill(X > 1, float("nan")).to_sparse_csr()}, ValueError, r"finite features in `after.x`",
    ),
    "infinite features": ({"x": X / 0}, ValueError, r"finite features"),
    "features not a matrix": ({"x": X[0]}, ValueError, r"two dimensions"),
    "no features": ({"x": None}, ValueError, r"to carry node features `x`"),
    "an empty graph": ({"x": X[:0], "edge_index": EDGES[:, :0]}, ValueError, r"one node \(got an empty graph\)"),
    "weights in one snapshot": ({"edge_weight": torch.ones(40)}, ValueError, r"or neither \(`before` has none\)"),
    "weights of another length": ({"edge_weight": torch.ones(39)}, ValueError, r"one finite number per edge"),
    "infinite weights": ({"edge_weight": torch.full((40,), float("inf"))}, ValueError, r"finite number per edge.*NaN"),
    "repeated names": ({"n_id": torch.zeros(12, dtype=torch.long)}, ValueError, r"different non-negative integers"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_refused_in_one_clear_sentence(case):
    values, error, words = BAD_INPUT[case]
    with pytest.raises(error, match=words):
        axiompath.Explainer(Inline().double(), BEFORE, changed(AFTER, **values))


def test_other_kinds_of_graph_and_model_are_refused():
    with pytest.raises(TypeError, match=r"all graphs to be HeteroData \(got Data"):
        axiompath.Explainer(Inline(), HeteroData(), AFTER)
    with pytest.raises(TypeError, match=r"`before` to be a torch_geometric.data.Data \(got dict\)"):
        axiompath.Explainer(Inline(), {}, AFTER)
    with pytest.raises(TypeError, match=r"`model` to be a torch.nn.Module \(got function\)"):
        axiompath.Explainer(lambda x: x, BEFORE, AFTER)
    with pytest.raises(
        UnreadableModel, match=r"could not be run as model\(x, edge_index\).*shapes cannot be multiplied"
    ):
        axiompath.Explainer(GCN(7, 6, 2, 3).double(), BEFORE, AFTER)
    with pytest.raises(ValueError, match=r'such as "2GB" or a number of bytes \(got .lots.\)'):
        axiompath.Explainer(Inline().double(), BEFORE, AFTER, memory="lots")


def test_targets_that_do_not_exist_are_refused():
    explainer = axiompath.Explainer(Inline().double(), BEFORE, AFTER)
    with pytest.raises(ValueError, match=r"among the 12 nodes 0 to 11 \(got 12\)"):
        explainer.attribute(12)
    with pytest.raises(ValueError, match=r"got -1"):
        explainer.attribute(-1)
    with pytest.raises(TypeError, match=r"node numbers, integers, or names \(got float64\)"):
        explainer.attribute(1.5)


def test_duplicate_edges_add_up_as_in_pyg():
    model = GCN(4, 6, 2, 3, normalize=False).double()
    twice = changed(BEFORE, edge_index=torch.cat([EDGES, EDGES[:, :5]], dim=1))
    weighted = [changed(data, edge_weight=torch.ones(40, dtype=torch.float64)) for data in (BEFORE, BEFORE)]
    weighted[1].edge_weight[:5] = 2
    one, other = axiompath.Explainer(model, BEFORE, twice), axiompath.Explainer(model, *weighted)
    logits_match(one, model, BEFORE, twice)
    for node in one.moved().target:
        a, b = one.attribute(node), other.attribute(node)
        np.testing.assert_array_equal(a.paths, b.paths)
        np.testing.assert_allclose(a.contributions, b.contributions, atol=1e-12)


def test_nodes_of_one_snapshot_alone_are_matched_by_n_id():
    x = torch.rand(4, 4, dtype=torch.float64)
    before = Data(x=x[:3], edge_index=torch.tensor([[0, 1], [1, 2]]), n_id=torch.tensor([10, 20, 30]))
    # Node 10 left, node 40 came and took its place as a neighbour of 20; the order of rows changed too.
    after = Data(x=x[[2, 3, 1]], edge_index=torch.tensor([[1, 2], [2, 0]]), n_id=torch.tensor([30, 40, 20]))
    explainer = axiompath.Explainer(GCN(4, 6, 2, 3, normalize=False, bias=False).double(), before, after)
    found = explainer.attribute(30)
    assert {tuple(path) for path in found.paths.tolist()} == {(10, 20, 30), (40, 20, 30)}
    assert found.residual < 1e-12
    assert set(explainer.moved().target) == {30}  # 20 has no path of two hops
    with pytest.raises(ValueError, match=r"exists in both snapshots \(got 10, which `after` does not have\)"):
        explainer.attribute(10)
    assert explainer.attribute(40).residual < 1e-12  # against itself alone


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no other device here")
def test_a_model_on_another_device_is_copied_to_the_cpu():
    model = GCN(4, 6, 2, 3).double().cuda()
    assert residual(axiompath.Explainer(model, BEFORE, AFTER)) < 1e-12
    assert next(model.parameters()).is_cuda


def test_a_model_on_a_device_without_data_is_refused():
    with pytest.raises(UnreadableModel, match="no data"):
        axiompath.Explainer(GCN(4, 6, 2, 3).double().to("meta"), BEFORE, AFTER)

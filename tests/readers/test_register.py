"""Readers of one's own, as the how-to page writes them; wrong ones are caught; and the table of `axiompath.check`."""

import re
import sys
import types

import pytest
import torch
from torch import nn
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GIN, GCNConv, GraphConv, MessagePassing

import axiompath
from axiompath.network.coefficients import Mean, Sum
from axiompath.readers import UnreadableModel
from support.convolutions import EVOLUTIONS, assert_read_exactly, evolution, randomise
from support.readings import names_lines
from support.repository import ROOT

PAGE = ROOT / "docs" / "how-to-your-own-model.md"


class TwoLayers(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv1, self.conv2 = conv(3, 5), conv(5, 3)

    def forward(self, x, edge_index):
        return self.conv2(torch.relu(self.conv1(x, edge_index)), edge_index)


def page_graphs():
    """The karate club, and what is left of it, as the page names them."""
    data = KarateClub()[0]
    later = data.clone()
    later.edge_index = data.edge_index[:, data.edge_index.sum(dim=0) > 2]
    return data, later


def test_the_how_to_page_works_as_it_is_written(capsys, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    layer, reader, rule = (
        next(block for block in blocks if f"{start}\n" in block or f"{start}(" in block)
        for start in ("class MixConv", "@axiompath.register_reader", "class LogMean")
    )
    before, after = evolution(0, EVOLUTIONS[3])
    page = types.ModuleType("how_to_page")
    monkeypatch.setitem(sys.modules, page.__name__, page)  # where PyG looks for the names that a layer uses
    names = page.__dict__
    page.axiompath, page.torch, page.data, page.later = axiompath, torch, *page_graphs()
    exec(layer, names)
    names["MyModel"] = lambda: randomise(TwoLayers(names["MixConv"]))
    assert names_lines(axiompath.Explainer(names["MyModel"](), before, after).change.network)
    exec(reader, names)
    exec(rule, names)
    assert "first (MixConv)   registered  read by its registered reader" in capsys.readouterr().out
    assert_read_exactly(names["MyModel"](), before, after)

    class LogConv(names["MixConv"]):
        def forward(self, x, edge_index):
            degree = torch.bincount(edge_index[1], minlength=len(x)).to(x.dtype)
            factor = degree / (1 + degree.clamp(min=1).log())
            return self.around(factor.view(-1, 1) * self.propagate(edge_index, x=x))

    @axiompath.register_reader(LogConv)
    def read(conv, call):
        return call.linear(conv.around, call.aggregate(call.x, names["LogMean"]()))

    assert_read_exactly(randomise(TwoLayers(LogConv)), before, after)


def make_conv():
    class OwnConv(MessagePassing):
        def __init__(self, a, b):
            super().__init__(aggr="mean")
            self.lin = nn.Linear(a, b)

        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=self.lin(x))

    return OwnConv


def test_a_registered_reader_is_used_and_one_with_a_wrong_coefficient_is_caught():
    before, after = evolution(0, EVOLUTIONS[0])
    OwnConv = make_conv()
    axiompath.register_reader(OwnConv)(lambda conv, call: call.aggregate(call.linear(conv.lin, call.x), Mean()))
    assert_read_exactly(randomise(TwoLayers(OwnConv)), before, after)
    wrong = make_conv()
    axiompath.register_reader(wrong)(lambda conv, call: call.aggregate(call.linear(conv.lin, call.x), Sum()))
    model = randomise(TwoLayers(wrong))
    with pytest.raises(UnreadableModel, match=r"conv1 \(OwnConv\) is the first layer that was read wrongly"):
        axiompath.Explainer(model, before, after)
    checked = axiompath.check(model, before)
    assert not checked.readable
    assert "read wrongly" in checked.problem


def test_a_reader_that_is_wrong_on_one_snapshot_alone_is_caught():
    before, after = evolution(0, EVOLUTIONS[0])
    before.edge_weight, after.edge_weight = torch.ones(before.num_edges), torch.full((after.num_edges,), 2.0)
    OwnConv = make_conv()
    axiompath.register_reader(OwnConv)(lambda conv, call: call.aggregate(call.linear(conv.lin, call.x), Mean(True)))
    with pytest.raises(UnreadableModel, match=r"conv1 \(OwnConv\) .*read wrongly: on `after`"):
        axiompath.Explainer(randomise(TwoLayers(OwnConv)), before, after)


def test_only_classes_of_modules_can_be_given_a_reader():
    with pytest.raises(TypeError, match=r"class of torch.nn.Module .*got 3"):
        axiompath.register_reader(3)
    with pytest.raises(TypeError, match="at least one class"):
        axiompath.register_reader()


def test_a_reader_that_fails_says_where():
    before, after = evolution(0, EVOLUTIONS[0])
    OwnConv = make_conv()
    axiompath.register_reader(OwnConv)(lambda conv, call: conv.missing)
    with pytest.raises(UnreadableModel, match=r"conv1 \(OwnConv\): its reader failed: AttributeError"):
        axiompath.Explainer(randomise(TwoLayers(OwnConv)), before, after)
    other = make_conv()
    axiompath.register_reader(other)(lambda conv, call: conv.lin.weight)
    with pytest.raises(UnreadableModel, match=r"conv1 \(OwnConv\): its reader returned Parameter, expected a Form"):
        axiompath.Explainer(randomise(TwoLayers(other)), before, after)


def test_a_reader_describes_whole_inner_networks():
    before, after = evolution(0, EVOLUTIONS[0])

    class InnerConv(MessagePassing):
        def __init__(self, a, b):
            super().__init__(aggr="mean")
            self.inner = nn.Sequential(nn.Linear(a, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, b))

        def forward(self, x, edge_index):
            return self.inner(self.propagate(edge_index, x=x))

    @axiompath.register_reader(InnerConv)
    def read(conv, call):
        return call.run(conv.inner, call.aggregate(call.x, Mean()), "inner")

    assert_read_exactly(randomise(TwoLayers(InnerConv)), before, after)

    class NormedConv(InnerConv):
        def __init__(self, a, b):
            super().__init__(a, b)
            self.inner = nn.Sequential(nn.Linear(a, b), nn.LayerNorm(b))

    axiompath.register_reader(NormedConv)(read)
    with pytest.raises(UnreadableModel, match=r"conv1 \(NormedConv\): its `inner` makes coefficients of features"):
        axiompath.Explainer(randomise(TwoLayers(NormedConv)), before, after)


def test_what_a_reader_does_not_ask_for_is_refused():
    before, after = evolution(0, EVOLUTIONS[0])

    class ScaledConv(make_conv()):
        def forward(self, x, edge_index, scale=1.0):
            return scale * super().forward(x, edge_index)

    class Scaled(TwoLayers):
        def forward(self, x, edge_index):
            return self.conv2(torch.relu(self.conv1(x, edge_index, scale=2.0)), edge_index)

    axiompath.register_reader(ScaledConv)(lambda conv, call: call.aggregate(call.linear(conv.lin, call.x), Mean()))
    with pytest.raises(UnreadableModel, match=r"conv1 \(ScaledConv\): was called with `scale`, which its reader"):
        axiompath.Explainer(randomise(Scaled(ScaledConv)), before, after)

    @axiompath.register_reader(ScaledConv)
    def read(conv, call):
        return (call.argument("scale") or 1.0) * call.aggregate(call.linear(conv.lin, call.x), Mean())

    assert_read_exactly(randomise(Scaled(ScaledConv)), before, after)


def test_check_lists_lines_hops_parameters_and_the_replay_error():
    before, _ = evolution(0, EVOLUTIONS[0])
    model = randomise(GIN(3, 6, 2, 3, norm="batch_norm", jk="cat"))
    checked = axiompath.check(model, before)
    assert checked.readable
    assert checked.num_hops == 2
    assert checked.num_parameters == sum(p.numel() for p in model.parameters())
    assert checked.replay_error < 1e-12
    frame = checked.to_frame()
    assert list(frame.columns) == ["line", "operation", "reading"]
    assert frame.line.str.startswith("gin_conv.py:").any()
    assert frame.reading.str.startswith("scatter (sum): rows of edges to nodes").any()
    assert "Read exactly: 2 hops" in str(checked)
    assert "<table" in checked._repr_html_()


def test_check_reports_an_unreadable_model_with_the_line():
    class ByMedian(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = torch.nn.ModuleList([GCNConv(3, 4), GraphConv(4, 4, aggr="median"), GCNConv(4, 3)])

        def forward(self, x, edge_index):
            for conv in self.convs:
                x = conv(x, edge_index).relu()
            return x

    before, _ = evolution(0, EVOLUTIONS[0])
    checked = axiompath.check(randomise(ByMedian()), before)
    assert not checked.readable
    assert checked.num_hops is None
    last = checked.to_frame().iloc[-1]
    assert last.line.startswith("test_register.py:")
    assert last.reading.startswith("refused: chooses rows by features")
    assert "paths=False" in str(checked)


def test_check_works_on_a_bare_convolution_and_on_graphs_with_names():
    before, after = evolution(0, EVOLUTIONS[3])
    for data in (before, after):
        assert axiompath.check(randomise(GCNConv(3, 3)), data).num_hops == 1

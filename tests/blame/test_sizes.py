"""Models that use the size of the graph, against brute force through the user's own model on real mixed graphs."""

import itertools
import math
import warnings
from math import comb

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric import utils
from torch_geometric.data import Data

from axiompath import Blame, Explainer
from axiompath.blame.engine import RUN_DIRECTLY
from axiompath.blame.sizes import SizeWatch
from axiompath.errors import InputError, Notice

CONVS = {
    "GCNConv": lambda: pyg.GCNConv(3, 3),
    "GraphConv": lambda: pyg.GraphConv(3, 3),
    "SAGEConv": lambda: pyg.SAGEConv(3, 3),
    "GINConv": lambda: pyg.GINConv(nn.Linear(3, 3)),
    "EGConv": lambda: pyg.EGConv(3, 3, num_heads=1, num_bases=2),
}
SIZES = {
    "none": lambda x, edges: 1.0,
    "size": lambda x, edges: 1 / x.size(0),
    "shape": lambda x, edges: 1 / x.shape[0],
    "len": lambda x, edges: 1 / len(x),
    "numel": lambda x, edges: 5 / x.numel(),
    "transposed": lambda x, edges: 1 / x.t().size(1),
    "num edges": lambda x, edges: edges.size(1) / 10,
    "shape of edges": lambda x, edges: 10 / edges.shape[1],
    "ratio": lambda x, edges: edges.shape[1] / x.shape[0],
    "tensor": lambda x, edges: 1 / torch.tensor(float(x.size(0)), dtype=x.dtype),
    "whole tensor": lambda x, edges: 1 / torch.tensor(len(x)),
    "range": lambda x, edges: 1 / sum(1 for _ in range(x.size(0))),
    "rows": lambda x, edges: 1 / sum(1 for _ in x),
    "arange": lambda x, edges: torch.arange(x.size(0)).sum().to(x.dtype) / 10,
    "ones": lambda x, edges: 1 / torch.ones(len(x)).sum().to(x.dtype),
    "new_ones": lambda x, edges: 1 / x.new_ones(len(x)).sum(),
    "full": lambda x, edges: torch.full((x.size(0), 1), 1 / x.size(0), dtype=x.dtype),
    "eye": lambda x, edges: torch.eye(len(x), dtype=x.dtype).mean(dim=1, keepdim=True),
    "log": lambda x, edges: math.log(x.size(0)),
    "root": lambda x, edges: x.size(0) ** -0.5,
    "more than": lambda x, edges: 1.0 if x.size(0) > 6 else 2.0,
    "odd": lambda x, edges: 1.0 + x.size(0) % 2,
    "even": lambda x, edges: 2.0 - x.size(0) % 2,
    "slightly": lambda x, edges: 1 + 1e-6 * x.size(0),
    "odd edges": lambda x, edges: 1.0 + edges.size(1) // 2 % 2,
    "nodes with edges": lambda x, edges: 1 / len(torch.unique(edges)),
    "some edges": lambda x, edges: edges[:, edges[0] < edges[1]].size(1) / 5,
    "largest degree": lambda x, edges: 1 / int(torch.bincount(edges[1]).max()),
    "largest degree as a size": lambda x, edges: 1 / torch.bincount(torch.bincount(edges[1])).size(0),
    "item": lambda x, edges: 1 / (edges.max() + 1).item(),
}


class Sized(nn.Module):
    """A few convolutions, a number taken from the graph's size, and an answer for nodes or for the graph."""

    def __init__(self, convs, size, where, readout):
        super().__init__()
        self.convs = nn.ModuleList([CONVS[name]() for name in convs])
        self.last, self.size, self.where, self.readout = nn.Linear(3, 2), SIZES[size], where, readout

    def forward(self, x, edge_index):
        h = x
        for place, conv in enumerate(self.convs):
            h = conv(h, edge_index).relu()
            h = h * self.size(x, edge_index) if place == self.where else h
        if self.readout == "sum":
            h = h.sum(dim=0, keepdim=True)
        elif self.readout == "mean by hand":
            h = h.sum(dim=0, keepdim=True) / h.size(0)
        h = h * self.size(x, edge_index) if self.where < 0 and self.readout == "sum" else h
        return self.last(h)


class Evolution:
    """A graph and changes of it, from which every mixed graph is built literally."""

    def __init__(self, rng, equal, num_nodes=6):
        x = rng.normal(size=(num_nodes + 2, 3))
        pairs = [pair for pair in itertools.combinations(range(num_nodes), 2) if rng.random() < 0.45]
        pairs = pairs or [(0, 1)]
        absent = [pair for pair in itertools.combinations(range(num_nodes), 2) if pair not in pairs]
        gone = [pairs[i] for i in rng.permutation(len(pairs))[:2]]
        come = [absent[i] for i in rng.permutation(len(absent))[:2]]
        self.x, self.num_nodes, self.pairs = x, num_nodes, pairs
        self.changes = []  # (kind, src, dst)
        edges, nodes = rng.integers(0, 2), rng.integers(0, 2)
        if not edges and not nodes:
            edges = 1
        if edges:
            many = min(int(rng.integers(1, 3)), len(gone), len(come)) if not nodes else 1
            self.changes += [("edge removed", *pair) for pair in gone[: many if equal else 1]]
            self.changes += [("edge added", *pair) for pair in come[: many if equal else 2]]
        self.new_edges = []
        if nodes:
            leaves = num_nodes - 1  # its edges go with it
            self.changes = [change for change in self.changes if leaves not in change[1:]]
            if equal or rng.random() < 0.5:
                self.changes.append(("node removed", leaves, -1))
            self.changes.append(("node added", num_nodes, -1))
            mine = sum(leaves in pair for pair in pairs)
            others = rng.permutation(leaves)[: max(1, min(mine, 3))]
            self.new_edges = [(int(other), num_nodes) for other in others]

    def graph(self, applied):
        """The real graph with exactly these changes applied."""
        nodes, pairs = list(range(self.num_nodes)), list(self.pairs)
        for kind, src, dst in applied:
            if kind == "edge removed":
                pairs.remove((src, dst))
            elif kind == "edge added":
                pairs.append((src, dst))
            elif kind == "node added":
                nodes.append(src)
                pairs += self.new_edges
            else:
                nodes.remove(src)
                pairs = [pair for pair in pairs if src not in pair]
        row = {node: place for place, node in enumerate(nodes)}
        both = [(row[u], row[v]) for a, b in pairs for u, v in ((a, b), (b, a))]
        edge_index = torch.tensor(both, dtype=torch.long).reshape(-1, 2).T.contiguous()
        return Data(x=torch.tensor(self.x[nodes]), edge_index=edge_index, n_id=torch.tensor(nodes))


def brute_force(evolution, model, target):
    """Logits of the target under every subset of the changes, by their bits."""
    found = []
    for bits in range(1 << len(evolution.changes)):
        data = evolution.graph([one for place, one in enumerate(evolution.changes) if bits >> place & 1])
        with torch.no_grad():
            found.append(model(data.x.to(next(model.parameters()).dtype), data.edge_index)[target].double().numpy())
    return np.stack(found)


def shapley(values, number):
    shares = np.zeros((number, values.shape[1]))
    for player, bits in itertools.product(range(number), range(1 << number)):
        if not bits >> player & 1:
            weight = 1 / (number * comb(number - 1, bits.bit_count()))
            shares[player] += weight * (values[bits | 1 << player] - values[bits])
    return shares


def divergence(after, logits):
    p, q = (np.exp(one - one.max()) / np.exp(one - one.max()).sum() for one in (after, logits))
    return float((p * np.log(p / q)).sum())


def fewest(reached, number):
    """The least number of changes in a set of those that do it; None where none does."""
    return min((bits.bit_count() for bits in range(1 << number) if reached(bits)), default=None)


def check_one(seed):
    """Whether a random model was answered for rightly: the note of its blame, or None where it was refused."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    names = [name for name in CONVS if name != "EGConv" or seed % 4 == 0]
    convs = rng.choice(names, int(rng.integers(1, 3)))
    readout = ["node", "sum", "mean by hand"][int(rng.integers(3))]
    where = int(rng.integers(len(convs))) if readout == "node" or rng.random() < 0.5 else -1
    model = Sized(convs, size := [*SIZES][seed % len(SIZES)], where, readout)
    model = (model if seed % 5 == 0 else model.double()).eval()
    evolution = Evolution(rng, equal=rng.random() < 0.7)
    number, full = len(evolution.changes), (1 << len(evolution.changes)) - 1
    target = int(rng.integers(evolution.num_nodes - 1)) if readout == "node" else 0
    values = brute_force(evolution, model, target)
    scale = (1e-4 if seed % 5 == 0 else 1e-8) * max(1.0, float(np.abs(values).max()))
    try:
        explainer = Explainer(model, evolution.graph([]), evolution.graph(evolution.changes))
        blame = explainer.blame(target)
    except InputError:
        return None
    unsized = size == "none" and readout != "mean by hand" and "EGConv" not in convs
    assert not (unsized and blame.note)
    table = explainer.changes()
    id_of = [
        next(row.id for row in table.itertuples() if (row.kind, row.src) == one[:2] and one[2] in (-1, row.dst))
        for one in evolution.changes
    ]
    shares = dict.fromkeys(id_of, np.zeros(2)) | {row[0]: blame.shares[i] for i, row in enumerate(blame.changes)}
    np.testing.assert_allclose([shares[i] for i in id_of], shapley(values, number), atol=scale)
    ids = [[id_of[place] for place in range(number) if bits >> place & 1] for bits in range(full + 1)]
    np.testing.assert_allclose(explainer.what_if(target, apply=ids), values, atol=scale)
    np.testing.assert_allclose(explainer.what_if(target, undo=ids), values[::-1], atol=scale)
    clear = np.abs(values[:, 0] - values[:, 1]).min() > 10 * scale
    wanted = 1 - int(values[full].argmax())
    undo = explainer.undo(target, to=wanted)
    least = fewest(lambda bits: int(values[full & ~bits].argmax()) == wanted, number)
    if clear:
        assert undo.restored == (least is not None)
        assert undo.proved
        assert least is None or len(undo.changes) == least
    whole = divergence(values[full], values[0])
    if whole > 100 * scale:
        left = np.array([divergence(values[full], one) for one in values]) / whole
        if np.abs(left - 0.1).min() > 1e-3:
            enough = explainer.enough(target, until=0.9)
            assert len(enough.changes) == fewest(lambda bits: left[bits] <= 0.1, number)
    return blame.note


def check_many(seeds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        notes = [check_one(seed) for seed in seeds]
    assert notes.count(None) < 0.6 * len(notes)
    assert notes.count(RUN_DIRECTLY) > 0.1 * len(notes)
    assert "" in notes


@pytest.mark.long
def test_models_that_use_sizes_are_answered_for_rightly_or_refused():
    check_many([*range(27), 177])  # whose largest degree is that of all graphs side by side


@pytest.mark.slow
def test_many_models_that_use_sizes_are_answered_for_rightly_or_refused():
    check_many(range(300))


def divided(readout="mean by hand"):
    torch.manual_seed(0)
    return Sized(["GraphConv"], "size", 0 if readout == "node" else -1, readout).double()


def one_for_another():
    """A path of five nodes; the last one leaves and another one comes."""
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ends = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4]]), torch.tensor([[0, 1], [1, 2], [2, 3], [0, 4]])
    numbers = torch.arange(5), torch.tensor([0, 1, 2, 3, 5])
    return [
        Data(x=x[rows], edge_index=torch.cat([pairs, pairs.flip(1)]).T.contiguous(), n_id=rows)
        for rows, pairs in zip(numbers, ends, strict=True)
    ]


def test_the_answer_says_that_the_model_was_run_directly():
    explainer = Explainer(divided(), *one_for_another())
    blame = explainer.blame(0)
    assert blame.summary().endswith(RUN_DIRECTLY)
    assert Blame.from_dict(blame.to_dict()).note == RUN_DIRECTLY
    old = {key: value for key, value in blame.to_dict().items() if key not in ("note", "directed")} | {"version": 1}
    assert Blame.from_dict(old).note == ""
    assert explainer.enough(0).how.endswith(RUN_DIRECTLY)
    with pytest.warns(Notice, match="The model itself was run"):
        explainer.what_if(0, undo=[0])
    assert RUN_DIRECTLY in explainer.happened(0).summary()


def drop_first(x):
    _, width = x.shape
    return x.view(-1, width)


def shape_and_compare(x):
    num_nodes = x.size(0)
    h = x.view(num_nodes, -1)
    return -h if 0.5 * num_nodes > 100 else h


class Own(pyg.MessagePassing):
    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x, size=(x.size(0), x.size(0)))


HARMLESS = {
    "view": lambda x, edges: x.view(x.size(0), -1),
    "reshape": lambda x, edges: x.reshape(x.shape[0], 3, 1).reshape(x.shape[0], x.shape[1]),
    "width": lambda x, edges: x / x.size(1) + x.shape[-1] ** 0.5,
    "zeros": lambda x, edges: x + torch.zeros(x.size(0), 1, dtype=x.dtype),
    "written": lambda x, edges: torch.zeros(x.size(0), 3).index_add_(0, edges[1], x[edges[0]].float()),
    "zeros_like": lambda x, edges: x + torch.zeros_like(x),
    "slice": lambda x, edges: x[: x.size(0)],
    "softmax": lambda x, edges: x * utils.softmax(x.new_ones(edges.size(1)), edges[1], num_nodes=x.size(0)).sum(),
    "degree": lambda x, edges: x * utils.degree(edges[1], x.size(0)).unsqueeze(1),
    "scatter": lambda x, edges: utils.scatter(x[edges[0]], edges[1], dim_size=x.size(0)),
    "width of a shape": lambda x, edges: x / math.sqrt(x.shape[-1]) * math.log(x.size()[1]),
    "dropped": lambda x, edges: drop_first(x),
    "own layer": lambda x, edges: Own()(x, edges),
    "loops": lambda x, edges: x + utils.add_self_loops(edges, num_nodes=x.size(0))[0][0, 0],
}
HARMFUL = {
    "if": lambda x, edges: x if x.size(0) > 100 else -x,
    "half": lambda x, edges: x if x.size(0) / 2.0 > 100 else -x,
    "parity": lambda x, edges: x * (1 if edges.size(1) % 2 else 2),
    "truth": lambda x, edges: x if edges.numel() else -x,
    "key": lambda x, edges: x * {3: 2.0}.get(x.size(0), 1.0),
    "both": lambda x, edges: x if x.shape == (5, 3) else -x,
    "float": lambda x, edges: x if float(x.size(0)) > 100 else -x,
    "unpacked": lambda x, edges: x if max(*x.shape) > 100 else -x,
    "len": lambda x, edges: x if len(x) > 100 else -x,
    "rows": lambda x, edges: x if sum(1 for _ in x) > 100 else -x,
    "transposed": lambda x, edges: x if x.t().shape[1] > 100 else -x,
    "bytes": lambda x, edges: x if x.nbytes > 10**4 else -x,
    "stride": lambda x, edges: x if edges.stride(0) > 100 else -x,
    "ones": lambda x, edges: x if torch.ones(x.size(0)).sum() > 100 else -x,
    "new_ones": lambda x, edges: x if x.new_ones(x.size(0)).sum() > 100 else -x,
    "ones_like": lambda x, edges: x * (torch.ones_like(x).sum() > 100),
    "numbers": lambda x, edges: x if torch.tensor([x.size(0)]).max() > 100 else -x,
    "arange": lambda x, edges: x if torch.arange(x.size(0)).max() > 100 else -x,
    "range": lambda x, edges: x * sum(1 for _ in range(x.size(0))),
    "math.log": lambda x, edges: x * math.log(edges.size(1)),
    "math.gcd": lambda x, edges: x * math.gcd(x.shape[0], 2),
    "a float first": lambda x, edges: -x if 0.5 * x.size(0) > 100 else x,
    "numpy": lambda x, edges: x * float(np.log(x.size(0))),
    "text": lambda x, edges: x * float(f"{x.size(0)}"),
    "a list's index": lambda x, edges: x * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0][x.shape[0]],
    "shaped and compared": lambda x, edges: shape_and_compare(x),
    "mask": lambda x, edges: x if edges[:, edges[0] < edges[1]].size(1) > 100 else -x,
    "data": lambda x, edges: x if Data(x=x, edge_index=edges).num_nodes > 100 else -x,
    "num_edges": lambda x, edges: x if Data(x=x, edge_index=edges).num_edges > 100 else -x,
}


@pytest.mark.parametrize("use", [*HARMLESS, *HARMFUL])
def test_a_model_that_computes_or_decides_with_a_size_is_noticed(use):
    """Whatever the sizes of the graph: none of these thresholds is crossed."""

    class Using(nn.Module):
        def forward(self, x, edge_index):
            return (HARMLESS | HARMFUL)[use](x, edge_index)

    data, model = one_for_another()[0], Using()
    watch = SizeWatch(model)
    with watch.on(data):
        found = model(data.x, data.edge_index)
    assert torch.equal(found, model(data.x, data.edge_index))
    assert watch.used == (use in HARMFUL)


THRESHOLDS = {
    "a float first": lambda x, edges: 1.0 if 0.5 * x.size(0) > 100 else 2.0,
    "range": lambda x, edges: 1.0 + (len(range(x.size(0))) > 100),
    "gcd": lambda x, edges: float(math.gcd(edges.shape[1], 1000)),
    "nodes": lambda x, edges: 1.0 if x.size(0) > 100 else 2.0,
    "edges": lambda x, edges: 1.0 if len(edges.t()) > 100 else 2.0,
    "parity": lambda x, edges: 1.0 + edges.size(1) % 2,
    "ones": lambda x, edges: 1.0 + float(x.new_ones(x.size(0)).sum() > 100),
}


@pytest.mark.parametrize("use", THRESHOLDS)
@pytest.mark.parametrize("small", [0, 10**9])
def test_a_threshold_that_no_compared_graph_crosses_is_noticed(monkeypatch, use, small):
    monkeypatch.setattr("axiompath.blame.engine.SMALL", small)
    monkeypatch.setitem(SIZES, "use", THRESHOLDS[use])
    torch.manual_seed(0)
    explainer = Explainer(Sized(["GraphConv"], "use", 0, "node").double(), *one_for_another())
    assert explainer.blame(0).note == RUN_DIRECTLY


@pytest.mark.parametrize("size", ["size", "num edges", "odd", "even", "slightly", "none"])
def test_graphs_that_are_not_small_are_compared_in_part_first(monkeypatch, size):
    monkeypatch.setattr("axiompath.blame.engine.SMALL", 0)
    torch.manual_seed(0)
    model = Sized(["GraphConv"], size, 0, "node").double()
    before, after = one_for_another()
    after.edge_index = torch.cat([after.edge_index, torch.tensor([[0, 2], [2, 0]])], dim=1)
    before.edge_index = torch.cat([before.edge_index, torch.tensor([[1, 4], [4, 1]])], dim=1)
    blame = Explainer(model, before, after).blame(0)
    assert blame.note == ("" if size == "none" else RUN_DIRECTLY)


@pytest.mark.parametrize("size", ["odd", "odd edges"])
@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_asks_whether_a_size_is_odd_is_run_directly(size, seed):
    """Of four changes a half is two: graphs that are odd where both given ones are even have to be tried as well."""
    torch.manual_seed(seed)
    rng, model = np.random.default_rng(seed), Sized(["GraphConv"], size, 0, "node").double()
    evolution = Evolution(rng, equal=True)
    evolution.pairs, evolution.new_edges = [(0, 1), (1, 2), (2, 3), (0, 4), (0, 5)], []
    evolution.changes = [("node removed", 4, -1), ("node removed", 5, -1), ("node added", 6, -1), ("node added", 7, -1)]
    if size == "odd edges":
        evolution.changes = [("edge removed", 0, 1), ("edge removed", 1, 2), ("edge added", 0, 2), ("edge added", 0, 3)]
    explainer = Explainer(model, evolution.graph([]), evolution.graph(evolution.changes))
    values = brute_force(evolution, model, 0)
    ids = [[place for place in range(4) if bits >> place & 1] for bits in range(16)]
    assert explainer.blame(0).note == RUN_DIRECTLY
    rows = [(row.kind, row.src, -1 if size == "odd" else row.dst) for row in explainer.changes().itertuples()]
    order = [rows.index(one) for one in evolution.changes]
    with pytest.warns(Notice):
        np.testing.assert_allclose(
            explainer.what_if(0, apply=[[order[i] for i in some] for some in ids]), values, atol=1e-8
        )


@pytest.mark.long
def test_undo_searches_with_the_model_where_it_disagrees_with_the_evaluator(monkeypatch):
    """Whatever the comparison before the search missed."""
    monkeypatch.setattr("axiompath.blame.engine.ModelEvaluator._agrees_when_mixed", lambda *_: True)
    for seed in range(40):
        torch.manual_seed(seed)
        model = Sized(["GraphConv"], "num edges", -1, "sum").double()
        evolution = Evolution(np.random.default_rng(seed), equal=True)
        values, full = brute_force(evolution, model, 0), (1 << len(evolution.changes)) - 1
        wanted = 1 - int(values[full].argmax())
        restored = [int(values[full & ~bits].argmax()) == wanted for bits in range(full + 1)]
        least = fewest(restored.__getitem__, len(evolution.changes))
        try:
            undo = Explainer(model, evolution.graph([]), evolution.graph(evolution.changes)).undo(0, to=wanted)
        except InputError:
            continue
        if RUN_DIRECTLY in undo.how:
            assert undo.restored == (least is not None)
            assert len(undo.changes) == (least or 0)
            return
    pytest.fail("no evaluator that disagrees was found")

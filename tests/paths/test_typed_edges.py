"""Features of edges where nodes have types: leaves of their relation's edges, complete and equal to the twin."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import HeteroData

import axiompath
from axiompath.files import match_graphs
from support.typed import RELATIONS, WIDTHS, assert_exact, randomise, relaxed, typed_pairs

TOLD = dict(zip(RELATIONS, (2, 1, 3), strict=True))  # columns of the features of each relation's edges


@st.composite
def pairs_with_features(draw, max_nodes=4):
    """(before, after): typed graphs whose edges have features, of which some changed."""
    graphs = draw(typed_pairs(max_nodes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    changed = draw(st.sampled_from((0.0, 0.5)))
    for relation, width in TOLD.items():
        said = rng.normal(size=(max_nodes, max_nodes, width))
        other = np.where(rng.random((max_nodes, max_nodes, 1)) < changed, rng.normal(size=said.shape), said)
        for data, values in zip(graphs, (said, other), strict=True):
            rows = zip(relation[::2], data[relation].edge_index, strict=True)
            ends = [data[kind].n_id[row].numpy() for kind, row in rows]
            data[relation].edge_attr = torch.from_numpy(values[ends[0], ends[1]])
    return graphs


def network(a, b):
    return nn.Sequential(nn.Linear(a, 3), nn.Tanh(), nn.Linear(3, b))


def wide(conv):
    """Kernels so wide that no weight is less than a number can be."""
    nn.init.uniform_(conv.sigma, 0.8, 1.5)
    conv.sigma.requires_grad_(False)
    return conv


CONVOLUTIONS = {
    "gine": lambda d, a, b: pyg.GINEConv(network(a, b), edge_dim=d),
    "nn": lambda d, a, b: pyg.NNConv((a, a), b, network(d, a * b), aggr="mean"),
    "cg": lambda d, a, b: pyg.CGConv((a, a), d),
    "gat": lambda d, a, b: pyg.GATConv((a, a), b, heads=2, concat=False, add_self_loops=False, edge_dim=d),
    "gatv2": lambda d, a, b: pyg.GATv2Conv((a, a), b, add_self_loops=False, edge_dim=d),
    "transformer": lambda d, a, b: pyg.TransformerConv((a, a), b, edge_dim=d),
    "gen": lambda d, a, b: pyg.GENConv((a, a), b, edge_dim=d, aggr="max"),
    "gated": lambda d, a, b: pyg.ResGatedGraphConv((a, a), b, edge_dim=d),
    "general": lambda d, a, b: pyg.GeneralConv((a, a), b, in_edge_channels=d, attention=True),
    "gmm": lambda d, a, b: wide(pyg.GMMConv((a, a), b, dim=d, kernel_size=2)),
}


class Told(nn.Module):
    """HeteroConv that is given the features of edges, as its documentation says."""

    def __init__(self, kind, width=3):
        super().__init__()
        self.first = nn.ModuleDict({name: nn.Linear(size, width) for name, size in WIDTHS.items()})
        self.convs = nn.ModuleList(
            pyg.HeteroConv({of: CONVOLUTIONS[kind](TOLD[of], width, width) for of in RELATIONS}) for _ in range(2)
        )
        self.last = nn.Linear(width, 3)

    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        x = {name: self.first[name](part).relu() for name, part in x_dict.items()}
        for conv in self.convs:
            x = {name: part.relu() for name, part in conv(x, edge_index_dict, edge_attr_dict=edge_attr_dict).items()}
        return self.last(x["paper"])


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@settings(relaxed, max_examples=3)
@given(graphs=pairs_with_features(max_nodes=2))
def test_convolutions_that_are_given_edge_features_are_complete_path_by_path(kind, graphs):
    assert_exact(randomise(Told(kind), len(kind)), *graphs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONVOLUTIONS)
@settings(relaxed, max_examples=10)
@given(graphs=pairs_with_features(max_nodes=3))
def test_and_on_larger_graphs(kind, graphs):
    assert_exact(randomise(Told(kind), len(kind)), *graphs)


def a_pair(seed=0, size=3):
    """Two typed graphs: edges come, and features of edges change."""
    rng = np.random.default_rng(seed)
    x = {kind: torch.from_numpy(rng.normal(size=(size, width))) for kind, width in WIDTHS.items()}
    edges = {of: rng.random((size, size)) < 0.5 for of in RELATIONS}
    said = {of: rng.normal(size=(size, size, width)) for of, width in TOLD.items()}
    graphs = []
    for side in range(2):
        data = HeteroData()
        for kind in WIDTHS:
            data[kind].x = x[kind]
            data[kind].name = [f"{kind[0]}{i}" for i in range(size)]
        for of in RELATIONS:
            here = edges[of] | ((rng.random((size, size)) < 0.15) & bool(side))
            other = np.where(rng.random((size, size, 1)) < 0.4 * side, rng.normal(size=said[of].shape), said[of])
            u, v = np.nonzero(here)
            data[of].edge_index = torch.from_numpy(np.stack([u, v]))
            data[of].edge_attr = torch.from_numpy(other[u, v])
        graphs.append(data)
    return tuple(graphs)


@pytest.fixture(scope="module")
def asked():
    graphs = a_pair()
    return randomise(Told("nn"), 1), *graphs


def test_other_features_of_an_edge_are_a_change_that_blame_and_undo_apply(asked):
    explainer, own = (axiompath.Explainer(*asked, paths=paths) for paths in (True, False))
    assert "edge features changed" in set(explainer.changes().kind)
    told = 0
    for target in explainer.moved().target[:2].tolist():
        blame, theirs = explainer.blame(target), own.blame(target)
        np.testing.assert_allclose(
            blame.shares.sum(axis=0), blame.logits_after - blame.logits_before, rtol=0, atol=1e-12
        )
        ours = dict(zip(blame.changes, blame.shares, strict=True))
        for change, share in zip(theirs.changes, theirs.shares, strict=True):
            np.testing.assert_allclose(share, ours.get(change, np.zeros(3)), rtol=0, atol=1e-9)
        told += sum(kind.startswith("edge features") for kind in blame.kinds)
    assert told


def test_undo_applies_other_features_of_edges(asked):
    explainer = axiompath.Explainer(*asked)
    for found in explainer.explain_many(explainer.moved().target, 1):
        before, after = (side[found.class_after] for side in (found.prob_before, found.prob_after))
        if after <= before:
            continue
        undone = explainer.undo(found.target, below=(before + after) / 2)
        logits = explainer.what_if(found.target, undo=list(undone.changes))
        assert torch.from_numpy(logits).softmax(dim=0)[found.class_after] < (before + after) / 2
        if any(kind.startswith("edge features") for kind in undone.kinds):
            return
    pytest.fail("no prediction that other features of edges moved")


def test_columns_of_an_edge_are_counted_within_its_relation(asked):
    explainer = axiompath.Explainer(*asked)
    for target in explainer.moved().target.tolist():
        found = explainer.features(target)
        logits = found[["class_0", "class_1", "class_2"]].to_numpy().sum(axis=0)
        causes = explainer.explain(target, budget=1).causes
        np.testing.assert_allclose(logits, causes.get("edge feature", np.zeros(3)), rtol=0, atol=1e-12)
        for row in found.itertuples():
            of = next(r for r in RELATIONS if row.name.startswith(f"edge ({r[0][0]}") and f"→ {r[2][0]}" in row.name)
            assert 0 <= row.column < TOLD[of]


def spoiled(graph, how):
    data = graph.clone()
    store = data[RELATIONS[0]]
    if how == "none":
        del store.edge_attr
    elif how == "wide":
        store.edge_attr = torch.cat([store.edge_attr] * 2, dim=1)
    elif how == "few":
        store.edge_attr = store.edge_attr[:1]
    else:
        store.edge_attr[0] = float("nan")
    return data


REFUSED = {
    "none": (
        r"`\[\('author', 'writes', 'paper'\)\].edge_attr`.*both graphs \(`after` has none\); add",
        "could not be run",
    ),
    "wide": (
        r"same width \(got 2 in `before` and 4 in `after`, as `\[\('author', 'writes', 'paper'\)\].edge_attr`\); pad",
        r"same width for \('author', 'writes', 'paper'\) \(got 2 in `before` and 4 in `after`\); pad",
    ),
    "few": (r"after\[\('author', 'writes', 'paper'\)\].edge_attr to hold one row per edge, .*got \(1, 2\)",) * 2,
    "nan": (r"after\[\('author', 'writes', 'paper'\)\].edge_attr.*NaN or infinite|finite edge features in `after",) * 2,
}


@pytest.mark.parametrize("how", REFUSED)
def test_features_of_edges_that_do_not_fit_are_refused_by_their_relation(how, asked):
    model, before, after = asked
    for paths, words in zip((True, False), REFUSED[how], strict=True):
        with pytest.raises(axiompath.InputError, match=words):
            axiompath.Explainer(model, before, spoiled(after, how), paths=paths)


def test_a_width_that_the_model_was_not_trained_on_is_said_to_be_one(asked):
    model, before, after = asked
    words = r"could not be run.*select the columns of features.*4 in `edge_attr of author – writes – paper`"
    with pytest.raises(axiompath.readers.UnreadableModel, match=words) as refusal:
        axiompath.Explainer(model, spoiled(before, "wide"), spoiled(after, "wide"))
    assert "paths=False" not in str(refusal.value)  # it would not run so either


def test_tables_of_edges_have_columns_of_features(tmp_path, asked):
    model, before, after = asked
    graphs = []
    for name, data in (("before", before), ("after", after)):
        folder = tmp_path / name
        folder.mkdir()
        for kind in WIDTHS:
            rows = zip(data[kind].name, data[kind].x.tolist(), strict=True)
            lines = [",".join(map(str, [own, *x])) for own, x in rows]
            header = ",".join(["id", *(f"c{i}" for i in range(WIDTHS[kind]))])
            (folder / f"nodes.{kind}.csv").write_text("\n".join([header, *lines]))
        for of in RELATIONS:
            ends = [data[kind].name for kind in of[::2]]
            rows = zip(data[of].edge_index.T.tolist(), data[of].edge_attr.tolist(), strict=True)
            lines = [",".join(map(str, [ends[0][u], ends[1][v], *said])) for (u, v), said in rows]
            header = ",".join(["source", "target", *(f"edge_attr_{i}" for i in range(TOLD[of]))])
            (folder / f"edges.{'.'.join(of)}.csv").write_text("\n".join([header, *lines]))
        graphs.append(axiompath.read_graph(folder))
    read = [graph.data for graph in match_graphs(*graphs)]
    found, expected = (axiompath.Explainer(model, *both) for both in (read, (before, after)))
    kinds = [sorted(one.changes().kind) for one in (found, expected)]
    assert kinds[0] == kinds[1]
    np.testing.assert_allclose(
        found.explain("paper p2", 3).logits_after, expected.explain("paper p2", 3).logits_after, rtol=1e-5
    )
    torch.save(after, tmp_path / "after.pt")
    saved = axiompath.read_graph(tmp_path / "after.pt").data
    for of in RELATIONS:
        assert torch.equal(saved[of].edge_attr, after[of].edge_attr)

"""Models of typed graphs as people write them, and models that nobody reads: run as they are called, or refused."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import models

import axiompath

WIDTHS = {"user": 4, "item": 3}
RELATIONS = (("user", "buys", "item"), ("item", "bought by", "user"), ("user", "knows", "user"))
SIZE = 8


def shop(columns=None):
    """(before, after): users and items, in float32 as people have them; `columns` of what edges say, if anything."""
    rng = np.random.default_rng(0)
    x = {kind: torch.from_numpy(rng.normal(size=(SIZE, width))).float() for kind, width in WIDTHS.items()}
    edges = {of: rng.random((SIZE, SIZE)) < 0.25 for of in RELATIONS}
    said = rng.random(size=(SIZE, SIZE, columns or 1))
    graphs = []
    for side in range(2):
        data = HeteroData()
        for kind in WIDTHS:
            data[kind].x = x[kind]
        for of in RELATIONS:
            u, v = np.nonzero(edges[of] | ((rng.random((SIZE, SIZE)) < 0.06) & bool(side)))
            data[of].edge_index = torch.from_numpy(np.stack([u, v]))
            if columns:
                data[of].edge_attr = torch.from_numpy(said[u, v]).float()
        graphs.append(data)
    return tuple(graphs)


def assert_as_called(model, graphs, answer):
    """Logits are those of the user's own call, in float32, and shares sum to their change."""
    explainer = axiompath.Explainer(model.eval(), *graphs)
    change = explainer.change
    number = {int(node): row for row, node in enumerate(change.before.node_ids)}
    rows = [number[change.before.schema.number("user", i)] for i in range(SIZE)]
    for data, ours in zip(graphs, (change.before_pass, change.after_pass), strict=True):
        with torch.no_grad():
            theirs = answer(model, data).double().numpy()
        np.testing.assert_allclose(ours.logits[rows], theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())
    found = list(explainer.attribute_many(explainer.moved().target))
    assert found
    assert max(one.residual for one in found) < 1e-9
    return explainer


class Amounts(nn.Module):
    """Amounts on edges, another convolution for each relation, called with the whole HeteroData."""

    def __init__(self, width=6):
        super().__init__()
        self.first = nn.ModuleDict({kind: nn.Linear(size, width) for kind, size in WIDTHS.items()})
        network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, width * width))
        convs = {
            RELATIONS[0]: pyg.GATConv((width, width), width, edge_dim=2, add_self_loops=False),
            RELATIONS[1]: pyg.NNConv((width, width), width, network),
            RELATIONS[2]: pyg.TransformerConv(width, width // 2, heads=2, edge_dim=2),
        }
        self.conv, self.last = pyg.HeteroConv(convs, aggr="mean"), nn.Linear(width, 2)

    def forward(self, data):
        x = {kind: self.first[kind](part) for kind, part in data.x_dict.items()}
        for _ in range(2):  # the same layer twice
            x = {k: F.leaky_relu(v) for k, v in self.conv(x, data.edge_index_dict, data.edge_attr_dict).items()}
        return self.last(x["user"])


class Lazy(nn.Module):
    """For to_hetero: widths that it finds out itself, norms, features of edges."""

    def __init__(self):
        super().__init__()
        self.first, self.skip = pyg.SAGEConv((-1, -1), 6), pyg.Linear(-1, 6)
        self.norm, self.other = pyg.GraphNorm(6), pyg.BatchNorm(6)
        self.second = pyg.GATv2Conv((-1, -1), 3, add_self_loops=False, edge_dim=2)

    def forward(self, x, edge_index, edge_attr):
        x = self.other(self.norm(self.first(x, edge_index) + self.skip(x))).relu()
        return self.second(x, edge_index, edge_attr)


class Weighed(nn.Module):
    """One number an edge, under the name of its features."""

    def __init__(self):
        super().__init__()
        self.conv = pyg.HeteroConv({of: pyg.GraphConv((-1, -1), 3) for of in RELATIONS})

    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        weights = {of: told.squeeze(-1) for of, told in edge_attr_dict.items()}
        return self.conv(x_dict, edge_index_dict, weights)["user"]


class Transformer(nn.Module):
    """HGT as its example has it."""

    def __init__(self, metadata):
        super().__init__()
        self.first = nn.ModuleDict({kind: pyg.Linear(-1, 6) for kind in metadata[0]})
        self.convs = nn.ModuleList(pyg.HGTConv(6, 6, metadata, 2) for _ in range(2))
        self.last = pyg.Linear(6, 3)

    def forward(self, x_dict, edge_index_dict):
        x_dict = {kind: self.first[kind](x).relu_() for kind, x in x_dict.items()}
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict)
        return self.last(x_dict["user"])


def run_once(model, *given):
    torch.manual_seed(0)
    with torch.no_grad():
        model(*given)
    return model


def test_amounts_on_edges_of_every_relation():
    torch.manual_seed(0)
    assert_as_called(Amounts(), shop(2), lambda model, data: model(data))


def test_lazy_layers_norms_of_each_type_and_features_of_edges_through_to_hetero():
    graphs = shop(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pyg.to_hetero(Lazy(), graphs[0].metadata())
    run_once(model, graphs[0].x_dict, graphs[0].edge_index_dict, graphs[0].edge_attr_dict)
    explainer = assert_as_called(
        model, graphs, lambda model, data: model(data.x_dict, data.edge_index_dict, data.edge_attr_dict)["user"]
    )
    causes = explainer.explain(explainer.moved().target[0], 3).causes
    assert np.abs(causes["statistics"]).max() > 0


def test_weights_of_edges_by_the_name_of_features():
    graphs = shop(1)
    model = run_once(Weighed(), graphs[0].x_dict, graphs[0].edge_index_dict, graphs[0].edge_attr_dict)
    graphs[1][RELATIONS[1]].edge_attr *= 1.5
    explainer = assert_as_called(
        model, graphs, lambda model, data: model(data.x_dict, data.edge_index_dict, data.edge_attr_dict)
    )
    assert "edge reweighted" in set(explainer.changes().kind)


class OwnLayer(pyg.MessagePassing):
    """A layer that somebody wrote, between nodes of two types."""

    def __init__(self, sender, receiver, width):
        super().__init__(aggr="mean")
        self.message_map, self.root = nn.Linear(sender, width), nn.Linear(receiver, width)

    def forward(self, x, edge_index):
        x = x if isinstance(x, tuple) else (x, x)
        return self.root(x[1]) + self.propagate(edge_index, x=x)

    def message(self, x_j):
        return torch.tanh(self.message_map(x_j))


class OwnLayers(nn.Module):
    """They stand in HeteroConv, one for each relation."""

    def __init__(self):
        super().__init__()
        self.convs = pyg.HeteroConv({of: OwnLayer(WIDTHS[of[0]], WIDTHS[of[2]], 5) for of in RELATIONS}, aggr="sum")
        self.last = nn.Linear(5, 2)

    def forward(self, x_dict, edge_index_dict):
        return self.last(self.convs(x_dict, edge_index_dict)["user"].relu())


class RelationsByHand(nn.Module):
    """A loop over relations with index_add, attention over what they bring, and no layer of PyG at all."""

    def __init__(self):
        super().__init__()
        self.first = nn.ModuleDict({kind: nn.Linear(size, 5) for kind, size in WIDTHS.items()})
        self.maps = nn.ModuleDict({"-".join(of): nn.Linear(5, 5, bias=False) for of in RELATIONS})
        self.score, self.last = nn.Linear(5, 1), nn.Linear(5, 2)

    def forward(self, x_dict, edge_index_dict):
        h = {kind: F.elu(self.first[kind](x)) for kind, x in x_dict.items()}
        for _ in range(2):
            heard = {kind: [part] for kind, part in h.items()}
            for of, (senders, receivers) in edge_index_dict.items():
                sent = self.maps["-".join(of)](h[of[0]])[senders]
                heard[of[2]].append(torch.zeros_like(h[of[2]]).index_add(0, receivers, sent))
            for kind, parts in heard.items():
                stacked = torch.stack(parts, dim=1)
                shares = torch.softmax(self.score(torch.tanh(stacked)), dim=1)
                h[kind] = (shares * stacked).sum(dim=1)
        return {kind: self.last(part) for kind, part in h.items()}


@pytest.mark.parametrize("make", [OwnLayers, RelationsByHand])
def test_layers_that_people_write_for_types_are_read_by_their_operations(make):
    torch.manual_seed(0)

    def answer(model, data):
        found = model(data.x_dict, data.edge_index_dict)
        return found["user"] if isinstance(found, dict) else found

    graphs = shop()
    graphs[1]["item"].x = graphs[1]["item"].x.clone()
    graphs[1]["item"].x[0] += 1.0
    explainer = assert_as_called(make(), graphs, answer)
    target = explainer.moved().target[0]
    found, blame = explainer.explain(target, budget=3), explainer.blame(target)
    assert found.relations
    np.testing.assert_allclose(blame.shares.sum(axis=0), blame.logits_after - blame.logits_before, atol=1e-6)


class AttendsThenOwn(nn.Module):
    """GATConv goes another way where there is nothing to send."""

    def __init__(self):
        super().__init__()
        convs = {of: pyg.GATConv((WIDTHS[of[0]], WIDTHS[of[2]]), 3, add_self_loops=False) for of in RELATIONS[:1]}
        self.conv, self.own = pyg.HeteroConv(convs), OwnLayer(3, 4, 3)

    def forward(self, x_dict, edge_index_dict):
        items = torch.tanh(self.conv(x_dict, edge_index_dict)["item"])
        return self.own((items, x_dict["user"]), edge_index_dict[RELATIONS[1]])


def test_a_relation_without_edges_on_one_of_the_graphs():
    torch.manual_seed(0)
    graphs = shop()
    graphs[0][RELATIONS[0]].edge_index = torch.zeros(2, 0, dtype=torch.long)
    assert_as_called(AttendsThenOwn(), graphs, lambda model, data: model(data.x_dict, data.edge_index_dict))


class ToldAmongUsers(nn.Module):
    """A convolution that is given features of edges between users, then a layer from users to items."""

    def __init__(self, conv):
        super().__init__()
        self.conv, self.own = conv, OwnLayer(1, 3, 2)

    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        h = self.conv(x_dict["user"], edge_index_dict[RELATIONS[2]], edge_attr_dict[RELATIONS[2]])
        return self.own((h[:, :1], x_dict["item"]), edge_index_dict[RELATIONS[0]])


@pytest.mark.parametrize("sides", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    "make", [lambda: pyg.GATv2Conv(4, 2, edge_dim=2, add_self_loops=False), lambda: pyg.CGConv(4, 2)]
)
def test_features_of_edges_where_one_graph_or_both_have_no_edges(make, sides):
    torch.manual_seed(0)
    graphs = shop(2)
    for side in sides:
        graphs[side][RELATIONS[2]].edge_index = torch.zeros(2, 0, dtype=torch.long)
        graphs[side][RELATIONS[2]].edge_attr = torch.zeros(0, 2)
    explainer = axiompath.Explainer(ToldAmongUsers(make()).eval(), *graphs)
    found = list(explainer.attribute_many(explainer.moved().target))
    assert found
    assert max(one.residual for one in found) < 1e-9


def test_a_relation_that_the_model_knows_and_no_graph_has():
    graphs = shop()
    model = run_once(Transformer(graphs[0].metadata()), graphs[0].x_dict, graphs[0].edge_index_dict)
    for data in graphs:
        del data[RELATIONS[0]]  # nothing leads to items now
    assert_as_called(model, graphs, lambda model, data: model(data.x_dict, data.edge_index_dict))


# ---- what is given to a model of one kind of node -------------------------------------------------------------------
def people():
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.normal(size=(10, 5))).float()
    kept = rng.random((10, 10)) < 0.25
    graphs = []
    for side in range(2):
        edges = np.stack(np.nonzero(kept | ((rng.random(kept.shape) < 0.05) & bool(side))))
        graphs.append(Data(x=x, edge_index=torch.from_numpy(edges)))
    return tuple(graphs)


class Counted(nn.Module):
    """Asks how many nodes there are, and gives senders and receivers features of their own."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.SAGEConv((5, 5), 6), pyg.ResGatedGraphConv((6, 6), 3)

    def forward(self, x, edge_index, num_nodes):
        assert len(x) == num_nodes
        h = self.first((x, x), edge_index)
        return self.second((h.relu(), h.tanh()), edge_index)


def test_the_number_of_nodes_and_pairs_of_features():
    torch.manual_seed(0)
    graphs, model = people(), Counted().eval()
    explainer = axiompath.Explainer(model, *graphs)
    for data, ours in zip(graphs, (explainer.change.before_pass, explainer.change.after_pass), strict=True):
        with torch.no_grad():
            theirs = model(data.x, data.edge_index, data.num_nodes).double().numpy()
        np.testing.assert_allclose(ours.logits[:10], theirs, rtol=0, atol=1e-5)  # edges are rows, too
    found = list(explainer.attribute_many(explainer.moved().target))
    assert max(one.residual for one in found) < 1e-9


def test_pairs_of_features_where_a_class_reader_takes_none():
    conv = pyg.FeaStConv(5, 3)
    model = pyg.Sequential("x, edge_index", [(lambda x: (x, 2.0 * x), "x -> x"), (conv, "x, edge_index -> x")])
    explainer = axiompath.Explainer(model.double().eval(), *people())
    assert explainer.change.network.recorded
    found = list(explainer.attribute_many(explainer.moved().target))
    assert max(one.residual for one in found) < 1e-9


def test_a_relation_that_an_rgcn_was_not_made_for_is_said_to_be_one():
    graphs = people()
    for data in graphs:
        data.edge_type = torch.arange(data.num_edges) % 3
    graphs[1].edge_type[0] = 7
    steps = [(pyg.RGCNConv(5, 3, 3), "x, edge_index, edge_type -> x")]
    model = pyg.Sequential("x, edge_index, edge_type", steps).eval()
    for paths in (True, False):
        with pytest.raises(
            axiompath.readers.UnreadableModel, match=r"leave out edges of relations.*0 to 7 in `edge_type`"
        ) as no:
            axiompath.Explainer(model, *graphs, paths=paths)
        assert "paths=False" not in str(no.value)


# ---- models that nobody reads ---------------------------------------------------------------------------------------
UNREAD = {
    "GraphUNet": lambda: models.GraphUNet(5, 6, 3, 2),
}


@pytest.mark.parametrize("name", UNREAD)
def test_models_that_are_refused_as_a_whole_have_blame_without_paths(name):
    torch.manual_seed(0)
    graphs, model = people(), UNREAD[name]().eval()
    with pytest.raises(axiompath.readers.UnreadableModel, match=r"paths=False.*blame, undo and what_if work so"):
        axiompath.Explainer(model, *graphs)
    explainer = axiompath.Explainer(model, *graphs, paths=False)
    blame = explainer.blame(explainer.moved().target[0])
    np.testing.assert_allclose(blame.shares.sum(axis=0), blame.logits_after - blame.logits_before, rtol=0, atol=1e-6)


def test_models_of_bases_are_read():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = pyg.SAGEConv((4, 4), 3)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    graphs = shop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pyg.to_hetero_with_bases(Plain(), graphs[0].metadata(), num_bases=2, in_channels={"x": 4})
    run_once(model, graphs[0].x_dict, graphs[0].edge_index_dict)
    assert_as_called(model, graphs, lambda model, data: model(data.x_dict, data.edge_index_dict)["user"])

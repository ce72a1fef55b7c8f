"""Models as people write them: read without a line changed, or refused by name, with a reason and a way out."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    APPNP,
    GCN,
    BatchNorm,
    DirGNNConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GENConv,
    GINConv,
    GINEConv,
    GraphConv,
    GraphSAGE,
    JumpingKnowledge,
    LayerNorm,
    MessagePassing,
    SAGEConv,
    TransformerConv,
    global_mean_pool,
)
from torch_geometric.utils import add_self_loops, dropout_edge

import axiompath
from axiompath.readers import UnreadableModel
from support.convolutions import EVOLUTIONS, assert_read_exactly, evolution, randomise


class ResidualBlocks(nn.Module):
    """Residuals after the activation, normalised first."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(3, 8)
        self.convs = nn.ModuleList(GCNConv(8, 8) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
        self.decoder = nn.Linear(8, 3)

    def forward(self, x, edge_index, edge_weight=None):
        h = self.encoder(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + F.dropout(F.relu(conv(norm(h), edge_index, edge_weight)), 0.2, self.training)
        return self.decoder(h)


class GATWithELU(nn.Module):
    """The PyG example for Cora."""

    def __init__(self):
        super().__init__()
        self.conv1 = GATConv(3, 4, heads=3, dropout=0.6)
        self.conv2 = GATConv(12, 3, heads=1, concat=False, dropout=0.6)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.6, training=self.training)
        x = F.elu(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.6, training=self.training)
        return self.conv2(x, edge_index)


class JumpingKnowledgeCat(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = SAGEConv(3, 4), SAGEConv(4, 4), SAGEConv(4, 4)
        self.jump = JumpingKnowledge("cat")
        self.lin = nn.Linear(12, 3)

    def forward(self, x, edge_index):
        h1 = self.conv1(x, edge_index).relu()
        h2 = self.conv2(h1, edge_index).relu()
        h3 = self.conv3(h2, edge_index).relu()
        return self.lin(self.jump([h1, h2, h3]))


class NormAfterActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = GraphConv(3, 6), BatchNorm(6)
        self.conv2, self.bn2 = GraphConv(6, 6), nn.BatchNorm1d(6)
        self.out = GraphConv(6, 3)

    def forward(self, x, edge_index, edge_weight=None):
        x = self.bn1(torch.relu(self.conv1(x, edge_index, edge_weight)))
        x = self.bn2(torch.relu(self.conv2(x, edge_index, edge_weight)))
        return self.out(x, edge_index, edge_weight)


class SharedWeights(nn.Module):
    """One convolution applied again and again, and an initial residual."""

    def __init__(self):
        super().__init__()
        self.first, self.conv, self.last = nn.Linear(3, 5), GCNConv(5, 5), nn.Linear(5, 3)
        self.steps = 3

    def forward(self, x, edge_index):
        x = h0 = self.first(x).tanh()
        for _ in range(self.steps):
            x = torch.tanh(0.9 * self.conv(x, edge_index) + 0.1 * h0)
        return self.last(x)


class EncoderDecoder(nn.Module):
    """An MLP, propagation, an MLP; takes a Data object."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 4))
        self.propagate = APPNP(K=2, alpha=0.1)
        self.decoder = nn.Sequential(nn.GELU(), nn.Linear(4, 3))

    def forward(self, data):
        x, edge_index = data.x, data.edge_index
        return self.decoder(self.propagate(self.encoder(x), edge_index, data.edge_weight))


class DeepList(nn.Module):
    """A ModuleList loop with everything optional, as in OGB's examples."""

    def __init__(self, num_layers=3, use_bn=True):
        super().__init__()
        self.convs, self.bns = nn.ModuleList(), nn.ModuleList()
        for i in range(num_layers):
            self.convs.append(SAGEConv(3 if i == 0 else 6, 6 if i < num_layers - 1 else 3))
            self.bns.append(nn.BatchNorm1d(6))
        self.use_bn = use_bn

    def forward(self, x, edge_index):
        for i, conv in enumerate(self.convs[:-1]):
            x = conv(x, edge_index)
            if self.use_bn and x.size(0) > 1:
                x = self.bns[i](x)
            x = F.relu(x, inplace=True)
            x = F.dropout(x, p=0.5, training=self.training)
        x = self.convs[-1](x, edge_index)
        return x


class LearntLayerWeights(nn.Module):
    """A learnt mixture of all layers."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(3, 5), GCNConv(5, 5), GCNConv(5, 5)])
        self.mix, self.bias = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(5))
        self.scale = nn.Parameter(torch.ones(5))
        self.out = nn.Linear(5, 3, bias=False)

    def forward(self, x, edge_index):
        layers = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x, edge_index), 0.2)
            layers.append(x)
        weights = torch.softmax(self.mix, dim=0)
        mixed = sum(w * h for w, h in zip(weights, layers, strict=True))
        stacked = (torch.stack(layers, dim=0) * weights.view(-1, 1, 1)).sum(dim=0)
        again = torch.stack(layers, dim=-1).mean(dim=-1)
        return self.out((mixed + stacked - again / 2) * self.scale + self.bias)


class SkipConcat(nn.Module):
    """The input again beside every hidden layer, and columns taken apart."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GATv2Conv(3, 4), SAGEConv(7, 6)
        self.weight = nn.Parameter(torch.empty(6, 3))

    def forward(self, x, edge_index):
        h = torch.cat([F.silu(self.conv1(x, edge_index)), x], dim=-1)
        h = self.conv2(h, edge_index)
        left, right = h.chunk(2, dim=-1)
        gate = torch.sigmoid(right)
        return torch.cat([F.elu(left), gate], dim=1) @ self.weight + h[:, 1:4] - x


class MLPInside(nn.Module):
    """GIN as in the PyG example, with an output MLP."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList()
        for width in (3, 6):
            mlp = nn.Sequential(nn.Linear(width, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU())
            self.convs.append(GINConv(mlp, train_eps=True))
        self.lin1, self.lin2 = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x, edge_index):
        for conv in self.convs:
            x = conv(x, edge_index)
        x = F.relu(self.lin1(x))
        x = F.dropout(x, p=0.5, training=self.training)
        return self.lin2(x)


class Transformer(nn.Module):
    """Pre-norm attention blocks with a feed-forward part."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(4), LayerNorm(4, mode="node")
        self.inp, self.attention = nn.Linear(3, 4), TransformerConv(4, 2, heads=2)
        self.feed_forward = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
        self.out = nn.Linear(4, 3)

    def forward(self, x, edge_index):
        x = self.inp(x)
        x = x + self.attention(self.norm1(x), edge_index)
        x = x + self.feed_forward(self.norm2(x))
        return self.out(x)


class UnitLength(nn.Module):
    """Embeddings of length 1 between two layers, as retrieval has them."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = SAGEConv(3, 4), GCNConv(4, 3)

    def forward(self, x, edge_index):
        return self.conv2(F.normalize(self.conv1(x, edge_index).relu(), dim=-1), edge_index)


class OwnCell(nn.Module):
    """A hidden state that a GRU cell renews by what the neighbours say."""

    def __init__(self):
        super().__init__()
        self.inp, self.conv, self.cell, self.out = nn.Linear(3, 4), GCNConv(4, 4), nn.GRUCell(4, 4), nn.Linear(4, 3)

    def forward(self, x, edge_index):
        state = self.inp(x).tanh()
        return self.out(self.cell(self.conv(state, edge_index), state))


READ = (
    UnitLength,
    OwnCell,
    ResidualBlocks,
    GATWithELU,
    JumpingKnowledgeCat,
    NormAfterActivation,
    SharedWeights,
    EncoderDecoder,
    DeepList,
    LearntLayerWeights,
    SkipConcat,
    MLPInside,
    Transformer,
)


class AsArguments(nn.Module):
    """Calls a model that takes a Data object with plain arguments, to compare."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index, edge_weight=None):
        return self.model(Data(x=x, edge_index=edge_index, edge_weight=edge_weight))


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("seed", range(4))
def test_models_as_people_write_them_are_read_without_a_change(kind, seed):
    model = randomise(kind(), seed)
    before, after = evolution(seed, EVOLUTIONS[seed])
    if kind is EncoderDecoder:
        explainer = axiompath.Explainer(model, before, after)
        assert explainer.moved().equals(axiompath.Explainer(AsArguments(model), before, after).moved())
        model = AsArguments(model)
    explainer = assert_read_exactly(model, before, after)
    found = explainer.attribute(int(explainer.moved().target[0]))
    assert found.paths.shape[1] == explainer.change.network.num_hops + 1
    assert axiompath.check(model, after).readable


def module(forward, *parts):
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(parts or [GCNConv(3, 3)])

        def forward(self, x, edge_index, edge_weight=None):
            return forward(self.parts, x, edge_index, edge_weight)

    return Written()


class OwnConv(MessagePassing):
    def __init__(self):
        super().__init__(aggr="add")
        self.lin = nn.Linear(3, 3)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x))


class SubclassedGCN(GCNConv):
    pass


class NeedsEdgeFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GATConv(3, 3, edge_dim=2)

    def forward(self, x, edge_index, edge_attr):
        return self.conv(x, edge_index, edge_attr)


def mlp():
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU())


def conv(parts, x, e, w):
    return parts[0](x, e)


REFUSED = {
    "lstm aggregation": (
        module(conv, SAGEConv(3, 3, aggr="lstm")),
        r"aten\.index_put adds rows up into",
    ),
    "several aggregations": (module(conv, SAGEConv(3, 3, aggr=["mean", "median"])), r"chooses rows by features"),
    "median of GraphConv": (
        module(conv, GraphConv(3, 3, aggr="median")),
        r"chooses rows by features",
    ),
    "messages by their length": (module(conv, GENConv(3, 3, aggr="add", msg_norm=True)), r"parts\.0 .*msg_norm=False"),
    "a power mean": (module(conv, GENConv(3, 3, aggr="powermean")), r"parts\.0 \(GENConv\): .*softmax, var or std"),
    "length by another norm": (
        module(lambda p, x, e, w: torch.nn.functional.normalize(p[0](x, e), p=1.0)),
        r"forward \(normalize\): .*another norm than the Euclidean",
    ),
    "both ways of an unknown one": (
        module(conv, DirGNNConv(OwnConv(), root_weight=False)),
        r"parts\.0 \(DirGNNConv\): its conv_out is of type OwnConv, for which there is no reader",
    ),
    "edge features": (
        module(lambda p, x, e, w: p[0](x, e, w), GATConv(3, 3, edge_dim=1)),
        r"parts\.0 \(GATConv\): expected `edge_attr` to be made of a field of the data.*put them into `edge_attr`",
    ),
    "GINE": (
        module(lambda p, x, e, w: p[0](x, e, w.view(-1, 1)), GINEConv(mlp(), edge_dim=1)),
        r"parts\.0 \(GINEConv\): expected `edge_attr` to be made of a field of the data",
    ),
    "edge features asked for": (NeedsEdgeFeatures(), r"asks for `edge_attr`, which `before` does not have"),
    "own MessagePassing": (module(conv, OwnConv()), r"parts\.0 \(OwnConv\): no reader.*register_reader"),
    "a subclass": (module(conv, SubclassedGCN(3, 3)), r"parts\.0 \(SubclassedGCN\): no reader"),
    "a decision on values": (
        module(lambda p, x, e, w: p[0](x, e) if (x > 0).any() else x),
        r"Python looks at the value of features here.*or outside of the model",
    ),
    "a decision on edges": (
        module(lambda p, x, e, w: p[0](x, e) if int(e.max()) > 3 else x),
        r"forward \(__int__\): .*looks at its edges.*decide only from shapes",
    ),
    "global pooling": (
        module(lambda p, x, e, w: p[0](x, e) + global_mean_pool(p[0](x, e), None)),
        r"forward \(add\): mixes values of nodes with values of whole graphs.*keep what is pooled apart",
    ),
    "graphs of the model's own making": (
        module(lambda p, x, e, w: global_mean_pool(p[0](x, e), torch.arange(len(x)) % 2)),
        r"adds rows up into 2 rows that are neither the nodes nor the graphs",
    ),
    "edges added inside": (
        module(lambda p, x, e, w: p[0](x, add_self_loops(e)[0])),
        r"forward \(__int__\): .*looks at its edges.*change the edges in the data before",
    ),
    "edges dropped inside": (
        module(lambda p, x, e, w: p[0](x, dropout_edge(e, training=True)[0])),
        r"draws random numbers",
    ),
    "edge weights made inside": (
        module(lambda p, x, e, w: p[0](x, e, torch.ones(e.size(1), dtype=x.dtype))),
        r"parts\.0 \(GCNConv\): expected the edge_weight that the model was given",
    ),
    "one embedding a node": (
        module(lambda p, x, e, w: p[0](x + torch.arange(len(x), dtype=x.dtype).view(-1, 1), e)),
        r"forward \(add\): .*belongs to single nodes.*part of `x`",
    ),
    "lstm over layers": (GraphSAGE(3, 4, 2, 3, jk="lstm"), r"jk"),
    "DiffGroupNorm": (
        GCN(3, 4, 2, 3, norm="diff_group_norm", norm_kwargs={"groups": 2}),
        r"norms\.0 \(DiffGroupNorm\): .*product of the two",
    ),
    "softmax inside GIN": (
        module(conv, GINConv(nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=-1)))),
        r"parts\.0\.nn\.1 \(softmax\): a softmax inside a convolution",
    ),
    "rounding": (
        module(lambda p, x, e, w: p[0](x.to(torch.long).to(x.dtype), e)),
        r"gives other logits than the model",
    ),
    "an unforeseen call": (
        module(lambda p, x, e, w: torch.add(p[0](x, e), x, out=torch.empty_like(x))),
        r"gives other logits than the model",
    ),
    "a matrix on the left": (
        module(lambda p, x, e, w: torch.eye(len(x), dtype=x.dtype) @ p[0](x, e)),
        r"forward \(matmul\): .*mixes nodes, which only a convolution may",
    ),
    "a tuple": (module(lambda p, x, e, w: (p[0](x, e), x)), r"return one tensor of logits .*got tuple.*wrap it"),
    "attention returned": (
        module(lambda p, x, e, w: p[0](x, e, return_attention_weights=True)[0], GATConv(3, 3)),
        r"parts\.0 \(GATConv\): was called with `return_attention_weights`",
    ),
    "writing into a part": (
        module(lambda p, x, e, w: p[0](_overwritten(x), e)),
        r"forward \(__setitem__\): writes into a part of a tensor",
    ),
    "nodes picked": (module(lambda p, x, e, w: p[0](x, e)[:2]), r"expected one row of logits for each of 7 nodes"),
    "softmax over nodes inside": (
        module(lambda p, x, e, w: p[0](x.softmax(0), e)),
        "",
    ),
    "an unknown function": (
        module(lambda p, x, e, w: p[0](x, e).exp()),
        r"forward \(exp\): the function `exp`.*Move it",
    ),
    "another shape": (
        module(lambda p, x, e, w: p[0](x, e).view(-1)),
        r"expected one row of logits for each of 7 nodes",
    ),
    "transposed": (module(lambda p, x, e, w: p[0](x.T.contiguous().T, e)), r"forward \(T\): the function `T`"),
}


def _overwritten(x):
    x = x.clone()
    x[:, 0] = 0
    return x


# Once refused by the names of classes and functions; their operations are read.
READ_BY_OPERATIONS = (
    "a power mean", "length by another norm", "both ways of an unknown one", "edge features", "GINE",
    "own MessagePassing", "a subclass", "a decision on edges", "edges added inside", "edge weights made inside",
    "one embedding a node", "lstm over layers", "DiffGroupNorm", "a matrix on the left", "attention returned",
    "writing into a part", "an unknown function", "transposed", "global pooling", "messages by their length",
    "softmax over nodes inside",
)  # fmt: skip
ENDS_IN_SOFTMAX = "softmax inside GIN"


@pytest.mark.parametrize("case", READ_BY_OPERATIONS)
def test_what_has_no_name_is_read_by_its_operations(case):
    model, _ = REFUSED[case]
    graphs = [data.sort(sort_by_row=False) for data in evolution(0, EVOLUTIONS[0])]
    assert_read_exactly(randomise(model).double(), *graphs)


def test_a_softmax_at_the_end_of_a_layer_is_the_models_end():
    model, _ = REFUSED[ENDS_IN_SOFTMAX]
    assert axiompath.Explainer(model.double(), *evolution(0, EVOLUTIONS[0])).change.network.end == "softmax"


@pytest.mark.parametrize("case", [case for case in REFUSED if case not in (*READ_BY_OPERATIONS, ENDS_IN_SOFTMAX)])
def test_what_cannot_be_read_is_refused_by_name_with_a_reason_and_a_way_out(case):
    model, words = REFUSED[case]
    before, after = (data.sort(sort_by_row=False) for data in evolution(0, EVOLUTIONS[0]))  # for PyG's LSTM
    with pytest.raises(UnreadableModel, match=words) as caught:
        axiompath.Explainer(model.double(), before, after)
    checked = axiompath.check(model, before)
    assert not checked.readable
    assert checked.replay_error is None
    assert str(caught.value).replace("`before`", "`data`") == checked.problem
    assert checked.problem in str(checked)


def test_a_number_kept_for_a_log_does_not_stand_in_the_way():
    class Logs(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(3, 3)

        def forward(self, x, edge_index):
            out = self.conv(x, edge_index)
            self.largest = out.abs().max()
            return out

    assert_read_exactly(randomise(Logs()), *evolution(0, EVOLUTIONS[0]))

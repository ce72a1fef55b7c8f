"""Random models and evolutions for property tests; hypothesis chooses the structure, a seed the numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from hypothesis import strategies as st
from scipy import sparse
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from axiompath.change.comparison import find_change
from axiompath.graphs.data_fields import Fields
from axiompath.graphs.places import GRAPHS, LINKS
from axiompath.graphs.snapshot import align_snapshots, read_snapshot
from axiompath.graphs.targets import with_graphs, with_links
from axiompath.network import activations
from axiompath.network.attention import ReadColumns
from axiompath.network.coefficients import Factor, Identity, Rule, Sum, SymmetricNorm, diagonal
from axiompath.network.degrees import Looped
from axiompath.network.families import Column
from axiompath.network.layers import Block, Channel, Layer, Network, run_network
from axiompath.network.maxima import Extreme, Highest
from axiompath.network.readouts import End, Pooled
from axiompath.network.relations import OfRelation
from axiompath.network.statistics import GraphScale, GraphShift
from support.edge_rules import RECEIVER, SENDER, ColumnSoftmax, Delivered, Gathered, MomentsOfNodes, ScoreSoftmax
from support.widened import widen_pair

CHANGES = ("add", "remove", "reweight", "features", "nodes")
EDGE_WIDTH = 2  # columns of edge features
RELATIONS = 2


@dataclass(frozen=True)
class AnySign(Rule):
    """Coefficients that depend on the inputs and may flip sign: the worst that attention could do."""

    seed: int
    local: ClassVar[bool] = False
    reads_inputs: ClassVar[bool] = True

    def matrix(self, snapshot, inputs):
        a = Sum(True).matrix(snapshot, inputs).tocoo()
        direction = np.random.default_rng(self.seed).normal(size=inputs.shape[1])
        score = np.sin(3 * (np.asarray(inputs @ direction)))
        return sparse.coo_array((a.data * (score[a.row] - score[a.col] + 0.1), (a.row, a.col)), shape=a.shape).tocsr()


@dataclass(frozen=True)
class NodeScale(Rule):
    """A positive factor for every node that depends on its inputs, as in LayerNorm."""

    local: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = True

    def matrix(self, snapshot, inputs):
        scale = 1 / np.sqrt(1 + np.asarray((inputs * inputs).sum(axis=1)))
        return diagonal(snapshot, scale)


def any_activation(rng, name, width):
    return {
        "relu": activations.relu,
        "leaky_relu": lambda: activations.leaky_relu(0.2),
        "prelu": lambda: activations.prelu(rng.uniform(-0.5, 1, size=width)),
        "elu": lambda: activations.elu(1.3),
        "gelu": activations.gelu,
        "gelu_tanh": lambda: activations.gelu("tanh"),
        "silu": activations.silu,
        "tanh": activations.tanh,
        "sigmoid": activations.sigmoid,
        "softplus": lambda: activations.softplus(1.5, 4.0),
        "log_sigmoid": activations.log_sigmoid,
        "clamp": lambda: activations.clamp(-0.5, 1.5),
        "selu": activations.selu,
        "celu": lambda: activations.celu(0.7),
        "mish": activations.mish,
        "softsign": activations.softsign,
        "abs": lambda: activations.two_slopes("abs", -1.0),
        "identity": lambda: None,
    }[name]()


HOMOGENEOUS_NAMES = ("relu", "leaky_relu", "identity")  # a positive number passes through them
ACTIVATION_NAMES = (
    "relu", "leaky_relu", "prelu", "elu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "softplus", "log_sigmoid",
    "clamp", "selu", "celu", "mish", "softsign", "abs", "identity",
)  # fmt: skip


@st.composite
def graph_pairs(draw, weighted=None, max_nodes=8):
    """(before, after) as Data objects that differ in any mixture of ways; also the two classes of no change at all."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_nodes = draw(st.integers(1, max_nodes))
    kinds = draw(st.sets(st.sampled_from(CHANGES)))
    weighted = draw(st.booleans()) if weighted is None else weighted
    density = draw(st.sampled_from((0.0, 0.15, 0.4)))
    sparse_features = draw(st.booleans())
    ids = {"before": np.arange(num_nodes), "after": np.arange(num_nodes)}
    if "nodes" in kinds and num_nodes > 2:
        ids["before"] = np.sort(rng.choice(num_nodes, num_nodes - 1, replace=False))
        ids["after"] = rng.permutation(np.delete(np.arange(num_nodes), rng.integers(num_nodes)))
    kept = rng.random((num_nodes, num_nodes)) < density
    if draw(st.booleans()):
        kept |= kept.T
    edges = {"before": kept.copy(), "after": kept.copy()}
    for name, kind in (("after", "add"), ("before", "remove")):
        if kind in kinds:
            edges[name] |= rng.random((num_nodes, num_nodes)) < 0.15
    weights = {"before": rng.uniform(0.2, 2, size=(num_nodes, num_nodes))}
    weights["after"] = weights["before"].copy()
    if "reweight" in kinds:
        where = rng.random((num_nodes, num_nodes)) < 0.3
        weights["after"][where] *= rng.uniform(0.3, 2, size=where.sum())
        # An edge of weight 0 is an edge.
        for side in weights.values():
            side[rng.random((num_nodes, num_nodes)) < 0.1] = 0.0
    features = {"before": rng.normal(size=(num_nodes, 3)) * (rng.random((num_nodes, 3)) < 0.7)}
    features["after"] = features["before"].copy()
    if "features" in kinds:
        features["after"][rng.integers(num_nodes)] = rng.normal(size=3)
    repeat = draw(st.booleans())
    graphs = []
    for name in ("before", "after"):
        nodes = ids[name]
        u, v = np.nonzero(edges[name][np.ix_(nodes, nodes)])
        if repeat:
            u, v = np.concatenate([u, u[:2]]), np.concatenate([v, v[:2]])
        x = torch.from_numpy(features[name][nodes])
        data = Data(x=x.to_sparse_csr() if sparse_features else x, edge_index=torch.from_numpy(np.stack([u, v])))
        if weighted:
            data.edge_weight = torch.from_numpy(weights[name][nodes[u], nodes[v]])
        if "nodes" in kinds:
            data.n_id = torch.from_numpy(nodes)
        graphs.append(data)
    return tuple(graphs)


@st.composite
def attributed_pairs(draw, max_nodes=5, weighted=None):
    """The same with edge features, of which some change; parallel edges have features of their own."""
    graphs = draw(graph_pairs(weighted, max_nodes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shared = np.round(rng.normal(size=(max_nodes, max_nodes, 3, EDGE_WIDTH)))  # by ends, and by number among parallels
    changes = draw(st.booleans())
    for data, altered in zip(graphs, (False, changes), strict=True):
        own = shared.copy()
        if altered:
            own[rng.random(own.shape) < 0.3] += 1.0
        ids = np.asarray(data.n_id) if "n_id" in data else np.arange(len(data.x))
        ends = [tuple(pair) for pair in ids[np.asarray(data.edge_index)].T.tolist()]
        number = [ends[:i].count(pair) for i, pair in enumerate(ends)]
        rows = [own[u, v, k] for (u, v), k in zip(ends, number, strict=True)]
        data.edge_attr = torch.from_numpy(np.array(rows).reshape(-1, EDGE_WIDTH))
        order = torch.from_numpy(rng.permutation(len(rows)))
        for key in ("edge_attr", "edge_weight"):
            if key in data:
                data[key] = data[key][order]
        data.edge_index = data.edge_index[:, order]
    return graphs


@st.composite
def graph_sequences(draw, max_nodes=6, max_snapshots=4):
    """Snapshots of one pool of nodes, each a random step from the one before: edges, weights, features, nodes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_nodes = draw(st.integers(2, max_nodes))
    kinds = draw(st.sets(st.sampled_from(CHANGES)))
    weighted = draw(st.booleans())
    edges = rng.random((num_nodes, num_nodes)) < 0.3
    weights, x = rng.uniform(0.2, 2, size=edges.shape), rng.normal(size=(num_nodes, 3))
    graphs = []
    for _ in range(draw(st.integers(2, max_snapshots))):
        # Node 0 is always there, so that every sequence has a story.
        here = rng.random(num_nodes) < 0.8 if "nodes" in kinds else np.ones(num_nodes, dtype=bool)
        nodes = np.flatnonzero(here | (np.arange(num_nodes) == 0))
        u, v = np.nonzero(edges[np.ix_(nodes, nodes)])
        data = Data(x=torch.from_numpy(x[nodes]), edge_index=torch.from_numpy(np.stack([u, v])))
        if weighted:
            data.edge_weight = torch.from_numpy(weights[nodes[u], nodes[v]])
        if "nodes" in kinds:
            data.n_id = torch.from_numpy(nodes)
        graphs.append(data)
        if "add" in kinds:
            edges = edges | (rng.random(edges.shape) < 0.1)
        if "remove" in kinds:
            edges = edges & (rng.random(edges.shape) < 0.8)
        if "reweight" in kinds:
            weights = np.where(rng.random(edges.shape) < 0.3, rng.uniform(0.2, 2, size=edges.shape), weights)
        if "features" in kinds:
            x = np.where(rng.random((num_nodes, 1)) < 0.4, rng.normal(size=x.shape), x)
    return graphs


class GCNStack(nn.Module):
    """GCNConv layers as people write them, with any activation between."""

    def __init__(self, widths, activation, bias, **settings):
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.convs = nn.ModuleList(GCNConv(a, b, bias=bias, **settings) for a, b in pairs)
        self.activation = activation
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs[:-1]:
            x = self.dropout(self.activation(conv(x, edge_index, edge_weight)))
        return self.convs[-1](x, edge_index, edge_weight)


@st.composite
def gcn_models(draw):
    """GCN stacks of 1 to 4 layers with all settings of GCNConv, in float64."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    depth = draw(st.integers(1, 4))
    activation = draw(
        st.sampled_from(
            (
                nn.ReLU(),
                nn.LeakyReLU(0.1),
                nn.PReLU(5, 0.3),
                nn.ELU(1.2),
                nn.GELU(),
                nn.SiLU(),
                nn.Tanh(),
                nn.Identity(),
            )
        )
    )
    settings = {
        "normalize": draw(st.booleans()),
        "flow": draw(st.sampled_from(("source_to_target", "target_to_source"))),
    }
    if settings["normalize"]:
        settings["improved"] = draw(st.booleans())
        settings["add_self_loops"] = draw(st.booleans())
    model = GCNStack([3] + [5] * (depth - 1) + [3], activation, draw(st.booleans()), **settings).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model


def any_range(rng, width):
    """Some of the columns, so that channels may not connect; most often all of them."""
    if rng.random() < 0.4:
        return slice(0, width)
    low = int(rng.integers(0, width))
    return slice(low, int(rng.integers(low + 1, width + 1)))


@st.composite
def any_networks(draw, max_hops=3, activation_names=None, columns=False):
    """Networks that no reader has to produce: several channels, local layers, skips, attention that flips signs.

    With `columns`, maxima, minima and softmaxes beside them, each column for itself, and norms over a whole graph.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    hops = draw(st.integers(1, max_hops))
    local = draw(st.lists(st.booleans(), min_size=hops + 1, max_size=hops + 1))
    shape = [is_local for gap, extra in enumerate(local) for is_local in ([True] * extra + [False] * (gap < hops))]
    rules = (Sum(True), SymmetricNorm(True, 1.0), SymmetricNorm(False, None), AnySign(1))
    sparse_maps = draw(st.booleans())
    layers, width = [], 3
    for t, is_local in enumerate(shape):
        last = t == len(shape) - 1
        out = 3 if last else int(rng.integers(2, 5))
        choices = (Identity(), NodeScale()) if is_local else (*rules, Identity())
        chosen = [] if is_local else [draw(st.sampled_from(rules))]
        chosen += draw(st.lists(st.sampled_from(choices), min_size=0 if chosen else 1, max_size=2))
        channels = []
        for rule in chosen:
            inputs, outputs = any_range(rng, width), any_range(rng, out)
            weight = rng.normal(size=(inputs.stop - inputs.start, outputs.stop - outputs.start)) * 0.8
            if sparse_maps:
                weight[rng.random(weight.shape) < 0.4] = 0.0
            channels.append(Channel(rule, weight, inputs, outputs))
        if columns and draw(st.sampled_from((True, True, False))):
            added = draw(column_channels(rng, width, 0 if last else out, is_local))
            channels += [channel for channel in added if not last or channel.outputs.stop <= out]
            out += 0 if last else len({channel.outputs.start for channel in added})
        passed = 0
        if not last and draw(st.booleans()):
            passed = 2
            channels.append(Channel(Identity(), None, slice(0, 2), slice(out, out + 2)))
        name = "identity" if last else draw(st.sampled_from(activation_names or ACTIVATION_NAMES))
        bias = rng.normal(size=out + passed) if draw(st.booleans()) else None
        if bias is not None:
            bias[out:] *= draw(st.booleans())
        blocks = (Block(slice(0, out), any_activation(rng, name, out), f"layer {t}"),)
        layers.append(Layer(tuple(channels), bias, blocks, out + passed))
        width = out + passed
        if columns and not last and draw(st.booleans()):
            layers += draw(norm_layers(rng, width))
    return Network(tuple(layers), 3)


@st.composite
def norm_layers(draw, rng, width, passed=0):
    """A norm over the nodes of a graph: columns of ones beside what is there, then a scale and a shift.

    `passed` columns behind go on as they are.
    """
    flags = {name: draw(st.booleans()) for name in ("by_graph", "together", "beside", "summed", "scaled")}
    part = rng.uniform(0.5, 1.5, size=width) if draw(st.booleans()) and not flags["together"] else None
    moments = MomentsOfNodes(width, eps=0.3, part=part, **flags)
    ones = np.concatenate([np.zeros(width), np.ones(width), np.zeros(passed)])
    kept = [Channel(Identity(), None, slice(0, width), slice(0, width))]
    behind = [slice(times * width, times * width + passed) for times in (1, 2, 1)]
    going_on = [Channel(Identity(), None, *ends) for ends in itertools.pairwise(behind) if passed]
    held = Layer((*kept, *going_on[:1]), ones, (), 2 * width + passed)
    channels = [
        Channel(Column(rule, d), None, slice(rule.first + d, rule.first + d + 1), slice(d, d + 1))
        for rule in (GraphScale(moments, width), GraphShift(moments, width))
        for d in range(width)
    ]
    block = Block(slice(0, width), any_activation(rng, draw(st.sampled_from(("relu", "identity"))), width), "norm")
    bias = np.concatenate([rng.normal(size=width), np.zeros(passed)]) if draw(st.booleans()) else None
    return [held, Layer((*channels, *going_on[1:]), bias, (block,), width + passed)]


@st.composite
def column_channels(draw, rng, width, start, is_local):
    """Channels with a coefficient a column: the largest (or least) of a node's own columns, or of its neighbours'."""
    least = draw(st.booleans())
    if is_local:
        size = width // 2
        rules = [Highest(i, 2, size, least) for i in range(2)]
        return [
            Channel(Column(rule, d), None, slice(rule.first + d, rule.first + d + 1), slice(start + d, start + d + 1))
            for rule in rules
            for d in range(size)
        ]
    flow = draw(st.sampled_from(("source_to_target", "target_to_source")))
    rule = draw(
        st.sampled_from((Extreme(Sum(True, flow), least), Extreme(Sum(False), least), ColumnSoftmax(Sum(), (0.7,))))
    )
    read = any_range(rng, width)
    return [
        Channel(
            ReadColumns(Column(rule, d), read.start, read.stop),
            None,
            slice(read.start + d, read.start + d + 1),
            slice(start + d, start + d + 1),
        )
        for d in range(read.stop - read.start)
    ]


@st.composite
def edge_networks(draw, activation_names=None, mixed=False):
    """Networks whose messages live on edges: gathered from both ends and the edge's own features, bent or multiplied,
    delivered by sum, mean or weight beside what other rules send from node to node.

    With `mixed`, edges have relations, loops are added, maxima and softmaxes are taken of what edges hold, and norms
    over a graph of what its nodes hold.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = activation_names or ACTIVATION_NAMES
    layers, nodes, attr = [], slice(0, 3), slice(3, 3 + EDGE_WIDTH)

    def channel(rule, inputs, outputs):
        weight = rng.normal(size=(inputs.stop - inputs.start, outputs.stop - outputs.start)) * 0.8
        weight[rng.random(weight.shape) < 0.2] = 0.0
        return Channel(rule, weight, inputs, outputs)

    def add(channels, bent, width, activation):
        bias = rng.normal(size=width) * draw(st.booleans())
        bias[bent.stop :] = 0.0
        layers.append(Layer(tuple(channels), bias if bias.any() else None, (Block(bent, activation, "edges"),), width))

    for _ in range(draw(st.integers(1, 2))):
        size = int(rng.integers(1, 4))
        joined = draw(st.booleans())  # a product of what is sent and what the edge says
        sent = slice(0, 2 * size if joined else size)
        first = slice(0, size)
        second = Factor(Gathered(RECEIVER), 1) if joined else Gathered(RECEIVER)
        last = Factor(Identity(), 1) if joined else Identity()
        beside = slice(size, 2 * size) if joined else first
        senders = draw(st.sampled_from(GATHERED)) if mixed else (Gathered(SENDER),)
        channels = [*(channel(rule, nodes, first) for rule in senders), channel(last, attr, beside)]
        if draw(st.booleans()):
            channels.append(channel(second, nodes, beside))
        kept = slice(sent.stop, sent.stop + nodes.stop - nodes.start)
        passed = slice(kept.stop, kept.stop + EDGE_WIDTH)
        channels += [Channel(Identity(), None, nodes, kept), Channel(Identity(), None, attr, passed)]
        name = draw(st.sampled_from(names))
        activation = activations.product(2) if joined else any_activation(rng, name, size)
        add(channels, sent, passed.stop, activation)
        out = slice(0, int(rng.integers(2, 4)))
        taken = channel(Delivered(*draw(st.tuples(st.booleans(), st.booleans()))), first, out)
        # The parts of a product are added up.
        channels = [replace(taken, weight=np.vstack([taken.weight] * (1 + joined)), inputs=sent)]
        rules = draw(st.sets(st.sampled_from((Identity(), Sum(True), SymmetricNorm(False, 1.0), Delivered()))))
        for rule in sorted(rules, key=repr):
            channels.append(channel(rule, passed if rule == Delivered() else kept, out))
        if mixed:
            channels += draw(delivered_channels(rng, sent, first, out, joined))
        nodes, attr = out, slice(out.stop, out.stop + EDGE_WIDTH)
        channels.append(Channel(Identity(), None, passed, attr))
        add(channels, out, attr.stop, any_activation(rng, draw(st.sampled_from(names)), out.stop))
        if mixed and draw(st.booleans()):
            layers += draw(norm_layers(rng, out.stop, EDGE_WIDTH))
    layers.append(Layer((channel(Identity(), nodes, slice(0, 3)),), rng.normal(size=3), (), 3))
    return Network(tuple(layers), 3 + EDGE_WIDTH)


# What edges take of their senders, as any message, relation by relation, or with a loop at every node.
GATHERED = (
    (Gathered(SENDER),),
    tuple(OfRelation(Gathered(SENDER), r) for r in range(RELATIONS)),
    (Looped(Gathered(SENDER), False),),
)


@st.composite
def delivered_channels(draw, rng, sent, first, out, joined):
    """What nodes take of edges beside sums: of one relation, by a softmax of scores, the largest of each column."""
    count = Delivered(draw(st.booleans()))
    into = draw(st.sampled_from((OfRelation(count, 0), OfRelation(count, 1), Looped(count, False))))
    of_scores = ReadColumns(ScoreSoftmax(draw(st.sampled_from((Delivered(), OfRelation(Delivered(), 1))))), 0, 1)
    found = []
    for rule in (into, of_scores):
        weight = rng.normal(size=(first.stop, out.stop))
        found.append(Channel(rule, np.vstack([weight] * (1 + joined)), sent, out))  # parts of a product are added up
    if not joined:
        places = draw(st.sampled_from((Delivered(), OfRelation(Delivered(), 0), Looped(Delivered(), False))))
        rule = draw(st.sampled_from((Extreme(places), Extreme(places, True), ColumnSoftmax(places, (0.7,)))))
        for d in range(min(first.stop, out.stop)):
            read = ReadColumns(Column(rule, d), 0, first.stop)
            found.append(Channel(read, None, slice(d, d + 1), slice(d, d + 1)))
    return [channel for channel in found if draw(st.booleans())]


def product_layer(rng, width, rule, number_of_factors, bias):
    """A local layer that multiplies linear maps of its inputs with each other, column by column."""
    size = int(rng.integers(1, 4))
    channels = []
    for i in range(number_of_factors):
        weight = rng.normal(size=(width, size))
        outputs = slice(i * size, (i + 1) * size)
        channels.append(Channel(Factor(rule(i), i) if i else rule(i), weight, slice(0, width), outputs))
    wide = size * number_of_factors
    shift = np.concatenate([rng.normal(size=size), np.zeros(wide - size)]) if bias else None
    block = Block(slice(0, wide), activations.product(number_of_factors), "product")
    return Layer(tuple(channels), shift, (block,), wide), np.vstack([np.eye(size)] * number_of_factors)


@st.composite
def any_tasks(draw, max_hops=2, activation_names=None, columns=False, mixed=False):
    """(network, kind): networks of nodes, graphs or links, with gates between layers and products in the decoder.

    With `mixed`, messages are made on edges that have relations, beside all else.
    """
    if mixed:
        network = draw(edge_networks(activation_names, mixed=True))
    else:
        network = draw(any_networks(max_hops, activation_names, columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from((None, GRAPHS, LINKS)))
    layers, width = list(network.layers), network.num_classes

    def local(columns, activation=None):
        out = int(rng.integers(1, 4))
        weight = columns @ rng.normal(size=(columns.shape[1], out))
        rule = draw(st.sampled_from((Identity(), NodeScale())))
        channel = Channel(rule, weight, slice(0, len(columns)), slice(0, out))
        bias = rng.normal(size=out) if draw(st.booleans()) else None
        return Layer((channel,), bias, (Block(slice(0, out), activation, "local"),), out)

    def multiply(rule):
        nonlocal width
        layer, joined = product_layer(rng, width, rule, draw(st.integers(2, 3)), draw(st.booleans()))
        layers.append(layer)
        name = draw(st.sampled_from(activation_names or ("relu", "tanh", "identity")))
        layers.append(local(joined, any_activation(rng, name, 1)))
        width = layers[-1].width

    if draw(st.booleans()):  # a gate on nodes, and a hop above it
        multiply(lambda i: Identity())
        weight = rng.normal(size=(width, 3))
        layers.append(Layer((Channel(SymmetricNorm(False, 1.0), weight, slice(0, width), slice(0, 3)),), None, (), 3))
        width = 3
    if kind == GRAPHS:
        channels, wide = [], 0
        for mean in draw(st.sampled_from(((True,), (False,), (True, False)))):
            channels.append(Channel(Pooled(mean), None, slice(0, width), slice(wide, wide + width)))
            wide += width
        if columns and draw(st.booleans()):
            rule = Extreme(Pooled(), draw(st.booleans()))
            places = [(slice(d, d + 1), slice(wide + d, wide + d + 1)) for d in range(width)]
            channels += [Channel(Column(rule, d), None, *place) for d, place in enumerate(places)]
            wide += width
        bias = rng.normal(size=wide) if draw(st.booleans()) else None
        block = Block(slice(0, wide), any_activation(rng, "relu", wide), "pool")
        layers.append(Layer(tuple(channels), bias, (block,), wide))
        width = wide
    if kind == LINKS:
        if draw(st.booleans()):
            multiply(lambda i: End(i % 2))
        else:
            ends = tuple(Channel(End(i), None, slice(0, width), slice(i * width, (i + 1) * width)) for i in range(2))
            layers.append(Layer(ends, None, (), 2 * width))
            width *= 2
    if kind is not None and draw(st.booleans()):
        multiply(lambda i: Identity())
    layers.append(local(np.eye(width)))
    return Network(tuple(layers), network.num_features), kind


def with_places(kind, before, after, rng):
    """Aligned snapshots with some graphs, or all pairs of some nodes, as what is predicted."""
    if kind is None:
        return before, after
    if kind == GRAPHS:
        graphs = rng.integers(0, 3, size=before.num_nodes)
        sides = [
            replace(side, graphs=np.where(side.present, graphs, -1), listed=np.unique(graphs[side.present]))
            for side in (before, after)
        ]
        return with_graphs(*sides)
    ids = before.node_ids
    return with_links(before, after, rng.choice(ids, size=(4, 2)))


def aligned(before, after):
    fields = Fields(types="edge_type" if "edge_type" in before else None)
    return align_snapshots(read_snapshot(before, "before", fields), read_snapshot(after, "after", fields))


def widened(before, after, kind=None, rng=None):
    """Aligned snapshots with their edges as places, and these have relations where the data has them."""
    fields = Fields(edge_features=("edge_attr",), types="edge_type" if "edge_type" in before else None)
    sides = read_snapshot(before, "before", fields), read_snapshot(after, "after", fields)
    return widen_pair(*with_places(kind, *align_snapshots(*sides), rng))


def related(graphs):
    """Graphs whose edges have a relation, by their first feature: another feature may be another relation."""
    for data in graphs:
        data.edge_type = (data.edge_attr[:, 0] > 0).long()
    return graphs


def find(network, before, after):
    return find_change(network, before, after, run_network(network, before), run_network(network, after))


class SumGNN(nn.Module):
    """The paper's network: element-wise sum, no bias, ReLU between layers."""

    def __init__(self, *widths):
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.convs = nn.ModuleList(GCNConv(a, b, normalize=False, bias=False) for a, b in pairs)

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = torch.relu(conv(x, edge_index))
        return self.convs[-1](x, edge_index)


def random_pair(num_nodes=60, num_edges=300, seed=0):
    rng = np.random.default_rng(seed)
    edges = torch.from_numpy(rng.integers(0, num_nodes, size=(2, num_edges)))
    x = torch.from_numpy(rng.normal(size=(num_nodes, 5)))
    return Data(x=x, edge_index=edges[:, 10:]), Data(x=x, edge_index=edges[:, :-10])

"""PyG convolutions whose messages are made on their edges -> Form: edge features, activations and products there."""

from __future__ import annotations

import numpy as np
from torch_geometric.nn import (
    CGConv,
    EdgeConv,
    FiLMConv,
    GINEConv,
    GMMConv,
    MessagePassing,
    NNConv,
    PDNConv,
    ResGatedGraphConv,
)
from torch_geometric.nn.aggr import MeanAggregation

from ..network.activations import relu, sigmoid, softplus
from ..network.coefficients import SOURCE_TO_TARGET, Mean, Sum, SymmetricNorm
from ..network.messages import RECEIVER, SENDER, Delivered, Gathered, Gaussian, Weighed
from .aggregations import gather
from .calls import Call, array, register_reader, transposed, vector
from .convolutions import require_sum, sum_or_mean
from .forms import Form, concatenate


@register_reader(GINEConv)
def read_gine_conv(conv: GINEConv, call: Call) -> Form:
    """nn(sum of relu(X[U] + E W + b) + (1 + eps) X)."""
    edge_attr = edge_features(call)
    edge_attr = edge_attr if conv.lin is None else call.linear(conv.lin, edge_attr)
    sent = call.activate(at_edges(call, conv.flow) + edge_attr, relu())
    around = gather(conv, call, sent, from_edges=True)
    return call.run(conv.nn, around + (1.0 + float(conv.eps.detach())) * call.x, "nn")


@register_reader(NNConv)
def read_nn_conv(conv: NNConv, call: Call) -> Form:
    """sum of X[U] times the matrix nn(E), a product shared by both, + X W + b."""
    inputs, outputs = conv.in_channels_l, conv.out_channels
    maps = call.run(conv.nn, edge_features(call), "nn")  # columns (input, output)
    sent = at_edges(call, conv.flow) @ np.repeat(np.eye(inputs), outputs, axis=1)
    mapped = call.multiply(sent, maps) @ np.tile(np.eye(outputs), (inputs, 1))
    out = gather(conv, call, mapped, from_edges=True)
    return (out + call.linear(conv.lin, call.x) if conv.root_weight else out) + vector(conv.bias)


@register_reader(CGConv)
def read_cg_conv(conv: CGConv, call: Call) -> Form:
    """sum of sigmoid(z W_f + b_f) softplus(z W_s + b_s), a product shared by both, + X;  z = X[V], X[U], E."""
    edge_attr = call.argument("edge_attr")
    beside = [] if edge_attr is None else [edge_features(call)]
    ends = [at_edges(call, conv.flow, receiver=True), at_edges(call, conv.flow)]
    z = call.hold(concatenate([*ends, *beside]))
    gate = call.activate(call.linear(conv.lin_f, z), sigmoid())
    sent = call.multiply(gate, call.activate(call.linear(conv.lin_s, z), softplus()))
    out = gather(conv, call, sent, from_edges=True)
    return (out if conv.bn is None else call.run(conv.bn, out, "bn")) + call.x


@register_reader(ResGatedGraphConv)
def read_res_gated_conv(conv: ResGatedGraphConv, call: Call) -> Form:
    """sum of act(K[V] + Q[U]) V[U], a product shared by both, + X W + b;  with E beside X in all three."""
    edge_attr = [] if conv.edge_dim is None else [edge_features(call)]

    def at(linear: object, receiver: bool = False) -> Form:
        end = at_edges(call, conv.flow, receiver=receiver)
        return call.linear(linear, concatenate([end, *edge_attr]))

    gate = call.run(conv.act, at(conv.lin_key, True) + at(conv.lin_query), "act")
    out = gather(conv, call, call.multiply(gate, at(conv.lin_value)), from_edges=True)
    return (out + call.linear(conv.lin_skip, call.x) if conv.root_weight else out) + vector(conv.bias)


@register_reader(FiLMConv)
def read_film_conv(conv: FiLMConv, call: Call) -> Form:
    """mean of act(gamma(X[V]) X[U] W + beta(X[V])), products shared by both, of each relation; + the same of X[V]."""
    if conv.num_relations > 1:
        require_types(call)
    size = np.arange(conv.out_channels)

    def film(network: object, name: str, x: Form, sent: Form) -> Form:
        both = call.hold(call.run(network, x, name))
        out = call.multiply(both.select(size + len(size)), sent) + both.select(size)
        return out if conv.act is None else call.run(conv.act, out, "act")

    own = film(conv.film_skip, "film_skip", call.x, call.linear(conv.lin_skip, call.x))
    ends = [at_edges(call, conv.flow, receiver=end) for end in (True, False)]
    out = own
    for r, (network, linear) in enumerate(zip(conv.films, conv.lins, strict=True)):
        sent = film(network, f"films.{r}", ends[0], call.linear(linear, ends[1]))
        out = out + gather(conv, call.within(r) if conv.num_relations > 1 else call, sent, from_edges=True)
    return out


@register_reader(EdgeConv)
def read_edge_conv(conv: EdgeConv, call: Call) -> Form:
    """max (or another aggregation) of nn(X[V], X[U] - X[V])."""
    own, other = (at_edges(call, conv.flow, receiver=end) for end in (True, False))
    return gather(conv, call, call.run(conv.nn, concatenate([own, other - own]), "nn"), from_edges=True)


@register_reader(PDNConv)
def read_pdn_conv(conv: PDNConv, call: Call) -> Form:
    """As GCN, with the weights of edges that mlp(E) gives as coefficients."""
    require_sum(conv, call)
    weights = call.run(conv.mlp, edge_features(call), "mlp")
    loops = 1.0 if conv.add_self_loops else None
    rule = SymmetricNorm(True, loops, conv.flow) if conv.normalize else Sum(True, conv.flow)
    return call.aggregate(call.x @ transposed(conv.lin.weight), Weighed(rule), weights) + vector(conv.bias)


@register_reader(GMMConv)
def read_gmm_conv(conv: GMMConv, call: Call) -> Form:
    """mean of the sum over kernels k of exp(-(E - mu_k)^2 / 2 sigma_k^2), a coefficient, times X W_k;  + X W + b."""
    if conv.separate_gaussians:
        call.refuse("separate_gaussians=True has a coefficient for each pair of columns; train with False.")
    edge_attr, size = edge_features(call), conv.out_channels
    rule = Mean(True, conv.flow) if delivered(conv, call).mean else Sum(True, conv.flow)
    sent = call.sent @ array(conv.g)
    parts = []
    for k, (mean, sigma) in enumerate(zip(array(conv.mu), array(conv.sigma), strict=True)):
        kernel = sent.select(np.arange(k * size, (k + 1) * size))
        parts.append(call.aggregate(kernel, Gaussian(rule, mean, 1e-15 + sigma**2), edge_attr))
    out = sum(parts[1:], parts[0])
    return (out + call.linear(conv.root, call.x) if conv.root_weight else out) + vector(conv.bias)


def edge_features(call: Call, name: str = "edge_attr") -> Form:
    """The features of edges that a convolution cannot do without."""
    edge_attr = call.argument(name)
    if not isinstance(edge_attr, Form):
        call.refuse(
            f"expected `{name}` to be made of a field of the data that has a row of numbers for each edge (got "
            f"{'none' if edge_attr is None else 'something else'}); put them into `edge_attr`, floating-point, of "
            "shape [num_edges, width]."
        )
    return edge_attr


def at_edges(call: Call, flow: str = SOURCE_TO_TARGET, *, receiver: bool = False) -> Form:
    """The features of the sender of each edge, or of its receiver."""
    return call.aggregate(call.x if receiver else call.sent, Gathered(RECEIVER if receiver else SENDER, flow))


def require_types(call: Call) -> None:
    """For convolutions with relations."""
    if not call.typed:
        call.refuse("expected the field `edge_type` of the data, the relation of each edge; pass it.")


def delivered(conv: MessagePassing, call: Call) -> Delivered:
    """The sum, or mean, of what the edges hold."""
    sum_or_mean(conv, call)  # refuses any other
    return Delivered(type(conv.aggr_module) is MeanAggregation, call.weighted, conv.flow)

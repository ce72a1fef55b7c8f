"""PyG convolutions whose messages are made on their edges -> Form: edge features, activations and products there."""

from __future__ import annotations

from torch_geometric.nn import EdgeConv, GINEConv, MessagePassing
from torch_geometric.nn.aggr import MeanAggregation

from ..network.activations import relu
from ..network.coefficients import SOURCE_TO_TARGET
from ..network.messages import RECEIVER, SENDER, Delivered, Gathered
from .aggregations import gather
from .calls import Call, register_reader
from .convolutions import sum_or_mean
from .forms import Form, concatenate


@register_reader(GINEConv)
def read_gine_conv(conv: GINEConv, call: Call) -> Form:
    """nn(sum of relu(X[U] + E W + b) + (1 + eps) X)."""
    told = edge_features(call)
    told = told if conv.lin is None else call.linear(conv.lin, told)
    sent = call.activate(at_edges(call, call.x, conv.flow) + told, relu())
    around = call.aggregate(sent, delivered(conv, call))
    return call.run(conv.nn, around + (1.0 + float(conv.eps.detach())) * call.x, "nn")


@register_reader(EdgeConv)
def read_edge_conv(conv: EdgeConv, call: Call) -> Form:
    """max (or another aggregation) of nn(X[V], X[U] - X[V])."""
    own, sent = at_edges(call, call.x, conv.flow, receiver=True), at_edges(call, call.x, conv.flow)
    return gather(conv, call, call.run(conv.nn, concatenate([own, sent - own]), "nn"), from_edges=True)


def edge_features(call: Call, name: str = "edge_attr") -> Form:
    """The features of edges that a convolution cannot do without."""
    told = call.argument(name)
    if not isinstance(told, Form):
        call.refuse(
            f"expected `{name}` to be made of a field of the data that has a row of numbers for each edge (got "
            f"{'none' if told is None else 'something else'}); put them into `edge_attr`, floating-point, of shape "
            "[num_edges, width]."
        )
    return told


def at_edges(call: Call, form: Form, flow: str = SOURCE_TO_TARGET, *, receiver: bool = False) -> Form:
    """What the sender of each edge holds, or its receiver."""
    return call.aggregate(form, Gathered(RECEIVER if receiver else SENDER, flow))


def delivered(conv: MessagePassing, call: Call) -> Delivered:
    """The sum, or mean, of what the edges hold."""
    sum_or_mean(conv, call)  # refuses any other
    return Delivered(type(conv.aggr_module) is MeanAggregation, call.weighted, conv.flow)

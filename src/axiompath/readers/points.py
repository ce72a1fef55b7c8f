"""PyG convolution on points -> Form: messages made, on their edges, of what is sent and of where both ends lie."""

from __future__ import annotations

import numpy as np
from torch_geometric.nn import MessagePassing, PointGNNConv, PointNetConv, PointTransformerConv

from ..network.coefficients import Rule
from ..network.degrees import Looped
from ..network.messages import RECEIVER, SENDER, Delivered, Gathered
from ..network.softmaxes import ScoreSoftmax
from .aggregations import gather
from .calls import Call, register_reader
from .convolutions import require_sum
from .forms import Form, concatenate


@register_reader(PointNetConv)
def read_point_net_conv(conv: PointNetConv, call: Call) -> Form:
    """nn(max (or another aggregation) of nn(X[U], P[U] - P[V])),  P where points lie."""
    sent = concatenate([_end(conv, call, call.x, SENDER), _offset(conv, call)])
    sent = sent if conv.local_nn is None else call.run(conv.local_nn, sent, "local_nn")
    out = gather(conv, call, sent, from_edges=True, looped=conv.add_self_loops)
    return out if conv.global_nn is None else call.run(conv.global_nn, out, "global_nn")


@register_reader(PointGNNConv)
def read_point_gnn_conv(conv: PointGNNConv, call: Call) -> Form:
    """X + nn(max (or another aggregation) of nn(P[U] - P[V] + nn(X[V]), X[U])),  P where points lie."""
    shift = call.run(conv.mlp_h, _end(conv, call, call.x, RECEIVER), "mlp_h")
    sent = concatenate([_offset(conv, call) + shift, _end(conv, call, call.x, SENDER)])
    out = gather(conv, call, call.run(conv.mlp_f, sent, "mlp_f"), from_edges=True)
    return call.x + call.run(conv.mlp_g, out, "mlp_g")


@register_reader(PointTransformerConv)
def read_point_transformer_conv(conv: PointTransformerConv, call: Call) -> Form:
    """For each column, softmax(nn(X[V] W_d - X[U] W_s + D)) (X[U] W + D),  D = nn(P[V] - P[U])."""
    require_sum(conv, call)
    offset = call.hold(call.run(conv.pos_nn, -_offset(conv, call), "pos_nn"))
    own, other = _end(conv, call, call.x, RECEIVER), _end(conv, call, call.x, SENDER)
    scores = call.linear(conv.lin_dst, own) - call.linear(conv.lin_src, other) + offset
    scores = call.hold(scores if conv.attn_nn is None else call.run(conv.attn_nn, scores, "attn_nn"))
    sent = call.hold(call.linear(conv.lin, other) + offset)
    into = _looped(conv, Delivered(flow=conv.flow))
    columns = [np.array([d]) for d in range(sent.width)]
    return concatenate([call.aggregate(sent.select(d), ScoreSoftmax(into), reads=scores.select(d)) for d in columns])


def _offset(conv: MessagePassing, call: Call) -> Form:
    """Where the sender of each edge lies, less where its receiver does."""
    place = call.argument("pos")
    if not isinstance(place, Form):
        call.refuse(
            "expected `pos` to be made of a field of the data that has a row of numbers for each node; pass it."
        )
    return _end(conv, call, place, SENDER) - _end(conv, call, place, RECEIVER)


def _end(conv: MessagePassing, call: Call, form: Form, end: str) -> Form:
    return call.aggregate(form, _looped(conv, Gathered(end, conv.flow)))


def _looped(conv: MessagePassing, rule: Rule) -> Rule:
    """With a loop at every node in place of its own, if the convolution adds any."""
    return Looped(rule, False) if getattr(conv, "add_self_loops", False) else rule

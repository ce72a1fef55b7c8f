"""PyG attention -> Form: one channel a head, with the attention of each snapshot's own forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch_geometric.nn import GATConv, GATv2Conv, TransformerConv

from ..arrays import FloatArray, IntArray
from ..network.attention import AdditiveAttention, DotAttention, PairAttention
from .calls import Call, array, register_reader, transposed, vector
from .convolutions import require_sum
from .forms import Form, concatenate


@register_reader(GATConv)
def read_gat_conv(conv: GATConv, call: Call) -> Form:
    """For each head:  attention(X W . att_src, X W . att_dst) X W;  then heads side by side or averaged, + b."""
    require_sum(conv, call)
    if conv.lin_edge is None:
        call.argument("edge_attr")  # taken, and not looked at, as in PyG
    x = call.hold(call.x)
    sender, receiver = (transposed((conv.lin or other).weight) for other in (conv.lin_src, conv.lin_dst))
    source, target = array(conv.att_src)[0], array(conv.att_dst)[0]
    heads = []
    for head, columns in _heads(conv):
        rule = AdditiveAttention(
            sender[:, columns] @ source[head],
            receiver[:, columns] @ target[head],
            conv.negative_slope,
            conv.add_self_loops,
            conv.flow,
        )
        heads.append(call.aggregate(x @ sender[:, columns], rule, reads=x))
    return _finish(conv, call, x, heads)


@register_reader(GATv2Conv)
def read_gatv2_conv(conv: GATv2Conv, call: Call) -> Form:
    """For each head:  attention(leaky_relu(X W_l + X W_r) . att) (X W_l + b_l);  then as in GAT."""
    require_sum(conv, call)
    x = call.hold(call.x)
    sender, receiver = transposed(conv.lin_l.weight), transposed(conv.lin_r.weight)
    sender_bias, receiver_bias = (_bias(linear, sender.shape[1]) for linear in (conv.lin_l, conv.lin_r))
    # With loops every node attends to something and its shares sum to 1, so the values' bias is the output's.
    values = x @ sender if conv.add_self_loops else _hold_unless_pure(call, call.linear(conv.lin_l, x))
    heads = []
    for head, columns in _heads(conv):
        rule = PairAttention(
            sender[:, columns],
            receiver[:, columns],
            (sender_bias + receiver_bias)[columns],
            array(conv.att)[0, head],
            conv.negative_slope,
            conv.add_self_loops,
            conv.flow,
        )
        out = call.aggregate(values.select(columns), rule, reads=x)
        heads.append(out + sender_bias[columns] if conv.add_self_loops else out)
    return _finish(conv, call, x, heads)


@register_reader(TransformerConv)
def read_transformer_conv(conv: TransformerConv, call: Call) -> Form:
    """For each head:  softmax(Q[V] . K[U] / sqrt(C)) (X W_v + b_v);  then as in GAT, + X W_skip + b_skip."""
    require_sum(conv, call)
    if conv.beta:
        call.refuse("beta=True gates its output, a product of features; train with beta=False.")
    x = call.hold(call.x)
    scale = conv.out_channels**-0.5
    query, key = transposed(conv.lin_query.weight) * scale, transposed(conv.lin_key.weight)
    query_bias, key_bias = _bias(conv.lin_query, query.shape[1]) * scale, _bias(conv.lin_key, key.shape[1])
    values = _hold_unless_pure(call, call.linear(conv.lin_value, x))
    heads = []
    for _, columns in _heads(conv):
        rule = DotAttention(query[:, columns], query_bias[columns], key[:, columns], key_bias[columns], conv.flow)
        heads.append(call.aggregate(values.select(columns), rule, reads=x))
    out = concatenate(heads) if conv.concat else _average(heads)
    return out + call.linear(conv.lin_skip, x) if conv.root_weight else out


def _heads(conv: GATConv | GATv2Conv | TransformerConv) -> list[tuple[int, IntArray]]:
    """Number and columns of each head."""
    size = conv.out_channels
    return [(head, np.arange(head * size, (head + 1) * size)) for head in range(conv.heads)]


def _finish(conv: GATConv | GATv2Conv, call: Call, x: Form, heads: Sequence[Form]) -> Form:
    out = concatenate(heads) if conv.concat else _average(heads)
    residual = getattr(conv, "res", None)
    if residual is not None:
        out = out + call.linear(residual, x)
    return out + vector(conv.bias)


def _hold_unless_pure(call: Call, form: Form) -> Form:
    """What all heads aggregate, held once for all of them if it must be."""
    return form if form.is_pure else call.hold(form)


def _average(heads: Sequence[Form]) -> Form:
    return (1.0 / len(heads)) * sum(heads[1:], heads[0])


def _bias(linear: object, width: int) -> FloatArray:
    bias = vector(getattr(linear, "bias", None))
    return np.zeros(width) if bias is None else bias

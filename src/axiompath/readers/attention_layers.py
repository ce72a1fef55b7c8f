"""PyG attention -> Form: one channel a head, with the attention of each snapshot's own forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch_geometric.nn import (
    AGNNConv,
    FAConv,
    FeaStConv,
    GATConv,
    GATv2Conv,
    GeneralConv,
    SuperGATConv,
    TransformerConv,
)

from ..arrays import FloatArray, IntArray
from ..network.activations import sigmoid
from ..network.attention import (
    AdditiveAttention,
    CosineAttention,
    DotAttention,
    InverseLength,
    MutualAttention,
    PairAttention,
    SharedMean,
    SignedAttention,
)
from ..network.coefficients import Mean, Rule
from .calls import Call, array, register_reader, transposed, vector
from .convolutions import require_sum, sum_or_mean, sum_or_norm
from .forms import Form, concatenate


@register_reader(GATConv)
def read_gat_conv(conv: GATConv, call: Call) -> Form:
    """For each head:  attention(X W . att_src, X W . att_dst) X W;  then heads side by side or averaged, + b."""
    require_sum(conv, call)
    if conv.lin_edge is None:
        call.argument("edge_attr")  # taken, and not looked at, as in PyG
    shown, sent = call.shown, call.hold(call.sent)
    sender, receiver = (transposed((conv.lin or other).weight) for other in (conv.lin_src, conv.lin_dst))
    source, target = array(conv.att_src)[0], array(conv.att_dst)[0]
    heads = []
    for head, columns in _heads(conv):
        rule = AdditiveAttention(
            call.of_sent(sender[:, columns] @ source[head]),
            call.of_own(receiver[:, columns] @ target[head]),
            conv.negative_slope,
            conv.add_self_loops,
            conv.flow,
        )
        heads.append(call.aggregate(sent @ sender[:, columns], rule, reads=shown))
    return _finish(conv, call, call.x, heads)


@register_reader(GATv2Conv)
def read_gatv2_conv(conv: GATv2Conv, call: Call) -> Form:
    """For each head:  attention(leaky_relu(X W_l + X W_r) . att) (X W_l + b_l);  then as in GAT."""
    require_sum(conv, call)
    shown, sent = call.shown, call.hold(call.sent)
    sender, receiver = transposed(conv.lin_l.weight), transposed(conv.lin_r.weight)
    sender_bias, receiver_bias = (_bias(linear, sender.shape[1]) for linear in (conv.lin_l, conv.lin_r))
    # With loops every node attends to something and its shares sum to 1, so the values' bias is the output's.
    values = sent @ sender if conv.add_self_loops else _hold_unless_pure(call, call.linear(conv.lin_l, sent))
    heads = []
    for head, columns in _heads(conv):
        rule = PairAttention(
            call.of_sent(sender[:, columns]),
            call.of_own(receiver[:, columns]),
            (sender_bias + receiver_bias)[columns],
            array(conv.att)[0, head],
            conv.negative_slope,
            conv.add_self_loops,
            conv.flow,
        )
        out = call.aggregate(values.select(columns), rule, reads=shown)
        heads.append(out + sender_bias[columns] if conv.add_self_loops else out)
    return _finish(conv, call, call.x, heads)


@register_reader(TransformerConv)
def read_transformer_conv(conv: TransformerConv, call: Call) -> Form:
    """For each head:  softmax(Q[V] . K[U] / sqrt(C)) (X W_v + b_v);  then as in GAT, + X W_skip + b_skip."""
    require_sum(conv, call)
    x, shown, sent = call.hold(call.x), call.shown, call.hold(call.sent)
    scale = conv.out_channels**-0.5
    query, key = transposed(conv.lin_query.weight) * scale, transposed(conv.lin_key.weight)
    query_bias, key_bias = _bias(conv.lin_query, query.shape[1]) * scale, _bias(conv.lin_key, key.shape[1])
    values = _hold_unless_pure(call, call.linear(conv.lin_value, sent))
    heads = []
    for _, columns in _heads(conv):
        ends = call.of_own(query[:, columns]), call.of_sent(key[:, columns])
        rule = DotAttention(ends[0], query_bias[columns], ends[1], key_bias[columns], conv.flow)
        heads.append(call.aggregate(values.select(columns), rule, reads=shown))
    out = concatenate(heads) if conv.concat else _average(heads)
    if not conv.root_weight:
        return out
    skipped = call.linear(conv.lin_skip, x)
    if conv.lin_beta is None:
        return out + skipped
    out, skipped = call.hold(out), call.hold(skipped)
    gate = call.activate(call.linear(conv.lin_beta, concatenate([out, skipped, out + -1.0 * skipped])), sigmoid())
    return out + call.multiply(gate @ np.ones((1, out.width)), skipped + -1.0 * out)


@register_reader(SuperGATConv)
def read_supergat_conv(conv: SuperGATConv, call: Call) -> Form:
    """For each head:  attention(sigmoid(h . h), or h . h) h,  h = X W;  then as in GAT. It samples in training."""
    require_sum(conv, call)
    for name in ("neg_edge_index", "batch"):
        call.argument(name)  # for its loss alone
    x, weight = call.hold(call.x), transposed(conv.lin.weight)
    is_mixed, size = conv.attention_type == "MX", conv.out_channels
    heads = []
    for head, columns in _heads(conv):
        ends = (array(conv.att_l)[0, head], array(conv.att_r)[0, head]) if is_mixed else (None, None)
        rule = MutualAttention(
            weight[:, columns],
            np.zeros(size),
            1.0 if is_mixed else size**-0.5,
            conv.negative_slope,
            conv.add_self_loops,
            conv.flow,
            *ends,
        )
        heads.append(call.aggregate(x @ weight[:, columns], rule, reads=x))
    return _finish(conv, call, x, heads)


@register_reader(AGNNConv)
def read_agnn_conv(conv: AGNNConv, call: Call) -> Form:
    """attention(beta cos(X, X)) X."""
    require_sum(conv, call)
    return call.aggregate(call.x, CosineAttention(float(conv.beta.detach()), conv.add_self_loops, conv.flow))


@register_reader(FAConv)
def read_fa_conv(conv: FAConv, call: Call) -> Form:
    """tanh(X . att_l + X . att_r) P X + eps X_0,  P as in GCN, or the edges' weights."""
    rule = sum_or_norm(conv, call, conv.normalize, 1.0 if conv.add_self_loops else None)
    ends = [array(linear.weight)[0] for linear in (conv.att_l, conv.att_r)]
    signed = SignedAttention(rule, *ends)
    first = call.argument("x_0")
    around = call.aggregate(call.x, signed)
    return around + conv.eps * first if conv.eps != 0 else around


@register_reader(FeaStConv)
def read_feast_conv(conv: FeaStConv, call: Call) -> Form:
    """mean over edges of the sum over heads of softmax over heads(X[U] u - X[V] u + c) X[U] W + b."""
    mean = isinstance(sum_or_mean(conv, call), Mean)
    x, weight, size = call.hold(call.x), transposed(conv.lin.weight), conv.out_channels
    directions, bias = transposed(conv.u.weight), array(conv.c)
    heads = []
    for head in range(conv.heads):
        rule = SharedMean(directions, bias, head, mean, conv.add_self_loops, conv.flow)
        heads.append(call.aggregate(x @ weight[:, head * size : (head + 1) * size], rule, reads=x))
    return sum(heads[1:], heads[0]) + vector(conv.bias)


@register_reader(GeneralConv)
def read_general_conv(conv: GeneralConv, call: Call) -> Form:
    """The mean over heads of the sum, mean or attention of X W + b;  + X W_self + b;  of length 1 if it says so."""
    if not conv.directed_msg:
        call.refuse("directed_msg=False sends what the receiver is, too; train with directed_msg=True.")
    if conv.attention:
        require_sum(conv, call)
    sent = _hold_unless_pure(call, call.linear(conv.lin_msg, call.x))
    shown = call.hold(sent)
    heads = []
    rule: Rule
    for head, columns in _heads(conv):
        select = np.eye(shown.width)[:, columns]
        if not conv.attention:
            heads.append(call.aggregate(sent.select(columns), sum_or_mean(conv, call)))
            continue
        if conv.attention_type == "additive":
            rule = AdditiveAttention(
                select @ array(conv.att_msg)[0, head], np.zeros(shown.width), 0.2, False, conv.flow
            )
        else:
            rule = MutualAttention(select, np.zeros(len(columns)), 1 / float(conv.scaler), 0.2, False, conv.flow)
        heads.append(call.aggregate(shown.select(columns), rule, reads=shown))
    own = call.linear(conv.lin_self, call.x) if hasattr(conv.lin_self, "weight") else call.x
    out = _average(heads) + own
    return call.aggregate(out, InverseLength()) if conv.normalize_l2 else out


def _heads(conv: GATConv | GATv2Conv | TransformerConv | SuperGATConv | GeneralConv) -> list[tuple[int, IntArray]]:
    """Number and columns of each head."""
    size = conv.out_channels
    return [(head, np.arange(head * size, (head + 1) * size)) for head in range(conv.heads)]


def _finish(conv: GATConv | GATv2Conv | SuperGATConv, call: Call, x: Form, heads: Sequence[Form]) -> Form:
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

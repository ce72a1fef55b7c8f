"""PyG attention -> Form: one channel per head, with the attention of each snapshot's own forward pass."""

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
    MessagePassing,
    SuperGATConv,
    TransformerConv,
)

from ..arrays import FloatArray, IntArray
from ..network.activations import leaky_relu, sigmoid
from ..network.attention import (
    AdditiveAttention,
    AlongEdges,
    CosineAttention,
    DotAttention,
    EdgeTerm,
    InverseLength,
    MutualAttention,
    PairAttention,
    SharedMean,
    SignedAttention,
)
from ..network.coefficients import Mean, Rule
from ..network.messages import Delivered
from ..network.softmaxes import ScoreSoftmax
from .aggregations import gather
from .calls import Call, array, register_reader, transposed, vector
from .convolutions import require_sum, sum_or_mean, sum_or_norm
from .edge_messages import at_edges, edge_features
from .forms import Form, concatenate


@register_reader(GATConv)
def read_gat_conv(conv: GATConv, call: Call) -> Form:
    """For each head:  attention(X W . att_src, X W . att_dst) X W;  then heads side by side or averaged, + b."""
    require_sum(conv, call)
    edge_attr = (
        call.argument("edge_attr") if conv.lin_edge is None else edge_features(call)
    )  # else not looked at, as in PyG
    x, shown, place = _shown(call, None if conv.lin_edge is None else edge_attr)
    sent = call.hold(call.sent)
    sender, receiver = (transposed((conv.lin or other).weight) for other in (conv.lin_src, conv.lin_dst))
    source, target = array(conv.att_src)[0], array(conv.att_dst)[0]
    heads = []
    for head, columns in _heads(conv):
        term = None
        if conv.lin_edge is not None:
            direction = transposed(conv.lin_edge.weight)[:, columns] @ array(conv.att_edge)[0, head]
            term = _edge_term(conv, call, place, direction)
        rule = AdditiveAttention(
            _on_nodes(call.of_sent(sender[:, columns] @ source[head]), shown),
            _on_nodes(call.of_own(receiver[:, columns] @ target[head]), shown),
            conv.negative_slope,
            conv.add_self_loops,
            conv.flow,
            term,
        )
        heads.append(call.aggregate(sent @ sender[:, columns], rule, reads=shown))
    return _finish(conv, call, x, heads)


@register_reader(GATv2Conv)
def read_gatv2_conv(conv: GATv2Conv, call: Call) -> Form:
    """For each head:  attention(leaky_relu(X W_l + X W_r) . att) (X W_l + b_l);  then as in GAT."""
    require_sum(conv, call)
    edges = None if conv.edge_dim is None else edge_features(call)
    _, shown, place = _shown(call, edges)
    sent = call.hold(call.sent)
    sender, receiver = transposed(conv.lin_l.weight), transposed(conv.lin_r.weight)
    sender_bias, receiver_bias = (_bias(linear, sender.shape[1]) for linear in (conv.lin_l, conv.lin_r))
    # With loops every node attends to something and its shares sum to 1, so the values' bias is the output's.
    values = sent @ sender if conv.add_self_loops else _hold_unless_pure(call, call.linear(conv.lin_l, sent))
    heads = []
    for head, columns in _heads(conv):
        term = None
        if edges is not None:
            term = _edge_term(conv, call, place, transposed(conv.lin_edge.weight)[:, columns])
        rule = PairAttention(
            _on_nodes(call.of_sent(sender[:, columns]), shown),
            _on_nodes(call.of_own(receiver[:, columns]), shown),
            (sender_bias + receiver_bias)[columns],
            array(conv.att)[0, head],
            conv.negative_slope,
            conv.add_self_loops,
            conv.flow,
            term,
        )
        out = call.aggregate(values.select(columns), rule, reads=shown)
        heads.append(out + sender_bias[columns] if conv.add_self_loops else out)
    return _finish(conv, call, call.x, heads)


@register_reader(TransformerConv)
def read_transformer_conv(conv: TransformerConv, call: Call) -> Form:
    """For each head:  softmax(Q[V] . K[U] / sqrt(C)) (X W_v + b_v);  then as in GAT, + X W_skip + b_skip.

    Edge features join keys and values: what they add to a value is a leaf at the edge.
    """
    require_sum(conv, call)
    edges = None if conv.lin_edge is None else edge_features(call)
    x, shown, place = _shown(call, edges)
    sent = call.hold(call.sent)
    scale = conv.out_channels**-0.5
    query, key = transposed(conv.lin_query.weight) * scale, transposed(conv.lin_key.weight)
    query_bias, key_bias = _bias(conv.lin_query, query.shape[1]) * scale, _bias(conv.lin_key, key.shape[1])
    values = _hold_unless_pure(call, call.linear(conv.lin_value, sent))
    heads = []
    for _, columns in _heads(conv):
        edge_weight = None if edges is None else transposed(conv.lin_edge.weight)[:, columns]
        rule = DotAttention(
            _on_nodes(call.of_own(query[:, columns]), shown),
            query_bias[columns],
            _on_nodes(call.of_sent(key[:, columns]), shown),
            key_bias[columns],
            conv.flow,
            None if edge_weight is None else _edge_term(conv, call, place, edge_weight),
        )
        head = call.aggregate(values.select(columns), rule, reads=shown)
        if edges is not None and edge_weight is not None:
            head = head + call.aggregate(edges @ edge_weight, AlongEdges(rule), reads=shown)
        heads.append(head)
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
        call.argument(name)  # only for its loss
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
    """The mean over heads of the sum, mean or attention of X W + b (+ E W_e);  + X W_self + b;  of length 1 if so."""
    along = conv.in_edge_channels is not None or not conv.directed_msg
    heads = _on_their_edges(conv, call) if along else _of_their_senders(conv, call)
    own = call.linear(conv.lin_self, call.x) if hasattr(conv.lin_self, "weight") else call.x
    out = _average(heads) + own
    return call.aggregate(out, InverseLength()) if conv.normalize_l2 else out


def _of_their_senders(conv: GeneralConv, call: Call) -> list[Form]:
    """Heads whose messages depend only on the sender."""
    if conv.attention:
        require_sum(conv, call)
    sent = _hold_unless_pure(call, call.linear(conv.lin_msg, call.sent))
    shown = call.hold(sent)
    heads = []
    rule: Rule
    for head, columns in _heads(conv):
        select = np.eye(shown.width)[:, columns]
        if not conv.attention:
            heads.append(gather(conv, call, sent.select(columns)))
            continue
        if conv.attention_type == "additive":
            rule = AdditiveAttention(
                select @ array(conv.att_msg)[0, head], np.zeros(shown.width), 0.2, False, conv.flow
            )
        else:
            rule = MutualAttention(select, np.zeros(len(columns)), 1 / float(conv.scaler), 0.2, False, conv.flow)
        heads.append(call.aggregate(shown.select(columns), rule, reads=shown))
    return heads


def _on_their_edges(conv: GeneralConv, call: Call) -> list[Form]:
    """Heads whose messages are made of edge features, or of both ends."""
    ends = [at_edges(call, conv.flow, receiver=end) for end in (False, True)]

    def message(sender: Form, receiver: Form) -> Form:
        said = call.linear(conv.lin_msg, sender)
        said = said if conv.directed_msg else said + call.linear(conv.lin_msg_i, receiver)
        return said if conv.in_edge_channels is None else said + call.linear(conv.lin_edge, edge_features(call))

    sent = call.hold(message(*ends))
    if not conv.attention:
        return [gather(conv, call, sent.select(columns), from_edges=True) for _, columns in _heads(conv)]
    require_sum(conv, call)
    # Scores are sums over the columns of a head.
    each: FloatArray = np.kron(np.eye(conv.heads), np.ones((conv.out_channels, 1))).astype(np.float64)
    if conv.attention_type == "additive":
        scores = (sent * array(conv.att_msg).reshape(-1)) @ each
    else:
        scores = (1 / float(conv.scaler)) * (call.multiply(sent, message(*ends[::-1])) @ each)
    scores = call.activate(scores, leaky_relu(0.2))
    into = Delivered(flow=conv.flow)
    return [
        call.aggregate(sent.select(columns), ScoreSoftmax(into), reads=scores.select(np.array([head])))
        for head, columns in _heads(conv)
    ]


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


def _shown(call: Call, edges: Form | None) -> tuple[Form, Form, int]:
    """X; what attention is shown, which is X (of both ends) and edge features beside it, if any; where these begin."""
    both = call.shown
    shown = both if edges is None else call.hold(concatenate([both, edges]))
    return call.hold(call.x), shown, both.width


def _on_nodes(weight: FloatArray, shown: Form) -> FloatArray:
    """A map of X as one of what attention is shown."""
    return np.concatenate([weight, np.zeros((shown.width - len(weight), *weight.shape[1:]))])


def _edge_term(conv: MessagePassing, call: Call, place: int, weight: FloatArray) -> EdgeTerm:
    fill = getattr(conv, "fill_value", None) if getattr(conv, "add_self_loops", False) else None
    if not (fill is None or fill == "mean" or isinstance(fill, (int, float))):
        call.refuse(f'gives loops edge features by fill_value={fill!r}; train with "mean" or a number.')
    own = weight.reshape(len(weight), -1)
    return EdgeTerm(
        np.concatenate([np.zeros((place, own.shape[1])), own]), None if fill in (None, "mean") else float(fill)
    )


def _hold_unless_pure(call: Call, form: Form) -> Form:
    """What all heads aggregate, held once for all of them if it must be."""
    return form if form.is_pure else call.hold(form)


def _average(heads: Sequence[Form]) -> Form:
    return (1.0 / len(heads)) * sum(heads[1:], heads[0])


def _bias(linear: object, width: int) -> FloatArray:
    bias = vector(getattr(linear, "bias", None))
    return np.zeros(width) if bias is None else bias

"""PyG convolution of several hops -> Form: each hop is a layer of the Network."""

from __future__ import annotations

import numpy as np
from torch_geometric.nn import APPNP, GCN2Conv, LGConv, MessagePassing, SGConv, SSGConv, TAGConv

from ..arrays import FloatArray
from .calls import Call, array, register_reader, vector
from .convolutions import sum_or_norm
from .forms import Form


@register_reader(SGConv)
def read_sg_conv(conv: SGConv, call: Call) -> Form:
    """(D^-1/2 (A + I) D^-1/2)^K X W + b."""
    rule = sum_or_norm(conv, call, True, _loops(conv))
    out = call.x
    for _ in range(conv.K):
        out = call.aggregate(out, rule)
    return call.linear(conv.lin, out)


@register_reader(TAGConv)
def read_tag_conv(conv: TAGConv, call: Call) -> Form:
    """sum over k = 0..K of (D^-1/2 A D^-1/2)^k X W_k + b."""
    rule = sum_or_norm(conv, call, conv.normalize, None)
    hop = call.x
    parts = [call.linear(conv.lins[0], hop)]
    for k, linear in enumerate(conv.lins[1:], start=1):
        hop = call.aggregate(hop, rule)
        if k < conv.K:
            hop = call.hold(hop)  # for the next hop and the output alike
        parts.append(call.linear(linear, hop))
    return sum(parts[1:], parts[0]) + vector(conv.bias)


@register_reader(APPNP)
def read_appnp(conv: APPNP, call: Call) -> Form:
    """K times  Z <- (1 - alpha) D^-1/2 (A + I) D^-1/2 Z + alpha X,  from Z = X."""
    rule = sum_or_norm(conv, call, conv.normalize, _loops(conv))
    start = call.hold(call.x)
    out = start
    for _ in range(conv.K):
        out = (1.0 - conv.alpha) * call.aggregate(out, rule) + conv.alpha * start
    return out


@register_reader(LGConv)
def read_lg_conv(conv: LGConv, call: Call) -> Form:
    """D^-1/2 A D^-1/2 X."""
    return call.aggregate(call.x, sum_or_norm(conv, call, conv.normalize, None))


@register_reader(SSGConv)
def read_ssg_conv(conv: SSGConv, call: Call) -> Form:
    """(alpha X + (1 - alpha) / K times the sum over k = 1..K of (D^-1/2 (A + I) D^-1/2)^k X) W + b."""
    rule = sum_or_norm(conv, call, True, _loops(conv))
    hop = call.x
    out = conv.alpha * hop
    for k in range(1, conv.K + 1):
        hop = call.aggregate(hop, rule)
        if k < conv.K:
            hop = call.hold(hop)
        out = out + (1.0 - conv.alpha) / conv.K * hop
    return call.linear(conv.lin, out)


@register_reader(GCN2Conv)
def read_gcn2_conv(conv: GCN2Conv, call: Call) -> Form:
    """((1 - alpha) P X) M_1 + (alpha X_0) M_2,  M = (1 - beta) I + beta W,  P as in GCN."""
    rule = sum_or_norm(conv, call, conv.normalize, _loops(conv))
    around: Form = (1.0 - conv.alpha) * call.aggregate(call.x, rule)
    initial: Form = conv.alpha * call.argument("x_0")
    kept = (1.0 - conv.beta) * np.eye(conv.channels)
    first: FloatArray = kept + conv.beta * array(conv.weight1)
    second: FloatArray = first if conv.weight2 is None else kept + conv.beta * array(conv.weight2)
    return around @ first + initial @ second


def _loops(conv: MessagePassing) -> float | None:
    return 1.0 if conv.add_self_loops else None

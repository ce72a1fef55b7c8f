"""PyG convolution of several hops -> Form: each hop is a layer of the Network."""

from __future__ import annotations

from torch_geometric.nn import APPNP, MessagePassing, SGConv, TAGConv

from ..coefficients import Coefficients, Sum, SymmetricNorm
from .calls import Call, register_reader, vector
from .convolutions import require_sum
from .forms import Form


@register_reader(SGConv)
def read_sg_conv(conv: SGConv, call: Call) -> Form:
    """(D^-1/2 (A + I) D^-1/2)^K X W + b."""
    rule = _rule(conv, call, True, conv.add_self_loops)
    out = call.x
    for _ in range(conv.K):
        out = call.aggregate(out, rule)
    return call.linear(conv.lin, out)


@register_reader(TAGConv)
def read_tag_conv(conv: TAGConv, call: Call) -> Form:
    """sum over k = 0..K of (D^-1/2 A D^-1/2)^k X W_k + b."""
    rule = _rule(conv, call, conv.normalize, False)
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
    rule = _rule(conv, call, conv.normalize, conv.add_self_loops)
    start = call.hold(call.x)
    out = start
    for _ in range(conv.K):
        out = (1.0 - conv.alpha) * call.aggregate(out, rule) + conv.alpha * start
    return out


def _rule(conv: MessagePassing, call: Call, normalize: bool, self_loops: bool) -> Coefficients:
    require_sum(conv, call)
    if normalize:
        return SymmetricNorm(call.weighted, 1.0 if self_loops else None, conv.flow)
    return Sum(call.weighted, conv.flow)

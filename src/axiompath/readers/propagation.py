"""PyG convolution of several hops -> Form: each hop is a layer of the Network."""

from __future__ import annotations

import numpy as np
from torch import Tensor
from torch_geometric.nn import (
    APPNP,
    ARMAConv,
    ChebConv,
    GCN2Conv,
    LGConv,
    MessagePassing,
    MixHopConv,
    SGConv,
    SSGConv,
    TAGConv,
)

from ..arrays import FloatArray
from ..network.degrees import Laplacian
from .calls import Call, array, register_reader, vector
from .convolutions import require_sum, sum_or_norm
from .forms import Form, concatenate


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


@register_reader(ChebConv)
def read_cheb_conv(conv: ChebConv, call: Call) -> Form:
    """sum over k of T_k W_k + b,  T_0 = X,  T_1 = L X,  T_k = 2 L T_(k-1) - T_(k-2),  L the scaled Laplacian."""
    require_sum(conv, call)
    call.argument("batch")  # of no consequence where lambda is one number
    largest = call.argument("lambda_max")
    if isinstance(largest, Tensor) and largest.numel() > 1:
        call.refuse("lambda_max differs from graph to graph; explain graphs one by one, or give one number.")
    rule = Laplacian(conv.normalization, None if largest is None else float(largest), call.weighted, conv.flow)
    terms = [call.hold(call.x)]
    for k in range(1, len(conv.lins)):
        around = call.aggregate(terms[-1], rule)
        terms.append(call.hold(around if k == 1 else 2.0 * around + -1.0 * terms[-2]))
    parts = [call.linear(linear, term) for linear, term in zip(conv.lins, terms, strict=True)]
    return sum(parts[1:], parts[0]) + vector(conv.bias)


@register_reader(MixHopConv)
def read_mixhop_conv(conv: MixHopConv, call: Call) -> Form:
    """P^k X W_k of several k side by side + b,  P as in GCN."""
    rule = sum_or_norm(conv, call, True, _loops(conv))
    hops = [call.hold(call.x)]
    for _ in range(max(conv.powers)):
        hops.append(call.hold(call.aggregate(hops[-1], rule)))
    return concatenate([call.linear(conv.lins[k], hops[k]) for k in conv.powers]) + vector(conv.bias)


@register_reader(ARMAConv)
def read_arma_conv(conv: ARMAConv, call: Call) -> Form:
    """The mean over stacks of T times  Z <- act(P Z W_t + X V_t + b_t),  from Z = X,  P as in GCN without loops."""
    rule = sum_or_norm(conv, call, True, None)
    x, stacks = call.hold(call.x), []
    for stack in range(conv.num_stacks):
        out = x
        for t in range(conv.num_layers):
            last = 0 if conv.shared_weights else t
            weight = conv.init_weight[stack] if t == 0 else conv.weight[max(last - 1, 0), stack]
            out = call.aggregate(out @ array(weight), rule) + x @ array(conv.root_weight[last, stack])
            out = out if conv.bias is None else out + array(conv.bias[last, stack, 0])
            out = out if conv.act is None else call.run(conv.act, out, "act")
        stacks.append(out)
    return (1.0 / len(stacks)) * sum(stacks[1:], stacks[0])


def _loops(conv: MessagePassing) -> float | None:
    return 1.0 if conv.add_self_loops else None

"""PyG convolution of one hop -> Form: one small function each; propagation.py, attention_layers.py have the others."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import torch
from torch_geometric.nn import (
    ClusterGCNConv,
    DirGNNConv,
    GCNConv,
    GENConv,
    GINConv,
    GraphConv,
    LEConv,
    MessagePassing,
    MFConv,
    PNAConv,
    SAGEConv,
    SimpleConv,
    WLConvContinuous,
    aggr,
)

from ..network.activations import relu
from ..network.attention import InverseLength
from ..network.coefficients import SOURCE_TO_TARGET, Degree, Mean, Rule, Sum, SymmetricNorm, TargetNorm
from ..network.degrees import DegreeIs, DegreeScale, Looped, WeightedMean
from ..network.messages import RECEIVER, SENDER, Delivered, Gathered
from .aggregations import gather
from .calls import READERS, Call, register_reader, transposed, vector
from .forms import Form, concatenate


@register_reader(GCNConv)
def read_gcn_conv(conv: GCNConv, call: Call) -> Form:
    """D^-1/2 (A + I) D^-1/2 X W + b, or A X W + b without normalisation."""
    # PyG heeds `improved` only where edge weights are given; without them every loop weighs 1.
    loops = (2.0 if conv.improved and call.weighted else 1.0) if conv.add_self_loops else None
    rule = sum_or_norm(conv, call, conv.normalize, loops)
    return call.linear(conv.lin, call.aggregate(call.x, rule)) + vector(conv.bias)


@register_reader(SAGEConv)
def read_sage_conv(conv: SAGEConv, call: Call) -> Form:
    """mean (or another aggregation) of X W_l + b + X W_r; with `project`, of relu(X W_p + b_p) in the first place."""
    sent = call.sent
    if conv.project:
        sent = call.activate(call.linear(conv.lin, call.sent), relu())
    out = call.linear(conv.lin_l, gather(conv, call, sent))
    out = out + call.linear(conv.lin_r, call.x) if conv.root_weight else out
    return call.aggregate(out, InverseLength()) if conv.normalize else out


@register_reader(GraphConv)
def read_graph_conv(conv: GraphConv, call: Call) -> Form:
    """sum (or another aggregation) of w X W_rel + b + X W_root."""
    return call.linear(conv.lin_rel, gather(conv, call, call.sent)) + call.linear(conv.lin_root, call.x)


@register_reader(GINConv)
def read_gin_conv(conv: GINConv, call: Call) -> Form:
    """nn(sum of X + (1 + eps) X)."""
    around = gather(conv, call, call.sent)
    return call.run(conv.nn, around + (1.0 + float(conv.eps.detach())) * call.x, "nn")


@register_reader(LEConv)
def read_le_conv(conv: LEConv, call: Call) -> Form:
    """sum over U of w (X[U] W_1 + b_1 - X[V] W_2) + X[V] W_3 + b_3."""
    require_sum(conv, call)
    around = call.aggregate(call.linear(conv.lin1, call.sent), Sum(call.weighted, conv.flow))
    own = call.aggregate(call.linear(conv.lin2, call.x), Degree(call.weighted, conv.flow))
    return around - own + call.linear(conv.lin3, call.x)


@register_reader(ClusterGCNConv)
def read_cluster_gcn_conv(conv: ClusterGCNConv, call: Call) -> Form:
    """(D^-1 (A + I) + lambda diag) X W_out + b + X W_root."""
    require_sum(conv, call)
    if not conv.add_self_loops:
        call.refuse("add_self_loops=False is not defined for nodes without a loop of their own; use True.")
    around = call.aggregate(call.x, TargetNorm(conv.diag_lambda, torch.get_default_dtype() == torch.float32, conv.flow))
    return call.linear(conv.lin_out, around) + call.linear(conv.lin_root, call.x)


@register_reader(SimpleConv)
def read_simple_conv(conv: SimpleConv, call: Call) -> Form:
    """sum (or another aggregation) of w X, and X added to it, put beside it, or sent along a loop."""
    if conv.combine_root == "self_loop":
        around = call.aggregate(call.sent, Looped(sum_or_mean(conv, call), True))
    else:
        around = gather(conv, call, call.sent)
    if conv.combine_root == "cat":
        return concatenate([call.x, around])
    return around + call.x if conv.combine_root == "sum" else around


@register_reader(WLConvContinuous)
def read_wl_conv_continuous(conv: WLConvContinuous, call: Call) -> Form:
    """(X + the mean of X weighed by w) / 2."""
    if conv.flow != "source_to_target":
        call.refuse("against the edges it divides by the weights of others than it adds up; use its own flow.")
    return 0.5 * (call.x + call.aggregate(call.sent, WeightedMean(call.weighted)))


@register_reader(MFConv)
def read_mf_conv(conv: MFConv, call: Call) -> Form:
    """sum of X W_l + b + X W_r, with the weights of the node's degree."""
    around = gather(conv, call, call.sent)
    parts = [
        call.aggregate(
            call.hold(call.linear(left, around) + call.linear(right, call.x)),
            DegreeIs(number, conv.max_degree, conv.flow),
        )
        for number, (left, right) in enumerate(zip(conv.lins_l, conv.lins_r, strict=True))
    ]
    return sum(parts[1:], parts[0])


@register_reader(GENConv)
def read_gen_conv(conv: GENConv, call: Call) -> Form:
    """nn(softmax (or another aggregation) of relu(X W_src + b, + E W_e) + eps, + X W_dst + b)."""
    if hasattr(conv, "msg_norm"):
        call.refuse("msg_norm=True scales messages by the length of features, a product; train with msg_norm=False.")
    sent = call.linear(conv.lin_src, call.sent) if hasattr(conv, "lin_src") else call.sent
    own = call.linear(conv.lin_dst, call.x) if hasattr(conv, "lin_dst") else call.x
    edge_attr = call.argument("edge_attr")
    if edge_attr is not None:  # X[U] + E W_e: made on the edges
        edge_attr = call.linear(conv.lin_edge, edge_attr) if hasattr(conv, "lin_edge") else edge_attr
        sent = call.aggregate(sent, Gathered(SENDER, conv.flow)) + edge_attr
    around = gather(conv, call, call.activate(sent, relu()) + conv.eps, from_edges=edge_attr is not None)
    if hasattr(conv, "lin_aggr_out"):
        around = call.linear(conv.lin_aggr_out, around)
    return call.run(conv.mlp, around + own, "mlp")


@register_reader(PNAConv)
def read_pna_conv(conv: PNAConv, call: Call) -> Form:
    """For each tower, nn(X, scaled aggregations of nn(X[V], X[U], E));  then all towers times W + b."""
    edge_attr = call.argument("edge_attr")
    edge_attr = None if edge_attr is None else call.linear(conv.edge_encoder, edge_attr)
    aggregations = getattr(conv.aggr_module.aggr, "aggrs", [conv.aggr_module.aggr])
    flow, scaler = conv.flow, conv.aggr_module
    linear, logarithm = (float(average.detach()) for average in (scaler.avg_deg_lin, scaler.avg_deg_log))
    scales = {
        "linear": DegreeScale(linear, False, False, flow),
        "inverse_linear": DegreeScale(linear, False, True, flow),
        "amplification": DegreeScale(logarithm, True, False, flow),
        "attenuation": DegreeScale(logarithm, True, True, flow),
    }
    width, towers = conv.F_in, []
    for number, (before, after) in enumerate(zip(conv.pre_nns, conv.post_nns, strict=True)):
        x = call.x.select(number * width + np.arange(width)) if conv.divide_input else call.x
        if len(before) > 1:  # a network of its own, which runs on every edge
            ends = [call.aggregate(x, Gathered(end, flow)) for end in (RECEIVER, SENDER)]
            messages = call.run(
                before, concatenate(ends if edge_attr is None else [*ends, edge_attr]), f"pre_nns.{number}"
            )
            sums = [gather(conv, call, messages, part, from_edges=True) for part in aggregations]
        else:
            sums = [_gather_tower(conv, call, x, edge_attr, before[0], part) for part in aggregations]
        held = call.hold(concatenate(sums))
        scaled = [
            held if name == "identity" else call.aggregate(held, scales[name]) for name in conv.aggr_module.scaler
        ]
        towers.append(call.run(after, concatenate([x, *scaled]), f"post_nns.{number}"))
    return call.linear(conv.lin, concatenate(towers))


def _gather_tower(conv: PNAConv, call: Call, x: Form, edge_attr: Form | None, linear: Any, aggregation: Any) -> Form:
    """One aggregation of X[V] W_i + X[U] W_j + E W_e + b, edge by edge only where it must be."""
    flow, width, maps = conv.flow, x.width, transposed(linear.weight)
    own, sent, along = maps[:width], maps[width : 2 * width], maps[2 * width :]
    is_sum, is_mean = (type(aggregation) is kind for kind in (aggr.SumAggregation, aggr.MeanAggregation))
    if edge_attr is None or is_sum or is_mean:
        around = gather(conv, call, x @ sent, aggregation)
    else:  # of what edges add to it, too
        messages = call.aggregate(x @ sent, Gathered(SENDER, flow)) + edge_attr @ along
        around = gather(conv, call, messages, aggregation, from_edges=True)
    if type(aggregation) in (aggr.VarAggregation, aggr.StdAggregation):
        return around  # what a receiver adds to every message moves none of them apart
    # What a receiver adds to every message comes once per edge in their sum, else once if there are any.
    times = Degree(False, flow) if is_sum else DegreeIs(1, 1, flow)
    around = around + call.aggregate(x @ own + vector(linear.bias), times)
    if edge_attr is not None and (is_sum or is_mean):
        around = around + call.aggregate(edge_attr @ along, Delivered(is_mean, False, flow))
    return around


@register_reader(DirGNNConv)
def read_dir_gnn_conv(conv: DirGNNConv, call: Call) -> Form:
    """alpha times a convolution against the edges, 1 - alpha times one along them, + X W + b."""
    backwards = copy(conv.conv_out)
    backwards.flow = "target_to_source" if conv.conv_out.flow == SOURCE_TO_TARGET else SOURCE_TO_TARGET
    parts = []
    for part, weight, name in ((backwards, conv.alpha, "conv_out"), (conv.conv_in, 1.0 - conv.alpha, "conv_in")):
        reader = READERS.get(type(part))
        if reader is None:
            call.refuse(f"its {name} is of type {type(part).__name__}, for which there is no reader.")
        parts.append(weight * reader(part, call))
    out: Form = parts[0] + parts[1]
    return out + call.linear(conv.lin, call.x) if conv.root_weight else out


def sum_or_mean(conv: MessagePassing, call: Call) -> Rule:
    """The rule of a convolution that leaves the choice of aggregation to the user."""
    aggregation = type(conv.aggr_module)
    if aggregation is aggr.SumAggregation:
        return Sum(call.weighted, conv.flow)
    if aggregation is aggr.MeanAggregation:
        return Mean(call.weighted, conv.flow)
    call.refuse(
        f"expected aggregation by sum or mean (got {conv.aggr!r}), since only a weighted sum of messages splits into "
        'paths; train with aggr="mean" or aggr="add".'
    )


def sum_or_norm(conv: MessagePassing, call: Call, normalize: bool, loops: float | None) -> Rule:
    """The rule of a convolution that normalises by both degrees, or not; `loops` is what each node's own weighs."""
    require_sum(conv, call)
    return SymmetricNorm(call.weighted, loops, conv.flow) if normalize else Sum(call.weighted, conv.flow)


def require_sum(conv: MessagePassing, call: Call) -> None:
    """For convolutions whose definition is a sum."""
    if type(conv.aggr_module) is not aggr.SumAggregation:
        call.refuse(f'expected aggregation by sum (got {conv.aggr!r}); train with aggr="add".')

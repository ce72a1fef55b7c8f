"""PyG convolution of one hop -> Form: one small function each; propagation.py, attention_layers.py have the others."""

from __future__ import annotations

import torch
from torch_geometric.nn import ClusterGCNConv, GCNConv, GINConv, GraphConv, LEConv, MessagePassing, SAGEConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

from ..network.activations import relu
from ..network.coefficients import Degree, Mean, Rule, Sum, SymmetricNorm, TargetNorm
from .calls import Call, register_reader, vector
from .forms import Form


@register_reader(GCNConv)
def read_gcn_conv(conv: GCNConv, call: Call) -> Form:
    """D^-1/2 (A + I) D^-1/2 X W + b, or A X W + b without normalisation."""
    # PyG heeds `improved` only where edge weights are given; without them every loop weighs 1.
    loops = (2.0 if conv.improved and call.weighted else 1.0) if conv.add_self_loops else None
    rule = sum_or_norm(conv, call, conv.normalize, loops)
    return call.linear(conv.lin, call.aggregate(call.x, rule)) + vector(conv.bias)


@register_reader(SAGEConv)
def read_sage_conv(conv: SAGEConv, call: Call) -> Form:
    """mean (or sum) of X W_l + b + X W_r; with `project`, of relu(X W_p + b_p) in the first place."""
    if conv.normalize:
        call.refuse(
            "normalize=True divides every node's output by its length, a coefficient without a bound near 0; "
            "train with normalize=False, or with a LayerNorm after the convolution."
        )
    sent = call.x
    if conv.project:
        sent = call.activate(call.linear(conv.lin, call.x), relu())
    out = call.linear(conv.lin_l, call.aggregate(sent, sum_or_mean(conv, call)))
    return out + call.linear(conv.lin_r, call.x) if conv.root_weight else out


@register_reader(GraphConv)
def read_graph_conv(conv: GraphConv, call: Call) -> Form:
    """sum (or mean) of w X W_rel + b + X W_root."""
    return call.linear(conv.lin_rel, call.aggregate(call.x, sum_or_mean(conv, call))) + call.linear(
        conv.lin_root, call.x
    )


@register_reader(GINConv)
def read_gin_conv(conv: GINConv, call: Call) -> Form:
    """nn(sum of X + (1 + eps) X)."""
    around = call.aggregate(call.x, sum_or_mean(conv, call))
    return call.run(conv.nn, around + (1.0 + float(conv.eps.detach())) * call.x, "nn")


@register_reader(LEConv)
def read_le_conv(conv: LEConv, call: Call) -> Form:
    """sum over U of w (X[U] W_1 + b_1 - X[V] W_2) + X[V] W_3 + b_3."""
    require_sum(conv, call)
    around = call.aggregate(call.linear(conv.lin1, call.x), Sum(call.weighted, conv.flow))
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


def sum_or_mean(conv: MessagePassing, call: Call) -> Rule:
    """The rule of a convolution that leaves the choice of aggregation to the user."""
    aggregation = type(conv.aggr_module)
    if aggregation is SumAggregation:
        return Sum(call.weighted, conv.flow)
    if aggregation is MeanAggregation:
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
    if type(conv.aggr_module) is not SumAggregation:
        call.refuse(f'expected aggregation by sum (got {conv.aggr!r}); train with aggr="add".')

"""PyG aggregation -> Form: sums, means, maxima, minima, softmaxes and deviations of messages, one or several side by
side."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.nn import MessagePassing, aggr

from ..network.activations import deviation
from ..network.coefficients import Mean, Rule, Sum
from ..network.degrees import Looped
from ..network.maxima import Extreme
from ..network.messages import Delivered
from ..network.softmaxes import ColumnSoftmax
from .calls import Call
from .forms import Form, concatenate


def gather(
    conv: MessagePassing, call: Call, sent: Form, module: Any = None, *, from_edges: bool = False, looped: bool = False
) -> Form:
    """What a convolution makes of its messages; of several aggregations, what each makes of them.

    Messages are values of their senders, or, `from_edges`, of edges that are places; `looped`, with a loop at every
    node in place of its own.
    """
    module = conv.aggr_module if module is None else module
    if type(module) in (aggr.VarAggregation, aggr.StdAggregation):
        if call.weighted:
            call.refuse("takes the deviation of weighted messages, so that weights would be squared; leave them out.")
        spread = variance(call, sent, _rule_of(conv, call, aggr.MeanAggregation(), from_edges, looped))
        return spread if type(module) is aggr.VarAggregation else call.activate(spread, deviation())
    if type(module) is not aggr.MultiAggregation:
        return call.aggregate(sent, _rule_of(conv, call, module, from_edges, looped))
    parts = [gather(conv, call, sent, part, from_edges=from_edges, looped=looped) for part in module.aggrs]
    if module.mode == "cat":
        return concatenate(parts)
    if module.mode in ("sum", "add", "mean"):
        return sum(parts[1:], parts[0]) * (1.0 / len(parts) if module.mode == "mean" else 1.0)
    if module.mode in ("max", "min"):
        return call.bases.take_largest(parts, least=module.mode == "min")
    call.refuse(f'combines several aggregations by "{module.mode}", which is no weighted sum of them; use mode="cat".')


def variance(call: Call, sent: Form, means: Rule) -> Form:
    """The mean of squares less the square of the mean, as PyG has it: two products."""
    sent = call.hold(sent)
    mean = call.hold(call.aggregate(sent, means))
    return call.aggregate(call.hold(call.multiply(sent, sent)), means) - call.multiply(mean, mean)


def _rule_of(conv: MessagePassing, call: Call, module: Any, from_edges: bool, looped: bool) -> Rule:
    """The rule of one aggregation."""
    weighted, flow = call.weighted, conv.flow
    sums: Rule = Delivered(False, weighted, flow) if from_edges else Sum(weighted, flow)
    means: Rule = Delivered(True, weighted, flow) if from_edges else Mean(weighted, flow)
    if looped:
        sums, means = Looped(sums, False), Looped(means, False)
    rules: dict[type, Rule] = {
        aggr.SumAggregation: sums,
        aggr.MeanAggregation: means,
        aggr.MaxAggregation: Extreme(sums),
        aggr.MinAggregation: Extreme(sums, least=True),
    }
    if type(module) is aggr.SoftmaxAggregation and not weighted:
        temperatures = torch.as_tensor(module.t, dtype=torch.float64).detach().reshape(-1)
        return ColumnSoftmax(sums, tuple(temperatures.tolist()))
    if type(module) not in rules:
        call.refuse(
            f"expected aggregation by sum, mean, max, min, softmax, var or std (got {type(module).__name__}), since "
            'others are no sums, products or maxima of messages; train with aggr="mean" or aggr="add".'
        )
    return rules[type(module)]

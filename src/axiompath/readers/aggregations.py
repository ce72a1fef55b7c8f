"""PyG aggregation -> Form: sums, means, maxima, minima and softmaxes of messages, alone or several side by side."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.nn import MessagePassing, aggr

from ..network.coefficients import Mean, Rule, Sum
from ..network.maxima import Extreme
from ..network.messages import Delivered
from ..network.softmaxes import ColumnSoftmax
from .calls import Call
from .forms import Form, concatenate


def gather(conv: MessagePassing, call: Call, sent: Form, module: Any = None, *, from_edges: bool = False) -> Form:
    """What a convolution makes of its messages; of several aggregations, what each makes of them.

    Messages are values of their senders, or, `from_edges`, of edges that are places.
    """
    module = conv.aggr_module if module is None else module
    if type(module) is not aggr.MultiAggregation:
        return call.aggregate(sent, _rule_of(conv, call, module, from_edges))
    parts = [gather(conv, call, sent, part, from_edges=from_edges) for part in module.aggrs]
    if module.mode == "cat":
        return concatenate(parts)
    if module.mode in ("sum", "add", "mean"):
        return sum(parts[1:], parts[0]) * (1.0 / len(parts) if module.mode == "mean" else 1.0)
    if module.mode in ("max", "min"):
        return call.bases.take_largest(parts, least=module.mode == "min")
    call.refuse(f'combines several aggregations by "{module.mode}", which is no weighted sum of them; use mode="cat".')


def _rule_of(conv: MessagePassing, call: Call, module: Any, from_edges: bool) -> Rule:
    """The rule of one aggregation."""
    weighted, flow = call.weighted, conv.flow
    sums: Rule = Delivered(False, weighted, flow) if from_edges else Sum(weighted, flow)
    means: Rule = Delivered(True, weighted, flow) if from_edges else Mean(weighted, flow)
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
            f"expected aggregation by sum, mean, max, min or softmax (got {type(module).__name__}), since only a "
            'weighted sum of messages splits into paths; train with aggr="mean" or aggr="add".'
        )
    return rules[type(module)]

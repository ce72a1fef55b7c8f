"""Modules that multiply what they are given -> Form: cells of recurrent networks, mixtures of bases."""

from __future__ import annotations

import numpy as np
from torch import nn
from torch_geometric.nn import EGConv, GatedGraphConv

from ..arrays import FloatArray
from ..network.activations import deviation, sigmoid, tanh
from ..network.coefficients import Mean, Rule, Sum, SymmetricNorm
from ..network.degrees import Looped
from ..network.maxima import Extreme
from .aggregations import gather, variance
from .calls import Call, array, register_reader, transposed, vector
from .forms import Form, concatenate


@register_reader(nn.GRUCell)
def read_gru_cell(cell: nn.GRUCell, call: Call) -> Form:
    """One step from a hidden state: features, a constant that all nodes share, or zeros where none is given."""
    hidden = call.argument("hx")
    if not isinstance(hidden, Form):
        start = np.zeros((1, cell.hidden_size)) if hidden is None else array(hidden)
        if (start != start[:1]).any():
            call.refuse("starts from a state of each node that does not come from `x`; put the states into `x`.")
        hidden = call.x @ np.zeros((call.x.width, cell.hidden_size)) + start[0]
    return step_gru(cell, call, call.x, hidden)


@register_reader(GatedGraphConv)
def read_gated_graph_conv(conv: GatedGraphConv, call: Call) -> Form:
    """Several times  X <- GRU(sum (or another aggregation) of w X W_t, X),  from X with columns of 0 beside it."""
    x = call.x @ np.eye(call.x.width, conv.out_channels)
    for weight in conv.weight:
        x = call.hold(x)
        x = step_gru(conv.rnn, call, gather(conv, call, x @ array(weight)), x)
    return x


def step_gru(cell: nn.GRUCell, call: Call, x: Form, hidden: Form) -> Form:
    """n + z (h - n),  n = tanh(x W + b + r (h U + c));  the gates r and z are sigmoids of such sums."""
    x, hidden, width = call.hold(x), call.hold(hidden), cell.hidden_size
    given = x @ transposed(cell.weight_ih) + vector(cell.bias_ih)
    kept = hidden @ transposed(cell.weight_hh) + vector(cell.bias_hh)
    reset, update, new = (np.arange(part * width, (part + 1) * width) for part in range(3))
    gates = [call.activate(given.select(part) + kept.select(part), sigmoid()) for part in (reset, update)]
    candidate = call.activate(given.select(new) + call.multiply(gates[0], kept.select(new)), tanh())
    return candidate + call.multiply(gates[1], hidden + -1.0 * candidate)


@register_reader(EGConv)
def read_eg_conv(conv: EGConv, call: Call) -> Form:
    """For each head, a sum of aggregated bases, weighed by what the receiver's own features say; + b."""
    rules: dict[str, Rule] = {"sum": Sum(False, conv.flow), "mean": Mean(False, conv.flow)}
    if conv.add_self_loops:
        rules = {name: Looped(rule, False) for name, rule in rules.items()}
    rules |= {"max": Extreme(rules["sum"]), "min": Extreme(rules["sum"], least=True)}
    rules["symnorm"] = SymmetricNorm(False, 1.0 if conv.add_self_loops else None, conv.flow)
    sent = call.x @ transposed(conv.bases_lin.weight)
    parts = []
    for name in conv.aggregators:
        part = variance(call, sent, rules["mean"]) if name in ("var", "std") else call.aggregate(sent, rules[name])
        # Unlike PyG's other deviations, this one is never below the root of 1e-5.
        parts.append(call.activate(part, deviation(1e-5**0.5)) if name == "std" else part)
    around = concatenate(parts)
    weights = call.linear(conv.comb_lin, call.x)
    heads, size = conv.num_heads, conv.out_channels // conv.num_heads
    count = conv.num_bases * len(conv.aggregators)
    # Columns (head, base, channel): weights repeat along the last, bases along the first, and the sum is over bases.
    along = np.repeat(np.eye(heads * count), size, axis=1)
    mixed = call.multiply(weights @ along, around @ np.tile(np.eye(count * size), (1, heads)))
    total: FloatArray = np.kron(np.eye(heads), np.tile(np.eye(size), (count, 1))).astype(np.float64)
    return mixed @ total + vector(conv.bias)

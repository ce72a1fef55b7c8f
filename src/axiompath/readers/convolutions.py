"""PyG convolution -> Form: one small function a convolution, and the table that finds it by exact type.

A subclass may compute anything, so it is not read as its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from ..activations import FloatArray
from ..coefficients import Coefficients, Sum, SymmetricNorm
from .forms import Form, aggregate
from .recording import UnreadableModel


@dataclass(frozen=True)
class Call:
    """How the model called a convolution: on which features, and whether edge weights came along."""

    x: Form
    weighted: bool
    name: str  # dotted name and type, for messages


def read_gcn_conv(conv: GCNConv, call: Call) -> Form:
    """D^-1/2 (A + I) D^-1/2 X W + b, or A X W + b without normalisation."""
    if conv.aggr != "add":
        raise UnreadableModel(f"{call.name}: expected aggregation by sum (got {conv.aggr!r}).")
    rule: Coefficients
    if conv.normalize:
        # PyG heeds `improved` only where edge weights are given; without them every loop weighs 1.
        loop_weight = 2.0 if conv.improved and call.weighted else 1.0
        rule = SymmetricNorm(call.weighted, loop_weight if conv.add_self_loops else None, conv.flow)
    else:
        rule = Sum(call.weighted, conv.flow)
    return aggregate(call.x, rule, transposed(conv.lin.weight), vector(conv.bias), call.name)


Reader = Callable[[nn.Module, Call], Form]

READERS: dict[type, Reader] = {GCNConv: read_gcn_conv}


def transposed(weight: torch.Tensor) -> FloatArray:
    """A torch weight [outputs, inputs] as the normal form's [inputs, outputs], float64."""
    return np.ascontiguousarray(weight.detach().double().numpy().T)


def vector(bias: torch.Tensor | None) -> FloatArray | None:
    """A torch bias as float64, or None."""
    return None if bias is None else bias.detach().double().numpy().copy()

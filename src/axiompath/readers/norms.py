"""Normalisation -> Form: affine in eval mode, or one coefficient a node; those that mix all nodes are refused."""

from __future__ import annotations

import numpy as np
from torch_geometric.nn import norm

from ..arrays import FloatArray
from ..network.attention import InverseDeviation
from ..network.coefficients import GraphSize
from .bases import Bases
from .calls import Call, register_reader, vector
from .forms import Form


def standardise(
    form: Form, mean: FloatArray, variance: FloatArray, eps: float, weight: FloatArray | None, bias: FloatArray | None
) -> Form:
    """(X - mean) / sqrt(variance + eps) * weight + bias, with statistics that training has left: an affine map."""
    scaled = (form + -mean) * (1 / np.sqrt(variance + eps))
    return (scaled if weight is None else scaled * weight) + bias


def normalise_nodes(
    bases: Bases, form: Form, eps: float, weight: FloatArray | None, bias: FloatArray | None, centred: bool
) -> Form:
    """LayerNorm (centred) or RMSNorm: centring is a linear map, the division a coefficient of each node."""
    if centred:
        form = form @ (np.eye(form.width) - 1.0 / form.width)
    scaled = bases.aggregate(form, InverseDeviation(eps))
    return (scaled if weight is None else scaled * weight) + bias


@register_reader(norm.LayerNorm)
def read_layer_norm(module: norm.LayerNorm, call: Call) -> Form:
    """PyG's own LayerNorm."""
    if module.mode != "node":
        call.refuse(
            f'mode="{module.mode}" takes mean and deviation over all nodes of the graph, so every node would have a '
            'path to every other; train with mode="node", or with BatchNorm.'
        )
    for name in ("batch", "batch_size"):
        call.argument(name)  # taken, and of no consequence in this mode
    return normalise_nodes(call.bases, call.x, module.eps, vector(module.weight), vector(module.bias), True)


@register_reader(norm.InstanceNorm)
def read_instance_norm(module: norm.InstanceNorm, call: Call) -> Form:
    """Affine with the statistics of training, if it kept any."""
    mean, variance = vector(module.running_mean), vector(module.running_var)
    if not module.track_running_stats or mean is None or variance is None:
        call.refuse(
            "takes its statistics over all nodes of the graph even at evaluation, so every node would have a path to "
            "every other; train with track_running_stats=True, or with BatchNorm."
        )
    return standardise(call.x, mean, variance, module.eps, vector(module.weight), vector(module.bias))


@register_reader(norm.GraphSizeNorm)
def read_graph_size_norm(module: norm.GraphSizeNorm, call: Call) -> Form:
    """X / sqrt(number of nodes)."""
    return call.aggregate(call.x, GraphSize())


ALL_NODES = (
    "takes its statistics over all nodes of the graph, so every node would have a path to every other; "
    "train with BatchNorm or LayerNorm(mode='node')."
)

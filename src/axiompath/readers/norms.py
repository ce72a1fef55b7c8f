"""Normalisation -> Form: affine in eval mode, a coefficient of each node, or mean and deviation of a whole graph."""

from __future__ import annotations

import numpy as np
from torch_geometric.nn import norm

from ..arrays import FloatArray
from ..network.attention import InverseDeviation, InverseLength
from ..network.coefficients import GraphSize
from ..network.statistics import Moments
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


def normalise_graphs(
    bases: Bases, form: Form, moments: Moments, weight: FloatArray | None = None, bias: FloatArray | None = None
) -> Form:
    """(X - mu) s, by the statistics of all nodes of a graph: a coefficient and a shift that each snapshot computes."""
    scaled = bases.norm_graphs(form, moments)
    return (scaled if weight is None else scaled * weight) + bias


@register_reader(norm.LayerNorm)
def read_layer_norm(module: norm.LayerNorm, call: Call) -> Form:
    """PyG's own LayerNorm: of each node, or of all nodes of a graph and all their features together."""
    weight, bias = vector(module.weight), vector(module.bias)
    by_graph = _by_graph(call)
    if module.mode == "node":
        return normalise_nodes(call.bases, call.x, module.eps, weight, bias, True)
    # Without a batch PyG adds eps to the deviation, with one to the variance.
    moments = Moments(call.x.width, by_graph, together=True, eps=module.eps, beside=not by_graph)
    return normalise_graphs(call.bases, call.x, moments, weight, bias)


@register_reader(norm.InstanceNorm)
def read_instance_norm(module: norm.InstanceNorm, call: Call) -> Form:
    """Affine with the statistics of training, if it kept any; else those of each graph."""
    mean, variance = vector(module.running_mean), vector(module.running_var)
    weight, bias, by_graph = vector(module.weight), vector(module.bias), _by_graph(call)
    if module.track_running_stats and mean is not None and variance is not None:
        return standardise(call.x, mean, variance, module.eps, weight, bias)
    return normalise_graphs(call.bases, call.x, Moments(call.x.width, by_graph, eps=module.eps), weight, bias)


@register_reader(norm.GraphNorm)
def read_graph_norm(module: norm.GraphNorm, call: Call) -> Form:
    """(X - alpha mu) / sigma w + b, by the mean and deviation of each graph."""
    moments = Moments(call.x.width, _by_graph(call), eps=module.eps, part=vector(module.mean_scale))
    return normalise_graphs(call.bases, call.x, moments, vector(module.weight), vector(module.bias))


@register_reader(norm.PairNorm)
def read_pair_norm(module: norm.PairNorm, call: Call) -> Form:
    """scale (X - mu) over the mean length of a graph's nodes, or over the node's own."""
    by_graph, width = _by_graph(call), call.x.width
    if not module.scale_individually:
        moments = Moments(width, by_graph, eps=module.eps, summed=True)
        return float(module.scale) * normalise_graphs(call.bases, call.x, moments)
    centred = normalise_graphs(call.bases, call.x, Moments(width, by_graph, scaled=False))
    return float(module.scale) * call.aggregate(centred, InverseLength(module.eps, beside=True))


@register_reader(norm.MeanSubtractionNorm)
def read_mean_subtraction_norm(module: norm.MeanSubtractionNorm, call: Call) -> Form:
    """X - mu, the mean of each graph."""
    moments = Moments(call.x.width, _by_graph(call), scaled=False)
    return normalise_graphs(call.bases, call.x, moments)


@register_reader(norm.GraphSizeNorm)
def read_graph_size_norm(module: norm.GraphSizeNorm, call: Call) -> Form:
    """X / sqrt(number of nodes)."""
    return call.aggregate(call.x, GraphSize(call.x.node_type))


def _by_graph(call: Call) -> bool:
    """Whether each graph of a batch has statistics of its own."""
    for name in ("batch_size", "dim_size"):
        call.argument(name)
    return call.argument("batch") is not None

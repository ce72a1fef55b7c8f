"""Modules that have no reader, and why: a reason is better than silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn.aggr import MaxAggregation, MeanAggregation, SumAggregation

from .norms import ALL_NODES


def _refuse_edge_conv(conv: Any) -> str:
    reason = "runs a network of its own on every edge, over both ends at once, so its messages are no linear maps of "
    reason += "what is sent"
    if isinstance(conv.aggr_module, MaxAggregation):
        reason += ", and aggregates by maximum, which is no weighted sum of them"
    return reason + "; use GraphConv or GINConv."


def _refuse_pna(conv: Any) -> str:
    aggregations = getattr(conv.aggr_module.aggr, "aggrs", ())
    weighted = all(isinstance(part, (SumAggregation, MeanAggregation)) for part in aggregations)
    if weighted:
        return (
            "runs a network of its own on every edge, over both ends at once, and scales what it aggregates by a "
            "node's degree, for which there is no reader; use SAGEConv."
        )
    return (
        "aggregates by maximum, minimum or deviation among others, which are no weighted sums of messages; use one "
        "by sum or mean, such as SAGEConv."
    )


_edge_features = "its messages depend on edge features, which are not a part of a path of nodes; use a convolution "
_lookup = (
    "looks up a row for each whole number, so that its input is a name and no amount: nothing splits it into shares; "
    "look the rows up before, put them into `x`, and explain the model without this layer."
)

REASONS: dict[type, str | Callable[[Any], str]] = {
    pyg.MFConv: "picks its weights by a node's degree, so the same message means different things in two snapshots; "
    "use GraphConv.",
    pyg.PNAConv: _refuse_pna,
    pyg.EdgeConv: _refuse_edge_conv,
    pyg.GINEConv: _edge_features + "without them, such as GINConv.",
    pyg.NNConv: _edge_features + "without them, such as GraphConv.",
    pyg.CGConv: _edge_features + "without them, such as GATv2Conv.",
    pyg.ResGatedGraphConv: "gates messages feature by feature, a product of features; use GATv2Conv.",
    pyg.GatedGraphConv: "ends in a GRU cell, which multiplies features; use GraphConv.",
    pyg.GPSConv: "attends from every node to all others of the graph beside its convolution, so every node would have "
    "a path to every other; use the convolution alone, or TransformerConv, which attends along edges.",
    pyg.DirGNNConv: "sends messages against the direction of edges too, by a second convolution on edges that it turns "
    "round itself, for which there is no reader; use a plain convolution, and add the reverse of each edge to the data "
    "where messages should run both ways.",
    nn.Embedding: _lookup,
    nn.EmbeddingBag: _lookup,
    pyg.norm.GraphNorm: ALL_NODES,
    pyg.norm.PairNorm: ALL_NODES,
    pyg.norm.MeanSubtractionNorm: ALL_NODES,
    pyg.norm.DiffGroupNorm: "weights features by a softmax of features, a product of the two; train with BatchNorm.",
    pyg.norm.MessageNorm: "scales messages by the length of features, a product of the two; train without it.",
}

"""Modules of PyG that have no reader, and why: a reason is better than silence."""

from __future__ import annotations

from torch_geometric import nn as pyg

from .norms import ALL_NODES

_edge_features = "its messages depend on edge features, which are not a part of a path of nodes; use a convolution "
_extremes = "aggregates by maximum, minimum or deviation, which are no weighted sums of messages; use one "

REASONS: dict[type, str] = {
    pyg.MFConv: "picks its weights by a node's degree, so the same message means different things in two snapshots; "
    "use GraphConv.",
    pyg.PNAConv: _extremes + "by sum or mean, such as SAGEConv.",
    pyg.EdgeConv: _extremes + "by sum or mean, such as GraphConv or GINConv.",
    pyg.GINEConv: _edge_features + "without them, such as GINConv.",
    pyg.NNConv: _edge_features + "without them, such as GraphConv.",
    pyg.CGConv: _edge_features + "without them, such as GATv2Conv.",
    pyg.ResGatedGraphConv: "gates messages feature by feature, a product of features; use GATv2Conv.",
    pyg.GatedGraphConv: "ends in a GRU cell, which multiplies features; use GraphConv.",
    pyg.norm.GraphNorm: ALL_NODES,
    pyg.norm.PairNorm: ALL_NODES,
    pyg.norm.MeanSubtractionNorm: ALL_NODES,
    pyg.norm.DiffGroupNorm: "weights features by a softmax of features, a product of the two; train with BatchNorm.",
    pyg.norm.MessageNorm: "scales messages by the length of features, a product of the two; train without it.",
}

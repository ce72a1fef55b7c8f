"""Modules that have no reader, and why: a reason is better than silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn.aggr import MaxAggregation


def _refuse_edge_conv(conv: Any) -> str:
    reason = "runs a network of its own on every edge, over both ends at once, so its messages are no linear maps of "
    reason += "what is sent"
    if isinstance(conv.aggr_module, MaxAggregation):
        reason += ", and aggregates by maximum, which is no weighted sum of them"
    return reason + "; use GraphConv or GINConv."


_edge_features = "its messages depend on edge features, which are not a part of a path of nodes; use a convolution "
_lookup = (
    "looks up a row for each whole number, so that its input is a name and no amount: nothing splits it into shares; "
    "look the rows up before, put them into `x`, and explain the model without this layer."
)

_types = "tells edges or nodes of several types apart, which paths do not know yet; "
_points = "sends messages that depend on where points lie, not linearly on what is sent; "
_edge_network = "runs a network of its own on every edge, so its messages are no linear maps of what is sent; "
_accelerator = "computes on a GPU alone, where this cannot follow; use "

REASONS: dict[type, str | Callable[[Any], str]] = {
    pyg.EdgeConv: _refuse_edge_conv,
    pyg.NNConv: _edge_features + "without them, such as GraphConv.",
    pyg.CGConv: _edge_features + "without them, such as GATv2Conv.",
    pyg.ResGatedGraphConv: "gates messages feature by feature, a product of features; use GATv2Conv.",
    pyg.DynamicEdgeConv: "makes its own edges out of the features' distances; find the edges before the model.",
    pyg.FiLMConv: _edge_network + "use GATv2Conv.",
    pyg.PDNConv: "weighs edges by a network on their features; put that weight into the data, and use GCNConv.",
    pyg.RGCNConv: _types + "use GraphConv, or a model for each type.",
    pyg.FastRGCNConv: _types + "use GraphConv, or a model for each type.",
    pyg.RGATConv: _types + "use GATConv.",
    pyg.HGTConv: _types + "use TransformerConv on a graph of one type.",
    pyg.HANConv: _types + "use GATConv on a graph of one type.",
    pyg.HEATConv: _types + "use GATConv.",
    pyg.HeteroConv: _types + "use the convolution of one type.",
    pyg.SignedConv: "is given two sets of edges, which paths do not tell apart yet; use SAGEConv.",
    pyg.DNAConv: "attends over a node's earlier layers, a softmax of products of features; use GCN2Conv.",
    pyg.PANConv: "returns its matrix of paths beside the features; use SSGConv or TAGConv.",
    pyg.WLConv: "gives whole numbers as colours, which are names and no amounts; use WLConvContinuous.",
    pyg.PointNetConv: _points + "use GraphConv.",
    pyg.PointTransformerConv: _points + "use TransformerConv.",
    pyg.PointGNNConv: _points + "use GraphConv.",
    pyg.PPFConv: _points + "use GraphConv.",
    pyg.XConv: _points + "use GraphConv.",
    pyg.GMMConv: _points + "use GATConv.",
    pyg.SplineConv: _points + "use GATConv.",
    pyg.GravNetConv: "makes its own edges out of the features' distances, and takes a maximum; find the edges before.",
    pyg.MeshCNNConv: "runs on the edges of a mesh, each of which has four neighbours in an order; use GraphConv.",
    pyg.CuGraphSAGEConv: _accelerator + "SAGEConv, which computes the same.",
    pyg.CuGraphGATConv: _accelerator + "GATConv, which computes the same.",
    pyg.CuGraphRGCNConv: _accelerator + "a convolution of one type.",
    pyg.FusedGATConv: _accelerator + "GATConv, which computes the same.",
    nn.Embedding: _lookup,
    nn.EmbeddingBag: _lookup,
    pyg.norm.DiffGroupNorm: "weights features by a softmax of features, a product of the two; train with BatchNorm.",
    pyg.norm.MessageNorm: "scales messages by the length of features, a product of the two; train without it.",
}

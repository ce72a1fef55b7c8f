"""Modules that have no reader, and why: a reason is better than silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch_geometric import nn as pyg

from .norms import ALL_NODES

_lookup = (
    "looks up a row for each whole number, so that its input is a name and no amount: nothing splits it into shares; "
    "look the rows up before, put them into `x`, and explain the model without this layer."
)

_types = "tells edges or nodes of several types apart, which paths do not know yet; "
_points = "sends messages that depend on where points lie, not linearly on what is sent; "
_accelerator = "computes on a GPU alone, where this cannot follow; use "

REASONS: dict[type, str | Callable[[Any], str]] = {
    pyg.GPSConv: "attends from every node to all others of the graph beside its convolution, so every node would have "
    "a path to every other; use the convolution alone, or TransformerConv, which attends along edges.",
    pyg.DynamicEdgeConv: "makes its own edges out of the features' distances; find the edges before the model.",
    pyg.RGCNConv: _types + "use GraphConv, or a model for each type.",
    pyg.FastRGCNConv: _types + "use GraphConv, or a model for each type.",
    pyg.RGATConv: _types + "use GATConv.",
    pyg.HGTConv: _types + "use TransformerConv on a graph of one type.",
    pyg.HANConv: _types + "use GATConv on a graph of one type.",
    pyg.HEATConv: _types + "use GATConv.",
    pyg.HeteroConv: _types + "use the convolution of one type.",
    pyg.SignedConv: "is given two sets of edges, which paths do not tell apart yet; use SAGEConv.",
    pyg.HypergraphConv: "sends messages over hyperedges, which join any number of nodes; join them by edges, or by "
    "nodes of their own, and use GCNConv.",
    pyg.DNAConv: "attends over a node's earlier layers, a softmax of products of features; use GCN2Conv.",
    pyg.PANConv: "returns its matrix of paths beside the features; use SSGConv or TAGConv.",
    pyg.WLConv: "gives whole numbers as colours, which are names and no amounts; use WLConvContinuous.",
    pyg.PointNetConv: _points + "use GraphConv.",
    pyg.PointTransformerConv: _points + "use TransformerConv.",
    pyg.PointGNNConv: _points + "use GraphConv.",
    pyg.PPFConv: _points + "use GraphConv.",
    pyg.XConv: _points + "use GraphConv.",
    pyg.SplineConv: _points + "use GATConv.",
    pyg.GravNetConv: "makes its own edges out of the features' distances, and takes a maximum; find the edges before.",
    pyg.MeshCNNConv: "runs on the edges of a mesh, each of which has four neighbours in an order; use GraphConv.",
    pyg.CuGraphSAGEConv: _accelerator + "SAGEConv, which computes the same.",
    pyg.CuGraphGATConv: _accelerator + "GATConv, which computes the same.",
    pyg.CuGraphRGCNConv: _accelerator + "a convolution of one type.",
    pyg.FusedGATConv: _accelerator + "GATConv, which computes the same.",
    nn.Embedding: _lookup,
    nn.EmbeddingBag: _lookup,
    pyg.norm.GraphNorm: ALL_NODES,
    pyg.norm.PairNorm: ALL_NODES,
    pyg.norm.MeanSubtractionNorm: ALL_NODES,
    pyg.norm.DiffGroupNorm: "weights features by a softmax of features, a product of the two; train with BatchNorm.",
    pyg.norm.MessageNorm: "scales messages by the length of features, a product of the two; train without it.",
}

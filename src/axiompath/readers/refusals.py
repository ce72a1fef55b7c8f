"""Modules that have no reader, and the reason for each."""

from __future__ import annotations

from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn import models
from torch_geometric.nn.to_hetero_with_bases_transformer import HeteroBasisConv

from .tape import UnreadableModel

_lookup = (
    "looks up a row for each whole number; its input is a name, not an amount, and has no shares; look the rows up "
    "before, put them into `x`, and explain the model without this layer."
)

_own_edges = (
    "makes its own edges from distances, so that another graph gets other edges; compute the edges before, and "
)
_accelerator = "runs only on a GPU, where its operations cannot be recorded; use "

REASONS: dict[type, str] = {
    pyg.DynamicEdgeConv: _own_edges + "use EdgeConv.",
    pyg.GravNetConv: _own_edges + "use GMMConv with the distances as edge features.",
    pyg.XConv: _own_edges + "use PointNetConv.",
    pyg.HEATConv: "maps nodes by their types, which `Data` holds only as a field of whole numbers; use `HeteroData` "
    "with HGTConv or HeteroConv.",
    pyg.SignedConv: "takes two sets of edges, positive and negative; put both into `edge_index`, the sign into "
    "`edge_type`, and use RGCNConv.",
    pyg.DNAConv: "holds the earlier layers of a node in an extra dimension beside its columns; use JumpingKnowledge on "
    "GATConv.",
    pyg.PANConv: "returns its matrix of paths in addition to the features; use SSGConv or TAGConv.",
    pyg.WLConv: "returns colours, which are names, not amounts; use WLConvContinuous.",
    pyg.PPFConv: "measures angles between points, which are not sums, products or maxima of positions; put the angles "
    "into `edge_attr`, and use NNConv or GMMConv.",
    pyg.SplineConv: "weights messages in a package outside PyTorch (torch-spline-conv), which cannot be recorded; use "
    "GMMConv.",
    pyg.MeshCNNConv: "runs on the edges of a mesh, each with four ordered neighbours; use GraphConv.",
    pyg.CuGraphSAGEConv: _accelerator + "SAGEConv, which computes the same.",
    pyg.CuGraphGATConv: _accelerator + "GATConv, which computes the same.",
    pyg.CuGraphRGCNConv: _accelerator + "RGCNConv, which computes the same.",
    pyg.FusedGATConv: _accelerator + "GATConv, which computes the same.",
    nn.EmbeddingBag: _lookup,
    pyg.norm.DiffGroupNorm: "weights features by a softmax of features, a product of the two; train with BatchNorm.",
    pyg.norm.MessageNorm: "scales messages by the length of features, a product of the two; train without it.",
}

_learnt_rows = (
    "answers with a row that it has learnt for each node, and passes no messages; put the rows into `x` of a model "
    "that passes messages."
)
_molecules = (
    "makes its edges, and non-linear messages, from the positions of atoms; use GINEConv with distances as edge "
    "features."
)
_answers = "propagates labels, which are answers, not features; explain the model whose answers it smooths."

# Models that can never be read; refused before they run.
WHOLE_MODELS: dict[type, str] = {
    models.Node2Vec: _learnt_rows,
    models.MetaPath2Vec: _learnt_rows,
    models.RENet: "reads a history of events for each pair, one recurrent step per time; use a model of one graph.",
    models.TGNMemory: "keeps a memory that only new events change; explain the model that reads it, with the "
    "memory as `x`.",
    models.DeepGraphInfomax: "answers for a corrupted graph besides the real one; explain its `encoder`.",
    models.GraphUNet: "selects nodes by the order of their scores, and makes its own edges; use GCN.",
    models.SchNet: _molecules,
    models.DimeNet: _molecules,
    models.DimeNetPlusPlus: _molecules,
    models.ViSNet: _molecules,
    models.GNNFF: _molecules,
    models.GPSE: "starts from random features of every node, so that its answer is random; use GPSConv.",
    models.LabelPropagation: _answers,
    models.CorrectAndSmooth: _answers,
    models.MaskLabel: "looks up labels, which are answers, not features; put them into `x`.",
    models.SGFormer: "lets every node attend to all others through sums over all nodes; use GPSConv.",
    models.LPFormer: "attends from pairs to nodes that it selects by its own matrix; use GAE.",
    models.GroupAddRev: "frees intermediate values while it runs, so that its steps cannot be recorded; use "
    "DeepGCNLayer.",
    models.ARLinkPredictor: "passes no messages: it answers only from features, edge by edge; use GAE.",
}


# Parts of models that a transformation of PyG has made.
TRANSFORMED: dict[type, str] = {
    HeteroBasisConv: "is made by to_hetero_with_bases, which stacks the nodes of all types and gives "
    "each edge weights made of bases; use to_hetero, or RGCNConv with num_bases on data.to_homogeneous().",
}


def refuse_whole(model: nn.Module) -> None:
    """Say what cannot be read of a model that is known by its type, or of one inside it."""
    reasons = WHOLE_MODELS | TRANSFORMED
    for where, module in model.named_modules():
        if type(module) in reasons:
            refusal = UnreadableModel(f"{where or 'forward'} ({type(module).__name__}): {reasons[type(module)]}")
            refusal.where = where
            raise refusal

"""Modules that have no reader, and why: a reason is better than silence."""

from __future__ import annotations

from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn import models
from torch_geometric.nn.to_hetero_with_bases_transformer import HeteroBasisConv

from .tape import UnreadableModel

_lookup = (
    "looks up a row for each whole number, so that its input is a name and no amount: nothing splits it into shares; "
    "look the rows up before, put them into `x`, and explain the model without this layer."
)

_own_edges = (
    "makes its own edges out of distances, which another graph would make otherwise; find the edges before, and "
)
_accelerator = "computes on a GPU alone, where this cannot follow; use "

REASONS: dict[type, str] = {
    pyg.DynamicEdgeConv: _own_edges + "use EdgeConv.",
    pyg.GravNetConv: _own_edges + "use GMMConv with the distances as edge features.",
    pyg.XConv: _own_edges + "use PointNetConv.",
    pyg.HEATConv: "maps nodes by a field of whole numbers, their types, which `Data` does not say to be types; make it "
    "`HeteroData`, and use HGTConv or HeteroConv.",
    pyg.SignedConv: "is given two sets of edges, and a path runs along one; put both into `edge_index`, which is which "
    "into `edge_type`, and use RGCNConv.",
    pyg.DNAConv: "takes the earlier layers of a node as a dimension of their own, beside its columns; use "
    "JumpingKnowledge on GATConv.",
    pyg.PANConv: "returns its matrix of paths beside the features; use SSGConv or TAGConv.",
    pyg.WLConv: "gives whole numbers as colours, which are names and no amounts; use WLConvContinuous.",
    pyg.PPFConv: "measures angles between points, no sums, products or maxima of where they lie; put the angles into "
    "`edge_attr`, and use NNConv or GMMConv.",
    pyg.SplineConv: "weighs messages by a package outside of PyTorch (torch-spline-conv), where this cannot follow; "
    "use GMMConv.",
    pyg.MeshCNNConv: "runs on the edges of a mesh, each of which has four neighbours in an order; use GraphConv.",
    pyg.CuGraphSAGEConv: _accelerator + "SAGEConv, which computes the same.",
    pyg.CuGraphGATConv: _accelerator + "GATConv, which computes the same.",
    pyg.CuGraphRGCNConv: _accelerator + "RGCNConv, which computes the same.",
    pyg.FusedGATConv: _accelerator + "GATConv, which computes the same.",
    nn.EmbeddingBag: _lookup,
    pyg.norm.DiffGroupNorm: "weights features by a softmax of features, a product of the two; train with BatchNorm.",
    pyg.norm.MessageNorm: "scales messages by the length of features, a product of the two; train without it.",
}

_rows_of_nodes = (
    "has a row of its own for every node, which a graph of other nodes has not; put these rows into `x`, and use "
)
_learnt_rows = (
    "answers with a row that it has learnt for each node, and passes no messages; put the rows into `x` of a model "
    "that does."
)
_molecules = (
    "makes its edges, and messages that are not linear in what is sent, out of where atoms lie; use GINEConv with "
    "distances as edge features."
)
_all_nodes = "attends from every node to all others by a product of sums over all nodes; use GPSConv."
_answers = "passes on labels, which are answers and no features; explain the model whose answers it smooths."

# Models that cannot be read whatever they are given: said before they are run.
WHOLE_MODELS: dict[type, str] = {
    models.Node2Vec: _learnt_rows,
    models.MetaPath2Vec: _learnt_rows,
    models.LINKX: _rows_of_nodes + "a convolution on the edges.",
    models.LightGCN: _rows_of_nodes + "LGConv on them.",
    models.RENet: "reads a history of events for each pair, one recurrent step a time; use a model of one graph.",
    models.TGNMemory: "keeps a memory of events that only they themselves change; explain the model that reads it, "
    "with the memory as `x`.",
    models.DeepGraphInfomax: "answers for a corrupted graph beside the true one; explain its `encoder`.",
    models.GraphUNet: "keeps some nodes by the order of their scores, and makes edges of its own; use GCN.",
    models.SignedGCN: "is given two sets of edges, and a path runs along one; put both into `edge_index`, which is "
    "which into `edge_type`, and use RGCNConv.",
    models.SchNet: _molecules,
    models.DimeNet: _molecules,
    models.DimeNetPlusPlus: _molecules,
    models.ViSNet: _molecules,
    models.GNNFF: _molecules,
    models.GPSE: "starts from random features of every node, so that its answer is random; use GPSConv.",
    models.AttentiveFP: "attends from a whole graph to its nodes again and again, after they were read out; use "
    "GATConv and global_add_pool.",
    models.LabelPropagation: _answers,
    models.CorrectAndSmooth: _answers,
    models.MetaLayer: "calls models of your own on both ends of every edge and on whole graphs; write it as a "
    "MessagePassing module, and register a reader.",
    models.MaskLabel: "looks labels up, which are answers and no features; put them into `x`.",
    models.SGFormer: _all_nodes,
    models.Polynormer: _all_nodes,
    models.LPFormer: "attends from pairs to nodes that it picks by a matrix of its own; use GAE.",
    models.GroupAddRev: "frees what it has computed while it runs, so that its steps cannot be watched; use "
    "DeepGCNLayer.",
    models.NeuralFingerprint: "adds up softmaxes of every layer, which are no weighted sums; use MFConv and "
    "global_add_pool.",
    models.ARLinkPredictor: "passes no messages: it answers from features alone, edge by edge; use GAE.",
}


# Parts of models that a transformation of PyG has made.
TRANSFORMED: dict[type, str] = {
    HeteroBasisConv: "is made by to_hetero_with_bases, which puts the nodes of all types below one another and gives "
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

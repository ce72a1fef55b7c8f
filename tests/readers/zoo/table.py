"""The zoo as a table: each model, how it is made and called, which graphs it gets, and what is expected of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.nn import models

from support.convolutions import randomise

from . import adjacency, attending, passing, reading_out, recurring, refusing, relating, scattering, ways
from .adjacency import dense, row_normalised
from .evolutions import evolve
from .judge import judge

READ, REFUSE, EITHER = "read", "refuse", "read rightly or refuse"


@dataclass(frozen=True)
class Row:
    """One model of the zoo."""

    name: str
    make: Callable[[], Any]
    fields: tuple[str, ...] = ()  # of Data beside x and edge_index
    build: Callable[[Data], Data] | None = None  # the Data that it is given, where it is not made of fields
    call: Callable[[Any, Data], Any] | None = None
    expected: str = READ
    reason: str = ""  # why it is refused, or may be
    end: str = ""  # the last operation, where it is a softmax, log_softmax or sigmoid
    options: dict[str, Any] = field(default_factory=dict)  # of the Explainer
    nodes: bool = True  # whether nodes may be added
    truth: Callable[[Any], Any] = lambda model: model  # which model the plain calls are made of
    blame: bool = True  # whether changes of the graph are the changes of what the model is given

    def model(self):
        """The model with random weights, biases and statistics."""
        torch.manual_seed(0)
        return randomise(self.make(), seed=1 + sum(map(ord, self.name)))

    def data(self, full):
        """What it is given of an evolution's graph."""
        if self.build is not None:
            return self.build(full)
        kept = ("x", "edge_index", *self.fields, *(["n_id"] if "n_id" in full else []))
        return Data(**{name: full[name] for name in kept})

    def judge(self, seed):
        """A verdict on one random evolution."""
        weighted = bool({"edge_weight", "edge_attr"} & set(self.fields)) or self.build is not None
        both = "edge_index2" in self.fields
        evolution = evolve(seed, reweight=weighted, nodes=self.nodes, both_sets=both)
        return judge(
            self.model(),
            evolution,
            self.data,
            truth=self.truth(self.model()),
            call=self.call,
            end=self.end,
            blame=self.blame,
            **self.options,
        )


def with_matrix(make, layout=torch.strided):
    """Data with a matrix as a field, and no edge_index."""

    def build(full):
        matrix = make(full)
        if layout == torch.sparse_coo:
            matrix = matrix.to_sparse().coalesce()
        elif layout == torch.sparse_csr:
            matrix = matrix.to_sparse_csr()
        data = Data(x=full.x, adj=matrix)
        if "n_id" in full:
            data.n_id = full.n_id
        return data

    return build


DENSE = with_matrix(dense)
NORMALISED = with_matrix(row_normalised)
COO = with_matrix(row_normalised, torch.sparse_coo)
CSR = with_matrix(row_normalised, torch.sparse_csr)
WEIGHTED, ATTR, TYPE, BATCH = ("edge_weight",), ("edge_attr",), ("edge_type",), ("batch",)
LINKS = ("edge_label_index",)
SCORE = {"output": "value", "scales": [1.0]}


def on_matrix(make=dense):
    """The matrix is built inside the call, of edges and weights."""
    return {"fields": WEIGHTED, "call": lambda model, data: model(data.x, make(data))}


def on_sparse_and_pairs(model, data):
    """As recommenders are called: a symmetric sparse matrix, and pairs of rows."""
    matrix = dense(data)
    matrix = matrix + matrix.t()
    root = matrix.sum(dim=1).clamp(min=1e-9).rsqrt()
    sparse = (root[:, None] * matrix * root[None, :]).to_sparse().coalesce()
    return model(data.x, sparse, data.edge_label_index)


RECOMMENDER = {
    "fields": (*WEIGHTED, *LINKS), "call": on_sparse_and_pairs, "options": SCORE, "nodes": False,
}  # fmt: skip
ON_FIELD = {"call": lambda model, data: model(data.x, data.adj)}
LINK = {"fields": LINKS, "options": SCORE}
GRAPH = {"fields": BATCH}


def stacked(layer, *arguments):
    """Two layers with an activation between."""
    return lambda: passing.Stacked(layer, *arguments)


def rank_pairs(model, data):
    """The score of each pair."""
    return model(data.edge_index, data.edge_label_index)


def on_both_sets(model, data):
    """Edges of two kinds."""
    return model(data.x, data.edge_index, data.edge_index2)


def on_batch(model, data):
    """Nodes of several graphs."""
    return model(data.x, data.edge_index, data.batch)


ROWS = [
    # Layers on PyG's MessagePassing
    Row("tutorial GCN layer", passing.TutorialGCN, end="log_softmax"),
    Row("tutorial edge layer, max", stacked(passing.EdgeLayer, "max")),
    Row("tutorial edge layer, add", stacked(passing.EdgeLayer, "add")),
    Row("tutorial edge layer, min", stacked(passing.EdgeLayer, "min")),
    Row("mean layer with update", stacked(passing.MeanLayer)),
    Row("sum layer with epsilon", stacked(passing.SumLayer)),
    Row("weights, target to source", passing.WeightedBackwards, WEIGHTED),
    Row("OGB bond layer", passing.Bonds, ATTR),
    Row("a matrix for each edge", passing.EdgeMatrices, ATTR),
    Row("attention layer with heads", stacked(passing.AttentionLayer, 2)),
    Row("attention by edge_updater", stacked(passing.EdgeUpdateLayer)),
    Row("GRU as update", passing.GruUpdates),
    Row("gate of both ends", stacked(passing.GatedLayer)),
    Row("several aggregations", stacked(passing.SeveralAggregations)),
    Row("hops side by side", passing.HopsSideBySide),
    Row("message_and_aggregate", stacked(passing.FusedLayer)),
    Row("maps of senders and receivers, max", stacked(passing.SenderAndReceiverMaps)),
    # Adjacency matrices
    Row("pygcn, sparse field", adjacency.Pygcn, build=COO, end="log_softmax", **ON_FIELD, blame=False),
    Row("pygcn, dense field", adjacency.Pygcn, build=NORMALISED, end="log_softmax", **ON_FIELD, blame=False),
    Row("pygcn, sparse inside", adjacency.SparseInside, end="log_softmax"),
    Row("pygcn, matrix in the call", adjacency.Pygcn, **on_matrix(row_normalised), end="log_softmax"),
    Row("product with a CSR field", adjacency.CsrProduct, build=CSR, **ON_FIELD, blame=False),
    Row("dense field, normalises itself", adjacency.NormalisesItself, build=DENSE, **ON_FIELD),
    Row("normalises itself, matrix in the call", adjacency.NormalisesItself, **on_matrix()),
    Row("dense matrix filled from edges", adjacency.FilledFromEdges),
    Row("einsum, dense field", adjacency.Einsum, build=DENSE, **ON_FIELD),
    Row("einsum, matrix in the call", adjacency.Einsum, **on_matrix()),
    Row("batch of one dense graph", adjacency.BatchOfOne, WEIGHTED, call=lambda m, d: m(d.x[None], dense(d)[None])[0]),
    Row("1x1 convolutions, columns are nodes", adjacency.TransposedLayout),
    Row("ST-GCN block", adjacency.SkeletonGraph, **on_matrix()),
    Row("Chebyshev polynomials", adjacency.Chebyshev, **on_matrix()),
    Row("diffusion both ways", adjacency.Diffusion, **on_matrix()),
    Row("adaptive adjacency", adjacency.AdaptiveAdjacency, **on_matrix(), nodes=False),
    Row("initial residual on a matrix", adjacency.InitialResidual, **on_matrix(row_normalised)),
    Row("personalised propagation", adjacency.PersonalisedPropagation, **on_matrix(row_normalised), end="log_softmax"),
    Row("two-hop neighbours apart", adjacency.TwoHopNeighbours),
    Row("three experts and a gate", adjacency.ThreeExperts, **on_matrix()),
    Row("addmm and sparse.addmm", adjacency.FusedAffine, WEIGHTED, call=lambda m, d: m(d.x, dense(d).to_sparse())),
    Row("relations in one einsum", adjacency.StackedRelations, TYPE),
    Row("rows of the matrix", adjacency.RowsOfTheMatrix, nodes=False),
    Row("DiffPool", adjacency.PooledTwice),
    # Gathering and scattering
    Row("GraphSAGE by index_add", scattering.SageByHand),
    Row("scaled on both sides", scattering.ScaledOnBothSides),
    Row("DGL style", scattering.DglStyle),
    Row("index_select and scatter_add", scattering.EdgeFeaturesSelected, ATTR),
    Row("largest and least neighbour", scattering.LargestNeighbour),
    Row("scatter_reduce mean", scattering.ScatterMeanReduce),
    Row("degree scalers", scattering.DegreeScalers),
    Row("index_put and a mask", scattering.IndexPut),
    Row("loop over nodes", scattering.LoopOverNodes),
    Row("loop over edges", scattering.LoopOverEdges),
    Row("padded neighbour lists", scattering.PaddedNeighbours),
    Row("messages on bonds", scattering.BondMessages, ATTR),
    Row("equivariant layers", scattering.Equivariant, ("pos",)),
    Row("segment_reduce", scattering.SortedSegments, expected=EITHER, reason="a kernel that is one operation"),
    Row("normalised gates on edges", scattering.NormalisedGates, ATTR),
    Row("graph network block", scattering.GraphNetworkBlock, ATTR),
    Row("signed weights", scattering.SignedWeights, WEIGHTED),
    Row("columns in place", scattering.ColumnsInPlace),
    Row("sizes in arithmetic", scattering.SizesInArithmetic),
    Row("chooses by degree", scattering.ChoosesByDegree),
    Row("decides on sizes", scattering.DecidesOnSizes),
    Row("pre-norm residual", scattering.PreNormResidual),
    Row("pair norm by hand", scattering.PairNormByHand),
    Row("jumping knowledge by hand", scattering.JumpsByHand),
    Row("standardised rows", scattering.StandardisedRows),
    Row("swish by hand", scattering.SwishByHand),
    Row("rows of even and odd number", scattering.ParityOfNodes, nodes=False),
    # Attention
    Row("GAT by hand", attending.GatByHand, end="log_softmax"),
    Row("pyGAT, dense", attending.PyGat, **on_matrix(row_normalised), end="log_softmax"),
    Row("pyGAT, dense field", attending.PyGat, build=NORMALISED, end="log_softmax", **ON_FIELD, blame=False),
    Row("GATv2 by hand", attending.DynamicAttention),
    Row("edge transformer", attending.EdgeTransformer, ATTR),
    Row("MultiheadAttention with a mask", attending.MaskedTransformer),
    Row("scaled dot product with a mask", attending.ScaledDotProduct, **on_matrix()),
    Row("biased attention to all", attending.BiasedAttention, **on_matrix()),
    Row("cosine attention", attending.CosineAttention),
    Row("attention over hops", attending.AttentionOverHops, **on_matrix(row_normalised)),
    Row("learnt hop weights", attending.LearntHopWeights, **on_matrix(row_normalised)),
    Row("softmax of weights", attending.SoftmaxOfWeights, WEIGHTED),
    # Gates
    Row("GRU cell after aggregation", recurring.GruAfterAggregation),
    Row("GRU written out", recurring.GruWrittenOut),
    Row("GGNN propagator", recurring.GatedPropagator, **on_matrix()),
    Row("LSTM cell", recurring.LstmCell),
    Row(
        "two snapshots in turn", recurring.TwoSnapshots, ("edge_index2",),
        call=lambda m, d: m(d.x, [d.edge_index, d.edge_index2]),
    ),
    Row("GGNN with types of edges", recurring.PaddedTypedGates, (*TYPE, *BATCH)),
    Row("highway", recurring.Highway, **on_matrix(row_normalised)),
    Row("T-GCN cell", recurring.GraphGru, **on_matrix(row_normalised)),
    Row("feature modulation", recurring.FeatureModulation),
    Row("gated linear unit", recurring.GatedLinearUnit, **on_matrix(row_normalised)),
    Row("squeeze and excite", recurring.SqueezeAndExcite),
    # Relations
    Row("loop over relations", relating.RelationLoop, TYPE),
    Row("masked messages", relating.MaskedMessages, TYPE),
    Row("basis decomposition", relating.BasisDecomposition, TYPE),
    Row("composed relations", relating.ComposedRelations, TYPE),
    Row("looked up by relation and sender", relating.LookedUpByRelation, TYPE),
    Row("relations side by side", relating.SideBySideRelations, TYPE),
    Row("relations mixed by thresholds", relating.ThresholdedRelations, TYPE),
    Row("near and far", relating.NearAndFar, ("edge_index2",)),
    Row("friends and enemies", relating.BalanceTheory, ("edge_index2",)),
    Row("types of nodes by hand", relating.TypesOfNodes, ("node_type",), nodes=False),
    Row("semantic attention", relating.SemanticAttention, TYPE),
    Row("relation as a column", relating.RelationAsColumn, ("edge_attr", "edge_type")),
    # Graphs and links
    Row("mean pool", reading_out.MeanPool, **GRAPH),
    Row("pooled by hand", reading_out.PooledByHand, **GRAPH),
    Row("one graph", reading_out.OneGraph),
    Row("attention readout", reading_out.AttentionReadout, **GRAPH),
    Row("every layer read", reading_out.EveryLayerRead, **GRAPH),
    Row("readout given back", reading_out.ReadoutGivenBack, **GRAPH),
    Row("virtual embedding", reading_out.VirtualEmbedding, **GRAPH),
    Row("virtual row", reading_out.VirtualRow),
    Row("soft pooling", reading_out.SoftPool, **on_matrix(row_normalised)),
    Row("dot decoder", reading_out.DotDecoder, **LINK),
    Row("bilinear decoder", reading_out.BilinearDecoder, **LINK),
    Row("MLP decoder", reading_out.MlpDecoder, LINKS, end="sigmoid", options={"output": "binary"}),
    Row("decoder of all pairs", reading_out.WholeMatrixDecoder, **LINK),
    Row("cosine decoder", reading_out.CosineDecoder, **LINK),
    Row("distance decoder", reading_out.DistanceDecoder, **LINK),
    Row("LightGCN on features", reading_out.LightRecommender, **RECOMMENDER),
    Row("LightGCN on embeddings", reading_out.EmbeddingRecommender, **RECOMMENDER),
    Row("NGCF", reading_out.CollaborativeFilter, **RECOMMENDER),
    # Models of PyG
    Row("PyG's LightGCN", lambda: models.LightGCN(9, 4, 2), call=rank_pairs, **LINK, nodes=False),
    Row("PyG's LINKX", lambda: models.LINKX(9, 4, 5, 3, 1), nodes=False),
    Row("PyG's SignedGCN", lambda: models.SignedGCN(4, 6, 2), ("edge_index2",), call=on_both_sets),
    Row("PyG's AttentiveFP", lambda: models.AttentiveFP(4, 5, 3, 3, 2, 2), (*ATTR, *BATCH)),
    Row("PyG's Polynormer", lambda: models.Polynormer(4, 6, 3), BATCH, end="log_softmax"),
    Row("PyG's NeuralFingerprint", lambda: models.NeuralFingerprint(4, 6, 3, 2), BATCH, call=on_batch),
    Row("PyG's GraphNorm, without a batch", reading_out.GraphNormed),
    Row("PyG's MetaLayer", reading_out.MessagesAndGlobals, (*ATTR, *BATCH)),
    # Ways of writing
    Row("forward(data)", ways.TakesData, call=lambda m, d: m(d), end="log_softmax"),
    Row("Lightning", ways.LightningLike, call=lambda m, d: m(d)),
    Row("calls TorchScript", ways.CallsScript),
    Row("scripted as a whole", lambda: torch.jit.script(ways.Plain())),
    Row("torch.compile", ways.Compiled),
    Row("PyG Sequential", ways.sequential),
    Row("autograd function", ways.OwnFunction),
    Row("answers with a dict", ways.AnswersWithMore, call=lambda m, d: m(d.x, d.edge_index)["logits"]),
    Row("checkpointed", ways.Checkpointed),
    Row("weight norm", ways.Parametrised),
    Row("coalesces by itself", ways.CoalescesItself),
    Row("structure by scipy", ways.StructureByScipy),
    Row("a learnt row added", ways.AddedEmbedding, nodes=False),
    Row("positional encoding", ways.PositionalEncoding),
    Row("double inside", ways.MixedPrecision),
    # To be refused
    Row("best scores", refusing.BestScores, expected=REFUSE, reason="nodes are chosen by the order of features"),
    Row("pooled by score", refusing.PooledByScore, BATCH, expected=REFUSE, reason="top-k of features"),
    Row("sorted nodes", refusing.SortedNodes, expected=REFUSE, reason="nodes are sorted by features"),
    Row("dropout left on", refusing.DropoutLeftOn, expected=REFUSE, reason="random at evaluation"),
    Row("random columns", refusing.RandomColumns, expected=REFUSE, reason="random at evaluation"),
    Row("sampled neighbours", refusing.SampledNeighbours, expected=REFUSE, reason="random at evaluation"),
    Row("Gumbel edges", refusing.GumbelEdges, expected=REFUSE, reason="random at evaluation"),
    Row("numpy of features", refusing.NumpyOfFeatures, expected=REFUSE, reason="features leave torch"),
    Row("Python numbers", refusing.PythonNumbers, expected=REFUSE, reason="features leave torch"),
    Row("branch on features", refusing.BranchOnFeatures, expected=REFUSE, reason="Python decides on features"),
    Row("stops when settled", refusing.StopsWhenSettled, expected=REFUSE, reason="Python decides on features"),
    Row("nearest neighbours", refusing.NearestNeighbours, expected=REFUSE, reason="edges made of features"),
    Row("similarity graph", refusing.SimilarityGraph, expected=EITHER, reason="edges made of features by a threshold"),
    Row("hardest neighbour", refusing.HardestNeighbour, expected=REFUSE, reason="argmax of features picks rows"),
    Row("median neighbour", refusing.MedianNeighbour, expected=REFUSE, reason="a median is no sum, product or maximum"),
    Row("LSTM of neighbours", refusing.LstmOfNeighbours, expected=EITHER, reason="as many steps as there are edges"),
    Row(
        "PyG's stale cache", lambda: refusing.used_before(refusing.CachedConv), nodes=False, expected=EITHER,
        reason="a tensor of an earlier call", truth=refusing.without_cache,
    ),
    Row(
        "stale cache", lambda: refusing.used_before(refusing.OwnCache), nodes=False, expected=REFUSE,
        reason="a tensor of an earlier call",
    ),
    Row("keeps state", refusing.KeepsState, expected=EITHER, reason="a buffer that a call changes"),
    Row("counts calls", refusing.CountsCalls, expected=EITHER, reason="a number that a call changes"),
    Row("own adjacency", refusing.OwnAdjacency, nodes=False, expected=EITHER, reason="a tensor from outside"),
    Row("closed over", refusing.ClosedOver, expected=EITHER, reason="a tensor from outside"),
    Row("batch statistics", refusing.BatchStatistics, expected=EITHER, reason="statistics of the whole graph"),
    Row("linear attention", refusing.LinearAttention, expected=EITHER, reason="products over all nodes"),
    Row("coded features", refusing.CodedFeatures, expected=EITHER, reason="a table looked up by features"),
    Row("hard gate", refusing.HardGate, expected=EITHER, reason="where on a comparison of features"),
    Row("rounded features", refusing.RoundedFeatures, expected=EITHER, reason="a step function of features"),
    Row("attention dropped", refusing.AttentionDropped, expected=EITHER, reason="a threshold on attention"),
]  # fmt: skip
BY_NAME = {row.name: row for row in ROWS}

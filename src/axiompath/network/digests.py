"""Network, graph -> digest: what the records made from them say they are of."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray
from ..graphs.adjacency import Incoming
from ..graphs.data_fields import parts_of
from ..graphs.edge_values import edge_values
from ..graphs.snapshot import Snapshot, in_double
from ..outputs import CLASSES
from ..storage.origin import digest_of
from .activations import Activation, Product
from .layers import Network

# Where an activation is looked at: its formula is code, its values are what decides.
PROBES = np.array([-30.0, -3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 3.0, 30.0])


def digest_network(network: Network) -> str:
    """Of weights, biases, activations and the rules of the coefficients; not of names."""
    layers = [
        (
            [(channel.coefficients, channel.weight, channel.inputs, channel.outputs) for channel in layer.channels],
            layer.bias,
            [(block.outputs, _probe(block.activation)) for block in layer.blocks],
        )
        for layer in network.layers
    ]
    # Records of models of classes, which there were first, keep their digests.
    meaning = () if network.output == CLASSES else (network.output, network.scales)
    return digest_of("model", network.num_features, layers, *meaning)


def digest_graph(graph: Snapshot) -> str:
    """Of nodes, features, edges, their weights and features; nodes are called by their ranks among their numbers."""
    if isinstance(graph.edges, Incoming):  # on disk: a digest of the files
        parts = parts_of(graph.x)
        held = parts[0] if len(parts) == 1 else parts
        return digest_of("graph", graph.num_nodes, graph.edges.indptr, graph.edges.senders, graph.edge_weight, held)
    order = np.flatnonzero(graph.present)
    order = order[np.argsort(graph.node_ids[order], kind="stable")]
    x, (senders, receivers) = in_double(graph.x), graph.edge_index
    if not np.array_equal(order, np.arange(graph.num_nodes)):
        rank = np.zeros(graph.num_nodes, dtype=np.int64)
        rank[order] = np.arange(len(order))
        x, senders, receivers = x[order], rank[senders], rank[receivers]
    keys = senders * len(order) + receivers
    members = () if graph.graphs is None else (graph.graphs[order],)
    types: tuple[Any, ...] = ()
    if graph.edge_types is not None:
        names = None if graph.schema is None else (graph.schema.node_types, graph.schema.relations)
        num_types = 1 + int(graph.edge_types.max(initial=0))
        keys, types = keys * num_types + graph.edge_types, ("types", num_types, names)
    if graph.edge_attr is None:
        edges: tuple[Any, ...] = _sorted_edges(keys, graph.edge_weight)
    else:
        values = edge_values(graph)
        by_value = np.lexsort((*values.T[::-1], keys))
        edges = keys[by_value], values[by_value]
    return digest_of("graph", graph.node_ids[order], x, *edges, *members, *types)


def _sorted_edges(keys: IntArray, weights: FloatArray | None) -> tuple[IntArray, FloatArray | None]:
    """Edges in ascending order; parallel ones, of which there are few, by their weights."""
    if weights is None:
        return np.sort(keys), None
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order]
    tied = np.zeros(len(keys), dtype=np.bool_)
    tied[1:] = keys[1:] == keys[:-1]
    tied[:-1] |= tied[1:]
    weights[tied] = weights[tied][np.lexsort((weights[tied], keys[tied]))]
    return keys, weights


def _probe(activation: Activation | None) -> Any:
    if isinstance(activation, Product):
        return "product", activation.num_factors
    return None if activation is None else (activation.constant, np.asarray(activation.value(PROBES[:, None])))

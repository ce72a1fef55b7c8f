"""Network, graph -> digest: what the records made from them say they are of."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graphs.snapshot import Snapshot
from ..graphs.stored import StoredGraph
from ..origin import digest_of
from .activations import Activation
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
    return digest_of("model", network.num_features, layers)


def digest_graph(graph: Snapshot | StoredGraph) -> str:
    """Of nodes, features, edges and weights."""
    if isinstance(graph, StoredGraph):
        x = graph.x if isinstance(graph.x, np.ndarray) else (graph.x.data, graph.x.indices, graph.x.indptr)
        return digest_of("graph", graph.num_nodes, graph.indptr, graph.senders, graph.weights, x)
    ids, x = graph.node_ids, graph.x
    order = np.flatnonzero(graph.present)
    order = order[np.argsort(ids[order], kind="stable")]
    if not np.array_equal(order, np.arange(len(ids))):
        x = x[order]
    return digest_of("graph", ids[order], x, ids[graph.edge_index], graph.edge_weight)


def _probe(activation: Activation | None) -> Any:
    return None if activation is None else (activation.constant, np.asarray(activation.value(PROBES[:, None])))

"""What a record is of: the release that wrote it, and digests of the model and the graphs (or arrays) it was made from.

A digest is BLAKE2b over the arrays, with their types and shapes: equal digests mean equal numbers. That of a graph does
not depend on the order in which its nodes and edges are listed, nor on the graph that it is compared with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .activations import Activation, FloatArray, IntArray
from .network import Network
from .snapshot import Features, Snapshot
from .stored import CHUNK, StoredGraph, release

RELEASE = "0.2.0"  # the one place where it is written; pyproject.toml reads it here

# Where an activation is looked at: its formula is code, its values are what decides.
PROBES = np.array([-30.0, -3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 3.0, 30.0])


@dataclass(frozen=True)
class Origin:
    """What a record is of."""

    release: str  # of axiompath
    digests: Mapping[str, str]  # what of -> digest: "model", "before", "after", ...
    seed: int | None = None  # None where nothing is drawn

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {"release": self.release, "digests": dict(self.digests), "seed": self.seed}

    @classmethod
    def from_dict(cls, values: Any) -> Origin:
        """The same again, checked."""
        try:
            digests = {str(name): str(digest) for name, digest in values["digests"].items()}
            seed = None if values["seed"] is None else int(values["seed"])
            return cls(str(values["release"]), digests, seed)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                "Expected an origin with a release, digests and a seed (got something else); "
                "use the release of axiompath that wrote it, or save it again."
            ) from error


def digest_of(*values: Any) -> str:
    """One digest of arrays and plain values, in order."""
    found = hashlib.blake2b(digest_size=16)
    for value in values:
        _update(found, value)
    return found.hexdigest()


def digest_network(network: Network) -> str:
    """Of weights, biases, activations and the rules of the coefficients; not of names."""
    layers = [
        (
            [(channel.coefficients, channel.weight, channel.inputs, channel.outputs) for channel in layer.channels],
            layer.bias,
            [(block.outputs, block.activation) for block in layer.blocks],
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
    rank = np.zeros(len(ids), dtype=np.int64)
    rank[order] = np.arange(len(order))
    if not np.array_equal(order, np.arange(len(ids))):
        x = x[order]
    keys = rank[graph.edge_index[0]] * len(order) + rank[graph.edge_index[1]]
    return digest_of("graph", ids[order], x, *_sorted_edges(keys, graph.edge_weight))


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


def _update(found: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        found.update(f"array {value.dtype.str}{value.shape}".encode())
        flat = value.reshape(-1)
        for start in range(0, len(flat), CHUNK):  # a mapped file may be larger than memory
            found.update(np.ascontiguousarray(flat[start : start + CHUNK]).data)
            release(value)
        return
    found.update(f"{type(value).__name__} ".encode())
    if isinstance(value, Activation):
        _update(found, np.asarray(value.constant))
        _update(found, np.asarray(value.value(PROBES[:, None])))
    elif sparse.issparse(value):
        _update(found, _parts(value))
    elif isinstance(value, (list, tuple)):
        found.update(f"{len(value)}".encode())
        for part in value:
            _update(found, part)
    elif isinstance(value, Mapping):
        _update(found, sorted(value.items()))
    elif is_dataclass(value):
        _update(found, [(item.name, getattr(value, item.name)) for item in fields(value)])
    elif value is None or isinstance(value, (bool, int, float, str, slice, np.generic)):
        found.update(repr(value).encode())
    else:  # a rule of the user's own
        _update(found, {name: part for name, part in vars(value).items() if not callable(part)})


def _parts(x: Features) -> tuple[Any, ...]:
    rows = sparse.csr_array(x)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows.shape, rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)

"""A rule that is known only by its `matrix` + variants of places -> what each of them takes of those that send to it.

The row of a rule of reach 0 depends on the edges into a node, and on the inputs of the node and its senders. So each
variant has a node of its own in one small graph, with the edges into it, from the variants of its senders that the same
subset makes; rows of variants are rows of the rule's matrix there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from ..graphs.values import types_of
from ..network.coefficients import SOURCE_TO_TARGET, Rule
from .receptive_field import ConditionedGraph
from .variant_rows import IncomingEdges, Seen, VariantRows


class Stars(NamedTuple):
    """Variants of places as the first nodes of a graph, and behind them the variants of their senders."""

    snapshot: Snapshot
    rows: IntArray  # [num_variants]: of the layer
    below: IntArray  # [num_nodes]: row of the layer below whose inputs each node has
    inputs: Features  # [num_nodes, width]

    def add(self, rule: Rule, projected: FloatArray, z: FloatArray) -> None:
        """z[V] += sum over U of a[V, U] * projected[U]."""
        matrix = rule.matrix(self.snapshot, self.inputs)
        z[self.rows] += matrix[: len(self.rows)] @ projected[self.below]


def can_star(rule: Rule) -> bool:
    """Whether its rows can be found so."""
    return rule.reach == 0 and not (rule.rises or rule.of_edges or rule.recorded)


def lay_stars(
    field: ConditionedGraph,
    edges: IncomingEdges,
    flow: str,
    hold: BoolArray,
    wanted: VariantRows,
    below: Seen,
    h: Features,
) -> Stars:
    """These edges run the way that messages do; `flow` says which way that is."""
    listed = wanted.list_rows()
    at, edge = edges.list_edges(hold, listed)
    senders, size = edges.senders[edge], len(listed.row)
    used, first, place = np.unique(below.rows_of(senders, listed.subset[at]), return_index=True, return_inverse=True)
    ends = np.where(senders == listed.node[at], at, size + place.reshape(-1)), at  # a loop stays one
    node, number = np.concatenate([listed.node, senders[first]]), edges.number[edge]
    types = types_of(field.weights[number])
    snapshot = Snapshot(
        np.zeros((len(node), 0)),
        np.stack(ends if flow == SOURCE_TO_TARGET else ends[::-1]),
        field.edge_weights[number] if field.weighted else None,
        np.arange(len(node)),
        np.ones(len(node), dtype=np.bool_),
        edge_types=types,
        node_types=None if field.node_types is None else field.node_types[node],
    )
    rows = np.concatenate([below.rows_of(listed.node, listed.subset), used])
    return Stars(snapshot, listed.row, rows, h[rows])

"""Snapshot -> coefficients of a hypergraph, whose edge_index says which node is in which hyperedge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import ANYWHERE, Rule


@dataclass(frozen=True)
class Incidence(Rule):
    """a[V, U] = the sum over hyperedges e with both of  1 / (hyperedges of V) / (nodes of e): D^-1 H B^-1 H'."""

    flow: str = ANYWHERE

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """A node that is in a hyperedge takes from itself, too."""
        nodes, hyperedges = snapshot.edge_index
        shape = (snapshot.num_nodes, int(hyperedges.max(initial=-1)) + 1)
        held = sparse.csr_array((np.ones(len(nodes)), (nodes, hyperedges)), shape=shape)
        held.sum_duplicates()
        of_nodes, of_hyperedges = (np.maximum(np.asarray(held.sum(axis=axis)), 1.0) for axis in (1, 0))
        taken = held.copy()
        taken.data = taken.data / of_nodes[np.repeat(np.arange(shape[0]), np.diff(taken.indptr))]
        given = held.copy()
        given.data = given.data / of_hyperedges[given.indices]
        matrix = sparse.csr_array(taken @ given.T)
        matrix.sort_indices()
        return matrix

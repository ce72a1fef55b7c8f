"""Snapshot -> how much a graph, or a pair of nodes, takes of each node: the step from nodes to what is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..arrays import IntArray
from ..graphs.data_fields import Features
from ..graphs.places import GRAPHS, Places
from ..graphs.snapshot import Snapshot
from .coefficients import Rule


class Readout(Rule):
    """A rule whose rows are the places of a snapshot, and its columns the nodes."""

    rises: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False


@dataclass(frozen=True)
class Pooled(Readout):
    """a[G, U] = 1, or 1 over the number of nodes of G, for the nodes U of the graph G."""

    mean: bool = False

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Nodes that are not present belong to no graph."""
        places = places_of(snapshot)
        members = np.flatnonzero(places.nodes >= 0)
        graphs = places.nodes[members]
        size = np.bincount(graphs, minlength=len(places.present))
        values = 1.0 / size[graphs] if self.mean else np.ones(len(members))
        return sparse.csr_array((values, (graphs, members)), shape=(len(places.present), snapshot.num_nodes))


@dataclass(frozen=True)
class End(Readout):
    """a[(U, V), U] = 1 for the first end, a[(U, V), V] = 1 for the second."""

    number: int  # 0 or 1
    of_links: ClassVar[bool] = True

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Pairs that miss an end take nothing."""
        places = places_of(snapshot)
        pairs = np.flatnonzero(places.present)
        shape = (len(places.present), snapshot.num_nodes)
        indptr = np.append(0, np.cumsum(places.present))
        return sparse.csr_array((np.ones(len(pairs)), places.nodes[self.number, pairs], indptr), shape=shape)


def members_of(snapshot: Snapshot, *, by_graph: bool) -> tuple[IntArray, IntArray]:
    """The nodes that belong to graphs, and the graph of each, numbered from 0; not `by_graph`, all nodes are one."""
    graphs = np.zeros(snapshot.num_nodes, dtype=np.int64)
    if by_graph and snapshot.graphs is not None:
        graphs = snapshot.graphs
    elif by_graph and snapshot.places is not None and snapshot.places.kind == GRAPHS:
        graphs = snapshot.places.nodes
    members = np.flatnonzero(snapshot.present & (graphs >= 0))
    return members, np.unique(graphs[members], return_inverse=True)[1].reshape(-1)


def places_of(snapshot: Snapshot) -> Places:
    """The places of a snapshot that has some."""
    assert snapshot.places is not None
    return snapshot.places

"""Rules on a part of a graph: the edges of one relation, or the nodes of one type.

One channel a relation: whatever rule a convolution aggregates by, it sees only the edges of its relation, and of the
nodes those of the types at its ends. An edge that changes its relation is lost to one channel and gained by another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import Like, Rule, diagonal

EndTypes = tuple[int, int]  # types of the nodes that send and receive

# The parts of a snapshot, cut once for all heads and layers, and forgotten with it.
_PARTS: WeakKeyDictionary[Snapshot, dict[tuple[int, EndTypes | None], Snapshot]] = WeakKeyDictionary()


@dataclass(frozen=True)
class OfRelation(Like):
    """Another rule, only on the edges of one relation."""

    relation: int
    ends: EndTypes | None = None  # None where nodes have no types
    heeds_unseen: ClassVar[bool] = False  # what was left out is not counted relation by relation

    @property
    def reads_inputs(self) -> bool:
        """As the rule itself."""
        return self.rule.reads_inputs

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The rule's own matrix there."""
        return self.rule.matrix(cut_relation(snapshot, self.relation, self.ends), inputs)


@dataclass(frozen=True)
class OfType(Rule):
    """a[V, V] = 1 for the nodes of one type."""

    node_type: int
    local: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Of those that are present."""
        assert snapshot.node_types is not None
        chosen = replace(snapshot, present=snapshot.present & (snapshot.node_types == self.node_type))
        return diagonal(chosen, np.ones(snapshot.num_nodes))


def cut_relation(snapshot: Snapshot, relation: int, ends: EndTypes | None) -> Snapshot:
    """The same nodes with the edges of one relation; of other types than those at its ends, no node is present."""
    known = _PARTS.setdefault(snapshot, {})
    if (relation, ends) not in known:
        assert snapshot.edge_types is not None
        kept = np.flatnonzero(snapshot.edge_types == relation)
        present = snapshot.present
        if ends is not None and snapshot.node_types is not None:
            present = present & np.isin(snapshot.node_types, ends)
        weights = None if snapshot.edge_weight is None else snapshot.edge_weight[kept]
        known[relation, ends] = replace(
            snapshot,
            edges=snapshot.edge_index[:, kept],
            edge_weight=weights,
            edge_types=None,
            edge_attr=None if snapshot.edge_attr is None else snapshot.edge_attr[kept],
            edge_rows=None if snapshot.edge_rows is None else snapshot.edge_rows[kept],
            present=present,
            unseen=None,
        )
    return known[relation, ends]

"""Two graphs whose edges have types -> what the relations between two nodes are called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from .snapshot import Snapshot

Hand = tuple[int, int]  # from one node to another, by their numbers


@dataclass(frozen=True, eq=False)
class RelationNames:
    """The edges of both graphs, each pair of nodes and relation once, ascending."""

    src: IntArray  # [num]: the user's numbers
    dst: IntArray
    relation: IntArray
    names: tuple[str, ...]  # of relations; empty where they are known by number

    def of(self, steps: Iterable[Hand]) -> tuple[tuple[int, int, str], ...]:
        """What leads from one node to the other, along or else against an edge; steps without any are left out."""
        found = []
        for u, v in sorted(set(steps)):
            numbers = self._between(u, v) or self._between(v, u)
            if numbers:
                found.append((u, v, ", ".join(self._name(number) for number in numbers)))
        return tuple(found)

    def _between(self, u: int, v: int) -> list[int]:
        low, high = np.searchsorted(self.src, [u, u + 1])
        first, last = low + np.searchsorted(self.dst[low:high], [v, v + 1])
        return [int(number) for number in self.relation[first:last]]

    def _name(self, number: int) -> str:
        return self.names[number] if self.names else f"type {number}"


def name_relations(before: Snapshot, after: Snapshot) -> RelationNames | None:
    """Of two aligned snapshots; None where edges have no types."""
    if before.edge_types is None or after.edge_types is None:
        return None
    ids = before.node_ids
    edges = [
        np.concatenate([ids[side.edge_index], side.edge_types[None]])
        for side in (before, after)
        if side.edge_types is not None
    ]
    src, dst, relation = np.unique(np.concatenate(edges, axis=1), axis=1)
    return RelationNames(src, dst, relation, max(before.relation_names, after.relation_names, key=len))

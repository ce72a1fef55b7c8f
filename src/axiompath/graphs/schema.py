"""What a graph with several types of nodes is made of: Schema, and how its nodes are numbered.

The nodes of all types are the rows of one graph. Row by row, a node of type number t, of T types, that the user calls
i (by `n_id`, or by its row among its type) has the number i T + t: the same in every snapshot with the same types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..arrays import IntArray

Relation: TypeAlias = tuple[str, str, str]  # type of the sender, name, type of the receiver


@dataclass(frozen=True)
class Schema:
    """Types of nodes, with the width of their features, and relations."""

    node_types: tuple[str, ...]
    widths: tuple[int, ...]  # [num_types]: columns of x, side by side
    relations: tuple[Relation, ...]
    links: Relation | None = None  # whose pairs are predicted, where pairs of nodes are

    @property
    def columns(self) -> tuple[slice, ...]:
        """Which columns of x hold the features of each type."""
        ends = [sum(self.widths[: i + 1]) for i in range(len(self.widths))]
        return tuple(slice(end - width, end) for end, width in zip(ends, self.widths, strict=True))

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """Number of the type of sender and receiver of each relation."""
        return tuple((self.node_types.index(u), self.node_types.index(v)) for u, _, v in self.relations)

    @property
    def link_ends(self) -> tuple[int, int]:
        """Number of the type of both nodes of a pair."""
        assert self.links is not None
        return self.node_types.index(self.links[0]), self.node_types.index(self.links[2])

    def number(self, node_type: str, own: int) -> int:
        """The number of the node that a type calls `own`."""
        return own * len(self.node_types) + self.node_types.index(node_type)

    def numbers(self, node_type: int, own: IntArray) -> IntArray:
        """The same of many of one type, given by its number."""
        return own * len(self.node_types) + node_type

    def node(self, number: int) -> tuple[str, int]:
        """The type and the own number of a node."""
        own, node_type = divmod(number, len(self.node_types))
        return self.node_types[node_type], own

"""What a graph with several types of nodes is made of: Schema, and how its nodes are numbered.

The nodes of all types are the rows of one graph. Row by row, a node of type number t, of T types, that the user calls
i (by `n_id`, or by its row among its type) has the number i T + t: the same in every snapshot with the same types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..arrays import IntArray

OF_NODES, OF_EDGES = "node", "edge"  # how the fields of a type, and of a relation, begin in the stacked graph
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

    def name_field(self, field: str) -> str:
        """A field of the stacked graph as the user writes it."""
        level, number, key = field.split(" ", 2)
        return f"[{(self.node_types if level == OF_NODES else self.relations)[int(number)]!r}].{key}"


def name_of_field(level: str, number: int, key: str) -> str:
    """What a field of one type, or of one relation, is called in the stacked graph."""
    return f"{level} {number} {key}"


def relation_of_field(field: str) -> int:
    """The number of the relation whose edges a field of the stacked graph is of."""
    return int(field.split(" ", 2)[1])

"""What is predicted where it is not the nodes: whole graphs, or pairs of nodes, each a place that takes from nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ..arrays import BoolArray, IntArray

Target: TypeAlias = int | tuple[int, int]  # a node, a graph, or a pair of nodes, by the user's numbers
GRAPHS, LINKS = "graphs", "links"
NODE_UNIT = "node"
UNIT_OF = {GRAPHS: "graph", LINKS: "link"}  # what one of them is called


class EdgePlace(NamedTuple):
    """An edge on a path, by the user's numbers of its ends, and which of the parallel ones it is, from 1."""

    src: int
    dst: int
    number: int = 1
    among: int = 1


def as_target(numbers: IntArray) -> Target:
    """One number, or the two of a pair, as plain ones."""
    found = numbers.tolist()
    return (found[0], found[1]) if isinstance(found, list) else found


@dataclass(frozen=True, eq=False)
class Places:
    """The graphs of a batch, or pairs of nodes, of one snapshot; both snapshots of a pair number them alike."""

    kind: str  # GRAPHS or LINKS
    ids: IntArray  # [num_places]: numbers of graphs; of pairs [num_places, 2], the user's numbers of both nodes
    nodes: IntArray  # of graphs [num_nodes]: place of each node, -1 for none; of pairs [2, num_places]: rows of nodes
    present: BoolArray  # [num_places]: whether this snapshot has the graph, or both nodes

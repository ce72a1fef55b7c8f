"""What is predicted where it is not the nodes: whole graphs, or pairs of nodes, each a place that takes from nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeAlias

from ..arrays import BoolArray, IntArray
from ..storage.codec import Count, one_of, require

# A node, a graph, or a pair of nodes, by the user's numbers. Their range is `check_target`'s: msgspec 0.22 takes the
# bounds of a number for the length of the pair where a union has both, and reads beyond its memory.
Target: TypeAlias = int | tuple[int, int]
GRAPHS, LINKS = "graphs", "links"
NODE_UNIT = "node"
UNIT_OF = {GRAPHS: "graph", LINKS: "link"}  # what one of them is called
Unit: TypeAlias = Annotated[str, one_of(NODE_UNIT, *UNIT_OF.values())]


class EdgePlace(NamedTuple):
    """An edge on a path, by the user's numbers of its ends, and which of the parallel ones it is, from 1."""

    src: Count
    dst: Count
    number: Count = 1
    among: Count = 1


def check_target(target: Target, unit: str) -> None:
    """Require of a record the number of a node or graph, or the two of a link."""
    numbers = target if isinstance(target, tuple) else (target,)
    fits = len(numbers) == 1 + (unit == UNIT_OF[LINKS]) and all(0 <= number < 2**63 for number in numbers)
    require(fits, f"`target` should be the number of a {unit}, 0 or more, and of a link the two of its ends")


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

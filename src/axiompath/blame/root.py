"""What is asked about: one node, one pair of nodes or one graph, in the rows of a Scene."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import IntArray


@dataclass(frozen=True, eq=False)
class RootPlace:
    """The nodes that a prediction is read off: one node; the two ends of a pair; all nodes of a graph."""

    kind: str  # "node", "link" or "graph"
    nodes: IntArray  # rows of the Scene

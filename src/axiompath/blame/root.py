"""A target: the nodes that its prediction is read off."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import FloatArray, IntArray
from ..graphs.places import Target


@dataclass(frozen=True, eq=False)
class Root:
    """One target in both graphs."""

    target: Target
    nodes: IntArray  # its nodes, by their numbers in the pair: one, the two ends of a pair, or those of a graph
    new: IntArray  # those of them that only `after` has
    ends: tuple[tuple[FloatArray, FloatArray], ...]  # logits before and after under each model; empty where unknown


@dataclass(frozen=True, eq=False)
class RootPlace:
    """The nodes that a prediction is read off: one node; the two ends of a pair; all nodes of a graph."""

    kind: str  # "node", "link" or "graph"
    nodes: IntArray  # rows of the ReceptiveField

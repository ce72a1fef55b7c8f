"""Snapshot + hidden features -> norms over all nodes of a graph: (h - mu) s, mu and s being the graph's.

The scale s is a coefficient of every node, the shift -s mu a source at every node, which each snapshot computes: a
bias. It is read off columns of ones that stand beside h. No node gets a path to every other. In delta,

    s_1 (h_1 - mu_1) - s_0 (h_0 - mu_0) = mean(s) (h_1 - h_0)  +  [ (s_1 - s_0) mean(h) - (s_1 mu_1 - s_0 mu_0) ],

means over the two snapshots: the first part goes on to h, the second is the source, and its cause is *statistics*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar
from weakref import WeakKeyDictionary, ref

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import Parts, Sides, diagonal
from .families import ColumnRule, column_of

OF_GRAPH = "graph"  # how a norm over a graph divides its coefficients


class Moments(ABC):
    """What a norm makes of the nodes of a graph: its mu and its s, of every column."""

    recorded: bool = False  # whether they are known on two graphs only

    @abstractmethod
    def members(self, snapshot: Snapshot) -> IntArray:
        """The nodes that are normed."""

    @abstractmethod
    def find(self, snapshot: Snapshot, inputs: Features) -> tuple[FloatArray, FloatArray]:
        """mu and s of every node and column, [num_nodes, width]; 0 and 1 of nodes that are not normed."""


# What was found last of each: all columns ask for the same.
_FOUND: WeakKeyDictionary[Moments, tuple[ref[Snapshot], bytes, FloatArray, FloatArray]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class OfGraph(ColumnRule):
    """What a norm over the nodes of a graph makes of each column."""

    moments: Moments
    width: int  # columns that are normed; as many of ones stand behind them
    local: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False
    divides: ClassVar[str] = OF_GRAPH

    @property
    def recorded(self) -> bool:
        """As its moments."""
        return self.moments.recorded


@dataclass(frozen=True, eq=False)
class GraphScale(OfGraph):
    """a[V, V] = s of V's graph."""

    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """On the diagonal."""
        return _at_members(self.moments, snapshot, find_moments(self.moments, snapshot, inputs)[1][:, number])

    def divide_column(self, sides: Sides, number: int) -> Parts:
        """The mean of both is kept where both have the node."""
        gained, lost = _alone(sides)
        return np.where(sides.both, 0.5 * (sides.before + sides.after), 0.0), gained, lost


@dataclass(frozen=True, eq=False)
class GraphShift(OfGraph):
    """a[V, V] = -s mu of V's graph, over columns of ones beside those that are normed."""

    @property
    def first(self) -> int:
        """The ones stand behind."""
        return self.width

    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """On the diagonal."""
        mu, s = (part[:, number] for part in find_moments(self.moments, snapshot, inputs))
        return _at_members(self.moments, snapshot, -s * mu)

    def divide_column(self, sides: Sides, number: int) -> Parts:
        """Nothing is kept; where both have the node, what the statistics did to it is gained."""
        gained, lost = _alone(sides)
        s, h = [], []
        for snapshot, inputs in zip(sides.snapshots, sides.inputs, strict=True):
            s.append(find_moments(self.moments, snapshot, inputs)[1][sides.indices, number])
            h.append(column_of(inputs, number)[sides.indices])
        source = (s[1] - s[0]) * 0.5 * (h[0] + h[1]) + (sides.after - sides.before)
        return np.zeros(len(source)), np.where(sides.both, source, gained), lost


def find_moments(moments: Moments, snapshot: Snapshot, inputs: Features) -> tuple[FloatArray, FloatArray]:
    """mu and s, found once for all columns of the same inputs."""
    identity = repr(inputs.__array_interface__ if isinstance(inputs, np.ndarray) else id(inputs)).encode()
    known = _FOUND.get(moments)
    if known is None or known[0]() is not snapshot or known[1] != identity:
        known = ref(snapshot), identity, *moments.find(snapshot, inputs)
        _FOUND[moments] = known
    return known[2], known[3]


def _at_members(moments: Moments, snapshot: Snapshot, values: FloatArray) -> sparse.csr_array:
    """On the diagonal, only of the nodes that are normed."""
    given = np.zeros(snapshot.num_nodes, dtype=np.bool_)
    given[moments.members(snapshot)] = True
    return diagonal(replace(snapshot, present=given, edge_rows=None), values)


def _alone(sides: Sides) -> tuple[FloatArray, FloatArray]:
    """Gained and lost of nodes that only one snapshot has."""
    return np.where(sides.both, 0.0, sides.after), np.where(sides.both, 0.0, sides.before)

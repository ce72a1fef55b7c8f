"""Snapshot + hidden features -> coefficients of maxima and minima: 1 for who holds one, ties shared.

    z[V, d] = max over U of w[V, U] h[U, d]  =  sum over U of  a[V, U, d] h[U, d],     a = w times U's hold on it.

Between two snapshots the smaller of both coefficients would say nothing: a neighbour that a change of features makes
the largest would have gained, out of nothing, its whole value. With K the neighbours that both snapshots have,

    kept     the share of the straight line from `before` to `after` on which U holds the maximum over K
    gained   U's hold on the maximum of `after` less that over K only      lost likewise in `before`,

times the weight, of which the smaller one is kept as ever. A pure change of features is kept, so that it stays one, and
shares do not jump where two nearly tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from ..native.maxima import hold_shares, line_shares
from .coefficients import Like, Parts, Rule, Sides, diagonal, edges_of
from .families import ColumnRule, column_of
from .relations import OfRelation, cut_relation

BY_LINE = "line"  # how a maximum divides its coefficients

# Which entries a rule has, found once for all columns, and forgotten with their snapshot.
_PATTERNS: WeakKeyDictionary[Snapshot, dict[Rule, sparse.csr_array]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Extreme(Like, ColumnRule):
    """The largest of what another rule's entries carry, or the least; edge weights count if that rule has them."""

    rule: Rule
    least: bool = False
    divides: ClassVar[str] = BY_LINE
    reads_inputs: ClassVar[bool] = True
    __eq__, __hash__ = object.__eq__, object.__hash__  # by identity, unlike what it extends

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """No one matrix: each column has its own."""
        return ColumnRule.matrix(self, snapshot, inputs)

    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """Weights of those that hold the maximum, over their number."""
        weights, values = self._carried(snapshot, column_of(inputs, number))
        shares = _holds(weights.indptr, values, np.ones(len(values), dtype=np.bool_))
        return sparse.csr_array((weights.data * shares, weights.indices, weights.indptr), shape=weights.shape)

    def divide_column(self, sides: Sides, number: int) -> Parts:
        """By the line between the snapshots."""
        size, both = len(sides.indices), sides.both
        weights, values, held, held_of_both = [], [], [], []
        for snapshot, inputs, there in zip(sides.snapshots, sides.inputs, sides.there, strict=True):
            of_rule, carried = self._carried(snapshot, column_of(inputs, number))
            weight, value = np.zeros(size), np.zeros(size)
            weight[there], value[there] = of_rule.data, carried  # both in the order of rows and columns
            weights.append(weight)
            values.append(value)
            held.append(_holds(sides.indptr, value, there))
            held_of_both.append(_holds(sides.indptr, value, both))
        line = _lines(sides.indptr, values[0], values[1], both)
        once, now = weights
        smaller = np.where(once * now > 0, np.where(np.abs(once) <= np.abs(now), once, now), 0.0)
        return (
            line * smaller,
            line * (now - smaller) + now * (held[1] - held_of_both[1]),
            line * (once - smaller) + once * (held[0] - held_of_both[0]),
        )

    def _carried(self, snapshot: Snapshot, column: FloatArray) -> tuple[sparse.csr_array, FloatArray]:
        """Weight of every entry, and what it carries (its negative, for the least): of parallel edges the largest."""
        sign = -1.0 if self.least else 1.0
        if not self.rule.weighted or snapshot.edge_weight is None:
            known = _PATTERNS.setdefault(snapshot, {})
            if self.rule not in known:
                found = self.rule.matrix(snapshot, np.zeros((snapshot.num_nodes, 0)))
                found.sort_indices()
                found.data = np.ones(found.nnz)
                known[self.rule] = found
            weights = known[self.rule]
            return weights, np.asarray(sign * column[weights.indices])
        if isinstance(self.rule, OfRelation):
            snapshot = cut_relation(snapshot, self.rule.relation, self.rule.ends)
        receivers, senders, weight = edges_of(snapshot, True, self.flow)
        carried = sign * weight * column[senders]
        order = np.lexsort((-carried, senders, receivers))
        receivers, senders, weight, carried = receivers[order], senders[order], weight[order], carried[order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = (receivers[1:] != receivers[:-1]) | (senders[1:] != senders[:-1])
        indptr = np.searchsorted(receivers[first], np.arange(snapshot.num_nodes + 1))
        shape = (snapshot.num_nodes, snapshot.num_nodes)
        return sparse.csr_array((weight[first], senders[first], indptr), shape=shape), carried[first]


@dataclass(frozen=True, eq=False)
class Highest(ColumnRule):
    """How much one of several values of a node, side by side in the inputs, holds of their largest, or least."""

    number: int
    count: int
    width: int  # columns of each
    least: bool = False
    local: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False
    reach: ClassVar[int] = 0
    divides: ClassVar[str] = BY_LINE

    @property
    def first(self) -> int:
        """The columns of this one."""
        return self.number * self.width

    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """On the diagonal."""
        values = self._values(inputs, number)
        return diagonal(snapshot, _holds(*_one_row_each(values))[self.number :: self.count])

    def divide_column(self, sides: Sides, number: int) -> Parts:
        """By the line between the snapshots, where both have the node."""
        indptr, low = _one_row_each(self._values(sides.inputs[0], number)[sides.indices])[:2]
        high = _one_row_each(self._values(sides.inputs[1], number)[sides.indices])[1]
        line = _lines(indptr, low, high, np.repeat(sides.both, self.count))
        gained, lost = (np.where(sides.both, 0.0, side) for side in (sides.after, sides.before))
        return line[self.number :: self.count], gained, lost

    def _values(self, inputs: Features, number: int) -> FloatArray:
        """What is compared at each node, [num_nodes, count]."""
        shown = [column_of(inputs, i * self.width + number) for i in range(self.count)]
        return np.stack(shown, axis=1) * (-1.0 if self.least else 1.0)


def _one_row_each(values: FloatArray) -> tuple[IntArray, FloatArray, BoolArray]:
    """Values [rows, count] as the entries of as many rows."""
    indptr = np.arange(len(values) + 1) * values.shape[1]
    return indptr, np.ascontiguousarray(values).reshape(-1), np.ones(values.size, dtype=np.bool_)


def _holds(indptr: IntArray, values: FloatArray, there: BoolArray) -> FloatArray:
    shares = np.empty(len(values))
    hold_shares(indptr.astype(np.int64, copy=False), values, there.view(np.uint8), shares)
    return shares


def _lines(indptr: IntArray, low: FloatArray, high: FloatArray, there: BoolArray) -> FloatArray:
    shares = np.empty(len(low))
    line_shares(indptr.astype(np.int64, copy=False), low, high, there.view(np.uint8), shares)
    return shares

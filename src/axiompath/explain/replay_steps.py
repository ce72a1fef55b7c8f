"""One layer of a Change -> how its coefficients lead from a tree node to those below it, when paths are undone.

Of three numbers that replay needs for an entry, `of_new` multiplies the value that the tree node below gets, `of_base`
the value that it had, and `of_other`, at a leaf, the value of the other snapshot. Of a plain coefficient, with rho what
undoing carries down,

    shared   a_base h_new - a_base h_base,  at a leaf rho a_other h_other - a_base h_base;  rho a_other / a_base goes on
    base     a_base h_new - a_base h_base,  at a leaf -a_base h_base
    grown    rho a_other h_new.

**Coefficients a column**, as of a maximum, which is not taken again. Below a shared node an entry is up to three tree
nodes: its kept part is shared, what is gained of it base, what is lost grown. Undone one and all they give the other
snapshot's value, since that is how the parts were made. Nothing of rho goes further down: with rho < 1 the value of the
base, all of which is then altered, is scaled, with rho > 1 that of the other,

    rho z_other = z_base + (rho - 1) z_base + rho (z_other - z_base) = z_base + (z_other - z_base) + (rho - 1) z_other.

**Products.** rho goes on in only one factor: in its messages and in its bias. The others take what the other snapshot
has, rho or not.

**Norms over a graph.** Undoing the path that starts at the node itself gives its tree node the other snapshot's mean
and deviation; else it keeps those of the base.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import LayerChange
from ..network.activations import Product
from ..network.layers import Layer
from ..network.statistics import OF_GRAPH, GraphScale, GraphShift

SHARED, BASE, GROWN = 0, 1, 2


@dataclass(frozen=True, eq=False)
class TreeParents:
    """What is known of the tree node above each of some entries."""

    mode: NDArray[np.int8]
    rho: FloatArray
    undone: BoolArray  # a chosen path starts at its bias, and is altered

    def of(self, some: IntArray) -> TreeParents:
        """Of some of them."""
        return TreeParents(self.mode[some], self.rho[some], self.undone[some])


@dataclass(frozen=True, eq=False)
class ReplayStep:
    """One layer, its coefficients in both snapshots, and in which of them paths are undone."""

    layer: Layer
    entries: LayerChange
    add: bool  # paths are added to `before`, rather than undone in `after`

    @cached_property
    def families(self) -> tuple[int, ...]:
        """Of each rule, the first of those that share its tree nodes: its family, or a norm's scale and shift."""
        first: dict[object, int] = {}
        found = []
        for i, rule in enumerate(self.layer.rules):
            kin = rule.family
            found.append(first.setdefault(kin.moments if isinstance(kin, (GraphScale, GraphShift)) else kin, i))
        return tuple(found)

    @cached_property
    def sides(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Coefficients of the base and of the other snapshot, and what of each the other does not lack."""
        e = self.entries
        if self.add:
            return e.before, e.after, e.kept_before, e.kept_after
        return e.after, e.before, e.kept_after, e.kept_before

    @cached_property
    def restarting(self) -> BoolArray:
        """Columns of a product's factors in which nothing of rho goes on: all but the first that no rule restarts."""
        reached = np.zeros(self.layer.width, dtype=np.bool_)
        for channel in self.layer.channels:
            reached[channel.outputs] |= channel.coefficients.restarts
        found = np.zeros(self.layer.width, dtype=np.bool_)
        for block in self.layer.blocks:
            if isinstance(block.activation, Product):
                factors = reached[block.outputs].reshape(block.activation.num_factors, -1)
                carrying = int(np.argmin(factors.any(axis=1)))
                found[block.outputs] = np.repeat(np.arange(len(factors)) != carrying, factors.shape[1])
        return found

    def branches(
        self, family: int, entry: IntArray, mode: NDArray[np.int8], rho: FloatArray
    ) -> Iterator[tuple[int, BoolArray, FloatArray]]:
        """The modes of what lies below entries, by one family of rules: where such a tree node is, and its rho."""
        ones = np.ones(len(entry))
        if self.layer.rules[family].divides == OF_GRAPH:
            yield SHARED, mode == SHARED, self._carried(family, rho)
            yield BASE, mode == BASE, ones
            yield GROWN, mode == GROWN, ones
            return
        if self._parted(family):
            rules = [rule for rule, its in enumerate(self.families) if its == family]
            above = TreeParents(mode, rho, np.zeros(len(entry), dtype=np.bool_))
            for below in (SHARED, BASE, GROWN):
                modes, there = np.full(len(entry), below), np.zeros(len(entry), dtype=np.bool_)
                for rule in rules:
                    of_new, _, _ = self.factors(rule, entry, modes, above)
                    there |= of_new != 0
                yield below, there, ones
            return
        a_base, a_other = (side[entry, family] for side in self.sides[:2])
        kept = self.entries.kept[entry, family] != 0
        shared = (mode == SHARED) & kept
        split = (mode == SHARED) & ~kept
        carried = self._carried(family, rho)
        with np.errstate(divide="ignore", invalid="ignore"):
            yield SHARED, shared, np.where(shared, carried * a_other / a_base, 1.0)
        yield BASE, (a_base != 0) & ((mode == BASE) | split), ones
        yield GROWN, (a_other != 0) & ((mode == GROWN) | split), ones

    def factors(
        self, rule: int, entry: IntArray, mode: NDArray[np.int8], above: TreeParents
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """of_new, of_base and of_other of one rule, over entries below which there are tree nodes of these modes."""
        a_base, a_other, kept_base, kept_other = (side[entry, rule] for side in self.sides)
        rho = np.where(above.mode == SHARED, self._carried(rule, above.rho), 1.0)
        if self.layer.rules[rule].divides == OF_GRAPH:
            of_new = np.where((mode == GROWN) | ((mode == SHARED) & above.undone), a_other, a_base)
            return of_new, np.where(mode == GROWN, 0.0, -a_base), rho * a_other
        if self._parted(rule):
            below_shared = above.mode == SHARED
            least = np.minimum(rho, 1.0)
            kept = np.where(below_shared, least * self.entries.kept[entry, rule], 0.0)
            gained = np.where(below_shared, least * (a_base - kept_base) + (1.0 - least) * a_base, 0.0)
            lost = np.where(below_shared, least * (a_other - kept_other) + (np.maximum(rho, 1.0) - 1.0) * a_other, 0.0)
            gained = np.where(above.mode == BASE, a_base, gained)
            lost = np.where(above.mode == GROWN, a_other, lost)
            of_new = np.select([mode == SHARED, mode == BASE], [kept, gained], lost)
            return of_new, np.where(mode == GROWN, 0.0, -of_new), np.where(mode == BASE, 0.0, of_new)
        of_other = rho * a_other
        of_new = np.where(mode == GROWN, of_other, a_base)
        return of_new, np.where(mode == GROWN, 0.0, -a_base), np.where(mode == BASE, 0.0, of_other)

    def _parted(self, rule: int) -> bool:
        """Whether it is a column of several, each with coefficients of its own: one ratio would not do for all."""
        meaning = self.layer.rules[rule]
        return meaning.family is not meaning

    def _carried(self, rule: int, rho: FloatArray) -> FloatArray:
        """What undoing carries down: of a product, only in one factor."""
        return np.ones(len(rho)) if self.layer.rules[rule].restarts else rho

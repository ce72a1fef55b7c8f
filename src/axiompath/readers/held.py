"""Bases + two graphs -> Held: what each base holds on both, only in the rows that the output needs.

A Network holds what a model computes layer by layer, and every layer holds all places. A window has a step's places in
a few of its layers only, so what is asked of all places at once is asked here, of the bases themselves:

    z[V] = sum over terms:  sum over U  a[V, U] * h[U] @ W     + bias          h = phi(z)

with the coefficients split into kept, gained and lost as those of layers are (see `change.comparison`). What does not
differ between the graphs is held once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.rows import entries_of
from ..graphs.snapshot import Snapshot, in_double
from ..network.coefficients import Factor, Rule, Sides
from ..network.families import ColumnRule
from .bases import Base, bases_of
from .forms import Term
from .rows import Recorded

Matrices = tuple[sparse.csr_array, sparse.csr_array]  # of before and of after


@dataclass(frozen=True, eq=False)
class Entries:
    """The coefficients of one term in both graphs, between rows of its base and rows of the one that it takes from.

    Those of a rule that has its own for every column are [num_entries, columns], else they are [num_entries, 1].
    """

    indptr: IntArray  # [num_rows + 1]
    senders: IntArray  # [num_entries]: rows held of the base that it takes from
    before: FloatArray
    after: FloatArray
    kept: FloatArray
    gained: FloatArray
    lost: FloatArray

    @cached_property
    def changed(self) -> BoolArray:
        """Entries over which a walk leaves delta. [num_entries]."""
        return np.asarray(((self.gained != 0) | (self.lost != 0)).any(axis=1))

    @cached_property
    def receivers(self) -> IntArray:
        """The row of each entry. [num_entries]."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def times(self, coefficients: FloatArray, values: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """The sum over senders of coefficients * values, of these rows or of all. [num_rows, columns]."""
        size = len(self.indptr) - 1
        if coefficients.shape[1] > 1:
            own = self.receivers if rows is None else self.receivers[entries_of(self.indptr, rows)]
            entries = slice(None) if rows is None else entries_of(self.indptr, rows)
            found = np.zeros((size, values.shape[1]))
            np.add.at(found, own, coefficients[entries] * values[self.senders[entries]])
            return found if rows is None else found[rows]
        matrix = sparse.csr_array((coefficients[:, 0], self.senders, self.indptr), shape=(size, len(values)))
        return np.asarray((matrix if rows is None else matrix[rows]) @ values)


@dataclass(frozen=True, eq=False)
class HeldBase:
    """What one base holds in front of its activation, in the rows of the aligned snapshots that are needed."""

    base: Base
    rows: IntArray  # [n], ascending
    entries: tuple[Entries, ...]  # of each term
    before: FloatArray  # [n, width]; the same array as `after` where nothing differs
    after: FloatArray
    differs: BoolArray  # [n]: whether a change reaches it

    def values(self, side: int, rows: IntArray | slice = slice(None)) -> FloatArray:
        """What it holds behind its activation, of some rows."""
        z = (self.before, self.after)[side][rows]
        return z if self.base.activation is None else self.base.activation.value(z)


@dataclass(frozen=True, eq=False)
class Held:
    """What all bases hold, leaves first; None for those that the output does not need."""

    bases: tuple[HeldBase | None, ...]
    snapshots: tuple[Snapshot, Snapshot]
    end: str  # the softmax or sigmoid at the model's end that is left off, by its name in torch

    @property
    def output(self) -> HeldBase:
        """The logits."""
        (found,) = self.bases[-1:]
        assert found is not None
        return found

    def of(self, term: Term) -> HeldBase:
        """The base that a term takes from."""
        found = self.bases[term.base]
        assert found is not None
        return found


def hold_bases(
    bases: Sequence[Base], leaves: dict[int, slice], snapshots: tuple[Snapshot, Snapshot], rows: IntArray, end: str
) -> Held:
    """Compute the bases on both snapshots, as far as these rows of the last one need them.

    `leaves` are the columns of x that each base without a form is.
    """
    making = _Making(bases, leaves, snapshots)
    making.find_rows(rows)
    for number in range(len(bases)):
        if number in making.rows:
            making.hold(number)
    return Held(tuple(making.held.get(number) for number in range(len(bases))), snapshots, end)


@dataclass(eq=False)
class _Making:
    bases: Sequence[Base]
    leaves: dict[int, slice]
    snapshots: tuple[Snapshot, Snapshot]
    rows: dict[int, IntArray] = field(default_factory=dict)  # of the bases that are needed
    held: dict[int, HeldBase] = field(default_factory=dict)
    known: dict[Any, Matrices] = field(default_factory=dict)
    entries: dict[tuple[int, ...], Entries] = field(default_factory=dict)
    same_rows: dict[bytes, IntArray] = field(default_factory=dict)

    def find_rows(self, rows: IntArray) -> None:
        """Which rows of each base are needed, from the last one down."""
        self.rows = {len(self.bases) - 1: self.same_rows.setdefault(rows.tobytes(), rows)}
        for number in range(len(self.bases) - 1, -1, -1):
            form = self.bases[number].form
            if number not in self.rows or form is None:
                continue
            for base in bases_of(form):
                needed = [self.rows.get(base, np.zeros(0, dtype=np.int64))]
                for term in form.terms:
                    if term.reads == base and isinstance(term.coefficients, ColumnRule):
                        needed.append(np.arange(self.snapshots[0].num_nodes))
                    elif term.base == base:
                        needed += [self._senders(one, self.rows[number]) for one in self.matrices(term)]
                found = np.flatnonzero(np.bincount(np.concatenate(needed)))
                self.rows[base] = self.same_rows.setdefault(found.tobytes(), found)

    @staticmethod
    def _senders(matrix: sparse.csr_array, rows: IntArray) -> IntArray:
        mask = np.zeros(matrix.shape[1], dtype=np.bool_)
        mask[matrix.indices[entries_of(matrix.indptr, rows)]] = True
        return np.flatnonzero(mask)

    def matrices(self, term: Term) -> Matrices:
        """The coefficients of a term between all rows, of a rule that has no more than one number per entry."""
        rule = term.coefficients
        while isinstance(rule, Factor):
            rule = rule.rule
        risen = rule.local and term.base in self.risen
        if (rule, risen) not in self.known:
            content = _content_of(rule), risen
            if content not in self.known:
                self.known[content] = self._find_matrices(rule, risen)
            self.known[rule, risen] = self.known[content]
        return self.known[rule, risen]

    def _find_matrices(self, rule: Rule, risen: bool) -> Matrices:
        sides = [side.predicted if risen else side for side in self.snapshots]
        if isinstance(rule, Recorded) and rule.matrices[0] is rule.matrices[1]:
            ends = rule.target.places, rule.source.places
            if all(np.array_equal(*places) for places in ends):
                sides = sides[:1] * 2
        before = rule.matrix(sides[0], np.zeros((sides[0].num_nodes, 0)))
        after = before if sides[1] is sides[0] else rule.matrix(sides[1], np.zeros((sides[1].num_nodes, 0)))
        for one in (before, after):
            one.sort_indices()
        same = before is after or (
            before.nnz == after.nnz
            and all(
                np.array_equal(getattr(before, part), getattr(after, part)) for part in ("indptr", "indices", "data")
            )
        )
        return (before, before) if same else (before, after)

    @cached_property
    def risen(self) -> set[int]:
        """The bases that are of what is predicted, graphs, rather than of nodes."""
        found: set[int] = set()
        for number, base in enumerate(self.bases):  # a base is made of earlier ones
            terms = () if base.form is None else base.form.terms
            if any(one.coefficients.rises or (one.coefficients.local and one.base in found) for one in terms):
                found.add(number)
        return found

    def hold(self, number: int) -> None:
        """Compute one base; those that it is made of are known."""
        base, rows = self.bases[number], self.rows[number]
        if base.form is None:
            old, new = (in_double(side.x[rows][:, self.leaves[number]]) for side in self.snapshots)
            old, new = (part if isinstance(part, np.ndarray) else part.toarray() for part in (old, new))
            there = [side.present[rows] for side in self.snapshots]
            differs = (old != new).any(axis=1) | (there[0] != there[1])
            self.held[number] = HeldBase(base, rows, (), old if differs.any() else new, new, differs)
            return
        form = base.form
        entries = tuple(self.find_entries(term, rows) for term in form.terms)
        differs = np.zeros(len(rows), dtype=np.bool_)
        for term, own in zip(form.terms, entries, strict=True):
            reached = own.changed | (self.held[term.base].differs[own.senders] & (own.kept != 0).any(axis=1))
            differs[own.receivers[reached]] = True
        after = self._run(1, base, entries, len(rows))
        before = after
        if differs.any():
            before = after.copy()
            some = np.flatnonzero(differs)
            before[some] = self._run(0, base, entries, len(some), some)
        self.held[number] = HeldBase(base, rows, entries, before, after, differs)

    def _run(
        self, side: int, base: Base, entries: Sequence[Entries], num_rows: int, rows: IntArray | None = None
    ) -> FloatArray:
        form = base.form
        assert form is not None
        z = np.zeros((num_rows, base.width))
        for term, own in zip(form.terms, entries, strict=True):
            first = term.coefficients.first if isinstance(term.coefficients, ColumnRule) else 0
            values = self.held[term.base].values(side)
            values = values[:, first : first + term.width] if isinstance(term.coefficients, ColumnRule) else values
            coefficients = (own.before, own.after)[side]
            columns = slice(term.start, term.start + term.width)
            if term.weight is not None and term.weight.shape[0] > term.weight.shape[1]:
                z[:, columns] += own.times(coefficients, values @ term.weight, rows)
            else:
                found = own.times(coefficients, values, rows)
                z[:, columns] += found if term.weight is None else found @ term.weight
        return z if form.bias is None else z + form.bias

    def find_entries(self, term: Term, rows: IntArray) -> Entries:
        """The coefficients of a term, between rows that are held."""
        below = self.rows[term.base]
        if isinstance(term.coefficients, ColumnRule):
            return self._columns_of(term, term.coefficients, rows, below)
        before, after = self.matrices(term)
        key = (id(before), id(after), id(rows), id(below))
        if key not in self.entries:
            self.entries[key] = _divided(*(_cut(one, rows, below) for one in (before, after)), same=before is after)
        return self.entries[key]

    def _columns_of(self, term: Term, rule: ColumnRule, rows: IntArray, below: IntArray) -> Entries:
        """Every column has coefficients of its own, which the rule may divide itself."""
        assert term.reads is not None
        shown, inputs = self.held[term.reads], []
        for side, snapshot in enumerate(self.snapshots):
            wide = np.zeros((snapshot.num_nodes, shown.base.width))
            wide[shown.rows] = shown.values(side)
            inputs.append(wide)
        columns: list[list[FloatArray]] = [[], [], [], [], []]
        for number in range(term.width):
            both = zip(self.snapshots, inputs, strict=True)
            before, after = (rule.column_matrix(snapshot, given, number) for snapshot, given in both)
            found = _divided(before, after, same=False)
            old, new = found.before[:, 0], found.after[:, 0]
            parts = found.kept[:, 0], found.gained[:, 0], found.lost[:, 0]
            if rule.divides:
                there, indices = (_there(found, before), _there(found, after)), found.senders.astype(np.int32)
                parts = rule.divide_column(
                    Sides(self.snapshots, (inputs[0], inputs[1]), found.indptr, indices, there, old, new), number
                )
            for column, part in zip(columns, (old, new, *parts), strict=True):
                column.append(part)
        own = entries_of(found.indptr, rows)
        indptr = np.concatenate([[0], np.cumsum(np.diff(found.indptr)[rows])])
        senders = np.searchsorted(below, found.senders[own])
        return Entries(indptr, senders, *(np.stack(column, axis=1)[own] for column in columns))


def _content_of(rule: Rule) -> Any:
    """Equal for rules whose matrices are; a model computes a normalisation once for each of its layers."""
    if not isinstance(rule, Recorded):
        return rule
    parts = [hash(getattr(one, part).tobytes()) for one in rule.matrices for part in ("indptr", "indices", "data")]
    return rule.target.root, rule.source.root, rule.local, *parts


def _cut(matrix: sparse.csr_array, rows: IntArray, below: IntArray) -> sparse.csr_array:
    """The entries of some rows, their senders numbered among `below`."""
    own = entries_of(matrix.indptr, rows)
    place = np.zeros(matrix.shape[1], dtype=np.int32)
    place[below] = np.arange(len(below))
    indptr = np.concatenate([[0], np.cumsum(np.diff(matrix.indptr)[rows])])
    return sparse.csr_array((matrix.data[own], place[matrix.indices[own]], indptr), shape=(len(rows), len(below)))


def _divided(before: sparse.csr_array, after: sparse.csr_array, *, same: bool) -> Entries:
    """Both sides on their common pattern, and what is kept, gained and lost."""
    if same:
        data, nothing = after.data[:, None], np.zeros((after.nnz, 1))
        return Entries(after.indptr.astype(np.int64), after.indices, data, data, data, nothing, nothing)
    keys = [
        np.repeat(np.arange(one.shape[0]), np.diff(one.indptr)) * one.shape[1] + one.indices for one in (before, after)
    ]
    both = np.union1d(*keys)
    old, new = np.zeros(len(both)), np.zeros(len(both))
    old[np.searchsorted(both, keys[0])], new[np.searchsorted(both, keys[1])] = before.data, after.data
    size = max(after.shape[1], 1)
    kept = np.where(old * new > 0, np.where(np.abs(old) <= np.abs(new), old, new), 0.0)
    indptr = np.searchsorted(both, np.arange(after.shape[0] + 1) * size)
    found = (old, new, kept, new - kept, old - kept)
    return Entries(indptr, (both % size).astype(np.int64), *(part[:, None] for part in found))


def _there(found: Entries, matrix: sparse.csr_array) -> BoolArray:
    """Which of the entries a matrix holds."""
    size = matrix.shape[1]
    own = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * size + matrix.indices
    return np.isin(found.receivers * size + found.senders, own)

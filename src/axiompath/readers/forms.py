"""Form: an affine expression in values already computed, out of which layers are made, and its algebra.

    form[V] = sum over terms:  sum over U  a[V, U] * base[U] @ W     + bias

A `base` is a value that some layer of the Network holds as (a range of) its h. Reading a model turns each recorded
value into a form; an activation, or a second aggregation, turns a form into a new base. Sums, linear maps, scalings,
concatenations and slices of forms are forms again, so whatever is affine between two bases costs no layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..network.coefficients import Identity, Rule


@dataclass(frozen=True, eq=False)
class Term:
    """One aggregation of one base, added to the form's columns from `start` on."""

    base: int
    coefficients: Rule
    weight: FloatArray | None  # [base's width, columns]; None for the identity
    width: int  # columns of the form that it adds to
    start: int = 0
    reads: int | None = None  # the base whose values the coefficients depend on, if they depend on any

    def mapped(self, matrix: FloatArray) -> Term:
        """The term after form @ matrix."""
        rows = matrix[self.start : self.start + self.width]
        weight = rows if self.weight is None else self.weight @ rows
        return replace(self, weight=np.ascontiguousarray(weight), width=matrix.shape[1], start=0)

    @property
    def dense_weight(self) -> FloatArray:
        """The weight, written out where it is the identity."""
        return np.eye(self.width) if self.weight is None else self.weight


@dataclass(frozen=True, eq=False)
class Form:
    """A sum of terms and a bias."""

    terms: tuple[Term, ...]
    bias: FloatArray | None  # [width]
    width: int
    name: str  # the step of the user's model that it came from

    # numpy leaves `array @ form` and its like to the methods below.
    __array_ufunc__ = None

    @property
    def is_base(self) -> bool:
        """Whether the form is nothing but one base itself."""
        return self.is_pure and len(self.terms) == 1 and self.terms[0].weight is None and self.terms[0].start == 0

    @property
    def is_pure(self) -> bool:
        """Whether the form is a linear map of bases of the same node, so that aggregating it aggregates them."""
        return self.bias is None and all(term.coefficients == Identity() for term in self.terms)

    def __matmul__(self, matrix: FloatArray) -> Form:
        """The form followed by a linear map [width, outputs]."""
        if matrix.ndim != 2 or matrix.shape[0] != self.width:
            raise InputError(f"Expected a linear map with {self.width} rows (got shape {matrix.shape}).")
        bias = None if self.bias is None else self.bias @ matrix
        terms = _merge([term.mapped(matrix) for term in self.terms])
        return Form(terms, bias, matrix.shape[1], self.name)

    def __mul__(self, factor: float | FloatArray) -> Form:
        """Every column times a number, or times its own: factor is a number or [width]."""
        columns = np.broadcast_to(np.asarray(factor, dtype=np.float64), (self.width,))
        terms = []
        for term in self.terms:
            scale = columns[term.start : term.start + term.width]
            same = bool((scale == 1.0).all())
            terms.append(term if same else replace(term, weight=term.dense_weight * scale))
        return replace(self, terms=tuple(terms), bias=None if self.bias is None else self.bias * columns)

    __rmul__ = __mul__

    def __neg__(self) -> Form:
        """The form times -1."""
        return self * -1.0

    def __add__(self, other: Form | FloatArray | float | None) -> Form:
        """Another form of the same width, or a constant: a number or [width]; None adds nothing."""
        if other is None:
            return self
        if not isinstance(other, Form):
            constant = np.broadcast_to(np.asarray(other, dtype=np.float64), (self.width,))
            return replace(self, bias=constant.copy() if self.bias is None else self.bias + constant)
        if other.width != self.width:
            raise InputError(f"Expected a form of width {self.width} (got {other.width}).")
        bias = other.bias if self.bias is None else self.bias if other.bias is None else self.bias + other.bias
        terms = _merge([*self.terms, *other.terms])
        return Form(terms, bias, self.width, _name(self, other))

    __radd__ = __add__

    def __sub__(self, other: Form) -> Form:
        """Self plus the other's negative."""
        return self + -other

    def select(self, columns: IntArray) -> Form:
        """Some of the columns, in the given order."""
        return self @ np.eye(self.width)[:, columns]


def base_form(base: int, width: int, name: str) -> Form:
    """The form that is just this base."""
    return Form((Term(base, Identity(), None, width),), None, width, name)


def concatenate(forms: Sequence[Form]) -> Form:
    """Forms side by side."""
    starts = np.concatenate([[0], np.cumsum([form.width for form in forms])]).astype(int)
    terms = [
        replace(term, start=term.start + int(start))
        for form, start in zip(forms, starts[:-1], strict=True)
        for term in form.terms
    ]
    bias = None
    if any(form.bias is not None for form in forms):
        bias = np.concatenate([np.zeros(form.width) if form.bias is None else form.bias for form in forms])
    return Form(tuple(terms), bias, int(starts[-1]), _name(*forms))


def aggregated(form: Form, coefficients: Rule, reads: int | None = None) -> Form:
    """sum over U of coefficients[V, U] * form[U]; `form` must be pure."""
    if not form.is_pure:
        raise InputError("Only a linear map of bases can be aggregated; hold the form first.")
    return replace(form, terms=tuple(replace(t, coefficients=coefficients, reads=reads) for t in form.terms))


def _merge(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Terms that aggregate the same base in the same way become one."""
    merged: dict[tuple[object, ...], Term] = {}
    for term in terms:
        key = (term.base, term.coefficients, term.reads, term.start, term.width)
        if key in merged:
            term = replace(term, weight=merged[key].dense_weight + term.dense_weight)
        merged[key] = term
    return tuple(merged.values())


def _name(*forms: Form) -> str:
    """The first name that is not the features' own."""
    return next((form.name for form in forms if form.name != "x"), "x")

"""Form: an affine expression in values already computed, out of which layers are made.

    form[V] = sum over terms:  sum over U  a[V, U] * base[U] @ W     + bias

A `base` is a value that some layer of the Network holds as (a range of) its h. Reading a model turns each recorded
value into a form; an activation, or a second aggregation, turns a form into a new base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..activations import FloatArray
from ..coefficients import Coefficients, Identity


@dataclass(frozen=True, eq=False)
class Term:
    """One aggregation of one base."""

    base: int
    coefficients: Coefficients
    weight: FloatArray | None  # [base's width, form's width]; None for the identity


@dataclass(frozen=True, eq=False)
class Form:
    """A sum of terms and a bias."""

    terms: tuple[Term, ...]
    bias: FloatArray | None  # [width]
    width: int
    name: str  # the step of the user's model that it came from

    @property
    def is_base(self) -> bool:
        """Whether the form is nothing but one base itself."""
        return (
            self.bias is None
            and len(self.terms) == 1
            and self.terms[0].weight is None
            and self.terms[0].coefficients == Identity()
        )


def base_form(base: int, width: int, name: str) -> Form:
    """The form that is just this base."""
    return Form((Term(base, Identity(), None),), None, width, name)


def aggregate(form: Form, coefficients: Coefficients, weight: FloatArray, bias: FloatArray | None, name: str) -> Form:
    """sum over U of coefficients[V, U] * form[U] @ weight, plus bias; `form` must be a base."""
    if not form.is_base:
        raise ValueError("Only a base can be aggregated; make the form a base first.")
    term = replace(form.terms[0], coefficients=coefficients, weight=weight)
    return Form((term,), bias, weight.shape[1], name)

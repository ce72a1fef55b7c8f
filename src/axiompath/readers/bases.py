"""Form -> base: the values that the Network will hold, as they are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InputError
from ..network.activations import Activation, Product, product
from ..network.coefficients import Factor, Rule
from ..network.families import ColumnRule
from ..network.maxima import Highest
from .forms import Form, Term, aggregated, base_form, concatenate

RISEN = 10**6  # hops below what is made of whole graphs or pairs: more than any node has, so that all rise at once


@dataclass(frozen=True, eq=False)
class Base:
    """A value held by some layer: an activated form, and where the recording has it."""

    form: Form | None  # None for the node features
    activation: Activation | None
    width: int
    num_hops: int  # aggregations on the longest way from the node features
    recorded: int | None
    on_edges: bool = False  # whether it is of edges that are places

    @property
    def local(self) -> bool:
        """Whether it is made from values of its own node."""
        return self.form is None or all(term.coefficients.local for term in self.form.terms)


class Bases:
    """Grows by one base wherever a form has to become a value of its own."""

    def __init__(self) -> None:
        self.all: list[Base] = []
        self.held: dict[int, tuple[Form, Form]] = {}  # id of a form -> the form itself, and the base it became
        self.products: dict[int, tuple[Form, tuple[Form, ...]]] = {}  # id of a form -> the form itself, its factors

    def add(self, form: Form, activation: Activation | None, recorded: int | None = None) -> Form:
        """Make the (activated) form a base; an activation's constant is added back."""
        form = self._settle(self.of_one_kind(form))
        hops, on_edges = self.num_hops(form), self.is_on_edges(form)
        self.all.append(Base(form, activation, form.width, hops, recorded, on_edges))
        base = base_form(len(self.all) - 1, form.width, form.name)
        return base + activation.constant if activation is not None and activation.constant else base

    def hold(self, form: Form, recorded: int | None = None) -> Form:
        """The form as a base, made once however often it is needed."""
        if form.is_base:
            return form
        if id(form) not in self.held:
            self.held[id(form)] = (form, self.add(form, None, recorded))
        return self.held[id(form)][1]

    def aggregate(self, form: Form, rule: Rule, reads: Form | None = None) -> Form:
        """sum over U of rule[V, U] * form[U]; a rule that reads its inputs is shown `reads`, or the form itself."""
        if not rule.local and self.is_risen(form):
            raise InputError("passes messages after whole graphs or pairs were read out, which cannot be read.")
        if isinstance(rule, ColumnRule):
            return self.combine(form, [rule], form.width)
        if not rule.reads_inputs:
            return aggregated(form if form.is_pure else self.hold(form), rule)
        shown = self.hold(form if reads is None else reads)
        values = shown if reads is None else form if form.is_pure else self.hold(form)
        return aggregated(values, rule, shown.terms[0].base)

    def combine(self, form: Form, rules: Sequence[ColumnRule], width: int) -> Form:
        """The sum of what rules with a coefficient a column make of a form: held, since no map commutes with it."""
        shown = self.hold(form)
        base = shown.terms[0].base
        terms = tuple(Term(base, rule, None, width, 0, base) for rule in rules)
        return self.hold(Form(terms, None, width, form.name))

    def take_largest(self, forms: Sequence[Form], *, least: bool = False) -> Form:
        """The largest, or least, of several forms, column by column."""
        width = forms[0].width
        rules = [Highest(i, len(forms), width, least) for i in range(len(forms))]
        return self.combine(concatenate(forms), rules, width)

    def multiply(self, factors: Sequence[Form]) -> Form:
        """The product of forms, column by column; a factor that is a product itself is opened."""
        opened = [part for form in factors for part in self.products.get(id(form), (form, (form,)))[1]]
        # What undoing a path carries down goes on in the first factor: one that a positive number passes through.
        opened.sort(key=self._bends)
        parts = [self._as_factor(form, i) if i else form for i, form in enumerate(opened)]
        base = self.add(concatenate(parts), product(len(parts)))
        result = base @ np.vstack([np.eye(opened[0].width)] * len(parts))
        self.products[id(result)] = (result, tuple(opened))
        return result

    def of_one_kind(self, form: Form) -> Form:
        """The form, if it is only of nodes, or only of graphs or pairs."""
        if len({self._hops_of(term) >= RISEN for term in form.terms}) > 1:
            raise InputError(
                "mixes values of nodes with values of whole graphs or pairs, so that every node would have a path to "
                "every other; keep what is pooled apart from the nodes."
            )
        return form

    def is_risen(self, form: Form) -> bool:
        """Whether the form is of graphs or pairs rather than of nodes."""
        return self.num_hops(form) >= RISEN

    def is_on_edges(self, form: Form) -> bool:
        """Whether the form is of edges that are places."""
        return any(
            term.coefficients.to_edges or (term.coefficients.local and self.all[term.base].on_edges)
            for term in form.terms
        )

    def num_hops(self, form: Form) -> int:
        """Aggregations on the longest way from the node features to the form."""
        return max((self._hops_of(term) for term in form.terms), default=0)

    def _hops_of(self, term: Term) -> int:
        below = max(self.all[base].num_hops for base in (term.base, term.reads) if base is not None)
        return RISEN if term.coefficients.rises else below + (not term.coefficients.local)

    def _as_factor(self, form: Form, number: int) -> Form:
        # A bias beside it would be carried down with the first factor; what rules read is found by the base's number.
        if form.bias is not None or any(term.reads is not None for term in form.terms):
            form = self.hold(form)
        return replace(form, terms=tuple(replace(t, coefficients=Factor(t.coefficients, number)) for t in form.terms))

    def _bends(self, form: Form) -> bool:
        """Whether a positive number does not pass through all that the form is made of."""
        found, open_bases = set[int](), bases_of(form)
        while open_bases:
            i = open_bases.pop()
            found.add(i)
            base = self.all[i]
            if base.form is not None:
                open_bases |= bases_of(base.form) - found
        activations = [self.all[i].activation for i in found]
        return any(a is not None and (isinstance(a, Product) or not a.piecewise_linear) for a in activations)

    def _settle(self, form: Form) -> Form:
        """Give aggregations that happen in an earlier hop than the form itself a base there.

        They could wait, their inputs passed on until then, but a message belongs to the hop in which the model sends
        it, and a form that needs a value of the last hop as it is would else take one hop more.
        """
        top = self.num_hops(form)
        beside = any(term.coefficients.local and self._hops_of(term) == top for term in form.terms)
        early: dict[int, list[Term]] = {}
        terms = []
        for term in form.terms:
            hops = self._hops_of(term)
            if not term.coefficients.local and (beside or hops < top):
                early.setdefault(hops, []).append(term)
            else:
                terms.append(term)
        for group in early.values():
            start = min(term.start for term in group)
            width = max(term.start + term.width for term in group) - start
            part = Form(tuple(replace(t, start=t.start - start) for t in group), None, width, form.name)
            terms.append(replace(self.add(part, None).terms[0], start=start))
        return replace(form, terms=tuple(terms))


def bases_of(form: Form) -> set[int]:
    """The bases that a form is made of."""
    return {base for term in form.terms for base in (term.base, term.reads) if base is not None}

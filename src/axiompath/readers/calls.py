"""A module's call -> Form: what a reader is given, and the table of readers by exact type.

A reader writes the module's mathematics down in forms:

    @register_reader(MyConv)
    def read_my_conv(conv, call):
        return call.linear(conv.lin, call.aggregate(call.x, Mean())) + call.x

A subclass may compute anything, so it is not read as its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import nn

from ..arrays import FloatArray
from ..errors import WrongKind
from ..network.activations import Activation
from ..network.coefficients import Identity, Rule
from ..network.maxima import Extreme
from ..network.relations import OfRelation
from ..network.softmaxes import ColumnSoftmax
from .bases import Bases
from .forms import Form, concatenate
from .tape import UnreadableModel


@dataclass(frozen=True)
class Call:
    """How the model called a module: on which features, with which edges; and what can be done to forms."""

    x: Form
    weighted: bool  # whether edge weights came along
    name: str  # dotted name and type, for messages
    others: dict[str, Any]  # further arguments that were given
    bases: Bases
    run: Callable[[Any, Form, str], Form]  # a whole inner network on a form; the text is its attribute's name
    taken: set[str] = field(default_factory=set)  # further arguments that the reader has asked for, and "sent"
    typed: bool = False  # whether the relation of each edge came along
    relation: OfRelation | None = None  # along whose edges messages run, of any rule; None for all
    senders: Form | None = None  # what senders have, where they are other nodes than receivers

    @property
    def sent(self) -> Form:
        """What the senders have: the features, or, between nodes of two types, those of the other one."""
        self.taken.add("sent")
        return self.x if self.senders is None else self.senders

    @property
    def shown(self) -> Form:
        """What a rule that reads features is shown of both ends: the features, or both side by side."""
        self.taken.add("sent")
        return self.hold(self.x if self.senders is None else concatenate([self.senders, self.x]))

    def of_sent(self, weight: FloatArray) -> FloatArray:
        """A map (or a direction) of what is sent, as one of what is shown."""
        return weight if self.senders is None else np.concatenate([weight, np.zeros((self.x.width, *weight.shape[1:]))])

    def of_own(self, weight: FloatArray) -> FloatArray:
        """The same of what the receiver has."""
        if self.senders is None:
            return weight
        return np.concatenate([np.zeros((self.senders.width, *weight.shape[1:])), weight])

    def argument(self, name: str) -> Any:
        """A further argument of the module by its name: a Form if it is features, None if it was not given."""
        self.taken.add(name)
        return self.others.get(name)

    def aggregate(self, form: Form, rule: Rule, reads: Form | None = None) -> Form:
        """sum over U of rule[V, U] * form[U]; a rule that reads features is shown `reads`, or the form itself."""
        if not isinstance(rule, Rule):
            self.refuse(
                f"its reader aggregates by {type(rule).__name__}, which does not say what a rule says; let it extend "
                "axiompath.network.coefficients.Rule."
            )
        if self.relation is None or not rule.reads_edges:
            return self.bases.aggregate(form, rule, reads)
        # A maximum, or a softmax of each column, is taken over the entries of a rule, and these are of one relation.
        within: Rule = replace(self.relation, rule=rule)
        if isinstance(rule, (Extreme, ColumnSoftmax)):
            within = replace(rule, rule=replace(self.relation, rule=rule.rule))
        found = self.bases.aggregate(form, within, reads)
        ends = self.relation.ends
        if rule.local or ends is None:
            return found
        return replace(found, node_type=None if rule.to_edges else ends[1])  # an edge is of no node type

    def within(self, relation: int) -> Call:
        """The same call, only along the edges of one relation, of a graph whose nodes have no types."""
        return replace(self, relation=OfRelation(Identity(), relation))

    def activate(self, form: Form, activation: Activation) -> Form:
        """An element-wise function of a form."""
        return self.bases.add(form, activation)

    def hold(self, form: Form) -> Form:
        """The form as a value of its own; worth it where several later hops need it."""
        return self.bases.hold(form)

    def multiply(self, *factors: Form) -> Form:
        """The product of forms of one width, column by column."""
        return self.bases.multiply(factors)

    def linear(self, linear: Any, form: Form) -> Form:
        """A Linear module on a form: anything with `weight` [outputs, inputs] and `bias`."""
        return form @ transposed(linear.weight) + vector(getattr(linear, "bias", None))

    def refuse(self, reason: str) -> NoReturn:
        """Stop reading: say what is in the way, then what to do."""
        raise UnreadableModel(f"{self.name}: {reason}")


@dataclass(frozen=True)
class TypedModule(Call):
    """How a module was called that takes the features of all types and the edges of all relations at once."""

    forms: dict[str, Form] = field(default_factory=dict)  # by node type, in the order in which they were given
    along: dict[tuple[str, str, str], OfRelation] = field(default_factory=dict)  # by relation, likewise

    def receive(self, form: Form, rule: Rule, relation: OfRelation, reads: Form) -> Form:
        """`aggregate` along one relation; the rule may see the edges of others, too."""
        assert relation.ends is not None
        return replace(self.bases.aggregate(form, rule, reads), node_type=relation.ends[1])


Reader = Callable[[Any, Any], Any]  # (module, call) -> Form; of all types at once, a Form for each
AnyReader = TypeVar("AnyReader", bound=Reader)

READERS: dict[type[nn.Module], Reader] = {}


def register_reader(*types: type[nn.Module]) -> Callable[[AnyReader], AnyReader]:
    """Decorate a function (module, call) -> Form to read modules of exactly these types.

    A wrong reader does no harm: whatever it says is compared with the model's own output on both snapshots.
    """
    for kind in types:
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            raise WrongKind(f"Expected a class of torch.nn.Module to register a reader for (got {kind!r}).")
    if not types:
        raise WrongKind("Expected at least one class: `@register_reader(MyConv)`.")

    def register(reader: AnyReader) -> AnyReader:
        READERS.update(dict.fromkeys(types, reader))
        return reader

    return register


def own_reader(module: Any) -> Reader | None:
    """The reader that a user registered for the exact type of a module."""
    reader = READERS.get(type(module))
    return None if reader is None or reader.__module__.startswith(__package__) else reader


def transposed(weight: torch.Tensor) -> FloatArray:
    """A torch weight [outputs, inputs] as the normal form's [inputs, outputs], float64."""
    return np.ascontiguousarray(array(weight).T)


def vector(bias: torch.Tensor | None) -> FloatArray | None:
    """A torch bias as float64, or None."""
    return None if bias is None else array(bias)


def array(tensor: torch.Tensor) -> FloatArray:
    """A copy of a torch tensor, float64."""
    return tensor.detach().cpu().double().numpy().copy()

"""A module whose operations have no reading -> Form: what a reader of one's own is given, and how it is registered.

A reader writes the module's mathematics down in forms:

    @register_reader(MyConv)
    def read_my_conv(conv, call):
        return call.linear(conv.lin, call.aggregate(call.x, Mean())) + call.x

A subclass may compute anything, so it is not read as its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import nn

from ..arrays import FloatArray
from ..errors import WrongKind
from ..network.activations import Activation
from ..network.coefficients import Rule
from .bases import Bases
from .forms import Form
from .refusals import UnreadableModel


@dataclass(frozen=True)
class Call:
    """How the model called a module: on which features, with which edges; and what can be done to forms."""

    x: Form
    weighted: bool  # whether edge weights came along
    name: str  # dotted name and type, for messages
    others: dict[str, Any]  # further arguments that were given
    bases: Bases
    run: Callable[[Any, Form, str], Form]  # a whole inner network on a form; the text is its attribute's name
    taken: set[str] = field(default_factory=set)  # further arguments that the reader has asked for

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
        return self.bases.aggregate(form, rule, reads)

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
        bias = getattr(linear, "bias", None)
        return form @ np.ascontiguousarray(_array(linear.weight).T) + (None if bias is None else _array(bias))

    def refuse(self, reason: str) -> NoReturn:
        """Stop reading: say what is in the way, then what to do."""
        raise UnreadableModel(f"{self.name}: {reason}")


Reader = Callable[[Any, Call], Form]  # (module, call) -> Form
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
    """The reader that was registered for the exact type of a module."""
    return READERS.get(type(module))


def _array(tensor: torch.Tensor) -> FloatArray:
    """A copy of a torch tensor, float64."""
    return tensor.detach().cpu().double().numpy().copy()

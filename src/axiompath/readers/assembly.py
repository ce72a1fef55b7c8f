"""Recording -> Network: recorded steps become forms, forms become layers.

A base made of bases of level t - 1 and below lives in layer t. A base that a later layer still needs is passed
through the layers between on columns of its own, by the identity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..activations import Activation
from ..coefficients import Identity
from ..network import Block, Channel, Layer, Network
from .convolutions import READERS, Call
from .forms import Form, base_form
from .functions import ACTIVATIONS, FINAL, UNCHANGED, check_dropout
from .recording import EDGE_INDEX, EDGE_WEIGHT, Recording, Ref, Step, UnreadableModel, X, place_of

INPUT = 0


@dataclass(frozen=True, eq=False)
class Base:
    """A value held by layer `level`: an activated form, and where the recording has it."""

    form: Form | None  # None for the node features
    activation: Activation | None
    width: int
    level: int
    recorded: int | None


@dataclass(frozen=True, eq=False)
class Reading:
    """The Network, and the recorded value that its logits must equal."""

    network: Network
    logits: Ref


class Assembler:
    """Turns the steps of one recording, in order, into forms and bases."""

    def __init__(self, num_features: int) -> None:
        self.bases = [Base(None, None, num_features, 0, None)]
        self.forms: dict[Ref, Form] = {X: base_form(INPUT, num_features, "x")}
        self.final: dict[Ref, Ref] = {}  # a dropped softmax -> the logits it was given

    def add_base(self, form: Form, activation: Activation | None, recorded: Ref | None) -> Form:
        """Make the (activated) form a value of its own, one layer above all that it is made of."""
        level = 1 + max((self.bases[term.base].level for term in form.terms), default=0)
        self.bases.append(Base(form, activation, form.width, level, recorded.index if recorded else None))
        return base_form(len(self.bases) - 1, form.width, form.name)

    def form_of(self, argument: object, step: Step) -> Form:
        """The form of a step's argument."""
        if isinstance(argument, Ref) and argument in self.forms:
            return self.forms[argument]
        if isinstance(argument, Ref) and argument in self.final:
            raise UnreadableModel(
                f"{place_of(step.where, step.operation)}: works on probabilities; only a softmax at the very end of "
                "a model can be read."
            )
        raise UnreadableModel(
            f"{place_of(step.where, step.operation)}: expected node features as its input "
            f"(got {'the edges' if argument in (EDGE_INDEX, EDGE_WEIGHT) else type(argument).__name__})."
        )

    def read(self, step: Step) -> None:
        """Add the form of one step."""
        name = place_of(step.where, step.operation)
        function = step.operation.rstrip("_") if not step.operation.startswith("__") else step.operation
        if step.module is not None:
            self.forms[step.output] = self.read_module(step, name)
        elif function in ACTIVATIONS:
            argument = step.args[0] if step.args else step.kwargs["input"]
            kwargs = {key: value for key, value in step.kwargs.items() if key != "input"}
            activation = ACTIVATIONS[function](argument, *step.args[1:], **kwargs)
            self.forms[step.output] = self.add_base(self.form_of(argument, step), activation, step.output)
        elif "dropout" in function:
            check_dropout(name, *step.args, **step.kwargs)
            self.forms[step.output] = self.form_of(step.args[0], step)
        elif function in UNCHANGED:
            self.forms[step.output] = self.form_of(step.args[0], step)
        elif function in FINAL:
            self.form_of(step.args[0], step)
            self.final[step.output] = step.args[0]
        else:
            raise UnreadableModel(
                f"{name}: the function `{step.operation}` on node features or edges cannot be read; supported are "
                f"convolutions of type {', '.join(sorted(t.__name__ for t in READERS))}, dropout and the activations "
                f"{', '.join(sorted(ACTIVATIONS))}."
            )

    def read_module(self, step: Step, name: str) -> Form:
        """A convolution: find its reader by exact type, check how it was called."""
        reader = READERS.get(type(step.module))
        if step.module is None or reader is None:
            raise UnreadableModel(
                f"{name}: no reader for this message-passing layer; supported are "
                f"{', '.join(sorted(t.__name__ for t in READERS))}."
            )
        arguments = dict(zip(("x", "edge_index", "edge_weight"), step.args, strict=False)) | step.kwargs
        if arguments.get("edge_index") != EDGE_INDEX:
            raise UnreadableModel(
                f"{name}: expected the edge_index that the model was given (got another one); "
                "edges that the model adds or drops itself cannot be read."
            )
        weight = arguments.get("edge_weight")
        if weight is not None and weight != EDGE_WEIGHT:
            raise UnreadableModel(
                f"{name}: expected the edge_weight that the model was given, or none (got another one)."
            )
        form = self.form_of(arguments.get("x"), step)
        x = form if form.is_base else self.add_base(form, None, None)
        return reader(step.module, Call(x, weight is not None, name))


def assemble_network(recording: Recording, num_features: int) -> Reading:
    """Read every step, then lay the bases out in layers."""
    assembler = Assembler(num_features)
    for step in recording.steps:
        assembler.read(step)
    logits = assembler.final.get(recording.output, recording.output)
    if logits not in assembler.forms:
        raise UnreadableModel("Expected the model to return logits [num_nodes, num_classes] (got its edges).")
    # One more base even where the last step was an activation: the last layer is the identity.
    assembler.add_base(assembler.forms[logits], None, logits)
    network = Network(_lay_out(assembler.bases), num_features)
    if network.num_hops == 0:
        raise UnreadableModel("The model has no message-passing layer, so no path of the graph reaches its output.")
    return Reading(network, logits)


def _lay_out(bases: list[Base]) -> tuple[Layer, ...]:
    depth = bases[-1].level
    last_use = [0] * len(bases)
    for base in bases[1:]:
        assert base.form is not None
        for term in base.form.terms:
            last_use[term.base] = max(last_use[term.base], base.level)
    last_use[-1] = depth
    layers: list[Layer] = []
    columns = {INPUT: slice(0, bases[INPUT].width)}
    for level in range(1, depth + 1):
        held = [
            i
            for i, base in enumerate(bases)
            if (base.level == level and last_use[i] >= level) or (base.level < level < last_use[i])
        ]
        ends = np.cumsum([bases[i].width for i in held])
        places = {i: slice(int(end) - bases[i].width, int(end)) for i, end in zip(held, ends, strict=True)}
        layers.append(_make_layer(bases, level, places, columns, int(ends[-1])))
        columns = places
    return tuple(layers)


def _make_layer(
    bases: list[Base], level: int, places: dict[int, slice], columns: dict[int, slice], width: int
) -> Layer:
    channels: list[Channel] = []
    blocks: list[Block] = []
    bias = np.zeros(width)
    for i, outputs in places.items():
        base = bases[i]
        if base.form is None or base.level < level:
            channels.append(Channel(Identity(), None, columns[i], outputs))
            continue
        channels += [Channel(term.coefficients, term.weight, columns[term.base], outputs) for term in base.form.terms]
        if base.form.bias is not None:
            bias[outputs] = base.form.bias
        blocks.append(Block(outputs, base.activation, base.form.name, base.recorded))
    return Layer(tuple(channels), bias if bias.any() else None, tuple(blocks), width)

"""Recording -> Network: recorded steps become forms, forms become bases, bases are laid out in layers."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch_geometric.nn import MessagePassing

from ..network import Network
from . import attention, convolutions, norms, propagation  # noqa: F401 (each registers its readers)
from .bases import Bases
from .calls import READERS, Call, Reader
from .forms import Form
from .functions import ACTIVATIONS, AFFINE, FINAL, Place, Unsupported, Value, check_dropout, check_final
from .layout import lay_out
from .recording import (
    EDGE_INDEX,
    EDGE_WEIGHT,
    Recording,
    Ref,
    Step,
    UnreadableModel,
    X,
    refs_in,
)
from .refusals import REASONS
from .running import record_inner


@dataclass(frozen=True)
class Note:
    """How one step was read."""

    where: str
    operation: str
    how: str
    num_hops: int = 0


# What AFFINE does is folded into neighbours, with these exceptions.
NOTES = {
    "layer_norm": "centred, then a coefficient of each node",
    "rms_norm": "a coefficient of each node",
    "stack": "layers to be added up",
} | dict.fromkeys(("contiguous", "clone", "detach", "to", "float", "double", "data"), "nothing")


@dataclass(frozen=True, eq=False)
class Reading:
    """The Network, and the recorded value that its logits must equal."""

    network: Network
    logits: Ref


def leaves() -> tuple[type, ...]:
    """Modules that are read as a whole rather than looked into."""
    return (*READERS, *REASONS)


class Assembler:
    """Turns the steps of one recording, in order, into forms and bases."""

    def __init__(self, recording: Recording, bases: Bases, x: Form, notes: list[Note], inner: bool = False) -> None:
        self.recording = recording
        self.bases = bases
        self.values: dict[Ref, Value] = {X: x}
        self.final: dict[Ref, Ref] = {}  # a dropped softmax -> the logits it was given
        self.uses = Counter(ref for step in recording.steps for ref in refs_in((step.args, step.kwargs)))
        self.edges = {EDGE_INDEX, EDGE_WEIGHT}  # and what was made of them alone
        self.notes = notes
        self.inner = inner  # the values of an inner network's recording are of no meaning

    def read_all(self) -> Ref:
        """Read every step; returns which value holds the logits."""
        for step in self.recording.steps:
            self.read(step)
        return self.final.get(self.recording.output, self.recording.output)

    def read(self, step: Step) -> None:
        """Add the values of one step; a refusal says in which module."""
        try:
            self.read_step(step)
        except Unsupported as reason:
            error = UnreadableModel(f"{step.name}: {reason}")
            error.where = step.where
            raise error from None
        except UnreadableModel as error:
            error.where = step.where if error.where is None else error.where
            raise

    def read_step(self, step: Step) -> None:
        """Find out what kind of step it is."""
        operation = step.operation
        function = operation if operation.startswith("__") else operation.rstrip("_")
        if refs_in((step.args, step.kwargs)) <= self.edges:
            self.edges.update(step.outputs)  # refused where features meet them
            return
        if step.module is not None:
            self.keep(step.outputs[0], self.read_module(step, step.module))
            return
        args, kwargs = self.resolve(step.args, step), self.resolve(step.kwargs, step)
        if "dropout" in function:
            check_dropout(*args, **kwargs)
            self.write(step, AFFINE["clone"](self.place(step), args[0]), "nothing at evaluation")
        elif function in ACTIVATIONS:
            form = args[0] if args else kwargs.pop("input")
            activation = ACTIVATIONS[function](form, *args[1:], **kwargs)
            recorded = None if self.inner else step.outputs[0].index
            self.write(step, self.bases.add(self.form_of(form, step), activation, recorded), f"activation {function}")
        elif function in FINAL:
            check_final(*args, **kwargs)
            given = step.args[0] if step.args else step.kwargs["input"]
            self.form_of(self.resolve(given, step), step)
            self.final[step.outputs[0]] = given
            self.notes.append(Note(step.where, operation, "dropped: explanations speak of logits"))
        elif function in AFFINE:
            try:
                inspect.signature(AFFINE[function]).bind(None, *args, **kwargs)
            except TypeError as error:
                raise Unsupported(f"was called in a way that cannot be read ({error}).") from None
            how = NOTES.get(function, "affine, folded into what comes before or after")
            self.write(step, AFFINE[function](self.place(step), *args, **kwargs), how)
        else:
            raise Unsupported(
                f"the function `{operation}` on node features or edges cannot be read; supported are convolutions of "
                f"type {supported_modules()}, the activations {', '.join(sorted(ACTIVATIONS))}, and sums, "
                "concatenations and linear maps. Move it out of the model, or into a module with a registered reader."
            )

    def write(self, step: Step, result: Value | tuple[Form, ...], how: str) -> None:
        """Note down what a step gave."""
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(step.outputs):
            raise Unsupported(f"expected {len(results)} results (got {len(step.outputs)}).")
        for output, value in zip(step.outputs, results, strict=True):
            self.keep(output, value)
        self.notes.append(Note(step.where, step.operation, how))

    def keep(self, output: Ref, value: Value) -> None:
        """Remember a value; one that several steps use is made a base, rather than carrying its sources on to each."""
        if isinstance(value, Form) and self.uses[output] > 1 and not self.bases.is_light(value):
            value = self.bases.hold(value, None if self.inner else output.index)
        self.values[output] = value

    def place(self, step: Step) -> Place:
        """What a function may need to know besides its arguments."""
        shape = self.recording.values[step.outputs[0].index].shape if step.outputs else ()
        return Place(self.bases, self.recording.num_nodes, tuple(shape))

    def resolve(self, argument: Any, step: Step) -> Any:
        """The argument with every Ref in it replaced by what it stands for."""
        if isinstance(argument, (tuple, list)):
            parts = [self.resolve(part, step) for part in argument]
            return parts if isinstance(argument, list) else tuple(parts)
        if isinstance(argument, dict):
            return {key: self.resolve(part, step) for key, part in argument.items()}
        if not isinstance(argument, Ref):
            return argument
        if argument in self.final:
            raise Unsupported("works on probabilities; only a softmax at the very end of a model can be read.")
        if argument not in self.values:
            raise Unsupported(
                "works on the edges; edges that the model adds, drops or weighs itself cannot be read, so change "
                "them in the data before."
            )
        value = self.values[argument]
        return self.bases.latest(value) if isinstance(value, Form) else value

    def form_of(self, value: Any, step: Step) -> Form:
        """A step's argument, if it is features."""
        if isinstance(value, Form):
            return value
        raise Unsupported(f"expected features of shape [num_nodes, width] (got {type(value).__name__}).")

    def read_module(self, step: Step, module: nn.Module) -> Form:
        """A module that is read as a whole: find its reader by exact type, check how it was called."""
        if type(module) in REASONS:
            raise Unsupported(REASONS[type(module)])
        reader = READERS.get(type(module))
        if reader is None:
            raise Unsupported(
                f"no reader for this message-passing layer; supported are {supported_modules()}. "
                "Use one of those, or add a reader with axiompath.register_reader."
            )
        arguments = inspect.signature(type(module).forward).bind(module, *step.args, **step.kwargs).arguments
        features = list(arguments.items())[1][1]
        if isinstance(features, tuple) and len(features) == 2 and features[0] is features[1]:
            features = features[0]
        self.check_arguments(dict(list(arguments.items())[2:]), module)
        form = self.form_of(self.resolve(features, step), step)
        if isinstance(module, MessagePassing) and not form.is_pure:
            form = self.bases.hold(form)  # what is aggregated and what skips the aggregation are the same value then
        hops = self.bases.num_hops(form)
        call = Call(form, arguments.get("edge_weight") is not None, step.name, self.bases, self.read_inner(step))
        result = replace(self.call_reader(reader, module, call), name=step.name)
        if len(step.outputs) != 1:
            raise Unsupported("returns its attention as well; call it without return_attention_weights.")
        kind = "convolution" if isinstance(module, MessagePassing) else "read as a whole"
        self.notes.append(Note(step.where, step.operation, kind, self.bases.num_hops(result) - hops))
        return result

    def call_reader(self, reader: Reader, module: nn.Module, call: Call) -> Form:
        """A registered reader may be anyone's, so what goes wrong in it is named."""
        try:
            result: object = reader(module, call)
        except (UnreadableModel, Unsupported):
            raise
        except Exception as error:
            raise Unsupported(f"its reader failed: {type(error).__name__}: {error}") from error
        if not isinstance(result, Form):
            raise Unsupported(f"its reader returned {type(result).__name__}, expected a Form.")
        return result

    def check_arguments(self, arguments: dict[str, Any], module: nn.Module) -> None:
        """Edges must be those that the model was given; whatever else a module may take must be left out."""
        if isinstance(module, MessagePassing) and arguments.get("edge_index") != EDGE_INDEX:
            raise Unsupported(
                "expected the edge_index that the model was given (got another one); "
                "edges that the model adds or drops itself cannot be read, so change them in the data before."
            )
        for name, value in arguments.items():
            if name == "edge_weight" and value is not None and value != EDGE_WEIGHT:
                raise Unsupported("expected the edge_weight that the model was given, or none (got another one).")
            if name in ("edge_attr", "edge_features") and value is not None:
                raise Unsupported(
                    "was called with edge features, which are not a part of a path of nodes; "
                    "train without them, or put weights into edge_weight of a convolution that takes it."
                )
            if name not in ("edge_index", "edge_weight") and value is not None:
                raise Unsupported(f"was called with `{name}`, which cannot be read; leave it out.")

    def read_inner(self, step: Step) -> Any:
        """How a reader has a network inside its module read."""

        def read(inner: Any, form: Form, name: str) -> Form:
            dotted = f"{step.where}.{name}" if step.where else name
            recording = record_inner(inner, form.width, self.recording.dtype, leaves(), dotted)
            inside = Assembler(recording, self.bases, form, self.notes, inner=True)
            return inside.form_of(inside.values[inside.read_all()], step)

        return read


def assemble_network(recording: Recording, num_features: int, notes: list[Note] | None = None) -> Reading:
    """Read every step, then lay the bases out in layers; `notes` are written as the reading goes on."""
    bases = Bases(num_features)
    notes = [] if notes is None else notes
    assembler = Assembler(recording, bases, bases.features, notes)
    logits = assembler.read_all()
    if logits not in assembler.values:
        raise UnreadableModel("Expected the model to return logits [num_nodes, num_classes] (got its edges).")
    result = assembler.values[logits]
    if not isinstance(result, Form):
        raise UnreadableModel("Expected the model to return logits [num_nodes, num_classes] (got stacked layers).")
    # One more base even where the last step was an activation: the last layer is the identity.
    bases.add(result, None, logits.index)
    network = Network(lay_out(bases.all), num_features)
    if network.num_hops == 0:
        raise UnreadableModel("The model has no message-passing layer, so no path of the graph reaches its output.")
    return Reading(network, logits)


def supported_modules() -> str:
    """Names of all modules with a reader."""
    return ", ".join(sorted(kind.__name__ for kind in READERS))

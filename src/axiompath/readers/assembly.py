"""Recording -> Network: recorded steps become forms, forms become bases, bases are laid out in layers."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType
from typing import Any

import torch
from torch import nn
from torch_geometric.nn import DirGNNConv, GPSConv, MessagePassing

from ..errors import InputError
from ..graphs.data_fields import PLAIN_FIELDS, Fields
from ..graphs.schema import relation_of_field
from ..network.coefficients import Identity
from ..network.layers import Network
from ..network.relations import OfRelation, OfType
from ..outputs import AUTO
from . import (  # noqa: F401 (each registers its readers)
    attention_layers,
    convolutions,
    edge_messages,
    everywhere,
    gates,
    lookups,
    norms,
    points,
    propagation,
    typed_layers,
)
from .arguments import INPUTS
from .bases import Bases
from .calls import READERS, Call, Reader, TypedModule
from .columns import SEPARATE, find_output, last_step
from .elementwise import ACTIVATIONS, FINAL, Unsupported, check_dropout, check_final
from .forms import Form
from .functions import AFFINE, COPIES, ENDS, MEMBERS, SIZES, Marker, Place, Value, form_of
from .largest import LARGEST
from .layout import lay_out
from .products import PRODUCTS
from .refusals import REASONS
from .tape import EDGE_FIELDS, EDGE_INDEX, RecordedStep, Recording, Ref, UnreadableModel, X, quoted, refs_in
from .trial import record_inner


@dataclass(frozen=True)
class Note:
    """How one step was read."""

    where: str
    operation: str
    how: str
    num_hops: int = 0


UNKNOWN = "was called with {}, which its reader does not know; leave it out."
TWO_ENDS = (
    "is given other features of senders than of receivers, a pair (x_src, x_dst), which is read of other convolutions "
    "but not of this one; use SAGEConv, GraphConv, GATConv or TransformerConv between nodes of two kinds."
)

PAIRS = Marker(ENDS)
MARKED = {"batch": Marker(MEMBERS), "edge_label_index": PAIRS}  # fields that say what is predicted, and of what
KEPT = COPIES | {"expand", "expand_as", "unsqueeze"}

LARGEST_READ = "a maximum: a coefficient a column, of who holds it"
PRODUCT_READ = "product, shared by its factors"
# What AFFINE does is folded into neighbours, with these exceptions.
HOW_READ = {
    "layer_norm": "centred, then a coefficient of each node",
    "rms_norm": "a coefficient of each node",
    "normalize": "a coefficient of each node",
    "stack": "layers to be added up",
} | dict.fromkeys(("contiguous", "clone", "detach", "to", "float", "double", "data"), "nothing")


@dataclass(frozen=True, eq=False)
class Reading:
    """The Network, and the recorded value that its logits must equal."""

    network: Network
    logits: dict[int | None, Ref]  # by node type, where nodes have types
    fields: Fields


class Assembler:
    """Turns the steps of one recording, in order, into forms and bases."""

    def __init__(
        self, recording: Recording, bases: Bases, inputs: Mapping[Ref, Form], notes: list[Note], inner: bool = False
    ) -> None:
        self.recording = recording
        self.bases = bases
        self.values: dict[Ref, Value] = dict(inputs)
        self.final: dict[Ref, Ref] = {}  # a dropped softmax -> the logits it was given
        self.uses = Counter(ref for step in recording.steps for ref in refs_in((step.args, step.kwargs)))
        self.same: dict[Ref, Ref] = {}  # a value outside of the features -> the one that it is a copy of
        about = recording.fields if recording.typed is None else recording.typed.about
        self.marks = {ref: MARKED[name] for ref, name in about.items() if name in MARKED}
        self.edges = edges_of(recording)
        self.weights: set[str] = set()  # fields that serve as weights of edges
        self.types: set[str] = set()  # fields that serve as types of edges
        self.notes = notes
        self.last: RecordedStep | None = None  # a sigmoid at the end of the model, which is left off
        self.inner = inner  # the values of an inner network's recording are of no meaning

    def read_all(self) -> dict[int | None, Ref]:
        """Read every step; returns which value holds the logits, by node type where nodes have types."""
        # A lookup explains why whole numbers were made of features before it, so it is named rather than they.
        bags = [step for step in self.recording.steps if isinstance(step.module, nn.EmbeddingBag)]
        for step in (*bags, *self.recording.steps):
            self.read(step)
        return {kind: self.final.get(output, output) for kind, output in self.recording.outputs.items()}

    def read(self, step: RecordedStep) -> None:
        """Add the values of one step; a refusal says in which module."""
        try:
            self.read_step(step)
        except UnreadableModel as refusal:
            refusal.where = step.where if refusal.where is None else refusal.where
            raise
        except MemoryError:
            raise
        except Exception as error:
            # A call that our tables do not foresee must not look like a fault of the user's.
            reason = str(error)
            if not isinstance(error, (Unsupported, InputError)):
                reason = f"cannot be read as it was called ({error})."
            given = {self.recording.fields.get(ref, "x") for ref in refs_in((step.args, step.kwargs))}
            shown = {name for name in given - {"x", *EDGE_FIELDS} if f"`{name}`" not in reason}
            reason += f" (The step is given {quoted(shown)} of the data.)" if shown else ""
            named = UnreadableModel(f"{step.name}: {reason}")
            named.where = step.where
            raise named from error

    def read_step(self, step: RecordedStep) -> None:
        """Find out what kind of step it is."""
        operation = step.operation
        function = operation if operation.startswith("__") else operation.rstrip("_")
        given = refs_in((step.args, step.kwargs))
        if given <= self.recording.outside.keys():
            if isinstance(step.module, MessagePassing):
                raise Unsupported(
                    "is given features that do not come from `x`, such as an embedding of every node; put them into "
                    "`x` of the data, and pass `x` to the convolution."
                )
            self.note_copy(step, function)  # refused where features meet them
            self.note_mark(step, function)
            if isinstance(step.module, (NoneType, nn.Embedding)) and given <= self.values.keys():
                # What is made only of edge features; whatever is not read is refused where features meet it, too.
                with suppress(InputError):
                    self.read_known(step, function)
            return
        self.read_known(step, function)

    def read_known(self, step: RecordedStep, function: str) -> None:
        """A module or a function on values that are known."""
        if step.module is None:
            self.read_function(step, function)
            return
        for output, form in zip(step.outputs, self.read_module(step, step.module), strict=True):
            self.keep(output, form)

    def read_function(self, step: RecordedStep, function: str) -> None:
        """A torch function on values that are forms."""
        if function in COPIES and step.args and step.args[0] in self.final:
            self.final[step.outputs[0]] = self.final[step.args[0]]  # another shape of what was dropped
            return
        args, kwargs = self.resolve(step.args), self.resolve(step.kwargs)
        if not args and "input" in kwargs:
            args = (kwargs.pop("input"),)
        if "dropout" in function:
            check_dropout(*args, **kwargs)
            self.write(step, AFFINE["clone"](self.place(step), args[0]), "nothing at evaluation")
        elif step is self.last:
            self.drop(step)
        elif function in ACTIVATIONS:
            activation = ACTIVATIONS[function](*args, **kwargs)
            bent = self.bases.add(form_of(args[0]), activation, self.recorded(step.outputs[0]))
            self.write(step, bent, f"activation {function}")
        elif function in FINAL:
            if self.inner:
                raise Unsupported("a softmax inside a convolution is no affine map and no activation; leave it out.")
            check_final(*args, **kwargs)
            self.drop(step)
        elif function in AFFINE:
            result = AFFINE[function](self.place(step), *args, **kwargs)
            self.write(step, result, self.how_read(function, args, result))
        elif function in PRODUCTS:
            self.write(step, PRODUCTS[function](self.place(step), *args, **kwargs), PRODUCT_READ)
        elif function in LARGEST:
            self.write(step, LARGEST[function](self.place(step), *args, **kwargs), LARGEST_READ)
        else:
            raise Unsupported(
                f"the function `{step.operation}` on node features or edges cannot be read; move it out of the model, "
                "or into a module with a registered reader."
            )

    def how_read(self, function: str, args: tuple[Any, ...], result: Value | tuple[Form, ...]) -> str:
        """What is said of a function that AFFINE has."""
        if id(result) in self.bases.products:
            return PRODUCT_READ
        given = args[-1] if function in ("scatter_add", "index_add") else args[0] if args else None
        rises = isinstance(result, Form) and self.bases.is_risen(result)
        if rises and isinstance(given, Form) and not self.bases.is_risen(given):
            return "from nodes to graphs or pairs"
        return HOW_READ.get(function, "affine, folded into what comes before or after")

    def drop(self, step: RecordedStep) -> None:
        """A softmax or sigmoid at the end: the logits that it was given are the output."""
        given = step.args[0] if step.args else step.kwargs["input"]
        form_of(self.resolve(given))
        self.final[step.outputs[0]] = given
        self.notes.append(Note(step.where, step.operation, "dropped: explanations speak of logits"))

    def write(self, step: RecordedStep, result: Value | tuple[Form, ...], how: str) -> None:
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
            value = self.bases.hold(value, self.recorded(output))
        self.values[output] = value

    def recorded(self, output: Ref) -> int | None:
        """Where a run of the model has this value; those outside of the features are numbered anew in every run."""
        return None if self.inner or output in self.recording.outside else output.index

    def place(self, step: RecordedStep) -> Place:
        """What a function may need to know besides its arguments."""
        shape = self.recording.values[step.outputs[0].index].shape if step.outputs else ()
        looks_up = any(isinstance(other.module, nn.Embedding) for other in self.recording.steps)
        return Place(self.bases, self.recording.num_nodes, tuple(shape), looks_up)

    def resolve(self, argument: Any) -> Any:
        """The argument with every Ref in it replaced by what it stands for."""
        if isinstance(argument, (tuple, list)):
            parts = [self.resolve(part) for part in argument]
            return parts if isinstance(argument, list) else tuple(parts)
        if isinstance(argument, dict):
            return {key: self.resolve(part) for key, part in argument.items()}
        if not isinstance(argument, Ref):
            return argument
        if argument in self.final:
            raise Unsupported("works on probabilities; only a softmax at the very end of a model can be read.")
        if argument in self.marks:
            return self.marks[argument]
        if argument not in self.values:
            names = self.recording.outside.get(argument, frozenset()) - EDGE_FIELDS
            if names:
                raise Unsupported(
                    f"mixes features with {quoted(names)} of the data, which cannot be read; numbers of each node can "
                    "be columns of `x` (or a field of their own, floating-point and of shape [num_nodes, width]), one "
                    "number per edge can be the edge_weight of a convolution, and all else has to stay outside."
                )
            raise Unsupported(
                "works on the edges; edges that the model adds, drops or weighs itself cannot be read, so change "
                "them in the data before."
            )
        value = self.values[argument]
        return self.bases.latest(value) if isinstance(value, Form) else value

    def read_module(self, step: RecordedStep, module: nn.Module) -> tuple[Form, ...]:
        """A module that is read as a whole: find its reader by exact type, check how it was called."""
        if type(module) in REASONS:
            raise Unsupported(REASONS[type(module)])
        reader = READERS.get(type(module))
        if reader is None:
            raise Unsupported(
                "no reader for this message-passing layer; add one with axiompath.register_reader, or write it with "
                "operations that are read one by one (axiompath.check lists them)."
            )
        arguments = inspect.signature(type(module).forward).bind(module, *step.args, **step.kwargs).arguments
        (_, features), *rest = list(arguments.items())[1:]
        others = dict(rest)
        others |= others.pop("kwargs", {})  # handed on to the convolution inside
        if isinstance(features, dict):
            return self.read_typed(step, reader, module, features, others)
        sent, own = features if isinstance(features, (tuple, list)) and len(features) == 2 else (features, features)
        form = form_of(self.resolve(own))
        sender = None if sent is own or (isinstance(sent, Ref) and sent == own) else form_of(self.resolve(sent))
        sends = isinstance(module, (MessagePassing, DirGNNConv, GPSConv))
        relation = None
        if sends:
            relation = self.check_edges(others)
            # What is aggregated and what skips the aggregation are the same value then.
            form = form if form.is_pure else self.bases.hold(form)
            sender = sender if sender is None or sender.is_pure else self.bases.hold(sender)
            self.check_ends(relation, sender or form, form)
        weighted = others.pop("edge_weight", None) is not None
        typed = others.pop("edge_type", None) is not None
        others = {name: value for name, value in others.items() if not self.is_edges(value)}
        hops = self.bases.num_hops(form)
        given = {name: value for name, value in others.items() if value is not None}
        # Features as a form, whatever else as it came.
        given |= {name: self.resolve(ref) for name, ref in given.items() if isinstance(ref, Ref) and ref in self.values}
        run = partial(self.read_inner, step.where)
        call = Call(form, weighted, step.name, given, self.bases, run, typed=typed, relation=relation, senders=sender)
        result = replace(self.call_reader(reader, module, call), name=step.name)
        for name in given.keys() - call.taken:
            raise Unsupported(UNKNOWN.format(f"`{name}`"))
        if sender is not None and "sent" not in call.taken:
            raise Unsupported(TWO_ENDS)
        if len(step.outputs) != 1:
            raise Unsupported("returns more than its features; call it so that it returns only them.")
        kind = "convolution" if sends else "read as a whole"
        self.notes.append(Note(step.where, step.operation, kind, self.bases.num_hops(result) - hops))
        return (result,)

    def read_typed(
        self, step: RecordedStep, reader: Reader, module: nn.Module, features: dict[str, Any], others: dict[str, Any]
    ) -> tuple[Form, ...]:
        """The same of a module that is given the features of all types and the edges of all relations."""
        forms = {kind: form_of(self.resolve(value)) for kind, value in features.items()}
        forms = {kind: form if form.is_pure else self.bases.hold(form) for kind, form in forms.items()}
        given = others.pop("edge_index_dict", None) or {}
        along = {relation: self.check_edges({"edge_index": value}) for relation, value in given.items()}
        known = {relation: found for relation, found in along.items() if found is not None}
        for name in [name for name, value in others.items() if value not in (None, False)]:
            raise Unsupported(UNKNOWN.format(f"`{name}`"))
        first = next(iter(forms.values()))
        run = partial(self.read_inner, step.where)
        call = TypedModule(first, False, step.name, {}, self.bases, run, forms=forms, along=known)
        found = self.attempt(reader, module, call)
        if not isinstance(found, dict) or not all(isinstance(form, Form) for form in found.values()):
            raise Unsupported("its reader must return a Form for each node type.")
        self.notes.append(Note(step.where, step.operation, "convolution", 1))
        return tuple(replace(form, name=step.name) for form in found.values())

    def attempt(self, reader: Reader, module: nn.Module, call: Call) -> Any:
        """A registered reader may be anyone's, so what goes wrong in it is named."""
        try:
            return reader(module, call)
        except (UnreadableModel, Unsupported):
            raise
        except Exception as error:
            raise Unsupported(f"its reader failed: {type(error).__name__}: {error}") from error

    def call_reader(self, reader: Reader, module: nn.Module, call: Call) -> Form:
        """What a reader says of a module of one kind of nodes."""
        result = self.attempt(reader, module, call)
        if not isinstance(result, Form):
            raise Unsupported(f"its reader returned {type(result).__name__}, expected a Form.")
        return result

    def check_edges(self, arguments: dict[str, Any]) -> OfRelation | None:
        """Edges and their weights must be those that the model was given; returns their relation, if there are any."""
        named = {"edge_index": arguments["edge_index"]} if "edge_index" in arguments else arguments
        found = [self.original(value) for value in named.values() if self.is_edges(value)]
        if not found:
            given = named.get("edge_index")
            value = self.recording.values[given.index] if isinstance(given, Ref) else given
            if getattr(value, "layout", torch.strided) != torch.strided or type(value).__name__ == "SparseTensor":
                raise Unsupported(
                    "expected the edge_index that the model was given (got a sparse matrix, such as `adj_t`); leave "
                    "T.ToSparseTensor out, or call the model with edge_index, by `call` where it takes either."
                )
            raise Unsupported(
                "expected the edge_index that the model was given (got another one); "
                "edges that the model adds or drops itself cannot be read, so change them in the data before."
            )
        relation = self.edges[found[0]]
        for name, kept in (("edge_weight", self.weights), ("edge_type", self.types)):
            if arguments.get(name) is not None:
                kept.add(self.edge_field(self.original(arguments[name]), name, found[0]))
            if len(kept) > 1:
                raise Unsupported(
                    f"expected one field as `{name}` for all convolutions (got {quoted(kept)}); an edge has one, so "
                    "train with one of them."
                )
        return relation

    def check_ends(self, relation: OfRelation | None, sender: Form, own: Form) -> None:
        """A convolution along a relation must be given nodes of the types at its ends."""
        if relation is None or relation.ends is None:
            return
        if (sender.node_type, own.node_type) != relation.ends:
            raise Unsupported(
                "is given features of other node types than its edges join; pass those of the relation's own ends, "
                "as (x_dict[source], x_dict[target])."
            )

    def edge_field(self, value: Any, argument: str, edge_index: Ref) -> str:
        """The field of Data that a convolution is given as edge_weight or edge_type: one number per edge, as it is."""
        name = self.recording.fields.get(value) if isinstance(value, Ref) else None
        typed = self.recording.typed
        if typed is not None and value in typed.weights and typed.weights[value] == typed.edges[edge_index]:
            return argument
        if (
            typed is not None
            and value in typed.edge_features
            and relation_of_field(typed.edge_features[value]) == typed.edges[edge_index]
        ):
            name = typed.edge_features[value].split(" ", 2)[2]
        edges = self.recording.values[edge_index.index].shape[1]
        if name is not None and self.recording.values[value.index].shape in ((edges,), (edges, 1)):
            return name
        made = self.recording.outside.get(value, frozenset()) - EDGE_FIELDS if isinstance(value, Ref) else None
        raise Unsupported(
            f"expected the {argument} that the model was given, or none (got "
            + (f"one made of {quoted(made)}); what" if made else "another one); what")
            + f" the model makes itself cannot be read, so put one number per edge into `{argument}` of the data."
        )

    def original(self, value: Any) -> Any:
        """The value that an argument is a copy of."""
        return self.same.get(value, value) if isinstance(value, Ref) else value

    def is_edges(self, value: Any) -> bool:
        """Whether an argument is a list of edges that the model was given."""
        return isinstance(value, Ref) and self.original(value) in self.edges

    def note_copy(self, step: RecordedStep, function: str) -> None:
        """Remember a step outside of the features that leaves its value as it was, but for shape or precision."""
        source = step.args[0] if step.args else None
        if function not in COPIES or not isinstance(source, Ref) or len(step.outputs) != 1:
            return
        old, new = (self.recording.values[ref.index] for ref in (source, step.outputs[0]))
        turned = self.is_edges(source) and old.shape != new.shape
        if old.numel() == new.numel() and old.is_floating_point() <= new.is_floating_point() and not turned:
            self.same[step.outputs[0]] = self.original(source)

    def note_mark(self, step: RecordedStep, function: str) -> None:
        """Remember what a value outside of the features means for graphs and pairs, if anything."""
        places = [i for i, part in enumerate(step.args) if isinstance(part, Ref) and part in self.marks]
        if not places:
            return
        mark = self.marks[step.args[places[0]]]
        if mark == PAIRS and places == [0]:
            if function in ("__getitem__", "select", "unbind"):
                ends = range(2) if function == "unbind" else [_end_of(*step.args[1:])]
                self.marks.update(zip(step.outputs, (Marker(ENDS, end) for end in ends), strict=True))
            elif function in KEPT:
                self.marks[step.outputs[0]] = mark
        elif mark.kind == MEMBERS and function in ("scatter_add", "index_add", "bincount"):
            self.marks[step.outputs[0]] = Marker(SIZES)
        elif places == [0] and (function in KEPT or (mark.kind == SIZES and function in ("clamp", "clamp_min"))):
            self.marks[step.outputs[0]] = mark

    def read_inner(self, where: str, inner: Any, form: Form, name: str) -> Form:
        """A network inside a module that is read as a whole."""
        recording = record_inner(inner, form.width, self.recording.dtype, f"{where}.{name}" if where else name)
        inside = Assembler(recording, self.bases, {X: form}, self.notes, inner=True)
        return replace(form_of(inside.values[inside.read_all()[None]]), node_type=form.node_type)


def assemble_network(
    recording: Recording, num_features: int, output: str = AUTO, notes: list[Note] | None = None
) -> Reading:
    """Read every step, then lay the bases out in layers; `notes` are written as the reading goes on."""
    notes = [] if notes is None else notes
    edge_features = edge_fields(recording)
    reading = _assemble(recording, num_features, output, notes, edge_features)
    if edge_features and not reading.network.takes_edges:
        notes.clear()  # fields of edges that serve only as weights are not features
        reading = _assemble(recording, num_features, output, notes, [])
    return reading


def edge_fields(recording: Recording) -> list[Ref]:
    """Fields that hold numbers of each edge, one or a row of them, and that the output depends on."""
    used = recording.used_refs
    if recording.typed is not None:
        return [ref for ref in recording.typed.edge_features if ref in used]
    num_edges, found = recording.values[EDGE_INDEX.index].shape[1], []
    for ref, name in recording.fields.items():
        value = recording.values[ref.index]
        along = value.dim() in (1, 2) and len(value) == num_edges and value.layout == torch.strided
        own = "edge" in name or num_edges != recording.num_nodes
        if ref in used and ref in recording.outside and name not in (*INPUTS, *MARKED, "edge_type") and along and own:
            found.append(ref)
    return found


def _assemble(
    recording: Recording, num_features: int, output: str, notes: list[Note], edge_features: Sequence[Ref]
) -> Reading:
    """`edge_features` are fields of edges that may be features."""
    bases, inputs = _begin(recording, num_features, edge_features)
    assembler = Assembler(recording, bases, inputs, notes)
    last = last_step(recording)
    assembler.last = last if last is not None and last.operation.rstrip("_") in SEPARATE else None
    outputs = assembler.read_all()
    results = {}
    for kind, logits in outputs.items():
        if logits not in assembler.values:
            raise UnreadableModel(
                "Expected the model to return logits [num_nodes, num_classes] (got values that `x` does not go into)."
            )
        result = assembler.values[logits]
        if not isinstance(result, Form):
            raise UnreadableModel("Expected the model to return logits [num_nodes, num_classes] (got stacked layers).")
        results[kind] = result
    meaning = find_output(recording, output, next(iter(results.values())).width)
    _end(bases, outputs, results)
    end = "" if last is None else last.operation.rstrip("_")
    num_features = sum(base.width for base in bases.all if base.form is None)
    network = Network(lay_out(bases.all), num_features, meaning, end=end if end in (*FINAL, *SEPARATE) else "")
    if network.num_hops == 0:
        raise UnreadableModel("The model has no message-passing layer, so no path of the graph reaches its output.")
    further = [name for ref, name in recording.fields.items() if ref in inputs and ref not in (X, *edge_features)]
    fields = Fields(
        ("x", *(further if recording.typed is None else ())),
        next(iter(assembler.weights), PLAIN_FIELDS.weights),
        tuple(
            (recording.fields if recording.typed is None else recording.typed.edge_features)[ref]
            for ref in edge_features
        ),
        next(iter(assembler.types), None),
    )
    return Reading(network, outputs, fields)


def edges_of(recording: Recording) -> dict[Ref, OfRelation | None]:
    """The edges that the model was given, and the relation that they are of, where there are several."""
    typed = recording.typed
    if typed is None:
        return {EDGE_INDEX: None}
    return {ref: OfRelation(Identity(), number, typed.schema.ends[number]) for ref, number in typed.edges.items()}


def _begin(recording: Recording, num_features: int, edge_features: Sequence[Ref]) -> tuple[Bases, dict[Ref, Form]]:
    """The features that the model was given: of each type, or of all nodes and those of further fields that it uses.

    `edge_features` are fields of edges that may be features, one number or one row per edge.
    """
    typed = recording.typed
    kinds: list[int] | None
    if typed is not None:
        refs = sorted(typed.features, key=lambda ref: typed.features[ref])
        widths, kinds = list(typed.schema.widths), [typed.features[ref] for ref in refs]
    else:
        used = recording.used_refs
        further = [ref for ref in recording.fields if ref != X and ref not in recording.outside and ref in used]
        refs = [X, *further]
        widths, kinds = [num_features, *(_width(recording, ref) for ref in further)], None
    bases = Bases(widths, kinds, [_width(recording, ref) for ref in edge_features])
    return bases, dict(zip([*refs, *edge_features], bases.features, strict=True))


def _width(recording: Recording, ref: Ref) -> int:
    """Columns of a field; one number per row is one."""
    value = recording.values[ref.index]
    return 1 if value.dim() == 1 else value.shape[1]


def _end(bases: Bases, outputs: Mapping[int | None, Ref], results: Mapping[int | None, Form]) -> None:
    """The logits as the last base: one more even where the last step was an activation, since that is the identity."""
    if None in results:
        bases.add(results[None], None, outputs[None].index)
        return
    widths = {form.width for form in results.values()}
    if len(widths) > 1:
        raise UnreadableModel(
            f"Expected logits of one width for all node types (got {sorted(widths)}); pick one type with "
            "`call=lambda model, data: model(...)['type']`."
        )
    held = {kind: bases.add(form, None, outputs[kind].index) for kind, form in results.items()}
    parts = [
        replace(bases.aggregate(form, OfType(kind)), node_type=None) for kind, form in held.items() if kind is not None
    ]
    bases.add(sum(parts[1:], parts[0]), None)


def _end_of(*index: Any) -> int:
    """Which end of the pairs edge_label_index[index] holds; `select` is given the dimension first."""
    where = index[-1] if len(index) == 2 else index[0]
    if isinstance(where, tuple) and len(where) == 2 and where[1] in (slice(None), Ellipsis):
        where = where[0]
    if isinstance(where, int) and -2 <= where < 2 and (len(index) == 1 or index[0] == 0):
        return where % 2
    raise Unsupported("takes something else than one end of each pair; only edge_label_index[0] and [1] can be read.")

"""torch calls -> Recording: what a model does to its inputs, step by step.

A torch-function mode watches every torch call while a model runs on real data. Calls that touch a value derived from
the inputs become steps; convolutions are steps of their own and are not looked into. Running rather than symbolic
tracing means that loops, `self.training`, optional arguments and shape arithmetic just work; only decisions that
depend on the *values* of features are refused, since another graph might decide otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..errors import InputError
from ..graphs.schema import Schema

WITHOUT_PATHS = "Without paths, Explainer(..., paths=False) runs the model as it is: blame, undo and what_if work so."


class UnreadableModel(InputError):
    """The model has a part that the normal form cannot express, or that was read wrongly."""

    where: str | None = None  # dotted name of the module, where the fault lies in one
    lines: tuple[Any, ...] = ()  # how the lines before were read

    def __str__(self) -> str:
        """What cannot be read, and what can be asked all the same."""
        return f"{super().__str__()} {WITHOUT_PATHS}"


class FailingModel(UnreadableModel):
    """The model itself could not be run, so that it cannot be asked without paths either."""

    def __str__(self) -> str:
        """Only what went wrong."""
        return InputError.__str__(self)


@dataclass(frozen=True)
class Ref:
    """Stands for the value numbered `index` in a step's arguments; the inputs have numbers of their own.

    What features go into is numbered upwards, all else downwards from -1: two runs of a model number the former alike,
    whatever other fields the two graphs have.
    """

    index: int


X, EDGE_INDEX, EDGE_WEIGHT = Ref(0), Ref(1), Ref(2)
NUM_INPUTS = 3
EDGE_FIELDS = frozenset(("edge_index", "edge_weight"))


@dataclass(frozen=True, eq=False)
class TypedInputs:
    """Which of the inputs belong to which type of nodes, or to which relation."""

    schema: Schema
    features: dict[Ref, int]  # number of the node type
    edges: dict[Ref, int]  # number of the relation
    weights: dict[Ref, int]  # number of the relation
    about: dict[Ref, str]  # fields that say what is predicted, by name
    edge_features: dict[Ref, str]  # fields of edges that may be their features, by name in the stacked graph


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """One call: of a module that is read as a whole (`module` set) or of a torch function."""

    operation: str  # the function's name, or the module's type
    where: str  # dotted name of the module in which it happened
    module: nn.Module | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Ref, ...]  # none for a function that only writes into its argument

    @property
    def name(self) -> str:
        """How messages name the step."""
        return f"{self.where or 'forward'} ({self.operation})"


@dataclass(frozen=True, eq=False)
class Recording:
    """The steps of one run that its output depends on, and the values they gave."""

    steps: tuple[RecordedStep, ...]
    values: dict[int, torch.Tensor]
    outputs: dict[int | None, Ref]  # the answer, by node type where nodes have types
    num_nodes: int
    dtype: torch.dtype
    fields: dict[Ref, str]  # the inputs that were watched, by the name of their field of Data
    outside: dict[Ref, frozenset[str]]  # values that features do not go into, and the fields that they are made of
    typed: TypedInputs | None = None  # which inputs are of which type, where nodes have types

    @property
    def output(self) -> Ref:
        """The answer; of several types, the first one's."""
        return next(iter(self.outputs.values()))

    @property
    def used(self) -> frozenset[str]:
        """Fields that the output depends on."""
        return frozenset(name for ref, name in self.fields.items() if ref in self.used_refs)

    @cached_property
    def used_refs(self) -> set[Ref]:
        """Values that some step is given."""
        return refs_in([(step.args, step.kwargs) for step in self.steps])


# Questions about a value's form, not its content.
SHAPE_QUERIES = {
    "size", "dim", "ndimension", "numel", "nelement", "stride", "is_contiguous", "element_size", "__len__",
    "type", "is_floating_point", "is_complex", "get_device", "__repr__", "__format__",
}  # fmt: skip
# New tensors that take nothing but their shape from a value.
FILLED = {"new_zeros", "new_ones", "new_full", "new_tensor", "zeros_like", "ones_like", "full_like"}
SHAPED_LIKE = {"expand_as", "view_as", "reshape_as", "type_as", "to"}  # their second argument, only by shape or dtype
DECISIONS = {
    "item", "tolist", "numpy", "equal", "allclose", "is_nonzero",
    "__bool__", "__int__", "__float__", "__index__", "__contains__",
}  # fmt: skip
COUNTS = {"__int__", "__index__", "item"}


class Recorder(TorchFunctionMode):
    """Writes down each torch call that touches a watched value."""

    def __init__(self, inputs: dict[Ref, torch.Tensor], outside: dict[Ref, frozenset[str]]) -> None:
        super().__init__()
        self.steps: list[RecordedStep] = []
        self.values: dict[int, torch.Tensor] = {}
        self.refs: dict[int, Ref] = {}
        self.alive: list[torch.Tensor] = []  # watched by id(), so none may be freed while we watch
        self.places: list[str] = []
        self.paused = False
        self.num_refs = NUM_INPUTS
        self.lowest_ref = min((ref.index for ref in inputs), default=0)
        self.outside = dict(outside)  # and what is made only of these
        for ref, value in inputs.items():
            self.values[ref.index] = value
            self.watch(value, ref)

    def watch(self, value: torch.Tensor, ref: Ref) -> None:
        """Follow a tensor from here on as the value `ref`."""
        self.refs[id(value)] = ref
        self.alive.append(value)

    def replace_watched(self, argument: Any) -> Any:
        """The argument with every watched tensor in it replaced by its Ref."""
        if isinstance(argument, torch.Tensor):
            return self.refs.get(id(argument), argument)
        if isinstance(argument, (tuple, list)):
            parts = [self.replace_watched(part) for part in argument]
            return parts if isinstance(argument, list) else tuple(parts)
        if isinstance(argument, dict):
            return {key: self.replace_watched(part) for key, part in argument.items()}
        return argument

    def record(self, call: Callable[..., Any], operation: str, module: nn.Module | None, args: Any, kwargs: Any) -> Any:
        """Make the call, unwatched inside, and write it down if it touches a watched value."""
        where = self.places[-1] if self.places else ""
        seen_args, seen_kwargs = self.replace_watched(tuple(args)), self.replace_watched(kwargs)
        if operation in SHAPED_LIKE and refs_in(seen_args[:1]) <= self.outside.keys():
            seen_args = seen_args[:1]  # the other gives only its shape
        touched = refs_in((seen_args, seen_kwargs))
        if touched and operation in DECISIONS and not self.counts_graphs(operation, touched):
            raise self.refuse_decision(operation, where, touched)
        self.paused = True
        try:
            result = call(*args, **kwargs)
        finally:
            self.paused = False
        tensors = result if isinstance(result, (tuple, list)) else (result,)
        tensors = tuple(result.values()) if isinstance(result, dict) else tensors
        tensors = tuple(value for value in tensors if isinstance(value, torch.Tensor))
        filled = operation in FILLED or (operation in SHAPED_LIKE and not refs_in(seen_args[:1]))
        if not touched or filled or (operation in SHAPE_QUERIES and not tensors):
            return result
        if touched <= self.outside.keys():
            outputs = tuple(Ref(self.lowest_ref - 1 - i) for i in range(len(tensors)))
            self.lowest_ref -= len(outputs)
            self.outside.update(dict.fromkeys(outputs, self.origin(touched)))
        else:
            outputs = tuple(Ref(self.num_refs + i) for i in range(len(tensors)))
            self.num_refs += len(outputs)
        self.steps.append(RecordedStep(operation, where, module, seen_args, seen_kwargs, outputs))
        for value, output in zip(tensors, outputs, strict=True):
            # A copy, because a later in-place function may overwrite the tensor.
            self.values[output.index] = value.detach().clone()
            self.watch(value, output)
        return result

    def origin(self, refs: set[Ref]) -> frozenset[str]:
        """The fields that values outside of the features are made of."""
        return frozenset[str]().union(*(self.outside[ref] for ref in refs))

    def counts_graphs(self, operation: str, touched: set[Ref]) -> bool:
        """Whether a look at values asks no more than how many graphs there are."""
        return operation in COUNTS and touched <= self.outside.keys() and self.origin(touched) <= {"batch", "ptr"}

    def refuse_decision(self, operation: str, where: str, touched: set[Ref]) -> UnreadableModel:
        """Why a look at values ends the reading."""
        outside = touched <= self.outside.keys()
        fields = self.origin(touched) - EDGE_FIELDS if outside else frozenset()
        if outside and not fields:
            reason = (
                f"the forward pass looks at its edges (`{operation}`), to add, drop or weigh them itself or to decide "
                "something; change the edges in the data before, and decide only from shapes and settings."
            )
        else:
            reason = (
                f"the forward pass looks at the values of {quoted(fields) or 'its features'} (`{operation}`) and may "
                "decide otherwise on another graph; make the decision outside the model, or from shapes and settings "
                "alone."
            )
        error = UnreadableModel(f"{where or 'forward'} ({operation}): {reason}")
        error.where = where
        return error

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch in place of every torch function."""
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        operation = func.__name__
        if operation == "__get__":  # an attribute: its name says more
            operation = getattr(func.__self__, "__name__", operation)
            value = func(*args, **kwargs)
            if not isinstance(value, torch.Tensor):
                return value
        return self.record(func, operation, None, args, kwargs)


def refs_in(argument: Any) -> set[Ref]:
    """The watched values in an argument."""
    if isinstance(argument, Ref):
        return {argument}
    if isinstance(argument, dict):
        argument = tuple(argument.values())
    if isinstance(argument, (tuple, list)):
        return set().union(*(refs_in(part) for part in argument))
    return set()


def quoted(names: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(f"`{name}`" for name in sorted(names))

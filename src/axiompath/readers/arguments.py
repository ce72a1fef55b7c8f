"""model + Data -> Arguments: how the user would call the model on this graph.

Arguments of forward are fields of Data by their exact name, those with a default too. Of the first two, one that is no
field is `x` or `edge_index`, unless it is named after another field. A model that takes one object is given the whole
Data. `call=lambda model, data: ...` says it otherwise.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from scipy import sparse
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GAE, Sequential

from ..errors import InputError
from ..graphs.data_fields import EDGE, level_of, to_torch_csr
from ..outputs import AUTO
from .refusals import FailingModel, UnreadableModel, quoted

ModelCall: TypeAlias = Callable[[Any, Any], Any]


@runtime_checkable
class TypedAnswer(Protocol):
    """A call that knows the answer by node type, for graphs that have several."""

    def answer(self, model: Any, data: HeteroData) -> dict[str | None, torch.Tensor]:
        """The model's answer on a graph as the user knows it."""
        ...


PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD
NAMED = (inspect.Parameter.POSITIONAL_ONLY, PLAIN, inspect.Parameter.KEYWORD_ONLY)
REQUIRED = inspect.Parameter.empty
DATA_TYPES = re.compile(r"\b(Data|Batch)\b")  # in an annotation
DATA_NAMES = ("data", "graph", "g")  # what a first argument is called that is the whole Data
BY_POSITION = ("x", "edge_index")  # what the first two arguments are, whatever their names
# Names of other fields, and of states: an argument called so is never `x`, or `edge_index`, by its position.
NOT_X = (
    "edge_attr", "edge_weight", "edge_type", "edge_time", "edge_label", "edge_label_index", "node_type", "n_id", "e_id",
    "node_id", "node_ids", "idx", "batch", "ptr", "num_nodes", "pos", "y", "label", "labels", "mask", "t", "time",
)  # fmt: skip
NOT_EDGES = (*NOT_X, "h", "hx", "h0", "h_0", "hidden", "state", "hidden_state", "memory")
SIZE_FIELD = "num_nodes"  # what every graph has, whether it is said or not
LINKS_FIELD = "edge_label_index"


@dataclass(frozen=True)
class Usage:
    """How the user says the model is used; what is not said is found out."""

    call: ModelCall | None = None  # of the model and a Data object, in place of forward's arguments by name
    links: Any = None  # pairs of node numbers to predict for
    output: str = AUTO  # what the model's columns mean
    scales: Any = None  # of values: what a unit of each column is worth


AS_IT_IS = Usage()


@dataclass(frozen=True)
class Arguments:
    """How a model is called on one graph."""

    positional: tuple[str, ...]  # fields of Data
    keywords: tuple[str, ...]  # fields of Data, and arguments of the same name
    defaults: tuple[str, ...]  # optional arguments that are no field of the graph
    whole: bool  # whether the first argument is the Data object itself
    call: ModelCall | None  # the user's own way
    decoded: bool = False  # whether encode is called with these, and decode with what it gives and the pairs
    pairs_first: bool = False  # whether decode takes the pairs before what encode gives

    def run(self, model: Any, data: Data) -> Any:
        """The model's answer."""
        if self.call is not None:
            return self.call(model, data)
        first = (data,) if self.whole else ()
        keywords = {name: data.num_nodes if name == SIZE_FIELD else data[name] for name in self.keywords}
        run = model.encode if self.decoded else model
        answer = run(*first, *(data[name] for name in self.positional), **keywords)
        if not self.decoded:
            return answer
        return model.decode(*((data[LINKS_FIELD], answer) if self.pairs_first else (answer, data[LINKS_FIELD])))

    @property
    def given(self) -> frozenset[str]:
        """Fields that are passed by name or position."""
        return frozenset((*self.positional, *self.keywords))

    def __str__(self) -> str:
        """As one would write it, with fields by their name."""
        return self.write("")

    def write(self, owner: str) -> str:
        """The call as code; `owner` stands in front of every field, such as `data.`."""
        if self.call is not None:
            return str(self.call) if isinstance(self.call, TypedAnswer) else "call(model, data)"
        named = [f"{name}={owner}{name}" for name in self.keywords]
        fields = [f"{owner}{name}" for name in self.positional]
        given = ", ".join([*(["data"] if self.whole else []), *fields, *named])
        if not self.decoded:
            return f"model({given})"
        parts = [f"model.encode({given})", f"{owner}{LINKS_FIELD}"]
        return f"model.decode({', '.join(parts[::-1] if self.pairs_first else parts)})"


def find_arguments(model: nn.Module, data: Data, name: str, call: ModelCall | None = None) -> Arguments:
    """Match the arguments of forward with the fields of a graph; `name` is that of the graph, for messages."""
    if call is not None:
        if not callable(call):
            raise InputError(
                "Expected `call` to be a function of the model and a Data object "
                f"(got {type(call).__name__}), such as lambda model, data: model(data.x, data.edge_index)."
            )
        return Arguments((), (), (), False, call)
    fields = set(data.keys())
    decoded = LINKS_FIELD in fields and has_decoder(model)
    parameters = parameters_of(model, decoded)
    named = [parameter for parameter in parameters if parameter.kind in NAMED]
    open_ended = len(parameters) > len(named)
    whole = _takes_data(named, fields, open_ended)
    positional: list[str] = []
    keywords: list[str] = []
    if not whole:
        takes_more = any(parameter.kind == inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
        by_position = [parameter for parameter in named if parameter.kind != inspect.Parameter.KEYWORD_ONLY]
        wanting = [field for field in BY_POSITION if field not in {parameter.name for parameter in named}]
        for parameter in by_position[: len(BY_POSITION)]:
            if parameter.name in fields:
                positional.append(parameter.name)
            elif wanting and _may_be(wanting[0], parameter):
                positional.append(wanting.pop(0))
            else:
                break
        if open_ended:  # into *args or **kwargs
            (positional if takes_more and len(positional) == len(by_position) else keywords).extend(wanting)
    rest = named[1:] if whole else named[len(positional) :]
    defaults = []
    for parameter in rest:
        if parameter.name in fields or (parameter.name == SIZE_FIELD and parameter.default is REQUIRED):
            keywords.append(parameter.name)
        elif parameter.default is REQUIRED:
            raise _lacking(parameter.name, data, name)
        else:
            defaults.append(parameter.name)
    for field in set(positional) - fields:
        raise _lacking(field, data, name)
    pairs_first = decoded and _takes_pairs_first(model)
    arguments = Arguments(tuple(positional), tuple(keywords), tuple(defaults), whole, None, decoded, pairs_first)
    if open_ended and not whole:
        _check_open_ended(arguments, data, name)
    return arguments


def _takes_data(named: list[inspect.Parameter], fields: Collection[str], open_ended: bool) -> bool:
    """Whether the first argument is the Data object: by its annotation, by its name, or as the only input."""
    if not named or named[0].kind == inspect.Parameter.KEYWORD_ONLY:
        return False
    first, note = named[0], named[0].annotation
    written = note if isinstance(note, str) else inspect.formatannotation(note)
    if DATA_TYPES.search(written) or (isinstance(note, type) and issubclass(note, Data)):
        return True
    if "Tensor" in written:
        return False
    if first.name in DATA_NAMES and first.name not in fields:
        return True
    others = [one for one in named[1:] if one.name in fields or _may_be("edge_index", one)]
    if others or open_ended:
        return False
    # A vector of graph numbers is not enough to predict from, so a single `batch` is a Batch.
    return first.name == "batch" or (first.name not in (*fields, *BY_POSITION) and _may_be("x", first))


def _may_be(field: str, parameter: inspect.Parameter) -> bool:
    """Whether an argument may be `x` or `edge_index` by its position: it is no option, and no other field by name."""
    excluded = NOT_X if field == "x" else NOT_EDGES
    return parameter.name not in excluded and (parameter.default is REQUIRED or parameter.default is None)


def compare_arguments(before: Arguments, after: Arguments) -> None:
    """Both graphs must be able to give the model the same."""
    for name in sorted(before.given ^ after.given):
        has, lacks = ("before", "after") if name in before.given else ("after", "before")
        raise InputError(
            f"Expected `{name}`, an argument of the model's forward, as a field of both graphs or of neither "
            f"(`{has}` has it, `{lacks}` has not); add it to `{lacks}`, or say with `call` how the model is called."
        )


def copy_data(data: Data, dtype: torch.dtype, *, as_is: bool = True) -> Data:
    """The user's graph for the model: on the CPU, floating-point fields in the model's dtype.

    Every tensor is a copy, since an in-place function in the model would write into the user's. With as_is, sparse
    features stay sparse and whole numbers whole.
    """
    copied = copy.copy(data)
    for key in data.keys():  # noqa: SIM118 (iterating over a Data object gives pairs)
        value = data[key]
        if key == "x":
            copied[key] = _features_for_model(value, dtype, as_is)
        elif key == "edge_index":
            copied[key] = torch.as_tensor(value).detach().cpu().to(torch.long, copy=True)
        elif key == "edge_weight":
            copied[key] = torch.as_tensor(value).detach().cpu().to(dtype, copy=True)
        elif isinstance(value, torch.Tensor):
            kind = dtype if value.is_floating_point() else value.dtype
            copied[key] = value.detach().cpu().to(kind, copy=True)
    return copied


def has_decoder(model: nn.Module) -> bool:
    """Whether a model of links can be called as decode(encode(...), pairs), its forward not taking the pairs itself."""
    both = callable(getattr(model, "encode", None)) and callable(getattr(model, "decode", None))
    return both and LINKS_FIELD not in {parameter.name for parameter in parameters_of(model)}


def _takes_pairs_first(model: Any) -> bool:
    return next(iter(inspect.signature(model.decode).parameters), "") == LINKS_FIELD


def needs_decoder(model: nn.Module) -> bool:
    """Whether it cannot be called otherwise: it has no forward of its own, or one that stops at the encoder."""
    return has_decoder(model) and (isinstance(model, GAE) or type(model).forward is nn.Module.forward)


def parameters_of(model: Any, decoded: bool = False) -> list[inspect.Parameter]:
    """The arguments of a model's forward; or, where it is decoded afterwards, of its encoder."""
    if decoded:
        encode = model.encoder.forward if isinstance(model, GAE) else model.encode
        return list(inspect.signature(encode).parameters.values())
    if isinstance(model, Sequential) and hasattr(model, "signature"):
        # Its forward takes anything; what it wants was said when it was made.
        wanted = model.signature.param_dict.values()
        return [inspect.Parameter(parameter.name, PLAIN, default=parameter.default) for parameter in wanted]
    if isinstance(model, torch.jit.ScriptModule):  # compiled: only its schema knows the arguments
        method: Any = model.forward
        return [
            inspect.Parameter(one.name, PLAIN, default=one.default_value if one.has_default_value() else REQUIRED)
            for one in method.schema.arguments[1:]
        ]
    return list(inspect.signature(model.forward).parameters.values())


def _lacking(argument: str, data: Data, name: str) -> UnreadableModel:
    return FailingModel(
        f"forward: the model asks for `{argument}`, which `{name}` does not have (its fields are "
        f"{quoted(data.keys())}); add it to both graphs under that name, give the argument a default, or say with "
        "`call=lambda model, data: ...` how the model is called."
    )


def _check_open_ended(arguments: Arguments, data: Data, name: str) -> None:
    """*args and **kwargs may take a field or not, and edges without their weights are another graph."""
    loose = [key for key in sorted(data.keys()) if key not in arguments.given and level_of(data, key) == EDGE]
    if loose:
        raise UnreadableModel(
            f"forward: takes any arguments (*args or **kwargs), so it is not known whether it is given {quoted(loose)} "
            f"of `{name}`; say it with `call=lambda model, data: ...`, or leave the field out."
        )


def _features_for_model(x: Any, dtype: torch.dtype, as_is: bool) -> torch.Tensor:
    if sparse.issparse(x):
        value = to_torch_csr(x, dtype)
    else:
        value = torch.as_tensor(x).detach().cpu()
        value = value.to(dtype if value.is_floating_point() or not as_is else value.dtype, copy=True)
    return value if as_is or value.layout == torch.strided else value.to_dense()

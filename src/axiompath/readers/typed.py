"""model + HeteroData -> TypedCall: how a model of several node types is called, and its answer as rows of one graph.

Arguments of forward are fields of HeteroData by name, `x_dict` or `x` for the features of all types alike; a model that
takes one object is given the HeteroData. What it answers is a tensor for one type, or a dict of them by type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data, HeteroData

from ..errors import InputError, WrongKind
from ..graphs.schema import Schema
from ..graphs.stack import find_schema, stack_all, unstack
from ..graphs.typed_names import name_nodes
from .arguments import BY_POSITION, NAMED, REQUIRED, ModelCall, Usage, copy_data, parameters_of
from .tape import UnreadableModel
from .trial import copy_model, dtype_of_model


@dataclass(frozen=True)
class TypedCall:
    """Calls a model with a HeteroData made of stacked rows, and stacks its answer."""

    call: ModelCall | None  # the user's own way, of the model and a HeteroData
    fields: tuple[tuple[str, str], ...]  # argument of forward -> field of every type or relation; none for the whole
    predicts: str | None = None  # the type of the rows of an answer that is one tensor

    def __str__(self) -> str:
        """As one would write it."""
        if self.call is not None:
            return "call(model, data)"
        given = ", ".join(f"{name}=data.collect({field!r})" for name, field in self.fields)
        return f"model({given or 'data'})"

    def run(self, model: Any, data: HeteroData) -> Any:
        """The model's answer as it gives it."""
        if self.call is not None:
            return self.call(model, data)
        if not self.fields:
            return model(data)
        return model(**{name: data.collect(field) for name, field in self.fields})

    def answer(self, model: Any, data: HeteroData) -> dict[str, torch.Tensor]:
        """The model's answer by node type."""
        found = self.run(model, data)
        if isinstance(found, torch.Tensor):
            if self.predicts is None:
                raise UnreadableModel("Expected to know which node type the model answers for.")
            return {self.predicts: found}
        if isinstance(found, Mapping) and found and all(isinstance(part, torch.Tensor) for part in found.values()):
            return dict(found)
        raise UnreadableModel(
            "Expected the model to return a tensor of logits for one node type, or a dict of them by type (got "
            f"{type(found).__name__}); say with `call=lambda model, data: ...` what of its answer is meant."
        )

    def __call__(self, model: Any, data: Data) -> torch.Tensor:
        """The answer for all rows of a stacked graph; nodes of types that the model does not answer for have zeros."""
        schema: Schema = data["schema"]
        found = self.answer(model, unstack(data))
        widths = {name: part.reshape(len(part), -1).shape[1] for name, part in found.items()}
        if len(set(widths.values())) != 1:
            raise InputError(
                f"Expected answers of one width for all node types (got {widths}); pick one with "
                "`call=lambda model, data: model(...)['type']`."
            )
        first = next(iter(found.values()))
        stacked = torch.zeros(len(data["node_type"]), next(iter(widths.values())), dtype=first.dtype)
        for name, part in found.items():
            rows = data["node_type"] == schema.node_types.index(name)
            if len(part) != int(rows.sum()):
                raise InputError(
                    f"Expected a row of logits for each of {int(rows.sum())} nodes of {name!r} (got {len(part)})."
                )
            stacked[rows] = part.reshape(len(part), -1)
        return stacked


@dataclass(frozen=True, eq=False)
class Prepared:
    """Graphs in order, how a model is called on them, and what nodes are called."""

    graphs: tuple[Any, ...]
    usage: Usage
    node_names: Any


def prepare_types(model: Any, graphs: Sequence[Any], usage: Usage, node_names: Any = None) -> Prepared:
    """Graphs with several node types as one Data each, and how the model is called on them; others as they are.

    Where there is nothing in place of the first, it is the second without edges.
    """
    if not any(isinstance(data, HeteroData) for data in graphs):
        return Prepared(tuple(graphs), usage, node_names)
    given = [_without_edges(graphs[1]) if data is None else data for data in graphs]
    for data in given:
        if not isinstance(data, HeteroData):
            raise WrongKind(f"Expected all graphs to be HeteroData (got {type(data).__name__} beside one).")
    if usage.links is not None:
        raise InputError("Expected a model of nodes to go with HeteroData (got `links`); pairs are read on one type.")
    schema = find_schema(given)
    stacked = stack_all(given, schema)
    names = name_nodes(node_names, given, schema)
    model = getattr(model, "_orig_mod", model)
    if isinstance(model, nn.Module):  # else it is refused where it is read
        usage = replace(usage, call=find_type(model, find_call(model, given[0], usage.call), stacked[0]))
    return Prepared(stacked, usage, names)


def find_call(model: nn.Module, data: HeteroData, call: ModelCall | None) -> TypedCall:
    """Match the arguments of forward with the fields of the graph."""
    if call is not None:
        return call if isinstance(call, TypedCall) else TypedCall(call, ())
    known = {key for store in data.stores for key in store}
    named = [parameter for parameter in parameters_of(model) if parameter.kind in NAMED]
    if len(named) == 1 or (named and named[0].name == "data"):
        return TypedCall(None, ())
    fields = []
    for place, parameter in enumerate(named):
        field = parameter.name.removesuffix("_dict")
        if field not in known and place < len(BY_POSITION):
            field = BY_POSITION[place]
        if field in known:
            fields.append((parameter.name, field))
        elif parameter.default is REQUIRED:
            raise UnreadableModel(
                f"forward: the model asks for `{parameter.name}`, which no type of the data has; add `{field}` to "
                "every type, give the argument a default, or say with `call=lambda model, data: ...` how the model is "
                "called."
            )
    return TypedCall(None, tuple(fields))


def find_type(model: nn.Module, call: TypedCall, data: Data) -> TypedCall:
    """The same call, knowing whose rows an answer in one tensor has: the type that one more node makes longer."""
    duplicate = copy_model(model)
    hetero = unstack(copy_data(data, dtype_of_model(duplicate)))
    with torch.no_grad():
        try:
            found = call.run(duplicate, hetero)
        except Exception:
            return call  # it is said where the model is read
        if not isinstance(found, torch.Tensor):
            return call
        for node_type in hetero.node_types:
            if len(hetero[node_type].x) != len(found):
                continue
            longer = hetero.clone()
            for key, value in list(hetero[node_type].items()):
                if torch.is_tensor(value) and value.dim() and len(value) == len(found):
                    longer[node_type][key] = torch.cat([value, value[-1:]])
            if len(call.run(duplicate, longer)) == len(found) + 1:
                return replace(call, predicts=node_type)
    raise UnreadableModel(
        f"Expected an answer with a row for each node of one type (got {len(found)} rows); the graph has "
        + ", ".join(f"{len(hetero[t].x)} of {t!r}" for t in hetero.node_types)
        + "."
    )


def _without_edges(data: HeteroData) -> HeteroData:
    bare = data.clone()
    for relation in data.edge_types:
        size = data[relation].edge_index.shape[1]
        for key, value in list(data[relation].items()):
            if torch.is_tensor(value) and value.dim() and value.shape[-1 if key == "edge_index" else 0] == size:
                bare[relation][key] = value[:, :0] if key == "edge_index" else value[:0]
    return bare

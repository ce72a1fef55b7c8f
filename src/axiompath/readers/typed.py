"""model + HeteroData -> TypedCall: how a model of several node types is called, and its answer as rows of one graph.

Arguments of forward are fields of HeteroData by name, `x_dict` or `x` for the features of all types alike; a model that
takes one object is given the HeteroData. What it answers is a tensor for one type, or a dict of them by type; or a row
for each pair of `edge_label_index`, which one relation has, or for each graph of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data, HeteroData

from ..arrays import IntArray
from ..errors import InputError, WrongKind
from ..graphs.names import index_names
from ..graphs.schema import Relation, Schema
from ..graphs.stack import find_schema, rows_of_types, stack_all, unstack
from ..graphs.targets import read_pairs
from ..graphs.typed_names import name_nodes
from .arguments import (
    BY_POSITION,
    LINKS_FIELD,
    NAMED,
    NOT_EDGES,
    NOT_X,
    REQUIRED,
    ModelCall,
    Usage,
    copy_data,
    has_decoder,
    parameters_of,
)
from .matrices import with_entries_as_edges
from .provision import give_pairs
from .refusals import FailingModel, UnreadableModel
from .run import copy_model, dtype_of_model


@dataclass(frozen=True)
class TypedCall:
    """Calls a model with a HeteroData made of stacked rows, and stacks its answer."""

    call: ModelCall | None  # the user's own way, of the model and a HeteroData
    fields: tuple[tuple[str, str], ...]  # argument of forward -> field of every type or relation; none for the whole
    predicts: str | None = None  # the type of the rows of an answer that is one tensor
    of_places: bool = False  # whether the rows of the answer are pairs of nodes, or whole graphs
    decoded: bool = False  # whether encode is called with the fields, and decode with what it gives and the pairs

    def __str__(self) -> str:
        """As one would write it."""
        if self.call is not None:
            return "call(model, data)"
        given = ", ".join(
            f"{name}={field}" if name == LINKS_FIELD else f"{name}=data.collect({field!r})"
            for name, field in self.fields
        )
        return f"model.decode(model.encode({given}), {LINKS_FIELD})" if self.decoded else f"model({given or 'data'})"

    def run(self, model: Any, data: HeteroData) -> Any:
        """The model's answer as it gives it."""
        if self.call is not None:
            return self.call(model, data)
        given = {name: _pairs_of(data) if name == LINKS_FIELD else data.collect(field) for name, field in self.fields}
        if self.decoded:
            return model.decode(model.encode(**given) if given else model.encode(data), _pairs_of(data))
        return model(**given) if given else model(data)

    def answer(self, model: Any, data: HeteroData) -> dict[str | None, torch.Tensor]:
        """The model's answer by node type; of pairs or graphs, as it is."""
        found = self.run(model, data)
        if self.of_places:
            if not isinstance(found, torch.Tensor):
                raise UnreadableModel(
                    f"Expected one tensor with a row for each pair or graph (got {type(found).__name__})."
                )
            return {None: found}
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
        hetero = unstack(data)
        return stack_answer(self.answer(model, hetero), hetero, rows_of_types(data), len(data["node_type"]))


def stack_answer(
    found: Mapping[str | None, torch.Tensor], data: HeteroData, rows: Sequence[torch.Tensor], num_rows: int
) -> torch.Tensor:
    """Answers by node type as rows of one graph; `rows` are those of each type."""
    if None in found:
        return found[None]
    widths = {name: part.reshape(len(part), -1).shape[1] for name, part in found.items()}
    if len(set(widths.values())) != 1:
        raise InputError(
            f"Expected answers of one width for all node types (got {widths}); pick one with "
            "`call=lambda model, data: model(...)['type']`."
        )
    first = next(iter(found.values()))
    stacked = first.new_zeros((num_rows, next(iter(widths.values()))))
    for name, part in found.items():
        assert name is not None
        own = rows[data.node_types.index(name)]
        if len(part) != len(own):
            raise InputError(f"Expected a row of logits for each of {len(own)} nodes of {name!r} (got {len(part)}).")
        stacked = stacked.index_copy(0, own, part.reshape(len(part), -1))
    return stacked


@dataclass(frozen=True, eq=False)
class Prepared:
    """Graphs in order, how a model is called on them, and what nodes are called."""

    graphs: tuple[Any, ...]
    usage: Usage
    node_names: Any


def prepare_types(model: Any, graphs: Sequence[Any], usage: Usage, node_names: Any = None) -> Prepared:
    """Graphs with several node types as one Data each, and how the model is called on them; others as they are.

    A matrix in place of `edge_index` becomes edges. Where there is nothing in place of the first, it is the second
    without edges.
    """
    if not any(isinstance(data, HeteroData) for data in graphs):
        return Prepared(*with_entries_as_edges(graphs, usage), node_names)
    given = [_without_edges(graphs[1]) if data is None else data for data in graphs]
    for data in given:
        if not isinstance(data, HeteroData):
            raise WrongKind(
                f"Expected all graphs to be HeteroData (got {type(data).__name__} beside one); make the other "
                "one, too, with the same types."
            )
    schema = find_schema(given)
    names = name_nodes(node_names, given, schema)
    pairs = None
    if usage.links is not None:
        index = index_names(names.items(), schema=schema)
        links = usage.links if torch.is_tensor(usage.links) else [index.target(_as_pair(pair)) for pair in usage.links]
        pairs = read_pairs(links)
        schema = replace(schema, links=_relation_of(pairs, schema))
        usage = replace(usage, links=pairs)
    stacked = stack_all(given, schema)
    if pairs is not None:
        stacked = tuple(give_pairs(data, pairs) for data in stacked)
    model = getattr(model, "_orig_mod", model)
    if isinstance(model, nn.Module):  # else it is refused where it is read
        usage = replace(usage, call=find_type(model, find_call(model, unstack(stacked[0]), usage.call), stacked[0]))
    return Prepared(stacked, usage, names)


def find_call(model: nn.Module, data: HeteroData, call: ModelCall | None) -> TypedCall:
    """Match the arguments of forward with the fields of the graph."""
    if call is not None:
        return call if isinstance(call, TypedCall) else TypedCall(call, ())
    known = {key for store in data.stores for key in store}
    decoded = LINKS_FIELD in known and has_decoder(model)
    named = [parameter for parameter in parameters_of(model, decoded) if parameter.kind in NAMED]
    lone = len(named) == 1 and named[0].name.removesuffix("_dict") not in known - {"batch"}
    if lone or (named and named[0].name == "data"):
        return TypedCall(None, (), decoded=decoded)
    fields = []
    for place, parameter in enumerate(named):
        field = parameter.name.removesuffix("_dict")
        if field not in known and place < len(BY_POSITION) and field not in (NOT_X, NOT_EDGES)[place]:
            field = BY_POSITION[place]
        if field in known:
            fields.append((parameter.name, field))
        elif parameter.default is REQUIRED:
            raise FailingModel(
                f"forward: the model asks for `{parameter.name}`, which no type of the data has; add `{field}` to "
                "every type, give the argument a default, or say with `call=lambda model, data: ...` how the model is "
                "called." + (" Pairs to predict for may be given as `links`, too." if field == LINKS_FIELD else "")
            )
    return TypedCall(None, tuple(fields), decoded=decoded)


def find_type(model: nn.Module, call: TypedCall, data: Data) -> TypedCall:
    """The same call, knowing whose rows an answer in one tensor has: the type that one more node makes longer."""
    duplicate = copy_model(model)
    hetero = unstack(copy_data(data, dtype_of_model(duplicate)))
    with torch.no_grad():
        try:
            found = call.run(duplicate, hetero)
        except Exception:
            return call  # it is said where the model is read
        if not isinstance(found, torch.Tensor) or not found.dim():
            return call
        if _answers_for_pairs(call, duplicate, hetero, len(found)):
            return replace(call, of_places=True)
        for node_type in hetero.node_types:
            if len(hetero[node_type].x) != len(found):
                continue
            longer = hetero.clone()
            for key, value in list(hetero[node_type].items()):
                if torch.is_tensor(value) and value.dim() and len(value) == len(found):
                    longer[node_type][key] = torch.cat([value, value[-1:]])
            if len(call.run(duplicate, longer)) == len(found) + 1:
                return replace(call, predicts=node_type)
    if len(found) == _num_graphs(hetero):
        return replace(call, of_places=True)
    raise UnreadableModel(
        f"Expected an answer with a row for each node of one type, pair or graph (got {len(found)} rows); there are "
        + ", ".join(f"{len(hetero[t].x)} of {t!r}" for t in hetero.node_types)
        + "."
    )


def _answers_for_pairs(call: TypedCall, model: nn.Module, data: HeteroData, num_rows: int) -> bool:
    """Whether one more pair makes the answer longer."""
    labelled = [relation for relation in data.edge_types if data[relation].get(LINKS_FIELD) is not None]
    if not labelled or data[labelled[0]][LINKS_FIELD].shape[1] != num_rows:
        return False
    longer = data.clone()
    pairs = data[labelled[0]][LINKS_FIELD]
    longer[labelled[0]][LINKS_FIELD] = torch.cat([pairs, pairs[:, -1:]], dim=1)
    return len(call.run(model, longer)) == num_rows + 1


def _num_graphs(data: HeteroData) -> int:
    batches = [store["batch"] for store in data.node_stores if "batch" in store]
    return max((int(batch.max()) + 1 for batch in batches if len(batch)), default=1)


def _pairs_of(data: HeteroData) -> torch.Tensor:
    pairs: torch.Tensor = next(iter(data.collect(LINKS_FIELD).values()))
    return pairs


def _as_pair(pair: Any) -> Any:
    return tuple(tuple(end) if isinstance(end, list) else end for end in pair) if np.iterable(pair) else pair


def _relation_of(pairs: IntArray, schema: Schema) -> Relation:
    """Whose pairs these are, by the types of their ends: the relation that has some already, or one that joins them."""
    ends = np.unique(pairs % len(schema.node_types), axis=0)
    if len(ends) != 1:
        shown = " and ".join(f"{schema.node_types[u]} – {schema.node_types[v]}" for u, v in ends[:2].tolist())
        raise InputError(f"Expected links between nodes of the same two types (got {shown or 'none'}).")
    if schema.links is not None and schema.link_ends == tuple(ends[0].tolist()):
        return schema.links
    for relation, joined in zip(schema.relations, schema.ends, strict=True):
        if joined == tuple(ends[0].tolist()):
            return relation
    u, v = (schema.node_types[end] for end in ends[0].tolist())
    raise InputError(
        f"Expected links along a relation of the graphs (got pairs of {u} and {v}, which none joins); put "
        f"`{LINKS_FIELD}` into the relation that the model reads it from."
    )


def _without_edges(data: HeteroData) -> HeteroData:
    bare = data.clone()
    for relation in data.edge_types:
        size = data[relation].edge_index.shape[1]
        for key, value in list(data[relation].items()):
            if torch.is_tensor(value) and value.dim() and value.shape[-1 if key == "edge_index" else 0] == size:
                bare[relation][key] = value[:, :0] if key == "edge_index" else value[:0]
    return bare

"""How a model of several snapshots, or of several edge sets, is called on the one graph that these are packed in."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch_geometric.data import Data

from ..errors import InputError
from ..graphs.packed import Packing, edge_sets, find_packing
from .arguments import ModelCall, Usage, find_arguments, parameters_of
from .run import answers_alike

# What an argument that takes a list of fields, one of each step, adds to the name of the field.
SUFFIXES = ("s", "es", "_list", "_seq", "_sequence", "_window")
PLURALS = {"edge_indices": "edge_index", "features": "x", "feature_list": "x", "inputs": "x"}


@dataclass(frozen=True)
class PackedCall:
    """Unpacks the graph, asks the model, and gives its answers to the nodes of the last step."""

    packing: Packing
    call: ModelCall | None
    window: bool  # whether the model takes a list of snapshots, rather than one with several edge sets

    def __call__(self, model: Any, merged: Data) -> torch.Tensor:
        """One row of answers for each row of the graph, 0 for those of earlier steps."""
        last = self.packing.rows(merged, self.packing.num_steps - 1)
        return self.answer_on(model, self.packing.unpack(merged), last, merged.x.shape[0])

    def answer_on(self, model: Any, steps: Sequence[Data], last: torch.Tensor, num_rows: int) -> torch.Tensor:
        """The same of steps that are unpacked already; `last` are the rows of the last one."""
        found: torch.Tensor = self.ask(model, steps)
        if self.packing.num_steps == 1 or not isinstance(found, torch.Tensor) or found.shape[:1] != last.shape:
            return found
        return found.new_zeros((num_rows, *found.shape[1:])).index_copy(0, last, found)

    def ask(self, model: Any, steps: Sequence[Data]) -> Any:
        """The model's own answer."""
        if self.call is not None:
            return self.call(model, list(steps) if self.window else steps[0])
        if not self.window:
            return find_arguments(model, steps[0], "data").run(model, steps[0])
        parameters = parameters_of(model)
        needed = [one for one in parameters if one.default is inspect.Parameter.empty]
        if len(needed) <= 1 and (not parameters or _field_of(parameters[0].name, steps[0]) is None):
            return model(list(steps))
        given = {}
        for one in parameters:
            field = _field_of(one.name, steps[0])
            if field is not None:
                given[one.name] = [step[field] for step in steps]
            elif one.name in steps[0] and given and _same_in_all(steps, one.name):
                given[one.name] = steps[-1][one.name]  # of a graph that stays as it is
            elif one in needed:
                raise InputError(
                    f"Expected arguments that take a list of snapshots, or lists of their fields such as xs, "
                    f"edge_indices and edge_weights, or a field that is the same in all (got `{one.name}`); say with "
                    "`call=lambda model, window: ...` how the model is called."
                )
        return model(**given)


def _field_of(argument: str, data: Data) -> str | None:
    """The field that an argument takes a list of."""
    fields = [argument.removesuffix(suffix) for suffix in SUFFIXES if argument.endswith(suffix)]
    return next((field for field in (PLURALS.get(argument), *fields) if field and field in data), None)


def _same_in_all(steps: Sequence[Data], field: str) -> bool:
    first = steps[0][field]
    return all(isinstance(first, torch.Tensor) and torch.equal(step[field], first) for step in steps)


def pack_edge_sets(model: Any, before: Any, after: Any, usage: Usage) -> tuple[Any, Any, Usage]:
    """Graphs whose further edge sets differ, as graphs whose edges have types, and how the model is called on them.

    A set that the model does not read stays out of it.
    """
    if not isinstance(before, Data) or not isinstance(after, Data) or isinstance(usage.call, PackedCall):
        return before, after, usage
    if before.get("edge_index") is None or len(sets := edge_sets(after)) == 1 or sets != edge_sets(before):
        return before, after, usage
    packing = find_packing([before], [after])
    further = [*sets[1:], *(field for _, parts in packing.edge_fields for s, field in parts if s)]
    same = (torch.equal(torch.as_tensor(before[field]), torch.as_tensor(after[field])) for field in further)
    if all(same) or answers_alike(model, (before, after), further, usage):
        return before, after, usage
    call = PackedCall(packing, usage.call, window=False)
    return packing.pack([before]), packing.pack([after]), replace(usage, call=call)

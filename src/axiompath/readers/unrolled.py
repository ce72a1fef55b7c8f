"""A cell that takes one step -> a model of a window, which takes all steps and answers with the last."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from ..errors import InputError

# What arguments for the state of a cell are called.
STATES = ("h", "c", "hx", "cx", "h0", "c0", "h_0", "c_0", "hidden", "state", "hidden_state", "cell_state", "memory")


class Unrolled(nn.Module):
    """Runs a cell over a window, oldest snapshot first, and hands each state on to the next step."""

    def __init__(self, cell: Any, head: Any, state: Sequence[Any]) -> None:
        super().__init__()
        self.cell, self.head, self.state = cell, head, tuple(state)
        self.fields, self.states, self.by_place = _arguments_of(cell)

    def forward(self, window: list[Data]) -> Any:
        """What the cell puts out at the last step, through the head."""
        state, output = self._first(window[0]), None
        for data in window:
            given = {name: data[name] for name in self.fields if data.get(name) is not None}
            if self.by_place:
                found = self.cell(data.x, data.edge_index, *state, **given)
            else:
                found = self.cell(data.x, data.edge_index, **given, **dict(zip(self.states, state, strict=False)))
            parts = tuple(found) if isinstance(found, (tuple, list)) else (found,)
            output = parts[0]
            # What a cell returns is (output, *state), or only its states, of which the first is the output.
            state = parts if len(parts) == (len(self.states) or len(parts) - 1) or len(parts) == 1 else parts[1:]
        return output if self.head is None else self.head(output)

    def _first(self, data: Data) -> tuple[Any, ...]:
        """The state that the first step takes: zeros of these widths, tensors, or fields of the oldest snapshot."""
        found = []
        for one in self.state:
            if isinstance(one, str):
                found.append(data[one])
            elif isinstance(one, int):
                found.append(torch.zeros(data.x.shape[0], one, dtype=data.x.dtype, device=data.x.device))
            else:
                found.append(one)
        return tuple(found)


def unroll(cell: Any, *, head: Callable[[Any], Any] | None = None, state: Sequence[Any] | int | str = ()) -> nn.Module:
    """Turn a cell, `cell(x, edge_index, *state) -> output, *state`, into a model of a window.

    If a cell returns only its states, as those of torch_geometric_temporal do, the first of them is its output. It
    receives `edge_weight` and other fields of Data by name. The first step has no state; `state` gives it zeros of
    these widths, tensors, or fields of the oldest snapshot by name, whose changes are then changes of features. `head`
    turns the last output into the prediction.
    """
    given = (state,) if isinstance(state, (int, str)) else tuple(state)
    if not callable(cell):
        raise InputError(
            f"Expected a cell that is called with x, edge_index and its state (got {type(cell).__name__})."
        )
    return Unrolled(cell, head, given)


def _arguments_of(cell: Any) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Arguments that are fields of Data, those that are states, and whether states go by their place."""
    parameters = inspect.signature(cell.forward if isinstance(cell, nn.Module) else cell).parameters
    named = [name for name, one in parameters.items() if one.kind is not inspect.Parameter.VAR_POSITIONAL]
    starred = len(named) < len(parameters)
    empty = inspect.Parameter.empty
    states = [name for name in named[2:] if name.lower() in STATES or "state" in name.lower()]
    states += [name for name in named[2:] if parameters[name].default is empty and name not in states]
    states = [name for name in states if not name.startswith("edge_")]
    if not states and not starred:
        raise InputError(
            f"Expected a cell that takes its state (got one that takes {', '.join(named)}); a cell whose state is "
            "never passed has no memory: call it as a model of one snapshot, or give it an argument named h."
        )
    return tuple(name for name in named[2:] if name not in states), tuple(states), starred

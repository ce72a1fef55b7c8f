"""A cell that takes one step -> a model of a window, which takes all steps and answers with the last."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from ..errors import InputError

# Words in the names of arguments that take the state of a cell, and those that are one as they are.
WORDS = ("state", "hidden", "prev", "memory", "embedding")
STATES = ("h", "c", "hx", "cx", "h0", "c0", "h_0", "c_0")
WHOLE = ("data", "snapshot", "graph")  # arguments that take a snapshot rather than its fields


@dataclass(frozen=True)
class Given:
    """A tensor of the user's, held as a buffer of this name."""

    name: str


class Unrolled(nn.Module):
    """Runs a cell over a window, oldest snapshot first, and hands each state on to the next step."""

    def __init__(self, cell: Any, head: Any, state: Sequence[Any]) -> None:
        super().__init__()
        self.cell, self.head = cell, head
        self.state = tuple(map(self._hold, state))
        self.whole, self.fields, self.states, self.by_place = _arguments_of(cell)

    def forward(self, window: list[Data]) -> Any:
        """What the cell puts out at the last step, through the head."""
        state, output = tuple(self._first(one, window[0]) for one in self.state), None
        for data in window:
            taken = (data,) if self.whole else (data.x, data.edge_index)
            given = {name: data[name] for name in self.fields if data.get(name) is not None}
            if self.by_place:
                found = self.cell(*taken, *state, **given)
            else:
                found = self.cell(*taken, **given, **dict(zip(self.states, state, strict=False)))
            parts = tuple(found) if isinstance(found, (tuple, list)) else (found,)
            output = parts[0]
            # What a cell returns is (output, *state), or only its states, of which the first is the output.
            state = parts if len(parts) == (len(self.states) or len(parts) - 1) or len(parts) == 1 else parts[1:]
        return output if self.head is None else self.head(output)

    def _hold(self, one: Any) -> Any:
        if isinstance(one, (tuple, list)):
            return tuple(map(self._hold, one))
        if not isinstance(one, torch.Tensor):
            return one
        name = f"given_{len(list(self.buffers(recurse=False)))}"
        self.register_buffer(name, one)
        return Given(name)

    def _first(self, one: Any, data: Data) -> Any:
        """What the first step takes: zeros of this width, a tensor, a field of the oldest snapshot; or several."""
        if isinstance(one, tuple):
            return tuple(self._first(part, data) for part in one)
        if isinstance(one, int):
            return torch.zeros(data.x.shape[0], one, dtype=data.x.dtype, device=data.x.device)
        return data[one] if isinstance(one, str) else getattr(self, one.name)


def unroll(cell: Any, *, head: Callable[[Any], Any] | None = None, state: Any = ()) -> nn.Module:
    """Turn a cell, `cell(x, edge_index, *state) -> output, *state`, into a model of a window.

    If a cell returns only its states, as those of torch_geometric_temporal do, the first of them is its output. It
    receives `edge_weight` and other fields of Data by name, or the whole snapshot if its first argument is `data`. The
    first step has no state; `state` gives it, one for each, zeros of these widths, tensors, or fields of the oldest
    snapshot by name, whose changes are then changes of features. A state of several tensors, such as that of an
    LSTMCell, is a tuple of these. `head` turns the last output into the prediction.
    """
    if not callable(cell):
        raise InputError(
            f"Expected a cell that is called with x, edge_index and its state (got {type(cell).__name__})."
        )
    return Unrolled(cell, head, state if isinstance(state, (tuple, list)) else (state,))


def _arguments_of(cell: Any) -> tuple[bool, tuple[str, ...], tuple[str, ...], bool]:
    """Whether it takes a whole snapshot, arguments that are fields, those that are states, and if these go by place."""
    parameters = inspect.signature(cell.forward if isinstance(cell, nn.Module) else cell).parameters
    named = [name for name, one in parameters.items() if one.kind is not inspect.Parameter.VAR_POSITIONAL]
    starred, whole = len(named) < len(parameters), bool(named) and named[0] in WHOLE
    others = [name for name in named[1 if whole else 2 :] if not name.startswith("edge_")]
    empty = inspect.Parameter.empty
    states = [
        name
        for name in others
        if name.lower() in STATES or any(word in name.lower() for word in WORDS) or parameters[name].default is empty
    ]
    if not states and not starred:
        raise InputError(
            f"Expected a cell that takes its state (got one that takes {', '.join(named)}); a cell whose state is "
            "never passed has no memory: call it as a model of one snapshot, or name the argument of its state h."
        )
    fields = [name for name in named[1 if whole else 2 :] if name not in states]
    return whole, tuple(fields), tuple(states), starred

"""A module that a reader of the user's own describes -> Value: one operation, whatever happens in it."""

from __future__ import annotations

import copy
import inspect
from functools import partial
from typing import Any, NoReturn

import torch
from torch import nn

from .calls import Call, own_reader
from .forms import Form
from .reader import Both, Reader, Step
from .refusals import UnreadableModel
from .rows import Recorded
from .trace import Number, record
from .values import Value, in_rows

GRAPH = ("edge_index", "edge_weight")  # what rules know by themselves


def read_registered(step: Step) -> Value:
    """What its reader says, held as a layer, which is compared with what the module gave."""
    reader, whole = step.reader, step.operations[1].function
    own = own_reader(whole.module)
    assert own is not None
    given = _given(step, whole.module)
    first, x = next(iter(given.items()), ("x", None))
    if not isinstance(x, Form):
        raise step.refuse("its first argument is no features of nodes, which a reader needs; call it with `x` first.")
    others = {name: value for name, value in given.items() if name not in (first, *GRAPH)}
    weighted = given.get("edge_weight") is not None
    call = Call(x, weighted, step.operations[1].place, others, reader.bases, partial(_read_inner, step))
    try:
        form = own(whole.module, call)
    except UnreadableModel:
        raise
    except Exception as error:
        raise step.refuse(f"its reader failed: {type(error).__name__}: {error}") from error
    if not isinstance(form, Form):
        raise step.refuse(f"its reader returned {type(form).__name__}, expected a Form.")
    for name in sorted(others.keys() - call.taken):
        if others[name] is not None and others[name] is not False:
            raise step.refuse(f"was called with `{name}`, which its reader does not ask for; leave it out.")
    shapes = step.shapes
    if any(tuple(shape) != (size, form.width) for shape, size in zip(shapes, reader.nodes.sizes, strict=True)):
        raise step.refuse(
            f"its reader gives {form.width} columns for each node (the module returned shape {tuple(shapes[1])})."
        )
    reader.wholes.append(step.value)
    held = reader.bases.hold(form, len(reader.wholes) - 1)
    reader.note(step, "read by its registered reader")
    return Value(held, reader.nodes, _rows(reader, shapes))


def _given(step: Step, module: nn.Module) -> dict[str, Any]:
    """Its arguments by name: features of nodes as forms, anything else as it is."""
    operation = step.operations[1]
    values = dict(zip(operation.numbers, step.inputs, strict=True))
    names = list(inspect.signature(module.forward).parameters)
    given = {**dict(zip(names, operation.args, strict=False)), **operation.kwargs}
    return {name: _argument(step, name, part, values) for name, part in given.items()}


def _argument(step: Step, name: str, part: Any, values: dict[Number, Both]) -> Any:
    if not isinstance(part, Number):
        return part
    value, reader = values[part], step.reader
    if step.inputs.index(value) in step.features:
        found = reader.read(value).arranged()
        places = _rows(reader, tuple(reader.shape(value, side) for side in (0, 1)))
        same = all(torch.equal(*pair) for pair in zip(found.places, places, strict=True))
        if found.axis.root is not reader.nodes or not same:
            raise step.refuse(f"`{name}` is not one row for each node, which a reader needs.")
        return found.form
    tensors = [reader.tensor(value, side) for side in (0, 1)]
    if name not in GRAPH and not torch.equal(*tensors):
        raise step.refuse(f"was called with `{name}`, which differs between the graphs: a reader cannot follow that.")
    return tensors[1]


def _rows(reader: Reader, shapes: Any) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = (in_rows(size, shape) for size, shape in zip(reader.nodes.sizes, shapes, strict=True))
    return first, second


def _read_inner(step: Step, inner: nn.Module, form: Form, name: str) -> Form:
    """A whole network inside of the module, of rows by themselves: recorded on numbers of no meaning."""

    def refuse(reason: str) -> NoReturn:
        raise step.refuse(f"its `{name}` {reason}")

    outer, double = step.reader, copy.deepcopy(inner).double()
    traces = []
    for size in outer.nodes.sizes:
        x = torch.linspace(-1, 1, size * form.width, dtype=torch.float64).reshape(size, form.width)
        traces.append(record(double, partial(double, x), {"x": x}, {"x"}))
        traces[-1].num_nodes = size
    reader = Reader((traces[0], traces[1]), outer.functions)
    reader.bases, reader.nodes, reader.axes, reader.leaves = outer.bases, outer.nodes, outer.axes, outer.leaves
    shapes = [torch.Size((size, form.width)) for size in outer.nodes.sizes]
    start, first = len(outer.bases.all), (reader.given[0]["x"], reader.given[1]["x"])
    reader.read_already[first] = Value(form, outer.nodes, _rows(outer, shapes))
    found = reader.read((traces[0].output, traces[1].output)).arranged()
    if found.axis.root is not outer.nodes or found.places[1].dim() != 2:
        refuse("does not give one row for each node.")
    made = [base.form for base in outer.bases.all[start:] if base.form is not None]
    if any(isinstance(term.coefficients, Recorded) for one in (*made, found.form) for term in one.terms):
        refuse("makes coefficients of features, such as LayerNorm does, which only the whole model shows.")
    return found.form

"""A copy of the model + one graph -> Trace: a single graph, steps that are packed in one, or types that are stacked."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.data import Data

from ..errors import InputError
from ..graphs.data_fields import NODE, describe_bad, level_of, name_as_given
from ..graphs.schema import OF_EDGES, OF_NODES, Schema, name_of_field
from ..graphs.stack import rows_of_types, unstack
from .arguments import Arguments, Usage
from .packed import PackedCall
from .refusals import UnreadableModel
from .run import dtype_of_model, failed_run, refuse_output, run_as_is_first
from .trace import Trace, record
from .typed import TypedCall, stack_answer

ROWS = "rows"
SHARED = (
    "x",
    "edge_index",
    "edge_weight",
    "batch",
    "edge_label_index",
)  # fields of the stacked graph by their own name


def record_model(
    duplicate: nn.Module, arguments: Arguments, data: Data, usage: Usage, name: str, elsewhere: set[str]
) -> Trace:
    """One run of a copy of the model on one graph; `elsewhere` are fields that only the other graph has."""
    dtype = dtype_of_model(duplicate)

    def answer(copied: Data) -> torch.Tensor:
        found = arguments.run(duplicate, copied)
        if not isinstance(found, torch.Tensor):
            raise refuse_output(found, arguments)
        return found

    def run(copied: Data) -> Trace:
        if isinstance(usage.call, PackedCall):
            return _record_steps(duplicate, copied, usage.call)
        if isinstance(usage.call, TypedCall):
            return _record_types(duplicate, copied, usage.call)
        inputs = {key: copied[key] for key in copied.keys() if isinstance(copied[key], torch.Tensor)}  # noqa: SIM118
        features = {key for key in inputs if key == "x" or is_feature(data, key)}
        trace = record(duplicate, lambda: answer(copied), inputs, features)
        trace.num_nodes = copied.x.shape[0]
        return trace

    try:
        trace: Trace = run_as_is_first(run, data, dtype)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        try:
            run_as_is_first(answer, data, dtype)
        except Exception:
            raise failed_run(error, duplicate, arguments, data, name, elsewhere) from error
        raise UnreadableModel(
            f"The model could not be recorded on `{name}`: {type(error).__name__}: {error}."
        ) from error
    if not bool(torch.isfinite(trace.values[trace.output]).all()):
        _check_finite(trace, data, name)
        raise UnreadableModel(f"The model itself gives NaN or infinite values on `{name}`; nothing is to be explained.")
    return trace


def _check_finite(trace: Trace, data: Data, name: str) -> None:
    """Refuse NaN and infinite numbers in a field that the answer depends on."""
    for number in sorted(trace.fields.keys() & trace.ancestors(trace.output)):
        value = trace.values[number]
        plain = value.is_floating_point() and value.layout == torch.strided
        if plain and not bool(torch.isfinite(value).all()):
            whole = name_as_given(data, trace.fields[number], name)
            bad = describe_bad(value.detach().double().numpy())
            raise InputError(
                f"Expected finite numbers in `{whole}` (got {bad}); clean them before the model sees them."
            )


def _record_steps(duplicate: nn.Module, copied: Data, call: PackedCall) -> Trace:
    """The same of steps that are packed in one graph: every field of a step is an input of its own."""
    packing = call.packing
    steps = packing.unpack(copied)
    inputs = {
        f"{key}@{k}": step[key]
        for k, step in enumerate(steps)
        for key in step.keys()  # noqa: SIM118
        if isinstance(step[key], torch.Tensor)
    }
    last = packing.rows(copied, len(steps) - 1)
    features = {key for key in inputs if is_feature(copied, packing.merged_name(key))}
    trace = record(
        duplicate,
        lambda: call.answer_on(duplicate, steps, last, copied.x.shape[0]),
        {**inputs, "rows": last},
        features,
    )
    rows = [packing.rows(copied, k).numpy() for k in range(len(steps))]
    for number, key in list(trace.fields.items()):
        if key == "rows":
            del trace.fields[number]
        if "@" in key:
            trace.rows[number] = rows[int(key.rsplit("@", 1)[1])]
            trace.fields[number] = packing.merged_name(key)
    trace.num_nodes = copied.x.shape[0]
    return trace


def _record_types(duplicate: nn.Module, copied: Data, call: TypedCall) -> Trace:
    """The same of a graph of several node types: what each type and each relation has is an input of its own.

    What a type has is of some rows of the graph, and the index of a relation names rows of the types at its ends.
    """
    schema: Schema = copied["schema"]
    hetero, rows = unstack(copied), rows_of_types(copied)
    levels = {
        OF_NODES: list(enumerate(hetero[kind] for kind in schema.node_types)),
        OF_EDGES: list(enumerate(hetero[relation] for relation in schema.relations)),
    }
    inputs = {
        name_of_field(level, number, key): value
        for level, stores in levels.items()
        for number, store in stores
        for key, value in store.items()
        if isinstance(value, torch.Tensor)
    }
    of_rows = {name_of_field(ROWS, number, ""): own for number, own in enumerate(rows)}
    features = {name for name in inputs if name.split(" ", 2)[2] == "x" or is_feature(copied, name)}
    answered: set[int] = set()

    def answer() -> torch.Tensor:
        found = call.answer(duplicate, hetero)
        answered.update(schema.node_types.index(name) for name in found if name is not None)
        return stack_answer(found, hetero, rows, copied.x.shape[0])

    trace = record(duplicate, answer, {**inputs, **of_rows}, features)
    trace.num_nodes, trace.types = copied.x.shape[0], [own.numpy() for own in rows]
    trace.answered = frozenset(answered)
    for number, name in list(trace.fields.items()):
        level, place, key = name.split(" ", 2)
        if level == ROWS:
            del trace.fields[number]
            continue
        trace.fields[number] = key if key in SHARED else name
        if level == OF_NODES:
            trace.rows[number] = trace.types[int(place)]
            if key == "x":
                trace.columns[number] = schema.columns[int(place)]
        elif "index" in key:
            ends = schema.ends[int(place)]
            trace.ends[number] = torch.stack([rows[end][own] for end, own in zip(ends, inputs[name], strict=True)])
            trace.whose[number] = ends
    if copied.get("batch") is not None:
        trace.batch = torch.as_tensor(copied.batch).numpy()
    return trace


def is_feature(data: Data, key: str) -> bool:
    """Whether a field holds several numbers of each node."""
    value = data.get(key)
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 2
        and value.is_floating_point()
        and (key == "x" or (level_of(data, key) == NODE and value.shape[1] != len(value)))
    )

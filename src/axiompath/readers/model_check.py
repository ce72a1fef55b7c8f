"""model + Data -> ModelCheck: how each line of the model was read, or why it could not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import nn
from torch_geometric.data import Data

from ..files.named import take_names
from ..graphs.data_fields import Fields
from ..graphs.packed import find_packing
from ..graphs.snapshot import Snapshot, read_snapshot
from ..outputs import AUTO
from .arguments import Arguments, ModelCall, Usage, find_arguments
from .assemble import ReadModel, read_pair
from .packed import PackedCall
from .provision import prepare_inputs, with_edge_index
from .reader import Line
from .refusals import WITHOUT_PATHS, UnreadableModel
from .run import copy_model, run_model
from .typed import prepare_types


class Row(NamedTuple):
    """One operation of one line of the model."""

    line: str  # file and line; of a module that has a registered reader, its name
    operation: str
    reading: str  # how it was read, or why it could not be


@dataclass(frozen=True)
class ModelCheck:
    """How AxiomPath reads a model."""

    rows: tuple[Row, ...]
    num_hops: int | None  # of the whole model; None where it cannot be read
    num_layers: int | None  # of the normal form, local ones included
    num_parameters: int
    replay_error: float | None  # largest difference to the model's own logits, over their largest magnitude
    problem: str | None  # why the model cannot be read
    call: str | None = None  # how the model was called
    unused: tuple[str, ...] = ()  # fields of the graph that its answer does not depend on
    defaults: tuple[str, ...] = ()  # arguments of forward that no field of the graph is named like
    forgets: bool = False  # of a model of a window: whether its answer depends only on the last snapshot

    @property
    def readable(self) -> bool:
        """Whether the model can be explained."""
        return self.problem is None

    def to_frame(self) -> pd.DataFrame:
        """One row per operation: line, operation, reading."""
        return pd.DataFrame(self.rows, columns=Row._fields)

    def __str__(self) -> str:
        """The table, then the verdict."""
        lines = [Row._fields, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(2)]
        table = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {reading}" for a, b, reading in lines]
        return "\n".join([*table, "", self.verdict, *self.remarks])

    def _repr_html_(self) -> str:
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in (self.verdict, *self.remarks))
        return self.to_frame().to_html(index=False) + sentences

    @property
    def remarks(self) -> tuple[str, ...]:
        """How the model was called, what it did not receive, and what it did not use; one line each."""
        lines = [] if self.call is None else [f"Called as {self.call}."]
        if self.unused:
            lines.append(f"Fields of the data that the answer does not depend on: {', '.join(self.unused)}.")
        if self.defaults:
            lines.append(f"Arguments that kept their default, for want of a field: {', '.join(self.defaults)}.")
        if self.forgets:
            lines.append(
                "The model has no memory: its answer depends only on the last snapshot. Hand its state on from step "
                "to step; `axiompath.unroll(cell)` does."
            )
        return tuple(lines)

    @property
    def verdict(self) -> str:
        """One line."""
        if self.problem is not None:
            return f"Cannot be read. {self.problem}"
        return (
            f"Read exactly: {self.num_hops} hops in {self.num_layers} layers, {self.num_parameters:,} parameters, "
            f"replay error {self.replay_error:.1e}."
        )


def check(model: nn.Module, data: Any, call: ModelCall | None = None, output: str = AUTO) -> ModelCheck:
    """Read a model on one graph and report line by line; an unreadable model is reported, not raised.

    `call`, a function of the model and a Data object, calls the model; by default, arguments of forward are fields of
    the data by name. `output` is the meaning of its columns, as for Explainer. For a model of a window, `data` is a
    list of snapshots.
    """
    if isinstance(data, Sequence):
        return _check_window(model, list(data), Usage(call, output=output))
    (data,) = take_names([data]).graphs
    data = with_edge_index(data, "data") if isinstance(data, Data) else data
    ready = prepare_types(model, (data, data), Usage(call, output=output))
    data, usage = ready.graphs[0], ready.usage
    read_snapshot(data, "data")  # refuses what is no graph
    return _check(model, data, usage)


def _check_window(model: nn.Module, window: list[Any], usage: Usage) -> ModelCheck:
    """The same of a model of several snapshots, and whether it remembers the earlier ones."""
    packing = find_packing(window)
    packed = PackedCall(packing, usage.call, window=True)
    answers = [run_model(copy_model(model), packing.pack(one), packed) for one in (window, [window[-1]] * len(window))]
    forgets = len(window) > 1 and torch.equal(*answers)
    found = _check(model, packing.pack(window), replace(usage, call=packed))
    return replace(found, call=f"a model of {len(window)} snapshots", unused=(), forgets=forgets)


def _check(model: nn.Module, data: Data, usage: Usage) -> ModelCheck:
    def snapshots(fields: Fields) -> tuple[Snapshot, Snapshot]:
        snapshot = read_snapshot(data, "data", fields)
        return snapshot, snapshot

    arguments: Arguments | None = None
    found: ReadModel | None = None
    problem: str | None = None
    rows: tuple[Row, ...] = ()
    unused: tuple[str, ...] = ()
    try:
        duplicate = copy_model(model)
        inputs = prepare_inputs(duplicate, data, data, usage)
        graphs = inputs.before, inputs.before
        arguments = find_arguments(duplicate, inputs.before, "data", usage.call)
        found = read_pair(model, graphs, snapshots, usage, inputs.pairs, ("data", "data"))
        rows, unused = _rows(found.lines, None), _unused(found.used, arguments, data)
    except UnreadableModel as refusal:
        problem, rows = str(refusal), _rows(refusal.lines, str(refusal))
    return ModelCheck(
        rows,
        None if found is None else found.network.num_hops,
        None if found is None else len(found.network.layers),
        sum(p.numel() for p in model.parameters() if not nn.parameter.is_lazy(p)),
        None if found is None else found.error,
        problem,
        None if arguments is None else str(arguments),
        unused,
        () if arguments is None else arguments.defaults,
    )


def _unused(used: frozenset[str], arguments: Arguments, data: Data) -> tuple[str, ...]:
    """Fields that the output does not depend on, as far as is known: tensors, and all that was not even passed."""
    sees_all = arguments.whole or arguments.call is not None
    keys = set(data.keys())
    known = {key for key in keys if isinstance(data[key], torch.Tensor)} if sees_all else keys
    return tuple(sorted(known - used - {"n_id"}))


def _rows(lines: Sequence[Line], problem: str | None) -> tuple[Row, ...]:
    """Operations that were read, in the order of the model, alike ones once; then what was refused."""
    rows = [
        Row(line.place, line.operation, f"{line.how} ({times} times)" if times > 1 else line.how)
        for line, times in Counter(lines).items()
    ]
    if problem is not None:
        place, colon, reason = problem.removesuffix(WITHOUT_PATHS).rstrip().partition(": ")
        rows.append(Row(*((place, "", f"refused: {reason}") if colon else ("model", "", f"refused: {place}"))))
    return tuple(rows)

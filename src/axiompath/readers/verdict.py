"""model + Data -> ModelCheck: how each module was read, or why it could not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch_geometric.data import Data

from ..arrays import FloatArray, IntArray
from ..files.named import take_names
from ..graphs.data_fields import Fields
from ..graphs.packed import find_packing
from ..graphs.snapshot import Snapshot, read_snapshot
from ..network.layers import Network, run_network
from ..outputs import AUTO
from .arguments import Arguments, ModelCall, Usage, constant_fields, find_arguments
from .assembly import Note, Reading, assemble_network
from .packed import PackedCall
from .provision import prepare_inputs, with_edge_index
from .reader import check_values, find_places, has_own_reader, join_refusals, with_edges
from .tape import WITHOUT_PATHS, FailingModel, Recording, UnreadableModel
from .traced.assemble import read_traced
from .trial import copy_model, leaves, record_model, run_model
from .typed import prepare_types


class Row(NamedTuple):
    """One module, or one function that the model calls by itself."""

    module: str  # dotted name
    type: str
    hops: int
    parameters: int
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
        """One row per module: module, type, hops, parameters, reading."""
        return pd.DataFrame(self.rows, columns=Row._fields)

    def __str__(self) -> str:
        """The table, then the verdict."""
        lines = [Row._fields, *([str(value or "") for value in row] for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(4)]
        table = [
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}  {reading}"
            for a, b, c, d, reading in lines
        ]
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
    """Read a model on one graph and report module by module; an unreadable model is reported, not raised.

    `call`, a function of the model and a Data object, calls the model; by default, arguments of forward are fields of
    the data by name. `output` is the meaning of its columns, as for Explainer. For a model of a window, `data` is a
    list of snapshots.
    """
    if isinstance(data, Sequence):
        return _check_window(model, list(data), Usage(call, output=output))
    (data,) = take_names([data]).graphs
    data = with_edge_index(data, "data") if isinstance(data, Data) else data
    ready = prepare_types(model, (data, data), Usage(call))
    data, call = ready.graphs[0], ready.usage.call
    num_features = read_snapshot(data, "data").x.shape[1]
    notes: list[Note] = []
    network: Network | None = None
    error, problem, where = None, None, None
    arguments: Arguments | None = None
    unused: tuple[str, ...] = ()
    try:
        duplicate = copy_model(model)
        inputs = prepare_inputs(duplicate, data, data, Usage(call))
        data = inputs.before
        arguments = find_arguments(duplicate, data, "data", call)
        recording = record_model(duplicate, data, arguments, constants=constant_fields(data, data))
        unused = _unused(recording, arguments, data)
        reading = assemble_network(recording, num_features, output, notes)
        network = reading.network
        snapshot = read_snapshot(data, "data", reading.fields)
        (snapshot, _) = with_edges(network, find_places(network, (snapshot, snapshot), inputs.pairs))
        computed = run_network(network, snapshot)
        check_values(network, computed, recording, slice(0, snapshot.first_edge), "data", snapshot)
        error = _replay_error(computed.logits, recording, reading, snapshot)
    except UnreadableModel as refusal:
        if isinstance(refusal, FailingModel) or "schema" in data or has_own_reader(model):
            problem, where = str(refusal), refusal.where
        else:
            try:
                return _check_operations(model, data, Usage(call, output=output), inputs.pairs, arguments)
            except UnreadableModel as other:
                both = join_refusals(refusal, other)
                problem, where = str(both), both.where
    return ModelCheck(
        _rows(model, notes, where, problem),
        network.num_hops if network and problem is None else None,
        len(network.layers) if network and problem is None else None,
        sum(p.numel() for p in model.parameters() if not nn.parameter.is_lazy(p)),
        error,
        problem,
        None if arguments is None else str(arguments),
        unused,
        () if arguments is None else arguments.defaults,
    )


def _check_window(model: nn.Module, window: list[Any], usage: Usage) -> ModelCheck:
    """The same of a model of several snapshots, and whether it remembers the earlier ones."""
    packing = find_packing(window)
    packed = PackedCall(packing, usage.call, window=True)
    merged = packing.pack(window)
    answers = [run_model(copy_model(model), packing.pack(one), packed) for one in (window, [window[-1]] * len(window))]
    forgets = len(window) > 1 and torch.equal(*answers)
    try:
        found = _check_operations(model, merged, replace(usage, call=packed), None, None)
    except UnreadableModel as refusal:
        found = ModelCheck((), None, None, sum(p.numel() for p in model.parameters()), None, str(refusal))
    return replace(found, call=f"a model of {len(window)} snapshots", forgets=forgets)


def _check_operations(
    model: nn.Module, data: Data, usage: Usage, pairs: IntArray | None, arguments: Arguments | None
) -> ModelCheck:
    """The same of a model that is read by its operations: one row for each line of the forward pass."""

    def snapshots(fields: Fields) -> tuple[Snapshot, Snapshot]:
        snapshot = read_snapshot(data, "data", fields)
        return snapshot, snapshot

    found = read_traced(model, (data, data), snapshots, usage, pairs, ("data", "data"))
    rows = tuple(Row(line.place, line.operation, 0, 0, line.how) for line in found.lines)
    num_parameters = sum(p.numel() for p in model.parameters() if not nn.parameter.is_lazy(p))
    network = found.network
    return ModelCheck(
        rows,
        network.num_hops,
        len(network.layers),
        num_parameters,
        found.error,
        None,
        None if arguments is None else str(arguments),
        (),
        () if arguments is None else arguments.defaults,
    )


def _replay_error(logits: FloatArray, recording: Recording, reading: Reading, snapshot: Snapshot) -> float:
    """Largest difference to the model's own logits, over their largest magnitude; of all types that it answers for."""
    found = 0.0
    for kind, ref in reading.logits.items():
        theirs = recording.values[ref.index].double().numpy().reshape(-1, logits.shape[1])
        ours = logits[: len(theirs)] if kind is None else logits[np.flatnonzero(snapshot.node_types == kind)]
        scale = float(np.abs(theirs).max(initial=0.0)) or 1.0
        found = max(found, float(np.abs(ours - theirs).max(initial=0.0)) / scale)
    return found


def _unused(recording: Recording, arguments: Arguments, data: Data) -> tuple[str, ...]:
    """Fields that the output does not depend on, as far as is known: tensors, and all that was not even passed."""
    followed = set(recording.fields.values())
    sees_all = arguments.whole or arguments.call is not None
    loose = followed if sees_all else followed | (set(data.keys()) - arguments.given)
    return tuple(sorted(loose - recording.used - {"n_id"}))


def _rows(model: nn.Module, notes: list[Note], where: str | None, problem: str | None) -> tuple[Row, ...]:
    """Modules read as a whole or by the functions they call, in the model's order; others if they have parameters."""
    modules = dict(model.named_modules())
    found: dict[str, list[Note]] = {name: [note for note in notes if note.where == name] for name in modules}
    if problem is not None and where in found:
        # The problem's own words: without the name that opens them.
        reason = problem.removesuffix(WITHOUT_PATHS).rstrip().split("): ", 1)[-1]
        found[where].append(Note(where, type(modules[where]).__name__, f"cannot be read: {reason}"))
    for name, module in modules.items():
        holds = any(True for _ in module.parameters(recurse=False)) or isinstance(module, leaves())
        inside = any(found[other] for other in found if other.startswith(f"{name}."))
        covered = any(name.startswith(f"{other}.") and type(modules[other]) in leaves() for other in found)
        if not found[name] and name and holds and not inside and not covered:
            found[name] = [Note(name, "", "not reached" if problem is not None else "not used")]
    sizes = {name: 0 for name, noted in found.items() if noted}
    for name, parameter in model.named_parameters():
        # A parameter counts for the innermost module that has a row.
        owners = [owner for owner in sizes if not owner or name.startswith(f"{owner}.")]
        if owners and not nn.parameter.is_lazy(parameter):
            sizes[max(owners, key=len)] += parameter.numel()
    rows = []
    for name, noted in found.items():
        single = not list(modules[name].children()) or isinstance(modules[name], leaves())
        for note, times in Counter(noted).items():
            kind = type(modules[name]).__name__ if single else note.operation
            how = note.how + (f" of {note.num_hops} hop{'s' * (note.num_hops != 1)}" if note.num_hops else "")
            how += f" ({times} times)" if times > 1 else ""
            rows.append(Row(name or "forward", kind, times * note.num_hops, sizes.pop(name, 0), how))
    return tuple(rows)

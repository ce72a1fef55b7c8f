"""model + Data -> ModelCheck: how each module was read, or why it could not be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from ..network import Network, run_network
from ..snapshot import read_snapshot
from .assembly import Note, assemble_network, leaves
from .reading import check_values
from .recording import UnreadableModel, copy_model, record_model


@dataclass(frozen=True)
class Row:
    """One module, or one function that the model calls by itself."""

    module: str  # dotted name
    type: str
    reading: str  # how it was read, or why it could not be
    num_hops: int
    num_parameters: int


@dataclass(frozen=True)
class ModelCheck:
    """What AxiomPath makes of a model."""

    rows: tuple[Row, ...]
    num_hops: int | None  # of the whole model; None where it cannot be read
    num_layers: int | None  # of the normal form, local ones included
    num_parameters: int
    replay_error: float | None  # largest difference to the model's own logits, over their largest magnitude
    problem: str | None  # why the model cannot be read

    @property
    def readable(self) -> bool:
        """Whether the model can be explained."""
        return self.problem is None

    def to_frame(self) -> pd.DataFrame:
        """One row a module: module, type, reading, hops, parameters."""
        values = [(r.module, r.type, r.reading, r.num_hops, r.num_parameters) for r in self.rows]
        return pd.DataFrame(values, columns=["module", "type", "reading", "hops", "parameters"])

    def __str__(self) -> str:
        """The table, then the verdict."""
        with pd.option_context("display.max_colwidth", 60):
            table = self.to_frame().to_string(index=False, justify="left") if self.rows else "(no modules)"
        return f"{table}\n\n{self.verdict}"

    def _repr_html_(self) -> str:
        return f"{self.to_frame().to_html(index=False)}<p>{_escape(self.verdict)}</p>"

    @property
    def verdict(self) -> str:
        """One line."""
        if self.problem is not None:
            return f"Cannot be read. {self.problem}"
        return (
            f"Read exactly: {self.num_hops} hops in {self.num_layers} layers, {self.num_parameters:,} parameters, "
            f"replay error {self.replay_error:.1e}."
        )


def check(model: nn.Module, data: Any) -> ModelCheck:
    """Read a model on one graph and report module by module; an unreadable model is reported, not raised."""
    snapshot = read_snapshot(data, "data")
    notes: list[Note] = []
    network: Network | None = None
    error, problem, where = None, None, None
    try:
        duplicate = copy_model(model)
        recording = record_model(duplicate, data, leaves())
        reading = assemble_network(recording, snapshot.x.shape[1], notes)
        network = reading.network
        computed = run_network(network, snapshot)
        check_values(network, computed, recording, slice(0, snapshot.num_nodes), "data")
        theirs = recording.values[reading.logits.index].double().numpy()
        scale = float(np.abs(theirs).max(initial=0.0)) or 1.0
        error = float(np.abs(computed.logits - theirs).max(initial=0.0)) / scale
    except UnreadableModel as refusal:
        problem, where = str(refusal), refusal.where
    return ModelCheck(
        _rows(model, notes, where, problem),
        network.num_hops if network and problem is None else None,
        len(network.layers) if network and problem is None else None,
        sum(p.numel() for p in model.parameters() if not nn.parameter.is_lazy(p)),
        error,
        problem,
    )


def _rows(model: nn.Module, notes: list[Note], where: str | None, problem: str | None) -> tuple[Row, ...]:
    """Modules that hold no others, modules read as a whole, and functions called by name; in the model's order."""
    rows = []
    kinds = dict(model.named_modules())
    whole = {name for name, module in kinds.items() if isinstance(module, leaves()) or not list(module.children())}
    for name, module in kinds.items():
        inside = [note for note in notes if note.where == name]
        if name == where and problem is not None:
            inside.append(Note(name, type(module).__name__, f"not read: {problem}"))
        elif name in whole and not inside:
            covered = any(name.startswith(f"{other}.") for other in whole)
            if covered or isinstance(module, (nn.ModuleList, nn.Identity)):
                continue
            inside = [Note(name, "", "not reached" if problem is not None else "not used")]
        for note in inside:
            kind = type(module).__name__ if name in whole else note.operation
            how = note.how + (f" of {note.num_hops} hop{'s' * (note.num_hops != 1)}" if note.num_hops else "")
            size = sum(p.numel() for p in module.parameters() if not nn.parameter.is_lazy(p)) if name in whole else 0
            rows.append(Row(name or "forward", kind, how, note.num_hops, size))
    return tuple(rows)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

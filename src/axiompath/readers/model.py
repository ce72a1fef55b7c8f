"""model + before + after -> ReadModel: its Network, checked against the model on both snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..graphs.data_fields import PLAIN_FIELDS, Fields
from ..graphs.pair import match_snapshots
from ..graphs.sample import FEW_EDGES, WHOLE_EDGES, sample_pair, some_edges
from ..graphs.snapshot import Snapshot, read_aligned, read_snapshot, rows_of
from ..network.layers import run_network, run_pair
from ..outputs import VALUE
from ..storage.memory import give_back
from .arguments import AS_IT_IS, Usage
from .assemble import HeldModel, ReadModel, check_fields, read_held, read_pair
from .output import ENDS
from .packed import PackedCall
from .refusals import UnreadableModel, quoted
from .run import answers_alike, copy_model, run_model, tolerance_of

FOLLOWED = ("x", "edge_index", "edge_weight", "n_id")  # whatever kind of array they are
Sides = tuple[Snapshot, Snapshot]


def read_network(
    model: nn.Module,
    snapshots: Sides,
    graphs: tuple[Data, Data],
    usage: Usage = AS_IT_IS,
    pairs: IntArray | None = None,
) -> ReadModel:
    """Read the model, run the Network on both snapshots, and refuse if it does not compute what the model computes.

    The snapshots are aligned; the graphs are the user's own, on which the model itself is run as `usage` says, else by
    the names of forward's arguments. Where they are large, it is recorded on samples of them instead. `pairs` are those
    that a model of links is asked for.
    """

    def align(fields: Fields) -> Sides:
        return snapshots if fields == PLAIN_FIELDS else read_aligned(*graphs, fields)

    num_edges = max(side.edge_index.shape[1] for side in snapshots)
    of_nodes = pairs is None and snapshots[0].graphs is None and "schema" not in graphs[0]
    found: ReadModel | None = None
    if of_nodes and not isinstance(usage.call, PackedCall):
        if num_edges > WHOLE_EDGES:
            samples = sample_pair(match_snapshots(*snapshots, graphs))
            found = read_samples(model, *samples, usage)
            plain = align(found.fields)
            give_back()
            passes = run_pair(found.network, *plain)
            give_back()
            return replace(found, graphs=plain, sides=plain, passes=passes)
        if num_edges > FEW_EDGES:
            found = _read_by_rules(model, snapshots, graphs, align, usage)
    if found is None:
        found = read_pair(model, graphs, align, usage, pairs)
    _check_settings(model, graphs, usage)
    return _with_scales(found, usage.scales)


def read_window(model: nn.Module, snapshots: Sides, graphs: tuple[Data, Data], usage: Usage) -> HeldModel:
    """The same of two windows, packed in graphs: what the model holds at each step, without layers."""
    call = usage.call
    assert isinstance(call, PackedCall)

    def align(fields: Fields) -> Sides:
        return snapshots if fields == PLAIN_FIELDS else read_aligned(*graphs, fields)

    first, second = (call.packing.rows(data, call.packing.num_steps - 1).numpy() for data in graphs)
    found = read_held(model, graphs, align, usage, (first, second))
    _check_settings(model, graphs, usage)
    return found


def _read_by_rules(
    model: nn.Module,
    snapshots: Sides,
    graphs: tuple[Data, Data],
    align: Callable[[Fields], Sides],
    usage: Usage,
) -> ReadModel | None:
    """Read the model's operations on small samples, and run the rules that its coefficients follow on all of both.

    None where they follow none, or where the Network does not answer as the model itself on both graphs.
    """
    samples = sample_pair(match_snapshots(*snapshots, graphs), small=True)

    def read(fields: Fields) -> Sides:
        return read_snapshot(samples[0], "before", fields), read_snapshot(samples[1], "after", fields)

    try:
        found = read_pair(model, samples, read, usage, None, samples=True)
        check_fields(found.used, found.fields, graphs)
        sides = align(found.fields)
        passes = run_pair(found.network, *sides)
        for data, snapshot, computed in zip(graphs, sides, passes, strict=True):
            answer = run_model(copy_model(model), data, usage.call)
            if not answers_as(computed.logits[rows_of(snapshot, data)], found.last, answer):
                return None
    except UnreadableModel:
        return None
    return replace(found, graphs=sides, sides=sides, passes=passes)


def answers_as(logits: FloatArray, last: str, answer: torch.Tensor) -> bool:
    """Whether logits, and the softmax or sigmoid that follows them, are what a model answered."""
    if logits.size != answer.numel() or not bool(torch.isfinite(answer).all()):
        return False
    ours = torch.from_numpy(logits).reshape(answer.shape)
    if last:
        ours = ENDS[last](ours)
    scale = float(answer.abs().max()) if answer.numel() else 1.0
    error = float((ours - answer.double()).abs().max()) if answer.numel() else 0.0
    return error <= tolerance_of(answer.dtype) * (scale or 1.0)


def _check_settings(model: nn.Module, graphs: tuple[Data, Data], usage: Usage) -> None:
    """Refuse a model that reads what is no tensor and differs."""
    differing = _differing_settings(*graphs)
    if differing and not answers_alike(model, graphs, differing, usage):
        raise UnreadableModel(
            f"The two graphs differ in {quoted(differing)}, too, which the model reads; only changes of tensors can be "
            "listed, so give both graphs the same."
        )


def read_samples(model: nn.Module, before: Data, after: Data, usage: Usage = AS_IT_IS) -> ReadModel:
    """Read the model on parts of the two graphs, each checked by itself, and on a third that neither of them is."""

    def read(fields: Fields) -> Sides:
        return read_snapshot(before, "before", fields), read_snapshot(after, "after", fields)

    found = read_pair(model, (before, after), read, usage, None, samples=True)
    part = some_edges(after)
    computed = run_network(found.network, read_snapshot(part, "after", found.fields))
    if not answers_as(computed.logits, found.last, run_model(copy_model(model), part, usage.call)):
        raise UnreadableModel(
            "What was read from the model gives other logits than the model on a part of `after` without some of its "
            "edges, so that it cannot be run on graphs that are too large to run the model on; open smaller ones."
        )
    return _with_scales(found, usage.scales)


def _with_scales(found: ReadModel, scales: Any) -> ReadModel:
    """The model with the user's units of values, checked."""
    units = read_scales(scales, found.network.output, found.network.num_classes)
    return replace(found, network=replace(found.network, scales=units))


def read_scales(scales: Any, output: str, num_classes: int) -> FloatArray | None:
    """The user's units of values, one for each column; None where there are none."""
    if scales is None:
        return None
    if output != VALUE:
        raise InputError(f'Expected `scales` to go with values (got a model whose output is "{output}").')
    units = np.asarray(scales, dtype=np.float64).reshape(-1)
    if len(units) != num_classes or not (np.isfinite(units) & (units > 0)).all():
        raise InputError(f"Expected a positive number for each of {num_classes} values in `scales` (got {units}).")
    return units


def _differing_settings(before: Data, after: Data) -> list[str]:
    """Fields that are no tensors and differ: what a model does with them cannot be followed."""
    shared = [key for key in sorted(before.keys()) if key in after and not isinstance(before[key], torch.Tensor)]
    return [key for key in shared if key not in FOLLOWED and not np.array_equal(before[key], after[key])]

"""model + before + after -> Network, checked against the model on both snapshots."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
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
from ..graphs.snapshot import Snapshot, check_edge_features, read_aligned, read_snapshot, rows_of
from ..graphs.targets import rows_of_places, with_graphs, with_links
from ..graphs.widened import widen_graph, widen_pair
from ..network.layers import ForwardPass, Network, run_network, run_pair
from ..outputs import VALUE
from ..storage.memory import give_back
from .arguments import AS_IT_IS, Usage, compare_arguments, constant_fields, find_arguments
from .assembly import assemble_network
from .calls import READERS
from .packed import PackedCall
from .tape import FailingModel, Recording, Ref, TypedInputs, UnreadableModel, quoted
from .traced.assemble import check_fields, read_traced
from .trial import answers_alike, copy_model, record_model, run_model

# Largest difference between the Network and the model, relative to the largest value of the layer.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
SIDES = ("before", "after")
ENDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softmax": partial(torch.softmax, dim=-1),
    "log_softmax": partial(torch.log_softmax, dim=-1),
    "sigmoid": torch.sigmoid,
    "log_sigmoid": torch.nn.functional.logsigmoid,
}
NO_READER = "no reader for this message-passing layer"
FOLLOWED = ("x", "edge_index", "edge_weight", "n_id")  # whatever kind of array they are
HALF_TOLERANCE = 5e-2  # float16 and bfloat16 keep two to three digits


@dataclass(frozen=True, eq=False)
class ReadModel:
    """A model in the normal form, and its passes over two aligned snapshots of what it takes."""

    network: Network
    fields: Fields
    graphs: tuple[Snapshot, Snapshot]  # before and after; their edges are no places
    before: Snapshot
    after: Snapshot
    before_pass: ForwardPass
    after_pass: ForwardPass


def read_network(
    model: nn.Module,
    snapshots: tuple[Snapshot, Snapshot],
    graphs: tuple[Data, Data],
    usage: Usage = AS_IT_IS,
    pairs: IntArray | None = None,
) -> ReadModel:
    """Read the model, run the Network on both snapshots, and refuse if it does not compute what the model computes.

    The snapshots are aligned; the graphs are the user's own, on which the model itself is run as `usage` says, else by
    the names of forward's arguments. Where they are large, it is run on samples of them instead. `pairs` are those that
    a model of links is asked for.
    """

    def align(fields: Fields) -> tuple[Snapshot, Snapshot]:
        if fields == PLAIN_FIELDS:
            return snapshots
        return read_aligned(*graphs, fields)

    num_edges = max(side.edge_index.shape[1] for side in snapshots)
    if isinstance(usage.call, PackedCall):
        return _read_traced(model, graphs, align, usage, pairs)
    if has_own_reader(model):
        return _read_and_check(model, graphs, align, usage, pairs)
    of_nodes = pairs is None and snapshots[0].graphs is None
    if of_nodes and num_edges > WHOLE_EDGES:
        network, fields = read_samples(model, *sample_pair(match_snapshots(*snapshots, graphs)), usage)
        plain = find_places(network, align(fields), None)
        sides = with_edges(network, plain)
        give_back()
        passes = run_pair(network, *sides)
        give_back()
        return ReadModel(network, fields, plain, *sides, *passes)
    recorded: ReadModel | UnreadableModel | None = None
    if of_nodes and num_edges > FEW_EDGES:
        found = _read_by_rules(model, snapshots, graphs, align, usage)
        if found is not None:
            return found
    else:
        try:
            recorded = _read_traced(model, graphs, align, usage, pairs)
            if not recorded.network.recorded:
                return recorded
        except UnreadableModel as refusal:
            recorded = refusal
    try:
        return _read_and_check(model, graphs, align, usage, pairs)
    except FailingModel:
        raise
    except UnreadableModel as by_classes:
        try:
            recorded = recorded or _read_traced(model, graphs, align, usage, pairs)
        except UnreadableModel as refusal:
            recorded = refusal
        if isinstance(recorded, UnreadableModel):
            raise join_refusals(by_classes, recorded) from recorded
        return recorded


def _read_by_rules(
    model: nn.Module,
    snapshots: tuple[Snapshot, Snapshot],
    graphs: tuple[Data, Data],
    align: Callable[[Fields], tuple[Snapshot, Snapshot]],
    usage: Usage,
) -> ReadModel | None:
    """Read the model's operations on small samples, and run the rules that its coefficients follow on all of both.

    None where they follow none, or where the Network does not answer as the model itself on both graphs.
    """
    samples = sample_pair(match_snapshots(*snapshots, graphs), small=True)

    def read(fields: Fields) -> tuple[Snapshot, Snapshot]:
        return read_snapshot(samples[0], "before", fields), read_snapshot(samples[1], "after", fields)

    try:
        found = read_traced(model, samples, read, usage, None, samples=True)
        check_fields(found.used, found.fields, graphs)
        sides = align(found.fields)
        passes = run_pair(found.network, *sides)
        for data, snapshot, computed in zip(graphs, sides, passes, strict=True):
            answer = run_model(copy_model(model), data, usage.call)
            if not answers_as(computed.logits[rows_of(snapshot, data)], found.last, answer):
                return None
    except UnreadableModel:
        return None
    _check_settings(model, graphs, usage)
    network = _with_scales(found.network, usage.scales)
    return ReadModel(network, found.fields, sides, *sides, *passes)


def answers_as(logits: FloatArray, last: str, answer: torch.Tensor) -> bool:
    """Whether logits, and the softmax or sigmoid that follows them, are what a model answered."""
    if logits.size != answer.numel() or not bool(torch.isfinite(answer).all()):
        return False
    ours = torch.from_numpy(logits).reshape(answer.shape)
    if last:
        ours = ENDS[last](ours)
    scale = float(answer.abs().max()) if answer.numel() else 1.0
    error = float((ours - answer.double()).abs().max()) if answer.numel() else 0.0
    return error <= TOLERANCES.get(answer.dtype, HALF_TOLERANCE) * (scale or 1.0)


def has_own_reader(model: nn.Module) -> bool:
    """Whether a module is read by a reader of the user's own, whose faults are theirs to see."""
    modules = model.modules() if isinstance(model, nn.Module) else []
    readers = [READERS[type(module)] for module in modules if type(module) in READERS]
    return any(not reader.__module__.startswith(__package__) for reader in readers)


def join_refusals(by_classes: UnreadableModel, by_operations: UnreadableModel) -> UnreadableModel:
    """Why a model can be read neither by its operations nor by its classes, where these are known."""
    words = [by_operations.args[0]]
    if NO_READER not in by_classes.args[0]:
        words.append(by_classes.args[0])
    found = UnreadableModel(" ".join(words))
    found.where = by_classes.where
    return found


def _read_traced(
    model: nn.Module,
    graphs: tuple[Data, Data],
    align: Callable[[Fields], tuple[Snapshot, Snapshot]],
    usage: Usage,
    pairs: IntArray | None,
) -> ReadModel:
    """The same from the tensor operations that the model makes, whatever its classes are."""
    found = read_traced(model, graphs, align, usage, pairs)
    _check_settings(model, graphs, usage)
    network = _with_scales(found.network, usage.scales)
    return ReadModel(network, found.fields, found.graphs, *found.sides, *found.passes)


def _check_settings(model: nn.Module, graphs: tuple[Data, Data], usage: Usage) -> None:
    """Refuse a model that reads what is no tensor and differs."""
    differing = _differing_settings(*graphs)
    if differing and not answers_alike(model, graphs, differing, usage):
        raise UnreadableModel(
            f"The two graphs differ in {quoted(differing)}, too, which the model reads; only changes of tensors can be "
            "listed, so give both graphs the same."
        )


def read_samples(model: nn.Module, before: Data, after: Data, usage: Usage = AS_IT_IS) -> tuple[Network, Fields]:
    """Read the model on parts of the two graphs, each checked by itself, and on a third that neither of them is."""

    def read(fields: Fields) -> tuple[Snapshot, Snapshot]:
        return read_snapshot(before, "before", fields), read_snapshot(after, "after", fields)

    if not has_own_reader(model):
        with suppress(UnreadableModel):
            found = read_traced(model, (before, after), read, usage, None, samples=True)
            part = some_edges(after)
            snapshot = read_snapshot(part, "after", found.fields)
            computed = run_network(found.network, snapshot)
            if answers_as(computed.logits, found.last, run_model(copy_model(model), part, usage.call)):
                return _with_scales(found.network, usage.scales), found.fields
    found_by_classes = _read_and_check(model, (before, after), read, usage)
    return found_by_classes.network, found_by_classes.fields


def _read_and_check(
    model: nn.Module,
    graphs: tuple[Data, Data],
    snapshots_of: Callable[[Fields], tuple[Snapshot, Snapshot]],
    usage: Usage,
    pairs: IntArray | None = None,
) -> ReadModel:
    """Record the model on `before`, then compare it with the Network on `before` and on `after`."""
    duplicate = copy_model(model)
    arguments = [find_arguments(duplicate, data, name, usage.call) for data, name in zip(graphs, SIDES, strict=True)]
    compare_arguments(*arguments)
    constants = constant_fields(*graphs)

    def record(side: int) -> Recording:
        others = frozenset(graphs[1 - side].keys())
        recording = record_model(duplicate, graphs[side], arguments[side], SIDES[side], constants, of_other=others)
        _check_shared(recording, *graphs)
        return recording

    recording = record(0)
    reading = assemble_network(recording, graphs[0].x.shape[1], usage.output)
    reading = replace(reading, network=_with_scales(reading.network, usage.scales))
    plain = find_places(reading.network, snapshots_of(reading.fields), pairs)
    check_edge_features(*plain)
    sides = with_edges(reading.network, plain)
    passes = run_pair(reading.network, *sides)
    for name, data, snapshot, computed in zip(SIDES, graphs, sides, passes, strict=True):
        if name == "after":
            recording = record(1)
        try:
            check_values(reading.network, computed, recording, rows_of(snapshot, data), name, snapshot)
        except UnreadableModel as refusal:
            differing = _differing_settings(*graphs)
            if not differing:
                raise
            raise UnreadableModel(f"{refusal.args[0]} The two graphs differ in {quoted(differing)}, too.") from refusal
    return ReadModel(reading.network, reading.fields, plain, *sides, *passes)


def _with_scales(network: Network, scales: Any) -> Network:
    """The network with the user's units of values, checked."""
    if scales is None:
        return network
    if network.output != VALUE:
        raise InputError(f'Expected `scales` to go with values (got a model whose output is "{network.output}").')
    units = np.asarray(scales, dtype=np.float64).reshape(-1)
    if len(units) != network.num_classes or not (np.isfinite(units) & (units > 0)).all():
        raise InputError(
            f"Expected a positive number for each of {network.num_classes} values in `scales` (got {units})."
        )
    return replace(network, scales=units)


def find_places(
    network: Network, sides: tuple[Snapshot, Snapshot], pairs: IntArray | None
) -> tuple[Snapshot, Snapshot]:
    """Aligned snapshots with what the network predicts, where that is not the nodes."""
    if network.rise is None:
        return sides
    if all(rule.of_links for rule in network.layers[network.rise].rules):
        if pairs is None:
            raise UnreadableModel(
                "The model reads pairs of nodes from `edge_label_index`, which both graphs must have; or give `links`."
            )
        return with_links(*sides, pairs)
    return with_graphs(*sides)


def with_edges(network: Network, sides: tuple[Snapshot, Snapshot]) -> tuple[Snapshot, Snapshot]:
    """Snapshots with their edges as places, for a network that needs it; aligned ones stay aligned."""
    if not network.takes_edges:
        return sides
    if np.array_equal(sides[0].node_ids, sides[1].node_ids):
        return widen_pair(*sides)
    return widen_graph(sides[0]), widen_graph(sides[1])


def _check_shared(recording: Recording, before: Data, after: Data) -> None:
    """What the model reads on one snapshot, the other must have."""
    if recording.typed is not None:
        _check_edge_fields(recording.typed, recording.used_refs, before, after)
        return  # both have the same types
    for field in sorted(recording.used - (set(before.keys()) & set(after.keys()))):
        lacks = "after" if field in before else "before"
        raise InputError(
            f"Expected `{field}`, which the model reads, as a field of both graphs (`{lacks}` has none); add it there."
        )


def _check_edge_fields(typed: TypedInputs, used: Collection[Ref], before: Data, after: Data) -> None:
    """The same of features of edges, relation by relation."""
    for field in [name for ref, name in typed.edge_features.items() if ref in used]:
        for name, data in zip(SIDES, (before, after), strict=True):
            if field not in data:
                raise InputError(
                    f"Expected `{name}{typed.schema.name_field(field)}`, features of edges that the model reads, as "
                    "the other graph has them (got none); add them there, with no rows where there are no edges."
                )


def _differing_settings(before: Data, after: Data) -> list[str]:
    """Fields that are no tensors and differ: what a model does with them cannot be followed."""
    shared = [key for key in sorted(before.keys()) if key in after and not isinstance(before[key], torch.Tensor)]
    return [key for key in shared if key not in FOLLOWED and not np.array_equal(before[key], after[key])]


def check_values(
    network: Network,
    computed: ForwardPass,
    recording: Recording,
    rows: IntArray | slice,
    name: str,
    snapshot: Snapshot,
) -> None:
    """Compare every value that both the Network and the recording hold; `name` says on which snapshot."""
    tolerance = TOLERANCES.get(recording.dtype, HALF_TOLERANCE)
    of_type: dict[int | None, IntArray | slice] = {None: rows}
    if snapshot.node_types is not None:
        own = np.arange(snapshot.num_nodes)[rows]
        of_type |= {kind: own[snapshot.node_types[own] == kind] for kind in range(int(snapshot.node_types.max()) + 1)}
    for t, layer in enumerate(network.layers):
        if layer.rises:
            of_type = {None: rows_of_places(snapshot)}
        h = layer.activate(computed.z[t])
        for block in layer.blocks:
            if block.recorded is None:
                continue
            theirs = recording.values.get(block.recorded)
            if theirs is None:
                raise UnreadableModel(
                    f"{block.name}: the model took other steps on `{name}` than on `before`; "
                    "its forward pass must not depend on the graph's content."
                )
            expected = theirs.double().numpy()
            ours = h[of_type[block.node_type]][:, block.outputs]
            if block.activation is not None:
                ours = ours + block.activation.constant
            if expected.shape in (ours.shape[:1], ours.shape[1:]) and 1 in ours.shape:
                expected = expected.reshape(ours.shape)  # one column, or one graph, without its dimension
            if expected.shape != ours.shape:
                raise UnreadableModel(
                    f"{block.name}: expected output of shape {ours.shape} on `{name}` (got {expected.shape}); "
                    "the model must return one row of logits for every node, graph or pair."
                )
            scale = float(np.abs(expected).max(initial=0.0)) or 1.0
            error = float(np.abs(ours - expected).max(initial=0.0)) / scale
            if not error <= tolerance:
                raise UnreadableModel(
                    f"{block.name} is the first layer that was read wrongly: on `{name}` its output differs from the "
                    f"model's own by {error:.1e} relative (allowed {tolerance:.0e}), so no explanation would be true; "
                    "a model that keeps a cache of its own or looks at the graph's size does that, and so does a wrong "
                    "reader; if it is neither, please report the layer and its settings."
                )

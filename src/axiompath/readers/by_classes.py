"""model -> Network by the classes of its layers, where its operations follow no known rules.

A Network of rules can be run on other graphs: on those too large to record, and on those with only some of the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from torch import nn
from torch_geometric.data import Data

from ..arrays import IntArray
from ..errors import InputError
from ..graphs.data_fields import Fields
from ..graphs.snapshot import Snapshot, check_edge_features, rows_of
from ..graphs.targets import rows_of_places, with_graphs, with_links
from ..graphs.widened import widen_graph, widen_pair
from ..network.layers import ForwardPass, Network, run_pair
from .arguments import Usage, compare_arguments, constant_fields, find_arguments
from .assembly import assemble_network
from .calls import READERS
from .packed import PackedCall
from .tape import Recording, Ref, TypedInputs, UnreadableModel
from .trial import HALF_TOLERANCE, SIDES, TOLERANCES, copy_model, record_model


class ClassModel(NamedTuple):
    """A model in the normal form, as `TracedModel` is one."""

    network: Network
    fields: Fields
    graphs: tuple[Snapshot, Snapshot]  # before and after, aligned; their edges are no places
    sides: tuple[Snapshot, Snapshot]
    passes: tuple[ForwardPass, ForwardPass]
    error: float  # largest difference to what the model computed, relative, over all layers


def read_by_classes(
    model: nn.Module,
    graphs: tuple[Data, Data],
    snapshots_of: Callable[[Fields], tuple[Snapshot, Snapshot]],
    usage: Usage,
    pairs: IntArray | None = None,
) -> ClassModel | None:
    """The model by its classes; None where these are not known.

    A layer with a reader of the user's own, and a model that is called on packed windows, have no class here: a reader
    describes an operation.
    """
    readers = [READERS[type(module)] for module in model.modules() if type(module) in READERS]
    own = any(not reader.__module__.startswith(__package__) for reader in readers)
    if own or isinstance(usage.call, PackedCall):
        return None
    try:
        return _read_and_check(model, graphs, snapshots_of, usage, pairs)
    except InputError:
        return None


def _read_and_check(
    model: nn.Module,
    graphs: tuple[Data, Data],
    snapshots_of: Callable[[Fields], tuple[Snapshot, Snapshot]],
    usage: Usage,
    pairs: IntArray | None,
) -> ClassModel:
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
    plain = find_places(reading.network, snapshots_of(reading.fields), pairs)
    check_edge_features(*plain)
    sides = with_edges(reading.network, plain)
    passes = run_pair(reading.network, *sides)
    errors = []
    for side, (data, snapshot, computed) in enumerate(zip(graphs, sides, passes, strict=True)):
        recording = record(1) if side else recording
        errors.append(
            check_values(reading.network, computed, recording, rows_of(snapshot, data), SIDES[side], snapshot)
        )
    return ClassModel(reading.network, reading.fields, plain, sides, passes, max(errors))


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


def check_values(
    network: Network,
    computed: ForwardPass,
    recording: Recording,
    rows: IntArray | slice,
    name: str,
    snapshot: Snapshot,
) -> float:
    """Compare every value that both the Network and the recording hold; `name` says on which snapshot.

    The largest relative difference.
    """
    largest = 0.0
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
            largest = max(largest, error)
            if not error <= tolerance:
                raise UnreadableModel(
                    f"{block.name} is the first layer that was read wrongly: on `{name}` its output differs from the "
                    f"model's own by {error:.1e} relative (allowed {tolerance:.0e}), so no explanation would be true; "
                    "a model that keeps a cache of its own or looks at the graph's size does that, and so does a wrong "
                    "reader; if it is neither, please report the layer and its settings."
                )
    return largest

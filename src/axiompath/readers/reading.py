"""model + before + after -> Network, checked against the model on both snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from ..activations import IntArray
from ..network import ForwardPass, Network, run_network
from ..rerun import run_pair
from ..sample import WHOLE_EDGES, sample_snapshots
from ..snapshot import Snapshot, read_snapshot
from .assembly import assemble_network, leaves
from .recording import Recording, UnreadableModel
from .running import copy_model, record_model

# Largest difference between the Network and the model, relative to the largest value of the layer.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
HALF_TOLERANCE = 5e-2  # float16 and bfloat16 keep two to three digits


def read_network(
    model: nn.Module, before: Snapshot, after: Snapshot, before_data: Data, after_data: Data
) -> tuple[Network, ForwardPass, ForwardPass]:
    """Read the model, run the Network on both snapshots, and refuse if it does not compute what the model computes.

    `before` and `after` are aligned; the Data objects are the user's own, on which the model itself is run. Where they
    are large, it is run on samples of them instead.
    """
    if max(before.edge_index.shape[1], after.edge_index.shape[1]) > WHOLE_EDGES:
        network = read_samples(model, *sample_snapshots(before, after))
        return network, *run_pair(network, before, after)
    graphs = (before, before_data), (after, after_data)
    network, passes = _read_and_check(model, graphs, lambda network: run_pair(network, before, after))
    return network, *passes


def read_samples(model: nn.Module, before: Data, after: Data) -> Network:
    """Read the model on parts of the two graphs, each checked by itself."""
    parts = [(read_snapshot(data, name), data) for name, data in (("before", before), ("after", after))]

    def run(network: Network) -> tuple[ForwardPass, ForwardPass]:
        return run_network(network, parts[0][0]), run_network(network, parts[1][0])

    return _read_and_check(model, parts, run)[0]


def _read_and_check(
    model: nn.Module,
    graphs: Sequence[tuple[Snapshot, Data]],
    run: Callable[[Network], tuple[ForwardPass, ForwardPass]],
) -> tuple[Network, tuple[ForwardPass, ForwardPass]]:
    """Record the model on `before`, then compare it with the Network on `before` and on `after`."""
    duplicate = copy_model(model)
    recording = record_model(duplicate, graphs[0][1], leaves())
    reading = assemble_network(recording, graphs[0][0].x.shape[1])
    passes = run(reading.network)
    for name, (snapshot, data), computed in zip(("before", "after"), graphs, passes, strict=True):
        if name == "after":
            recording = record_model(duplicate, data, leaves())
        check_values(reading.network, computed, recording, rows_of(snapshot, data), name)
    return reading.network, passes


def rows_of(snapshot: Snapshot, data: Data) -> IntArray | slice:
    """Rows of an aligned snapshot in the order of the user's own graph."""
    n_id = data.get("n_id")
    if n_id is None:
        return slice(0, data.x.shape[0])
    order = np.argsort(snapshot.node_ids)
    return np.asarray(order[np.searchsorted(snapshot.node_ids, np.asarray(n_id), sorter=order)], dtype=np.int64)


def check_values(
    network: Network, computed: ForwardPass, recording: Recording, rows: IntArray | slice, name: str
) -> None:
    """Compare every value that both the Network and the recording hold; `name` says on which snapshot."""
    tolerance = TOLERANCES.get(recording.dtype, HALF_TOLERANCE)
    for t, layer in enumerate(network.layers):
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
            ours = h[rows][:, block.outputs]
            if block.activation is not None:
                ours = ours + block.activation.constant
            if expected.shape != ours.shape:
                raise UnreadableModel(
                    f"{block.name}: expected output of shape {ours.shape} on `{name}` (got {expected.shape}); "
                    "the model must return one row of logits for every node."
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

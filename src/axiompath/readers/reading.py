"""model + before + after -> Network, checked against the model on both snapshots."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from ..activations import IntArray
from ..network import ForwardPass, Network, run_network
from ..rerun import rerun_network
from ..snapshot import Snapshot
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

    `before` and `after` are aligned; the Data objects are the user's own, on which the model itself is run.
    """
    duplicate = copy_model(model)
    recording = record_model(duplicate, before_data, leaves())
    reading = assemble_network(recording, before.x.shape[1])
    passes: list[ForwardPass] = []
    for name, snapshot, data in (("before", before, before_data), ("after", after, after_data)):
        if name == "before":
            computed = run_network(reading.network, snapshot)
        else:
            recording = record_model(duplicate, data, leaves())
            computed = rerun_network(reading.network, before, after, passes[0])
        check_values(reading.network, computed, recording, rows_of(snapshot, data), name)
        passes.append(computed)
    return reading.network, passes[0], passes[1]


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

"""model + two graphs + paths -> logits that the user's own model gives on a real graph with the paths' edges exchanged.

Paths live in a computation tree, edges in the graph: undoing an edge undoes all paths over it. This is the coarser
question, answered without our normal form.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from .activations import FloatArray, IntArray
from .readers.inputs import ModelCall
from .readers.running import copy_model, run_model
from .snapshot import EDGE, level_of


def replay_edges(
    model: Any,
    base: Data,
    other: Data,
    target: int,
    paths: IntArray,
    weights: str = "edge_weight",
    call: ModelCall | None = None,
) -> FloatArray:
    """Logits [num_classes] of `target` on `base`, where the edges of the paths are as in `other`.

    Edges of the paths that `other` lacks are removed, those that it has are put in with its weights and other fields.
    Nodes are named by n_id where the graphs have it; `weights` is the field that holds the weights of edges, and `call`
    says how the model is called.
    """
    duplicate = copy_model(model)
    backwards = any(getattr(module, "flow", "") == "target_to_source" for module in duplicate.modules())
    steps = {step[::-1] if backwards else step for path in paths.tolist() for step in pairwise(path) if step[0] >= 0}
    ids, other_ids = _ids(base), _ids(other)
    row_of = {int(node): row for row, node in enumerate(ids)}
    stays = [step not in steps for step in _named_edges(base, ids)]
    comes, rows = [], []
    for i, (u, v) in enumerate(_named_edges(other, other_ids)):
        if (u, v) in steps and u in row_of and v in row_of:
            comes.append(i)
            rows.append((row_of[u], row_of[v]))
    mixed = base.clone()
    kept, new = torch.tensor(stays, dtype=torch.bool), torch.tensor(rows, dtype=torch.long).reshape(-1, 2).T
    mixed.edge_index = torch.cat([torch.as_tensor(base.edge_index).cpu()[:, kept], new], dim=1)
    for key in base.keys():  # noqa: SIM118 (iterating over a Data object gives pairs)
        if key == weights or (key != "edge_index" and level_of(base, key) == EDGE):
            if key in other:
                values = torch.as_tensor(base[key]).cpu(), torch.as_tensor(other[key]).cpu()
                mixed[key] = torch.cat([values[0][kept], values[1][comes]])
            else:
                del mixed[key]  # the model does not read it, or it had been refused
    return np.asarray(run_model(duplicate, mixed, call)[row_of[int(target)]].double())


def _ids(data: Data) -> IntArray:
    return np.arange(data.x.shape[0]) if data.get("n_id") is None else np.asarray(data.n_id)


def _named_edges(data: Data, ids: IntArray) -> list[tuple[int, int]]:
    u, v = ids[np.asarray(data.edge_index.cpu() if isinstance(data.edge_index, torch.Tensor) else data.edge_index)]
    return list(zip(u.tolist(), v.tolist(), strict=True))

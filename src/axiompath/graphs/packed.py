"""Snapshots of several dates, or with several edge sets -> one graph, and back.

The rows of the graph are places: a node at a step. The last step has the user's own numbers; a node `lag` steps earlier
has its number plus `lag * stride`. Which edge set an edge belongs to is its type. A model that takes several snapshots
is then a model of one graph, and all that is known of graphs (changes, paths, mixtures of two) holds for windows, too.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from ..arrays import IntArray
from ..errors import InputError, WrongKind
from .data_fields import node_numbers

EDGE_INDEX, EDGE_TYPE = "edge_index", "edge_type"
KEPT = ("n_id", "node_names", "class_names", "num_nodes", "batch", "ptr")  # of no step, or refused


@dataclass(frozen=True)
class Packing:
    """Where the fields of each step lie in the one graph."""

    num_steps: int
    stride: int  # between the numbers of a node at two steps
    sets: tuple[str, ...]  # edge sets, by the names of their fields
    node_fields: tuple[str, ...]
    edge_fields: tuple[tuple[str, tuple[tuple[int, str], ...]], ...]  # field of the one graph; set and field of a step
    other_fields: tuple[str, ...]

    def merged_name(self, name: str) -> str:
        """The field of the one graph that a field of a step, written as `field@step`, lies in."""
        field = name.rsplit("@", 1)[0]
        if field in self.sets:
            return EDGE_INDEX
        return next((role for role, parts in self.edge_fields if field in [one for _, one in parts]), field)

    def pack(self, steps: Sequence[Data]) -> Data:
        """One graph of all steps, oldest first."""
        first = [0, *np.cumsum([step.x.shape[0] for step in steps]).tolist()]
        if self.num_steps == 1:
            merged = copy.copy(steps[0])
            for field in (*self.sets, *(one for _, parts in self.edge_fields for _, one in parts)):
                del merged[field]
        else:
            ids = [node_numbers(step) + (self.num_steps - 1 - k) * self.stride for k, step in enumerate(steps)]
            merged = Data(n_id=torch.from_numpy(np.concatenate(ids)))
            for field in self.node_fields:
                merged[field] = torch.cat([_tensor(step[field]) for step in steps])
            for field in self.other_fields:
                for k, step in enumerate(steps):
                    merged[f"{field}@{k}"] = step[field]
        merged.edge_index = torch.cat(
            [_tensor(step[name]).long() + first[k] for k, step in enumerate(steps) for name in self.sets], dim=1
        )
        sizes = [[step[name].shape[1] for name in self.sets] for step in steps]
        if len(self.sets) > 1:
            of_set = torch.arange(len(self.sets)).repeat(len(steps))
            merged[EDGE_TYPE] = of_set.repeat_interleave(torch.tensor(sizes).reshape(-1))
            merged.relation_names = list(self.sets)
        for role, parts in self.edge_fields:
            known = dict(parts)
            like = _tensor(steps[0][parts[0][1]])
            merged[role] = torch.cat(
                [
                    _tensor(step[known[s]]) if s in known else like.new_ones((sizes[k][s], *like.shape[1:]))
                    for k, step in enumerate(steps)
                    for s in range(len(self.sets))
                ]
            )
        return merged

    def unpack(self, merged: Data) -> list[Data]:
        """The steps of such a graph, or of a mixture of two of them."""
        place = torch.arange(merged.x.shape[0])
        of_node, steps = self._steps(merged), []
        of_edge = of_node[merged.edge_index[0]]
        for k in range(self.num_steps):
            step = copy.copy(merged)
            if self.num_steps > 1:
                rows = self.rows(merged, k)
                place[rows] = torch.arange(len(rows))
                step = Data(n_id=merged.n_id[rows] % self.stride)
                for field in self.node_fields:
                    step[field] = merged[field][rows]
                for field in self.other_fields:
                    step[field] = merged[f"{field}@{k}"]
            for s, name in enumerate(self.sets):
                mine = of_edge == k
                mine = mine & (merged[EDGE_TYPE] == s) if len(self.sets) > 1 else mine
                step[name] = place[merged.edge_index[:, mine]]
                for role, parts in self.edge_fields:
                    if s in dict(parts):
                        step[dict(parts)[s]] = merged[role][mine]
            steps.append(step)
        return steps

    def _steps(self, merged: Data) -> torch.Tensor:
        """The step of each row."""
        if self.num_steps == 1:
            return torch.zeros(merged.x.shape[0], dtype=torch.long)
        return self.num_steps - 1 - torch.div(merged.n_id, self.stride, rounding_mode="floor")

    def rows(self, merged: Data, step: int) -> torch.Tensor:
        """Rows of the nodes of a step."""
        return torch.nonzero(self._steps(merged) == step).reshape(-1)

    def step_of(self, places: IntArray) -> IntArray:
        """The step of each place."""
        return self.num_steps - 1 - places // self.stride


def find_packing(*windows: Sequence[Data]) -> Packing:
    """How to pack windows of the same number of steps; they must have the same nodes and fields throughout."""
    steps = [step for window in windows for step in window]
    for step in steps:
        if not isinstance(step, Data):
            raise WrongKind(
                f"Expected snapshots that are torch_geometric.data.Data (got {type(step).__name__}); nodes of several "
                "types have no windows yet, convert them with `to_homogeneous()`."
            )
    last = steps[-1]
    sets = edge_sets(last)
    fields = [key for key in last.keys() if key not in (*sets, *KEPT)]  # noqa: SIM118
    sizes = {name: last[name].shape[1] for name in sets}
    node_fields, other = [], []
    edge_fields: dict[str, list[tuple[int, str]]] = {}
    for key in fields:
        value = last[key]
        if not isinstance(value, torch.Tensor) or not value.dim():
            other.append(key)
            continue
        suffix = {name: key.endswith(name.removeprefix(EDGE_INDEX)) and "edge" in key for name in sets}
        fitting = [name for name in sets if len(value) == sizes[name] and ("edge" in key or len(value) != len(last.x))]
        own = [name for name in fitting if suffix[name]]
        owner = max(own or fitting, key=lambda name: (len(name), name), default=None)
        if owner is not None:
            role = key.removesuffix(owner.removeprefix(EDGE_INDEX)) if owner in own else key
            edge_fields.setdefault(role, []).append((sets.index(owner), key))
        elif len(value) == len(last.x):
            node_fields.append(key)
        else:
            other.append(key)
    stride = 10 ** len(str(max(int(node_numbers(step).max()) for step in steps)))
    packed = {role: tuple(parts) for role, parts in edge_fields.items()}
    packing = Packing(len(windows[0]), stride, sets, tuple(node_fields), tuple(packed.items()), tuple(other))
    _check_alike(steps, packing)
    return packing


def edge_sets(data: Data) -> tuple[str, ...]:
    """The fields that are lists of edges: `edge_index` first, then every other one of whole numbers [2, num_edges]."""
    found = [key for key in data.keys() if key != EDGE_INDEX and _lists_edges(data, key)]  # noqa: SIM118
    return (EDGE_INDEX, *found)


def _lists_edges(data: Data, key: str) -> bool:
    value = data[key]
    whole = isinstance(value, torch.Tensor) and value.layout == torch.strided and value.dim() == 2
    if not whole or value.is_floating_point() or value.dtype == torch.bool or value.shape[0] != 2:
        return False
    return ("edge" in key and "label" not in key) and ("index" in key or value.shape[0] != data.num_nodes)


def _check_alike(steps: Sequence[Data], packing: Packing) -> None:
    first, several = steps[0], packing.num_steps > 1
    needed = (*packing.sets, *packing.node_fields, *(one for _, parts in packing.edge_fields for _, one in parts))
    for step in steps:
        for field in needed:
            if step.get(field) is None:
                raise InputError(
                    f"Expected `{field}` in every snapshot (got one without); give it to all of them, or to none."
                )
        if several and step.get("batch") is not None:
            raise InputError("Expected snapshots of one graph each (got a batch of several); give one graph a step.")
        if several and not np.array_equal(node_numbers(step), node_numbers(first)):
            raise InputError(
                "Expected the same nodes, in the same order, in every snapshot of both windows (got others); give "
                "every snapshot all of them, those that are not there yet without edges."
            )


def _tensor(value: Any) -> torch.Tensor:
    found = torch.as_tensor(value).detach().cpu()
    if found.layout != torch.strided:
        raise InputError("Expected dense features in snapshots of a window (got sparse ones); call `.to_dense()`.")
    return found

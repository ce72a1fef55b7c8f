"""What nodes of several types are called: their type, then their own name or number.

Names are given by type, `{"author": names}`, each in a row or by own number, or node by node, `{("author", 5): "Ada"}`;
a graph may bring its own along as a list `name` of a type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from ..errors import InputError
from .names import read_names
from .schema import Schema


def name_nodes(names: Any, graphs: Sequence[HeteroData], schema: Schema) -> dict[int, str]:
    """A name for every node of all graphs, by number."""
    own = _by_type(names, graphs, schema)
    found = {}
    for kind in schema.node_types:
        for data in graphs:
            for node in _numbers(data, kind).tolist():
                found[schema.number(kind, node)] = f"{kind} {own.get(kind, {}).get(node, node)}"
    return found


def _by_type(names: Any, graphs: Sequence[HeteroData], schema: Schema) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for data in graphs:
        for kind in schema.node_types:
            given = data[kind].get("name")
            if isinstance(given, (list, tuple, np.ndarray)) and len(given) == len(_numbers(data, kind)):
                ids = _numbers(data, kind).tolist()
                found.setdefault(kind, {}).update({i: str(name) for i, name in zip(ids, given, strict=True)})
    if names is None:
        return found
    if not isinstance(names, Mapping):
        raise InputError(
            "Expected `node_names` of several node types by type, such as {'author': [...]}, or node by node, such as "
            f"{{('author', 5): 'Ada'}} (got {type(names).__name__})."
        )
    for key, value in names.items():
        kind = key[0] if isinstance(key, tuple) and len(key) == 2 else key
        if kind not in schema.node_types:
            raise InputError(
                f"Expected node types among {', '.join(schema.node_types)} in `node_names` (got {kind!r})."
            )
        if isinstance(key, tuple):
            found.setdefault(kind, {})[int(key[1])] = str(value)
        elif isinstance(value, Collection):
            rows = [_numbers(data, kind) for data in graphs]
            found.setdefault(kind, {}).update(read_names(value, rows))
        else:
            raise InputError(f"Expected the names of {kind!r} in a row, or by number (got {type(value).__name__}).")
    return found


def _numbers(data: HeteroData, kind: str) -> Any:
    ids = data[kind].get("n_id")
    return np.arange(len(data[kind].x)) if ids is None else np.asarray(torch.as_tensor(ids).detach().cpu())

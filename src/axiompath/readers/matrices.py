"""Data with a matrix in place of edge_index -> Data with its entries as edges, and a call that puts the matrix back.

An entry in row V and column U is an edge from U to V, as in `adj @ x`. Changes of the matrix are then changes of edges.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch_geometric.data import Data

from .arguments import ModelCall, Usage, find_arguments

EDGES, WEIGHTS = "edge_index", "edge_weight"


@dataclass(frozen=True)
class MatrixCall:
    """Calls a model with the matrix that the edges and their weights are."""

    call: ModelCall | None  # the user's own way
    field: str
    layout: torch.layout
    dtype: torch.dtype
    beside: bool = False  # a model may take either: `adj_t` without weights, and the same edges as edge_index

    def __str__(self) -> str:
        """As one would write it."""
        return "call(model, data)" if self.call is not None else f"model(data.x, data.{self.field})"

    def __call__(self, model: Any, data: Data) -> Any:
        """The model's answer."""
        given = copy.copy(data)
        del given[WEIGHTS]
        if not self.beside:
            del given[EDGES]
        given[self.field] = self._matrix(data)
        return find_arguments(model, given, "data", self.call).run(model, given)

    def _matrix(self, data: Data) -> torch.Tensor:
        size = data.x.shape[0]
        ends, weights = data[EDGES].flip(0), data[WEIGHTS]
        if not self.dtype.is_floating_point:
            weights = weights.to(self.dtype)
        if self.layout == torch.strided:
            return torch.zeros(size, size, dtype=weights.dtype).index_put((ends[0], ends[1]), weights, accumulate=True)
        matrix = torch.sparse_coo_tensor(ends, weights, (size, size), check_invariants=False).coalesce()
        return matrix if self.layout == torch.sparse_coo else matrix.to_sparse(layout=self.layout)


def with_entries_as_edges(graphs: Sequence[Any], usage: Usage) -> tuple[tuple[Any, ...], Usage]:
    """Graphs whose only edges are a square matrix of one name, with edges; others as they are."""
    names = [find_matrix(data) for data in graphs if data is not None]
    if not names or names[0] is None or any(name != names[0] for name in names):
        return tuple(graphs), usage
    field = names[0]
    first: torch.Tensor = next(data[field] for data in graphs if data is not None)
    found = tuple(None if data is None else _with_edges(data, field) for data in graphs)
    beside = field == "adj_t" and all(data is None or bool((data[WEIGHTS] == 1).all()) for data in found)
    return found, replace(usage, call=MatrixCall(usage.call, field, first.layout, first.dtype, beside))


def find_matrix(data: Any) -> str | None:
    """The one field that is a square matrix of all nodes, of a graph without edge_index."""
    if not isinstance(data, Data) or EDGES in data or not isinstance(data.get("x"), torch.Tensor):
        return None
    size = data.x.shape[0]
    found = [
        key
        for key in data.keys()  # noqa: SIM118 (iterating over a Data object gives pairs)
        if key != "x" and isinstance(data[key], torch.Tensor) and tuple(data[key].shape) == (size, size)
    ]
    return found[0] if len(found) == 1 else None


def _with_edges(data: Data, field: str) -> Data:
    matrix = data[field].detach().cpu()
    sparse = (matrix if matrix.layout == torch.sparse_coo else matrix.to_sparse(layout=torch.sparse_coo)).coalesce()
    found = copy.copy(data)
    del found[field]
    weights = sparse.values()
    found[EDGES] = sparse.indices().flip(0).contiguous()
    found[WEIGHTS] = weights if weights.is_floating_point() else weights.to(torch.get_default_dtype())
    return found

"""HeteroData <-> one Data: the nodes of all types are rows of one graph, the edges of all relations one list.

The columns of all types lie side by side, and a row holds numbers only in those of its own type. `node_type` and
`edge_type` say what each row and each edge is, `n_id` numbers nodes as `schema` does, and the field `schema` holds what
that means. Whatever else the user's graph has of nodes or edges goes along, under names of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data, HeteroData

from ..arrays import IntArray
from ..errors import InputError
from .data_fields import read_edge_weight, read_ends, read_node_ids, refuse_complex
from .schema import OF_EDGES, OF_NODES, Relation, Schema, name_of_field
from .snapshot import warn_of_rows
from .targets import match_in_graphs

DENSE_NUMBERS = 2 * 10**6  # up to here features are held as one dense table
WASTE = 2  # times as many numbers as there are, above that
RELATION = " – "  # between the parts of a relation's name
OWN = ("x", "edge_index", "edge_weight", "batch", "ptr")
PAIRS_FIELD = "edge_label_index"


def name_relation(relation: Relation) -> str:
    """As people read it."""
    return RELATION.join(relation)


def find_schema(graphs: Sequence[HeteroData]) -> Schema:
    """What all graphs are made of; they have to be made of the same."""
    sides = dict(zip(_names_of(graphs), graphs, strict=True))
    for kind, own in (("node", "node_types"), ("edge", "edge_types")):
        found = {name: set(getattr(data, own)) for name, data in sides.items()}
        every = set().union(*found.values())
        for name, here in found.items():
            for missing in sorted(every - here, key=str)[:1]:
                empty = "x = torch.zeros(0, width)" if kind == "node" else "edge_index = torch.zeros(2, 0).long()"
                table = f"nodes.{missing}" if kind == "node" else f"edges.{'.'.join(missing)}"
                raise InputError(
                    f"Expected the same {kind} types in all graphs (`{name}` has no {missing!r}, which another one "
                    f"has); where there are none of it, say so: {name}[{missing!r}].{empty}, or, in a folder of "
                    f"tables, {table}.csv with only its first line."
                )
    kinds = tuple(graphs[0].node_types)  # in the user's order, on which what PyG computes may depend
    if not kinds:
        raise InputError("Expected nodes of at least one type (got a HeteroData without any).")
    for relation in graphs[0].edge_types:
        for end in (relation[0], relation[2]):
            if end not in kinds:
                raise InputError(
                    f"Expected nodes of the type {end!r}, which the relation {relation!r} needs (got none)."
                )
    widths = []
    for kind in kinds:
        found_widths = {name: _features(data, kind, name).shape[1] for name, data in sides.items()}
        if len(set(found_widths.values())) > 1:
            shown = ", ".join(f"{width} in `{name}`" for name, width in found_widths.items())
            raise InputError(
                f"Expected the features of {kind!r} to have the same width in all graphs (got {shown}); pad or select "
                "the columns that the model was trained on."
            )
        widths.append(next(iter(found_widths.values())))
    return Schema(kinds, tuple(widths), tuple(graphs[0].edge_types), _find_links(graphs))


def _find_links(graphs: Sequence[HeteroData]) -> Relation | None:
    """The relation that brings along pairs to predict for; there may be one."""
    found = {relation for data in graphs for relation in data.edge_types if data[relation].get(PAIRS_FIELD) is not None}
    if len(found) > 1:
        raise InputError(
            f"Expected `{PAIRS_FIELD}` for only one relation (got it for {' and '.join(map(str, sorted(found)))}); "
            "pairs of one kind are predicted at a time, so delete the others."
        )
    return found.pop() if found else None


def stack_all(graphs: Sequence[HeteroData], schema: Schema) -> tuple[Data, ...]:
    """All graphs as Data; a type without `n_id` is matched by row."""
    graphs = _numbered_by_graph(graphs, schema)
    for kind in schema.node_types:
        numbered = [data[kind].get("n_id") is not None for data in graphs]
        if any(numbered) and not all(numbered):
            raise InputError(
                f"Expected `n_id` of {kind!r} in all graphs, or in none (got it in {sum(numbered)} of {len(graphs)}); "
                "give it to all, so that nodes are matched by it."
            )
        sizes = [_features(data, kind, "data").shape[0] for data in graphs]
        for before, after in pairwise(sizes) if not all(numbered) else ():
            warn_of_rows(before, after, f"give both `n_id` for {kind!r}")
    return tuple(stack(data, schema, name) for data, name in zip(graphs, _names_of(graphs), strict=True))


def _names_of(graphs: Sequence[HeteroData]) -> tuple[str, ...]:
    """What messages call them."""
    return ("before", "after") if len(graphs) == 2 else tuple(f"snapshots[{i}]" for i in range(len(graphs)))


def _numbered_by_graph(graphs: Sequence[HeteroData], schema: Schema) -> Sequence[HeteroData]:
    """Batches whose nodes have no `n_id`, with one: a node is known by its graph and its place in it, type by type."""
    batched = [[data[kind].get("batch") for data in graphs] for kind in schema.node_types]
    if any(batch is None for of_kind in batched for batch in of_kind):
        return graphs
    found = [copy.copy(data) for data in graphs]
    for kind, of_kind in zip(schema.node_types, batched, strict=True):
        if any(data[kind].get("n_id") is not None for data in graphs):
            continue
        numbers = match_in_graphs([np.asarray(torch.as_tensor(batch).cpu(), dtype=np.int64) for batch in of_kind])
        for data, own in zip(found, numbers, strict=True):
            data[kind].n_id = torch.from_numpy(own)
    return found


def stack(data: HeteroData, schema: Schema, name: str) -> Data:
    """One graph as Data."""
    parts = [_features(data, node_type, name) for node_type in schema.node_types]
    sizes = [part.shape[0] for part in parts]
    types = np.repeat(np.arange(len(parts)), sizes)
    numbers = [
        schema.numbers(t, _own_numbers(data, node_type, sizes[t], name))
        for t, node_type in enumerate(schema.node_types)
    ]
    edges = [_ends(data, relation, "edge_index", sizes, schema, name) for relation in schema.relations]
    counts = [part.shape[1] for part in edges]
    _check_edge_fields(data, schema, counts, name)
    stacked = Data(
        x=_side_by_side(parts),
        edge_index=torch.cat([torch.zeros(2, 0, dtype=torch.long), *edges], dim=1),
        n_id=torch.from_numpy(np.concatenate(numbers)),
        node_type=torch.from_numpy(types),
        edge_type=torch.from_numpy(np.repeat(np.arange(len(edges)), counts)),
    )
    stacked["schema"] = schema
    if schema.links is not None and data[schema.links].get(PAIRS_FIELD) is not None:
        stacked[PAIRS_FIELD] = _ends(data, schema.links, PAIRS_FIELD, sizes, schema, name)
    batches = [data[node_type].get("batch") for node_type in schema.node_types]
    if all(batch is not None for batch in batches):
        stacked.batch = torch.cat([torch.as_tensor(batch).cpu() for batch in batches])
    _add_weights(stacked, data, schema, counts, name)
    for t, node_type in enumerate(schema.node_types):
        for key, value in _further(data[node_type], sizes[t]).items():
            stacked[name_of_field(OF_NODES, t, key)] = _padded(value, sum(sizes[:t]), sum(sizes))
    for r, relation in enumerate(schema.relations):
        for key, value in _further(data[relation], counts[r]).items():
            stacked[name_of_field(OF_EDGES, r, key)] = _padded(value, sum(counts[:r]), sum(counts))
    for key, value in data._global_store.items():
        stacked[key] = value
    return stacked


def unstack(data: Data) -> HeteroData:
    """The graph as the user's model knows it: of every type its own features, of every relation its own edges."""
    schema: Schema = data["schema"]
    found = HeteroData()
    types, relations = data["node_type"], data["edge_type"]
    rows = rows_of_types(data)
    place = torch.zeros(len(types), dtype=torch.long)
    for t, (node_type, columns) in enumerate(zip(schema.node_types, schema.columns, strict=True)):
        place[rows[t]] = torch.arange(len(rows[t]))
        found[node_type].x = _take(data.x, rows[t], columns)
        for key, value in _fields_of(data, OF_NODES, t):
            found[node_type][key] = value[rows[t]]
        if data.get("batch") is not None:
            found[node_type].batch = torch.as_tensor(data.batch)[rows[t]]
    for r, relation in enumerate(schema.relations):
        chosen = torch.nonzero(relations == r).reshape(-1)
        found[relation].edge_index = place[torch.as_tensor(data.edge_index)[:, chosen]]
        if data.get(f"weighted of {r}"):
            found[relation].edge_weight = data.edge_weight[chosen]
        for key, value in _fields_of(data, OF_EDGES, r):
            found[relation][key] = value[chosen]
    if schema.links is not None and data.get(PAIRS_FIELD) is not None:
        found[schema.links][PAIRS_FIELD] = place[torch.as_tensor(data[PAIRS_FIELD])]
    return found


def rows_of_types(data: Data) -> list[torch.Tensor]:
    """Which rows of a stacked graph are nodes of each type."""
    return [torch.nonzero(data["node_type"] == t).reshape(-1) for t in range(len(data["schema"].node_types))]


def _features(data: HeteroData, node_type: str, name: str) -> Any:
    x = data[node_type].get("x")
    if x is None or getattr(x, "ndim", 0) != 2:
        got = "none" if x is None else f"shape {tuple(getattr(x, 'shape', ()))}"
        raise InputError(
            f"Expected {name}[{node_type!r}] to carry features `x` [num_nodes, width] (got {got}); use "
            "`torch.ones(num_nodes, 1)` if nodes have no features."
        )
    refuse_complex(x, f"{name}[{node_type!r}].x")
    return x


def _own_numbers(data: HeteroData, node_type: str, size: int, name: str) -> IntArray:
    return read_node_ids(data[node_type].get("n_id"), size, f"{name}[{node_type!r}]")


def _ends(data: HeteroData, relation: Relation, key: str, sizes: list[int], schema: Schema, name: str) -> torch.Tensor:
    """Pairs of rows of the types at the ends of a relation, as rows of the whole graph."""
    pairs, whole = data[relation].get(key), f"{name}[{relation!r}].{key}"
    if pairs is None:
        raise InputError(f"Expected `{whole}` [2, num_edges]; without edges it is `torch.zeros(2, 0).long()`.")
    types = [schema.node_types.index(end) for end in (relation[0], relation[2])]
    ends = read_ends(pairs, [sizes[t] for t in types], whole)
    return torch.from_numpy(ends + np.array([[sum(sizes[:t])] for t in types]))


def _side_by_side(parts: list[Any]) -> Any:
    rows, width = sum(part.shape[0] for part in parts), sum(part.shape[1] for part in parts)
    sparse_parts = any(
        sparse.issparse(part) or (torch.is_tensor(part) and part.layout != torch.strided) for part in parts
    )
    held = sum(part.shape[0] * part.shape[1] for part in parts)
    if sparse_parts or (rows * width > DENSE_NUMBERS and rows * width > WASTE * held):
        return sparse.csr_array(sparse.block_diag([_as_scipy(part) for part in parts], format="csr"))
    tensors = [torch.as_tensor(part).detach().cpu() for part in parts]
    dtype = next((part.dtype for part in tensors if part.is_floating_point()), torch.get_default_dtype())
    x = torch.zeros(rows, width, dtype=dtype)
    row = column = 0
    for part in tensors:
        x[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    return x


def _as_scipy(part: Any) -> sparse.csr_array:
    return sparse.csr_array(part.detach().cpu().to_dense().double().numpy() if torch.is_tensor(part) else part)


def _take(x: Any, rows: torch.Tensor, columns: slice) -> torch.Tensor:
    """Rows and columns of stacked features, dense."""
    if sparse.issparse(x):
        return torch.from_numpy(x[rows.numpy()][:, columns].toarray())
    x = torch.as_tensor(x)
    listed = x if x.layout == torch.strided else x.to_sparse_coo()  # torch selects no rows of CSR
    taken: torch.Tensor = listed.index_select(0, rows).to_dense()[:, columns]
    return taken.contiguous()


def _add_weights(stacked: Data, data: HeteroData, schema: Schema, counts: list[int], name: str) -> None:
    """Relations without weights have ones, if any has weights."""
    weights = [data[relation].get("edge_weight") for relation in schema.relations]
    for relation, weight, count in zip(schema.relations, weights, counts, strict=True):
        read_edge_weight(weight, count, f"{name}[{relation!r}].edge_weight")
    if all(weight is None for weight in weights):
        return
    parts = []
    for r, (weight, count) in enumerate(zip(weights, counts, strict=True)):
        parts.append(torch.ones(count) if weight is None else torch.as_tensor(weight).detach().cpu().reshape(-1))
        stacked[f"weighted of {r}"] = weight is not None
    stacked.edge_weight = torch.cat(parts)


def _check_edge_fields(data: HeteroData, schema: Schema, counts: list[int], name: str) -> None:
    """Features of edges that do not fit them would be left out in silence."""
    for relation, count in zip(schema.relations, counts, strict=True):
        values = data[relation].get("edge_attr")
        if torch.is_tensor(values) and (not values.dim() or len(values) != count):
            raise InputError(
                f"Expected {name}[{relation!r}].edge_attr to hold one row per edge, shape ({count}, width) (got "
                f"{tuple(values.shape)})."
            )


def _further(store: Any, size: int) -> dict[str, torch.Tensor]:
    """What else a type or relation has, one row per node or edge."""
    return {
        key: value.detach().cpu()
        for key, value in store.items()
        if key not in OWN
        and "index" not in key
        and torch.is_tensor(value)
        and value.layout == torch.strided
        and value.dim()
        and len(value) == size
    }


def _fields_of(data: Data, level: str, number: int) -> list[tuple[str, Any]]:
    start = name_of_field(level, number, "")
    return [(key.removeprefix(start), data[key]) for key in data.keys() if key.startswith(start)]  # noqa: SIM118


def _padded(value: torch.Tensor, start: int, total: int) -> torch.Tensor:
    """The rows of one type among those of all, zeros elsewhere."""
    found = torch.zeros(total, *value.shape[1:], dtype=value.dtype)
    found[start : start + len(value)] = value
    return found

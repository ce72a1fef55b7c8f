"""Fields of a torch_geometric Data -> checked arrays: features, edges, weights, types, numbers of nodes and graphs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..errors import InputError, WrongKind
from ..storage.safe import Damaged
from .schema import OF_EDGES, OF_NODES, Schema, name_of_field, relation_of_field

if TYPE_CHECKING:  # loaded late: workers of a scan have no use for it, and it takes seconds
    import torch
    from torch_geometric.data import Data


Features: TypeAlias = FloatArray | sparse.csr_array
SINGLE = 1 << 22  # numbers of float32 from which on they are held as given, and made double where they are used
EMPTY_GRAPHS = 10**5  # that the numbers of a batch may speak of


@dataclass(frozen=True)
class Fields:
    """Which fields of Data a model takes: features side by side, weights of edges, their features and their types."""

    features: tuple[str, ...] = ("x",)
    weights: str = "edge_weight"
    edge_features: tuple[str, ...] = ()
    types: str | None = None


PLAIN_FIELDS = Fields()
NODE, EDGE, GRAPH = "node", "edge", "graph"


def fields_of_edges(before: Any, after: Any) -> Fields:
    """The plain fields, and `edge_attr` where both graphs have numbers of each edge under that name."""
    schema = before.get("schema")
    names = (
        ["edge_attr"]
        if schema is None
        else [name_of_field(OF_EDGES, r, "edge_attr") for r in range(len(schema.relations))]
    )
    return replace(PLAIN_FIELDS, edge_features=tuple(name for name in names if _describes_edges(name, before, after)))


def _describes_edges(name: str, before: Any, after: Any) -> bool:
    """Whether both graphs have numbers of each edge under this name."""
    values = [data.get(name) for data in (before, after)]
    known = all(_is_tensor(value) and not _is_sparse(value) and not value.is_complex() for value in values)
    return known and all(
        value.dim() in (1, 2) and value.shape[:1] == data.edge_index.shape[1:]
        for value, data in zip(values, (before, after), strict=True)
    )


def read_relation_names(data: Data, types: str | None, schema: Schema | None) -> tuple[str, ...]:
    """What relations are called: as the schema says, or as a field of the graph does, where it names each of them."""
    if schema is not None:
        return tuple(name for _, name, _ in schema.relations)
    names = data.get("relation_names") if types is not None else None
    if not isinstance(names, (list, tuple)) or not len(names) > int(np.asarray(to_numpy(data[types])).max(initial=-1)):
        return ()
    return tuple(str(name) for name in names)


def node_numbers(data: Data) -> IntArray:
    """`n_id` of each row of the user's own graph, else the row."""
    if data.get("n_id") is None:
        return np.arange(data.x.shape[0])
    return np.asarray(to_numpy(data.n_id), dtype=np.int64)


def level_of(data: Data, key: str) -> str:
    """Whether a field belongs to nodes, to edges, or to the graph as a whole, as all does that is no tensor."""
    value = data[key]
    if key == "edge_weight":
        return EDGE
    if not _is_tensor(value) or _is_sparse(value):
        return GRAPH
    num_nodes, num_edges = data.num_nodes, data["edge_index"].shape[1]
    sizes = tuple(value.shape)
    along_edges = sizes[:1] == (num_edges,) or ("index" in key and sizes[-1:] == (num_edges,))
    if along_edges and ("edge" in key or sizes[:1] != (num_nodes,)):
        return EDGE
    return NODE if sizes[:1] == (num_nodes,) else GRAPH


def parts_of(x: Features) -> tuple[Any, ...]:
    """The arrays that features are held in: one, or three of a sparse matrix."""
    return (x,) if isinstance(x, np.ndarray) else (x.data, x.indices, x.indptr)


def check_features(x: Features, taken: Features) -> None:
    """Refuse what was taken of features in files where it cannot be right; files may hold anything."""
    file = getattr(parts_of(x)[0], "filename", "a file")
    values, *columns = parts_of(taken)
    if columns and len(values) and not 0 <= columns[0].min() <= columns[0].max() < x.shape[1]:
        raise InputError(f"Expected {x.shape[1]} columns of features in {file} (got another number).")
    if not np.isfinite(values).all():
        raise InputError(f"Expected finite features in {file} (got NaN or infinite ones); convert the graph again.")


def to_torch_csr(matrix: sparse.csr_array, dtype: torch.dtype) -> torch.Tensor:
    """A scipy matrix as torch sparse CSR."""
    import torch

    rows = sparse.csr_array(matrix, copy=True)
    rows.sum_duplicates()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(rows.indptr.astype(np.int64)),
            torch.from_numpy(rows.indices.astype(np.int64)),
            torch.from_numpy(rows.data).to(dtype),
            size=rows.shape,
            check_invariants=True,
        )


def read_graph_numbers(data: Data, num_nodes: int, name: str) -> tuple[IntArray | None, IntArray | None]:
    """The number of each node's graph: `graph_id` of its place in the batch, or that place itself; and all of them."""
    if data.get("batch") is None:
        return None, None
    limit = num_nodes + EMPTY_GRAPHS
    what = f"the number of each node's graph, {num_nodes} of them, from 0 to {limit - 1}"
    batch: IntArray = read_array(data.batch, f"{name}.batch", what, (num_nodes,), whole=True, below=limit)
    if data.get("graph_id") is None:
        return batch, np.arange(batch.max(initial=-1) + 1)
    what = "a different number of 0 and more for each graph of the batch"
    ids: IntArray = read_array(data.graph_id, f"{name}.graph_id", what, (None,), whole=True, distinct=True)
    if not batch.max(initial=-1) < len(ids) <= limit:
        raise InputError(f"Expected `{name}.graph_id` to hold {what} (got {len(ids)}).")
    return ids[batch], ids


def side_by_side(parts: Sequence[Features]) -> Features:
    """Columns of several fields as one table; sparse where one of them is."""
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts]))
    return np.concatenate(parts, axis=1)


def read_features(x: Any, name: str) -> Features:
    """Features of nodes, finite and real, [num_nodes, num_features]."""
    if x is None:
        raise InputError(
            f"Expected `{name.split('.')[0]}` to carry node features `x` [num_nodes, num_features] (got none); "
            "use `torch.eye(num_nodes)` or degrees if nodes have no features."
        )
    refuse_complex(x, name)
    features: Features
    if sparse.issparse(x) or (_is_tensor(x) and _is_sparse(x)):
        features = _from_sparse(x, name)
    else:
        features = _as_given(x) if _is_single(x) else np.asarray(to_numpy(x), dtype=np.float64)
    if features.ndim != 2:
        raise InputError(
            f"Expected `{name}` to have two dimensions [num_nodes, num_features] (got shape {features.shape})."
        )
    if features.shape[0] == 0:
        raise InputError(f"Expected `{name.split('.')[0]}` to have at least one node (got an empty graph).")
    values: FloatArray = np.asarray(features.data if sparse.issparse(features) else features)
    if not np.isfinite(values).all():
        raise InputError(
            f"Expected finite features in `{name}` (got {describe_bad(values)}); clean them before the model sees them."
        )
    return features


def _is_single(x: Any) -> bool:
    import torch

    kind = x.dtype if isinstance(x, (torch.Tensor, np.ndarray)) else None
    return kind in (torch.float32, np.float32) and math.prod(x.shape) >= SINGLE


def _as_given(x: Any) -> Any:
    return np.asarray(x.detach().cpu() if _is_tensor(x) else x)


def refuse_complex(values: Any, name: str) -> None:
    """Their imaginary parts would be lost."""
    import torch

    if values.is_complex() if isinstance(values, torch.Tensor) else np.iscomplexobj(values):
        raise WrongKind(f"Expected real numbers in `{name}` (got complex ones); take the part that is meant.")


def ascends(indptr: IntArray, num_entries: int) -> bool:
    """Whether rows of a sparse matrix begin where they may; scipy does not look where the last one ends at 0."""
    return bool(len(indptr) and indptr[0] == 0 and indptr[-1] == num_entries and (indptr[1:] >= indptr[:-1]).all())


def _from_sparse(x: Any, name: str) -> sparse.csr_array:
    """A sparse matrix of scipy or torch; indices out of range would be written to, wherever that is."""
    if x.ndim != 2:
        raise InputError(
            f"Expected `{name}` to have two dimensions [num_nodes, num_features] (got shape {tuple(x.shape)})."
        )
    try:
        matrix = _from_torch(x.detach().cpu()) if _is_tensor(x) else x
        if matrix.format in ("csr", "csc") and not ascends(matrix.indptr, len(matrix.indices)):
            raise Damaged("rows that end before they begin")
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        return sparse.csr_array(matrix, dtype=np.float64)
    except (Damaged, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"Expected `{name}` to be a sparse matrix whose indices lie within its shape (got {tuple(x.shape)} in "
            f"which they do not: {error})."
        ) from error


def _from_torch(x: torch.Tensor) -> Any:
    """The same matrix as scipy has it, in the same layout."""
    import torch

    shape = tuple(x.shape)
    if x.layout == torch.sparse_coo:
        return sparse.coo_array((x._values().double().numpy(), tuple(x._indices().numpy())), shape=shape)
    if x.layout == torch.sparse_csc:
        parts = x.values().double().numpy(), x.row_indices().numpy(), x.ccol_indices().numpy()
        return sparse.csc_array(parts, shape=shape)
    x = x.to_sparse_csr()
    parts = x.values().double().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()
    return sparse.csr_array(parts, shape=shape)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _is_sparse(tensor: torch.Tensor) -> bool:
    import torch

    return tensor.layout != torch.strided


def to_numpy(values: Any) -> Any:
    """A tensor as an array; anything else as it is."""
    if not _is_tensor(values):
        return values
    if _is_sparse(values):
        raise WrongKind("Expected dense tensors except `x` (got a sparse one); pass its `to_dense()`.")
    values = values.detach().cpu()
    return values.double() if values.is_floating_point() else values  # numpy knows no bfloat16


def read_edge_index(data: Data, num_nodes: int, name: str) -> IntArray:
    """Edges between rows of x, [2, num_edges]."""
    edge_index = data.get("edge_index")
    if edge_index is None and data.get("adj_t") is not None:
        raise InputError(
            f"Expected `{name}` to carry `edge_index` [2, num_edges] (got only `adj_t`, a sparse matrix); leave "
            "T.ToSparseTensor out, or give it remove_edge_index=False."
        )
    if edge_index is None:
        raise InputError(
            f"Expected `{name}` to carry `edge_index` [2, num_edges] (got none); "
            "a graph without edges has `torch.empty(2, 0, dtype=torch.long)`."
        )
    return read_ends(edge_index, (num_nodes, num_nodes), f"{name}.edge_index")


def read_array(
    values: Any,
    name: str,
    what: str,
    *shapes: tuple[int | None, ...],
    whole: bool = False,
    distinct: bool = False,
    below: float = 2.0**63,
) -> Any:
    """A field as an array of one of these shapes (None: any length): finite float64; or `whole`, int64 from 0 on.

    `what` says in words what it should hold.
    """
    refuse_complex(values, name)
    found = np.asarray(to_numpy(values))
    is_number = found.dtype.kind in ("iu" if whole else "biuf") or not found.size  # of nothing, the kind is nothing
    fits = any(
        len(shape) == found.ndim and all(n in (None, m) for n, m in zip(shape, found.shape, strict=True))
        for shape in shapes
    )
    fault = ""
    if not is_number or not fits:
        fault = f"{str(getattr(values, 'dtype', found.dtype)).removeprefix('torch.')} of shape {found.shape}"
    elif not whole and not np.isfinite(found).all():
        fault = describe_bad(found)
    elif whole and found.size and (found.min() < 0 or found.max() >= below):
        fault = str(found.max() if found.max() >= below else found.min())
    elif distinct and len(np.unique(found)) < found.size:
        fault = "some number twice"
    if fault:
        remedy = "" if is_number or not whole else "; use `.long()` on it"
        raise (InputError if is_number else WrongKind)(f"Expected `{name}` to hold {what} (got {fault}){remedy}.")
    if not whole:
        return found.astype(np.float64, copy=False)
    # As they lie in the user's graph, where they can be read so: a graph of many edges is held once.
    return found.astype(np.int64, copy=not found.flags.writeable)


def read_ends(pairs: Any, sizes: Sequence[int], name: str) -> IntArray:
    """Pairs of rows of x, [2, num_pairs]; `sizes` are the numbers of rows that either end may be."""
    if _is_tensor(pairs) and _is_sparse(pairs):
        raise WrongKind(f"Expected `{name}` to be a dense tensor (got a sparse one); give its `indices()`.")
    ends: IntArray = read_array(pairs, name, "whole numbers [2, num_edges]", (2, None), whole=True)
    for end, size in zip(ends, sizes, strict=True):
        read_array(end, name, f"nodes 0 to {size - 1}, the rows of x", (None,), whole=True, below=size)
    return ends


def read_edge_weight(edge_weight: Any, num_edges: int, name: str) -> FloatArray | None:
    """One finite number per edge, where there are any. [num_edges]."""
    if edge_weight is None:
        return None
    shapes = (num_edges,), (num_edges, 1)
    weights: FloatArray = read_array(edge_weight, name, f"one finite number per edge, shape ({num_edges},)", *shapes)
    return weights.reshape(-1)


def weights_of_relations(data: Data, key: str) -> FloatArray | None:
    """One number per edge that relations have under another name than edge_weight; 1 for edges of those that do not."""
    types = np.asarray(to_numpy(data["edge_type"]))
    found = None
    for relation in range(len(data["schema"].relations)):
        value = data.get(name_of_field(OF_EDGES, relation, key))
        if value is not None and value.numel() == len(types):
            found = np.ones(len(types)) if found is None else found
            found[types == relation] = np.asarray(to_numpy(value)).reshape(-1)[types == relation]
    return found


def read_types(types: Any, num: int, name: str) -> IntArray:
    """A type of 0 or more for each. [num]."""
    if types is None:
        raise InputError(f"Expected `{name}`, which the model reads, as a field of both graphs (got none); add it.")
    found: IntArray = read_array(types, name, f"a type of 0 or more for each of {num:,}", (num,), whole=True)
    return found


def read_edge_features(data: Data, num_edges: int, name: str, fields: Sequence[str]) -> FloatArray | None:
    """Fields of numbers of edges, side by side; one number per edge is a column."""
    parts = []
    for field in fields:
        value = data.get(field)
        if value is None:
            raise InputError(
                f"Expected `{name}` to carry edge features `{field}` [num_edges, width], which the model takes (got "
                "none); add them, or leave them out of both graphs and train without them."
            )
        whole = name_as_given(data, field, name)
        what = f"one row per edge, finite numbers of shape ({num_edges}, width)"
        attr = read_array(value, whole, what, (num_edges,), (num_edges, None))
        parts.append(attr.reshape(num_edges, -1) if num_edges else attr.reshape(0, *attr.shape[1:] or (1,)))
    return np.concatenate(parts, axis=1) if parts else None


def name_as_given(data: Data, field: str, name: str = "") -> str:
    """A field of the graph `name` as the user writes it, also where it is one of a type or relation."""
    schema: Schema | None = data.get("schema")
    if schema is not None and field.startswith((f"{OF_NODES} ", f"{OF_EDGES} ")):
        return name + schema.name_field(field)
    return f"{name}.{field}" if name else field


def first_columns(data: Data, fields: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Of each relation, where its features begin among those of all, side by side."""
    widths = [1 if data[field].ndim == 1 else data[field].shape[1] for field in fields]
    starts: dict[int, int] = {}
    for place, field in enumerate(fields):
        starts.setdefault(relation_of_field(field), sum(widths[:place]))
    return tuple(starts.items())


def read_node_ids(n_id: Any, num_nodes: int, name: str) -> IntArray:
    """Different numbers of nodes, `n_id` or else their rows. [num_nodes]."""
    if n_id is None:
        return np.arange(num_nodes, dtype=np.int64)
    what = f"{num_nodes} different non-negative integers, one per node"
    found: IntArray = read_array(n_id, f"{name}.n_id", what, (num_nodes,), whole=True, distinct=True)
    return found


def describe_bad(values: FloatArray) -> str:
    """How many numbers are not finite, and where the first is."""
    bad = ~np.isfinite(values)
    where = np.argwhere(bad)[0]
    return f"{np.count_nonzero(bad)} NaN or infinite entries, the first at {tuple(where.tolist())}"

"""torch_geometric Data -> Snapshot: one graph at one moment, checked, in numpy; its arrays may be memory-mapped.

Nodes are matched between two snapshots by their position, or by `n_id` where both graphs carry it (a unique
non-negative number for every node, as PyG's samplers write it). `align_snapshots` brings both onto one numbering;
a node that only the other snapshot has is kept as a row that is not `present`: no features, no edges, no self-loop.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError, MatchedByRow, WrongKind
from ..storage.memory import release
from .adjacency import Incoming, sort_by_receiver
from .data_fields import (
    PLAIN_FIELDS,
    Features,
    Fields,
    check_features,
    first_columns,
    node_numbers,
    parts_of,
    read_edge_features,
    read_edge_index,
    read_edge_weight,
    read_features,
    read_graph_numbers,
    read_node_ids,
    read_relation_names,
    read_types,
    side_by_side,
    weights_of_relations,
)
from .places import Places
from .schema import Schema
from .values import join_values

if TYPE_CHECKING:  # loaded late: workers of a scan have no use for it, and it takes seconds
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A checked graph. Parallel edges are allowed and add up, as in PyG."""

    x: Features  # [num_nodes, num_features]; many are held as single numbers, see `in_double`
    edges: IntArray | Incoming  # [2, num_edges]: row 0 sends to row 1; or, as on disk, sorted by receiver
    edge_weight: FloatArray | None  # [num_edges]
    node_ids: IntArray  # [num_nodes]; none for a graph on disk, where a node's number is its row
    present: BoolArray  # [num_nodes]
    # [2, num_nodes]: number and weight of the edges into each node that were left out, where this is a part of a graph
    unseen: FloatArray | None = None
    numbered: bool = False  # whether node_ids are the user's `n_id`; else they are rows
    graphs: IntArray | None = None  # [num_nodes]: number of the graph of each node, where this is a batch of several
    listed: IntArray | None = None  # [num_graphs]: numbers of the graphs of a batch, in the order of the batch
    places: Places | None = None  # what is predicted, where it is not the nodes
    edge_types: IntArray | None = None  # [num_edges]: number of each edge's relation, where edges have types
    node_types: IntArray | None = None  # [num_nodes]: number of each node's type, where nodes have types
    schema: Schema | None = None  # what types of nodes and edges are called, and which columns of x are whose
    relation_names: tuple[str, ...] = ()  # by number, where the user's graph has a name for each
    edge_attr: FloatArray | None = None  # [num_edges, num_edge_features], where a model takes them
    # [num_edges]: row of each edge, where edges are places, too: below the rows of all nodes
    edge_rows: IntArray | None = None
    # First column of edge_attr of each relation that has features of edges, where nodes have types: by its number
    edge_starts: tuple[tuple[int, int], ...] = ()
    recording: int | None = None  # 0 or 1: which of the two graphs that a model was recorded on this is

    @cached_property
    def edge_index(self) -> IntArray:
        """Row 0 sends to row 1. [2, num_edges]."""
        if not isinstance(self.edges, Incoming):
            return self.edges
        return np.stack([self.edges.senders, np.repeat(np.arange(self.num_nodes), np.diff(self.edges.indptr))])

    @property
    def on_disk(self) -> bool:
        """Whether the arrays are memory-mapped."""
        return isinstance(self.edges, Incoming)

    @property
    def num_nodes(self) -> int:
        """Rows of x, present or not; with those of edges, where edges are places."""
        return len(self.present)

    @property
    def first_edge(self) -> int:
        """The first row that is an edge's; the number of all rows where none is."""
        return self.num_nodes if self.edge_rows is None else int(np.count_nonzero(self.node_ids >= 0))

    @property
    def standing(self) -> BoolArray:
        """Rows of the nodes, and of the edges, that this snapshot has. [num_nodes]."""
        if self.edge_rows is None:
            return self.present
        here = self.present.copy()
        here[self.edge_rows] = True
        return here

    @property
    def listed_graphs(self) -> IntArray:
        """Numbers of the graphs in the order in which a model answers for them; 0 where this is one graph."""
        return np.zeros(1, dtype=np.int64) if self.listed is None else self.listed

    @cached_property
    def order(self) -> IntArray:
        """Rows of the nodes by their number, for those who look some up again and again. [num_nodes]."""
        return np.argsort(self.node_ids, kind="stable")

    @property
    def predicted(self) -> Snapshot:
        """The places as a graph without edges, which the layers after a readout run on; without places, itself."""
        if self.places is None:
            return self
        nothing = np.zeros((2, 0), dtype=np.int64)
        here = self.places.present
        return Snapshot(np.zeros((len(here), 0)), nothing, None, np.arange(len(here)), here, recording=self.recording)

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return self.edge_weight is not None

    @property
    def edge_values(self) -> NDArray[Any] | None:
        """Weight and type of each edge as one value, None where they have neither. [num_edges]."""
        return join_values(self.edge_weight, self.edge_types)

    @property
    def num_features(self) -> int:
        """Columns of x."""
        return int(self.x.shape[1])

    def incoming(self, *, backwards: bool = False) -> Incoming:
        """The edges by receiver, in the user's order within a row; `backwards` where the source receives."""
        if isinstance(self.edges, Incoming) and not backwards:
            return self.edges
        senders, receivers = self.edge_index[::-1] if backwards else self.edge_index
        return sort_by_receiver(receivers, senders, self.edge_values, self.num_nodes)

    def take_features(self, rows: IntArray) -> Features:
        """Features of some nodes, [len(rows), num_features]; of a graph on disk they are checked here."""
        found = in_double(self.x[rows])
        if self.on_disk:
            check_features(self.x, found)
            release(*parts_of(self.x))
        return found


def read_aligned(before: Any, after: Any, fields: Fields = PLAIN_FIELDS) -> tuple[Snapshot, Snapshot]:
    """Two Data objects, numbered alike; features that both hold as the very same object are read once."""
    first = read_snapshot(before, "before", fields)
    shared = all(before.get(field) is getattr(after, field, None) for field in fields.features)
    return align_snapshots(first, read_snapshot(after, "after", fields, first.x if shared else None))


def read_snapshot(data: Any, name: str, fields: Fields = PLAIN_FIELDS, x: Features | None = None) -> Snapshot:
    """Check a Data object and take what matters of it; `name` ("before", "after") is used in error messages.

    What has the right type already is not copied.
    """
    from torch_geometric.data import Data, HeteroData

    if isinstance(data, HeteroData):
        raise WrongKind(
            f"Expected `{name}` to be a torch_geometric.data.Data with one kind of node (got HeteroData); "
            "convert it with `data.to_homogeneous()` if the model treats all nodes alike."
        )
    if not isinstance(data, Data):
        raise WrongKind(
            f"Expected `{name}` to be a torch_geometric.data.Data (got {type(data).__name__}); "
            "build one with `Data(x=..., edge_index=...)`."
        )
    if x is None:
        x = side_by_side([read_features(data.get(field), f"{name}.{field}") for field in fields.features])
    num_nodes = x.shape[0]
    edge_index = read_edge_index(data, num_nodes, name)
    weights = data.get(fields.weights)
    if weights is None and data.get("schema") is not None:
        weights = weights_of_relations(data, fields.weights)
    edge_weight = read_edge_weight(weights, edge_index.shape[1], f"{name}.{fields.weights}")
    node_ids = read_node_ids(data.get("n_id"), num_nodes, name)
    present = np.ones(num_nodes, dtype=np.bool_)
    graphs, listed = read_graph_numbers(data, num_nodes, name)
    numbered = data.get("n_id") is not None
    schema = data.get("schema")
    types = fields.types if schema is None else "edge_type"
    return Snapshot(
        x,
        edge_index,
        edge_weight,
        node_ids,
        present,
        numbered=numbered,
        graphs=graphs,
        listed=listed,
        edge_types=None if types is None else read_types(data.get(types), edge_index.shape[1], f"{name}.{types}"),
        node_types=None if schema is None else read_types(data.get("node_type"), num_nodes, f"{name}.node_type"),
        schema=schema,
        relation_names=read_relation_names(data, types, schema),
        edge_attr=read_edge_features(data, edge_index.shape[1], name, fields.edge_features),
        edge_starts=() if schema is None else first_columns(data, fields.edge_features),
    )


def align_snapshots(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot]:
    """Give both snapshots the same node numbering: the nodes of `before`, then those that only `after` has."""
    if before.x.shape[1] != after.x.shape[1]:
        raise InputError(
            "Expected both snapshots to have node features of the same width "
            f"(got {before.x.shape[1]} in `before` and {after.x.shape[1]} in `after`); "
            "pad or select the columns that the model was trained on."
        )
    if (before.edge_weight is None) != (after.edge_weight is None):
        bare = "before" if before.edge_weight is None else "after"
        raise InputError(
            f"Expected both snapshots to carry `edge_weight`, or neither (`{bare}` has none); "
            "if its edges are unweighted, give it ones."
        )
    check_edge_features(before, after)
    if before.numbered != after.numbered:
        bare = "after" if before.numbered else "before"
        raise InputError(
            f"Expected both snapshots to carry `n_id`, or neither (`{bare}` has none); give it to both, so that nodes "
            "are matched by it, or delete it from the other, to match them by their row."
        )
    if not before.numbered:
        warn_of_rows(before.num_nodes, after.num_nodes, "give both `n_id`")
    fresh = after.node_ids[~np.isin(after.node_ids, before.node_ids)]
    node_ids = np.concatenate([before.node_ids, fresh])
    return _renumber(before, node_ids), _renumber(after, node_ids)


def check_edge_features(before: Snapshot, after: Snapshot) -> None:
    """Refuse snapshots whose edges have features of different widths."""
    for (whose, width), (_, other) in zip(_feature_widths(before), _feature_widths(after), strict=True):
        if width != other:
            raise InputError(
                f"Expected both snapshots to have edge features of the same width{whose} (got {width} in `before` and "
                f"{other} in `after`); pad or select the columns that the model was trained on."
            )


def _feature_widths(snapshot: Snapshot) -> list[tuple[str, int]]:
    """Columns of edge features: of all edges, or of those of each relation that has any."""
    total = 0 if snapshot.edge_attr is None else snapshot.edge_attr.shape[1]
    if snapshot.schema is None or not snapshot.edge_starts:
        return [("", total)]
    starts = [start for _, start in snapshot.edge_starts]
    return [
        (f" for {snapshot.schema.relations[relation]!r}", end - start)
        for (relation, start), end in zip(snapshot.edge_starts, [*starts[1:], total], strict=True)
    ]


def warn_of_rows(num_before: int, num_after: int, remedy: str) -> None:
    """Warn where graphs of different sizes are matched by row: nodes that left from the middle would shift the rest."""
    if num_before == num_after:
        return
    low, high = sorted((num_before, num_after))
    extra = f"row {low:,}" if high == low + 1 else f"rows {low:,} to {high - 1:,}"
    taken = f"{extra} of the graph after as new" if num_before < num_after else f"{extra} of the graph before as gone"
    warnings.warn(
        f"The graph before has {num_before:,} nodes and the graph after {num_after:,}, and nothing but their row says "
        f"which is which: row i of one is taken for row i of the other, {taken}; if that is not so, {remedy}.",
        MatchedByRow,
        stacklevel=_user_level(),
    )


def _user_level() -> int:
    """How many calls up, from whoever warns, the code lies that called this package."""
    package, frame, level = str(Path(__file__).parents[1]), sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level


def find_numbers(ids: IntArray, wanted: IntArray, order: IntArray | None = None) -> tuple[IntArray, BoolArray]:
    """Row of each wanted number among different ids in any order, and whether it is there at all."""
    order = np.argsort(ids, kind="stable") if order is None else order
    rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    return rows, np.asarray(ids[rows] == wanted)


def differing_features(before: Snapshot, after: Snapshot) -> BoolArray:
    """Which nodes of two aligned snapshots have other features, or exist in only one. [num_nodes]."""
    other = np.zeros(before.num_nodes, dtype=np.bool_) if before.x is after.x else rows_differ(before.x, after.x)
    return np.asarray(other | (before.present != after.present), dtype=np.bool_)


def in_double(x: Features) -> Features:
    """The same numbers as float64, in which everything is computed."""
    return x if x.dtype == np.float64 else x.astype(np.float64)


def rows_differ(x: Features, other: Features) -> BoolArray:
    """Which rows of two arrays of one shape differ."""
    if sparse.issparse(x) or sparse.issparse(other):
        unequal = sparse.csr_array(sparse.csr_array(x) != sparse.csr_array(other))
        return np.asarray(np.diff(unequal.indptr) > 0)
    return np.asarray((x != other).any(axis=1))


def rows_of(snapshot: Snapshot, data: Data) -> IntArray | slice:
    """Rows of an aligned snapshot in the order of the user's own graph."""
    if data.get("n_id") is None:
        return slice(0, data.x.shape[0])
    return find_numbers(snapshot.node_ids, node_numbers(data))[0]


def _renumber(snapshot: Snapshot, node_ids: IntArray) -> Snapshot:
    if np.array_equal(snapshot.node_ids, node_ids):
        return snapshot
    position, _ = find_numbers(node_ids, snapshot.node_ids)
    total = len(node_ids)
    if sparse.issparse(snapshot.x):
        source = sparse.coo_array(snapshot.x)
        x: Features = sparse.csr_array(
            (source.data, (position[source.row], source.col)), shape=(total, snapshot.x.shape[1])
        )
    else:
        x = np.zeros((total, snapshot.x.shape[1]))
        x[position] = snapshot.x
    present = np.zeros(total, dtype=np.bool_)
    present[position] = True
    graphs = None
    if snapshot.graphs is not None:
        graphs = np.full(total, -1)
        graphs[position] = snapshot.graphs
    edges = position[snapshot.edge_index]
    # A number says its type, whether the snapshot has the node or not.
    types = None if snapshot.schema is None else node_ids % len(snapshot.schema.node_types)
    return replace(snapshot, x=x, edges=edges, node_ids=node_ids, present=present, graphs=graphs, node_types=types)

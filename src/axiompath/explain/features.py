"""PathEngine + target -> a table of the columns of features that moved it, or of the leaves of given paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import IntArray
from ..change.comparison import Change
from ..errors import InputError
from ..graphs.labels import insert_beside, label_nodes, name_edges
from ..paths.leaf_columns import ColumnShares, join_columns, share_columns, share_columns_of_paths
from .engine import PathEngine
from .remains import column_weights
from .replay import own_paths


def list_features(engine: PathEngine, row: int, paths: Any = None, names: Any = None) -> pd.DataFrame:
    """One row per column of a node, or of an edge: node, name, column, before, after, share, shares of every logit.

    Without paths, of every node or edge whose features changed: all sum to the causes of features. With paths, of the
    leaves of these, path by path: the shares of one sum to its contribution. `share` is of the new class's logit
    against the old one's (of another output, of the column that moved most), and the largest come first.
    """
    change = engine.change
    edge_attr = change.before.edge_attr
    width = change.network.num_features - (0 if edge_attr is None else edge_attr.shape[1])
    names = _in_a_row(change, names)
    if names is not None and len(names) != width:
        raise InputError(f"Expected a name for each of the {width:,} columns of the features (got {len(names):,}).")
    given, places = None, np.zeros(0, dtype=np.int64)
    if paths is not None:
        given, places = np.unique(engine.read_paths(paths, row), axis=0, return_index=True)
    parts = [share_columns(side, row) if given is None else _of_paths(side, row, given) for side in engine.changes]
    shares = parts[0] if len(parts) == 1 else _mean(parts)
    leaf = shares.owner if given is None else _leaves(given)[shares.owner]
    nodes = change.before.node_ids[leaf]
    edges = change.edges_on(nodes)
    column = _own_columns(change, leaf, shares.column, width)
    frame = pd.DataFrame(
        {
            "node": nodes,
            "name": label_nodes(nodes, {**engine.node_names, **name_edges(edges, engine.node_names)}),
            "column": column,
            "before": shares.before,
            "after": shares.after,
            "share": shares.shares @ column_weights(change, np.array([row]))[0],
        }
    )
    if given is not None:
        frame.insert(0, "path", places[shares.owner])
    if names is not None:
        known = dict(enumerate(map(str, names)))
        insert_beside(frame, "column", [known.get(column) for column in shares.column.tolist()])  # only of nodes
    columns = change.output.table_columns(shares.shares.shape[1], engine.class_names)
    frame = pd.concat([frame, pd.DataFrame(shares.shares, columns=columns)], axis=1)
    size = -np.abs(frame.share.to_numpy())
    order = np.lexsort((size,) if given is None else (size, places[shares.owner]))
    return frame.iloc[order].reset_index(drop=True)


def _in_a_row(change: Change, names: Any) -> Sequence[str] | None:
    """Names of columns by node type, one type after the other, as their columns are; others as they are."""
    schema = change.before.schema
    if schema is None or names is None:
        return names  # type: ignore[no-any-return]
    known = dict(zip(schema.node_types, schema.widths, strict=True))
    fits = isinstance(names, Mapping) and {*names} <= {*known}
    if not fits or any(len(own) != known[kind] for kind, own in names.items()):
        widths_text = ", ".join(f"{width} of {kind}" for kind, width in known.items())
        raise InputError(
            f"Expected the names of columns by node type, such as {{{schema.node_types[0]!r}: [...]}}, one per column "
            f"({widths_text})."
        )
    return [str(name) for kind, width in known.items() for name in names.get(kind, range(width))]


def _own_columns(change: Change, leaf: IntArray, column: IntArray, width: int) -> IntArray:
    """Columns as the user counts them: an edge's own from 0, and those of a node among its type's, where it has one."""
    schema, types = change.before.schema, change.before.node_types
    if schema is None or types is None:
        start = np.where(leaf >= change.first_edge, width, 0)
        return np.where(column < 0, column, column - start)
    first = np.array([columns.start for columns in schema.columns])
    first_column = np.full(change.before.num_nodes, width)
    for side in (change.before, change.after):
        if side.edge_rows is not None and side.edge_types is not None:
            for relation, place in side.edge_starts:
                first_column[side.edge_rows[side.edge_types == relation]] = width + place
    start = np.where(leaf >= change.first_edge, first_column[leaf], first[types[np.minimum(leaf, len(types) - 1)]])
    return np.where(column < 0, column, column - start)


def _of_paths(change: Change, row: int, paths: IntArray) -> ColumnShares:
    """Under one model; paths that are none of its own have no columns there."""
    own, places = own_paths(change, paths)
    found = share_columns_of_paths(change, row, own)
    return found._replace(owner=places[found.owner])


def _mean(parts: Sequence[ColumnShares]) -> ColumnShares:
    """The mean of what a column does under either model, which is its part of the data's share."""
    joined = join_columns(parts)
    keys = np.stack([joined.owner, joined.column], axis=1)
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    shares = np.zeros((len(first), joined.shares.shape[1]))
    np.add.at(shares, place.reshape(-1), joined.shares / len(parts))
    return ColumnShares(joined.owner[first], joined.column[first], joined.before[first], joined.after[first], shares)


def _leaves(paths: IntArray) -> IntArray:
    """The first node of each path: its leaf, or where its bias is."""
    return np.asarray(paths[np.arange(len(paths)), (paths < 0).sum(axis=1)])

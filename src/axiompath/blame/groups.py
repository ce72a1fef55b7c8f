"""How the user groups changes -> a label for each change that reaches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse import csgraph

from ..arrays import IntArray
from ..errors import InputError, WrongKind
from .engine import SubsetEvaluator

BY_NODE = "node"
BY_MODEL, OF_DATA = "model", "data"  # if the model differs: all other changes are one group
OTHER = "other"
NO_LABEL = "none"  # where a column says nothing of a change, such as the relation of a node

Grouping = str | Mapping[int, Any] | Callable[[Any], Any]  # or one label a row of `changes()`


def label_changes(evaluator: SubsetEvaluator, by: Any, names: Mapping[int, str]) -> list[str]:
    """The group of each change of the graph in sight: by a column of `changes()`, a mapping of ids, a function, labels.

    By node: of a change of a node that node, of an edge the end that is farther from the target.
    """
    rows = evaluator.rows[: evaluator.num_data_changes]
    if isinstance(by, str) and by == BY_MODEL:
        if len(evaluator.models) == 1:
            raise InputError('Expected another model in `model_before` to go with by="model" (got one model).')
        return [OF_DATA] * len(rows)
    if isinstance(by, str) and by == BY_NODE:
        return [names.get(node, str(node)) for node in _far_ends(evaluator)]
    return label_rows(evaluator.players.changes, by, rows, (BY_NODE,))


def label_rows(table: pd.DataFrame, by: Any, rows: IntArray, beside: tuple[str, ...] = ()) -> list[str]:
    """The group of each of these rows of `changes()`, whatever target they reach.

    `beside` are the words that may be given besides, which a refusal names.
    """
    changes = table.iloc[rows]
    if isinstance(by, str):
        if by not in changes:
            known = ", ".join((*beside, *map(str, changes.columns)))
            raise InputError(f"Expected `by` to be a column of `changes()` among {known} (got {by!r}).")
        return [NO_LABEL if pd.isna(value) else str(value) for value in changes[by]]
    if isinstance(by, Mapping):
        for number in by.keys() - set(table.id.tolist()):
            raise InputError(f"Expected `by` to hold ids of the {len(table):,} changes (got {number!r}).")
        return [str(by.get(number, OTHER)) for number in changes.id.tolist()]
    if callable(by):
        return [str(by(row)) for row in changes.itertuples(index=False)]
    labels = np.asarray(by, dtype=object)
    if labels.shape != (len(table),):
        raise WrongKind(
            "Expected `by` to be a column of `changes()`, a dict of ids, a function of a row or one label a row, "
            f"{len(table)} of them (got {type(by).__name__} of shape {labels.shape})."
        )
    return [str(labels[row]) for row in rows.tolist()]


def number_groups(labels: list[str]) -> tuple[IntArray, list[str]]:
    """The number of each one's group, and the groups in order of appearance."""
    codes, unique = pd.factorize(np.array(labels, dtype=object))
    return codes.astype(np.int64), [str(label) for label in unique]


def _far_ends(evaluator: SubsetEvaluator) -> list[int]:
    widest = max(evaluator.models[::-1], key=lambda one: one.field.num_nodes)
    field = widest.field
    edges = sparse.csr_array((np.ones(len(field.senders)), (field.senders, field.receivers)), [field.num_nodes] * 2)
    hops = csgraph.dijkstra(edges, directed=False, indices=widest.root, unweighted=True, min_only=True)
    far = dict(zip(field.pair.node_ids(field.numbers).tolist(), hops.tolist(), strict=True))
    changes = evaluator.changes.iloc[: evaluator.num_data_changes]
    return [
        src if pd.isna(dst) or far.get(src, np.inf) >= far.get(int(dst), np.inf) else int(dst)
        for src, dst in zip(changes.src.tolist(), changes.dst.tolist(), strict=True)
    ]

"""Targets in the user's numbers -> their rows among what a PathEngine explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..arrays import BoolArray, IntArray
from ..change.comparison import with_roots
from ..errors import InputError, WrongKind
from ..graphs.places import Target
from ..graphs.snapshot import find_numbers
from ..graphs.targets import read_pairs, with_links
from .engine import PathEngine


def find_rows(engine: PathEngine, targets: Sequence[Target]) -> IntArray:
    """Rows of these nodes, graphs or pairs, which both graphs must have."""
    change, numbers = engine.change, np.asarray(targets)
    if change.of_links:
        pairs = find_pairs(targets)
        check_ends(engine, pairs)
        rows = np.array([engine.row_of_pair[pair] for pair in map(tuple, pairs.tolist())], dtype=np.int64)
        check_in_both(engine, rows)
        return rows
    if numbers.size == 0:
        return np.zeros(0, dtype=np.int64)
    unit = change.unit
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        got = numbers.dtype if numbers.ndim == 1 else f"{targets[0]!r}, more than one number for a {unit}"
        raise WrongKind(f"Expected targets to be {unit} numbers, integers, or names (got {got}).")
    rows, known = find_numbers(change.root_ids, numbers)
    if change.before.places is None:
        known &= engine.region.reached[rows]
        for node in numbers[~known & engine.region.pair.has(numbers)][:1]:
            raise InputError(
                f"Expected a target that the change reaches (got {engine.called(node)}, whose prediction is the same "
                "on both graphs); `moved()` lists those that it does."
            )
    for number in numbers[~known][:1]:
        among = engine.region.pair.all_nodes if unit == "node" else f"{len(change.root_ids)} graphs"
        raise InputError(f"Expected a target among the {among} (got {engine.called(number)}).")
    check_types(engine, rows)
    check_in_both(engine, rows)
    return rows.astype(np.int64)


def find_pairs(targets: Sequence[Target]) -> IntArray:
    """Targets of a model of links, checked. [num_pairs, 2]."""
    for target in [one for one in targets if np.shape(one) != (2,)][:1]:
        raise WrongKind(f"Expected a pair of nodes, such as (3, 8), as a target of a model of links (got {target!r}).")
    return read_pairs(targets)


def with_pairs(engine: PathEngine, pairs: IntArray) -> PathEngine:
    """An engine that has these pairs [num_pairs, 2] among those that are predicted."""
    asked = list(dict.fromkeys(map(tuple, pairs.tolist())))
    if all(pair in engine.row_of_pair for pair in asked):
        return engine
    change = engine.change
    sides = with_links(change.before, change.after, np.array(asked, dtype=np.int64).reshape(-1, 2))
    return replace(engine, change=with_roots(change, *sides))


def look_up(engine: PathEngine, targets: Sequence[Target]) -> tuple[IntArray, BoolArray]:
    """Rows of these targets among all that are predicted, and which of them are there."""
    if engine.change.of_links:
        found = [engine.row_of_pair.get(target, -1) for target in targets if isinstance(target, tuple)]
        rows = np.array(found, dtype=np.int64)
        return np.maximum(rows, 0), rows >= 0
    rows, known = find_numbers(engine.change.root_ids, np.array(targets, dtype=np.int64))
    return np.where(known, rows, 0), known


def check_types(engine: PathEngine, rows: IntArray) -> None:
    """Targets must be of types that the model answers for."""
    change = engine.change
    schema, types = change.before.schema, change.before.node_types
    answered = change.network.answered
    if schema is None or types is None or not answered:
        return
    for row in rows[~np.isin(types[rows], list(answered))][:1].tolist():
        raise InputError(
            f"Expected a target of type {' or '.join(schema.node_types[kind] for kind in sorted(answered))}, which "
            f"the model answers for (got {schema.node(int(change.root_ids[row]))})."
        )


def check_ends(engine: PathEngine, pairs: IntArray) -> None:
    """Pairs must be of nodes of the types that the model answers for."""
    schema = engine.change.before.schema
    if schema is None:
        return
    for pair in pairs[(pairs % len(schema.node_types) != schema.link_ends).any(axis=1)][:1].tolist():
        kinds = " and ".join(schema.node_types[end] for end in schema.link_ends)
        raise InputError(
            f"Expected a pair of {kinds}, which the model answers for (got {tuple(map(schema.node, pair))})."
        )


def check_in_both(engine: PathEngine, rows: IntArray) -> None:
    """Both graphs must have what is predicted in these rows."""
    for snapshot, name in ((engine.change.before, "before"), (engine.change.after, "after")):
        for row in rows[~snapshot.predicted.present[rows]][:1].tolist():
            raise InputError(
                "Expected a target that exists in both snapshots (got "
                f"{engine.called(engine.change.target(row))}, which `{name}` does not have); a prediction that was "
                "never made cannot have changed."
            )


def find_only_graph(engine: PathEngine) -> int:
    """The number of the graph, if only one is predicted."""
    change = engine.change
    if not change.of_graphs or len(change.root_ids) != 1:
        raise InputError(
            f"Expected the name of a target (got none, of {len(change.root_ids):,} {change.unit}s); "
            "`moved()` lists those whose prediction moved."
        )
    return int(change.root_ids[0])

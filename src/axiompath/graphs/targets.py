"""Two aligned snapshots -> their Places: the graphs of two batches, or pairs of nodes, numbered alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..errors import InputError, WrongKind
from .places import GRAPHS, LINKS, Places
from .snapshot import Snapshot, find_numbers


def with_graphs(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot]:
    """Both snapshots with the graphs of their batches as places: those of `before`, then those that only `after` has.

    A snapshot that is no batch is one graph, number 0.
    """
    sides = (before, after)
    members = [np.where(side.present, 0 if side.graphs is None else side.graphs, -1) for side in sides]
    own = [np.unique(numbers[numbers >= 0]) for numbers in members]
    for side, here, name in zip(sides, own, ("before", "after"), strict=True):
        for empty in np.setdiff1d(side.listed_graphs, here)[:1]:
            raise InputError(
                f"Expected a node in every graph of the batch (graph {empty} of `{name}` has none); leave it out."
            )
    ids = np.concatenate([own[0], np.setdiff1d(own[1], own[0])])
    found = []
    for side, numbers, here in zip(sides, members, own, strict=True):
        place, _ = find_numbers(ids, numbers)
        found.append(replace(side, places=Places(GRAPHS, ids, np.where(numbers >= 0, place, -1), np.isin(ids, here))))
    return found[0], found[1]


def with_links(before: Snapshot, after: Snapshot, pairs: IntArray) -> tuple[Snapshot, Snapshot]:
    """Both snapshots with these pairs [num_pairs, 2] of node numbers as places."""
    rows, known = find_numbers(before.node_ids, pairs, before.order)
    for pair in pairs[~known.all(axis=1)][:1]:
        raise InputError(
            f"Expected pairs of nodes of the graphs (got {tuple(pair.tolist())}); nodes are named by `n_id` where the "
            "graphs have it, else by their row, from 0."
        )
    first, second = (
        replace(side, places=Places(LINKS, pairs, rows.T.copy(), np.asarray(side.present[rows].all(axis=1))))
        for side in (before, after)
    )
    return first, second


def rows_of_places(snapshot: Snapshot) -> IntArray:
    """Places of an aligned snapshot in the order in which a model answers for it: its own graphs, or its pairs."""
    places = snapshot.places
    assert places is not None
    here = np.flatnonzero(places.present)
    if places.kind != GRAPHS:
        return here
    place, _ = find_numbers(snapshot.listed_graphs, places.ids[here])
    return here[np.argsort(place)]


def match_in_graphs(batches: Sequence[IntArray]) -> list[IntArray]:
    """Numbers of the nodes of several batches, each given by the graph of every node: the rows of the first, then new.

    Rows of a batch shift when one of its graphs grows, so that a node is known by its graph and its place in it.
    """
    keys = []
    for graphs in batches:
        order = np.argsort(graphs, kind="stable")
        starts = np.searchsorted(graphs[order], graphs[order], side="left")
        place = np.empty(len(graphs), dtype=np.int64)
        place[order] = np.arange(len(graphs)) - starts
        keys.append(np.stack([graphs, place], axis=1))
    _, first, key = np.unique(np.concatenate(keys), axis=0, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))  # as they are met
    return np.split(number[key.reshape(-1)], np.cumsum([len(graphs) for graphs in batches])[:-1])


def read_pairs(links: Any) -> IntArray:
    """Pairs of node numbers as the user gives them: tuples or an array [n, 2]; a tensor is edge_label_index, [2, n]."""
    of_torch = hasattr(links, "detach")
    given = links.detach().cpu().numpy() if of_torch else links
    try:
        pairs = np.asarray(list(given) if isinstance(given, Iterable) and not isinstance(given, np.ndarray) else given)
    except ValueError as error:
        raise InputError("Expected links to be pairs of node numbers (got rows of other lengths).") from error
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if of_torch and (pairs.ndim != 2 or pairs.shape[0] != 2):
        raise InputError(
            f"Expected a tensor of links to be an edge_label_index, [2, num_pairs] (got shape {pairs.shape}); turn it "
            "with .T, or give a list of tuples."
        )
    pairs = pairs.T if of_torch else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(
            f"Expected links to be pairs of node numbers, [num_pairs, 2] (got shape {pairs.shape}); give a list of "
            "tuples, such as [(3, 8), (5, 2)]."
        )
    if pairs.dtype.kind not in "iu":
        raise WrongKind(f"Expected links to hold node numbers, integers (got {pairs.dtype}).")
    return pairs.astype(np.int64)

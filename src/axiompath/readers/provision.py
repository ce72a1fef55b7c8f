"""model + two graphs + links -> Inputs: the graphs as the model is to be given them, with what it predicts for.

A model of whole graphs is given `batch`; where a graph has none it is one graph. Rows of two batches are matched graph
by graph, so that a graph that grew does not shift the rest. A model of links (its forward takes `edge_label_index`, or
it has `encode` and `decode`) is given the pairs, in the rows of each graph.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from ..arrays import IntArray
from ..errors import InputError
from ..graphs.data_fields import node_numbers, read_graph_numbers
from ..graphs.snapshot import find_numbers
from ..graphs.targets import match_in_graphs, read_pairs
from .arguments import AS_IT_IS, LINKS_FIELD, ModelCall, Usage, has_decoder, needs_decoder, parameters_of

NUM_SAMPLES = 64  # edges that a model of links is read on, where no pairs are given


@dataclass(frozen=True, eq=False)
class Inputs:
    """Two graphs, and the pairs that are predicted, in node numbers [num_pairs, 2]; None where it is not pairs."""

    before: Data
    after: Data
    pairs: IntArray | None


def with_edge_index(data: Data, name: str) -> Data:
    """A graph that has its edges as a sparse matrix `adj_t`, rows receiving, with an `edge_index` instead."""
    if data.edge_index is not None or "adj_t" not in data:
        return data
    matrix = data.adj_t
    if not isinstance(matrix, torch.Tensor):  # torch_sparse's own
        matrix = matrix.to_torch_sparse_coo_tensor()
    matrix = matrix.to_sparse_coo().coalesce()
    if bool((matrix.values() != 1).any()):
        raise InputError(
            f"Expected `{name}.adj_t` to hold no weights (got values other than 1); give `edge_index` and "
            "`edge_weight`, and pass these to the convolutions."
        )
    copied = copy.copy(data)
    copied.edge_index = matrix.indices().flip(0)
    del copied.adj_t
    return copied


def prepare_inputs(model: Any, before: Data, after: Data, usage: Usage = AS_IT_IS) -> Inputs:
    """Copies of the graphs with the fields that are wanting; the user's own stay as they are."""
    links, call = usage.links, usage.call
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    if not isinstance(model, nn.Module):
        return Inputs(before, after, None)  # refused where it is read
    before, after = with_edge_index(before, "before"), with_edge_index(after, "after")
    before, after = _matched(_with_batch(model, before, call), _with_batch(model, after, call))
    if not _predicts_links(model, (before, after), call):
        if links is not None and call is None and not has_decoder(model):
            raise InputError(
                "Expected a model of links to go with `links` (got one whose forward does not take `edge_label_index`, "
                "without `encode` and `decode`); say with `call=lambda model, data: ...` how data.edge_label_index is "
                "given to it."
            )
        if links is None:
            return Inputs(before, after, None)
    numbers = [node_numbers(data) for data in (before, after)]
    pairs = _find_pairs((before, after), numbers) if links is None else read_pairs(links)
    known = np.union1d(numbers[0], numbers[1])
    for pair in pairs[~np.isin(pairs, known).all(axis=1)][:1]:
        raise InputError(
            f"Expected links between nodes of the graphs (got {tuple(pair.tolist())}); nodes are named by `n_id` where "
            "the graphs have it, else by their row, from 0."
        )
    given = [give_pairs(data, pairs) for data in (before, after)]
    return Inputs(given[0], given[1], pairs)


def give_pairs(data: Data, pairs: IntArray) -> Data:
    """A copy of a graph with those of the pairs of node numbers that it has, as rows, in `edge_label_index`."""
    rows, known = find_numbers(node_numbers(data), pairs)
    here = known.all(axis=1)
    return _with(data, LINKS_FIELD, torch.from_numpy(np.ascontiguousarray(rows[here].T)))


def asks_for_places(model: Any, call: ModelCall | None) -> bool:
    """Whether a model that is called by its arguments cannot do without pairs, or the graphs of a batch."""
    model = getattr(model, "_orig_mod", model)
    if call is not None or not isinstance(model, nn.Module):
        return False
    wanted = {one.name for one in parameters_of(model) if one.default is inspect.Parameter.empty}
    return needs_decoder(model) or not wanted.isdisjoint({"batch", LINKS_FIELD})


def _predicts_links(model: nn.Module, graphs: tuple[Data, Data], call: ModelCall | None) -> bool:
    named = call is None and LINKS_FIELD in {parameter.name for parameter in parameters_of(model)}
    return named or (call is None and needs_decoder(model)) or all(data.get(LINKS_FIELD) is not None for data in graphs)


def _find_pairs(graphs: tuple[Data, Data], numbers: list[IntArray]) -> IntArray:
    """The pairs that the graphs bring along, each once; else some of their edges, for the model to be read on."""
    listed = listed_pairs(graphs, numbers)
    if len(listed):
        return listed
    shared = np.intersect1d(numbers[0], numbers[1])
    edges = [
        ids[np.asarray(torch.as_tensor(data.edge_index).detach().cpu())].T
        for data, ids in zip(graphs, numbers, strict=True)
    ]
    found = np.unique(np.concatenate([*edges, np.stack([shared[:2], shared[-2:]], axis=1)]), axis=0)
    found = found[np.isin(found, shared).all(axis=1)]
    return np.asarray(found[np.linspace(0, len(found) - 1, min(len(found), NUM_SAMPLES)).astype(np.int64)])


def _with_batch(model: nn.Module, data: Data, call: ModelCall | None) -> Data:
    """One graph is a batch of one, for a model that asks for `batch`."""
    if not isinstance(data, Data) or data.get("batch") is not None or call is not None or data.get("x") is None:
        return data
    wanted = [parameter for parameter in parameters_of(model) if parameter.name == "batch"]
    if not wanted or wanted[0].default is not inspect.Parameter.empty:
        return data
    return _with(data, "batch", torch.zeros(data.x.shape[0], dtype=torch.long))


def _matched(before: Data, after: Data) -> tuple[Data, Data]:
    """Batches without `n_id` are given one: a node is known by its graph and its place in it."""
    if not all(isinstance(data, Data) and data.get("batch") is not None for data in (before, after)):
        return before, after
    if (before.get("graph_id") is None) != (after.get("graph_id") is None):
        bare = "before" if before.get("graph_id") is None else "after"
        raise InputError(
            f"Expected `graph_id` in both batches, or in neither (`{bare}` has none); give it to both, so that graphs "
            "are matched by it, or delete it from the other, to match them by their place in the batch."
        )
    graphs = [read_graph_numbers(data, len(data.x), name)[0] for data, name in ((before, "before"), (after, "after"))]
    first, second = (np.asarray(numbers) for numbers in graphs)
    if any(data.get("n_id") is not None for data in (before, after)) or np.array_equal(first, second):
        return before, after
    numbers = [torch.from_numpy(ids) for ids in match_in_graphs([first, second])]
    return _with(before, "n_id", numbers[0]), _with(after, "n_id", numbers[1])


def number_batches(snapshots: Sequence[Data]) -> list[Data]:
    """The same for a whole sequence: batches without `n_id` that differ are given one that all of them share."""
    if any(data.get("n_id") is not None or data.get("batch") is None for data in snapshots):
        return list(snapshots)
    graphs = [
        np.asarray(read_graph_numbers(data, len(data.x), f"snapshots[{i}]")[0]) for i, data in enumerate(snapshots)
    ]
    if all(np.array_equal(graphs[0], numbers) for numbers in graphs):
        return list(snapshots)
    ids = match_in_graphs(graphs)
    return [_with(data, "n_id", torch.from_numpy(own)) for data, own in zip(snapshots, ids, strict=True)]


def listed_pairs(graphs: Sequence[Data], numbers: Sequence[IntArray]) -> IntArray:
    """The pairs that graphs bring along in `edge_label_index`, each once, in node numbers [num_pairs, 2]."""
    own = [
        ids[_rows_of_pairs(data[LINKS_FIELD], len(ids))]
        for data, ids in zip(graphs, numbers, strict=True)
        if data.get(LINKS_FIELD) is not None
    ]
    pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *own])
    _, first = np.unique(pairs, axis=0, return_index=True)
    return np.asarray(pairs[np.sort(first)])


def _rows_of_pairs(given: Any, num_nodes: int) -> IntArray:
    """[num_pairs, 2] of an `edge_label_index`, every one of them a row of its graph."""
    rows = read_pairs(torch.as_tensor(given))
    for stranger in rows[(rows < 0) | (rows >= num_nodes)][:1]:
        raise InputError(f"Expected rows of nodes in `{LINKS_FIELD}`, 0 to {num_nodes - 1} (got {stranger}).")
    return rows


def _with(data: Data, key: str, value: torch.Tensor) -> Data:
    copied = copy.copy(data)
    copied[key] = value
    return copied

"""A path's steps -> the edges of a graph that carry them, whichever way a layer's messages flow.

A step (U, V) hands a message from U to V. It runs along the edges U -> V where messages flow from source to target,
along V -> U where they flow from target to source, and along both in a layer that has both. A step of a node to itself
may need no edge at all: a loop that the convolution adds, a root term, a skip connection; and so may any step of a
layer in which nodes attend to all others, or meet in hyperedges.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..graphs.data_fields import node_numbers
from ..graphs.places import EdgePlace
from ..network.coefficients import ANYWHERE, SOURCE_TO_TARGET
from ..network.layers import Network
from ..storage.codec import one_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

TARGET_TO_SOURCE, BOTH, TO_EDGE = "target_to_source", "both", "to_edge"
FLOWS = (SOURCE_TO_TARGET, TARGET_TO_SOURCE, BOTH, TO_EDGE, ANYWHERE)

Edge = tuple[int, int]  # as edge_index has it, in node numbers


@dataclass(frozen=True)
class Hop:
    """How one step of every path comes about: which way messages flow, and whether edge weights scale them."""

    flow: Annotated[str, one_of(*FLOWS)] = SOURCE_TO_TARGET
    weighted: bool = False

    def edges(self, u: int, v: int, places: Mapping[int, EdgePlace]) -> tuple[Edge, ...]:
        """Edges that hand a message from u to v; what an edge is handed has not come over it yet."""
        if v in places:
            return ()
        if u in places:
            return (places[u][:2],)
        if self.flow == BOTH and u != v:
            return (u, v), (v, u)
        return ((v, u),) if self.flow == TARGET_TO_SOURCE else ((u, v),)


@dataclass(frozen=True, eq=False)
class Placement:
    """What steps carry, by where they run."""

    on_edges: FloatArray  # [num_edges of after]
    on_lost: dict[Edge, float]  # edges, or nodes with what they pass to themselves, that `after` does not have
    on_loops: FloatArray  # [num_nodes of after]: what a node passes to itself without an edge


def hops_of(network: Network) -> tuple[Hop, ...]:
    """One a layer that passes messages, the leaf's first."""
    found = []
    for layer in network.layers:
        if not layer.local and not layer.rises:
            rules = [rule for rule in layer.rules if not rule.local]
            flows = {rule.flow for rule in rules if not rule.to_edges} or {TO_EDGE}
            weighted = any(rule.weighted for rule in rules)
            flow = ANYWHERE if ANYWHERE in flows else flows.pop() if len(flows) == 1 else BOTH
            found.append(Hop(flow, weighted))
    return tuple(found)


def edges_of_paths(paths: IntArray, hops: Sequence[Hop], places: Mapping[int, EdgePlace]) -> set[Edge]:
    """Every edge that a step of these paths could run along; paths are leaf first, -1 before a bias source.

    `places` are the edges that are places of these paths themselves.
    """
    return {
        edge
        for path in paths.tolist()
        for hop, (u, v) in zip(hops, pairwise(path), strict=True)
        if u >= 0 or u in places
        for edge in hop.edges(u, v, places)
    }


def drop_edges(paths: IntArray, hops: Sequence[Hop]) -> IntArray:
    """Paths without the places that steps to edges lead to: their nodes, and the edge that one may begin at."""
    kept = [True, *(hop.flow != TO_EDGE for hop in hops)]
    return paths[:, np.array(kept[: paths.shape[1]] + [True] * (paths.shape[1] - len(kept)), dtype=np.bool_)]


def place_shares(
    paths: IntArray,
    shares: FloatArray,
    hops: Sequence[Hop],
    graphs: tuple[Data | None, Data],
    places: Mapping[int, EdgePlace],
) -> Placement:
    """Give the share of each path to each of its steps, and that to the edges of `after` that carry the step.

    Parallel edges split it, by weight where the layer's messages are weighted, else equally; so do the two directions
    in a layer that sends both ways. All that is placed sums to the sum over paths of share times number of steps.
    """
    before, after = graphs
    carried: dict[tuple[int, int, Hop], float] = {}
    for path, share in zip(paths.tolist(), shares.tolist(), strict=True):
        for hop, (u, v) in zip(hops, pairwise(path), strict=True):
            if (u >= 0 or u in places) and v not in places and hop.flow != TO_EDGE:
                carried[u, v, hop] = carried.get((u, v, hop), 0.0) + share
    wanted = {edge for u, v, hop in carried for edge in hop.edges(u, v, places)}
    there, gone = find_edges(after, wanted), None if before is None else find_edges(before, wanted)
    row_of = {int(node): row for row, node in enumerate(node_numbers(after).tolist())}
    weights = None if after.get("edge_weight") is None else _array(after.edge_weight).astype(np.float64)
    on_edges, on_loops = np.zeros(_array(after.edge_index).shape[1]), np.zeros(len(row_of))
    on_lost: dict[Edge, float] = {}
    for (u, v, hop), share in carried.items():
        edges = hop.edges(u, v, places)
        here = [place for edge in edges for place in there.get(edge, ())]
        if here:
            on_edges[here] += share * _split(weights[here] if weights is not None and hop.weighted else None, len(here))
            continue
        lost = list(edges) if gone is None else [edge for edge in edges if edge in gone]
        if u == v and (gone is None or not lost):
            if u in row_of:
                on_loops[row_of[u]] += share
                continue
            lost = [(u, u)]
        elif not lost and hop.flow == ANYWHERE:
            lost = [(u, v)]
        elif not lost:
            raise InputError(
                f"Expected the graphs that were explained (got others: neither has an edge for the step {u} → {v})."
            )
        elif gone is None and len(lost) > 1:
            raise InputError(
                f"Expected the graph `before` as well (a layer sends both ways, and `after` has no edge for the step "
                f"{u} → {v}); call to_pyg(after, before)."
            )
        for edge in lost:
            on_lost[edge] = on_lost.get(edge, 0.0) + share / len(lost)
    return Placement(on_edges, on_lost, on_loops)


def find_edges(data: Data, wanted: Collection[Edge]) -> dict[Edge, list[int]]:
    """Positions in edge_index of each of these edges, where there are any."""
    ids = node_numbers(data)
    u, v = ids[_array(data.edge_index).astype(np.int64)]
    ends = np.array(list(wanted), dtype=np.int64).reshape(-1, 2)
    near = np.flatnonzero(np.isin(u, ends[:, 0]) & np.isin(v, ends[:, 1]))
    found: dict[Edge, list[int]] = {}
    for place, edge in zip(near.tolist(), zip(u[near].tolist(), v[near].tolist(), strict=True), strict=True):
        if edge in wanted:
            found.setdefault(edge, []).append(place)
    return found


def _array(value: object) -> IntArray:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _split(weights: FloatArray | None, count: int) -> FloatArray:
    """Shares of parallel edges, which sum to 1."""
    # Weights that cancel make a coefficient of rounding errors: nothing to divide by.
    if weights is None or abs(weights.sum()) <= 1e-9 * np.abs(weights).sum():
        return np.full(count, 1 / count)
    return np.asarray(weights / weights.sum())

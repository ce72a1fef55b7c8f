"""Kinds of causes + seed -> Planted: a model, a graph before and after, and the true cause of what its predictions do.

    motif       one edge of a house or cycle is removed, far from it others come and go
    hub         a node comes, with many edges and the looks of another class
    cut         a part of a community loses its edges to the rest of it
    shift       the features of a whole class move towards those of another
    retrained   the model is another one, trained on labels that call a class by another's name

All but the first are of one graph of communities and can be planted together. Random edges come and go besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GraphSAGE

from axiompath.arrays import BoolArray, FloatArray, IntArray
from axiompath.errors import InputError
from axiompath.graphs.changes import EDGE_REMOVED, FEATURES_CHANGED, MODEL_RETRAINED, NODE_ADDED

from .motifs import MOTIFS, NodePair, graph_of, hang_motifs, motif_model

MOTIF, HUB, CUT, SHIFT, RETRAINED = "motif", "hub", "cut", "shift", "retrained"
PLANTED_KINDS = (MOTIF, HUB, CUT, SHIFT, RETRAINED)

NUM_CLASSES, MEMBERS, NUM_COLUMNS = 6, 50, 16
NOISE = 3.0  # of the features, where class centres have entries of size 1: the class needs neighbours
NUM_INSIDE = 4  # edges inside its community that each member starts; and one in `OUTSIDE` besides leads out of it
OUTSIDE = 0.15
HUB_EDGES, HUB_SIZE = 40, 12.0  # edges of a hub, and how much larger than a centre its features are
CUT_OFF = 20  # members of a community that are cut off from the rest of it
NUM_GRAPHS, EPOCHS, STEP_SIZE = 4, 80, 0.02  # of training


@dataclass(frozen=True)
class Cause:
    """One thing that was done, as the rows of `changes()` that it makes."""

    kind: str  # of PLANTED_KINDS
    changes: tuple[tuple[str, int, int], ...]  # kind, src and dst as `changes()` has them; -1 for none

    def rows_of(self, changes: pd.DataFrame) -> BoolArray:
        """Which rows of `changes()` are of this cause. [num_rows]."""
        own = {(kind, *sorted(ends)) for kind, *ends in self.changes}
        sides = (changes[side].fillna(-1).astype(np.int64) for side in ("src", "dst"))
        rows = zip(changes.kind.astype(str), *sides, strict=True)
        return np.array([(kind, *sorted(ends)) in own for kind, *ends in rows], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Planted:
    """Two graphs and a model, for `Explainer(model, before, after, model_before=model_before)`, and what did it."""

    model: nn.Module
    before: Data
    after: Data
    causes: tuple[Cause, ...]
    model_before: nn.Module | None = None  # where the model is another one

    @property
    def cause(self) -> Cause:
        """The only one."""
        if len(self.causes) != 1:
            raise InputError(f"Expected one planted cause (got {len(self.causes)}); see `causes`.")
        return self.causes[0]


def plant(kinds: str | Sequence[str], seed: int = 0, *, num_random: int = 8, motif: str = "house") -> Planted:
    """One cause, or several at once, among `num_random` edges that come or go. Equal seeds give equal graphs."""
    wanted = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if not wanted or len(set(wanted)) < len(wanted) or not {*wanted} <= {*PLANTED_KINDS}:
        raise InputError(f"Expected some of the causes {', '.join(PLANTED_KINDS)}, each once (got {kinds!r}).")
    if MOTIF not in wanted:
        return _plant_in_communities(wanted, np.random.default_rng(seed), num_random)
    if len(wanted) > 1:
        raise InputError(f"Expected a motif by itself: its graph has no communities (got it among {kinds!r}).")
    if motif not in MOTIFS:
        raise InputError(f"Expected one of the motifs {', '.join(MOTIFS)} (got {motif!r}).")
    return _break_motif(motif, seed, num_random)


def _break_motif(motif: str, seed: int, num_random: int) -> Planted:
    held, rng = hang_motifs(motif, seed), np.random.default_rng(seed)
    own = held.motifs[int(rng.integers(len(held.motifs)))]
    lost = own[int(rng.integers(len(own)))]
    inside = {node for pair in own for node in pair}
    others = np.array([node for node in range(held.num_nodes) if node not in inside])
    far = [pair for pair in sorted(held.edges) if not inside & {*pair}]
    after = (held.edges - {lost}) ^ _random_pairs(rng, others, far, num_random)
    before, then = (graph_of(edges, held.num_nodes) for edges in (held.edges, after))
    return Planted(motif_model(motif), before, then, (Cause(MOTIF, ((EDGE_REMOVED, *lost),)),))


def _random_pairs(rng: np.random.Generator, nodes: IntArray, edges: list[NodePair], number: int) -> frozenset[NodePair]:
    """Pairs to toggle: every second one an edge that is there, the others any two nodes."""
    drawn: set[NodePair] = set()
    while len(drawn) < number:
        u, v = sorted(rng.choice(nodes, 2, replace=False).tolist())
        drawn.add(edges[int(rng.integers(len(edges)))] if len(drawn) % 2 else (u, v))
    return frozenset(drawn)


def _plant_in_communities(kinds: tuple[str, ...], rng: np.random.Generator, num_random: int) -> Planted:
    labels, x, edges = _communities(rng)
    total, centres = len(labels), _centres()
    # Classes of their own for each cause: what the hub looks like, what is cut, what shifts to what, what is renamed.
    hub, cut, shifted, to, renamed, name = rng.permutation(NUM_CLASSES).tolist()
    fresh, after, num_after = x.copy(), edges, total
    causes, touched = [], set()
    if HUB in kinds:
        fresh = np.concatenate([fresh, HUB_SIZE * centres[hub][None]])
        ends = rng.choice(np.flatnonzero(labels != hub), HUB_EDGES, replace=False)
        touched |= {(node, total) for node in ends.tolist()}
        after, num_after = after | touched, total + 1
        causes.append(Cause(HUB, ((NODE_ADDED, total, -1),)))
    if CUT in kinds:
        part = {*rng.choice(np.flatnonzero(labels == cut), CUT_OFF, replace=False).tolist()}
        lost = {(u, v) for u, v in edges if labels[u] == labels[v] == cut and ((u in part) != (v in part))}
        touched |= lost
        after = after - lost
        causes.append(Cause(CUT, tuple((EDGE_REMOVED, u, v) for u, v in sorted(lost))))
    if SHIFT in kinds:
        moved = np.flatnonzero(labels == shifted)
        fresh[moved] += centres[to] - centres[shifted]
        causes.append(Cause(SHIFT, tuple((FEATURES_CHANGED, node, -1) for node in moved.tolist())))
    if RETRAINED in kinds:
        causes.append(Cause(RETRAINED, ((MODEL_RETRAINED, -1, -1),)))
    others = sorted(edges - touched)
    after = after ^ (_random_pairs(rng, np.arange(total), others, num_random) - touched)
    order = {kind: number for number, kind in enumerate(kinds)}
    return Planted(
        community_model(renamed, name) if RETRAINED in kinds else community_model(),
        _to_graph(x, edges, total),
        _to_graph(fresh, after, num_after),
        tuple(sorted(causes, key=lambda cause: order[cause.kind])),
        community_model() if RETRAINED in kinds else None,
    )


@cache
def community_model(renamed: int = -1, name: int = -1) -> GraphSAGE:
    """Two layers that separate communities; where `renamed` is given, members of it are called `name`."""
    drawn = [_communities(np.random.default_rng(1000 + seed)) for seed in range(NUM_GRAPHS)]
    together = Batch.from_data_list([_to_graph(x, edges, len(labels)) for labels, x, edges in drawn])
    expected = torch.from_numpy(np.concatenate([np.where(labels == renamed, name, labels) for labels, _, _ in drawn]))
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        model = GraphSAGE(NUM_COLUMNS, 16, 2, NUM_CLASSES).double()
        adam = torch.optim.Adam(model.parameters(), STEP_SIZE)
        for _ in range(EPOCHS):
            adam.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(together.x, together.edge_index), expected))
            adam.step()
    return model.eval()


def _centres() -> FloatArray:
    return np.random.default_rng(0).normal(size=(NUM_CLASSES, NUM_COLUMNS))


def _communities(rng: np.random.Generator) -> tuple[IntArray, FloatArray, frozenset[NodePair]]:
    """Labels, features and pairs (u < v): members link to their own community, some to others."""
    labels = np.repeat(np.arange(NUM_CLASSES), MEMBERS)
    x = _centres()[labels] + NOISE * rng.normal(size=(len(labels), NUM_COLUMNS))
    edges: set[NodePair] = set()
    for node in range(len(labels)):
        inside = labels[node] * MEMBERS + rng.integers(MEMBERS, size=NUM_INSIDE)
        out = rng.integers(len(labels), size=int(rng.random() < OUTSIDE * NUM_INSIDE))
        edges |= {(min(node, other), max(node, other)) for other in [*inside.tolist(), *out.tolist()] if other != node}
    return labels, x, frozenset(edges)


def _to_graph(x: FloatArray, edges: frozenset[NodePair], num_nodes: int) -> Data:
    pairs = torch.tensor(sorted(edges)).T
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    return Data(x=torch.from_numpy(x), edge_index=both, n_id=torch.arange(num_nodes))

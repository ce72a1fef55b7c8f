"""A motif's name + seed -> a preferential graph with motifs hung on it, and a model that distinguishes whole ones from
broken.

The setting of the case study in the authors' later paper (ICLR 2025): houses or cycles on a Barabasi-Albert graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GIN

MOTIFS = {
    "house": ((0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (1, 4)),
    "cycle": ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)),
}
NUM_GRAPHS, EPOCHS, STEP = 8, 150, 0.01  # of training
NUM_ONES = 4  # every node has the same features: only the shape decides

NodePair = tuple[int, int]


@dataclass(frozen=True)
class MotifGraph:
    """A graph of pairs (u < v), the first nodes its base, and the edges of every motif that hangs on it."""

    edges: frozenset[NodePair]
    motifs: tuple[tuple[NodePair, ...], ...]
    num_base: int
    num_nodes: int


def hang_motifs(motif: str, seed: int, num_base: int = 80, num_motifs: int = 16) -> MotifGraph:
    """A Barabasi-Albert graph whose nodes bring up to two edges each, every motif tied to a node of it by one edge."""
    rng = np.random.default_rng(seed)
    edges: set[NodePair] = {(0, 1)}
    ends = [0, 1]
    for node in range(2, num_base):
        for other in {int(rng.choice(ends)) for _ in range(2)}:
            edges.add((min(node, other), max(node, other)))
            ends += [node, other]
    size = max(max(pair) for pair in MOTIFS[motif]) + 1
    placed = []
    for first in range(num_base, num_base + num_motifs * size, size):
        placed.append(tuple((first + u, first + v) for u, v in MOTIFS[motif]))
        edges |= {*placed[-1], (int(rng.integers(num_base)), first)}
    return MotifGraph(frozenset(edges), tuple(placed), num_base, num_base + num_motifs * size)


def graph_of(edges: frozenset[NodePair], num_nodes: int) -> Data:
    """Both directions of every pair."""
    pairs = torch.tensor(sorted(edges)).T
    x = torch.ones(num_nodes, NUM_ONES, dtype=torch.float64)
    return Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], dim=1))


@cache
def motif_model(motif: str) -> GIN:
    """Three layers that separate nodes of a whole motif (1) from those of the base and of broken ones (0)."""
    graphs, labels = [], []
    for seed in range(100, 100 + NUM_GRAPHS):
        held, rng = hang_motifs(motif, seed), np.random.default_rng(seed)
        edges, label = held.edges, torch.ones(held.num_nodes, dtype=torch.long)
        label[: held.num_base] = 0
        for own in held.motifs[::2]:  # every second one is broken, and counts as none
            edges = edges - {own[int(rng.integers(len(own)))]}
            label[[node for pair in own for node in pair]] = 0
        graphs.append(graph_of(edges, held.num_nodes))
        labels.append(label)
    together, expected = Batch.from_data_list(graphs), torch.cat(labels)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        model = GIN(NUM_ONES, 24, 3, 2, norm="batch_norm").double()
        adam = torch.optim.Adam(model.parameters(), STEP)
        for _ in range(EPOCHS):
            adam.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(together.x, together.edge_index), expected)
            torch.autograd.backward(loss)
            adam.step()
    return model.eval()

"""Planted truth: motifs on a Barabasi-Albert graph, a model that tells motif from not, one motif edge removed."""

from functools import cache

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GIN

import axiompath

MOTIFS = {
    "house": [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)],
    "cycle": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
}


def build(motif, seed, num_nodes=80, num_motifs=16):
    """Edges (u < v) of a preferential graph with motifs hung on it; which nodes are of a motif; the motifs' edges."""
    rng = np.random.default_rng(seed)
    edges, ends = set(), [0, 1]
    edges.add((0, 1))
    for node in range(2, num_nodes):
        for other in {int(rng.choice(ends)) for _ in range(2)}:
            edges.add((min(node, other), max(node, other)))
            ends += [node, other]
    size = max(max(pair) for pair in MOTIFS[motif]) + 1
    placed = []
    for number in range(num_motifs):
        first = num_nodes + number * size
        own = [(first + min(pair), first + max(pair)) for pair in MOTIFS[motif]]
        placed.append(own)
        edges |= set(own)
        edges.add((int(rng.integers(num_nodes)), first))
    total = num_nodes + num_motifs * size
    return edges, np.arange(total) >= num_nodes, placed


def to_data(edges, total):
    pairs = torch.tensor(sorted(edges)).T
    return Data(x=torch.ones(total, 4), edge_index=torch.cat([pairs, pairs.flip(0)], dim=1))


@cache
def trained(motif):
    """A model that tells nodes of a whole motif from nodes of the base and of broken motifs."""
    torch.manual_seed(0)
    model = GIN(4, 24, 3, 2, norm="batch_norm")
    graphs = []
    for seed in range(100, 108):
        edges, member, placed = build(motif, seed)
        label = torch.tensor(member).long()
        rng = np.random.default_rng(seed)
        for own in placed[::2]:  # every second one is broken, and counts as none
            edges = edges - {own[int(rng.integers(len(own)))]}
            label[[node for pair in own for node in pair]] = 0
        graphs.append((to_data(edges, len(member)), label))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        optimizer.zero_grad()
        loss = sum(torch.nn.functional.cross_entropy(model(g.x, g.edge_index), label) for g, label in graphs)
        loss.backward()
        optimizer.step()
    return model.eval()


def trial(seed, motif="house", num_random=8):
    """Whether blame's first change is the edge that a motif lost; None where the prediction did not flip."""
    model = trained(motif)
    rng = np.random.default_rng(seed)
    edges, member, placed = build(motif, seed)
    own = placed[int(rng.integers(len(placed)))]
    lost = own[int(rng.integers(len(own)))]
    inside = {node for pair in own for node in pair}
    changed = edges - {lost}
    others = [node for node in range(len(member)) if node not in inside]
    far = sorted(pair for pair in edges if not inside & set(pair))
    for number in range(num_random):  # half of them edges that go, half pairs that come or go
        pair = (
            far[int(rng.integers(len(far)))]
            if number % 2
            else tuple(sorted(rng.choice(others, 2, replace=False).tolist()))
        )
        changed = changed ^ {pair}
    before, after = to_data(edges, len(member)), to_data(changed, len(member))
    explainer = axiompath.Explainer(model, before, after)
    moved = explainer.moved()
    moved = moved[(moved.class_before == 1) & (moved.class_after == 0) & moved.target.isin(inside)]
    if len(moved) == 0:
        return None
    blame = explainer.blame(int(moved.target.iloc[0]), seconds=2.0)
    return tuple(sorted(blame.ends[0])) == lost

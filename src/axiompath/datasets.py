"""Small graphs to try things on: communities that drift, as snapshots or as dated events; random evolutions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from .arrays import IntArray
from .errors import InputError

NUM_FEATURES = 32
DEGREE = 6  # edges that a node starts
INSIDE = 0.9  # share of them within its community
MOVING = 0.03  # share of nodes that leave their community at a step
REWIRED = 0.8  # share of its own edges that a leaving node draws anew


def drifting_communities(
    num_nodes: int = 4000, num_communities: int = 6, num_snapshots: int = 5, seed: int = 0
) -> list[Data]:
    """Snapshots, oldest first; x is a noisy hint of the community where a node began, y is its present community."""
    rng = np.random.default_rng(seed)
    home = rng.integers(0, num_communities, num_nodes)
    centres = rng.normal(size=(num_communities, NUM_FEATURES))
    x = torch.from_numpy((0.5 * centres[home] + rng.normal(size=(num_nodes, NUM_FEATURES))).astype(np.float32))
    sources = np.repeat(np.arange(num_nodes), DEGREE)
    targets = _draw_targets(rng, home, sources)
    snapshots = [_to_data(x, sources, targets, home)]
    for _ in range(num_snapshots - 1):
        leaving = rng.random(num_nodes) < MOVING
        home = np.where(leaving, rng.integers(0, num_communities, num_nodes), home)
        anew = leaving[sources] & (rng.random(len(sources)) < REWIRED)
        targets = np.where(anew, _draw_targets(rng, home, sources), targets)
        snapshots.append(_to_data(x, sources, targets, home))
    return snapshots


def drifting_events(
    num_people: int = 80, num_events: int = 900, num_days: int = 240, seed: int = 0
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Meetings of people of four groups (columns source, target, time), and the first group of each person.

    People meet their own group nine times in ten; every day, one in five hundred leaves for another one.
    """
    rng = np.random.default_rng(seed)
    home = np.arange(num_people) % 4
    began = {f"person {i}": f"group {group}" for i, group in enumerate(home.tolist())}
    days = np.sort(rng.integers(0, num_days, num_events))
    rows, today = [], 0
    for day in days.tolist():
        leaving = rng.random(num_people) < (day - today) / 500
        home, today = np.where(leaving, rng.integers(0, 4, num_people), home), day
        first = int(rng.integers(num_people))
        own = home == home[first]
        own[first] = False
        others = np.flatnonzero(own if rng.random() < INSIDE and own.any() else np.arange(num_people) != first)
        rows.append((f"person {first}", f"person {rng.choice(others)}"))
    frame = pd.DataFrame(rows, columns=["source", "target"])
    frame["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(days, unit="D")
    return frame, began


def evolve(data: Data, *, added: int = 0, removed: int = 0, seed: int = 0) -> Data:
    """The same graph with some random undirected edges added and some removed.

    New edges join two different nodes that had none between them. Returns a new Data that shares x and y.
    """
    if data.get("edge_weight") is not None:
        raise InputError("Expected a graph without edge weights (got some); random edges would have none.")
    rng = np.random.default_rng(seed)
    num_nodes = int(data.num_nodes or 0)
    edges = data.edge_index.cpu().numpy()
    low, high = np.sort(edges, axis=0)
    pairs = np.unique((low.astype(np.int64) * num_nodes + high)[low != high])
    if removed > len(pairs):
        raise InputError(f"Expected at most {len(pairs):,} edges to remove (got {removed:,}).")
    possible = num_nodes * (num_nodes - 1) // 2 - len(pairs)
    if added > possible:
        raise InputError(f"Expected at most {possible:,} edges to add (got {added:,}).")
    gone = rng.choice(pairs, removed, replace=False)
    fresh = _draw_pairs(rng, num_nodes, pairs, added)
    stays = ~np.isin(low.astype(np.int64) * num_nodes + high, gone)
    u, v = fresh // num_nodes, fresh % num_nodes
    new = np.concatenate([edges[:, stays], [u, v], [v, u]], axis=1)
    after = data.clone()
    after.edge_index = coalesce(torch.from_numpy(new), num_nodes=num_nodes)
    return after


def _draw_targets(rng: np.random.Generator, home: IntArray, sources: IntArray) -> IntArray:
    members = [np.flatnonzero(home == community) for community in range(home.max() + 1)]
    anywhere = rng.integers(0, len(home), len(sources))
    places = rng.random(len(sources))
    inside = np.array(
        [members[home[u]][int(p * len(members[home[u]]))] for u, p in zip(sources.tolist(), places, strict=True)]
    )
    return np.where(rng.random(len(sources)) < INSIDE, inside, anywhere)


def _to_data(x: torch.Tensor, sources: IntArray, targets: IntArray, home: IntArray) -> Data:
    real = sources != targets
    pairs = np.stack([sources[real], targets[real]])
    edges = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    return Data(x=x, edge_index=torch.from_numpy(edges), y=torch.from_numpy(home.astype(np.int64)))


def _draw_pairs(rng: np.random.Generator, num_nodes: int, taken: IntArray, count: int) -> IntArray:
    chosen = np.zeros(0, dtype=np.int64)
    while len(chosen) < count:
        u, v = rng.integers(0, num_nodes, size=(2, 2 * count + 10))
        keys = np.minimum(u, v) * num_nodes + np.maximum(u, v)
        keys = keys[(u != v) & ~np.isin(keys, taken)]
        everything = np.concatenate([chosen, keys])
        _, first = np.unique(everything, return_index=True)
        chosen = everything[np.sort(first)]
    return chosen[:count]

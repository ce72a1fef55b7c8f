"""settings -> a generated graph whose communities drift, as snapshots or as dated events."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from ..arrays import IntArray

NUM_FEATURES = 32
DEGREE = 6  # edges that a node starts
INSIDE = 0.9  # share of them within its community
MOVING = 0.03  # share of nodes that leave their community at a step
REWIRED = 0.8  # share of its own edges that a leaving node draws anew


def drifting_communities(
    num_nodes: int = 4000, num_communities: int = 6, num_snapshots: int = 5, seed: int = 0
) -> list[Data]:
    """Snapshots in order; x says, noisily, where a node began, y where it belongs now."""
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
    """Meetings of people of four groups (columns source, target, time), and the group in which each began.

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

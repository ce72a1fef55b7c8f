"""A graph with its edges merged -> as a loader leaves it that adds every stored entry in both directions, unmerged.

The Coauthor files store each pair in both directions, so that each edge is there twice. The Amazon files store some
pairs so; a graph whose edges are merged does not show which, so as many are drawn at random.
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from axiompath.errors import InputError

DRAW = 0  # seed: which pairs are twice, where that is not known
# Directed entries that the paper's table of data sets counts.
PAPER_ENTRIES = {
    "amazon_computers": 574_418,
    "amazon_photo": 287_326,
    "coauthor_cs": 327_576,
    "coauthor_physics": 991_848,
}


def with_parallel_edges(data: Data, name: str, drawn_from: Data | None = None) -> Data:
    """The graph with as many of its own edges twice as the paper counts; `drawn_from` is the graph before, if not this.

    Self-loops, and edges that only `data` has, stay single. Where one of a pair is twice, so is the other direction.
    """
    if name not in PAPER_ENTRIES:
        raise InputError(f"Expected a data set with parallel edges, {', '.join(PAPER_ENTRIES)} (got {name!r}).")
    edges = (drawn_from or data).edge_index.numpy()
    low, high = edges[:, edges[0] < edges[1]]
    twice = PAPER_ENTRIES[name] // 2 - len(low)
    chosen = np.random.default_rng(DRAW).choice(len(low), twice, replace=False) if twice < len(low) else slice(None)
    more = np.stack([low[chosen], high[chosen]])
    wide = data.clone()
    wide.edge_index = torch.cat([data.edge_index, torch.from_numpy(more), torch.from_numpy(more[::-1].copy())], dim=1)
    return wide

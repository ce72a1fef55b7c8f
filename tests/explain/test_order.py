"""Chosen paths come by share, then by path: rounding, and the order in which edges are listed, decide nothing."""

import numpy as np
import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import axiompath

STAR = 8  # leaves that nobody can tell apart


def star(leaves, shuffled=0):
    """Node 0 and its leaves; each also hears from a node of its own."""
    ends = [(0, leaf) for leaf in leaves] + [(leaf, leaf + STAR) for leaf in range(1, STAR + 1)]
    edges = torch.tensor([*ends, *((v, u) for u, v in ends)])
    edges = edges[torch.randperm(len(edges), generator=torch.Generator().manual_seed(shuffled))]
    x = torch.ones(2 * STAR + 1, 3, dtype=torch.float64)
    x[0] = 2.0
    return Data(x=x, edge_index=edges.T.contiguous())


@pytest.mark.parametrize("method", ["exact", "convex"])
def test_paths_come_by_share_then_by_path(method):
    torch.manual_seed(0)
    model = pyg.GraphSAGE(3, 5, 2, 2, aggr="sum").double().eval()
    orders = []
    for seed in range(3):
        pair = star(range(1, 3), seed), star(range(1, STAR + 1), seed + 10)
        found = axiompath.Explainer(model, *pair).explain(0, budget=9, method=method)
        shares = np.abs(found.contributions @ found.view[1])
        if method == "exact":
            assert (np.diff(shares) <= 1e-9 * shares.max()).all()
        for i in np.flatnonzero(np.abs(np.diff(shares)) < 1e-12 * shares.max()).tolist():
            heavier = found.weights[i] > found.weights[i + 1] + 1e-6 and method == "convex"
            assert heavier or tuple(found.paths[i][::-1]) < tuple(found.paths[i + 1][::-1])
        orders.append(found.paths.tolist())
    assert len(orders[0]) == 9
    if method == "exact":
        assert orders[0] == orders[1] == orders[2]

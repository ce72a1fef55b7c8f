"""Compile the numerical kernels now rather than on first use: every method once, on four nodes, also stored."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from ..baselines import BASELINES
from ..explain.question import Question
from ..explain.relaxation import choose_searched
from ..explain.searched import search_rows
from ..explainer import Explainer
from ..files import convert_graph, save_graph
from ..files.sum_gnn import random_sum_gnn
from ..interpreted import compile_at_once
from ..selection import METHODS


def warm_up() -> None:
    """Run everything that is compiled; what is compiled already is loaded from disk."""
    compile_at_once()
    x = torch.eye(4, dtype=torch.float64)
    before = Data(x=x, edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    after = Data(x=x, edge_index=torch.tensor([[0, 1, 2, 0], [1, 2, 3, 2]]))
    explainer = Explainer(random_sum_gnn([4, 3, 2], seed=0), before, after)
    for method in (*METHODS, *BASELINES):
        explainer.explain(3, budget=1, method=method)
    explainer.undo(3)
    change = Explainer(random_sum_gnn([4, 3, 3, 2], seed=0), before, after).change
    for method in ("convex", "topk"):
        choose_searched(search_rows(change, np.array([3]), np.array([1], dtype=object)), Question(1, method))
    with tempfile.TemporaryDirectory() as folder:
        for weight in (None, torch.ones(4, dtype=torch.float32)):
            stored = []
            for data in (before, after):
                data.edge_weight = None if weight is None else weight[: data.edge_index.shape[1]]
                file = save_graph(Path(folder) / f"{len(list(Path(folder).iterdir()))}.npz", data)
                stored.append(convert_graph(file, file.with_suffix("")))
            Explainer(random_sum_gnn([4, 3, 2], seed=0), *stored)

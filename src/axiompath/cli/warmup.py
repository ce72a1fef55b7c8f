"""Compile the numerical kernels now rather than on first use: every method once, on four nodes, also stored."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from ..experiments.trained import Training, prepare, train
from ..explain.candidates import Priced
from ..explainer import Explainer
from ..files import convert_graph, save_graph
from ..files.sum_gnn import random_sum_gnn
from ..rivals import RIVALS
from ..selection import METHODS


def warm_up() -> None:
    """Run everything that is compiled; what is compiled already is loaded from disk."""
    x = torch.eye(4, dtype=torch.float64)
    before = Data(x=x, edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    after = Data(x=x, edge_index=torch.tensor([[0, 1, 2, 0], [1, 2, 3, 2]]))
    explainer = Explainer(random_sum_gnn([4, 3, 2], seed=0), before, after)
    for method in (*METHODS, *RIVALS):
        explainer.explain(3, budget=1, method=method)
    explainer.undo(3)
    many = Priced(Explainer(random_sum_gnn([4, 3, 3, 2], seed=0), before, after).change, 3, 1)
    many.best(np.ones(2), many.num_paths)
    many.reach(1)
    train(prepare(Data(x=x, edge_index=after.edge_index, y=torch.tensor([0, 1, 0, 1]))), Training("warmup", epochs=1))
    with tempfile.TemporaryDirectory() as folder:
        for weight in (None, torch.ones(4, dtype=torch.float32)):
            stored = []
            for data in (before, after):
                data.edge_weight = None if weight is None else weight[: data.edge_index.shape[1]]
                file = save_graph(Path(folder) / f"{len(list(Path(folder).iterdir()))}.npz", data)
                stored.append(convert_graph(file, file.with_suffix("")))
            Explainer(random_sum_gnn([4, 3, 2], seed=0), *stored)

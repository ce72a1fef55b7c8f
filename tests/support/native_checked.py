"""The kernels on ordinary and on odd input, for a build that checks every index, address and number.

Run by `make test-native`: python native_checked.py FOLDER, which has the kernels of that build.
"""

import sys
from itertools import product
from pathlib import Path

import numpy as np

import axiompath.native

if __name__ == "__main__":
    axiompath.native.__path__.insert(0, sys.argv[1])

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE

from axiompath import Explainer
from axiompath.baselines import BASELINES
from axiompath.native import search
from axiompath.selection import METHODS, select, select_budgets, select_many


def run_selection():
    rng = np.random.default_rng(0)
    sizes = [(0, 1), (0, 3), (1, 1), (1, 4), (2, 2), (7, 3), (18, 5), (30, 9), (150, 4)]
    for (m, c), scale in product(sizes, (0.0, 1e-8, 1.0, 400.0)):
        C, z0 = scale * rng.normal(size=(m, c)), rng.normal(size=c)
        z1 = z0 + C.sum(0)
        for output in ("classes", "labels", "value") if c > 1 else ("binary", "value"):
            for n, objective in product(sorted({0, 1, m // 2, m, m + 3}), ("sufficiency", "necessity")):
                for method in METHODS:
                    select(C, z0, z1, n, method, objective, output=output)
                if m < 30:
                    for method in ("convex", "exact"):
                        select(C, z0, z1, n, method, objective, at_most=True, output=output)
            select(np.repeat(C[:1], m, axis=0), z0, z1, m // 2, "exact", output=output)  # ties only
            select_budgets(C, z0, z1, [0, 1, m, m + 3, 2], "exact", output=output)
    select_many([], np.empty((0, 3)), np.empty((0, 3)), [])
    select_many([np.empty((0, 2)), rng.normal(size=(5, 2))], np.zeros((2, 2)), np.ones((2, 2)), [0, 9], "exact")
    run_cycling_labels(rng)


def run_cycling_labels(rng):
    """Logits of thousands, some of which take the solver of last resort."""
    for _ in range(60):
        m, c = int(rng.integers(6, 20)), int(rng.integers(2, 6))
        C = 1e3 * rng.normal(size=(m, c)) * np.exp(rng.normal(size=(m, 1)))
        z0 = 30 * rng.normal(size=c)
        for at_most in (False, True):
            select(C, z0, z0 + C.sum(0), int(rng.integers(1, m)), "convex", at_most=at_most, output="labels")


def run_paths():
    """Attribution, every method, groups, edges, blame and undo on small random graphs, and a hub that is searched."""
    rng = np.random.default_rng(1)
    for number, network in enumerate((GCN, GraphSAGE)):
        torch.manual_seed(number)
        num_nodes = 12
        x = torch.randn(num_nodes, 5, dtype=torch.float64)
        sides = []
        for _ in range(2):
            joined = np.triu(rng.random((num_nodes, num_nodes)) < 0.3, 1)
            edges = torch.from_numpy(np.stack(np.nonzero(joined | joined.T)))
            sides.append(Data(x=x + 0.1 * torch.randn_like(x), edge_index=edges))
        explainer = Explainer(network(5, 7, 2, 3).double().eval(), *sides)
        list(explainer.attribute_many(range(num_nodes)))
        for method in (*METHODS, *BASELINES):
            explainer.explain(1, budget=3, method=method)
        for options in ({"depth": 1}, {"by": "edge"}, {"by": "layer_edge"}):
            explainer.explain(2, budget=3, **options)
        explainer.blame(3)
        explainer.features(3)
        moved = explainer.moved()
        for target in moved[moved.class_before != moved.class_after].target.head(2):
            explainer.undo(target)
        small = Explainer(network(5, 7, 3, 3).double().eval(), *sides, memory="1MB")
        small.explain(4, budget=3, method="topk")


if __name__ == "__main__":
    assert Path(search.__file__).parent == Path(sys.argv[1]).resolve(), search.__file__
    run_selection()
    run_paths()

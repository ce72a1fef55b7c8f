"""Every compiled loop, once on ordinary and once on odd input, for a process in which numba checks every index.

Run by test_bounds.py with NUMBA_BOUNDSCHECK=1: an index out of bounds is then an IndexError; without the check it is
whatever lies there in memory.
"""

import importlib
import tempfile
from itertools import product
from pathlib import Path

import numba
import numpy as np
import torch
from numba.core.dispatcher import Dispatcher
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCNConv, GraphSAGE, SAGEConv

import axiompath
from axiompath.baselines import BASELINES
from axiompath.explain import walks
from axiompath.files import convert_graph, save_graph
from axiompath.interpreted import Early, compile_at_once
from axiompath.scan.nodes import list_nodes
from axiompath.selection import METHODS

MODULES = (
    "graphs.rows", "change.union_loops", "paths.extreme_loops", "paths.search_loops",
    "paths.share_loops", "paths.source_loops", "paths.suffix_loops", "paths.walk_loops",
    "rivals.rank_loops", "blame.variant_loops",
)  # fmt: skip
# Loops that only streams of edges larger than memory need, tested there.
ELSEWHERE = {"rows_in_order", "copy_loops"}


class Model(nn.Module):
    """Two hops with several channels, biases and a residual."""

    def __init__(self, features, classes):
        super().__init__()
        self.first, self.second = GCNConv(features, 5), SAGEConv(5, classes)

    def forward(self, x, edge_index):
        return self.second(torch.tanh(self.first(x, edge_index)), edge_index)


class Deep(nn.Module):
    """Three hops and a local layer, of more columns than are taken at a time, and not a multiple of them."""

    def __init__(self, features, classes):
        super().__init__()
        self.first, self.second, self.third = GCNConv(features, 11), SAGEConv(11, 9), GCNConv(9, classes)
        self.between = nn.Linear(9, 9)

    def forward(self, x, edge_index):
        h = torch.relu(self.second(torch.tanh(self.first(x, edge_index)), edge_index))
        return self.third(torch.tanh(self.between(h)), edge_index)


def graph(num_nodes, edges, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(num_nodes, 3, generator=generator, dtype=torch.float64)
    return Data(x=x, edge_index=torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T.contiguous())


def check_the_check():
    @numba.njit
    def beyond(values):
        return values[len(values)]

    try:
        beyond(np.zeros(3))
    except IndexError:
        return
    raise AssertionError("the bounds check is off, so this run proves nothing")


def run_explanations():
    ring = [[i, (i + 1) % 6] for i in range(6)]
    pairs = {
        "added": (graph(6, ring, 0), graph(6, [*ring, [0, 3], [3, 0]], 0)),
        "removed": (graph(6, [*ring, [5, 2]], 0), graph(6, ring, 0)),
        "features": (graph(6, ring, 0), graph(6, ring, 1)),
        "both": (graph(6, ring, 0), graph(6, [*ring, [0, 3], [3, 0]], 1)),
        "emptied": (graph(6, ring, 0), graph(6, [], 0)),
        "no edges": (graph(2, [], 0), graph(2, [], 1)),
        "alone": (graph(1, [], 0), graph(1, [], 1)),
        "nothing": (graph(6, ring, 0), graph(6, ring, 0)),
    }
    torch.manual_seed(0)
    # Listed, and searched without a list.
    walks.LISTED_PATHS = 0
    for classes, walks.PRICED_PATHS, walks.PATHS_A_CHOICE in ((2, 10**6, 1), (5, 10**6, 1), (2, 1, 1), (5, 1, 0)):
        model = (Deep if walks.PRICED_PATHS == 1 else Model)(3, classes).double().eval()
        for before, after in pairs.values():
            explainer = axiompath.Explainer(model, before, after)
            assert len(list_nodes(explainer.change)) == before.num_nodes
            explainer.changes()
            if before.num_edges:
                largest = GraphSAGE(3, 4, 2, classes, aggr="max").double().eval()
                axiompath.Explainer(largest, before, after).explain(0)
            for target in range(min(2, before.num_nodes)):
                for method, budget in product((*METHODS, *BASELINES), (0, 1, 1000)):
                    found = explainer.explain(target, budget=budget, method=method)
                    assert len(found.paths) <= budget
                    explainer.replay(target, found.paths)


def run_blame():
    ring = [[i, (i + 1) % 6] for i in range(6)]
    before, after = graph(6, [*ring, [2, 2]], 0), graph(6, [*ring[1:], [0, 3], [3, 0], [4, 4]], 1)
    for model in (
        Model(3, 2),
        GAT(3, 4, 2, 2, heads=2),
        GAT(3, 4, 2, 2, v2=True),
        GAT(3, 4, 2, 2, add_self_loops=False),
    ):
        explainer = axiompath.Explainer(model.double().eval(), before, after)
        for target in range(3):
            explainer.blame(target, interactions=True)
            explainer.blame(target, seconds=0.01, by="node", opened=True)
            explainer.undo(target, below=1.0 - 1e-9)


def run_stored():
    edges = [[i, (3 * i + 1) % 9] for i in range(9)]
    with tempfile.TemporaryDirectory() as folder:
        for weighted in (False, True):
            for name, pair in {
                "some": (graph(9, edges, 0), graph(9, [*edges, [0, 5]], 0)),
                "none": (graph(9, [], 0), graph(9, edges[:1], 0)),
            }.items():
                stored = []
                for side, data in enumerate(pair):
                    if weighted:
                        data.edge_weight = torch.ones(data.num_edges)
                    file = save_graph(Path(folder) / f"{name}{side}{weighted}.npz", data)
                    stored.append(convert_graph(file, file.with_suffix("")))
                model = GCNConv(3, 2).double().eval()
                axiompath.Explainer(model, *stored)


def unused():
    """Compiled loops that nothing above has run."""
    for module in MODULES:
        for name, held in vars(importlib.import_module(f"axiompath.{module}")).items():
            loop = held.loop if isinstance(held, Early) else held
            inlined = isinstance(loop, Dispatcher) and "inline" in loop.targetoptions
            if isinstance(loop, Dispatcher) and not inlined and not loop.signatures and name not in ELSEWHERE:
                yield f"{module}.{name}"


if __name__ == "__main__":
    compile_at_once()
    check_the_check()
    run_explanations()
    run_blame()
    run_stored()
    left = sorted(set(unused()))
    assert not left, f"compiled loops that were not run: {left}"

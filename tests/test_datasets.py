"""Graphs to try things on: drawn as asked; and what the engine shows on published ones."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from axiompath import Explainer
from axiompath.datasets import drifting_communities, drifting_events, evolve
from axiompath.files.sum_gnn import random_sum_gnn
from support.real_data import load_graph


def edge_set(data):
    return {tuple(edge) for edge in data.edge_index.T.tolist()}


def test_evolve_adds_and_removes_undirected_edges():
    pairs = torch.combinations(torch.arange(20))[::3].T
    before = Data(x=torch.eye(20), edge_index=torch.cat([pairs, pairs.flip(0)], dim=1))
    after = evolve(before, added=5, removed=7, seed=1)
    gained, lost = edge_set(after) - edge_set(before), edge_set(before) - edge_set(after)
    assert (len(gained), len(lost)) == (10, 14)
    assert all((v, u) in gained for u, v in gained)
    assert all((v, u) in lost for u, v in lost)
    assert edge_set(evolve(before, added=5, removed=7, seed=1)) == edge_set(after)
    assert edge_set(evolve(before, added=5, removed=7, seed=2)) != edge_set(after)
    with pytest.raises(ValueError, match=r"at most 64 edges to remove \(got 65\)"):
        evolve(before, removed=65)
    with pytest.raises(ValueError, match=r"at most 126 edges to add \(got 127\)"):
        evolve(before, added=127)


def test_drifting_graphs_are_the_same_for_the_same_seed():
    first, again = (drifting_communities(60, 3, 3, seed=1) for _ in range(2))
    assert [edge_set(data) for data in first] == [edge_set(data) for data in again]
    assert edge_set(first[0]) != edge_set(first[1])
    assert all(torch.equal(data.x, first[0].x) for data in first)
    events, groups = drifting_events(20, 50, 30, seed=1)
    assert events.equals(drifting_events(20, 50, 30, seed=1)[0])
    assert len(events) == 50
    assert events.time.is_monotonic_increasing
    assert (events.source != events.target).all()
    assert {*events.source, *events.target} <= groups.keys()


PHYSICS = """
import resource
import sys
from pathlib import Path
from axiompath import Explainer
from axiompath.datasets import evolve
from axiompath.files.sum_gnn import random_sum_gnn
sys.path.insert(0, sys.argv[1])
from support.real_data import load_graph
before = load_graph("coauthor_physics", Path(sys.argv[2]))
after = evolve(before, added=100, removed=100)
explainer = Explainer(random_sum_gnn([before.x.shape[1], 16, 5], 0), before, after)
frame = explainer.moved()
worst = max(found.residual for found in explainer.attribute_many(frame.target))
print(len(frame), int(frame.num_paths.sum()), worst, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


@pytest.mark.slow
def test_sparse_features_of_coauthor_physics_stay_under_3_gb(data_root):
    # A process of its own, so that its peak is its own; dense features alone would take 2.3 GB in float64.
    command = [sys.executable, "-c", PHYSICS, Path(__file__).parent, data_root]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    targets, paths, worst, gigabytes = map(float, done.stdout.split())
    assert targets > 1000
    assert paths > targets
    assert worst < 1e-9
    assert gigabytes < 3


def test_amazon_photo_is_complete_at_three_layers(data_root):
    before = load_graph("amazon_photo", data_root)
    after = evolve(before, added=20, removed=20)
    explainer = Explainer(random_sum_gnn([before.x.shape[1], 16, 16, 8], 0), before, after)
    frame = explainer.moved()
    for row, found in zip(frame.itertuples(), explainer.attribute_many(frame.target), strict=True):
        assert len(found.paths) == row.num_paths
        assert found.residual < 1e-9 * max(1, np.abs(found.logits_after).max())

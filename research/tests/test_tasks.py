"""Real tasks: sets of graphs as they are loaded, models trained on them, the command."""

import json

import numpy as np
import pytest
import torch

from research import datasets
from research.experiments.job_parts import read_table
from research.experiments.task_models import rank_auc
from research.experiments.tasks import MONTH, TASK_BUDGETS, TASK_METHODS, TASKS, TaskSettings, open_timeline, run_tasks


def test_molecules_are_those_of_the_file(data_root):
    molecules = datasets.load_molecules(data_root)
    held = np.load(data_root / "mutag.npz", allow_pickle=False)
    assert len(molecules) == 188
    assert sum(m.num_edges for m in molecules) == held["edge_index"].shape[1]
    for number, molecule in enumerate(molecules):
        nodes = np.flatnonzero(held["node_graph"] == number)
        np.testing.assert_array_equal(molecule.n_id, nodes)
        np.testing.assert_array_equal(molecule.x.argmax(dim=1), held["node_label"][nodes])
        mine = molecule.n_id[molecule.edge_index].T.tolist()
        theirs = held["edge_index"][:, np.isin(held["edge_index"][0], nodes)].T.tolist()
        assert sorted(mine) == sorted(theirs)
        assert int(molecule.y) == held["graph_label"][number]


def test_trees_grow_by_posts_alone(data_root):
    early, late = datasets.load_trees(60, data_root), datasets.load_trees(24 * 60, data_root)
    held = np.load(data_root / "rumour_trees.npz", allow_pickle=False)
    assert len(early) == len(late) == len(held["label"])
    for number in (0, 5, 1000, 2307):
        start, stop = held["tree_ptr"][number : number + 2]
        minutes, parents = held["minutes"][start:stop], held["parent"][start:stop]
        came, depth = minutes.astype(float).copy(), np.zeros(len(minutes))
        for node in range(1, len(minutes)):  # parents first
            came[node] = max(came[node], came[parents[node]])
            depth[node] = depth[parents[node]] + 1
        for tree, limit in ((early[number], 60), (late[number], 24 * 60)):
            here = np.flatnonzero(came <= limit)
            np.testing.assert_array_equal(tree.n_id, start + here)
            np.testing.assert_allclose(tree.x[:, 1], np.log1p(came[here]) / 5, rtol=1e-12)
            np.testing.assert_allclose(tree.x[:, 2], depth[here] / 5, rtol=1e-12)
            edges = {tuple(edge) for edge in (tree.n_id[tree.edge_index] - start).T.tolist()}
            down = {(int(parents[node]), int(node)) for node in here if node}
            assert edges == down | {(b, a) for a, b in down}
    assert all(torch.isin(a.n_id, b.n_id).all() for a, b in zip(early, late, strict=True))


def test_months_hold_no_pair_that_was_linked_before(data_root):
    timeline, first = open_timeline(data_root)
    month = timeline.month(first, 0)
    here = np.searchsorted(timeline.times, timeline.start + MONTH * first)
    old = set(map(tuple, timeline.ends[:, :here].T.tolist()))
    pairs = list(map(tuple, month.edge_label_index.T.tolist()))
    assert not old & set(pairs)
    assert len(pairs) == len(set(pairs)) == 2 * int(month.y.sum())
    coming = set(map(tuple, timeline.ends[:, here:].T.tolist()))
    assert all((pair in coming) >= bool(label) for pair, label in zip(pairs, month.y, strict=True))


def test_the_area_under_the_curve_counts_pairs():
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 6, 40).astype(float), rng.integers(0, 2, 40)
    yes, no = scores[labels == 1], scores[labels == 0]
    literal = np.mean([(a > b) + 0.5 * (a == b) for a in yes for b in no])
    assert rank_auc(scores, labels) == pytest.approx(literal)


@pytest.mark.slow
def test_the_command_runs_the_tasks(data_root, tmp_path, call):
    options = ("--max-targets", 2, "--epochs", 12, "--largest-tree", 60, "--root", data_root, "--out", tmp_path)
    code, shown, complaint = call("reproduce", "tasks", *options)
    assert code == 0, complaint
    table = read_table(tmp_path / "tasks.parquet")
    record = json.loads((tmp_path / "tasks.json").read_text())
    assert {part["dataset"] for part in record["parts"]} == set(TASKS)
    assert {"mutag", "rumour_trees", "bitcoinotc"} <= set(table.dataset)  # of so short a training some move nothing
    assert set(zip(table.method, table.budget, strict=True)) == {(m, b) for m in TASK_METHODS for b in TASK_BUDGETS}
    assert (tmp_path / "tasks.json").is_file()
    assert "altered paths" in shown
    code, _, complaint = call("reproduce", "tasks", "--datasets", "moon", "--root", data_root, "--out", tmp_path)
    assert code == 2
    assert "Expected tasks among mutag" in complaint


@pytest.mark.slow
def test_the_tasks_are_learnt_complete_and_best_explained_by_exact(data_root, tmp_path):
    table = run_tasks(TaskSettings(), tmp_path, root=data_root)
    for part in table.attrs["parts"]:
        assert part["largest_residual"] < 1e-9
        scores = part["scores"]
        assert scores.get("AUC", scores.get("accuracy")) > scores.get("majority", 0.9)
    left = table.groupby(["dataset", "budget", "method"]).kl_residual.mean().unstack()
    assert (left["exact"] <= left[["convex", "topk", "gnnlrp", "grad"]].min(axis=1) + 1e-12).all()

"""Real tasks: sets of graphs as they are loaded, models trained on them, the command; and faults that they showed."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_mean_pool

import axiompath
from axiompath import datasets
from axiompath.errors import TooLarge
from axiompath.experiments.job_parts import read_table
from axiompath.experiments.task_models import rank_auc
from axiompath.experiments.tasks import MONTH, TASK_BUDGETS, TASK_METHODS, TASKS, TaskSettings, open_timeline, run_tasks


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(3, 8), nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        return self.head(global_mean_pool(torch.relu(self.conv(x, edge_index)), batch))


class Paired(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(3, 8), GCNConv(8, 8)])
        self.head = nn.Linear(16, 2)

    def forward(self, x, edge_index, edge_label_index):
        x = self.convs[1](torch.relu(self.convs[0](x, edge_index)), edge_index)
        return self.head(torch.cat([x[edge_label_index[0]], x[edge_label_index[1]]], dim=-1))


def ring(num_nodes, seed, **fields):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.stack([torch.arange(num_nodes), (torch.arange(num_nodes) + 1) % num_nodes])
    x = torch.rand(num_nodes, 3, generator=generator, dtype=torch.float64)
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1), **fields)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_graphs_of_a_batch_may_stand_in_any_order(order):
    """A model answers for the graphs in the order of the batch, whatever numbers they have."""
    torch.manual_seed(0)
    model = Pooled().double().eval()
    graphs = [ring(5 + i, i, graph_id=torch.tensor([10 * i])) for i in order]
    evolved = [datasets.evolve(graph, removed=2, added=1, seed=3) for graph in graphs]
    before, after = Batch.from_data_list(graphs), Batch.from_data_list(evolved)
    explainer = axiompath.Explainer(model, before, after)
    with torch.no_grad():
        own = model(after.x, after.edge_index, after.batch).numpy()
    for place, i in enumerate(order):
        found = explainer.attribute(10 * i)
        np.testing.assert_allclose(found.logits_after, own[place], rtol=0, atol=1e-12)
        # With no path to exchange, the user's own model is asked for the very graph.
        np.testing.assert_allclose(explainer.replay_edges(10 * i, []), own[place], rtol=0, atol=1e-12)


def test_pairs_beyond_the_number_of_nodes_are_attributed_and_refused_by_name():
    """There are more pairs than nodes: what is said of a pair must not be looked up among the nodes."""
    torch.manual_seed(0)
    before = ring(6, 0)
    after = datasets.evolve(before, added=2, removed=2)
    pairs = [(u, v) for u in range(6) for v in range(6) if u != v]
    model = Paired().double().eval()
    found = list(axiompath.Explainer(model, before, after, links=pairs).attribute_many(pairs))
    assert max(one.residual for one in found) < 1e-12
    with pytest.raises(TooLarge, match=r"Link \(5, 4\) has [\d,]+ altered paths, .* or explain a link with fewer"):
        axiompath.Explainer(model, before, after, links=pairs, memory=100).attribute((5, 4))
    graph = Batch.from_data_list([ring(5, 0, graph_id=torch.tensor([7]))])
    evolved = Batch.from_data_list([datasets.evolve(graph[0], removed=2)])
    with pytest.raises(TooLarge, match=r"Graph 7 has [\d,]+ altered paths, .* or explain a graph with fewer"):
        axiompath.Explainer(Pooled().double().eval(), graph, evolved, memory=100).attribute(7)


@pytest.mark.parametrize("seed", range(5))
def test_a_pair_asked_for_later_has_the_answer_of_one_that_was_given(seed):
    """What is known of the nodes is taken over from what other pairs needed; nothing of the answer may depend on it."""
    torch.manual_seed(seed)
    before = ring(9, seed)
    after = datasets.evolve(before, added=2, removed=2, seed=seed)
    after.x = before.x.clone()
    after.x[0] += 1.0
    pairs = [(u, v) for u in range(9) for v in range(9) if u != v]
    model = Paired().double().eval()
    given, later = axiompath.Explainer(model, before, after, links=pairs), axiompath.Explainer(model, before, after)
    for pair in pairs[::7]:
        one, other = given.attribute(pair), later.attribute(pair)
        np.testing.assert_array_equal(one.paths, other.paths)
        np.testing.assert_allclose(one.contributions, other.contributions, rtol=0, atol=1e-12)
        assert list(one.kinds) == list(other.kinds)
        first, second = given.explain(pair, 3), later.explain(pair, 3)
        assert first.num_paths == second.num_paths == len(one.paths)
        assert first.fidelity_minus == pytest.approx(second.fidelity_minus, abs=1e-9, nan_ok=True)
        assert first.fidelity_plus == pytest.approx(second.fidelity_plus, abs=1e-9, nan_ok=True)


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
    told = json.loads((tmp_path / "tasks.json").read_text())
    assert {part["dataset"] for part in told["parts"]} == set(TASKS)
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

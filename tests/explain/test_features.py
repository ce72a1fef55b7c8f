"""Features: which columns moved a prediction, and those of a path's leaf, held against literal twins and their sums."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GCNConv, Sequential

import axiompath
from axiompath.change.comparison import find_change
from axiompath.change.states import KINDS
from axiompath.errors import InputError
from axiompath.network.layers import run_network
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.leaf_columns import NO_COLUMN, share_columns, share_columns_of_paths
from axiompath.paths.walk import walk_paths
from support.effort import examples
from support.evolutions import aligned, any_networks, graph_pairs
from support.players import evolve, make
from support.references import LiteralColumn

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def scale_of(change):
    return 1 + max(np.abs(z).max(initial=0.0) for run in (change.before_pass, change.after_pass) for z in run.z)


def changed(network, graphs):
    before, after = aligned(*graphs)
    change = find_change(network, before, after, run_network(network, before), run_network(network, after))
    return change, np.flatnonzero(before.present & after.present)


@settings(relaxed, max_examples=examples(40))
@given(any_networks(), graph_pairs(max_nodes=5))
def test_columns_equal_the_literal_twin_and_sum_to_the_cause(network, graphs):
    change, targets = changed(network, graphs)
    found = walk_paths(change, targets)
    causes = attribute_paths(change, found).causes[:, KINDS.index("feature")]
    twins = [LiteralColumn(network, change.before, change.after, j, only_delta=True) for j in range(3)]
    tolerance = 1e-10 * scale_of(change)
    for target, whole in zip(targets.tolist(), causes, strict=True):
        shares = share_columns(change, target)
        np.testing.assert_allclose(shares.shares.sum(axis=0), whole, atol=tolerance)
        known = {(u, j): share for u, j, share in zip(shares.owner, shares.column, shares.shares, strict=True)}
        for j, twin in enumerate(twins):
            twin(target)
            expected = {}
            for path, by_cause in twin.shares.items():
                if path[0] >= 0 and "feature" in by_cause:
                    expected[path[0]] = expected.get(path[0], 0) + by_cause["feature"]
            for u, share in expected.items():
                np.testing.assert_allclose(known.pop((u, j), np.zeros(3)), share, atol=tolerance)
        # What is left are columns that no walk leads from, and what is none's, which only layers below a hop can have.
        left = [share for (_, column), share in known.items() if column != NO_COLUMN or change.lowest_hop == 0]
        assert np.abs(left).max(initial=0.0) <= tolerance


@settings(relaxed, max_examples=examples(40))
@given(any_networks(), graph_pairs(max_nodes=5))
def test_columns_of_paths_equal_the_literal_twin_and_sum_to_the_path(network, graphs):
    change, targets = changed(network, graphs)
    twins = [LiteralColumn(network, change.before, change.after, j, only_delta=False) for j in range(3)]
    tolerance = 1e-10 * scale_of(change)
    for target in targets.tolist():
        found = walk_paths(change, np.array([target]))
        contributions = attribute_paths(change, found).contributions
        paths = np.unique(found.paths, axis=0)
        shares = share_columns_of_paths(change, target, paths)
        sums = np.zeros((len(paths), 3))
        np.add.at(sums, shares.owner, shares.shares)
        # A node may have biases of several local layers: rows of one sequence of nodes.
        whole = np.zeros_like(sums)
        keys = {tuple(path): i for i, path in enumerate(paths.tolist())}
        np.add.at(whole, [keys[tuple(path)] for path in found.paths.tolist()], contributions)
        np.testing.assert_allclose(sums, whole, atol=tolerance)
        known = {(i, j): share for i, j, share in zip(shares.owner, shares.column, shares.shares, strict=True)}
        for j, twin in enumerate(twins):
            for path, share in twin(target).items():
                np.testing.assert_allclose(known.get((keys[path], j), np.zeros(3)), share, atol=tolerance)


def test_the_table_says_which_columns_of_whom():
    torch.manual_seed(0)
    before, after = evolve(2, 0, kinds=())
    after.x = after.x.clone()
    after.x[3, 1] += 1.0
    after.x[5] -= 0.5
    model = make("gcn", 4)
    explainer = axiompath.Explainer(model, before, after, node_names={3: "Ada"}, class_names=["a", "b", "c"])
    target = int(explainer.moved().target.iloc[0])
    frame = explainer.features(target, feature_names=["w", "x", "y", "z"])
    assert list(frame.columns[:7]) == ["node", "name", "column", "column_name", "before", "after", "share"]
    assert list(frame.columns[7:]) == ["class_0 (a)", "class_1 (b)", "class_2 (c)"]
    of_ada = frame[frame.node == 3]
    assert set(of_ada.column_name) <= {"x"}  # the one column that changed
    assert set(of_ada.name) <= {"Ada"}
    assert (frame.share.abs().diff().dropna() <= 0).all()
    e = explainer.explain(target, 4)
    np.testing.assert_allclose(frame[frame.columns[7:]].sum(), e.causes["feature"], atol=1e-10)
    weights = e.view[1]
    np.testing.assert_allclose(frame[frame.columns[7:]].to_numpy() @ weights, frame.share, atol=1e-12)
    of_paths = explainer.features(target, e.paths)
    for i, share in enumerate(e.contributions):
        rows = of_paths[of_paths.path == i]
        assert set(rows.node) == {next(node for node in e.paths[i] if node >= 0)}
        np.testing.assert_allclose(rows[rows.columns[-3:]].sum(), share, atol=1e-10)
    with pytest.raises(InputError, match="Expected a name for each of the 4 columns"):
        explainer.features(target, feature_names=["w"])


def test_an_encoder_before_the_first_hop_is_looked_through():
    torch.manual_seed(0)
    before, after = evolve(2, 5)
    layers = [(nn.Linear(4, 5), "x -> x"), nn.Tanh(), (GCNConv(5, 3), "x, edge_index -> x")]
    explainer = axiompath.Explainer(Sequential("x, edge_index", layers).double(), before, after)
    for target in explainer.moved().target.tolist():
        frame = explainer.features(target)
        assert (frame.column >= 0).all()
        causes = explainer.attribute(target).causes
        np.testing.assert_allclose(frame[["class_0", "class_1", "class_2"]].sum(), causes["feature"], atol=1e-10)


@pytest.mark.parametrize("name", ["link", "pooled"])
def test_links_and_graphs_have_columns_too(name):
    before, after = evolve(3, 6)
    options = {"links": [(0, 5)], "output": "binary"} if name == "link" else {}
    explainer = axiompath.Explainer(make(name), before, after, **options)
    target = (0, 5) if name == "link" else 0
    frame, found = explainer.features(target), explainer.attribute(target)
    columns = list(frame.columns[-found.contributions.shape[1] :])
    np.testing.assert_allclose(frame[columns].sum(), found.causes["feature"], atol=1e-10)
    of_paths = explainer.features(target, found.paths)
    sums = np.zeros_like(found.contributions)
    np.add.at(sums, of_paths.path.to_numpy(), of_paths[columns].to_numpy())
    np.testing.assert_allclose(sums, found.contributions, atol=1e-10)


def test_under_two_models_columns_are_the_mean_of_both():
    before, after = evolve(3, 6)
    old, new = make("gcn3", 1), make("gcn", 2)
    explainer = axiompath.Explainer(new, before, after, model_before=old)
    target = int(explainer.moved().target.iloc[0])
    e, frame = explainer.explain(target, 5), explainer.features(target)
    columns = ["class_0", "class_1", "class_2"]
    np.testing.assert_allclose(frame[columns].sum(), e.causes["feature"], atol=1e-10)
    of_paths = explainer.features(target, e.paths)
    sums = np.zeros_like(e.contributions)
    np.add.at(sums, of_paths.path.to_numpy(), of_paths[columns].to_numpy())
    np.testing.assert_allclose(sums, e.contributions, atol=1e-10)


def test_no_path_is_walked_and_sparse_features_stay_sparse(monkeypatch):
    """Thousands of paths, and bag-of-words features of a thousand columns."""
    rng = np.random.default_rng(0)
    size = 400
    x = torch.from_numpy((rng.random((size, 1000)) < 0.01).astype(np.float64))
    edges = torch.from_numpy(rng.integers(0, size, size=(2, 20000)))
    changed_x = x.clone()
    changed_x[:40] = torch.from_numpy((rng.random((40, 1000)) < 0.01).astype(np.float64))
    torch.manual_seed(0)
    model = GCN(1000, 8, 3, 3).double()
    graphs = [Data(x=part.to_sparse_csr(), edge_index=edges) for part in (x, changed_x)]
    explainer = axiompath.Explainer(model, *graphs)
    assert explainer.num_paths[0] > 10**4
    monkeypatch.setattr("axiompath.paths.leaf_columns.NUM_HELD", 10**4)  # a few nodes at a time
    frame = explainer.features(0)
    whole = explainer.explain(0, 5).causes["feature"]
    np.testing.assert_allclose(frame[["class_0", "class_1", "class_2"]].sum(), whole, atol=1e-10)
    assert len(frame) == int((x != changed_x).sum())

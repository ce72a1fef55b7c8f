"""Blame: brute force on the user's own model over literal graphs, the axioms, estimates, groups, the record."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import special
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from axiompath.blame.blame import blame_target
from axiompath.blame.shapley import Effort, exact_owen, exact_shares, interactions_of, sampled_shares
from axiompath.errors import Notice
from axiompath.outputs import Output
from support.players import brute, evolve, make, open_model, targets_of
from support.references import literal_shares

MODELS = ("gcn", "sage", "gat", "gin", "batch_norm", "link", "pooled")


def check_against_brute_force(name, seed, num_changes, most):
    """Shares, their sums and the share of the new class's probability, over all subsets of literal graphs."""
    before, after = evolve(seed, num_changes, symmetric=seed % 3 > 0, weighted=name == "gcn")
    model, explainer = open_model(name, before, after)
    opened = seed % 2 == 1
    changes = explainer.changes(open_nodes=opened)
    target = targets_of(name, before, after)[0]
    blame = explainer.blame(target, open_nodes=opened)
    if len(changes) > most:
        return False
    assert blame.exact
    rows = changes.id.tolist()
    values = brute(model, before, after, changes, rows, target, opened)
    expected = literal_shares(values, len(rows))
    found = np.zeros_like(expected)
    for (number,), share in zip(blame.changes, blame.shares, strict=True):
        found[number] = share
    np.testing.assert_allclose(found, expected, atol=1e-9)  # rows that are not in sight have 0
    ends = values[frozenset(range(len(rows)))] - values[frozenset()]
    np.testing.assert_allclose(blame.shares.sum(axis=0), ends, atol=1e-9)
    assert blame.residual < 1e-9
    assert (blame.errors == 0).all()

    def told(z):
        if name == "link":
            yes = special.expit(z[0])
            return yes if blame.class_after == 1 else 1 - yes
        return special.softmax(z)[blame.class_after]

    shown = literal_shares({key: told(z) for key, z in values.items()}, len(rows))
    of_rows = [shown[number] for (number,) in blame.changes]
    np.testing.assert_allclose(blame.prob_shares, of_rows, atol=1e-9)
    assert (np.diff(np.abs(blame.prob_shares)) <= 1e-15).all()
    return True


@pytest.mark.parametrize("name", MODELS)
def test_blame_equals_brute_force(name):
    assert sum(check_against_brute_force(name, seed, 4, 7) for seed in range(4)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_blame_equals_brute_force_on_many_evolutions(name):
    """Of seven models more than 200 evolutions, with up to twelve changes."""
    done = 0
    for seed in range(60):
        done += check_against_brute_force(name, seed, 3 + seed % 10, 12)
        if done == 30:
            return
    raise AssertionError(f"only {done} evolutions have twelve changes or fewer")


@pytest.mark.slow
def test_estimates_of_models_lie_within_three_standard_errors(monkeypatch):
    monkeypatch.setattr("axiompath.blame.blame.predict_seconds", lambda *_, **__: np.inf)  # else all subsets are tried
    inside = total = 0
    for name in MODELS:
        for seed in range(6):
            before, after = evolve(seed, 10, symmetric=seed % 3 > 0)
            _, explainer = open_model(name, before, after)
            session = explainer.session
            asked = session.subsets, session.root(targets_of(name, before, after)[0]), session.caption
            exact = blame_target(*asked, effort=Effort())
            if len(exact.changes) < 3:  # of two, a single pair of orders is all of them
                continue
            estimate = blame_target(*asked, effort=Effort(seed, 5.0, 0.01, most_exact=0))
            assert exact.exact
            assert not estimate.exact
            assert estimate.residual < 1e-9
            shares = dict(zip(exact.changes, exact.shares, strict=True))
            expected = np.stack([shares[ids] for ids in estimate.changes])
            inside += (np.abs(estimate.shares - expected) <= 3 * estimate.errors + 1e-12).sum()
            total += expected.size
    assert inside >= 0.99 * total, (inside, total)


def test_a_new_node_is_one_player_and_can_be_opened():
    before, after = evolve(3, 0, kinds=())
    after.x = torch.cat([after.x, torch.ones(2, 4, dtype=torch.float64)])
    fresh = torch.tensor([[0, 9, 1, 9, 9, 10], [9, 0, 9, 1, 10, 9]])
    after.edge_index = torch.cat([after.edge_index, fresh], dim=1)
    after.n_id = torch.arange(11)
    explainer = axiompath.Explainer(make("sum"), before, after)
    closed, opened = explainer.blame(0), explainer.blame(0, open_nodes=True)
    assert closed.kinds == ("node added", "node added")
    assert set(opened.kinds) == {"edge added"}
    assert len(opened.shares) == 3
    np.testing.assert_allclose(closed.shares.sum(axis=0), opened.shares.sum(axis=0), atol=1e-12)


def test_a_target_that_is_new_is_blamed_against_itself_alone():
    before, after = evolve(3, 0, kinds=())
    after.x = torch.cat([after.x, torch.ones(1, 4, dtype=torch.float64)])
    after.edge_index = torch.cat([after.edge_index, torch.tensor([[0, 9, 1, 9], [9, 0, 9, 1]])], dim=1)
    after.n_id = torch.arange(10)
    model = make("gcn")
    explainer = axiompath.Explainer(model, before, after)
    blame = explainer.blame(9)
    assert blame.open_nodes
    changes = explainer.changes(open_nodes=True)
    rows = [number for (number,) in blame.changes]
    values = brute(model, before, after, changes, rows, 9, True, standing=(9,))
    np.testing.assert_allclose(blame.shares, literal_shares(values, len(rows)), atol=1e-9)


def test_changes_that_are_alike_have_the_same_share():
    x = torch.ones(5, 4, dtype=torch.float64)
    before = Data(x=x, edge_index=torch.tensor([[1, 0], [0, 1]]))
    after = Data(x=x, edge_index=torch.tensor([[1, 0, 2, 0, 3, 0], [0, 1, 0, 2, 0, 3]]))
    blame = axiompath.Explainer(make("gcn"), before, after).blame(0)
    np.testing.assert_allclose(blame.shares[0], blame.shares[1], atol=1e-12)


def test_estimates_lie_within_three_standard_errors():
    inside = total = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        table = rng.normal(size=(256, 3)) + np.arange(256)[:, None] * 0.01

        def values(subsets, table=table):
            return table[subsets @ (1 << np.arange(8))]

        exact = exact_shares(values, 8)
        estimate = sampled_shares(values, 8, Effort(seed, 30.0, 0.02))
        assert estimate.residual < 1e-10
        assert not estimate.exact
        inside += (np.abs(estimate.values - exact.values) <= 3 * estimate.errors).sum()
        total += exact.values.size
    assert inside >= 0.99 * total


def test_many_changes_are_estimated_and_said_to_be():
    before, after = evolve(0, 60, num_nodes=14, kinds=("edges",))
    explainer = axiompath.Explainer(make("gcn"), before, after)
    with pytest.warns(Notice, match="estimated by random orders"):
        blame = explainer.blame(0, seconds=3.0, tolerance=0.02)
    assert len(blame.shares) > 22
    assert not blame.exact
    assert blame.residual < 1e-9
    assert (blame.errors > 0).any()
    assert blame.prob_errors.max() <= 0.02 * np.abs(blame.logits_after - blame.logits_before).max()
    again = explainer.blame(0, seconds=0.0, seed=7)
    assert again.num_evaluations < blame.num_evaluations
    assert again.origin.seed == 7


def test_an_opened_group_sums_to_its_share():
    before, after = evolve(4, 8)
    explainer = axiompath.Explainer(make("gcn"), before, after)
    groups = explainer.blame(0, by="kind")
    opened = explainer.blame(0, by="kind", opened=True)
    assert set(groups.kinds) == {"group"}
    for label, share in zip(groups.groups, groups.shares, strict=True):
        mine = [row for row, name in enumerate(opened.groups) if name == label]
        np.testing.assert_allclose(opened.shares[mine].sum(axis=0), share, atol=1e-9)
    np.testing.assert_allclose(opened.by_group().share.sum(), groups.prob_shares.sum(), atol=1e-12)
    by_dict = explainer.blame(0, by=dict(zip(explainer.changes().id, explainer.changes().kind, strict=True)))
    by_function = explainer.blame(0, by=lambda row: row.kind)
    by_labels = explainer.blame(0, by=explainer.changes().kind)
    for other in (by_dict, by_function, by_labels):
        np.testing.assert_allclose(other.shares, groups.shares, atol=1e-12)
    assert len(explainer.blame(0, by="node").shares) > 1
    with pytest.raises(axiompath.InputError, match="column of `changes\\(\\)`"):
        explainer.blame(0, by="day")
    with pytest.raises(axiompath.InputError, match=r"ids of the .* changes \(got 999\)"):
        explainer.blame(0, by={999: "a"})
    for wrong, words in (({"seconds": "3"}, "seconds"), ({"tolerance": 0}, "tolerance"), ({"seed": -1}, "seed")):
        with pytest.raises(axiompath.InputError, match=f"Expected `{words}` to be"):
            explainer.blame(0, **wrong)


def test_owen_values_are_those_of_uninterrupted_orders():
    import itertools

    rng = np.random.default_rng(0)
    table = rng.normal(size=(16, 1))

    def value(players):
        return table[sum(1 << player for player in players), 0]

    groups = np.array([0, 1, 0, 1])
    expected, count = np.zeros(4), 0
    for order in itertools.permutations(range(4)):
        if len(list(itertools.groupby(order, key=lambda player: groups[player]))) > 2:
            continue
        count += 1
        for turn, player in enumerate(order):
            expected[player] += value(order[: turn + 1]) - value(order[:turn])
    found = exact_owen(lambda subsets: table[subsets @ (1 << np.arange(4))], groups)
    np.testing.assert_allclose(found.values[:, 0], expected / count, atol=1e-12)


def test_interactions_of_a_game_of_pairs_are_its_pairs():
    pairs = np.random.default_rng(0).normal(size=(5, 5))
    pairs = pairs + pairs.T
    subsets = np.arange(32)[:, None] >> np.arange(5) & 1
    values = np.einsum("si,sj,ij->s", subsets, subsets, pairs)[:, None]
    found = interactions_of(values, 5)[:, :, 0]
    np.testing.assert_allclose(found[~np.eye(5, dtype=bool)], 2 * pairs[~np.eye(5, dtype=bool)], atol=1e-12)
    before, after = evolve(4, 5)
    blame = axiompath.Explainer(make("gcn"), before, after).blame(0, interactions=True)
    assert blame.interactions.shape == (*[len(blame.shares)] * 2, 3)


@pytest.mark.parametrize("output", ["labels", "value"])
def test_labels_and_values(output):
    before, after = evolve(4, 5)
    explainer = axiompath.Explainer(make("gcn"), before, after, output=output)
    blame = explainer.blame(0)
    z0, z1 = blame.logits_before[blame.class_after], blame.logits_after[blame.class_after]
    ends = (special.expit(z0), special.expit(z1)) if output == "labels" else (z0, z1)
    np.testing.assert_allclose(blame.prob_shares.sum(), ends[1] - ends[0], atol=1e-9)
    assert ("label" in blame.quantity) == (output == "labels")


def test_a_model_that_no_reader_understands_is_blamed_without_paths():
    before, after = evolve(2, 4)
    model = make("unreadable")
    with pytest.raises(axiompath.readers.UnreadableModel, match="chooses rows by features"):  # a median
        axiompath.Explainer(model, before, after)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    explainer = axiompath.Explainer(model, before, after, paths=False)
    changes = explainer.changes()
    blame = explainer.blame(0)
    rows = [number for (number,) in blame.changes]
    values = brute(model, before, after, changes, rows, 0)
    np.testing.assert_allclose(blame.shares, literal_shares(values, len(rows)), atol=1e-9)
    assert blame.exact
    for ask in (explainer.scan, lambda: explainer.explain(0), lambda: explainer.attribute(0)):
        with pytest.raises(axiompath.InputError, match="paths=False"):
            ask()
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())


class ByOrder(torch.nn.Module):
    """A model whose answer depends on the order of the edges; or on chance."""

    def __init__(self, shuffled):
        super().__init__()
        self.shuffled = shuffled
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3))

    def forward(self, x, edge_index):
        h, edges = x @ self.weight, edge_index.T
        for sender, receiver in (edges[torch.randperm(len(edges))] if self.shuffled else edges).tolist():
            h = h.index_put((torch.tensor([receiver]),), torch.tanh(0.5 * h[receiver] + h[sender])[None])
        return h


def test_the_order_of_edges_is_the_users_own_for_models_that_read_it():
    before, after = evolve(2, 5, kinds=("edges",), symmetric=True)
    for side in (before, after):
        side.edge_index = side.edge_index[:, (3 * side.edge_index[0] + 5 * side.edge_index[1]).argsort(stable=True)]
    model = ByOrder(shuffled=False)
    explainer = axiompath.Explainer(model, before, after, paths=False)
    ends = [model(data.x, data.edge_index).detach().numpy() for data in (before, after)]
    ids = explainer.changes().id.tolist()
    for target in explainer.moved().target.head(3).tolist():
        np.testing.assert_allclose(explainer.what_if(target, undo=ids), ends[0][target], atol=1e-9)
        np.testing.assert_allclose(explainer.what_if(target, undo=[]), ends[1][target], atol=1e-9)
        assert explainer.happened(target).blame is not None
    shuffled = axiompath.Explainer(ByOrder(shuffled=True), before, after, paths=False)
    with pytest.raises(axiompath.InputError, match="answers the same however often it is asked"):
        shuffled.blame(int(shuffled.moved().target[0]))


def test_a_change_of_one_direction_has_an_arrow():
    torch.manual_seed(0)
    x, edges = torch.randn(5, 3), torch.tensor([[0, 1], [1, 2]])
    model = GCN(3, 4, 2, 3).double().eval()
    for both, told in ((False, "edge added 3 → 1"), (True, "edge added 1 – 3")):
        added = torch.tensor([[3, 1], [1, 3]])[:, : 1 + both]
        start = torch.cat([edges, edges.flip(0)], dim=1) if both else edges
        explainer = axiompath.Explainer(
            model, Data(x=x, edge_index=start), Data(x=x, edge_index=torch.cat([start, added], dim=1))
        )
        blame = explainer.blame(1)
        assert told in blame.summary()
        assert told in explainer.enough(1).summary()
        assert told in explainer.happened(1).summary()
        values = blame.to_dict()
        assert told in axiompath.Blame.from_dict(values).summary()
        del values["directed"]  # as files of the first version
        assert " – " in axiompath.Blame.from_dict(values | {"version": 1}).summary()
        with pytest.raises(axiompath.InputError, match=r"`directed\[0\]` should be true or false"):
            axiompath.Blame.from_dict(values | {"directed": [1]})


def test_a_change_too_small_for_two_digits_is_told_with_more():
    before, after = evolve(4, 8)
    told = axiompath.Explainer(make("gcn"), before, after).blame(0)
    binary = {"output": Output("binary"), "class_before": 0, "class_after": 1, "class_names": ()}
    near = replace(told, logits_before=np.array([-1e-4]), logits_after=np.array([1e-4]), **binary)
    assert near.headline == "Node 0 went from no to yes (probability of yes: 0.49998 before, 0.50002 after)"
    explanation = axiompath.Explainer(make("gcn"), before, after).explain(0, 3)
    near = replace(explanation, prob_before=np.array([0.49991]), prob_after=np.array([0.50012]), **binary)
    assert near.headline.endswith("(probability of yes: 0.4999 before, 0.5001 after)")
    still = replace(told, logits_after=told.logits_before, class_after=told.class_before)
    chance = f"{still.predicted_after:.2f}"
    assert f" stayed in class {still.class_after} ({chance} before, {chance} after)" in still.headline


def test_small_shares_are_told_with_digits_and_groups_with_their_sums():
    before, after = evolve(4, 8)
    explainer = axiompath.Explainer(make("gcn"), before, after)
    told = explainer.blame(0, by="kind", opened=True)
    assert "By group: " in told.summary()
    assert "-0.000 " not in told.summary()
    small = replace(told, prob_shares=told.prob_shares * 1e-6)
    first = float(small.summary().splitlines()[1].split()[0])
    assert abs(first - small.prob_shares[0]) < 0.01 * abs(small.prob_shares[0])


def test_the_record_is_saved_shown_and_checked(tmp_path):
    before, after = evolve(4, 6)
    names = {node: f"node-{node}" for node in range(9)}
    explainer = axiompath.Explainer(make("gcn"), before, after, node_names=names, class_names=["a", "b", "c"])
    blame = explainer.blame(0, interactions=True)
    frame = blame.to_frame()
    assert list(frame.columns) == ["change", "kind", "src", "src_name", "dst", "dst_name", "share", "error"]
    for row in frame.itertuples():
        assert row.src_name == f"node-{row.src}"
        assert (pd.isna(row.dst) and pd.isna(row.dst_name)) or row.dst_name == f"node-{row.dst}"
    assert (frame.change.tolist(), len(frame)) == ([ids[0] for ids in blame.changes], len(blame.shares))
    assert frame.dst.isna().tolist() == [
        kind in ("node added", "node removed", "features changed") for kind in blame.kinds
    ]
    assert "node-0" in blame.summary()
    assert "Exact, over all subsets" in str(blame)
    assert blame.summary(limit=1).count("\n") == 3
    blame.save(tmp_path / "blame.json")
    again = axiompath.Blame.load(tmp_path / "blame.json")
    assert again.to_dict() == blame.to_dict()
    values = json.loads((tmp_path / "blame.json").read_text())
    for key, wrong in (("shares", [[1.0]]), ("exact", 1), ("kinds", ["moved"]), ("version", 9), ("format", "x")):
        with pytest.raises(axiompath.InputError):
            axiompath.Blame.from_dict({**values, key: wrong})
    with pytest.raises(axiompath.InputError, match="missing: shares"):
        axiompath.Blame.from_dict({key: value for key, value in values.items() if key != "shares"})
    axes = blame.plot()
    assert len(axes.get_yticks()) == len(blame) + 2
    assert blame.plot(axes) is axes
    assert len(blame.plot(limit=2).get_yticks()) == 2 + 1 + 2  # the others share a bar


def test_what_if_takes_one_set_or_several():
    before, after = evolve(4, 6)
    explainer = axiompath.Explainer(make("gcn"), before, after)
    ids = explainer.changes().id.tolist()
    np.testing.assert_allclose(explainer.what_if(0, undo=ids), explainer.what_if(0, apply=[]), atol=1e-12)
    several = explainer.what_if(0, undo=[[], [ids[0]], ids])
    assert several.shape == (3, 3)
    np.testing.assert_allclose(several[1], explainer.what_if(0, undo=ids[0]), atol=1e-12)
    np.testing.assert_allclose(several[1], explainer.what_if(0, apply=ids[1:]), atol=1e-12)
    for wrong in ({"undo": [99]}, {"undo": [0.5]}, {}, {"undo": [0], "apply": [0]}, {"undo": [[0], 1]}):
        with pytest.raises(axiompath.InputError):
            explainer.what_if(0, **wrong)


def test_nothing_in_sight_is_blamed_for_nothing():
    before, _ = evolve(4, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blame = axiompath.Explainer(make("gcn"), before, before.clone()).blame(0)
    assert blame.shares.shape == (0, 3)
    assert blame.exact
    assert blame.residual == 0
    assert len(blame.to_frame()) == 0


def test_stored_graphs_are_blamed_as_those_in_memory(tmp_path):
    before, after = evolve(4, 8, num_nodes=30, kinds=("edges", "features"))
    stored = []
    for name, data in (("before", before), ("after", after)):
        del data.n_id
        np.save(tmp_path / f"{name}_edges.npy", data.edge_index.numpy())
        np.save(tmp_path / f"{name}_x.npy", data.x.numpy())
        paths = {"nodes": tmp_path / f"{name}_x.npy"}
        stored.append(axiompath.convert_graph(tmp_path / f"{name}_edges.npy", tmp_path / name, **paths))
    model = make("gcn")
    whole, on_disk = axiompath.Explainer(model, before, after), axiompath.Explainer(model, *stored)
    for target in whole.moved().target.head(3).tolist():
        expected, found = whole.blame(target), on_disk.blame(target)
        assert found.changes == expected.changes
        np.testing.assert_allclose(found.shares, expected.shares, atol=1e-6)  # stored in float32
        goal = max(0.5 * (expected.predicted_before + expected.predicted_after), expected.predicted_before + 1e-4)
        undone = [explainer.undo(target, below=goal) for explainer in (whole, on_disk)]
        assert undone[0].changes == undone[1].changes
        np.testing.assert_allclose(undone[0].logits, undone[1].logits, atol=1e-5)

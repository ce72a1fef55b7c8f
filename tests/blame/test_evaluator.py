"""The model under subsets of the changes: variants and the user's own model say the same as literal graphs."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import axiompath
from axiompath.blame.variants import knows
from axiompath.blame.views import find_views, pack
from support.effort import ALL
from support.players import NODE_MODELS, evolve, make, open_model, own_answers, targets_of
from support.references import literal_applied


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", [*NODE_MODELS, "max", "several", "pooled", "pooled_sum", "link", "rgcn"])
def test_every_way_equals_the_model_on_literal_graphs(name, symmetric):
    rng = np.random.default_rng(0)
    for seed in range(2 if ALL else 1):
        weighted = name.startswith("gcn")
        before, after = evolve(seed, 6, symmetric=symmetric, weighted=weighted, relations=3 if name == "rgcn" else 0)
        model, explainer = open_model(name, before, after)
        session = explainer.session
        network = explainer.change.network
        for target in targets_of(name, before, after):
            for opened in (False, True):
                evaluator = session.subsets.open(session.root(target), open_nodes=opened)
                changes = explainer.changes(open_nodes=opened)
                subsets = rng.random((12, evaluator.num_changes)) < 0.5
                others = set(changes.id) - set(evaluator.rows.tolist())
                graphs = [
                    literal_applied(before, after, changes, others | set(evaluator.rows[some].tolist()), opened)
                    for some in subsets
                ]
                expected = own_answers(model, graphs, target) if name != "size_norm" else np.concatenate(
                    [own_answers(model, [graph], target) for graph in graphs]
                )  # fmt: skip
                np.testing.assert_allclose(evaluator.run(subsets), expected, rtol=1e-10, atol=1e-10)
                np.testing.assert_allclose(evaluator.own(subsets), expected, rtol=1e-10, atol=1e-10)
                (asked,) = evaluator.models
                by_network = knows(network) and name != "size_norm"  # the number of nodes was read as a constant
                assert evaluator.by_network == by_network
                assert (asked.variants is not None) == by_network


def test_the_known_rules_are_those_of_common_models():
    before, after = evolve(0)
    names = (*NODE_MODELS, "max", "several")
    known = {name for name in names if knows(open_model(name, before, after)[1].change.network)}
    assert known == set(names) - {"size_norm"}


@pytest.mark.parametrize("name", ["gcn", "gat", "unreadable", "rgcn"])
def test_without_reading_the_model_the_answers_are_the_same(name):
    rng = np.random.default_rng(1)
    before, after = evolve(5, 6, relations=3 if name == "rgcn" else 0)
    model, explainer = open_model(name, before, after, paths=False)
    changes = explainer.changes()
    evaluator = explainer.session.subsets.open(explainer.session.root(0))
    assert not evaluator.by_network
    subsets = rng.random((12, evaluator.num_changes)) < 0.5
    others = set(changes.id) - set(evaluator.rows.tolist())
    graphs = [literal_applied(before, after, changes, others | set(evaluator.rows[some].tolist())) for some in subsets]
    expected = own_answers(model, graphs, 0)
    np.testing.assert_allclose(evaluator.run(subsets), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(evaluator.own(subsets), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["gcn", "gat", "pooled", "link"])
def test_without_reading_the_model_the_same_predictions_have_moved(name):
    before, after = evolve(7, 6, num_nodes=14)
    read, unread = (open_model(name, before, after, paths=paths)[1] for paths in (True, False))
    expected, found = read.moved(), unread.moved()
    expected = expected[expected.kl > 1e-12].drop(columns=[c for c in ("row", "num_paths") if c in expected])
    assert len(found) == len(expected) > 0
    pd.testing.assert_frame_equal(
        found.sort_values("target", ignore_index=True), expected.sort_values("target", ignore_index=True), rtol=1e-9
    )


class Ended(torch.nn.Module):
    """A model with something at its end."""

    def __init__(self, end, width):
        super().__init__()
        self.inner, self.last, self.end = make("gcn"), torch.nn.Linear(3, width).double(), end

    def forward(self, x, edge_index):
        return self.end(self.last(self.inner(x, edge_index)))


@pytest.mark.parametrize(
    ("end", "width", "kind"),
    [
        (lambda z: z.softmax(-1), 3, "classes"),
        (lambda z: torch.nn.functional.log_softmax(z, dim=1), 3, "classes"),
        (lambda z: z, 3, "classes"),
        (torch.nn.Sigmoid(), 3, "labels"),
        (lambda z: torch.sigmoid(z).view(-1), 1, "binary"),
        (lambda z: z.sigmoid().squeeze(-1), 1, "binary"),
    ],
)
def test_the_end_of_a_model_that_is_not_read_is_seen_not_guessed(end, width, kind):
    before, after = evolve(3, 5, kinds=("edges",))
    model = Ended(end, width)
    explainer = axiompath.Explainer(model, before, after, paths=False)
    assert explainer.session.output.kind == kind
    expected = model.last(model.inner(after.x, after.edge_index))[0].detach().numpy()
    found = explainer.what_if(0, undo=[])
    if kind == "classes":  # a softmax forgets what all have in common
        found, expected = found - found.mean(), expected - expected.mean()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_logit_between_0_and_1_is_no_probability():
    before, after = evolve(3, 5, kinds=("edges",))
    model = Ended(lambda z: 0.5 + 0.01 * z, 1)
    explainer = axiompath.Explainer(model, before, after, paths=False, output="binary")
    own = model(after.x, after.edge_index)[0].detach().numpy()
    np.testing.assert_allclose(explainer.what_if(0, undo=[]), own, rtol=1e-14)
    with pytest.raises(axiompath.InputError, match='output="binary" or "value"'):
        axiompath.Explainer(model, before, after, paths=False)


def test_a_model_that_looks_at_the_whole_graph_is_run_on_all_of_it():
    class Centred(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make("gcn")

        def forward(self, x, edge_index):
            return self.inner(x - x.mean(0), edge_index)

    n = 14
    ring = torch.tensor([[i, (i + 1) % n] for i in range(n)]).T
    edges = torch.cat([ring, ring.flip(0)], dim=1)
    rng = np.random.default_rng(0)
    before = Data(x=torch.tensor(rng.normal(size=(n, 4))), edge_index=edges)
    after = Data(x=before.x.clone(), edge_index=edges[:, 1:])
    after.x[7] += 3.0  # seven hops away
    model = Centred()
    explainer = axiompath.Explainer(model, before, after, paths=False)
    with torch.no_grad():
        expected = model(after.x, after.edge_index)[0].numpy()
    np.testing.assert_allclose(explainer.what_if(0, undo=[]), expected, atol=1e-10)
    blame = explainer.blame(0)
    assert len(blame.shares) == len(explainer.changes()) == 2
    with torch.no_grad():
        expected = expected - model(before.x, before.edge_index)[0].numpy()
    np.testing.assert_allclose(blame.shares.sum(axis=0), expected, atol=1e-10)


def test_views_are_the_distinct_rows_of_what_each_mask_shows():
    rng = np.random.default_rng(0)
    for num_rows, width in ((1000, 5), (50, 12), (300, 70), (300, 130), (5, 0), (0, 3)):
        rows = rng.random((num_rows, width)) < 0.3
        rows[num_rows // 2 :] = rows[: num_rows - num_rows // 2]
        masks = rng.random((9, width)) < np.linspace(0, 1, 9)[:, None]
        views = find_views(pack(rows), pack(masks))
        for number, mask in enumerate(masks):
            seen, first = rows[:, mask], views.first[views.starts[number] : views.starts[number + 1]]
            assert (seen[first][views.inverse[number]] == seen).all()
            assert len(first) == len(np.unique(seen, axis=0))


def test_changes_out_of_sight_are_no_players():
    n = 12
    line = torch.tensor([[i, i + 1] for i in range(n - 1)]).T
    edges = torch.cat([line, line.flip(0)], dim=1)
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(n, 4)))
    far = edges[:, ~((edges == 10).any(0) & (edges == 11).any(0))]
    near = torch.cat([far, torch.tensor([[0, 3], [3, 0]])], dim=1)
    explainer = axiompath.Explainer(make("gcn"), Data(x=x, edge_index=edges), Data(x=x, edge_index=near))
    assert explainer.changes().kind.tolist() == ["edge added", "edge removed"]
    assert explainer.blame(0).changes == ((0,),)
    np.testing.assert_allclose(explainer.what_if(0, undo=[1]), explainer.what_if(0, undo=[]))

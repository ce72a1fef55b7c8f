"""Temporal GNNs as people have them: read exactly, complete, and blamed by their own calls."""

import copy
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GCNConv

import axiompath
from axiompath.errors import InputError, Notice
from axiompath.paths.exits import share_exits
from axiompath.readers import trace
from support.temporal import MODELS, STEPS, EvolveGCN, GConvGRU, make, suited, unrolled
from support.windows import NUM_FEATURES, WIDTH, literal_exits, random_dates

pytestmark = pytest.mark.filterwarnings("ignore::axiompath.errors.Notice")


def check_window(name, seed, *, literal=False):
    """Forward to 1e-12, completeness to 1e-10, v(nothing) and v(all) exactly; the timeline as all walks have it."""
    rng = np.random.default_rng(seed)
    days = [suited(name, data) for data in random_dates(rng, STEPS + 1, num_changes=1 + seed % 3)]
    before, after = days[:STEPS], days[1:]
    still = [*after[:-1], before[-1]]
    model = make(name, seed)
    explainer = axiompath.Explainer(model, before, after, output="value")
    answers = [model(window).detach().numpy() for window in (before, still, after)]
    change = explainer.change
    rows = np.flatnonzero(change.root_ids < 7)
    for logits, own in ((change.before_pass.logits, answers[1]), (change.after_pass.logits, answers[2])):
        np.testing.assert_allclose(logits[rows], own[change.root_ids[rows]], atol=1e-12, rtol=1e-12)
    moved = explainer.moved()
    for target in moved.target.tolist()[:2]:
        found = explainer.timeline(target)
        np.testing.assert_allclose(found.shares.sum(axis=0), (answers[2] - answers[0])[target], atol=1e-10)
        ends = explainer.what_if(target, apply=[[], explainer.changes().id.tolist()])
        np.testing.assert_allclose(ends, [answers[1][target], answers[2][target]], atol=1e-12)
        if literal:
            row = int(np.flatnonzero(change.root_ids == target)[0])
            ours = share_exits(explainer.session.opened[-1].read.held, row)
            twin = literal_exits(change, row)
            total = dict.fromkeys(twin, 0.0)
            for v, u, share in zip(ours.receivers.tolist(), ours.senders.tolist(), ours.shares, strict=True):
                total[v, None if u < 0 else u] += share
            for key, share in twin.items():
                np.testing.assert_allclose(total[key], share + np.zeros(2), atol=1e-10)
    return len(moved)


@pytest.mark.parametrize("name", list(MODELS))
def test_every_cell_is_read_exactly(name):
    assert sum(check_window(name, seed) for seed in (1, 2)) > 0


def test_the_operations_that_are_made_again_grow_as_the_steps_do(monkeypatch):
    monkeypatch.setattr(trace, "HELD_BYTES", 1 << 14)
    made, again = [], trace.run_again

    def run_again(*given):
        made.append(given[1].name)
        return again(*given)

    monkeypatch.setattr(trace, "run_again", run_again)
    days, model, counts = random_dates(np.random.default_rng(0), 13), make("GConvGRU", 0), []
    for steps in (3, 12):
        made.clear()
        axiompath.Explainer(model, days[:steps], days[1 : steps + 1], output="value")
        counts.append(len(made))
    assert counts[1] < 5 * counts[0]


def test_a_tensor_made_by_a_shape_needs_nothing_of_what_has_it(monkeypatch):
    monkeypatch.setattr(trace, "HELD_BYTES", 0)
    x, model = torch.ones(5, 3), nn.Linear(3, 2)

    def run():
        h = torch.tanh(model(x))
        return torch.ones_like(h) + h.new_zeros(4, 2).sum()

    found = trace.record(model, run, {"x": x}, {"x"})
    made, again = [], trace.run_again
    monkeypatch.setattr(trace, "run_again", lambda *given: made.append(given[1].name) or again(*given))
    assert torch.equal(found.values[found.output], torch.ones(5, 2, dtype=torch.float64))
    assert sorted(made) == ["add", "new_zeros", "ones_like", "sum"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), list(itertools.product(MODELS, range(100, 125))))
def test_random_windows(name, seed):
    check_window(name, seed, literal=name in ("GConvGRU", "TGCN", "EvolveGCN", "Attention", "nn.Conv1d"))


def test_a_model_that_advances_its_own_state_begins_every_call_alike():
    days = random_dates(np.random.default_rng(0), STEPS + 1)
    torch.manual_seed(0)
    model = EvolveGCN(anew=False).double().eval()
    with pytest.warns(Notice, match=r"advances `evolving.weight` on each call"):
        explainer = axiompath.Explainer(model, days[:STEPS], days[1:], output="value")
    assert model.evolving.weight is None
    moved = explainer.moved()
    target = int(moved.target[0])
    found = explainer.blame(target, seconds=5)
    fresh = EvolveGCN().double().eval()
    fresh.load_state_dict(model.state_dict())
    ends = [fresh(window).detach().numpy()[target] for window in (days[:STEPS], days[1:])]
    np.testing.assert_allclose(found.shares.sum(axis=0), ends[1] - ends[0], atol=1e-10)
    np.testing.assert_allclose(explainer.timeline(target).shares.sum(axis=0), ends[1] - ends[0], atol=1e-10)
    model(days[:STEPS])
    held = model.evolving.weight.clone()
    with pytest.raises(InputError, match="neither a parameter, nor a buffer"):
        axiompath.Explainer(model, days[:STEPS], days[1:], output="value")
    assert torch.equal(model.evolving.weight, held)


class Forgetful(nn.Module):
    """As examples call it: the state is never handed on."""

    def __init__(self):
        super().__init__()
        self.cell = GConvGRU()

    def forward(self, window):
        for data in window:
            h = self.cell(data.x, data.edge_index)
        return h


def test_check_says_that_a_model_has_no_memory():
    days = random_dates(np.random.default_rng(0), STEPS)
    told = str(axiompath.check(Forgetful().double(), days))
    assert "has no memory: its answer depends only on the last snapshot" in told
    told = axiompath.check(unrolled(GConvGRU).double(), days)
    assert told.readable
    assert "no memory" not in str(told)
    with pytest.raises(InputError, match="whose state is never passed has no memory"):
        axiompath.unroll(nn.Linear(3, 3), head=None)


class ByFields(nn.Module):
    """Takes lists of fields in place of a list of snapshots."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = GConvGRU(), nn.Linear(4, 2)

    def forward(self, xs, edge_indices):
        h = None
        for x, edge_index in zip(xs, edge_indices, strict=True):
            h = self.cell(x, edge_index, None, h)
        return self.head(h)


def test_the_same_model_called_three_ways():
    days = random_dates(np.random.default_rng(2), STEPS + 1)
    torch.manual_seed(0)
    by_fields = ByFields().double()
    by_window = axiompath.unroll(by_fields.cell, head=by_fields.head)
    calls = [
        (by_fields, {}),
        (by_window, {}),
        (by_fields, {"call": lambda model, window: model([d.x for d in window], [d.edge_index for d in window])}),
    ]
    tables = [
        axiompath.Explainer(model, days[:STEPS], days[1:], output="value", **options).moved()
        for model, options in calls
    ]
    assert len(tables[0])
    for other in tables[1:]:
        np.testing.assert_allclose(
            other[["target", "revised", "time", "news"]], tables[0][["target", "revised", "time", "news"]], atol=1e-12
        )


class Causal(nn.Module):
    """Convolutions over time that are padded so that no step sees a later one, and probabilities at the end."""

    def __init__(self, last):
        super().__init__()
        self.last, self.conv, self.head = last, GCNConv(NUM_FEATURES, WIDTH), nn.Linear(WIDTH, 2)
        self.near, self.far = nn.Conv1d(WIDTH, WIDTH, 2), nn.Conv1d(WIDTH, WIDTH, 2, dilation=2)

    def forward(self, x_seq, edge_index_seq):
        steps = [self.conv(x, edges).relu() for x, edges in zip(x_seq, edge_index_seq, strict=True)]
        h = torch.stack(steps, dim=2)
        h = h + F.relu(self.near(F.pad(h, (1, 0))))
        h = h + F.relu(self.far(F.pad(h, (2, 0))))
        return self.last(self.head(h[..., -1]))


@pytest.mark.parametrize("last", [nn.LogSoftmax(dim=-1), nn.Softmax(dim=-1), nn.Sigmoid()])
def test_padded_convolutions_and_probabilities(last):
    days = random_dates(np.random.default_rng(5), STEPS + 1)
    torch.manual_seed(0)
    model = Causal(last).double()
    explainer = axiompath.Explainer(model, days[:STEPS], days[1:])
    raw = copy.deepcopy(model)
    raw.last = nn.Identity()
    ends = [raw([d.x for d in one], [d.edge_index for d in one]).detach().numpy() for one in (days[:STEPS], days[1:])]
    for target in explainer.moved().target.tolist()[:2]:
        found = [explainer.timeline(target).shares.sum(axis=0), explainer.blame(target).shares.sum(axis=0)]
        moved = (ends[1] - ends[0])[target]
        if "Soft" in type(last).__name__:  # logits of a softmax are known up to one number for all classes
            found, moved = [one - one[0] for one in found], moved - moved[0]
        np.testing.assert_allclose(found, [moved, moved], atol=1e-10)
        assert explainer.timeline(target).completeness < 1e-10


class ByPlace(nn.Module):
    """A cell that takes the whole snapshot, and all its states as one list."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(NUM_FEATURES, WIDTH), nn.Linear(WIDTH, 2)
        self.updates = nn.ModuleList([nn.GRUCell(WIDTH, WIDTH) for _ in range(2)])

    def forward(self, data, previous_embeddings=None):
        h, held = self.conv(data.x, data.edge_index).relu(), previous_embeddings or [None, None]
        h, *_ = held = [update(h, one) for update, one in zip(self.updates, held, strict=True)]
        return self.head(h), held


class Pairs(nn.Module):
    """A cell whose state is a pair of tensors, as that of an LSTMCell."""

    def __init__(self):
        super().__init__()
        self.conv, self.cell, self.head = GCNConv(NUM_FEATURES, WIDTH), nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x, edge_index, state):
        h, c = self.cell(self.conv(x, edge_index), state)
        return self.head(h), (h, c)


@pytest.mark.parametrize(
    ("cell", "state"),
    [
        (ByPlace, ()),
        (ByPlace, ((torch.full((7, WIDTH), 0.3), torch.zeros(7, WIDTH)),)),
        (Pairs, ((WIDTH, torch.full((7, WIDTH), 0.3)),)),
        (Pairs, (("h", "h"),)),
    ],
)
def test_states_are_handed_on_and_in(cell, state):
    days = random_dates(np.random.default_rng(6), STEPS + 1)
    for number, data in enumerate(days):
        data.h = torch.full((7, WIDTH), 0.1 * number, dtype=torch.float64)
    torch.manual_seed(0)
    model = axiompath.unroll(cell(), state=state).double()
    explainer = axiompath.Explainer(model, days[:STEPS], days[1:], output="value")
    ends = [model(window).detach().numpy() for window in (days[:STEPS], days[1:])]
    target = int(explainer.moved().target[0])
    np.testing.assert_allclose(explainer.timeline(target).shares.sum(axis=0), (ends[1] - ends[0])[target], atol=1e-10)
    np.testing.assert_allclose(explainer.blame(target).shares.sum(axis=0), (ends[1] - ends[0])[target], atol=1e-10)


class OnStaticGraph(nn.Module):
    """The graph stays as it is, and features change: `edge_index` is one, features are a list."""

    def __init__(self):
        super().__init__()
        self.conv, self.over, self.head = GCNConv(NUM_FEATURES, WIDTH), nn.GRU(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, xs, edge_index, edge_weight=None):
        return self.head(self.over(torch.stack([self.conv(x, edge_index).relu() for x in xs]))[1][0])


def test_a_static_graph_with_features_that_change():
    days = random_dates(np.random.default_rng(0), STEPS + 1)
    torch.manual_seed(0)
    model = OnStaticGraph().double()
    with pytest.raises(InputError, match=r"the same in all \(got `edge_index`\)"):
        axiompath.Explainer(model, days[:STEPS], days[1:], output="value")
    for data in days:
        data.edge_index = days[0].edge_index
    explainer = axiompath.Explainer(model, days[:STEPS], days[1:], output="value")
    ends = [model([d.x for d in one], days[0].edge_index).detach().numpy() for one in (days[:STEPS], days[1:])]
    target = int(explainer.moved().target[0])
    np.testing.assert_allclose(explainer.timeline(target).shares.sum(axis=0), (ends[1] - ends[0])[target], atol=1e-10)


def test_models_without_paths_are_blamed_on_dated_changes():
    days = random_dates(np.random.default_rng(3), STEPS + 1)
    model = make("GConvGRU", 0)
    read = axiompath.Explainer(model, days[:STEPS], days[1:], output="value")
    run = axiompath.Explainer(model, days[:STEPS], days[1:], output="value", paths=False)
    target = int(read.moved().target[0])
    np.testing.assert_allclose(run.moved().news, read.moved().news, atol=1e-12)
    np.testing.assert_allclose(run.blame(target).shares, read.blame(target).shares, atol=1e-12)

"""Models that look back: three legs, the timeline, blame on dated changes, each against a literal twin."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import axiompath
from axiompath.errors import InputError
from axiompath.paths.exits import share_exits
from support.windows import CELLS, WIDTH, LiteralChanges, literal_exits, random_dates, revise, shapley

pytestmark = pytest.mark.filterwarnings("ignore::axiompath.errors.Notice")


def model_of(name, seed=0):
    torch.manual_seed(seed)
    cell, states = CELLS[name]
    return axiompath.unroll(cell(), head=nn.Linear(WIDTH, 2), state=(WIDTH,) * states).double()


def answer(model, window):
    return model(window).detach().numpy()


@pytest.mark.parametrize(("seed", "name"), list(enumerate(CELLS)))
@pytest.mark.parametrize("shift", [1, 2])
def test_the_timeline_sums_to_the_change_and_is_that_of_all_walks(seed, name, shift):
    rng = np.random.default_rng(seed)
    days = random_dates(rng, 4 + shift, weighted=name == "lstm")
    before, after = days[:3], days[shift : 3 + shift]
    model = model_of(name, seed)
    explainer = axiompath.Explainer(model, before, after, output="value")
    still = [*before[shift:], *[before[-1]] * shift]
    ends = [answer(model, window) for window in (before, still, after)]
    for target in explainer.moved().target.tolist()[:2]:
        found = explainer.timeline(target)
        assert found.completeness < 1e-10
        np.testing.assert_allclose(found.shares.sum(axis=0), (ends[2] - ends[0])[target], atol=1e-12)
        time = found.shares[(found.rows.leg == "time").to_numpy()].sum(axis=0)
        np.testing.assert_allclose(time, (ends[1] - ends[0])[target], atol=1e-12)
        change = explainer.change
        row = int(np.flatnonzero(change.root_ids == target)[0])
        held = explainer.session.opened[-1].read.held
        exits, literal = share_exits(held, row), literal_exits(change, row)
        ours = {}
        for v, u, share in zip(exits.receivers.tolist(), exits.senders.tolist(), exits.shares, strict=True):
            key = v, None if u < 0 else u
            ours[key] = ours.get(key, 0.0) + share
        for key in {*ours, *literal}:
            np.testing.assert_allclose(ours.get(key, 0.0), literal.get(key, 0.0) + np.zeros(2), atol=1e-10)


def test_three_legs_are_three_plain_calls():
    rng = np.random.default_rng(3)
    days = random_dates(rng, 4)
    model, later = model_of("gru"), revise(rng, days[2])
    before, after = days[:3], [days[1], later, days[3]]
    explainer = axiompath.Explainer(model, before, after, output="value")
    windows = before, [days[0], days[1], later], [days[1], later, later], after
    values = [answer(model, window) for window in windows]
    moved = explainer.moved()
    assert len(moved)
    for row in moved.itertuples():
        steps = [value[row.target, row.column] for value in values]
        np.testing.assert_allclose([row.revised, row.time, row.news], np.diff(steps), atol=1e-12)
        legs = explainer.timeline(row.target)
        assert legs.completeness < 1e-10
        np.testing.assert_allclose(legs.legs[["revised", "time", "news"]].sum(), steps[3] - steps[0], atol=1e-10)
        assert "repeat" in str(legs)
    assert set(explainer.changes().leg) == {"revised", "news"}


@pytest.mark.parametrize(("seed", "name"), [(4, "gru"), (5, "lstm"), (6, "gcn")])
@pytest.mark.parametrize("revised", [False, True])
def test_blame_is_the_formula_over_windows_made_thing_by_thing(seed, name, revised):
    rng = np.random.default_rng(seed)
    days = random_dates(rng, 5, weighted=name == "lstm", num_changes=1 + (not revised))
    model, before, after = model_of(name, seed), days[:3], days[2:5]
    if revised:
        after = [revise(rng, days[2]), *days[3:]]
    explainer = axiompath.Explainer(model, before, after, output="value")
    literal = LiteralChanges(before, after)
    table = explainer.changes()
    assert len(table[table.directed]) + 2 * (~table.directed).sum() == len(literal.players)
    target = int(explainer.moved().target[0])
    player_of = {}
    for row in table.itertuples():
        ends = [("node", row.src)] if row.kind == "features changed" else [("edge", row.src, row.dst)]
        ends += [] if row.directed else [("edge", row.dst, row.src)]
        player_of[row.id] = tuple((row.date, end) for end in ends)
    known = {}

    def value(some):
        happened = frozenset(one for number in some for one in player_of[number])
        if happened not in known:
            known[happened] = answer(model, literal.window(happened))[target]
        return known[happened]

    everything = set(player_of)
    np.testing.assert_allclose(value(everything), answer(model, after)[target], atol=1e-12)
    shares = shapley(value, list(player_of))
    found = explainer.blame(target, seconds=60)
    assert found.exact
    for ids, kind, share in zip(found.changes, found.kinds, found.shares, strict=True):
        if kind == "time passed":
            np.testing.assert_allclose(share, value(set()) - answer(model, before)[target], atol=1e-10)
        else:
            np.testing.assert_allclose(share, shares[ids[0]], atol=1e-9)
    np.testing.assert_allclose(
        found.shares.sum(axis=0), (answer(model, after) - answer(model, before))[target], atol=1e-10
    )
    some = list(player_of)[::2]
    np.testing.assert_allclose(explainer.what_if(target, apply=some), value(set(some)), atol=1e-12)


def test_time_alone_did_it_is_what_undo_says():
    """The oldest snapshot leaves the window, and nothing else happens."""
    first, *_ = random_dates(np.random.default_rng(0), 1)
    old, seed = first.clone(), 9  # with which a prediction flips
    old.x[0] += seed
    before = [Data(**{**one.to_dict(), "time": day}) for day, one in enumerate((old, first, first))]
    last = Data(**{**first.to_dict(), "time": 3})
    last.x = last.x.clone()
    last.x[1] += 1e-3
    explainer = axiompath.Explainer(model_of("gru", seed=seed), before, [before[1], before[2], last])
    moved = explainer.moved().query("class_before != class_after")
    found = explainer.undo(int(moved.target.iloc[0]))
    assert not found.restored
    assert "only the passing of time did this" in str(found)
    assert 'still="repeat"' in found.how


def test_every_meaning_of_still():
    rng = np.random.default_rng(8)
    days = random_dates(rng, 4)
    model, before, after = model_of("gru"), days[:3], days[1:]
    empty = days[2].clone()
    empty.edge_index = empty.edge_index[:, :0]
    for still, last in (
        ("empty", empty), ([days[0]], days[0]), ([*days[1:3], days[0]], days[0]), (lambda known, _: known[:1], days[0]),
    ):  # fmt: skip
        explainer = axiompath.Explainer(model, before, after, output="value", still=still)
        waited = answer(model, [days[1], days[2], last])
        target = int(explainer.moved().target[0])
        ends = [answer(model, before), waited, answer(model, after)]
        legs = explainer.timeline(target)
        assert legs.completeness < 1e-10
        column = int(explainer.moved().column[0])
        expected = [0.0, *np.diff([one[target, column] for one in ends])]
        np.testing.assert_allclose(legs.legs.to_numpy(), expected, atol=1e-10)
        none = explainer.what_if(target, apply=[])
        np.testing.assert_allclose(none, waited[target], atol=1e-12)


def test_paths_features_and_another_model():
    rng = np.random.default_rng(9)
    days = random_dates(rng, 4)
    new, old = model_of("gru", 1), model_of("gru", 2)
    explainer = axiompath.Explainer(new, days[:3], days[1:], output="value", model_before=old)
    moved = explainer.moved()
    ends = answer(old, days[:3]), answer(new, days[1:])
    for row in moved.itertuples():
        total = ends[1][row.target, row.column] - ends[0][row.target, row.column]
        np.testing.assert_allclose(row.revised + row.time + row.news + row.model, total, atol=1e-10)
    found = explainer.blame(int(moved.target[0]), seconds=30)
    np.testing.assert_allclose(found.shares.sum(axis=0), (ends[1] - ends[0])[moved.target[0]], atol=1e-10)
    assert {"model retrained", "time passed"} <= set(found.kinds)
    one = axiompath.Explainer(new, days[:3], days[1:], output="value", node_names=list("abcdefg"))
    answered = one.explain(int(one.moved().target[0]))
    assert "day 3" in str(answered)


@pytest.mark.parametrize(
    ("after", "options", "words"),
    [
        (lambda days: days[1:3], {}, "windows of equal length"),
        (lambda days: days[1], {}, "to be a list of snapshots"),
        (lambda days: [days[2], days[1], days[3]], {}, "oldest first"),
        (lambda days: [days[1], days[1], days[3]], {}, "every date once"),
        (lambda days: days[1:], {"still": "same"}, "Expected `still` to be"),
        (lambda days: days[1:], {"still": lambda known, dates: []}, "a snapshot for each of the 1 new dates"),
        (lambda days: days[1:], {"dates": [["a"], ["b"]]}, "Expected `dates` to be two lists"),
        (lambda days: [Data(x=one.x, edge_index=one.edge_index) for one in days[1:]], {}, "the date of every snapshot"),
        (lambda days: days[1:], {"links": [(0, 1)]}, "got `links`"),
    ],
)
def test_what_is_no_pair_of_windows_is_refused(after, options, words):
    days = random_dates(np.random.default_rng(0), 4)
    with pytest.raises(InputError, match=words):
        axiompath.Explainer(model_of("gcn"), days[:3], after(days), output="value", **options)

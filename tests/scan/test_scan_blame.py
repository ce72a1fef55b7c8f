"""Blame of a whole scan: changes toggled one by one, the facts on disk, and the shares that are made of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import axiompath
from axiompath.blame.toggles import can_toggle, make_toggling_graph, toggle
from axiompath.errors import InputError, Notice
from axiompath.scan import effects
from axiompath.scan.effects import Effects
from axiompath.scan.scan_blame import estimate_shares
from support.players import NODE_MODELS, evolve, open_model

TOGGLED = ["max", *(name for name in NODE_MODELS if name != "size_norm")]


def toggling_graph_of(explainer):
    session = explainer.session
    targets = explainer.moved().target.tolist()
    numbers = np.array([session.root(target).nodes[0] for target in targets])
    return make_toggling_graph(
        explainer.change.network, session.subsets.players(open_nodes=False), session.pair, numbers
    ), targets


@pytest.mark.parametrize("name", TOGGLED)
def test_a_change_toggled_is_what_the_model_says_of_it(name):
    weighted = name == "gcn"
    before, after = evolve(4, 7, num_nodes=12, symmetric=name != "gat", weighted=weighted)
    _, explainer = open_model(name, before, after, 2)
    graph, targets = toggling_graph_of(explainer)
    found = toggle(graph, np.arange(graph.num_players))
    assert len(np.unique(found.players * len(targets) + found.targets)) == len(found.players)
    for place, target in enumerate(targets):
        mine = np.flatnonzero(found.targets == place)
        rows = graph.rows[found.players[mine]]
        out = explainer.what_if(target, undo=rows[:, None])
        alone = explainer.what_if(target, apply=rows[:, None])
        np.testing.assert_allclose(found.left_out[mine], out, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.put_in[mine], alone, rtol=0, atol=1e-9)
        # What reaches the target and is not listed does nothing to it.
        others = np.setdiff1d(graph.rows, rows)
        whole = explainer.what_if(target, undo=[])
        if len(others):
            unlisted = explainer.what_if(target, undo=others[:, None])
            np.testing.assert_allclose(unlisted, np.tile(whole, (len(others), 1)), atol=1e-12)


@pytest.mark.parametrize("name", ["pooled", "link"])
def test_what_looks_further_cannot_be_toggled(name):
    before, after = evolve(4, 5)
    _, explainer = open_model(name, before, after, 2)
    assert not can_toggle(explainer.change.network)


def test_a_model_that_uses_sizes_is_asked_target_by_target(tmp_path):
    before, after = evolve(4, 5)
    _, explainer = open_model("size_norm", before, after, 2)
    with pytest.warns(Notice, match="The model itself"):
        scan = explainer.scan(tmp_path, min_kl=0, blame=3, workers=1, progress=False)
    assert scan.blame().num_targets == 3


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5))
def test_shares_are_means_completed_by_how_unsure_they_are(seed, num_changes, num_targets):
    rng = np.random.default_rng(seed)
    pairs = [(v, i) for v in range(num_targets) for i in range(num_changes) if rng.random() < 0.7]
    pairs += [(v, 0) for v in range(num_targets) if (v, 0) not in pairs]
    targets, changes = np.array(pairs).T
    out, alone = rng.normal(size=(2, len(pairs)))
    alone = np.where(rng.random(len(pairs)) < 0.3, out, alone)
    moved = rng.normal(size=num_targets)
    found = estimate_shares(Effects(targets, changes, out, alone, np.zeros(len(pairs), dtype=bool)), moved)
    for v in range(num_targets):
        mine = [e for e, pair in enumerate(pairs) if pair[0] == v]
        assert found[mine].sum() == pytest.approx(moved[v], abs=1e-9)
        means = [(out[e] + alone[e]) / 2 for e in mine]
        spread = [(out[e] - alone[e]) ** 2 for e in mine]
        left = moved[v] - sum(means)
        for e, mean, square in zip(mine, means, spread, strict=True):
            part = square / sum(spread) if sum(spread) else 1 / len(mine)
            assert found[e] == pytest.approx(mean + left * part, abs=1e-9)


@pytest.fixture(scope="module")
def scanned(tmp_path_factory):
    before, after = evolve(3, 9, num_nodes=20)
    _, explainer = open_model("gcn", before, after, 1)
    folder = tmp_path_factory.mktemp("scans")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effects, "PART_EDGES", 300)
        yield explainer, folder, explainer.scan(folder / "one", min_kl=0, blame=True, workers=1, progress=False)


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_scan_says_which_changes_moved_its_predictions(scanned):
    explainer, _, scan = scanned
    tally = scan.blame()
    frame = tally.to_frame()
    assert set(frame.change) <= set(explainer.changes().id)
    assert len(frame) > 2
    assert (np.diff(frame.moved) <= 0).all()
    # Against exact blame of every prediction.
    exact = pd.concat([explainer.blame(target).to_frame() for target in scan.moved().target])
    sums = exact.assign(moved=exact.share.abs()).groupby("change").moved.sum()
    apart = (frame.set_index("change").moved - sums).abs().sum()
    assert apart <= 0.2 * sums.sum()
    assert 0 < tally.error < 0.2
    assert tally.num_sampled == min(20, len(scan.moved()))
    told = tally.summary()
    assert "An estimate" in told
    assert f"Mean error: {tally.error:.2g}" in told
    restored = {
        row.change: sum(
            np.argmax(explainer.what_if(target, undo=[row.change])) == before
            for target, before, after in scan.moved()[["target", "class_before", "class_after"]].to_numpy()
            if before != after
        )
        for row in frame.itertuples()
    }
    assert frame.set_index("change").restored.to_dict() == restored


def test_groups_sum_the_shares_of_their_changes(scanned):
    explainer, _, scan = scanned
    by_kind = scan.blame(by="kind").to_frame()
    assert set(by_kind.group) <= set(explainer.changes().kind.astype(str))
    whole = scan.blame(by=lambda row: "all").to_frame()
    assert whole.num_changes.tolist() == [len(explainer.changes())]
    assert whole.moved[0] == pytest.approx(scan.blame().total)
    with pytest.raises(InputError, match="Expected `by` to be a column"):
        scan.blame(by="colour")


@pytest.mark.system
def test_any_number_of_workers_and_any_interruption_give_the_same_bytes(scanned):
    explainer, folder, scan = scanned
    assert (scan.folder / "blame" / "facts-000001.parquet").exists()
    later = folder / "later"
    plain = explainer.scan(later, min_kl=0, workers=2, progress=False)
    with pytest.raises(InputError, match="Expected a scan with blame"):
        plain.blame()
    explainer.scan(later, min_kl=0, blame=True, workers=2, progress=False)
    assert files_of(later) == files_of(scan.folder)
    (later / "blame" / "facts-000000.parquet").write_bytes(b"damaged")
    with pytest.raises(InputError, match="as the scan wrote it"):
        axiompath.read_scan(later).blame()
    explainer.scan(later, min_kl=0, blame=True, progress=False)
    assert files_of(later) == files_of(scan.folder)
    with pytest.raises(InputError, match="Expected blame=True, as in the scan"):
        explainer.scan(later, min_kl=0, blame=3, progress=False)


def test_of_how_many_predictions_can_be_said(scanned):
    explainer, folder, _ = scanned
    some = explainer.scan(folder / "some", min_kl=0, blame=3, workers=1, progress=False).blame()
    assert some.num_targets == 3
    with pytest.raises(InputError, match="1 or more"):
        explainer.scan(folder / "none", min_kl=0, blame=0, progress=False)


@pytest.mark.parametrize("name", ["pooled", "link"])
def test_graphs_and_links_too(name, tmp_path):
    before, after = evolve(3, 5, num_nodes=12)
    _, explainer = open_model(name, before, after, 1)
    tally = explainer.scan(tmp_path, min_kl=0, blame=True, workers=1, progress=False).blame()
    assert len(tally.to_frame()) > 0


def test_a_scan_in_which_nothing_moved_enough_has_no_shares(tmp_path):
    before, after = evolve(4, 7)
    _, explainer = open_model("pooled", before, after, 2)
    scan = explainer.scan(tmp_path / "scan", min_kl=1e9, blame=True, workers=1, progress=False)
    assert len(scan) == 0
    tally = scan.blame()
    assert tally.num_targets == 0
    assert (tally.to_frame().moved == 0).all()

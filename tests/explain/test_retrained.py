"""Data or model: what changed is split between a retrained model and the graph, exactly, and path by path."""

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import special
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCN

import axiompath
from axiompath.blame.undo import Undo
from axiompath.change.comparison import find_change
from axiompath.cli.demo import evolve_karate
from axiompath.errors import InputError
from axiompath.explain.explanation import Explanation
from axiompath.explain.walks import count_all_paths, walk_rows
from axiompath.graphs.labels import ABSENT
from axiompath.metrics import kl_divergence
from axiompath.network.layers import run_network
from axiompath.scan.effects import Effects
from axiompath.sequences.story import Story
from support.effort import examples
from support.evolutions import aligned, any_networks, gcn_models, graph_pairs
from support.players import brute, evolve, make
from support.references import LiteralAttribution, literal_causes
from support.scans import scan_and_compare

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
PAIRS = (
    ("gcn", "gcn"),
    ("gcn", "gcn3"),
    ("gcn3", "gcn"),
    ("sage", "gat"),
    ("gin", "gcn"),
    ("link", "link"),
    ("pooled", "pooled"),
)


def opened(names, before, after, **options):
    """The old model, the new one, and an Explainer of both."""
    old, new = make(names[0], 1), make(names[1], 2)
    if names[0] == "link":
        options |= {"links": [pair_in(before, after)], "output": "binary"}
    return old, new, axiompath.Explainer(new, before, after, model_before=old, **options)


def pair_in(before, after):
    """Two nodes that both graphs have."""
    shared = np.intersect1d(before.n_id.numpy(), after.n_id.numpy())
    return int(shared[0]), int(shared[-1])


def first_target(explainer):
    return 0 if explainer.unit == "graph" else explainer.moved().target.tolist()[0]


def four_answers(explainer, target):
    """f0(before), f0(after), f1(before), f1(after), each model by itself."""
    new = explainer.change
    row = explainer.session.locate([target])[1][0]
    sides = [(one.before_pass, one.after_pass) for one in new.by_model]
    return [run.logits[row] for side in sides for run in side]


def under(network, before, after):
    return find_change(network, before, after, run_network(network, before), run_network(network, after))


@settings(relaxed, max_examples=examples(60))
@given(any_networks(), any_networks(), graph_pairs(max_nodes=5))
def test_paths_under_two_networks_equal_two_literal_twins(old, new, graphs):
    """Of any depth: the mean of both twins' contributions, a path that both have being one row."""
    before, after = aligned(*graphs)
    change = replace(under(new, before, after), earlier=(under(old, before, after),))
    targets = np.flatnonzero(before.present & after.present)
    listed = walk_rows(change, targets)
    found, causes_of = listed.table, listed.causes
    twins = [LiteralAttribution(network, before, after) for network in (old, new)]
    size = max(old.num_positions, new.num_positions)
    for i, target in enumerate(targets.tolist()):
        expected, causes = {}, {}
        for twin in twins:
            for path, share in twin(target).items():
                padded = (ABSENT,) * (size - len(path)) + path
                expected[padded] = expected.get(padded, 0) + 0.5 * share
            for cause, share in literal_causes(twin).items():
                causes[cause] = causes.get(cause, 0) + 0.5 * share
        rows = found.rows_of(i)
        assert {tuple(path) for path in found.paths[rows].tolist()} == set(expected)
        scale = 1 + max(
            np.abs(side.logits).max() for one in change.by_model for side in (one.before_pass, one.after_pass)
        )
        for path, share in zip(found.paths[rows].tolist(), found.contributions[rows], strict=True):
            np.testing.assert_allclose(share, expected[tuple(path)], atol=1e-9 * scale)
        np.testing.assert_allclose(causes_of[i, :-1], list(causes.values()), atol=1e-9 * scale)
        whole = change.logits_after[target] - change.logits_before[target]
        np.testing.assert_allclose(causes_of[i].sum(axis=0), whole, atol=1e-9 * scale)
        total = found.contributions[rows].sum(axis=0) + causes_of[i, -1]
        np.testing.assert_allclose(total, whole, atol=1e-9 * scale)
        assert count_all_paths(change)[target] <= rows.stop - rows.start


@settings(relaxed, max_examples=examples(60))
@given(gcn_models(), gcn_models(), graph_pairs(), st.sampled_from(["sufficiency", "necessity"]))
def test_mixtures_are_complete(old, new, graphs, objective):
    explainer = axiompath.Explainer(new, *graphs, model_before=old)
    targets = explainer.moved().target.tolist()
    for found, e in zip(
        explainer.attribute_many(targets),
        explainer.explain_many(targets, 3, objective=objective, progress=False),
        strict=True,
    ):
        scale = 1 + max(np.abs(e.logits_before).max(), np.abs(e.logits_after).max())
        assert max(found.residual, e.completeness) < 1e-9 * scale
        assert np.abs(sum(e.causes.values()) - (e.logits_after - e.logits_before)).max() < 1e-9 * scale
        if e.retrained is not None:
            total = e.contributions.sum(axis=0) + e.model_share
            ends = (e.logits_after, e.logits_before + total)
            if objective == "necessity":
                ends = (e.logits_before, e.logits_after - total)
            assert e.kl_residual == pytest.approx(float(kl_divergence(*ends)), abs=1e-9)
            assert e.kl_bound <= e.kl_residual + 1e-12


@pytest.mark.parametrize("names", PAIRS)
def test_shares_of_model_and_data_are_those_of_two_players(names):
    _, _, explainer = opened(names, *evolve(3, 5))
    target = first_target(explainer)
    e = explainer.explain(target, 4)
    f0_before, f0_after, f1_before, f1_after = four_answers(explainer, target)
    np.testing.assert_allclose(e.logits_before, f0_before)
    np.testing.assert_allclose(e.logits_after, f1_after)
    np.testing.assert_allclose(e.model_share, 0.5 * (f1_after - f0_after + f1_before - f0_before), atol=1e-12)
    np.testing.assert_allclose(e.data_share, 0.5 * (f0_after - f0_before + f1_after - f1_before), atol=1e-12)
    np.testing.assert_allclose(e.interaction, f1_after - f0_after - f1_before + f0_before, atol=1e-12)
    blame = explainer.blame(target, by="model", interactions=True)
    place = blame.groups.index("model retrained")
    np.testing.assert_allclose(blame.shares[place], e.model_share, atol=1e-9)
    np.testing.assert_allclose(blame.shares[1 - place], e.data_share, atol=1e-9)
    np.testing.assert_allclose(blame.interactions[0, 1], e.interaction, atol=1e-9)
    assert "The model accounts for" in blame.summary()
    assert set(e.causes) == {"gained", "lost", "reweighted", "feature", "model"}


@pytest.mark.parametrize(
    ("names", "by"), [*((names, None) for names in PAIRS), *((names, "kind") for names in PAIRS[:2])]
)
def test_blame_equals_brute_force_owen_values_on_literal_graphs(names, by):
    """Every order in which neither the data nor one of its groups is interrupted, with the users' own models."""
    done = 0
    for seed in range(6):
        before, after = evolve(seed, 4)
        old, new, explainer = opened(names, before, after)
        target = first_target(explainer)
        changes = explainer.changes()
        assert changes.kind.iloc[-1] == "model retrained"
        rows = changes.id.tolist()[:-1]
        if not 2 <= len(rows) <= 5:
            continue
        values = [
            brute(model, before, after, changes.iloc[:-1].astype({"src": "int64"}), rows, target)
            for model in (old, new)
        ]
        label = {row: 0 if by is None else str(changes.kind[row]) for row in rows}
        expected, count = np.zeros((len(rows) + 1, len(values[0][frozenset()]))), 0
        for order in itertools.permutations(range(len(rows))):
            seen = [label[rows[i]] for i in order]
            if len(list(itertools.groupby(seen))) > len(set(seen)):
                continue
            for model_first in (True, False):
                count += 1
                players = [len(rows), *order] if model_first else [*order, len(rows)]
                here, model = frozenset(), 0
                for player in players:
                    there, now = (here, 1) if player == len(rows) else (here | {player}, model)
                    expected[player] += values[now][there] - values[model][here]
                    here, model = there, now
        expected /= count
        blame = explainer.blame(target, by=by, opened=by is not None)
        found = np.zeros_like(expected)
        for (number,), share in zip(blame.changes, blame.shares, strict=True):
            found[number] = share
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert blame.exact
        assert blame.residual < 1e-9
        e = explainer.explain(target, 2)
        data = np.array([kind != "model retrained" for kind in blame.kinds])
        np.testing.assert_allclose(blame.shares[data].sum(axis=0), e.data_share, atol=1e-9)
        assert math.isclose(blame.prob_shares.sum(), blame.predicted_after - blame.predicted_before, abs_tol=1e-9)
        done += 1
        if done == 2:
            return
    pytest.fail("too few evolutions with two to five changes")


def test_other_weights_alone_are_all_the_models():
    before, _ = evolve(3, 0, kinds=())
    _, _, explainer = opened(("gcn", "gcn"), before, before.clone())
    moved = explainer.moved()
    assert len(moved) == 9
    assert (moved.num_paths == 0).all()
    target = int(moved.target.iloc[0])
    e = explainer.explain(target, 5)
    np.testing.assert_allclose(e.model_share, e.logits_after - e.logits_before, atol=1e-12)
    assert len(e.paths) == 0
    assert e.explained == pytest.approx(1.0)  # the model's share is a row that every choice includes
    assert "nothing that reaches it changed in the graph" in e.summary()
    blame = explainer.blame(target)
    assert blame.kinds == ("model retrained",)
    assert explainer.changes().kind.tolist() == ["model retrained"]
    assert explainer.blame(target, by="model", interactions=True).interactions.shape == (1, 1, 3)


def test_the_same_weights_are_as_if_there_were_one_model():
    before, after = evolve(3, 5)
    same, alone = (
        axiompath.Explainer(make("gcn", 1), before, after, model_before=old) for old in (make("gcn", 1), None)
    )
    assert same.moved().equals(alone.moved())
    assert same.changes().equals(alone.changes())
    target = int(alone.moved().target.iloc[0])
    assert same.explain(target, 3).to_dict() == alone.explain(target, 3).to_dict()
    assert (same.explain(target, 3).model_share == 0).all()
    assert same.blame(target).to_dict() == alone.blame(target).to_dict()
    with pytest.raises(InputError, match="Expected another model in `model_before`"):
        same.blame(target, by="model")


def test_moved_compares_what_was_predicted_with_what_is():
    before, after = evolve(3, 5)
    old, new, explainer = opened(("gcn", "gcn3"), before, after)
    with torch.no_grad():
        f0 = old(before.x, before.edge_index).numpy()
        f1 = new(after.x, after.edge_index).numpy()
    for row in explainer.moved().itertuples():
        i, j = (np.flatnonzero(data.n_id.numpy() == row.target)[0] for data in (before, after))
        assert (row.class_before, row.class_after) == (f0[i].argmax(), f1[j].argmax())
        assert row.kl == pytest.approx(float(kl_divergence(f1[j], f0[i])), abs=1e-9)


def test_replay_is_reported_for_each_model_by_itself():
    """All paths undone, the new model ends at its own answer on `before`, not at the old model's."""
    before, after = evolve(3, 5)
    _, _, explainer = opened(("gcn", "sage"), before, after)
    target = int(explainer.moved().target.iloc[0])
    paths = explainer.attribute(target).paths
    f0_before, f0_after, f1_before, f1_after = four_answers(explainer, target)
    np.testing.assert_allclose(explainer.replay(target, paths, under="after"), f1_before, atol=1e-9)
    np.testing.assert_allclose(explainer.replay(target, paths, under="before"), f0_before, atol=1e-9)
    np.testing.assert_allclose(explainer.replay(target, paths, add=True, under="before"), f0_after, atol=1e-9)
    assert np.abs(f1_before - f0_before).max() > 1e-3
    e = explainer.explain(target, len(paths))
    assert np.abs([*e.retrained.fidelity_minus, *e.retrained.fidelity_plus]).max() < 1e-9
    some = explainer.explain(target, 3)
    undone = explainer.replay(target, some.paths)
    expected = float(kl_divergence(undone, f1_before) / kl_divergence(f1_after, f1_before))
    assert some.fidelity_minus == some.retrained.fidelity_minus[1] == pytest.approx(expected, abs=1e-9)
    assert some.fidelity_plus == some.retrained.fidelity_plus[0]
    assert "the old model " in some.replayed
    with pytest.raises(InputError, match="Expected `under` to be before or after"):
        explainer.replay(target, paths, under="now")


def test_undoing_may_mean_the_model():
    before, after = evolve(3, 5)
    _, _, explainer = opened(("gcn", "gcn3"), before, after)
    flips = [row.target for row in explainer.moved().itertuples() if row.class_before != row.class_after]
    number = int(explainer.changes().id.iloc[-1])
    found = explainer.undo(flips[0])
    assert found.restored
    assert "model retrained" in found.kinds
    assert "model retrained" in found.summary()
    without = explainer.what_if(flips[0], undo=[number])
    _, f0_after, f1_before, _ = four_answers(explainer, flips[0])
    np.testing.assert_allclose(without, f0_after, atol=1e-9)
    np.testing.assert_allclose(explainer.what_if(flips[0], apply=[number]), f1_before, atol=1e-9)
    again = Undo.from_dict(json.loads(json.dumps(replace(found, target=int(found.target)).to_dict())))
    assert again.kinds == found.kinds
    kept = explainer.undo(flips[0], keep=[number], seconds=1)
    assert "model retrained" not in kept.kinds


def test_the_model_may_be_among_the_changes_that_are_enough():
    before, after = evolve(3, 5)
    _, _, explainer = opened(("gcn", "gcn3"), before, after)
    number, seen = int(explainer.changes().id.iloc[-1]), 0
    for target in explainer.moved().target.tolist():
        for found in (explainer.enough(target), explainer.enough(target, budget=2)):
            logits = explainer.what_if(target, apply=found.changes)
            np.testing.assert_allclose(found.logits, logits, atol=1e-9)
            assert axiompath.Enough.from_dict(json.loads(json.dumps(found.to_dict()))).summary() == found.summary()
            if number in found.changes:
                seen += 1
                assert "model retrained" in found.summary()
    assert seen > 2


def test_models_that_no_reader_understands_are_told_from_the_data_too():
    before, after = evolve(3, 5)
    old, new, read = opened(("gcn", "gcn3"), before, after)
    unread = axiompath.Explainer(new, before, after, model_before=old, paths=False)
    assert unread.changes().kind.tolist() == read.changes().kind.tolist()
    moved = [explainer.moved().set_index("target").kl.sort_index() for explainer in (read, unread)]
    np.testing.assert_allclose(moved[0].to_numpy(), moved[1].to_numpy(), atol=1e-9)
    for target in read.moved().target.head(3).tolist():
        expected, found = read.blame(target), unread.blame(target)
        assert dict(zip(found.changes, found.kinds, strict=True)) == dict(
            zip(expected.changes, expected.kinds, strict=True)
        )
        np.testing.assert_allclose(np.sort(found.prob_shares), np.sort(expected.prob_shares), atol=1e-9)
        assert found.residual < 1e-9
    assert "model before" in found.origin.digests


def test_scans_and_files_say_the_same(tmp_path):
    before, after = evolve(3, 5)
    _, _, explainer = opened(("gcn", "gcn3"), before, after)
    scan = scan_and_compare(explainer, tmp_path / "scan", 4)
    for e in scan:
        e.save(tmp_path / "e.json")
        again = Explanation.load(tmp_path / "e.json")
        assert again.to_dict() == e.to_dict()
        assert again.summary() == e.summary()
    assert "model before" in scan.origin.digests
    values = e.to_dict()
    with pytest.raises(InputError, match="`retrained` should have field `logits_after`"):
        Explanation.from_dict({**values, "retrained": {"logits_before": [1.0]}})
    with pytest.raises(InputError, match="`causes` should be those known"):
        Explanation.from_dict({**values, "retrained": None})


def test_stories_take_a_model_for_each_snapshot(tmp_path):
    before, after = evolve(3, 5)
    models = [make("gcn", 1), make("gcn3", 2), make("gcn", 3), make("gcn", 3)]
    snapshots = [before, after, before, after]
    told = axiompath.build_stories(models, snapshots)
    assert len(told) > 0
    for story in told:
        assert story.residual < 1e-9
        assert all("model" in causes for causes in story.causes)
        assert (story.causes[2]["model"] == 0).all()  # the same weights again
        assert "from the retrained model" in story.summary()
        assert "model" in story.to_frame()
        story.save(tmp_path / "story.json")
        assert Story.load(tmp_path / "story.json").summary() == story.summary()
    place = int(np.flatnonzero(after.n_id.numpy() == told[0].target)[0])
    with torch.no_grad():
        np.testing.assert_allclose(told[0].logits[1], models[1](after.x, after.edge_index)[place].numpy(), atol=1e-9)
    assert {"model 0", "model 3", "snapshot 3"} <= set(told[0].origin.digests)
    page = axiompath.report.build_report(told)
    assert re.search(r'"kinds":\s*\[[^\]]*"model"', page)
    with pytest.raises(InputError, match="Expected a model for each of the 4 snapshots"):
        axiompath.build_stories(models[:2], snapshots)
    scans = list(axiompath.scan_sequence(models, snapshots, tmp_path / "scans", workers=1, progress=False))
    assert [("model before" in scan.origin.digests) for scan in scans] == [True, True, False]


def test_reports_and_pictures_tell_the_models_part(tmp_path):
    before, after = evolve(3, 5)
    _, _, explainer = opened(("gcn", "gcn3"), before, after)
    page = axiompath.report.build_report(explainer, budgets=(0, 3))
    assert "The model was retrained" in page
    assert '"retrained":true' in page
    assert '"model":[' in page
    e = explainer.explain(int(explainer.moved().target.iloc[0]), 3)
    labels = [text.get_text() for text in e.plot().get_yticklabels()]
    assert "the retrained model" in labels
    assert e.to_pyg().edge_mask.shape[0] == after.edge_index.shape[1]


@pytest.mark.parametrize(
    ("names", "by"), [(("gcn", "gcn3"), "edge"), (("sage", "gat"), "layer_edge"), (("pooled", "pooled"), "edge")]
)
def test_edges_under_two_models_are_the_mean_of_either_and_complete_with_the_models_share(names, by):
    before, after = evolve(3, 5)
    old, new, explainer = opened(names, before, after)
    target = first_target(explainer)
    found = explainer.explain(target, 10**4, by=by)
    assert found.completeness < 1e-9
    answers = four_answers(explainer, target)
    model = 0.5 * (answers[3] - answers[1] + answers[2] - answers[0])
    np.testing.assert_allclose(found.model_share, model, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.contributions.sum(axis=0) + model, answers[3] - answers[0], rtol=0, atol=1e-9)
    sums: dict[tuple[int, ...], np.ndarray] = {}
    for one in (axiompath.Explainer(network, before, after).explain(target, 10**4, by=by) for network in (old, new)):
        rows = np.column_stack([one.layers, one.edges, np.array(one.kinds) == "feature"]).tolist()
        for row, share in zip(rows, one.contributions, strict=True):
            sums[tuple(row)] = sums.get(tuple(row), 0.0) + 0.5 * share
    rows = np.column_stack([found.layers, found.edges, np.array(found.kinds) == "feature"]).tolist()
    assert {tuple(row) for row in rows} == {*sums}
    for row, share in zip(rows, found.contributions, strict=True):
        np.testing.assert_allclose(share, sums[tuple(row)], rtol=0, atol=1e-12)
    # All of them put in: each model comes to its own answer.
    np.testing.assert_allclose(found.logits_added, answers[1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.logits_undone, answers[2], rtol=0, atol=1e-9)
    few = explainer.explain(target, 2, by=by)
    assert "with the model's share" in few.summary()
    assert axiompath.Explanation.from_dict(few.to_dict()).summary() == replace(few, ask=None).summary()


@pytest.mark.long
def test_a_scan_with_blame_has_the_model_among_the_changes(tmp_path):
    """The model's share is its own; of the data's changes the terms are means under either model."""
    before, after = evolve(3, 5)
    _, _, explainer = opened(("gcn", "gcn3"), before, after)
    scan = explainer.scan(tmp_path / "scan", min_kl=0, progress=False, workers=1, blame=True)
    table = pq.read_table(scan.folder / "blame" / "facts-000000.parquet")
    effects = Effects(*(column.to_numpy() for column in table.columns))
    model = int(explainer.changes().id.iloc[-1])
    for place, target in enumerate(pq.read_table(scan.folder / "blamed.parquet").column("target").to_pylist()):
        blame = explainer.blame(target)
        shares = dict(zip((ids[0] for ids in blame.changes), blame.prob_shares, strict=True))
        mine = np.flatnonzero(effects.target == place)
        assert set(shares) == set(effects.change[mine])

        def told(undo, blame=blame, target=target):
            return special.softmax(explainer.what_if(target, undo=undo))[blame.class_after]

        for pair in mine.tolist():
            number = int(effects.change[pair])
            if number == model:
                assert effects.left_out[pair] == effects.put_in[pair] == pytest.approx(shares[model], abs=1e-9)
                assert effects.restores[pair] == (
                    np.argmax(explainer.what_if(target, undo=[model])) == blame.class_before != blame.class_after
                )
                continue
            gone = [told(besides) - told([number, *besides]) for besides in ([], [model])]
            assert effects.left_out[pair] == pytest.approx(np.mean(gone), abs=1e-9)
    tally = scan.blame()
    assert "model retrained" in tally.to_frame().kind.tolist()
    assert tally.num_changes == len(explainer.changes())
    assert tally.error < 0.3


def test_what_cannot_be_combined_says_so(tmp_path):
    before, after = evolve(3, 5)
    _, new, explainer = opened(("gcn", "gcn3"), before, after)
    target = int(explainer.moved().target.iloc[0])
    with pytest.raises(InputError, match="where the model was retrained \\(got 'gnnlrp'"):
        explainer.explain(target, 3, "gnnlrp")
    with pytest.raises(InputError, match="where the model was retrained \\(got 'grad'"):
        explainer.scan(tmp_path / "rival", 3, "grad", progress=False)
    with pytest.raises(InputError, match=r"got depth='auto', which is of the paths of one model.*the mean of both"):
        explainer.explain(target, depth="auto")
    with pytest.raises(InputError, match="two models of one depth for edges of single layers"):
        explainer.explain(target, by="layer_edge")
    with pytest.raises(InputError, match="Expected interactions only of data and model"):
        explainer.blame(target, interactions=True)
    with pytest.raises(InputError, match=r"3 columns of classes for each node \(got 5 columns"):
        axiompath.Explainer(new, before, after, model_before=GCN(4, 6, 2, 5).double(), paths=False)
    with pytest.raises(InputError, match="Expected `model_before` to predict what the model does, 3 columns"):
        axiompath.Explainer(new, before, after, model_before=GCN(4, 6, 2, 5).double())
    with pytest.raises(InputError, match="3 columns of classes for each graph"):
        axiompath.Explainer(new, before, after, model_before=make("pooled"))
    little = axiompath.Explainer(new, before, after, model_before=make("gcn"), memory=1000)
    with pytest.raises(MemoryError, match=r"explain it under each model by itself, Explainer\(model, before, after\)"):
        little.explain(target, 3)
    stored = []
    for name in ("before", "after"):
        axiompath.save_graph(tmp_path / f"{name}.npz", evolve(3, 0, kinds=())[0])
        stored.append(axiompath.convert_graph(tmp_path / f"{name}.npz", tmp_path / name))
    with pytest.raises(InputError, match="Expected graphs in memory to go with `model_before`"):
        axiompath.Explainer(new, *stored, model_before=make("gcn"))


def test_the_command_line_takes_the_model_before(call, tmp_path):
    before = KarateClub()[0]
    after = evolve_karate(before)
    arguments = {"in_channels": 34, "hidden_channels": 16, "num_layers": 2, "out_channels": 4}
    files = [tmp_path / "before.npz", tmp_path / "after.npz"]
    for data, file in zip((before, after), files, strict=True):
        axiompath.save_graph(file, data)
    torch.manual_seed(0)
    new, old = (axiompath.save_model(GCN(**arguments), tmp_path / name, arguments) for name in ("new", "old"))
    for command, expected in (("explain", "The model was retrained"), ("blame", "model retrained")):
        code, text, _ = call(command, new, *files, "--model-before", old, "-t", 8)
        assert code == 0
        assert expected in " ".join(text.split())
    code, text, _ = call("story", new, *files, "--model-before", old, "-t", 8)
    assert code == 0
    assert "from the retrained model" in " ".join(text.split())
    code, _, error = call("story", new, *files, files[0], "--model-before", old)
    assert code == 2
    assert "Expected two graphs to go with --model-before" in " ".join(error.split())

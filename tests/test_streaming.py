"""Targets with more paths than memory: piece by piece they give what they give as a whole."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from axiompath.change.comparison import find_change
from axiompath.explain import answer, walks
from axiompath.explain.candidates import Stream
from axiompath.explain.question import Question
from axiompath.network.layers import run_network
from axiompath.paths.attribution import attribute_paths, estimate_step_bytes
from axiompath.paths.walk import count_paths, first_steps, highest_hop, walk_paths
from axiompath.report.movers import find_movers
from axiompath.scan import plan, work
from evolutions import aligned, any_networks, graph_pairs
from test_scan import NO_NAMES, content, evolving_graph, peak_of

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@settings(relaxed, max_examples=200)
@given(any_networks(), graph_pairs(max_nodes=6), st.integers(1, 3))
def test_pieces_hold_every_path_once(network, graphs, width):
    before, after = aligned(*graphs)
    change = find_change(network, before, after, run_network(network, before), run_network(network, after))
    if highest_hop(change) == change.lowest_hop:
        return
    for target in np.flatnonzero((count_paths(change) > 0) & before.present & after.present):
        found = walk_paths(change, np.array([target]))
        shares = attribute_paths(change, found)
        whole = dict(zip(map(tuple, found.paths.tolist()), shares.contributions, strict=True))
        kinds = dict(zip(map(tuple, found.paths.tolist()), shares.kinds, strict=True))
        num_steps = len(first_steps(change, np.array([target])).node)
        if num_steps == 0:
            continue  # its own bias alone: nothing to cut
        bounds = np.unique([*range(0, num_steps, width), num_steps])
        stream = Stream(change, target, bounds)
        seen = []
        for piece in stream.pieces():
            paths = map(tuple, piece.paths.tolist())
            for path, value, kind in zip(paths, piece.contributions, piece.kinds, strict=True):
                np.testing.assert_allclose(value, whole[path], rtol=0, atol=1e-12 * max(1.0, np.abs(value).max()))
                assert kind == kinds[path]
                seen.append(path)
        assert sorted(seen) == sorted(whole)
        assert stream.num_paths == len(whole)
        scale = max([1.0, *(np.abs(value).max() for value in whole.values())])
        np.testing.assert_allclose(stream.causes, shares.causes[0], rtol=0, atol=1e-11 * scale * len(whole))
        assert len(estimate_step_bytes(change, first_steps(change, np.array([target])))) == num_steps


@pytest.fixture(scope="module")
def explainer():
    torch.manual_seed(0)
    return axiompath.Explainer(GCN(8, 16, 2, 4).eval(), *evolving_graph(400, 40))


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(walks, "PIECE_BYTES", 20e3)
    monkeypatch.setattr(answer, "POOL_PATHS", 30)


def both_ways(explainer, target, question):
    change = explainer.change
    ((bounds, _),) = walks.cut_pieces(change, np.array([target]))
    assert len(bounds) > 3
    batches = walks.Batch(np.array([target])), walks.Batch(np.array([target]), bounds)
    sources = (answer.open_batch(change, batch) for batch in batches)
    return [answer.answer(change, source, [question], NO_NAMES)[0] for source in sources]


def largest(explainer, number):
    return np.argsort(-explainer.num_paths)[:number].tolist()


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("objective", ["sufficiency", "necessity"])
@pytest.mark.parametrize("method", ["linear", "topk", "deeplift", "gnnlrp", "grad"])
def test_rankings_choose_what_they_choose_of_the_whole(explainer, method, objective):
    for target in largest(explainer, 6):
        whole, streamed = both_ways(explainer, target, Question(7, method, objective))
        assert {*map(tuple, whole.paths.tolist())} == {*map(tuple, streamed.paths.tolist())}
        assert streamed.kl_residual == pytest.approx(whole.kl_residual, abs=1e-12)
        assert streamed.kl_bound == pytest.approx(whole.kl_bound, abs=1e-9)
        assert streamed.num_paths == whole.num_paths
        for kind, value in whole.causes.items():
            np.testing.assert_allclose(streamed.causes[kind], value, atol=1e-12)
        assert streamed.fidelity_minus == pytest.approx(whole.fidelity_minus, abs=1e-9)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("objective", ["sufficiency", "necessity"])
@pytest.mark.parametrize("method", ["convex", "exact"])
def test_the_relaxation_loses_nothing(explainer, method, objective, at_most):
    for target in largest(explainer, 6):
        for budget in (1, 5, 12):
            whole, streamed = both_ways(explainer, target, Question(budget, method, objective, at_most))
            assert "left" not in streamed.status
            # The optimum of the relaxation over all paths: equal from a pool and from the whole.
            assert streamed.kl_bound == pytest.approx(whole.kl_bound, abs=2e-8)
            assert streamed.kl_residual >= streamed.kl_bound - 1e-12
            assert streamed.kl_residual <= whole.kl_residual + 1e-6 or method == "convex"


@pytest.fixture(scope="module", params=["labels", "value"])
def apart(request):
    torch.manual_seed(0)
    return axiompath.Explainer(GCN(8, 16, 2, 4).eval(), *evolving_graph(400, 40), output=request.param)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("objective", ["sufficiency", "necessity"])
@pytest.mark.parametrize("method", ["convex", "exact", "linear", "topk", "deeplift"])
def test_labels_and_values_are_streamed_as_classes_are(apart, method, objective):
    output, change = apart.change.output, apart.change
    for target in largest(apart, 3):
        for at_most in (False, True) if method in ("convex", "exact") else (False,):
            whole, streamed = both_ways(apart, target, Question(6, method, objective, at_most))
            left = 2e-8 * max(whole.kl, whole.kl_residual)
            assert "left" not in streamed.status
            assert streamed.kl_bound == pytest.approx(whole.kl_bound, abs=left)
            assert streamed.kl_residual >= streamed.kl_bound - left
            if method not in ("convex", "exact"):
                assert {*map(tuple, whole.paths.tolist())} == {*map(tuple, streamed.paths.tolist())}
            # The divergence is that of the output, not that of classes.
            before, after = change.before_pass.logits[target], change.after_pass.logits[target]
            total = streamed.contributions.sum(axis=0)
            ends = (after, before + total) if objective == "sufficiency" else (before, after - total)
            assert streamed.kl_residual == pytest.approx(float(output.divergence(*ends)), rel=1e-9, abs=1e-18)


@pytest.fixture(scope="module")
def hub():
    """A node with 360,000 altered paths."""
    torch.manual_seed(0)
    wide = 600
    inner, outer = np.arange(1, 1 + wide), np.arange(1 + wide, 1 + 2 * wide)
    edges = np.stack(
        [np.concatenate([inner, np.tile(outer, wide)]), np.concatenate([np.zeros(wide, int), np.repeat(inner, wide)])]
    )
    after = np.concatenate([edges, [[1 + wide], [0]]], axis=1)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(1 + 2 * wide, 8)).astype(np.float32))
    graphs = [Data(x=x, edge_index=torch.from_numpy(e)) for e in (edges, after)]
    return axiompath.Explainer(GCN(8, 16, 2, 8).eval(), *graphs)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("method", ["convex", "exact", "linear"])
def test_streaming_stays_within_its_memory(hub, tmp_path, method, monkeypatch):
    monkeypatch.setattr(walks, "PIECE_BYTES", 5e6)
    question = Question(10, method)
    counts = plan.Counts(hub.num_paths, hub.num_bytes)
    made = plan.make_plan(hub.change, counts, question, plan.Thresholds(0.0), 40e6, NO_NAMES)
    (place,) = made.walks.pieces
    load = work.Workload(
        work.share_change(hub.change), question, made.walks, made.indptr, made.digest, tmp_path, NO_NAMES
    )
    (part,) = [p for p in range(made.num_parts) if place in load.places_of(p)]
    assert made.walks.sizes[place] < hub.num_bytes[0] / 3
    assert peak_of(load, part) <= load.need_of(part)


def test_a_scan_streams_what_does_not_fit_and_says_so(hub, tmp_path, monkeypatch):
    explainer = hub
    assert explainer.num_bytes[0] > 64e6
    monkeypatch.setattr(walks, "PIECE_BYTES", 5e6)
    options = {"min_kl": 0.0, "progress": False, "budget": 5}
    large = explainer.scan(tmp_path / "large", memory="1GB", **options)
    small = explainer.scan(tmp_path / "small", memory="128MB", **options)
    again = explainer.scan(tmp_path / "again", memory="130MB", workers=1, **options)
    assert content(small.folder) == content(again.folder)
    assert len(small.too_large()) == len(large.too_large()) == 0
    (whole,), (streamed,) = ([e for e in scan if e.target == 0] for scan in (large, small))
    assert "Streamed in" in streamed.status
    assert "Streamed" not in whole.status
    assert streamed.num_paths == whole.num_paths == explainer.num_paths[0] > 300_000
    assert streamed.kl_bound == pytest.approx(whole.kl_bound, abs=1e-8)
    assert streamed.completeness < 1e-9
    # Pieces that do not fit either: listed, and left out.
    monkeypatch.setattr(walks, "estimate_step_bytes", lambda change, steps: np.full(len(steps.node), 1e12))
    assert explainer.scan(tmp_path / "none", memory="128MB", **options).too_large().target.tolist() == [0]


def test_a_network_of_one_hop_is_not_cut():
    torch.manual_seed(0)
    explainer = axiompath.Explainer(GCN(8, 16, 1, 4).eval(), *evolving_graph(50, 10))
    assert walks.cut_pieces(explainer.change, np.array([0]))[0][1] == np.inf


def test_many_targets_are_cut_as_each_by_itself(explainer, small_pieces):
    targets = np.array(largest(explainer, 12))
    together = walks.cut_pieces(explainer.change, targets)
    for target, (bounds, size) in zip(targets, together, strict=True):
        ((alone, largest_piece),) = walks.cut_pieces(explainer.change, np.array([target]))
        assert bounds.tolist() == alone.tolist()
        assert size == pytest.approx(largest_piece)
        steps = estimate_step_bytes(explainer.change, first_steps(explainer.change, np.array([target])))
        assert size == pytest.approx(max(steps[a:b].sum() for a, b in itertools.pairwise(bounds)))


# ---- the doors: what does not fit is streamed, whoever asks ---------------------------------------------------------


@pytest.fixture
def pair(monkeypatch):
    """The same change twice: with room for every path, and with room for a piece of the largest targets' alone."""
    monkeypatch.setattr(answer, "POOL_PATHS", 30)
    torch.manual_seed(0)
    model, graphs = GCN(8, 16, 2, 4).eval(), evolving_graph(400, 40)
    large = axiompath.Explainer(model, *graphs)
    target = largest(large, 1)[0]
    memory = large.num_bytes[target] / 2
    return large, axiompath.Explainer(model, *graphs, memory=memory), target, (model, graphs, memory)


def check_same(listed, streamed):
    assert "Streamed in" in streamed.status
    assert "Streamed" not in listed.status
    assert streamed.num_paths == listed.num_paths
    assert len(streamed.paths) == len(listed.paths)
    assert streamed.kl_bound == pytest.approx(listed.kl_bound, abs=1e-9)
    gap = max(streamed.gap, listed.gap)
    assert abs(streamed.kl_residual - listed.kl_residual) <= gap + 1e-9
    for kind, value in listed.causes.items():
        np.testing.assert_allclose(streamed.causes[kind], value, rtol=0, atol=1e-12)
    assert streamed.completeness == pytest.approx(listed.completeness, abs=1e-12)


@pytest.mark.parametrize("objective", ["sufficiency", "necessity"])
@pytest.mark.parametrize("method", ["convex", "exact", "linear", "topk", "deeplift", "gnnlrp", "grad"])
def test_a_target_larger_than_memory_is_explained_as_if_it_were_listed(pair, method, objective):
    large, small, target, _ = pair
    check_same(*(explainer.explain(target, 7, method, objective) for explainer in (large, small)))


@pytest.mark.parametrize("method", ["exact", "convex", "topk", "grad"])
def test_a_frontier_of_a_target_larger_than_memory_is_that_of_the_listed(pair, method):
    large, small, target, _ = pair
    frontiers = [explainer.frontier(target, [1, 4, 9], method) for explainer in (large, small)]
    assert [found.budget for found in frontiers[1]] == [1, 4, 9]
    for listed, streamed in zip(*frontiers, strict=True):
        check_same(listed, streamed)


def test_a_story_of_a_target_larger_than_memory_is_that_of_the_listed(pair):
    _, _, target, (model, graphs, memory) = pair
    listed, streamed = (axiompath.tell_stories(model, graphs, [target], 5, memory=room)[0] for room in ("2GB", memory))
    assert streamed.notes == ("",)
    check_same(listed.explanations[0], streamed.explanations[0])
    assert streamed.residual == pytest.approx(listed.residual, abs=1e-12)


def test_many_targets_keep_their_order_where_some_are_streamed(pair):
    large, small, target, _ = pair
    targets = [*largest(large, 3), *large.moved().target.tail(3), target]
    listed, found = (list(e.explain_many(targets, 5, "convex", progress=False)) for e in (large, small))
    assert [one.target for one in found] == targets
    assert {"Streamed" in one.status for one in found} == {True, False}
    for one, other in zip(listed, found, strict=True):
        assert other.kl_bound == pytest.approx(one.kl_bound, abs=1e-9)


def test_a_report_shows_a_target_larger_than_memory_and_the_edges_that_moved_it(pair):
    large, small, target, _ = pair
    movers = []
    for explainer in (large, small):
        assert "altered paths, about" not in axiompath.build_report(explainer, [target], [1, 5])
        rows = explainer.case.find([target])[1]
        pieces = list(explainer.case.attribute(rows, explainer.memory, whole=False))
        movers.append((len(pieces), find_movers(explainer.changes(open_nodes=True), pieces)))
    (one, listed), (several, streamed) = movers
    assert one == 1 < several
    assert listed.edges.tolist() == streamed.edges.tolist()
    np.testing.assert_allclose(streamed.moved, listed.moved, rtol=0, atol=1e-12)


def test_a_first_step_larger_than_memory_is_refused_and_so_is_a_list(pair, monkeypatch):
    _, small, target, _ = pair
    with pytest.raises(MemoryError, match=f"Node {target} has .* altered paths, about .* more than the budget"):
        small.attribute(target)
    monkeypatch.setattr(walks, "estimate_step_bytes", lambda change, steps: np.full(len(steps.node), 1e12))
    for ask in (small.explain, lambda node: small.frontier(node, [1]), lambda node: small.explain_many([node])):
        with pytest.raises(MemoryError, match=f"Node {target} has .* altered paths, about .* more than the budget"):
            ask(target)

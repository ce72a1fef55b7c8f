"""A region holds all that a change reaches: on it, every answer is the one that the whole graphs give."""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import nn
from torch_geometric.data import Data

import axiompath
from axiompath.change.comparison import find_change
from axiompath.change.region import cut_region, find_extent, find_reached
from axiompath.graphs.pair import match_stored
from axiompath.network import activations, attention, coefficients
from axiompath.network.layers import Block, Channel, Layer, Network, run_network
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.walk import count_paths, walk_paths
from support.convolutions import ATTR, CONVOLUTIONS, EVOLUTIONS, TYPE, Convolutions, evolution, randomise
from support.effort import every_other, examples
from support.evolutions import aligned, gcn_models, graph_pairs

QUICK = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture
def store(tmp_path):
    """Two graphs in memory -> the same two, stored."""
    numbers = itertools.count()

    def store(*graphs):
        stored = []
        for data in graphs:
            path = axiompath.save_graph(tmp_path / f"{next(numbers)}.npz", data)
            stored.append(axiompath.convert_graph(path, path.with_suffix("")))
        return stored

    return store


@dataclass(frozen=True)
class LooksFar(coefficients.Rule):
    """A rule of reach 1 that wants to see the very edges into its senders, not how many there are."""

    local: ClassVar[bool] = False
    reads_inputs: ClassVar[bool] = False
    reach: ClassVar[int] = 1

    def matrix(self, snapshot, inputs):
        edges = coefficients.Sum(True).matrix(snapshot, inputs)
        kinds = np.diff(edges.indptr)  # different senders, however many edges
        return sparse.csr_array(edges @ sparse.diags_array(1.0 / (1.0 + kinds)))


def rules(rng, width):
    """One of each rule, drawing on `width` columns."""
    a, b = rng.normal(size=(2, width))
    wide = rng.normal(size=(4, width, 2))
    one = np.zeros(1), np.ones(1)
    gat = attention.AdditiveAttention(a[:, None], b[:, None], *one, 0.2, True)
    return {
        "identity": coefficients.Identity(),
        "sum": coefficients.Sum(True),
        "plain sum": coefficients.Sum(False),
        "mean": coefficients.Mean(True),
        "degree": coefficients.Degree(True),
        "gcn": coefficients.SymmetricNorm(True),
        "plain gcn": coefficients.SymmetricNorm(False),
        "gcn without loops": coefficients.SymmetricNorm(True, None),
        "cluster": coefficients.TargetNorm(0.3),
        "gat": gat,
        "gat without loops": attention.AdditiveAttention(a[:, None], b[:, None], *one, 0.1, False),
        "gatv2": attention.AdditiveAttention(wide[0], wide[1], wide[2, 0], wide[3, 0], 0.2, True),
        "transformer": attention.DotAttention(wide[0], wide[1, 0], wide[2], wide[3, 0]),
        "norm": attention.InverseDeviation(0.5),
        "columns": attention.ReadColumns(attention.InverseDeviation(0.5), 0, width),
        "gat of columns": attention.ReadColumns(gat, 0, width),
        "looks far": LooksFar(),
        # These look at the whole graph.
        "backwards": coefficients.Sum(True, "target_to_source"),
        "cluster backwards": coefficients.TargetNorm(0.3, False, "target_to_source"),
        "gat backwards": attention.ReadColumns(
            attention.AdditiveAttention(a[:, None], b[:, None], *one, 0.2, True, "target_to_source"), 0, width
        ),
    }


NEAR = [name for name in rules(np.random.default_rng(0), 3) if "backwards" not in name]
FAR = ["backwards", "cluster backwards", "gat backwards"]


@st.composite
def networks(draw, names=NEAR):
    """Layers of one or two rules each, local ones among them, in any order; at least one passes messages."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chosen = draw(st.lists(st.lists(st.sampled_from(names), min_size=1, max_size=2), min_size=1, max_size=4))
    chosen.insert(draw(st.integers(0, len(chosen))), [draw(st.sampled_from(["sum", "gcn", "gat"]))])
    layers, width = [], 3
    for t, layer_names in enumerate(chosen):
        out = 3 if t == len(chosen) - 1 else 4
        known = rules(rng, width)
        channels = tuple(
            Channel(known[name], rng.normal(size=(width, out)), slice(0, width), slice(0, out)) for name in layer_names
        )
        activation = None if t == len(chosen) - 1 else activations.tanh()
        layers.append(Layer(channels, rng.normal(size=out), (Block(slice(0, out), activation, f"layer {t}"),), out))
        width = out
    return Network(tuple(layers), 3)


@st.composite
def sparse_pairs(draw):
    """Graphs of which a change leaves most untouched: few edges a node, few changes, some nodes with other features."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_nodes = draw(st.integers(2, 50))
    edges = rng.integers(num_nodes, size=(2, int(1.4 * num_nodes)))
    weights = rng.uniform(0.2, 2, size=edges.shape[1])
    x = rng.normal(size=(num_nodes, 3))
    kinds = draw(st.sets(st.sampled_from(("add", "remove", "reweight", "features", "grow"))))
    after_edges, after_weights, after_x = edges.copy(), weights.copy(), x.copy()
    if "features" in kinds:
        after_x[rng.integers(num_nodes)] = rng.normal(size=3)
    if "reweight" in kinds:
        after_weights[0] *= 1.5
    if "remove" in kinds:
        after_edges, after_weights = after_edges[:, :-1], after_weights[:-1]
    if "grow" in kinds:
        after_x = np.concatenate([after_x, rng.normal(size=(1, 3))])
    if "add" in kinds:
        after_edges = np.concatenate([after_edges, rng.integers(len(after_x), size=(2, 2))], axis=1)
        after_weights = np.concatenate([after_weights, rng.uniform(0.2, 2, size=2)])
    order = rng.permutation(after_edges.shape[1])
    graphs = ((x, edges, weights), (after_x, after_edges[:, order], after_weights[order]))
    return tuple(
        Data(x=torch.from_numpy(f), edge_index=torch.from_numpy(e), edge_weight=torch.from_numpy(w))
        for f, e, w in graphs
    )


def change_of(network, snapshots):
    return find_change(network, *snapshots, *(run_network(network, snapshot) for snapshot in snapshots))


def contributions_of(change, rows):
    found = walk_paths(change, rows)
    values = attribute_paths(change, found).contributions
    paths = np.where(found.paths >= 0, change.before.node_ids[found.paths], -1)
    return {tuple(path): value for path, value in zip(paths.tolist(), values, strict=True)}


def assert_same_answers(network, whole_pair, region):
    """Of every reached node the region gives the logits, the number of paths and each path's contributions."""
    whole, part = change_of(network, whole_pair), change_of(network, (region.before, region.after))
    numbers = region.before.node_ids
    whole_counts, counts = count_paths(whole), count_paths(part)
    reached = np.flatnonzero(region.reached)
    scale = max(1.0, np.abs(whole.before_pass.logits).max(), np.abs(whole.after_pass.logits).max())
    for mine, theirs in ((part.before_pass, whole.before_pass), (part.after_pass, whole.after_pass)):
        np.testing.assert_allclose(mine.logits[reached], theirs.logits[numbers[reached]], rtol=0, atol=1e-12 * scale)
    np.testing.assert_array_equal(counts[reached], whole_counts[numbers[reached]])
    # Nobody else is reached: neither in the whole graph nor, by mistake, at the region's rim.
    outside = np.ones(whole.num_nodes, dtype=bool)
    outside[numbers[reached]] = False
    assert whole_counts[outside].sum() == 0
    assert counts[~region.reached].sum() == 0
    few = reached[(counts[reached] > 0) & (counts[reached] < 20_000)][:4]
    if len(few):
        # Shared numbers are the rows of the aligned snapshots.
        for row in few:
            ours = contributions_of(part, np.array([row]))
            expected = contributions_of(whole_as_numbers(whole), np.array([numbers[row]]))
            assert ours.keys() == expected.keys()
            size = max(1.0, *(np.abs(value).max() for value in expected.values()))
            for path, value in ours.items():
                np.testing.assert_allclose(value, expected[path], rtol=0, atol=1e-12 * size)


def whole_as_numbers(change):
    """The same change with nodes called by row."""
    rows = np.arange(change.num_nodes)
    return replace(change, before=replace(change.before, node_ids=rows), after=replace(change.after, node_ids=rows))


@pytest.mark.long
@QUICK
@given(network=networks(), graphs=sparse_pairs())
def test_a_region_gives_the_whole_graphs_answers(network, graphs, store):
    region = cut_region(network, match_stored(*store(*graphs)))
    assert_same_answers(network, aligned(*graphs), region)


@QUICK
@given(network=networks([*NEAR, *FAR]), graphs=graph_pairs(weighted=True))
def test_the_same_with_nodes_matched_by_name_and_rules_that_look_far(network, graphs, store):
    pair = match_stored(*store(*graphs))
    region = cut_region(network, pair)
    assert_same_answers(network, aligned(*graphs), region)
    if find_extent(network) is None:
        assert len(region.before.node_ids) == pair.num_nodes


@QUICK
@given(network=networks(), graphs=sparse_pairs())
def test_reached_nodes_and_kept_edges_follow_the_definition(network, graphs, store):
    """The literal twin: sets and loops, edge by edge."""
    pair = match_stored(*store(*graphs))
    snapshots = aligned(*graphs)
    num_nodes = snapshots[0].num_nodes
    incoming = []
    for snapshot in snapshots:
        rows = [[] for _ in range(num_nodes)]
        order = np.argsort(snapshot.edge_index[0], kind="stable")
        for (u, v), weight in zip(snapshot.edge_index.T[order].tolist(), snapshot.edge_weight[order], strict=True):
            rows[v].append((u, weight))
        incoming.append(rows)
    alone = {v for v in range(num_nodes) if snapshots[0].present[v] != snapshots[1].present[v]}
    touched = alone | {v for v in range(num_nodes) if incoming[0][v] != incoming[1][v]}
    differs = alone | {v for v in range(num_nodes) if (snapshots[0].x[v] != snapshots[1].x[v]).any()}

    def receivers(nodes):
        return {v for rows in incoming for v in range(num_nodes) if any(u in nodes for u, _ in rows[v])}

    assert touched == set(np.flatnonzero(pair.touched))
    assert differs == set(np.flatnonzero(pair.altered))
    for layer in network.layers:
        bare = [getattr(rule, "rule", rule) for rule in layer.rules]
        blind = [isinstance(rule, coefficients.Identity | attention.InverseDeviation) for rule in bare]
        far = any(isinstance(rule, coefficients.SymmetricNorm | LooksFar) for rule in layer.rules)
        above = differs | (set() if layer.local else receivers(differs))
        above |= (set() if all(blind) else touched) | (receivers(touched) if far else set())
        differs = above
    assert differs == set(np.flatnonzero(find_reached(network, pair)))
    region = cut_region(network, pair)
    for snapshot, rows in zip((region.before, region.after), incoming, strict=True):
        ids = snapshot.node_ids
        kept = {int(v): [] for v in ids}
        for (u, v), weight in zip(ids[snapshot.edge_index].T.tolist(), snapshot.edge_weight, strict=True):
            kept[v].append((u, weight))
        for i, v in enumerate(ids.tolist()):
            loops = [edge for edge in rows[v] if edge[0] == v]
            assert kept[v] in (rows[v], loops)
            if kept[v] != rows[v]:
                others = [weight for u, weight in rows[v] if u != v]
                np.testing.assert_allclose(snapshot.unseen[:, i], [len(others), sum(others)])


def explained_alike(whole, part, budget=3):
    """Explainers on whole graphs and on stored ones: the same table, attributions, explanations and replays."""
    ids = whole.change.before.node_ids  # of the numbers that stored graphs share
    theirs, mine = whole.moved().set_index("target"), part.moved()
    mine = mine.assign(target=ids[mine.target]).set_index("target").loc[theirs.index]
    assert (mine.num_paths == theirs.num_paths).all()
    np.testing.assert_allclose(mine.kl, theirs.kl, rtol=1e-9, atol=1e-12)
    number = {int(node): i for i, node in enumerate(ids)}
    for node in theirs.index[:3]:
        expected, found = whole.attribute(node), part.attribute(number[node])
        known = {
            tuple(path): value for path, value in zip(expected.paths.tolist(), expected.contributions, strict=True)
        }
        paths = [tuple(int(ids[v]) if v >= 0 else -1 for v in path) for path in found.paths.tolist()]
        assert set(paths) == set(known)
        scale = max(1.0, np.abs(expected.contributions).max())
        for path, value in zip(paths, found.contributions, strict=True):
            np.testing.assert_allclose(value, known[path], rtol=0, atol=1e-12 * scale)
        np.testing.assert_allclose(found.logits_after, expected.logits_after, rtol=0, atol=1e-12 * scale)
        answers = whole.explain(node, budget, "exact"), part.explain(number[node], budget, "exact")
        assert abs(answers[0].kl_residual - answers[1].kl_residual) <= 1e-9
        assert abs(answers[0].kl_bound - answers[1].kl_bound) <= 1e-9
        for method in ("gnnlrp", "grad"):
            residuals = [e.explain(n, budget, method).kl_residual for e, n in ((whole, node), (part, number[node]))]
            assert abs(residuals[0] - residuals[1]) <= 1e-9
        own = [[number[v] if v >= 0 else -1 for v in path] for path in expected.paths[:4].tolist()]
        for add in (False, True):
            np.testing.assert_allclose(
                part.replay(number[node], own, add=add), whole.replay(node, expected.paths[:4], add=add), atol=1e-9
            )
            np.testing.assert_allclose(
                part.replay_edges(number[node], own, add=add),
                whole.replay_edges(node, expected.paths[:4], add=add),
                atol=1e-9 * scale,
            )


# Stored graphs hold no edge features, and no types.
@pytest.mark.parametrize(
    "name", every_other(name for name, (_, given) in CONVOLUTIONS.items() if given not in (ATTR, TYPE))
)
def test_every_convolution_is_explained_alike(name, store):
    make, weighted = CONVOLUTIONS[name]
    seed = sum(map(ord, name))
    model = randomise(Convolutions([make(3, 6), make(6, 3)], weighted, nn.ELU()), seed)
    before, after = evolution(seed, EVOLUTIONS[seed % len(EVOLUTIONS)])
    whole = axiompath.Explainer(model, before, after)
    if whole.change.network.recorded or whole.change.before.edge_rows is not None:
        with pytest.raises(
            axiompath.InputError, match=r"follow no rule.*load a smaller graph|stored graphs.*read_graph"
        ):
            axiompath.Explainer(model, *store(before, after))
        return
    explained_alike(whole, axiompath.Explainer(model, *store(before, after)))


@pytest.mark.long
@settings(QUICK, max_examples=25)
@given(model=gcn_models(), graphs=sparse_pairs())
def test_every_gcn_is_explained_alike(model, graphs, store):
    explained_alike(axiompath.Explainer(model, *graphs), axiompath.Explainer(model, *store(*graphs)))


@pytest.mark.parametrize("weighted", [True, False])
def test_degrees_beyond_the_rim_count_in_every_pass(store, weighted):
    """A region much smaller than the graph, whose outermost nodes have edges that are counted and not kept."""
    rng = np.random.default_rng(0)
    edges, x = torch.from_numpy(rng.integers(600, size=(2, 1800))), torch.from_numpy(rng.normal(size=(600, 3)))
    graphs = [Data(x=x, edge_index=edges), Data(x=x, edge_index=edges[:, 3:])]
    if weighted:
        weight = torch.from_numpy(rng.uniform(0.5, 2, size=1800))
        graphs[0].edge_weight, graphs[1].edge_weight = weight, weight[3:]
    model = randomise(Convolutions([CONVOLUTIONS["GCN"][0](3, 4), CONVOLUTIONS["GCN"][0](4, 3)], True, nn.ReLU()))
    part = axiompath.Explainer(model, *store(*graphs))
    assert part.change.num_nodes < 500
    assert part.change.before.unseen[0].max() > 1
    explained_alike(axiompath.Explainer(model, *graphs), part)

"""Attribution: complete, equal to the literal definition, and what the paper says it is."""

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GAT, GCN, GCNConv, TAGConv

import axiompath
from axiompath.change.states import KINDS
from axiompath.errors import InputError
from axiompath.explain import walks
from axiompath.paths import walk as paths_module
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.walk import count_paths, walk_paths
from axiompath.storage.memory import parse_memory, show_bytes
from support.effort import examples
from support.evolutions import SumGNN, aligned, any_networks, find, gcn_models, graph_pairs, random_pair
from support.references import LiteralAttribution, literal_lrp, literal_terms
from support.twins import assert_twin

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def assert_complete(model, graphs):
    explainer = axiompath.Explainer(model, *graphs)
    present = explainer.change.before.present & explainer.change.after.present
    targets = explainer.change.before.node_ids[present]
    counts = explainer.num_paths[present]
    for target, count, found in zip(targets, counts, explainer.attribute_many(targets), strict=True):
        assert found.target == target
        assert len(found.paths) == count
        scale = max(1.0, np.abs(found.logits_before).max(), np.abs(found.logits_after).max())
        assert found.residual < 1e-9 * scale
        assert np.abs(sum(found.causes.values()) - found.delta_logits).max() < 1e-9 * scale
        if count == 0:
            assert np.abs(found.delta_logits).max() < 1e-9 * scale


@settings(relaxed, max_examples=examples(250))
@given(gcn_models(), graph_pairs())
def test_contributions_sum_to_the_change_of_every_logit(model, graphs):
    assert_complete(model, graphs)


@pytest.mark.slow
@settings(relaxed, max_examples=1000)
@given(gcn_models(), graph_pairs())
def test_contributions_of_a_thousand_evolutions_sum_to_the_change_of_every_logit(model, graphs):
    assert_complete(model, graphs)


@pytest.mark.parametrize("num_classes", [1, 3, 4, 5, 8, 9, 12, 13, 17])
def test_any_number_of_classes_equals_the_literal_twin(num_classes):
    """Classes are taken eight at a time, or four: whatever is left over is none the worse for it."""
    rng = np.random.default_rng(num_classes)
    edges = [torch.from_numpy(rng.integers(0, 9, size=(2, 24))) for _ in range(2)]
    features = [torch.from_numpy(rng.normal(size=(9, 3))) for _ in range(2)]
    graphs = [Data(x=x, edge_index=e) for x, e in zip(features, edges, strict=True)]
    torch.manual_seed(0)
    output = "value" if num_classes == 1 else "classes"
    change = axiompath.Explainer(GCN(3, 5, 2, num_classes).double().eval(), *graphs, output=output).change
    reference = LiteralAttribution(change.network, change.before, change.after)
    found = walk_paths(change, np.arange(9))
    shares = attribute_paths(change, found)
    for i in range(9):
        expected = reference(i)
        rows = slice(found.indptr[i], found.indptr[i + 1])
        assert len(expected) == rows.stop - rows.start > 0
        for path, value in zip(found.paths[rows].tolist(), shares.contributions[rows], strict=True):
            np.testing.assert_allclose(value, expected[tuple(path)], rtol=0, atol=1e-12)


@settings(relaxed, max_examples=examples(150))
@given(any_networks(), graph_pairs(max_nodes=6))
def test_paths_contributions_kinds_and_causes_equal_the_literal_twin(network, graphs):
    before, after = aligned(*graphs)
    assert_twin(find(network, before, after), np.flatnonzero(before.present & after.present))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_degrees_that_stay_the_same_alter_no_path(seed, weighted):
    """Two edges exchange their ends: every degree is computed anew, and none differs."""
    rng = np.random.default_rng(seed)
    keys = np.array([key for key in rng.permutation(144) if key // 12 < key % 12][:30])
    low, high = keys // 12, keys % 12
    known = set(keys.tolist())
    a, b = next(
        (a, b)
        for a, b in itertools.combinations(range(30), 2)
        if len({low[a], high[a], low[b], high[b]}) == 4
        and not {min(u, v) * 12 + max(u, v) for u, v in ((low[a], high[b]), (low[b], high[a]))} & known
    )
    weights = rng.uniform(0.1, 1.0, size=30)
    weights[b] = weights[a]
    order = rng.permutation(60)
    graphs = []
    for ends in (high, np.where(np.arange(30) == a, high[b], np.where(np.arange(30) == b, high[a], high))):
        edges = np.concatenate([[low, ends], [ends, low]], axis=1)
        which = order if len(graphs) else np.arange(60)
        data = Data(x=torch.from_numpy(np.eye(12)), edge_index=torch.from_numpy(edges[:, which]))
        if weighted:
            data.edge_weight = torch.from_numpy(np.tile(weights, 2)[which])
        graphs.append(data)
    torch.manual_seed(seed)
    change = axiompath.Explainer(GCN(12, 6, 3, 3).double().eval(), *graphs).change
    assert_twin(change, np.arange(12))


@settings(relaxed, max_examples=examples(60))
@given(any_networks(max_hops=2), graph_pairs(max_nodes=4))
def test_the_twin_equals_the_sum_over_single_channels_and_states(network, graphs):
    before, after = aligned(*graphs)
    reference = LiteralAttribution(network, before, after)
    for target in np.flatnonzero(before.present & after.present):
        reference(target)
        terms = literal_terms(reference, target)
        assert set(terms) == set(reference.shares)
        for path, causes in terms.items():
            assert set(causes) == set(reference.shares[path])
            for cause, value in causes.items():
                expected = reference.shares[path][cause]
                scale = max(1.0, np.abs(expected).max())
                np.testing.assert_allclose(value, expected, rtol=0, atol=1e-10 * scale)


@settings(relaxed, max_examples=examples(150))
@given(any_networks(), graph_pairs(max_nodes=6))
def test_time_reversal_swaps_gained_and_lost_and_negates(network, graphs):
    before, after = aligned(*graphs)
    targets = np.flatnonzero(before.present & after.present)
    sides = []
    for pair in ((before, after), (after, before)):
        change = find(network, *pair)
        found = walk_paths(change, targets)
        sides.append((found, attribute_paths(change, found)))
    (there, forth), (back, reverse) = sides
    assert there.indptr.tolist() == back.indptr.tolist()
    order, other = (
        np.lexsort(np.column_stack([f.paths, np.repeat(targets, np.diff(f.indptr))]).T) for f in (there, back)
    )
    np.testing.assert_array_equal(there.paths[order], back.paths[other])
    scale = max(1.0, np.abs(forth.contributions).max(initial=0), np.abs(reverse.contributions).max(initial=0))
    np.testing.assert_allclose(forth.contributions[order], -reverse.contributions[other], atol=1e-9 * scale)
    mirrored = np.array([1, 0, *range(2, len(KINDS))])
    tolerance = 1e-9 * scale * max(1, len(there.paths))
    np.testing.assert_allclose(forth.causes, -reverse.causes[:, mirrored], atol=tolerance)
    same = forth.kinds[order] == mirrored[reverse.kinds[other]]
    # Of a path that both have, the larger of two shares may be a matter of rounding.
    assert (same | (forth.kinds[order] >= 2)).all()


def undirected(*pairs, loops=0):
    both = [*pairs, *((v, u) for u, v in pairs), *((v, v) for v in range(loops))]
    return torch.tensor(both, dtype=torch.long).reshape(-1, 2).T


def test_figure_1_has_the_four_paths_that_the_paper_names():
    j, k, ell = range(3)
    x = torch.rand(3, 4, dtype=torch.float64)
    before = Data(x=x, edge_index=undirected((k, ell), loops=3))
    after = Data(x=x, edge_index=undirected((k, ell), (j, k), loops=3))
    found = axiompath.Explainer(SumGNN(4, 5, 3).double(), before, after).attribute(j)
    assert {tuple(path) for path in found.paths.tolist()} == {(j, k, j), (k, j, j), (k, k, j), (ell, k, j)}
    assert {KINDS[kind] for kind in found.kinds} == {"gained"}


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_theorem_1_an_empty_graph_before_gives_gnn_lrp_relevances(depth):
    torch.manual_seed(depth)
    num_nodes = 6
    edge_index = undirected((0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (1, 5), loops=num_nodes)
    x = torch.rand(num_nodes, 4, dtype=torch.float64)
    model = SumGNN(*([4] + [5] * (depth - 1) + [3])).double()
    before = Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long))
    explainer = axiompath.Explainer(model, before, Data(x=x, edge_index=edge_index))
    adjacency = np.zeros((num_nodes, num_nodes))
    adjacency[edge_index[1], edge_index[0]] = 1
    weights = [conv.lin.weight.detach().numpy().T for conv in model.convs]
    walks = np.linalg.matrix_power(adjacency, depth).sum(axis=1)
    for target in range(num_nodes):
        found = explainer.attribute(target)
        assert len(found.paths) == walks[target]
        expected = [literal_lrp(adjacency, weights, x.numpy(), path) for path in found.paths]
        np.testing.assert_allclose(found.contributions, expected, atol=1e-12)


def test_causes_name_what_happened():
    x = torch.rand(4, 3, dtype=torch.float64)
    model = SumGNN(3, 4, 2).double()
    before = Data(x=x, edge_index=torch.tensor([[1, 2], [0, 0]]))
    moved = x.clone()
    moved[1] += 1
    after = Data(x=moved, edge_index=torch.tensor([[1, 3], [0, 0]]))

    class OneHop(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = model.convs[0]

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    found = axiompath.Explainer(OneHop(), before, after).attribute(0)
    kinds = {tuple(path): KINDS[kind] for path, kind in zip(found.paths.tolist(), found.kinds, strict=True)}
    assert kinds == {(1, 0): "feature", (2, 0): "lost", (3, 0): "gained"}
    weight = model.convs[0].lin.weight.detach().numpy().T
    np.testing.assert_allclose(found.causes["feature"], (moved - x)[1].numpy() @ weight, atol=1e-12)
    np.testing.assert_allclose(found.causes["lost"], -x[2].numpy() @ weight, atol=1e-12)
    np.testing.assert_allclose(found.causes["gained"], x[3].numpy() @ weight, atol=1e-12)
    np.testing.assert_allclose(found.causes["reweighted"], 0, atol=1e-12)


class OneGCN(nn.Module):
    """One GCN layer with given numbers."""

    def __init__(self, weight, bias):
        super().__init__()
        self.conv = GCNConv(*weight.shape).double()
        with torch.no_grad():
            self.conv.lin.weight.copy_(weight.T)
            self.conv.bias.copy_(bias)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@pytest.mark.parametrize(("added", "feature", "reweighted"), [(True, 40.82, -0.26), (False, 40.82, 9.43)])
def test_features_on_renormalised_paths_are_no_renormalisation(added, feature, reweighted):
    """Features of node 0 grow from 1 to 101 while an edge of node 1 comes or goes: worked out by hand."""
    few, many = undirected((0, 1)), undirected((0, 1), (1, 2))
    x = torch.ones(3, 1, dtype=torch.float64)
    moved = torch.tensor([[101.0], [1.0], [1.0]], dtype=torch.float64)
    before, after = (few, many) if added else (many, few)
    model = OneGCN(torch.tensor([[1.0, -1.0]]), torch.tensor([0.3, 0.1]))
    found = axiompath.Explainer(model, Data(x=x, edge_index=before), Data(x=moved, edge_index=after)).attribute(1)
    assert found.causes["feature"][0] == pytest.approx(feature, abs=0.005)
    assert found.causes["reweighted"][0] == pytest.approx(reweighted, abs=0.005)
    assert (found.causes["gained" if added else "lost"] != 0).all()
    assert (found.causes["lost" if added else "gained"] == 0).all()
    np.testing.assert_allclose(sum(found.causes.values()), found.delta_logits, atol=1e-12)
    # The path from node 0 has a share of both; the larger names it.
    kinds = {tuple(path): KINDS[kind] for path, kind in zip(found.paths.tolist(), found.kinds, strict=True)}
    assert kinds == {(0, 1): "feature", (1, 1): "reweighted", (2, 1): "gained" if added else "lost"}


def test_attention_that_follows_new_features_leaves_them_their_share():
    """Only features change, so that GAT's attention changes too: both are causes, and no path is gained or lost."""
    torch.manual_seed(0)
    before, _ = random_pair(20, 80)
    after = before.clone()
    after.x = before.x.clone()
    after.x[:5] += torch.randn(5, 5, dtype=torch.float64)
    explainer = axiompath.Explainer(GAT(5, 8, 2, 3, heads=2).double().eval(), before, after)
    for target in explainer.moved().target[:5]:
        found = explainer.attribute(target)
        assert np.abs(found.causes["feature"]).max() > 0.1 * np.abs(found.delta_logits).max()
        assert (found.causes["reweighted"] != 0).any()
        assert not found.causes["gained"].any()
        assert not found.causes["lost"].any()
        assert set(found.kinds.tolist()) <= {KINDS.index("reweighted"), KINDS.index("feature")}


def test_a_path_that_both_have_and_that_carries_nothing_is_called_reweighted():
    """New features behind a ReLU that is closed before and after: a share of 0, whatever the cause."""
    x = torch.ones(2, 1, dtype=torch.float64)
    edge = torch.tensor([[1, 0], [0, 0]])
    model = SumGNN(1, 1, 2).double()
    with torch.no_grad():
        model.convs[0].lin.weight.fill_(-1.0)
    moved = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    found = axiompath.Explainer(model, Data(x=x, edge_index=edge), Data(x=moved, edge_index=edge)).attribute(0)
    assert found.paths.tolist() == [[1, 0, 0]]
    assert (found.contributions == 0).all()
    assert [KINDS[kind] for kind in found.kinds] == ["reweighted"]


def test_an_edge_of_weight_0_is_an_edge():
    x = torch.rand(2, 3, dtype=torch.float64)
    edge = torch.tensor([[1], [0]])
    weights = [Data(x=x, edge_index=edge, edge_weight=torch.tensor([w], dtype=torch.float64)) for w in (0.0, 2.0)]
    nothing = Data(x=x, edge_index=edge[:, :0], edge_weight=torch.zeros(0, dtype=torch.float64))

    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(3, 2, normalize=False, bias=False).double()

        def forward(self, x, edge_index, edge_weight):
            return self.conv(x, edge_index, edge_weight)

    for before, kind in ((weights[0], "reweighted"), (nothing, "gained")):
        found = axiompath.Explainer(Weighted(), before, weights[1]).attribute(0)
        assert [KINDS[k] for k in found.kinds] == [kind]
        np.testing.assert_allclose(found.causes[kind], found.delta_logits, atol=1e-12)


class Concatenated(nn.Module):
    """All hidden layers side by side and no root term: what skips a layer is aggregated no more."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(GCNConv(w, 6, add_self_loops=False) for w in (5, 6, 6))
        self.out = nn.Linear(18, 3)

    def forward(self, x, edge_index):
        layers = [x]
        for conv in self.convs:
            layers.append(torch.relu(conv(layers[-1], edge_index)))
        return self.out(torch.cat(layers[1:], dim=1))


class Propagated(nn.Module):
    """A prediction for each node, then propagated."""

    def __init__(self, depth):
        super().__init__()
        self.linear, self.spread = nn.Linear(5, 3), APPNP(depth, 0.2, add_self_loops=False)

    def forward(self, x, edge_index):
        return self.spread(self.linear(x), edge_index)


class Tagged(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = TAGConv(5, 3, K=3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@pytest.mark.parametrize(
    ("model", "stays_at_the_root"),
    [(Tagged(), True), (Propagated(3), False), (Concatenated(), True)],
    ids=["TAGConv", "APPNP", "concatenation"],
)
def test_paths_whose_channels_do_not_connect_are_none(model, stays_at_the_root):
    """Staying at a node is a step by the identity, on columns that are passed by and never aggregated again.

    TAGConv and concatenations stay at the root's end of a path, once its hops are done; APPNP at the leaf's end, until
    its start joins in. A stay in the midst of hops, or at the other end, leads nowhere.
    """
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    rng = np.random.default_rng(1)
    u, v = rng.integers(0, 12, size=(2, 50))
    edges = torch.from_numpy(np.stack([u, v])[:, u != v])
    x = torch.from_numpy(rng.normal(size=(12, 5)))
    before = Data(x=x, edge_index=edges[:, 4:])
    after = Data(x=x, edge_index=torch.cat([edges[:, :-4], torch.tensor([[0, 3], [0, 3]])], dim=1))
    explainer = axiompath.Explainer(model.double().eval(), before, after)
    change = explainer.change
    reference = LiteralAttribution(change.network, change.before, change.after)
    graphs = [{tuple(edge) for edge in data.edge_index.T.tolist()} for data in (before, after)]
    kinds = set()
    for target in range(12):
        found = explainer.attribute(target)
        assert {tuple(path) for path in found.paths.tolist()} == set(reference(target))
        assert len(found.paths) == explainer.num_paths[target]
        assert found.residual < 1e-12
        for path, kind in zip(found.paths.tolist(), found.kinds, strict=True):
            steps = [step for step in itertools.pairwise(path) if step[0] >= 0]
            stays = [a == b and (a, b) not in graphs[0] | graphs[1] for a, b in steps]
            if path[0] >= 0:
                assert stays == sorted(stays, reverse=not stays_at_the_root)
            if not any(a == b for a, b in steps):
                in_before, in_after = (set(steps) <= graph for graph in graphs)
                assert KINDS[kind] == ("gained" if not in_before else "lost" if not in_after else "reweighted")
            kinds.add(KINDS[kind])
    assert kinds == {"gained", "lost", "reweighted"}


def test_a_gained_self_loop_is_gained_where_no_root_term_stays():
    """A node's own value reaches it by its loop alone: the identity beside it passes other columns."""
    x = torch.rand(3, 5, dtype=torch.float64) + 0.1
    edges = torch.tensor([[1, 2], [0, 1]])
    before = Data(x=x, edge_index=edges)
    after = Data(x=x, edge_index=torch.cat([edges, torch.tensor([[0], [0]])], dim=1))

    class Skipping(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (GCNConv(a, b, normalize=False, bias=False) for a, b in ((5, 4), (4, 3)))
            self.skip = nn.Linear(5, 2, bias=False)

        def forward(self, x, edge_index):
            # Beside what is aggregated twice lies what never is.
            return torch.cat([self.second(self.first(x, edge_index), edge_index), self.skip(x)], dim=1)

    torch.manual_seed(0)
    found = axiompath.Explainer(Skipping().double(), before, after).attribute(0)
    kinds = {tuple(path): KINDS[kind] for path, kind in zip(found.paths.tolist(), found.kinds, strict=True)}
    # Both snapshots have (0, 0, 0), along the skip; what it gained over the loop is gained all the same.
    assert kinds == {(1, 0, 0): "gained", (0, 0, 0): "reweighted"}
    np.testing.assert_allclose(found.causes["gained"], found.delta_logits, atol=1e-12)
    assert not found.causes["reweighted"].any()


@pytest.mark.parametrize("limit", [1.0, 3e5, 1e12])
def test_results_do_not_depend_on_the_batch_bit_by_bit(monkeypatch, limit):
    torch.manual_seed(0)
    before, after = random_pair()
    explainer = axiompath.Explainer(SumGNN(5, 6, 6, 3).double(), before, after)
    targets = explainer.moved().target
    expected = [explainer.attribute(target) for target in targets]
    monkeypatch.setattr(walks, "BATCH_BYTES", limit)
    for one, other in zip(expected, explainer.attribute_many(targets), strict=True):
        np.testing.assert_array_equal(one.paths, other.paths)
        np.testing.assert_array_equal(one.contributions, other.contributions)


def test_counts_beyond_float64_are_exact_python_integers(monkeypatch):
    before, after = random_pair()
    explainer = axiompath.Explainer(SumGNN(5, 6, 6, 6, 3).double(), before, after)
    expected = count_paths(explainer.change)
    monkeypatch.setattr(paths_module, "EXACT_FLOAT", 1)
    counts = count_paths(explainer.change)
    assert counts.dtype == object
    assert counts.tolist() == expected.tolist()
    # Two complete graphs of 40 nodes, 12 layers: 40^12 > 2^53 walks.
    monkeypatch.undo()
    full = torch.cartesian_prod(torch.arange(40), torch.arange(40)).T
    x = torch.rand(40, 2, dtype=torch.float64)
    empty = Data(x=x, edge_index=full[:, :0])
    deep = axiompath.Explainer(SumGNN(*[2] * 13).double(), empty, Data(x=x, edge_index=full))
    assert deep.num_paths.tolist() == [40**12] * 40
    assert deep.moved().num_paths[0] == 40**12


def test_estimated_memory_bounds_what_the_arrays_take():
    before, after = random_pair(200, 2000)
    explainer = axiompath.Explainer(SumGNN(5, 16, 16, 3).double(), before, after)
    targets = np.arange(200)
    found = walk_paths(explainer.change, targets)
    shares = attribute_paths(explainer.change, found)
    held = [found.paths, found.held, found.entry, shares.contributions, shares.kinds, shares.causes]
    for level in found.levels.values():
        held += [level.node, level.target, level.parent, level.entry, level.sets]
    lowest = found.levels[explainer.change.lowest_hop]
    multipliers = 8 * 3 * 16 * len(lowest.node)
    assert sum(array.nbytes for array in held) + multipliers <= explainer.num_bytes[targets].sum()


def test_a_target_beyond_the_memory_budget_is_refused_with_its_numbers():
    before, after = random_pair()
    explainer = axiompath.Explainer(SumGNN(5, 6, 6, 3).double(), before, after, memory="10KB")
    target = explainer.moved().sort_values("num_paths").target.iloc[-1]
    count = explainer.num_paths[target]
    with pytest.raises(MemoryError, match=rf"Node {target} has {count:,} altered paths, about") as refused:
        explainer.attribute(target)
    needed = re.search(r"about ([1-9][0-9.]* [KM]B) to walk, more than the budget of 10 KB", str(refused.value))
    assert needed is not None, refused.value
    assert f'pass `memory="{needed[1]}"`' in str(refused.value)
    enough = axiompath.Explainer(SumGNN(5, 6, 6, 3).double(), before, after, memory=needed[1])
    assert len(enough.attribute(target).paths) == count


def test_sizes_have_the_unit_that_fits_them():
    for size, down, up in ((512, "512 B", "512 B"), (1234, "1.23 KB", "1.24 KB"), (2e9, "2 GB", "2 GB")):
        assert (show_bytes(size), show_bytes(size, up=True)) == (down, up)
    assert show_bytes(2e9 + 1, up=True) == "2.01 GB", "what is needed is never shown as the budget that it exceeds"
    for words in ("1e400GB", "9" * 400, "nan", "inf", "0", "-1GB"):
        with pytest.raises(InputError, match="Expected a memory budget such as"):
            parse_memory(words)


def test_many_targets_share_one_walk_and_keep_their_order():
    before, after = random_pair()
    explainer = axiompath.Explainer(SumGNN(5, 6, 3).double(), before, after)
    order = [7, 3, 7, 0]
    assert [found.target for found in explainer.attribute_many(order)] == order
    assert list(explainer.attribute_many([])) == []


def test_moved_lists_the_largest_first_with_exact_numbers():
    before, after = random_pair()
    model = SumGNN(5, 6, 3).double()
    explainer = axiompath.Explainer(model, before, after)
    frame = explainer.moved()
    assert list(frame.columns) == ["target", "name", "class_before", "class_after", "kl", "num_paths"]
    assert frame.kl.is_monotonic_decreasing
    with torch.no_grad():
        p, q = (model(data.x, data.edge_index).softmax(-1).numpy() for data in (after, before))
    for row in frame.itertuples():
        assert row.kl == pytest.approx((p[row.target] * np.log(p[row.target] / q[row.target])).sum(), abs=1e-9)
        assert (row.class_before, row.class_after) == (q[row.target].argmax(), p[row.target].argmax())
        assert row.num_paths == len(explainer.attribute(row.target).paths)


def test_to_frame_has_a_row_a_path():
    before, after = random_pair()
    found = axiompath.Explainer(SumGNN(5, 6, 3).double(), before, after).attribute(7)
    frame = found.to_frame()
    assert len(frame) == len(found.paths)
    np.testing.assert_allclose(frame[["class_0", "class_1", "class_2"]].to_numpy().sum(0), found.delta_logits)


@pytest.mark.parametrize("scale", [1e-8, 1e-5, 1e-3, 1e-2, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("name", ["celu", "softplus", "elu"])
@pytest.mark.parametrize("step", [1e-9, 1e-4, 1.0])
def test_contributions_are_complete_whatever_the_scale_of_the_activation(name, scale, step):
    """With alpha = 1e-3 or beta = 1e3, all of the bend lies within what used to count as a short step."""
    activation = {"celu": nn.CELU(scale), "softplus": nn.Softplus(1 / scale), "elu": nn.ELU(scale)}[name]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = GCNConv(5, 6), GCNConv(6, 3)

        def forward(self, x, edge_index):
            return self.second(activation(self.first(x, edge_index)), edge_index)

    torch.manual_seed(0)
    before, after = random_pair(30, 90)
    # Inputs as wide as the bend, and features that move by a share of it.
    width = 1.0 if name == "elu" else scale
    before.x, after.x = width * before.x, width * (after.x + step * torch.randn(30, 5, dtype=torch.float64))
    explainer = axiompath.Explainer(Model().double(), before, after)
    passes = explainer.change.before_pass, explainer.change.after_pass
    size = max(np.abs(z).max() for run in passes for z in run.z)
    for found in explainer.attribute_many(explainer.change.before.node_ids[:10]):
        assert found.residual <= 1e-13 * max(size, np.abs(found.logits_after).max())

"""What happened to the graph, one row per change: against the literal twin, in memory and on disk, small and large."""

import time

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from axiompath.graphs.changes import count_changes, list_changes
from axiompath.graphs.snapshot import align_snapshots, read_snapshot
from support.effort import examples
from support.evolutions import aligned, graph_pairs
from support.references import literal_changes

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
VALUES = ["kind", "src", "dst", "relation", "weight_before", "weight_after", "num_edges", "directed"]


def rows_of(frame):
    frame = frame if "relation" in frame else frame.assign(relation=-1)
    plain = frame[VALUES].astype(object).where(frame[VALUES].notna(), None)
    return [tuple(row) for row in plain.to_numpy().tolist()]


def listed(before, after, **options):
    return list_changes((before, after), {}, **options)


@st.composite
def parallel_pairs(draw):
    """Few nodes and many edges between them, of three weights, often symmetric or of two types: parallel ones."""
    num_nodes, typed = draw(st.integers(1, 4)), draw(st.booleans())
    node, weighted, symmetric = st.integers(0, num_nodes - 1), draw(st.booleans()), draw(st.booleans())
    edge = st.tuples(node, node, st.sampled_from((0.5, 2.0, 3.0)), st.integers(0, 1))
    shared = draw(st.lists(edge, max_size=5))
    ids = draw(st.permutations(range(10, 10 + num_nodes)))
    graphs = []
    for _ in range(2):
        edges = draw(st.permutations(shared + draw(st.lists(edge, max_size=3))))
        if symmetric:
            edges = edges + [(v, u, w, t) for u, v, w, t in edges if u != v]
        index = torch.tensor([[u, v] for u, v, *_ in edges], dtype=torch.long).reshape(-1, 2).T
        graph = Data(x=torch.ones(num_nodes, 2), edge_index=index, n_id=torch.tensor(ids))
        if weighted:
            graph.edge_weight = torch.tensor([w for _, _, w, _ in edges], dtype=torch.float64)
        if typed:
            graph.edge_type = torch.tensor([t for *_, t in edges], dtype=torch.long)
        graphs.append(graph)
    return tuple(graphs)


@settings(relaxed, max_examples=examples(300))
@given(st.one_of(graph_pairs(), parallel_pairs()), st.booleans(), st.booleans())
def test_changes_are_the_literal_ones(graphs, directed, open_nodes):
    before, after = aligned(*graphs)
    found = listed(before, after, directed=directed, open_nodes=open_nodes)
    assert rows_of(found) == literal_changes(before, after, directed, open_nodes)
    assert found.id.tolist() == list(range(len(found)))
    assert sum(count_changes(found).values()) == len(found)


def undirected(*pairs):
    return torch.tensor([edge for u, v in pairs for edge in ((u, v), (v, u))]).T


@pytest.fixture
def explainer():
    """Node 4 comes with two edges, node 3 goes with one; 0-1 ends, 1-2 begins, 2 has other features."""
    before = Data(x=torch.ones(4, 2), edge_index=undirected((0, 1), (0, 2), (2, 3)), n_id=torch.arange(4))
    x = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 5.0], [1.0, 1.0]])
    after = Data(x=x, edge_index=undirected((0, 2), (1, 2), (0, 3), (1, 3)), n_id=torch.tensor([0, 1, 2, 4]))
    torch.manual_seed(0)
    names = {0: "Ann", 1: "Ben", 2: "Cat", 3: "Dan", 4: "Eve"}
    return axiompath.Explainer(GCN(2, 4, 2, 2).eval(), before, after, node_names=names, class_names=["no", "yes"])


def test_one_row_a_change_with_names(explainer):
    found = explainer.changes()
    assert list(found.columns) == [
        "id", "kind", "src", "src_name", "dst", "dst_name", "weight_before", "weight_after", "num_edges", "directed"
    ]  # fmt: skip
    told = found[["kind", "src_name", "dst_name", "num_edges"]].astype(object)
    told = told.where(told.notna(), None).to_numpy().tolist()
    assert told == [
        ["node added", "Eve", None, 2],
        ["node removed", "Dan", None, 1],
        ["features changed", "Cat", None, 0],
        ["edge added", "Ben", "Cat", 1],
        ["edge removed", "Ann", "Ben", 1],
    ]
    assert not found.directed[3:].any()
    opened = explainer.changes(open_nodes=True)
    assert opened.kind.tolist().count("edge added") == 3
    assert opened.kind.tolist().count("edge removed") == 2
    assert opened.num_edges[:2].tolist() == [0, 0]
    both = explainer.changes(directed=True, open_nodes=True)
    assert both.kind.tolist().count("edge added") == 6
    assert both.directed.all()


def test_moved_has_names_beside_numbers(explainer):
    moved = explainer.moved()
    assert list(moved.columns) == [
        "target", "name", "class_before", "class_before_name", "class_after", "class_after_name", "kl", "num_paths"
    ]  # fmt: skip
    assert dict(zip(moved.target, moved.name, strict=True)).items() <= explainer.node_names.items()
    assert moved.class_after_name.tolist() == [explainer.class_names[label] for label in moved.class_after]
    assert moved.kl.is_monotonic_decreasing


def test_paths_have_names_beside_numbers(explainer):
    target = int(explainer.moved().target[0])
    frame = explainer.attribute(target).to_frame()
    assert frame.target.tolist() == [target] * len(frame)
    assert (frame.name == explainer.node_names[target]).all()
    assert (frame.hop_2_name == frame.name).all()
    assert set(frame.hop_0_name[frame.hop_0 < 0]) <= {"bias"}
    assert {"class_0 (no)", "class_1 (yes)"} <= set(frame.columns)


def test_one_edge_one_way_leaves_others_undirected():
    x = torch.ones(3, 1)
    before = Data(x=x, edge_index=torch.cat([undirected((0, 1)), torch.tensor([[2], [0]])], dim=1))
    after = Data(x=x, edge_index=torch.tensor([[2], [0]]))
    snapshots = align_snapshots(read_snapshot(before, "before"), read_snapshot(after, "after"))
    found = listed(*snapshots)
    assert found[["src", "dst"]].to_numpy().tolist() == [[0, 1]]


@pytest.mark.long
def test_stored_graphs_tell_the_same_changes(tmp_path):
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 60, (2, 120)), axis=0), axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    names = np.array([f"n{i:02d}" for i in range(61)])
    x = rng.normal(size=(61, 3)).astype(np.float32)
    stored, given = [], []
    for name, ends, nodes in (
        ("before", np.delete(pairs, [40, 50, 60], axis=1), np.arange(60)),
        ("after", np.delete(pairs, [45, 55], axis=1), np.arange(1, 61)),
    ):
        both = np.concatenate([ends, ends[::-1]], axis=1)
        both = both[:, np.isin(both, nodes).all(axis=0)]
        changed = x.copy()
        changed[5] += name == "after"
        pd.DataFrame({"source": names[both[0]], "target": names[both[1]]}).to_parquet(
            tmp_path / f"{name}-edges.parquet"
        )
        table = pd.DataFrame({"id": names[nodes], **{f"f{i}": changed[nodes, i] for i in range(3)}})
        table.to_parquet(tmp_path / f"{name}-nodes.parquet")
        stored.append(
            axiompath.convert_graph(
                tmp_path / f"{name}-edges.parquet", tmp_path / name, nodes=tmp_path / f"{name}-nodes.parquet"
            )
        )
        place = np.full(61, -1)
        place[nodes] = np.arange(len(nodes))
        given.append(
            Data(
                x=torch.from_numpy(changed[nodes]),
                edge_index=torch.from_numpy(place[both]),
                n_id=torch.from_numpy(nodes),
            )
        )
    torch.manual_seed(0)
    model = GCN(3, 4, 2, 2).eval()
    small = axiompath.Explainer(model, *stored)
    whole = axiompath.Explainer(model, *given, node_names=dict(enumerate(names)))
    for options in ({}, {"directed": True}, {"open_nodes": True}):
        mine, theirs = small.changes(**options), whole.changes(**options)
        assert mine.equals(theirs), (mine, theirs)
    assert not small.changes().directed[small.changes().kind == "edge added"].any()
    assert set(whole.changes().kind) == {"node added", "node removed", "features changed", "edge added", "edge removed"}
    same = axiompath.Explainer(model, stored[0], stored[0])
    assert same.changes().empty


@pytest.mark.system
@pytest.mark.parametrize("weighted", [False, True])
def test_a_million_edges_take_seconds(weighted):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 100_000, (2, 500_000))
    weights = rng.uniform(size=500_000)
    later = weights.copy()
    later[1000:1500] += 1
    sides = []
    for kept, weight in ((slice(500, None), weights), (slice(0, -300), later)):
        index = np.concatenate([ends[:, kept], ends[::-1, kept]], axis=1)
        order = rng.permutation(index.shape[1])
        graph = Data(x=torch.ones(100_000, 1), edge_index=torch.from_numpy(index[:, order]))
        if weighted:
            graph.edge_weight = torch.from_numpy(np.concatenate([weight[kept]] * 2)[order])
        sides.append(read_snapshot(graph, "graph"))
    start = time.process_time()
    found = listed(*align_snapshots(*sides))
    took = time.process_time() - start
    expected = {"edges_added": 500, "edges_removed": 300, "edges_reweighted": 500 * weighted}
    assert {key: count_changes(found)[key] for key in expected} == expected
    assert took < 20  # about one second when nothing else runs


def test_a_directed_edge_elsewhere_splits_no_other_change():
    before, after = (Data(x=torch.randn(5, 2), edge_index=undirected((0, 1), pair)) for pair in ((1, 2), (0, 2)))
    after.x = before.x
    torch.manual_seed(0)
    model = GCN(2, 4, 2, 2).double().eval()
    for graph in (before, after):
        graph.edge_index = torch.cat([graph.edge_index, torch.tensor([[3], [4]])], dim=1)
    after.edge_index = torch.cat([after.edge_index, torch.tensor([[4], [1]])], dim=1)
    explainer = axiompath.Explainer(model, before, after)
    found = explainer.changes()
    assert list(zip(found.kind, found.src, found.dst, found.directed, strict=True)) == [
        ("edge added", 0, 2, False),
        ("edge added", 4, 1, True),
        ("edge removed", 1, 2, False),
    ]
    assert len(explainer.changes(directed=True)) == 5
    blame = explainer.blame(1)
    assert sorted(blame.changes) == [(0,), (1,), (2,)]
    alone = before.clone()
    alone.edge_index = torch.cat([before.edge_index, torch.tensor([[0, 2], [2, 0]])], dim=1)
    np.testing.assert_allclose(
        explainer.what_if(1, apply=[0]), model(alone.x.double(), alone.edge_index)[1].detach().numpy(), atol=1e-9
    )

"""Stored graphs: what is converted comes back sorted, in bounded memory; what is amiss is refused with a sentence."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.nn import GCN, SAGEConv

import axiompath
from axiompath import InputError, convert_graph, open_graph, read_graph, save_graph
from axiompath.cli import app as cli
from axiompath.files import match_graphs
from axiompath.files import order as sorting
from axiompath.graphs.pair import match_stored
from axiompath.graphs.sample import MAX_EDGES, sample_pair
from axiompath.graphs.stored import map_snapshot
from axiompath.readers import model as reading
from support.effort import examples

SIZES = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sorted_edges(edge_index, weights=None):
    """The literal twin: Python's own sort, which is stable."""
    order = sorted(range(edge_index.shape[1]), key=lambda e: (edge_index[1, e], edge_index[0, e]))
    return edge_index[:, order], None if weights is None else weights[order]


def assert_holds(graph, edge_index, weights=None):
    """The stored graph has these edges (rows of x), in order."""
    expected, expected_weights = sorted_edges(edge_index, weights)
    receivers = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    np.testing.assert_array_equal(np.stack([graph.senders, receivers]), expected)
    assert (graph.weights is None) == (weights is None)
    if weights is not None:
        np.testing.assert_array_equal(graph.weights, expected_weights)


def numbers_of_anything(seed, num_nodes=30, num_edges=200):
    rng = np.random.default_rng(seed)
    edge_index = rng.integers(num_nodes, size=(2, num_edges)) if num_nodes else np.zeros((2, 0), dtype=np.int64)
    return edge_index, rng.normal(size=num_edges).astype(np.float32), rng.normal(size=(num_nodes, 3)).astype(np.float32)


@pytest.fixture
def tables(tmp_path):
    """Writes an edge list and a node table; names of nodes as they are wanted."""

    def write(kind="parquet", names=None, weighted=True, seed=0):
        edge_index, weights, x = numbers_of_anything(seed)
        names = np.arange(len(x)) if names is None else np.asarray(names)
        edges = pd.DataFrame({"source": names[edge_index[0]], "Target": names[edge_index[1]]})
        if weighted:
            edges["weight"] = weights
        nodes = pd.DataFrame({"id": names, "label": ["a", "b", "a"] * 10, **{f"f{i}": x[:, i] for i in range(3)}})
        paths = tmp_path / f"edges.{kind}", tmp_path / f"nodes.{kind}"
        for path, table in zip(paths, (edges, nodes), strict=True):
            if kind == "parquet":
                table.to_parquet(path, row_group_size=50)
            else:
                table.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
        return paths, edge_index, weights if weighted else None, x

    return write


# ---- conversion ---------------------------------------------------------------------------------------------------
WORDS = [f"node {chr(97 + i % 26)}{i}" for i in range(30)]
SCATTERED = [7 * i + 3 for i in reversed(range(30))]


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv"])
@pytest.mark.parametrize("names", [None, WORDS, SCATTERED], ids=["rows", "words", "numbers"])
@pytest.mark.parametrize("weighted", [True, False])
def test_tables_come_back_as_read_graph_reads_them(tables, tmp_path, kind, names, weighted):
    (edges, nodes), edge_index, weights, _ = tables(kind, names, weighted)
    graph = convert_graph(edges, tmp_path / "stored", nodes=nodes)
    assert_holds(graph, edge_index, weights)
    in_memory = read_graph(edges, nodes)
    np.testing.assert_array_equal(graph.x, in_memory.data.x)
    assert graph.class_names == in_memory.class_names == ("a", "b")
    if names is None:
        assert graph.names is None
    else:
        assert tuple(graph.names.to_pylist()) == in_memory.row_names
    assert read_graph(tmp_path / "stored").data.num_edges == 200
    assert sorted(path.name for path in tmp_path.iterdir() if "stored" in path.name) == ["stored"]


@pytest.mark.parametrize("layout", ["2 x E", "E x 2", "Fortran", "int32"])
def test_plain_arrays_are_mapped_and_sorted(tmp_path, layout):
    edge_index, weights, x = numbers_of_anything(1)
    given = {
        "2 x E": edge_index,
        "E x 2": np.ascontiguousarray(edge_index.T),
        "Fortran": np.asfortranarray(edge_index),
        "int32": edge_index.astype(np.int32),
    }[layout]
    for name, array in (("edge_index", given), ("edge_weight", weights.astype(np.float64)), ("x", x)):
        np.save(tmp_path / f"{name}.npy", array)
    paths = {"nodes": tmp_path / "x.npy", "weights": tmp_path / "edge_weight.npy"}
    graph = convert_graph(tmp_path / "edge_index.npy", tmp_path / "stored", **paths)
    assert_holds(graph, edge_index, weights.astype(np.float64))
    assert (graph.senders.dtype, graph.weights.dtype, graph.x.dtype) == (np.int32, np.float64, np.float32)
    np.testing.assert_array_equal(graph.x, x)
    assert isinstance(graph.x, np.memmap)


@pytest.mark.parametrize("kind", ["npz", "pt"])
@pytest.mark.parametrize("features", ["dense", "sparse"])
def test_whole_graphs_are_converted(tmp_path, kind, features):
    edge_index, weights, x = numbers_of_anything(2)
    x[np.abs(x) < 0.5] = 0
    data = Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edge_index), edge_weight=torch.from_numpy(weights))
    data.n_id = torch.arange(30) + 5
    if features == "sparse":
        data.x = data.x.to_sparse_csr()
    path = tmp_path / f"g.{kind}"
    if kind == "npz":
        save_graph(path, data, class_names=["no", "yes"])
    else:
        torch.save(data, path)
    graph = convert_graph(path, tmp_path / "stored")
    assert_holds(graph, edge_index, weights)
    assert graph.names.to_pylist() == [str(i + 5) for i in range(30)]
    if features == "sparse":
        assert sparse.issparse(graph.x)
    back = map_snapshot(graph).take_features(np.arange(30)[::-1])
    np.testing.assert_array_equal(back.toarray() if features == "sparse" else back, x[::-1])


@SIZES
@given(seed=st.integers(0, 10**6), num_edges=st.integers(0, 400), room=st.integers(2, 60), weighted=st.booleans())
def test_edges_are_sorted_alike_however_little_fits_into_memory(tmp_path, seed, num_edges, room, weighted):
    edge_index, weights, x = numbers_of_anything(seed, num_edges=num_edges)
    target = tmp_path / f"{seed}_{num_edges}_{room}_{weighted}"
    shutil.rmtree(target, ignore_errors=True)
    for name, array in (("edge_index", edge_index), ("edge_weight", weights), ("x", x)):
        np.save(tmp_path / f"{name}.npy", array)
    with pytest.MonkeyPatch.context() as patch:
        # So few edges at a time that there are many batches and ranges.
        patch.setattr(sorting, "LEAST_BYTES", 0)
        patch.setattr(sorting, "SORTED_BYTES", 2e9 / 2 / room)
        patch.setattr(sorting, "RANGE_BYTES", 2e9 / room)
        graph = convert_graph(
            tmp_path / "edge_index.npy", target, nodes=tmp_path / "x.npy",
            weights=tmp_path / "edge_weight.npy" if weighted else None,
        )  # fmt: skip
    assert_holds(graph, edge_index, weights if weighted else None)


def test_long_rows_keep_the_order_of_parallel_edges(tmp_path):
    edge_index = np.stack([np.arange(300) % 7, np.zeros(300, dtype=np.int64)])
    weights = np.arange(300.0)
    for name, array in (("edge_index", edge_index), ("edge_weight", weights), ("x", np.ones((8, 1)))):
        np.save(tmp_path / f"{name}.npy", array)
    paths = {"nodes": tmp_path / "x.npy", "weights": tmp_path / "edge_weight.npy"}
    assert_holds(convert_graph(tmp_path / "edge_index.npy", tmp_path / "stored", **paths), edge_index, weights)


def test_features_of_another_graph_are_linked_and_take_no_space(tables, tmp_path):
    (edges, nodes), *_ = tables(names=WORDS)
    before = convert_graph(edges, tmp_path / "before", nodes=nodes)
    after = convert_graph(edges, tmp_path / "after", features_of=tmp_path / "before")
    assert (tmp_path / "before" / "x.npy").samefile(tmp_path / "after" / "x.npy")
    assert after.names.equals(before.names)
    assert after.class_names == before.class_names
    pair = match_stored(before, after)
    assert not pair.altered.any()
    assert not pair.touched.any()


# ---- refusals -----------------------------------------------------------------------------------------------------
def refused(sentence, call, *args, **kwargs):
    with pytest.raises(InputError, match=sentence):
        call(*args, **kwargs)


def test_what_cannot_be_converted_is_refused_and_leaves_nothing_behind(tables, tmp_path):
    (edges, nodes), *_ = tables()
    stored = tmp_path / "stored"
    strangers = tmp_path / "strangers.csv"
    strangers.write_text("source,target\n0,99\n")
    refused("got 99", convert_graph, strangers, stored, nodes=nodes)
    strangers.write_text("source,target\n0,x1\n")
    refused("got 'x1'", convert_graph, strangers, stored, nodes=nodes)
    strangers.write_text("source,target,weight\n0,1,nan\n")
    refused("Expected a number in every row of the column 'weight'", convert_graph, strangers, stored, nodes=nodes)
    strangers.write_text("source,target\n0,\n")
    refused("Expected a node in every row", convert_graph, strangers, stored, nodes=nodes)
    strangers.write_text("from,weight\n0,1\n")
    refused("Expected the columns `source` and `target`", convert_graph, strangers, stored, nodes=nodes)
    twice = tmp_path / "twice.csv"
    for ids in ("a\na\n", "3\n3\n"):
        twice.write_text("id,f\n" + ids.replace("\n", ",1\n"))
        refused("Expected every node once", convert_graph, edges, stored, nodes=twice)
    twice.write_text("id,f\n")
    refused("Expected at least one node", convert_graph, edges, stored, nodes=twice)
    refused("Expected the nodes of .* in one place", convert_graph, edges, stored)
    refused(r"at least [0-9.]+ MB for 30 nodes \(got 1 MB\)", convert_graph, edges, stored, nodes=nodes, memory="1MB")
    refused("Expected edges as", convert_graph, tmp_path / "e.txt", stored, nodes=nodes)
    refused("does not exist", convert_graph, edges, tmp_path / "no" / "stored", nodes=nodes)
    np.save(tmp_path / "e.npy", np.array([["a", "b"]], dtype=object), allow_pickle=True)
    refused("Expected a whole .npy array", convert_graph, tmp_path / "e.npy", stored, nodes=nodes)
    np.save(tmp_path / "e.npy", np.zeros((3, 4), dtype=np.int64))
    refused("Expected whole numbers of shape", convert_graph, tmp_path / "e.npy", stored, nodes=nodes)
    np.save(tmp_path / "e.npy", np.zeros((2, 4), dtype=np.int64))
    np.save(tmp_path / "x.npy", np.array([[np.nan]]))
    refused("Expected finite features", convert_graph, tmp_path / "e.npy", stored, nodes=tmp_path / "x.npy")
    assert not [path for path in tmp_path.iterdir() if "stored" in path.name]
    stored.mkdir()
    refused("does not exist yet", convert_graph, edges, stored, nodes=nodes)
    assert list(stored.iterdir()) == []


def damage(folder, name, array):
    (folder / f"{name}.npy").unlink()
    np.save(folder / f"{name}.npy", array)


DAMAGES = {
    "no header": (lambda f: (f / "graph.json").unlink(), "it has no graph.json"),
    "half a header": (lambda f: (f / "graph.json").write_text('{"form'), "Expected JSON in .*graph.json"),
    "foreign": (lambda f: (f / "graph.json").write_text("[]"), "Expected a saved graph"),
    "later version": (
        lambda f: (f / "graph.json").write_text((f / "graph.json").read_text().replace('"version": 1', '"version": 2')),
        "Expected version 1",
    ),
    "no sizes": (
        lambda f: (f / "graph.json").write_text('{"format": "axiompath.graph", "version": 1, "num_nodes": -3}'),
        "Expected the header of a stored graph in .*missing: class_names, named",
    ),
    "missing": (lambda f: (f / "senders.npy").unlink(), "Expected a (file|whole .npy array) at .*senders.npy"),
    "cut short": (lambda f: os.truncate(f / "senders.npy", 300), "Expected a (file|whole .npy array) at .*senders.npy"),
    "pickled": (
        lambda f: damage(f, "weights", np.array([{}] * 200, dtype=object)),
        "Expected a (file|whole .npy array) at .*weights.npy",
    ),
    "other length": (lambda f: damage(f, "weights", np.ones(199)), "shape \\(200,\\)"),
    "other type": (lambda f: damage(f, "senders", np.zeros(200)), "Expected int32 or int64"),
    "descending": (
        lambda f: damage(f, "indptr", np.array([0, 9, 5, *[200] * 28])),
        "ascend from 0 to the number of entries",
    ),
    "ends early": (lambda f: damage(f, "indptr", np.zeros(31, dtype=np.int64)), "ascend from 0"),
    "stranger": (lambda f: damage(f, "senders", np.full(200, 30, dtype=np.int32)), "all of them nodes 0 to 29"),
    "negative": (lambda f: damage(f, "senders", np.full(200, -1, dtype=np.int32)), "all of them nodes 0 to 29"),
    "unsorted": (
        lambda f: damage(f, "senders", np.load(f / "senders.npy")[::-1].copy()),
        "Expected the senders of each node in ascending order",
    ),
    "infinite": (lambda f: damage(f, "weights", np.full(200, np.inf)), "Expected finite weights"),
    "no text": (
        lambda f: damage(f, "names", np.full(len(np.load(f / "names.npy")), 255, dtype=np.uint8)),
        "Expected names",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_refused_with_a_sentence(tables, tmp_path, name):
    (edges, nodes), *_ = tables(names=WORDS)
    convert_graph(edges, tmp_path / "stored", nodes=nodes)
    spoil, sentence = DAMAGES[name]
    spoil(tmp_path / "stored")
    refused(sentence, open_graph, tmp_path / "stored")


def test_features_are_checked_where_they_are_used(tables, tmp_path):
    (edges, nodes), *_ = tables()
    before = convert_graph(edges, tmp_path / "before", nodes=nodes)
    damage(tmp_path / "before", "x", np.full((30, 3), np.nan, dtype=np.float32))
    before = open_graph(tmp_path / "before")
    refused("Expected finite features", sample_pair, match_stored(before, before))


def test_a_name_that_two_nodes_have_is_refused_where_names_match_nodes(tables, tmp_path):
    graphs = []
    for name, words in (("before", WORDS), ("after", WORDS[::-1])):
        (edges, nodes), *_ = tables(names=words)
        graphs.append(convert_graph(edges, tmp_path / name, nodes=nodes))
    match_stored(*graphs)
    damage(tmp_path / "after", "names", np.full(30, ord("a"), dtype=np.uint8))
    damage(tmp_path / "after", "names_indptr", np.arange(31))
    refused("Expected every name once in .*after", match_stored, graphs[0], open_graph(tmp_path / "after"))


def test_sparse_features_that_lie_are_refused_where_they_are_used(tmp_path):
    x = torch.eye(30).to_sparse_csr()
    axiompath.save_graph(tmp_path / "g.npz", Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long)))
    graph = convert_graph(tmp_path / "g.npz", tmp_path / "stored")
    for columns in (np.full(30, 30), np.full(30, -1), np.full(30, 2**62)):
        damage(tmp_path / "stored", "x_indices", columns)
        graph = open_graph(tmp_path / "stored")
        refused("Expected 30 columns of features in .*x_data.npy", map_snapshot(graph).take_features, np.arange(30))


def test_graphs_that_do_not_fit_together_are_refused(tables, tmp_path):
    (edges, nodes), *_ = tables()
    one = convert_graph(edges, tmp_path / "one", nodes=nodes)
    (edges, nodes), *_ = tables(names=WORDS)
    named = convert_graph(edges, tmp_path / "named", nodes=nodes)
    refused("Expected names in both graphs or in neither", match_stored, one, named)
    (edges, nodes), *_ = tables(weighted=False)
    bare = convert_graph(edges, tmp_path / "bare", nodes=nodes)
    refused("Expected weights in both graphs or in neither", match_stored, one, bare)
    np.save(tmp_path / "x.npy", np.ones((30, 5)))
    wide = convert_graph(edges, tmp_path / "wide", nodes=tmp_path / "x.npy")
    refused("Expected node features of the same width", match_stored, wide, bare)
    refused("Expected all graphs stored or none", match_graphs, read_graph(tmp_path / "bare"), read_graph(edges, nodes))
    with pytest.raises(TypeError, match="Expected two stored graphs or two Data objects"):
        axiompath.Explainer(GCN(3, 4, 1, 2), read_graph(edges, nodes).data, bare)


# ---- explaining ---------------------------------------------------------------------------------------------------
@pytest.fixture
def chain(tmp_path):
    """A long path of nodes, 0 -> 1 -> ... -> 199, of which `after` lacks the edge 99 -> 100."""
    u = np.arange(199)
    stored = []
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(200, 3)))
    for name, kept in (("before", u), ("after", u[u != 99])):
        np.save(tmp_path / f"{name}.npy", np.stack([kept, kept + 1]))
        nodes = {"nodes": tmp_path / "x.npy"} if name == "before" else {"features_of": tmp_path / "before"}
        stored.append(convert_graph(tmp_path / f"{name}.npy", tmp_path / name, **nodes))
    torch.manual_seed(0)
    return GCN(3, 4, 2, 2).double(), *stored


def test_only_what_the_change_reaches_is_computed(chain):
    explainer = axiompath.Explainer(*chain)
    assert explainer.num_nodes == explainer.num_shared_nodes == 200
    # Of 100 the degree differs; what it sends on changes 101 (its row, too) and, a hop later, 102.
    assert sorted(explainer.moved().target) == [100, 101, 102]
    assert explainer.change.before.node_ids.tolist() == [98, 99, 100, 101, 102]


def test_targets_that_no_change_reaches_are_refused(chain):
    explainer = axiompath.Explainer(*chain)
    for node in (0, 99, 199):  # far away, at the rim, at the end
        with pytest.raises(ValueError, match="Expected a target that the change reaches"):
            explainer.explain(node)
    for node in (-1, 200):
        with pytest.raises(ValueError, match="Expected a target among the nodes 0 to 199"):
            explainer.explain(node)


def test_nothing_changed_is_an_answer_too(chain):
    explainer = axiompath.Explainer(chain[0], chain[1], chain[1])
    assert len(explainer.moved()) == 0


def test_an_explanation_carries_the_region_for_pyg(chain):
    explanation = axiompath.Explainer(*chain).explain(101, 3)
    pyg = explanation.to_pyg()
    assert pyg.x.dtype == torch.float64
    assert pyg.edge_mask.shape == (pyg.edge_index.shape[1],)
    assert explanation.graph.n_id[pyg.index].tolist() == [101]


def test_a_report_counts_all_nodes(chain):
    assert '"num_units": 200' in axiompath.build_report(axiompath.Explainer(*chain)).replace('":200', '": 200')


def test_a_model_is_read_on_a_sample_of_a_large_graph(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "e.npy", rng.integers(5000, size=(2, 400_000)))
    np.save(tmp_path / "x.npy", rng.normal(size=(5000, 3)))
    graph = convert_graph(tmp_path / "e.npy", tmp_path / "g", nodes=tmp_path / "x.npy")
    before, after = sample_pair(match_stored(graph, graph))
    for data in (before, after):
        assert 0.9 * MAX_EDGES < data.edge_index.shape[1] <= MAX_EDGES


@pytest.mark.parametrize("weighted", [True, False])
def test_large_graphs_in_memory_are_checked_on_samples_too(monkeypatch, weighted):
    rng = np.random.default_rng(0)
    edges, x = torch.from_numpy(rng.integers(500, size=(2, 3000))), torch.from_numpy(rng.normal(size=(500, 3)))
    graphs = [Data(x=x, edge_index=edges[:, :-5]), Data(x=x, edge_index=edges[:, 5:])]
    for data in graphs:
        data.edge_weight = torch.ones(2995) * 0.7 if weighted else None
    model = GCN(3, 4, 2, 2).double()
    whole = axiompath.Explainer(model, *graphs).moved()
    sizes = []
    read = reading.read_pair

    def spy(model, data, *rest, **settings):
        sizes.extend(one.edge_index.shape[1] for one in data)
        return read(model, data, *rest, **settings)

    monkeypatch.setattr(reading, "read_pair", spy)
    monkeypatch.setattr(reading, "WHOLE_EDGES", 1000)
    monkeypatch.setattr("axiompath.graphs.sample.MAX_EDGES", 800)
    monkeypatch.setattr("axiompath.graphs.sample.NUM_SEEDS", 20)
    sampled = axiompath.Explainer(model, *graphs).moved()
    pd.testing.assert_frame_equal(whole, sampled)
    assert sizes == [800, 800]

    class Wrong(SAGEConv):
        def forward(self, x, edge_index, **settings):
            return super().forward(x, edge_index, **settings) * (1 + 1e-3 * edge_index.shape[1])

    with pytest.raises(axiompath.readers.UnreadableModel):
        axiompath.Explainer(Wrong(3, 2).double(), *graphs)


# ---- the command line ---------------------------------------------------------------------------------------------
def run(*arguments):
    """The program in this process: loading torch anew takes longer than all that is asked of it."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["axiompath", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def test_the_command_line_converts_and_explains_by_name(tables, tmp_path):
    (edges, nodes), *_ = tables(names=WORDS, weighted=False)
    done = run("convert", edges, "--nodes", nodes, "--out", tmp_path / "before", "--json", "--memory", "100MB")
    assert done.returncode == 0, done.stderr
    sizes = {"nodes": 30, "edges": 200, "features": 3, "weighted": False}
    assert json.loads(done.stdout) == {"graph": str(tmp_path / "before"), **sizes}
    again = run("convert", edges, "--nodes", nodes, "--out", tmp_path / "before")
    assert again.returncode == 2
    assert "does not exist yet" in again.stderr
    table = pd.read_parquet(edges).iloc[:-1]
    table.to_parquet(tmp_path / "fewer.parquet")
    fewer = run(
        "convert", tmp_path / "fewer.parquet", "--features-of", tmp_path / "before", "--out", tmp_path / "after"
    )
    assert fewer.returncode == 0, fewer.stderr
    assert "Stored 30 nodes and 199 edges" in fewer.stdout
    settings = {"in_channels": 3, "hidden_channels": 4, "num_layers": 2, "out_channels": 2}
    torch.manual_seed(0)
    axiompath.save_model(GCN(**settings), tmp_path / "model", settings)
    where = tmp_path / "before", tmp_path / "after"
    difference = run("diff", *where, "--model", tmp_path / "model", "--json")
    assert difference.returncode == 0, difference.stderr
    found = json.loads(difference.stdout)
    lost = pd.read_parquet(edges).iloc[-1]
    (change,) = found["changes"]
    assert (change["kind"], change["src_name"], change["dst_name"]) == ("edge removed", lost.source, lost.Target)
    assert (change["weight_before"], change["weight_after"]) == (1.0, None)
    name = found["predictions"][0]["name"]
    assert name in WORDS
    explained = run("explain", tmp_path / "model", *where, "--target", name, "--json")
    assert explained.returncode == 0, explained.stderr
    (answer,) = json.loads(explained.stdout)
    assert answer["node_names"][str(answer["target"])] == name
    checked = run("check", tmp_path / "model", tmp_path / "before")
    assert checked.returncode == 0, checked.stderr
    same = run("diff", tmp_path / "before", tmp_path / "before", "--json")
    assert json.loads(same.stdout)["changes"] == []


# ---- memory -------------------------------------------------------------------------------------------------------
# The peak since it was last reset: unlike ru_maxrss, which a child takes over from the process that started it.
MEASURE = """
import json, sys
import axiompath
import axiompath.files.conversion

def kilobytes(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key))

with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")
floor = kilobytes("VmRSS")
edges, nodes, out, memory = sys.argv[1:]
axiompath.convert_graph(edges, out, nodes=nodes, memory=memory)
print(json.dumps((kilobytes("VmHWM") - floor) * 1024))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="peak memory is read as Linux tells it")
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "budgets"), [("parquet", (60e6, 160e6)), ("npy", (30e6, 120e6))])
def test_peak_memory_follows_the_budget_and_not_the_number_of_edges(tmp_path, kind, budgets):
    rng = np.random.default_rng(0)
    num_nodes, num_edges = 100_000, 8_000_000
    edge_index = rng.integers(num_nodes, size=(2, num_edges))
    np.save(tmp_path / "x.npy", rng.normal(size=(num_nodes, 16)).astype(np.float32))
    edges = tmp_path / f"edges.{kind}"
    if kind == "npy":
        np.save(edges, edge_index)
    else:
        pd.DataFrame({"source": edge_index[0], "target": edge_index[1]}).to_parquet(edges)
    del edge_index
    peaks = {}
    for memory in budgets:
        out = tmp_path / f"stored{memory:.0f}"
        arguments = [edges, tmp_path / "x.npy", out, f"{memory:.0f}"]
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *map(str, arguments)], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        peaks[memory] = json.loads(done.stdout)
        assert open_graph(out).num_edges == num_edges
    # The list itself is 128 MB; what the process takes beyond its imports stays within the budget.
    assert all(peak <= memory for memory, peak in peaks.items()), peaks

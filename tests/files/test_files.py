"""Files: what is written comes back; what is amiss is refused with a sentence, runs no code and overwrites nothing."""

import io
import json
import os
import pickle
import struct
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from torch_geometric.data import Data
from torch_geometric.nn import GCN, SAGEConv

import axiompath
from axiompath import InputError, load_model, read_graph, save_graph, save_model
from axiompath.errors import Notice
from axiompath.files import match_graphs, read_model
from axiompath.files.npz import read_arrays
from axiompath.files.sum_gnn import SumGNN


def small_graph(**extra):
    x = torch.arange(8, dtype=torch.float32).reshape(4, 2)
    return Data(x=x, edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.tensor([0, 1, 0, 1]), **extra)


class Bomb:
    """Unpickling it would leave a mark."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


# ---- graphs -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("features", ["dense", "sparse"])
def test_a_saved_graph_comes_back_whole(tmp_path, features):
    data = small_graph(edge_weight=torch.tensor([0.5, 1.0, 2.0]), n_id=torch.tensor([7, 3, 9, 1]))
    if features == "sparse":
        data.x = data.x.to_sparse_csr()
    path = save_graph(tmp_path / "g.npz", data, ["Ann", "Ben", "Zoë", "</script>"], ["no", "yes"])
    graph = read_graph(path)
    for key in ("edge_index", "edge_weight", "n_id", "y"):
        assert torch.equal(graph.data[key], data[key])
    back = graph.data.x.to_dense() if features == "sparse" else graph.data.x
    np.testing.assert_allclose(back, torch.arange(8).reshape(4, 2))
    assert graph.node_names == {7: "Ann", 3: "Ben", 9: "Zoë", 1: "</script>"}
    assert graph.class_names == ("no", "yes")
    assert [file.name for file in tmp_path.iterdir()] == ["g.npz"]


def test_a_pyg_file_is_read_without_unpickling_objects(tmp_path):
    data = small_graph(node_names=["a", "b", "c", "d"])
    torch.save(data, tmp_path / "g.pt")
    graph = read_graph(tmp_path / "g.pt")
    assert torch.equal(graph.data.edge_index, data.edge_index)
    assert graph.row_names == ("a", "b", "c", "d")
    torch.save({"x": data.x, "edge_index": data.edge_index}, tmp_path / "dict.pt")
    assert torch.equal(read_graph(tmp_path / "dict.pt").data.x, data.x)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_tables_become_a_graph_with_names(tmp_path, suffix):
    edges = pd.DataFrame({"Source": ["Ann", "Ben"], "Target": ["Ben", "007"], "weight": [1.0, 0.5]})
    nodes = pd.DataFrame(
        {"id": ["Ann", "Ben", "007"], "age": [3, 4, 5], "score": [0.1, 0.2, 0.3], "label": ["b", "a", "b"]}
    )
    for name, table in (("edges", edges), ("nodes", nodes)):
        path = tmp_path / f"{name}{suffix}"
        if suffix == ".parquet":
            table.to_parquet(path)
        else:
            table.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    for graph in (read_graph(tmp_path), read_graph(tmp_path / f"edges{suffix}", tmp_path / f"nodes{suffix}")):
        assert graph.row_names == ("Ann", "Ben", "007")
        assert graph.data.edge_index.tolist() == [[0, 1], [1, 2]]
        assert graph.data.edge_weight.tolist() == [1.0, 0.5]
        np.testing.assert_allclose(graph.data.x, [[3, 0.1], [4, 0.2], [5, 0.3]], rtol=1e-6)
        assert graph.class_names == ("a", "b")
        assert graph.data.y.tolist() == [1, 0, 1]


def test_graphs_are_matched_by_name(tmp_path):
    data = small_graph()
    before = read_graph(save_graph(tmp_path / "b.npz", data, ["a", "b", "c", "d"]))
    after = read_graph(save_graph(tmp_path / "a.npz", data, ["d", "a", "new", "b"]))
    first, second = match_graphs(before, after)
    assert first.data.n_id.tolist() == [0, 1, 2, 3]
    assert second.data.n_id.tolist() == [3, 0, 4, 1]
    assert second.node_names == {3: "d", 0: "a", 4: "new", 1: "b"}
    same = match_graphs(before, before)
    assert same[0].data.get("n_id") is None
    numbered = read_graph(save_graph(tmp_path / "n.npz", small_graph(n_id=torch.arange(4))))
    with pytest.raises(InputError, match=r"Expected `n_id` in all graphs or in none \(got it in 1 of 2\)"):
        match_graphs(before, numbered)


def npz_with_header(path, shape, dtype="<f8"):
    """An .npz whose one array declares a shape and holds nothing."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
        archive.writestr("edge_index.npy", header.getvalue())


def break_graph(kind, folder):
    path = folder / "bad.npz"
    mark = folder / "mark"
    if kind == "missing":
        return path
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "cut short":
        save_graph(path, small_graph())
        path.write_bytes(path.read_bytes()[:-200])
    elif kind == "a picture":
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    elif kind == "objects":
        np.savez(path, x=np.array([Bomb(mark)], dtype=object), edge_index=np.zeros((2, 0), dtype=int))
    elif kind == "10 GB by its header":
        npz_with_header(path, (10**6, 10**4))
    elif kind == "another version":
        np.savez(path, version=np.array(99), x=np.eye(2), edge_index=np.zeros((2, 0), dtype=int))
    elif kind == "other arrays":
        np.savez(path, weights=np.eye(3))
    elif kind == "edges to nowhere":
        np.savez(path, x=np.eye(2), edge_index=np.array([[0], [5]]))
    elif kind == "words for numbers":
        np.savez(path, x=np.array([["a", "b"]]), edge_index=np.zeros((2, 0), dtype=int))
    elif kind == "too few names":
        np.savez(path, x=np.eye(3), edge_index=np.zeros((2, 0), dtype=int), node_names=np.array(["a"]))
    elif kind == "sparse nonsense":
        np.savez(path, x_data=np.ones(3), x_indices=np.array([0, 9, 1]), x_indptr=np.array([0, 2, 3]),
                 x_shape=np.array([2, 2]), edge_index=np.zeros((2, 0), dtype=int))  # fmt: skip
    elif kind == "a pickle in .pt":
        path = folder / "bad.pt"
        torch.save({"x": torch.eye(2), "edge_index": Bomb(mark)}, path)
    elif kind == "a bare pickle in .pt":
        path = folder / "bad.pt"
        path.write_bytes(pickle.dumps(Bomb(mark)))
    elif kind == ".pt cut short":
        path = folder / "bad.pt"
        torch.save(small_graph(), path)
        path.write_bytes(path.read_bytes()[:-300])
    elif kind == ".pt of a list":
        path = folder / "bad.pt"
        torch.save([1, 2], path)
    elif kind == ".pt that expands":
        path = folder / "bad.pt"
        torch.save({"x": torch.zeros(1, 1).expand(10**6, 10**4), "edge_index": torch.zeros(2, 0).long()}, path)
    elif kind == "another suffix":
        path = folder / "graph.xlsx"
        path.write_bytes(b"PK")
    return path


BROKEN_GRAPHS = {
    "missing": r"Expected a file at .*\(found none\)",
    "empty": "is empty",
    "cut short": "cut short",
    "a picture": "of another kind",
    "objects": "holds Python objects, which would need unpickling",
    "10 GB by its header": "Expected as many bytes as `edge_index` has numbers",
    "another version": r"Expected version 1 of the graph format .*got 99",
    "other arrays": "Expected the arrays `x` and `edge_index`",
    "edges to nowhere": r"to hold nodes 0 to 1, the rows of x \(got 5\)",
    "words for numbers": "Expected numbers in the arrays",
    "too few names": r"a name for each of the 3 nodes .*got 1 names",
    "sparse nonsense": "do not fit together",
    "a pickle in .pt": r"holds other Python objects: (posix|os)\.mkdir",
    "a bare pickle in .pt": "of another kind",
    ".pt cut short": "cut short",
    ".pt of a list": "got another kind",
    ".pt that expands": r"at most 500 MB in memory .* says 13[0-9] GB",
    "another suffix": r"Expected a graph as .npz, .pt",
}


@pytest.mark.parametrize("kind", BROKEN_GRAPHS)
def test_a_broken_graph_is_refused_and_no_code_runs(tmp_path, kind):
    path = break_graph(kind, tmp_path)
    content = path.read_bytes() if path.exists() else None
    with pytest.raises(InputError, match=BROKEN_GRAPHS[kind]):
        read_graph(path)
    assert not (tmp_path / "mark").exists()
    assert (path.read_bytes() if path.exists() else None) == content


BROKEN_TABLES = {
    "no target column": ("a,b\n1,2\n", "id,f\n1,2\n", "Expected the columns `source` and `target`"),
    "no id column": ("source,target\n1,2\n", "f,g\n1,2\n", "Expected a column `id`"),
    "a node twice": ("source,target\n1,1\n", "id,f\n1,2\n1,3\n", r"every node once .*got '1' twice"),
    "no features": ("source,target\n1,1\n", "id\n1\n", "Expected features"),
    "a word among numbers": ("source,target\n1,1\n", "id,f\n1,much\n", r"row 1 has 'much'"),
    "an unknown node": ("source,target\n1,9\n", "id,f\n1,2\n", r"got '9', which is not among them"),
    "a nameless node": ("source,target\n1,\n", "id,f\n1,2\n", "Expected a node in every row"),
    "an endless weight": ("source,target,weight\n1,1,inf\n", "id,f\n1,2\n", "Expected a number in every row"),
}


@pytest.mark.parametrize("kind", BROKEN_TABLES)
def test_broken_tables_are_refused(tmp_path, kind):
    edges, nodes, words = BROKEN_TABLES[kind]
    (tmp_path / "edges.csv").write_text(edges)
    (tmp_path / "nodes.csv").write_text(nodes)
    with pytest.raises(InputError, match=words):
        read_graph(tmp_path)


def test_tables_of_another_kind_are_refused(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,f\n1,2\n")
    (tmp_path / "edges.parquet").write_bytes(b"PAR1" + bytes(40))
    with pytest.raises(InputError, match="Expected a Parquet table"):
        read_graph(tmp_path / "edges.parquet", tmp_path / "nodes.csv")
    (tmp_path / "edges.csv").write_bytes(bytes(range(256)) * 3)
    with pytest.raises(InputError, match="Expected"):
        read_graph(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    with pytest.raises(InputError, match="Expected a node table"):
        read_graph(tmp_path / "edges.csv")
    with pytest.raises(InputError, match=r"Expected edges.csv or edges.parquet in the folder"):
        read_graph(tmp_path / "..")


# ---- models -------------------------------------------------------------------------------------------------------
GCN_ARGUMENTS = {"in_channels": 2, "hidden_channels": 4, "num_layers": 2, "out_channels": 3}
EXTRA = {"norm": "batch_norm", "act": "elu"}


@pytest.mark.parametrize(
    ("build", "arguments"),
    [
        (lambda: GCN(**GCN_ARGUMENTS), GCN_ARGUMENTS),
        (lambda: GCN(**GCN_ARGUMENTS, **EXTRA).double(), GCN_ARGUMENTS | EXTRA),
        (lambda: GCN(**GCN_ARGUMENTS | {"in_channels": -1}), {**GCN_ARGUMENTS, "in_channels": -1}),
        (lambda: SAGEConv(2, 3), {"in_channels": 2, "out_channels": 3}),
        (lambda: SumGNN([2, 4, 3]).double(), {"widths": [2, 4, 3]}),
    ],
)  # fmt: skip
def test_a_saved_model_predicts_the_same(tmp_path, build, arguments):
    torch.manual_seed(0)
    model, data = build().eval(), small_graph()
    data.x = data.x.to(list(model.parameters())[-1].dtype)
    expected = model(data.x, data.edge_index)
    save_model(model, tmp_path / "m", arguments)
    back = load_model(tmp_path / "m")
    assert torch.equal(back(data.x, data.edge_index), expected)
    assert not back.training
    assert sorted(file.name for file in (tmp_path / "m").iterdir()) == ["model.json", "weights.safetensors"]


def test_ones_own_class_is_named_never_described(tmp_path, monkeypatch):
    class Mine(torch.nn.Module):
        pass

    with pytest.raises(InputError, match="for your own class save its weights with safetensors"):
        save_model(Mine(), tmp_path / "m", {})
    assert not (tmp_path / "m").exists()
    (tmp_path / "own_networks.py").write_text(
        "from torch_geometric.nn import GCN\ndef build():\n    return GCN(2, 4, 2, 3)\ndef wrong():\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    torch.manual_seed(1)
    model = GCN(2, 4, 2, 3)
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    data = small_graph()
    back = read_model("own_networks:build", tmp_path / "w.safetensors")
    assert torch.equal(back(data.x, data.edge_index), model.eval()(data.x, data.edge_index))
    with pytest.raises(InputError, match=r"to return a torch.nn.Module \(got int\)"):
        read_model("own_networks:wrong")
    for name in ("own_networks:nothing", "no_such_module_here:build"):
        with pytest.raises(InputError, match="that Python can import"):
            read_model(name)
    with pytest.raises(InputError, match=r"Expected a folder with model\.json"):
        read_model("nowhere")


def test_the_current_folder_is_imported_from_for_a_named_function_alone(tmp_path, monkeypatch):
    """Whatever else lies there may bear the name of a library."""
    (tmp_path / "mine_alone.py").write_text(
        "from torch_geometric.nn import GCN\ndef build():\n    return GCN(2, 4, 2, 3)\n"
    )
    (tmp_path / "broken_alone.py").write_text("import no_such_library\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [place for place in sys.path if place])
    held = list(sys.path)
    with pytest.warns(Notice, match="No --weights were given"):
        read_model("mine_alone:build")
    assert sys.path == held
    with pytest.raises(InputError, match="your own code failed"):
        read_model("broken_alone:build")
    assert sys.path == held


def describe(**changes):
    return {
        "format": "axiompath.model",
        "version": 1,
        "class": "torch_geometric.nn.GCN",
        "arguments": GCN_ARGUMENTS,
    } | changes


BROKEN_MODELS = {
    "another format": ({"a": 1}, r"Expected a saved model \(format 'axiompath.model'\) in .*model\.json"),
    "another version": (describe(version=2), r"Expected version 1 of the format in .*model\.json \(got 2\)"),
    "a class that is not a model": (describe(**{"class": "torch_geometric.nn.Linear"}), "Expected a network of"),
    "a function of the system": (describe(**{"class": "os.system"}), "Expected a network of"),
    "a path into the package": (describe(**{"class": "torch_geometric.nn.models.os.system"}), "Expected a network of"),
    "a container that runs text": (describe(**{"class": "torch_geometric.nn.Sequential"}), "Expected a network of"),
    "a name that is no class": (describe(**{"class": "torch_geometric.nn.MessagePassing"}), "Expected a network of"),
    "strange arguments": (describe(arguments={"colour": 3}), "Expected arguments that torch_geometric.nn.GCN takes"),
    "endless layers": (describe(arguments=GCN_ARGUMENTS | {"num_layers": 10**6}), "at most 1000 layers"),
    "endless width": (describe(arguments=GCN_ARGUMENTS | {"hidden_channels": 10**12}), "most 10,000,000 as `hidden_"),
    "wide, so that 10 GB": (describe(arguments=GCN_ARGUMENTS | {"hidden_channels": 10**7}), r"of shape \(10000000"),
    "other weights": (describe(arguments=GCN_ARGUMENTS | {"out_channels": 5}), r"Expected `.*` of shape"),
    "arguments in a list": (describe(arguments=[1, 2]), "Expected `class` and `arguments`"),
    "another dtype": (describe(dtype="save"), "Expected a floating dtype"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN_MODELS)
def test_a_broken_description_is_refused(tmp_path, kind):
    folder = save_model(GCN(**GCN_ARGUMENTS), tmp_path / "m", GCN_ARGUMENTS)
    described, words = BROKEN_MODELS[kind]
    (folder / "model.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match=words):
        load_model(folder)


def test_broken_weights_are_refused(tmp_path):
    folder = save_model(GCN(**GCN_ARGUMENTS), tmp_path / "m", GCN_ARGUMENTS)
    weights = folder / "weights.safetensors"
    whole = weights.read_bytes()
    for content in (
        whole[:-8],
        b"",
        b"\x80\x04K\x01.",
        struct.pack("<Q", 10**10) + b"{}",
        pickle.dumps(Bomb(tmp_path / "mark")),
    ):
        weights.write_bytes(content)
        with pytest.raises(InputError, match=r"Expected a (whole safetensors file|file with something in it)"):
            load_model(folder)
    huge = json.dumps({"w": {"dtype": "F32", "shape": [10**5, 25000], "data_offsets": [0, 10**10]}}).encode()
    weights.write_bytes(struct.pack("<Q", len(huge)) + huge)
    with pytest.raises(InputError, match="Expected a whole safetensors file"):
        load_model(folder)
    save_file({"other": torch.zeros(1)}, weights)
    with pytest.raises(InputError, match=r"unknown: other"):
        load_model(folder)
    weights.unlink()
    with pytest.raises(InputError, match=r"Expected a file at .*weights"):
        load_model(folder)
    (folder / "model.json").write_text('{"format": "axiom')
    with pytest.raises(InputError, match="Expected JSON in"):
        load_model(folder)
    (folder / "model.json").unlink()
    with pytest.raises(InputError, match="Expected a model's description at"):
        load_model(folder)
    assert not (tmp_path / "mark").exists()


def test_names_travel_from_files_to_the_explanation(tmp_path):
    before = save_graph(tmp_path / "b.npz", small_graph(), ["a", "b", "c", "d"], ["no", "maybe", "yes"])
    changed = small_graph()
    changed.edge_index = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
    after = save_graph(tmp_path / "a.npz", changed, ["a", "b", "c", "d"], ["no", "maybe", "yes"])
    first, second = match_graphs(read_graph(before), read_graph(after))
    explainer = axiompath.Explainer(
        GCN(**GCN_ARGUMENTS), first.data, second.data, node_names=first.node_names, class_names=first.class_names
    )
    assert "a → d" in explainer.explain(3, 50).summary(50)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_whatever_is_damaged_in_an_archive_is_the_files_fault(tmp_path, compression):
    path = tmp_path / "g.npz"
    arrays = {"x": np.eye(9), "edge_index": np.array([[0, 1], [1, 0]])}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array)
    held = path.read_bytes()
    if compression in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):  # Python unpacks these without a bound
        with pytest.raises(InputError, match="Expected arrays stored or deflated"):
            read_arrays(path, None, 1e9)
    else:
        assert read_arrays(path, None, 1e9).keys() == arrays.keys()
        assert read_arrays(path, {"x", "y"}, 1e9).keys() == {"x"}

    def is_refused(read, *arguments):
        try:
            read(*arguments)
        except InputError:
            return True
        return False

    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.choice(len(held), 200):
        damaged = bytearray(held)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        refused += is_refused(read_arrays, path, None, 1e9)
    assert refused > 100

"""What strangers may have written: bounds hold for what is made of a file, and whoever is to blame is blamed."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
import unicodedata
from collections import defaultdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import GCN, SGConv, TAGConv

import axiompath
from axiompath import Explanation, InputError, Story, read_graph, read_scan, report
from axiompath.files import graph_file, tables, tensors
from axiompath.files.tables import read_table
from axiompath.files.tensors import read_tensors
from axiompath.graphs import stored
from axiompath.scan.part_table import read_arrays
from axiompath.scan.parts import read_row
from axiompath.storage import safe
from axiompath.storage.safe import MAX_BYTES, MAX_NESTED, SMALL, Damaged, bound_growth, parse_json
from support.effort import examples
from support.formats import make_seeds, run_command
from support.hostile import OPEN


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strangers") / "seeds"
    make_seeds(folder)
    return folder


@pytest.fixture
def case(seeds, tmp_path):
    return shutil.copytree(seeds, tmp_path / "case")


# ---- .pt ----------------------------------------------------------------------------------------------------------
TENSORS = {
    **{str(dtype): torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype) for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64)},
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "a part": torch.arange(60.0).reshape(6, 10)[1:5:2, 3:],
    "repeated": torch.arange(3.0).expand(4, 3),
    "a number": torch.tensor(7.5),
    "nothing": torch.zeros(0, 5),
    "a parameter": torch.nn.Parameter(torch.eye(3)),
    "coo": torch.eye(4).to_sparse(),
    "csr": torch.eye(4).to_sparse_csr(),
    "csc": torch.eye(4).to_sparse_csc(),
    "not coalesced": torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.ones(2), (3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_are_read_as_torch_reads_them(tmp_path, kind):
    path = tmp_path / "t.pt"
    shared = torch.arange(10.0)
    values = {
        "t": TENSORS[kind],
        "n": 3,
        "f": 0.5,
        "s": "é",
        "l": [1, "a", None, True],
        "p": shared[:4],
        "q": shared[2:],
    }
    torch.save(values, path)
    expected, found = torch.load(path, weights_only=False), read_tensors(path, MAX_BYTES)
    assert list(found) == list(expected)
    assert found["t"].dtype == expected["t"].dtype
    assert found["t"].layout == expected["t"].layout
    assert torch.equal(found["t"].to_dense(), expected["t"].to_dense())
    for key in ("n", "f", "s", "l"):
        assert found[key] == expected[key]
    assert torch.equal(found["p"], expected["p"])
    assert torch.equal(found["q"], expected["q"])


@pytest.mark.system
def test_a_sparse_tensor_with_indices_out_of_range_is_refused_without_a_crash(tmp_path):
    bad = torch.sparse_coo_tensor(torch.tensor([[0, 10**7], [0, 5]]), torch.ones(2), (4, 4), check_invariants=False)
    torch.save({"x": bad, "edge_index": torch.zeros(2, 0, dtype=torch.long)}, tmp_path / "g.pt")
    code = f"import axiompath\ntry: axiompath.read_graph({str(tmp_path / 'g.pt')!r})\n"
    code += "except axiompath.InputError as error: print(error)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Expected a whole .pt file" in ended.stdout
    with pytest.raises(ValueError, match="whose indices lie within its shape"):
        axiompath.Explainer(GCN(4, 4, 2, 3), *[Data(x=bad, edge_index=torch.zeros(2, 0).long())] * 2)


@pytest.mark.parametrize("indptr", [[0, 2, 0, 0, 0], [0, 3, 1, 2, 3], [0, 1, 2, 3, 9], [1, 1, 2, 3, 3]])
def test_a_sparse_matrix_whose_rows_end_before_they_begin_is_refused(tmp_path, indptr):
    """Scipy looks at nothing where the last row ends at 0, and writes beyond its arrays later."""
    arrays = {"x_data": np.ones(3), "x_indices": np.array([0, 1, 2]), "x_indptr": np.array(indptr)}
    np.savez(tmp_path / "g.npz", **arrays, x_shape=np.array([4, 4]), edge_index=np.zeros((2, 0), dtype=np.int64))
    with pytest.raises(InputError, match="Expected a sparse matrix in the x_ arrays"):
        read_graph(tmp_path / "g.npz")
    matrix = sparse.csr_array((arrays["x_data"], arrays["x_indices"], np.array([0, 1, 2, 3, 3])), shape=(4, 4))
    matrix.indptr = np.array(indptr)
    with pytest.raises(InputError, match="whose indices lie within its shape"):
        axiompath.Explainer(GCN(4, 4, 2, 3), *[Data(x=matrix, edge_index=torch.zeros(2, 0).long())] * 2)


@pytest.mark.parametrize("kind", ["Data", "HeteroData"])
@pytest.mark.parametrize("batched", [False, True])
def test_what_pyg_saves_is_read(tmp_path, kind, batched):
    edges = torch.tensor([[0, 1], [1, 2]])
    if kind == "Data":
        data = Data(x=torch.eye(3), edge_index=edges)
    else:
        data = HeteroData({"a": {"x": torch.eye(3)}, ("a", "to", "a"): {"edge_index": edges}})
    if batched:
        data = Batch.from_data_list([data, data])
        data._slice_dict = defaultdict(dict, data._slice_dict)  # as earlier releases kept it
    torch.save(data, tmp_path / "g.pt")
    allowed = set(torch.serialization.get_safe_globals())
    found = read_graph(tmp_path / "g.pt").data
    assert set(torch.serialization.get_safe_globals()) == allowed
    if kind == "Data":
        assert torch.equal(found.x, data.x)
        assert torch.equal(found.edge_index, data.edge_index)
        assert not batched or torch.equal(found.batch, data.batch)
    else:
        assert torch.equal(found["a"].x, data["a"].x)
        assert torch.equal(found["a", "to", "a"].edge_index, data["a", "to", "a"].edge_index)
        assert not batched or torch.equal(found["a"].batch, data["a"].batch)


class Bomb:
    """Unpickling it would leave a mark."""

    def __init__(self, folder, inner=None):
        self.mark, self.inner = f"touch {folder / 'canary'}", inner

    def __reduce__(self):
        return (os.system, (self.mark,)) if self.inner is None else (self.inner, (os.system, (self.mark,)))


def script(folder):
    torch.jit.script(torch.nn.Linear(2, 2)).save(folder / "g.pt")


GOOD = {"x": torch.eye(3), "edge_index": torch.zeros(2, 0, dtype=torch.long)}
CODE = {
    "a command": (lambda folder: torch.save(GOOD | {"y": Bomb(folder)}, folder / "g.pt"), "posix.system"),
    "a command in a Data": (lambda folder: torch.save(Data(**GOOD, y=[{"z": Bomb(folder)}]), folder / "g.pt"),
                            "posix.system"),
    "a function of a function": (lambda folder: torch.save(GOOD | {"y": Bomb(folder, map)}, folder / "g.pt"),
                                 "__builtin__.map|itertools.imap"),
    "the older format of torch": (
        lambda folder: torch.save(GOOD | {"y": Bomb(folder)}, folder / "g.pt", _use_new_zipfile_serialization=False),
        "of another kind"),
    "a bare pickle": (lambda folder: (folder / "g.pt").write_bytes(pickle.dumps(Bomb(folder))), "of another kind"),
    "TorchScript": (script, "it holds other Python objects: __torch__"),
    "a class of its own": (lambda folder: torch.save(GOOD | {"y": Bomb}, folder / "g.pt"), "test_strangers.Bomb"),
    "another protocol": (lambda folder: torch.save(GOOD, folder / "g.pt", pickle_protocol=4), "pickle protocol 2"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CODE)
def test_no_pt_file_runs_code(tmp_path, kind):
    write, words = CODE[kind]
    write(tmp_path)
    with pytest.raises(InputError, match=rf"Expected .*({words})"):
        read_graph(tmp_path / "g.pt")
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "name", ["x" * 300 + ".npz", "x" * 300 + ".csv", "x" * 5000, "a\0b.npz", "\ud800.pt", "", "/dev/zero"]
)
def test_names_that_no_file_can_have_are_refused(tmp_path, name):
    readers = (read_graph, axiompath.open_graph, axiompath.load_model, Explanation.load, Story.load, read_scan)
    readers += (axiompath.Blame.load, axiompath.Undo.load, lambda path: axiompath.convert_graph(path, tmp_path / "out"))
    for read in readers:
        with pytest.raises(InputError, match="Expected"):
            read(name)


@pytest.mark.parametrize(
    "error", [AssertionError, TypeError, AttributeError, RuntimeError, KeyError, ZeroDivisionError]
)
def test_an_error_of_ours_is_no_damaged_file(case, monkeypatch, error):
    """It keeps its type in Python, and the command line exits with 1 and asks for a report."""

    def fail(*_, **__):
        raise error("ours")

    monkeypatch.setattr(graph_file, "read_snapshot", fail)
    monkeypatch.setattr(tensors, "_check_tensors", fail)
    monkeypatch.setattr(stored, "_check_edges", fail)
    for name in ("before.npz", "before.pt", "typed.pt", "stored"):
        with pytest.raises(error, match="ours"):
            read_graph(case / name)
    code, said = run_command(("check", "model", "before.npz"), case)
    assert code == 1, said
    assert "Please report it" in said


# ---- what is made of a file ---------------------------------------------------------------------------------------
@pytest.mark.system
def test_a_small_file_cannot_grow_without_end(tmp_path):
    path = tmp_path / "small"
    path.write_bytes(bytes(1000))
    assert bound_growth(path, MAX_BYTES) == bound_growth(path) == SMALL
    assert bound_growth(path, 3e9) == 3e9
    np.savez_compressed(tmp_path / "g.npz", x=np.zeros((10**4, 6000), dtype=np.int8), edge_index=np.zeros((2, 0), int))
    words = r"at most 500 MB in memory .* says 60. MB\).*in Python with a larger `max_bytes`"
    with pytest.raises(InputError, match=words):
        read_graph(tmp_path / "g.npz")
    assert read_graph(tmp_path / "g.npz", max_bytes=2e9).data.x.shape == (10**4, 6000)


def test_tables_of_types_are_bounded_together(tmp_path, monkeypatch):
    monkeypatch.setattr(safe, "SMALL", 10**6)
    monkeypatch.setattr(safe, "GROWTH", 1)
    for kind in "abcd":
        rows = "".join(f"{i},1\n" for i in range(3000))
        (tmp_path / f"nodes.{kind}.csv").write_text(f"id,f\n{rows}")
    (tmp_path / "edges.a.to.b.csv").write_text("source,target\n1,2\n")
    assert len(read_graph(tmp_path / "edges.a.to.b.csv", tmp_path / "nodes.a.csv").data.x) == 3000
    with pytest.raises(InputError, match=r"Expected a file of at most [1-9][0-9]* KB in memory .* says [1-9]"):
        read_graph(tmp_path)
    monkeypatch.setattr(safe, "GROWTH", 100)
    assert read_graph(tmp_path).data.num_nodes == 12_000


def test_names_count_towards_the_memory_of_a_table(tmp_path, monkeypatch):
    """Numbers that name nodes become text: seven times as much as they take in the file."""
    monkeypatch.setattr(safe, "SMALL", 10**6)
    pq.write_table(pa.table({"id": np.arange(6000), "f": np.zeros(6000)}), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    monkeypatch.setattr(safe, "GROWTH", 1)
    with pytest.raises(InputError, match=r"nodes\.parquet says"):
        read_graph(tmp_path / "edges.csv", tmp_path / "nodes.parquet")


def test_a_table_of_too_many_rows_is_refused_before_any_is_read(tmp_path, monkeypatch):
    words = pa.array(["a", "b"] * 10_000)
    pq.write_table(pa.table({"source": words, "target": words}), tmp_path / "edges.parquet")
    assert len(read_table(tmp_path / "edges.parquet", 1e7)) == 20_000
    monkeypatch.setattr(tables, "spell_out", lambda *_: pytest.fail("a row was read"))
    with pytest.raises(InputError, match=r"edges\.parquet says"):
        read_table(tmp_path / "edges.parquet", 4e6)


@pytest.mark.parametrize("build", [lambda: TAGConv(4, 3, K=60), lambda: SGConv(4, 3, K=60)])
def test_a_description_may_ask_for_many_hops_but_not_for_millions(tmp_path, build):
    model = build()
    arguments = {"in_channels": 4, "out_channels": 3, "K": 60}
    folder = axiompath.save_model(model, tmp_path / "m", arguments)
    assert sum(p.numel() for p in axiompath.load_model(folder).parameters()) == sum(
        p.numel() for p in model.parameters()
    )
    described = json.loads((folder / "model.json").read_text())
    described["arguments"]["K"] = 10**7
    (folder / "model.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match=r"Expected at most 1,000 as `K`"):
        axiompath.load_model(folder)


def test_weights_that_are_not_finite_are_refused(case):
    from safetensors.torch import load_file, save_file

    path = case / "model/weights.safetensors"
    weights = load_file(path)
    weights["convs.0.lin.weight"][0, 0] = float("nan")
    save_file(weights, path)
    with pytest.raises(InputError, match=r"Expected finite weights in .*safetensors"):
        axiompath.load_model(case / "model")


# ---- numbers that are none ----------------------------------------------------------------------------------------
def test_complex_numbers_keep_their_imaginary_part_by_being_refused(tmp_path):
    edges = torch.zeros(2, 1, dtype=torch.long)
    for x, weight in (
        (torch.eye(3, dtype=torch.complex64), None),
        (torch.eye(3), torch.ones(1, dtype=torch.complex64)),
    ):
        data = Data(x=x, edge_index=edges, edge_weight=weight)
        with pytest.raises(TypeError, match="Expected real numbers in"):
            axiompath.Explainer(GCN(3, 4, 2, 3), data, data)
        torch.save(data, tmp_path / "g.pt")
        with pytest.raises(InputError, match="Expected real numbers in"):
            read_graph(tmp_path / "g.pt")


def test_complex_weights_of_an_edge_list_are_refused(case):
    np.save(case / "w.npy", np.ones(80, dtype=np.complex64))
    with pytest.raises(InputError, match=r"a weight for each of the 80 edges .*got complex64"):
        axiompath.convert_graph(case / "e.npy", case / "out", nodes=case / "x.npy", weights=case / "w.npy")


def test_indices_that_are_fractions_are_refused(tmp_path):
    parts = {"x_data": np.ones(2), "x_indices": np.array([0, 1]), "x_indptr": np.array([0, 1, 2]),
             "x_shape": np.array([2, 2]), "edge_index": np.zeros((2, 0), dtype=int)}  # fmt: skip
    np.savez(tmp_path / "g.npz", **parts)
    assert read_graph(tmp_path / "g.npz").data.x.to_dense().tolist() == [[1, 0], [0, 1]]
    for key in ("x_indices", "x_indptr", "x_shape"):
        np.savez(tmp_path / "g.npz", **parts | {key: parts[key] + 0.5})
        with pytest.raises(InputError, match="whole numbers as x_indices, x_indptr and x_shape"):
            read_graph(tmp_path / "g.npz")
        with pytest.raises(InputError, match="whole numbers as x_indices, x_indptr and x_shape"):
            axiompath.convert_graph(tmp_path / "g.npz", tmp_path / "out")


# ---- tables -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", ["id", "Node"])
def test_a_node_table_may_have_its_ids_as_the_index_of_pandas(tmp_path, key):
    nodes = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}, index=pd.Index(["u", "v", "w"], name=key))
    nodes.to_parquet(tmp_path / "nodes.parquet")
    pd.DataFrame({"source": ["u"], "target": ["w"]}).to_parquet(tmp_path / "edges.parquet")
    graph = read_graph(tmp_path)
    assert graph.row_names == ("u", "v", "w")
    assert graph.data.x.tolist() == [[1, 4], [2, 5], [3, 6]]
    stored = axiompath.convert_graph(tmp_path / "edges.parquet", tmp_path / "g", nodes=tmp_path / "nodes.parquet")
    assert stored.names.to_pylist() == ["u", "v", "w"]
    assert np.asarray(stored.x).tolist() == [[1, 4], [2, 5], [3, 6]]


def test_another_index_of_pandas_is_no_feature(tmp_path):
    nodes = pd.DataFrame({"id": ["u", "v"], "a": [1.0, 2.0]}, index=[7, 9])
    for name in (None, "when"):
        nodes.rename_axis(name).to_parquet(tmp_path / "nodes.parquet")
        pd.DataFrame({"source": ["u"], "target": ["v"]}).to_parquet(tmp_path / "edges.parquet")
        assert read_graph(tmp_path).data.x.tolist() == [[1], [2]]


@pytest.mark.parametrize("way", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}, {"compression": "zstd"},
                                 {"row_group_size": 3}, {"column_encoding": {"id": "DELTA_BYTE_ARRAY"},
                                                         "use_dictionary": False}])  # fmt: skip
def test_tables_are_read_however_they_were_packed(tmp_path, way):
    table = pa.table({"id": [f"n{i}" for i in range(10)], "a": [i / 7 for i in range(10)], "b": list(range(10))})
    pq.write_table(table, tmp_path / "nodes.parquet", **way)
    pq.write_table(pa.table({"source": ["n1", "n2"], "target": ["n2", "n9"]}), tmp_path / "edges.parquet", **{
        key: value for key, value in way.items() if key != "column_encoding"})  # fmt: skip
    graph = read_graph(tmp_path)
    assert graph.row_names == tuple(table["id"].to_pylist())
    np.testing.assert_allclose(graph.data.x, np.stack([table["a"], table["b"]], axis=1), rtol=1e-6)


def test_a_row_wider_than_the_first_is_refused_at_once(tmp_path):
    """Pandas would make an index of it, with a level for each further cell."""
    for blank in ("", "\n", " \n"):
        (tmp_path / "n.csv").write_text(f"id,a\n{blank}" + ",".join("1" * 10**5) + "\n")
        start = time.process_time()
        with pytest.raises(InputError, match="the same number of cells in every row"):
            read_table(tmp_path / "n.csv", MAX_BYTES)
        assert time.process_time() - start < 5


def test_a_table_of_many_columns_is_read_in_seconds(tmp_path):
    """pyarrow makes the schema anew whenever it is asked for it: once for every column took minutes."""
    pq.write_table(pa.table({"id": ["n"], **{f"c{i}": [1.0] for i in range(3000)}}), tmp_path / "n.parquet")
    start = time.process_time()
    assert read_table(tmp_path / "n.parquet", MAX_BYTES).shape == (1, 3001)
    assert time.process_time() - start < 8


def test_groups_of_one_row_are_read_together(tmp_path, monkeypatch):
    """Each on its own would take pandas a millisecond."""
    pq.write_table(pa.table({"id": [f"n{i}" for i in range(500)], "a": range(500)}), tmp_path / "n.parquet", 1)
    batches, make = [], tables._as_frame
    monkeypatch.setattr(tables, "_as_frame", lambda parts: batches.append(len(parts)) or make(parts))
    assert read_table(tmp_path / "n.parquet", MAX_BYTES).a.tolist() == list(range(500))
    assert batches == [500]
    batches.clear()
    assert sum(map(len, tables.read_parts(tmp_path / "n.parquet", 200))) == 500
    assert batches == [200, 200, 100]


def read_in_a_process(path, read, contents):
    """How a forked child ends that reads each content under a name, and how many of them it refused."""
    seen, told = os.pipe()
    child = os.fork()
    if child == 0:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        for content in contents:
            path.write_bytes(content)
            refused = b"."
            try:
                read(path)
            except InputError:
                refused = b"r"
            os.write(told, refused)
        os._exit(0)
    os.close(told)
    with os.fdopen(seen, "rb") as stream:
        marks = stream.read()
    return os.waitpid(child, 0)[1], marks.count(b"r")


def assert_flips_end_no_process(path, read, num_flips):
    """Flip one bit in so many bytes of a footer: those that tell how many columns and what kinds of fields follow."""
    whole = path.read_bytes()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    places = range(start, len(whole), max((len(whole) - start) // num_flips, 1))
    flips = (whole[:i] + bytes([whole[i] ^ 64]) + whole[i + 1 :] for i in places)
    status, refused = read_in_a_process(path, read, flips)
    assert status == 0
    assert refused > len(places) / 5


def test_no_flipped_bit_in_the_footer_of_a_table_ends_the_process(tmp_path):
    """pyarrow aborts where it is asked for the metadata of a column that the footer does not describe."""
    path = tmp_path / "nodes.parquet"
    pq.write_table(pa.table({"id": ["a", "b", "c"], "label": [1, 0, 1], "f": [1.0, 2.0, 3.0]}), path)
    assert_flips_end_no_process(path, lambda path: read_table(path, MAX_BYTES), examples(700))


def test_no_flipped_bit_in_the_footer_of_a_part_ends_the_process(case):
    path = case / "scan/parts/part-000000.parquet"
    task = axiompath.read_scan(case / "scan").task
    assert_flips_end_no_process(path, lambda path: (read_arrays(path, task), read_row(path, 0)), examples(300))


def test_odd_labels_are_words(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    (tmp_path / "nodes.csv").write_text(f"id,a,label\n1,0,--5\n2,0,²\n3,0,{10**30}\n")
    graph = read_graph(tmp_path)
    assert graph.class_names == tuple(sorted(["--5", "²", str(10**30)]))
    assert sorted(graph.data.y.tolist()) == [0, 1, 2]


def test_an_edge_list_without_edges_is_one(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,weight\n")
    (tmp_path / "nodes.csv").write_text("id,a\n7,1\nu,2\n")
    for nodes in ("id,a\n7,1\nu,2\n", "id,a\n0,1\n1,2\n"):
        (tmp_path / "nodes.csv").write_text(nodes)
        assert read_graph(tmp_path).data.edge_index.shape == (2, 0)
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        assert axiompath.convert_graph(tmp_path / "edges.csv", out, nodes=tmp_path / "nodes.csv").num_edges == 0


# What would command a terminal, or is rich's markup, a page's, or the end of a line.
NAMES = ("\x1b[2Jgone", "[/red]", "[bold", "two\nlines", "\x07", "\u202egnirts", "\x1b]0;title\x07", "</script>", "\\",
         "\x9b2J")  # fmt: skip


# ---- what is shown ------------------------------------------------------------------------------------------------
PAIR = ("model", "before.npz", "after.npz")
SHOWN = {
    "diff": ("diff", *PAIR[1:], "--model", "model", "--limit", "30"),
    "explain": ("explain", *PAIR),
    "blame": ("blame", *PAIR, "--limit", "30"),
    "undo": ("undo", *PAIR),
    "story": ("story", *PAIR, "before.npz"),
    "convert": ("convert", "before.npz", "--out", "[/out]"),
    "scan": ("scan", *PAIR, "--out", "[/scan]", "--workers", "1"),
    "report": ("report", *PAIR, "--out", "[/report].html"),
    "a file that is missing": ("explain", *PAIR[:2], "\x1b[2J[/].npz"),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_names_command_no_terminal(case, kind):
    """Nor are they taken for markup, in a file as on the command line."""
    for name in ("before.npz", "after.npz"):
        arrays = dict(np.load(case / name))
        arrays |= {
            "node_names": np.array([f"{NAMES[i % 10]}{i}" for i in range(30)]),
            "class_names": np.array(NAMES[:3]),
        }
        np.savez(case / name, **arrays)
    (case / "[").mkdir()  # [/out] is a folder within it, and an end of markup
    code, said = run_command(SHOWN[kind], case)
    assert code == (2 if "missing" in kind else 0), said
    assert said
    assert not [letter for letter in said if letter != "\n" and unicodedata.category(letter) in ("Cc", "Cf")]


# ---- records ------------------------------------------------------------------------------------------------------
CHANGES = {
    "a path of fractions": (
        "paths",
        [[0.5, 1.0, 2.0]] * 5,
        r"`paths` should be whole numbers of shape \(paths, places\); got fractions",
    ),
    "an unknown unit": ("unit", 3.5, "`unit` should be text; got a number"),
    "an unknown output": (
        "output",
        {"kind": ["classes"], "scales": None},
        r"`output\.kind` should be text; got a list",
    ),
    "no output": ("output", 7, "`output` should be fields by name"),
    "infinite logits": ("logits_before", [float("inf")] * 3, "`logits_before` should be finite numbers"),
    "an endless target": ("target", 10**30, "`target` should be the number of a node"),
    "a truth value": ("budget", True, "`budget` should be a whole number"),
    "text for numbers": ("kl", "3", "`kl` should be a number; got text"),
    "half a letter": ("status", "\ud800", "`status` should be text that UTF-8 can hold"),
    "no causes": ("causes", {}, "`causes` should be those known"),
    "names in a list": ("node_names", [1], "`node_names` should be fields by name; got a list"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_record_with_another_value_is_refused(case, kind):
    path = case / "explanation.json"
    key, value, words = CHANGES[kind]
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InputError, match=rf"explanation\.json: .*{words}"):
        Explanation.load(path)


BAD_ROWS = {
    "no change": {"changes": [[]]},
    "two changes": {"changes": [[0, 1]]},
    "a group without a label": {"kinds": ["group"], "groups": []},
    "one end": {"ends": [[1]]},
    "three ends": {"ends": [[1, 2, 3]]},
}


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_blame_with_a_row_that_lacks_something_is_refused(case, kind):
    values = json.loads((case / "blame.json").read_text())
    for key, (*first,) in BAD_ROWS[kind].items():
        values[key] = [*first, *values[key][1:]] if first else []
    (case / "blame.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"blame\.json: Expected"):
        axiompath.Blame.load(case / "blame.json")


RECORDS = {
    "explanation": (Explanation, r"plot\(\)\.figure\.savefig\(path\) or save_html\(path\) draws it"),
    "blame": (axiompath.Blame, r"plot\(\)\.figure\.savefig\(path\) draws it"),
    "undo": (axiompath.Undo, r"plot\(\)\.figure\.savefig\(path\) draws it"),
    "enough": (axiompath.Enough, r"save writes JSON\."),
    "edges": (axiompath.Explanation, r"save writes JSON; plot\(\)"),
    "story": (Story, r"save writes JSON\."),
}


def test_no_record_is_written_over_a_picture(case):
    for name, (kind, words) in RECORDS.items():
        picture = case / f"{name}.png"
        picture.write_bytes(b"pixels")
        record = kind.load(case / f"{name}.json")
        with pytest.raises(InputError, match=rf"Expected a name that ends in \.json \(got .*{name}\.png\).*{words}"):
            record.save(picture)
        assert picture.read_bytes() == b"pixels"
        record.save(case / f"{name}.JSON")


@pytest.mark.long
def test_json_too_deep_is_refused_whatever_the_recursion_limit(tmp_path):
    (tmp_path / "deep.json").write_text('{"]": ' + "[" * 200_000 + "]" * 200_000 + "}")
    code = "import sys, axiompath\nsys.setrecursionlimit(10**9)\n"
    code += f"try: axiompath.Explanation.load({str(tmp_path / 'deep.json')!r})\n"
    code += "except axiompath.InputError as error: print(error)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "too deep" in ended.stdout


def test_strings_that_never_end_are_found_at_once(tmp_path):
    """And brackets in strings, behind escapes or not, are no brackets."""
    for data in (OPEN, '["' + '\\"a' * 10**6, '"' + "\\" * (10**6 + 1), '"' + "a" * 10**7):
        (tmp_path / "open.json").write_text(data)
        start = time.process_time()
        with pytest.raises(InputError, match=r"Expected JSON in .*open\.json"):
            Explanation.load(tmp_path / "open.json")
        assert time.process_time() - start < 10


LEAVES = st.none() | st.integers() | st.text(alphabet='ab"\\[]{}\n')


TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\[{'), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(TREES, st.sampled_from([0, 1, 95, 99, 100, 101]))
def test_json_is_read_down_to_a_depth(value, more):
    def depth(part):
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    for _ in range(more):
        value = [value]
    data = json.dumps(value).encode()
    if depth(value) > MAX_NESTED:
        with pytest.raises(Damaged, match="too deep"):
            parse_json(data)
    else:
        assert parse_json(data) == value


def test_a_damaged_story_is_refused(case):
    path = case / "story.json"
    values = json.loads(path.read_text())
    for key, value in (("logits", [None, None, None]), ("notes", [3]), ("target", "x"), ("snapshot_names", None)):
        path.write_text(json.dumps(values | {key: value}))
        with pytest.raises(InputError, match=r"story\.json: "):
            Story.load(path)


# ---- scans --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["moved.parquet", "too_large.parquet", "parts/part-000000.parquet"])
def test_every_file_of_a_scan_has_a_digest(case, name):
    whole = (case / "scan" / name).read_bytes()
    (case / "scan" / name).write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    scan = read_scan(case / "scan")
    with pytest.raises(InputError, match=rf"{name} as the scan wrote it \(it is missing or was changed\)"):
        scan.moved(), scan.too_large(), list(scan)


def test_a_manifest_without_digests_of_its_tables_is_refused(case):
    path = case / "scan/manifest.json"
    values = json.loads(path.read_text())
    tables = {f"{name}.parquet" for name in ("moved", "too_large", "changes", "nodes", "flips")}
    assert set(values.pop("tables")) == {*tables, "summary.json"}
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"Expected a scan's manifest.json"):
        read_scan(case / "scan")


@pytest.mark.parametrize("task", [3.5, [], {"unit": ["node"]}, {"unit": "node", "output": "classes"}])
def test_a_manifest_that_does_not_say_what_is_predicted_is_refused(case, task):
    path = case / "scan/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"task": task}))
    with pytest.raises(InputError, match=r"Expected a scan's manifest.json in .*: `task(\.unit|\.output)?` should "):
        read_scan(case / "scan")


@pytest.mark.parametrize("target", ["{}/elsewhere.parquet", "../elsewhere.parquet", "parts/../../elsewhere.parquet"])
def test_a_manifest_names_nothing_outside_its_folder(case, target):
    path = case / "scan/manifest.json"
    values = json.loads(path.read_text())
    shutil.move(case / "scan" / values["parts"][0]["file"], case / "elsewhere.parquet")
    values["parts"][0]["file"] = target.format(case)
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"Expected a scan's manifest.json"):
        read_scan(case / "scan")


# ---- your own code ------------------------------------------------------------------------------------------------
OWN = {
    "raises": ("def build():\n    return 1 / 0\n", "ZeroDivisionError: division by zero", "line 2"),
    "raises where imported": ("raise KeyError('me')\n", "KeyError: 'me'", "line 1"),
    "leaves": ("import sys\nsys.exit(0)\n", "SystemExit: 0", "line 2"),
    "does not parse": ("def build(:\n", "SyntaxError", ""),
    "wants what is missing": ("import no_such_module_at_all\n", "No module named 'no_such_module_at_all'", "line 1"),
    "asserts": ("def build():\n    assert False, 'mine'\n", "AssertionError: mine", "line 2"),
}


@pytest.mark.parametrize("kind", OWN)
def test_what_your_own_code_raises_is_yours(case, monkeypatch, kind):
    content, words, line = OWN[kind]
    name = f"own_{list(OWN).index(kind)}"
    (case / f"{name}.py").write_text(content)
    monkeypatch.syspath_prepend(case)
    code, said = run_command(("check", f"{name}:build", "before.npz"), case)
    assert code == 2, said
    assert f"Expected {name}:build to build a model, but your own code failed" in said
    assert words in said
    assert line in said


def test_no_web_page_is_written_over_a_picture(case):
    """Nor is anything computed before the name is refused."""
    picture = case / "page.png"
    picture.write_bytes(b"pixels")
    explanation = Explanation.load(case / "explanation.json")
    for write in (
        lambda: explanation.save_html(picture),
        lambda: axiompath.save_report(picture, None),
        lambda: report.save_report(picture, None),
        lambda: report.save_report(picture, None),
    ):
        with pytest.raises(InputError, match=r"Expected a name that ends in \.html \(got .*page\.png\)"):
            write()
    assert picture.read_bytes() == b"pixels"

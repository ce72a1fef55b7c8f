"""Files made by hand, each of which once did harm, or could: format -> name -> what to do to the folder of a case."""

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

EDGES = torch.zeros(2, 0, dtype=torch.long)


class Bomb:
    """Unpickling it would leave a mark."""

    def __init__(self, folder):
        self.mark = str(folder / "canary")

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def npy(shape, dtype="<f8", data=b""):
    """An .npy file that says what it likes about itself."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue() + data


def write_zip(path, members, way=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", way) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npz(**members):
    usual = {"x": npy((1, 1), data=bytes(8)), "edge_index": npy((2, 0), "<i8")}
    return lambda folder: write_zip(
        folder / "before.npz",
        {f"{name}.npy": made() if callable(made) else made for name, made in (usual | members).items() if made},
    )


def saved(**values):
    """A dict that torch.save writes."""
    return lambda folder: torch.save(
        {"x": torch.eye(3), "edge_index": EDGES} | {k: v(folder) if callable(v) else v for k, v in values.items()},
        folder / "dict.pt",
    )


def rewritten(change):
    """The pickle of a .pt, changed."""

    def write(folder):
        with zipfile.ZipFile(folder / "dict.pt") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        members["dict/data.pkl"] = change(members["dict/data.pkl"], folder)
        write_zip(folder / "dict.pt", members, zipfile.ZIP_STORED)

    return write


def unchecked(indices, size, dtype=torch.float32):
    values = torch.ones(len(indices[0]), dtype=dtype)
    return torch.sparse_coo_tensor(torch.tensor(indices), values, size, check_invariants=False)


def described(**changes):
    """A model.json that asks for much."""

    def write(folder):
        path = folder / "model/model.json"
        values = json.loads(path.read_text())
        path.write_text(json.dumps(values | changes).replace('"1e999"', "1e999"))

    return write


def conv(name, **arguments):
    return described(**{"class": f"torch_geometric.nn.{name}", "arguments": arguments})


def weights(tensors, data=b""):
    """A .safetensors file that says what it likes about itself."""
    told = {name: dict(zip(("dtype", "shape", "data_offsets"), (kind, shape, ends), strict=True))
            for name, (kind, shape, *ends) in tensors.items()}  # fmt: skip
    header = json.dumps(told).encode()
    return text("model/weights.safetensors", struct.pack("<Q", len(header)) + header + data)


def doubled(folder):
    """A zip with two members of one name."""
    with warnings.catch_warnings(), zipfile.ZipFile(folder / "before.npz", "w") as archive:
        warnings.simplefilter("ignore")
        for name, content in (("x", npy((1, 1), data=bytes(8))), ("x", npy((10**4, 10**4), "|b1"))):
            archive.writestr(f"{name}.npy", content)
        archive.writestr("edge_index.npy", npy((2, 0), "<i8"))


def repeated_member(folder):
    """A zip whose directory names one member 60,000 times."""
    write_zip(folder / "before.npz", {"x.npy": npy((10**7,), "|b1", bytes(10**7))})
    data, count = (folder / "before.npz").read_bytes(), 60_000
    start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    directory = data[start:end] * count
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    (folder / "before.npz").write_bytes(data[:start] + directory + last)


def in_place(name, make):
    """Something that is no file where one should be."""

    def write(folder):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        make(path)

    return write


def odd_files(*names):
    odd = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: path.symlink_to("/dev/zero"),
           "nothing": lambda path: path.write_bytes(b""), "loop": lambda path: path.symlink_to(path.name)}  # fmt: skip
    return {f"{kind} as {name}": in_place(name, make) for name in names for kind, make in odd.items()}


def text(name, content):
    def write(folder):
        made = content() if callable(content) else content
        (folder / name).write_bytes(made.encode() if isinstance(made, str) else made)

    return write


def table(name, **columns):
    return lambda folder: pq.write_table(
        pa.table({key: column() if callable(column) else column for key, column in columns.items()}), folder / name
    )


def repeated(value, count):
    """Many rows in few bytes."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value]))


def rows_of_a_part(**changes):
    """A scan's part with other columns, blessed by its manifest."""

    def write(folder):
        from mutations import bless

        path = folder / "scan/parts/part-000000.parquet"
        part = pq.read_table(path)
        for name, make in changes.items():
            part = part.set_column(part.schema.get_field_index(name), name, make(len(part)))
        pq.write_table(part, path)
        bless(folder / "scan")

    return write


def manifest(**changes):
    def write(folder):
        path = folder / "scan/manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return write


def outside(target):
    """A manifest that names a file elsewhere, with its true digest."""

    def write(folder):
        from mutations import bless

        path = folder / "scan/manifest.json"
        values = json.loads(path.read_text())
        shutil.copy(folder / "scan" / values["parts"][0]["file"], folder / "elsewhere.parquet")
        values["parts"][0]["file"] = target.format(folder)
        path.write_text(json.dumps(values))
        bless(folder / "scan")

    return write


def page_size(number):
    """The size that the first page unpacks to, another one: a number in Thrift's compact protocol."""

    def write(folder):
        path = folder / "nodes.parquet"
        data = bytearray(path.read_bytes())
        # The file begins with PAR1, then a page's header: its type, then the size (field 2, 32 bits, 0x15).
        assert data[4] == 0x15
        assert data[6] == 0x15
        start = end = 7
        while data[end] >= 128:
            end += 1
        value, encoded = number << 1, b""
        while value > 127:
            encoded, value = encoded + bytes([value & 127 | 128]), value >> 7
        encoded += bytes([value])
        data[start : end + 1] = encoded.ljust(end + 1 - start, b"\0")[: max(len(encoded), end + 1 - start)]
        path.write_bytes(bytes(data))

    return write


DEEP = "[" * 100_000 + "]" * 100_000
# Every other of these marks might begin a string that never ends: whoever looks from each to the end never ends either.
OPEN = '"' + '\\"' * 60_000
# What would command a terminal, or is rich's markup, a page's, or the end of a line.
NAMES = (
    "\x1b[2Jgone",
    "[/red]",
    "[bold",
    "two\nlines",
    "\x07",
    "\u202egnirts",
    "\x1b]0;title\x07",
    "</script>",
    "\\",
    "\x9b2J",
)
HOSTILE = {
    "npz": {
        "names of no letters": npz(node_names=npy((10**8, 10), "<U0")),
        "many names": npz(node_names=lambda: npy((3 * 10**7,), "<U1", bytes(12 * 10**7))),
        "zeros": npz(x=lambda: npy((5000, 5000), "<f8", bytes(2 * 10**8))),
        "small numbers": npz(x=lambda: npy((2 * 10**4, 10**4), "|b1", bytes(2 * 10**8))),
        "a header of 10 TB": npz(x=npy((10**6, 10**6))),
        "objects": lambda folder: np.savez(folder / "before.npz", x=np.array([Bomb(folder)], dtype=object)),
        "complex": npz(x=npy((1, 1), "<c16", bytes(16))),
        "no dimensions": npz(x=npy((), "<f8", bytes(8)), node_names=npy((1,), "<U1", b"a\0\0\0")),
        "fractions as indices": npz(
            x=b"", x_data=npy((1,), data=bytes(8)), x_indices=npy((1,), data=bytes(8)),
            x_indptr=npy((2,), "<i8", bytes(8) + b"\1" + bytes(7)), x_shape=npy((2,), "<i8", struct.pack("<qq", 1, 1)),
        ),
        "endless columns": npz(
            x=b"", x_data=npy((0,)), x_indices=npy((0,), "<i8"), x_indptr=npy((2,), "<i8", bytes(16)),
            x_shape=npy((2,), "<i8", struct.pack("<qq", 1, 2**62)),
        ),
        "endless rows": npz(
            x=b"", x_data=npy((0,)), x_indices=npy((0,), "<i8"), x_indptr=npy((2,), "<i8", bytes(16)),
            x_shape=npy((2,), "<i8", struct.pack("<qq", 2**62, 1)),
        ),
        "rows that end before they begin": npz(  # scipy asks nothing of a matrix whose last row ends at 0
            x=b"", x_data=npy((9,), data=bytes(72)), x_indices=npy((9,), "<i8", bytes(72)),
            x_indptr=npy((9,), "<i8", struct.pack("<9q", 0, 9, 9, 5, 9, 0, 0, 0, 0)),
            x_shape=npy((2,), "<i8", struct.pack("<qq", 8, 4)),
        ),
        "half a letter": npz(node_names=npy((1,), "<U1", b"\0\xd8\0\0")),
        "no letter": npz(node_names=npy((1,), "<U1", b"\0\0\0\x7f")),
        "minus signs": npz(x=b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"-" * 9000),
        "brackets": npz(x=b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"(" * 9000),
        "names that command": npz(
            x=npy((10, 4), "<f4", bytes(160)), node_names=npy((10,), "<U12", np.array(NAMES, "<U12").tobytes()),
            class_names=npy((3,), "<U12", np.array(NAMES[:3], "<U12").tobytes()),
        ),
        "one member, twice": doubled,
        "one member, 60,000 times": repeated_member,
        "a class of 2^62": npz(y=npy((1,), "<i8", struct.pack("<q", 2**62))),
        "a number that is none": npz(n_id=npy((1,), "<f8", struct.pack("<d", float("nan")))),
        "rows without columns": npz(x=npy((10**9, 0))),
        "columns without rows": npz(x=npy((0, 2**40))),
        "an open string": npz(x=b"\x93NUMPY\1\0" + struct.pack("<H", 3) + b"'''"),
        "a bare pickle": lambda folder: (folder / "before.npz").write_bytes(pickle.dumps(Bomb(folder))),
        **odd_files("before.npz"),
    },
    "pt dict": {
        "indices out of range": saved(x=unchecked([[0, 10**7], [0, 5]], (4, 4))),
        "negative indices": saved(x=unchecked([[0, -(10**7)], [0, 5]], (4, 4))),
        "endless rows": saved(x=unchecked([[0], [0]], (2**40, 4))),
        "endless columns": saved(x=unchecked([[0], [0]], (4, 2**40))),
        "one number, repeated": saved(x=torch.zeros(1, 1).expand(10**5, 10**4)),
        "one number, a billion times": saved(x=torch.zeros(1, 1, dtype=torch.int8).expand(10**5, 10**4)),
        "many repeated": saved(**{f"k{i}": torch.zeros(1).expand(10**7) for i in range(30)}),
        "rows that end before they begin": saved(x=torch.sparse_csr_tensor(
            torch.tensor([0, 5, 1]), torch.tensor([0, 1]), torch.ones(2), (2, 2), check_invariants=False)),
        "columns beyond the end": saved(x=torch.sparse_csc_tensor(
            torch.tensor([0, 1, 9]), torch.tensor([0, 7]), torch.ones(2), (2, 2), check_invariants=False)),
        "names that are no numbers": saved(node_names=[float("nan"), float("nan"), 1]),
        "complex": saved(x=torch.eye(3, dtype=torch.complex64)),
        "complex and sparse": saved(x=torch.eye(3, dtype=torch.complex64).to_sparse()),
        "complex weights": saved(edge_index=torch.zeros(2, 1).long(), edge_weight=torch.ones(1, dtype=torch.complex64)),
        "no dimensions": saved(x=torch.tensor(1.0), node_names=["a"]),
        "quantised": saved(x=torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8)),
        "nested": saved(x=torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])),
        "blocks": saved(x=torch.eye(4).to_sparse_bsr((2, 2))),
        "hybrid": saved(x=torch.eye(4).to_sparse(1)),
        "text as features": saved(x="abc"),
        "lists as features": saved(x=[[1.0]], edge_index=[[0], [0]]),
        "a version of its own": saved(version=[[[1]]]),
        "a parameter": saved(x=torch.nn.Parameter(torch.eye(3))),
        "code": saved(edge_index=Bomb),
        "code as a version": saved(version=Bomb),
        "code, called": rewritten(
            lambda old, folder: b"\x80\x02cos\nmkdir\nX" + struct.pack("<I", len(f"{folder}/canary")) +
            f"{folder}/canary".encode() + b"\x85R."
        ),
        "code, another way": rewritten(lambda old, folder: b"(S'%s'\nios\nmkdir\n." % f"{folder}/canary".encode()),
        "a place of 4 GB": rewritten(lambda old, folder: b"\x80\x02}r\xff\xff\xff\xff."),
        "tuples within tuples": rewritten(lambda old, folder: b"\x80\x02})" + b"\x85" * 200_000 + b"K\1s."),
        "lists within lists": rewritten(
            lambda old, folder: b"\x80\x02}X\1\0\0\0x" + b"]" * 100_000 + b"a" * 99_999 + b"s."
        ),
        "a list of itself": rewritten(lambda old, folder: b"\x80\x02}X\x0a\0\0\0node_names]q\1h\1as."),
        "lists of lists of lists": rewritten(lambda old, folder: b"\x80\x02]q\0" + b"".join(
            b"](" + b"h%c" % i * 10 + b"eq%c" % (i + 1) for i in range(12)) + b"}X\x0a\0\0\0node_namesh\x0cs."),
        "nothing on the stack": rewritten(lambda old, folder: b"\x80\x02."),
        "no end": rewritten(lambda old, folder: old[:-1]),
        "packed": lambda folder: write_zip(folder / "dict.pt", {"dict/data.pkl": b")" * 10**8 + b"."}),
        **odd_files("dict.pt"),
    },
    "model": {
        "K": conv("TAGConv", in_channels=4, out_channels=3, K=10**7),
        "K without weights": conv("SGConv", in_channels=4, out_channels=3, K=10**7),
        "K, less": conv("TAGConv", in_channels=4, out_channels=3, K=1000),
        "K, less, without weights": conv("SGConv", in_channels=4, out_channels=3, K=1000),
        "APPNP": conv("APPNP", K=10**7, alpha=0.1),
        "stacks": conv("ARMAConv", in_channels=4, out_channels=3, num_stacks=1000, num_layers=1000),
        "towers": conv("PNAConv", in_channels=1000, out_channels=1000, aggregators=["mean"], scalers=["identity"],
                       deg=[1, 2], towers=1000, pre_layers=1000, post_layers=1000),
        "powers": conv("MixHopConv", in_channels=4, out_channels=3, powers=[10**7]),
        "degrees": conv("MFConv", in_channels=4, out_channels=3, max_degree=10**7),
        "degrees, less": conv("MFConv", in_channels=10**7, out_channels=10**7, max_degree=1000),
        "relations": conv("FiLMConv", in_channels=4, out_channels=3, num_relations=10**7),
        "kernel": conv("SplineConv", in_channels=4, out_channels=3, dim=1000, kernel_size=1000),
        "heads": conv("GATConv", in_channels=10**7, out_channels=10**7, heads=1000),
        "an activation with arguments": described(arguments={
            "in_channels": 4, "hidden_channels": 5, "num_layers": 2, "out_channels": 3, "act": "MultiheadAttention",
            "act_kwargs": {"embed_dim": 10**5, "num_heads": 1}}),
        "endless dropout": described(arguments={
            "in_channels": 4, "hidden_channels": 5, "num_layers": 2, "out_channels": 3, "norm": "batch_norm",
            "dropout": "1e999"}),
        "deep": text("model/model.json", DEEP),
        "digits": text("model/model.json", '{"format": "axiompath.model", "version": ' + "9" * 10**5 + "}"),
        "no dictionary": text("model/model.json", "NaN"),
        "a string without end": text("model/model.json", OPEN),
        "weights that overlap": weights({"a": ["F32", [2], 0, 8], "b": ["F32", [2], 4, 12]}, bytes(12)),
        "weights that end before they begin": weights({"a": ["F32", [2], 8, 0]}, bytes(8)),
        "weights beyond all numbers": weights({"a": ["F32", [2**63, 2], 0, 0]}),
        "no weights, many times": weights({f"k{i}": ["F32", [0], 0, 0] for i in range(50_000)}),
        "weights of 1 TB": text("model/weights.safetensors", struct.pack("<Q", 10**12)),
        "deep weights": text("model/weights.safetensors", struct.pack("<Q", len(DEEP)) + DEEP.encode()),
        **odd_files("model/model.json", "model/weights.safetensors"),
    },
    "csv": {
        "columns": text("nodes.csv", lambda: "id," + ",".join(map(str, range(10**6))) + "\n1" + ",1" * 10**6 + "\n"),
        "columns of edges": text("edges.csv", lambda: "source,target" + ",c" * 10**6 + "\n"),
        "columns and short rows": text("nodes.csv", lambda: "id" + ",c" * 9_000 + "\n" + "1\n" * 9_000),
        "a quotation without end": text("nodes.csv", lambda: 'id,f\n"' + "a\n" * 10**6),
        "columns in quotes": text("nodes.csv", lambda: '"id\n' + '"' + ",c" * 10**6 + "\n"),
        "odd labels": text("nodes.csv", "id,a,label\n1,1,--5\n2,1,²\n3,1," + "9" * 5000 + "\n"),
        "large labels": text("nodes.csv", "id,a,label\n" + "".join(f"{i},1,{10**30}\n" for i in range(30))),
        "rows with more cells": text("edges.csv", "source,target\n1,2,3\n"),
        "no edges": text("edges.csv", "source,target,weight\n"),
        "wide": text("nodes.csv", lambda: "id" + "".join(f",c{i}" for i in range(6_001)) + "\n" + "".join(
            f"{i}" + ",1" * 6_001 + "\n" for i in range(10))),
        "nothing but zeros": text("nodes.csv", b"id,a\n1,\0\0\n\0,1\n"),
        "packed": text("nodes.csv", lambda: gzip.compress(bytes(10**7))),
        "names that command": text("nodes.csv", "id,a,b,c,d,label\n" + "".join(
            f'"{name}",1,1,1,1,{name[:1]}x\n' for name in NAMES)),
        "long numbers": text("nodes.csv", "id,a\n1," + "9" * 10**5 + "\n"),
        **odd_files("nodes.csv", "edges.csv"),
    },
    "parquet": {
        "one row, many times": table("nodes.parquet", id=lambda: repeated(1, 10**8), a=lambda: repeated(1.0, 10**8)),
        "one text, many times": table(
            "edges.parquet", source=lambda: repeated("a" * 10**5, 10**6), target=lambda: repeated("a", 10**6)
        ),
        "lists": table("nodes.parquet", id=[1], a=[[1.0]]),
        "dates": table("nodes.parquet", id=[1], a=pa.array([1], pa.timestamp("ns"))),
        "bytes": table("nodes.parquet", id=pa.array([b"\xff\xfe"]), a=[1.0]),
        "long values": table("nodes.parquet", id=[1], a=pa.array([b"a" * 10**6], pa.binary(10**6))),
        "pandas, damaged": lambda folder: pq.write_table(
            pa.table({"id": [1], "a": [1.0]}).replace_schema_metadata({"pandas": "{"}), folder / "nodes.parquet"
        ),
        "pandas, of another kind": lambda folder: pq.write_table(
            pa.table({"id": [1], "a": [1.0]}).replace_schema_metadata({"pandas": '{"index_columns": 3}'}),
            folder / "nodes.parquet",
        ),
        "a schema, damaged": lambda folder: pq.write_table(
            pa.table({"id": [1], "a": [1.0]}).replace_schema_metadata({"ARROW:schema": "////"}),
            folder / "nodes.parquet",
        ),
        "pandas, without end": lambda folder: pq.write_table(
            pa.table({"id": [1], "a": [1.0]}).replace_schema_metadata({"pandas": OPEN}), folder / "nodes.parquet"
        ),
        "code as a type": lambda folder: pq.write_table(pa.table([pa.array([1]), pa.array([1.0])], schema=pa.schema([
            pa.field("id", pa.int64(), metadata={"ARROW:extension:name": "arrow.py_extension_type",
                     "ARROW:extension:metadata": pickle.dumps(Bomb(folder))}), pa.field("a", pa.float64())])),
            folder / "nodes.parquet"),
        "no numbers as names": table("nodes.parquet", id=[1.0, float("nan"), float("nan")], a=[1.0, 2.0, 3.0]),
        "large numbers as names": table("edges.parquet", source=pa.array([2**64 - 1], pa.uint64()), target=[1]),
        "a group of rows a row": lambda folder: pq.write_table(
            pa.table({"id": np.arange(3000), "a": np.zeros(3000)}), folder / "nodes.parquet", row_group_size=1
        ),
        "columns": table("nodes.parquet", **{f"c{i}": pa.array([], pa.int8()) for i in range(50_001)}),
        "a page of 2 GB": page_size(2**31 - 1),
        "a page of -1": page_size(2**32 - 1),
        "nothing": table("nodes.parquet"),
        **odd_files("nodes.parquet", "edges.parquet"),
    },
    "stored": odd_files(*(f"stored/{name}" for name in (
        "graph.json", "indptr.npy", "senders.npy", "x.npy", "names.npy", "names_indptr.npy"))),
    "npy": odd_files("e.npy", "x.npy"),
    "explanation": {
        "deep": text("explanation.json", DEEP),
        "digits": text("explanation.json", "9" * 10**6),
        "text": text("explanation.json", b"\xff\xfe"),
        "a string without end": text("explanation.json", OPEN),
        "a long string without end": text("explanation.json", lambda: '"' + "a" * 10**7),
        "lists": text("explanation.json", lambda: "[" + "[]," * 10**6 + "[]]"),
        **odd_files("explanation.json"),
    },
    "story": {
        "deep": text("story.json", DEEP), "a string without end": text("story.json", OPEN), **odd_files("story.json")
    },
    "blame": {"a string without end": text("blame.json", OPEN), **odd_files("blame.json")},
    "undo": {"a string without end": text("undo.json", OPEN), **odd_files("undo.json")},
    "scan": {
        "an absolute path": outside("{}/elsewhere.parquet"),
        "a path above": outside("../elsewhere.parquet"),
        "counts": manifest(num_explained=-1),
        "many": manifest(num_explained=10**30),
        "no parts": manifest(parts=None),
        "parts of another kind": manifest(parts=[3]),
        "deep": text("scan/manifest.json", DEEP),
        "a long list": rows_of_a_part(weights=lambda n: pa.array([np.zeros(3 * 10**7)] + [[]] * (n - 1))),
        "a long text, often": rows_of_a_part(kinds=lambda n: pa.array([["a" * 10**5] * 10**4] + [[]] * (n - 1))),
        "text for numbers": rows_of_a_part(kl=lambda n: pa.array(["a"] * n)),
        "nothing": rows_of_a_part(target=lambda n: pa.nulls(n, pa.int64())),
        "half of it": rows_of_a_part(logits_before=lambda n: pa.array([[1.0]] * n)),
        "not a number": rows_of_a_part(logits_before=lambda n: pa.array([[float("nan")] * 3] * n)),
        "a string without end": text("scan/manifest.json", OPEN),
        **odd_files(*(f"scan/{name}" for name in (
            "manifest.json", "moved.parquet", "too_large.parquet", "parts/part-000000.parquet"))),
    },
}  # fmt: skip

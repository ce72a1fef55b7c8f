"""Files made by hand, each of which once did harm, or could: format -> name -> what to do to the folder of a case."""

import gzip
import io
import json
import os
import pickle
import shutil
import socket
import struct
import warnings
import zipfile
from decimal import Decimal

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


def npy_of(header, data=b""):
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, header)
    return made.getvalue() + data


def raw_npy(header, data=b"", version=1):
    """An .npy file with these very letters as its header."""
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


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


def socket_at(path):
    """A socket; its name may have 107 letters, so it is bound from its own folder."""
    place = os.getcwd()
    try:
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(place)


def odd_files(*names):
    odd = {"pipe": os.mkfifo, "socket": socket_at, "link out": lambda path: path.symlink_to("/etc/hostname"),
    "folder": os.mkdir, "device": lambda path: path.symlink_to("/dev/zero"),
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


def odd_table(kind, values, **others):
    """A node table with a column of another kind."""
    return lambda folder: pq.write_table(
        pa.table({"id": [1], "a": pa.array(values, kind() if callable(kind) else kind), **others}),
        folder / "nodes.parquet",
    )


def nest(depth):
    """A type of lists within lists, and a value of it."""
    kind, value = pa.float64(), 1.0
    for _ in range(depth):
        kind, value = pa.list_(kind), [value]
    return kind, [value]


def packed(name, encoding, make):
    """Text packed in a way that repeats what came before."""
    return lambda folder: pq.write_table(
        pa.table({"id": make(), "a": np.zeros(len(make()))}), folder / name, use_dictionary=False,
        column_encoding={"id": encoding, "a": "PLAIN"},
    )  # fmt: skip


def dictionary_count(number):
    """A dictionary that says it has another number of words: the first page of a column of different words."""

    def write(folder):
        path = folder / "nodes.parquet"
        words = [f"word {i % 5000}" for i in range(10_000)]
        pq.write_table(pa.table({"id": words, "a": np.zeros(10_000)}), path, compression="none")
        data = path.read_bytes()
        old = bytes([0x15, *_varint(2 * 5000), 0x15])
        place = data.index(old)
        new = _varint(number << 1 if number >= 0 else (-number << 1) - 1)
        new = bytes([*(byte | 128 for byte in new[:-1]), *([new[-1]] if len(new) == 2 else [new[-1] | 128, 0])])[:2]
        path.write_bytes(data[: place + 1] + new + data[place + 3 :])

    return write


def _varint(value):
    found = []
    while value > 127:
        found, value = [*found, value & 127 | 128], value >> 7
    return bytes([*found, value])


def footer(change):
    """The end of a Parquet file: its footer, the footer's length, and four letters."""

    def write(folder):
        path = folder / "nodes.parquet"
        path.write_bytes(change(path.read_bytes()))

    return write


def archive(*members, name="dict.pt", **settings):
    """A zip with these members in this order, names as they are given."""

    def write(folder):
        with zipfile.ZipFile(folder / name) as good:
            held = {info.filename: good.read(info) for info in good.infolist()}
        with warnings.catch_warnings(), zipfile.ZipFile(folder / name, "w") as made:
            warnings.simplefilter("ignore")
            for member, content in members or held.items():
                info = zipfile.ZipInfo(member)
                for key, value in settings.items():
                    setattr(info, key, value)
                made.writestr(info, held.get(content, b"") if isinstance(content, str) else content)

    return write


def zip_header(place, fmt, value, name="dict.pt"):
    """A number in the last entry of a zip's directory, another one; `place` counts from the entry's beginning."""

    def write(folder):
        data = bytearray((folder / name).read_bytes())
        start = data.rindex(b"PK\1\2")
        struct.pack_into(fmt, data, start + place, value)
        (folder / name).write_bytes(bytes(data))

    return write


def strided(size, stride, offset=0):
    """Numbers of a storage of a hundred, read as somebody says: overlapping, repeated, from beyond its end."""

    def change(old, folder):
        def numbers(values):
            return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values) + b"t"

        key = b"X\1\0\0\x000"
        return (
            b"\x80\x02}X\1\0\0\0xctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
            + key + b"X\3\0\0\0cpuKdtQ\x8a\x08" + struct.pack("<q", offset) + numbers(size) + numbers(stride)
            + b"\x89ccollections\nOrderedDict\n)RtRsX\n\0\0\0edge_indexctorch._utils\n_rebuild_tensor_v2\n("
            b"(X\7\0\0\0storagectorch\nFloatStorage\n" + key + b"X\3\0\0\0cpuKdtQK\0(K\2K\0t(K\1K\1t\x89"
            b"ccollections\nOrderedDict\n)RtRs."
        )  # fmt: skip

    def write(folder):
        write_zip(folder / "dict.pt", {"dict/data.pkl": change(b"", folder), "dict/data/0": bytes(400)},
                  zipfile.ZIP_STORED)  # fmt: skip

    return write


def stored(**arrays):
    """Arrays of a stored graph, others."""

    def write(folder):
        for name, made in arrays.items():
            old = np.load(folder / f"stored/{name}.npy")
            new = made(old) if callable(made) else made
            path = folder / f"stored/{name}.npy"
            path.write_bytes(new) if isinstance(new, bytes) else np.save(path, new)

    return write


def stored_header(**changes):
    def write(folder):
        path = folder / "stored/graph.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return write


def twice(name, key, value):
    """JSON in which a key stands twice."""

    def write(folder):
        path = folder / name
        text = path.read_text().rstrip()
        assert text.startswith("{")
        path.write_text(text[:-1].rstrip() + f', "{key}": {value}' + "}")

    return write


def sparse_stored(**changes):
    """A stored graph that says its features are sparse."""

    def write(folder):
        x = np.load(folder / "stored/x.npy")
        arrays = {"x_data": x.ravel(), "x_indices": np.tile(np.arange(4), 30), "x_indptr": np.arange(31) * 4}
        for name, values in (arrays | {f"x_{key}": value for key, value in changes.items()}).items():
            np.save(folder / f"stored/{name}.npy", values)
        stored_header(sparse=True)(folder)

    return write


def blame_table(name, **changes):
    """A table of a scan with blame with other columns, blessed by its manifest; None takes a column away."""

    def write(folder):
        from mutations import bless

        path = folder / "scan blame" / name
        table = pq.read_table(path)
        for column, make in changes.items():
            place = table.schema.get_field_index(column)
            table = table.remove_column(place) if make is None else table.set_column(place, column, make(len(table)))
        pq.write_table(table, path)
        bless(folder / "scan blame")

    return write


def swapped(one, other, scan):
    """Two files of a scan in each other's place, or one of another scan's, blessed."""

    def write(folder):
        from mutations import bless

        a, b = folder / one, folder / other
        held = a.read_bytes(), b.read_bytes()
        a.write_bytes(held[1])
        b.write_bytes(held[0])
        bless(folder / scan)

    return write


def another_scan(name, part):
    """A part of a scan of other graphs in place of its own, blessed."""

    def write(folder):
        from mutations import bless

        rows = pq.read_table(folder / name / part)
        order = list(range(len(rows)))[::-1]
        notes = {key: value.replace(b"node", b"link") for key, value in (rows.schema.metadata or {}).items()}
        pq.write_table(rows.take(order).replace_schema_metadata(notes), folder / name / part)
        bless(folder / name)

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
        "columns first": npz(x=lambda: npy_of({"descr": "<f8", "fortran_order": True, "shape": (1, 1)}, bytes(8))),
        "a shape, twice": npz(x=lambda: raw_npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), 'shape': (10000000, 1000)}", bytes(8))),
        "numbers within numbers": npz(x=lambda: raw_npy(
            "{'descr': ('<f8', (1000, 1000)), 'fortran_order': False, 'shape': (1, 1)}", bytes(8 * 10**6))),
        "fields": npz(x=lambda: raw_npy(
            "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1, 1)}", bytes(8))),
        "a shape of truth": npz(x=lambda: raw_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (True, True)}",
            bytes(8))),
        "a shape of text": npz(x=lambda: raw_npy("{'descr': '<f8', 'fortran_order': False, 'shape': '11'}", bytes(8))),
        "a shape of -1": npz(x=lambda: raw_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}",
            bytes(8))),
        "a shape beyond all numbers": npz(x=lambda: raw_npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551616, 1)}", bytes(8))),
        "a long double": npz(x=npy((1, 1), "<f16", bytes(16))), "numbers of a third version": npz(
            x=lambda: raw_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1)}", bytes(8), version=3)),
        "a header of 4 GB": npz(x=b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b" " * 100),
        "ends beyond all numbers": npz(edge_index=npy((2, 1), "<u8", b"\xff" * 16)),
        "ends before the first": npz(edge_index=npy((2, 1), "<i8", struct.pack("<2q", -1, 0))),
        "ends, boxed": npz(edge_index=npy((2, 1), "<f8", struct.pack("<2Q", 0x7FF8000000000001, 0))),
        "names, boxed": npz(n_id=npy((1,), "<f8", struct.pack("<Q", 0x7FF8000000000001))),
        "names beyond all numbers": npz(n_id=npy((1,), "<u8", b"\xff" * 8)),
        "names with an end within": npz(node_names=npy((1,), "<U4", "a\0b\0".encode("utf-32-le"))),
        "names that are no letters": npz(node_names=npy((1,), "<U1", struct.pack("<I", 0x7FFFFFFF))),
        "members above": lambda folder: write_zip(folder / "before.npz", {
            "../x.npy": npy((1, 1), data=bytes(8)), "/etc/edge_index.npy": npy((2, 0), "<i8")}),
        "members of another kind": zip_header(10, "<H", 99, "before.npz"),
        "members in secret": zip_header(8, "<H", 1, "before.npz"),
        "members of 4 GB": zip_header(24, "<I", 2**32 - 2, "before.npz"),
        "members elsewhere": zip_header(42, "<I", 2**31, "before.npz"),
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
        "numbers that overlap": strided((10**5, 50), (0, 1)), "numbers that overlap, by one": strided((50, 50), (1, 1)),
        "numbers that overlap, a lot": strided((2**40, 2**20), (0, 0)),
        "more numbers than can be counted": strided((2**61, 2**61), (0, 0)),
        "steps beyond all numbers": strided((2, 2), (2**61, 2**61)), "steps backwards": strided((2, 2), (-1, 1), 50),
        "an offset beyond": strided((2, 2), (1, 1), 99), "an offset beyond all numbers": strided((1, 1), (1, 1), 2**61),
        "an offset before": strided((2, 2), (1, 1), -1), "as many as none": strided((0, 2**61), (1, 1)),
        "columns without end": strided((2**61, 0), (1, 1)), "a size of less than nothing": strided((-1, 2), (1, 1)),
        "nine sides": strided((1,) * 9, (1,) * 9), "no sides": strided((), ()),
        "one more side": strided((2, 2), (1,)), "shared numbers": lambda folder: torch.save(
            {"x": (held := torch.eye(4)), "edge_index": EDGES, "edge_weight": held.view(-1)[:0], "y": held[1]},
            folder / "dict.pt"),
        "numbers from 0 to 2^64": saved(edge_index=torch.tensor([[2**63 - 1], [0]])),
        "whole numbers without a sign": saved(edge_index=torch.zeros(2, 1, dtype=torch.uint64)),
        "names without a sign": saved(n_id=torch.tensor([1, 2, 2**63 - 1]).to(torch.uint64)),
        "the last names": saved(n_id=torch.tensor([-(2**63), 0, 2**63 - 1])), "names twice": saved(n_id=torch.zeros(3)),
        "numbers of names": saved(node_names=[10**600, 1, 2]),
        "names of odd kinds": saved(node_names=[None, True, 1.5]),
        "half of a word": saved(node_names=["\ud800", "a", "b"]),
        "words without end": saved(node_names=["a" * 10**6] * 3),
        "endless features": saved(x=torch.full((3, 3), float("inf"))),
        "small numbers": saved(x=torch.eye(3, dtype=torch.bfloat16), edge_weight=torch.zeros(0, dtype=torch.float16)),
        "truth as features": saved(x=torch.eye(3, dtype=torch.bool), edge_index=torch.zeros(2, 1, dtype=torch.bool)),
        "weights of another length": saved(edge_weight=torch.ones(10**6)),
        "two pickles": archive(("dict/data.pkl", "dict/data.pkl"), ("other/data.pkl", "dict/data.pkl")),
        "one pickle, twice": archive(("dict/data.pkl", "dict/data.pkl"), ("dict/data.pkl", b"\x80\x02}.")),
        "a pickle above": archive(("../dict/data.pkl", "dict/data.pkl")), "a pickle at the root": archive(
            ("/data.pkl", "dict/data.pkl"), ("data/0", b"")),
        "no name at all": archive(("", b""), ("dict/data.pkl", b"\x80\x02}.")),
        "a folder as a pickle": archive(("dict/data.pkl/", b"")),
        "members that lead elsewhere": archive(external_attr=0o120777 << 16),
        "members with a word": archive(comment=b"a" * 60_000),
        "members in a far year": archive(date_time=(2107, 12, 31, 0, 0, 0)),
        "members in secret": zip_header(8, "<H", 1), "members of another kind": zip_header(10, "<H", 99),
        "members of 4 GB": zip_header(24, "<I", 2**32 - 2), "members without end": zip_header(24, "<I", 2**32 - 1),
        "members elsewhere": zip_header(42, "<I", 2**31), "members of less": zip_header(24, "<I", 1),
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
    "events csv": {
        "a step of the clock": text("events.csv", "source,target,time,amount\na,b,1678-01-01,1\na,c,2261-01-01,1\n"),
        "years nobody lived": text("events.csv", "source,target,time,amount\na,b,0001-01-01,1\na,c,9999-12-31,1\n"),
        "days that are none": text("events.csv", "source,target,time,amount\na,b,2024-02-31,1\na,c,2024-01-01,1\n"),
        "amounts without end": text("events.csv", "source,target,time,amount\na,b,2024-01-01,inf\na,c,2024-03-01,\n"),
        "seconds beyond all": text("events.csv", "source,target,time,amount\na,b,1,1\na,c,1e300,1\n"),
        "one name": text("events.csv", lambda: "source,target,time,amount\n" + f"{'a' * 10**6},b,2024-01-01,1\n" * 20),
        "columns": text("events.csv", lambda: "source,target,time" + ",c" * 10**6 + "\n"),
        "no events": text("events.csv", "source,target,time,amount\n"),
        "only loops": text("events.csv", "source,target,time,amount\na,a,2024-01-01,1\na,a,2024-03-01,1\n"),
        "names that command": text("events.csv", "source,target,time,amount\n" + "".join(
            f'"{name}",b,2024-0{i % 8 + 1}-01,1\n' for i, name in enumerate(NAMES))),
        **odd_files("events.csv", "people.csv"),
    },
    "snapshots": {
        "files elsewhere": text("snapshots/snapshots.json", json.dumps({
            "format": "axiompath.snapshots", "version": 1, "files": ["../after.npz"], "names": ["a"], "rule": "",
            "bounds": [[0, 1]], "dated": False, "waiting": 0})),
        "many files": text("snapshots/snapshots.json", lambda: json.dumps({
            "format": "axiompath.snapshots", "version": 1, "files": [f"{i:04d}.npz" for i in range(10**5)],
            "names": ["a"] * 10**5, "rule": "", "bounds": [], "dated": False, "waiting": 0})),
        **odd_files("snapshots/snapshots.json", "snapshots/0001.npz"),
    },
    "watch": {
        "nothing": text("watch/watch.json", "{}"),
        "many steps": text("watch/watch.json", lambda: json.dumps({
            "format": "axiompath.watch", "version": 1, "settings": {"first": 1}, "facts": {"task": "given"}, "seen": [],
            "digests": [], "steps": [{"before": "a"}] * 10**5})),
        **odd_files("watch/watch.json"),
    },
    "parquet": {
        "one row, many times": table("nodes.parquet", id=lambda: repeated(1, 10**8), a=lambda: repeated(1.0, 10**8)),
        "one text, many times": table(
            "edges.parquet", source=lambda: repeated("a" * 10**5, 10**6), target=lambda: repeated("a", 10**6)
        ),
        "lists": table("nodes.parquet", id=[1], a=[[1.0]]),
        "structs": table("nodes.parquet", id=[1], a=[{"b": 1.0}]),
        "structs of nothing": odd_table(lambda: pa.struct([("b", pa.null())]), [{"b": None}]),
        "maps": odd_table(lambda: pa.map_(pa.string(), pa.float64()), [[("b", 1.0)]]),
        "lists within lists": odd_table(*nest(90)),
        "lists of one length": odd_table(lambda: pa.list_(pa.float64(), 3), [[1.0, 2.0, 3.0]]),
        "lists as names": table("nodes.parquet", id=[["a"]], a=[1.0]),
        "lists as ends": table("edges.parquet", source=[[1]], target=[[1]]),
        "nothing as numbers": odd_table(pa.null(), [None]),
        "nothing as names": table("nodes.parquet", id=pa.nulls(1), a=[1.0]),
        "decimals": odd_table(lambda: pa.decimal256(76, 38), [Decimal("1e37")]),
        "dates of old": odd_table(pa.date32(), [-(2**31)]),
        "durations": odd_table(lambda: pa.duration("s"), [2**62]),
        "another zone": odd_table(lambda: pa.timestamp("ms", "../../etc/passwd"), [2**52]),
        "half a number": odd_table(pa.float16(), np.array([1.0], dtype=np.float16)),
        "truth as names": table("nodes.parquet", id=[True, False], a=[1.0, 2.0]),
        "whole numbers beyond": odd_table(pa.uint64(), [2**64 - 1]),
        "words as numbers": odd_table(pa.string(), ["inf"]),
        "a word of 100 MB": table("nodes.parquet", id=lambda: pa.array(["a" * 10**8]), a=[1.0]),
        "words that grow": packed("nodes.parquet", "DELTA_BYTE_ARRAY", lambda: ["a" * i for i in range(3000)]),
        "words with lengths": packed("nodes.parquet", "DELTA_LENGTH_BYTE_ARRAY", lambda: ["a" * 9] * 3000),
        "a dictionary of 8191": dictionary_count(8191), "a dictionary of 1": dictionary_count(1),
        "a dictionary of -1": dictionary_count(-1), "a dictionary of none": dictionary_count(0),
        "one name, two ways": table("nodes.parquet", id=[1.0, 1.5], a=[1.0, 2.0]),
        "zeros of both signs": table("nodes.parquet", id=[0.0, -0.0], a=[1.0, 2.0]),
        "boxed numbers": table("nodes.parquet", a=[1.0, 2.0], id=pa.array(
            np.array([0x7FF8000000000001, 0x7FF8000000000002], dtype=np.uint64).view(np.float64))),
        "numbers that meet": table("nodes.parquet", id=[2.0**53, 2.0**53 + 2], a=[1.0, 2.0]),
        "the last numbers": table("nodes.parquet", id=[2**63 - 1, -(2**63)], a=[1.0, 2.0]),
        "a column twice": lambda folder: pq.write_table(
            pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([1.0])], names=["id", "id", "a"]),
            folder / "nodes.parquet"),
        "a column in both cases": table("nodes.parquet", id=[1], ID=[2], a=[1.0]),
        "a long name of a column": table("nodes.parquet", **{"id": [1], "a" * 10**6: [1.0]}),
        "an odd name of a column": table("nodes.parquet", **{"id": [1], "a\0\x1b[2J": [1.0]}),
        "pandas, an endless index": lambda folder: pq.write_table(
            pa.table({"id": [1], "a": [1.0]}).replace_schema_metadata({"pandas": json.dumps({"index_columns": [
                {"kind": "range", "start": 0, "stop": 10**18, "step": 1, "name": None}], "columns": []})}),
            folder / "nodes.parquet"),
        "a type of its own": lambda folder: pq.write_table(pa.table([pa.array([1]), pa.array([b"a" * 16],
            pa.binary(16))], schema=pa.schema([("id", pa.int64()), pa.field("a", pa.binary(16), metadata={
                "ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""})])), folder / "nodes.parquet"),
        "a secret footer": footer(lambda data: data[:-4] + b"PARE"),
        "a footer of 2 GB": footer(lambda data: data[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1"),
        "a footer of nothing": footer(lambda data: data[:-8] + struct.pack("<I", 0) + b"PAR1"),
        "a footer of all": footer(lambda data: data[:-8] + struct.pack("<I", len(data) - 12) + b"PAR1"),
        "letters alone": footer(lambda data: b"PAR1PAR1"),
        "a file in a file": footer(lambda data: data[:-4] + data),
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
    "stored": {
        "more nodes": stored_header(num_nodes=10**12), "fewer nodes": stored_header(num_nodes=29),
        "more edges": stored_header(num_edges=81), "no features": stored_header(num_features=0),
        "features without end": stored_header(num_features=2**59), "truth as a size": stored_header(num_nodes=True),
        "sizes, boxed": stored_header(num_nodes=30.0), "weights that are not there": stored_header(weighted=True),
        "sparse ones that are not there": stored_header(sparse=True), "many classes": stored_header(
            class_names=["a"] * 10**5), "classes of another kind": stored_header(class_names=[[]]),
        "a class that commands": stored_header(class_names=["\x1b[2J", "</script>", "\u202e"]),
        "nodes, twice": twice("stored/graph.json", "num_nodes", 10**9),
        "a format, twice": twice("stored/graph.json", "format", '"axiompath.graph"'),
        "digits": twice("stored/graph.json", "num_nodes", "9" * 10**6), "deep": text("stored/graph.json", DEEP),
        "a string without end": text("stored/graph.json", OPEN),
        "columns first": stored(x=np.asfortranarray), "rows for columns": stored(x=lambda x: x.T),
        "features of doubles": stored(x=lambda x: x.astype(np.float64)),
        "features the other way round": stored(x=lambda x: x.astype(">f4")),
        "whole numbers as features": stored(x=lambda x: x.astype(np.int64)),
        "no numbers as features": stored(x=lambda x: x * np.nan), "endless features": stored(x=lambda x: x + np.inf),
        "features of a header": stored(x=lambda x: npy((30, 4), "<f4")),
        "features without end, mapped": stored(x=lambda x: npy((2**40, 2**20), "<f4", bytes(480))),
        "rows that fall": stored(indptr=lambda a: a[::-1]), "rows before the first": stored(indptr=lambda a: a - 1),
        "rows beyond all numbers": stored(indptr=lambda a: a * 2**56), "rows of 32 bits": stored(
            indptr=lambda a: a.astype(np.int32)), "rows the other way round": stored(indptr=lambda a: a.astype(">i8")),
        "rows, boxed": stored(indptr=lambda a: a.astype(np.float64) * np.nan),
        "senders before the first": stored(senders=lambda a: a - 100),
        "senders beyond": stored(senders=lambda a: a + 30),
        "senders without a sign": stored(senders=lambda a: a.astype(np.uint32)),
        "senders in a square": stored(senders=lambda a: a.reshape(8, 10)),
        "senders in any order": stored(senders=lambda a: a[::-1].copy()),
        "names without letters": stored(names=lambda a: a * 0 + 255),
        "names that fall": stored(names_indptr=lambda a: a[::-1]),
        "names beyond": stored(names_indptr=lambda a: a * 2**40), "names before": stored(names_indptr=lambda a: a - 1),
        "one name": stored(names=lambda a: a * 0 + 65), "names of one node": stored(
            names_indptr=lambda a: np.where(np.arange(len(a)) > 0, a[-1], 0)),
        "sparse": sparse_stored(), "sparse columns beyond": sparse_stored(indices=np.full(120, 4)),
        "sparse columns before": sparse_stored(indices=np.full(120, -1)), "sparse rows that fall": sparse_stored(
            indptr=np.arange(31)[::-1] * 4), "sparse columns, boxed": sparse_stored(indices=np.full(120, np.nan)),
        "sparse columns without end": sparse_stored(indices=np.full(120, 2**62)),
        "sparse numbers that are none": sparse_stored(data=np.full(120, np.nan)),
        **odd_files(*(f"stored/{name}" for name in (
            "graph.json", "indptr.npy", "senders.npy", "x.npy", "names.npy", "names_indptr.npy"))),
    },
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
        "parts, twice": twice("scan/manifest.json", "parts", "[]"),
        "counts, twice": twice("scan/manifest.json", "num_moved", 10**9),
        "digits": twice("scan/manifest.json", "num_moved", "9" * 10**6),
        "counts, boxed": manifest(num_targets=float("nan")), "counts of truth": manifest(num_failed=False),
        "blame of nothing": manifest(blame=[]), "blame of another kind": manifest(blame={"asked": [], "parts": 3}),
        "many parts": manifest(parts=[{"file": "parts/part-000000.parquet", "sha256": "0" * 64, "targets": 0}] * 10**5),
        "digests of another kind": manifest(tables={"moved.parquet": None, "too_large.parquet": 3}),
        "digests that command": manifest(tables={"moved.parquet": "\x1b" * 64, "too_large.parquet": "0" * 64}),
        "another task": manifest(task={"unit": "link", "output": {"kind": "binary", "scales": None}}),
        "a task of values": manifest(task={"unit": "node", "output": {"kind": "value", "scales": [0, -1, "a"]}}),
        "a task of too many": manifest(task={"unit": "node", "output": {"kind": "value", "scales": [1.0] * 10**5}}),
        "no task": manifest(task=7), "another origin": manifest(origin={"digests": 3}),
        "tables swapped": swapped("scan/moved.parquet", "scan/too_large.parquet", "scan"),
        "a table as a part": swapped("scan/moved.parquet", "scan/parts/part-000000.parquet", "scan"),
        "a part of another order and kind": another_scan("scan", "parts/part-000000.parquet"),
        "targets beyond all numbers": rows_of_a_part(target=lambda n: pa.array([2**64 - 1] * n, pa.uint64())),
        "targets before the first": rows_of_a_part(target=lambda n: pa.array([-(2**63)] * n, pa.int64())),
        "targets, boxed": rows_of_a_part(target=lambda n: pa.array([float("nan")] * n)),
        "numbers beyond all": rows_of_a_part(num_paths=lambda n: pa.array([-(2**63)] * n, pa.int64())),
        "one long path": rows_of_a_part(
            paths=lambda n: pa.array([[np.zeros(10**7, dtype=np.int64)]] + [[[1, 2, 3]]] * (n - 1))),
        "paths of paths": rows_of_a_part(paths=lambda n: pa.array([[[[1]]]] * n)),
        **odd_files(*(f"scan/{name}" for name in (
            "manifest.json", "moved.parquet", "too_large.parquet", "parts/part-000000.parquet"))),
    },
    "scan blame": {
        **{f"no {column} in {name}": blame_table(name, **{column: None}) for name, columns in {
            "changes.parquet": ("id", "kind", "src", "dst", "src_name", "dst_name"),
            "blamed.parquet": ("target", "told_before", "told_after"), "sampled.parquet": ("target", "change", "share"),
            "blame/facts-000000.parquet": ("target", "change", "left_out", "put_in", "restores")}.items()
            for column in columns},
        **{f"{what} in {column}": blame_table(name, **{column: make})
            for name, column in (("blamed.parquet", "told_after"), ("sampled.parquet", "share"),
                                 ("blame/facts-000000.parquet", "left_out"))
            for what, make in (("no numbers", lambda n: pa.array([float("nan")] * n)),
                ("endless numbers", lambda n: pa.array([float("inf")] * n)), ("large numbers",
                lambda n: pa.array([1e308] * n)), ("nothing", lambda n: pa.nulls(n, pa.float64())),
                ("words", lambda n: pa.array(["a"] * n)), ("lists", lambda n: pa.array([[1.0]] * n)))},
        **{f"{what} in {column} of {name}": blame_table(name, **{column: make})
            for name, column in (("changes.parquet", "id"), ("sampled.parquet", "change"), ("sampled.parquet",
                "target"),
                ("blame/facts-000000.parquet", "target"), ("blame/facts-000000.parquet", "change"))
            for what, make in (("less", lambda n: pa.array([-(2**63)] * n, pa.int64())),
                ("more", lambda n: pa.array([2**63 - 1] * n, pa.int64())), ("nothing", lambda n: pa.nulls(n,
                    pa.int64())),
                ("all the same", lambda n: pa.array([0] * n, pa.int64())))},
        "nobody restores": blame_table("blame/facts-000000.parquet", restores=lambda n: pa.nulls(n, pa.bool_())),
        "kinds that command": blame_table("changes.parquet", kind=lambda n: pa.array(["\x1b[2J\u202e"] * n)),
        "kinds without end": blame_table("changes.parquet", kind=lambda n: repeated("a" * 10**7, n)),
        "no kinds": blame_table("changes.parquet", kind=lambda n: pa.nulls(n, pa.string())),
        "dates as weights": blame_table("changes.parquet", weight_before=lambda n: pa.array(
            [2**52] * n, pa.timestamp("ms"))),
        "facts of another scan": swapped(
            "scan blame/blamed.parquet", "scan blame/blame/facts-000000.parquet", "scan blame"),
        "tables swapped": swapped("scan blame/changes.parquet", "scan blame/sampled.parquet", "scan blame"),
        **odd_files(*(f"scan blame/{name}" for name in (
            "changes.parquet", "blamed.parquet", "sampled.parquet", "blame/facts-000000.parquet"))),
    },
}  # fmt: skip

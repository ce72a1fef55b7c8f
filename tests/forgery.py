"""How a bored attacker makes files that lie: what hostile.py is made with."""

import gzip
import io
import json
import os
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


ODD_COLUMNS = {
    "lengths of time": pa.array([60] * 80, pa.duration("s")), "bytes": pa.array([b"\xff"] * 80),
    "truth": pa.array([True] * 80), "hours": pa.array([3] * 80, pa.time64("us")), "lists": pa.array([[1]] * 80),
    "nothing": pa.nulls(80), "endless numbers": pa.array([float("inf")] * 80), "no letters": pa.array([""] * 80),
    "large numbers": pa.array([1e300] * 80), "numbers without a sign": pa.array([2**64 - 1] * 80, pa.uint64()),
    "dates beyond": pa.array([2**50] * 80, pa.timestamp("s")), "decimals": pa.array([Decimal("9" * 38)] * 80),
    "half of it": pa.array([None, 1.5] * 40), "tiny numbers": pa.array([0.0, 5e-324] * 40),
}  # fmt: skip


def event_column(name, values):
    """Events, one column of which is of another kind."""

    def write(folder):
        events = pq.read_table(folder / "events.parquet")
        pq.write_table(events.set_column(events.schema.get_field_index(name), name, values), folder / "events.parquet")

    return write


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


def gz(make, level=1):
    """Packed events, letter by letter as these say; `make` yields pieces."""

    def write(folder):
        packed = {}  # pieces that come again, too: a packed file may go on with another
        with (folder / "events.csv.gz").open("wb") as stream:
            for piece in make():
                if piece not in packed:
                    packed[piece] = gzip.compress(piece, level)
                stream.write(packed[piece])

    return write


def rich(**arrays):
    """A graph whose edges have features and types, with other arrays; None takes one away."""

    def write(folder):
        held = dict(np.load(folder / "edges.npz")) | arrays
        np.savez_compressed(folder / "edges.npz", **{key: value for key, value in held.items() if value is not None})

    return write


def pairs(given):
    """A graph with these in place of pairs to predict for."""
    return lambda folder: _with_arrays(folder / "pairs.npz", edge_label_index=np.asarray(given))


def batch(graphs=None, **arrays):
    """Three graphs, of which nodes belong to others."""
    return lambda folder: _with_arrays(
        folder / "batch.npz", **arrays, **({} if graphs is None else {"batch": np.asarray(graphs)})
    )


def _with_arrays(path, **arrays):
    np.savez_compressed(path, **dict(np.load(path)) | arrays)


def changed(name, **changes):
    """JSON with other values."""

    def write(folder):
        path = folder / name
        held = json.loads(path.read_text())
        path.write_text(json.dumps(held | {key: made(held.get(key)) if callable(made) else made
                                           for key, made in changes.items()}))  # fmt: skip

    return write


def plan_table(name, make):
    """A table that a scan goes on with, another one, in a scan that was stopped before it was whole."""

    def write(folder):
        path = folder / "scan/manifest.json"
        held = json.loads(path.read_text())
        for key in ("tables", "parts"):
            held.pop(key)
        path.write_text(json.dumps(held | {"complete": False}))
        make(folder / "scan" / name)

    return write


def copies(pattern, count):
    """As many folders of scans, all of them the first."""

    def write(folder):
        for place in range(count):
            (folder / "scans" / pattern.format(place)).symlink_to("step-0001")

    return write

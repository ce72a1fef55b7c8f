"""Files that lie, made by hand: format -> name -> what is done to a folder of good files. Each must be refused.

PYTHONPATH=tests python tests/support/hostile.py FOLDER  # opens each and good files with flipped bits; JSON for each
"""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from support.formats import FORMATS, SEED, make_seeds, run_command

MAX_SECONDS = 60
MAX_RISE = 10**9
NUM_FLIPS = 5  # of every format
# Every other of these marks might begin a string that never ends: whoever looks from each to the end never ends either.
OPEN = '"' + '\\"' * 60_000


class Bomb:
    """Unpickling it would leave a mark."""

    def __init__(self, folder):
        self.mark = str(folder / "canary")

    def __reduce__(self):
        return os.mkdir, (self.mark,)


# ---- how to lie -----------------------------------------------------------------------------------------------------
def text(name, content):
    def write(folder):
        made = content() if callable(content) else content
        (folder / name).write_bytes(made.encode() if isinstance(made, str) else made)

    return write


def npy(shape, dtype="<f8", data=b""):
    """An .npy file that says what it likes about itself."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue() + data


def npz(**members):
    usual = {"x": npy((1, 1), data=bytes(8)), "edge_index": npy((2, 0), "<i8")}

    def write(folder):
        with zipfile.ZipFile(folder / "before.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, made in (usual | members).items():
                archive.writestr(f"{name}.npy", made() if callable(made) else made)

    return write


def csr(indices, indptr, shape):
    """Sparse features with these indices."""
    arrays = {"data": np.ones(len(indices)), "indices": indices, "indptr": indptr, "shape": np.array(shape)}
    arrays = {f"x_{name}": np.asarray(value) for name, value in arrays.items()}
    return lambda folder: np.savez(folder / "before.npz", edge_index=np.zeros((2, 0), dtype=np.int64), **arrays)


def arrays(name, **others):
    """A good .npz with other arrays."""
    return lambda folder: np.savez_compressed(folder / name, **dict(np.load(folder / name)) | others)


def repeated_member(folder):
    """A zip whose directory names one member 60,000 times."""
    npz(x=npy((10**7,), "|b1", bytes(10**7)))(folder)
    data, count = (folder / "before.npz").read_bytes(), 60_000
    start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    directory = data[start : data.index(b"PK\1\2", start + 1)] * count
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    (folder / "before.npz").write_bytes(data[:start] + directory + last)
    assert end > start


def zip_header(place, value, name="before.npz"):
    """A number in the last entry of a zip's directory, another one; `place` counts from the entry's beginning."""

    def write(folder):
        data = bytearray((folder / name).read_bytes())
        struct.pack_into("<H", data, data.rindex(b"PK\1\2") + place, value)
        (folder / name).write_bytes(bytes(data))

    return write


def saved(**values):
    """A dict that torch.save writes."""
    good = {"x": torch.eye(3), "edge_index": torch.zeros(2, 0, dtype=torch.long)}
    return lambda folder: torch.save(
        good | {key: value(folder) if callable(value) else value for key, value in values.items()}, folder / "dict.pt"
    )


def pickled(make, way=zipfile.ZIP_STORED, name="data.pkl"):
    """A .pt with another pickle."""

    def write(folder):
        with zipfile.ZipFile(folder / "dict.pt", "w", way) as archive:
            archive.writestr(f"dict/{name}", make(folder))
            archive.writestr("dict/version", b"3\n")
            archive.writestr("dict/data/0", bytes(400))

    return write


def strided(size, stride, offset=0, numel=100):
    """Numbers of a storage of a hundred, read as somebody says: repeated, or from beyond its end."""

    def numbers(*values):
        return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values) + b"t"

    storage = (
        b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpu\x8a\x08" + struct.pack("<q", numel) + b"tQ"
    )
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"\x8a\x08" + struct.pack("<q", offset)
    tensor += numbers(*size) + numbers(*stride) + b"\x89ccollections\nOrderedDict\n)RtR"
    return pickled(lambda folder: b"\x80\x02}X\1\0\0\0x" + tensor + b"s.")


def typed(change):
    """A HeteroData that was changed."""

    def write(folder):
        data = torch.load(folder / "typed.pt", weights_only=False)
        change(data)
        torch.save(data, folder / "typed.pt")

    return write


def described(**changes):
    """JSON of a model, others."""
    return changed("model/model.json", **changes)


def conv(name, **arguments):
    return described(**{"class": f"torch_geometric.nn.{name}", "arguments": arguments})


def weights(tensors, data=b""):
    """A .safetensors file that says what it likes about itself."""
    told = {key: {"dtype": "F32", "shape": shape, "data_offsets": ends} for key, (shape, ends) in tensors.items()}
    header = json.dumps(told).encode()
    return text("model/weights.safetensors", struct.pack("<Q", len(header)) + header + data)


def changed(name, **changes):
    """JSON with other values."""

    def write(folder):
        held = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(held | changes))

    return write


def table(name, **columns):
    return lambda folder: pq.write_table(
        pa.table({key: column() if callable(column) else column for key, column in columns.items()}), folder / name
    )


def repeated(value, count):
    """Many rows in few bytes."""
    return lambda: pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value]))


def noted(**notes):
    """A table with other metadata."""
    return lambda folder: pq.write_table(
        pa.table({"id": [1], "a": [1.0]}).replace_schema_metadata(notes), folder / "nodes.parquet"
    )


def twice(_):
    """The same column again, under the same name."""


def columns(name, **changes):
    """A table of a scan with other columns, and the digest of that in its manifest; None takes a column away."""

    def write(folder):
        held = pq.read_table(folder / name)
        for column, make in changes.items():
            place = held.schema.get_field_index(column)
            if make is twice:
                held = held.append_column(column, held.column(place))
            else:
                held = held.remove_column(place) if make is None else held.set_column(place, column, make(len(held)))
        pq.write_table(held, folder / name)
        bless(folder / Path(name).parts[0])

    return write


def bless(scan):
    """Write the digests of what is there into a scan's manifest, as an attacker would."""
    manifest = json.loads((scan / "manifest.json").read_text())
    for part in [*manifest["parts"], *manifest.get("blame", {}).get("parts", [])]:
        part["sha256"] = hashlib.sha256((scan / part["file"]).read_bytes()).hexdigest()
    for name in manifest["tables"]:
        manifest["tables"][name] = hashlib.sha256((scan / name).read_bytes()).hexdigest()
    (scan / "manifest.json").write_text(json.dumps(manifest))


def stored(name, change):
    """An array of a stored graph, another one."""

    def write(folder):
        np.save(folder / f"stored/{name}.npy", change(np.load(folder / f"stored/{name}.npy")))

    return write


def in_place(name, make):
    """Something that is no file where one should be."""

    def write(folder):
        (folder / name).unlink()
        make(folder / name)

    return write


def packed(*pieces):
    """Packed events, piece by piece."""
    return text("events.csv.gz", lambda: b"".join(gzip.compress(piece * 1, 1) * count for piece, count in pieces))


# ---- the files ------------------------------------------------------------------------------------------------------
HOSTILE = {
    "npz": {
        "a header of 10 TB": npz(x=npy((10**6, 10**6))),
        "zeros, packed": npz(x=lambda: npy((5000, 5000), "<f8", bytes(2 * 10**8))),
        "names of no letters": npz(node_names=npy((10**8, 10), "<U0")),
        "code": lambda folder: np.savez(folder / "before.npz", x=np.array([Bomb(folder)], dtype=object)),
        "a header of brackets": npz(x=b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"(" * 9000),
        "half a letter": npz(node_names=npy((1,), "<U1", b"\0\xd8\0\0")),
        "ends beyond all numbers": npz(edge_index=npy((2, 1), "<u8", b"\xff" * 16)),
        "columns without end": csr([0], [0, 1], (1, 2**62)),
        "one member, 60,000 times": repeated_member,
        "members packed otherwise": zip_header(10, 99),
        "a pipe": in_place("before.npz", os.mkfifo),
        "a device": in_place("before.npz", lambda path: path.symlink_to("/dev/zero")),
    },
    "npz sparse": {
        "a shape in rows": arrays("sparse.npz", x_shape=np.array([[30, 4]])),
    },
    "npz edges": {
        "numbers beyond int64": arrays("edges.npz", n_id=np.arange(30, dtype=np.uint64) + 2**63),
        "types below 0": arrays("edges.npz", edge_type=np.full(80, -1)),
    },
    "npz pairs": {"pairs beyond": arrays("pairs.npz", edge_label_index=np.array([[10**9], [0]]))},
    "npz batch": {"a graph of 10^9": arrays("batch.npz", batch=np.r_[np.zeros(29, int), 10**9])},
    "pt dict": {
        "code": saved(y=Bomb),
        "code, called at once": pickled(
            lambda folder: b"(S'%s'\nios\nmkdir\n." % str(folder / "canary").encode()
        ),
        "one number, a billion times": saved(x=torch.zeros(1, 1, dtype=torch.int8).expand(10**5, 10**4)),
        "more numbers than can be counted": strided((2**61, 2**61), (0, 0)),
        "a storage of other size": strided((1000,), (1,), numel=1000),
        "tuples within tuples, in capitals": pickled(
            lambda folder: b"\x80\x02})" + b"\x85" * 200_000 + b"K\1s.", name="DATA.PKL"),
        "a list of itself": pickled(lambda folder: b"\x80\x02}X\x0a\0\0\0node_names]q\1h\1as."),
        "a pickle, packed": pickled(lambda folder: b")" * 10**8 + b".", zipfile.ZIP_DEFLATED),
        "sparse numbers of nodes": saved(n_id=torch.eye(3).to_sparse()),
        "a count of nothing": pickled(lambda folder: b"\x80\x02ccollections\nCounter\nc__builtin__\nbytearray\n\x8a\5"
                                      + struct.pack("<q", 10**10)[:5] + b"\x85R\x85R."),
    },
    "pt typed": {
        "a relation of an unknown type": typed(lambda data: data["author", "x", "ghost"].update(
            {"edge_index": torch.zeros(2, 1, dtype=torch.long)})),
        "sparse edges": typed(lambda data: data["author", "writes", "paper"].update(
            {"edge_index": torch.eye(2, dtype=torch.long).to_sparse()})),
    },
    "typed csv": {
        "three thousand types": lambda folder: [
            (folder / "typed csv" / f"nodes.t{i}.csv").write_text("id,a\n1,1\n") for i in range(3000)],
    },
    "model": {
        "a network without end": conv("TAGConv", in_channels=4, out_channels=3, K=10**7),
        "arguments that multiply": conv("ARMAConv", in_channels=4, out_channels=3, num_stacks=1000, num_layers=1000),
        "code": described(**{"class": "os.system", "arguments": {}}),
        "weights that overlap": weights({"a": ([2], [0, 8]), "b": ([2], [4, 12])}, bytes(12)),
        "weights of 1 TB": text("model/weights.safetensors", struct.pack("<Q", 10**12)),
    },
    "csv": {
        "a million columns": text("nodes.csv", lambda: "id," + ",".join(map(str, range(10**6))) + "\n"),
        "bytes": text("nodes.csv", b"id,a\n1,\0\xff\xfe\n"),
    },
    "parquet": {
        "one row, 10^8 times": table("nodes.parquet", id=repeated(1, 10**8), a=repeated(1.0, 10**8)),
        "lists as names": table("nodes.parquet", id=[["a"]], a=[1.0]),
        "code as a type": lambda folder: pq.write_table(pa.table([pa.array([1]), pa.array(["x"])], schema=pa.schema([
            pa.field("id", pa.int64(), metadata={"ARROW:extension:name": "arrow.py_extension_type",
                     "ARROW:extension:metadata": pickle.dumps(Bomb(folder))}), pa.field("a", pa.string())])),
            folder / "nodes.parquet"),
        "metadata without end": noted(pandas=OPEN),
        "a footer of 2 GB": lambda folder: (folder / "nodes.parquet").write_bytes(
            (folder / "nodes.parquet").read_bytes()[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1"),
    },
    "npy": {"an array of nothing": text("x.npy", npy((10**9,), "<U0"))},
    "stored": {
        "more nodes": changed("stored/graph.json", num_nodes=10**12),
        "rows beyond all numbers": stored("indptr", lambda a: a * 2**56),
        "a pipe": in_place("stored/senders.npy", os.mkfifo),
    },
    "events csv.gz": {
        "one line without end": packed((b"source;target;time\n", 1), (b"a" * 10**7, 60)),
    },
    "events parquet": {"lists as ends": table("events.parquet", source=[[1]], target=[[2]], time=[3], amount=[1.0])},
    "links": {"bytes": text("pairs.csv", b"\xff\xfe,\0")},
    "snapshots": {
        "files elsewhere": changed("snapshots/snapshots.json", files=["../after.npz"]),
        "moments of words": changed("snapshots/snapshots.json", bounds=[["a", "b"]]),
    },
    "watch": {
        "steps of another kind": changed("watch/watch.json", steps=[3]),
    },
    "enough": {"a field that commands the terminal": changed("enough.json", **{"\x1b[2J": 1})},
    "explanation link": {"three ends": changed("explanation link.json", target=[1, 2, 3])},
    "scan": {
        "counts below 0": changed("scan/manifest.json", num_explained=-1),
        "a class beyond the logits": columns("scan/parts/part-000000.parquet", class_after=lambda n: pa.array(
            [2**62] * n)),
        "truth values for lists": columns("scan/parts/part-000000.parquet", logits_before=lambda n: pa.array(
            [True] * n)),
        "a column twice": columns("scan/parts/part-000000.parquet", paths=twice),
        "a long text, often": columns("scan/parts/part-000000.parquet", kinds=lambda n: pa.array(
            [["a" * 10**5] * 10**4] + [[]] * (n - 1))),
    },
    "scan blame": {
        "no shares": columns("scan blame/sampled.parquet", share=None),
        "changes beyond": columns("scan blame/blame/facts-000000.parquet", change=lambda n: pa.array(
            [2**63 - 1] * n, pa.int64())),
    },
}  # fmt: skip


def flip(folder, name, number):
    """A good file with a few bits, or its end, changed."""
    rng = random.Random(f"{SEED} {name} {number}")
    path = folder / rng.choice(FORMATS[name].files)
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data[: rng.randrange(len(data))] if number == 0 else data))


# ---- opening them ---------------------------------------------------------------------------------------------------
def attempt(folder, name, write):
    """How it ends to open one: fine, refused with a sentence, or otherwise."""
    from axiompath.errors import InputError

    item = FORMATS[name]
    write(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended, said = "fine", ""
    try:
        item.read(folder)
    except InputError as error:
        ended, said = "refused", str(error)
    except BaseException as error:  # this is what is looked for
        return "raised", f"{type(error).__name__}: {error}"
    if item.command and name in HOSTILE and write in HOSTILE[name].values():  # not of flips, which are many
        code, words = run_command(item.command, folder)
        if code not in (0, 2):
            return f"exit {code}", words
        ended, said = ("refused", said or words.partition("Error: ")[2]) if code == 2 else (ended, said)
    if (folder / "canary").exists():
        return "code", said
    rise = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return ("memory", f"{rise / 1e6:.0f} MB") if rise > MAX_RISE else (ended, said)


def cases():
    """Every file made by hand, then flips of every format."""
    made = [(name, word, write) for name, files in HOSTILE.items() for word, write in files.items()]
    return made + [(name, f"flip {i}", lambda folder, name=name, i=i: flip(folder, name, i))
                   for name in FORMATS for i in range(NUM_FLIPS)]  # fmt: skip


def main(seeds):
    """Open all of them; what ends the process, or does not end, has no line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    make_seeds(seeds)
    for item in FORMATS.values():  # what is loaded once, is; and good files are fine
        item.read(seeds)
    for name, word, write in cases():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            folder = Path(place) / "case"
            folder.mkdir()
            for top in {Path(part).parts[0] for part in (*FORMATS[name].files, *FORMATS[name].command)}:
                if (seeds / top).exists():
                    (shutil.copytree if (seeds / top).is_dir() else shutil.copy)(seeds / top, folder / top)
            signal.alarm(MAX_SECONDS)
            with contextlib.redirect_stderr(io.StringIO()):
                ended, said = attempt(folder, name, write)
            signal.alarm(0)
        print(json.dumps([f"{name}: {word}", ended, said]), file=answers, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

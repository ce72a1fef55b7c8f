""".pt -> a dict of tensors, numbers and text, or the stores of a HeteroData, by torch.load(weights_only=True).

torch's restricted unpickler calls only what rebuilds tensors and the classes it is given. What it does not limit is
checked here: names, sizes and nesting before it runs, tensors afterwards. It reads a copy of the archive, so that it
sees the very bytes that were checked.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.batch import DynamicInheritanceGetter
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.feature_store import TensorAttr
from torch_geometric.data.graph_store import EdgeAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from ..errors import InputError
from ..storage.safe import ZIP_ERRORS, Damaged, blamed, bound_growth, check_file, check_size

MAX_INSTRUCTIONS = 4 * 10**6  # of one pickle, some seconds' worth; a name takes two
MAX_TUPLES = 20_000  # a tuple in a tuple in a tuple, often enough, overflows the stack when it is hashed
PICKLE_PROTOCOL = 2  # of pickles, the default of torch.save

STORAGE_KINDS = "Double Float Half BFloat16 Long Int Short Char Byte Bool ComplexFloat ComplexDouble"
REBUILD = "tensor tensor_v2 tensor_v3 parameter sparse_tensor"
LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def _batched(cls: Any, base: Any) -> Any:
    """An empty graph of the kind that a Batch holds; `batch` is among its attributes."""
    if base not in (Data, HeteroData):
        raise Damaged("a batch of something else")
    return base.__new__(base)


class _BatchGetter:
    """In place of PyG's DynamicInheritanceGetter, whose instances are called: torch calls only what it is given."""

    def __new__(cls) -> Callable[[Any, Any], Any]:  # type: ignore[misc]
        return _batched


def _plain_dict(*_: Any) -> dict[Any, Any]:
    """In place of the defaultdict in which a Batch keeps where it was cut: torch fills only plain dicts."""
    return {}


for own, stands_for in ((_BatchGetter, DynamicInheritanceGetter), (_plain_dict, defaultdict)):
    own.__module__, own.__qualname__ = stands_for.__module__, stands_for.__qualname__
SAFE_CLASSES = (
    Data, HeteroData, Batch, _BatchGetter, DataEdgeAttr, DataTensorAttr, EdgeAttr, TensorAttr, BaseStorage, NodeStorage,
    EdgeStorage, GlobalStorage, _plain_dict, dict,
)  # fmt: skip
SAFE_NAMES = {
    "__builtin__.dict", "collections.OrderedDict", "torch.Size", "torch.device", "torch.serialization._get_layout",
    "torch.storage.UntypedStorage", "torch.uint16", "torch.uint32", "torch.uint64",
    *(f"torch.{name}Storage" for name in STORAGE_KINDS.split()),
    *(f"torch._utils._rebuild_{name}" for name in REBUILD.split()),
    *(f"{kind.__module__}.{kind.__qualname__}" for kind in SAFE_CLASSES),
}  # fmt: skip


class Stores(NamedTuple):
    """The fields of a HeteroData by type of node and by relation."""

    nodes: dict[Any, dict[Any, Any]]
    edges: dict[Any, dict[Any, Any]]


def read_tensors(path: Path, max_bytes: float) -> dict[str, Any] | Stores:
    """The dict, the fields of the Data, or the stores of the HeteroData in a file."""
    check_file(path, max_bytes)
    sentence = f"Expected a whole .pt file at {path} (it is cut short, damaged or of another kind)."
    with blamed(sentence, *ZIP_ERRORS):
        copy = _copied(path)
    checked: Any = torch.sparse.check_sparse_tensor_invariants
    # Whatever torch makes of instructions in another order: no code of ours runs in there.
    with blamed(sentence, Exception), _only_these([*SAFE_CLASSES, _batched]), checked():
        loaded = torch.load(copy, map_location="cpu", weights_only=True)
    del copy
    limit = bound_growth(path, max_bytes)
    if type(loaded) is HeteroData:
        nodes, edges = (_stores(loaded, f"_{end}_store_dict", path) for end in ("node", "edge"))
        for store in (*nodes.values(), *edges.values()):
            limit = _check_tensors(store, path, limit)
        return Stores(nodes, edges)
    found = _fields(vars(loaded).get("_store")) if type(loaded) is Data else loaded
    if type(found) is not dict or not all(type(key) is str for key in found):
        raise InputError(f"Expected a torch_geometric Data or a dict of tensors in {path} (got another kind).")
    _check_tensors(found, path, limit)
    return found


@contextmanager
def _only_these(allowed: list[Any]) -> Iterator[None]:
    """Let torch make what is allowed here, and not what others allowed: of two of one name it would take either."""
    held = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals(allowed)
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(held)


def _copied(path: Path) -> io.BytesIO:
    """The archive, each member once, its checksums and its pickle checked; torch.save never packs its members."""
    copy = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as clean:
        members = {info.filename: info for info in archive.infolist()}
        if sum(info.file_size for info in members.values()) > path.stat().st_size:
            raise Damaged("packed, or members within each other")
        for name, info in members.items():
            content = archive.read(info)
            if name.lower().endswith(".pkl"):  # torch looks for data.pkl in capitals, too
                _check_pickle(content, path)
            clean.writestr(name, content)
    copy.seek(0)
    return copy


def _check_pickle(pickle: bytes, path: Path) -> None:
    """Refuse names other than those above, and more instructions or tuples than a graph needs."""
    num_tuples = 0
    for step, (opcode, argument, _) in enumerate(pickletools.genops(pickle)):
        num_tuples += "TUPLE" in opcode.name
        if step == MAX_INSTRUCTIONS or num_tuples > MAX_TUPLES:
            raise InputError(
                f"Expected at most {MAX_INSTRUCTIONS:,} values and {MAX_TUPLES:,} tuples in {path} (got more)."
            )
        if opcode.name == "PROTO" and argument != PICKLE_PROTOCOL:
            raise InputError(
                f"Expected pickle protocol {PICKLE_PROTOCOL} in {path} (got {argument}); save it with that one."
            )
        if opcode.name in ("GLOBAL", "INST") and (name := str(argument).replace(" ", ".", 1)) not in SAFE_NAMES:
            raise InputError(
                f"Expected a torch_geometric Data or a dict of tensors in {path} (it holds other Python objects: "
                f"{name[:60]}); only tensors, numbers and text are loaded: save the graph with axiompath.save_graph."
            )


def _fields(store: Any) -> Any:
    return vars(store).get("_mapping") if isinstance(store, BaseStorage) else None


def _stores(loaded: HeteroData, name: str, path: Path) -> dict[Any, dict[Any, Any]]:
    stores = vars(loaded).get(name)
    found = {key: _fields(store) for key, store in stores.items()} if type(stores) is dict else None
    if found is None or not all(type(fields) is dict for fields in found.values()):
        raise InputError(f"Expected a HeteroData with stores of nodes and edges in {path} (got another kind).")
    return found


def _check_tensors(fields: dict[Any, Any], path: Path, limit: float) -> float:
    """Tensors as plain, contiguous ones, within the limit; returns what is left of it."""
    size, tensors = 0.0, {key: value for key, value in fields.items() if isinstance(value, torch.Tensor)}
    for key, tensor in tensors.items():
        if tensor.layout in LAYOUTS and tensor.dim() == 2 and tensor.dense_dim() == 0:
            size += 16.0 * (max(tensor.shape) + 1) + 48.0 * tensor._nnz()  # as CSR, converted and in float64
        elif tensor.layout is torch.strided:
            # As it is and as float64: one number, repeated, is as large as any other. A row without columns counts.
            size += tensor.numel() * (tensor.dtype.itemsize + 9.0) + 16.0 * (len(tensor) if tensor.dim() else 0)
        else:
            raise InputError(f"Expected tensors of numbers, or sparse matrices, in {path} (`{key}` is another kind).")
        check_size(path, size, limit)
    for key, tensor in tensors.items():
        plain = tensor.detach()
        if plain.layout is torch.strided:
            plain = plain.resolve_conj().resolve_neg().contiguous()
            plain = plain.view(torch.uint8) != 0 if plain.dtype == torch.bool else plain  # 7 would be neither
        fields[key] = plain
    return limit - size

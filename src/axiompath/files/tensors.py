""".pt -> plain values: dicts, lists, text, numbers and tensors. Nothing that the file names is ever looked up.

torch.save writes a zip of raw numbers and one pickle that says how to put them together. A pickle is a program; this
module carries out the few instructions that such files need, on a stack of plain values. Names in it stay text, so that
nothing can be called but what is below, and every tensor is checked against the bytes it is made of before it is made.
"""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch

from ..errors import InputError
from ..trust import Damaged, blamed, bound_growth, check_file, check_size

MAX_INSTRUCTIONS = 4 * 10**6  # of one pickle, some seconds' worth; a name takes two

STORAGES = {
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
    "Bool": torch.bool, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128,
}  # fmt: skip
DTYPES = {str(dtype): dtype for dtype in (*STORAGES.values(), torch.uint16, torch.uint32, torch.uint64)}
PYG_CLASSES = {
    "torch_geometric.data.batch.Batch",
    "torch_geometric.data.batch.DynamicInheritanceGetter",  # makes a Batch of the kind of graph that it holds
    "torch_geometric.data.data.Data",
    "torch_geometric.data.data.DataEdgeAttr",
    "torch_geometric.data.data.DataTensorAttr",
    "torch_geometric.data.storage.GlobalStorage",
    "torch_geometric.data.hetero_data.HeteroData",
    "torch_geometric.data.storage.BaseStorage",
    "torch_geometric.data.storage.NodeStorage",
    "torch_geometric.data.storage.EdgeStorage",
}
LAYOUTS = {"torch.sparse_coo": 3, "torch.sparse_csr": 4, "torch.sparse_csc": 4}  # and of how many parts they are made
# Instructions that take so many values from the stack; all others that take any take those since the last mark.
TAKEN = {
    "EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2, "STACK_GLOBAL": 2, "NEWOBJ": 2,
    "REDUCE": 2, "BUILD": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Name:
    """What a file calls a class, a function or a type of numbers."""

    text: str


@dataclass(eq=False)
class Thing:
    """An object of torch_geometric: its attributes."""

    state: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Storage:
    """Raw numbers; `dtype` is None where the tensor says it."""

    data: bytearray
    dtype: torch.dtype | None


def read_tensors(path: Path, max_bytes: float) -> dict[str, Any]:
    """The dict, or the attributes of the torch_geometric Data, that a file holds."""
    check_file(path, max_bytes)
    sentence = f"Expected a whole .pt file at {path} (it is cut short, damaged or of another kind)."
    with blamed(sentence), zipfile.ZipFile(path) as archive:
        loaded = _Machine(path, archive, bound_growth(path, max_bytes)).run()
    if isinstance(loaded, Thing) and "_node_store_dict" in loaded.state:
        with blamed(sentence):
            return _stores(loaded)
    if isinstance(loaded, Thing):
        store = loaded.state.get("_store")
        loaded = store.state.get("_mapping") if isinstance(store, Thing) else None
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise InputError(f"Expected a torch_geometric Data or a dict of tensors in {path} (got another kind).")
    return loaded


def _stores(loaded: Thing) -> dict[str, Any]:
    """The stores of a HeteroData: `nodes` by type and `edges` by relation, each a dict of its fields."""
    found = {}
    for name, own in (("nodes", "_node_store_dict"), ("edges", "_edge_store_dict")):
        found[name] = {key: store.state["_mapping"] for key, store in loaded.state[own].items()}
        if not all(isinstance(fields, dict) for fields in found[name].values()):
            raise Damaged("a store that is none")
    return found


class _Machine:
    """The instructions of one pickle, one after the other."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, room: float) -> None:
        self.path, self.archive, self.room, self.limit = path, archive, room, room
        (pickle,) = (name for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1)
        self.root = pickle.removesuffix("data.pkl")
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, bytearray] = {}

    def run(self) -> Any:
        """What is left on the stack at the end."""
        if self.root + "byteorder" in self.archive.namelist() and self.read("byteorder") != b"little":
            raise InputError(f"Expected numbers with their least byte first in {self.path} (got another order).")
        for step, (opcode, argument, _) in enumerate(pickletools.genops(self.read("data.pkl"))):
            if step == MAX_INSTRUCTIONS:
                raise InputError(f"Expected a graph of at most {MAX_INSTRUCTIONS:,} values in {self.path} (got more).")
            if opcode.name == "STOP":
                return self.stack.pop()
            self.follow(opcode.name, argument)
        raise Damaged("no end")

    def follow(self, name: str, argument: Any) -> None:
        """One instruction."""
        stack = self.stack
        match name:
            case "BINUNICODE" | "SHORT_BINUNICODE" | "BINUNICODE8":
                stack.append(argument)
            case "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                self.memo[len(self.memo) if argument is None else argument] = stack[-1]
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                stack.append(argument)
            case "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3" | "EMPTY_TUPLE":
                stack.append(tuple(self.take(name)))
            case "MARK":
                self.marks.append(len(stack))
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
            case "EMPTY_LIST" | "EMPTY_DICT":
                stack.append([] if name == "EMPTY_LIST" else {})
            case "APPEND" | "APPENDS":
                found = self.take(name)
                self.top(list).extend(found)
            case "SETITEM" | "SETITEMS":
                found = self.take(name)
                # Other keys would have to be hashed, and a tuple within a tuple, often enough, ends the process.
                if not all(type(key) in (str, int, float, bool, type(None)) or _is_relation(key) for key in found[::2]):
                    raise Damaged("a key that is none")
                self.top(dict).update(zip(found[::2], found[1::2], strict=True))
            case "GLOBAL" | "STACK_GLOBAL":
                words = self.take(name) if argument is None else argument.split(" ", 1)
                stack.append(Name(".".join(words)))
            case "NEWOBJ" | "REDUCE":
                function, arguments = self.take(name)
                if type(arguments) is not tuple or type(function) not in (Name, Thing):
                    raise Damaged("a call of something else")
                if isinstance(function, Thing):
                    stack.append(Thing())  # a Batch; what it is made of comes with its attributes
                else:
                    stack.append(self.make(function.text) if name == "NEWOBJ" else self.call(function.text, arguments))
            case "BUILD":
                (state,) = self.take(name)
                if isinstance(stack[-1], Thing) and type(state) is dict:
                    stack[-1].state.update(state)
                else:
                    self.top(dict)  # attributes of an OrderedDict, which nobody asks for
            case "BINPERSID":
                stack.append(self.storage(*stack.pop()))
            case "PROTO" | "FRAME":
                pass
            case _:
                self.refuse(name)

    def take(self, name: str) -> list[Any]:
        """What an instruction takes from the stack: so many values, or all since the last mark."""
        start = len(self.stack) - TAKEN[name] if name in TAKEN else self.marks.pop()
        if start < 0:
            raise Damaged("too few values")
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise Damaged("another kind of value")
        return self.stack[-1]

    def make(self, name: str) -> Thing:
        if name not in PYG_CLASSES:
            self.refuse(name)
        return Thing()

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        build = FUNCTIONS.get(name)
        if build is None:
            self.refuse(name)
        return build(self, *arguments)

    def storage(self, kind: Any, name: Any, key: Any, *_: Any) -> Storage:
        """Raw numbers, which may be those of several tensors."""
        if kind != "storage" or type(name) is not Name or type(key) is not str:
            raise Damaged("a reference to something else")
        dtype = STORAGES.get(name.text.removeprefix("torch.").removesuffix("Storage"))
        if dtype is None and name.text != "torch.storage.UntypedStorage":
            self.refuse(name.text)
        if key not in self.storages:
            self.storages[key] = bytearray(self.read(f"data/{key}"))
        return Storage(self.storages[key], dtype)

    def read(self, name: str) -> bytes:
        """A member of the archive. torch.save never packs, so that nothing is larger than it looks."""
        info = self.archive.getinfo(self.root + name)
        if info.compress_type != zipfile.ZIP_STORED:
            raise Damaged("packed")
        self.spend(info.file_size)
        return self.archive.read(info)

    def spend(self, size: float) -> None:
        """Count memory, before it is taken."""
        self.room -= size
        check_size(self.path, self.limit - self.room, self.limit)

    def refuse(self, what: str) -> NoReturn:
        """Something that is neither a tensor nor a plain value."""
        raise InputError(
            f"Expected a torch_geometric Data or a dict of tensors in {self.path} (it holds other Python objects: "
            f"{what[:60]}); only tensors, numbers and text are ever loaded: save the graph with axiompath.save_graph."
        )


def _is_relation(key: Any) -> bool:
    """Whether a key is the three words of a relation, which a HeteroData has for its edges."""
    return type(key) is tuple and len(key) == 3 and all(type(word) is str for word in key)


def _build_tensor(
    machine: _Machine, storage: Storage, offset: Any, size: Any, stride: Any, grad: Any = None, hooks: Any = None,
    metadata: Any = None,
) -> torch.Tensor:  # fmt: skip
    return _build_typed(machine, storage, offset, size, stride, grad, hooks, Name(str(storage.dtype)), metadata)


def _build_typed(
    machine: _Machine, storage: Storage, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, dtype_name: Name,
    metadata: Any = None,
) -> torch.Tensor:  # fmt: skip
    """A copy of some numbers of a storage, all of which must be within it."""
    dtype = DTYPES[dtype_name.text]
    if not all(type(n) is int and 0 <= n < 2**62 for n in (offset, *size, *stride)) or len(size) > 8 or metadata:
        raise Damaged("sizes that are none, or numbers to be negated")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    count = math.prod(size)
    if count == 0:
        machine.spend(16 * size[0])  # a row counts, also one without columns
        return torch.zeros(size, dtype=dtype)
    if (last + 1) * dtype.itemsize > len(storage.data):
        raise Damaged("numbers beyond the storage")
    # As float64, and as it is: a tensor of one number, repeated, is as large as any other.
    machine.spend(count * (dtype.itemsize + 9))
    flat = torch.frombuffer(
        storage.data,
        dtype=torch.uint8 if dtype == torch.bool else dtype,
        count=last + 1 - offset,
        offset=offset * dtype.itemsize,
    )
    flat = flat != 0 if dtype == torch.bool else flat  # a truth value of 7 would be neither
    return flat.as_strided(size, stride).clone(memory_format=torch.contiguous_format)


def _build_sparse(machine: _Machine, layout: Any, parts: Any) -> torch.Tensor:
    """A sparse matrix, its indices checked before anything else looks at them."""
    if type(layout) is not str or layout not in LAYOUTS:
        machine.refuse(f"a tensor of the layout {layout}")
    *indices, values, size = parts[: LAYOUTS[layout]]
    if len(size) != 2 or not all(type(n) is int and 0 <= n < 2**62 for n in size) or values.dim() != 1:
        raise Damaged("no matrix")
    if not all(part.dtype in (torch.int64, torch.int32) for part in indices):
        raise InputError(f"Expected whole numbers as indices of a sparse tensor in {machine.path} (got others).")
    machine.spend(16 * (max(size) + 1) + 48 * len(values))  # as CSR, converted and in float64
    build: Callable[..., torch.Tensor] = getattr(torch, f"{layout.removeprefix('torch.')}_tensor")
    return build(*indices, values, tuple(size), check_invariants=True)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _build_tensor,
    "torch._utils._rebuild_tensor_v2": _build_tensor,
    "torch._utils._rebuild_tensor_v3": _build_typed,
    "torch._utils._rebuild_parameter": lambda machine, data, *_: data,
    "torch._utils._rebuild_sparse_tensor": _build_sparse,
    "torch.serialization._get_layout": lambda machine, layout: layout,
    "torch.Size": lambda machine, size: size,
    "torch.device": lambda machine, *_: None,
    "collections.OrderedDict": lambda machine: {},
    "collections.defaultdict": lambda machine, *_: {},  # where a Batch was cut, which `batch` says, too
}

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

MAX_INSTRUCTIONS = 10**7  # instructions of one pickle; a name takes two

STORAGES = {
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
    "Bool": torch.bool, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128,
}  # fmt: skip
DTYPES = {str(dtype): dtype for dtype in (*STORAGES.values(), torch.uint16, torch.uint32, torch.uint64)}
PYG_CLASSES = {
    "torch_geometric.data.data.Data",
    "torch_geometric.data.data.DataEdgeAttr",
    "torch_geometric.data.data.DataTensorAttr",
    "torch_geometric.data.storage.GlobalStorage",
}
LAYOUTS = ("torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc")


@dataclass(frozen=True)
class Name:
    """What a file calls a class, a function or a type of numbers."""

    text: str


@dataclass(eq=False)
class Thing:
    """An object of torch_geometric: its class's name and its attributes."""

    kind: str
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
    if isinstance(loaded, Thing):
        store = loaded.state.get("_store")
        loaded = store.state.get("_mapping") if isinstance(store, Thing) else None
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise InputError(f"Expected a torch_geometric Data or a dict of tensors in {path} (got another kind).")
    return loaded


class _Machine:
    """The instructions of one pickle, one after the other."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, room: float) -> None:
        self.path, self.archive, self.room, self.limit = path, archive, room, room
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickles) != 1:
            raise Damaged("no pickle, or several")
        self.root = pickles[0].removesuffix("data.pkl")
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
            act = ACTIONS.get(opcode.name)
            if act is None:
                self.refuse(opcode.name)
            act(self, argument)
        raise Damaged("no end")

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
        if self.room < 0:
            check_size(self.path, self.limit - self.room, self.limit)

    def refuse(self, what: str) -> NoReturn:
        """Something that is neither a tensor nor a plain value."""
        raise InputError(
            f"Expected a torch_geometric Data or a dict of tensors in {self.path} (it holds other Python objects: "
            f"{what[:60]}); only tensors, numbers and text are ever loaded: save the graph with axiompath.save_graph."
        )

    def since_mark(self) -> list[Any]:
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def put(self, place: Any) -> None:
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def gather(self, count: int | None) -> None:
        if count is None:
            found = self.since_mark()
        else:
            found = self.stack[len(self.stack) - count :] if count else []
            if len(found) < count:
                raise Damaged("too few values")
            del self.stack[len(self.stack) - count :]
        self.push(tuple(found))

    def extend(self, many: bool) -> None:
        found = self.since_mark() if many else [self.stack.pop()]
        self.top(list).extend(found)

    def update(self, many: bool) -> None:
        found = self.since_mark() if many else [self.stack.pop() for _ in range(2)][::-1]
        target = self.top(dict)
        for key, value in zip(found[::2], found[1::2], strict=True):
            # Other keys would have to be hashed, and a tuple within a tuple, often enough, is the end of the process.
            if type(key) not in (str, int, float, bool, type(None)):
                raise Damaged("a key that is none")
            target[key] = value

    def top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise Damaged("another kind of value")
        return self.stack[-1]

    def name(self, text: Any) -> None:
        if text is None:
            name, module = self.stack.pop(), self.stack.pop()
        else:
            module, _, name = text.partition(" ")
        if type(module) is not str or type(name) is not str:
            raise Damaged("a name that is none")
        self.push(Name(f"{module}.{name}"))

    def make(self, _: Any) -> None:
        arguments, kind = self.stack.pop(), self.stack.pop()
        if not isinstance(kind, Name) or kind.text not in PYG_CLASSES or type(arguments) is not tuple or arguments:
            self.refuse(kind.text if isinstance(kind, Name) else "an object without a class")
        self.push(Thing(kind.text))

    def fill(self, _: Any) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Thing) and type(state) is dict:
            self.stack[-1].state.update(state)
        elif not isinstance(self.stack[-1], dict):  # attributes of an OrderedDict, which nobody asks for
            raise Damaged("a state of something else")

    def call(self, _: Any) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple or not isinstance(function, Name):
            raise Damaged("a call of something else")
        build = FUNCTIONS.get(function.text)
        if build is None:
            self.refuse(function.text)
        self.push(build(self, *arguments))

    def storage(self, _: Any) -> None:
        kind, name, key, _, count = self.stack.pop()
        if kind != "storage" or not isinstance(name, Name) or type(key) is not str or type(count) is not int:
            raise Damaged("a reference to something else")
        if key not in self.storages:
            self.storages[key] = bytearray(self.read(f"data/{key}"))
        dtype = STORAGES.get(name.text.removeprefix("torch.").removesuffix("Storage"))
        if dtype is None and name.text != "torch.storage.UntypedStorage":
            self.refuse(name.text)
        self.push(Storage(self.storages[key], dtype))


def _build_tensor(
    machine: _Machine, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = None, hooks: Any = None,
    metadata: Any = None,
) -> torch.Tensor:  # fmt: skip
    return _view(machine, storage, storage.dtype, offset, size, stride, metadata)


def _build_typed(
    machine: _Machine, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
    metadata: Any = None,
) -> torch.Tensor:  # fmt: skip
    return _view(machine, storage, DTYPES[dtype.text], offset, size, stride, metadata)


def _view(
    machine: _Machine, storage: Storage, dtype: torch.dtype | None, offset: Any, size: Any, stride: Any, metadata: Any
) -> torch.Tensor:
    """A copy of some numbers of a storage, all of which must be within it."""
    numbers = (offset, *size, *stride)
    if not all(type(n) is int and 0 <= n < 2**62 for n in numbers) or len(size) != len(stride) or len(size) > 8:
        raise Damaged("sizes that are none")
    if dtype is None or metadata:
        raise Damaged("a tensor of another kind")
    count = math.prod(size)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if count == 0:
        return torch.zeros(size, dtype=dtype)
    if (last + 1) * dtype.itemsize > len(storage.data):
        raise Damaged("numbers beyond the storage")
    # As float64, and as it is: a tensor of one number, repeated, is as large as any other.
    machine.spend(count * (dtype.itemsize + 9))
    start, length = offset * dtype.itemsize, last + 1 - offset
    flat = torch.frombuffer(
        storage.data, dtype=torch.uint8 if dtype == torch.bool else dtype, count=length, offset=start
    )
    flat = flat != 0 if dtype == torch.bool else flat  # a truth value of 7 would be neither
    return flat.as_strided(size, stride).clone(memory_format=torch.contiguous_format)


def _build_sparse(machine: _Machine, layout: Any, parts: Any) -> torch.Tensor:
    """A sparse matrix, its indices checked before anything else looks at them."""
    if type(layout) is not str or layout not in LAYOUTS:
        machine.refuse(f"a tensor of the layout {layout}")
    *indices, values, size = parts[:3] if layout == "torch.sparse_coo" else parts[:4]
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
}


def _pushing(make: Callable[[Any], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, argument: machine.push(make(argument))


ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, argument: None),
    "MARK": lambda machine, argument: machine.marks.append(len(machine.stack)),
    "NONE": _pushing(lambda argument: None),
    "NEWTRUE": _pushing(lambda argument: True),
    "NEWFALSE": _pushing(lambda argument: False),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), _Machine.push),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _Machine.push),
    "EMPTY_TUPLE": lambda machine, argument: machine.gather(0),
    "TUPLE1": lambda machine, argument: machine.gather(1),
    "TUPLE2": lambda machine, argument: machine.gather(2),
    "TUPLE3": lambda machine, argument: machine.gather(3),
    "TUPLE": lambda machine, argument: machine.gather(None),
    "EMPTY_LIST": _pushing(lambda argument: []),
    "APPEND": lambda machine, argument: machine.extend(False),
    "APPENDS": lambda machine, argument: machine.extend(True),
    "EMPTY_DICT": _pushing(lambda argument: {}),
    "SETITEM": lambda machine, argument: machine.update(False),
    "SETITEMS": lambda machine, argument: machine.update(True),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, place: machine.push(machine.memo[place])),
    **dict.fromkeys(("GLOBAL", "STACK_GLOBAL"), _Machine.name),
    "NEWOBJ": _Machine.make,
    "BUILD": _Machine.fill,
    "REDUCE": _Machine.call,
    "BINPERSID": _Machine.storage,
}

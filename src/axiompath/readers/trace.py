"""One run of a model on one graph -> Trace: every tensor operation it made, below modules, autograd and TorchScript.

A dispatch mode sees each operation after all Python has run. Tensors are identified by what they share: storage,
offset, shape, strides, and how often the storage was written to, so that writes through views are followed. What leaves
torch (`.tolist()`, `.numpy()`) is seen by a function mode beside it.
"""

from __future__ import annotations

import copy
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..arrays import IntArray
from .calls import own_reader
from .opened import OPENED
from .refusals import UnreadableModel

PARAMETER, STRUCTURE, FEATURE = 0, 1, 2  # what a value depends on: each includes those before it
SHAPES_ONLY = {
    f"{name}{kind}" for name in ("empty", "zeros", "ones", "full", "rand", "randn") for kind in ("_like",)
} | {"new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "empty_strided"}
UNDEFINED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
MADE_HERE = {"lift_fresh", "lift_fresh_copy", "lift"}  # `torch.tensor(...)` in the forward pass
PRODUCTS = {"mm": 0, "_sparse_mm": 0, "addmm": 1, "_sparse_addmm": 1}  # where the first of two matrices stands
LEAVING = {"tolist", "numpy", "__array__", "data_ptr", "storage", "untyped_storage", "__dlpack__"}
ALIASES = {"detach", "alias", "lift_fresh", "view", "expand", "slice", "_unsafe_view"}
MOVING = {
    "select", "unbind", "view", "reshape", "_unsafe_view", "expand", "unsqueeze", "squeeze", "slice", "index_select",
    "index", "cat", "stack", "flip", "t", "permute", "transpose", "clone", "detach", "alias", "_to_copy", "sort", "add",
    "sub", "repeat", "masked_select", "split", "split_with_sizes", "as_strided",
}  # fmt: skip
# Code that is nobody's model: installed packages, torch among them, and our own.
GENERATED = re.compile(r"_(propagate|edge_updater)_\w*\.py$")  # what PyG writes for a MessagePassing layer
INSTALLED = os.path.dirname(os.path.dirname(torch.__file__)) + os.sep
HERE = os.path.abspath(__file__)
OWN = os.path.dirname(os.path.dirname(HERE)) + os.sep


class Whole:
    """A module that a reader of the user's own describes, called as one operation."""

    tags = ()

    def __init__(self, module: nn.Module, name: str) -> None:
        self.module, self.place = module, f"{name or 'forward'} ({type(module).__name__})"
        self._schema = SimpleNamespace(name="axiompath::registered", arguments=(), is_mutable=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, in the precision of what is given."""
        own = next((one.dtype for one in self.module.parameters() if one.is_floating_point()), None)
        given = [one.dtype for one in args if isinstance(one, torch.Tensor) and one.is_floating_point()]
        same = own is None or not given or own == given[0]
        return (self.module if same else copy.deepcopy(self.module).to(given[0]))(*args, **kwargs)


class Number(int):
    """The number of a value of a trace, where it stands in an operation's arguments."""


@dataclass(eq=False)
class Operation:
    """One operation that made one value."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: int  # which of its outputs the value is
    place: str  # file and line of the user's model

    @cached_property
    def name(self) -> str:
        """As in `aten.<name>`, without a trailing underscore."""
        return str(self.function._schema.name.split("::")[1]).rstrip("_")

    @cached_property
    def numbers(self) -> list[Number]:
        """The values that it takes."""
        return list(numbers_in((self.args, tuple(self.kwargs.values()))))

    @property
    def needed(self) -> list[Number]:
        """Those of them whose numbers matter, not their shape alone."""
        return [] if self.name in SHAPES_ONLY else self.numbers


HELD_BYTES = 1 << 27  # of values that operations make: further ones are made again when they are asked for


@dataclass(eq=False)
class Values:
    """Every value of one run: what was given, and what operations make of it, made again when it is asked for."""

    trace: Trace
    like: list[torch.Tensor] = field(default_factory=list)  # of the same shape; of what was given, the value itself
    held: dict[int, torch.Tensor] = field(default_factory=dict)  # of what is made, the latest
    size: int = 0  # of these, in bytes

    def __getitem__(self, number: int) -> torch.Tensor:
        """The value itself."""
        if self.trace.operations[number] is None:
            return self.like[number]
        if number not in self.held:
            self._make(number)
        return self.held[number]

    def shaped(self, number: int) -> torch.Tensor:
        """Something of the shape and type of a value, which is not made for it."""
        like = self.like[number]
        if not like.is_meta:
            return self[number]
        wider = self.trace.widened and like.is_floating_point()
        return torch.zeros((), dtype=torch.float64 if wider else like.dtype).expand(like.shape)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.like)

    def add(self, value: torch.Tensor, *, made: bool) -> None:
        """A value as it is now; what an operation made is held as long as there is room."""
        strided = value.layout == torch.strided
        if made and strided:
            self.like.append(torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta"))
            if self.size + _bytes_of(value) <= HELD_BYTES:
                self._hold(len(self.like) - 1, _as_it_is(value))
        else:
            self.like.append(value.clone() if strided else value)

    def _make(self, wanted: int) -> None:
        """Make a value of those that are there, each of those between no longer held than it is needed."""
        operations, missing, waiting = self.trace.operations, set[int](), [wanted]
        while waiting:
            operation = operations[number := waiting.pop()]
            if operation is not None and number not in missing and number not in self.held:
                missing.add(number)
                waiting += operation.needed
        uses = Counter(one for number in missing for one in getattr(operations[number], "needed", ()))
        known = {number: self.held[number] for number in uses if number in self.held}
        for number in sorted(missing):
            operation = operations[number]
            assert operation is not None
            given = dict(enumerate(known[one] if one in known else self.like[one] for one in operation.needed))
            found = run_again(self.trace, operation, given)
            wider = self.trace.widened and found.is_floating_point()
            known[number] = found.to(torch.float64) if wider else found
            for one in operation.needed:
                uses[one] -= 1
                if not uses[one]:
                    known.pop(one, None)
            self._hold(number, known[number])

    def _hold(self, number: int, value: torch.Tensor) -> None:
        self.held[number] = value
        self.size += _bytes_of(value)
        while self.size > HELD_BYTES and len(self.held) > 1:
            oldest = next(one for one in self.held if one != self.trace.output or one == number)
            self.size -= _bytes_of(self.held.pop(oldest))


def _as_it_is(value: torch.Tensor) -> torch.Tensor:
    """A copy; of what is spread over a dimension only one slice."""
    spread = tuple(
        slice(0, 1) if size > 1 and not stride else slice(None)
        for size, stride in zip(value.shape, value.stride(), strict=True)
    )
    return value[spread].clone().expand(value.shape)


def _bytes_of(value: torch.Tensor) -> int:
    return value.numel() * value.element_size() if value.layout == torch.strided else 0


@dataclass(eq=False)
class Trace:
    """Every value of one run, in order, and the operation that made each; None for what was given."""

    operations: list[Operation | None] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    fields: dict[int, str] = field(default_factory=dict)  # the inputs among them
    learnt: set[int] = field(default_factory=set)  # rows of parameters that stand for nodes
    rows: dict[int, IntArray] = field(default_factory=dict)  # of inputs that are of some nodes only: which ones
    num_nodes: int = 0
    # Of graphs with several node types: the rows of each, where a type's features stand, which nodes an index names.
    types: list[IntArray] = field(default_factory=list)
    columns: dict[int, slice] = field(default_factory=dict)
    ends: dict[int, torch.Tensor] = field(default_factory=dict)
    whose: dict[int, tuple[int, int]] = field(default_factory=dict)  # types of the nodes in each row of an index
    answered: frozenset[int] = frozenset()  # types of the nodes that the output is of
    batch: IntArray | None = None
    strangers: set[int] = field(default_factory=set)  # tensors of unknown origin
    output: Number = field(default_factory=lambda: Number(0))
    widened: bool = False  # whether values are made in float64, where the model's own numbers are shorter

    def __post_init__(self) -> None:
        """No values yet."""
        self.values = Values(self)

    def shape(self, number: int) -> torch.Size:
        """Of a value, which is not made for it."""
        return self.values.like[number].shape

    def add(self, value: torch.Tensor, operation: Operation | None, kind: int) -> Number:
        """A value as it is now: later writes do not change it."""
        self.values.add(value.detach(), made=operation is not None)
        self.operations.append(operation)
        self.kinds.append(kind)
        return Number(len(self.values) - 1)

    def ancestors(self, start: int) -> Iterator[int]:
        """All values that one depends on, itself included."""
        waiting, seen = [start], set()
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            yield number
            operation = self.operations[number]
            if operation is not None:
                waiting += operation.numbers

    def fields_of(self, start: int) -> set[str]:
        """The fields of the graph that a value depends on."""
        return {self.fields[number] for number in self.ancestors(start) if number in self.fields}

    def rows_of(self, start: int) -> IntArray | None:
        """The nodes that an index numbers, where it numbers those of one step only: the latest that it was made of."""
        found = [self.rows[number] for number in self.ancestors(start) if number in self.rows]
        return max(found, key=lambda rows: int(rows.max(initial=-1)), default=None)


def _names_nodes(trace: Trace, number: int) -> bool:
    """Whether an index is made of ends of edges or pairs by nothing but choosing."""
    operation = trace.operations[number]
    if operation is None:
        return trace.fields.get(number) in ("edge_index", "edge_label_index")
    return operation.name in MOVING and any(_names_nodes(trace, one) for one in operation.numbers)


def nodes_named(trace: Trace, number: int) -> torch.Tensor | None:
    """The row of the whole graph that each element of an index means, of graphs with several node types; -1 if none."""
    operation = trace.operations[number]
    if number in trace.ends or operation is None:
        return trace.ends.get(number)
    if operation.name not in MOVING:
        return None
    inputs = operation.numbers
    named = {place: one for place, part in enumerate(inputs) if (one := nodes_named(trace, part)) is not None}
    if not named:
        return None
    if operation.name in ("add", "sub"):
        (found,) = list(named.values())[:1]
        return found.expand(trace.shape(number))
    if operation.name == "sort":
        order = trace.values[inputs[0]].sort(dim=operation.args[1] if len(operation.args) > 1 else -1).indices
        return named[0].gather(operation.args[1] if len(operation.args) > 1 else -1, order)
    if operation.name in ("cat", "stack"):
        unknown = {place: torch.full(trace.shape(one), -1) for place, one in enumerate(inputs)}
        named = unknown | named
    return run_again(trace, operation, named)


def rows_numbered(trace: Trace, number: int, size: int) -> IntArray | None:
    """Which nodes `size` rows are that an index numbers: those of a type, or of several one after the other."""
    named = nodes_named(trace, number) if trace.types else None
    if named is None:
        return None
    rows, owner = np.full(size, -1), np.empty(trace.num_nodes, dtype=np.int64)
    for kind, own in enumerate(trace.types):
        owner[own] = kind
    index, nodes = trace.values[number].reshape(-1).numpy(), named.reshape(-1).numpy()
    index, nodes = index[nodes >= 0], nodes[nodes >= 0]
    left = list(range(len(trace.types)))
    for kind in np.unique(owner[nodes]).tolist():
        own = trace.types[kind]
        first = np.unique(index[owner[nodes] == kind] - np.searchsorted(own, nodes[owner[nodes] == kind]))
        if len(first) != 1 or first[0] < 0 or first[0] + len(own) > size:
            return None
        rows[first[0] : first[0] + len(own)] = own
        left.remove(kind)
    ends = [kind for one in trace.ancestors(number) for kind in trace.whose.get(one, ())[::-1]]
    for kind in [*dict.fromkeys(ends), *left]:
        place, own = int(np.argmin(rows)) if len(rows) else 0, trace.types[kind]
        if kind in left and len(own) <= size - place and (rows[place : place + len(own)] < 0).all():
            rows[place : place + len(own)] = own
            left.remove(kind)
    return None if (rows < 0).any() else rows


def numbers_in(given: Any) -> Iterator[Number]:
    """The values within nested arguments."""
    if isinstance(given, Number):
        yield given
    elif isinstance(given, (list, tuple)):
        for part in given:
            yield from numbers_in(part)


def replace_in(given: Any, function: Callable[[Any], Any]) -> Any:
    """Nested arguments with a function applied to each single one."""
    if isinstance(given, (list, tuple)):
        return type(given)(replace_in(part, function) for part in given)
    return function(given)


def refuse(place: str, reason: str) -> UnreadableModel:
    """A refusal that names the line of the user's model."""
    return UnreadableModel(f"{place}: {reason}")


def _key(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.layout != torch.strided:
        return (id(tensor),)
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def _covers(tensor: torch.Tensor) -> bool:
    """Whether a tensor is the whole of its storage."""
    whole = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    return whole and tensor.storage_offset() == 0 and tensor.is_contiguous()


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down every operation while it is active."""

    def __init__(self, model: nn.Module, inputs: dict[str, torch.Tensor], features: Iterable[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace = Trace()
        self.num_nodes = len(inputs["x"]) if "x" in inputs else -1
        self.known: dict[tuple[Any, ...], tuple[Number, int]] = {}
        self.wholes: dict[Any, tuple[Number, int]] = {}  # of each storage: the value that is all of it
        self.writes: dict[Any, int] = {}
        self.alive: list[Any] = []  # so that no two storages have one number
        for tensor in (*model.parameters(), *model.buffers()):
            self.bind(tensor, self.trace.add(tensor, None, PARAMETER))
        for name, tensor in inputs.items():
            number = self.trace.add(tensor, None, FEATURE if name in features else STRUCTURE)
            self.trace.fields[number] = name
            self.bind(tensor, number)

    def bind(self, tensor: torch.Tensor, number: Number) -> None:
        """From now on this tensor stands for this value."""
        key = _key(tensor)
        version = self.writes.get(key[0], 0)
        self.known[key] = number, version
        strided = tensor.layout == torch.strided
        held = StorageWeakRef(tensor.untyped_storage()) if strided else tensor  # type: ignore[no-untyped-call]
        self.alive.append(held)
        if tensor.layout == torch.strided and _covers(tensor):
            self.wholes[key[0]] = number, version

    def find(self, tensor: torch.Tensor) -> Number:
        """The value that a tensor stands for."""
        key = _key(tensor)
        version = self.writes.get(key[0], 0)
        found = self.known.get(key)
        if found is not None and found[1] == version:
            return found[0]
        whole = self.wholes.get(key[0])
        if whole is not None and whole[1] == version and tensor.layout == torch.strided:
            # A view taken before its storage was written to: a view of what the storage holds now.
            sizes = list(tensor.shape), list(tensor.stride()), tensor.storage_offset()
            operation = Operation(torch.ops.aten.as_strided.default, (whole[0], *sizes), {}, 0, user_line())
            number = self.trace.add(tensor, operation, self.trace.kinds[whole[0]])
        elif found is not None or whole is not None:
            raise refuse(user_line(), "a tensor is read after a part of it was overwritten, which cannot be followed.")
        else:
            number = self.trace.add(tensor, None, PARAMETER)
            if tensor.numel() > 1:
                self.trace.strangers.add(number)
        self.bind(tensor, number)
        return number

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run and write down one operation."""
        with torch._C.DisableTorchFunction():
            return self._record(function, tuple(args), kwargs or {})

    def _record(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = function._schema.name.split("::")[1]
        if name in MADE_HERE:
            for tensor in args[:1]:
                if _key(tensor) not in self.known:
                    self.bind(tensor, self.trace.add(tensor, None, PARAMETER))
        find = lambda part: self.find(part) if isinstance(part, torch.Tensor) else part  # noqa: E731
        seen = replace_in(args, find)
        seen_kwargs = {key: replace_in(value, find) for key, value in kwargs.items()}
        numbers = list(numbers_in((seen, tuple(seen_kwargs.values()))))
        self._learn(name, seen)
        kind = max((self.trace.kinds[number] for number in numbers), default=PARAMETER)
        kind = PARAMETER if name in SHAPES_ONLY else kind
        if kind == FEATURE and name in OPENED:
            with self:
                opened = OPENED[name](*args, **kwargs)
            if opened is not NotImplemented:
                return opened
        if name.endswith("_like") and name in SHAPES_ONLY:
            kwargs = {**kwargs, "memory_format": torch.contiguous_format}  # so that writes into a part can be followed
        result = function(*args, **kwargs)
        if name in UNDEFINED and result.layout == torch.strided:
            result.zero_()  # so that what is never written to is the same in every run
        place = user_line()
        if not isinstance(result, (torch.Tensor, tuple, list)):
            if kind == FEATURE:
                raise refuse(
                    place,
                    "Python looks at the value of features here, so another graph may take another way through the "
                    "model; decide by tensors (`torch.where`), or outside of the model.",
                )
            return result
        schema = function._schema.arguments
        written = [a for a, s in zip(args, schema, strict=False) if s.alias_info is not None and s.alias_info.is_write]
        if written:
            self._write(written[0], Operation(function, seen, seen_kwargs, 0, place), kind)
            return result
        for output, tensor in enumerate(result if isinstance(result, (tuple, list)) else (result,)):
            if not isinstance(tensor, torch.Tensor):
                continue
            key = _key(tensor)
            again = self.known.get(key)
            if again is not None and again[1] == self.writes.get(key[0], 0) and name in ALIASES:
                continue  # the very same tensor
            self.bind(tensor, self.trace.add(tensor, Operation(function, seen, seen_kwargs, output, place), kind))
        return result

    def _learn(self, name: str, args: tuple[Any, ...]) -> None:
        """Rows of a parameter that edges lead from: a row learnt for each node, which is what the node holds."""
        trace, size = self.trace, self.num_nodes
        if name in PRODUCTS:
            matrix, table = args[PRODUCTS[name] : PRODUCTS[name] + 2]
            named = trace.kinds[matrix] == STRUCTURE and tuple(trace.shape(matrix)) == (size, size)
        elif name in ("index_select", "index", "embedding"):
            table, indices = args[0], list(numbers_in(args[1:]))
            named = len(indices) == 1 and _names_nodes(trace, indices[0])
        else:
            return
        shape = trace.shape(table)
        if named and trace.kinds[table] == PARAMETER and len(shape) == 2 and shape[0] == size:
            trace.kinds[table] = FEATURE
            trace.learnt.add(table)

    def watch_whole(self, whole: Whole) -> None:
        """From now on, record a module as one operation."""
        forward = whole.module.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
                result = forward(*args, **kwargs)
                if not isinstance(result, torch.Tensor):
                    made = type(result).__name__
                    raise refuse(whole.place, f"a module with a reader returns one tensor (this one returned {made}).")
                find = lambda part: self.find(part) if isinstance(part, torch.Tensor) else part  # noqa: E731
                seen, named = replace_in(args, find), {key: replace_in(part, find) for key, part in kwargs.items()}
                operation = Operation(whole, seen, named, 0, whole.place)
                kind = max((self.trace.kinds[number] for number in operation.numbers), default=PARAMETER)
                self.bind(result, self.trace.add(result, operation, kind))
                return result

        whole.module.forward = run

    def _write(self, target: torch.Tensor, operation: Operation, kind: int) -> None:
        """A value was overwritten: of a view, the whole storage has a new value too."""
        key = _key(target)
        version, whole = self.writes.get(key[0], 0), self.wholes.get(key[0])
        whole_target = target.layout != torch.strided or whole is None or _covers(target)
        if whole is None and target.layout == torch.strided and not _covers(target):
            raise refuse(operation.place, "writes into a part of a tensor whose whole is not known.")
        number = self.trace.add(target, operation, kind)
        self.writes[key[0]] = version + 1
        self.bind(target, number)
        if whole_target:
            return
        assert whole is not None
        if whole[1] != version:
            raise refuse(operation.place, "writes into a tensor through two views, which cannot be followed.")
        sizes = list(target.shape), list(target.stride()), target.storage_offset()
        put = Operation(torch.ops.aten.as_strided_scatter.default, (whole[0], number, *sizes), {}, 0, operation.place)
        like = self.trace.values.like[whole[0]]
        flat = torch.as_strided(target, like.shape, like.stride(), 0)
        self.bind(flat, self.trace.add(flat, put, max(kind, self.trace.kinds[whole[0]])))


class Watchdog(TorchFunctionMode):
    """Sees what leaves torch without an operation."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse features that do."""
        name = getattr(function, "__name__", "")
        if name in LEAVING and args and isinstance(args[0], torch.Tensor):
            with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
                kind = self.recorder.trace.kinds[self.recorder.find(args[0])]
            if kind == FEATURE:
                raise refuse(
                    user_line(),
                    f"features leave torch here by .{name}(), and what is done to them there cannot be followed; "
                    "write it in torch.",
                )
        return function(*args, **(kwargs or {}))


def user_line() -> str:
    """File and line of the innermost code of the model that is no library's; else of torch_geometric."""
    frame: Any = sys._getframe(1)
    library = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(OWN) and name != HERE:
            break  # whoever called the model is no part of it
        if f"{os.sep}torch_geometric{os.sep}" in name and not GENERATED.search(name):
            layer = f"{os.sep}conv{os.sep}" in name and not name.endswith("message_passing.py")
            library = f"{os.path.basename(name)}:{frame.f_lineno}" if layer or not library else library
        elif not name.startswith((INSTALLED, OWN, "<")) and not GENERATED.search(name):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return library or "the model"


def record(model: nn.Module, run: Callable[[], Any], inputs: dict[str, torch.Tensor], features: Iterable[str]) -> Trace:
    """Run once; values are made again in float64 where the model's own numbers are shorter."""
    recorder = Recorder(model, inputs, features)
    wholes = [Whole(module, name) for name, module in model.named_modules() if own_reader(module)]
    for whole in wholes:
        recorder.watch_whole(whole)
    fast, mkldnn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)  # `mkldnn.flags` would set TF32, too, of which some releases of torch warn
    try:
        with (
            torch.no_grad(),
            torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
            Watchdog(recorder),
            recorder,
        ):
            result = run()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch._C._set_mkldnn_enabled(mkldnn)
        for whole in wholes:
            del whole.module.forward
    if not isinstance(result, torch.Tensor):
        raise UnreadableModel(
            f"forward: expected the model to return one tensor of logits (got {type(result).__name__})."
        )
    trace = recorder.trace
    trace.output = recorder.find(result)
    _refuse_unknown(trace)
    if result.dtype != torch.float64:
        _widen(trace)
    return trace


def _refuse_unknown(trace: Trace) -> None:
    """The output must depend on nothing random, and on no tensor of unknown origin."""
    for number in trace.ancestors(trace.output):
        operation = trace.operations[number]
        if operation is None:
            continue
        idle = operation.name == "native_dropout" and operation.args[2] is False
        if torch.Tag.nondeterministic_seeded in operation.function.tags and not idle:
            raise refuse(
                operation.place,
                f"draws random numbers (aten.{operation.name}), so that no two answers are alike; set the model to "
                "eval mode, or draw them outside of it.",
            )
        for stranger in trace.strangers.intersection(operation.numbers):
            shape = tuple(trace.shape(stranger))
            raise refuse(
                operation.place,
                f"uses a tensor of shape {shape} that is neither a parameter, nor a buffer, nor a field of the data, "
                "nor made in this call; register it as a buffer, or give it as a field of the data.",
            )


def _widen(trace: Trace) -> None:
    """The same operations in float64: their sizes are this graph's, so they still fit."""

    def double(given: Any) -> Any:
        return torch.float64 if isinstance(given, torch.dtype) and given.is_floating_point else given

    trace.widened = True
    trace.values.held.clear()
    trace.values.size = 0
    for number, operation in enumerate(trace.operations):
        value = trace.values.like[number]
        if operation is not None:
            operation.args = replace_in(operation.args, double)
            operation.kwargs = {key: replace_in(part, double) for key, part in operation.kwargs.items()}
        elif value.is_floating_point():
            trace.values.like[number] = value.to(torch.float64)


def run_again(trace: Trace, operation: Operation, instead: dict[int, torch.Tensor]) -> torch.Tensor:
    """One operation again, with other tensors in some of its places."""
    place = -1

    def give(part: Any) -> Any:
        nonlocal place
        if not isinstance(part, Number):
            return part
        place += 1
        known = trace.values.shaped if operation.name in SHAPES_ONLY else trace.values.__getitem__
        tensor = instead[place] if place in instead else known(part)
        return tensor.clone() if place == 0 and operation.function._schema.is_mutable else tensor

    args = replace_in(operation.args, give)
    kwargs = {key: replace_in(part, give) for key, part in operation.kwargs.items()}
    with torch.no_grad():
        result = operation.function(*args, **kwargs)
    found = result[operation.output] if isinstance(result, (tuple, list)) else result
    assert isinstance(found, torch.Tensor)
    return found.zero_() if operation.name in UNDEFINED and found.layout == torch.strided else found

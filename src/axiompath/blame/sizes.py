"""A run of the user's model -> whether the model computes or decides with the size of a graph.

What is read from a model holds such a number as a constant, which is wrong on a graph of another size. Sizes that only
shape a tensor, as in `h.view(h.size(0), -1)`, do no harm; nor does what torch and PyG do with the sizes they are given.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Data

LIBRARIES = {"torch", "torch_geometric", "torch_scatter", "torch_sparse", "torch_cluster", "pyg_lib", "axiompath"}
WRAPPERS = {"torch._tensor", "torch.overrides"}  # Python code of torch between a call and the watch
GENERATED = ("_propagate", "_edge_updater")  # modules that PyG writes for a convolution, named after its own
QUERIES = {"size", "shape", "numel", "nelement", "nbytes", "stride"}
PLAIN = {"__hash__", "__int__"}  # of which Python wants a plain number
UNCOUNTED = {"__len__", "__iter__", "unbind"}  # Python takes a plain number from these, or as many rows as there are
FILLED = {
    f"{start}{name}{end}"
    for name in ("zeros", "ones", "full", "empty")
    for start, end in (("", ""), ("", "_like"), ("new_", ""))
}
SHAPED = FILLED | {
    "view", "reshape", "expand", "broadcast_to", "unflatten", "narrow", "split", "__getitem__", "__setitem__",
}  # fmt: skip


class SizeWatch(TorchFunctionMode):
    """Notices whether anyone but torch and PyG computes or decides with a number of nodes or edges.

    Every size that a tensor reports is a `Count`, which notices arithmetic and comparisons. Python's `range` and
    `math.log`, a list's index and a float that stands before it take one unnoticed. So every use that the model's code
    makes of a size it has asked for must be seen, as that by torch or a library: one that is not may be anything.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.noticed = False
        self.expected: dict[
            int, tuple[Count, int]
        ] = {}  # sizes asked for, and uses not seen yet; kept, so that ids last
        self.counts: set[int] = set()  # of nodes and edges in the graph that is run
        self.constants = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
        self.filled: dict[int, torch.Tensor] = {}  # tensors that hold nothing but their size; kept, so that ids last

    @property
    def used(self) -> bool:
        """Whether a size was used so, or in a way that was not seen."""
        return self.noticed or bool(self.expected)

    def on(self, data: Data) -> SizeWatch:
        """The same watch, for a run on this graph."""
        assert data.x is not None
        assert data.edge_index is not None
        self.counts = {data.x.shape[0], data.edge_index.shape[1]}
        self.filled.clear()
        return self

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch in place of every torch function."""
        operation = getattr(func.__self__, "__name__", "") if func.__name__ == "__get__" else func.__name__
        result = func(*args, **(kwargs or {}))
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") in WRAPPERS:
            frame = frame.f_back
        if operation in QUERIES:
            found = self._counted(result, operation, args)
            if not _is_library(frame):
                self._expect(found, frame)
            return found
        if operation in UNCOUNTED:
            self.notice(frame, id(args[0]) not in self.constants)
            return result
        given = list(_leaves((args, kwargs)))
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        sized = [one for one in given if isinstance(one, Count)]
        for size in sized:
            self.saw(size)
        if operation in FILLED:
            if isinstance(result, torch.Tensor) and (sized or tensors) and not _is_library(frame):
                self.filled[id(result)] = result
        elif tensors and all(id(one) in self.filled for one in tensors):
            self.notice(frame)
        else:
            self.notice(frame, bool(sized) and operation not in SHAPED)
            if tensors and operation.endswith("_"):  # writes into the first
                self.filled.pop(id(tensors[0]), None)
        return result

    def notice(self, frame: FrameType, harmful: bool = True) -> None:
        """Something harmful was done by the code of this frame."""
        if harmful and not _is_library(frame):
            self.noticed = True

    def saw(self, size: Count) -> None:
        """One of the uses of a size."""
        _, left = self.expected.get(id(size), (size, 0))
        if left > 1:
            self.expected[id(size)] = size, left - 1
        else:
            self.expected.pop(id(size), None)

    def _expect(self, found: Any, frame: FrameType) -> None:
        """That the code of this frame uses what it has just been given, where it goes on to use it."""
        sizes = found if isinstance(found, tuple) else (found,)
        for place, number in _uses(frame.f_code, frame.f_lasti, isinstance(found, tuple)).items():
            size = sizes[place]
            if isinstance(size, Count) and number:
                self.expected[id(size)] = size, number

    def count(self, number: int) -> Count:
        """A number that is noticed."""
        found = Count(number)
        found.watch = self
        return found

    def _counted(self, result: Any, operation: str, args: Any) -> Any:
        """Sizes of a tensor, with those as Counts that another graph may have otherwise."""
        tensor = args[0]
        if id(tensor) in self.constants:
            return result
        if isinstance(result, int):
            whole = operation != "size" or tensor.shape[0] == result or not tensor.is_floating_point()
            return self.count(result) if whole or result in self.counts else result
        varies = [
            place == 0 or operation == "stride" or not tensor.is_floating_point() or int(size) in self.counts
            for place, size in enumerate(result)
        ]
        parts = [self.count(size) if varying else size for size, varying in zip(result, varies, strict=True)]
        return type(result)(parts)


class Count(int):
    """The size of a tensor, which notifies its watch when it is used in arithmetic or a comparison."""

    watch: SizeWatch


def _noticing(name: str) -> Callable[..., Any]:
    operation = getattr(int, name)

    def method(self: Count, *others: Any) -> Any:
        self.watch.notice(sys._getframe(1))
        self.watch.saw(self)
        result = operation(self, *others)
        return self.watch.count(result) if type(result) is int and name not in PLAIN else result

    return method


for _name in (
    *(f"__{side}{name}__" for name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "divmod", "pow",
      "lshift", "rshift", "and", "or", "xor") for side in ("", "r")),
    *(f"__{name}__" for name in ("neg", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "bool", "float", "int",
      "hash", "round", "trunc", "floor", "ceil")),
    "bit_length",
):  # fmt: skip
    setattr(Count, _name, _noticing(_name))


@lru_cache
def _uses(code: CodeType, asked: int, several: bool) -> dict[int, int]:
    """Of a size that an instruction asked for, or of `several` by place: how often the code names it from then on.

    A shape that is neither unpacked nor indexed at once is left to torch, which takes it as a whole.
    """
    following = [one for one in dis.get_instructions(code) if one.offset > asked]

    def named(place: int) -> int:
        name = following[place].argval if following[place].opname == "STORE_FAST" else None
        return 1 if name is None else sum("LOAD_FAST" in one.opname and one.argval == name for one in following)

    first = following[0]
    if not several:
        return {0: named(0)}
    if first.opname == "UNPACK_SEQUENCE":
        return {place: named(place + 1) for place in range(first.argval)}
    if isinstance(first.argval, int) and following[1].opname == "BINARY_SUBSCR":
        return {first.argval: named(2)}
    return {}


def _is_library(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in LIBRARIES or name.endswith(GENERATED)


def _leaves(argument: Any) -> Iterable[Any]:
    """What an argument holds, however deep in tuples, lists, slices and dictionaries."""
    if isinstance(argument, dict):
        argument = tuple(argument.values())
    elif isinstance(argument, slice):
        argument = (argument.start, argument.stop, argument.step)
    if isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _leaves(part)
    else:
        yield argument

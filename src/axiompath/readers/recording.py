"""model + Data -> Recording: what the model does to its inputs, step by step.

A copy of the model is run once on real data while a torch-function mode watches every torch call. Calls that touch a
value derived from the inputs become steps; convolutions are steps of their own and are not looked into. Running
rather than symbolic tracing means that loops, `self.training`, optional arguments and shape arithmetic just work;
only decisions that depend on the *values* of features are refused, since another graph might decide otherwise.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from scipy import sparse
from torch import nn
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from ..snapshot import to_torch_csr


class UnreadableModel(ValueError):
    """The model has a part that the normal form cannot express, or that was read wrongly."""


@dataclass(frozen=True)
class Ref:
    """Stands for the value of step `index` in a step's arguments; the inputs have indices of their own."""

    index: int


X, EDGE_INDEX, EDGE_WEIGHT = Ref(0), Ref(1), Ref(2)
NUM_INPUTS = 3


@dataclass(frozen=True, eq=False)
class Step:
    """One call: of a convolution (`module` set) or of a torch function."""

    operation: str  # the function's name, or the module's type
    where: str  # dotted name of the module in which it happened
    module: nn.Module | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Ref


@dataclass(frozen=True, eq=False)
class Recording:
    """The steps of one run, the values they gave, and which of them is the model's output."""

    steps: tuple[Step, ...]
    values: dict[int, torch.Tensor]
    output: Ref
    dtype: torch.dtype


# Questions about a value's form, not its content.
SHAPE_QUERIES = {
    "__get__",
    "size",
    "dim",
    "ndimension",
    "numel",
    "__len__",
    "is_floating_point",
    "get_device",
}
DECISIONS = {
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__contains__",
    "item",
    "tolist",
    "numpy",
    "equal",
}


class Recorder(TorchFunctionMode):
    """Writes down each torch call that touches a watched value."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.values: dict[int, torch.Tensor] = {}
        self.refs: dict[int, Ref] = {}
        self.alive: list[torch.Tensor] = []  # watched by id(), so none may be freed while we watch
        self.places: list[str] = []
        self.paused = False

    def watch(self, value: torch.Tensor, ref: Ref) -> None:
        """Follow a tensor from here on as the value `ref`."""
        self.refs[id(value)] = ref
        self.alive.append(value)

    def replace_watched(self, argument: Any) -> Any:
        """The argument with every watched tensor in it replaced by its Ref."""
        if isinstance(argument, torch.Tensor):
            return self.refs.get(id(argument), argument)
        if isinstance(argument, (tuple, list)):
            return type(argument)(self.replace_watched(part) for part in argument)
        if isinstance(argument, dict):
            return {key: self.replace_watched(part) for key, part in argument.items()}
        return argument

    def record(self, call: Callable[..., Any], operation: str, module: nn.Module | None, args: Any, kwargs: Any) -> Any:
        """Make the call, unwatched inside, and write it down if it touches a watched value."""
        where = self.places[-1] if self.places else ""
        seen_args, seen_kwargs = self.replace_watched(tuple(args)), self.replace_watched(kwargs)
        touched = _contains_ref((seen_args, seen_kwargs))
        if touched and operation in DECISIONS:
            raise UnreadableModel(
                f"{place_of(where, operation)}: the forward pass looks at the values of its features "
                f"(`{operation}`) and may decide otherwise on another graph; "
                "make the decision outside the model, or from shapes and settings alone."
            )
        paused, self.paused = self.paused, True
        try:
            result = call(*args, **kwargs)
        finally:
            self.paused = paused
        if not touched or (operation in SHAPE_QUERIES and not isinstance(result, torch.Tensor)):
            return result
        output = Ref(NUM_INPUTS + len(self.steps))
        self.steps.append(Step(operation, where, module, seen_args, seen_kwargs, output))
        if isinstance(result, torch.Tensor):
            # A copy, because a later in-place function may overwrite the tensor.
            self.values[output.index] = result.detach().clone()
            self.watch(result, output)
        return result

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch in place of every torch function."""
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        return self.record(func, func.__name__, None, args, kwargs)


def copy_model(model: Any) -> nn.Module:
    """A copy on the CPU in eval mode; the user's model keeps its device, flags, hooks and gradients."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"Expected `model` to be a torch.nn.Module (got {type(model).__name__}).")
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    if isinstance(model, torch.jit.ScriptModule):
        raise UnreadableModel(
            "The model is a TorchScript module, whose steps cannot be watched; pass the original nn.Module."
        )
    lazy = [name for name, value in model.named_parameters() if nn.parameter.is_lazy(value)]
    if lazy:
        raise UnreadableModel(
            f"Parameter {lazy[0]} has no shape yet; run the model once on your data, then pass it here."
        )
    for name, value in model.named_parameters():
        if value.is_meta:
            raise UnreadableModel(f"Parameter {name} has no data (device meta); load the trained weights first.")
        if not torch.isfinite(value).all():
            raise UnreadableModel(f"Parameter {name} holds NaN or infinite values; the training run may have diverged.")
    duplicate: nn.Module = copy.deepcopy(model).cpu().eval()
    for module in duplicate.modules():
        # A cached normalisation belongs to the graph that the model saw first, not to these snapshots.
        for cache in ("_cached_edge_index", "_cached_adj_t", "_cached_x", "_cached_h"):
            if getattr(module, cache, None) is not None:
                setattr(module, cache, None)
        if getattr(module, "cached", False) is True:
            setattr(module, "cached", False)  # noqa: B010 (a plain attribute, which the type of a module hides)
    return duplicate


def record_model(duplicate: nn.Module, data: Data, leaves: tuple[type, ...]) -> Recording:
    """Run a copy of the model (as `copy_model` makes it) on one graph and write down its steps.

    Modules whose exact type is in `leaves`, and every MessagePassing module, become one step each.
    """
    recorder = Recorder()
    x, edge_index, arguments = _model_inputs(duplicate, data)
    recorder.watch(x, X)
    recorder.watch(edge_index, EDGE_INDEX)
    if arguments:
        recorder.watch(arguments["edge_weight"], EDGE_WEIGHT)

    def leave(*_: Any) -> None:
        recorder.places.pop()

    handles, wrapped = [], []
    for name, module in duplicate.named_modules():
        handles.append(module.register_forward_pre_hook(lambda *_, name=name: recorder.places.append(name)))
        handles.append(module.register_forward_hook(leave, always_call=True))
        if type(module) in leaves or isinstance(module, MessagePassing):
            module.forward = _as_leaf(module, recorder)
            wrapped.append(module)
    try:
        with torch.no_grad(), recorder:
            result = duplicate(x, edge_index, **arguments)
    except (UnreadableModel, MemoryError):
        raise
    except Exception as error:
        raise UnreadableModel(
            f"The model could not be run as model(x, edge_index{', edge_weight' if arguments else ''}) on this graph: "
            f"{type(error).__name__}: {error}"
        ) from error
    finally:
        for handle in handles:
            handle.remove()
        for module in wrapped:
            del module.forward
    if not isinstance(result, torch.Tensor):
        raise UnreadableModel(
            "Expected the model to return one tensor of logits [num_nodes, num_classes] "
            f"(got {type(result).__name__}); wrap it in a module that returns the logits alone."
        )
    output = recorder.refs.get(id(result))
    if output is None:
        raise UnreadableModel("The model's output could not be traced back to its node features.")
    return Recording(tuple(recorder.steps), recorder.values, output, x.dtype)


def run_model(duplicate: nn.Module, data: Data) -> torch.Tensor:
    """The output of a copy of the model (as `copy_model` makes it) on one graph."""
    x, edge_index, arguments = _model_inputs(duplicate, data)
    with torch.no_grad():
        result: torch.Tensor = duplicate(x, edge_index, **arguments)
    return result


def place_of(where: str, operation: str) -> str:
    """How error messages name a step."""
    return f"{where or 'forward'} ({operation})"


def _as_leaf(module: nn.Module, recorder: Recorder) -> Callable[..., Any]:
    forward = module.forward
    return lambda *args, **kwargs: recorder.record(forward, type(module).__name__, module, args, kwargs)


def _contains_ref(argument: Any) -> bool:
    if isinstance(argument, (tuple, list)):
        return any(_contains_ref(part) for part in argument)
    if isinstance(argument, dict):
        return any(_contains_ref(part) for part in argument.values())
    return isinstance(argument, Ref)


def _model_inputs(duplicate: nn.Module, data: Data) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """x, edge_index and, where the graph has weights and the model takes them, edge_weight; on the CPU."""
    parameter = next((p for p in duplicate.parameters() if p.is_floating_point()), None)
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    arguments: dict[str, torch.Tensor] = {}
    takes_weight = "edge_weight" in inspect.signature(duplicate.forward).parameters
    if data.get("edge_weight") is not None and takes_weight:
        arguments["edge_weight"] = torch.as_tensor(data.edge_weight).detach().cpu().to(dtype)
    edge_index = torch.as_tensor(data.edge_index).detach().cpu().long()
    return _features_for_model(data.x, dtype), edge_index, arguments


def _features_for_model(x: Any, dtype: torch.dtype) -> torch.Tensor:
    if sparse.issparse(x):
        return to_torch_csr(x, dtype)
    value = torch.as_tensor(x).detach().cpu()
    # Never the user's own tensor: an in-place function in the model would write into it.
    return value.to(dtype, copy=True)

"""model + Data -> Recording: what the model does to its inputs, step by step.

A copy of the model is run once on real data while a torch-function mode watches every torch call. Calls that touch a
value derived from the inputs become steps; convolutions are steps of their own and are not looked into. Running
rather than symbolic tracing means that loops, `self.training`, optional arguments and shape arithmetic just work;
only decisions that depend on the *values* of features are refused, since another graph might decide otherwise.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
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

    where: str | None = None  # dotted name of the module, where the fault lies in one


@dataclass(frozen=True)
class Ref:
    """Stands for the value numbered `index` in a step's arguments; the inputs have numbers of their own."""

    index: int


X, EDGE_INDEX, EDGE_WEIGHT = Ref(0), Ref(1), Ref(2)
NUM_INPUTS = 3


@dataclass(frozen=True, eq=False)
class Step:
    """One call: of a module that is read as a whole (`module` set) or of a torch function."""

    operation: str  # the function's name, or the module's type
    where: str  # dotted name of the module in which it happened
    module: nn.Module | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Ref, ...]  # none for a function that only writes into its argument

    @property
    def name(self) -> str:
        """How messages name the step."""
        return f"{self.where or 'forward'} ({self.operation})"


@dataclass(frozen=True, eq=False)
class Recording:
    """The steps of one run that its output depends on, and the values they gave."""

    steps: tuple[Step, ...]
    values: dict[int, torch.Tensor]
    output: Ref
    num_nodes: int
    dtype: torch.dtype


# Questions about a value's form, not its content.
SHAPE_QUERIES = {
    "size",
    "dim",
    "ndimension",
    "numel",
    "nelement",
    "stride",
    "is_contiguous",
    "element_size",
    "type",
    "__len__",
    "is_floating_point",
    "is_complex",
    "get_device",
}
# New tensors that take nothing but their shape from a value.
FILLED = {"new_zeros", "new_ones", "new_full", "new_tensor", "zeros_like", "ones_like", "full_like"}
SHAPED_LIKE = {"expand_as", "view_as", "reshape_as", "type_as", "to"}  # their second argument, by shape or dtype alone
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
    "allclose",
    "is_nonzero",
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
        self.num_refs = NUM_INPUTS
        self.edges = {EDGE_INDEX, EDGE_WEIGHT}  # and what was made of them alone

    def watch(self, value: torch.Tensor, ref: Ref) -> None:
        """Follow a tensor from here on as the value `ref`."""
        self.refs[id(value)] = ref
        self.alive.append(value)

    def replace_watched(self, argument: Any) -> Any:
        """The argument with every watched tensor in it replaced by its Ref."""
        if isinstance(argument, torch.Tensor):
            return self.refs.get(id(argument), argument)
        if isinstance(argument, (tuple, list)):
            parts = [self.replace_watched(part) for part in argument]
            return parts if isinstance(argument, list) else tuple(parts)
        if isinstance(argument, dict):
            return {key: self.replace_watched(part) for key, part in argument.items()}
        return argument

    def record(self, call: Callable[..., Any], operation: str, module: nn.Module | None, args: Any, kwargs: Any) -> Any:
        """Make the call, unwatched inside, and write it down if it touches a watched value."""
        where = self.places[-1] if self.places else ""
        seen_args, seen_kwargs = self.replace_watched(tuple(args)), self.replace_watched(kwargs)
        touched = refs_in((seen_args, seen_kwargs))
        if touched and operation in DECISIONS:
            raise self.refuse_decision(operation, where, touched)
        self.paused = True
        try:
            result = call(*args, **kwargs)
        finally:
            self.paused = False
        tensors = result if isinstance(result, (tuple, list)) else (result,)
        tensors = tuple(value for value in tensors if isinstance(value, torch.Tensor))
        filled = operation in FILLED or (operation in SHAPED_LIKE and not refs_in(seen_args[:1]))
        if not touched or filled or (operation in SHAPE_QUERIES and not tensors):
            return result
        outputs = tuple(Ref(self.num_refs + i) for i in range(len(tensors)))
        self.num_refs += len(outputs)
        if touched <= self.edges:
            self.edges.update(outputs)
        self.steps.append(Step(operation, where, module, seen_args, seen_kwargs, outputs))
        for value, output in zip(tensors, outputs, strict=True):
            # A copy, because a later in-place function may overwrite the tensor.
            self.values[output.index] = value.detach().clone()
            self.watch(value, output)
        return result

    def refuse_decision(self, operation: str, where: str, touched: set[Ref]) -> UnreadableModel:
        """Why a look at values ends the reading."""
        if touched <= self.edges:
            reason = (
                f"the forward pass looks at its edges (`{operation}`), to add, drop or weigh them itself or to decide "
                "something; change the edges in the data before, and decide from shapes and settings alone."
            )
        else:
            reason = (
                f"the forward pass looks at the values of its features (`{operation}`) and may decide otherwise on "
                "another graph; make the decision outside the model, or from shapes and settings alone."
            )
        error = UnreadableModel(f"{where or 'forward'} ({operation}): {reason}")
        error.where = where
        return error

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch in place of every torch function."""
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        operation = func.__name__
        if operation == "__get__":  # an attribute: its name says more
            operation = getattr(func.__self__, "__name__", operation)
            value = func(*args, **kwargs)
            if not isinstance(value, torch.Tensor):
                return value
        return self.record(func, operation, None, args, kwargs)


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
    parameter = next((p for p in duplicate.parameters() if p.is_floating_point()), None)
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    inputs = {X: _features_for_model(data.x, dtype)}
    inputs[EDGE_INDEX] = torch.as_tensor(data.edge_index).detach().cpu().long()
    parameters = inspect.signature(duplicate.forward).parameters
    takes_data = list(parameters)[:1] == ["data"]
    if data.get("edge_weight") is not None and (takes_data or "edge_weight" in parameters):
        inputs[EDGE_WEIGHT] = torch.as_tensor(data.edge_weight).detach().cpu().to(dtype)
    names = {X: "x", EDGE_INDEX: "edge_index", EDGE_WEIGHT: "edge_weight"}
    if takes_data:
        arguments: tuple[Any, ...] = (Data(**{names[ref]: value for ref, value in inputs.items()}),)
        keywords: dict[str, Any] = {}
    else:
        arguments = (inputs[X], inputs[EDGE_INDEX])
        keywords = {names[ref]: value for ref, value in inputs.items() if ref == EDGE_WEIGHT}
        _check_parameters(parameters, keywords)
    try:
        result, recorder = _run(duplicate, arguments, keywords, inputs, leaves, "")
    except (UnreadableModel, MemoryError):
        raise
    except Exception as error:
        called = "data" if takes_data else ", ".join(["x", "edge_index", *keywords])
        raise UnreadableModel(
            f"The model could not be run as model({called}) on this graph: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(result, torch.Tensor):
        raise UnreadableModel(
            "Expected the model to return one tensor of logits [num_nodes, num_classes] "
            f"(got {type(result).__name__}); wrap it in a module that returns the logits alone."
        )
    untraced = "The model's output could not be traced back to its node features."
    return _finish(recorder, result, inputs[X].shape[0], dtype, untraced)


def record_inner(inner: Any, width: int, dtype: torch.dtype, leaves: tuple[type, ...], name: str) -> Recording:
    """The steps of a network inside a convolution, of which X are the features; the values are of no meaning."""
    x = torch.linspace(-1, 1, 5 * width, dtype=torch.float64).reshape(5, width).to(dtype)
    result, recorder = _run(inner, (x,), {}, {X: x}, leaves, name)
    return _finish(recorder, result, len(x), dtype, f"{name}: its output could not be traced back to its input.")


def _run(
    call: Any,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    inputs: dict[Ref, torch.Tensor],
    leaves: tuple[type, ...],
    name: str,
) -> tuple[Any, Recorder]:
    """Call with every module in it watched."""
    recorder = Recorder()
    for ref, value in inputs.items():
        recorder.watch(value, ref)

    def leave(*_: Any) -> None:
        recorder.places.pop()

    handles, wrapped = [], []
    for where, module in call.named_modules(prefix=name) if isinstance(call, nn.Module) else ():
        handles.append(module.register_forward_pre_hook(lambda *_, where=where: recorder.places.append(where)))
        handles.append(module.register_forward_hook(leave, always_call=True))
        if type(module) in leaves or isinstance(module, MessagePassing):
            module.forward = _as_leaf(module, recorder)
            wrapped.append(module)
    try:
        with torch.no_grad(), recorder:
            return call(*arguments, **keywords), recorder
    finally:
        for handle in handles:
            handle.remove()
        for module in wrapped:
            del module.forward


def _finish(recorder: Recorder, result: Any, num_nodes: int, dtype: torch.dtype, untraced: str) -> Recording:
    """Leave out what the result does not depend on, such as numbers kept for a log."""
    output = recorder.refs.get(id(result))
    if output is None:
        raise UnreadableModel(untraced)
    needed, steps = {output}, []
    for step in reversed(recorder.steps):
        # A step without a value of its own wrote into another one.
        if not step.outputs or needed & set(step.outputs):
            steps.append(step)
            needed |= refs_in((step.args, step.kwargs))
    return Recording(tuple(reversed(steps)), recorder.values, output, num_nodes, dtype)


def refs_in(argument: Any) -> set[Ref]:
    """The watched values in an argument."""
    if isinstance(argument, Ref):
        return {argument}
    if isinstance(argument, dict):
        argument = tuple(argument.values())
    if isinstance(argument, (tuple, list)):
        return set().union(*(refs_in(part) for part in argument))
    return set()


def _check_parameters(parameters: Mapping[str, inspect.Parameter], keywords: dict[str, Any]) -> None:
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for name, parameter in list(parameters.items())[2:]:
        if parameter.kind in plain and parameter.default is inspect.Parameter.empty and name not in keywords:
            edges = name in ("edge_attr", "edge_features", "edge_feat")
            raise UnreadableModel(
                f"forward: the model asks for `{name}`, "
                + ("and messages that depend on edge features cannot be read; " if edges else "which is not known; ")
                + "only x, edge_index and edge_weight are passed, so give other arguments a default."
            )


def _as_leaf(module: nn.Module, recorder: Recorder) -> Callable[..., Any]:
    forward = module.forward

    def leaf(*args: Any, **kwargs: Any) -> Any:
        if recorder.paused:  # a part of a module that is itself read as a whole
            return forward(*args, **kwargs)
        return recorder.record(forward, type(module).__name__, module, args, kwargs)

    return leaf


def _features_for_model(x: Any, dtype: torch.dtype) -> torch.Tensor:
    if sparse.issparse(x):
        return to_torch_csr(x, dtype)
    value = torch.as_tensor(x).detach().cpu()
    # Never the user's own tensor: an in-place function in the model would write into it.
    return value.to(dtype, copy=True)

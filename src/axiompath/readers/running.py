"""model + Data -> Recording: a copy of the model, run once on one graph while a Recorder watches."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from scipy import sparse
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from ..snapshot import to_torch_csr
from .recording import EDGE_INDEX, EDGE_WEIGHT, Recorder, Recording, Ref, UnreadableModel, X, refs_in

PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD
NAMES = {X: "x", EDGE_INDEX: "edge_index", EDGE_WEIGHT: "edge_weight"}


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
    inputs, takes_data = _model_inputs(duplicate, data)
    called = ["data"] if takes_data else [NAMES[ref] for ref in inputs]
    if not takes_data:
        _check_parameters(inspect.signature(duplicate.forward).parameters, called)
    try:
        result, recorder = _try_sparse_first(
            lambda given, args, keywords: _run(duplicate, args, keywords, given, leaves, ""), inputs, takes_data
        )
    except (UnreadableModel, MemoryError):
        raise
    except Exception as error:
        raise UnreadableModel(
            f"The model could not be run as model({', '.join(called)}) on this graph: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(result, torch.Tensor):
        raise UnreadableModel(
            "Expected the model to return one tensor of logits [num_nodes, num_classes] "
            f"(got {type(result).__name__}); wrap it in a module that returns the logits alone."
        )
    untraced = "The model's output could not be traced back to its node features."
    return _finish(recorder, result, inputs[X].shape[0], inputs[X].dtype, untraced)


def run_model(duplicate: nn.Module, data: Data) -> torch.Tensor:
    """The output of a copy of the model (as `copy_model` makes it) on one graph."""
    inputs, takes_data = _model_inputs(duplicate, data)
    with torch.no_grad():
        result: torch.Tensor = _try_sparse_first(
            lambda _, args, keywords: duplicate(*args, **keywords), inputs, takes_data
        )
    return result


def _model_inputs(duplicate: nn.Module, data: Data) -> tuple[dict[Ref, torch.Tensor], bool]:
    """What the model is given, on the CPU: edge weights if the graph has them and the model takes them.

    Also whether it wants all of it in one Data object.
    """
    parameter = next((p for p in duplicate.parameters() if p.is_floating_point()), None)
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    parameters = inspect.signature(duplicate.forward).parameters
    takes_data = list(parameters)[:1] == ["data"] or [p.kind for p in parameters.values()] == [PLAIN]
    inputs = {X: _features_for_model(data.x, dtype)}
    inputs[EDGE_INDEX] = torch.as_tensor(data.edge_index).detach().cpu().long()
    if data.get("edge_weight") is not None and (takes_data or "edge_weight" in parameters):
        inputs[EDGE_WEIGHT] = torch.as_tensor(data.edge_weight).detach().cpu().to(dtype)
    return inputs, takes_data


def _try_sparse_first(run: Callable[..., Any], inputs: dict[Ref, torch.Tensor], takes_data: bool) -> Any:
    """Call run(inputs, args, keywords) with features sparse if they are, since some models want them so; else dense."""
    if takes_data:
        args: tuple[Any, ...] = (Data(**{NAMES[ref]: inputs[ref] for ref in inputs}),)
        keywords = {}
    else:
        args = (inputs[X], inputs[EDGE_INDEX])
        keywords = {NAMES[ref]: inputs[ref] for ref in inputs if ref == EDGE_WEIGHT}
    try:
        return run(inputs, args, keywords)
    except (UnreadableModel, MemoryError):
        raise
    except Exception:
        if inputs[X].layout == torch.strided:
            raise
        return _try_sparse_first(run, inputs | {X: inputs[X].to_dense()}, takes_data)


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


def _check_parameters(parameters: Mapping[str, inspect.Parameter], called: Collection[str]) -> None:
    plain = (PLAIN, inspect.Parameter.KEYWORD_ONLY)
    for name, parameter in list(parameters.items())[2:]:
        if parameter.kind in plain and parameter.default is inspect.Parameter.empty and name not in called:
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

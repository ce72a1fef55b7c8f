"""A copy of the model + one graph -> its answer; where it fails, why, and what to do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from ..errors import InputError, WrongKind
from ..graphs.schema import Schema
from ..graphs.stack import name_relation, unstack
from .arguments import LINKS_FIELD, Arguments, ModelCall, Usage, copy_data, find_arguments, parameters_of
from .refusals import FailingModel, UnreadableModel, quoted

SIDES = ("before", "after")
# Largest difference to an answer of the model itself, relative to the largest of them.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
HALF_TOLERANCE = 5e-2  # float16 and bfloat16 keep two to three digits
MISFITS = ("shapes cannot be multiplied", "must match the size", "Expected size for", "size mismatch")


def copy_model(model: Any) -> nn.Module:
    """A copy on the CPU in eval mode; the user's model keeps its device, flags, hooks and gradients."""
    if not isinstance(model, nn.Module):
        raise WrongKind(f"Expected `model` to be a torch.nn.Module (got {type(model).__name__}).")
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
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
    duplicate = _duplicate(model).cpu().eval()
    for module in duplicate.modules():
        # A cached normalisation belongs to the graph that the model saw first, not to these snapshots.
        for cache in ("_cached_edge_index", "_cached_adj_t", "_cached_x", "_cached_h"):
            if getattr(module, cache, None) is not None:
                setattr(module, cache, None)
        if getattr(module, "cached", False) is True:
            setattr(module, "cached", False)  # noqa: B010 (a plain attribute, which the type of a module hides)
    return duplicate


def _duplicate(model: nn.Module) -> nn.Module:
    """A deep copy. Tensors that the model has computed and kept (a memory, a normalised weight) become constants."""
    memo: dict[int, Any] = {}
    waiting: list[Any] = [vars(module) for module in model.modules()]
    seen = set()
    while waiting:
        held = waiting.pop()
        if isinstance(held, torch.Tensor):
            if not held.is_leaf:  # which deepcopy refuses
                memo[id(held)] = held.detach().clone()
        elif isinstance(held, (Mapping, list, tuple, set)) and id(held) not in seen:
            seen.add(id(held))
            waiting += held.values() if isinstance(held, Mapping) else held
    try:
        return copy.deepcopy(model, memo)
    except MemoryError:
        raise
    except Exception as error:
        raise FailingModel(
            f"Expected a model that can be copied, since yours is never altered (got {type(error).__name__}: {error}"
            f"{_uncopied(model)}); take out of the model what is not needed to predict, then put it back."
        ) from error


@contextmanager
def kept_state(model: nn.Module) -> Iterator[list[str]]:
    """A model that advances a state of its own as it runs has afterwards that of before; gives the names of these.

    Every call so begins with the same state: that in which the user handed the model over.
    """
    held = {name: dict(vars(module)) for name, module in model.named_modules()}
    values = {name: buffer.clone() for name, buffer in model.named_buffers()}
    for name, attributes in held.items():
        values |= {f"{name}.{key}": one.clone() for key, one in attributes.items() if isinstance(one, torch.Tensor)}
    advanced: list[str] = []
    try:
        yield advanced
    finally:
        for name, module in model.named_modules():
            before, now = held[name], vars(module)
            for key in [key for key in now if key not in before or now[key] is not before[key]]:
                advanced.append(f"{name}.{key}".removeprefix("."))
                now.pop(key)
                if key in before:
                    now[key] = before[key]
            for key, one in before.items():
                if isinstance(one, torch.Tensor):
                    one.data.copy_(values[f"{name}.{key}"])
        for name, buffer in model.named_buffers():
            if not torch.equal(buffer, values[name]):
                advanced.append(name)
                buffer.data.copy_(values[name])


def _uncopied(model: nn.Module) -> str:
    """Which attribute of which module cannot be copied; nothing where it is not known."""

    def fails(value: Any) -> bool:
        try:
            copy.deepcopy(value)
        except Exception:
            return True
        return False

    for where, module in model.named_modules():
        own = {
            name: value for name, value in vars(module).items() if name not in ("_parameters", "_buffers", "_modules")
        }
        for name in [name for name, value in own.items() if fails(value)][:1]:
            return f", in its attribute `{f'{where}.{name}'.lstrip('.')}`"
    return ""


def failed_run(
    error: Exception, duplicate: nn.Module, arguments: Arguments, data: Data, name: str, elsewhere: Collection[str]
) -> FailingModel:
    """The refusal of a model that fails on one graph, with what to do; `elsewhere` are fields that only the other
    has."""
    pairless = arguments.call is not None and LINKS_FIELD in str(error) and LINKS_FIELD not in data
    remedy = (
        "name the pairs that it is asked for with `links=[(3, 8), ...]`, which `call` then finds there."
        if pairless
        else _remedy_for_types(error, data)
        if "schema" in data
        else _remedy_for(error, duplicate, arguments, data)
    )
    return FailingModel(
        f"The model could not be run as {arguments} on `{name}`: {type(error).__name__}: {error}; {remedy}"
        + (f" (`{name}` has no {quoted(elsewhere)}, which the other graph has.)" if elsewhere else "")
    )


def refuse_output(result: Any, arguments: Arguments) -> FailingModel:
    """The model returns something other than logits; the message says how to take them out of it."""
    taken = ".logits"
    if isinstance(result, (tuple, list)):
        taken = "[0]"
    elif isinstance(result, Mapping):
        taken = f"[{next(iter(result), 'logits')!r}]"
    called = "model(...)" if arguments.call is not None else arguments.write("data.")
    return FailingModel(
        "Expected the model to return one tensor of logits with one row per node, graph or pair "
        f"(got {type(result).__name__}); take the logits out of it, as in "
        f"`call=lambda model, data: {called}{taken}`, or wrap it in a module that returns them."
    )


def _unknown_type(schema: Schema) -> str:
    """What to do where the model looks a type or relation up that it, or the graph, does not have."""
    relations = ", ".join(map(name_relation, schema.relations))
    return (
        f"the graphs have the node types {', '.join(schema.node_types)} and the relations {relations}: leave out what "
        "the model was not made for, and add what it needs, without edges where there are none."
    )


def _remedy_for_types(error: Exception, data: Data) -> str:
    """What to do where a model of typed graphs failed: its fields are named by their types."""
    if isinstance(error, KeyError):
        return _unknown_type(data["schema"])
    named: dict[str, Any] = {}
    for store in unstack(data).stores:
        kind = store._key
        if kind is not None:
            named |= {
                f"{key} of {kind if isinstance(kind, str) else name_relation(kind)}": v for key, v in store.items()
            }
    return _remedy(error, named)


def _remedy_for(error: Exception, model: nn.Module, arguments: Arguments, data: Data) -> str:
    """The same as `_remedy`, of a model that is called by the names of its arguments: one may want a matrix."""
    names = [parameter.name for parameter in parameters_of(model, arguments.decoded)]
    given = dict(zip(names, arguments.positional, strict=False))
    for name in [name for name, field in given.items() if field == "edge_index" and name.startswith("adj")]:
        return (
            f"its argument `{name}` received `edge_index`, because the data has no field `{name}`; where it takes a "
            "matrix, build it in `call`, and pass `paths=False`: `call=lambda model, data: model(data.x, "
            "to_dense_adj(data.edge_index, max_num_nodes=data.num_nodes)[0])`."
        )
    return _remedy(error, {key: data[key] for key in data.keys()})  # noqa: SIM118 (a Data object gives pairs)


def _remedy(error: Exception, fields: Mapping[str, Any]) -> str:
    """What to do where the model itself failed: give it what it was trained on, or call it otherwise."""
    tensors = {
        name: value
        for name, value in fields.items()
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and "index" not in name
    }
    widths = [f"{value.shape[1]} in `{name}`" for name, value in tensors.items() if value.dim() == 2]
    flat = [
        (name, value) for name, value in tensors.items() if value.dim() == 1 and len(value) and not value.is_complex()
    ]
    whole = [f"{one.min()} to {one.max()} in `{name}`" for name, one in flat if not one.is_floating_point()]
    numbers = [f"`{name}`" for name, one in flat if one.is_floating_point()]
    otherwise = "say with `call=lambda model, data: ...` how it is called otherwise."
    if isinstance(error, AttributeError) and "'Tensor' object" in str(error) and error.name in (*fields, "num_nodes"):
        return "if it takes a Data object, pass `call=lambda model, data: model(data)`."
    if any(word in str(error) for word in MISFITS) and widths:
        widths_text = ", ".join(widths)
        return f"pad or select the columns of features that it was trained on (there are {widths_text}), or {otherwise}"
    if "out of bounds" in str(error) and whole:
        return (
            "leave out edges of relations, and whatever else is looked up by a whole number, that it was not made for "
            f"(there are {', '.join(whole)}), or {otherwise}"
        )
    if "dtype int" in str(error) and numbers:
        return f"make whole numbers of what names a relation or a kind, by `.long()` ({', '.join(numbers)} are none)."
    return "if it is called in another way, pass `call=lambda model, data: ...`."


def run_model(duplicate: nn.Module, data: Data, call: ModelCall | None = None) -> torch.Tensor:
    """The output of a copy of the model (as `copy_model` makes it) on one graph."""
    arguments = find_arguments(duplicate, data, "data", call)
    try:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"), kept_state(duplicate):
            result = run_as_is_first(lambda copied: arguments.run(duplicate, copied), data, dtype_of_model(duplicate))
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise FailingModel(
            f"The model itself could not be run as {arguments}: {type(error).__name__}: {error}; "
            + _remedy_for(error, duplicate, arguments, data)
        ) from error
    if not isinstance(result, torch.Tensor):
        raise refuse_output(result, arguments)
    return result


def answers_alike(model: nn.Module, graphs: tuple[Data, Data], settings: Collection[str], usage: Usage) -> bool:
    """Whether the model gives the same on `after` with these settings of `before`."""
    other = copy.copy(graphs[1])
    for name in settings:
        other[name] = graphs[0][name]
    answers = [run_model(copy_model(model), data, usage.call) for data in (graphs[1], other)]
    return answers[0].shape == answers[1].shape and torch.equal(answers[0], answers[1])


def tolerance_of(dtype: torch.dtype) -> float:
    """The largest difference that rounding may make in these numbers."""
    return TOLERANCES.get(dtype, HALF_TOLERANCE)


def dtype_of_model(duplicate: nn.Module) -> torch.dtype:
    """The floating-point type of a model's parameters."""
    parameter = next((p for p in duplicate.parameters() if p.is_floating_point()), None)
    return torch.get_default_dtype() if parameter is None else parameter.dtype


def run_as_is_first(run: Callable[[Data], Any], data: Data, dtype: torch.dtype) -> Any:
    """Run on features that are sparse or whole numbers if the user's are, since some models want that; else dense."""
    copied = copy_data(data, dtype)
    try:
        return run(copied)
    except (InputError, MemoryError):
        raise
    except Exception:
        if data.x is None or (copied.x.layout == torch.strided and copied.x.is_floating_point()):
            raise
        return run(copy_data(data, dtype, as_is=False))

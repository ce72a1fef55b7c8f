"""torch module <-> a folder of two files: model.json (class and arguments) and weights.safetensors.

A folder can only name a network of torch_geometric.nn or axiompath.experiments.models, so that reading one runs no
code but theirs. Your own code is named by you, as `package.module:function`, never by a file.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch_geometric.nn
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import nn
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models.basic_gnn import BasicGNN

from ..errors import InputError
from ..experiments import models as experiment_models
from ..trust import FAULTS, MAX_BYTES, blamed, check_file, read_json
from ..writing import whole_file

FORMAT = "axiompath.model"
VERSION = 1
PYG, OURS = "torch_geometric.nn", "axiompath.experiments.models"
MAX_ARGUMENT = 10**7
MAX_LAYERS = 1000
MAX_JSON = 10**6
MAX_CALLS = 20_000  # of torch's functions, to build a network: a thousand layers, in seconds
MAX_BESIDE = 10**8  # bytes of a network that are not weights
# Widths, which the weights hold to their word; every other number is how often something is done.
WIDTHS = {
    "in_channels", "hidden_channels", "out_channels", "in_edge_channels", "channels", "edge_dim", "widths",
    "num_relations",
}  # fmt: skip
NUMBERS = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}


def save_model(model: nn.Module, folder: str | Path, arguments: dict[str, Any]) -> Path:
    """Write a model so that `load_model` gives it back; `arguments` are those its class was called with."""
    name = _public_name(type(model))
    target = Path(folder)
    text = json.dumps(
        {
            "format": FORMAT, "version": VERSION, "class": name, "arguments": arguments,
            "dtype": str(next(_floating(model), torch.zeros(0)).dtype).removeprefix("torch."),
        },
        indent=1,
    )  # fmt: skip
    _build(name, json.loads(text)["arguments"], target)
    target.mkdir(parents=True, exist_ok=True)
    weights = {key: value.detach().cpu().contiguous().clone() for key, value in model.state_dict().items()}
    with whole_file(target / "weights.safetensors") as stream:
        stream.write(save(weights))
    (target / "model.json").write_text(text + "\n", encoding="utf-8")
    return target


def load_model(folder: str | Path) -> nn.Module:
    """The model in a folder that `save_model` wrote, in eval mode."""
    source = Path(folder)
    described = _read_description(source / "model.json")
    # Built first without memory: a description that does not fit its weights is refused before anything is allocated.
    with torch.device("meta"):
        sketch = _build(described["class"], described["arguments"], source)
        _check_shapes(sketch, source / "weights.safetensors")
    beside = sum(buffer.numel() * buffer.element_size() for buffer in sketch.buffers())
    if beside > MAX_BESIDE + (source / "weights.safetensors").stat().st_size:
        raise InputError(f"Expected a network as large as its weights in {source} (got {beside:,} bytes beside them).")
    model = _build(described["class"], described["arguments"], source)
    dtype = getattr(torch, str(described.get("dtype", "float32")), None)
    if dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise InputError(
            f"Expected a floating dtype in {source / 'model.json'} (got {str(described.get('dtype'))[:20]!r})."
        )
    return _fill(model.to(dtype), source / "weights.safetensors")


def read_model(name: str, weights: str | Path | None = None) -> nn.Module:
    """A model's folder, or `package.module:function` for your own code, which is imported and called."""
    if Path(name).is_dir():
        return load_model(name)
    if ":" not in name or Path(name).exists():
        raise InputError(
            f"Expected a folder with model.json and weights.safetensors, or package.module:function (got {name!r})."
        )
    model = _call(name)
    return model.eval() if weights is None else _fill(model, Path(weights))


def _call(name: str) -> nn.Module:
    module_name, _, function_name = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    with _your_code(name):
        module = _import(module_name, name)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InputError(f"Expected a function {name} that Python can import (the module has no such function).")
    with _your_code(name):
        model = function()
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected {name}() to return a torch.nn.Module (got {type(model).__name__}).")
    return model


def _import(module_name: str, name: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A module that it wants itself is missing in its code, not in the name.
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise InputError(f"Expected a function {name} that Python can import ({error}).") from error
    except (TypeError, ValueError) as error:
        if error.__traceback__ is not None and _lines(error)[1:]:
            raise
        raise InputError(f"Expected a function {name} that Python can import ({error}).") from error


@contextmanager
def _your_code(name: str) -> Iterator[None]:
    """What the user's own code raises, anything, is shown as it is, and said to be theirs."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        where = next((line for line in reversed(_lines(error))), "")
        raise InputError(
            f"Expected {name} to build a model, but your own code failed: {type(error).__name__}: {error}{where}."
        ) from error


def _lines(error: BaseException) -> list[str]:
    """Where an error passed, without this file and Python's own import."""
    frames = traceback.extract_tb(error.__traceback__)
    hidden = (__file__, "<frozen importlib", importlib.__file__)
    return [f" ({f.filename}, line {f.lineno})" for f in frames if not str(f.filename).startswith(hidden)]


def _floating(model: nn.Module) -> Iterator[torch.Tensor]:
    return (value for value in model.state_dict().values() if value.is_floating_point())


def _public_name(kind: type) -> str:
    for package, module in ((PYG, torch_geometric.nn), (OURS, experiment_models)):
        if getattr(module, kind.__name__, None) is kind and _is_network(kind):
            return f"{package}.{kind.__name__}"
    raise InputError(
        f"Expected a network of {PYG} or {OURS} (got {kind.__module__}.{kind.__qualname__}); for your own class save "
        "its weights with safetensors and name the function that builds it, as package.module:function."
    )


def _is_network(kind: Any) -> bool:
    if not isinstance(kind, type) or kind is MessagePassing or kind is BasicGNN:
        return False
    return issubclass(kind, (BasicGNN, MessagePassing)) or (
        issubclass(kind, nn.Module) and kind.__module__ == experiment_models.__name__
    )


def _read_description(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"Expected a model's description at {path} (found none); axiompath.save_model writes it.")
    described = read_json(path, MAX_JSON)
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise InputError(f"Expected a model's description (format {FORMAT!r}) in {path} (got something else).")
    if described.get("version") != VERSION:
        raise InputError(
            f"Expected version {VERSION} of the model format in {path} (got {str(described.get('version'))[:20]}); "
            "use the release of axiompath that wrote it, or save the model again."
        )
    if not isinstance(described.get("class"), str) or not isinstance(described.get("arguments"), dict):
        raise InputError(f"Expected `class` and `arguments` in {path} (one is missing, or of another kind).")
    return described


def _build(name: str, arguments: dict[str, Any], source: Path) -> nn.Module:
    package, _, kind_name = name.rpartition(".")
    module = {PYG: torch_geometric.nn, OURS: experiment_models}.get(package)
    kind = getattr(module, kind_name, None) if module is not None else None
    if kind is None or not _is_network(kind):
        raise InputError(
            f"Expected a network of {PYG} or {OURS} in {source} (got {name[:80]!r}); "
            "your own code is named on the command line, as package.module:function."
        )
    _check_arguments(arguments, source)
    with blamed(f"Expected arguments that {name} takes in {source} (it makes nothing of these)."):
        try:
            with _Counted(source):
                model = kind(**arguments)
        except InputError:
            raise
        except FAULTS as error:  # whatever a constructor makes of strange arguments
            reason = str(error).split("\n")[0][:160]
            raise InputError(
                f"Expected arguments that {name} takes in {source} ({type(error).__name__}: {reason})."
            ) from error
    assert isinstance(model, nn.Module)
    return model.eval()


class _Counted(TorchFunctionMode):
    """Counts what is built, so that arguments which multiply each other come to an end."""

    def __init__(self, source: Path) -> None:
        super().__init__()
        self.source, self.calls = source, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise InputError(f"Expected a network of a bearable size in {self.source} (building it takes for ever).")
        return func(*args, **(kwargs or {}))


def _check_arguments(arguments: dict[str, Any], source: Path) -> None:
    """Refuse numbers with which building the network, or running it, would take for ever."""
    layers = arguments.get("num_layers", 1)
    if type(layers) is not int or layers > MAX_LAYERS:
        raise InputError(f"Expected at most {MAX_LAYERS} layers in {source} (got {str(layers)[:20]}).")
    waiting, seen = list(arguments.items()), 0
    while waiting:
        key, value = waiting.pop()
        seen += 1
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, part) for part in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"Expected finite arguments of a network in {source} (`{key[:30]}` is {value}).")
        elif isinstance(value, int):
            limit = MAX_ARGUMENT if key in WIDTHS else MAX_LAYERS
            if abs(value) > limit:
                raise InputError(
                    f"Expected arguments of a network in {source} (got `{key[:30]}` with one beyond {limit:,})."
                )
        if seen > MAX_LAYERS:
            raise InputError(f"Expected at most {MAX_LAYERS} arguments of a network in {source} (got more).")


def _check_shapes(model: nn.Module, path: Path) -> None:
    if not path.exists():
        raise InputError(f"Expected weights at {path} (found none).")
    with _whole_weights(path), safe_open(path, framework="pt") as weights:
        slices = {key: weights.get_slice(key) for key in weights.keys()}  # noqa: SIM118
        shapes = {key: tuple(part.get_shape()) for key, part in slices.items()}
        kinds = {part.get_dtype() for part in slices.values()}
    if not kinds <= NUMBERS:
        raise InputError(f"Expected weights as {', '.join(sorted(NUMBERS))} in {path} (got {', '.join(kinds)}).")
    expected = {
        key: None if isinstance(value, (nn.UninitializedParameter, nn.UninitializedBuffer)) else tuple(value.shape)
        for key, value in model.state_dict().items()
    }
    missing, strange = sorted(set(expected) - set(shapes)), sorted(set(shapes) - set(expected))
    if missing or strange:
        raise InputError(
            f"Expected the weights of the described model in {path} (missing: {', '.join(missing[:3]) or 'none'}; "
            f"unknown: {', '.join(strange[:3]) or 'none'})."
        )
    for key, shape in expected.items():
        if shape is not None and shape != shapes[key]:
            raise InputError(f"Expected `{key}` of shape {shape} in {path} (got {shapes[key]}).")


def _fill(model: nn.Module, path: Path) -> nn.Module:
    _check_shapes(model, path)
    with _whole_weights(path):
        weights = load_file(path)
        if not all(torch.isfinite(value).all() for value in weights.values()):
            raise InputError(f"Expected finite weights in {path} (got NaN or infinite ones).")
        model.load_state_dict(weights)
    return model.eval()


@contextmanager
def _whole_weights(path: Path) -> Iterator[None]:
    """What is wrong with a file of weights is the file's fault."""
    sentence = f"Expected a whole safetensors file at {path} (it is cut short, damaged or of another kind)."
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(sentence)
    check_file(path, MAX_BYTES)
    with blamed(sentence):
        try:
            yield
        except SafetensorError as error:
            raise ValueError(str(error)) from error

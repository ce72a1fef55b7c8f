"""torch module <-> a folder of two files: model.json (class and arguments) and weights.safetensors.

A folder can only name a network of torch_geometric.nn or the paper's SumGNN, so that reading one runs no code but
theirs. Your own code is named by you, as `package.module:function`, never by a file.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch_geometric.nn
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models.basic_gnn import BasicGNN

from ..errors import InputError
from ..writing import whole_file
from .sum_gnn import SumGNN

MODEL_FORMAT, MODEL_VERSION = "axiompath.model", 1
PYG = "torch_geometric.nn"
OURS = {"axiompath.experiments.models.SumGNN": SumGNN}  # names of the format, wherever the classes lie
MAX_ARGUMENT = 10**7
MAX_LAYERS = 1000
MAX_JSON = 10**6


def save_model(model: nn.Module, folder: str | Path, arguments: dict[str, Any]) -> Path:
    """Write a model so that `load_model` gives it back; `arguments` are those its class was called with."""
    name = _public_name(type(model))
    target = Path(folder)
    text = json.dumps(
        {
            "format": MODEL_FORMAT, "version": MODEL_VERSION, "class": name, "arguments": arguments,
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
        _check_shapes(_build(described["class"], described["arguments"], source), source / "weights.safetensors")
    model = _build(described["class"], described["arguments"], source)
    dtype = getattr(torch, str(described.get("dtype", "float32")), None)
    if dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise InputError(f"Expected a floating dtype in {source / 'model.json'} (got {described.get('dtype')!r}).")
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
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"Expected a function {name} that Python can import ({error}).") from error
    model = function()
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected {name}() to return a torch.nn.Module (got {type(model).__name__}).")
    return model


def _floating(model: nn.Module) -> Iterator[torch.Tensor]:
    return (value for value in model.state_dict().values() if value.is_floating_point())


def _public_name(kind: type) -> str:
    if getattr(torch_geometric.nn, kind.__name__, None) is kind and _is_network(kind):
        return f"{PYG}.{kind.__name__}"
    for name, ours in OURS.items():
        if kind is ours:
            return name
    raise InputError(
        f"Expected a network of {PYG}, or {' or '.join(OURS)} (got {kind.__module__}.{kind.__qualname__}); "
        "for your own class save its weights with safetensors and name the function that builds it, as "
        "package.module:function."
    )


def _is_network(kind: Any) -> bool:
    if not isinstance(kind, type) or kind is MessagePassing or kind is BasicGNN:
        return False
    return issubclass(kind, (BasicGNN, MessagePassing))


def _read_description(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"Expected a model's description at {path} (found none); axiompath.save_model writes it.")
    if path.stat().st_size > MAX_JSON:
        raise InputError(
            f"Expected a description of less than a megabyte at {path} (got {path.stat().st_size:,} bytes)."
        )
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"Expected JSON in {path} (it is cut short, or of another kind).") from error
    if not isinstance(described, dict) or described.get("format") != MODEL_FORMAT:
        raise InputError(f"Expected a model's description (format {MODEL_FORMAT!r}) in {path} (got something else).")
    if described.get("version") != MODEL_VERSION:
        raise InputError(
            f"Expected version {MODEL_VERSION} of the model format in {path} (got {described.get('version')!r}); "
            "use the release of axiompath that wrote it, or save the model again."
        )
    if not isinstance(described.get("class"), str) or not isinstance(described.get("arguments"), dict):
        raise InputError(f"Expected `class` and `arguments` in {path} (one is missing, or of another kind).")
    return described


def _build(name: str, arguments: dict[str, Any], source: Path) -> nn.Module:
    package, _, kind_name = name.rpartition(".")
    kind = OURS.get(name) or (getattr(torch_geometric.nn, kind_name, None) if package == PYG else None)
    if kind is None or not (name in OURS or _is_network(kind)):
        raise InputError(
            f"Expected a network of {PYG}, or {' or '.join(OURS)}, in {source} (got {name[:80]!r}); "
            "your own code is named on the command line, as package.module:function."
        )
    numbers = [v for value in arguments.values() for v in (value if isinstance(value, list) else [value])]
    if any(isinstance(v, int) and abs(v) > MAX_ARGUMENT for v in numbers) or len(numbers) > MAX_LAYERS:
        raise InputError(f"Expected arguments of a network in {source} (got one beyond {MAX_ARGUMENT:,}, or too many).")
    layers = arguments.get("num_layers", 1)
    if not isinstance(layers, int) or layers > MAX_LAYERS:
        raise InputError(f"Expected at most {MAX_LAYERS} layers in {source} (got {layers!r}).")
    try:
        model = kind(**arguments)
    except Exception as error:  # whatever a constructor makes of strange arguments
        reason = str(error).split("\n")[0][:160]
        raise InputError(
            f"Expected arguments that {name} takes in {source} ({type(error).__name__}: {reason})."
        ) from error
    assert isinstance(model, nn.Module)
    return model.eval()


def _check_shapes(model: nn.Module, path: Path) -> None:
    if not path.is_file():
        raise InputError(f"Expected weights at {path} (found none).")
    try:
        with safe_open(path, framework="pt") as weights:
            shapes = {key: tuple(weights.get_slice(key).get_shape()) for key in weights.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"Expected a whole safetensors file at {path} (it is cut short, or of another kind)."
        ) from error
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
    model.load_state_dict(load_file(path))
    return model.eval()

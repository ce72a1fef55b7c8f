"""torch module <-> a folder of two files: model.json (class and arguments) and weights.safetensors.

A folder can only name a network of torch_geometric.nn, the paper's SumGNN, our NodeGNN, LinkGNN or RelationGNN, so that
reading one runs no code but theirs. Your own code is named by you, as `package.module:function`, never by a file.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import traceback
import warnings
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

from ..errors import InputError, MissingFile, Notice
from ..storage.codec import FileForm
from ..storage.safe import MAX_BYTES, Damaged, blamed, check_file, read_json
from ..storage.writing import whole_file, write_text
from .small_gnns import LinkGNN, NodeGNN, RelationGNN
from .sum_gnn import SumGNN

MODEL_FORM = FileForm("model", 1)
PYG = "torch_geometric.nn"
# Names of the format, wherever the classes lie.
OURS: dict[str, type[nn.Module]] = {
    "axiompath.experiments.models.SumGNN": SumGNN,
    "axiompath.LinkGNN": LinkGNN,
    "axiompath.NodeGNN": NodeGNN,
    "axiompath.RelationGNN": RelationGNN,
}
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
WEIGHT_TYPES = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}


def save_model(model: nn.Module, folder: str | Path, arguments: dict[str, Any]) -> Path:
    """Save a model for `load_model`; `arguments` are those that its class was called with."""
    name = _public_name(type(model))
    target = Path(folder)
    text = json.dumps(
        {
            **MODEL_FORM.head, "class": name, "arguments": arguments,
            "dtype": str(next(_floating(model), torch.zeros(0)).dtype).removeprefix("torch."),
        },
        indent=1,
    )  # fmt: skip
    _build(name, json.loads(text)["arguments"], target)
    target.mkdir(parents=True, exist_ok=True)
    weights = {key: value.detach().cpu().contiguous().clone() for key, value in model.state_dict().items()}
    with whole_file(target / "weights.safetensors") as stream:
        stream.write(save(weights))
    write_text(target / "model.json", text + "\n")
    return target


def load_model(folder: str | Path) -> nn.Module:
    """Load a model that `save_model` wrote, in eval mode."""
    source = Path(folder)
    described = _read_description(source / "model.json")
    # Built first without memory: a description that does not fit its weights is refused before anything is allocated.
    weights = source / "weights.safetensors"
    with torch.device("meta"):
        sketch = _build(described["class"], described["arguments"], source)
        _check_shapes(sketch, weights)
    beside = sum(buffer.numel() * buffer.element_size() for buffer in sketch.buffers())
    if beside > MAX_BESIDE + weights.stat().st_size:
        raise InputError(f"Expected a network as large as its weights in {source} (got {beside:,} bytes beside them).")
    model = _build(described["class"], described["arguments"], source)
    dtype = getattr(torch, str(described.get("dtype", "float32")), None)
    if dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        shown = str(described.get("dtype"))[:20]
        raise InputError(f"Expected a floating dtype in {source / 'model.json'} (got {shown!r}).")
    return _fill(model.to(dtype), weights)


def read_model(name: str, weights: str | Path | None = None) -> nn.Module:
    """A model's folder, or `package.module:function` for your own code, which is imported and called."""
    if os.path.isdir(name):
        return load_model(name)
    if ":" not in name or os.path.exists(name):
        raise InputError(
            f"Expected a folder with model.json and weights.safetensors, or package.module:function (got {name!r})."
        )
    model = _call(name)
    if weights is None:
        warnings.warn(
            f"No --weights were given: the model is explained as {name}() returns it, and if that loads none itself, "
            "it is untrained and its answers mean nothing.",
            Notice,
            stacklevel=2,
        )
        return model.eval()
    return _fill(model, Path(weights))


def _call(name: str) -> nn.Module:
    module_name, _, function_name = name.partition(":")
    with _your_code(name), _from_here():
        try:
            module = importlib.import_module(module_name) if _is_dotted(module_name) else None
        except ModuleNotFoundError as error:
            if error.name is None or not module_name.startswith(error.name):
                raise  # what is missing is something that the module itself wants
            raise InputError(f"Expected a function {name} that Python can import ({error}).") from error
        if not callable(function := getattr(module, function_name, None)):
            raise InputError(f"Expected a function {name} that Python can import (the module has no such function).")
        model = function()
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected {name}() to return a torch.nn.Module (got {type(model).__name__}).")
    return model


@contextmanager
def _from_here() -> Iterator[None]:
    """The current folder is looked into first, and no longer than this: other names in it may be those of libraries."""
    held = list(sys.path)
    sys.path.insert(0, "")
    try:
        yield
    finally:
        if "" not in held:
            sys.path[:] = [place for place in sys.path if place != ""]


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


@contextmanager
def _your_code(name: str) -> Iterator[None]:
    """What the user's own code raises, anything, is shown as it is, and said to be theirs."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename][1:]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        raise InputError(
            f"Expected {name} to build a model, but your own code failed: {type(error).__name__}: {error}{where}."
        ) from error


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
    if not os.path.exists(path):
        raise MissingFile(f"Expected a model's description at {path} (found none); axiompath.save_model writes it.")
    described = MODEL_FORM.open(read_json(path, MAX_JSON), f" in {path}")
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
    _check_arguments(arguments, source)
    try:
        with _Counted(source):
            model = kind(**arguments)
    except InputError:
        raise
    except Exception as error:  # whatever a constructor of PyG's makes of strange arguments
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
    if type(layers := arguments.get("num_layers", 1)) is not int or layers > MAX_LAYERS:
        raise InputError(f"Expected at most {MAX_LAYERS} layers in {source} (got {str(layers)[:20]}).")
    waiting = list(arguments.items())
    for key, value in waiting:
        if isinstance(value, (dict, list)):
            waiting += value.items() if isinstance(value, dict) else [(key, part) for part in value]
        limit = MAX_ARGUMENT if key in WIDTHS else MAX_LAYERS
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"Expected finite arguments of a network in {source} (`{key[:30]}` is {value}).")
        if isinstance(value, int) and abs(value) > limit:
            raise InputError(f"Expected at most {limit:,} as `{key[:30]}` of a network in {source} (got more).")
        if len(waiting) > MAX_LAYERS:
            raise InputError(f"Expected at most {MAX_LAYERS} arguments of a network in {source} (got more).")


def _check_shapes(model: nn.Module, path: Path) -> None:
    with _whole_weights(path), safe_open(path, framework="pt") as weights:
        slices = {key: weights.get_slice(key) for key in weights.keys()}  # noqa: SIM118
        shapes = {key: tuple(part.get_shape()) for key, part in slices.items()}
        types = {part.get_dtype() for part in slices.values()}
    if not types <= WEIGHT_TYPES:
        raise InputError(
            f"Expected weights as {', '.join(sorted(WEIGHT_TYPES))} in {path} (got {', '.join(sorted(types))})."
        )
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
    check_file(path, MAX_BYTES)
    with blamed(f"Expected a whole safetensors file at {path} (it is cut short, damaged or of another kind)."):
        try:
            yield
        except SafetensorError as error:
            raise Damaged(str(error)) from error

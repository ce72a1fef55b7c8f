"""Element-wise operations -> activations: known ones by name, any other by what torch computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..arrays import FloatArray
from ..network import activations
from ..network.activations import Activation
from .reader import Both, Reader, Step
from .refusals import UnreadableModel
from .trace import FEATURE, PARAMETER, Number, replace_in

Maker = Callable[[Step], Activation]


def _clamp(step: Step) -> Activation:
    low, high = step.argument(1, "min"), step.argument(2, "max")
    return activations.clamp(-np.inf if low is None else low, np.inf if high is None else high)


def _elu(step: Step) -> Activation:
    alpha, scale, inner = (step.argument(i, name, 1.0) for i, name in enumerate(("alpha", "scale", "input_scale"), 1))
    if inner != 1.0:
        return of_calls(step.reader, step.value, step.inputs[0])
    return activations.elu(alpha, scale)


KNOWN: dict[str, Maker] = {
    "relu": lambda step: activations.relu(),
    "leaky_relu": lambda step: activations.leaky_relu(step.argument(1, "negative_slope", 0.01)),
    "elu": _elu,
    "gelu": lambda step: activations.gelu(step.argument(9, "approximate", "none")),
    "silu": lambda step: activations.silu(),
    "sigmoid": lambda step: activations.sigmoid(),
    "tanh": lambda step: activations.tanh(),
    "softplus": lambda step: activations.softplus(step.argument(1, "beta", 1.0), step.argument(2, "threshold", 20.0)),
    "log_sigmoid_forward": lambda step: activations.log_sigmoid(),
    "mish": lambda step: activations.mish(),
    "abs": lambda step: activations.two_slopes("abs", -1.0, 1.0),
    "hardtanh": lambda step: activations.clamp(step.argument(1, "min_val", -1.0), step.argument(2, "max_val", 1.0)),
    "clamp": _clamp,
    "clamp_min": lambda step: activations.clamp(low=step.argument(1, "min")),
    "clamp_max": lambda step: activations.clamp(high=step.argument(1, "max")),
}
# Applied to each number by itself, from any calls of which an activation can be made.
OTHERS = [
    "exp",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "asinh",
    "atan",
    "erf",
    "log1p",
    "expm1",
    "sqrt",
    "hardswish",
    "hardsigmoid",
    "softsign",
    "threshold",
    "sign",
    "celu",
    "log",
    "log2",
    "log10",
    "rsqrt",
    "reciprocal",
    "square",
    "round",
    "floor",
    "ceil",
    "trunc",
]
COMBINING = {
    "mul", "add", "sub", "rsub", "neg", "div", "pow", "where", "masked_fill", "maximum", "minimum",
    "gt", "lt", "ge", "le",
}  # fmt: skip
COPYING = {"clone", "detach", "alias", "_to_copy"}


@dataclass(frozen=True)
class Calls:
    """A function of one tensor, as the calls that make it: numbers of results stand in for tensors."""

    calls: tuple[tuple[str, str, tuple[Any, ...], tuple[tuple[str, Any], ...], int], ...]

    def on(self, z: torch.Tensor) -> torch.Tensor:
        """The last result."""
        found = [z]
        for name, overload, args, kwargs, output in self.calls:
            function = getattr(getattr(torch.ops.aten, name), overload)
            give = lambda part: found[part] if isinstance(part, Number) else part  # noqa: E731
            result = function(*replace_in(args, give), **{key: replace_in(part, give) for key, part in kwargs})
            found.append(result[output] if isinstance(result, (tuple, list)) else result)
        return found[-1].to(torch.float64)

    def value(self, z: FloatArray) -> FloatArray:
        """phi(z) - phi(0); 0 where the function is infinite, which no number of a model is."""
        with torch.no_grad():
            found = self.on(torch.from_numpy(np.ascontiguousarray(z))).numpy()
        return np.asarray(np.where(np.isfinite(found), found - self.at_zero, 0.0))

    def derivative(self, z: FloatArray) -> FloatArray:
        """phi'(z); 0 where that is infinite: a rate there multiplies a difference of 0."""
        given = torch.from_numpy(np.ascontiguousarray(z)).requires_grad_()
        with torch.enable_grad():
            result = self.on(given)
            if not result.requires_grad:
                return np.zeros_like(z)
            (slope,) = torch.autograd.grad(result.sum(), given)
        return np.asarray(np.nan_to_num(slope.numpy(), nan=0.0, posinf=0.0, neginf=0.0))

    @cached_property
    def at_zero(self) -> float:
        """phi(0), or 0 where that is infinite."""
        with torch.no_grad():
            found = float(self.on(torch.zeros(1, dtype=torch.float64)))
        return found if np.isfinite(found) else 0.0


def activation_of(step: Step) -> Activation:
    """Of one element-wise operation."""
    if step.name in KNOWN and not any(isinstance(part, Number) for part in step.operations[1].args[1:]):
        return KNOWN[step.name](step)
    return of_calls(step.reader, step.value, step.inputs[step.features[0]])


def of_calls(reader: Reader, value: Both, root: Both) -> Activation:
    """The function that leads from one value to another by element-wise calls."""
    names = _names_of(reader, value, root)
    if names == ["sigmoid", "mul"]:
        return activations.silu()
    function = Calls(tuple(_calls(reader, value, root)))
    return Activation("+".join(names), function.value, function.derivative, kinked=True, constant=function.at_zero)


def _names_of(reader: Reader, value: Both, root: Both) -> list[str]:
    return [call[0] for call in _calls(reader, value, root)]


def _calls(reader: Reader, value: Both, root: Both) -> list[Any]:
    numbers = {root: 0}
    found: list[Any] = []

    def visit(one: Both) -> None:
        if one in numbers:
            return
        step = reader.step(one)
        assert step is not None
        for part in step.inputs:
            if reader.kind(part) == FEATURE:
                visit(part)
        inputs = iter(step.inputs)

        def give(part: Any) -> Any:
            if not isinstance(part, Number):
                return part
            given = next(inputs)
            return Number(numbers[given]) if given in numbers else float(reader.tensor(given, 1).reshape(-1)[0])

        operation = step.operations[1]
        name, overload = operation.function._schema.name.split("::")[1], operation.function._overloadname
        args = replace_in(operation.args, give)
        kwargs = tuple((key, replace_in(part, give)) for key, part in operation.kwargs.items())
        name, overload = _without_writing(name, overload, args)
        found.append((name, overload, args, kwargs, operation.output))
        numbers[one] = len(found)

    visit(value)
    return found


def _without_writing(name: str, overload: str, args: tuple[Any, ...]) -> tuple[str, str]:
    """The operation that writes nowhere, on numbers where tensors of one number stood."""
    name = name.rstrip("_") if not name.startswith("_") else name
    if overload == "Tensor" and len(args) > 1 and not isinstance(args[1], Number):
        overload = "Scalar"
    return name, overload


def root_of(reader: Reader, value: Both) -> Both | None:
    """The one value that another is an element-wise function of, by several calls; None where there is no such one.

    The deepest one that all calls pass through.
    """
    root: Both | None = None
    waiting = {value}
    shape = reader.shape(value)
    while waiting:
        one = max(waiting, key=lambda number: number[1])  # made last: no other is made of it
        alone = len(waiting) == 1
        if alone and one != value and reader.shape(one) == shape:
            root = one
        if not _is_call(reader, one):
            return root
        waiting.remove(one)
        step = reader.step(one)
        assert step is not None
        waiting |= {step.inputs[i] for i in step.features}
    return root


def _is_call(reader: Reader, value: Both) -> bool:
    """Whether a value is made element by element, of features and single numbers."""
    try:
        step = reader.step(value)
    except UnreadableModel:  # made otherwise on the two graphs
        return False
    if step is None or not (step.name in KNOWN or step.name in OTHERS or step.name in COMBINING | COPYING):
        return False
    others = [one for i, one in enumerate(step.inputs) if i not in step.features]
    return all(reader.kind(one) == PARAMETER and reader.shape(one).numel() == 1 for one in others)

"""torch function -> what it does to forms: tables by the function's name.

`relu`, `F.relu`, `Tensor.relu_` and `nn.ReLU` all arrive here under one name, so each needs one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import activations
from ..activations import Activation
from .recording import UnreadableModel


def _prelu(x: Any, weight: torch.Tensor) -> Activation:
    return activations.prelu(weight.detach().double().numpy().copy())


# Each takes the call's own arguments, so defaults and keywords mean what they mean in torch.
ACTIVATIONS: dict[str, Callable[..., Activation]] = {
    "relu": lambda x, inplace=False: activations.relu(),
    "leaky_relu": lambda x, negative_slope=0.01, inplace=False: activations.leaky_relu(negative_slope),
    "prelu": _prelu,
    "elu": lambda x, alpha=1.0, inplace=False: activations.elu(alpha),
    "gelu": lambda x, approximate="none": activations.gelu(approximate),
    "silu": lambda x, inplace=False: activations.silu(),
    "tanh": lambda x: activations.tanh(),
}

# Functions that leave their first argument as it is, in eval mode.
UNCHANGED = {"contiguous", "clone", "detach", "to", "float", "double", "type_as", "requires_grad_"}

# Dropped at the end of a model: explanations speak of logits.
FINAL = {"log_softmax", "softmax"}


def check_dropout(name: str, *args: Any, **kwargs: Any) -> None:
    """Dropout does nothing at evaluation; one that stays active makes the model random."""
    settings = dict(zip(("x", "p", "training", "inplace"), args, strict=False)) | kwargs
    if settings.get("training", True) and settings.get("p", 0.5) > 0:
        raise UnreadableModel(
            f"{name}: dropout is active although the model is in eval mode, so its output is random; "
            "pass `training=self.training`."
        )

"""torch function -> Activation: element-wise functions by name; dropout and a last softmax, which do nothing here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..network import activations
from ..network.activations import Activation
from .calls import array


class Unsupported(Exception):
    """Why a function cannot be read; whoever knows its name adds it."""


def _clamp(x: Any, min: Any = None, max: Any = None) -> Activation:
    return activations.clamp(-np.inf if min is None else float(min), np.inf if max is None else float(max))


ACTIVATIONS: dict[str, Callable[..., Activation]] = {
    "relu": lambda x, inplace=False: activations.relu(),
    "leaky_relu": lambda x, negative_slope=0.01, inplace=False: activations.leaky_relu(negative_slope),
    "prelu": lambda x, weight: activations.prelu(array(weight)),
    "elu": lambda x, alpha=1.0, inplace=False: activations.elu(alpha),
    "celu": lambda x, alpha=1.0, inplace=False: activations.celu(alpha),
    "selu": lambda x, inplace=False: activations.selu(),
    "gelu": lambda x, approximate="none": activations.gelu(approximate),
    "silu": lambda x, inplace=False: activations.silu(),
    "mish": lambda x, inplace=False: activations.mish(),
    "tanh": lambda x: activations.tanh(),
    "softsign": lambda x: activations.softsign(),
    "sigmoid": lambda x: activations.sigmoid(),
    "log_sigmoid": lambda x: activations.log_sigmoid(),
    "softplus": lambda x, beta=1.0, threshold=20.0: activations.softplus(beta, threshold),
    "relu6": lambda x, inplace=False: activations.clamp(0.0, 6.0),
    "hardtanh": lambda x, min_val=-1.0, max_val=1.0, inplace=False: activations.clamp(min_val, max_val),
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": lambda x, min: activations.clamp(low=float(min)),
    "clamp_max": lambda x, max: activations.clamp(high=float(max)),
    "abs": lambda x: activations.two_slopes("abs", -1.0),
}

# Dropped at the end of a model: explanations speak of logits.
FINAL = {"log_softmax", "softmax"}


def check_final(*args: Any, **kwargs: Any) -> None:
    """A softmax over classes."""
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if dim not in (None, 1, -1):
        raise Unsupported(f"a softmax over nodes (dim={dim}) mixes all nodes of the graph; use dim=-1.")


def check_dropout(*args: Any, **kwargs: Any) -> None:
    """Dropout does nothing at evaluation; one that stays active makes the model random."""
    settings = dict(zip(("x", "p", "training", "inplace"), args, strict=False)) | kwargs
    if settings.get("training", True) and settings.get("p", 0.5) > 0:
        raise Unsupported(
            "dropout is active although the model is in eval mode, so its output is random; "
            "pass `training=self.training`."
        )

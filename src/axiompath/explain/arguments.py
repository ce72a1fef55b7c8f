"""A class whose methods answer questions -> the same, with an unknown argument refused by what was probably meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from ..errors import WrongKind

# What other libraries call it.
MEANT = {
    "budget": ("top", "k", "n", "n_paths", "num_paths", "max_paths", "top_k", "size"),
    "target": ("node", "node_idx", "node_id", "index", "graph", "link", "edge", "pair"),
    "targets": ("nodes", "node", "graphs", "links", "indices"),
    "seconds": ("time_limit", "timeout", "max_time"),
    "by": ("groupby", "group_by", "group"),
    "out": ("folder", "path", "output_dir"),
    "node_names": ("names", "labels"),
    "call": ("forward", "wrapper"),
}
T = TypeVar("T", bound=type)


def suggest_arguments(owner: T) -> T:
    """Each public method with arguments of its own refuses those that it does not have in a sentence."""
    for name, method in list(vars(owner).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, _with_suggestions(method, owner.__name__ if name == "__init__" else name))
    return owner


def _with_suggestions(method: Callable[..., Any], called: str) -> Callable[..., Any]:
    known = [name for name in inspect.signature(method).parameters if name != "self"]

    @wraps(method)
    def checked(*args: Any, **named: Any) -> Any:
        for name in named:
            if name not in known:
                raise WrongKind(_refuse(called, name, known))
        return method(*args, **named)

    return checked


def _refuse(method: str, name: str, known: list[str]) -> str:
    meant = [right for right, others in MEANT.items() if name in others and right in known]
    meant = meant or get_close_matches(name, known, n=1, cutoff=0.7)
    advice = f"use `{meant[0]}`" if meant else "it has none of that meaning"
    return f"Expected the arguments {', '.join(known) or 'none'} of {method} (got `{name}`); {advice}."

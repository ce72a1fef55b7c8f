"""torch function -> the largest, or the least: of stacked layers, two values, a node's columns, a graph's nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from ..network import activations
from ..network.maxima import Extreme
from .elementwise import Unsupported
from .forms import Form
from .functions import MEMBERS, Marker, Place, Stack, constant_of, form_of, pool


class Positions:
    """Where a maximum was found: whole numbers, which nothing can be made of."""


def along(place: Place, x: Any, dim: Any = None, keepdim: bool = False, *, least: bool = False) -> Form:
    """Of stacked layers, of the nodes of a graph, or of a node's own columns."""
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if isinstance(x, Stack) and len(dims) == 1 and dims[0] is not None and dims[0] % 3 == x.dim and not keepdim:
        return place.bases.take_largest(x.forms, least=least)
    if isinstance(x, Form) and dims in ((0,), (-2,)):
        return pool(place, x, lambda rule: Extreme(rule, least))
    if isinstance(x, Form) and dims in ((1,), (-1,)):
        return place.bases.take_largest([x.select(np.array([i])) for i in range(x.width)], least=least)
    raise Unsupported(
        "takes a maximum over everything; only one over layers, over a node's features or over the nodes of a graph "
        "can be read."
    )


def of_two(place: Place, x: Any, y: Any, *, least: bool = False) -> Form:
    """Of two values of a node, column by column; or of one and a number."""
    x, y = (x, y) if isinstance(x, Form) else (y, x)
    if isinstance(y, Form):
        return place.bases.take_largest([x, y], least=least)
    bound = constant_of(y)
    if not isinstance(bound, float):
        return place.bases.take_largest([form_of(x), Form((), np.asarray(bound), np.size(bound), "x")], least=least)
    return place.bases.add(form_of(x), activations.clamp(high=bound) if least else activations.clamp(low=bound))


def with_positions(place: Place, x: Any, *args: Any, least: bool = False, **kwargs: Any) -> Form | tuple[Any, ...]:
    """What `max` and `min` mean by their arguments; along a dimension they say where it was found, too."""
    if "other" in kwargs or (args and isinstance(args[0], (Form, torch.Tensor))):
        return of_two(place, x, *args, *kwargs.values(), least=least)
    return along(place, x, *args, least=least, **kwargs), Positions()


def scatter_reduce(
    place: Place, zeros: Any, dim: int, index: Any, src: Any, reduce: str = "", *, include_self: bool = True
) -> Form:
    """Over the nodes of each graph."""
    one = isinstance(index, torch.Tensor) and place.shape[0] == 1 and len(index) == place.num_nodes  # a batch of zeros
    members = one or (isinstance(index, Marker) and index.kind == MEMBERS)
    if dim not in (0, -2) or not members or reduce not in ("amax", "amin") or include_self:
        raise Unsupported(
            f'pools nodes outside of a convolution, or by "{reduce}"; only a sum, mean, maximum or minimum over each '
            "graph, by `batch`, can be read; else put it into a MessagePassing module and register a reader."
        )
    return pool(place, form_of(src), lambda rule: Extreme(rule, reduce == "amin"))


LARGEST: dict[str, Callable[..., Any]] = {
    "max": with_positions,
    "min": partial(with_positions, least=True),
    "amax": along,
    "amin": partial(along, least=True),
    "maximum": of_two,
    "minimum": partial(of_two, least=True),
    "fmax": of_two,
    "fmin": partial(of_two, least=True),
    "scatter_reduce": scatter_reduce,
}

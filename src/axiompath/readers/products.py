"""torch function -> a product of forms, and what is made of it: bilinear forms, gates, powers, sums over products."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..network import activations
from .calls import array, vector
from .elementwise import Unsupported
from .forms import Form
from .functions import Place, form_of, total

HIGHEST_POWER = 4  # further factors would share ever less of the change, and nobody asked for them


def bilinear(place: Place, input1: Any, input2: Any, weight: Any, bias: Any = None) -> Form:
    """For each output k:  x W_k y' + b_k."""
    maps = array(weight)  # [outputs, width of x, width of y]
    count, wide, high = maps.shape
    x, y = form_of(input1) @ maps.transpose(1, 0, 2).reshape(wide, count * high), form_of(input2)
    joined = place.bases.multiply([x, y @ np.tile(np.eye(high), (1, count))])
    sums = np.kron(np.eye(count), np.ones((high, 1))).astype(np.float64)
    return joined @ sums + vector(bias)


def glu(place: Place, input: Any, dim: int = -1) -> Form:
    """The first half of the columns, gated by the sigmoid of the second."""
    form = form_of(input)
    if dim not in (1, -1):
        raise Unsupported("gates nodes by other nodes; only features can be gated, along the last dimension.")
    columns = np.arange(form.width)
    values, gates = form.select(columns[: form.width // 2]), form.select(columns[form.width // 2 :])
    return place.bases.multiply([values, place.bases.add(gates, activations.sigmoid())])


def power(place: Place, x: Any, exponent: Any) -> Form:
    """x times itself, a whole number of times."""
    if not isinstance(exponent, (int, float)) or exponent not in range(2, HIGHEST_POWER + 1):
        raise Unsupported(
            f"takes features to a power that is no product of them; only powers of 2 to {HIGHEST_POWER} can be read."
        )
    return place.bases.multiply([form_of(x)] * int(exponent))


def einsum(place: Place, equation: str, *operands: Any) -> Form:
    """Of two values of the same node, column by column: their product, or its sum over the columns."""
    parts = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    found = re.fullmatch(r"(\w)(\w),\1\2->\1(\2?)", equation.replace(" ", ""))
    if found is None or found[1] == found[2]:
        raise Unsupported(
            f'expected a product of two values of each node, such as "nd,nd->n" (got "{equation}"); write it with *, '
            "@ and sum."
        )
    joined = place.bases.multiply([form_of(part) for part in parts])
    return joined if found[3] else total(place, joined, -1)


PRODUCTS: dict[str, Callable[..., Form]] = {
    "bilinear": bilinear,
    "glu": glu,
    "pow": power,
    "__pow__": power,
    "square": lambda place, x: power(place, x, 2),
    "einsum": einsum,
}

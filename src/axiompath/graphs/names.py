"""Names as people hold them -> names by node number, and names of classes.

A mapping names nodes by their number: `n_id` where the graphs have it, else the row. Anything in a row (a list, an
array, a pandas Series or Index, whatever its labels) names the rows of a snapshot. With several snapshots, those of as
many rows as there are names: of one of them, or of several if their rows stand for the same nodes in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..arrays import IntArray
from ..errors import InputError

Names: TypeAlias = Mapping[int, Any] | Collection[Any]


def read_names(names: Names | None, snapshots: Sequence[IntArray]) -> dict[int, str]:
    """Name of each node by its number; `snapshots` holds the number of each row of each snapshot."""
    if names is None:
        return {}
    if isinstance(names, Mapping):
        for key in names:
            if isinstance(key, bool) or not isinstance(key, (int, np.integer)):
                raise InputError(
                    f"Expected node numbers as the keys of `node_names` (got {key!r}, of type {type(key).__name__}); "
                    "a mapping names nodes by `n_id`, or by their row where the graphs have none."
                )
        return {int(node): str(name) for node, name in names.items()}
    given = _in_a_row(names, "node_names")
    if not given:
        return {}
    fitting = [numbers for numbers in snapshots if len(numbers) == len(given)]
    if not fitting:
        sizes = " or ".join(dict.fromkeys(f"{len(numbers):,}" for numbers in snapshots))
        raise InputError(
            f"Expected a name for each row of a snapshot, {sizes} of them (got {len(given):,} names); "
            "to name some nodes only, give a mapping from node number to name."
        )
    if not all(np.array_equal(fitting[0], other) for other in fitting[1:]):
        raise InputError(
            f"Expected a mapping from `n_id` to name (got {len(given):,} names in a row, which fit the rows of several "
            "snapshots whose `n_id` differ); if they are in the order of `after`, give "
            "`dict(zip(after.n_id.tolist(), names))`."
        )
    nameless = pd.isna(pd.Series(given, dtype=object)).tolist()
    rows = zip(fitting[0].tolist(), given, nameless, strict=True)
    return {int(node): str(name) for node, name, missing in rows if not missing}


def read_class_names(names: Collection[Any] | None) -> tuple[str, ...]:
    """Names of classes 0, 1, ... from anything in a row."""
    return () if names is None else tuple(str(name) for name in _in_a_row(names, "class_names"))


def _in_a_row(names: Any, what: str) -> list[Any]:
    """The names one by one, of anything that holds them in an order."""
    unordered = isinstance(names, (str, bytes, Mapping, Set)) or not isinstance(names, Collection)
    if unordered or getattr(names, "ndim", 1) != 1:
        shown = f" of shape {tuple(names.shape)}" if hasattr(names, "shape") else ""
        raise InputError(
            f"Expected `{what}` in a row: a list, an array or a Series (got {type(names).__name__}{shown})."
        )
    for method in ("tolist", "to_pylist"):
        if hasattr(names, method):
            return list(getattr(names, method)())
    return list(names)

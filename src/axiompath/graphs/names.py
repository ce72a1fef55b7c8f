"""Names as people hold them -> names by node number, and names of classes.

A mapping names nodes by their number: `n_id` where the graphs have it, else the row. Anything in a row (a list, an
array, a pandas Series or Index, whatever its labels) names the rows of a snapshot. With several snapshots, those of as
many rows as there are names: of one of them, or of several if their rows stand for the same nodes in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..arrays import IntArray
from ..errors import InputError
from .labels import ANY, ANYTHING, BIAS, TO
from .places import Target
from .schema import Schema

Names: TypeAlias = Mapping[int, Any] | Collection[Any]
Named: TypeAlias = int | str | tuple[str, int | str]  # a node as people name it, by its type where it has one
Asked: TypeAlias = Target | str | tuple[Named, Named]  # a target as people name it


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


@dataclass(frozen=True, eq=False)
class NameIndex:
    """Which nodes a name means."""

    numbers: Mapping[str, set[int]]  # two nodes of one name where the user gave it twice
    look_up: Callable[[str], int | None] | None = None  # of stored graphs, whose names stay on disk
    schema: Schema | None = None  # where nodes have types, and are named by them, too

    def find(self, name: str) -> set[int]:
        """The numbers of all nodes of this name."""
        if name in self.numbers:
            return self.numbers[name]
        known = None if self.look_up is None else self.look_up(name)
        return set() if known is None else {known}

    def number(self, name: str) -> int:
        """The node of this name; a refusal says which names are like it."""
        found = self.find(name)
        if len(found) == 1:
            return next(iter(found))
        if found:
            raise InputError(
                f"Expected the name of one node (got {name!r}, which the nodes {' and '.join(map(str, sorted(found)))} "
                "have); give the number of the one that is meant."
            )
        if not self.numbers and self.look_up is None:
            raise InputError(
                f"Expected the number of a node (got {name!r}, and no node has a name); give `node_names` to use names."
            )
        typed = [one for one in self.numbers if one.endswith(f" {name}")] if self.schema is not None else []
        near = typed[:2] or get_close_matches(name, list(self.numbers)[:10_000], 2) or list(self.numbers)[:2]
        shown = f"; they are called {', '.join(map(repr, near))} and the like" if near else ""
        raise InputError(f"Expected the name or number of a node (got {name!r}, and no node is called that{shown}).")

    def target(self, asked: Any) -> Any:
        """A target by number, of one by name; what has no name in it is passed on."""
        asked = meant_node(() if self.schema is None else self.schema.node_types, asked)
        if isinstance(asked, str):
            return self.number(asked)
        if isinstance(asked, (tuple, list)) and len(asked) == 2 and any(isinstance(end, (str, tuple)) for end in asked):
            return tuple(self.target(end) if isinstance(end, (str, tuple)) else int(end) for end in asked)
        return asked

    def paths(self, paths: Any) -> Any:
        """Paths by number, of paths that name their nodes; those without a name are passed on."""
        if not isinstance(paths, (list, tuple, np.ndarray)) or not any(
            isinstance(cell, str) for path in paths for cell in np.ravel(np.asarray(path, dtype=object))
        ):
            return paths
        signs = {BIAS: -1, ANYTHING: ANY}
        return [
            [signs[cell] if cell in signs and not self.find(cell) else self.target(cell) for cell in path]
            for path in paths
        ]


def meant_node(types: Sequence[str], asked: Any) -> Any:
    """The name of a node that is asked for as ("author", "Ada"), the number of ("author", 5); all else as it is."""
    if not types or not isinstance(asked, tuple) or len(asked) != 2 or not isinstance(asked[0], str):
        return asked
    kind, own = asked
    if kind in types and isinstance(own, str):
        return f"{kind} {own}"
    if isinstance(own, (str, tuple)):  # two nodes
        return asked
    if kind not in types or isinstance(own, bool) or not isinstance(own, (int, np.integer)):
        raise InputError(f"Expected a node type among {', '.join(types)} and a number or name (got {asked!r}).")
    return int(own) * len(types) + types.index(kind)


def meant_target(types: Sequence[str], asked: Any) -> Any:
    """The same of a node or of a pair: a number, two of them, or what it is called."""
    found = meant_node(types, asked)
    if not types or not isinstance(found, tuple):
        return found
    ends = tuple(meant_node(types, end) for end in found)
    return TO.join(ends) if all(isinstance(end, str) for end in ends) else ends


def index_names(
    named: Iterable[tuple[int, str]],
    look_up: Callable[[str], int | None] | None = None,
    schema: Schema | None = None,
) -> NameIndex:
    """The index of pairs of number and name."""
    numbers: dict[str, set[int]] = {}
    for number, name in named:
        numbers.setdefault(name, set()).add(number)
    return NameIndex(numbers, look_up, schema)


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

"""What the records of this package share: names of what they are of, and the way back from JSON, field by field."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import FloatArray
from ..errors import InputError
from ..explain.explanation import read_target, read_task
from ..graphs.labels import ONE_WAY, TO
from ..graphs.places import NODE_UNIT, Target
from ..notebook import show
from ..origin import Origin
from ..outputs import BINARY
from ..saved import Saved
from ..trust import read_words

MOST_NAMED = 20  # changes that a sentence names


class ChangeRecord(Saved):
    """A record of changes, by their numbers: what it calls its target and their ends."""

    target: Target
    unit: str
    node_names: dict[int, str]
    kinds: tuple[str, ...]
    ends: tuple[tuple[int, int], ...]
    directed: tuple[bool, ...]  # whether a change is of one direction only; empty where a file does not say

    def name_change(self, row: int) -> str:
        """A change in words: what happened, and to what."""
        between = ONE_WAY if row < len(self.directed) and self.directed[row] else TO
        return f"{self.kinds[row]} {between.join(self.name_of(end) for end in self.ends[row] if end >= 0)}".rstrip()

    def list_changes(self) -> str:
        """The first of them in words, and how many others there are."""
        named = [self.name_change(row) for row in range(min(len(self.kinds), MOST_NAMED))]
        others = len(self.kinds) - len(named)
        return (
            "; ".join([*named, *([f"{others:,} others" if others > 1 else "one other"] if others else [])]) or "nothing"
        )

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number."""
        return self.node_names.get(node, str(node))

    @property
    def name(self) -> str:
        """The user's name of the target, else its number; of a link both ends."""
        if isinstance(self.target, tuple):
            return TO.join(map(self.name_of, self.target))
        return self.name_of(self.target) if self.unit == NODE_UNIT else str(self.target)

    @abstractmethod
    def summary(self) -> str:
        """What was found, in a few sentences."""

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(self.summary())


def read_numbers(value: Any, shape: tuple[int, ...], name: str) -> FloatArray:
    """An array of a record, of this shape."""
    array = np.asarray(value)
    if array.size == 0 and 0 in shape:
        return np.zeros(shape)
    if array.shape != shape or array.dtype.kind not in "if" or not np.isfinite(array).all():
        raise InputError(f"Expected finite numbers of shape {shape} in `{name}` (got others, or something else).")
    return array.astype(np.float64)


def read_counts(values: Mapping[str, Any], *names: str) -> dict[str, int]:
    """Whole numbers of 0 or more of a record."""
    found = {name: values[name] for name in names}
    if not all(type(value) is int and 0 <= value < 2**63 for value in found.values()):
        raise InputError(f"Expected whole numbers of 0 or more in {', '.join(names)} (got something else).")
    return found


def read_ids(value: Any, name: str) -> tuple[int, ...]:
    """Whole numbers in a row."""
    if not isinstance(value, list) or not all(type(part) is int and -1 <= part < 2**63 for part in value):
        raise InputError(f"Expected whole numbers in `{name}` (got something else).")
    return tuple(value)


def read_caption(values: Mapping[str, Any], num_logits: int) -> dict[str, Any]:
    """What every record says beside its own numbers: target, task, names, origin."""
    unit, output = read_task(values)
    output.check_width(num_logits, "the record")
    names = read_words(list(values["node_names"].values()), "node_names")
    classes = read_counts(values, "class_before", "class_after")
    if not all(label < num_logits + (output.kind == BINARY) for label in classes.values()):
        raise InputError(f"Expected classes between 0 and {num_logits - 1} (got {classes}).")
    directed = values.get("directed", [])  # of a file of the first version, none
    if (
        not isinstance(directed, list)
        or {*map(type, directed)} - {bool}
        or len(directed) not in (0, len(values["kinds"]))
    ):
        raise InputError("Expected true or false for each change in `directed` (got something else).")
    return {
        **classes,
        "directed": tuple(directed),
        "target": read_target(values["target"], unit),
        "unit": unit,
        "output": output,
        "node_names": {int(node): name for node, name in zip(values["node_names"], names, strict=True)},
        "class_names": read_words(values["class_names"], "class_names"),
        "origin": None if values["origin"] is None else Origin.from_dict(values["origin"]),
    }

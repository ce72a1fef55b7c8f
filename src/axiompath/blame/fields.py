"""What the records of this package share: plain values for JSON, and the way back, checked field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..arrays import FloatArray
from ..errors import InputError
from ..explain.explanation import read_target, read_task
from ..origin import Origin
from ..outputs import BINARY, Output
from ..trust import read_words


def to_plain(value: Any) -> Any:
    """Plain values that JSON can hold."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (Origin, Output)):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): to_plain(part) for key, part in value.items()}
    return [to_plain(part) for part in value] if isinstance(value, (tuple, list)) else value


def check_record(cls: Any, values: Any, format_name: str, version: int, word: str) -> None:
    """Whether a record holds exactly the fields of its class, under its format's name and version."""
    if not isinstance(values, dict) or values.get("format") != format_name:
        raise InputError(f"Expected a saved {word} (format {format_name!r}); got something else.")
    if type(values.get("version")) is not int or values["version"] != version:
        raise InputError(
            f"Expected version {version} of the format (got {str(values.get('version'))[:20]}); "
            "use the release of axiompath that wrote it, or save it again."
        )
    known = {item.name for item in fields(cls)}
    missing, strange = known - set(values), set(values) - known - {"format", "version"}
    if missing or strange:
        raise InputError(
            f"Expected the fields of a {word} (missing: {', '.join(sorted(missing)) or 'none'}; "
            f"unknown: {', '.join(sorted(map(str, strange))[:3]) or 'none'})."
        )


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
    names = read_words(list(values["node_names"].values()), "node_names")
    classes = read_counts(values, "class_before", "class_after")
    if not all(label < num_logits + (output.kind == BINARY) for label in classes.values()):
        raise InputError(f"Expected classes between 0 and {num_logits - 1} (got {classes}).")
    return {
        **classes,
        "target": read_target(values["target"], unit),
        "unit": unit,
        "output": output,
        "node_names": {int(node): name for node, name in zip(values["node_names"], names, strict=True)},
        "class_names": read_words(values["class_names"], "class_names"),
        "origin": None if values["origin"] is None else Origin.from_dict(values["origin"]),
    }

"""What the caller gave -> arrays the solvers can trust, or an error that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray
from ..errors import InputError, WrongKind
from ..outputs import BINARY, CLASSES, LABELS, OUTPUTS, VALUE
from .objective import SIGMOIDS, SOFTMAX, SQUARES, Problems

PARTITIONS = {CLASSES: SOFTMAX, BINARY: SIGMOIDS, LABELS: SIGMOIDS, VALUE: SQUARES}


def checked_floats(value: npt.ArrayLike, name: str, dimensions: int) -> FloatArray:
    """A contiguous float64 array with the given number of dimensions."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise WrongKind(
            f"expected {name} to be an array of numbers, got {type(value).__name__}; give a numpy array"
        ) from error
    if np.ndim(value) != dimensions:
        shape = "[m, c]" if dimensions == 2 else "[c]"
        raise InputError(
            f"expected {name} of shape {shape}, got shape {np.shape(value)}; rows are paths and columns are classes, "
            "labels or values"
        )
    return array


def check_finite(name: str, array: FloatArray) -> None:
    """Raise if an entry is NaN, infinite or beyond 1e100, naming the first one."""
    # The extremes of an array with a NaN are NaN, which fails every comparison. (A dot product is a pass
    # fewer, but it starts BLAS threads, which on a busy machine take milliseconds.)
    flat = array.reshape(-1)
    if not (np.maximum.reduce(flat, initial=0.0) <= 1e100 and np.minimum.reduce(flat, initial=0.0) >= -1e100):
        where = np.argwhere(~(np.abs(array) <= 1e100))[0].tolist()
        raise InputError(
            f"expected finite {name} below 1e100, got {array[tuple(where)]} at {where}; "
            "look for a division by zero or an overflow in the model's activations"
        )


def checked_kind(output: str, scales: npt.ArrayLike | None, c: int) -> tuple[int, FloatArray]:
    """What c columns mean, as the kernels know it, and what a unit of each is worth [c]."""
    if output not in OUTPUTS:
        raise InputError(f"expected an output among {', '.join(OUTPUTS)}, got {output!r}; choose one of these")
    if output == CLASSES and c == 1:
        raise InputError(
            "expected two classes or more, got one column; say output='binary' where it is a logit, of a yes or no, or "
            "output='value' where it is a value"
        )
    if output == BINARY and c != 1:
        raise InputError(
            f"expected one column for output 'binary', got {c}; pass output='labels' if each is a yes or no"
        )
    if scales is None:
        return PARTITIONS[output], np.ones(c)
    if output != VALUE:
        raise InputError(f"expected no scales for output {output!r}, got some; they are the units of values")
    units = checked_floats(scales, "scales", 1)
    if units.shape != (c,) or not (units > 0).all() or not np.isfinite(units).all():
        raise InputError(f"expected {c} scales above 0, one per column, got {scales!r}; they are the units of values")
    return PARTITIONS[output], units


def checked_problem(
    contributions: npt.ArrayLike,
    logits_before: npt.ArrayLike,
    logits_after: npt.ArrayLike,
    budget: int,
    output: str,
    scales: npt.ArrayLike | None,
) -> Problems:
    """Contributions [m, c] and both logits [c], of fitting shapes and finite."""
    rows = checked_floats(contributions, "contributions", 2)
    before = checked_floats(logits_before, "logits_before", 1)
    after = checked_floats(logits_after, "logits_after", 1)
    c = rows.shape[1]
    if c == 0 or before.shape != (c,) or after.shape != (c,):
        raise InputError(
            f"expected contributions [m, c] with c >= 1 and logits [c], got {rows.shape}, {before.shape} and "
            f"{after.shape}; the columns of the contributions are the classes of the logits"
        )
    for name, array in (("contributions", rows), ("logits_before", before), ("logits_after", after)):
        check_finite(name, array)
    meaning = checked_kind(output, scales, c)
    sizes = np.array([checked_budget(budget)], dtype=np.int64)
    return Problems(rows, np.array([0, len(rows)]), before[None], after[None], sizes, *meaning)


def checked_budget(budget: int) -> int:
    """A whole number of at least 0."""
    if isinstance(budget, bool | np.bool_) or not isinstance(budget, int | np.integer):
        raise WrongKind(f"expected a whole number as budget, got {budget!r}; give an int of at least 0")
    if budget < 0:
        raise InputError(f"expected a budget of at least 0, got {budget}; it is the number of paths to choose")
    return int(budget)


def checked_problems(
    contributions: Any,
    logits_before: npt.ArrayLike,
    logits_after: npt.ArrayLike,
    budgets: Sequence[int] | int,
    offsets: npt.ArrayLike | None,
    output: str,
    scales: npt.ArrayLike | None,
) -> Problems:
    """Many problems, packed."""
    before = checked_floats(logits_before, "logits_before", 2)
    t, c = before.shape
    after = checked_floats(logits_after, "logits_after", 2)
    if after.shape != before.shape:
        raise InputError(
            f"expected logits_after of the shape of logits_before, {before.shape}, got {after.shape}; "
            "give one row of logits for each problem in both"
        )
    if offsets is None:
        parts = [checked_floats(part, f"contributions[{i}]", 2) for i, part in enumerate(contributions)]
        if len(parts) != t or any(part.shape[1] != c for part in parts):
            shapes = sorted({part.shape[1] for part in parts})
            raise InputError(
                f"expected {t} arrays of contributions with {c} columns (as logits_before has), got "
                f"{len(parts)} arrays with {shapes} columns; give one array [m, c] for each row of logits"
            )
        packed = np.concatenate(parts) if parts else np.empty((0, c))
        ends = np.cumsum([0] + [len(part) for part in parts], dtype=np.int64)
    else:
        packed = checked_floats(contributions, "contributions", 2)
        ends = np.asarray(offsets, dtype=np.int64)
        if ends.shape != (t + 1,) or ends[0] < 0 or ends[-1] > len(packed) or np.any(np.diff(ends) < 0):
            raise InputError(
                f"expected offsets [{t + 1}] rising from 0 to at most {len(packed)}, got "
                f"{ends.tolist()[:4]}... of shape {ends.shape}; offsets[i] is where problem i's rows begin"
            )
        if packed.shape[1] != c:
            raise InputError(
                f"expected contributions [M, {c}], got {packed.shape}; their columns are the logits' classes"
            )
    given = [int(budgets)] if isinstance(budgets, int | np.integer) else budgets
    sizes = np.array([checked_budget(budget) for budget in given], dtype=np.int64)
    sizes = sizes.repeat(t) if given is not budgets else sizes
    if len(sizes) != t:
        raise InputError(f"expected {t} budgets, one per problem, got {len(sizes)}; or give a single number")
    for name, array in (("contributions", packed), ("logits_before", before), ("logits_after", after)):
        check_finite(name, array)
    meaning = checked_kind(output, scales, c)
    return Problems(packed[ends[0] : ends[-1]], ends - ends[0], before, after, sizes, *meaning)

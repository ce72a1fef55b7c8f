"""What undoing is to reach: the old class, another one, or a probability below a bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import BoolArray, FloatArray
from ..errors import InputError
from ..explain.question import is_number
from ..outputs import BINARY, LABELS, NO_YES, VALUE, Output


def predicted_values(output: Output, label: int, logits: FloatArray) -> FloatArray:
    """The probability of a class or label, or the value. [num_subsets]."""
    means = output.means(logits)
    if output.kind == BINARY:
        return np.asarray(means[:, 0] if label == 1 else 1.0 - means[:, 0])
    return np.asarray(means[:, label])


@dataclass(frozen=True, eq=False)
class UndoGoal:
    """What undoing is to reach: margins above 0 do, those below do not, and at 0 the model's own rule decides."""

    words: str
    margin: Callable[[FloatArray], FloatArray]  # logits [n, c] -> [n]
    reached: Callable[[FloatArray], BoolArray]  # logits [n, c] -> [n]


def find_goal(
    output: Output,
    before: FloatArray,
    after: FloatArray,
    to: int | str | None,
    below: float | None,
    names: tuple[str, ...],
) -> UndoGoal:
    """The old class again; or the class `to`; or a probability of the new class (a value) below `below`."""
    old, new = output.label_pair(before, after)

    def name(label: int) -> str:
        if output.kind == BINARY and not names:
            return NO_YES[label]
        return names[label] if label < len(names) else f"{'label' if output.kind == LABELS else 'class'} {label}"

    if below is not None:
        if to is not None:
            raise InputError("Expected `to` or `below` (got both).")
        if not is_number(below) or not math.isfinite(below) or (output.kind != VALUE and not 0 < below <= 1):
            proper = "a number" if output.kind == VALUE else "a probability, above 0 and up to 1"
            raise InputError(f"Expected `below` to be {proper} (got {below!r}).")
        what = "a value" if output.kind == VALUE else f"a probability of {name(new)}"

        def less(logits: FloatArray) -> FloatArray:
            return below - predicted_values(output, new, logits)

        return UndoGoal(f"{what} below {below:g}", less, lambda logits: less(logits) > 0)
    if output.kind == VALUE:
        raise InputError("Expected `below=` to say which value is to be undone to (got none); values have no class.")
    if output.kind == LABELS:
        if to is not None:
            raise InputError("Expected `below=`, or nothing, for labels (got `to`); each label is there or not.")
        sign = np.where(before > 0, 1.0, -1.0)
        if not ((after > 0) != (before > 0)).any():
            raise InputError(
                "Expected a prediction with a label that came or went (got the same labels as before); say with "
                f"`below=` a probability of {name(new)}, which moved the most, that is to be reached."
            )
        return UndoGoal(
            "its old labels back",
            lambda logits: (logits * sign).min(axis=1),
            lambda logits: ((logits > 0) == (before > 0)).all(axis=1),
        )
    num_classes = 2 if output.kind == BINARY else len(before)
    wanted = old if to is None else _class_number(to, num_classes, names)
    _check_flip(wanted != new)
    words = f"its old class back, {name(old)}" if to is None else name(wanted)

    def reached(logits: FloatArray) -> BoolArray:
        return np.asarray(output.decide(logits) == wanted)

    if output.kind == BINARY:
        return UndoGoal(words, lambda logits: logits[:, 0] if wanted == 1 else -logits[:, 0], reached)

    def margin(logits: FloatArray) -> FloatArray:
        others = np.delete(logits, wanted, axis=1)
        return np.asarray(logits[:, wanted] - others.max(axis=1))

    return UndoGoal(words, margin, reached)


def _class_number(to: object, num_classes: int, names: tuple[str, ...]) -> int:
    """A class by its number, or by its name."""
    if isinstance(to, str) and to in names:
        return names.index(to)
    if not isinstance(to, (int, np.integer)) or isinstance(to, bool) or not 0 <= to < num_classes:
        known = f", or one of {', '.join(names)}" if names else ""
        raise InputError(f"Expected `to` to be a class between 0 and {num_classes - 1}{known} (got {to!r}).")
    return int(to)


def _check_flip(flipped: bool) -> None:
    if not flipped:
        raise InputError(
            "Expected a prediction whose class changed (got one that already has this class); say with "
            "`to=` another class, or with `below=` a probability of the present one, that is to be reached."
        )

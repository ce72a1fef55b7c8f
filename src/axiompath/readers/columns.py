"""Recording -> what the columns of the output mean, by the model's last operation; or as the user says, if it fits."""

from __future__ import annotations

from ..errors import InputError
from ..outputs import AUTO, BINARY, CLASSES, LABELS, OUTPUTS, VALUE
from .elementwise import FINAL
from .functions import COPIES
from .tape import RecordedStep, Recording, Ref, UnreadableModel

SEPARATE = ("sigmoid", "logsigmoid", "log_sigmoid")  # at the end of a model: one answer a column, not one of several


def last_step(recording: Recording) -> RecordedStep | None:
    """The step that made the output, leaving out those that change nothing about its numbers."""
    made = {output: step for step in recording.steps for output in step.outputs}
    step = made.get(recording.output)
    while step is not None and step.operation.rstrip("_") in (*COPIES, "dropout"):
        step = made.get(step.args[0]) if step.args and isinstance(step.args[0], Ref) else None
    return step


def find_output(recording: Recording, asked: str, columns: int) -> str:
    """What the columns of a recorded output mean."""
    step = last_step(recording)
    last = "" if step is None else step.operation.rstrip("_")
    return decide_output(last, tuple(recording.values[recording.output.index].shape), asked, columns)


def decide_output(last: str, shape: tuple[int, ...], asked: str, columns: int) -> str:
    """Several raw columns are classes; one raw column may be a logit or a value, and is never guessed.

    `last` is the model's last operation.
    """
    if asked not in (AUTO, *OUTPUTS):
        known = ", ".join(repr(kind) for kind in (AUTO, *OUTPUTS))
        raise InputError(f"Expected `output` among {known} (got {asked!r}).")
    if last in FINAL:
        possible: tuple[str, ...] = (CLASSES,)
    elif last in SEPARATE:
        possible = (BINARY,) if columns == 1 else (LABELS,)
    else:
        possible = (BINARY, VALUE) if columns == 1 else (CLASSES, LABELS, VALUE)
    if asked in possible:
        return asked
    if asked != AUTO:
        ends = f"ends in `{last}`" if last in (*FINAL, *SEPARATE) else "ends in no softmax or sigmoid"
        fitting = " or ".join(f'"{kind}"' for kind in possible)
        raise InputError(
            f'Expected `output` to fit the model (got "{asked}" for one that {ends} and has {columns} '
            f"column{'s' * (columns != 1)}, which are {fitting}); leave it out, or say another."
        )
    if possible == (BINARY, VALUE):
        raise UnreadableModel(
            f"Expected to know what the one column of the model's output means (got shape {shape}, with no sigmoid at "
            f'its end); pass output="{BINARY}" where it is a logit, of a yes or no, or output="{VALUE}" where it is a '
            "value that is predicted as it is."
        )
    return possible[0]

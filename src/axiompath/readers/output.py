"""The last value of a model -> its logits, one row for each node, graph or pair, and what their columns mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from ..errors import InputError
from ..outputs import AUTO, BINARY, CLASSES, LABELS, OUTPUTS, VALUE
from .reader import Both, Reader, Step
from .refusals import UnreadableModel
from .rows import GRAPHS, LINKS, NODES
from .trace import run_again
from .values import Value

LAST = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "log_sigmoid_forward": "log_sigmoid",
    "sigmoid": "sigmoid",
}
ENDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softmax": partial(torch.softmax, dim=-1),
    "log_softmax": partial(torch.log_softmax, dim=-1),
    "sigmoid": torch.sigmoid,
    "log_sigmoid": torch.nn.functional.logsigmoid,
}
FINAL = ("softmax", "log_softmax")  # at the end of a model: one of several answers
SEPARATE = ("sigmoid", "log_sigmoid")  # at the end of a model: one answer per column, not one of several
UNCHANGED = ("detach", "alias", "clone", "native_dropout", "_to_copy")
ARRANGED = ("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze")  # of one column: in a row, or below each other


def strip_end(reader: Reader, output: Both) -> tuple[Both, str]:
    """The logits below a last softmax or sigmoid, and its name."""
    arranged, found = False, output
    while True:
        step = reader.step(found)
        if step is None or len(step.inputs) == 0:
            return output, ""
        if step.name in LAST and _of_columns(step):
            return (output, "") if arranged and "softmax" in step.name else (step.inputs[0], LAST[step.name])
        if step.name == "index_copy" and found == (reader.traces[0].output, reader.traces[1].output):
            return _strip_below(reader, step, output)
        arranged |= step.name in ARRANGED
        if step.name not in (*UNCHANGED, *ARRANGED):
            return output, ""
        found = step.inputs[0]


def _strip_below(reader: Reader, step: Step, output: Both) -> tuple[Both, str]:
    """The same of the answers of a window, which are put into the rows of its last step."""
    below, last = strip_end(reader, step.inputs[-1])
    if not last:
        return output, ""
    found = []
    for side, (trace, operation) in enumerate(zip(reader.traces, step.operations, strict=True)):
        operation = replace(operation, args=(*operation.args[:-1], below[side]))
        found.append(trace.add(run_again(trace, operation, {}), operation, trace.kinds[output[side]]))
    return (found[0], found[1]), last


def _of_columns(step: Step) -> bool:
    """Whether a last function takes each row by itself: a softmax over rows is no end."""
    dims = len(step.shapes[1])
    return "softmax" not in step.name or (step.argument(1, "dim") in (-1, dims - 1) and dims > 1)


def as_logits(reader: Reader, value: Value, output: Both) -> Value:
    """One row of columns for each node, graph or pair."""
    value = value.arranged()
    step = reader.step(output)
    assert step is not None
    kind = value.axis.root.kind
    shape = tuple(value.places[1].shape)
    if kind not in (NODES, GRAPHS, LINKS):
        raise step.refuse("is the output, which has a row for each message rather than for each node, graph or pair.")
    for side in (0, 1):
        rows = value.rows(side)
        here = rows.reshape(len(rows), -1) if rows.ndim and rows.size else rows.reshape(1, -1)
        if value.axis.sizes[side] == 1 and len(here) != 1:
            here = here.reshape(1, -1)
        expected = np.arange(value.axis.sizes[side])[:, None]
        if len(here) != value.axis.sizes[side] or (here != expected).any():
            raise step.refuse(
                f"is the output, of shape {shape}: expected one row of logits for each of {value.axis.sizes[side]} "
                f"{kind}, in their order."
            )
    return value


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

"""A file of your own with a function `explain` -> Contender: called as documented, held to its time, its answer read.

    explain(model, before, after, target) -> scores, larger for changes that did more

It is called with those of the further arguments `changes` (the table that `Explainer.changes()` gives), `seed` and
`arguments` (what the model takes beside x and edge_index, for each side) that it names. What comes back is one finite
number per row of `changes`, or a mapping from ids of changes to numbers, or a DataFrame with a column `id` and, unless
its rows stand in order already, `score`; changes that it leaves out come last.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import torch

from axiompath.arrays import FloatArray
from axiompath.errors import InputError, MissingFile

from .contenders import Contender
from .puzzles import Puzzle

FURTHER = ("changes", "seed", "arguments")  # what a function may ask for beside model, before, after and target
FUNCTION = "explain"
AGAIN = 0.5  # seconds, to a method that is out of time and caught whatever was raised


class OutOfTime(BaseException):
    """A method took longer than it was given; no Exception, which it might catch and go on."""


def load_submission(file: Path, seconds: float) -> Contender:
    """The function `explain` of a file, run as your own code is; a refusal of an answer is an InputError."""
    if not file.is_file():
        raise MissingFile(f"Expected a Python file with a function `{FUNCTION}` (got {file}, which is none).")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise InputError(f"Expected a file whose name ends in .py (got {file}).")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"Expected {file} to be imported, but your own code failed: {_tell(error, file)}.") from error
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise InputError(f"Expected a function `{FUNCTION}(model, before, after, target)` in {file} (found none).")
    return make_contender(function, seconds, file)


def make_contender(function: Callable[..., Any], seconds: float, file: Path | None = None) -> Contender:
    """A function as documented -> Contender. It is given copies, so that nothing that it does to them matters.

    Its errors are located in `file`.
    """
    try:
        parameters = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = {}
    every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    asked = [name for name in FURTHER if every or name in parameters]

    def explain(puzzle: Puzzle, seed: int) -> FloatArray:
        changes = puzzle.evaluator.players.changes
        sides = [puzzle.before.clone(), puzzle.after.clone()]
        offered = {
            "changes": changes.copy(),
            "seed": seed,
            "arguments": [puzzle.arguments(side) for side in sides],
        }
        model, further = copy.deepcopy(puzzle.model), {name: offered[name] for name in asked}
        try:
            with torch.random.fork_rng(devices=[]), torch.enable_grad(), _within(seconds):
                torch.manual_seed(seed)
                found = function(model, *sides, puzzle.target, **further)
        except OutOfTime:
            raise InputError(f"Expected an answer within {seconds:g} seconds (got none by then).") from None
        except (Exception, SystemExit) as error:
            raise InputError(f"Expected an answer, but the method failed: {_tell(error, file)}.") from error
        return _read_answer(found, changes, file)

    return explain


def _read_answer(found: Any, changes: pd.DataFrame, file: Path | None) -> FloatArray:
    """What a method returned is its own, too: whatever cannot be read of it has failed, and ends nothing else."""
    try:
        return read_scores(found, changes)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"Expected scores (got a {type(found).__name__}, and: {_tell(error, file)}).") from error


def read_scores(found: Any, changes: pd.DataFrame) -> FloatArray:
    """What a method returned -> one score a row of `changes`."""
    number = len(changes)
    if isinstance(found, pd.DataFrame):
        if "id" not in found:
            raise InputError(
                f"Expected a DataFrame with a column `id` (got columns {', '.join(map(str, found))[:80]})."
            )
        given = found["score"].tolist() if "score" in found else list(range(len(found), 0, -1))
        found = dict(zip(found["id"].tolist(), given, strict=True))
    if isinstance(found, Mapping):
        values = _numbers(list(found.values()))
        ids = np.asarray(list(found), dtype=object)
        known = {int(one): row for row, one in enumerate(changes.id.tolist())}
        if wrong := [one for one in ids.tolist() if isinstance(one, bool) or one not in known]:
            raise InputError(f"Expected ids of the {number} changes (got {wrong[0]!r}).")
        scores = np.full(number, values.min(initial=0.0) - 1.0)
        scores[[known[one] for one in ids.tolist()]] = values
        return scores
    values = _numbers(found)
    if values.shape != (number,):
        raise InputError(f"Expected one score for each of the {number} changes (got an array of shape {values.shape}).")
    return values


def _numbers(found: Any) -> FloatArray:
    if isinstance(found, torch.Tensor) and not found.is_complex():
        found = found.detach().cpu().to_dense().double().numpy()
    wrong = InputError(f"Expected scores that are numbers (got {type(found).__name__}).")
    try:
        given = np.asarray([] if found is None else found)
        if given.dtype.kind not in "biufO":  # neither complex numbers nor dates are scores
            raise wrong
        values = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if not np.isfinite(values).all():
        raise InputError("Expected finite scores (got nan or infinity).")
    return values


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """OutOfTime is raised in what runs inside after so long, where the system has alarms; in the main thread."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    held = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, held)


def _tell(error: BaseException, file: Path | None) -> str:
    """An error, and the line of the method's own file that led to it, however deep in a library it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if file is not None and Path(frame.filename).resolve() == file.resolve()]
    where = f" ({file.name}, line {lines[-1]})" if file is not None and lines else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}{where}"

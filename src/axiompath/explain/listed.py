"""Listed paths of many targets + question -> Choices, all at once: no more is made of a target than rows of columns."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..selection.choice import FEWEST, STATUS, solve_many
from .candidates import ListedPaths
from .choices import Choices, Chosen
from .question import Question


def choose_listed(change: Change, listed: ListedPaths, question: Question) -> Choices:
    """The choice of every target from its own list."""
    found, shares, output = listed.found, listed.shares, change.output
    before, after = ends_of(change, found.targets, question.objective)
    solved = solve_many(
        shares.contributions,
        before,
        after,
        question.budget,
        question.method,
        question.objective,
        question.at_most,
        found.indptr,
        output=output.kind,
        scales=output.scales,
        until=question.until,
    )
    taken = solved.chosen >= 0
    owner = np.repeat(np.arange(len(found.targets)), np.diff(solved.chosen_starts))[taken]
    lengths = np.bincount(owner, minlength=len(found.targets))
    rows = found.indptr[owner] + solved.chosen[taken]
    residuals, bounds, _, outcomes, fewest = solved.numbers.T
    status = _words(STATUS, outcomes)
    if question.until is not None:
        shown = (_words(FEWEST, fewest), lengths, _explained(change, found.targets, question, residuals))
        status = status + np.array([question.tell_fewest(*of_one) for of_one in zip(*shown, strict=True)], dtype=object)
    return Choices(
        found.targets,
        Chosen(
            np.concatenate([[0], np.cumsum(lengths)]),
            found.paths[rows],
            shares.contributions[rows],
            solved.weights[rows],
            shares.kinds[rows],
        ),
        np.full(len(lengths), question.budget) if question.until is None else lengths,
        np.diff(found.indptr).astype(object),
        residuals,
        bounds,
        status,
        shares.causes,
        (),
    )


def ends_of(change: Change, rows: IntArray, objective: str) -> tuple[FloatArray, FloatArray]:
    """What a choice is to lead from and to; the share of another model is a row that every choice includes."""
    before, after, fixed = change.logits_before[rows], change.logits_after[rows], change.model_share(rows)
    return (before + fixed, after) if objective == "sufficiency" else (before, after - fixed)


def wholes_of(change: Change, rows: IntArray, objective: str) -> FloatArray:
    """What choosing nothing leaves of each target's change."""
    before, after = ends_of(change, rows, objective)
    return change.output.divergence(*((after, before) if objective == "sufficiency" else (before, after)))


def _explained(change: Change, rows: IntArray, question: Question, residuals: FloatArray) -> list[float]:
    wholes = wholes_of(change, rows, question.objective)
    return [change.output.explained(*pair) for pair in zip(wholes.tolist(), residuals.tolist(), strict=True)]


def _words(words: dict[int, str], codes: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    table = np.array([words.get(code, "") for code in range(1 + max(words))], dtype=object)
    return np.asarray(table[codes.astype(np.int64)])

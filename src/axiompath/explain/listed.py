"""Listed paths of many targets + question -> Choices, all at once: no more is made of a target than rows of columns."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..selection.batch import Answers
from ..selection.choice import FEWEST, STATUS, solve_many
from .candidates import ListedPaths
from .choices import Choices, Chosen, words_of
from .pools import Pools
from .question import Question
from .remains import ends_of, gross_left, told_weights


def choose_listed(change: Change, listed: ListedPaths, question: Question) -> Choices:
    """The choice of every target from its own list."""
    found, shares = listed.found, listed.shares
    pools = Pools(found.indptr, found.paths, shares.contributions, shares.kinds)
    solved = solve_pools(change, found.targets, pools, question)
    chosen = take_chosen(pools, solved)
    residuals, bounds, _, outcomes, fewest = np.ascontiguousarray(solved.numbers.T)
    return Choices(
        found.targets,
        chosen,
        np.full(len(pools.lengths), question.budget) if question.until is None else np.diff(chosen.indptr),
        pools.lengths.astype(object),
        residuals,
        bounds,
        words_of(STATUS, outcomes),
        words_of(FEWEST, fewest),
        shares.causes,
        (),
        _left_out(change, found.targets, pools, chosen),
    )


def _left_out(change: Change, rows: IntArray, pools: Pools, chosen: Chosen) -> FloatArray:
    """What the paths of each pool that are not chosen add to what is told and take away from it, [num_pools, 2]."""
    found = np.zeros((len(rows), 2))
    for i, weights in enumerate(told_weights(change, rows)):
        every = pools.contributions[pools.indptr[i] : pools.indptr[i + 1]]
        found[i] = gross_left(every, chosen.contributions[chosen.indptr[i] : chosen.indptr[i + 1]], weights)
    return found


def solve_pools(change: Change, rows: IntArray, pools: Pools, question: Question, method: str | None = None) -> Answers:
    """The answer of the question, or of another method, for every pool; in one compiled call."""
    method = method or question.method
    return solve_many(
        pools.contributions,
        *ends_of(change, rows, question.objective),
        question.budget,
        method,
        question.objective,
        question.at_most,
        pools.indptr,
        output=change.output.kind,
        scales=change.output.scales,
        until=question.until,
    )


def take_chosen(pools: Pools, solved: Answers) -> Chosen:
    """The chosen paths of every pool."""
    taken = solved.chosen >= 0
    owner = np.repeat(np.arange(len(pools.lengths)), np.diff(solved.chosen_starts))[taken]
    rows = pools.indptr[owner] + solved.chosen[taken]
    return Chosen(
        np.searchsorted(owner, np.arange(len(pools.indptr))),
        pools.paths[rows],
        pools.contributions[rows],
        solved.weights[rows],
        pools.kinds[rows],
    )

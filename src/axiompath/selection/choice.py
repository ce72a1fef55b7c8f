"""Contributions + logits + budget -> Selection: the few paths that best carry `before` to `after`.

Public entry points: `select` for one problem, `select_budgets` for one problem at several budgets,
`select_many` for many problems in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..outputs import CLASSES, Output
from ..storage.notebook import show
from ..storage.origin import RELEASE, Origin, digest_of
from .objective import Problems
from .problem import checked_budget, checked_problem, checked_problems
from .solve import (
    FEWER_MAY,
    INACCURATE,
    METHODS,
    MISSED,
    NO_FEWER,
    PROVED,
    RANKED,
    RELAXED,
    ROUNDED,
    SEARCHED,
    SOLVED,
    UNASKED,
    UNKNOWN,
    UNRESOLVED,
    Answers,
    Way,
    solve,
    solve_in_turn,
)

OBJECTIVES = ("sufficiency", "necessity")
DEFAULT_METHOD = "exact"  # of everything that chooses paths; `convex` is the paper's
STATUS = {
    SOLVED: "optimal: the relaxation is solved to 1e-10 of the whole change, and its n heaviest paths are taken; "
    "method='exact' searches for a better choice.",
    ROUNDED: "rounded: the relaxation is solved as far as rounding lets it, and no choice can be better by more than "
    "`gap`; the paths' contributions are so large beside the change that their rounding counts.",
    INACCURATE: "inaccurate: the relaxation stopped early, so the bound is loose, but it holds; logits or "
    "contributions span too many orders of magnitude, and dividing very large ones by a common temperature may help.",
    PROVED: "optimal: no choice of this size leaves less, to 1e-10 of the whole change.",
    SEARCHED: "searched: no better choice was found, and none can be better by more than `gap`.",
    RANKED: "ranked: nothing was optimised; method='exact' looks for the best choice.",
    UNRESOLVED: "unresolved: the prediction moved by less than rounding the logits can move it, so no choice of paths "
    "means anything; the numbers are those of the logits as given.",
    UNKNOWN: "unknown: a number left the range of floats, so nothing is certified; "
    "divide logits and contributions by a common temperature and try again.",
}
FEWEST = {UNASKED: "", NO_FEWER: "proved", FEWER_MAY: "found", MISSED: "missed"}


@dataclass(frozen=True, eq=False)
class Selection:
    """The paths chosen for one target, and how good the choice is.

    Divergences are in nats: KL(P_after || P_before with the chosen paths added) for sufficiency,
    KL(P_before || P_after with the chosen paths taken away) for necessity. Of labels they are summed up; of values they
    are half the squared distance, each column in units of its scale.
    """

    method: str
    objective: str
    budget: int
    """The number of paths asked for, or where the fewest that are enough were, found. All, if there are fewer."""
    chosen: IntArray
    """[n] indices into the contributions, most important first."""
    weights: FloatArray
    """[m] x of the relaxation (convex, exact), or 1 for the chosen and 0 for the others."""
    kl_residual: float
    """The divergence that remains with the chosen paths."""
    kl_bound: float
    """No choice of this size (with at_most: of at most this size) leaves less. Certified, never negative."""
    gap: float
    """kl_residual - kl_bound: no choice of this size is better by more."""
    status: str
    """A word, then a sentence that says what to try."""
    iterations: int
    """Newton steps of the relaxation; 0 for the ranking methods."""
    fewest: str = ""
    """Where the fewest that are enough were asked for: "proved" (no fewer are, of a ranking no shorter start of it),
    "found" (fewer may be) or "missed" (as many as were allowed are not)."""
    origin: Origin | None = None
    """What it is of, where `select` was asked: the release, and digests of the contributions and both logits."""

    def __repr__(self) -> str:
        """How many were chosen, of how many, and how good that is."""
        return (
            f"Selection: {len(self.chosen)} of {len(self.weights):,} paths by {self.method} ({self.objective}) leave "
            f"{self.kl_residual:.4g} nats; no choice of this size leaves less than {self.kl_bound:.4g}. {self.status}"
        )

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(repr(self))


def select(
    contributions: npt.ArrayLike,
    logits_before: npt.ArrayLike,
    logits_after: npt.ArrayLike,
    budget: int,
    method: str = DEFAULT_METHOD,
    objective: str = "sufficiency",
    at_most: bool = False,
    output: str = CLASSES,
    scales: npt.ArrayLike | None = None,
) -> Selection:
    """Choose `budget` of the m paths with the given contributions [m, c].

    Exactly `budget` paths are chosen (all m if there are fewer), as in the paper; with `at_most`, which the
    methods `convex` and `exact` offer, the best of what the method chooses for 0, 1, ..., `budget` paths, the fewest
    among equals.

    `output` says what the c columns mean: "classes" (of one softmax), "binary" (one logit), "labels" (a logit each) or
    "value" (as they are, in units of `scales` [c], or of 1).
    """
    problems = checked_problem(contributions, logits_before, logits_after, budget, output, scales)
    way = checked_way(method, objective, at_most)
    given = {
        "contributions": problems.contributions,
        "logits_before": problems.before[0],
        "logits_after": problems.after[0],
    }
    if scales is not None:
        given["scales"] = problems.scales
    origin = Origin(RELEASE, {name: digest_of(array) for name, array in given.items()})
    return _unpack(problems, way, solve(problems, way, threaded=False), origin)[0]


def select_budgets(
    contributions: npt.ArrayLike,
    logits_before: npt.ArrayLike,
    logits_after: npt.ArrayLike,
    budgets: Sequence[int],
    method: str = DEFAULT_METHOD,
    objective: str = "sufficiency",
    at_most: bool = False,
    output: str = CLASSES,
    scales: npt.ArrayLike | None = None,
) -> list[Selection]:
    """One Selection for each budget, in the order given, each solve starting from the one before it."""
    problem = checked_problem(contributions, logits_before, logits_after, 0, output, scales)
    way = checked_way(method, objective, at_most)
    sizes = np.array([checked_budget(budget) for budget in budgets], dtype=np.int64)
    found = []
    for size, answers in zip(sizes, solve_in_turn(problem, way, sizes), strict=True):
        found += _unpack(problem._replace(budgets=np.array([size])), way, answers)
    return found


def select_many(
    contributions: Any,
    logits_before: npt.ArrayLike,
    logits_after: npt.ArrayLike,
    budgets: Sequence[int] | int,
    method: str = DEFAULT_METHOD,
    objective: str = "sufficiency",
    at_most: bool = False,
    offsets: npt.ArrayLike | None = None,
    workers: int | None = None,
    output: str = CLASSES,
    scales: npt.ArrayLike | None = None,
    until: float | None = None,
) -> list[Selection]:
    """Solve t problems in one call: the same answers as `select` one by one, bit for bit.

    Args:
        contributions: a list of t arrays [m_i, c]; or, with `offsets` [t + 1], one array [M, c] of which
            problem i owns the rows offsets[i] to offsets[i + 1].
        logits_before: [t, c].
        logits_after: [t, c].
        budgets: one for each problem, or one for all.
        method: as in `select`, like the two that follow it.
        objective: see `select`.
        at_most: see `select`.
        offsets: see `contributions`.
        workers: 1 to stay in this thread; else every core that this process may use, where that is worth it.
            The answers do not depend on it.
        output: what the columns of all of them mean, as in `select`.
        scales: [c]; see `select`.
        until: choose the fewest paths that explain this share of the change, and no more than the budget. The answer
            is the one that exactly so many have, or where none are enough, that of the budget.
    """
    given = (contributions, logits_before, logits_after, budgets, offsets, output, scales)
    return _unpack(*_solve_given(given, checked_way(method, objective, at_most), workers, until))


def solve_many(
    contributions: Any,
    logits_before: npt.ArrayLike,
    logits_after: npt.ArrayLike,
    budgets: Sequence[int] | int,
    method: str,
    objective: str,
    at_most: bool,
    offsets: npt.ArrayLike,
    output: str,
    scales: npt.ArrayLike | None,
    until: float | None,
) -> Answers:
    """The answers of `select_many` as the columns that they are; STATUS and FEWEST name what is in `numbers`."""
    given = (contributions, logits_before, logits_after, budgets, offsets, output, scales)
    return _solve_given(given, checked_way(method, objective, at_most), None, until)[2]


def checked_way(method: str, objective: str, at_most: bool) -> Way:
    """The names of a method and an objective, as the kernels know them."""
    if method not in METHODS:
        raise InputError(f"expected a method among {', '.join(METHODS)}, got {method!r}; choose one of these")
    if objective not in OBJECTIVES:
        raise InputError(f"expected objective 'sufficiency' or 'necessity', got {objective!r}; choose one of these")
    if at_most and method not in RELAXED:
        raise InputError(
            f"expected at_most=False with method {method!r}, got at_most=True; a ranking takes exactly n "
            "paths, use method='convex' or 'exact'"
        )
    return Way(method, objective == "necessity", bool(at_most))


def _solve_given(
    given: tuple[Any, ...], way: Way, workers: int | None, until: float | None
) -> tuple[Problems, Way, Answers]:
    problems = checked_problems(*given)
    if workers is not None and workers < 1:
        raise InputError(f"expected at least 1 worker, got {workers}; leave it out to use every processor")
    if until is not None:
        way = way._replace(left=Output(given[-2]).left_at(until))
    return problems, way, solve(problems, way, threaded=workers != 1)


def _unpack(problems: Problems, way: Way, answers: Answers, origin: Origin | None = None) -> list[Selection]:
    found = []
    for i, (residual, bound, iterations, outcome, fewest) in enumerate(answers.numbers.tolist()):
        members = answers.chosen[answers.chosen_starts[i] : answers.chosen_starts[i + 1]]
        found.append(
            Selection(
                method=way.method,
                objective=OBJECTIVES[way.necessity],
                budget=int(problems.budgets[i]) if way.left is None else len(members),
                chosen=members,
                weights=answers.weights[problems.offsets[i] : problems.offsets[i + 1]],
                kl_residual=residual,
                kl_bound=bound,
                gap=residual - bound,
                status=STATUS[int(outcome)],
                iterations=int(iterations),
                fewest=FEWEST[int(fewest)],
                origin=origin,
            )
        )
    return found

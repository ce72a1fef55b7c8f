"""Candidates + question -> Choices: the chosen paths of all targets of a batch, not replayed yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..paths.table import PathTable, concatenate, list_order
from ..selection.choice import FEWEST, STATUS, solve_many
from ..selection.solve import Answers
from .candidates import Candidates, ListedPaths
from .question import RELAXED, Question
from .remains import column_weights, ends_of

WEIGHT_DIGITS, SHARE_DIGITS = 6, 9  # that are compared; a relaxation is solved to about 1e-10


@dataclass(frozen=True, eq=False)
class Choices:
    """Answers that differ only in their targets and budgets; the arrays run over them."""

    rows: IntArray  # of the aligned snapshots
    chosen: PathTable  # most important first, in rows of the aligned snapshots
    budget: IntArray
    num_paths: NDArray[np.object_]  # any number of them
    kl_residual: FloatArray
    kl_bound: FloatArray
    status: NDArray[np.object_]
    fewest: NDArray[np.object_]  # as in Selection
    causes: FloatArray  # [num_answers, len(KINDS), num_classes]; the model last, if it differs
    left_out: FloatArray  # [num_answers, 2]: what paths that are not chosen add and take away; nan where not known
    groups: NDArray[np.object_]  # the groups of paths among the chosen, each a tuple of Group

    def take(self, places: IntArray) -> Choices:
        """The answers in these places."""
        columns = {name: column[places] for name, column in vars(self).items() if name != "chosen"}
        return Choices(**columns, chosen=self.chosen.take(places))


def make_choices(
    source: Candidates, question: Question, chosen: PathTable, residuals: Any, bounds: Any, status: Any, fewest: Any
) -> Choices:
    """The answers about all targets of the source, without a word of groups."""
    size = len(source.rows)
    if question.method in RELAXED:
        chosen = in_order(source.change, source.rows, chosen, by_weight=question.method != "exact")
    return Choices(
        source.rows,
        chosen,
        np.full(size, int(question.budget)) if question.until is None else chosen.lengths,
        source.num_paths,
        np.asarray(residuals),
        np.asarray(bounds),
        np.asarray(status, dtype=object),
        np.asarray(fewest, dtype=object),
        source.causes,
        source.left_out(chosen) if question.depth is None else np.full((size, 2), np.nan),
        as_objects([()] * size),
    )


def in_order(change: Change, rows: IntArray, chosen: PathTable, *, by_weight: bool) -> PathTable:
    """The chosen of each target, by weight; ties by share, then by path.

    Weights and shares are compared by as many digits as no rounding reaches.
    """
    owner = chosen.owner
    shares = np.abs((chosen.contributions * column_weights(change, rows)[owner]).sum(axis=1))
    largest = np.zeros(len(rows))
    np.maximum.at(largest, owner, shares)
    size = np.where(largest > 0, largest, 1.0)[owner]
    weights = np.round(chosen.weights, WEIGHT_DIGITS) if by_weight else np.zeros(len(owner))
    place = np.argsort(list_order(chosen.paths, owner))
    order = np.lexsort((place, -np.round(shares / size, SHARE_DIGITS), -weights, owner))
    return chosen.take_rows(order)


def join_choices(parts: Sequence[Choices]) -> Choices:
    """The answers of all of them, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {}
    for item in fields(Choices):
        some = [getattr(part, item.name) for part in parts]
        columns[item.name] = concatenate(some) if item.name == "chosen" else np.concatenate(some)
    return Choices(**columns)


def choose_listed(listed: ListedPaths, question: Question) -> Choices:
    """The choice of every target from its own list."""
    solved = solve_pools(listed.change, listed.rows, listed.table, question)
    residuals, bounds, _, outcomes, fewest = np.ascontiguousarray(solved.numbers.T)
    found = residuals, bounds, words_of(STATUS, outcomes), words_of(FEWEST, fewest)
    return make_choices(listed, question, take_chosen(listed.table, solved), *found)


def solve_pools(
    change: Change, rows: IntArray, pools: PathTable, question: Question, method: str | None = None
) -> Answers:
    """The answer of the question, or of another method, for every pool; in one compiled call."""
    return solve_many(
        pools.contributions,
        *ends_of(change, rows, question.objective),
        question.budget,
        method or question.method,
        question.objective,
        question.at_most,
        pools.indptr,
        output=change.output.kind,
        scales=change.output.scales,
        until=question.until,
    )


def take_chosen(pools: PathTable, solved: Answers) -> PathTable:
    """The chosen paths of every pool."""
    first = np.repeat(pools.indptr[:-1], np.diff(solved.chosen_starts))
    return replace(pools, weights=solved.weights).take_rows(first + solved.chosen)


def words_of(words: Mapping[int, str], codes: FloatArray) -> NDArray[np.object_]:
    """What each code says."""
    table = np.array([words.get(code, "") for code in range(1 + max(words))], dtype=object)
    return np.asarray(table[codes.astype(np.int64)])


def as_objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """An array with one of these in each place, whatever they are."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found

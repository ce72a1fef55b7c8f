"""Change + targets + question -> Records of Explanations: the one road, under everything that explains.

Paths that were listed are chosen from as they are (`listed`). Where there are more, those that matter are searched for
(`searched`).

A rival ranks all paths of `after` by its own lights, altered or not, and what it picks is judged here like any choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..paths.bundles import count_ends, count_members, cut_at, widen
from ..rivals import RIVALS
from ..selection import Selection, select_budgets
from .candidates import Batch, Candidates, Held, ListedPaths, Pool, Priced
from .choices import Choices, Chosen, merge_choices
from .depths import choose_units
from .explanation import Caption
from .group import Group
from .listed import choose_listed
from .members import find_groups, tell_units
from .question import AUTO_DEPTH, Question
from .records import Records, make_records
from .relaxation import MAX_PASSES, OFFERED, choose_budgets, choose_searched
from .remains import ends_of, first_enough, gross_left, residuals_of, told_weights, wholes_of
from .retrained import measure
from .searched import search_rows
from .walks import Walks, is_priced, walk_rows

JUDGED = "ranked: chosen by what matters on `after` alone; method='exact' looks for what explains the change."

Ranking = Callable[[Change, int, int, int], tuple[IntArray, FloatArray]]  # change, row, n, class -> paths, scores


@dataclass(frozen=True, eq=False)
class _Choice:
    """Chosen paths of one target, most important first, not replayed yet."""

    question: Question
    source: Candidates
    pool: Pool
    weights: FloatArray  # [n]
    kl_residual: float
    kl_bound: float
    status: str
    fewest: str = ""  # as in Selection


def explain_rows(change: Change, walks: Walks, question: Question, caption: Caption) -> Iterator[Records]:
    """Answers about the targets, in order and lazily, as many at a time as are walked together."""
    for places in walks.batches():
        yield answer(change, open_batch(change, walks.rows[places], walks.counts[places]), [question], caption)


def open_batch(change: Change, rows: IntArray, counts: NDArray[Any] | None = None) -> Batch:
    """The altered paths of each target: listed now, or to be searched where `counts` says how many there are."""
    many = np.zeros(len(rows), dtype=np.bool_) if counts is None else counts > 0
    listed = None if many.all() else ListedPaths(*walk_rows(change, rows[~many]))
    searched = None
    if counts is not None and many.any():
        searched = search_rows(change, rows[many], counts[many].astype(object))
    return Batch(listed, searched, np.concatenate([np.flatnonzero(~many), np.flatnonzero(many)]))


def answer(
    change: Change,
    batch: Batch,
    questions: Sequence[Question],
    caption: Caption,
    rank: Ranking | None = None,
) -> Records:
    """Answers about the targets of one batch, one a question; the questions differ in their budgets alone.

    `rank` hands in a ranking of paths of `after` that is none of RIVALS, in place of the questions' method.
    """
    assert questions
    assert len(batch.places)
    first = questions[0]
    rank = rank or RIVALS.get(first.method)
    if first.depth is not None:
        each = [_choose_units(change, source, question) for source in batch.sources for question in questions]
    elif rank is not None:
        each = [choice for source in batch.sources for choice in _choose_ranked(change, source, questions, rank)]
    elif len(questions) == 1:
        return _explain(change, _choose_at_once(change, batch, first), first, caption)
    else:
        parts = [part for source in batch.sources for part in _choose_budgets(change, source, questions)]
        return _explain(change, merge_choices(parts, np.arange(len(parts))), first, caption)
    return _explain(change, _gather(change, each), first, caption)


def _choose_at_once(change: Change, batch: Batch, question: Question) -> Choices:
    """Listed ones in one compiled call, the others round by round."""
    parts = [choose_listed(change, batch.listed, question)] if batch.listed is not None else []
    if batch.searched is not None:
        parts.append(choose_searched(batch.searched, question))
    return merge_choices(parts, batch.places)


def _choose_budgets(change: Change, source: Candidates, questions: Sequence[Question]) -> Iterator[Choices]:
    """One target at several budgets, each solved from where the last one ended."""
    if isinstance(source, Priced):
        yield from choose_budgets(source.searched, questions)
        return
    assert isinstance(source, Held)
    first, output = questions[0], change.output
    (before,), (after,) = ends_of(change, np.array([source.row]), first.objective)
    budgets, rule = [question.budget for question in questions], (first.method, first.objective, first.at_most)
    found = select_budgets(source.pool.contributions, before, after, budgets, *rule, output.kind, output.scales)
    for question, selection in zip(questions, found, strict=True):
        yield _gather(change, [_from_selection(question, source, source.pool, selection)])


def _choose_units(change: Change, source: Candidates, question: Question) -> _Choice:
    """Groups of paths that end alike: of the asked depth, or opened where that leaves less."""
    if question.depth == AUTO_DEPTH:
        units, selection = choose_units(change, source.row, question)
        choice = _from_selection(question, source, units, selection)
    else:
        assert isinstance(question.depth, (int, np.integer))
        above, number = cut_at(change, int(question.depth)), count_ends(change, int(question.depth))[[source.row]]
        counts = np.where(is_priced(number, question), number, 0)
        found = _choose_at_once(above, open_batch(above, np.array([source.row]), counts), replace(question, depth=None))
        chosen, paths = found.chosen, widen(found.chosen.paths, change.network.num_positions)
        real = np.flatnonzero(count_members(change, paths) > 0)
        told = f" The bound is that of a choice among {number[0]:,} units: ends of {question.depth} hops, and paths."
        choice = _Choice(
            question,
            source,
            Pool(paths, chosen.contributions, chosen.kinds).take(real),
            chosen.weights[real],
            float(found.kl_residual[0]),
            float(found.kl_bound[0]),
            f"{found.status[0]}{told}",
            found.fewest[0],
        )
    return replace(choice, pool=tell_units(change, source.row, choice.pool))


def pool_bytes(change: Change, question: Question) -> float:
    """What choosing without a list holds beside a search at most: a pool, and multipliers of what was just found."""
    network = change.network
    widest = max(layer.width for layer in network.layers)
    pool = 8 * (network.num_classes + network.num_positions) * MAX_PASSES / 4
    return 8.0 * (pool + 5 * network.num_classes * widest) * (OFFERED + question.budget)


def _from_selection(question: Question, source: Candidates, pool: Pool, selection: Selection) -> _Choice:
    chosen, numbers = selection.chosen, (selection.kl_residual, selection.kl_bound, selection.status)
    return _Choice(question, source, pool.take(chosen), selection.weights[chosen], *numbers, selection.fewest)


def _choose_ranked(
    change: Change, source: Candidates, questions: Sequence[Question], rank: Ranking
) -> Iterator[_Choice]:
    """A rival's own order, judged by the shares of those of its paths that are altered."""
    before, after = change.before_pass.logits[source.row], change.after_pass.logits[source.row]
    most = max(int(question.budget) for question in questions)
    ranked = source.find(rank(change, source.row, most, change.output.column(change.output.told(before, after)[1]))[0])
    residuals = residuals_of(change, source.row, questions[0].objective, ranked.contributions)
    for question in questions:
        number, fewest = min(question.budget, len(ranked.paths)), ""
        if question.until is not None:
            number, fewest = first_enough(residuals, number, change.output.left_at(question.until))
        numbers = (float(residuals[number]), 0.0, f"{JUDGED}{source.told}", fewest)
        yield _Choice(question, source, ranked.take(slice(number)), np.ones(number), *numbers)


def _gather(change: Change, choices: Sequence[_Choice]) -> Choices:
    """Answers that were found one by one, as columns."""
    pools, asked = [choice.pool for choice in choices], [choice.question for choice in choices]
    lengths = np.array([len(pool.paths) for pool in pools])
    return Choices(
        np.array([choice.source.row for choice in choices]),
        Chosen(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([pool.paths for pool in pools]),
            np.concatenate([pool.contributions for pool in pools]),
            np.concatenate([choice.weights for choice in choices]),
            np.concatenate([pool.kinds for pool in pools]),
        ),
        np.where([question.until is None for question in asked], [int(question.budget) for question in asked], lengths),
        np.array([choice.source.num_paths for choice in choices], dtype=object),
        np.array([choice.kl_residual for choice in choices]),
        np.array([choice.kl_bound for choice in choices]),
        np.array([choice.status for choice in choices], dtype=object),
        np.array([choice.fewest for choice in choices], dtype=object),
        np.stack([choice.source.causes for choice in choices]),
        [_tell_groups(change, choice) for choice in choices] if asked[0].depth is not None else (),
        np.array([_left_out(change, choice) for choice in choices]),
    )


def _left_out(change: Change, choice: _Choice) -> tuple[float, float]:
    """What paths that are not chosen add and take away; nan where they are not listed, or groups are chosen."""
    if not isinstance(choice.source, Held) or choice.question.depth is not None:
        return np.nan, np.nan
    (weights,) = told_weights(change, np.array([choice.source.row]))
    return gross_left(choice.source.pool.contributions, choice.pool.contributions, weights)


def _explain(change: Change, choices: Choices, question: Question, caption: Caption) -> Records:
    """The records, in the user's node numbers; both replays of all choices at once."""
    if question.until is not None:
        wholes = wholes_of(change, choices.rows, question.objective).tolist()
        pairs = zip(wholes, choices.kl_residual.tolist(), strict=True)
        shares = [change.output.explained(whole, left) for whole, left in pairs]
        told = zip(choices.fewest, np.diff(choices.chosen.indptr).tolist(), shares, strict=True)
        choices = replace(choices, status=choices.status + [question.tell_fewest(*one) for one in told])
    measured = measure(change, choices.rows, choices.chosen.owners, choices.chosen.paths)
    return make_records(change, choices, question, measured, caption)


def _tell_groups(change: Change, choice: _Choice) -> tuple[Group, ...]:
    before, after = change.before_pass.logits[choice.source.row], change.after_pass.logits[choice.source.row]
    weights = change.output.weights(*change.output.told(before, after), len(before))
    return find_groups(change, choice.source, choice.pool, weights)

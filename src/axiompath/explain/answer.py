"""Change + targets + question -> Explanations: the one road, under everything that explains.

Paths that were listed are chosen from as they are (`choices`). Where there are more, those that matter are searched for
(`relaxation`).

A rival ranks all paths of `after` by its own lights, altered or not, and what it picks is judged here like any choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..baselines import BASELINES
from ..change.comparison import Change
from ..paths.bundles import count_ends, count_members, cut_at, widen
from .candidates import Candidates, ListedPaths, Searched, search_rows
from .choices import Choices, as_objects, choose_listed, join_choices, make_choices
from .explanation import Caption, Explanation
from .groups import choose_units, find_groups, merge_units
from .question import AUTO_DEPTH, Question
from .records import explain_choices
from .relaxation import MAX_PASSES, OFFERED, choose_searched
from .remains import first_enough, residuals_of
from .walks import Walks, is_priced, walk_rows

JUDGED = "ranked: chosen by what matters on `after` only; method='exact' looks for what explains the change."

Ranking = Callable[[Change, int, int, int], tuple[IntArray, FloatArray]]  # change, row, n, class -> paths, scores


@dataclass(frozen=True, eq=False)
class Batch:
    """Targets in order: those whose paths are listed, and those that are searched."""

    listed: ListedPaths | None
    searched: Searched | None
    places: IntArray  # [num_targets]: of those that are listed, then of those that are searched

    @cached_property
    def sources(self) -> list[Candidates]:
        """Each target by itself, in order."""
        parts = [part for part in (self.listed, self.searched) if part is not None]
        opened = [part.one(i) for part in parts for i in range(len(part.rows))]
        return [opened[i] for i in np.argsort(self.places).tolist()]


def explain_rows(change: Change, walks: Walks, question: Question, caption: Caption) -> Iterator[Explanation]:
    """Answers about the targets, in order and lazily; as many are computed at a time as are walked together."""
    for places in walks.batches():
        yield from answer(change, open_batch(change, walks.rows[places], walks.counts[places]), [question], caption)


def open_batch(change: Change, rows: IntArray, counts: NDArray[Any] | None = None) -> Batch:
    """The altered paths of each target: listed now, or to be searched where `counts` says how many there are."""
    many = np.zeros(len(rows), dtype=np.bool_) if counts is None else counts > 0
    listed = None if many.all() else walk_rows(change, rows[~many])
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
) -> list[Explanation]:
    """Answers to each question about the targets of one batch; the questions differ only in their budgets.

    `rank` hands in a ranking of paths of `after` that is none of BASELINES, in place of the questions' method.
    """
    assert questions
    assert len(batch.places)
    first = questions[0]
    rank = rank or BASELINES.get(first.method)
    if first.depth is not None:
        parts = [_choose_units(source, question) for source in batch.sources for question in questions]
    elif rank is not None:
        parts = [choice for source in batch.sources for choice in _choose_ranked(source, questions, rank)]
    else:
        parts = [_choose_at_once(batch, question) for question in questions]
    return explain_choices(change, join_choices(parts), first, caption)


def _choose_at_once(batch: Batch, question: Question) -> Choices:
    """Listed ones in one compiled call, the others round by round."""
    parts = [choose_listed(batch.listed, question)] if batch.listed is not None else []
    if batch.searched is not None:
        parts.append(choose_searched(batch.searched, question))
    return parts[0] if len(parts) == 1 else join_choices(parts).take(np.argsort(batch.places))


def _choose_units(source: Candidates, question: Question) -> Choices:
    """Groups of paths of one target that end alike: of the asked depth, or opened where that leaves less."""
    change, row = source.change, int(source.rows[0])
    if question.depth == AUTO_DEPTH:
        choice = choose_units(source, question)
    else:
        assert isinstance(question.depth, (int, np.integer))
        above, number = cut_at(change, int(question.depth)), count_ends(change, int(question.depth))[source.rows]
        counts = np.where(is_priced(number, question), number, 0)
        found = _choose_at_once(open_batch(above, source.rows, counts), replace(question, depth=None))
        units = replace(found.chosen, paths=widen(found.chosen.paths, change.network.num_positions))
        units = units.take_rows(count_members(change, units.paths) > 0)
        note = f" The bound is that of a choice among {number[0]:,} units: ends of {question.depth} hops, and paths."
        numbers = found.kl_residual, found.kl_bound, found.status + note, found.fewest
        choice = make_choices(source, question, units, *numbers)
    chosen = merge_units(change, row, choice.chosen)
    return replace(choice, chosen=chosen, groups=as_objects([find_groups(source, chosen)]))


def pool_bytes(change: Change, question: Question) -> float:
    """What choosing without a list holds beside a search at most: a pool, and multipliers of what was just found."""
    network = change.network
    widest = max(layer.width for layer in network.layers)
    pool = 8 * (network.num_classes + network.num_positions) * MAX_PASSES / 4
    return 8.0 * (pool + 5 * network.num_classes * widest) * (OFFERED + question.budget)


def _choose_ranked(source: Candidates, questions: Sequence[Question], rank: Ranking) -> Iterator[Choices]:
    """A rival's own order of one target's paths, judged by the shares of those that are altered."""
    change, row = source.change, int(source.rows[0])
    before, after = change.before_pass.logits[row], change.after_pass.logits[row]
    most = max(int(question.budget) for question in questions)
    ranked = source.find(rank(change, row, most, change.output.column(change.output.label_pair(before, after)[1]))[0])
    residuals = residuals_of(change, row, questions[0].objective, ranked.contributions)
    for question in questions:
        number, fewest = min(question.budget, len(ranked.paths)), ""
        if question.until is not None:
            number, fewest = first_enough(residuals, number, change.output.left_at(question.until))
        found = residuals[[number]], [0.0], [f"{JUDGED}{source.search_note(0)}"], [fewest]
        yield make_choices(source, question, ranked.take_rows(np.arange(number)), *found)

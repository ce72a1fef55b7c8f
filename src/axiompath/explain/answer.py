"""Change + targets + question -> Records of Explanations: the one road, under everything that explains.

Paths that were listed are chosen from as they are. Where there are more, those with the best prices are asked for: that
is all that those methods need that rank paths (linear, topk, deeplift), and the relaxation is solved on a pool of
candidates. With y = C'x its solution there and r the gradient of the divergence D at y, every choice x* of n among all
paths satisfies, D being convex,

    D(C'x*)  >=  D(y) - r.y + the n smallest of C r        (computed as in selection/objective.py)

and the right-hand side needs the best by one more set of prices. Where it meets D(y), the pool's solution is the
solution; until then the paths with the smallest prices C r join the pool. The bound is true whenever we stop, and where
a search is given up: prices that it did not find are replaced by what they cannot be less than.

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
from ..compiled import door
from ..outputs import Output
from ..paths.bundles import count_ends, count_members, cut_at, widen
from ..rivals import RIVALS
from ..selection import METHODS, Selection, select_budgets, select_many
from ..selection.batch import FEWER_MAY, INACCURATE, MISSED, NO_FEWER, PROVED, SEARCHED, ranking_prices
from ..selection.choice import FEWEST, STATUS
from ..selection.convex import TOLERANCE
from ..selection.objective import SOFTMAX, Dual, Goal, find_goal, fixed_part, remainder, rounding_of, tilt
from ..selection.problem import checked_kind
from .candidates import Batch, Candidates, Held, ListedPaths, Pool, Priced
from .choices import Choices, Chosen, merge_choices
from .depths import choose_units
from .explanation import Caption
from .group import Group
from .listed import choose_listed, ends_of, wholes_of
from .members import find_groups, tell_units
from .question import AUTO_DEPTH, RELAXED, Question
from .records import Records, make_records
from .retrained import measure
from .walks import Walks, is_priced, walk_rows

OFFERED = 48  # paths that a search looks for beside the budget
MAX_PASSES = 40
CLOSE = 2e-10  # of the whole change, or of what is left where that is more
# The same loops as those of a choice, called from here.
_goal_of, _tilt, _remainder, _fixed_part, _rounding_of, _ranking_prices = (
    door(loop) for loop in (find_goal, tilt, remainder, fixed_part, rounding_of, ranking_prices)
)
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
    searched = np.zeros(len(rows), dtype=np.bool_) if counts is None else counts > 0
    few, many = np.flatnonzero(~searched), np.flatnonzero(searched)
    listed = ListedPaths(*walk_rows(change, rows[few])) if len(few) else None
    priced = [Priced(change, int(rows[i]), int(counts[i])) for i in many.tolist()] if counts is not None else []
    return Batch(listed, priced, np.concatenate([few, many]))


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
        each = _choose_paths(change, batch.sources, questions)
    return _explain(change, _gather(change, each), first, caption)


def _choose_at_once(change: Change, batch: Batch, question: Question) -> Choices:
    """Listed ones in one compiled call, the others target by target."""
    parts = [choose_listed(change, batch.listed, question)] if batch.listed is not None else []
    if batch.searched:
        parts.append(_gather(change, _choose_paths(change, batch.searched, [question])))
    return merge_choices(parts, batch.places)


def _choose_paths(change: Change, sources: Sequence[Candidates], questions: Sequence[Question]) -> list[_Choice]:
    """Target by target; of several budgets, each is solved from where the last one ended."""
    choices: list[_Choice] = []
    for source in sources:
        choose = _choose_priced if isinstance(source, Priced) else _choose_held
        choices += choose(change, source, questions)  # type: ignore[arg-type]
    return choices


def _choose_units(change: Change, source: Candidates, question: Question) -> _Choice:
    """Groups of paths that end alike: of the asked depth, or opened where that leaves less."""
    if question.depth == AUTO_DEPTH:
        units, selection = choose_units(change, source.row, question)
        choice = _from_selection(question, source, units, selection)
    else:
        assert isinstance(question.depth, (int, np.integer))
        above, number = cut_at(change, int(question.depth)), count_ends(change, int(question.depth))[[source.row]]
        counts = np.where(is_priced(number, question.budget), number, 0)
        ends = open_batch(above, np.array([source.row]), counts)
        (choice,) = _choose_paths(above, ends.sources, [replace(question, depth=None)])
        paths = widen(choice.pool.paths, change.network.num_positions)
        real = np.flatnonzero(count_members(change, paths) > 0)
        pool = replace(choice.pool, paths=paths).take(real)
        told = f" The bound is that of a choice among {number[0]:,} units: ends of {question.depth} hops, and paths."
        choice = replace(
            choice,
            question=question,
            source=source,
            pool=pool,
            weights=choice.weights[real],
            status=f"{choice.status}{told}",
        )
    return replace(choice, pool=tell_units(change, source.row, choice.pool))


def pool_bytes(change: Change, question: Question) -> float:
    """What choosing without a list holds beside a search at most: the candidates and their multipliers."""
    network = change.network
    widest = max(layer.width for layer in network.layers)
    numbers = 8 * (network.num_classes + network.num_positions) + 5 * network.num_classes * widest
    return 8.0 * numbers * MAX_PASSES * (OFFERED + question.budget) / 4


def _choose_held(change: Change, source: Held, questions: Sequence[Question]) -> Iterator[_Choice]:
    """From a list."""
    first, contributions = questions[0], source.pool.contributions
    (before,), (after,) = ends_of(change, np.array([source.row]), first.objective)
    given = (first.method, first.objective, first.at_most)
    kind, scales = change.output.kind, change.output.scales
    if len(questions) > 1:
        budgets = [question.budget for question in questions]
        found = select_budgets(contributions, before, after, budgets, *given, output=kind, scales=scales)
    else:
        found = select_many(
            [contributions], before[None], after[None], first.budget, *given,
            output=kind, scales=scales, until=first.until,
        )  # fmt: skip
    for question, selection in zip(questions, found, strict=True):
        yield _from_selection(question, source, source.pool, selection)


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
    residuals = _residuals(change, source.row, questions[0].objective, ranked.contributions)
    for question in questions:
        number, fewest = min(question.budget, len(ranked.paths)), ""
        if question.until is not None:
            number, fewest = _first_enough(residuals, number, change.output.left_at(question.until))
        numbers = (float(residuals[number]), 0.0, f"{JUDGED}{source.told}", fewest)
        yield _Choice(question, source, ranked.take(slice(number)), np.ones(number), *numbers)


def _residuals(change: Change, row: int, objective: str, contributions: FloatArray) -> FloatArray:
    """What is left of a target's change with none of these paths, with the first, with the first two, ..."""
    (before,), (after,) = ends_of(change, np.array([row]), objective)
    sums = np.concatenate([np.zeros((1, len(before))), np.cumsum(contributions, axis=0)])
    return change.output.divergence(*((after, before + sums) if objective == "sufficiency" else (before, after - sums)))


def _whole(change: Change, row: int, objective: str) -> float:
    """What choosing nothing leaves."""
    return float(wholes_of(change, np.array([row]), objective)[0])


def _first_enough(residuals: FloatArray, most: int, left: float) -> tuple[int, str]:
    """How many of an order leave no more than this share of what none leave; and what is known of fewer."""
    reached = np.flatnonzero(residuals[: most + 1] <= left * residuals[0])
    return (int(reached[0]), FEWEST[NO_FEWER]) if len(reached) else (most, FEWEST[MISSED])


def _choose_priced(change: Change, source: Priced, questions: Sequence[Question]) -> Iterator[_Choice]:
    """From a pool of candidates; that of one question is where the next begins."""
    pool: Pool | None = None
    for question in questions:
        if question.until is not None:
            yield _choose_fewest(change, source, question)
            continue
        if question.method not in RELAXED:
            pool = None
        choice, pool = _choose_from_pool(change, source, question, pool)
        yield choice


def _choose_fewest(change: Change, source: Priced, question: Question) -> _Choice:
    """The fewest that leave little enough: sizes that the relaxation rules out by bisection, the others one by one."""
    most = int(min(question.budget, source.num_paths))
    fixed = replace(question, until=None, budget=most)
    left = change.output.left_at(question.until or 0.0)
    if question.method not in RELAXED:
        choice, _ = _choose_from_pool(change, source, fixed, None)
        residuals = _residuals(change, source.row, question.objective, choice.pool.contributions)
        number, fewest = _first_enough(residuals, len(choice.pool.paths), left)
        choice, _ = _choose_from_pool(change, source, replace(fixed, budget=number), None)
        return replace(choice, question=question, fewest=fewest)
    pool: Pool | None = None
    enough = left * _whole(change, source.row, question.objective)
    low, high = int(enough > 0), most
    while 0 < low < high:
        middle = (low + high) // 2
        asked = replace(fixed, budget=middle, at_most=True)
        relaxed = _relax_pool(change, source, asked, pool)
        pool = relaxed.pool
        low, high = (middle + 1, high) if relaxed.bound > enough else (low, middle)
    proved = True
    for number in range(low, most + 1):
        asked = replace(fixed, budget=number, at_most=False)
        choice, pool = _choose_from_pool(change, source, asked, pool)
        if choice.kl_residual <= enough:
            return replace(choice, question=question, fewest=FEWEST[NO_FEWER if proved else FEWER_MAY])
        proved &= choice.status.startswith(STATUS[PROVED]) or choice.kl_bound > enough
    choice, _ = _choose_from_pool(change, source, fixed, pool)
    return replace(choice, question=question, fewest=FEWEST[MISSED])


@dataclass(frozen=True, eq=False)
class _Relaxed:
    """The relaxation over all paths, solved on a pool of them."""

    pool: Pool
    value: float
    bound: float
    enough: float  # value and bound are as good as equal where they are no farther apart
    whole: float


def _relax_pool(change: Change, source: Priced, question: Question, pool: Pool | None) -> _Relaxed:
    """Candidates join the pool until none of the others could help; of a method that ranks, one round."""
    before, after = change.before_pass.logits[source.row], change.after_pass.logits[source.row]
    relaxed, sign = question.method in RELAXED, 1.0 if question.objective == "sufficiency" else -1.0
    budget = int(min(question.budget, source.num_paths))
    size = budget + OFFERED
    if pool is not None and len(pool.paths) < budget:
        pool = None
    output = change.output
    kind, scales = checked_kind(output.kind, output.scales, len(before))
    goal = _goal_of(kind, scales, *((before, after) if sign > 0 else (after, before)))
    if pool is None:
        # At first a method's own order, or the gradient where nothing is chosen yet.
        prices = sign * _dual_at(goal, np.zeros(len(before))).r / scales
        if not relaxed:
            prices = _ranking_prices(METHODS.index(question.method), goal, before, after, sign < 0)
        pool = source.best(prices, size).pool
    bound, value, enough = 0.0, 0.0, 0.0
    for _ in range(MAX_PASSES):
        weights = _select(pool, question, before, after, "convex" if relaxed else question.method, output).weights
        y = sign * (weights @ pool.contributions)
        value, dual = _remainder(goal, _moved(goal, y)), _dual_at(goal, y)
        slope = sign * dual.r / scales
        offer = source.best(slope, size)
        prices = offer.least(slope, budget)
        smallest = np.minimum(prices, 0.0) if question.at_most else prices
        rounding = _rounding_of(goal, dual, source.reach(budget))
        bound = max(bound, _fixed_part(goal, dual) + float(smallest.sum()) - rounding)
        enough = max(CLOSE * max(goal.whole, value), 4 * rounding)
        if not relaxed or value - bound <= enough:
            break
        joined = pool.join(offer.pool)
        if len(joined.paths) == len(pool.paths):
            break  # nothing new: a search that was given up cannot say more
        pool = joined
    return _Relaxed(pool, value, bound, enough, goal.whole)


def _choose_from_pool(change: Change, source: Priced, question: Question, pool: Pool | None) -> tuple[_Choice, Pool]:
    before, after = change.before_pass.logits[source.row], change.after_pass.logits[source.row]
    found = _relax_pool(change, source, question, pool)
    off = found.value - found.bound
    selection = _select(found.pool, question, before, after, question.method, change.output)
    status, left = selection.status, ""
    if question.method in RELAXED and off > 2 * found.enough:
        status = STATUS[INACCURATE]
        left = f" The relaxation was left {off:.1e} from its bound."
    elif status == STATUS[PROVED] and selection.kl_residual - found.bound > TOLERANCE * max(found.whole, found.value):
        status = STATUS[SEARCHED]  # the best of the candidates, and others may be better by the gap
    bound = min(found.bound, selection.kl_residual)
    certified = replace(selection, kl_bound=bound, status=f"{status}{source.told}{left}")
    return _from_selection(question, source, found.pool, certified), found.pool


def _moved(goal: Goal, y: FloatArray) -> FloatArray:
    """v0 + y in the goal's terms."""
    if goal.kind != SOFTMAX:
        return goal.start + y / goal.scales
    y = y - y[goal.q.argmax()]  # what all classes have in common means nothing
    return np.asarray(goal.start + y - goal.q @ y)


def _dual_at(goal: Goal, y: FloatArray) -> Dual:
    dual = Dual(_moved(goal, y), np.empty(len(y)), np.empty(len(y)))
    _tilt(goal, dual)
    return dual


def _select(
    pool: Pool, question: Question, before: FloatArray, after: FloatArray, method: str, output: Output
) -> Selection:
    rule = ([question.budget], method, question.objective, question.at_most and method in RELAXED)
    (found,) = select_budgets(pool.contributions, before, after, *rule, output.kind, output.scales)
    return found


def _gather(change: Change, choices: Sequence[_Choice]) -> Choices:
    """Answers that were found one by one, as columns."""
    pools, asked = [choice.pool for choice in choices], [choice.question for choice in choices]
    lengths = np.array([len(pool.paths) for pool in pools])
    fewest = [
        question.tell_fewest(choice.fewest, len(choice.pool.paths), _share(change, choice))
        if question.until is not None
        else ""
        for question, choice in zip(asked, choices, strict=True)
    ]
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
        np.array([choice.status + said for choice, said in zip(choices, fewest, strict=True)], dtype=object),
        np.stack([choice.source.causes for choice in choices]),
        [_tell_groups(change, choice) for choice in choices] if asked[0].depth is not None else (),
    )


def _explain(change: Change, choices: Choices, question: Question, caption: Caption) -> Records:
    """The records, in the user's node numbers; both replays of all choices at once."""
    measured = measure(change, choices.rows, choices.chosen.owners, choices.chosen.paths)
    return make_records(change, choices, question, measured, caption)


def _tell_groups(change: Change, choice: _Choice) -> tuple[Group, ...]:
    before, after = change.before_pass.logits[choice.source.row], change.after_pass.logits[choice.source.row]
    weights = change.output.weights(*change.output.told(before, after), len(before))
    return find_groups(change, choice.source, choice.pool, weights)


def _share(change: Change, choice: _Choice) -> float:
    """What the chosen paths explain."""
    return change.output.explained(_whole(change, choice.source.row, choice.question.objective), choice.kl_residual)

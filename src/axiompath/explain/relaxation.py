"""Targets with too many paths to list + question -> Choices, from pools of candidates; all targets take turns together.

Those with the best prices are asked for: that is all that those methods need that rank paths (linear, topk, deeplift),
and the relaxation is solved on a pool of candidates. With y = C'x its solution there and r the gradient of the
divergence D at y, every choice x* of n among all paths satisfies, D being convex,

    D(C'x*)  >=  D(y) - r.y + the n smallest of C r        (computed as in selection/objective.py)

and the right-hand side needs the best by one more set of prices. Where it meets D(y), the pool's solution is the
solution; until then the paths with the smallest prices C r join the pool. The bound is true whenever we stop, and where
a search is given up: prices that it did not find are replaced by what they cannot be less than.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import FloatArray, IntArray
from ..paths.table import PathTable, concatenate
from ..selection.choice import FEWEST, STATUS
from ..selection.objective import Problems, Slopes, pose, ranking_prices, slopes_of
from ..selection.problem import checked_problems
from ..selection.solve import FEWER_MAY, INACCURATE, MISSED, NO_FEWER, PROVED, SEARCHED, TOLERANCE
from .candidates import Searched
from .choices import Choices, join_choices, make_choices, solve_pools, take_chosen, words_of
from .question import RELAXED, Question
from .remains import first_enough, residuals_of, wholes_of

# Paths that a search looks for beside the budget: of a method that chooses among them; else at first, and afterwards,
# where most searches prove what is known already, twice as many with every pass.
OFFERED, FIRST, LATER = 48, 24, 4
MAX_PASSES = 40
CLOSE = 2e-10  # of the whole change, or of what is left where that is more


@dataclass(frozen=True, eq=False)
class RelaxedPools:
    """The relaxation over all paths, solved on pools of them; the arrays run over the targets."""

    pools: PathTable
    value: FloatArray
    bound: FloatArray
    enough: FloatArray  # value and bound are as good as equal where they are no farther apart
    whole: FloatArray


def choose_searched(searched: Searched, question: Question) -> Choices:
    """The choice of every target."""
    if question.until is None:
        return _choose(searched, question, None)[0]
    ones = [searched.one(i) for i in range(len(searched.rows))]
    return join_choices([_choose_fewest(one, question) for one in ones])


def _choose_fewest(searched: Searched, question: Question) -> Choices:
    """The fewest that leave little enough: sizes that the relaxation rules out by bisection, the others one by one."""
    change, row = searched.change, int(searched.rows[0])
    most = int(min(question.budget, searched.num_paths[0]))
    fixed = replace(question, until=None, budget=most)
    left = change.output.left_at(question.until or 0.0)
    if question.method not in RELAXED:
        choice, _ = _choose(searched, fixed, None)
        residuals = residuals_of(change, row, question.objective, choice.chosen.contributions)
        number, fewest = first_enough(residuals, len(choice.chosen.paths), left)
        choice, _ = _choose(searched, replace(fixed, budget=number), None)
        return _with_fewest(choice, fewest)
    pools: PathTable | None = None
    enough = left * float(wholes_of(change, searched.rows, question.objective)[0])
    low, high = int(enough > 0), most
    while 0 < low < high:
        middle = (low + high) // 2
        relaxed = _relax(searched, replace(fixed, budget=middle, at_most=True), pools)
        pools = relaxed.pools
        low, high = (middle + 1, high) if relaxed.bound[0] > enough else (low, middle)
    proved = True
    for number in range(low, most + 1):
        choice, pools = _choose(searched, replace(fixed, budget=number, at_most=False), pools)
        if choice.kl_residual[0] <= enough:
            return _with_fewest(choice, FEWEST[NO_FEWER if proved else FEWER_MAY])
        proved &= choice.status[0].startswith(STATUS[PROVED]) or bool(choice.kl_bound[0] > enough)
    choice, _ = _choose(searched, fixed, pools)
    return _with_fewest(choice, FEWEST[MISSED])


def _with_fewest(choice: Choices, fewest: str) -> Choices:
    return replace(choice, fewest=np.array([fewest], dtype=object), budget=choice.chosen.lengths)


def _choose(searched: Searched, question: Question, pools: PathTable | None) -> tuple[Choices, PathTable]:
    """From pools of candidates, which may be found already; they come back."""
    found, change = _relax(searched, question, pools), searched.change
    solved = solve_pools(change, searched.rows, found.pools, question)
    residuals, _, _, outcomes, _ = np.ascontiguousarray(solved.numbers.T)
    off, left = found.value - found.bound, np.full(len(residuals), "", dtype=object)
    if question.method in RELAXED:
        # The best of the candidates, and others may be better by the gap.
        others = residuals - found.bound > TOLERANCE * np.maximum(found.whole, found.value)
        outcomes[(outcomes == PROVED) & others] = SEARCHED
        early = off > 2 * found.enough
        outcomes[early] = INACCURATE
        left[early] = [f" The relaxation was left {distance:.1e} from its bound." for distance in off[early].tolist()]
    notes = np.array([searched.search_note(i) for i in range(len(residuals))], dtype=object)
    numbers = residuals, np.minimum(found.bound, residuals)
    words = words_of(STATUS, outcomes) + notes + left, [""] * len(residuals)
    return make_choices(searched, question, take_chosen(found.pools, solved), *numbers, *words), found.pools


def _relax(searched: Searched, question: Question, pools: PathTable | None) -> RelaxedPools:
    """Candidates join the pools until none of the others could help; of a method that ranks, one round."""
    relaxed, size = question.method in RELAXED, len(searched.rows)
    budgets = np.minimum(int(question.budget), searched.num_paths).astype(np.int64)
    reach, places, many = searched.reach(budgets), np.arange(size), question.method == "exact"
    if pools is None or (pools.lengths < budgets).any():
        # At first a method's own order, or the gradient where nothing is chosen yet.
        first = budgets + (OFFERED if many else FIRST)
        pools = searched.best(places, _first_prices(searched, question), first).pools
    value, bound, enough, whole = np.zeros((4, size))
    done: list[tuple[IntArray, PathTable]] = []
    for number in range(MAX_PASSES):
        weights = solve_pools(
            searched.change, searched.rows[places], pools, question, "convex" if relaxed else None
        ).weights
        found = _slopes(searched, question, places, pools, weights, reach[places])
        beside = OFFERED if many else min(LATER << number, OFFERED)
        offers = searched.best(places, found.prices, budgets[places] + beside)
        least = offers.least(found.prices, budgets[places], question.at_most)
        value[places], whole[places] = found.value, found.whole
        bound[places] = np.maximum(bound[places], found.fixed + least - found.rounding)
        enough[places] = np.maximum(CLOSE * np.maximum(found.whole, found.value), 4 * found.rounding)
        joined = pools.join(offers.pools)
        ends = (value[places] - bound[places] <= enough[places]) | (not relaxed)
        ends |= joined.lengths == pools.lengths  # nothing new: a search that was given up cannot say more
        done.append((places[ends], pools.take(np.flatnonzero(ends))))
        places, pools = places[~ends], joined.take(np.flatnonzero(~ends))
        if len(places) == 0:
            break
    done.append((places, pools))
    order = np.argsort(np.concatenate([some for some, _ in done]))
    return RelaxedPools(concatenate([some for _, some in done]).take(order), value, bound, enough, whole)


def _problems(searched: Searched, places: IntArray, pools: PathTable) -> Problems:
    change, rows = searched.change, searched.rows[places]
    before, after = change.before_pass.logits[rows], change.after_pass.logits[rows]
    output = change.output
    return checked_problems(pools.contributions, before, after, 0, pools.indptr, output.kind, output.scales)


def _slopes(
    searched: Searched, question: Question, places: IntArray, pools: PathTable, weights: FloatArray, reach: FloatArray
) -> Slopes:
    """What the divergence is with these weights, and how it changes with any path."""
    problems = _problems(searched, places, pools)
    necessity = question.objective == "necessity"
    return slopes_of(problems, necessity, np.ascontiguousarray(weights), np.ascontiguousarray(reach))


def _first_prices(searched: Searched, question: Question) -> FloatArray:
    size, change = len(searched.rows), searched.change
    nothing = np.zeros((0, change.network.num_positions), dtype=np.int64), np.zeros((0, change.network.num_classes))
    pools = PathTable(np.zeros(size + 1, dtype=np.int64), *nothing, np.zeros(0, dtype=np.int8))
    places = np.arange(size)
    if question.method in RELAXED:
        return _slopes(searched, question, places, pools, np.zeros(0), np.zeros(size)).prices
    problems = _problems(searched, places, pools)
    return ranking_prices(problems, question.method, pose(problems, question.objective == "necessity"))

"""Puzzle + scores -> what the ranking is worth: judged by the model itself on the real graph, and by the planted truth.

With S the n first changes of the ranking, for n = 1, 2, 3, 5 and 10 as long as more than n are in sight,

    applied_n   KL(P_after || P(before with S applied))  / KL(P_after || P_before)
    undone_n    KL(P_before || P(after with S undone))   / KL(P_before || P_after)

the share of the change that is left: 0 is best, choosing nothing gives 1. A share counts as `MOST_LEFT` at most, so
that a target that hardly moved does not decide a table. `restore` is how many changes, undone in the order of the
ranking, give a flipped prediction its old class back. Of a planted cause, `first` says whether the first change is of
it, `found` how many of its k changes in sight are among the first k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from axiompath.arrays import FloatArray, IntArray

from .contenders import both_ends
from .puzzles import Puzzle

JUDGED_SIZES = (1, 2, 3, 5, 10)
MOST_LEFT = 2.0
MOST_UNDONE = 100  # changes along a ranking after which it has not restored the class


def order_of(puzzle: Puzzle, scores: FloatArray) -> IntArray:
    """The changes in sight, best first; those of equal score in an order drawn from the puzzle's number."""
    own = scores[puzzle.evaluator.rows]
    drawn = np.random.default_rng([puzzle.number, 1]).permutation(len(own))
    return np.asarray(np.lexsort((drawn, -own)))


def judge(puzzle: Puzzle, scores: FloatArray) -> dict[str, Any]:
    """Columns of the table; None where there is nothing to compare."""
    evaluator, order = puzzle.evaluator, order_of(puzzle, scores)
    number, turn = evaluator.num_changes, np.argsort(order)
    sizes = [size for size in JUDGED_SIZES if size < number]
    before, after = both_ends(evaluator)
    firsts = turn[None] < np.array(sizes, dtype=np.int64)[:, None]
    applied = _left(puzzle, after, before, evaluator.run(firsts))
    undone = _left(puzzle, before, after, evaluator.run(~firsts))
    found: dict[str, Any] = {"in_sight": number}
    for size in JUDGED_SIZES:
        known = size in sizes
        found[f"applied_{size}"] = float(applied[sizes.index(size)]) if known else None
        found[f"undone_{size}"] = float(undone[sizes.index(size)]) if known else None
    found["restore"] = _restore(puzzle, turn, before, after)
    found["first"] = found["found"] = None
    if puzzle.truth is not None:
        own = puzzle.truth[evaluator.rows]
        found["first"] = bool(own[order[0]])
        found["found"] = float(own[order[: own.sum()]].mean())
    return found


def judge_failure(puzzle: Puzzle) -> dict[str, Any]:
    """What a method gets that gave no ranking: nothing explained, nothing found."""
    found: dict[str, Any] = {"in_sight": puzzle.evaluator.num_changes}
    for size in JUDGED_SIZES:
        left = 1.0 if size < puzzle.evaluator.num_changes else None
        found |= {f"applied_{size}": left, f"undone_{size}": left}
    before, after = both_ends(puzzle.evaluator)
    flipped = bool(puzzle.evaluator.output.flipped(before[None], after[None])[0])
    found["restore"] = min(puzzle.evaluator.num_changes, MOST_UNDONE) if flipped else None
    planted = puzzle.truth is not None
    return {**found, "first": False if planted else None, "found": 0.0 if planted else None}


def _left(puzzle: Puzzle, goal: FloatArray, start: FloatArray, logits: FloatArray) -> FloatArray:
    output = puzzle.evaluator.output
    return np.minimum(output.divergence(goal, logits) / output.divergence(goal, start), MOST_LEFT)


def _restore(puzzle: Puzzle, turn: IntArray, before: FloatArray, after: FloatArray) -> int | None:
    evaluator = puzzle.evaluator
    if not evaluator.output.flipped(before[None], after[None])[0]:
        return None
    most = min(evaluator.num_changes, MOST_UNDONE)
    old = evaluator.output.label_pair(before, after)[0]
    logits = evaluator.run(turn[None] >= np.arange(1, most + 1)[:, None])
    hits = np.flatnonzero(evaluator.output.decide(logits) == old)
    return int(hits[0]) + 1 if len(hits) else most

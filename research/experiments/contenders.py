"""Puzzle -> a score for every row of `changes()`, larger for what did more: our methods, simple rivals and two oracles.

What a change adds to the logits is one number by its product with P_after - P_before: summed over a complete
split that is KL(P_after || P_before) + KL(P_before || P_after).

    blame           Shapley values of the changes
    edges           shares of edges, each path's split equally over what changed along it (`explain(by="edge")`)
    layer edges     the same layer by layer; a change counts by its largest
    paths           shares of all paths that run over a change, each in full
    chosen blame, chosen edges   the same shares, of which those are taken one by one that, added to the logits before,
                    leave least KL(P_after || P): what cancels is taken together; the model is not asked
    undo            which change undone next brings the prediction back furthest, one by one (greedy undo)
    leave one out   what undoing each change alone takes away; put in alone: what each alone does to `before`
    random          any order
    oracle          which change applied next leaves least KL(P_after || P): it sees the metric
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pandas as pd

from axiompath.arrays import BoolArray, FloatArray, IntArray
from axiompath.blame.engine import SubsetEvaluator
from axiompath.explain.explanation import EDGE, LAYER_EDGE
from axiompath.explain.units import Units, split_over
from axiompath.graphs.changes import FEATURES_CHANGED, NODE_ADDED, NODE_REMOVED

from .puzzles import Puzzle

Contender: TypeAlias = Callable[[Puzzle, int], FloatArray]  # puzzle and seed -> scores [num rows of changes()]

BLAME_SECONDS = 1.0
GREEDY_STEPS = 10  # changes that a greedy search picks one by one; the others stand as they did when it ended
NONE = -1  # the end of a change of a node


class PlacesOfChanges:
    """Which row of `changes()` an edge, or a node's features, belongs to."""

    def __init__(self, changes: pd.DataFrame) -> None:
        kinds = changes.kind.astype(str).to_numpy()
        src = changes.src.to_numpy(dtype=np.int64)
        dst = changes.dst.fillna(NONE).to_numpy(dtype=np.int64)
        self.num_rows, self.size = len(changes), int(max(src.max(initial=0), dst.max(initial=0))) + 2
        of_edge = ~np.isin(kinds, (NODE_ADDED, NODE_REMOVED, FEATURES_CHANGED))
        back = of_edge & ~changes.directed.to_numpy(dtype=np.bool_)
        rows = np.arange(len(changes))
        keys = np.concatenate([self._key(src, dst), self._key(dst, src)[back]])
        self._keys, first = np.unique(keys, return_index=True)
        self._rows = np.concatenate([rows, rows[back]])[first]
        self._carries = np.full(self.size, NONE)  # the row of a node that came or went with its edges
        whole = np.isin(kinds, (NODE_ADDED, NODE_REMOVED))
        self._carries[src[whole]] = rows[whole]

    def _key(self, src: IntArray, dst: IntArray) -> IntArray:
        return np.asarray((src + 1) * (self.size + 1) + dst + 1)

    def find(self, src: IntArray, dst: IntArray) -> IntArray:
        """The row of each edge, of a node's features where dst is -1; -1 where none of the changes is meant."""
        inside = (src < self.size) & (dst < self.size) & (src >= 0)
        src, dst = np.where(inside, src, 0), np.where(inside, dst, NONE)
        keys = self._key(src, dst)
        place = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        found = np.where(self._keys[place] == keys, self._rows[place], NONE) if len(self._keys) else keys * 0 + NONE
        for end in (src, dst):
            carried = np.where(end >= 0, self._carries[np.maximum(end, 0)], NONE)
            found = np.where(found == NONE, carried, found)
        return np.where(inside, found, NONE)

    def add(self, src: IntArray, dst: IntArray, values: FloatArray) -> FloatArray:
        """The sum of the values of each row's edges and features. [num_rows]."""
        rows, total = self.find(src, dst), np.zeros(self.num_rows)
        np.add.at(total, rows[rows >= 0], values[rows >= 0])
        return total

    def largest(self, src: IntArray, dst: IntArray, values: FloatArray) -> FloatArray:
        """The largest of these values; 0 for a row that has none."""
        rows, most = self.find(src, dst), np.full(self.num_rows, -np.inf)
        np.maximum.at(most, rows[rows >= 0], values[rows >= 0])
        return np.where(np.isfinite(most), most, 0.0)


def places_of(puzzle: Puzzle) -> PlacesOfChanges:
    """Of the changes of a puzzle."""
    return PlacesOfChanges(puzzle.evaluator.players.changes)


def both_ends(evaluator: SubsetEvaluator) -> tuple[FloatArray, FloatArray]:
    """Logits before and after."""
    ends = evaluator.run_ends()
    return ends[0], ends[1]


def direction_of(evaluator: SubsetEvaluator) -> FloatArray:
    """P_after - P_before, of every column."""
    before, after = both_ends(evaluator)
    return np.asarray(evaluator.output.means(after) - evaluator.output.means(before))


def by_blame(puzzle: Puzzle, seed: int) -> FloatArray:
    """Shapley values."""
    return np.asarray(_blame_shares(puzzle, seed) @ direction_of(puzzle.evaluator))


def by_chosen_blame(puzzle: Puzzle, seed: int) -> FloatArray:
    """Shapley values, those that make up the change together first."""
    return _choose(puzzle, _blame_shares(puzzle, seed))


def by_edges(puzzle: Puzzle, seed: int) -> FloatArray:
    """Shares of edges."""
    return np.asarray(_edge_shares(puzzle) @ direction_of(puzzle.evaluator))


def by_chosen_edges(puzzle: Puzzle, seed: int) -> FloatArray:
    """Shares of edges, those that make up the change together first."""
    return _choose(puzzle, _edge_shares(puzzle))


def by_layer_edges(puzzle: Puzzle, seed: int) -> FloatArray:
    """The largest share that a change has in one layer."""
    units = _units(puzzle, LAYER_EDGE)
    _, src, dst = units.labels.T
    return places_of(puzzle).largest(src, dst, units.contributions @ direction_of(puzzle.evaluator))


def _blame_shares(puzzle: Puzzle, seed: int) -> FloatArray:
    """Of every logit; a second each where not all subsets can be tried. [num_rows, num_columns]."""
    found = puzzle.explainer.blame(puzzle.target, seconds=BLAME_SECONDS, seed=seed)
    shares = np.zeros((len(puzzle.evaluator.players), found.shares.shape[1]))
    shares[[ids[0] for ids in found.changes]] = found.shares
    return shares


def _edge_shares(puzzle: Puzzle) -> FloatArray:
    units, places = _units(puzzle, EDGE), places_of(puzzle)
    _, src, dst = units.labels.T
    return np.stack([places.add(src, dst, column) for column in units.contributions.T], axis=1)


def _units(puzzle: Puzzle, by: str) -> Units:
    engine, (row,) = puzzle.explainer.session.locate([puzzle.target])
    return split_over(engine.change, engine.region.pair, int(row), by, puzzle.explainer.memory)[1]


def by_paths(puzzle: Puzzle, seed: int) -> FloatArray:
    """Shares of all paths over a change; a path that runs over it twice counts once."""
    found = puzzle.explainer.attribute(puzzle.target)
    places, values = places_of(puzzle), found.contributions @ direction_of(puzzle.evaluator)
    leaf = found.paths[:, 0]
    ends = [(leaf, np.full(len(leaf), NONE)), *zip(found.paths.T[:-1], found.paths.T[1:], strict=True)]
    rows = np.sort(np.stack([places.find(src, dst) for src, dst in ends], axis=1), axis=1)
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = NONE
    path, hop = np.nonzero(rows >= 0)
    total = np.zeros(places.num_rows)
    np.add.at(total, rows[path, hop], values[path])
    return total


def leave_one_out(puzzle: Puzzle, seed: int) -> FloatArray:
    """What undoing each alone takes away."""
    evaluator = puzzle.evaluator
    _, after = both_ends(evaluator)
    return _over_all(
        evaluator, (after - evaluator.run(~np.eye(evaluator.num_changes, dtype=np.bool_))) @ direction_of(evaluator)
    )


def put_in_alone(puzzle: Puzzle, seed: int) -> FloatArray:
    """What each alone does to `before`."""
    evaluator = puzzle.evaluator
    before, _ = both_ends(evaluator)
    return _over_all(
        evaluator, (evaluator.run(np.eye(evaluator.num_changes, dtype=np.bool_)) - before) @ direction_of(evaluator)
    )


def at_random(puzzle: Puzzle, seed: int) -> FloatArray:
    """Any order."""
    return np.random.default_rng(seed).random(len(puzzle.evaluator.players))


def greedy_undo(puzzle: Puzzle, seed: int) -> FloatArray:
    """One by one, the change whose undoing leaves KL(P_before || P) least."""
    evaluator = puzzle.evaluator
    before, _ = both_ends(evaluator)
    return _greedy(evaluator, lambda taken: evaluator.output.divergence(before, evaluator.run(~taken)))


def greedy_apply(puzzle: Puzzle, seed: int) -> FloatArray:
    """One by one, the change that, applied to `before`, leaves KL(P_after || P) least."""
    evaluator = puzzle.evaluator
    _, after = both_ends(evaluator)
    return _greedy(evaluator, lambda taken: evaluator.output.divergence(after, evaluator.run(taken)))


def _choose(puzzle: Puzzle, shares: FloatArray) -> FloatArray:
    evaluator, own = puzzle.evaluator, shares[puzzle.evaluator.rows]
    before, after = both_ends(evaluator)
    return _greedy(evaluator, lambda taken: evaluator.output.divergence(after, before + taken.astype(np.float64) @ own))


def _greedy(evaluator: SubsetEvaluator, left: Callable[[BoolArray], FloatArray]) -> FloatArray:
    """Scores in the order of picking; what was not picked in the order of the last look at it."""
    number = evaluator.num_changes
    taken, scores = np.zeros(number, dtype=np.bool_), np.zeros(number)
    for step in range(min(GREEDY_STEPS, number)):
        free = np.flatnonzero(~taken)
        tried = np.tile(taken, (len(free), 1))
        tried[np.arange(len(free)), free] = True
        found = left(tried)
        scores[free] = -np.argsort(np.argsort(found, kind="stable"), kind="stable") - 1.0
        best = free[int(found.argmin())]
        taken[best], scores[best] = True, float(GREEDY_STEPS - step)
    return _over_all(evaluator, scores)


def _over_all(evaluator: SubsetEvaluator, scores: FloatArray) -> FloatArray:
    """Scores of the changes in sight -> of all rows; what is out of sight did nothing."""
    whole = np.full(len(evaluator.players), min(float(scores.min(initial=0.0)), 0.0) - 1.0)
    whole[evaluator.rows] = scores
    return whole


OUR_METHODS: dict[str, Contender] = {
    "blame": by_blame,
    "edges": by_edges,
    "layer edges": by_layer_edges,
    "chosen blame": by_chosen_blame,
    "chosen edges": by_chosen_edges,
    "paths": by_paths,
    "undo": greedy_undo,
}
SIMPLE_RIVALS: dict[str, Contender] = {
    "leave one out": leave_one_out,
    "put in alone": put_in_alone,
    "random": at_random,
    "oracle": greedy_apply,
}

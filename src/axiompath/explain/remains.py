"""Change + rows -> what a choice is to lead from and to, and what remains of the change with some paths or none."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..outputs import CLASSES
from ..selection.choice import FEWEST
from ..selection.solve import MISSED, NO_FEWER

ROUNDING = 1e-13  # of a sum, beside which what is left of it is nothing


def ends_of(change: Change, rows: IntArray, objective: str) -> tuple[FloatArray, FloatArray]:
    """What a choice is to lead from and to; the share of another model is a row that every choice includes."""
    before, after, fixed = change.logits_before[rows], change.logits_after[rows], change.model_share(rows)
    return (before + fixed, after) if objective == "sufficiency" else (before, after - fixed)


def wholes_of(change: Change, rows: IntArray, objective: str) -> FloatArray:
    """What choosing nothing leaves of each target's change."""
    before, after = ends_of(change, rows, objective)
    return change.output.divergence(*((after, before) if objective == "sufficiency" else (before, after)))


def column_weights(change: Change, rows: IntArray) -> FloatArray:
    """What shares of each target are shares of, as weights of the columns; see `sentences.view`. [num_rows,
    columns]."""
    before, after, output = change.logits_before[rows], change.logits_after[rows], change.output
    old, new = output.label_pairs(before, after)
    found = np.zeros(before.shape)
    for i, ends in enumerate(zip(old.tolist(), new.tolist(), strict=True)):
        found[i] = output.weights(*ends, before.shape[1])
    stayed = np.flatnonzero((old == new) & (output.kind == CLASSES))
    found[stayed] = output.slopes(new[stayed], before[stayed], after[stayed])
    return found


def gross_left(every: FloatArray, chosen: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """What those of all paths that are not chosen add, and what they take away: 0 or more, 0 or less."""
    sums = []
    for side in (np.maximum, np.minimum):
        # Row by row: a product may round a row by how many there are.
        whole, taken = (float(side((shares * weights).sum(axis=1), 0.0).sum()) for shares in (every, chosen))
        left = whole - taken
        sums.append(left if abs(left) > ROUNDING * abs(whole) else 0.0)
    return sums[0], sums[1]


def residuals_of(change: Change, row: int, objective: str, contributions: FloatArray) -> FloatArray:
    """What is left of a target's change with none of these paths, with the first, with the first two, ..."""
    (before,), (after,) = ends_of(change, np.array([row]), objective)
    sums = np.concatenate([np.zeros((1, len(before))), np.cumsum(contributions, axis=0)])
    return change.output.divergence(*((after, before + sums) if objective == "sufficiency" else (before, after - sums)))


def slopes_at(change: Change, row: int, objective: str, total: FloatArray) -> FloatArray:
    """By how much one more of each logit would change what is left with paths that sum to this. [num_classes]."""
    (before,), (after,) = ends_of(change, np.array([row]), objective)
    ends = (after, before + total) if objective == "sufficiency" else (before, after - total)
    (goal, reached), scales = map(change.output.means, ends), change.output.scales
    slope = (reached - goal) / (1.0 if scales is None else scales**2)
    return np.asarray(slope if objective == "sufficiency" else -slope)


def first_enough(residuals: FloatArray, most: int, left: float) -> tuple[int, str]:
    """How many of an order leave no more than this share of what none leave; and what is known of fewer."""
    reached = np.flatnonzero(residuals[: most + 1] <= left * residuals[0])
    return (int(reached[0]), FEWEST[NO_FEWER]) if len(reached) else (most, FEWEST[MISSED])

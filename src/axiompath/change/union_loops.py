"""The compiled loops that lay the coefficients of two snapshots side by side, and mark what a walk may do over them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..compiled import compiled
from .states import (
    AFTER_GAINED,
    AFTER_REWEIGHTED,
    BEFORE_LOST,
    BEFORE_REWEIGHTED,
    DELTA,
    IN_AFTER,
    IN_BEFORE,
    LEAVE,
    OF_AFTER,
    OF_BEFORE,
)

ROUNDING = 8 * 2.0**-52  # relative difference up to which two coefficients are one


class Stacked(NamedTuple):
    """Some rows of several matrices, one matrix behind the other; the first half of them is `before`'s."""

    first: int  # row of the matrices
    indptrs: IntArray  # [num_matrices, num_rows + 1]
    indices: NDArray[np.int32]  # [num_entries]
    data: FloatArray  # [num_entries]


class Marking(NamedTuple):
    """Marks of entries on their way to a number each."""

    numbers: NDArray[np.uint16]  # [num_entries]: of what was joined before
    joined: NDArray[np.uint16]  # [num_entries]
    seen: BoolArray  # [numbers, marks]: which occur together


@compiled(early=0.5)
def count_union(start, stop, stacked, sizes):
    """Number of different columns in each row."""
    indptrs, indices = stacked.indptrs, stacked.indices
    at = np.empty(len(indptrs), dtype=np.int64)
    for r in range(start, stop):
        v = stacked.first + r
        for k in range(len(indptrs)):
            at[k] = indptrs[k, r]
        count = 0
        while True:
            column = _lowest(indptrs, indices, at, r)
            if column < 0:
                break
            for k in range(len(indptrs)):
                if at[k] < indptrs[k, r + 1] and indices[at[k]] == column:
                    at[k] += 1
            count += 1
        sizes[v] = count


@compiled(early=0.5)
def fill_union(start, stop, stacked, union):
    """Both snapshots' coefficients on their common pattern, a LayerChange."""
    indptrs, indices, data = stacked.indptrs, stacked.indices, stacked.data
    before, after, kept, marks = union.before, union.after, union.kept, union.marks
    num_rules = len(indptrs) // 2
    at = np.empty(len(indptrs), dtype=np.int64)
    for r in range(start, stop):
        v = stacked.first + r
        for k in range(len(indptrs)):
            at[k] = indptrs[k, r]
        for e in range(union.indptr[v], union.indptr[v + 1]):
            column = _lowest(indptrs, indices, at, r)
            union.indices[e] = column
            for k in range(num_rules):
                a = b = 0.0
                mark = 0
                if at[k] < indptrs[k, r + 1] and indices[at[k]] == column:
                    b = data[at[k]]
                    at[k] += 1
                    mark |= OF_BEFORE
                j = k + num_rules
                if at[j] < indptrs[j, r + 1] and indices[at[j]] == column:
                    a = data[at[j]]
                    at[j] += 1
                    mark |= OF_AFTER
                if abs(a - b) <= ROUNDING * abs(b):
                    a = b  # the same sum in another order: no path is altered by that
                shared = 0.0
                if (a > 0.0 and b > 0.0) or (a < 0.0 and b < 0.0):
                    shared = b if abs(b) <= abs(a) else a
                before[e, k], after[e, k], kept[e, k] = b, a, shared
                if a != shared:
                    mark |= (AFTER_REWEIGHTED if mark & OF_BEFORE else AFTER_GAINED) << LEAVE
                if b != shared:
                    mark |= (BEFORE_REWEIGHTED if mark & OF_AFTER else BEFORE_LOST) << LEAVE
                if shared != 0.0:
                    mark |= DELTA
                if a != 0.0:
                    mark |= IN_AFTER
                if b != 0.0:
                    mark |= IN_BEFORE
                marks[e, k] = mark


@compiled(early=0.5)
def find_moves(start, stop, layer, differs, moves):
    """Which entries a walk in delta can go over: by a changed coefficient, or by a kept one to a node that differs."""
    for e in range(start, stop):
        mark = 0
        for k in range(layer.marks.shape[1]):
            mark |= layer.marks[e, k]
        moves[e] = mark >> LEAVE != 0 or (mark & DELTA != 0 and differs[layer.indices[e]])


@compiled(early=0.5)
def join_marks(start, stop, layer, rules, differs, marking):
    """Marks of several rules together, without delta where the sender cannot differ; and which of them occur."""
    for e in range(start, stop):
        mark = 0
        for k in range(len(rules)):
            mark |= layer.marks[e, rules[k]]
        if not differs[layer.indices[e]]:
            mark -= mark & DELTA
        marking.joined[e] = mark
        marking.seen[marking.numbers[e], mark] = True


@compiled(early=0.5)
def number_marks(start, stop, joined, table, numbers):
    """numbers[e] = table[numbers[e], joined[e]]."""
    for e in range(start, stop):
        numbers[e] = table[numbers[e], joined[e]]


@compiled(inline="always")
def _lowest(indptrs, indices, at, r):
    """The lowest column that any of the matrices has not passed yet, -1 where all are done."""
    column = -1
    for k in range(len(indptrs)):
        if at[k] < indptrs[k, r + 1] and (column < 0 or indices[at[k]] < column):
            column = indices[at[k]]
    return column

"""The compiled loops that lay the coefficients of two snapshots side by side, and mark what differs."""

import numpy as np

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


@compiled
def count_union(start, stop, first_row, indptrs, indices, sizes):
    """Number of different columns in each row of several matrices laid one behind the other, from `first_row` on."""
    at = np.empty(len(indptrs), dtype=np.int64)
    for r in range(start, stop):
        v = first_row + r
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


@compiled
def fill_union(start, stop, first_row, indptrs, indices, data, wide_indptr, wide_indices, before, after, kept, marks):
    """Both snapshots' coefficients on their common pattern: the first half of the matrices is `before`'s."""
    num_rules = len(indptrs) // 2
    at = np.empty(len(indptrs), dtype=np.int64)
    for r in range(start, stop):
        v = first_row + r
        for k in range(len(indptrs)):
            at[k] = indptrs[k, r]
        for e in range(wide_indptr[v], wide_indptr[v + 1]):
            column = _lowest(indptrs, indices, at, r)
            wide_indices[e] = column
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


@compiled
def find_moves(start, stop, marks, indices, differs, moves):
    """Which entries a walk in delta can go over: by a changed coefficient, or by a kept one to a node that differs."""
    for e in range(start, stop):
        mark = 0
        for k in range(marks.shape[1]):
            mark |= marks[e, k]
        moves[e] = mark >> LEAVE != 0 or (mark & DELTA != 0 and differs[indices[e]])


@compiled
def join_marks(start, stop, marks, rules, indices, differs, numbers, joined, seen):
    """Marks of several rules together, without delta where the sender cannot differ; and which of them occur."""
    for e in range(start, stop):
        mark = 0
        for k in range(len(rules)):
            mark |= marks[e, rules[k]]
        if not differs[indices[e]]:
            mark &= ~DELTA
        joined[e] = mark
        seen[numbers[e], mark] = True


@compiled
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

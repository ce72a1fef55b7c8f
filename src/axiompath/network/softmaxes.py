"""Snapshot + hidden features -> the shares of a softmax that every column takes for itself: GENConv's aggregation.

a[V, U, d] = exp(t h[U, d]) / sum over edges U' -> V of exp(t h[U', d]),  parallel edges each with its share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..graphs.snapshot import Features, Snapshot
from .coefficients import Like, Rule
from .families import ColumnRule, column_of


@dataclass(frozen=True, eq=False)
class ColumnSoftmax(Like, ColumnRule):
    """The softmax of what the entries of another rule, which counts edges, carry; each column has its temperature."""

    rule: Rule
    temperatures: tuple[float, ...]  # one for all columns, or one for each
    reads_inputs: ClassVar[bool] = True
    __eq__, __hash__ = object.__eq__, object.__hash__  # by identity, unlike what it extends

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """No one matrix: each column has its own."""
        return ColumnRule.matrix(self, snapshot, inputs)

    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """Shares of the entries of each row, which sum to 1."""
        matrix = self.rule.matrix(snapshot, inputs)
        matrix.sort_indices()
        t = self.temperatures[number if len(self.temperatures) > 1 else 0]
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        scores = t * column_of(inputs, number)[matrix.indices]
        highest = np.full(matrix.shape[0], -np.inf)
        np.maximum.at(highest, rows, scores)
        shares = matrix.data * np.exp(scores - highest[rows])
        total = np.bincount(rows, weights=shares, minlength=matrix.shape[0])
        return sparse.csr_array((shares / total[rows], matrix.indices, matrix.indptr), shape=matrix.shape)

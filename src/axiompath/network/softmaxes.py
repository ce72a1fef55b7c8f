"""Snapshot + hidden features -> the shares of a softmax, by scores that are values of what sends.

    a[V, U, d] = exp(t h[U, d]) / sum over edges U' -> V of exp(t h[U', d])     every column for itself: GENConv
    a[V, e]    = exp(s[e]) / sum over edges e' into V of exp(s[e'])             attention whose scores edges hold

Parallel edges each have their share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..arrays import FloatArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
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
        t = self.temperatures[number if len(self.temperatures) > 1 else 0]
        return _shares(self.rule.matrix(snapshot, inputs), t * column_of(inputs, number))


@dataclass(frozen=True, eq=False)
class ScoreSoftmax(Like):
    """The softmax of the one column of the inputs, over the entries of another rule, which counts edges."""

    reads_inputs: ClassVar[bool] = True
    __eq__, __hash__ = object.__eq__, object.__hash__  # by identity, unlike what it extends

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Shares of the entries of each row, which sum to 1."""
        return _shares(self.rule.matrix(snapshot, inputs), column_of(inputs, 0))


def _shares(matrix: sparse.csr_array, scores: FloatArray) -> sparse.csr_array:
    """Of each row of a matrix of counts, by the scores [num_nodes] of what sends."""
    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    sent = scores[matrix.indices]
    highest = np.full(matrix.shape[0], -np.inf)
    np.maximum.at(highest, rows, sent)
    shares = matrix.data * np.exp(sent - highest[rows])
    total = np.bincount(rows, weights=shares, minlength=matrix.shape[0])
    return sparse.csr_array((shares / total[rows], matrix.indices, matrix.indptr), shape=matrix.shape)

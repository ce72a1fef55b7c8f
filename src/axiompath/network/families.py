"""Rules with a coefficient of its own for every column: one plain rule per column, which together are a family.

A maximum is taken column by column, and a norm over the nodes of a graph scales each column by its own deviation. Such
a rule, a ColumnRule, stands for as many plain ones as there are columns. All take the same entries, so that one set of
states does for all of them, and what one of them lets a walk do, a walk may do (its coefficients are 0 in the others).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..arrays import FloatArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from .coefficients import Like, Parts, Rule, Sides


class ColumnRule(Rule):
    """A rule with a coefficient a column; it compares by identity, and says how it divides what it gives."""

    reads_inputs: ClassVar[bool] = True

    @property
    def first(self) -> int:
        """The first column of the inputs that it takes."""
        return 0

    @abstractmethod
    def column_matrix(self, snapshot: Snapshot, inputs: Features, number: int) -> sparse.csr_array:
        """a[V, U] of one of the columns that it takes, counted from `first`."""

    def divide_column(self, sides: Sides, number: int) -> Parts:
        """What is kept, gained and lost of them, of a rule that divides its own."""
        raise NotImplementedError

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """No one matrix: each column has its own."""
        raise NotImplementedError


@dataclass(frozen=True)
class Column(Like):
    """One column of a ColumnRule."""

    rule: ColumnRule
    number: int
    reads_inputs: ClassVar[bool] = True

    @property
    def family(self) -> Rule:
        """The rule whose column it is."""
        return self.rule

    @property
    def divides(self) -> str:
        """As the rule whose column it is."""
        return self.rule.divides

    def divide(self, sides: Sides) -> Parts:
        """Of this column."""
        return self.rule.divide_column(sides, self.number)

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Of this column."""
        return self.rule.column_matrix(snapshot, inputs, self.number)


def column_of(inputs: Features, number: int) -> FloatArray:
    """One column of features, dense, [num_nodes]."""
    if isinstance(inputs, np.ndarray):
        return np.asarray(inputs[:, number], dtype=np.float64)
    return np.asarray(inputs[:, [number]].toarray(), dtype=np.float64).reshape(-1)

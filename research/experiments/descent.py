"""Scaled graph + weights -> states, gradients, the next weights: a SumGNN's training step, written out.

Everything is made of the loops in `arithmetic` and of numpy's +, -, *, /, sqrt, comparison and maximum, element by
element, which are rounded in one way everywhere. No sum is numpy's, no product BLAS's, no random number torch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from axiompath.arrays import FloatArray, IntArray
from axiompath.native.threads import run_in_pieces

from .arithmetic import (
    cross_entropy_gradient,
    give_to_holders,
    multiply_dense,
    multiply_sparse,
    multiply_transposed,
    sum_of_squares,
    take_largest,
)

DECAYS = (0.9, 0.999)  # Adam's, of the gradient's mean and of its square's
ADAM_EPSILON = 1e-8


class Matrix(NamedTuple):
    """A sparse matrix for products with dense ones; cores share its rows, which changes no bit."""

    indptr: IntArray
    indices: IntArray
    values: FloatArray

    @staticmethod
    def of(matrix: Any) -> Matrix:
        """Of any scipy matrix."""
        rows = sparse.csr_array(matrix, dtype=np.float64)
        return Matrix(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)

    def __matmul__(self, dense: FloatArray) -> FloatArray:
        """matrix @ dense."""
        out = np.empty((len(self.indptr) - 1, dense.shape[1]))
        work = len(self.values) * dense.shape[1]
        run_in_pieces(multiply_sparse, len(out), work, self, dense, out)
        return out


@dataclass(frozen=True, eq=False)
class ScaledGraph:
    """Adjacency and features as training sees them, and their transposes, made once."""

    adjacency: Matrix
    adjacency_transposed: Matrix
    x: Matrix
    x_transposed: Matrix
    by_maximum: bool = False  # a node takes the largest of each column instead of their sum

    def gather(self, messages: FloatArray) -> FloatArray:
        """What each node makes of its neighbours' messages."""
        return self._take_largest(messages)[0] if self.by_maximum else self.adjacency @ messages

    def send_back(self, messages: FloatArray, above: FloatArray) -> FloatArray:
        """Gradients by the messages, from those by what was gathered; only a maximum looks at the messages."""
        if not self.by_maximum:
            return self.adjacency_transposed @ above
        sent = np.empty_like(above)
        give_to_holders(above, self._take_largest(messages)[1], sent)
        return sent

    def _take_largest(self, messages: FloatArray) -> tuple[FloatArray, IntArray]:
        shape = (len(self.adjacency.indptr) - 1, messages.shape[1])
        out, holders = np.empty(shape), np.empty(shape, dtype=np.int64)
        work = len(self.adjacency.values) * shape[1]
        run_in_pieces(take_largest, shape[0], work, self.adjacency, messages, out, holders)
        return out, holders


def forward(graph: ScaledGraph, weights: Sequence[FloatArray], keep: Sequence[FloatArray | float]) -> list[FloatArray]:
    """What each layer after the first is given, and the logits; keep[l] multiplies the states between layers."""
    states = [graph.gather(graph.x @ weights[0])]
    for weight, share in zip(weights[1:], keep, strict=True):
        states[-1] = np.maximum(states[-1], 0.0) * share
        states.append(graph.gather(_multiply(states[-1], weight)))
    return states


def find_gradients(
    graph: ScaledGraph,
    weights: Sequence[FloatArray],
    states: Sequence[FloatArray],
    keep: Sequence[FloatArray | float],
    labels: IntArray,
    nodes: IntArray,
) -> list[FloatArray]:
    """Gradients by the weights of the mean cross-entropy at `nodes`, from what `forward` gave."""
    above = np.empty_like(states[-1])
    cross_entropy_gradient(states[-1], nodes, labels, above)
    found = []
    for weight, state, share in zip(weights[:0:-1], states[-2::-1], keep[::-1], strict=True):
        sent = graph.send_back(_multiply(state, weight) if graph.by_maximum else state, above)
        gradient = np.empty_like(weight)
        multiply_transposed(state, sent, gradient)
        found.append(gradient)
        above = np.where(state > 0, _multiply(sent, np.ascontiguousarray(weight.T)) * share, 0.0)
    found.append(graph.x_transposed @ graph.send_back(graph.x @ weights[0] if graph.by_maximum else above, above))
    return found[::-1]


def clip_gradients(gradients: Sequence[FloatArray], most: float) -> list[FloatArray]:
    """The same direction, of a norm that is at most this."""
    norm = math.sqrt(sum(sum_of_squares(gradient.ravel()) for gradient in gradients))
    return [gradient * min(1.0, most / (norm + 1e-6)) for gradient in gradients]


class Adam:
    """Kingma and Ba's steps; powers of the decays are products, since `pow` is each system's own."""

    def __init__(self, weights: Sequence[FloatArray], step: float) -> None:
        """Nothing known of the gradients yet."""
        self.step = step
        self.means = [np.zeros_like(weight) for weight in weights]
        self.squares = [np.zeros_like(weight) for weight in weights]
        self.powers = (1.0, 1.0)

    def move(self, weights: Sequence[FloatArray], gradients: Sequence[FloatArray]) -> list[FloatArray]:
        """The next weights."""
        a, b = DECAYS
        self.powers = (self.powers[0] * a, self.powers[1] * b)
        self.means = [a * mean + (1 - a) * g for mean, g in zip(self.means, gradients, strict=True)]
        self.squares = [b * square + (1 - b) * (g * g) for square, g in zip(self.squares, gradients, strict=True)]
        return [
            weight - self.step * (mean / (1 - self.powers[0])) / (np.sqrt(square / (1 - self.powers[1])) + ADAM_EPSILON)
            for weight, mean, square in zip(weights, self.means, self.squares, strict=True)
        ]


def draw_uniform(stream: np.random.PCG64, shape: tuple[int, int]) -> FloatArray:
    """Numbers from 0 to 1 of 53 bits, from the raw stream, which numpy promises to keep as it is."""
    raw = stream.random_raw(shape[0] * shape[1])
    return np.asarray((raw >> np.uint64(11)) * 2.0**-53).reshape(shape)


def _multiply(left: FloatArray, right: FloatArray) -> FloatArray:
    out = np.empty((len(left), right.shape[1]))
    run_in_pieces(multiply_dense, len(out), left.size * right.shape[1], left, right, out)
    return out

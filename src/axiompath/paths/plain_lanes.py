"""What Python does where a compiled loop calls one of the module `lanes`: the same by numpy, to rounding."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray

LANES = 8


def zeros() -> FloatArray:
    """No number yet."""
    return np.zeros(LANES)


def fetch(array: FloatArray, at: int, number: int) -> FloatArray:
    """The `number` lanes from a position on, or eight where there are more; zeros behind them."""
    found = np.zeros(LANES)
    width = min(number, LANES)
    found[:width] = array.reshape(-1)[at : at + width]
    return found


def fetch_all(array: FloatArray, at: int) -> FloatArray:
    """Eight lanes from a position on."""
    return array.reshape(-1)[at : at + LANES].copy()


def put_all(array: FloatArray, at: int, lanes: FloatArray) -> None:
    """Write eight lanes to a position."""
    array.reshape(-1)[at : at + LANES] = lanes


def put(array: FloatArray, at: int, lanes: FloatArray, number: int) -> None:
    """Write the first `number` lanes to a position, or all where there are more."""
    width = min(number, LANES)
    array.reshape(-1)[at : at + width] = lanes[:width]


def expect(array: FloatArray, at: int, size: int) -> None:
    """Nothing is fetched ahead."""


def plus_scaled(total: FloatArray, lanes: FloatArray, factor: float) -> FloatArray:
    """total + factor * lanes."""
    return total + factor * lanes


def product(matrix: FloatArray, first: int, stride: int, vector: FloatArray, start: int, size: int) -> FloatArray:
    """Sum over d < size: vector[start + d] * the eight lanes of the matrix from first + d * stride on."""
    return vector.reshape(-1)[start : start + size] @ _rows(matrix, first, stride, size)


def two_products(
    matrix: FloatArray,
    places: tuple[int, int],
    stride: int,
    vector: FloatArray,
    start: int,
    size: int,
    factors: tuple[float, float],
) -> FloatArray:
    """factors[0] * the product from places[0] on + factors[1] * that from places[1] on."""
    one, other = (product(matrix, place, stride, vector, start, size) for place in places)
    return factors[0] * one + factors[1] * other


def four_products(
    matrix: FloatArray, first: int, stride: int, vector: FloatArray, starts: tuple[int, ...], size: int
) -> list[FloatArray]:
    """`product` from four starts."""
    return [product(matrix, first, stride, vector, start, size) for start in starts]


def four_pairs(
    matrix: FloatArray,
    places: tuple[int, int],
    stride: int,
    vector: FloatArray,
    starts: tuple[int, ...],
    size: int,
    factors: tuple[float, ...],
    others: tuple[float, ...],
) -> list[FloatArray]:
    """`two_products` from four starts, with factors of their own."""
    pairs = zip(starts, factors, others, strict=True)
    return [two_products(matrix, places, stride, vector, start, size, (one, other)) for start, one, other in pairs]


def _rows(matrix: FloatArray, first: int, stride: int, size: int) -> FloatArray:
    """[size, LANES]: the lanes that begin every `stride` numbers."""
    places = np.arange(size)[:, None] * stride + np.arange(LANES)
    return np.asarray(matrix.reshape(-1)[first + places])

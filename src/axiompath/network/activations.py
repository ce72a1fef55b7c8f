"""torch activation -> Activation: phi and its secant slopes.

Everything downstream needs two things of an activation phi with phi(0) = 0: its values, and the *rate*

    rate(b, a) = (phi(a) - phi(b)) / (a - b)        the slope of the secant from b to a,

of which phi(a) / a = rate(0, a) is a special case. An activation that is not 0 at 0 is stored as the one that
is, plus a `constant`; whoever uses it adds the constant back as a bias.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, wraps
from math import comb
from typing import Any, ParamSpec

import numpy as np
from scipy import special

from ..arrays import FloatArray

# Below this |a - b|, in units of the width over which phi bends, the quotient loses digits to cancellation, and
# three-point Gauss-Legendre quadrature of phi' is exact to rounding: its error is of the order
# |a - b|^6 * phi^(7) / 2e6.
SHORT = 1e-2
TINY = 1e-8  # below this two terms of a series are exact to rounding
GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(3)

_Given = ParamSpec("_Given")


@dataclass(frozen=True, eq=False)
class Activation:
    """An element-wise function phi with phi(0) = 0, and the constant that the original had at 0."""

    name: str
    value: Callable[[FloatArray], FloatArray]
    derivative: Callable[[FloatArray], FloatArray]
    piecewise_linear: bool = False  # two lines that meet at 0
    kinked: bool = False  # not smooth somewhere other than at 0
    constant: float = 0.0
    width: float = 1.0  # over which phi bends: alpha of CELU, 1 / beta of Softplus
    seam: float = np.inf  # beyond which phi is another formula, with a step in between; smooth on either side
    maker: Callable[[], Activation] | None = None  # makes it again, in another process

    def __reduce__(self) -> Any:
        """Functions of functions cannot be handed to another process; who made them can."""
        return super().__reduce__() if self.maker is None else (self.maker, ())

    def rate(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Slope of the secant between two arrays of inputs, element by element; the derivative where they meet."""
        gap = after - before
        apart = gap != 0
        quotient = (self.value(after) - self.value(before)) / np.where(apart, gap, 1.0)
        same_side = ((before > 0) & (after > 0)) | ((before < 0) & (after < 0))
        if self.piecewise_linear:
            # On one side of the kink the slope is a constant, exactly; across it nothing cancels.
            return np.where(apart & ~same_side, quotient, self.derivative(after))
        if self.kinked:
            # Quadrature would be wrong across a kink; the quotient's error, times the gap, is still of rounding size.
            return np.where(apart, quotient, self.derivative(after))
        # Across 0 the two values have opposite signs and nothing cancels, so only short steps on one side need care.
        short = (np.abs(gap) < SHORT * self.width) & (same_side | ~apart)
        short &= (before > self.seam) == (after > self.seam)
        if not short.any():
            return quotient
        middle, half = (after + before) / 2, gap / 2
        mean = sum(
            (w / 2) * self.derivative(middle + u * half) for u, w in zip(GAUSS_NODES, GAUSS_WEIGHTS, strict=True)
        )
        return np.where(short, mean, quotient)


def _made_again(make: Callable[_Given, Activation]) -> Callable[_Given, Activation]:
    @wraps(make)
    def make_and_remember(*args: _Given.args, **options: _Given.kwargs) -> Activation:
        return replace(make(*args, **options), maker=partial(make_and_remember, *args, **options))

    return make_and_remember


@dataclass(frozen=True, eq=False)
class Product(Activation):
    """Ranges of columns of one width, side by side, multiplied with each other; each holds its part of the product.

    Whatever comes after adds the ranges up, so that their sum is the product. In delta a factor's rate is the mean of
    the product of the others over all ways of changing them before it (Shapley's split; of two, the mean of the other
    over the snapshots). From 0 that is the k-th part of the product of the others.
    """

    num_factors: int = 2

    def rate(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """What each column is multiplied by for its share of the change of the product."""
        low, high = _factors(before, self.num_factors), _factors(after, self.num_factors)
        k = self.num_factors
        if k == 2:
            return np.asarray((0.5 * low + 0.5 * high)[:, ::-1].reshape(after.shape))
        rates = np.zeros_like(high)
        for i in range(k):
            others = [j for j in range(k) if j != i]
            for size in range(k):
                weight = 1.0 / (k * comb(k - 1, size))
                for changed in itertools.combinations(others, size):
                    parts = [high[:, j] if j in changed else low[:, j] for j in others]
                    rates[:, i] += weight * np.prod(parts, axis=0)
        return rates.reshape(after.shape)


@_made_again
def product(num_factors: int) -> Activation:
    """The product of so many ranges of columns."""

    def others(z: FloatArray) -> FloatArray:
        parts = _factors(z, num_factors)
        slopes = [np.prod(np.delete(parts, i, axis=1), axis=1) for i in range(num_factors)]
        return np.stack(slopes, axis=1).reshape(z.shape)

    def value(z: FloatArray) -> FloatArray:
        whole = np.prod(_factors(z, num_factors), axis=1) / num_factors
        return np.tile(whole, (1, num_factors))

    return Product("product", value=value, derivative=others, num_factors=num_factors)


def _factors(z: FloatArray, num_factors: int) -> FloatArray:
    """[rows, num_factors, width of one]."""
    return z.reshape(len(z), num_factors, z.shape[1] // num_factors)


@_made_again
def two_slopes(name: str, negative: float | FloatArray, positive: float = 1.0) -> Activation:
    """A line through 0 with another slope on each side: ReLU, LeakyReLU, PReLU (one slope a feature)."""
    return Activation(
        name,
        value=lambda z: np.where(z > 0, positive * z, negative * z),
        derivative=lambda z: np.where(z > 0, positive, negative) + np.zeros_like(z),
        piecewise_linear=True,
    )


def relu() -> Activation:
    """max(z, 0)."""
    return two_slopes("relu", 0.0)


def leaky_relu(negative_slope: float = 0.01) -> Activation:
    """Z above 0, negative_slope * z below."""
    return two_slopes("leaky_relu", negative_slope)


def prelu(slopes: FloatArray) -> Activation:
    """LeakyReLU whose slopes [num_features] or [1] were learnt."""
    return two_slopes("prelu", slopes)


@_made_again
def elu(alpha: float = 1.0, scale: float = 1.0, name: str = "elu") -> Activation:
    """Z above 0, alpha * (exp(z) - 1) below; both times the scale."""
    return Activation(
        name,
        value=lambda z: scale * np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0.0))),
        derivative=lambda z: scale * np.where(z > 0, 1.0, alpha * np.exp(np.minimum(z, 0.0))),
    )


@_made_again
def gelu(approximate: str = "none") -> Activation:
    """Z times the normal distribution function, or its tanh approximation."""
    if approximate == "tanh":
        scale, cubic = np.sqrt(2 / np.pi), 0.044715

        # (1 + tanh(u)) / 2 is the sigmoid of 2 u, without a difference. Beyond 40 it is 0 or 1 to rounding, and a cube
        # may leave the range of floats.
        def argument(z: FloatArray) -> FloatArray:
            near = np.clip(z, -40.0, 40.0)
            return np.asarray(2 * scale * (near + cubic * near**3))

        def slope(z: FloatArray) -> FloatArray:
            near, u = np.clip(z, -40.0, 40.0), argument(z)
            bend = 2 * scale * near * (1 + 3 * cubic * near**2)
            return np.asarray(special.expit(u) * (1 + bend * special.expit(-u)))

        return Activation("gelu", value=lambda z: z * special.expit(argument(z)), derivative=slope)
    return Activation(
        "gelu",
        value=lambda z: z * special.ndtr(z),
        # Beyond 40 the density is 0 to rounding, and a square may leave the range of floats.
        derivative=lambda z: special.ndtr(z) + z * np.exp(-(np.clip(z, -40.0, 40.0) ** 2) / 2) / np.sqrt(2 * np.pi),
    )


@_made_again
def silu() -> Activation:
    """Z times its sigmoid."""
    return Activation(
        "silu",
        value=lambda z: z * special.expit(z),
        derivative=lambda z: special.expit(z) * (1 + z * special.expit(-z)),
    )


@_made_again
def tanh() -> Activation:
    """Hyperbolic tangent."""
    return Activation("tanh", value=np.tanh, derivative=lambda z: 1 - np.tanh(z) ** 2)


@_made_again
def sigmoid() -> Activation:
    """1 / (1 + exp(-z)), which is 1/2 at 0."""
    return Activation(
        "sigmoid",
        value=lambda z: 0.5 * np.tanh(0.5 * z),
        derivative=lambda z: special.expit(z) * special.expit(-z),
        constant=0.5,
    )


def _soft(z: FloatArray) -> FloatArray:
    """log(1 + exp(z)) - log(2), without a difference near 0."""
    return np.asarray(
        np.where(
            np.abs(z) < 1.0,
            np.log1p(0.5 * np.expm1(np.clip(z, -1.0, 1.0))),
            np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z))) - np.log(2.0),
        )
    )


@_made_again
def softplus(beta: float = 1.0, threshold: float = 20.0) -> Activation:
    """log(1 + exp(beta z)) / beta, and z itself beyond the threshold, as torch has it; log(2) / beta at 0."""
    constant = np.log(2.0) / beta

    def scaled(z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # an infinity is as good: only its sign counts
            return np.asarray(beta * z)

    def value(z: FloatArray) -> FloatArray:
        # Next to 0 by its series, since beta * z may be smaller than floats are.
        y = scaled(z)
        near = 0.5 * z * (1 + 0.25 * np.clip(y, -TINY, TINY))
        curve = np.where(np.abs(y) < TINY, near, _soft(y) / beta)
        return np.asarray(np.where(y > threshold, z - constant, curve))

    return Activation(
        "softplus",
        value=value,
        derivative=lambda z: np.where(scaled(z) > threshold, 1.0, special.expit(scaled(z))),
        constant=constant,
        width=1.0 / abs(beta),
        seam=threshold / beta,
    )


@_made_again
def log_sigmoid() -> Activation:
    """log of the sigmoid, which is -log(2) at 0."""
    return Activation(
        "log_sigmoid",
        value=lambda z: -_soft(-z),
        derivative=lambda z: special.expit(-z),
        constant=-np.log(2.0),
    )


@_made_again
def clamp(low: float = -np.inf, high: float = np.inf) -> Activation:
    """Z held between two bounds: ReLU6, Hardtanh, torch.clamp."""
    constant = float(np.clip(0.0, low, high))
    return Activation(
        "clamp",
        value=lambda z: np.clip(z, low, high) - constant,
        derivative=lambda z: ((z > low) & (z < high)).astype(np.float64),
        kinked=True,
        constant=constant,
    )


@_made_again
def selu() -> Activation:
    """ELU with the two constants that keep mean and variance."""
    return elu(1.6732632423543772, 1.0507009873554805, "selu")


@_made_again
def celu(alpha: float = 1.0) -> Activation:
    """Z above 0, alpha * (exp(z / alpha) - 1) below."""

    def scaled(z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # minus infinity is as good: its exponential is 0
            return np.asarray(np.minimum(z, 0.0) / alpha)

    def value(z: FloatArray) -> FloatArray:
        # Next to 0 by its series, since z / alpha may be smaller than floats are.
        y = scaled(z)
        curve = np.where(np.abs(y) < TINY, z * (1 + 0.5 * np.clip(y, -TINY, TINY)), alpha * np.expm1(y))
        return np.asarray(np.where(z > 0, z, curve))

    return Activation(
        "celu",
        value=value,
        derivative=lambda z: np.where(z > 0, 1.0, np.exp(scaled(z))),
        width=abs(alpha),
    )


@_made_again
def mish() -> Activation:
    """Z times tanh of its softplus."""

    def slope(z: FloatArray) -> FloatArray:
        gate = np.tanh(np.logaddexp(0.0, z))
        return np.asarray(gate + z * (1 - gate**2) * special.expit(z))

    return Activation("mish", value=lambda z: z * np.tanh(np.logaddexp(0.0, z)), derivative=slope)


@_made_again
def softsign() -> Activation:
    """Z / (1 + |z|)."""
    return Activation("softsign", value=lambda z: z / (1 + np.abs(z)), derivative=lambda z: (1 / (1 + np.abs(z))) ** 2)

"""What the columns of a model's output mean, and what follows from it: Output.

    classes   one class of several           P = softmax(z)
    binary    one logit, a yes or no         P = sigmoid(z)
    labels    a yes or no a column           P = sigmoid(z), a column each
    value     numbers as they are            P = z, each column in units of a scale s

Each has a log-partition A(z): logsumexp, the sum of log(1 + e^z), the sum of z^2 / 2 s^2. P is its gradient (for values
in the columns' own units), and the divergence between two outputs is the same for all of them,

    D(z_p, z_q) = A(z_q) - A(z_p) - A'(z_p) . (z_q - z_p),

KL(P || Q) for the first three. It is never computed by that difference; see `metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy import special

from .arrays import BoolArray, FloatArray, IntArray
from .errors import InputError
from .metrics import kl_divergence, kl_of_logits
from .storage.codec import Shape, one_of, require

AUTO, CLASSES, BINARY, LABELS, VALUE = "auto", "classes", "binary", "labels", "value"
NO_YES = ("no", "yes")  # what the two answers of one logit are called, where the user does not say
LINKED = ("not linked", "linked")  # the same of a pair of nodes
OUTPUTS = (CLASSES, BINARY, LABELS, VALUE)
NEGLIGIBLE = 1e-9  # of a change: all of it is explained where no more is left
MOST_DIGITS = 17  # that distinguish two numbers
ROUNDING = 1e-13  # of two numbers: what they differ by is noise
NUM_PLACES = 24  # at which the slope of a probability is taken on the way from one prediction to another


def show_apart(values: Sequence[float], digits: int = 2, kind: str = "f") -> list[str]:
    """Numbers as text, with as many digits as show that one differs from the next, and no fewer than `digits`.

    `kind` is that of the digits: f for those behind the point, g for those that are significant.
    """
    shown: list[str] = []
    for number in range(digits, MOST_DIGITS + 1):
        shown = [f"{value:.{number}{kind}}" for value in values]
        pairs = zip(shown, shown[1:], values, values[1:], strict=False)
        if all(a != b or abs(x - y) <= ROUNDING * max(abs(x), abs(y)) for a, b, x, y in pairs):
            return shown
    return shown if kind == "g" else show_apart(values, digits, "g")


@dataclass(frozen=True, eq=False)
class Output:
    """The meaning of the columns; for values, also the unit of each."""

    kind: Annotated[str, one_of(*OUTPUTS)] = CLASSES
    scales: Annotated[FloatArray | None, Shape("classes", finite=True)] = None  # of values

    def means(self, logits: FloatArray) -> FloatArray:
        """What people see: probabilities of classes, the probability of yes in each column, or the values
        themselves."""
        if self.kind == CLASSES:
            return np.asarray(special.softmax(logits, axis=-1))
        return np.asarray(logits if self.kind == VALUE else special.expit(logits))

    def divergence(self, logits_p: FloatArray, logits_q: FloatArray) -> FloatArray:
        """D(z_p, z_q) over the last axis; never below 0."""
        if self.kind == CLASSES:
            return kl_divergence(logits_p, logits_q)
        return np.asarray(self.by_column(logits_p, logits_q).sum(axis=-1))

    def by_column(self, logits_p: FloatArray, logits_q: FloatArray) -> FloatArray:
        """D column by column, for independent columns."""
        if self.kind == VALUE:
            unit = 1.0 if self.scales is None else self.scales
            return np.asarray(0.5 * ((np.asarray(logits_q) - logits_p) / unit) ** 2)
        return kl_of_logits(logits_p, logits_q)

    def apart(self, logits: FloatArray, others: FloatArray) -> FloatArray:
        """Distance of predictions: probability moved, summed over labels; for values, the distance in units."""
        moved = np.abs(self.means(logits) - self.means(others))
        if self.kind == VALUE and self.scales is not None:
            moved = moved / self.scales
        return np.asarray((0.5 if self.kind == CLASSES else 1.0) * moved.sum(axis=-1))

    def decide(self, logits: FloatArray) -> IntArray:
        """The predicted class: the likeliest of several; for one logit 1 for yes and 0 for no; [...]."""
        if self.kind == CLASSES:
            return np.asarray(np.argmax(logits, axis=-1))
        return np.asarray(logits[..., 0] > 0, dtype=np.int64)

    def label_pair(self, before: FloatArray, after: FloatArray) -> tuple[int, int]:
        """Class of one prediction before and after; for labels and values, twice the column that moved most."""
        old, new = self.label_pairs(before, after)
        return int(old), int(new)

    def label_pairs(self, before: FloatArray, after: FloatArray) -> tuple[IntArray, IntArray]:
        """The same of many; [...] each."""
        if self.kind in (CLASSES, BINARY):
            return self.decide(before), self.decide(after)
        most = np.asarray(self.by_column(after, before).argmax(axis=-1))
        return most, most

    def column(self, label: int) -> int:
        """The column of the logits that a class, label or value has; one logit has one column."""
        return 0 if self.kind == BINARY else label

    def weights(self, old: int, new: int, num_columns: int) -> FloatArray:
        """What shares are shares of, as weights of the columns: the new class against the old one, or one column."""
        weights = np.zeros(num_columns)
        if self.kind == CLASSES:
            weights[new] += 1.0
            weights[old] -= old != new
        else:
            weights[self.column(new)] = 1.0
        return weights

    @property
    def flip(self) -> str:
        """What happens to a prediction that flips, in words; empty for values, which have no decision."""
        return {CLASSES: "to another class", VALUE: ""}.get(self.kind, "to another answer")

    def class_name(self, label: int, names: Sequence[str]) -> str:
        """The user's name of a class, else its number; for one logit, `no` and `yes`."""
        if label < len(names):
            return names[label]
        return NO_YES[label] if self.kind == BINARY and not names else str(label)

    def column_name(self, column: int, names: Sequence[str], num_columns: int) -> str:
        """The user's name of a label or value, else the word and its number."""
        if column < len(names):
            return names[column]
        word = "label" if self.kind == LABELS else "the value"
        return word if num_columns == 1 else f"{word} {column}" if word == "label" else f"value {column}"

    def table_columns(self, num_columns: int, names: Sequence[str]) -> list[str]:
        """What a table calls the columns of the logits: `class_0`, `label_0`, `value_0`, of one logit `logit`; behind
        it the user's name in brackets, of one logit that of yes."""
        if self.kind == BINARY:
            return [f"logit ({names[1]})" if len(names) > 1 and tuple(names) != LINKED else "logit"]
        word = {CLASSES: "class", LABELS: "label", VALUE: "value"}[self.kind]
        return [f"{word}_{k} ({names[k]})" if k < len(names) else f"{word}_{k}" for k in range(num_columns)]

    def slopes(self, labels: IntArray, before: FloatArray, after: FloatArray) -> FloatArray:
        """Weights of the columns that turn shares of logits into shares of a probability or value. [n, num_columns].

        The probability is that of each one's label. The weights are its slopes, averaged over the
        straight way between the logits [n, num_columns], so that the whole change gives exactly what it moved by.
        """
        rows, columns = np.arange(len(before)), np.zeros_like(labels) if self.kind == BINARY else labels
        delta, moved = after - before, (self.means(after) - self.means(before))[rows, columns]
        found = np.zeros_like(delta)
        if self.kind != CLASSES:  # columns are apart: the secant
            step, middle = delta[rows, columns], self.means(before)[rows, columns]
            still = np.ones(len(rows)) if self.kind == VALUE else middle * (1.0 - middle)
            found[rows, columns] = np.where(step != 0, moved / np.where(step != 0, step, 1.0), still)
            return found
        for place, weight in zip(*np.polynomial.legendre.leggauss(NUM_PLACES), strict=True):
            chances = special.softmax(before + 0.5 * (1.0 + place) * delta, axis=1)
            own = 0.5 * weight * chances[rows, columns]
            found -= own[:, None] * chances
            found[rows, columns] += own
        # What the sum over places misses, where a probability turns sharply, lies along the way.
        whole = (delta**2).sum(axis=1)
        missing = (moved - (found * delta).sum(axis=1)) / np.where(whole > 0, whole, 1.0)
        return np.asarray(found + np.where(whole > 0, missing, 0.0)[:, None] * delta)

    def flipped(self, before: FloatArray, after: FloatArray) -> BoolArray:
        """Whether the decision changed: another class, or a label that came or went; never for values."""
        if self.kind == CLASSES:
            return np.asarray(self.decide(before) != self.decide(after))
        if self.kind == VALUE:
            return np.zeros(np.shape(before)[:-1], dtype=np.bool_)
        return np.asarray(((before > 0) != (after > 0)).any(axis=-1))

    def explained(self, whole: float, left: float) -> float:
        """Share of a change of divergence `whole` that is accounted for where `left` of it remains.

        For values it is the share of the distance, since half of it would else show as three quarters.
        """
        if whole > 0:
            share = left / whole
            return float(1.0 - (np.sqrt(share) if self.kind == VALUE else share))
        return 1.0 if left == 0 else float("nan")

    def left_at(self, share: float) -> float:
        """What may remain of a divergence where `explained` is this share: the other way round; never quite nothing."""
        return max(1.0 - share, NEGLIGIBLE) ** (2 if self.kind == VALUE else 1)

    def check(self) -> None:
        """Only values have units."""
        require((self.scales is not None) == (self.kind == VALUE), "`output.scales` should be the units of values")
        require(self.scales is None or (self.scales > 0).all(), "`output.scales` should be above 0")

    def check_width(self, width: int, what: str) -> None:
        """Refuse a record with another number of columns."""
        if self.scales is not None and len(self.scales) != width:
            raise InputError(f"Expected a unit for each of {width} values in {what} (got {len(self.scales)}).")
        if self.kind == BINARY and width != 1:
            raise InputError(f"Expected one logit of a yes or no in {what} (got {width}).")


CLASSES_OUTPUT = Output()


def scales_of(logits: FloatArray) -> FloatArray:
    """The standard deviation of each column of values; 1 where a column does not vary. [num_columns]."""
    spread = logits.std(axis=0) if len(logits) else np.zeros(logits.shape[1])
    return np.where(spread > 0, spread, 1.0)

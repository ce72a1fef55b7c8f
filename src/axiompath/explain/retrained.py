"""Change under two models + chosen paths -> Retrained: what each model says of both graphs, and of the paths.

With f0 the model before and f1 the model after, four answers split the change between model and data:

    model         half of  f1(after) - f0(after) + f1(before) - f0(before)
    data          half of  f0(after) - f0(before) + f1(after) - f1(before)
    interaction            f1(after) - f0(after) - f1(before) + f0(before)     (each of the two has half of it)

Paths are what the data did, so that each model is asked by itself what it makes of them: undone in `after`, f1 can come
to f1(before) and no further; added to `before`, f0 can come to f0(after).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..metrics import fidelity_minus, fidelity_plus
from ..storage.codec import Shape


@dataclass(frozen=True, eq=False)
class Retrained:
    """What the two models say where they are crossed, and how far paths take each of them by itself."""

    logits_before: Annotated[FloatArray, Shape("classes")]  # of the model after, on `before`
    logits_after: Annotated[FloatArray, Shape("classes")]  # of the model before, on `after`
    fidelity_minus: Annotated[FloatArray, Shape(2)]  # paths undone in `after`, under the model before and after
    fidelity_plus: Annotated[FloatArray, Shape(2)]  # paths added to `before`, likewise

    def interaction(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """The interaction of model and data, of f0(before) and f1(after). [num_classes]."""
        return np.asarray(after - self.logits_after - self.logits_before + before)


def measure(change: Change, rows: IntArray, replays: Sequence[tuple[FloatArray, FloatArray]]) -> dict[str, Any]:
    """Fields of an Explanation, a value for each answer, from what each model says with the chosen undone, and added.

    Undone under the model after, added under the model before; where these differ, what each says by itself as well.
    """
    sides = []
    for one, (undone, added) in zip(change.by_model, replays, strict=True):
        ends = one.before_pass.logits[rows], one.after_pass.logits[rows], change.output.divergence
        sides.append((fidelity_minus(undone, *ends), fidelity_plus(added, *ends)))
    minus, plus = np.stack(sides, axis=2)
    found: dict[str, Any] = {"fidelity_minus": minus[:, -1], "fidelity_plus": plus[:, 0]}
    if len(sides) > 1:
        crossed = change.before_pass.logits[rows], change.by_model[0].after_pass.logits[rows]
        parts = zip(*crossed, minus, plus, strict=True)
        found["retrained"] = [Retrained(*(part.copy() for part in each)) for each in parts]
    return found

"""Change under two models + chosen paths -> Retrained: what each model says of both graphs, and of the paths.

With f0 the model before and f1 the model after, four answers split the change between model and data:

    model         half of  f1(after) - f0(after) + f1(before) - f0(before)
    data          half of  f0(after) - f0(before) + f1(after) - f1(before)
    interaction            f1(after) - f0(after) - f1(before) + f0(before)     (each of the two has half of it)

Paths are what the data did, so that each model is asked by itself what it makes of them: undone in `after`, f1 can come
to f1(before) and no further; added to `before`, f0 can come to f0(after).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..metrics import fidelity_minus, fidelity_plus
from ..storage.codec import Shape
from .replay import own_paths, replay_both


@dataclass(frozen=True, eq=False)
class Retrained:
    """What the two models say where they are crossed, and how far paths take each of them by itself."""

    # Of one answer; of several [num_answers, ...].
    logits_before: Annotated[FloatArray, Shape("classes")]  # of the model after, on `before`
    logits_after: Annotated[FloatArray, Shape("classes")]  # of the model before, on `after`
    fidelity_minus: Annotated[FloatArray, Shape(2)]  # paths undone in `after`, under the model before and after
    fidelity_plus: Annotated[FloatArray, Shape(2)]  # paths added to `before`, likewise

    def take(self, i: int) -> Retrained:
        """That of one answer."""
        parts = self.logits_before, self.logits_after, self.fidelity_minus, self.fidelity_plus
        return Retrained(*(part[i].copy() for part in parts))

    def interaction(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """The interaction of model and data, of f0(before) and f1(after). [num_classes]."""
        return np.asarray(after - self.logits_after - self.logits_before + before)


class Measured(NamedTuple):
    """What the network itself answers with the chosen paths."""

    minus: FloatArray  # [num_answers]: fidelity; under the model after, where there are two
    plus: FloatArray  # [num_answers]: under the model before, where there are two
    retrained: Retrained | None


def measure(change: Change, rows: IntArray, job: IntArray, paths: IntArray) -> Measured:
    """Replay the paths of all answers, both ways; under each model by itself, where there are two."""
    if not change.earlier:
        return Measured(*_fidelities(change, rows, job, paths), None)
    minus, plus = np.stack([_measure_alone(one, rows, job, paths) for one in change.by_model], axis=2)
    crossed = change.before_pass.logits[rows], change.by_model[0].after_pass.logits[rows]
    return Measured(minus[:, -1], plus[:, 0], Retrained(*crossed, minus, plus))


def _measure_alone(change: Change, rows: IntArray, job: IntArray, paths: IntArray) -> tuple[FloatArray, FloatArray]:
    """Both fidelities under one of two models by itself; paths that are none of its own do nothing there."""
    own, places = own_paths(change, paths, altered=True)
    return _fidelities(change, rows, job[places], own)


def _fidelities(change: Change, rows: IntArray, job: IntArray, paths: IntArray) -> tuple[FloatArray, FloatArray]:
    """Paths undone in `after`, and added to `before`. [num_answers] each."""
    undone, added = replay_both(change, rows, job, paths)
    before, after = (run.logits[rows] for run in (change.before_pass, change.after_pass))
    divergence = change.output.divergence
    return fidelity_minus(undone, before, after, divergence), fidelity_plus(added, before, after, divergence)

"""An evaluator and a goal -> TriedSets: margins of sets of undone changes, by the evaluator, until the time is spent.

Sets are tried some at a time, as many as a fraction of a second holds, so that the time that was given is kept: what is
under way may take half a second more, and then `OutOfTime` ends the search wherever it stands. An effort may be counted
in evaluations besides, so that the same search tries the same sets on every machine.
"""

from __future__ import annotations

import math
import time

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from .engine import SubsetEvaluator
from .goal import UndoGoal

FIRST = 1 << 12  # sets that are begun whatever the time
FIRST_OF_OWN = 1 << 6  # the same where the user's own model answers
SETS_AT_A_TIME = 1 << 14  # sets that are tried at a time, at most
SECONDS_AT_A_TIME = 0.1  # that these may take
FIRST_AT_A_TIME = 8  # of the network; of the user's own model one
GROWTH = 8  # times as many at a time as before, as long as they take less
GRACE = 0.5  # seconds beyond the limit in which what was begun may end
NUM_JUDGED = 12  # sets that the user's model is asked about whatever the time, before the next size is looked at
NEAR = 1e-4  # a margin so small, relative to the largest logit, is for the user's model to decide
NEAR_IN_DOUBLE = 1e-9  # the same where that computes in float64, too


class OutOfTime(Exception):
    """The time is over; what was found until then is the answer."""


class Disagreement(Exception):
    """The user's model decides otherwise than the evaluator, beyond rounding; the search has to be made with it."""


class TriedSets:
    """The sets that were tried; truth values are of what is undone."""

    def __init__(
        self,
        evaluator: SubsetEvaluator,
        goal: UndoGoal,
        costs: FloatArray,
        free: IntArray,
        seconds: float,
        most_evaluations: float = math.inf,
    ) -> None:
        self.evaluator, self.goal, self.costs, self.free = evaluator, goal, costs, free
        self.started, self.seconds, self.most_evaluations = time.monotonic(), seconds, most_evaluations
        self.num_evaluations = 0
        self.spent_trying = 0.0
        self.scale = 1.0
        self.at_a_time = FIRST_AT_A_TIME if evaluator.by_network else 1
        if math.isinf(seconds):  # no time has to be kept
            self.at_a_time = SETS_AT_A_TIME
        self.rough: IntArray | None = None  # the cheapest that the evaluator found so far, whether judged or not
        self.anyhow = math.inf  # seconds that the network takes however few sets it is asked about

    @property
    def left(self) -> float:
        """Seconds that are left; less than any, where all evaluations are made."""
        if self.num_evaluations >= self.most_evaluations:
            return -math.inf
        return self.seconds - (time.monotonic() - self.started)

    def affords(self, number: int, part: float = 0.5) -> bool:
        """Whether so many sets can be tried in this part of the time that is left; a few always are."""
        if number <= (FIRST if self.evaluator.by_network else FIRST_OF_OWN):
            return True
        if number > part * (self.most_evaluations - self.num_evaluations):
            return False
        if self.num_evaluations == 0 and self.left > 0:  # what one takes is not known before some are tried
            self.margins(self.free[: self.at_a_time, None])
        return self.num_evaluations > 0 and number * self.spent_trying / self.num_evaluations <= part * self.left

    @property
    def near(self) -> float:
        """A margin so small is for the judge to decide."""
        return (NEAR_IN_DOUBLE if self.evaluator.double else NEAR) * self.scale

    def applied(self, undone: IntArray) -> BoolArray:
        """Truth values of what is applied without these: rows of places, -1 for none. [num_sets, num_changes]."""
        applied = np.ones((len(undone), self.evaluator.num_changes + 1), dtype=np.bool_)
        applied[np.arange(len(undone))[:, None], undone] = False
        return applied[:, :-1]

    def margins(self, undone: IntArray, *, all_of_them: bool = True) -> FloatArray:
        """Margins without these changes: rows of places among the changes that reach it, -1 for none. [num_sets].

        Not all of them: those that the time does not hold are minus infinity, so that the others still count.
        """
        found, start = [np.zeros(0)], 0
        while start < len(undone):
            if not all_of_them and start and self.left < 0:
                found.append(np.full(len(undone) - start, -math.inf))
                break
            self.check()
            some = undone[start : start + int(min(self.at_a_time, self.most_evaluations - self.num_evaluations))]
            began = time.monotonic()
            logits = self.evaluator.run(self.applied(some))
            took = time.monotonic() - began
            self.num_evaluations += len(some)
            self.spent_trying += took
            self.scale = max(self.scale, float(np.abs(logits).max(initial=0.0)))
            found.append(self.goal.margin(logits))
            self._note(some, found[-1])
            start += len(some)
            self.anyhow = min(self.anyhow, took) if self.evaluator.by_network else 0.0
            may_take = max(SECONDS_AT_A_TIME, self.anyhow)
            fits = int(min(len(some) * may_take / max(took - self.anyhow, 1e-9), SETS_AT_A_TIME))
            if not math.isinf(self.seconds) and (len(some) == self.at_a_time or fits < self.at_a_time):
                self.at_a_time = max(1, min(fits, GROWTH * self.at_a_time))
        return np.concatenate(found)

    def _note(self, sets: IntArray, margins: FloatArray) -> None:
        """Remember the cheapest of these that does it, for the case that the time ends."""
        able = np.flatnonzero(margins > self.near)
        if len(able):
            cost = np.where(sets[able] >= 0, self.costs[sets[able]], 0.0).sum(axis=1)
            place = able[np.lexsort((-margins[able], cost))[0]]
            if self.rough is None or cost.min() < float(self.costs[self.rough].sum()):
                self.rough = sets[place][sets[place] >= 0]

    def check(self) -> None:
        """Raise OutOfTime where the time is over."""
        if self.left < -GRACE:
            raise OutOfTime

    def judge(self, undone: IntArray) -> tuple[bool, FloatArray]:
        """What the user's own model says; Disagreement where the evaluator clearly says otherwise."""
        applied = self.applied(undone[None])
        logits = self.evaluator.own(applied)
        reached = bool(self.goal.reached(logits)[0])
        if not self.evaluator.judges_itself:
            margin = float(self.goal.margin(self.evaluator.run(applied))[0])
            if abs(margin) > self.near and (margin > 0) != reached:
                raise Disagreement
        return reached, logits[0]

    def first_that_holds(self, sets: IntArray, margins: FloatArray) -> tuple[IntArray | None, bool]:
        """The cheapest set, best first among equals, that the user's model agrees with; whether one was passed over.

        Sets whose margin is too small to trust are put to the user's model: a few of them, and as many as half of the
        time holds.
        """
        near = self.near
        able = np.flatnonzero(margins > -near)
        spent = self.costs[sets[able]].sum(axis=1)
        num_near, passed = 0, False
        for place in able[np.lexsort((-margins[able], spent))].tolist():
            if margins[place] <= near:
                num_near += 1
                if num_near > NUM_JUDGED and self.left < self.seconds / 2:
                    passed = True
                    continue
            self.check()
            if self.judge(sets[place])[0]:
                return sets[place], passed
        return None, passed

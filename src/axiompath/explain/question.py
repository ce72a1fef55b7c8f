"""Question: how many paths, chosen how, to what end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..baselines import BASELINES
from ..errors import InputError
from ..selection import DEFAULT_METHOD, METHODS
from ..selection.choice import FEWEST, OBJECTIVES
from ..selection.solve import MISSED, NO_FEWER

AUTO_DEPTH = "auto"
RELAXED = ("convex", "exact")  # methods that solve the relaxation
ENOUGH = 0.9  # share of a change that an explanation accounts for, where its size is not said
MOST_PATHS = 20  # and the most paths that it has
LARGEST_BUDGET = 2**31 - 1
MOST_UNITS = 10  # of groups, where their number is not said


def is_number(value: object) -> bool:
    """Whether this is a number, which truth values are not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Question:
    """How many paths, chosen how, to what end."""

    budget: int
    method: str = DEFAULT_METHOD
    objective: str = "sufficiency"
    at_most: bool = False
    until: float | None = None  # the fewest paths that explain this share, and not more than the budget
    depth: int | str | None = None  # hops of a unit, or "auto"; None for whole paths

    def describe_fewest(self, fewest: str, number: int, share: float, what: str = "paths") -> str:
        """Whether so many, which explain this share, are enough, and whether fewer are: a sentence after a blank."""
        if self.until is None:
            return ""
        if fewest == FEWEST[MISSED]:
            down = np.floor(1e3 * share) / 1e3  # never up to what was asked
            return f" {number} {what} explain {down:g}; until={self.until:g} was asked."
        if self.method not in RELAXED:
            return f" No shorter prefix of this ranking explains {self.until:g}."
        if fewest == FEWEST[NO_FEWER]:
            return f" No fewer explain {self.until:g}."
        return f" Fewer were searched and none found that explain {self.until:g}; some may."

    def __post_init__(self) -> None:
        """Check here, before any work."""
        if isinstance(self.budget, bool) or not isinstance(self.budget, (int, np.integer)) or self.budget < 0:
            raise InputError(f"Expected a budget of 0 or more paths, a whole number (got {self.budget!r}).")
        if self.budget > LARGEST_BUDGET:
            raise InputError(f"Expected a budget of at most {LARGEST_BUDGET:,} paths (got {self.budget:,}).")
        if self.until is not None and not (is_number(self.until) and 0 < self.until <= 1):
            raise InputError(f"Expected a share of the change above 0 and up to 1 as `until` (got {self.until!r}).")
        if self.method not in (*METHODS, *BASELINES):
            raise InputError(f"Expected a method among {', '.join((*METHODS, *BASELINES))} (got {self.method!r}).")
        if self.objective not in OBJECTIVES:
            raise InputError(f"Expected an objective among {', '.join(OBJECTIVES)} (got {self.objective!r}).")
        if self.at_most and self.method not in RELAXED:
            raise InputError(f"Expected at_most only with the methods convex and exact (got {self.method!r}).")
        whole = isinstance(self.depth, (int, np.integer)) and not isinstance(self.depth, bool) and self.depth >= 1
        if self.depth is not None and self.depth != AUTO_DEPTH and not whole:
            raise InputError(f"Expected a depth of 1 hop or more, or {AUTO_DEPTH!r} (got {self.depth!r}).")
        if self.depth is not None and self.method in BASELINES:
            raise InputError(
                f"Expected no depth with the method {self.method}, which ranks whole paths (got depth={self.depth!r}); "
                f"groups are chosen by {', '.join(METHODS)}."
            )

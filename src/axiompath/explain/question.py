"""Question: how many paths, chosen how, to what end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..rivals import RIVALS
from ..selection import DEFAULT_METHOD, METHODS
from ..selection.choice import OBJECTIVES

AUTO_DEPTH = "auto"
RELAXED = ("convex", "exact")  # methods that solve the relaxation


@dataclass(frozen=True)
class Question:
    """How many paths, chosen how, to what end."""

    budget: int
    method: str = DEFAULT_METHOD
    objective: str = "sufficiency"
    at_most: bool = False
    depth: int | str | None = None  # hops of a unit, or "auto"; None for whole paths

    def __post_init__(self) -> None:
        """Check here, before any work."""
        if isinstance(self.budget, bool) or not isinstance(self.budget, (int, np.integer)) or self.budget < 0:
            raise InputError(f"Expected a budget of 0 or more paths, a whole number (got {self.budget!r}).")
        if self.method not in (*METHODS, *RIVALS):
            raise InputError(f"Expected a method among {', '.join((*METHODS, *RIVALS))} (got {self.method!r}).")
        if self.objective not in OBJECTIVES:
            raise InputError(f"Expected an objective among {', '.join(OBJECTIVES)} (got {self.objective!r}).")
        if self.at_most and self.method not in RELAXED:
            raise InputError(f"Expected at_most with the methods convex and exact alone (got {self.method!r}).")
        whole = isinstance(self.depth, (int, np.integer)) and not isinstance(self.depth, bool) and self.depth >= 1
        if self.depth is not None and self.depth != AUTO_DEPTH and not whole:
            raise InputError(f"Expected a depth of 1 hop or more, or {AUTO_DEPTH!r} (got {self.depth!r}).")
        if self.depth is not None and self.method in RIVALS:
            raise InputError(
                f"Expected no depth with the method {self.method}, which ranks whole paths (got depth={self.depth!r}); "
                f"groups are chosen by {', '.join(METHODS)}."
            )

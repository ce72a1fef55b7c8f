"""Group: what a record says of one chosen group of paths beside its sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from ..arrays import FloatArray, IntArray
from ..change.states import KINDS
from ..codec import Count, Shape, one_of, require

Kind: TypeAlias = Annotated[str, one_of(*KINDS)]


@dataclass(frozen=True, eq=False)
class Group:
    """All altered paths that end alike: how many, and those that add most to what it adds."""

    row: Count  # which of the chosen units it is
    size: Count  # altered paths; exact up to 2^53
    paths: Annotated[IntArray, Shape("shown", "places")]  # whole paths, leaf first, the largest first
    contributions: Annotated[FloatArray, Shape("shown", "classes")]
    kinds: Annotated[tuple[Kind, ...], Shape("shown")]

    def check(self) -> None:
        """Whole paths have nodes, and a bias at most before them."""
        require(self.paths.min(initial=0) >= -1, "`groups` should have whole paths, of nodes and -1 for a bias")

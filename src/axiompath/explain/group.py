"""Group: what a record says of one chosen group of paths beside its sum; plain values in and out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray
from ..change.states import KINDS
from ..errors import InputError
from ..trust import read_words


@dataclass(frozen=True, eq=False)
class Group:
    """All altered paths that end alike: how many, and those that add most to what it adds."""

    row: int  # which of the chosen units it is
    size: int  # altered paths; exact up to 2^53
    paths: IntArray  # [shown, num_hops + 1]: whole paths, leaf first, the largest first
    contributions: FloatArray  # [shown, num_classes]
    kinds: tuple[str, ...]  # [shown]

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {
            "row": self.row,
            "size": self.size,
            "paths": self.paths.tolist(),
            "contributions": self.contributions.tolist(),
            "kinds": list(self.kinds),
        }

    @classmethod
    def from_dict(cls, values: Any, shape: tuple[int, int]) -> Group:
        """The same again, checked; `shape` is the length of a path and the number of classes."""
        kinds = read_words(values["kinds"], "kinds")
        paths = np.asarray(values["paths"]).reshape(len(kinds), shape[0])
        shares = np.asarray(values["contributions"]).reshape(len(kinds), shape[1])
        known = all(type(values[name]) is int and values[name] >= 0 for name in ("row", "size")) and {*kinds} <= {
            *KINDS
        }
        if not known or (len(kinds) and (paths.dtype.kind != "i" or shares.dtype.kind not in "if" or paths.min() < -1)):
            raise InputError(
                "Expected groups of paths, each with its row, its size and some of its paths (got others)."
            )
        return cls(values["row"], values["size"], paths.astype(np.int64), shares.astype(np.float64), kinds)

"""The events of a window -> features of its nodes, made here where no table has any.

degrees    log(1 + number of nodes that it sent to, and that it received from, in the window): it moves as edges do
constant   1 at every node: whatever is predicted comes from the edges
codes      32 numbers a node, drawn from its name: the same in every snapshot, and for a node that is new
one-hot    one column per node; sparse; another width as soon as there are more nodes
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from .data_fields import to_torch_csr
from .windows import pair_keys, split_keys

NUM_CODES = 32


@dataclass(frozen=True, eq=False)
class Moment:
    """The input of a function that makes features: the nodes of one snapshot and the events of its window."""

    nodes: IntArray  # [num_nodes], numbers
    names: tuple[str, ...]  # of these nodes
    source: IntArray  # [num_events], rows of `nodes`
    target: IntArray
    time: Any
    weight: FloatArray | None
    num_all: int  # nodes of all snapshots together
    codes: FloatArray | None = None  # of these nodes


def degrees(moment: Moment) -> FloatArray:
    """log(1 + the number of different nodes that each sent to, and received from)."""
    found = np.zeros((len(moment.nodes), 2))
    if len(moment.source):
        pairs = split_keys(np.unique(pair_keys(moment.source, moment.target)))
        for column, ends in enumerate(pairs):
            found[:, column] = np.bincount(ends, minlength=len(moment.nodes))
    return np.log1p(found)


def constant(moment: Moment) -> FloatArray:
    """One column of ones."""
    return np.ones((len(moment.nodes), 1))


def one_hot(moment: Moment) -> sparse.csr_array:
    """One column per node."""
    size = len(moment.nodes)
    return sparse.csr_array(
        (np.ones(size), moment.nodes, np.arange(size + 1)), shape=(size, max(moment.num_all, 1)), dtype=np.float64
    )


def take_codes(moment: Moment) -> FloatArray:
    """What `code_names` drew for these nodes."""
    assert moment.codes is not None
    return moment.codes


def code_names(names: tuple[str, ...]) -> FloatArray:
    """[num_nodes, NUM_CODES] of unit length on average, only from the letters of the names."""
    digests = b"".join(hashlib.shake_128(name.encode()).digest(2 * NUM_CODES) for name in names)
    raw = np.frombuffer(digests, dtype="<u2").reshape(len(names), NUM_CODES)
    return np.asarray((raw / 65535.0 - 0.5) * np.sqrt(12.0 / NUM_CODES))


RECIPES: dict[str, Callable[[Moment], Any]] = {
    "degrees": degrees, "constant": constant, "codes": take_codes, "one-hot": one_hot,
}  # fmt: skip


def make_features(moment: Moment, wanted: Any) -> torch.Tensor:
    """x of a snapshot: what a name or a function gives, several of them side by side."""
    parts = []
    for one in wanted if isinstance(wanted, (list, tuple)) else [wanted]:
        make = RECIPES.get(one) if isinstance(one, str) else one
        if not callable(make):
            raise InputError(
                f"Expected features among {', '.join(RECIPES)}, a function, or several of these (got {one!r})."
            )
        found = make(moment)
        if isinstance(found, pd.DataFrame):
            found = found.to_numpy()
        if hasattr(found, "detach"):
            found = found.detach().cpu().numpy()
        if not sparse.issparse(found):
            found = np.asarray(found)
            found = found[:, None] if found.ndim == 1 else found
        if found.ndim != 2 or found.shape[0] != len(moment.nodes) or found.dtype.kind not in "biuf":
            raise InputError(
                f"Expected numbers of shape [{len(moment.nodes)}, num_features] from the function that makes features "
                f"(got {found.dtype} of shape {tuple(found.shape)})."
            )
        if not np.isfinite(found.data if sparse.issparse(found) else found).all():
            raise InputError("Expected finite numbers from the function that makes features (got some that are not).")
        parts.append(found)
    if any(sparse.issparse(part) for part in parts):
        return to_torch_csr(sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts])), torch.float32)
    return torch.from_numpy(np.concatenate(parts, axis=1).astype(np.float32))

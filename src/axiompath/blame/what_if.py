"""SubsetEngine + target + sets of changes -> logits with exactly these undone, or exactly these applied."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..arrays import FloatArray
from ..errors import InputError, Notice
from .engine import SubsetEngine
from .root import Root


def try_changes(
    engine: SubsetEngine, root: Root, *, undo: Any = None, apply: Any = None, open_nodes: bool = False
) -> FloatArray:
    """Logits on `after` with these changes undone, or on `before` with these applied.

    [num_logits] for ids in a row, [num_sets, num_logits] for several such rows.
    """
    if (undo is None) == (apply is None):
        raise InputError("Expected `undo` or `apply`, ids of changes as `changes()` lists them (got both, or neither).")
    given, name = (undo, "undo") if apply is None else (apply, "apply")
    if isinstance(given, (int, np.integer)):
        given = [given]
    wanted = list(given)
    several = any(np.ndim(some) > 0 or isinstance(some, (set, frozenset)) for some in wanted)
    if several and not all(np.ndim(some) > 0 or isinstance(some, (set, frozenset)) for some in wanted):
        raise InputError(f"Expected `{name}` to hold ids, or rows of ids (got both).")
    evaluator = engine.open(root, open_nodes=open_nodes)
    sets = wanted if several else [wanted]
    subsets = np.stack([evaluator.subset(some, applied=apply is not None, name=name) for some in sets])
    if evaluator.note:
        warnings.warn(evaluator.note, Notice, stacklevel=3)
    logits = evaluator.run(subsets)
    return logits if several else np.asarray(logits[0])

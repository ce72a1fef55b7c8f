"""Does attribution preserve the change? The paper's experiment: random parameters, random evolutions.

For every node whose logits changed, the change counts as preserved if the contributions of all altered paths sum to it
within 1e-5 for every class. The paper adds or deletes edges; here also both at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from axiompath.explainer import Explainer
from axiompath.files.sum_gnn import random_sum_gnn

from .. import datasets
from .fidelity import EVOLUTIONS

HIDDEN = 16
PRESERVED = 1e-5  # the paper's threshold


def run_preservation(
    names: Sequence[str],
    layers: Sequence[int],
    repeats: int = 1,
    root: str | Path | None = None,
) -> Iterator[dict[str, str | int | float]]:
    """One row for each data set, depth, evolution and repeat, as soon as it is known."""
    for name in names:
        before = datasets.load(name, root)
        for depth in layers:
            widths = [before.x.shape[1], *[HIDDEN] * (depth - 1), int(before.y.max()) + 1]
            for evolution, (added, removed) in EVOLUTIONS.items():
                for repeat in range(repeats):
                    after = datasets.evolve(before, added=added, removed=removed, seed=repeat)
                    start = time.perf_counter()
                    explainer = Explainer(random_sum_gnn(widths, seed=repeat), before, after)
                    targets = explainer.moved().target
                    found = [(a.residual, len(a.paths)) for a in explainer.attribute_many(targets)]
                    errors, num_paths = np.array(found).reshape(-1, 2).T
                    yield {
                        "dataset": name,
                        "layers": depth,
                        "evolution": evolution,
                        "repeat": repeat,
                        "targets": len(targets),
                        "paths": int(num_paths.sum()),
                        "preserved": int((errors < PRESERVED).sum()),
                        "largest_error": float(errors.max()),
                        "seconds": time.perf_counter() - start,
                    }


def summarise(rows: Sequence[dict[str, str | int | float]]) -> pd.DataFrame:
    """Repeats put together: a row for each data set, depth and evolution."""
    measures = {"targets": "sum", "paths": "sum", "preserved": "sum", "largest_error": "max", "seconds": "sum"}
    table = pd.DataFrame(rows).groupby(["dataset", "layers", "evolution"], sort=False).agg(measures)
    table["preserved_percent"] = 100.0 * table.pop("preserved") / table.targets
    return table.reset_index()

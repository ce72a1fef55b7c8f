"""Real evolution: train on an early stretch of a timed graph, explain the changes of prediction as it slides on.

A snapshot is the union of `span` consecutive windows of equally many events. From one snapshot to the next the oldest
window's edges go, unless they came again since, and those of a new window come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from axiompath.errors import InputError
from axiompath.explain.explanation import Explanation
from axiompath.explainer import Explainer

from .. import datasets
from .fidelity import compare_methods, find_targets, with_job
from .job_parts import Job
from .trained import Trained, Training, prepare, train

EXAMPLE_BUDGET = 5
CANDIDATES = 20
EASY_PATHS = 100  # a change with fewer is easier to describe


@dataclass(frozen=True)
class Slide:
    """How a timed graph becomes snapshots."""

    dataset: str
    layers: int = 2
    windows: int = 10
    span: int = 5
    features: str = "own"

    def __post_init__(self) -> None:
        """Check here, before any work."""
        if not 1 <= self.span < self.windows:
            raise InputError(f"Expected a span from 1 to {self.windows - 1} windows (got {self.span}).")


def load_slide(slide: Slide, root: str | Path | None = None) -> list[Data]:
    """The snapshots, oldest first, prepared as the networks see them."""
    windows = datasets.load_sequence(slide.dataset, slide.windows, root, features=slide.features)
    if windows[0].get("y") is None:
        raise InputError(f"Expected a timed graph with labels to train on (got {slide.dataset}, which has none).")
    return [join_windows(windows[i : i + slide.span]) for i in range(slide.windows - slide.span + 1)]


def join_windows(windows: Sequence[Data]) -> Data:
    """One prepared graph with the edges of all of these windows, each once."""
    data = windows[0].clone()
    edges = torch.cat([window.edge_index for window in windows], dim=1)
    data.edge_index = coalesce(edges, num_nodes=data.num_nodes)
    data.window = (windows[0].window[0], windows[-1].window[1])
    return prepare(data)


def train_first(slide: Slide, snapshots: Sequence[Data], cache: str | Path | None = None) -> Trained:
    """A network trained only on the oldest snapshot."""
    name = f"{slide.dataset}-{slide.features}-windows{slide.span}of{slide.windows}"
    return train(snapshots[0], Training(name, slide.layers), cache)


def run_timed(
    slide: Slide, *, root: str | Path | None = None, cache: str | Path | None = None, max_targets: int | None = None
) -> pd.DataFrame:
    """A row for each transition, target, level and method; `attrs` holds one record a transition, and the accuracy."""
    snapshots = load_slide(slide, root)
    trained = train_first(slide, snapshots, cache)
    frames, records = [], []
    for i, (before, after) in enumerate(pairwise(snapshots)):
        frame = compare_methods(trained.model, before, after, max_targets=max_targets)
        came, went = _count_new(before, after), _count_new(after, before)
        records.append({"transition": i, "edges": before.num_edges, "came": came, "went": went, **frame.attrs})
        if len(frame):
            frames.append(with_job(frame, Job(slide.dataset, slide.layers, "timed", i)))
    if not frames:
        raise InputError(f"Expected changed predictions between the snapshots of {slide.dataset} (got none).")
    whole = pd.concat([frame.copy() for frame in frames], ignore_index=True)
    whole.attrs = {"accuracy": trained.test_accuracy, "weights": trained.digest, "transitions": records}
    return whole


def pick_example(
    slide: Slide, *, root: str | Path | None = None, cache: str | Path | None = None
) -> tuple[int, Explanation]:
    """Transition and explanation of the change that five paths explain best.

    Looked for among the changes of class with 11 to 99 altered paths (more where there is none), the twenty with the
    largest KL a transition.
    """
    snapshots = load_slide(slide, root)
    model = train_first(slide, snapshots, cache).model
    best: tuple[int, Explanation] | None = None
    for i, (before, after) in enumerate(pairwise(snapshots)):
        explainer = Explainer(model, before, after)
        moved = find_targets(explainer)
        short = moved[moved.num_paths < EASY_PATHS]
        moved = (short if len(short) else moved).head(CANDIDATES)
        for found in explainer.explain_many(moved.target, EXAMPLE_BUDGET, "exact", progress=False):
            if best is None or found.explained > best[1].explained:
                best = (i, found)
    if best is None:
        raise InputError(
            f"Expected a changed prediction with more than 10 altered paths in {slide.dataset} (found none)."
        )
    return best


def _count_new(before: Data, after: Data) -> int:
    """Undirected edges of `after` that `before` does not have."""
    keys = [np.unique(np.sort(d.edge_index.numpy(), axis=0).T @ [d.num_nodes, 1]) for d in (before, after)]
    return int((~np.isin(keys[1], keys[0])).sum())

"""Change + thresholds -> Plan: which nodes to explain, cut into parts, before any of their paths is walked.

The number of altered paths of every node is known beforehand, hence what each part costs and how much memory it takes.
A part is a piece of the output: which targets it holds depends only on the change and the question, never on workers,
engine or memory, so that every run of the same scan writes the same parts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..baselines.gnnlrp import BLOCK_BYTES
from ..change.comparison import Change
from ..errors import InputError
from ..explain.answer import pool_bytes
from ..explain.explanation import Caption
from ..explain.moved import find_flipped
from ..explain.question import Question
from ..explain.walks import Walks, find_priced, plan_walks
from ..storage.codec import to_plain
from ..storage.memory import cut_runs
from ..storage.origin import Origin, digest_of

PART_TARGETS = 1000
PART_COST = 2e6  # paths; a part takes about a second
TARGET_COST = 500.0  # what a target costs beside its paths, in paths
PRICED_COST = 10_000.0  # what finding the paths of a target without a list costs, in paths


@dataclass(frozen=True)
class Thresholds:
    """Which of the nodes that an altered path reaches are worth explaining."""

    min_kl: float = 1e-3
    only_flips: bool = False

    def __post_init__(self) -> None:
        """Check here, before any work."""
        if not (isinstance(self.min_kl, (int, float)) and 0 <= self.min_kl < float("inf")):
            raise InputError(f"Expected a smallest KL divergence of 0 or more, in nats (got {self.min_kl!r}).")
        # 0 and 0.0 are one scan.
        object.__setattr__(self, "min_kl", float(self.min_kl))
        object.__setattr__(self, "only_flips", bool(self.only_flips))

    def admit(self, moved: pd.DataFrame) -> NDArray[np.bool_]:
        """Nodes whose class changed; and, unless only they are wanted, those whose KL is large enough."""
        flipped = find_flipped(moved)
        return flipped if self.only_flips else flipped | (moved.kl.to_numpy() >= self.min_kl)


@dataclass(frozen=True, eq=False)
class Plan:
    """Targets in order (largest KL first), and where each part begins."""

    question: Question
    thresholds: Thresholds
    moved: pd.DataFrame  # every node that an altered path reaches, see `Explainer.moved`
    walks: Walks  # of the targets, with upper bounds on what walking and choosing takes
    costs: FloatArray  # [num_targets]: in paths
    indptr: IntArray  # [num_parts + 1]
    too_large: pd.DataFrame  # target, name, num_paths, bytes: what the budget does not hold
    digest: str  # of everything that decides a byte of the output
    origin: Origin
    task: dict[str, Any]  # what is predicted, see `Change.task`

    @property
    def targets(self) -> IntArray:
        """Rows of the aligned snapshots, [num_targets]."""
        return self.walks.rows

    @property
    def num_parts(self) -> int:
        """Pieces of the output."""
        return len(self.indptr) - 1

    def part(self, index: int) -> slice:
        """Places of a part's targets."""
        return slice(int(self.indptr[index]), int(self.indptr[index + 1]))

    def cost_of(self, index: int) -> float:
        """What a part costs, in paths."""
        return float(self.costs[self.part(index)].sum())


def make_plan(
    change: Change,
    moved: pd.DataFrame,
    num_paths: NDArray[Any],
    num_bytes: FloatArray,
    question: Question,
    thresholds: Thresholds,
    room: float,
    caption: Caption,
) -> Plan:
    """Of the moved nodes leave out those below the thresholds, list those too large for the room of a worker.

    `num_paths` and `num_bytes` are known of every node before any path is walked, [num_nodes].
    """
    beside = _bytes_beside(change, question)
    admitted = moved[thresholds.admit(moved)]
    rows = admitted.row.to_numpy()
    sizes, kept = num_bytes[rows] + beside, pool_bytes(change, question) + beside
    priced = find_priced(change, num_paths[rows], question)
    walks = plan_walks(rows, sizes, num_paths[rows], priced, room, kept)
    fits = walks.fits
    too_large = pd.DataFrame(
        {
            "target": admitted.target[~fits],
            "name": admitted.name[~fits],
            "num_paths": _as_counts(num_paths[rows[~fits]]),
            "bytes": walks.sizes[~fits],
        }
    )
    walks = walks.take(np.flatnonzero(fits))
    costs = TARGET_COST + np.where(walks.counts > 0, PRICED_COST, num_paths[walks.rows]).astype(np.float64)
    return Plan(
        question,
        thresholds,
        moved.drop(columns="row").assign(num_paths=_as_counts(moved.num_paths.to_numpy())),
        walks,
        costs,
        cut_parts(costs),
        too_large.reset_index(drop=True),
        _digest(change, walks.rows, caption, [asdict(question), asdict(thresholds)]),
        caption.origin,
        change.task,
    )


def cut_parts(costs: FloatArray) -> IntArray:
    """Consecutive targets: at most PART_TARGETS, and no more than PART_COST unless a single target costs more."""
    return cut_runs(costs, PART_COST, PART_TARGETS)


def _bytes_beside(change: Change, question: Question) -> float:
    """Bytes for a target's record on its way to the file, and for what a rival's ranking holds."""
    numbers = change.network.num_classes + change.network.num_positions + 3
    record = 20e3 + question.budget * numbers * 50.0
    if question.method == "gnnlrp":
        return record + 2 * BLOCK_BYTES
    if question.method == "grad":
        widest = max(layer.width for layer in change.network.layers)
        return record + 40.0 * max(len(layer.indices) for layer in change.layers) + 16.0 * widest * change.num_nodes
    return record


def _as_counts(counts: NDArray[Any]) -> NDArray[Any]:
    """Integers; floating point where 64 bits would not do."""
    return counts.astype(np.float64 if counts.dtype == object else np.int64)


def _digest(change: Change, targets: IntArray, caption: Caption, settings: list[Any]) -> str:
    """What decides the output: question, targets, names, model, graphs, coefficients, messages, logits."""
    # Another release may round or choose otherwise, and parts of two must not be mixed.
    constants = [to_plain(caption.origin), PART_TARGETS, PART_COST, TARGET_COST, PRICED_COST]
    # Layers with the same rules share their coefficients.
    layers = {id(entries): entries for entries in change.layers}.values()
    coefficients = [[entries.indptr, entries.indices, entries.before, entries.after] for entries in layers]
    logits = [change.logits_before, change.logits_after]
    messages = change.messages[:1] if change.messages[0] is change.messages[1] else change.messages
    names = [caption.class_names, sorted(caption.node_names.items())]
    settings_text = json.dumps([constants, settings, names, change.task], sort_keys=True, default=int)
    return digest_of(
        settings_text, coefficients, targets, change.before.node_ids, change.root_ids, list(messages), logits
    )

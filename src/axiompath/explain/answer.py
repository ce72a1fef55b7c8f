"""PathSet + Shares + Question -> Choice: the paths of each target that a method picks, and what they achieve.

Methods that rank altered paths (convex, exact, linear, topk, deeplift) see the contributions alone; the rivals gnnlrp
and grad rank all paths of `after`, and what they pick may not be altered at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special
from torch_geometric.data import Data

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import KINDS
from ..errors import InputError
from ..metrics import fidelity_minus, fidelity_plus, kl_divergence
from ..paths.attribution import Shares, sum_up
from ..paths.walk import PathSet, find_rows
from ..rivals import best_by_gradient, best_by_relevance
from ..selection import DEFAULT_METHOD, METHODS, Selection, select_budgets, select_many
from .explanation import Explanation
from .hops import hops_of
from .replay import replay_paths

RIVALS = {"gnnlrp": best_by_relevance, "grad": best_by_gradient}
OBJECTIVES = ("sufficiency", "necessity")


@dataclass(frozen=True)
class Question:
    """How many paths, chosen how, to what end."""

    budget: int
    method: str = DEFAULT_METHOD
    objective: str = "sufficiency"
    at_most: bool = False

    def __post_init__(self) -> None:
        """Check here, before any work."""
        if isinstance(self.budget, bool) or not isinstance(self.budget, (int, np.integer)) or self.budget < 0:
            raise InputError(f"Expected a budget of 0 or more paths, a whole number (got {self.budget!r}).")
        if self.method not in (*METHODS, *RIVALS):
            raise InputError(f"Expected a method among {', '.join((*METHODS, *RIVALS))} (got {self.method!r}).")
        if self.objective not in OBJECTIVES:
            raise InputError(f"Expected an objective among {', '.join(OBJECTIVES)} (got {self.objective!r}).")
        if self.at_most and self.method not in ("convex", "exact"):
            raise InputError(f"Expected at_most with the methods convex and exact alone (got {self.method!r}).")


@dataclass(frozen=True, eq=False)
class Choice:
    """One target's chosen paths (as rows of the aligned snapshots) and the numbers that judge them."""

    question: Question
    row: int
    num_paths: int
    paths: IntArray  # [n, num_hops + 1]
    contributions: FloatArray  # [n, num_classes]
    weights: FloatArray  # [n]
    kinds: tuple[str, ...]
    causes: dict[str, FloatArray]
    completeness: float
    kl_residual: float
    kl_bound: float
    status: str
    logits_undone: FloatArray | None = None
    logits_added: FloatArray | None = None

    def to_explanation(self, change: Change, before_data: Data | None, after_data: Data | None) -> Explanation:
        """The public record, in the user's node numbers."""
        ids = change.before.node_ids
        before, after = change.before_pass.logits[self.row], change.after_pass.logits[self.row]
        assert self.logits_undone is not None
        assert self.logits_added is not None
        return Explanation(
            target=int(ids[self.row]),
            method=self.question.method,
            objective=self.question.objective,
            budget=int(self.question.budget),
            class_before=int(before.argmax()),
            class_after=int(after.argmax()),
            prob_before=special.softmax(before),
            prob_after=special.softmax(after),
            logits_before=before,
            logits_after=after,
            kl=float(kl_divergence(after, before)),
            num_paths=self.num_paths,
            paths=np.where(self.paths >= 0, ids[self.paths], -1),
            contributions=self.contributions,
            weights=self.weights,
            kinds=self.kinds,
            causes=self.causes,
            kl_residual=self.kl_residual,
            kl_bound=self.kl_bound,
            gap=self.kl_residual - self.kl_bound,
            fidelity_minus=float(fidelity_minus(self.logits_undone, before, after)),
            fidelity_plus=float(fidelity_plus(self.logits_added, before, after)),
            completeness=self.completeness,
            status=self.status,
            hops=hops_of(change.network),
            graph_before=before_data,
            graph=after_data,
        )


def choose_batch(change: Change, found: PathSet, shares: Shares, question: Question) -> list[Choice]:
    """One Choice for each target of the batch, in order."""
    if question.method in RIVALS:
        choices = [_choose_rival(change, found, shares, i, question) for i in range(len(found.targets))]
        return replay_choices(change, choices)
    selections = select_many(
        shares.contributions,
        change.before_pass.logits[found.targets],
        change.after_pass.logits[found.targets],
        question.budget,
        method=question.method,
        objective=question.objective,
        at_most=question.at_most,
        offsets=found.indptr,
    )
    choices = [_from_selection(change, found, shares, i, question, s) for i, s in enumerate(selections)]
    return replay_choices(change, choices)


def choose_budgets(change: Change, found: PathSet, shares: Shares, questions: Sequence[Question]) -> list[Choice]:
    """One Choice for each question about the one target of `found`; they differ in their budgets alone."""
    if not questions:
        return []
    first = questions[0]
    if first.method in RIVALS:
        row = int(found.targets[0])
        most = max(int(question.budget) for question in questions)
        paths, _ = RIVALS[first.method](change, row, most, int(change.after_pass.logits[row].argmax()))
        ranked = [_judge(change, found, shares, 0, question, paths[: question.budget]) for question in questions]
        return replay_choices(change, ranked)
    (target,) = found.targets
    selections = select_budgets(
        shares.contributions,
        change.before_pass.logits[target],
        change.after_pass.logits[target],
        [question.budget for question in questions],
        method=first.method,
        objective=first.objective,
        at_most=first.at_most,
    )
    choices = [
        _from_selection(change, found, shares, 0, question, selection)
        for question, selection in zip(questions, selections, strict=True)
    ]
    return replay_choices(change, choices)


def _from_selection(
    change: Change, found: PathSet, shares: Shares, i: int, question: Question, selection: Selection
) -> Choice:
    rows = found.indptr[i] + selection.chosen
    return Choice(
        question,
        paths=found.paths[rows],
        contributions=shares.contributions[rows],
        weights=selection.weights[selection.chosen],
        kinds=tuple(KINDS[kind] for kind in shares.kinds[rows]),
        kl_residual=selection.kl_residual,
        kl_bound=selection.kl_bound,
        status=selection.status,
        **_whole(change, found, shares, i),
    )


def _choose_rival(change: Change, found: PathSet, shares: Shares, i: int, question: Question) -> Choice:
    row = int(found.targets[i])
    label = int(change.after_pass.logits[row].argmax())
    paths, _ = RIVALS[question.method](change, row, int(question.budget), label)
    return _judge(change, found, shares, i, question, paths)


def _judge(change: Change, found: PathSet, shares: Shares, i: int, question: Question, paths: IntArray) -> Choice:
    row = int(found.targets[i])
    before, after = change.before_pass.logits[row], change.after_pass.logits[row]
    place = find_rows(found.paths[found.indptr[i] : found.indptr[i + 1]], paths)
    altered = place >= 0
    # A rival may choose what is not altered; of an empty set of altered paths it can choose nothing else.
    rows = found.indptr[i] + place[altered]
    contributions = np.zeros((len(paths), change.network.num_classes))
    contributions[altered] = shares.contributions[rows]
    kinds = np.full(len(paths), "unchanged", dtype=object)
    kinds[altered] = [KINDS[kind] for kind in shares.kinds[rows]]
    total = contributions.sum(axis=0)
    ends = (after, before + total) if question.objective == "sufficiency" else (before, after - total)
    return Choice(
        question,
        paths=paths,
        contributions=contributions,
        weights=np.ones(len(paths)),
        kinds=tuple(kinds),
        kl_residual=float(kl_divergence(*ends)),
        kl_bound=0.0,
        status="ranked: chosen by what matters on `after` alone; method='exact' looks for what explains the change.",
        **_whole(change, found, shares, i),
    )


def _whole(change: Change, found: PathSet, shares: Shares, i: int) -> dict[str, Any]:
    """What a Choice says of all altered paths of its target."""
    row = int(found.targets[i])
    return {"row": row, **vars(sum_up(change, row, int(found.indptr[i + 1] - found.indptr[i]), shares.causes[i]))}


def replay_choices(change: Change, choices: list[Choice]) -> list[Choice]:
    """Both replays of all choices at once."""
    if not choices:
        return []
    targets = np.array([choice.row for choice in choices])
    job = np.repeat(np.arange(len(choices)), [len(choice.paths) for choice in choices])
    paths = np.concatenate([choice.paths for choice in choices])
    undone = replay_paths(change, targets, job, paths)
    added = replay_paths(change, targets, job, paths, add=True)
    return [replace(choice, logits_undone=undone[i], logits_added=added[i]) for i, choice in enumerate(choices)]

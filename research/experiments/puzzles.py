"""Name of a setting -> Puzzles: a model, two graphs, one prediction that moved, and its cause where that was planted.

    house, cycle    a motif on a Barabasi-Albert graph loses an edge; a GIN of three layers
    hub, shift      a node comes, with many edges; the features of a class move; a GraphSAGE of two layers
    cora            a tenth of the citations drawn anew; a GCN of two layers; torch_geometric downloads it where need be
    pubmed_gcn      citations: windows that slide on, papers as targets; a GCN of two layers, trained on the first
    pubmed_gat      the same with attention
    bitcoinalpha, bitcoinotc, uci   who rates or writes to whom, a month against the same month a little later; the
                    authors' GCN of two layers and their weights; pairs are targets
    mutag, trees    molecules whose bonds were changed, trees of posts after an hour and after a day; trained here

The first two lines are made on the spot, with more random changes besides than `plant` has by itself; targets are
those for which the model itself agrees that the planted cause did it. (Of a community that is cut no single edge is
the cause, so it is not asked for here.) The others read the data folder. Of each graph of a graph task a puzzle of
its own is made, so that a method is given no other graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv

from axiompath.arrays import BoolArray
from axiompath.blame.engine import SubsetEvaluator
from axiompath.errors import InputError
from axiompath.explain.moved import find_flipped
from axiompath.explainer import Explainer
from axiompath.graphs.places import Target

from .. import datasets
from ..datasets.archives import find_root
from ..datasets.motifs import MOTIFS
from ..datasets.planted import HUB, MOTIF, SHIFT, plant
from .authors import AUTHORS_LINKS, open_authors
from .flips import HIDDEN, WINDOWS, TwoLayers, train_on_nodes
from .tasks import MIN_KL, TaskSettings, examine_molecules, examine_trees
from .timed import Slide, load_slide
from .trained import SEED, prepare

PLANTED_SETTINGS = (*MOTIFS, HUB, SHIFT)
REAL_SETTINGS = ("cora", "pubmed_gcn", "pubmed_gat", "bitcoinalpha", "bitcoinotc", "uci", "mutag", "trees")
NUM_RANDOM = {MOTIF: 60, HUB: 120, SHIFT: 160}  # pairs that come or go beside the planted cause
DRAWS = 4  # of a planted graph, for each puzzle that is wanted
TRIES = 12  # targets of a planted graph that are looked at
MOST_OF_SIGHT = 0.7  # share of the changes in sight that may be of the planted cause
LEAST_IN_SIGHT, MOST_IN_SIGHT = 3, 300  # changes that a target may see: something to choose, and time to try each
NUM_REWIRED = 500  # edges of Cora that go, and as many that come
STEPS_OF_LINKS = {"bitcoinalpha": 7, "bitcoinotc": 7, "uci": 1}  # days by which the month of links slides on
DAY_OF_SECONDS = 24 * 3600


@dataclass(frozen=True, eq=False)
class Puzzle:
    """One question, and all that a method may look at; the truth is for the judge."""

    setting: str
    number: int  # within its setting; the seed of what a method draws
    explainer: Explainer
    model: nn.Module
    before: Data
    after: Data
    target: Target
    truth: BoolArray | None = None  # [num rows of changes()]: the planted cause

    @cached_property
    def evaluator(self) -> SubsetEvaluator:
        """The changes in sight, and the model under any subset of them."""
        session = self.explainer.session
        return session.subsets.open(session.root(self.target))

    @property
    def of_graph(self) -> bool:
        """Whether a whole graph is predicted."""
        return self.explainer.unit == "graph"

    def arguments(self, side: Data) -> dict[str, Any]:
        """What the model is called with beside x and edge_index."""
        if self.of_graph:
            return {"batch": torch.zeros(int(side.num_nodes or 0), dtype=torch.long)}
        pair = isinstance(self.target, tuple)
        return {"edge_label_index": torch.tensor([self.target]).T} if pair else {}


class TwoAttentions(nn.Module):
    """GAT, ReLU, GAT."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = GATConv(inputs, HIDDEN), GATConv(HIDDEN, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Logits of all nodes."""
        found: torch.Tensor = self.second(self.first(x, edge_index).relu(), edge_index)
        return found


def settings_here(root: str | Path | None = None) -> tuple[str, ...]:
    """All settings where there is a data folder, else those that need none."""
    return PLANTED_SETTINGS + (REAL_SETTINGS if find_root(root) is not None else ())


def open_puzzles(setting: str, number: int, root: str | Path | None = None, *, seed: int = SEED) -> list[Puzzle]:
    """At most so many puzzles of a setting; `seed` is of the targets drawn and of what is trained here."""
    if setting in PLANTED_SETTINGS:
        return _take(_planted(setting, number), number)
    if setting not in REAL_SETTINGS:
        raise InputError(f"Expected settings among {', '.join(PLANTED_SETTINGS + REAL_SETTINGS)} (got {setting!r}).")
    if setting in ("mutag", "trees"):
        return _take(_of_graphs(setting, root, seed), number)
    if setting in AUTHORS_LINKS:
        exam = open_authors(setting, root, step=STEPS_OF_LINKS[setting] * DAY_OF_SECONDS)
        opened = Explainer(exam.model, exam.before, exam.after, links=exam.links)
        return _take(_of_window(setting, opened, (exam.model, exam.before, exam.after), seed), number)
    model, (before, after) = open_papers(setting, root, seed)
    opened = Explainer(model, before, after)
    return _take(_of_window(setting, opened, (model, before, after), seed), number)


def open_papers(setting: str, root: str | Path | None, seed: int) -> tuple[nn.Module, tuple[Data, Data]]:
    """A model of papers trained on the first window, and the first two windows; features as a plain matrix."""
    if setting == "cora":
        first = datasets.load(setting, root)
        second = datasets.evolve(first, added=NUM_REWIRED, removed=NUM_REWIRED, seed=SEED)
        snapshots = [prepare(data) for data in (first, second)]
    else:
        snapshots = load_slide(Slide("pubmed_pmid", 2, *WINDOWS["pubmed_pmid"]), root)[:2]
    for data in snapshots:
        data.x = data.x.to_dense()
    kind = TwoAttentions if setting == "pubmed_gat" else TwoLayers
    return train_on_nodes(kind, snapshots[0], seed), (snapshots[0], snapshots[1])


def _take(puzzles: Iterator[Puzzle], number: int) -> list[Puzzle]:
    found: list[Puzzle] = []
    for puzzle in puzzles:
        found.append(puzzle)
        if len(found) == number:
            break
    return found


def _planted(setting: str, number: int) -> Iterator[Puzzle]:
    kind, motif = (MOTIF, setting) if setting in MOTIFS else (setting, "house")
    for seed in range(DRAWS * number):
        planted = plant(kind, seed, num_random=NUM_RANDOM[kind], motif=motif)
        explainer = Explainer(planted.model, planted.before, planted.after)
        moved = explainer.moved()
        moved = moved[find_flipped(moved)]
        if kind == MOTIF:  # a random edge may break another one
            moved = moved[(moved.class_before == 1) & moved.target.isin(planted.cause.changes[0][1:])]
        truth = planted.cause.rows_of(explainer.changes())
        for target in moved.target.head(TRIES).tolist():
            puzzle = Puzzle(setting, seed, explainer, planted.model, planted.before, planted.after, target, truth)
            if puzzle.evaluator.num_changes >= LEAST_IN_SIGHT and _is_true(puzzle):
                yield puzzle
                break


def _is_true(puzzle: Puzzle) -> bool:
    """Whether the planted cause is what the model itself says: it changes the class by itself, all the others together
    do not."""
    evaluator = puzzle.evaluator
    assert puzzle.truth is not None
    own = puzzle.truth[evaluator.rows]
    if not 0 < own.sum() <= MOST_OF_SIGHT * len(own):
        return False
    nothing, everything, single, others = evaluator.output.decide(
        evaluator.run(np.stack([own & ~own, own | ~own, own, ~own]))
    )
    return bool(single == everything and others == nothing)


def _of_window(setting: str, explainer: Explainer, given: tuple[nn.Module, Data, Data], seed: int) -> Iterator[Puzzle]:
    moved = explainer.moved()
    moved = moved[(moved.kl >= MIN_KL) | find_flipped(moved)]
    order = np.random.default_rng(seed).permutation(len(moved))
    for place, target in enumerate(moved.target.iloc[order].tolist()):
        puzzle = Puzzle(setting, place, explainer, *given, target)
        if LEAST_IN_SIGHT <= puzzle.evaluator.num_changes <= MOST_IN_SIGHT:
            yield puzzle


def _of_graphs(setting: str, root: str | Path | None, seed: int) -> Iterator[Puzzle]:
    examine = partial(examine_molecules if setting == "mutag" else examine_trees, 0)
    exam = examine(TaskSettings(("mutag",), seed=seed), root)
    sides = (Batch.to_data_list(side) for side in (exam.before, exam.after))
    pairs = list(zip(*sides, strict=True))
    for place in np.random.default_rng(seed).permutation(len(pairs)).tolist():
        before, after = (Data(x=data.x, edge_index=data.edge_index, n_id=data.n_id) for data in pairs[place])
        opened = Explainer(exam.model, *(Batch.from_data_list([data]) for data in (before, after)))
        moved = opened.moved()
        if not len(moved) or (moved.kl.iloc[0] < MIN_KL and not find_flipped(moved)[0]):
            continue
        puzzle = Puzzle(setting, place, opened, exam.model, before, after, moved.target.iloc[0])
        if LEAST_IN_SIGHT <= puzzle.evaluator.num_changes <= MOST_IN_SIGHT:
            yield puzzle

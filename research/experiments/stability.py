"""Contenders + settings -> how much a ranking changes when what should not matter does: rank correlations.

    seed       the method draws other random numbers
    training   the model is trained from another seed (not the authors' models, whose weights are given)
    edges      one edge in a hundred is another one, in both graphs alike; none of these is a change

Of each puzzle, Spearman's and Kendall's correlation of the scores of the changes that both questions have in sight,
and whether the first change is the same. A method that gives all of them one score has no ranking; its correlation is
0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch_geometric.data import Data

from axiompath.arrays import FloatArray, IntArray
from axiompath.errors import InputError
from axiompath.explainer import Explainer

from .authors import AUTHORS_LINKS
from .contenders import OUR_METHODS, SIMPLE_RIVALS, Contender
from .puzzles import Puzzle, open_papers, open_puzzles
from .pyg_rivals import pyg_contenders
from .ranked import order_of

STABLE_SETTINGS = ("cora", "bitcoinalpha")
SHAKES = ("seed", "training", "edges")
TOGGLED = 0.01  # of the edges
LEAST_COMMON = 3  # changes in sight of both, to be ranked


@dataclass(frozen=True)
class StabilitySettings:
    """What is run."""

    settings: tuple[str, ...] = STABLE_SETTINGS
    puzzles: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        """Check here, before any work."""
        for name in self.settings:
            if name not in ("cora", "pubmed_gcn", "pubmed_gat", "bitcoinalpha", "bitcoinotc", "uci"):
                raise InputError(f"Expected settings with one large graph, such as cora (got {name!r}).")


def stable_contenders() -> dict[str, Contender]:
    """All but the oracle and what nobody would ask twice."""
    simple = {name: one for name, one in SIMPLE_RIVALS.items() if name in ("leave one out", "random")}
    theirs = {name: one for name, one in pyg_contenders().items() if name.endswith("difference")}
    return {**OUR_METHODS, **simple, **theirs}


def run_stability(
    settings: StabilitySettings,
    contenders: Mapping[str, Contender] | None = None,
    *,
    root: str | Path | None = None,
    report: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> pd.DataFrame:
    """A row for each puzzle, shake and contender that gave a ranking both times."""
    rows: list[dict[str, Any]] = []
    asked = stable_contenders() if contenders is None else contenders
    for setting in settings.settings:
        puzzles = open_puzzles(setting, settings.puzzles, root, seed=settings.seed)
        shaken = {shake: shake_puzzles(shake, puzzles, settings.seed, root) for shake in SHAKES}
        for done, (name, contender) in enumerate(asked.items()):
            report(done, len(asked), f"{setting}, {name}")
            first = [_ask(contender, puzzle, puzzle.number) for puzzle in puzzles]
            for shake, others in shaken.items():
                for puzzle, other, scores in zip(puzzles, others, first, strict=True):
                    again = None if other is None else _ask(contender, other, puzzle.number + (shake == "seed"))
                    if other is not None and scores is not None and again is not None:
                        found = compare_rankings((puzzle, scores), (other, again))
                        rows.append({"setting": setting, "shake": shake, "method": name, **found})
    return pd.DataFrame(rows)


def shake_puzzles(shake: str, puzzles: list[Puzzle], seed: int, root: str | Path | None = None) -> list[Puzzle | None]:
    """The same questions with something else; None where that cannot be had."""
    if shake == "seed" or not puzzles:
        return list(puzzles)
    first = puzzles[0]
    model, before, after = first.model, first.before, first.after
    if shake == "training":
        if first.setting in AUTHORS_LINKS:
            return [None for _ in puzzles]
        model, _ = open_papers(first.setting, root, seed + 1)
    else:
        before, after = toggle_unrelated(before, after, np.random.default_rng([seed, 2]))
    links = [puzzle.target for puzzle in puzzles] if isinstance(first.target, tuple) else None
    explainer = Explainer(model, before, after, links=links)
    return [replace(puzzle, explainer=explainer, model=model, before=before, after=after) for puzzle in puzzles]


def toggle_unrelated(before: Data, after: Data, rng: np.random.Generator) -> tuple[Data, Data]:
    """Both graphs without some edges that both have, and with as many that neither has; half of TOGGLED each."""
    size = int(before.num_nodes or 0)
    keys = _keys(before, size), _keys(after, size)
    same = np.intersect1d(keys[0], keys[1])
    same = same[same // size < same % size]
    number = max(1, round(TOGGLED / 2 * len(same)))
    gone = rng.choice(same, number, replace=False)
    drawn = np.sort(rng.integers(size, size=(4 * number, 2)), axis=1)
    drawn = drawn[drawn[:, 0] != drawn[:, 1]]
    new = np.setdiff1d(drawn[:, 0] * size + drawn[:, 1], np.union1d(keys[0], keys[1]))
    new = rng.choice(new, min(number, len(new)), replace=False)

    def both_ways(pairs: IntArray) -> IntArray:
        return np.concatenate([pairs, pairs % size * size + pairs // size])

    found = []
    for data, own in zip((before, after), keys, strict=True):
        # In front, and all else in its order: masks of torch_geometric count on self-loops being the last.
        kept = np.concatenate([both_ways(new), own[~np.isin(own, both_ways(gone))]])
        other = data.clone()
        other.edge_index = torch.from_numpy(np.stack([kept // size, kept % size]))
        found.append(other)
    return found[0], found[1]


def compare_rankings(one: tuple[Puzzle, FloatArray], other: tuple[Puzzle, FloatArray]) -> dict[str, Any]:
    """Correlations over the changes that both have in sight; the changes of both have the same numbers."""
    rows = np.intersect1d(one[0].evaluator.rows, other[0].evaluator.rows)
    scores = one[1][rows], other[1][rows]
    flat = any(np.ptp(values) == 0 for values in scores) if len(rows) else True
    known = len(rows) >= LEAST_COMMON
    firsts = [puzzle.evaluator.rows[order_of(puzzle, values)[0]] for puzzle, values in (one, other)]
    return {
        "target": str(one[0].target),
        "common": len(rows),
        "spearman": None if not known else 0.0 if flat else float(stats.spearmanr(*scores).statistic),
        "kendall": None if not known else 0.0 if flat else float(stats.kendalltau(*scores).statistic),
        "same_first": bool(firsts[0] == firsts[1]),
    }


def summarise_stability(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting, shake and method: means, and the standard error of Spearman's."""
    table = table.astype({"spearman": np.float64, "kendall": np.float64, "same_first": np.float64})
    grouped = table.groupby(["setting", "shake", "method"], sort=False)
    return grouped.agg(
        puzzles=("target", "size"),
        spearman=("spearman", "mean"),
        error=("spearman", "sem"),
        kendall=("kendall", "mean"),
        same_first=("same_first", "mean"),
    ).reset_index()


def _keys(data: Data, size: int) -> IntArray:
    src, dst = data.edge_index.numpy()
    return np.asarray(src.astype(np.int64) * size + dst)


def _ask(contender: Contender, puzzle: Puzzle, seed: int) -> FloatArray | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return contender(puzzle, seed)
    except InputError:
        return None

"""The authors' later table (ICLR 2025): data sets by five levels of size, KL(P_after || P) with what was chosen put in.

    layer edges   the authors' shares of edges of single layers, chosen by `convex`, put into the network's pass
    edges         the same of edges, in all layers; those that are merely reweighted among them
    paths         ours, chosen by `convex`, as many as layer edges, added to `before` by the network
    blame         ours on the real graph: the changes of the largest Shapley values, as many as edges
    enough        ours on the real graph: those of so many changes that leave least, searched for a given time
    real edges    the authors' edges that came or went, as many, applied to the real graph

Their metric is what the first three are judged by, ours (a graph that exists) what the last three are. Sizes are
those of their program, by the number of units that a target has. Targets are what `puzzles` draws, of molecules all
that moved; their weights, but for trees, whose model is trained here and which has layers above the pooling: there
the equal split of `explain(by=...)` stands for theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from axiompath.arrays import BoolArray, FloatArray
from axiompath.change.states import GAINED, LOST
from axiompath.errors import InputError
from axiompath.explain.explanation import EDGE, LAYER_EDGE
from axiompath.explain.units import Units, find_units, put_in
from axiompath.explainer import Explainer
from axiompath.graphs.places import Target
from axiompath.paths.entries import Cone
from axiompath.selection import select

from .authors import AUTHORS_LINKS, authors_split, open_authors
from .conditions import write_results
from .contenders import NONE, PlacesOfChanges
from .faithfulness import AUTHORS_METHOD, LEAST_COMPARED
from .puzzles import open_puzzles
from .trained import SEED

LEVEL_SETTINGS = (*AUTHORS_LINKS, "mutag", "trees")
LEVEL_METHODS = ("layer edges", "edges", "paths", "blame", "enough", "real edges")
NUM_LEVELS = 5
# Of links by rating: up to so many units, these sizes; of everything else the first row.
LAYER_EDGE_SIZES = (
    (400, (4, 8, 12, 16, 20)),
    (2000, (24, 28, 32, 36, 40)),
    (4000, (48, 56, 64, 73, 80)),
    (np.inf, (100, 120, 140, 160, 180)),
)
EDGE_SIZES = (
    (100, (1, 2, 3, 4, 5)),
    (500, (6, 7, 8, 9, 10)),
    (1000, (12, 14, 16, 18, 20)),
    (np.inf, (25, 30, 35, 40, 45)),
)


@dataclass(frozen=True)
class LevelSettings:
    """What is run."""

    names: tuple[str, ...] = LEVEL_SETTINGS
    max_targets: int = 20
    seconds: float = 0.5  # for blame, and for each search of `enough`

    def __post_init__(self) -> None:
        """Check here, before any work."""
        for name in self.names:
            if name not in LEVEL_SETTINGS:
                raise InputError(f"Expected settings among {', '.join(LEVEL_SETTINGS)} (got {name!r}).")


def run_levels(
    settings: LevelSettings,
    out: Path,
    *,
    root: str | Path | None = None,
    report: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> pd.DataFrame:
    """`levels.parquet`, a row for each target, level and method, and its record, in `out`."""
    rows: list[dict[str, Any]] = []
    for done, name in enumerate(settings.names):
        report(done, len(settings.names), name)
        for number, (explainer, target) in enumerate(open_targets(name, settings.max_targets, root)):
            found = compare_levels(name, explainer, target, settings.seconds)
            rows += [{"setting": name, "number": number, **row} for row in found]
    table = pd.DataFrame(rows)
    write_results(out, "levels", table, {"settings": asdict(settings)})
    return table


def open_targets(name: str, number: int, root: str | Path | None) -> Iterator[tuple[Explainer, Target]]:
    """At most so many targets; of molecules under the authors' weights, whose predictions hardly move."""
    if name != "mutag":
        yield from ((puzzle.explainer, puzzle.target) for puzzle in open_puzzles(name, number, root))
        return
    exam = open_authors(name, root)
    explainer = Explainer(exam.model, exam.before, exam.after)
    moved = explainer.moved()
    moved = moved[moved.kl > LEAST_COMPARED]
    for target in moved.sample(min(number, len(moved)), random_state=SEED).target.tolist():
        yield explainer, target


def sizes_of(name: str, rows: tuple[tuple[float, tuple[int, ...]], ...], number: int) -> tuple[int, ...]:
    """The authors' sizes at five levels, for a target with so many units."""
    if name not in ("bitcoinotc", "bitcoinalpha"):
        return rows[0][1]
    return next(sizes for most, sizes in rows if number <= most)


def compare_levels(name: str, explainer: Explainer, target: Target, seconds: float) -> list[dict[str, Any]]:
    """A row for each level and method: its size, and what it leaves."""
    engine, (row,) = explainer.session.locate([target])
    change, cone = engine.change, Cone(engine.change, int(row))
    shares = cone.share() if name == "trees" else authors_split(cone)
    before, after = (side.logits[row] for side in (change.before_pass, change.after_pass))
    layered, edges = (find_units(shares, by) for by in (LAYER_EDGE, EDGE))
    changes = explainer.changes()
    place = PlacesOfChanges(changes).find(edges.labels[:, 1], edges.labels[:, 2])
    real = np.isin(edges.kinds, (GAINED, LOST)) & (edges.labels[:, 1] != edges.labels[:, 2]) & (place != NONE)
    blame = explainer.blame(target, seconds=seconds)
    weights = change.output.means(after) - change.output.means(before)
    blamed = [blame.changes[i][0] for i in np.argsort(-(blame.shares @ weights), kind="stable")]
    sizes = sizes_of(name, LAYER_EDGE_SIZES, len(layered.labels)), sizes_of(name, EDGE_SIZES, len(edges.labels))
    kl = float(change.output.divergence(after, before))
    rows = []

    def chosen(units: Units, some: BoolArray, size: int) -> BoolArray:
        taken, which = np.zeros(len(units.labels), dtype=np.bool_), np.flatnonzero(some)
        found = select(units.contributions[which], before, after, size, AUTHORS_METHOD, output=change.output.kind)
        taken[which[found.chosen]] = True
        return taken

    for level, (many, few) in enumerate(zip(*sizes, strict=True)):
        by_paths = explainer.explain(target, many, AUTHORS_METHOD)
        best = explainer.enough(target, budget=few, seconds=seconds)
        applied = place[chosen(edges, real, few)] if real.any() else np.zeros(0, dtype=np.int64)
        logits: dict[str, FloatArray] = {
            "layer edges": put_in(shares, layered, chosen(layered, layered.kinds >= 0, many)),
            "edges": put_in(shares, edges, chosen(edges, edges.kinds >= 0, few)),
            "paths": explainer.replay(target, by_paths.paths, add=True) if len(by_paths.paths) else before,
            "blame": explainer.what_if(target, apply=blamed[:few]),
            "enough": best.logits,
            "real edges": explainer.what_if(target, apply=np.unique(applied).tolist()),
        }
        left = change.output.divergence(after, np.stack(list(logits.values())))
        for method, value in zip(logits, left.tolist(), strict=True):
            size = many if method in ("layer edges", "paths") else few
            rows.append(
                {
                    "target": str(target),
                    "level": level + 1,
                    "method": method,
                    "size": size,
                    "units": len(layered.labels) if size == many else len(edges.labels),
                    "in_sight": best.num_in_sight,
                    "kl": kl,
                    "left": value,
                }
            )
    return rows


def summarise_levels(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting and method: mean KL left at each level in nats, its standard error, and of nothing."""
    rows = []
    for (name, method), part in table.groupby(["setting", "method"], sort=False):
        left = part.pivot(index="number", columns="level", values="left").to_numpy(dtype=np.float64)
        nothing = part.groupby("number", sort=False).kl.first().to_numpy(dtype=np.float64)
        row: dict[str, Any] = {
            "setting": name,
            "method": method,
            "targets": len(left),
            "nothing": float(nothing.mean()),
        }
        spread = left.std(axis=0, ddof=1) / np.sqrt(len(left)) if len(left) > 1 else np.full(NUM_LEVELS, np.nan)
        for level, (mean, error) in enumerate(zip(left.mean(axis=0), spread, strict=True), 1):
            row[f"level_{level}"], row[f"error_{level}"] = float(mean), float(error)
        rows.append(row)
    return pd.DataFrame(rows)

"""Changes against the authors' edges and layer edges, at equal number: what the model itself leaves of the change.

For each target and number n, KL(P_after || P) with P the prediction where

    changes       the n changes that leave least are applied to `before`, the real graph (`Explainer.enough`, its effort
                  counted in evaluations); where the authors' edges leave less, the search begins there once more
    edges         the authors' n edges are: by their shares (`authors_split`), chosen by `convex` among those that came
                  or went (an edge that is merely reweighted cannot be applied to a graph)
    layer edges   the authors' n layer edges are put into the network's pass, coefficients as `after` has them

Targets are those that moved and have more changes in sight than n, so that there is something to choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from axiompath.arrays import FloatArray
from axiompath.blame.enough import Enough, enough_of_target
from axiompath.change.states import GAINED, LOST
from axiompath.errors import InputError
from axiompath.explain.explanation import EDGE, LAYER_EDGE
from axiompath.explain.question import ENOUGH
from axiompath.explain.units import find_units, put_in
from axiompath.explainer import Explainer
from axiompath.graphs.places import Target
from axiompath.paths.entries import Cone
from axiompath.selection import select

from .authors import AUTHORS_SETTINGS, authors_split, open_authors
from .conditions import write_results
from .trained import SEED

WAYS = ("changes", "edges", "layer edges")
SIZES = (1, 2, 3, 5)
AUTHORS_METHOD = "convex"
NEGLIGIBLE_KL = 1e-12  # nats: two choices whose KL differs by less are equal
LEAST_COMPARED = 1e-8  # nats: what moved less is not compared


@dataclass(frozen=True)
class FaithSettings:
    """What is run; the tests run less of it."""

    names: tuple[str, ...] = AUTHORS_SETTINGS
    sizes: tuple[int, ...] = SIZES
    max_targets: int = 200  # a setting, drawn from those that moved
    most_evaluations: int = 20_000  # for choosing the changes of one target and number

    def __post_init__(self) -> None:
        """Check here, before any work."""
        for name in self.names:
            if name not in AUTHORS_SETTINGS:
                raise InputError(f"Expected settings among {', '.join(AUTHORS_SETTINGS)} (got {name!r}).")


def run_faithfulness(
    settings: FaithSettings,
    out: Path,
    *,
    root: str | Path | None = None,
    report: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> pd.DataFrame:
    """`faithfulness.parquet`, a row for each target and number, and its record, in `out`."""
    frames: list[pd.DataFrame] = []
    facts: list[dict[str, Any]] = []
    for name in settings.names:
        report(len(frames), len(settings.names), name)
        exam = open_authors(name, root)
        explainer = Explainer(exam.model, exam.before, exam.after, links=exam.links)
        moved = explainer.moved()
        wanted = moved[moved.kl > LEAST_COMPARED]
        if len(wanted) > settings.max_targets:
            wanted = wanted.sample(settings.max_targets, random_state=SEED).sort_index()
        rows = [row for target in wanted.target for row in compare_ways(explainer, target, settings)]
        frames.append(pd.DataFrame([{"setting": name, **row} for row in rows]))
        facts.append({"setting": name, "moved": len(moved), "compared": len(wanted)})
    table = pd.concat(frames, ignore_index=True)
    write_results(out, "faithfulness", table, {"settings": asdict(settings), "runs": facts})
    return table


def compare_ways(explainer: Explainer, target: Target, settings: FaithSettings) -> list[dict[str, Any]]:
    """KL left by each way, one row per number."""
    output, rows = explainer.change.output, []
    for size in settings.sizes:
        best = _best_changes(explainer, target, size, settings)
        if best.num_in_sight <= size:
            break
        theirs, applied, put = authors_logits(explainer, target, size)
        left = output.divergence(best.logits_after, np.stack([best.logits, applied, put]))
        helped = bool(left[0] > left[1] + NEGLIGIBLE_KL)
        if helped:
            best = _best_changes(explainer, target, size, settings, (theirs,))
            left[0] = output.divergence(best.logits_after, best.logits)
        kl = float(output.divergence(best.logits_after, best.logits_before))
        rows.append(
            {
                "target": str(target),
                "size": size,
                "in_sight": best.num_in_sight,
                "proved": best.proved,
                "from_edges": helped,
                "evaluations": best.num_evaluations,
                "kl": kl,
                **dict(zip(WAYS, left.tolist(), strict=True)),
            }
        )
    return rows


def _best_changes(
    explainer: Explainer, target: Target, size: int, settings: FaithSettings, starts: tuple[tuple[int, ...], ...] = ()
) -> Enough:
    session = explainer.session
    return enough_of_target(
        session.subsets,
        session.root(target),
        session.caption,
        until=ENOUGH,
        budget=size,
        seconds=math.inf,
        most_evaluations=settings.most_evaluations,
        starts=starts,
    )


def authors_logits(explainer: Explainer, target: Target, size: int) -> tuple[tuple[int, ...], FloatArray, FloatArray]:
    """The authors' best edges; logits with them applied to the real graph, and with the best layer edges put in."""
    engine, (row,) = explainer.session.locate([target])
    change, found = engine.change, authors_split(Cone(engine.change, int(row)))
    before, after = (side.logits[row] for side in (change.before_pass, change.after_pass))
    edges = find_units(found, EDGE)
    real = np.flatnonzero(np.isin(edges.kinds, (GAINED, LOST)) & (edges.labels[:, 1] != edges.labels[:, 2]))
    chosen = select(edges.contributions[real], before, after, size, AUTHORS_METHOD, output=change.output.kind).chosen
    changes = explainer.changes()
    ids = dict(zip(zip(changes.src.tolist(), changes.dst.fillna(-1).tolist(), strict=True), changes.id, strict=True))
    theirs = tuple(int(ids[tuple(edge)]) for edge in edges.labels[real[chosen], 1:].tolist())
    applied = explainer.what_if(target, apply=theirs)
    layered = find_units(found, LAYER_EDGE)
    taken = np.zeros(len(layered.labels), dtype=np.bool_)
    taken[select(layered.contributions, before, after, size, AUTHORS_METHOD, output=change.output.kind).chosen] = True
    return theirs, applied, put_in(found, layered, taken)


def summarise_faithfulness(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting and number: the share of the KL that each way leaves, mean over targets and of all in sum;
    in how many targets ours is the least, is proved, was found only from the authors' edges."""
    rows = []
    for (name, size), part in table.groupby(["setting", "size"], sort=False):
        shares = {f"mean_{way.replace(' ', '_')}": float((part[way] / part.kl).mean()) for way in WAYS}
        least = int((part.changes <= part[["edges", "layer edges"]].min(axis=1) + NEGLIGIBLE_KL).sum())
        whole = {f"sum_{way.replace(' ', '_')}": float(part[way].sum() / part.kl.sum()) for way in WAYS}
        counts = {"least": least, "proved": int(part.proved.sum()), "from_edges": int(part.from_edges.sum())}
        rows.append({"setting": name, "size": size, "targets": len(part), **shares, **whole, **counts})
    return pd.DataFrame(rows)


def list_exceptions(table: pd.DataFrame) -> pd.DataFrame:
    """The targets where edges or layer edges leave less than the changes do."""
    others = table[["edges", "layer edges"]].min(axis=1)
    return table[table.changes > others + NEGLIGIBLE_KL].reset_index(drop=True)

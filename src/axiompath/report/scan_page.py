"""Surveys of scans -> one self-contained HTML file on everything that moved; a sequence has a Survey a step.

The table of all predictions travels deflated. A thousand explanations are in the file, those that moved the
most; the others are read by the local server (`server.py`), which hands out the same page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..change.states import CAUSE_WORDS
from ..explain.explanation import Explanation
from ..explain.neighbourhood import KEPT, VisibleNodes, gather
from ..graphs.labels import TO
from ..outputs import LABELS, VALUE
from ..scan.scan import Scan
from .causes import describe_brief
from .graph_plot import describe_neighbourhood
from .html import describe_change, fill_template, pack
from .moves import FLIPS
from .page import describe_target, number
from .statements import causes_for_page, class_word, describe_coverage_of
from .survey import Survey, survey_scan

NUM_PAGES = 1000  # explanations in the file
MANY, FAR_OUT = 4, 3.0  # steps from which on one can be unusual, and by how many median deviations
MAD_TO_DEVIATION = 1.4826  # of a normal distribution
NUM_FLOWS = 40
DEFLATION = 1  # how hard to deflate: more saves little and takes three times as long
CAUSE_TITLES = {
    "gained": "edges gained",
    "lost": "edges lost",
    "reweighted": "edges renormalised or reweighted",
    "statistics": "statistics of the whole graph",
    "feature": "features",
    "edge feature": "features of edges",
    "model": "the retrained model",
}


def build_scan_report(
    scans: Scan | Sequence[Scan],
    *,
    title: str | None = None,
    by: Any = None,
    num_pages: int = NUM_PAGES,
    step_names: Sequence[str] | None = None,
) -> str:
    """HTML text of every prediction that moved in a scan, or step by step in the scans of a sequence.

    `by` groups changes, as in `Scan.blame`, for statements about your own groups.
    """
    return build_scan_page(scans, title=title, by=by, num_pages=num_pages, step_names=step_names)[0]


def build_scan_page(
    scans: Scan | Sequence[Scan],
    *,
    title: str | None = None,
    by: Any = None,
    num_pages: int = NUM_PAGES,
    step_names: Sequence[str] | None = None,
    served: bool = False,
) -> tuple[str, list[Survey]]:
    """The same, and what it is made of. With `served`, explanations that are not in the file are asked for from where
    the page came."""
    held = [scans] if isinstance(scans, Scan) else list(scans)
    surveys = [survey_scan(scan, by=by) for scan in held]
    named = step_names or ()  # a watch that was stopped may have scanned a step that it does not list yet
    names = [*named, *(scan.folder.name for scan in held[len(named) :])]
    pages = []
    for step, survey in enumerate(surveys):
        share = num_pages // len(surveys)
        for row, explanation in enumerate(islice(iter(survey.scan), share)):
            pages.append({**describe_row(survey, row, explanation), "step": step, "row": row})
    index = {
        "title": title or f"What moved: {', '.join(names[:1])}{f' to {names[-1]}' * (len(names) > 1)}",
        "targets": [
            {**{key: page[key] for key in ("target", "name", "step", "row")}, "note": describe_change(page)}
            for page in pages
        ],
        "overview": True,
        "unit": held[0].unit,
        "values": held[0].output.kind == VALUE,
        "labels": held[0].output.kind == LABELS,
        "flip": held[0].output.flip,
        "steps": [describe_survey(survey, name) for survey, name in zip(surveys, names, strict=True)],
        "causes": list(CAUSE_WORDS),
        "unusual": find_unusual([survey.total for survey in surveys]),
        "served": served,
        "rows": sum(len(survey.rows["target"]) for survey in surveys),
        "named": any(survey.names is not None for survey in surveys),
    }
    blocks = {f"page-{i}": page for i, page in enumerate(pages)}
    blocks |= pack_columns(surveys)
    return fill_template("scan.html", ["grid", "classes", "scan"], index, blocks, served=served), surveys


def describe_row(survey: Survey, row: int, explanation: Explanation) -> dict[str, Any]:
    """The page of one prediction, with what is known of its neighbourhood: the chosen paths."""
    page = describe_target([explanation])
    brief = survey.briefs.get(row)
    if brief is not None:
        ids = () if brief.undo is None or survey.moves is None else brief.undo.changes
        words = [] if survey.moves is None else survey.moves.units.words.iloc[list(ids)].tolist()
        page["happened"] = describe_brief(brief, words)
    if len(explanation.paths):
        page["around"] = describe_neighbourhood(
            gather(explanation, see_paths(explanation, survey), explanation.node_names)
        )
    return page


def see_paths(explanation: Explanation, survey: Survey) -> VisibleNodes:
    """The nodes and edges of the chosen paths, as a scan's folder knows them."""
    paths = explanation.paths
    ids = np.unique(paths[paths >= 0])
    hops = np.full(len(ids), paths.shape[1])
    for position in range(paths.shape[1]):
        here = paths[:, position]
        np.minimum.at(hops, np.searchsorted(ids, here[here >= 0]), paths.shape[1] - 1 - position)
    pairs = np.concatenate([paths[:, t : t + 2] for t in range(paths.shape[1] - 1)])
    pairs = np.unique(pairs[(pairs >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])], axis=0)
    known, directed = survey.edge_states
    if not directed:
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    states = np.array([known.get(pair, KEPT) for pair in map(tuple, pairs.tolist())], dtype=np.int64)
    classes = survey.node_classes.reindex(ids).fillna(-1).to_numpy(dtype=np.int64)
    return VisibleNodes(ids, hops, classes, np.searchsorted(ids, pairs), states, directed)


def describe_survey(survey: Survey, name: str) -> dict[str, Any]:
    """One step: its numbers, sentences and statements."""
    held = survey.scan.manifest
    return {
        "name": name,
        "words": survey_sentences(survey),
        "lead": describe_largest(survey),
        "moved": held["num_moved"],
        "flipped": held["num_flipped"],
        "explained": held["num_explained"],
        "rows": len(survey.rows["target"]),
        "total": number(survey.total),
        "causes": {word: number(part) for word, part in survey.causes.items()},
        "classes": {str(label): word for label, word in _classes_in(survey).items()},
        "flows": survey.flows[:NUM_FLOWS],
        "coverage": describe_coverage(survey),
        **_describe_causes(survey),
    }


def _describe_causes(survey: Survey) -> dict[str, Any]:
    """What did it, out of blame; else by cause, over all altered paths."""
    if survey.summary is not None:
        links = [
            (_row_name(survey, place) if row >= 0 else "", int(row)) for place, row in enumerate(survey.places.tolist())
        ]
        return causes_for_page(survey.summary, links)
    causes = [[CAUSE_TITLES[word], word.replace(" ", "-"), number(part)] for word, part in survey.causes.items()]
    return {"statements": [], "spread": [], "kinds": causes}


def describe_largest(survey: Survey) -> list[Any]:
    """The sentences that the page opens with: the largest flip, else the largest move; and the row that it is."""
    if survey.briefs:
        before, after = survey.rows["before"], survey.rows["after"]
        flips = [row for row in survey.briefs if before[row] != after[row]]
        row = min(flips or survey.briefs, key=lambda row: survey.briefs[row].rank)
        brief = survey.briefs[row]
        return [brief.headline, " ".join(filter(None, [brief.cause, brief.remedy])), row]
    first = next(iter(survey.scan), None)
    return [] if not isinstance(first, Explanation) else [f"{first.headline}.", "", 0]


def survey_sentences(survey: Survey) -> list[str]:
    """What happened, in a paragraph: how many moved, from which class to which, and by how much."""
    scan, unit = survey.scan, "value" if survey.scan.output.kind == VALUE else "probability"
    sentences = [scan.summary]
    if sum(count for *_, count in survey.flows) > 1:
        parts = [
            f"{count:,} from {class_word(survey.class_names, old)} to {class_word(survey.class_names, new)}"
            for old, new, count in survey.flows[:3]
        ]
        more = f", and {len(survey.flows) - 3:,} more ways" if len(survey.flows) > 3 else ""
        sentences.append(f"Most flips: {'; '.join(parts)}{more}.")
    if survey.total > 0:
        total = f"{survey.total:,.0f}" if survey.total >= 100 else f"{survey.total:.3g}"
        sentences.append(f"Total change in {unit} of those explained: {total}.")
    return sentences


def describe_coverage(survey: Survey) -> str:
    """How many statements account for how much of the change, and how certain that is."""
    moves, summary = survey.moves, survey.summary
    if moves is None or summary is None:
        return (
            "This scan has no blame. Run the same scan again with blame=True (or time for its flips): it goes on from "
            "what is there."
        )
    if moves.total == 0:
        return "Nothing moved."
    what = "value" if survey.scan.output.kind == VALUE else "probability"
    flips = moves.found_by == FLIPS
    whose = f"{len(moves.moved):,} {'flip' if flips else 'prediction'}{'s' * (len(moves.moved) != 1)}"
    of = f"of the {what} that {whose} moved by"
    text = describe_coverage_of(summary, survey.num_changes, of)
    if flips:
        reached, every = len(moves.moved), survey.scan.manifest["num_flipped"]
        left = f" {every - reached:,} of {every:,} flips were not reached in the time given." * (reached < every)
        return f"{text} The shares of each flip are exact.{left}"
    error = 0.0 if survey.error is None else survey.error
    return f"{text} An estimate, off by {error:.2g} of the total where it was compared with exact blame."


def find_unusual(totals: Sequence[float]) -> list[int]:
    """Steps at which more moved than usual: by three deviations, estimated from the median of the deviations."""
    if len(totals) < MANY:
        return []
    values = np.asarray(totals)
    middle = float(np.median(values))
    spread = MAD_TO_DEVIATION * float(np.median(np.abs(values - middle)))
    return np.flatnonzero(values > middle + max(FAR_OUT * spread, 0.1 * middle)).tolist()


def _classes_in(survey: Survey) -> dict[int, str]:
    labels = (
        np.unique(np.concatenate([survey.rows["before"], survey.rows["after"]])) if len(survey.rows["target"]) else ()
    )
    shown = {int(label) for label in labels} | {label for flow in survey.flows for label in flow[:2]}
    output = survey.scan.output.kind
    word = str if output in (VALUE, LABELS) else "class {}".format
    return {label: survey.class_names.get(label, word(label)) for label in sorted(shown)}


def _row_name(survey: Survey, place: int) -> str:
    return _name(survey, int(survey.places[place]))


def _name(survey: Survey, row: int) -> str:
    if survey.names is not None:
        return survey.names[row]
    text = str(int(survey.rows["target"][row]))
    return f"{text}{TO}{int(survey.rows['partner'][row])}" if "partner" in survey.rows else text


def pack_columns(surveys: Sequence[Survey]) -> dict[str, Any]:
    """The columns of the table as deflated JSON, with one digit more than the table shows."""
    columns = {
        key: [value for survey in surveys for value in _plain(survey.rows[key])]
        for key in surveys[0].rows
        if key != "place"
    }
    if any(survey.names is not None for survey in surveys):
        columns["name"] = [_name(survey, row) for survey in surveys for row in range(len(survey.rows["target"]))]
    return {"columns": pack(json.dumps(columns, allow_nan=False).encode(), DEFLATION)}


def _plain(values: Any) -> list[Any]:
    if values.dtype.kind != "f":
        return list(values.tolist())
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]

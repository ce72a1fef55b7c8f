"""Surveys of scans -> one self-contained HTML file on everything that moved; a sequence has a Survey a step.

The table of all predictions travels as typed arrays. A thousand explanations are in the file, those that moved the
most; the others are read by the local server (`server.py`), which hands out the same page.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..change.states import CAUSE_WORDS
from ..explain.explanation import Explanation
from ..explain.neighbourhood import ADDED, KEPT, REMOVED, Sighted, gather
from ..graphs.changes import EDGE_ADDED, EDGES_GONE
from ..graphs.labels import TO
from ..outputs import LABELS, VALUE
from ..scan.scan import Scan
from .credits import UNIT_KINDS, Index, find_edges
from .graph_plot import describe_neighbourhood
from .html import fill_template, pack, told_change
from .page import describe_target, number
from .patterns import NodeTable, pattern_words
from .statements import class_word
from .survey import BY_BLAME, Survey, survey_scan

NUM_PAGES = 1000  # explanations in the file
MANY, FAR_OUT = 4, 3.0  # steps from which on one can be unusual, and by how many median deviations
MAD_TO_DEVIATION = 1.4826  # of a normal distribution
NUM_FLOWS = 40


def build_scan_report(
    scans: Scan | Sequence[Scan],
    *,
    title: str | None = None,
    by: Any = None,
    num_pages: int = NUM_PAGES,
    step_names: Sequence[str] | None = None,
) -> str:
    """HTML text on everything that moved in a scan, or step by step in those of a sequence.

    `by` groups changes, as in `Scan.blame`, for statements about groups of yours.
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
            pages.append({**describe_row(survey, explanation), "step": step, "row": row})
    index = {
        "title": title or f"What moved: {', '.join(names[:1])}{f' to {names[-1]}' * (len(names) > 1)}",
        "targets": [
            {**{key: page[key] for key in ("target", "name", "step", "row")}, "note": told_change(page)}
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
    blocks |= _arrays(surveys)
    return fill_template("scan.html", ["grid", "classes", "scan"], index, blocks, served=served), surveys


def describe_row(survey: Survey, explanation: Explanation) -> dict[str, Any]:
    """The page of one prediction, with what is known of its neighbourhood: the chosen paths."""
    page = describe_target([explanation])
    if survey.index is not None and len(explanation.paths):
        seen = see_paths(explanation, survey.index, survey.nodes)
        page["around"] = describe_neighbourhood(gather(explanation, seen, explanation.node_names))
    return page


def see_paths(explanation: Explanation, index: Index, nodes: NodeTable) -> Sighted:
    """The nodes and edges of the chosen paths, as a scan's folder knows them."""
    paths = explanation.paths
    ids = np.unique(paths[paths >= 0])
    hops = np.full(len(ids), paths.shape[1])
    for position in range(paths.shape[1]):
        here = paths[:, position]
        np.minimum.at(hops, np.searchsorted(ids, here[here >= 0]), paths.shape[1] - 1 - position)
    pairs = np.concatenate([paths[:, t : t + 2] for t in range(paths.shape[1] - 1)])
    pairs = np.unique(pairs[(pairs >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])], axis=0)
    owners, directed = find_edges(index, pairs)
    if not directed:
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
        owners = find_edges(index, pairs)[0]
    states = np.full(len(pairs), KEPT)
    for state, kinds in ((ADDED, [EDGE_ADDED]), (REMOVED, EDGES_GONE)):
        wanted = np.isin(index.kinds, [UNIT_KINDS.index(kind) for kind in kinds])
        states[(owners >= 0) & np.append(wanted, False)[owners]] = state
    rows = nodes.find(ids)
    classes = (
        np.where(rows[:, None] >= 0, nodes.classes[np.maximum(rows, 0)], -1)
        if len(nodes.ids)
        else (np.full((len(ids), 2), -1))
    )
    return Sighted(ids, hops, classes, np.searchsorted(ids, pairs), states, directed)


def describe_survey(survey: Survey, name: str) -> dict[str, Any]:
    """One step: its numbers, sentences, statements and patterns."""
    held = survey.scan.manifest
    return {
        "name": name,
        "words": tell_survey(survey),
        "moved": held["num_moved"],
        "flipped": held["num_flipped"],
        "explained": held["num_explained"],
        "rows": len(survey.rows["target"]),
        "total": number(survey.total),
        "causes": {word: number(part) for word, part in survey.causes.items()},
        "classes": {str(label): word for label, word in _classes_in(survey).items()},
        "flows": survey.flows[:NUM_FLOWS],
        "coverage": tell_coverage(survey),
        "covered": number(survey.coverage),
        "statements": [
            {
                "text": one.text,
                "kind": one.kind,
                "changes": one.num_changes,
                "carried": number(one.carried),
                "predictions": one.num_predictions,
                "moved": [
                    [_row_name(survey, place), int(survey.places[place]), number(part)]
                    for place, part in one.moved
                    if survey.places[place] >= 0
                ],
                "parts": [[text, number(part)] for text, part in one.parts],
            }
            for one in survey.statements
        ],
        "patterns": [
            {
                "text": pattern_words(one.code, survey.class_names),
                "carried": number(one.carried),
                "predictions": one.num_predictions,
                "example": [_name(survey, one.example), one.example],
            }
            for one in survey.patterns
        ],
    }


def tell_survey(survey: Survey) -> list[str]:
    """What happened, in a paragraph: how many moved, from which class to which, and by what."""
    scan = survey.scan
    what = "value" if scan.output.kind == VALUE else "probability"
    sentences = [scan.summary]
    if survey.flows:
        told = [
            f"{count:,} from {class_word(survey.class_names, old)} to {class_word(survey.class_names, new)}"
            for old, new, count in survey.flows[:3]
        ]
        more = f", and {len(survey.flows) - 3:,} more ways" if len(survey.flows) > 3 else ""
        sentences.append(f"Most flips: {'; '.join(told)}{more}.")
    if survey.total > 0:
        words = {"gained": "edges gained", "lost": "edges lost", "reweighted": "edges renormalised or reweighted"}
        words |= {"feature": "features", "edge feature": "features of edges", "model": "the retrained model"}
        words |= {"statistics": "statistics of the whole graph"}
        parts = sorted(survey.causes.items(), key=lambda item: -abs(item[1]))
        told = [f"{words[word]} {_percent(part)}" for word, part in parts if abs(part) >= 0.005]
        total = f"{survey.total:,.0f}" if survey.total >= 100 else f"{survey.total:.3g}"
        sentences.append(f"They moved by {total} of {what} in all. By cause: {', '.join(told)}.")
    return sentences


def tell_coverage(survey: Survey) -> str:
    """How much the statements carry, of how many changes; and how that is known."""
    if not survey.found_by:
        return (
            "This scan holds no table of changes, as scans of earlier releases; run the same scan into another folder "
            "to have what did it."
        )
    if not survey.statements:
        return "Nothing moved that could be told of."
    num = sum(one.num_changes for one in survey.statements)
    what = "value" if survey.scan.output.kind == VALUE else "probability"
    several = len(survey.statements) != 1
    text = (
        f"{'These' if several else 'This'} {len(survey.statements)} cause{'s' * several}, {num:,} of "
        f"{survey.num_changes:,} changes, carr{'y' if several else 'ies'} {_percent(survey.coverage)} of the {what} "
        "moved"
    )
    if survey.num_blamed < survey.scan.manifest["num_explained"]:
        text += f" by the {survey.num_blamed:,} predictions that moved the most"
    text += f"; the ten largest single changes, {_percent(survey.singles)}."
    if survey.coverage > 1.005:
        text += " Others held predictions back."
    if survey.found_by == BY_BLAME:
        return text + (
            f" Found by leaving each change out and putting it in alone: an estimate, off by {survey.error:.2g} of the "
            "total where it was held against exact blame."
        )
    return text + (
        f" Found from the chosen paths, which carry {_percent(survey.known)} of it: what runs over a change is "
        "credited to it. A scan with blame=True asks the model instead."
    )


def find_unusual(totals: Sequence[float]) -> list[int]:
    """Steps at which more moved than usual: by three deviations, which are told from the median of deviations."""
    if len(totals) < MANY:
        return []
    values = np.asarray(totals)
    middle = float(np.median(values))
    spread = MAD_TO_DEVIATION * float(np.median(np.abs(values - middle)))
    return np.flatnonzero(values > middle + max(FAR_OUT * spread, 0.1 * middle)).tolist()


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if abs(part) >= 0.095 or part == 0 else f"{100 * part:.1f} %"


def _classes_in(survey: Survey) -> dict[int, str]:
    labels = (
        np.unique(np.concatenate([survey.rows["before"], survey.rows["after"]])) if len(survey.rows["target"]) else ()
    )
    told = {int(label) for label in labels} | {label for flow in survey.flows for label in flow[:2]}
    output = survey.scan.output.kind
    word = str if output in (VALUE, LABELS) else "class {}".format
    return {label: survey.class_names.get(label, word(label)) for label in sorted(told)}


def _row_name(survey: Survey, place: int) -> str:
    return _name(survey, int(survey.places[place]))


def _name(survey: Survey, row: int) -> str:
    if survey.names is not None:
        return survey.names[row]
    told = str(int(survey.rows["target"][row]))
    return f"{told}{TO}{int(survey.rows['partner'][row])}" if "partner" in survey.rows else told


TYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "u2": np.uint16, "u1": np.uint8}
DEFLATION = 1  # how hard to deflate: more saves a twentieth, and takes three times as long
ROUNDED = np.uint32(0xFFFFFF00)  # of a float of four bytes: 16 bits after the point are more than a table shows


def _arrays(surveys: list[Survey]) -> dict[str, Any]:
    """The columns of the table, each as little-endian numbers, byte by byte; names as one text."""
    columns = {
        key: np.concatenate([survey.rows[key] for survey in surveys]) for key in surveys[0].rows if key != "place"
    }
    blocks: dict[str, Any] = {}
    for key, values in columns.items():
        kind = _kind_of(values)
        held = values.astype(np.dtype(TYPES[kind]).newbyteorder("<"))
        if kind == "f4":
            held = (held.view("<u4") & ROUNDED).view("<f4")
        planes = held.view(np.uint8).reshape(len(held), held.itemsize).T.tobytes()
        blocks[f"column-{key}"] = {"type": kind, "data": pack(planes, DEFLATION)}
    if any(survey.names is not None for survey in surveys):
        every = [_name(survey, row) for survey in surveys for row in range(len(survey.rows["target"]))]
        text = "\n".join(name.replace("\n", " ") for name in every)
        blocks["column-name"] = {"type": "text", "data": pack(text.encode(errors="replace"), DEFLATION)}
    return blocks


def _kind_of(values: Any) -> str:
    """The smallest kind of number that holds all of a column."""
    if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.rint(values))).all():
        return "f4"
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if least < 0 or most >= 2**16:
        return "i4" if least >= -(2**31) and most < 2**31 else "f8"
    return "u1" if most < 2**8 else "u2"

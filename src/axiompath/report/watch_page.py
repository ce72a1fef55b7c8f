"""Watch -> the page that leads to everything: what happened, what did it, what would undo it; then step by step.

What is worth a look at a step: flips first, those of important nodes before others, then by how much they moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..blame.brief import MOST_TOLD, Brief
from ..explain.moved import find_flipped
from ..graphs.places import Target
from ..outputs import show_apart
from ..scan.flips import WORTH_A_LOOK
from ..sequences.training import describe_training, describe_warning, training_table
from ..sequences.watch_folder import LARGEST, LIMIT, STEP_FOLDER, Watch, WatchedStep
from ..storage.writing import write_text
from .document import Answer, Answers, Block, Cell, Column, Details, Prose, Row, Strip, Strips, Table, render_document

MOST_LISTED = 1000  # flips in the table that is searched
MOST_MOVERS = 20
LEAST_BY_TIME = 0.005  # less is not told as a percentage


class Seen(NamedTuple):
    """A prediction with its brief, and where it was seen."""

    step: int  # from 1
    brief: Brief
    weight: float  # of the important nodes among its ends; 1 for others


def save_page(found: Watch, important: Mapping[str, float]) -> Path:
    """Write it; a page that is there is replaced only once the new one is whole."""
    return write_text(found.report, build_page(found, important))


def build_page(found: Watch, important: Mapping[str, float]) -> str:
    """HTML text; it loads nothing from elsewhere."""
    steps = found.progress.steps
    title = f"What moved: {steps[0].before} to {steps[-1].after}" if steps else "What moved"
    facts, first = dict(found.facts), str(found.progress.settings["first"])
    warning = describe_warning(facts)
    seen = [one for number in range(1, len(steps) + 1) for one in _see(found, number, important)]
    lines = [sentence for sentence in describe_training(facts, first) if sentence != warning]
    blocks: list[Block] = [Prose([*([warning] if warning else []), *found.findings], lead=True)]
    if steps:
        answers = list(_answers(found, seen))
        blocks += [answers.pop(found.largest - 1), _strips(steps), _steps(found), _movers(seen), _flips(found, seen)]
        blocks += answers
    model: list[Block] = [Prose([*lines, f"The graphs: {found.progress.settings['rule']}."])]
    if training_table(facts):
        model.append(_networks(facts))
    files = (
        f'The scan of step 1 is axiompath.read_watch("{found.folder}").scan(1); its folder holds summary.json and '
        f"flips.parquet for other programs. axiompath serve {found.folder} shows a page for every explanation."
    )
    return render_document(title, [*blocks, Details("The model, and what not to conclude", model), Prose([files])])


def _see(found: Watch, number: int, important: Mapping[str, float]) -> Iterator[Seen]:
    """The predictions of a step that have a brief, those most worth a look first."""
    summary = found.scan(number).flips()
    if summary is None:
        return
    for flips in (summary.flips, summary.others):
        some = [Seen(number, brief, _weight(brief, important)) for brief in flips]
        yield from sorted(some, key=lambda one: (-one.weight, *one.brief.rank))


def _weight(brief: Brief, important: Mapping[str, float]) -> float:
    return max([1.0, *(important[name] for name in (brief.name, *brief.name.split(" – ")) if name in important)])


def _page_of(step: int, brief: Brief | None = None) -> str:
    """The address of a step's page, or of a prediction on it."""
    if brief is None:
        return f"{STEP_FOLDER}/{step:04d}.html"
    ends = brief.target if isinstance(brief.target, tuple) else (brief.target,)
    return f"{STEP_FOLDER}/{step:04d}.html#node={'-'.join(map(str, ends))}"


def _strips(steps: tuple[WatchedStep, ...]) -> Block:
    rows = [
        Strip("flips", [step.num_flipped for step in steps]),
        Strip("moved by", [step.moved_by for step in steps], "soft"),
        Strip("edges added", [step.edges_added for step in steps], "gained"),
        Strip("edges removed", [step.edges_removed for step in steps], "lost"),
        Strip("edges expired", [step.edges_expired for step in steps], "lost"),
    ]
    note = "Each column is a step; moved by: the probability or value, summed over predictions."
    return Strips("Over time", [step.after for step in steps], [row for row in rows if any(row.values)], note)


def _answers(found: Watch, seen: list[Seen]) -> Iterator[Block]:
    """Of each step the five predictions most worth a look."""
    for number, step in enumerate(found.progress.steps, 1):
        some = [one for one in seen if one.step == number][:WORTH_A_LOOK]
        lines = [
            Answer(one.brief.headline, list(filter(None, [one.brief.cause, _remedy(one.brief)])),
                   _page_of(number, one.brief))
            for one in some
        ]  # fmt: skip
        by_time = f" {step.due_to_time}." * (step.num_flipped > 0 and step.by_time >= LEAST_BY_TIME)
        left = step.num_flipped - step.num_reached
        missed = f" For {left:,} there was no time to find what did them." * (left > 0)
        note = f"{step.num_flipped:,} of {step.num_predicted:,} went to another {found.answer}.{by_time}{missed}"
        note += f" {step.causes}" * bool(step.causes)
        note += f" {LIMIT}" * any(one.brief.remedy for one in some)
        largest = f"{LARGEST}: " * (number == found.largest)
        yield Answers(f"{largest}{step.before} → {step.after}", lines, note, _page_of(number))


def _remedy(brief: Brief) -> str:
    """What would undo it, and where all of that is listed."""
    many = brief.undo is not None and brief.undo.num_changes > MOST_TOLD
    return f"{brief.remedy} Its page lists all {brief.undo.num_changes:,}." if brief.undo and many else brief.remedy


def _movers(seen: list[Seen]) -> Block:
    """The nodes whose changes moved the most predictions of others."""
    moved: dict[str, float] = defaultdict(float)
    flips: dict[str, int] = defaultdict(int)
    for one in seen:
        own = one.brief.target if isinstance(one.brief.target, tuple) else (one.brief.target,)
        for cause in one.brief.causes:
            if cause.node >= 0 and cause.node not in own:
                moved[cause.node_name] += abs(cause.share)
                flips[cause.node_name] += 1
    order = sorted(moved, key=lambda name: -moved[name])[:MOST_MOVERS]
    rows: list[Row] = [[name, float(flips[name]), moved[name]] for name in order]
    columns = [Column("Node"), Column("Predictions", number=True), Column("Probability moved", number=True)]
    note = "Number of predictions of other nodes that have changes at this node among their causes, over all steps."
    return Table("Nodes that moved the most other predictions", columns, rows, note)


def _flips(found: Watch, seen: list[Seen]) -> Block:
    """All flips by name, the largest first; then those that were not examined, by how far they moved."""
    flipped = sorted((one for one in seen if one.brief.undo is not None), key=lambda one: one.brief.rank)
    rows: list[Row] = []
    for one in flipped[:MOST_LISTED]:
        brief = one.brief
        before, after = show_apart([brief.before, brief.after], 2, "f")
        rows.append([
            Cell(brief.name, _page_of(one.step, brief)), found.progress.steps[one.step - 1].after,
            f"{brief.class_name(brief.class_before)} → {brief.class_name(brief.class_after)}",
            Cell(f"{before} → {after}", value=abs(brief.moved)), brief.causes[0].words if brief.causes else "",
        ])  # fmt: skip
    others = _not_examined(found, {(one.step, one.brief.target) for one in flipped})
    rows += others[: MOST_LISTED - len(rows)]
    columns = [
        Column("Name"),
        Column("Step to"),
        Column("Went"),
        Column("Probability", number=True),
        Column("First cause"),
    ]
    every = len(flipped) + len(others)
    note = f"The first {MOST_LISTED:,} of {every:,}; the page of a step has all of its flips. " * (every > MOST_LISTED)
    note += "In order of the change of probability, those that are close to a tie and those not examined last."
    return Table("Flips of all steps", columns, rows, note)


def _not_examined(found: Watch, examined: set[tuple[int, Target]]) -> list[Row]:
    """Flips of which nobody knows yet what did them."""
    tables = []
    for number in range(1, len(found) + 1):
        table = found.scan(number).moved()
        flips = table[find_flipped(table)]
        left = np.array([(number, target) not in examined for target in flips.target], dtype=np.bool_)
        tables.append(flips[left].assign(step=number))
    every = pd.concat(tables).sort_values("kl", ascending=False, kind="stable")
    rows: list[Row] = []
    for _, one in every.iterrows():
        ends = [str(one.get(f"class_{end}_name", one.get(f"class_{end}", ""))) for end in ("before", "after")]
        rows.append([
            Cell(str(one["name"]), _page_of(one.step)), found.progress.steps[one.step - 1].after, " → ".join(ends),
            Cell("–", value=-1.0), "not examined in the time given",
        ])  # fmt: skip
    return rows


def _steps(found: Watch) -> Block:
    steps = found.progress.steps
    judged = any(step.score is not None for step in steps)
    heads = (f"To another {found.answer}", "Moved by", "Edges added", "Removed", "Expired", "Predicted", "Explained")
    columns = [Column("Step"), *(Column(head, number=True) for head in heads), *[Column("Right", number=True)] * judged]
    most = max((step.num_flipped / max(step.num_predicted, 1) for step in steps), default=0.0) or 1.0
    rows: list[Row] = []
    for number, step in enumerate(steps, 1):
        share = step.num_flipped / max(step.num_predicted, 1)
        flipped = Cell(f"{step.num_flipped:,} ({share:.1%})", bar=share / most, value=share)
        row: list[Cell | str | float | None] = [
            Cell(f"{step.before} → {step.after}", _page_of(number)), flipped, step.moved_by, float(step.edges_added),
            float(step.edges_removed), float(step.edges_expired), float(step.num_predicted), float(step.num_explained),
        ]  # fmt: skip
        rows.append([*row, *([None if step.score is None else Cell(f"{step.score:.1%}", value=step.score)] * judged)])
    note = "Right: accuracy after the step, on labelled nodes held out from training." * judged
    return Table("Step by step", columns, rows, note)


def _networks(facts: dict[str, Any]) -> Block:
    rows: list[Row] = [
        [Cell(name, strong=name == facts.get("network")), None if chosen is None else Cell(f"{chosen:.1%}"),
         Cell(f"{score:.1%}", value=score)]
        for name, chosen, score in training_table(facts)
    ]  # fmt: skip
    columns = [Column("Network or rule"), Column("Chosen by", number=True), Column("Judged by", number=True)]
    return Table("What was tried on the first window", columns, rows, "The network that was chosen is in bold.")

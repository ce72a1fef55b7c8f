"""Stories -> one self-contained HTML file: the sequence step by step, and each target's story with a page per step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import FloatArray
from ..change.states import CAUSE_WORDS
from ..explain.explanation import Explanation
from ..graphs.expiry import TIME
from ..graphs.places import NODE_UNIT
from ..outputs import BINARY, CLASSES, LABELS, VALUE
from ..sequences.stories import Stories
from ..sequences.story import Story
from .drawn import key_of
from .html import fill_template
from .page import describe_target, number, rounded


def build_story_report(stories: Stories, *, title: str = "How the predictions changed over time") -> str:
    """HTML text: an overview of the steps and of all stories, and a page for each story."""
    blocks: dict[str, dict[str, Any]] = {}
    targets = []
    for story in stories:
        pages: list[int | None] = []
        for explanation in story.explanations:
            pages.append(None if explanation is None else len(blocks))
            if explanation is not None:
                blocks[f"page-{len(blocks)}"] = describe_target([_about(story, explanation)])
        targets.append(_describe_entry(story, pages))
    blocks |= {f"story-{i}": describe_story(story) for i, story in enumerate(stories)}
    index = {
        "title": title,
        "snapshots": [stories.steps[0].before, *(step.after for step in stories.steps)],
        "steps": [vars(step) for step in stories.steps],
        "unit": next((story.unit for story in stories), NODE_UNIT),
        "values": any(story.output.kind == VALUE for story in stories),
        "flip": next((story.output.flip for story in stories), ""),
        "classes": [name for story in stories[:1] for name in _columns(story)],
        "targets": targets,
        "kinds": [cause for cause in (*CAUSE_WORDS, TIME) if any(cause in story.listed_causes for story in stories)],
    }
    return fill_template("story.html", ["story"], index, blocks)


def describe_story(story: Story) -> dict[str, Any]:
    """Everything that the page of one story shows, but for the pages of its steps; a yes or no as two classes."""
    shown, drawn = _shown(story), _drawn(story)
    return {
        "words": story.sentences(),
        "probabilities": [None if np.isnan(row).any() else rounded(row) for row in shown],
        "causes": [
            None if causes is None else {kind: rounded(drawn(value)) for kind, value in causes.items()}
            for causes in story.causes
        ],
        "kl": rounded(story.kl),
        "notes": list(story.notes),
        "pairs": _find_pairs(story),
        "unbroken": story.unbroken,
        "change": rounded(drawn(story.logits[-1] - story.logits[0])),
        "residual": number(story.residual),
    }


def _describe_entry(story: Story, pages: list[int | None]) -> dict[str, Any]:
    """What the lists of stories show, and where the pages of its steps are."""
    column = story.column if story.output.kind == VALUE else None
    classes = story.classes if column is None else [column if here else None for here in story.present]
    entry = {
        "target": key_of(story.target),
        "name": story.name,
        "classes": list(classes),
        "shown": [story.predicted_at(i) for i in range(len(story.logits))],
        "flips": len(story.flips),
        "kl_total": number(float(np.nansum(story.kl))),
        "turning": story.turning_point,
        "pages": pages,
    }
    return entry | ({"names": _columns(story)} if story.output.kind == LABELS else {})


def _about(story: Story, explanation: Explanation) -> Explanation:
    """A step as the page of its story shows it: of labels and values, about the one that the story is about."""
    if story.output.kind not in (LABELS, VALUE) or story.column is None:
        return explanation
    return replace(explanation, class_before=story.column, class_after=story.column)


def _columns(story: Story) -> list[str]:
    """What the columns of its charts are called: classes, a yes and its no, or values."""
    if story.output.kind == LABELS:
        label = story.column_name(story.column or 0)
        return [f"not {label}", label]
    if story.output.kind == BINARY:
        return [story.class_name(0), story.class_name(1)]
    name = story.column_name if story.output.kind == VALUE else story.class_name
    return [name(column) for column in range(story.logits.shape[1])]


def _shown(story: Story) -> FloatArray:
    """Probabilities of its charts' columns, or the values. [S, num_columns]."""
    if story.output.kind not in (BINARY, LABELS):
        return story.probabilities
    chance = story.probabilities[:, story.column or 0]
    return np.stack([1.0 - chance, chance], axis=1)


def _drawn(story: Story) -> Callable[[FloatArray], FloatArray]:
    """Numbers of all logits -> those of its charts' columns: of a yes its own, of a no nothing."""
    if story.output.kind not in (BINARY, LABELS):
        return lambda logits: logits
    return lambda logits: np.array([0.0, logits[story.column or 0]])


def _find_pairs(story: Story) -> list[list[int]]:
    """Pairs of classes [old, new] worth a look: the one that the story is about, then those of its flips."""
    if story.output.kind != CLASSES:
        column = story.column or 0
        return [[column, column]] if story.output.kind == VALUE else [[0, 1]]
    _, weights = story.view
    new = int(weights.argmax())
    old = int(weights.argmin()) if weights.min() < 0 else new
    flips = [[a, b] for s in story.flips for a, b in [story.classes[s : s + 2]] if a is not None and b is not None]
    return [list(pair) for pair in dict.fromkeys(tuple(pair) for pair in [[old, new], *flips])]

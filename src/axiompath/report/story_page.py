"""Stories -> one self-contained HTML file: the sequence step by step, and each node's story with a page a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..change.states import MODEL
from ..stories.chronicle import Stories
from ..stories.story import Story
from ..writing import write_text
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
                blocks[f"page-{len(blocks)}"] = describe_target([explanation])
        targets.append(_describe_entry(story, pages))
    blocks |= {f"story-{i}": describe_story(story) for i, story in enumerate(stories)}
    index = {
        "title": title,
        "snapshots": [stories.steps[0].before, *(step.after for step in stories.steps)],
        "steps": [vars(step) for step in stories.steps],
        "classes": [story.class_name(label) for story in stories[:1] for label in range(story.logits.shape[1])],
        "targets": targets,
        "retrained": any(MODEL in (causes or ()) for story in stories for causes in story.causes),
    }
    return fill_template("story.html", ["story"], index, blocks)


def save_story_report(path: str | Path, stories: Stories, **options: Any) -> Path:
    """Write the report; a file that is there is replaced only once the new one is whole. Returns the path."""
    return write_text(path, build_story_report(stories, **options))


def describe_story(story: Story) -> dict[str, Any]:
    """Everything that the page of one story shows, but for the pages of its steps."""
    return {
        "words": story.sentences(),
        "probabilities": [None if np.isnan(row).any() else rounded(row) for row in story.probabilities],
        "causes": [
            None if causes is None else {kind: rounded(value) for kind, value in causes.items()}
            for causes in story.causes
        ],
        "kl": rounded(story.kl),
        "notes": list(story.notes),
        "pairs": _find_pairs(story),
        "unbroken": story.unbroken,
        "change": rounded(story.logits[-1] - story.logits[0]),
        "residual": number(story.residual),
    }


def _describe_entry(story: Story, pages: list[int | None]) -> dict[str, Any]:
    """What the lists of stories show, and where the pages of its steps are."""
    return {
        "target": story.target,
        "name": story.name,
        "classes": list(story.classes),
        "flips": len(story.flips),
        "kl_total": number(float(np.nansum(story.kl))),
        "turning": story.turning_point,
        "pages": pages,
    }


def _find_pairs(story: Story) -> list[list[int]]:
    """Pairs of classes [old, new] worth a look: the one that the story is about, then those of its flips."""
    _, weights = story.view
    new = int(weights.argmax())
    old = int(weights.argmin()) if weights.min() < 0 else new
    flips = [[a, b] for s in story.flips for a, b in [story.classes[s : s + 2]] if a is not None and b is not None]
    return [list(pair) for pair in dict.fromkeys(tuple(pair) for pair in [[old, new], *flips])]

"""Story -> a table for the terminal."""

from __future__ import annotations

import numpy as np
from rich.table import Column, Table

from ..outputs import BINARY, CLASSES, VALUE
from ..sequences.story import Story
from ..sequences.story_text import signed

WIDEST_WORD = 12  # of a snapshot's name that is kept whole on a narrow terminal


def story_table(story: Story) -> Table:
    """One row per step: what it did to the prediction, and each cause's share of what the story is about."""
    _, weights = story.view
    known = [causes for causes in story.causes if causes is not None]
    shown = [cause for cause in story.listed_causes if any(np.any(causes.get(cause, 0) != 0) for causes in known)]
    column = "class" if story.output.kind in (CLASSES, BINARY) else story.column_name(story.column or 0)
    measured = "distance" if story.output.kind == VALUE else "KL"
    longest = max((len(word) for name in story.snapshot_names for word in str(name).split()), default=0)
    heads = [Column(head, justify="right", no_wrap=True) for head in (measured, *shown)]
    step = Column("step", min_width=min(longest, WIDEST_WORD))
    table = Table(
        step, column, *heads, Column("paths", justify="right"), box=None, padding=(0, 1, 0, 0),
        title=f"Shares of {story.measure}",
    )  # fmt: skip
    for s, causes in enumerate(story.causes):
        old, new = story.predicted_at(s), story.predicted_at(s + 1)
        if old is not None and new is not None and story.output.kind not in (CLASSES, BINARY):
            old, new = story.show_numbers([s, s + 1])
        went = new if old == new else f"{old or 'absent'} → {new or 'absent'}"
        moved = "" if old is None or new is None else f"{story.kl[s]:.4f}"
        shares = ["" if causes is None else signed(float(causes.get(kind, 0 * weights) @ weights)) for kind in shown]
        explanation = story.explanations[s]
        if explanation is None:
            paths = "absent" if old is None or new is None else "too many"
        else:
            paths = f"{len(explanation.paths):,} of {explanation.num_paths:,}"
        step_name = f"{story.snapshot_names[s]} → {story.snapshot_names[s + 1]}"
        table.add_row(step_name, str(went), moved, *shares, paths)
    return table

"""Story -> a table for the terminal."""

from __future__ import annotations

import numpy as np
from rich.markup import escape
from rich.table import Table

from ..change.states import CAUSE_WORDS
from ..stories.story import Story
from ..stories.words import signed


def story_table(story: Story) -> Table:
    """One row a step: what it did to the prediction, and each cause's share of the logit that the story is about."""
    label, weights = story.view
    known = [causes for causes in story.causes if causes is not None]
    shown = [cause for cause in CAUSE_WORDS if any(np.any(causes.get(cause, 0) != 0) for causes in known)]
    table = Table("step", "class", "KL", *shown, "paths", title=escape(f"Shares of the logit of {label}"))
    for s, causes in enumerate(story.causes):
        old, new = (None if k is None else story.class_name(k) for k in story.classes[s : s + 2])
        went = new if old == new else f"{old or 'absent'} → {new or 'absent'}"
        moved = "" if old is None or new is None else f"{story.kl[s]:.4f}"
        shares = ["" if causes is None else signed(float(causes.get(kind, 0 * weights) @ weights)) for kind in shown]
        explanation = story.explanations[s]
        if explanation is None:
            paths = "absent" if old is None or new is None else "too many"
        else:
            paths = f"{len(explanation.paths):,} of {explanation.num_paths:,}"
        step = f"{story.snapshot_names[s]} → {story.snapshot_names[s + 1]}"
        table.add_row(escape(step), escape(str(went)), moved, *shares, paths)
    return table

"""A story's classes and shares -> the sentences that tell them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .story import Story

WORDS = {
    "gained": "connections gained",
    "lost": "connections lost",
    "reweighted": "connections reweighted",
    "feature": "changed features",
    "model": "the retrained model",
}
MOST_CLAUSES = 6  # of a headline; a node that changes its class at every step would fill a page


def tell_classes(story: Story) -> str:
    """What a node was predicted to be, snapshot by snapshot, as the rest of a sentence about it."""
    label = story.classes[0]
    if label is not None and set(story.classes) == {label}:
        return (
            f"stayed in class {story.class_name(label)} from {story.snapshot_names[0]} to {story.snapshot_names[-1]} "
            f"({story.probabilities[0, label]:.2f} at first, {story.probabilities[-1, label]:.2f} at last)"
        )
    told = list(_clauses(story))
    if len(told) > MOST_CLAUSES:
        told = [*told[: MOST_CLAUSES - 2], f"changed {len(told) - MOST_CLAUSES + 1} times more", told[-1]]
    return f"{', '.join(told[:-1])}{' and ' if len(told) > 1 else ''}{told[-1]}"


def tell_shares(shares: dict[str, float]) -> str:
    """A change by cause, the largest part first; those that did nothing are left out."""
    ranked = sorted((kind for kind in shares if shares[kind] != 0), key=lambda kind: -abs(shares[kind]))
    told = [f"{signed(shares[kind])} from {WORDS[kind]}" for kind in ranked]
    return ", ".join(told) or "nothing that reaches it changed"


def signed(value: float) -> str:
    """Three digits with a sign, and a minus that is as long as the plus."""
    return f"{value:+.3f}".replace("-", "−")


def _clauses(story: Story) -> Iterator[str]:
    """One for each snapshot at which something happened."""
    seen: set[int] = set()
    before: int | None = None
    for i, (label, snapshot) in enumerate(zip(story.classes, story.snapshot_names, strict=True)):
        if label is not None and label != before:
            shown = f"class {story.class_name(label)} ({story.probabilities[i, label]:.2f})"
            if before is not None:
                yield f"went {'back ' if label in seen else ''}to {shown} at {snapshot}"
            elif seen:
                yield f"came back in {shown} at {snapshot}"
            else:
                yield f"began in {shown}" if i == 0 else f"appeared in {shown} at {snapshot}"
            seen.add(label)
        elif label is None and before is not None:
            yield f"was gone at {snapshot}"
        before = label

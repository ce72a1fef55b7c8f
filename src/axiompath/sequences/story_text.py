"""A story's classes (or probabilities, or values) and shares -> sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..outputs import BINARY, CLASSES, show_apart

if TYPE_CHECKING:
    from .story import Story

WORDS = {
    "gained": "connections gained",
    "lost": "connections lost",
    "reweighted": "connections reweighted",
    "feature": "changed features",
    "model": "the retrained model",
    "time": "the passing of time",
}
MOST_CLAUSES = 6  # of a headline; a node that changes its class at every step would fill a page


def describe_predictions(story: Story) -> str:
    """What a target was predicted to be, snapshot by snapshot, as the rest of a sentence about it."""
    if story.output.kind not in (CLASSES, BINARY):
        return f": {story.column_name(story.column or 0)} was {describe_numbers(story)}"
    return f" {describe_classes(story)}"


def describe_classes(story: Story) -> str:
    """The classes that it went through."""
    label = story.classes[0]
    if label is not None and set(story.classes) == {label}:
        ends = show_apart([_chance(story, i, label) for i in (0, -1)])
        of = _whose(story)
        return (
            f"stayed {_named(story, label)} from {story.snapshot_names[0]} to {story.snapshot_names[-1]} "
            f"({of}{ends[0]} at first, {of}{ends[1]} at last)"
        )
    return _join(list(_clauses(story)), "changed {} times more")


def describe_numbers(story: Story) -> str:
    """The probability of a label, or a value, at each snapshot that has it."""
    seen = [i for i in range(len(story.snapshot_names)) if story.present[i]]
    shown = dict(zip(seen, story.show_numbers(seen), strict=True))
    items = [f"{shown.get(i, 'absent')} at {snapshot}" for i, snapshot in enumerate(story.snapshot_names)]
    return _join(items, "{} more")


def describe_shares(shares: dict[str, float]) -> str:
    """A change by cause, the largest part first; those that did nothing are left out."""
    ranked = sorted((kind for kind in shares if shares[kind] != 0), key=lambda kind: -abs(shares[kind]))
    items = [f"{signed(shares[kind])} from {WORDS[kind]}" for kind in ranked]
    return ", ".join(items) or "nothing that reaches it changed"


def signed(value: float) -> str:
    """Three digits with a sign, and a minus that is as long as the plus."""
    return f"{value:+.3f}".replace("-", "−")


def _clauses(story: Story) -> Iterator[str]:
    """One for each snapshot at which something happened."""
    seen: set[int] = set()
    before: int | None = None
    way = "in" if story.output.kind == CLASSES else "as"
    turns = [(i, label) for i, label in enumerate(story.classes) if label is not None]
    turns = [(i, label) for i, label in turns if i == 0 or label != story.classes[i - 1]]
    chances = [_chance(story, i, label) for i, label in turns]
    # One logit's chances are all of a yes: the digits must show on which side of a half each is.
    texts = show_apart(chances) if story.output.kind == BINARY else [f"{chance:.2f}" for chance in chances]
    shown_at = {i: _whose(story) + text for (i, _), text in zip(turns, texts, strict=True)}
    for i, (label, snapshot) in enumerate(zip(story.classes, story.snapshot_names, strict=True)):
        if label is not None and label != before:
            shown = f"{_named(story, label).removeprefix('in ')} ({shown_at[i]})"
            if before is not None:
                yield f"went {'back ' if label in seen else ''}to {shown} at {snapshot}"
            elif seen:
                yield f"came back {way} {shown} at {snapshot}"
            else:
                yield f"began {way} {shown}" if i == 0 else f"appeared {way} {shown} at {snapshot}"
            seen.add(label)
        elif label is None and before is not None:
            yield f"was gone at {snapshot}"
        before = label


def _named(story: Story, label: int) -> str:
    """A class with "in" before it; for a single logit only the answer."""
    return f"{'in class ' * (story.output.kind == CLASSES)}{story.class_name(label)}"


def _chance(story: Story, snapshot: int, label: int) -> float:
    """The probability of a class; of one logit that of a yes."""
    return float(story.probabilities[snapshot, label if story.output.kind == CLASSES else 0])


def _whose(story: Story) -> str:
    """What a probability is of, where it is not that of the class named: of one logit a yes."""
    return "" if story.output.kind == CLASSES else f"{story.class_name(1)}: "


def _join(items: list[str], left_out: str) -> str:
    """Clauses as one; where they are many, those in between are counted."""
    if len(items) > MOST_CLAUSES:
        items = [*items[: MOST_CLAUSES - 2], left_out.format(len(items) - MOST_CLAUSES + 1), items[-1]]
    return f"{', '.join(items[:-1])}{' and ' if len(items) > 1 else ''}{items[-1]}"

"""Classes and shares over a sequence of snapshots -> the sentences that tell them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..arrays import FloatArray

WORDS = {
    "gained": "connections gained",
    "lost": "connections lost",
    "reweighted": "connections reweighted",
    "feature": "changed features",
}
MOST_CLAUSES = 6  # of a headline; a node that changes its class at every step would fill a page


def tell_classes(
    classes: Sequence[int | None],
    probabilities: FloatArray,
    class_names: Sequence[str],
    snapshot_names: Sequence[str],
) -> str:
    """What a node was predicted to be, snapshot by snapshot, as the rest of a sentence about it.

    A class is None where the snapshot does not have the node; probabilities are [num_snapshots, num_classes].
    """
    label = classes[0]
    if label is not None and set(classes) == {label}:
        return (
            f"stayed in class {class_names[label]} from {snapshot_names[0]} to {snapshot_names[-1]} "
            f"({probabilities[0, label]:.2f} at first, {probabilities[-1, label]:.2f} at last)"
        )
    told = list(_clauses(classes, probabilities, class_names, snapshot_names))
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


def _clauses(
    classes: Sequence[int | None],
    probabilities: FloatArray,
    class_names: Sequence[str],
    snapshot_names: Sequence[str],
) -> Iterator[str]:
    """One for each snapshot at which something happened."""
    seen: set[int] = set()
    before: int | None = None
    for i, label in enumerate(classes):
        if label is not None and label != before:
            shown = f"class {class_names[label]} ({probabilities[i, label]:.2f})"
            if before is not None:
                yield f"went {'back ' if label in seen else ''}to {shown} at {snapshot_names[i]}"
            elif seen:
                yield f"came back in {shown} at {snapshot_names[i]}"
            else:
                yield f"began in {shown}" if i == 0 else f"appeared in {shown} at {snapshot_names[i]}"
            seen.add(label)
        elif label is None and before is not None:
            yield f"was gone at {snapshot_names[i]}"
        before = label

"""Links + marks that occur -> Steps: every set of states that a walk can be in, and the step from set to set.

At each layer's output a partial path has one set of states a class of columns (see `links`). How many different
combinations a change makes possible is found once, from the root down: they are numbered, 0 for "no state at all",
and one table look-up moves a path over an entry, whatever the network.

A layer's bias is a source in every state but delta. The biases of a hop and of the local layers above it belong to one
node of the path, hence to one path: it starts at the highest of them that a walk reaches, and the others add to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray
from ..errors import InputError
from .links import Links
from .states import (
    AFTER_REWEIGHTED,
    BEFORE_REWEIGHTED,
    DELTA,
    IN_AFTER,
    IN_BEFORE,
    LEAVE,
    STATES,
    move,
)

MAX_SETS = 2**16 - 1  # what a partial path's number can say
SETS_AT_ONCE = 2**22  # sets formed at a time


@dataclass(frozen=True, eq=False)
class Sets:
    """The combinations that occur at one layer's output (or at the leaves), by number; 0 stands for none."""

    parts: NDArray[np.uint8]  # [num_sets, num_classes + 1]: states and facts of each class; whether a bias path began
    held: NDArray[np.uint8]  # [num_sets]: states and facts of all classes together
    sources: NDArray[np.uint8]  # [num_sets]: those of the classes where the layer's bias is a source, without delta
    starts: BoolArray  # [num_sets]: a path starts at the bias here
    delta_alone: BoolArray  # [num_sets]


@dataclass(frozen=True, eq=False)
class Steps:
    """Sets at the output of each layer down to the lowest hop, and at the leaves under the key lowest hop - 1."""

    sets: dict[int, Sets]
    following: dict[int, NDArray[np.uint16]]  # layer -> [sets at its output, marks]: number of the set below


def trace_sets(links: Sequence[Links | None], marks: Sequence[NDArray[np.uint16] | None], start: int) -> Steps:
    """`marks` are those that occur in each layer, [num_marks, num_groups]; `start` the states and facts of the root."""
    top = len(links) - 1
    lowest = next(t for t, link in enumerate(links) if link is not None)
    parts = np.array([[0, 0], [start, 0]], dtype=np.uint8)
    sets, following = {}, {}
    for t in range(top, lowest - 1, -1):
        link, values = links[t], marks[t]
        assert link is not None
        assert values is not None
        sets[t] = _describe(parts, link.biased)
        parts, following[t] = _step(parts, sets[t], link, values)
    sets[lowest - 1] = _describe(parts, np.zeros(parts.shape[1] - 1, dtype=np.bool_))
    return Steps(sets, following)


def merge_causes(marks: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The marks for walks that only have to be counted: as if every walk left delta over what both snapshots have."""
    states = marks & (DELTA | AFTER_REWEIGHTED | BEFORE_REWEIGHTED)
    to_after, to_before = ((marks >> LEAVE) & side > 0 for side in (IN_AFTER, IN_BEFORE))
    leaves = to_after * AFTER_REWEIGHTED + to_before * BEFORE_REWEIGHTED
    return np.asarray(states | leaves << LEAVE, dtype=np.uint16)


def _describe(parts: NDArray[np.uint8], biased: BoolArray) -> Sets:
    classes = parts[:, :-1]
    held = np.bitwise_or.reduce(classes, axis=1, initial=0).astype(np.uint8)
    sources = np.bitwise_or.reduce(classes[:, biased], axis=1, initial=0).astype(np.uint8) & ~np.uint8(DELTA)
    starts = ((sources & STATES) != 0) & (parts[:, -1] == 0)
    return Sets(parts, held, sources, starts, (held & STATES) == DELTA)


def _step(
    parts: NDArray[np.uint8], sets: Sets, link: Links, values: NDArray[np.uint16]
) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
    """The sets below, and which of them each set becomes over each of the marks."""
    begun = (parts[:, -1] | sets.starts).astype(np.uint8) if link.local else np.zeros(len(parts), dtype=np.uint8)
    width = link.num_below + 1
    found = np.zeros((1, width), dtype=np.uint8)
    pieces: list[tuple[NDArray[np.uint8], NDArray[np.int64]]] = []
    size = max(1, SETS_AT_ONCE // max(1, len(values) * width))
    for low in range(0, len(parts), size):
        held = parts[low : low + size]
        below = np.zeros((len(held), len(values), width), dtype=np.uint8)
        for above, c, group in link.links.tolist():
            below[:, :, c] |= move(held[:, None, above], values[None, :, group])
        below[:, :, -1] = begun[low : low + size, None]
        # Where no state is left there is nothing, unless a path began at this node whose snapshots are not yet known.
        alive = ((below[:, :, :-1] & STATES) != 0).any(axis=2)
        alive |= (below[:, :, -1] > 0) & (below[:, :, :-1] > 0).any(axis=2)
        below[~alive] = 0
        pieces.append(np.unique(below.reshape(-1, width), axis=0, return_inverse=True))
        found = np.unique(np.concatenate([found, pieces[-1][0]]), axis=0)
    if len(found) > MAX_SETS:
        raise InputError(
            f"Expected a network whose walks have at most {MAX_SETS:,} different sets of states (got {len(found):,}): "
            f"a layer with {len(link.groups)} groups of coefficients leads to {link.num_below} groups of columns. "
            "Use fewer branches that stay apart, or heads whose maps have no zeros."
        )
    # Sorted by their bytes, so that "nothing" comes first.
    place = {row.tobytes(): number for number, row in enumerate(found)}
    numbers = [
        np.array([place[row.tobytes()] for row in rows], dtype=np.uint16)[inverse.reshape(-1)]
        for rows, inverse in pieces
    ]
    return found, np.concatenate(numbers).reshape(len(parts), len(values))

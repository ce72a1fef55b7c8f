"""States of a walk: which a partial path can be in, what an entry lets it do, and the cause that each state ends in.

A walk starts at the root in `delta` and leaves it once or never; from then on it is in `after` or in `before`. Why it
left is a part of its state, so that every sequence of states has one cause:

    delta               it has not left: at a leaf, the cause is *feature*; at the features of an edge, *edge feature*
    after-gained        it left over an entry that `before` did not have: *gained*
    after-reweighted    it left over one that both have, by what `after` has more of it: *reweighted*
    after-statistics    it left over a shift that both have, by what the statistics of a graph did: *statistics*
    before-lost         it left over an entry that `after` no longer has: *lost*
    before-reweighted   it left over one that both have, by what `before` had more of it: *reweighted*

One node sequence can be in several states at once, so a partial path carries a set of them, as bits. Two more bits say
whether `after` and `before` have the path as far as it goes, whatever its coefficients are; a whole path has one bit
more if its leaf is an edge.

An entry's marks say what one rule's coefficient lets a walk do: which bits go on over it, and which states a walk in
delta may leave to. With the bits in the places below, a set moves over an entry by `move`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray

DELTA, AFTER_GAINED, AFTER_REWEIGHTED, AFTER_STATISTICS, BEFORE_LOST, BEFORE_REWEIGHTED = 1, 2, 4, 8, 16, 32
IN_AFTER = AFTER_GAINED | AFTER_REWEIGHTED | AFTER_STATISTICS
IN_BEFORE = BEFORE_LOST | BEFORE_REWEIGHTED
STATES = DELTA | IN_AFTER | IN_BEFORE
OF_AFTER, OF_BEFORE = 64, 128
AT_EDGE = 256
NUM_STATES = 6
LAST_AFTER = 3  # states by their places: delta, those of after, those of before
SIDE_OF_STATE = np.array([0, 1, 1, 1, 2, 2])  # [state]: delta, after, before
NUM_SETS = 512

# Marks: the bits above that go on over the entry, and shifted up by LEAVE, those that a walk in delta leaves to.
LEAVE = 8
NUM_MARKS = 1 << (LEAVE + NUM_STATES)

KINDS = ("gained", "lost", "reweighted", "statistics", "feature", "edge feature")
GAINED, LOST, REWEIGHTED, STATISTICS, FEATURE, EDGE_FEATURE = range(6)
RARE = (KINDS[STATISTICS], KINDS[EDGE_FEATURE])  # said only where it has a share: few networks know it
MODEL = "model"  # the cause that no walk has: another model looks at the graphs
CAUSE_WORDS = (*KINDS, MODEL)
CAUSE_OF_STATE = np.array([FEATURE, GAINED, REWEIGHTED, STATISTICS, LOST, REWEIGHTED])  # [state]


def move(held: NDArray[np.uint8], marks: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Sets of states and facts after a step over entries with these marks (arrays of shapes that fit each other)."""
    left = np.where(held & DELTA, (marks >> LEAVE) & STATES, 0)
    return ((held & marks & (STATES | OF_AFTER | OF_BEFORE)) | left).astype(np.uint8)


def name_causes(shares: FloatArray) -> list[dict[str, FloatArray]]:
    """Shares by cause [num_targets, len(KINDS), num_classes], that of another model below, by their names; rare ones
    if not 0. One dict per target, each with an array of its own."""
    rare = np.array([cause in RARE for cause in CAUSE_WORDS[: shares.shape[1]]])
    said = ~rare | shares.any(axis=2)
    words = [CAUSE_WORDS[place] for place in np.nonzero(said)[1]]
    ends = np.cumsum(said.sum(axis=1)).tolist()
    parts = [part for one, here in zip(shares, said, strict=True) for part in one[here]]
    return [dict(zip(words[a:b], parts[a:b], strict=True)) for a, b in itertools.pairwise([0, *ends])]


def are_causes(names: Iterable[str], *, models: int = 1) -> bool:
    """Whether a record names its causes so: all that are not rare, the model if it differs, and no other."""
    words = {*(KINDS if models == 1 else CAUSE_WORDS)}
    return words - {*RARE} <= {*names} <= words


def _causes_of(held: int) -> int:
    causes = [CAUSE_OF_STATE[s] for s in range(NUM_STATES) if held >> s & 1]
    if held & AT_EDGE:
        causes = [EDGE_FEATURE if cause == FEATURE else cause for cause in causes]
    return int(np.bitwise_or.reduce([1 << cause for cause in causes] or [0]))


# All four by set, [NUM_SETS].
COUNT_STATES = np.array([(held & STATES).bit_count() for held in range(NUM_SETS)], dtype=np.uint8)
CAUSES = np.array([_causes_of(held) for held in range(NUM_SETS)], dtype=np.uint8)  # bit i: KINDS[i] is among them
ONE_CAUSE = np.array([c.bit_length() - 1 if c.bit_count() == 1 else -1 for c in CAUSES.tolist()], dtype=np.int8)
# The kind where it does not depend on shares: of what both snapshots have, `reweighted` until a share says otherwise.
KIND_OF_SET = np.array(
    [
        REWEIGHTED if held & OF_AFTER and held & OF_BEFORE else LOST if held & OF_BEFORE else GAINED
        for held in range(NUM_SETS)
    ],
    dtype=np.int8,
)

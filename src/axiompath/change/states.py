"""States of a walk: which a partial path can be in, what an entry lets it do, and the cause that each state ends in.

A walk starts at the root in `delta` and leaves it once or never; from then on it is in `after` or in `before`. Why it
left is a part of its state, so that every sequence of states has one cause:

    delta               it has not left: at a leaf, the cause is *feature*
    after-gained        it left over an entry that `before` did not have: *gained*
    after-reweighted    it left over one that both have, by what `after` has more of it: *reweighted*
    before-lost         it left over an entry that `after` no longer has: *lost*
    before-reweighted   it left over one that both have, by what `before` had more of it: *reweighted*

One node sequence can be in several states at once, so a partial path carries a set of them, as bits. Two more bits say
whether `after` and `before` have the path as far as it goes, whatever its coefficients are.

An entry's marks say what one rule's coefficient lets a walk do: which bits go on over it, and which states a walk in
delta may leave to. With the bits in the places below, a set moves over an entry by `move`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DELTA, AFTER_GAINED, AFTER_REWEIGHTED, BEFORE_LOST, BEFORE_REWEIGHTED = 1, 2, 4, 8, 16
STATES = DELTA | AFTER_GAINED | AFTER_REWEIGHTED | BEFORE_LOST | BEFORE_REWEIGHTED
IN_AFTER = AFTER_GAINED | AFTER_REWEIGHTED
IN_BEFORE = BEFORE_LOST | BEFORE_REWEIGHTED
OF_AFTER, OF_BEFORE = 32, 64
NUM_STATES = 5
NUM_SETS = 128

# Marks: the bits above that go on over the entry, and shifted up by LEAVE, those that a walk in delta leaves to.
LEAVE = 7
NUM_MARKS = 1 << (LEAVE + NUM_STATES)

KINDS = ("gained", "lost", "reweighted", "feature")
GAINED, LOST, REWEIGHTED, FEATURE = range(4)
MODEL = "model"  # the cause that no walk has: another model looks at the graphs
CAUSE_WORDS = (*KINDS, MODEL)
CAUSE_OF_STATE = np.array([FEATURE, GAINED, REWEIGHTED, LOST, REWEIGHTED])  # [state]


def move(held: NDArray[np.uint8], marks: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Sets of states and facts after a step over entries with these marks (arrays of shapes that fit each other)."""
    left = np.where(held & DELTA, (marks >> LEAVE) & STATES, 0)
    return ((held & marks & (NUM_SETS - 1)) | left).astype(np.uint8)


def _causes_of(held: int) -> int:
    return int(np.bitwise_or.reduce([1 << CAUSE_OF_STATE[s] for s in range(NUM_STATES) if held >> s & 1] or [0]))


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

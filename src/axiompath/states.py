"""States of a walk: which a partial path can be in, what an entry lets it do, and the kind of a whole path.

Coefficients leave marks on an entry (V, U) of a layer; a partial path carries flags. Both are bits, so that one table
look-up moves a path over an entry. See `paths` for the rules.
"""

from __future__ import annotations

import numpy as np

# Marks: what an entry has, in any of its layer's rules.
KEPT, GAINED, LOST, AFTER, BEFORE = 1, 2, 4, 8, 16

# Flags: the states that a partial path is in (several at once), and what else is known of it.
IN_DELTA, IN_AFTER, IN_BEFORE = 1, 2, 4
STATES = IN_DELTA | IN_AFTER | IN_BEFORE
PATH_OF_AFTER, PATH_OF_BEFORE, CHANGED = 8, 16, 32

KINDS = ("gained", "lost", "reweighted", "feature")


def _next_states(states: int, marks: int) -> int:
    delta = states & IN_DELTA and marks & KEPT
    after = (states & IN_DELTA and marks & GAINED) or (states & IN_AFTER and marks & AFTER)
    before = (states & IN_DELTA and marks & LOST) or (states & IN_BEFORE and marks & BEFORE)
    return (IN_DELTA if delta else 0) | (IN_AFTER if after else 0) | (IN_BEFORE if before else 0)


def _kind_of_flags(flags: int) -> int:
    if not flags & PATH_OF_BEFORE:
        return KINDS.index("gained")
    if not flags & PATH_OF_AFTER:
        return KINDS.index("lost")
    return KINDS.index("reweighted" if flags & CHANGED else "feature")


NEXT = np.array([[_next_states(s, m) for m in range(32)] for s in range(8)], dtype=np.uint8)  # [states, marks]
NUM_STATES = np.array([bin(s).count("1") for s in range(8)])  # [states]
KIND_OF_FLAGS = np.array([_kind_of_flags(flags) for flags in range(64)], dtype=np.int8)  # [flags]

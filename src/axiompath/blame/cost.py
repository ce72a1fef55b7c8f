"""Values of subsets -> how long so many of them take: measured on a few, so that it is known before it is spent."""

from __future__ import annotations

import math
import time

import numpy as np

from ..errors import InputError
from .shapley import LEAST_PAIRS, Effort, Values

STAGES = (1, 128, 4096)  # subsets on which the time is measured, by the network, which takes many at once for less
STAGES_OF_OWN = (1, 4)  # the same where the user's model answers, which takes each by itself
PART_OF_TIME = 0.1  # of the time that was given, that measuring may take
LEAST_EFFORT = 1.0  # seconds beyond the limit that the least effort may take


class TooDear(InputError):
    """Not even the fewest orders from which a share and its error are known fit into the time that was given."""


def predict_seconds(values: Values, num_players: int, number: int, *, by_network: bool, seconds: float) -> float:
    """How long so many subsets take: what a call takes anyhow, and what each subset adds to it."""
    anyhow, each, asked = 0.0, 0.0, 0
    for turn, stage in enumerate(STAGES if by_network else STAGES_OF_OWN):
        known = turn > 0 and anyhow + each * number <= seconds  # what is measured on few is rather too much
        if known or asked == number or (turn > 1 and each * stage > PART_OF_TIME * seconds):
            break
        asked = min(stage, number)
        subsets = np.random.default_rng(0).random((asked, num_players)) < 0.5
        start = time.monotonic()
        values(subsets)
        spent = time.monotonic() - start
        # What few take anyhow is not taken again by many; but at least half is, for the first call is often slow.
        each = max(spent - anyhow, spent / 2) / asked
        anyhow = spent if by_network and turn == 0 else anyhow
    return anyhow + each * number


def check_affordable(values: Values, num_players: int, effort: Effort, *, by_network: bool) -> None:
    """Refuse what would take longer than the time that was given, whatever is left out."""
    if math.isinf(effort.seconds):
        return
    least = 2 * LEAST_PAIRS * (num_players - 1)
    takes = predict_seconds(values, num_players, least, by_network=by_network, seconds=effort.seconds)
    if takes > effort.seconds + LEAST_EFFORT:
        raise TooDear(
            f"Expected time for {LEAST_PAIRS} random orders of {num_players:,} changes and their reverses, the least "
            f"that gives shares and errors: {least:,} evaluations, about {takes:,.0f} seconds (got "
            f"{effort.seconds:g}); give more `seconds`, or group changes with `by`."
        )

"""The compiled loop of extremes: intervals over the entries of a hop."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import LayerChange
from ..compiled import compiled


class HopExtremes(NamedTuple):
    """The entries of a hop, and the extremes of what its senders lead to, behind its maps."""

    entries: LayerChange
    descents_indptr: IntArray
    descents: IntArray
    differs: BoolArray  # [senders]
    channels: IntArray  # [num_channels, 4]: first column of the extremes, first column of z, width, rule
    low: FloatArray  # [rows, columns]
    high: FloatArray  # [rows, columns]
    place: NDArray[np.int32]  # [3, senders]


@compiled
def reach_over(rows, state, hop, low, high):
    """Least and largest over the entries of each row, in one of the states delta, after, before; 0 without any."""
    entries, channels, place = hop.entries, hop.channels, hop.place
    kept, after, before = entries.kept, entries.after, entries.before
    kept_after, kept_before = entries.kept_after, entries.kept_before
    width = low.shape[1]
    least, most = np.empty(width), np.empty(width)
    in_delta = state == 0
    indptr = hop.descents_indptr if in_delta else entries.indptr
    for i in range(len(rows)):
        first = True
        for n in range(indptr[rows[i]], indptr[rows[i] + 1]):
            e = hop.descents[n] if in_delta else n
            u = entries.indices[e]
            meeting = 0
            for to in range(3):
                goes = False
                for k in range(kept.shape[1]):
                    if to == 0:
                        goes |= hop.differs[u] and kept[e, k] != 0.0
                    elif to == 1:
                        goes |= after[e, k] != kept_after[e, k]
                    else:
                        goes |= before[e, k] != kept_before[e, k]
                meeting += goes
            several = in_delta and meeting > 1
            for d in range(width):
                least[d], most[d] = 0.0, 0.0
            for to in range(3):
                if not in_delta and to != state:
                    continue
                at = place[to, u]
                for k in range(len(channels)):
                    column, begin, size, rule = channels[k, 0], channels[k, 1], channels[k, 2], channels[k, 3]
                    if not in_delta:
                        factor = after[e, rule] if to == 1 else before[e, rule]
                    elif to == 0:
                        factor = kept[e, rule] if hop.differs[u] else 0.0
                    else:
                        factor = after[e, rule] - kept_after[e, rule]
                        if to == 2:
                            factor = kept_before[e, rule] - before[e, rule]
                    if factor == 0.0:
                        continue
                    for d in range(size):
                        one, other = hop.low[at, column + d], hop.high[at, column + d]
                        if several:
                            one, other = min(one, 0.0), max(other, 0.0)
                        one, other = factor * one, factor * other
                        least[begin + d] += min(one, other)
                        most[begin + d] += max(one, other)
            for d in range(width):
                low[i, d] = least[d] if first else min(low[i, d], least[d])
                high[i, d] = most[d] if first else max(high[i, d], most[d])
            first = False


@compiled
def mark_senders(start, stop, rows, entries, senders):
    """Mark all that these rows receive from."""
    for v in range(start, stop):
        if rows[v]:
            for e in range(entries.indptr[v], entries.indptr[v + 1]):
                senders[entries.indices[e]] = True


@compiled
def least_and_most(indptr, given_low, given_high, low, high):
    """Least and largest of each run of rows; 0 where a run has none."""
    for i in range(len(low)):
        for row in range(indptr[i], indptr[i + 1]):
            for d in range(low.shape[1]):
                if row == indptr[i]:
                    low[i, d], high[i, d] = given_low[row, d], given_high[row, d]
                else:
                    low[i, d] = min(low[i, d], given_low[row, d])
                    high[i, d] = max(high[i, d], given_high[row, d])

"""The compiled loops of maxima: who holds them, and for how much of the way from one snapshot to the other."""

import numpy as np

from ..compiled import compiled


@compiled
def hold_shares(indptr, values, there, shares):
    """shares[e] = 1 over the number of those that hold the row's largest value, if e does; else 0."""
    for v in range(len(indptr) - 1):
        highest, count = -np.inf, 0
        for e in range(indptr[v], indptr[v + 1]):
            shares[e] = 0.0
            if not there[e]:
                continue
            if count == 0 or values[e] > highest:
                highest, count = values[e], 1
            elif values[e] == highest:
                count += 1
        for e in range(indptr[v], indptr[v + 1]):
            if there[e] and values[e] == highest:
                shares[e] = 1.0 / count


@compiled
def line_shares(indptr, low, high, there, shares):
    """shares[e] = the part of the way on which low + s (high - low) of e is the row's largest, s from 0 to 1.

    Along the upper envelope of the row's lines, from one to the next that overtakes it; equal lines share.
    """
    for v in range(len(indptr) - 1):
        holder = -1
        for e in range(indptr[v], indptr[v + 1]):
            shares[e] = 0.0
            if not there[e]:
                continue
            if holder < 0 or low[e] > low[holder] or (low[e] == low[holder] and high[e] > high[holder]):
                holder = e
        s = 0.0
        while holder >= 0:
            slope = high[holder] - low[holder]
            until, following, steepest = 1.0, -1, slope
            for e in range(indptr[v], indptr[v + 1]):
                if not there[e] or high[e] <= high[holder]:  # what is not above at the end never overtakes
                    continue
                steeper = high[e] - low[e]
                if steeper <= slope:
                    continue
                crossing = max((low[holder] - low[e]) / (steeper - slope), s)
                if crossing < until or (crossing == until and following >= 0 and steeper > steepest):
                    until, following, steepest = crossing, e, steeper
            count = 0
            for e in range(indptr[v], indptr[v + 1]):
                count += there[e] and low[e] == low[holder] and high[e] == high[holder]
            for e in range(indptr[v], indptr[v + 1]):
                if there[e] and low[e] == low[holder] and high[e] == high[holder]:
                    shares[e] += (until - s) / count
            s, holder = until, following

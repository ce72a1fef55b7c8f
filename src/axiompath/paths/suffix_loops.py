"""One suffix of a compiled search: carried down a layer, its leaves priced, what hangs below it bounded."""

from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray
from ..change.states import DELTA, IN_AFTER, IN_BEFORE
from ..compiled import compiled
from .layer_table import (
    AFTER,
    BEFORE,
    BIAS,
    COLUMNS_BEHIND,
    DELTA_ALONE,
    DESCENTS_INDPTR,
    FOLLOWING,
    HELD,
    HELD_BELOW,
    HIGH,
    HIGH_BEHIND,
    INDICES,
    INDPTR,
    INPUTS,
    KEPT,
    KEPT_AFTER,
    KEPT_BEFORE,
    LOCAL,
    LOW,
    LOW_BEHIND,
    MAPS,
    MARKS,
    MESSAGES_AFTER,
    MESSAGES_BEFORE,
    NUM_BELOW,
    NUM_CHANNELS,
    NUM_ENTRIES,
    NUM_EXTREME_NODES,
    NUM_EXTREMES,
    NUM_NODES,
    NUM_OF_MARKS,
    NUM_RULES,
    NUM_SENDERS,
    NUM_SETS,
    NUM_SLOPES,
    NUM_WEIGHTS,
    OUTPUTS,
    PLACE,
    SLOPE_PLACE,
    SLOPES,
    STARTS,
    WEIGHTS,
    WIDTH,
    WIDTH_BELOW,
    view,
)
from .price_lanes import dot_columns, least_columns, price_columns


class Scratch(NamedTuple):
    """Room for one suffix."""

    m: FloatArray  # [3, widest]
    q: FloatArray  # [3, widest]
    p: FloatArray  # [3, widest]
    factors: FloatArray  # [3, 3]


@compiled(inner=True)
def has_state(held, f):
    """Whether a set has one of the three states delta, after, before."""
    return held & (DELTA if f == 0 else IN_AFTER if f == 1 else IN_BEFORE) != 0


@compiled(inner=True)
def _factors(row, e, rule, known):
    """known [3, 3]: what state f above is multiplied by on its way to state g below, over one entry and rule."""
    size, rules = row[NUM_ENTRIES], row[NUM_RULES]
    kept = view(row[KEPT], (size, rules), np.float64)[e, rule]
    now = view(row[AFTER], (size, rules), np.float64)[e, rule]
    once = view(row[BEFORE], (size, rules), np.float64)[e, rule]
    stays = view(row[KEPT_AFTER], (size, rules), np.float64)[e, rule]
    stayed = view(row[KEPT_BEFORE], (size, rules), np.float64)[e, rule]
    known[0, 0], known[0, 1], known[0, 2] = kept, now - stays, stayed - once
    known[1, 1], known[2, 2] = now, once


@compiled(inner=True)
def set_below(row, s, e):
    marks = view(row[MARKS], (row[NUM_ENTRIES],), np.uint16)
    return view(row[FOLLOWING], (row[NUM_SETS], row[NUM_OF_MARKS]), np.uint16)[s, marks[e]]


@compiled(inner=True)
def tilt_suffix(row, v, s, m, q):
    """q = m * slopes of node v, in the states that it has; 0 in the others."""
    width = row[WIDTH]
    held = view(row[HELD], (row[NUM_SETS],), np.uint8)[s]
    for f in range(3):
        if not has_state(held, f):
            for d in range(width):
                q[f, d] = 0.0
        elif row[NUM_SLOPES] > 0:
            at = view(row[SLOPE_PLACE], (3, row[NUM_NODES]), np.int64)[f, v]
            slopes = view(row[SLOPES], (row[NUM_SLOPES], width), np.float64)
            for d in range(width):
                q[f, d] = m[f, d] * slopes[at, d]
        else:
            for d in range(width):
                q[f, d] = m[f, d]


@compiled(inner=True, fastmath={"reassoc", "contract", "nsz"})
def multiply_suffix(row, s, q, p):
    """p = q @ W', channels side by side, in the states that it has; 0 in the others."""
    held = view(row[HELD], (row[NUM_SETS],), np.uint8)[s]
    maps = view(row[MAPS], (row[NUM_CHANNELS], 6), np.int64)
    weights = view(row[WEIGHTS], (row[NUM_WEIGHTS],), np.float64)
    for f in range(3):
        there = has_state(held, f)
        for k in range(len(maps)):
            column, inputs, low, outputs, place = maps[k, 0], maps[k, 1], maps[k, 2], maps[k, 3], maps[k, 4]
            for i in range(inputs):
                total = 0.0
                if there and maps[k, 5]:
                    first, whole = place + i * outputs, outputs & ~7
                    total = dot_columns(weights, first, q, f * q.shape[1] + low, whole)
                    for o in range(whole, outputs):
                        total += weights[first + o] * q[f, low + o]
                elif there:
                    total = q[f, low + i]
                p[f, column + i] = total


@compiled(inner=True)
def carry(row, e, held_below, p, factors, m):
    """m of what hangs below over entry e, from the products p above."""
    inputs = view(row[INPUTS], (row[NUM_CHANNELS], 4), np.int64)
    for g in range(3):
        for d in range(row[WIDTH_BELOW]):
            m[g, d] = 0.0
    for k in range(len(inputs)):
        column, low, size = inputs[k, 0], inputs[k, 1], inputs[k, 2]
        _factors(row, e, inputs[k, 3], factors)
        for f in range(3):
            for g in range(3):
                factor = factors[f, g]
                if factor != 0.0 and (f == 0 or f == g) and has_state(held_below, g):
                    for n in range(size):
                        m[g, np.uintp(low + n)] += factor * p[f, np.uintp(column + n)]


@compiled(inner=True)
def go_to_hop(table, t, v, s, work):
    """Down the local layers at v, q left in the scratch; returns the layer of the hop, the node, the set, the bias.

    The set is 0 where nothing hangs below the local layers; the last value is infinite where no path starts here.
    """
    m, q, p, factors = work.m, work.q, work.p, work.factors
    bias, begun = 0.0, False
    while True:
        row = table[t]
        tilt_suffix(row, v, s, m, q)
        if row[BIAS] != 0:
            begun = begun or view(row[STARTS], (row[NUM_SETS],), np.bool_)[s]
            values = view(row[BIAS], (row[WIDTH],), np.float64)
            for d in range(row[WIDTH]):
                bias += (q[1, d] + q[2, d]) * values[d]
        if not row[LOCAL]:
            break
        indptr = view(row[INDPTR], (row[NUM_NODES] + 1,), np.int64)
        e = indptr[v]
        below = 0
        if e < indptr[v + 1]:
            below = set_below(row, s, e)
        if below == 0:
            s = 0
            break
        multiply_suffix(row, s, q, p)
        carry(row, e, view(row[HELD_BELOW], (row[NUM_BELOW],), np.uint8)[below], p, factors, m)
        t, s = t - 1, below
    return t, v, s, bias if begun else np.inf


@compiled(inner=True)
def range_of(row, v, s):
    """Whether to look at the few descents alone, and where they or the row's entries lie."""
    if view(row[DELTA_ALONE], (row[NUM_SETS],), np.bool_)[s]:
        indptr = view(row[DESCENTS_INDPTR], (row[NUM_NODES] + 1,), np.int64)
        return True, indptr[v], indptr[v + 1]
    indptr = view(row[INDPTR], (row[NUM_NODES] + 1,), np.int64)
    return False, indptr[v], indptr[v + 1]


@compiled(inner=True, fastmath={"reassoc", "contract", "nsz"})
def price_leaf(row, e, q):
    """What the leaf over entry e of the lowest hop adds up to."""
    u = view(row[INDICES], (row[NUM_ENTRIES],), np.int32)[e]
    outputs = view(row[OUTPUTS], (row[NUM_CHANNELS], 4), np.int64)
    old = view(row[MESSAGES_BEFORE], (row[NUM_SENDERS], row[COLUMNS_BEHIND]), np.float64)
    new = view(row[MESSAGES_AFTER], (row[NUM_SENDERS], row[COLUMNS_BEHIND]), np.float64)
    size, rules = row[NUM_ENTRIES], row[NUM_RULES]
    total = 0.0
    for k in range(len(outputs)):
        column, low, width, rule = outputs[k, 0], outputs[k, 1], outputs[k, 2], outputs[k, 3]
        kept = view(row[KEPT], (size, rules), np.float64)[e, rule]
        now = view(row[AFTER], (size, rules), np.float64)[e, rule]
        once = view(row[BEFORE], (size, rules), np.float64)[e, rule]
        gained = now - view(row[KEPT_AFTER], (size, rules), np.float64)[e, rule]
        lost = view(row[KEPT_BEFORE], (size, rules), np.float64)[e, rule] - once
        whole, widest = width & ~7, q.shape[1]
        places, given = (low, widest + low, 2 * widest + low), (kept, gained, now, lost, once)
        total += price_columns(old, new, np.intp(u) * old.shape[1] + column, q, places, given, whole)
        for n in range(whole, width):
            d, at = np.uintp(low + n), np.uintp(column + n)
            a, b = new[u, at], old[u, at]
            total += kept * q[0, d] * (a - b)  # the difference first: it may be far smaller than what it is one of
            total += (gained * q[0, d] + now * q[1, d]) * a
            total += (lost * q[0, d] + once * q[2, d]) * b
    return total


@compiled(inner=True)
def _least(ends, at, first, held, g, start, size, of_delta, of_own, cap):
    """The least of x @ c over what lies between both ends, or `cap` where that is less, column by column.

    x is what delta and state g hold from column `start` on, each times a factor.
    """
    low, high = ends
    whole, widest = size & ~7, held.shape[1]
    places, factors = (start, g * widest + start), (of_delta, of_own)
    total = least_columns(low, high, np.intp(at) * low.shape[1] + first, held, places, factors, whole, cap)
    for n in range(whole, size):
        x = of_delta * held[0, start + n] + of_own * held[g, start + n]
        total += min(min(x * low[at, first + n], x * high[at, first + n]), cap)
    return total


@compiled(inner=True)
def bound_of(row, below, e, held_below, p, q, work, enough):
    """A price that no path over entry e goes below: by the extremes where it leads to, and by those behind the maps.

    Where several states meet, a continuation may be missing in one of them, so that none of them bounds by more than 0.
    Where the former say `enough`, the latter are not looked at.
    """
    u = view(row[INDICES], (row[NUM_ENTRIES],), np.int32)[e]
    place = view(below[PLACE], (3, below[NUM_EXTREME_NODES]), np.int32)
    rows, width, columns = below[NUM_EXTREMES], row[WIDTH_BELOW], row[COLUMNS_BEHIND]
    ends = view(below[LOW], (rows, width), np.float64), view(below[HIGH], (rows, width), np.float64)
    several = (held_below & DELTA != 0) + (held_below & IN_AFTER != 0) + (held_below & IN_BEFORE != 0) > 1
    cap = 0.0 if several else np.inf
    inputs, factors = view(row[INPUTS], (row[NUM_CHANNELS], 4), np.int64), work.factors
    total = 0.0
    if len(inputs) == 1:
        _factors(row, e, inputs[0, 3], factors)
        start, first, size = inputs[0, 0], inputs[0, 1], inputs[0, 2]
        for g in range(3):
            if has_state(held_below, g):
                of_delta = factors[0, g] if g else 0.0
                total += _least(ends, place[g, u], first, p, g, start, size, of_delta, factors[g, g], cap)
    else:
        carry(row, e, held_below, p, factors, work.m)
        for g in range(3):
            if has_state(held_below, g):
                total += _least(ends, place[g, u], 0, work.m, g, 0, width, 0.0, 1.0, cap)
    if below[LOW_BEHIND] == 0 or total >= enough:
        return total
    ends = view(below[LOW_BEHIND], (rows, columns), np.float64), view(below[HIGH_BEHIND], (rows, columns), np.float64)
    outputs = view(row[OUTPUTS], (row[NUM_CHANNELS], 4), np.int64)
    behind = 0.0
    for k in range(len(outputs)):
        column, first, size = outputs[k, 0], outputs[k, 1], outputs[k, 2]
        _factors(row, e, outputs[k, 3], factors)
        for g in range(3):
            if has_state(held_below, g):
                of_delta = factors[0, g] if g else 0.0
                behind += _least(ends, place[g, u], column, q, g, first, size, of_delta, factors[g, g], cap)
    return max(total, behind)

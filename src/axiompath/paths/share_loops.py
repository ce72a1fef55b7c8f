"""The compiled loops of attribution: multipliers carried down, shares summed up."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import LayerChange, Rates
from ..change.states import (
    AT_EDGE,
    CAUSE_OF_STATE,
    CAUSES,
    COUNT_STATES,
    DELTA,
    EDGE_FEATURE,
    FEATURE,
    IN_AFTER,
    IN_BEFORE,
    KINDS,
    LAST_AFTER,
    LEAVE,
    NUM_STATES,
    OF_AFTER,
    OF_BEFORE,
    ONE_CAUSE,
    REWEIGHTED,
    SIDE_OF_STATE,
    STATISTICS,
)
from ..compiled import compiled
from .lanes import LANES, expect, fetch, plus_scaled, product, put, put_all, two_products, zeros

# Sums may be reordered within one dot product, always in the same way, so results do not depend on the batch.
FAST = {"reassoc", "contract", "nsz"}


NUM_CAUSES = len(KINDS)
AHEAD = 6  # sources: how early the message of one is asked for, so that it is there when its turn comes


class Shares(NamedTuple):
    """What the paths of a PathSet contribute, row by row; and by target, what they do together."""

    contributions: FloatArray  # [num_paths, num_classes]
    kinds: NDArray[np.int8]  # [num_paths]: index into KINDS
    causes: FloatArray  # [num_targets, len(KINDS), num_classes]: the change of each logit, by cause


class Above(NamedTuple):
    """The products P of the level above, and the coefficients over which a suffix hangs below them."""

    product: FloatArray  # [rows, columns, num_classes]: a row for each suffix and state, channels side by side
    first: IntArray  # [num_suffixes]: first row of each suffix; states in the order of their bits
    held: NDArray[np.uint8]  # [num_suffixes]: the suffix's states
    channels: IntArray  # [num_channels, 4]: first column of P, first column of h, width, rule
    entries: LayerChange


class Here(NamedTuple):
    """The suffixes of one level."""

    node: NDArray[np.int32]  # [num_suffixes]
    parent: NDArray[np.int32]  # [num_suffixes]: the suffix above
    entry: IntArray  # [num_suffixes]: over which of the entries above
    held: NDArray[np.uint8]  # [num_suffixes]: its states
    width: int  # of the layer
    rates: Rates  # without slopes where phi is the identity


class Maps(NamedTuple):
    """The linear maps W of a layer's channels."""

    weights: FloatArray  # of all, one behind the other
    places: IntArray  # [num_channels, 6]: first column of P, inputs, first output, outputs, first weight, whether any


class Received(NamedTuple):
    """What the suffixes of one level receive below: leaves, or a bias."""

    rows: IntArray  # [num_suffixes]: first row of each one's sources
    number: IntArray  # [num_suffixes]
    entry: IntArray  # [rows]
    held: NDArray[np.uint16]  # [rows]
    entries: LayerChange
    differs: BoolArray  # [senders]
    channels: IntArray  # [num_channels, 4]: first column of the messages, first column of z, width, rule
    before: FloatArray  # [senders, columns]: messages
    after: FloatArray  # [senders, columns]
    divided: bool  # rules divide their own coefficients: an entry's parts do not sum to their difference


class Mixed(NamedTuple):
    """Where the sources of several causes are summed up, beside the rows of their shares."""

    slot: IntArray  # [num_suffixes]: place in `causes`, -1 for none
    causes: FloatArray  # [slots, NUM_CAUSES, num_classes]
    contributions: FloatArray  # [rows, num_classes]
    kinds: NDArray[np.int8]  # [rows]


class Below(NamedTuple):
    """What the senders of a layer hold: sums by cause where they differ, and their values in both snapshots."""

    place: IntArray  # [senders]: row in `sums`, where a sender differs
    differs: BoolArray  # [senders]
    sums: FloatArray  # [differing senders, NUM_CAUSES, columns]
    before: FloatArray  # [senders, columns]
    after: FloatArray  # [senders, columns]
    channels: IntArray  # [num_channels, 4]: first column there, first column of the sums to be filled, width, rule
    leaves: bool  # the senders are leaves: in delta they have the cause `feature`
    first_edge: int  # leaves from here on are edges, and have the cause `edge feature`


@compiled
def sum_descents(start, stop, rows, indptr, descents, entries, below, sums):
    """Sums by cause over what a walk in delta receives at each row, before the layer's maps."""
    channels = below.channels
    for i in range(start, stop):
        for n in range(indptr[rows[i]], indptr[rows[i] + 1]):
            e = descents[n]
            u = entries.indices[e]
            for k in range(len(channels)):
                column, low, size, rule = channels[k, 0], channels[k, 1], channels[k, 2], channels[k, 3]
                both, mark = entries.kept[e, rule], entries.marks[e, rule]
                gained = entries.after[e, rule] - entries.kept_after[e, rule]
                lost = entries.kept_before[e, rule] - entries.before[e, rule]
                if both != 0.0 and below.differs[u]:
                    if below.leaves:
                        cause = FEATURE if u < below.first_edge else EDGE_FEATURE
                        for d in range(size):
                            moved = below.after[u, column + d] - below.before[u, column + d]
                            sums[i, cause, low + d] += both * moved
                    else:
                        at = below.place[u]
                        for cause in range(NUM_CAUSES):
                            for d in range(size):
                                sums[i, cause, low + d] += both * below.sums[at, cause, column + d]
                for state in range(1, NUM_STATES):
                    if not mark >> LEAVE >> state & 1:
                        continue
                    cause = CAUSE_OF_STATE[state]
                    # `before`'s message of a leaf that does not differ may not be held apart.
                    for d in range(size):
                        value = below.after[u, column + d]
                        if state > LAST_AFTER and below.differs[u]:
                            value = below.before[u, column + d]
                        sums[i, cause, low + d] += (gained if state <= LAST_AFTER else lost) * value


@compiled
def mark_mixed(start, stop, sources, mixed):
    """Which suffixes have a source of more than one cause."""
    for i in range(start, stop):
        for row in range(sources.rows[i], sources.rows[i] + sources.number[i]):
            if ONE_CAUSE[sources.held[row]] < 0:
                mixed[i] = 1
                break


@compiled
def sum_causes(start, stop, indptr, held, shares):
    """Add the contributions of paths that have one cause to the sums of their targets; features name their paths."""
    contributions, kinds, causes = shares.contributions, shares.kinds, shares.causes
    num_classes = contributions.shape[1]
    for i in range(start, stop):
        for j in range(0, num_classes, LANES):
            total, cause = zeros(), -1
            for row in range(indptr[i], indptr[i + 1]):
                its_cause = ONE_CAUSE[held[row]]
                if its_cause < 0:
                    continue
                if its_cause != cause:
                    if cause >= 0:
                        to = (i * NUM_CAUSES + cause) * num_classes + j
                        put(causes, to, plus_scaled(fetch(causes, to, num_classes - j), total, 1.0), num_classes - j)
                    total, cause = zeros(), its_cause
                total = plus_scaled(total, fetch(contributions, row * num_classes + j, num_classes - j), 1.0)
            if cause >= 0:
                to = (i * NUM_CAUSES + cause) * num_classes + j
                put(causes, to, plus_scaled(fetch(causes, to, num_classes - j), total, 1.0), num_classes - j)
        for row in range(indptr[i], indptr[i + 1]):
            # Delta alone goes over entries that both snapshots have.
            if ONE_CAUSE[held[row]] >= STATISTICS and contributions[row].any():
                kinds[row] = ONE_CAUSE[held[row]]


@compiled(inner=True)
def _factor(above, state, entries, e, rule):
    """What P[above] is multiplied with on its way to M[state], over entry e and by one rule."""
    if above != 0:
        return entries.after[e, rule] if state <= LAST_AFTER else entries.before[e, rule]
    if state == 0:
        return entries.kept[e, rule]
    if not entries.marks[e, rule] >> LEAVE >> state & 1:
        return 0.0
    if state <= LAST_AFTER:
        return entries.after[e, rule] - entries.kept_after[e, rule]
    return entries.kept_before[e, rule] - entries.before[e, rule]


@compiled(fastmath=FAST)
def multiply_rows(start, stop, above_this, here, maps, found):
    """P of one level from that of the level above, into the product of `found`."""
    above_product, above_first, above_held = above_this.product, above_this.first, above_this.held
    channels, entries = above_this.channels, above_this.entries
    node, parent, entry, held, width = here.node, here.parent, here.entry, here.held, here.width
    slopes, slope_rows = here.rates.slopes, here.rates.place
    first, below, weights = found.first, found.product, maps.weights
    has_rates = len(slopes) > 0
    above_columns, columns, num_classes = above_product.shape[1], below.shape[1], below.shape[2]
    stride = (num_classes + LANES - 1) // LANES * LANES
    q = np.zeros(width * stride)
    for m in range(len(maps.places)):
        places = maps.places[m]
        below_column, inputs, below_low = places[0], places[1], places[2]
        outputs, place, has_weight = places[3], places[4], places[5]
        for i in range(start, stop):
            p, e, w = parent[i], entry[i], node[i]
            row = first[i]
            for state in range(NUM_STATES):
                if not held[i] >> state & 1:
                    continue
                q[:] = 0.0
                slope = slope_rows[SIDE_OF_STATE[state], w] if has_rates else 0
                # A state is reached from delta or from itself.
                for from_delta in range(2 if state else 1):
                    above = 0 if from_delta == 0 else state
                    if not above_held[p] >> above & 1:
                        continue
                    above_row = above_first[p] + COUNT_STATES[above_held[p] & ((1 << above) - 1)]
                    for k in range(len(channels)):
                        column, low, size, rule = channels[k, 0], channels[k, 1], channels[k, 2], channels[k, 3]
                        factor = _factor(above, state, entries, e, rule)
                        if factor == 0.0:
                            continue
                        for j in range(0, num_classes, LANES):
                            at, to = (above_row * above_columns + column) * num_classes + j, low * stride + j
                            for d in range(size):
                                rate = factor * slopes[slope, low + d] if has_rates else factor
                                lanes = fetch(above_product, at, num_classes - j)
                                put_all(q, to, plus_scaled(fetch(q, to, LANES), lanes, rate))
                                at += num_classes
                                to += stride
                for n in range(inputs):
                    to = (row * columns + below_column + n) * num_classes
                    for j in range(0, num_classes, LANES):
                        if has_weight:
                            lanes = product(q, below_low * stride + j, stride, weights, place + n * outputs, outputs)
                        else:
                            lanes = fetch(q, (below_low + n) * stride + j, LANES)
                        put(below, to + j, lanes, num_classes - j)
                row += 1


@compiled(fastmath=FAST)
def take_sources(start, stop, above, here, sources, totals):
    """Write M @ (rate * g) into each source's row, g being its message a * y.

    P times factor and rate is formed once a suffix, for the states of delta, of after and of before; each of its
    sources then costs one product with y. Sources of several causes are left to `take_mixed`.
    """
    above_product, above_first, above_held, channels = above.product, above.first, above.held, above.channels
    kept, after, before = above.entries.kept, above.entries.after, above.entries.before
    kept_after, kept_before = above.entries.kept_after, above.entries.kept_before
    node, parent, entry, held, width = here.node, here.parent, here.entry, here.held, here.width
    slopes, slope_rows = here.rates.slopes, here.rates.place
    source_rows, num_sources, source_entry, source_held = sources.rows, sources.number, sources.entry, sources.held
    indices, source_after, source_before = sources.entries.indices, sources.entries.after, sources.entries.before
    differs, source_channels, y_before, y_after = sources.differs, sources.channels, sources.before, sources.after
    source_kept, divided = sources.entries.kept, sources.divided
    has_rates = len(slopes) > 0
    columns, num_classes, y_columns = above_product.shape[1], above_product.shape[2], y_after.shape[1]
    # In delta, after and before, one behind the other: P * factor * rate, [width, stride].
    stride = (num_classes + LANES - 1) // LANES * LANES
    weights = np.zeros(3 * width * stride)
    used, moved = np.zeros(3, dtype=np.bool_), np.zeros(y_columns)
    if len(source_channels) == 0:
        return
    few = num_classes <= LANES
    only_column, only_low, only_size = source_channels[0, 0], source_channels[0, 1] * LANES, source_channels[0, 2]
    only_rule = np.uintp(source_channels[0, 3])
    for i in range(start, stop):
        if num_sources[i] == 0:
            continue
        p, e_above, w = parent[i], entry[i], node[i]
        num_used = 0
        for which in range(3):
            used[which] = False
            if not held[i] & (DELTA if which == 0 else IN_AFTER if which == 1 else IN_BEFORE):
                continue
            above_row = above_first[p]
            slope = slope_rows[which, w] if has_rates else 0
            for state in range(NUM_STATES):
                if not above_held[p] >> state & 1:
                    continue
                for k in range(len(channels)):
                    rule = channels[k, 3]
                    new, old = after[e_above, rule], before[e_above, rule]
                    factor = 0.0
                    if which == 0:
                        factor = kept[e_above, rule] if state == 0 else 0.0
                    elif which == 1:
                        factor = new - kept_after[e_above, rule] if state == 0 else new if state <= LAST_AFTER else 0.0
                    else:
                        factor = kept_before[e_above, rule] - old if state == 0 else old if state > LAST_AFTER else 0.0
                    if factor == 0.0:
                        continue
                    column, low, size = channels[k, 0], channels[k, 1], channels[k, 2]
                    alone = few and not used[which] and size == width
                    if not used[which]:
                        used[which] = True
                        num_used += 1
                        if not alone:
                            weights[which * width * stride : (which + 1) * width * stride] = 0.0
                    if alone:
                        at = (above_row * columns + column) * num_classes
                        for n in range(size):
                            d = np.uintp(n)
                            rate = factor * slopes[slope, d] if has_rates else factor
                            lanes = plus_scaled(zeros(), fetch(above_product, at + n * num_classes, num_classes), rate)
                            put_all(weights, (which * width + n) * LANES, lanes)
                        continue
                    for j in range(0, num_classes, LANES):
                        at = (above_row * columns + column) * num_classes + j
                        to = (which * width + low) * stride + j
                        for d in range(size):
                            rate = factor * slopes[slope, low + d] if has_rates else factor
                            lanes = fetch(above_product, at, num_classes - j)
                            put_all(weights, to, plus_scaled(fetch(weights, to, LANES), lanes, rate))
                            at += num_classes
                            to += stride
                above_row += 1
        # The common case of few classes and one channel, in one or two sets of states: these share the reading of y.
        plain = few and len(source_channels) == 1 and 0 < num_used < 3 and not divided
        one, other = (0 if used[0] else 1 if used[1] else 2), (2 if used[2] else 1)
        ways = (
            1.0 if one < 2 else 0.0, -1.0 if one == 0 else 1.0 if one == 2 else 0.0,
            1.0 if other == 1 else 0.0, 1.0 if other == 2 else 0.0,
        )  # fmt: skip
        last = source_rows[i] + num_sources[i] - 1
        for row in range(source_rows[i], last + 1):
            if ONE_CAUSE[source_held[np.uintp(row)]] < 0:
                continue
            e = np.uintp(source_entry[np.uintp(row)])
            u = np.uintp(indices[e])
            differ = differs[u]
            if plain and not differ:
                ahead = np.uintp(source_entry[np.uintp(min(row + AHEAD, last))])
                expect(y_after, np.intp(indices[ahead]) * y_columns, y_columns)
                new, old = source_after[e, only_rule], source_before[e, only_rule]
                at, factor = np.intp(u) * y_columns + only_column, ways[0] * new + ways[1] * old
                if num_used == 1:
                    place = one * width * LANES + only_low
                    total = plus_scaled(zeros(), product(weights, place, LANES, y_after, at, only_size), factor)
                else:
                    places = (one * width * LANES + only_low, other * width * LANES + only_low)
                    factors = (factor, ways[2] * new + ways[3] * old)
                    total = two_products(weights, places, LANES, y_after, at, only_size, factors)
                put(totals, row * num_classes, total, num_classes)
                continue
            for j in range(0, num_classes, LANES):
                total = zeros()
                for k in range(len(source_channels)):
                    column, low, size, rule = (
                        source_channels[k, 0], source_channels[k, 1], source_channels[k, 2], source_channels[k, 3],
                    )  # fmt: skip
                    new, old = source_after[e, rule], source_before[e, rule]
                    at, first = np.intp(u) * y_columns + column, low * stride + j
                    for which in range(3):
                        if not used[which]:
                            continue
                        from_after = new if which != 2 else 0.0
                        from_before = old if which == 2 else 0.0 if which == 1 else -old
                        if divided and which == 0:
                            both = source_kept[e, rule]
                            from_after -= sources.entries.kept_after[e, rule] - both
                            from_before += sources.entries.kept_before[e, rule] - both
                        if not differ:
                            # One message in both snapshots: read it once.
                            from_after += from_before
                            from_before = 0.0
                        place = which * width * stride + first
                        if from_before != 0.0 and from_before == -from_after:
                            # Kept as it is, a coefficient carries the difference: taken first, it is 0 where none is.
                            for d in range(size):
                                moved[d] = y_after[u, column + d] - y_before[u, column + d]
                            total = plus_scaled(total, product(weights, place, stride, moved, 0, size), from_after)
                            continue
                        if from_after != 0.0:
                            total = plus_scaled(total, product(weights, place, stride, y_after, at, size), from_after)
                        if from_before != 0.0:
                            total = plus_scaled(total, product(weights, place, stride, y_before, at, size), from_before)
                put(totals, row * num_classes + j, total, num_classes - j)


@compiled(inner=True)
def _part_of_delta(cause, entries, e, rule):
    """Factors of y_after and y_before in a source's change, as far as it is due to one cause."""
    if cause >= FEATURE:
        return entries.kept[e, rule], -entries.kept[e, rule]
    from_after = from_before = 0.0
    leaves = entries.marks[e, rule] >> LEAVE
    for state in range(1, NUM_STATES):
        if leaves >> state & 1 and CAUSE_OF_STATE[state] == cause:
            if state <= LAST_AFTER:
                from_after = entries.after[e, rule] - entries.kept_after[e, rule]
            else:
                from_before = entries.kept_before[e, rule] - entries.before[e, rule]
    return from_after, from_before


@compiled(fastmath=FAST)
def take_mixed(start, stop, above_this, here, sources, mixed):
    """The same for sources of several causes, cause by cause: added to the source's row, and to its suffix's sums.

    The kind of a path that both snapshots have is the larger of its shares by reweighting and by features.
    """
    above_product, above_first, above_held = above_this.product, above_this.first, above_this.held
    channels, entries = above_this.channels, above_this.entries
    held, slopes, slope_rows = here.held, here.rates.slopes, here.rates.place
    source_entries, source_channels = sources.entries, sources.channels
    y_before, y_after = sources.before, sources.after
    num_classes = above_product.shape[2]
    g = np.zeros((3, here.width))  # rate * message in delta, after, before
    share = np.zeros(num_classes)
    for i in range(start, stop):
        if mixed.slot[i] < 0:
            continue
        p, e_above, w = here.parent[i], here.entry[i], here.node[i]
        for row in range(sources.rows[i], sources.rows[i] + sources.number[i]):
            known = sources.held[row]
            if ONE_CAUSE[known] >= 0:
                continue
            e = sources.entry[row]
            u = source_entries.indices[e]
            feature_size = reweighted_size = 0.0
            for cause in range(NUM_CAUSES):
                if not CAUSES[known] >> cause & 1:
                    continue
                for which in range(3):
                    g[which, :] = 0.0
                    for k in range(len(source_channels)):
                        column, low, size = source_channels[k, 0], source_channels[k, 1], source_channels[k, 2]
                        rule = source_channels[k, 3]
                        a_before, a_after = source_entries.before[e, rule], source_entries.after[e, rule]
                        from_after, from_before = (a_after, 0.0) if which == 1 else (0.0, a_before)
                        if which == 0:
                            from_after, from_before = _part_of_delta(cause, source_entries, e, rule)
                        if not sources.differs[u]:
                            # One message in both snapshots, of which `before`'s may not be held.
                            from_after += from_before
                            from_before = 0.0
                        if which == 0 and cause >= FEATURE:
                            for d in range(size):
                                g[which, low + d] += from_after * (y_after[u, column + d] - y_before[u, column + d])
                            continue
                        for d in range(size):
                            g[which, low + d] += from_after * y_after[u, column + d]
                            g[which, low + d] += from_before * y_before[u, column + d]
                    if len(slopes) > 0:
                        for d in range(here.width):
                            g[which, d] *= slopes[slope_rows[which, w], d]
                share[:] = 0.0
                above_row = above_first[p]
                for above in range(NUM_STATES):
                    if not above_held[p] >> above & 1:
                        continue
                    for state in range(NUM_STATES):
                        # From delta to delta the cause is still open: it is that of the source.
                        if not held[i] >> state & 1 or (state != 0 and CAUSE_OF_STATE[state] != cause):
                            continue
                        if above != 0 and above != state:
                            continue
                        for k in range(len(channels)):
                            column, low, size = channels[k, 0], channels[k, 1], channels[k, 2]
                            rule = channels[k, 3]
                            factor = _factor(above, state, entries, e_above, rule)
                            if factor == 0.0:
                                continue
                            for j in range(num_classes):
                                total = 0.0
                                for d in range(size):
                                    total += above_product[above_row, column + d, j] * g[SIDE_OF_STATE[state], low + d]
                                share[j] += factor * total
                    above_row += 1
                size_of_share = 0.0
                for j in range(num_classes):
                    mixed.contributions[row, j] += share[j]
                    mixed.causes[mixed.slot[i], cause, j] += share[j]
                    size_of_share += abs(share[j])
                if cause >= FEATURE:
                    feature_size = size_of_share
                elif cause == REWEIGHTED:
                    reweighted_size = size_of_share
            if known & OF_AFTER and known & OF_BEFORE and feature_size > reweighted_size:
                mixed.kinds[row] = EDGE_FEATURE if known & AT_EDGE else FEATURE

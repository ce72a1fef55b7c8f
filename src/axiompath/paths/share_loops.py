"""The compiled loops of attribution: multipliers carried down, shares summed up."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import LayerChange, Rates
from ..change.states import (
    CAUSE_OF_STATE,
    CAUSES,
    COUNT_STATES,
    DELTA,
    FEATURE,
    IN_AFTER,
    IN_BEFORE,
    LEAVE,
    NUM_STATES,
    OF_AFTER,
    OF_BEFORE,
    ONE_CAUSE,
    REWEIGHTED,
)
from ..compiled import compiled

# Sums may be reordered within one dot product, always in the same way, so results do not depend on the batch.
FAST = {"reassoc", "contract", "nsz"}


NUM_CAUSES = 4


class Shares(NamedTuple):
    """What the paths of a PathSet contribute, row by row; and by target, what they do together."""

    contributions: FloatArray  # [num_paths, num_classes]
    kinds: NDArray[np.int8]  # [num_paths]: index into KINDS
    causes: FloatArray  # [num_targets, len(KINDS), num_classes]: the change of each logit, by cause


class Above(NamedTuple):
    """The products P of the level above, and the coefficients over which a suffix hangs below them."""

    product: FloatArray  # [rows, num_classes, columns]: a row for each suffix and state, channels side by side
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
    held: NDArray[np.uint8]  # [rows]
    entries: LayerChange
    differs: BoolArray  # [senders]
    channels: IntArray  # [num_channels, 4]: first column of the messages, first column of z, width, rule
    before: FloatArray  # [senders, columns]: messages
    after: FloatArray  # [senders, columns]


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
                gained, lost = entries.after[e, rule] - both, both - entries.before[e, rule]
                if both != 0.0 and below.differs[u]:
                    if below.leaves:
                        for d in range(size):
                            moved = below.after[u, column + d] - below.before[u, column + d]
                            sums[i, FEATURE, low + d] += both * moved
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
                        if state > 2 and below.differs[u]:
                            value = below.before[u, column + d]
                        sums[i, cause, low + d] += (gained if state <= 2 else lost) * value


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
    """Add the contributions of paths that have one cause to the sums of their targets; `feature` names its paths."""
    contributions, kinds, causes = shares.contributions, shares.kinds, shares.causes
    for i in range(start, stop):
        for row in range(indptr[i], indptr[i + 1]):
            cause = ONE_CAUSE[held[row]]
            if cause < 0:
                continue
            for j in range(contributions.shape[1]):
                causes[i, cause, j] += contributions[row, j]
                # Delta alone goes over entries that both snapshots have.
                if cause == FEATURE and contributions[row, j] != 0.0:
                    kinds[row] = FEATURE


@compiled
def _factor(above, state, kept, after, before, mark):
    """What P[above] is multiplied with on its way to M[state], over an entry with these coefficients and marks."""
    if above != 0:
        return after if state <= 2 else before
    if state == 0:
        return kept
    if not mark >> LEAVE >> state & 1:
        return 0.0
    return after - kept if state <= 2 else kept - before


@compiled(fastmath=FAST)
def multiply_rows(start, stop, above_this, here, maps, found):
    """P of one level from that of the level above, into the product of `found`."""
    product, above_first, above_held = above_this.product, above_this.first, above_this.held
    channels, entries = above_this.channels, above_this.entries
    kept, after, before, marks = entries.kept, entries.after, entries.before, entries.marks
    node, parent, entry, held, width = here.node, here.parent, here.entry, here.held, here.width
    slopes, slope_rows = here.rates.slopes, here.rates.place
    first, below = found.first, found.product
    has_rates = len(slopes) > 0
    num_classes = product.shape[1]
    q = np.empty((num_classes, width))
    for m in range(len(maps.places)):
        places = maps.places[m]
        below_column, inputs, below_low = np.uintp(places[0]), places[1], np.uintp(places[2])
        outputs, place, has_weight = places[3], places[4], places[5]
        weight = maps.weights[place : place + has_weight * inputs * outputs].reshape(has_weight * inputs, outputs)
        for i in range(start, stop):
            p, e, w = parent[i], entry[i], node[i]
            row = first[i]
            for state in range(NUM_STATES):
                if not held[i] >> state & 1:
                    continue
                q[:] = 0.0
                # A state is reached from delta or from itself.
                for from_delta in range(2 if state else 1):
                    above = 0 if from_delta == 0 else state
                    if not above_held[p] >> above & 1:
                        continue
                    above_row = above_first[p] + COUNT_STATES[above_held[p] & ((1 << above) - 1)]
                    for k in range(len(channels)):
                        column, low, size = np.uintp(channels[k, 0]), np.uintp(channels[k, 1]), channels[k, 2]
                        rule = channels[k, 3]
                        factor = _factor(above, state, kept[e, rule], after[e, rule], before[e, rule], marks[e, rule])
                        if factor != 0.0:
                            for j in range(num_classes):
                                for n in range(size):
                                    d = np.uintp(n)
                                    q[j, low + d] += factor * product[above_row, j, column + d]
                if has_rates:
                    slope = slope_rows[(state + 1) // 2, w]
                    for j in range(num_classes):
                        for d in range(width):
                            q[j, d] *= slopes[slope, d]
                if not has_weight:
                    for j in range(num_classes):
                        for n in range(inputs):
                            d = np.uintp(n)
                            below[row, j, below_column + d] = q[j, below_low + d]
                for j in range(num_classes if has_weight else 0):
                    # Four rows of W at a time, so that q is loaded once for all four.
                    for n in range(0, inputs - 3, 4):
                        s0 = s1 = s2 = s3 = 0.0
                        for k in range(outputs):
                            o = np.uintp(k)
                            s0 += weight[n, o] * q[j, below_low + o]
                            s1 += weight[n + 1, o] * q[j, below_low + o]
                            s2 += weight[n + 2, o] * q[j, below_low + o]
                            s3 += weight[n + 3, o] * q[j, below_low + o]
                        d = below_column + np.uintp(n)
                        below[row, j, d] = s0
                        below[row, j, d + np.uintp(1)] = s1
                        below[row, j, d + np.uintp(2)] = s2
                        below[row, j, d + np.uintp(3)] = s3
                    for n in range(inputs - inputs % 4, inputs):
                        s0 = 0.0
                        for k in range(outputs):
                            o = np.uintp(k)
                            s0 += weight[n, o] * q[j, below_low + o]
                        below[row, j, below_column + np.uintp(n)] = s0
                row += 1


@compiled(fastmath=FAST, inline="always")
def _add_product(weights, low, message, sender, column, size, scale, totals, row):
    """Add scale * weights[:, low:low + size] @ message[sender, column:column + size] to a row of the totals.

    Eight classes at a time, or four, so that the message is loaded once for all of them; rows of weights are padded.
    """
    num_classes = totals.shape[1]
    j = 0
    while j < num_classes:
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        if num_classes - j > 4:
            for n in range(size):
                d, y = low + np.uintp(n), message[sender, column + np.uintp(n)]
                s0 += weights[j, d] * y
                s1 += weights[j + 1, d] * y
                s2 += weights[j + 2, d] * y
                s3 += weights[j + 3, d] * y
                s4 += weights[j + 4, d] * y
                s5 += weights[j + 5, d] * y
                s6 += weights[j + 6, d] * y
                s7 += weights[j + 7, d] * y
        else:
            for n in range(size):
                d, y = low + np.uintp(n), message[sender, column + np.uintp(n)]
                s0 += weights[j, d] * y
                s1 += weights[j + 1, d] * y
                s2 += weights[j + 2, d] * y
                s3 += weights[j + 3, d] * y
        left = num_classes - j
        totals[row, j] += scale * s0
        if left > 1:
            totals[row, j + 1] += scale * s1
        if left > 2:
            totals[row, j + 2] += scale * s2
        if left > 3:
            totals[row, j + 3] += scale * s3
        if left > 4:
            totals[row, j + 4] += scale * s4
        if left > 5:
            totals[row, j + 5] += scale * s5
        if left > 6:
            totals[row, j + 6] += scale * s6
        if left > 7:
            totals[row, j + 7] += scale * s7
        j += 8


@compiled(fastmath=FAST)
def take_sources(start, stop, above, here, sources, totals):
    """Add M @ (rate * g) to each source's row, g being its message a * y.

    P times factor and rate is formed once a suffix, for the states of delta, of after and of before; each of its
    sources then costs one product with y. Sources of several causes are left to `take_mixed`.
    """
    product, above_first, above_held, channels = above.product, above.first, above.held, above.channels
    kept, after, before = above.entries.kept, above.entries.after, above.entries.before
    node, parent, entry, held, width = here.node, here.parent, here.entry, here.held, here.width
    slopes, slope_rows = here.rates.slopes, here.rates.place
    source_rows, num_sources, source_entry, source_held = sources.rows, sources.number, sources.entry, sources.held
    indices, source_after, source_before = sources.entries.indices, sources.entries.after, sources.entries.before
    differs, source_channels, y_before, y_after = sources.differs, sources.channels, sources.before, sources.after
    has_rates = len(slopes) > 0
    num_classes = product.shape[1]
    # In delta, after and before: P * factor * rate; classes padded to whole blocks of eight.
    weights = np.zeros((3, (num_classes + 7) // 8 * 8, width))
    used, rate = np.zeros(3, dtype=np.bool_), np.zeros(width)
    moved = np.zeros((1, y_after.shape[1]))
    for i in range(start, stop):
        if num_sources[i] == 0:
            continue
        p, e_above, w = parent[i], entry[i], node[i]
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
                    both, new, old = kept[e_above, rule], after[e_above, rule], before[e_above, rule]
                    factor = 0.0
                    if which == 0:
                        factor = both if state == 0 else 0.0
                    elif which == 1:
                        factor = new - both if state == 0 else new if state <= 2 else 0.0
                    else:
                        factor = both - old if state == 0 else old if state > 2 else 0.0
                    if factor == 0.0:
                        continue
                    column, low, size = np.uintp(channels[k, 0]), np.uintp(channels[k, 1]), channels[k, 2]
                    alone = not used[which] and size == width
                    if not used[which] and not alone:
                        weights[which] = 0.0
                    used[which] = True
                    for n in range(size):
                        rate[n] = factor * slopes[slope, low + np.uintp(n)] if has_rates else factor
                    if alone:
                        for j in range(num_classes):
                            for n in range(size):
                                d = np.uintp(n)
                                weights[which, j, d] = rate[d] * product[above_row, j, column + d]
                        continue
                    for j in range(num_classes):
                        for n in range(size):
                            d = np.uintp(n)
                            weights[which, j, low + d] += rate[d] * product[above_row, j, column + d]
                above_row += 1
        for row in range(source_rows[i], source_rows[i] + num_sources[i]):
            if ONE_CAUSE[source_held[row]] < 0:
                continue
            e = source_entry[row]
            u = indices[e]
            differ = differs[u]
            for k in range(len(source_channels)):
                column, low = np.uintp(source_channels[k, 0]), np.uintp(source_channels[k, 1])
                size = source_channels[k, 2]
                a_before, a_after = source_before[e, source_channels[k, 3]], source_after[e, source_channels[k, 3]]
                for which in range(3):
                    if not used[which]:
                        continue
                    from_after = a_after if which != 2 else 0.0
                    from_before = a_before if which == 2 else 0.0 if which == 1 else -a_before
                    if not differ:
                        # One message in both snapshots: read it once.
                        from_after += from_before
                        from_before = 0.0
                    if from_before != 0.0 and from_before == -from_after:
                        # Kept as it is, a coefficient carries the difference: taken first, it is 0 where none is.
                        for n in range(size):
                            d = column + np.uintp(n)
                            moved[0, d] = y_after[u, d] - y_before[u, d]
                        _add_product(weights[which], low, moved, 0, column, size, from_after, totals, row)
                        continue
                    if from_after != 0.0:
                        _add_product(weights[which], low, y_after, u, column, size, from_after, totals, row)
                    if from_before != 0.0:
                        _add_product(weights[which], low, y_before, u, column, size, from_before, totals, row)


@compiled
def _part_of_delta(cause, kept, after, before, mark):
    """Factors of y_after and y_before in a source's change, as far as it is due to one cause."""
    if cause == FEATURE:
        return kept, -kept
    from_after = from_before = 0.0
    leaves = mark >> LEAVE
    for state in range(1, NUM_STATES):
        if leaves >> state & 1 and CAUSE_OF_STATE[state] == cause:
            if state <= 2:
                from_after = after - kept
            else:
                from_before = kept - before
    return from_after, from_before


@compiled(fastmath=FAST)
def take_mixed(start, stop, above_this, here, sources, mixed):
    """The same for sources of several causes, cause by cause: added to the source's row, and to its suffix's sums.

    The kind of a path that both snapshots have is the larger of its shares by reweighting and by features.
    """
    product, above_first, above_held = above_this.product, above_this.first, above_this.held
    channels, entries = above_this.channels, above_this.entries
    held, slopes, slope_rows = here.held, here.rates.slopes, here.rates.place
    source_entries, source_channels = sources.entries, sources.channels
    y_before, y_after = sources.before, sources.after
    num_classes = product.shape[1]
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
                            from_after, from_before = _part_of_delta(
                                cause, source_entries.kept[e, rule], a_after, a_before, source_entries.marks[e, rule]
                            )
                        if not sources.differs[u]:
                            # One message in both snapshots, of which `before`'s may not be held.
                            from_after += from_before
                            from_before = 0.0
                        if which == 0 and cause == FEATURE:
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
                            factor = _factor(
                                above, state, entries.kept[e_above, rule], entries.after[e_above, rule],
                                entries.before[e_above, rule], entries.marks[e_above, rule],
                            )  # fmt: skip
                            if factor == 0.0:
                                continue
                            for j in range(num_classes):
                                total = 0.0
                                for d in range(size):
                                    total += product[above_row, j, column + d] * g[(state + 1) // 2, low + d]
                                share[j] += factor * total
                    above_row += 1
                size_of_share = 0.0
                for j in range(num_classes):
                    mixed.contributions[row, j] += share[j]
                    mixed.causes[mixed.slot[i], cause, j] += share[j]
                    size_of_share += abs(share[j])
                if cause == FEATURE:
                    feature_size = size_of_share
                elif cause == REWEIGHTED:
                    reweighted_size = size_of_share
            if known & OF_AFTER and known & OF_BEFORE and feature_size > reweighted_size:
                mixed.kinds[row] = FEATURE

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
    EDGE_FEATURE,
    FEATURE,
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
from .lanes import LANES, fetch, fetch_all, four_products, plus_scaled, product, put, put_all, zeros

# Sums may be reordered within one dot product, always in the same way, so results do not depend on the batch.
FAST = {"reassoc", "contract", "nsz"}


NUM_CAUSES = len(KINDS)


class Shares(NamedTuple):
    """What the paths of a PathSet contribute, row by row; and by target, what they do together."""

    contributions: FloatArray  # [num_paths, num_classes]
    kinds: NDArray[np.int8]  # [num_paths]: index into KINDS
    causes: FloatArray  # [num_targets, len(KINDS), num_classes]: the change of each logit, by cause


class Above(NamedTuple):
    """The products P of the level above, and the coefficients over which a suffix hangs below them."""

    # A row for each suffix and state, channels side by side; classes in whole lanes, zeros behind them.
    product: FloatArray  # [rows, columns, num_lanes]
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


@compiled(early=0.5)
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


@compiled(early=0.3)
def mark_mixed(start, stop, sources, mixed):
    """Which suffixes have a source of more than one cause."""
    for i in range(start, stop):
        for row in range(sources.rows[i], sources.rows[i] + sources.number[i]):
            if ONE_CAUSE[sources.held[row]] < 0:
                mixed[i] = 1
                break


def _steps_to_sum(start, stop, indptr, held, shares):
    return 60.0 * (1 + shares.contributions.shape[1] // LANES) * (indptr[stop] - indptr[start] + stop - start)


@compiled(early=0.5, steps=_steps_to_sum)
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


def steps_below(start, stop, above, here, *others):
    """About how many operations Python takes to carry what hangs above these suffixes down to them."""
    return 200.0 * (1 + above.product.shape[2] // LANES) * (stop - start) * (here.width + above.product.shape[1])


@compiled(fastmath=FAST, early=1.0, steps=steps_below)
def multiply_rows(start, stop, above_this, here, maps, found):
    """P of one level from that of the level above, into the product of `found`."""
    above_product, above_first, above_held = above_this.product, above_this.first, above_this.held
    channels, entries = above_this.channels, above_this.entries
    node, parent, entry, held, width = here.node, here.parent, here.entry, here.held, here.width
    slopes, slope_rows = here.rates.slopes, here.rates.place
    first, below, weights = found.first, found.product, maps.weights
    has_rates = len(slopes) > 0
    above_columns, columns, stride = above_product.shape[1], below.shape[1], below.shape[2]
    q = np.zeros(width * stride)
    for m in range(len(maps.places)):
        places = maps.places[m]
        below_column, inputs, below_low = places[0], places[1], places[2]
        outputs, place, has_weight = places[3], places[4], places[5]
        whole = inputs & ~3 if has_weight else 0
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
                        for j in range(0, stride, LANES):
                            at, to = (above_row * above_columns + column) * stride + j, low * stride + j
                            for d in range(size):
                                rate = factor * slopes[slope, low + d] if has_rates else factor
                                put_all(q, to, plus_scaled(fetch_all(q, to), fetch_all(above_product, at), rate))
                                at += stride
                                to += stride
                for j in range(0, stride, LANES):
                    to = (row * columns + below_column) * stride + j
                    for n in range(0, whole, 4):
                        at = place + n * outputs
                        starts = (at, at + outputs, at + 2 * outputs, at + 3 * outputs)
                        four = four_products(q, below_low * stride + j, stride, weights, starts, outputs)
                        put_all(below, to, four[0])
                        put_all(below, to + stride, four[1])
                        put_all(below, to + 2 * stride, four[2])
                        put_all(below, to + 3 * stride, four[3])
                        to += 4 * stride
                    for n in range(whole, inputs):
                        if has_weight:
                            lanes = product(q, below_low * stride + j, stride, weights, place + n * outputs, outputs)
                        else:
                            lanes = fetch_all(q, (below_low + n) * stride + j)
                        put_all(below, to, lanes)
                        to += stride
                row += 1


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


def _steps_to_mix(start, stop, above_this, here, sources, mixed):
    num_sources = sources.number[start:stop].sum()
    return 100.0 * mixed.contributions.shape[1] * above_this.product.shape[1] * num_sources + stop - start


@compiled(fastmath=FAST, early=1.0, steps=_steps_to_mix)
def take_mixed(start, stop, above_this, here, sources, mixed):
    """The same for sources of several causes, cause by cause: added to the source's row, and to its suffix's sums.

    The kind of a path that both snapshots have is the larger of its shares by reweighting and by features.
    """
    above_product, above_first, above_held = above_this.product, above_this.first, above_this.held
    channels, entries = above_this.channels, above_this.entries
    held, slopes, slope_rows = here.held, here.rates.slopes, here.rates.place
    source_entries, source_channels = sources.entries, sources.channels
    y_before, y_after = sources.before, sources.after
    num_classes = mixed.contributions.shape[1]
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

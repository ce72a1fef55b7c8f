"""The compiled loop that gives each path its share: what its leaf or bias sends, by what multiplies it."""

import numpy as np

from ..change.states import (
    DELTA,
    IN_AFTER,
    IN_BEFORE,
    KIND_OF_SET,
    NUM_STATES,
    ONE_CAUSE,
    SIDE_OF_STATE,
)
from ..compiled import compiled
from .lanes import (
    LANES,
    expect,
    fetch_all,
    four_pairs,
    four_products,
    plus_scaled,
    product,
    put,
    put_all,
    two_products,
    zeros,
)
from .share_loops import FAST, steps_below

AHEAD = 3  # suffixes: how early what one needs is asked for, so that it is there when its turn comes
IN_SIDE = np.array([DELTA, IN_AFTER, IN_BEFORE])


def _steps_to_take(start, stop, above, here, sources, shares):
    lanes = 1 + shares.contributions.shape[1] // LANES
    return steps_below(start, stop, above, here) + 200.0 * lanes * float(sources.number[start:stop].sum())


@compiled(fastmath=FAST, early=2.0, steps=_steps_to_take)
def take_sources(start, stop, above, here, sources, shares):
    """Write M @ (rate * g) into each source's row, g being its message a * y; kinds are what the snapshots say alone.

    P times factor and rate is formed once a suffix, for the states of delta, of after and of before; each of its
    sources then costs one product with y for each of the three, or one for after and before together where its
    coefficient is the same in both. In the common case of few classes, one channel and a message that both snapshots
    have, four sources are taken at once. Rows of several causes are set to 0, for `take_mixed`.
    """
    totals, kinds = shares.contributions, shares.kinds
    above_product, above_first, above_held, channels = above.product, above.first, above.held, above.channels
    kept, after, before = above.entries.kept, above.entries.after, above.entries.before
    kept_after, kept_before = above.entries.kept_after, above.entries.kept_before
    node, parent, entry, held, width = here.node, here.parent, here.entry, here.held, here.width
    slopes, slope_rows = here.rates.slopes, here.rates.place
    source_rows, num_sources, source_entry, source_held = sources.rows, sources.number, sources.entry, sources.held
    indices, source_after, source_before = sources.entries.indices, sources.entries.after, sources.entries.before
    differs, source_channels, y_before, y_after = sources.differs, sources.channels, sources.before, sources.after
    source_kept, divided = sources.entries.kept, sources.divided
    has_rates, num_rules, num_source_rules = len(slopes) > 0, after.shape[1], source_after.shape[1]
    columns, stride = above_product.shape[1], above_product.shape[2]
    num_classes, y_columns = totals.shape[1], y_after.shape[1]
    # In delta, after, before, and both of the latter, one behind the other: P * factor * rate, [width, stride] each.
    weights = np.zeros(4 * width * stride + LANES)
    origin = -(weights.ctypes.data >> 3) & (LANES - 1)  # lanes that lie across two lines of the cache are read twice
    block_size = width * stride
    used, moved = np.zeros(3, dtype=np.bool_), np.zeros(y_columns)
    simple = num_classes <= LANES and len(source_channels) == 1 and not divided
    only_column = only_low = only_size = 0
    only_rule = np.uintp(0)
    if simple:
        only_column, only_low, only_size = source_channels[0, 0], source_channels[0, 1] * LANES, source_channels[0, 2]
        only_rule = np.uintp(source_channels[0, 3])
    for i in range(start, stop):
        if num_sources[i] == 0:
            continue
        later = i + AHEAD
        if later < stop and num_sources[later]:
            at = entry[later]
            expect(after, at * num_rules, 1)
            expect(before, at * num_rules, 1)
            expect(kept, at * num_rules, 1)
            if has_rates:
                expect(slopes, slope_rows[np.uintp(0), np.uintp(node[later])] * width, width)
            at = source_entry[np.uintp(source_rows[later])]
            expect(source_after, at * num_source_rules, 1)
            expect(source_before, at * num_source_rules, 1)
        if i + 1 < stop and num_sources[i + 1]:
            u = indices[np.uintp(source_entry[np.uintp(source_rows[i + 1])])]
            expect(y_after, np.intp(u) * y_columns, y_columns)
        p, e_above, w, its_states = np.uintp(parent[i]), np.uintp(entry[i]), np.uintp(node[i]), held[i]
        used[:] = False
        above_row, above_states = above_first[p], above_held[p]
        for state in range(NUM_STATES):
            if not above_states >> state & 1:
                continue
            side = SIDE_OF_STATE[state]
            for which in range(side, side + 1 if state else 3):
                if not its_states & IN_SIDE[which]:
                    continue
                slope = np.uintp(slope_rows[which, w]) if has_rates else np.uintp(0)
                for k in range(len(channels)):
                    column, low, size, rule = channels[k, 0], channels[k, 1], channels[k, 2], np.uintp(channels[k, 3])
                    if which == 0:
                        factor = kept[e_above, rule]
                    elif which == 1:
                        factor = after[e_above, rule] - (0.0 if state else kept_after[e_above, rule])
                    else:
                        factor = before[e_above, rule] if state else kept_before[e_above, rule] - before[e_above, rule]
                    if factor == 0.0:
                        continue
                    begin = origin + which * block_size
                    if not used[which] and size != width:
                        weights[begin : begin + block_size] = 0.0
                    fresh = not used[which] and size == width
                    used[which] = True
                    for j in range(0, stride, LANES):
                        at, to = (above_row * columns + column) * stride + j, begin + low * stride + j
                        for d in range(size):
                            rate = factor * slopes[slope, np.uintp(low + d)] if has_rates else factor
                            sum_so_far = zeros() if fresh else fetch_all(weights, to)
                            put_all(weights, to, plus_scaled(sum_so_far, fetch_all(above_product, at), rate))
                            at += stride
                            to += stride
            above_row += 1
        num_used = int(used[0]) + int(used[1]) + int(used[2])
        # One block of weights does where one set of states is used; so does the sum of after's and before's for a
        # coefficient that is the same in both, because delta then carries nothing.
        alone, block = num_used == 1, -1
        if simple and alone:
            block = 0 if used[0] else 1 if used[1] else 2
        elif simple and used[1] and used[2]:
            block = 3
            for to in range(origin, origin + block_size, LANES):
                lanes = fetch_all(weights, to + 2 * block_size)
                put_all(weights, to + 3 * block_size, plus_scaled(fetch_all(weights, to + block_size), lanes, 1.0))
        elif simple and num_used == 2:
            block = 1 if used[1] else 2
        place = origin + block * block_size + only_low
        of_new, of_old = (0.0 if block == 2 else 1.0), (-1.0 if block == 0 else 1.0 if block == 2 else 0.0)
        # Two blocks do where two sets of states are used.
        two, one, other = simple and num_used == 2, (0 if used[0] else 1), (2 if used[2] else 1)
        places = origin + one * block_size + only_low, origin + other * block_size + only_low
        one_old = 0.0 if one else -1.0
        other_new, other_old = (1.0, 0.0) if other == 1 else (0.0, 1.0)
        row, last = source_rows[i], source_rows[i] + num_sources[i] - 1
        while row <= last:
            if block >= 0 and row + 3 <= last:
                r0, r1, r2, r3 = np.uintp(row), np.uintp(row + 1), np.uintp(row + 2), np.uintp(row + 3)
                e0, e1 = np.uintp(source_entry[r0]), np.uintp(source_entry[r1])
                e2, e3 = np.uintp(source_entry[r2]), np.uintp(source_entry[r3])
                u0, u1 = np.uintp(indices[e0]), np.uintp(indices[e1])
                u2, u3 = np.uintp(indices[e2]), np.uintp(indices[e3])
                new0, new1 = source_after[e0, only_rule], source_after[e1, only_rule]
                new2, new3 = source_after[e2, only_rule], source_after[e3, only_rule]
                old0, old1 = source_before[e0, only_rule], source_before[e1, only_rule]
                old2, old3 = source_before[e2, only_rule], source_before[e3, only_rule]
                h0, h1, h2, h3 = source_held[r0], source_held[r1], source_held[r2], source_held[r3]
                same = (new0 == old0) & (new1 == old1) & (new2 == old2) & (new3 == old3)
                none_same = (new0 != old0) & (new1 != old1) & (new2 != old2) & (new3 != old3)
                fit = alone | same | (two & none_same)
                fit &= not (differs[u0] | differs[u1] | differs[u2] | differs[u3])
                fit &= (ONE_CAUSE[h0] | ONE_CAUSE[h1] | ONE_CAUSE[h2] | ONE_CAUSE[h3]) >= 0
                if fit:
                    for n in range(row + 4, min(row + 8, last + 1)):
                        expect(y_after, np.intp(indices[np.uintp(source_entry[np.uintp(n)])]) * y_columns, y_columns)
                    starts = (
                        np.intp(u0) * y_columns + only_column, np.intp(u1) * y_columns + only_column,
                        np.intp(u2) * y_columns + only_column, np.intp(u3) * y_columns + only_column,
                    )  # fmt: skip
                    if alone or same:
                        four = four_products(weights, place, LANES, y_after, starts, only_size)
                        if alone:
                            new0, new1 = of_new * new0 + of_old * old0, of_new * new1 + of_old * old1
                            new2, new3 = of_new * new2 + of_old * old2, of_new * new3 + of_old * old3
                        four = (
                            plus_scaled(zeros(), four[0], new0), plus_scaled(zeros(), four[1], new1),
                            plus_scaled(zeros(), four[2], new2), plus_scaled(zeros(), four[3], new3),
                        )  # fmt: skip
                    else:
                        factors = (
                            new0 + one_old * old0, new1 + one_old * old1,
                            new2 + one_old * old2, new3 + one_old * old3,
                        )  # fmt: skip
                        others = (
                            other_new * new0 + other_old * old0, other_new * new1 + other_old * old1,
                            other_new * new2 + other_old * old2, other_new * new3 + other_old * old3,
                        )  # fmt: skip
                        four = four_pairs(weights, places, LANES, y_after, starts, only_size, factors, others)
                    at = row * num_classes
                    put(totals, at, four[0], num_classes)
                    put(totals, at + num_classes, four[1], num_classes)
                    put(totals, at + 2 * num_classes, four[2], num_classes)
                    put(totals, at + 3 * num_classes, four[3], num_classes)
                    kinds[r0], kinds[r1] = KIND_OF_SET[h0], KIND_OF_SET[h1]
                    kinds[r2], kinds[r3] = KIND_OF_SET[h2], KIND_OF_SET[h3]
                    row += 4
                    continue
            its_held = source_held[np.uintp(row)]
            kinds[np.uintp(row)] = KIND_OF_SET[its_held]
            if ONE_CAUSE[its_held] < 0:
                for j in range(0, num_classes, LANES):
                    put(totals, row * num_classes + j, zeros(), num_classes - j)
                row += 1
                continue
            e = np.uintp(source_entry[np.uintp(row)])
            u = np.uintp(indices[e])
            differ = differs[u]
            if block >= 0 and not differ:
                new, old = source_after[e, only_rule], source_before[e, only_rule]
                at, same = np.intp(u) * y_columns + only_column, new == old
                if alone or same:
                    total = product(weights, place, LANES, y_after, at, only_size)
                    total = plus_scaled(zeros(), total, of_new * new + of_old * old if alone else new)
                    put(totals, row * num_classes, total, num_classes)
                    row += 1
                    continue
                if two:
                    factors2 = new + one_old * old, other_new * new + other_old * old
                    total = two_products(weights, places, LANES, y_after, at, only_size, factors2)
                    put(totals, row * num_classes, total, num_classes)
                    row += 1
                    continue
            for j in range(0, num_classes, LANES):
                total = zeros()
                for k in range(len(source_channels)):
                    column, low, size, rule = (
                        source_channels[k, 0], source_channels[k, 1], source_channels[k, 2], source_channels[k, 3],
                    )  # fmt: skip
                    new, old = source_after[e, rule], source_before[e, rule]
                    at, first = np.intp(u) * y_columns + column, origin + low * stride + j
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
                        begin = which * block_size + first
                        if from_before != 0.0 and from_before == -from_after:
                            # Kept as it is, a coefficient carries the difference: taken first, it is 0 where none is.
                            for d in range(size):
                                moved[d] = y_after[u, column + d] - y_before[u, column + d]
                            total = plus_scaled(total, product(weights, begin, stride, moved, 0, size), from_after)
                            continue
                        if from_after != 0.0:
                            total = plus_scaled(total, product(weights, begin, stride, y_after, at, size), from_after)
                        if from_before != 0.0:
                            total = plus_scaled(total, product(weights, begin, stride, y_before, at, size), from_before)
                put(totals, row * num_classes + j, total, num_classes - j)
            row += 1

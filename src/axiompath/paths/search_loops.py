"""The compiled search for the paths with the least prices; its literal twin in tests/references.py lists all of them.

One loop goes through layers whose arrays have different shapes, so it is handed a table of their addresses, a row a
layer (see `search`, which keeps the arrays alive), and looks at them by `view`. It looks at its own arrays so, too:
references to a view are not counted, and counting those of an array took longer than the search.
"""

import ctypes
from typing import NamedTuple

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from ..arrays import FloatArray, IntArray
from ..change.states import DELTA, IN_AFTER, IN_BEFORE
from ..compiled import compiled
from ..stable_order import order_of

# Fields of a layer's row in the table: addresses and sizes.
(
    INDPTR, INDICES, BEFORE, AFTER, KEPT, KEPT_AFTER, KEPT_BEFORE, MARKS, DESCENTS_INDPTR, DESCENTS, FOLLOWING,
    DELTA_ALONE, HELD, HELD_BELOW, STARTS, SLOPES, SLOPE_PLACE, BIAS, INPUTS, OUTPUTS, WEIGHTS, MAPS, LOW, HIGH,
    LOW_BEHIND, HIGH_BEHIND, PLACE, MESSAGES_BEFORE, MESSAGES_AFTER, NUM_NODES, NUM_ENTRIES, NUM_RULES, NUM_DESCENTS,
    NUM_SETS, NUM_BELOW, NUM_OF_MARKS, NUM_SLOPES, WIDTH, NUM_CHANNELS, COLUMNS, COLUMNS_BEHIND, NUM_WEIGHTS,
    NUM_EXTREMES, NUM_EXTREME_NODES, WIDTH_BELOW, NUM_SENDERS, LOCAL, NUM_FIELDS,
) = range(48)  # fmt: skip


class Limits(NamedTuple):
    """When a search is given up."""

    looked_at: int  # entries
    opened: int  # suffixes
    heap: int  # suffixes that wait


class Offered(NamedTuple):
    """What a search found, the least prices first."""

    prices: FloatArray  # [found]
    nodes: IntArray  # [found, num_positions]: leaf first, -1 before a bias source
    floor: float  # no path that is not among them has a lower price
    opened: int  # suffixes
    looked_at: int  # entries


class OfferedEach(NamedTuple):
    """The same of several roots."""

    prices: FloatArray  # [num_roots, most]
    nodes: IntArray  # [num_roots, most, num_positions]
    floors: FloatArray  # [num_roots]
    number: IntArray  # [num_roots]: paths found
    opened: IntArray  # [num_roots]
    looked_at: IntArray  # [num_roots]


@intrinsic
def _pointer(context, address):
    """An address as numba's own kind of pointer."""

    def lower(_, builder, __, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), lower


def view(address, shape, dtype):
    """The array that lies there."""
    size = int(np.prod(shape))
    if size == 0:
        return np.zeros(shape, dtype)
    held = (ctypes.c_char * (size * np.dtype(dtype).itemsize)).from_address(int(address))
    return np.frombuffer(held, dtype).reshape(shape)


@overload(view)
def _compiled_view(address, shape, dtype):
    return lambda address, shape, dtype: numba.carray(_pointer(address), shape, dtype)


@compiled(inner=True)
def push(keys, parents, entries, size, key, parent, entry):
    """Onto a heap of `size`, the least key first, the earlier one among equals."""
    i = size
    while i > 0:
        above = (i - 1) >> 1
        if keys[above] <= key:
            break
        keys[i], parents[i], entries[i] = keys[above], parents[above], entries[above]
        i = above
    keys[i], parents[i], entries[i] = key, parent, entry


@compiled(inner=True)
def pop(keys, parents, entries, size):
    """Take the first of `size` off the heap."""
    last = size - 1
    key, parent, entry = keys[last], parents[last], entries[last]
    i = 0
    while True:
        below = 2 * i + 1
        if below >= last:
            break
        if below + 1 < last and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[i], parents[i], entries[i] = keys[below], parents[below], entries[below]
        i = below
    keys[i], parents[i], entries[i] = key, parent, entry


@compiled(inner=True)
def _keep(prices, suffixes, leaves, size, n, price, suffix, leaf):
    """Among the n least so far, the largest of them on top; returns how many there are."""
    if size < n:
        i = size
        while i > 0:
            above = (i - 1) >> 1
            if prices[above] >= price:
                break
            prices[i], suffixes[i], leaves[i] = prices[above], suffixes[above], leaves[above]
            i = above
        prices[i], suffixes[i], leaves[i] = price, suffix, leaf
        return size + 1
    i = 0
    while True:
        below = 2 * i + 1
        if below >= n:
            break
        if below + 1 < n and prices[below + 1] > prices[below]:
            below += 1
        if prices[below] <= price:
            break
        prices[i], suffixes[i], leaves[i] = prices[below], suffixes[below], leaves[below]
        i = below
    prices[i], suffixes[i], leaves[i] = price, suffix, leaf
    return n


@compiled(inner=True)
def _has(held, f):
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
def _set_below(row, s, e):
    marks = view(row[MARKS], (row[NUM_ENTRIES],), np.uint16)
    return view(row[FOLLOWING], (row[NUM_SETS], row[NUM_OF_MARKS]), np.uint16)[s, marks[e]]


@compiled(inner=True)
def _tilt_suffix(row, v, s, m, q):
    """q = m * slopes of node v, in the states that it has; 0 in the others."""
    width = row[WIDTH]
    held = view(row[HELD], (row[NUM_SETS],), np.uint8)[s]
    for f in range(3):
        if not _has(held, f):
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
def _multiply_suffix(row, s, q, p):
    """p = q @ W', channels side by side, in the states that it has; 0 in the others."""
    held = view(row[HELD], (row[NUM_SETS],), np.uint8)[s]
    maps = view(row[MAPS], (row[NUM_CHANNELS], 6), np.int64)
    weights = view(row[WEIGHTS], (row[NUM_WEIGHTS],), np.float64)
    for f in range(3):
        has = _has(held, f)
        for k in range(len(maps)):
            column, inputs, low, outputs, place = maps[k, 0], maps[k, 1], maps[k, 2], maps[k, 3], maps[k, 4]
            for i in range(inputs):
                total = 0.0
                if has and maps[k, 5]:
                    first = place + i * outputs
                    for o in range(outputs):
                        total += weights[np.uintp(first + o)] * q[f, np.uintp(low + o)]
                elif has:
                    total = q[f, low + i]
                p[f, column + i] = total


@compiled(inner=True)
def _carry(row, e, held_below, p, factors, m):
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
                if factor != 0.0 and (f == 0 or f == g) and _has(held_below, g):
                    for n in range(size):
                        m[g, np.uintp(low + n)] += factor * p[f, np.uintp(column + n)]


@compiled(inner=True)
def _go_to_hop(table, t, v, s, work):
    """Down the local layers at v, q left in the scratch; returns the layer of the hop, the node, the set, the bias.

    The set is 0 where nothing hangs below the local layers; the last value is infinite where no path starts here.
    """
    m, q, p, factors = work.m, work.q, work.p, work.factors
    bias, begun = 0.0, False
    while True:
        row = table[t]
        _tilt_suffix(row, v, s, m, q)
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
            below = _set_below(row, s, e)
        if below == 0:
            s = 0
            break
        _multiply_suffix(row, s, q, p)
        _carry(row, e, view(row[HELD_BELOW], (row[NUM_BELOW],), np.uint8)[below], p, factors, m)
        t, s = t - 1, below
    return t, v, s, bias if begun else np.inf


@compiled(inner=True)
def _range_of(row, v, s):
    """Whether to look at the few descents alone, and where they or the row's entries lie."""
    if view(row[DELTA_ALONE], (row[NUM_SETS],), np.bool_)[s]:
        indptr = view(row[DESCENTS_INDPTR], (row[NUM_NODES] + 1,), np.int64)
        return True, indptr[v], indptr[v + 1]
    indptr = view(row[INDPTR], (row[NUM_NODES] + 1,), np.int64)
    return False, indptr[v], indptr[v + 1]


@compiled(inner=True, fastmath={"reassoc", "contract", "nsz"})
def _price_leaf(row, e, q):
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
        # The difference is taken first: it may be far smaller than what it is a difference of.
        for n in range(width):
            d, at = np.uintp(low + n), np.uintp(column + n)  # unsigned: what may be negative is gathered one by one
            a, b = new[u, at], old[u, at]
            total += kept * q[0, d] * (a - b)
            total += (gained * q[0, d] + now * q[1, d]) * a
            total += (lost * q[0, d] + once * q[2, d]) * b
    return total


@compiled(inner=True, fastmath={"reassoc", "contract", "nsz"})
def _least(low, high, at, first, m, width, several):
    """The least of m @ c over what lies between, with 0 where several states meet."""
    total, row = 0.0, np.uintp(at)
    if several:
        for n in range(width):
            d, column = np.uintp(n), np.uintp(first + n)
            total += min(min(m[d] * low[row, column], m[d] * high[row, column]), 0.0)
    else:
        for n in range(width):
            d, column = np.uintp(n), np.uintp(first + n)
            total += min(m[d] * low[row, column], m[d] * high[row, column])
    return total


@compiled(inner=True)
def _bound_of(row, below, e, held_below, p, q, work, enough):
    """A price that no path over entry e goes below: by the extremes where it leads to, and by those behind the maps.

    Where the former say `enough`, the latter are not looked at.
    """
    u = view(row[INDICES], (row[NUM_ENTRIES],), np.int32)[e]
    place = view(below[PLACE], (3, below[NUM_EXTREME_NODES]), np.int32)
    rows, width, columns = below[NUM_EXTREMES], row[WIDTH_BELOW], row[COLUMNS_BEHIND]
    low = view(below[LOW], (rows, width), np.float64)
    high = view(below[HIGH], (rows, width), np.float64)
    several = (held_below & DELTA != 0) + (held_below & IN_AFTER != 0) + (held_below & IN_BEFORE != 0) > 1
    total = 0.0
    inputs = view(row[INPUTS], (row[NUM_CHANNELS], 4), np.int64)
    factors = work.factors
    if len(inputs) == 1 and not several and not _has(held_below, 0):
        # The usual case: below what changed, all is in one state and over one channel.
        _factors(row, e, inputs[0, 3], factors)
        g = 1 if _has(held_below, 1) else 2
        m = work.m[0]
        first, start, size = inputs[0, 1], inputs[0, 0], inputs[0, 2]
        of_delta, of_own = factors[0, g], factors[g, g]
        for n in range(size):
            d = np.uintp(start + n)
            m[np.uintp(first + n)] = of_delta * p[0, d] + of_own * p[g, d]
        total = _least(low, high, place[g, u], first, m[first:], size, False)
    else:
        _carry(row, e, held_below, p, factors, work.m)
        for g in range(3):
            if _has(held_below, g):
                total += _least(low, high, place[g, u], 0, work.m[g], width, several)
    if below[LOW_BEHIND] == 0 or total >= enough:
        return total
    low = view(below[LOW_BEHIND], (rows, columns), np.float64)
    high = view(below[HIGH_BEHIND], (rows, columns), np.float64)
    outputs = view(row[OUTPUTS], (row[NUM_CHANNELS], 4), np.int64)
    behind = 0.0
    for k in range(len(outputs)):
        column, first, size = outputs[k, 0], outputs[k, 1], outputs[k, 2]
        _factors(row, e, outputs[k, 3], factors)
        for g in range(3):
            if not _has(held_below, g):
                continue
            at = place[g, u]
            m = work.m[g]
            of_own, of_delta = factors[g, g], factors[0, g] if g else 0.0
            for n in range(size):
                d = np.uintp(first + n)
                m[np.uintp(n)] = of_own * q[g, d] + of_delta * q[0, d]
            behind += _least(low, high, at, column, m, size, several)
    return max(total, behind)


class Scratch(NamedTuple):
    """Room for one suffix."""

    m: FloatArray  # [3, widest]
    q: FloatArray  # [3, widest]
    p: FloatArray  # [3, widest]
    factors: FloatArray  # [3, 3]


@compiled(inner=True)
def _grown(values, size):
    grown = np.empty(size, values.dtype)
    grown[: len(values)] = values
    return grown


@compiled(inner=True)
def _heap_in(keys, places):
    """Keys, parents and entries of a heap, in the room of these arrays."""
    size, at = len(keys), places.ctypes.data
    below = view(at, (size,), np.int64), view(at + 8 * size, (size,), np.int64)
    return view(keys.ctypes.data, (size,), np.float64), below[0], below[1]


@compiled(inner=True)
def _search_paths(table, root, prices, n, ends, widest, limits):
    """The n paths of a root with the least prices, or those found until a limit was met; see Offered.

    `ends` [num_positions] has the nodes that a path must end with, negative where it may be any. Suffixes wait on a
    heap by their bounds. The one with the least is opened: what hangs below it is bounded and waits, and the best of
    that is opened at once, down to the leaves, so that there is something to compare with soon.
    """
    top, lowest, num_positions = len(table) - 1, 0, len(ends)
    own_table = table
    table = view(own_table.ctypes.data, own_table.shape, np.int64)
    while table[lowest, LOCAL] or table[lowest, INDPTR] == 0:
        lowest += 1
    own_work = np.zeros(9 * widest + 9)
    at = own_work.ctypes.data
    work = Scratch(
        view(at, (3, widest), np.float64),
        view(at + 24 * widest, (3, widest), np.float64),
        view(at + 48 * widest, (3, widest), np.float64),
        view(at + 72 * widest, (3, 3), np.float64),
    )
    # What waits: a suffix that was opened, and an entry of its hop.
    waiting, size = 1024, 0
    own_keys, own_places = np.empty(waiting), np.empty((2, waiting), np.int64)
    keys, parents, entries = _heap_in(own_keys, own_places)
    # What was opened, with its products, from which everything below is made.
    room, opened = 256, 0
    parent_of, node_of, set_of = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    hop_of, place_of = np.empty(room, np.int64), np.empty(room, np.int64)
    own_products = np.empty((room, 3, widest))
    products = view(own_products.ctypes.data, own_products.shape, np.float64)
    found = 0
    own_least, own_found = np.empty(max(n, 1)), np.empty((2, max(n, 1)), np.int64)
    least, suffixes, leaves = _heap_in(own_least, own_found)
    looked_at, missed = 0, np.inf
    parent, entry, t, v, s = -1, -1, top, root, 1
    for d in range(table[top, WIDTH]):
        work.m[0, d] = prices[d]
    while n > 0:
        # Open the suffix at node v, set s, at the output of layer t; its m is in the scratch.
        if opened == room:
            room *= 2
            parent_of, node_of, set_of = _grown(parent_of, room), _grown(node_of, room), _grown(set_of, room)
            hop_of, place_of = _grown(hop_of, room), _grown(place_of, room)
            more = np.empty((room, 3, widest))
            more[:opened] = own_products
            own_products = more
            products = view(own_products.ctypes.data, own_products.shape, np.float64)
        here = opened
        opened += 1
        t, v, s, bias = _go_to_hop(table, t, v, s, work)
        row = table[t]
        parent_of[here], node_of[here], set_of[here], hop_of[here] = parent, v, s, t
        place_of[here] = num_positions - 1 if parent < 0 else place_of[parent] - 1
        wanted = ends[place_of[here] - 1]
        if wanted < 0 and bias < np.inf and (found < n or bias < least[0]):
            found = _keep(least, suffixes, leaves, found, n, bias, here, -1)
        best, best_entry = np.inf, -1
        if s > 0:
            in_delta, first, last = _range_of(row, v, s)
            looked_at += last - first
            descents = view(row[DESCENTS], (row[NUM_DESCENTS],), np.int64)
            senders = view(row[INDICES], (row[NUM_ENTRIES],), np.int32)
            if t == lowest:
                for k in range(first, last):
                    e = descents[k] if in_delta else k
                    if wanted >= 0 and senders[e] != wanted:
                        continue
                    if _set_below(row, s, e):
                        price = _price_leaf(row, e, work.q)
                        if found < n or price < least[0]:
                            found = _keep(least, suffixes, leaves, found, n, price, here, e)
            else:
                _multiply_suffix(row, s, work.q, products[here])
                held = view(row[HELD_BELOW], (row[NUM_BELOW],), np.uint8)
                for k in range(first, last):
                    e = descents[k] if in_delta else k
                    if wanted >= 0 and senders[e] != wanted:
                        continue
                    below = _set_below(row, s, e)
                    if below == 0:
                        continue
                    enough = least[0] if found == n else np.inf
                    bound = _bound_of(row, table[t - 1], e, held[below], products[here], work.q, work, enough)
                    if found == n and bound >= least[0]:
                        continue
                    if bound < best or best_entry < 0:
                        # The best so far waits with the others as soon as there is a better one.
                        bound, best = best, bound
                        e, best_entry = best_entry, e
                        if e < 0:
                            continue
                    if size == waiting:
                        if waiting >= limits.heap:
                            missed = min(missed, bound)
                            continue
                        waiting *= 2
                        more_places = np.empty((2, waiting), np.int64)
                        more_places[:, :size] = own_places
                        own_keys, own_places = _grown(own_keys, waiting), more_places
                        keys, parents, entries = _heap_in(own_keys, own_places)
                    push(keys, parents, entries, size, bound, here, e)
                    size += 1
        if looked_at >= limits.looked_at or opened >= limits.opened:
            missed = min(missed, best)
            break
        if best_entry >= 0 and (found < n or best < least[0]):
            parent, entry = here, best_entry
        else:
            if size == 0 or (found == n and keys[0] >= least[0]):
                break
            parent, entry = parents[0], entries[0]
            pop(keys, parents, entries, size)
            size -= 1
        row = table[hop_of[parent]]
        s = _set_below(row, set_of[parent], entry)
        t, v = hop_of[parent] - 1, view(row[INDICES], (row[NUM_ENTRIES],), np.int32)[entry]
        _carry(
            row, entry, view(row[HELD_BELOW], (row[NUM_BELOW],), np.uint8)[s], products[parent], work.factors, work.m
        )
    if size > 0:
        missed = min(missed, keys[0])
    floor = missed
    if found == n and n > 0:
        top_price = least[0]
        floor = min(missed, top_price)
    order = order_of(least[:found])
    nodes = np.full((found, num_positions), -1)
    indices = view(table[lowest, INDICES], (table[lowest, NUM_ENTRIES],), np.int32)
    for i in range(found):
        at, leaf = suffixes[order[i]], leaves[order[i]]
        position = place_of[at]
        if leaf >= 0:
            nodes[i, position - 1] = indices[leaf]
        while at >= 0:
            nodes[i, position] = node_of[at]
            position += 1
            at = parent_of[at]
    # Views do not keep their arrays: until here, these must be there.
    alive = len(own_table) + len(own_work) + len(own_keys) + len(own_places) + len(own_products) + len(own_found)
    assert alive
    return Offered(own_least[order], nodes, floor, opened, looked_at)


@compiled
def search_range(start, stop, table, roots, prices, sizes, ends, widest, limits, each):
    """Search for the paths of some of the roots, by prices of their own."""
    for i in range(start, stop):
        found = _search_paths(table, roots[i], prices[i], sizes[i], ends, widest, limits)
        number = len(found.prices)
        each.prices[i, :number] = found.prices
        each.nodes[i, :number] = found.nodes
        each.floors[i], each.number[i] = found.floor, number
        each.opened[i], each.looked_at[i] = found.opened, found.looked_at

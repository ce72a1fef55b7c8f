"""The compiled search for the paths with the least prices; its twin in tests/references.py lists all of them."""

from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray, IntArray
from ..compiled import compiled
from ..stable_order import order_of
from .heaps import keep, pop, push
from .layer_table import DESCENTS, HELD_BELOW, INDICES, INDPTR, LOCAL, NUM_BELOW, NUM_DESCENTS, NUM_ENTRIES, WIDTH, view
from .suffix_loops import Scratch, bound_of, carry, go_to_hop, multiply_suffix, price_leaf, range_of, set_below


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
        t, v, s, bias = go_to_hop(table, t, v, s, work)
        row = table[t]
        parent_of[here], node_of[here], set_of[here], hop_of[here] = parent, v, s, t
        place_of[here] = num_positions - 1 if parent < 0 else place_of[parent] - 1
        wanted = ends[place_of[here] - 1]
        if wanted < 0 and bias < np.inf and (found < n or bias < least[0]):
            found = keep(least, suffixes, leaves, found, n, bias, here, -1)
        best, best_entry = np.inf, -1
        if s > 0:
            in_delta, first, last = range_of(row, v, s)
            looked_at += last - first
            descents = view(row[DESCENTS], (row[NUM_DESCENTS],), np.int64)
            senders = view(row[INDICES], (row[NUM_ENTRIES],), np.int32)
            if t == lowest:
                for k in range(first, last):
                    e = descents[k] if in_delta else k
                    if wanted >= 0 and senders[e] != wanted:
                        continue
                    if set_below(row, s, e):
                        price = price_leaf(row, e, work.q)
                        if found < n or price < least[0]:
                            found = keep(least, suffixes, leaves, found, n, price, here, e)
            else:
                multiply_suffix(row, s, work.q, products[here])
                held = view(row[HELD_BELOW], (row[NUM_BELOW],), np.uint8)
                for k in range(first, last):
                    e = descents[k] if in_delta else k
                    if wanted >= 0 and senders[e] != wanted:
                        continue
                    below = set_below(row, s, e)
                    if below == 0:
                        continue
                    enough = least[0] if found == n else np.inf
                    bound = bound_of(row, table[t - 1], e, held[below], products[here], work.q, work, enough)
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
        s = set_below(row, set_of[parent], entry)
        t, v = hop_of[parent] - 1, view(row[INDICES], (row[NUM_ENTRIES],), np.int32)[entry]
        carry(row, entry, view(row[HELD_BELOW], (row[NUM_BELOW],), np.uint8)[s], products[parent], work.factors, work.m)
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

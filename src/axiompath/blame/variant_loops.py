"""The compiled loops of `variants`: what each place takes of the variants of those that send to it.

A place has one row for each of its variants; `base` is the first of them, `group` the number of what it sees, and
`inverse[group, s]` which variant subset s makes of it. Group 0 sees nothing, and has one variant.
"""

import numpy as np

from ..compiled import compiled

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, which scatters what it multiplies


@compiled
def number_views(words, masks, first, inverse):
    """Number the kinds of rows that each mask tells apart, as they appear; where those of each begin in `first`.

    A table of hashes for each mask, of twice as many slots as it can have kinds, open addressing.
    """
    num_rows, num_words = words.shape
    most = 2
    while most < 2 * num_rows:
        most *= 2
    table = np.empty(most, dtype=np.int32)
    looked = np.empty(num_words, dtype=np.int64)
    starts = np.zeros(len(masks) + 1, dtype=np.int64)
    taken = 0
    for m in range(len(masks)):
        num, slots, shift = 0, 2, 63
        for w in range(num_words):
            left = masks[m, w]
            if left != 0:
                looked[num] = w
                num += 1
            while left != 0 and slots < most:
                left &= left - np.uint64(1)
                slots *= 2
                shift -= 1
        table[:slots] = -1
        begun = starts[m]
        for s in range(num_rows):
            code = np.uint64(0)
            for k in range(num):
                w = looked[k]
                code = ((code >> np.uint64(32)) ^ code ^ (words[s, w] & masks[m, w])) * ODD
            slot = np.int64(code >> np.uint64(shift))
            while True:
                known = table[slot]
                if known < 0:
                    table[slot] = taken - begun
                    first[taken] = s
                    inverse[m, s] = taken - begun
                    taken += 1
                    break
                other = first[begun + known]
                same = True
                for k in range(num):
                    w = looked[k]
                    if (words[s, w] ^ words[other, w]) & masks[m, w] != 0:
                        same = False
                        break
                if same:
                    inverse[m, s] = known
                    break
                slot = (slot + 1) & (slots - 1)
        starts[m + 1] = taken
    return starts


@compiled
def list_edges(edges, hold, nodes, group, starts, subsets, first):
    """The edges into each variant of these nodes: number of the variant, from `first` on, and of the edge."""
    count = 0
    for turn in range(2):
        row, edge = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        number, count = first, 0
        for i in range(len(nodes)):
            for j in range(starts[group[i]], starts[group[i] + 1]):
                for e in range(edges.indptr[nodes[i]], edges.indptr[nodes[i] + 1]):
                    if edges.condition[e] < 0 or hold[edges.condition[e], subsets[j]]:
                        if turn:
                            row[count], edge[count] = number, e
                        count += 1
                number += 1
    return row, edge


@compiled
def add_products(products, hold, wanted, below, projected, z):
    """z[V] += left[V] * sum over U of weight * right[U] * projected[U], plus diagonal[V] * projected[V]."""
    edges, left, right, diagonal, loops_apart = products
    width = projected.shape[1]
    constant, total = np.zeros(width), np.zeros(width)
    for i in range(len(wanted.nodes)):
        v = wanted.nodes[i]
        low, high = edges.indptr[v], edges.indptr[v + 1]
        varying = np.empty(high - low, dtype=np.int64)
        num_varying = 0
        constant[:] = 0.0
        for e in range(low, high):
            u = edges.senders[e]
            if loops_apart and u == v:
                continue
            place = below.place[u]
            if edges.condition[e] < 0 and below.group[place] == 0 and right.group[u] == 0:
                value = edges.weights[e] * right.values[right.base[u]]
                row = below.base[place]
                for c in range(width):
                    constant[c] += value * projected[row, c]
            else:
                varying[num_varying] = e
                num_varying += 1
        group = wanted.group[i]
        first = wanted.starts[group]
        for j in range(first, wanted.starts[group + 1]):
            s = wanted.subsets[j]
            for c in range(width):
                total[c] = constant[c]
            for k in range(num_varying):
                e = varying[k]
                if edges.condition[e] >= 0 and not hold[edges.condition[e], s]:
                    continue
                u = edges.senders[e]
                place = below.place[u]
                value = edges.weights[e] * right.values[right.base[u] + right.inverse[right.group[u], s]]
                row = below.base[place] + below.inverse[below.group[place], s]
                for c in range(width):
                    total[c] += value * projected[row, c]
            own = left.base[v] + left.inverse[left.group[v], s]
            out = wanted.base[i] + j - first
            value = left.values[own]
            for c in range(width):
                z[out, c] += value * total[c]
            if len(diagonal):
                place = below.place[v]
                row = below.base[place] + below.inverse[below.group[place], s]
                value = diagonal[own]
                for c in range(width):
                    z[out, c] += value * projected[row, c]


@compiled(inner=True)
def _score(scores, key, query):
    total = 0.0
    for c in range(len(scores.direction)):
        if scores.product:
            total += scores.keys[key, c] * scores.queries[query, c]
        else:
            value = scores.keys[key, c] + scores.queries[query, c]
            total += (value if value > 0 else value * scores.slope) * scores.direction[c]
    return total


@compiled
def add_attention(attended, hold, wanted, below, projected, z):
    """z[V] += sum over U of softmax(score[V, U]) * projected[U]."""
    edges, scores, self_loops = attended
    width = projected.shape[1]
    for i in range(len(wanted.nodes)):
        v = wanted.nodes[i]
        low, high = edges.indptr[v], edges.indptr[v + 1]
        taken = np.empty(high - low + 1, dtype=np.int64)
        shares = np.empty(high - low + 1)
        group = wanted.group[i]
        first = wanted.starts[group]
        for j in range(first, wanted.starts[group + 1]):
            s = wanted.subsets[j]
            place = below.place[v]
            own = below.base[place] + below.inverse[below.group[place], s]
            num = 0
            if self_loops:
                taken[0] = own
                shares[0] = _score(scores, own, own)
                num = 1
            for e in range(low, high):
                u = edges.senders[e]
                if self_loops and u == v:
                    continue
                if edges.condition[e] >= 0 and not hold[edges.condition[e], s]:
                    continue
                place = below.place[u]
                row = below.base[place] + below.inverse[below.group[place], s]
                taken[num] = row
                shares[num] = _score(scores, row, own)
                num += 1
            if num == 0:
                continue
            highest = shares[0]
            for k in range(1, num):
                highest = max(highest, shares[k])
            whole = 0.0
            for k in range(num):
                shares[k] = np.exp(shares[k] - highest)
                whole += shares[k]
            out = wanted.base[i] + j - first
            for k in range(num):
                value, row = shares[k] / whole, taken[k]
                for c in range(width):
                    z[out, c] += value * projected[row, c]

"""The two heaps of a compiled search, in arrays that lie ready: what waits, and the best that was found."""

from ..compiled import compiled


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
def keep(prices, suffixes, leaves, size, n, price, suffix, leaf):
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

"""Keys -> the n smallest, ties broken by the lower index, whatever the machine and the number of threads."""

from __future__ import annotations

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..compiled import compiled
from ..stable_order import order_of


@compiled(inner=True, error_model="numpy")
def places_of(chosen: BoolArray) -> IntArray:
    """What `np.flatnonzero` gives, in a third of the time that numba takes to compile it."""
    places = np.empty(chosen.size, np.int64)
    number = 0
    for i in range(chosen.size):
        if chosen[i]:
            places[number] = i
            number += 1
    return places[:number]


@compiled(inner=True, error_model="numpy")
def kth_smallest(keys: FloatArray, k: int) -> float:
    """The k-th smallest key (k from 0), by quickselect with a median-of-three pivot. `keys` is reordered.

    numba's own `np.partition` gives the same number, but asks of every comparison whether a key is nan: it took 1.2 to
    8 times as long (30 to a million keys, random, tied or sorted).
    """
    low, high = 0, keys.size - 1
    while high - low > 8:
        mid = (low + high) // 2
        first, middle, last = keys[low], keys[mid], keys[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            return float(keys[k])
    for i in range(low + 1, high + 1):
        key = keys[i]
        j = i - 1
        while j >= low and keys[j] > key:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key
    return float(keys[k])


@compiled(inner=True, error_model="numpy")
def n_smallest(keys: FloatArray, n: int) -> IntArray:
    """Indices of the n smallest keys, in index order; among equal keys the lower index wins."""
    m = keys.size
    chosen = np.empty(min(n, m), np.int64)
    if chosen.size == 0:
        return chosen
    threshold = kth_smallest(keys.copy(), chosen.size - 1)
    below = 0
    for i in range(m):
        if keys[i] < threshold:
            below += 1
    ties = chosen.size - below
    at = 0
    for i in range(m):
        if keys[i] < threshold:
            chosen[at] = i
            at += 1
        elif keys[i] == threshold and ties > 0:
            chosen[at] = i
            at += 1
            ties -= 1
    return chosen


@compiled(inner=True, error_model="numpy")
def ranked_smallest(keys: FloatArray, n: int) -> IntArray:
    """Indices of the n smallest keys, smallest first; among equal keys the lower index comes first."""
    chosen = n_smallest(keys, n)
    return chosen[order_of(keys[chosen])]


@compiled(inner=True, error_model="numpy")
def sum_of_smallest(keys: FloatArray, n: int, at_most: bool) -> float:
    """S_n of the module `objective`: the linear subproblem's value, to rounding however many there are (Kahan)."""
    total = 0.0
    lost = 0.0
    for i in n_smallest(keys, n):
        if keys[i] < 0.0 or not at_most:
            key = keys[i] - lost
            new = total + key
            lost = (new - total) - key
            total = new
    return total


@compiled(inner=True, error_model="numpy")
def settle_ties(rows: FloatArray, prices: FloatArray, x: FloatArray) -> None:
    """Among equal rows, give the larger weights to the lower indices.

    Equal rows have equal prices, so each row is looked up among the few that hold weight, sorted by price.
    """
    m, c = rows.shape
    held = places_of(x != 0.0)
    k = held.size
    held = held[order_of(prices[held])]
    keys = prices[held]
    # leader[i]: the place in `held` of the first row equal to row i, or -1.
    leader = np.full(m, -1)
    ties = False
    for i in range(m):
        low, high = 0, k
        while low < high:
            mid = (low + high) // 2
            if keys[mid] < prices[i]:
                low = mid + 1
            else:
                high = mid
        while low < k and keys[low] == prices[i]:
            equal = True
            for j in range(c):
                equal = equal and rows[held[low], j] == rows[i, j]
            if equal:
                leader[i] = low
                ties = ties or held[low] != i
                break
            low += 1
    if not ties:
        return
    for g in range(k):
        if leader[held[g]] != g:
            continue
        members = places_of(leader == g)
        lightest_first = x[members]
        lightest_first = lightest_first[order_of(lightest_first)]
        for i in range(members.size):
            x[members[i]] = lightest_first[members.size - 1 - i]

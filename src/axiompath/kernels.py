"""The compiled loops of `change`, `paths` and `attribution`; every one has a literal twin in tests/references.py.

They are compiled on first use (some ten seconds for all, kept on disk afterwards), release the interpreter's lock and
take the range of rows they work on, so that `run_in_pieces` can run them on several cores.
"""

import numba
import numpy as np

from .states import AFTER, BEFORE, CHANGED, GAINED, IN_DELTA, LOST, PATH_OF_AFTER, PATH_OF_BEFORE, STATES

# Sums may be reordered within one dot product, always in the same way, so results do not depend on the batch.
FAST = {"reassoc", "contract", "nsz"}


@numba.njit(cache=True, nogil=True)
def count_layer(start, stop, indptr, indices, marks, following, below, above):
    """Ways down from each node in each set of states; a node's counts lie together, for the cache's sake."""
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            for s in range(1, 8):
                s_below = following[s, marks[e]]
                if s_below:
                    above[v, s] += below[indices[e], s_below]


@numba.njit(cache=True, nogil=True)
def count_roots(start, stop, indptr, descents, indices, marks, following, below, counts):
    """The same for roots, which are in delta and nothing else."""
    for v in range(start, stop):
        for k in range(indptr[v], indptr[v + 1]):
            e = descents[k]
            counts[v] += below[indices[e], following[IN_DELTA, marks[e]]]


@numba.njit(cache=True, nogil=True, inline="always")
def _flags_below(flags, marks, following):
    """Flags of a path that goes over an entry with these marks; 0 where it cannot."""
    states = following[flags & STATES, marks]
    if states == 0:
        return np.uint8(0)
    known = states | (flags & CHANGED)
    if marks & AFTER:
        known |= flags & PATH_OF_AFTER
    if marks & BEFORE:
        known |= flags & PATH_OF_BEFORE
    if marks & (GAINED | LOST):
        known |= CHANGED
    return np.uint8(known)


@numba.njit(cache=True, nogil=True, inline="always")
def _entry_range(v, flags, indptr, descents_indptr):
    """Entries to look at below node v: the few descents in delta alone, else the whole row."""
    if flags & STATES == IN_DELTA:
        return True, descents_indptr[v], descents_indptr[v + 1]
    return False, indptr[v], indptr[v + 1]


@numba.njit(cache=True, nogil=True)
def count_children(start, stop, indptr, descents_indptr, descents, marks, following, node, flags, num_children):
    for i in range(start, stop):
        in_delta, low, high = _entry_range(node[i], flags[i], indptr, descents_indptr)
        if in_delta:
            num_children[i] = high - low
        else:
            count = 0
            for e in range(low, high):
                if following[flags[i] & STATES, marks[e]]:
                    count += 1
            num_children[i] = count


@numba.njit(cache=True, nogil=True)
def fill_children(
    start, stop, indptr, descents_indptr, descents, marks, following, indices,
    node, target, flags, trail, starts, position,
    child_node, child_target, child_parent, child_entry, child_flags, child_trail,
):  # fmt: skip
    for i in range(start, stop):
        j = starts[i]
        in_delta, low, high = _entry_range(node[i], flags[i], indptr, descents_indptr)
        for k in range(low, high):
            e = descents[k] if in_delta else k
            below = _flags_below(flags[i], marks[e], following)
            if below:
                child_node[j] = indices[e]
                child_target[j] = target[i]
                child_parent[j] = i
                child_entry[j] = e
                child_flags[j] = below
                for h in range(trail.shape[1]):
                    child_trail[j, h] = trail[i, h]
                child_trail[j, position] = indices[e]
                j += 1


@numba.njit(cache=True, nogil=True)
def fill_leaves(
    start, stop, indptr, descents_indptr, descents, marks, following, indices, kind_of_flags,
    node, flags, trail, rows, paths, kinds, entry,
):  # fmt: skip
    for i in range(start, stop):
        row = rows[i]
        in_delta, low, high = _entry_range(node[i], flags[i], indptr, descents_indptr)
        for k in range(low, high):
            e = descents[k] if in_delta else k
            below = _flags_below(flags[i], marks[e], following)
            if below:
                paths[row, 0] = indices[e]
                for h in range(1, paths.shape[1]):
                    paths[row, h] = trail[i, h]
                kinds[row] = kind_of_flags[below]
                entry[row] = e
                row += 1


# The kernels call no function on arrays and take no slices where it matters: each would count references, which costs
# more than the arithmetic and makes threads wait for one another. States are numbered delta 0, after 1, before 2.


@numba.njit(cache=True, nogil=True)
def _factor(above, state, kept, after, before):
    """What P[above] is multiplied with on its way to M[state], over an entry with these coefficients."""
    if above == 0:
        return kept if state == 0 else after - kept if state == 1 else kept - before
    if above != state:
        return 0.0
    return after if state == 1 else before


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def multiply_rows(
    start, stop, product, above_first, above_flags, channels, kept, after, before, node, parent, entry, flags, first,
    width, has_rates, slopes, slope_rows, weights, maps, below,
):  # fmt: skip
    num_classes = product.shape[1]
    q = np.empty((num_classes, width))
    for m in range(len(maps)):
        below_column, inputs, below_low = np.uintp(maps[m, 0]), maps[m, 1], np.uintp(maps[m, 2])
        outputs, place, has_weight = maps[m, 3], maps[m, 4], maps[m, 5]
        weight = weights[place : place + has_weight * inputs * outputs].reshape(has_weight * inputs, outputs)
        for i in range(start, stop):
            p, e, w = parent[i], entry[i], node[i]
            row = first[i]
            for state in range(3):
                if not flags[i] >> state & 1:
                    continue
                q[:] = 0.0
                above_row = above_first[p]
                for above in range(3):
                    if not above_flags[p] >> above & 1:
                        continue
                    for k in range(len(channels)):
                        column, low, size = np.uintp(channels[k, 0]), np.uintp(channels[k, 1]), channels[k, 2]
                        rule = channels[k, 3]
                        factor = _factor(above, state, kept[e, rule], after[e, rule], before[e, rule])
                        if factor != 0.0:
                            for j in range(num_classes):
                                for n in range(size):
                                    d = np.uintp(n)
                                    q[j, low + d] += factor * product[above_row, j, column + d]
                    above_row += 1
                if has_rates:
                    slope = slope_rows[state, w]
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


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def take_sources(
    start, stop, product, above_first, above_flags, channels, kept, after, before, node, parent, entry, flags, width,
    has_rates, slopes, slope_rows, source_rows, num_sources, source_entry, indices, source_before, source_after,
    differs, source_channels, y_before, y_after, totals,
):  # fmt: skip
    """Add M @ (rate * g) to each source's row, g being its message a * y, as P @ (factor * rate * g)."""
    num_classes = product.shape[1]
    # Rows 0 to 2: rate * message in each state. Row 3: their sum, weighted by factors, where several states meet.
    g = np.zeros((4, width))
    direct = len(source_channels) == 1 and has_rates
    for i in range(start, stop):
        p, e_above, w = parent[i], entry[i], node[i]
        for row in range(source_rows[i], source_rows[i] + num_sources[i]):
            e = source_entry[row]
            u = indices[e]
            for state in range(3):
                if not flags[i] >> state & 1:
                    continue
                slope = slope_rows[state, w] if has_rates else 0
                if not direct:
                    for d in range(width):
                        g[state, d] = 0.0
                for k in range(len(source_channels)):
                    column, low = np.uintp(source_channels[k, 0]), np.uintp(source_channels[k, 1])
                    size = source_channels[k, 2]
                    a_before, a_after = source_before[e, source_channels[k, 3]], source_after[e, source_channels[k, 3]]
                    from_after = a_after if state != 2 else 0.0
                    from_before = a_before if state == 2 else 0.0 if state == 1 else -a_before
                    if not differs[u]:
                        # One message in both snapshots: read it once.
                        from_after += from_before
                        from_before = 0.0
                    if direct:
                        for n in range(size):
                            d = np.uintp(n)
                            g[state, low + d] = from_after * y_after[u, column + d] * slopes[slope, low + d]
                        if from_before != 0.0:
                            for n in range(size):
                                d = np.uintp(n)
                                g[state, low + d] += from_before * y_before[u, column + d] * slopes[slope, low + d]
                        continue
                    if from_after != 0.0:
                        for n in range(size):
                            d = np.uintp(n)
                            g[state, low + d] += from_after * y_after[u, column + d]
                    if from_before != 0.0:
                        for n in range(size):
                            d = np.uintp(n)
                            g[state, low + d] += from_before * y_before[u, column + d]
                if has_rates and not direct:
                    for d in range(width):
                        g[state, d] *= slopes[slope, d]
            above_row = above_first[p]
            for above in range(3):
                if not above_flags[p] >> above & 1:
                    continue
                for k in range(len(channels)):
                    column, low, size = np.uintp(channels[k, 0]), np.uintp(channels[k, 1]), channels[k, 2]
                    rule = channels[k, 3]
                    used, scale, num_used = 3, 0.0, 0
                    for state in range(3):
                        if flags[i] >> state & 1:
                            factor = _factor(
                                above, state, kept[e_above, rule], after[e_above, rule], before[e_above, rule]
                            )
                            if factor != 0.0:
                                used, scale, num_used = state, factor, num_used + 1
                    if num_used == 0:
                        continue
                    if num_used > 1:
                        for n in range(size):
                            g[3, low + np.uintp(n)] = 0.0
                        for state in range(3):
                            if flags[i] >> state & 1:
                                factor = _factor(
                                    above, state, kept[e_above, rule], after[e_above, rule], before[e_above, rule]
                                )
                                if factor != 0.0:
                                    for n in range(size):
                                        d = low + np.uintp(n)
                                        g[3, d] += factor * g[state, d]
                        used, scale = 3, 1.0
                    # Four classes at a time, so that g is loaded once for all four; the last four may overlap.
                    done = 0
                    while done + 4 <= num_classes or (done < num_classes and num_classes >= 4):
                        j = min(done, num_classes - 4)
                        s0 = s1 = s2 = s3 = 0.0
                        for n in range(size):
                            d, h = column + np.uintp(n), low + np.uintp(n)
                            s0 += product[above_row, j, d] * g[used, h]
                            s1 += product[above_row, j + 1, d] * g[used, h]
                            s2 += product[above_row, j + 2, d] * g[used, h]
                            s3 += product[above_row, j + 3, d] * g[used, h]
                        if j >= done:
                            totals[row, j] += scale * s0
                        if j + 1 >= done:
                            totals[row, j + 1] += scale * s1
                        if j + 2 >= done:
                            totals[row, j + 2] += scale * s2
                        totals[row, j + 3] += scale * s3
                        done = j + 4
                    for j in range(done, num_classes):
                        s0 = 0.0
                        for n in range(size):
                            s0 += product[above_row, j, column + np.uintp(n)] * g[used, low + np.uintp(n)]
                        totals[row, j] += scale * s0
                above_row += 1


@numba.njit(cache=True, nogil=True)
def bound_leaves(indptr, indices, after, channels, y, bounds):
    """bounds[v] = element-wise max over u of |sum over channels of a[v, u] y_u|."""
    g = np.empty(bounds.shape[1])
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            g[:] = 0.0
            for k in range(len(channels)):
                for d in range(channels[k, 2]):
                    g[channels[k, 1] + d] += after[e, channels[k, 3]] * y[indices[e], channels[k, 0] + d]
            for d in range(len(g)):
                bounds[v, d] = max(bounds[v, d], abs(g[d]))


@numba.njit(cache=True, nogil=True)
def offer_leaves(indptr, indices, marks, after, channels, y, node, q, bounds, threshold, scores, suffix, leaf):
    """Put the leaves with the largest scores q @ (a y) above the threshold into scores, suffix and leaf."""
    if len(scores) == 0:
        return
    worst = 0
    for i in range(len(node)):
        v = node[i]
        reach = 0.0
        for d in range(q.shape[1]):
            reach += abs(q[i, d]) * bounds[v, d]
        if reach <= max(threshold, scores[worst]):
            continue
        for e in range(indptr[v], indptr[v + 1]):
            if not marks[e] & AFTER:
                continue
            u = indices[e]
            score = 0.0
            for k in range(len(channels)):
                part = 0.0
                for d in range(channels[k, 2]):
                    part += q[i, channels[k, 1] + d] * y[u, channels[k, 0] + d]
                score += after[e, channels[k, 3]] * part
            if score > threshold and score > scores[worst]:
                scores[worst], suffix[worst], leaf[worst] = score, i, u
                for j in range(len(scores)):
                    if scores[j] < scores[worst]:
                        worst = j


@numba.njit(cache=True, nogil=True)
def edge_gradients(indptr, indices, after, nodes, gradient, message, total):
    """Add gradient[v] @ (a[v, u] message[u]) to the entries of the rows `nodes`, one row after the other."""
    i = 0
    for n in range(len(nodes)):
        for e in range(indptr[nodes[n]], indptr[nodes[n] + 1]):
            if after[e] != 0.0:
                part = 0.0
                for d in range(gradient.shape[1]):
                    part += gradient[n, d] * message[indices[e], d]
                total[i] += after[e] * part
            i += 1


@numba.njit(cache=True, nogil=True)
def best_continuations(indptr, indices, marks, entry_scores, here, where, below, found, child, rank):
    """The largest entry score + score below of every node, largest first; earlier entries first among equals."""
    size = found.shape[1]
    if size == 0:
        return
    for i in range(len(here)):
        for e in range(indptr[here[i]], indptr[here[i] + 1]):
            if not marks[e] & AFTER:
                continue
            c = where[indices[e]]
            for r in range(below.shape[1]):
                score = entry_scores[e] + below[c, r]
                if not score > found[i, size - 1]:
                    break  # the continuations of one node come in descending order
                j = size - 1
                while j > 0 and found[i, j - 1] < score:
                    found[i, j], child[i, j], rank[i, j] = found[i, j - 1], child[i, j - 1], rank[i, j - 1]
                    j -= 1
                found[i, j], child[i, j], rank[i, j] = score, c, r

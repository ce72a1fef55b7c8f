"""The compiled loops that count and walk paths; every one has a literal twin in tests/references.py.

They are compiled on first use (some ten seconds for all, kept on disk afterwards), release the interpreter's lock and
take the range of rows they work on, so that `run_in_pieces` can run them on several cores.
"""

from ..compiled import compiled


@compiled
def count_layer(start, stop, indptr, indices, marks, following, below, above):
    """Ways down from each node in each set of states; a node's counts lie together, for the cache's sake."""
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            for s in range(1, len(following)):
                s_below = following[s, marks[e]]
                if s_below:
                    above[v, s] += below[indices[e], s_below]


@compiled
def count_roots(start, stop, indptr, descents, indices, marks, following, below, counts):
    """The same for roots, whose set is number 1, delta."""
    for v in range(start, stop):
        for k in range(indptr[v], indptr[v + 1]):
            e = descents[k]
            s_below = following[1, marks[e]]
            if s_below:
                counts[v] += below[indices[e], s_below]


@compiled(inline="always")
def _entry_range(v, delta_alone, indptr, descents_indptr):
    """Entries to look at below node v: the few descents in delta alone, else the whole row."""
    if delta_alone:
        return descents_indptr[v], descents_indptr[v + 1]
    return indptr[v], indptr[v + 1]


@compiled
def count_children(
    start, stop, indptr, descents_indptr, descents, marks, following, delta_alone, node, sets, num_children
):  # fmt: skip
    for i in range(start, stop):
        s = sets[i]
        in_delta = delta_alone[s]
        low, high = _entry_range(node[i], in_delta, indptr, descents_indptr)
        count = 0
        for k in range(low, high):
            e = descents[k] if in_delta else k
            if following[s, marks[e]]:
                count += 1
        num_children[i] = count


@compiled
def fill_children(
    start, stop, indptr, descents_indptr, descents, marks, following, delta_alone, indices,
    node, target, sets, trail, starts, position,
    child_node, child_target, child_parent, child_entry, child_sets, child_trail,
):  # fmt: skip
    for i in range(start, stop):
        j = starts[i]
        s = sets[i]
        in_delta = delta_alone[s]
        low, high = _entry_range(node[i], in_delta, indptr, descents_indptr)
        for k in range(low, high):
            e = descents[k] if in_delta else k
            below = following[s, marks[e]]
            if below:
                child_node[j] = indices[e]
                child_target[j] = target[i]
                child_parent[j] = i
                child_entry[j] = e
                child_sets[j] = below
                for h in range(trail.shape[1]):
                    child_trail[j, h] = trail[i, h]
                child_trail[j, position] = indices[e]
                j += 1


@compiled
def fill_leaves(
    start, stop, indptr, descents_indptr, descents, marks, following, delta_alone, indices, held_of_set,
    node, sets, trail, rows, paths, held, entry,
):  # fmt: skip
    for i in range(start, stop):
        row = rows[i]
        s = sets[i]
        in_delta = delta_alone[s]
        low, high = _entry_range(node[i], in_delta, indptr, descents_indptr)
        for k in range(low, high):
            e = descents[k] if in_delta else k
            below = following[s, marks[e]]
            if below:
                paths[row, 0] = indices[e]
                for h in range(1, paths.shape[1]):
                    paths[row, h] = trail[i, h]
                held[row] = held_of_set[below]
                entry[row] = e
                row += 1

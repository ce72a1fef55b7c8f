"""Change + paths -> logits of the target on `after` with these paths undone, or on `before` with them added.

The network is evaluated again, non-linearities included, on the target's unrolled computation tree. Say we undo paths
in `after`; adding them to `before` is the same with the two snapshots exchanged. A tree node is one of

    shared   every entry above it is kept: it stands for the same node in both trees; rho is the product of
             a_before / a_after over those entries, always positive
    base     below an entry that only `after` has (or that changed sign): part of `after`'s tree only
    grown    below an entry that only `before` has: a branch that undoing grows back, with `before`'s coefficients

and undoing a path acts on its leaf:

    shared   its message a_after y_after becomes rho a_before y_before    (a bias b: rho b; b in
             a factor of a product that rho does not go on in)
    base     it is removed
    grown    it appears as a_before y_before, times rho where the branch hangs on a shared node

A path that is the same in both snapshots has nothing to undo; it is removed instead, so that rankings which choose such
paths are judged by what the network does without them. Adding such a path changes nothing.

A group, all altered paths that end alike (see `paths.bundles`), is undone at its end as a path is at its leaf, with the
values that the end's first node has in the two snapshots for messages: the branch takes `before`'s values. That is what
undoing its paths one by one comes to, for positively homogeneous activations (ReLU, LeakyReLU) always, for others where
coefficients that both snapshots have do not change; else it is undone as one, which from the leaves nothing could do.

A tree node above no changed leaf keeps the value it has in the graph, so only the trie of the chosen paths is
evaluated: z = z_after + sum over its children in the trie of  a (h - h_after) W. With several coefficient rules in a
layer, there is a tree node for each sequence of nodes and rules, those of a family being one.

A maximum is not taken again: see `replay_steps`, which says what each kind of coefficient does on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change, LayerChange
from ..change.sets import Steps
from ..graphs.labels import ANY
from ..graphs.rows import find_in_rows
from ..native.rows import multiply_each
from ..network.layers import ForwardPass
from ..paths.union import cut
from .replay_steps import BASE, GROWN, SHARED, ReplayStep, TreeParents


@dataclass(frozen=True, eq=False)
class Suffixes:
    """The different ends of the chosen paths that have reached one position, a tree of node sequences."""

    node: IntArray  # [num_suffixes]
    parent: IntArray  # [num_suffixes]: suffix of the position above
    biased: BoolArray  # [num_suffixes]: a chosen path starts at the bias of this node
    altered: BoolArray  # [num_suffixes]: the chosen path that starts here, at the bias or leaf, differs at all
    whole: BoolArray  # [num_suffixes]: all that ends so is chosen, as a group


@dataclass(frozen=True, eq=False)
class TreeNodes:
    """Tree nodes at the output of one layer; the arrays run over them."""

    suffix: IntArray
    parent: IntArray  # tree node of the layer above
    entry: IntArray  # over which entry of the layer above, and by which rule
    rule: IntArray  # the first of its family
    mode: NDArray[np.int8]
    rho: FloatArray


def replay_paths(change: Change, targets: IntArray, job: IntArray, paths: IntArray, *, add: bool = False) -> FloatArray:
    """Logits [num_jobs, num_classes]: job i undoes the rows of `paths` with job == i for the root targets[i].

    With add=True the paths are added to `before` instead. Nodes are rows of the aligned snapshots; rows are leaf first.
    """
    return _replay(change, targets, _find_suffixes(change, targets, job, paths) if len(paths) else None, add)


def replay_both(change: Change, targets: IntArray, job: IntArray, paths: IntArray) -> tuple[FloatArray, FloatArray]:
    """The same both ways: undone in `after`, added to `before`."""
    positions = _find_suffixes(change, targets, job, paths) if len(paths) else None
    return _replay(change, targets, positions, add=False), _replay(change, targets, positions, add=True)


def _replay(change: Change, targets: IntArray, positions: list[Suffixes] | None, add: bool) -> FloatArray:
    base = change.before_pass if add else change.after_pass
    if positions is None:
        return base.logits[targets].copy()
    trie = _grow_trie(change, positions, add)
    logits = _evaluate(change, positions, trie, base, add)[len(change.layers) - 1]
    whole = positions[0].whole  # all paths of a target are a group, too
    logits[whole] = (change.after_pass if add else change.before_pass).logits[targets[whole]]
    return logits


def _find_suffixes(change: Change, targets: IntArray, job: IntArray, paths: IntArray) -> list[Suffixes]:
    """The tree of node sequences, from the roots (one per job) down to the leaves: one Suffixes per position."""
    altered_from = _walk(change, change.steps, paths)  # from the root in delta, whatever states it ends in
    num_hops, span = paths.shape[1] - 1, 1 + int(paths.max())
    nothing = np.zeros(len(targets), dtype=np.bool_)
    positions = [Suffixes(targets, np.full(len(targets), -1), nothing, nothing, nothing)]
    suffix = job.copy()
    for p in range(num_hops - 1, -1, -1):
        ends = paths[:, p] < 0
        starts_here = ends & (paths[:, p + 1] >= 0) & (suffix >= 0)
        here = positions[-1]
        biased, altered, whole = here.biased.copy(), here.altered.copy(), here.whole.copy()
        biased[suffix[starts_here & (paths[:, p] != ANY)]] = True
        whole[suffix[starts_here & (paths[:, p] == ANY)]] = True
        altered[suffix[starts_here]] |= altered_from[starts_here]
        # What a group holds already is not chosen a second time.
        positions[-1] = Suffixes(here.node, here.parent, biased & ~whole, altered, whole)
        going = np.flatnonzero(~ends & (suffix >= 0))
        going = going[~whole[suffix[going]]]
        # One number per pair, since numpy sorts numbers much faster than pairs.
        found, where = np.unique(suffix[going] * span + paths[going, p], return_inverse=True)
        suffix = np.full(len(paths), -1)
        suffix[going] = where
        altered = np.zeros(len(found), dtype=np.bool_)
        if p == 0:
            altered[where] = altered_from[going]
        nothing = np.zeros(len(found), dtype=np.bool_)
        positions.append(Suffixes(found % span, found // span, nothing, altered, nothing))
    return positions


def exist_in_either(change: Change, paths: IntArray) -> BoolArray:
    """Whether `before` or `after` has each path, down to its leaf or to a node that has a bias."""
    started = paths >= 0
    well_formed = started[:, -1] & (started[:, 1:] >= started[:, :-1]).all(axis=1)
    well_formed &= ((paths[:, 1:] >= 0) | (paths[:, :-1] == paths[:, 1:])).all(axis=1)
    either = _walk(change, change.after_steps, paths) | _walk(change, change.before_steps, paths)
    # Who holds a maximum somewhere between the snapshots, and in neither, carries nothing in either.
    either |= _walk(change, change.steps, paths)
    return np.asarray(well_formed & either)


def own_paths(change: Change, paths: IntArray, *, altered: bool = False) -> tuple[IntArray, IntArray]:
    """Of two models' paths, those that the change's own model has in either graph, and their places.

    Only those that are `altered` under it, where that is asked: the others did nothing to it, and are not to be taken
    from it as a path is that a rival chose.
    """
    own, fits = cut(paths, change.network.num_positions)
    fits[fits] = exist_in_either(change, own[fits])
    if altered:
        fits[fits] = _walk(change, change.steps, own[fits])
    return own[fits], np.flatnonzero(fits)


def _walk(change: Change, steps: Steps, paths: IntArray) -> BoolArray:
    """Whether a walk by these steps goes along each path, to its leaf or to the bias at which it starts."""
    position = paths.shape[1] - 1
    above = paths[:, position]
    arrived = np.zeros(len(paths), dtype=np.bool_)
    number = np.ones(len(paths), dtype=np.uint16)  # of the set of states
    for t in range(len(change.layers) - 1, change.lowest_hop - 1, -1):
        layer = change.layers[t]
        below = above
        if position > 0:
            before = paths[:, position - 1]
            arrived |= (before == ANY) & (number > 0)
            arrived |= (before < 0) & (before != ANY) & steps.sets[t].starts[number]
        if not layer.local:
            position -= 1
            below = paths[:, position]
        going = np.flatnonzero((number > 0) & (below >= 0))
        entry = find_entries(layer, above[going], below[going])
        going, entry = going[entry >= 0], entry[entry >= 0]
        following = np.zeros(len(paths), dtype=np.uint16)
        following[going] = steps.following[t][number[going], change.descents[t].marks[entry]]
        number, above = following, below
    return arrived | (number > 0)


def find_entries(layer: LayerChange, above: IntArray, below: IntArray) -> IntArray:
    """Index of the entry (above, below) in the layer, -1 if there is none."""
    return find_in_rows(layer.indptr, layer.indices, above, below)


def _grow_trie(change: Change, positions: list[Suffixes], add: bool) -> dict[int, TreeNodes]:
    """Tree nodes of every layer down to the lowest hop, and the leaves under the key lowest_hop - 1."""
    top = len(change.layers) - 1
    roots = np.arange(len(positions[0].node))
    zeros = np.zeros(len(roots), dtype=np.int64)
    trie = {top: TreeNodes(roots, roots, zeros, zeros, np.zeros(len(roots), dtype=np.int8), np.ones(len(roots)))}
    position = 0
    for t in range(top, change.lowest_hop - 1, -1):
        layer, nodes, here = change.layers[t], trie[t], positions[position]
        if layer.local:
            parent = np.flatnonzero(~here.whole[nodes.suffix])
            suffix = nodes.suffix[parent]
            node_below = here.node[suffix]
        else:
            position += 1
            parent, suffix = _children(nodes.suffix, positions[position].parent)
            node_below = positions[position].node[suffix]
        entry = find_entries(layer, here.node[nodes.suffix[parent]], node_below)
        exists = entry >= 0
        step = ReplayStep(change.network.layers[t], layer, add)
        trie[t - 1] = _branch(step, nodes, parent[exists], suffix[exists], entry[exists])
    return trie


def _children(suffix: IntArray, parent_of: IntArray) -> tuple[IntArray, IntArray]:
    """For each tree node, the suffixes that extend its own: (position in the list of tree nodes, suffix)."""
    order = np.argsort(parent_of, kind="stable")
    first = np.searchsorted(parent_of, suffix, side="left", sorter=order)
    last = np.searchsorted(parent_of, suffix, side="right", sorter=order)
    parent = np.repeat(np.arange(len(suffix)), last - first)
    offset = np.arange(len(parent)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    return parent, order[np.repeat(first, last - first) + offset]


def _branch(step: ReplayStep, nodes: TreeNodes, parent: IntArray, suffix: IntArray, entry: IntArray) -> TreeNodes:
    """The tree nodes below: for each family of rules, shared with the parent, only of the base's tree, or grown."""
    parts = []
    for family in dict.fromkeys(step.families):
        for mode, chosen, ratio in step.branches(family, entry, nodes.mode[parent], nodes.rho[parent]):
            i = np.flatnonzero(chosen)
            parts.append(
                (suffix[i], parent[i], entry[i], np.full(len(i), family), np.full(len(i), mode, np.int8), ratio[i])
            )
    return TreeNodes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _evaluate(
    change: Change, positions: list[Suffixes], trie: dict[int, TreeNodes], base: ForwardPass, add: bool
) -> dict[int, FloatArray]:
    """z of every tree node, from the lowest hop up."""
    z: dict[int, FloatArray] = {}
    position = len(positions) - 1
    for t in range(change.lowest_hop, len(change.layers)):
        layer, entries, nodes, below = change.network.layers[t], change.layers[t], trie[t], trie[t - 1]
        if not entries.local:
            position -= 1
        here = positions[position]
        values = np.where((nodes.mode == GROWN)[:, None], 0.0, base.z[t][here.node[nodes.suffix]])
        step = ReplayStep(layer, entries, add)
        if layer.bias is not None:
            carrying = np.where(step.restarting, 0.0, layer.bias)
            values += _bias_factors(here, nodes, nodes.rho, add)[:, None] * carrying
            if step.restarting.any():
                ones = np.ones(len(nodes.rho))
                values += _bias_factors(here, nodes, ones, add)[:, None] * (layer.bias - carrying)
        undone = (here.biased & here.altered)[nodes.suffix]
        above = TreeParents(nodes.mode[below.parent], nodes.rho[below.parent], undone[below.parent])
        lowest = t == change.lowest_hop
        held = positions[position if entries.local else position + 1]
        node_below = held.node[below.suffix]
        h = h_base = h_other = np.zeros((0, 0))
        if not lowest:
            h = change.network.layers[t - 1].activate(z[t - 1])
            h_base = np.asarray(base.received(t, node_below))
        whole = held.whole[below.suffix]
        if whole.any():
            other = change.after_pass if add else change.before_pass
            h_other = np.asarray(other.received(t, node_below))
        y_base, y_other = change.messages if add else change.messages[::-1]
        column = 0
        for channel, number in zip(layer.channels, layer.rule_numbers, strict=True):
            size = channel.outputs.stop - channel.outputs.start
            i = np.flatnonzero(below.rule == step.families[number])
            of_new, of_base, of_other = step.factors(number, below.entry[i], below.mode[i], above.of(i))
            of_other = _unless_unaltered(of_base, of_other, held.altered[below.suffix[i]], add)
            if lowest:
                u, columns = node_below[i], slice(column, column + size)
                message = of_base[:, None] * y_base[u, columns]
                message = message + of_other[:, None] * y_other[u, columns]
                column += size
            else:
                columns = channel.inputs
                sent = of_new[:, None] * h[i][:, columns] + of_base[:, None] * h_base[i][:, columns]
                at = np.flatnonzero(whole[i])
                if len(at):
                    sent[at] = of_base[at, None] * h_base[i[at]][:, columns]
                    sent[at] += of_other[at, None] * h_other[i[at]][:, columns]
                message = sent
                if channel.weight is not None:
                    message = np.zeros((len(i), channel.weight.shape[1]))
                    multiply_each(sent, channel.weight, message)
            _add_at(values, below.parent[i], channel.outputs, message)
        z[t] = values
    return z


def _bias_factors(here: Suffixes, nodes: TreeNodes, rho: FloatArray, add: bool) -> FloatArray:
    """What is added of the bias at each tree node where a chosen path starts at it, of which rho is to be left."""
    unaltered = -1.0 * (not add)
    shared = np.where(here.altered[nodes.suffix], rho - 1.0, unaltered)
    chosen = np.select([nodes.mode == SHARED, nodes.mode == BASE], [shared, -np.ones(len(shared))], 1.0)
    return np.where(here.biased[nodes.suffix], chosen, 0.0)


def _unless_unaltered(base: FloatArray, other: FloatArray, altered: BoolArray, add: bool) -> FloatArray:
    """Factors of what is put in: with nothing to undo a message is removed, with nothing to add left as it is."""
    return np.where(altered, other, -base if add else 0.0)


def _add_at(values: FloatArray, rows: IntArray, columns: slice, message: FloatArray) -> None:
    """values[rows, columns] += message, rows repeated: sums in order of appearance."""
    order = np.argsort(rows, kind="stable")
    if len(order) == 0:
        return
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    values[rows[order][starts], columns] += np.add.reduceat(message[order], starts, axis=0)

"""Change + targets -> PathSet: the altered paths, counted and walked, level by level for a whole batch of targets.

A walk starts at the root in state `delta` and goes down layer by layer. Over an entry (V, U) of the layer it may

    stay in delta          where part of the coefficient is kept and U's value can differ,
    go from delta to after where part of it is gained,   from delta to before where part of it is lost,
    stay in after (before) where `after` (`before`) has a coefficient that is not 0,

and goes on where a channel of that rule carries columns on (see `links`). One node sequence can be walked in several
states at once, so a partial path carries a *set* of states (by number, see `sets`), and each node sequence appears
once. A layer's bias is a source in all states but delta: a path may start there, and its earlier positions hold -1.
Local layers add no position, and the layers below the first hop belong to the leaf.

A walk knows which states a path ends in and which snapshots have it. What kind of path it is depends on its shares:
see `attribution`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..change.sets import Steps
from ..change.states import COUNT_STATES
from ..native.threads import run_in_pieces
from ..native.walks import fill_leaves, list_children

WALK_WORK = 30  # operations to write one partial path down, roughly
EXACT_FLOAT = 2**53  # float64 counts integers exactly up to here
DIGIT = 2.0**26  # larger counts are written in digits; a row of 2^27 entries sums exactly

Counts = list[FloatArray]  # the digits of counts, the lowest first; a single one is the count itself


@dataclass(frozen=True, eq=False)
class Ways:
    """The entries of one layer, and where a walk goes over them."""

    indptr: IntArray  # [num_nodes + 1]
    indices: NDArray[np.int32]  # [num_entries]
    descents_indptr: IntArray  # [num_nodes + 1]
    descents: IntArray  # [num_descents]: entries that a walk in delta can go over
    marks: NDArray[np.uint16]  # [num_entries]
    following: NDArray[np.uint16]  # [sets, marks]: number of the set below, 0 for none
    delta_alone: BoolArray  # [sets]


@dataclass(frozen=True, eq=False)
class Level:
    """The partial paths of all targets after a step over one layer, ordered by target."""

    node: NDArray[np.int32]  # [num_suffixes]: where each one has arrived
    target: NDArray[np.int32]  # [num_suffixes]: position in the batch's list of targets
    parent: NDArray[np.int32]  # [num_suffixes]: the suffix of the level above that it extends
    entry: IntArray  # [num_suffixes]: over which entry of the layer
    sets: NDArray[np.uint16]  # [num_suffixes]: number of its set of states, see `Change.steps`
    trail: NDArray[np.int32]  # [num_suffixes, num_hops + 1]: its nodes, as in a stored path
    position: int  # of `node` in the trail: that of the root is the last


@dataclass(frozen=True, eq=False)
class PathSet:
    """All altered paths of a batch of targets; the rows of one target lie together."""

    targets: IntArray  # [num_targets]
    indptr: IntArray  # [num_targets + 1]: rows of each target
    paths: IntArray  # [num_paths, num_positions], leaf first, root last, -1 before a bias source
    held: NDArray[np.uint16]  # [num_paths]: the states it ends in, and which snapshots have it
    entry: IntArray  # [num_paths]: the entry of the lowest hop that leads to the leaf; -1 for a bias source
    levels: dict[int, Level]  # layer -> the suffixes at that layer's output
    bias_rows: dict[int, IntArray]  # layer with a bias -> row of each suffix's bias path, -1 where it has none
    leaf_rows: IntArray  # [suffixes above the lowest hop]: first row of each one's leaves
    num_leaves: IntArray  # [suffixes above the lowest hop]


def count_paths(change: Change) -> IntArray | NDArray[np.object_]:
    """Number of altered paths of every node, [num_nodes]; Python integers where 64 bits would not do."""
    (counts,) = _count(change, change.merged_steps, change.lowest_hop)
    if counts.max(initial=0.0) < EXACT_FLOAT:
        return counts.astype(np.int64)
    digits = _count(change, change.merged_steps, change.lowest_hop, in_digits=True)
    return np.asarray(sum(part.astype(np.int64).astype(object) << 26 * i for i, part in enumerate(digits)))


def count_suffixes(change: Change, layer: int) -> tuple[FloatArray, FloatArray]:
    """Partial paths of every node at the output of `layer`, and the sum of their numbers of states."""
    (plain,), (weighed,) = (_count(change, change.steps, layer + 1, weigh_states=weigh) for weigh in (False, True))
    return plain, weighed


def count_ways(change: Change, hop: int) -> FloatArray:
    """Altered paths below each node at the input of layer `hop`, by set of `merged_steps`, [num_nodes, num_sets]."""
    (counts,) = _ways(change, change.merged_steps, change.lowest_hop, hop)
    return counts


def _ways(
    change: Change, steps: Steps, lowest: int, stop: int, *, weigh_states: bool = False, in_digits: bool = False
) -> Counts:
    key, rise = (id(steps), lowest, weigh_states, in_digits), change.network.rise  # the change holds its steps
    below: Counts | None = change.counted.get(key) if rise is not None and rise <= stop else None
    first = lowest if below is None or rise is None else rise
    if below is None:
        ones = np.zeros((len(change.differs[lowest]), len(steps.sets[lowest - 1].held)))
        ones[:, 1:] = COUNT_STATES[steps.sets[lowest - 1].held[1:]] if weigh_states else 1
        below = [ones]
    for t in range(first, stop + 1):
        if t == rise and change.of_links:
            change.counted[key] = below  # of the nodes, whatever pairs are asked for
        if t == stop:
            break
        ways = ways_over(change, steps, t)
        num_rows = len(ways.indptr) - 1
        receivers = np.repeat(np.arange(num_rows), np.diff(ways.indptr))
        above = [np.zeros((num_rows, len(steps.sets[t].held))) for _ in below]
        for held in range(1, len(steps.sets[t].held)):
            sets = ways.following[held, ways.marks]
            for part, sums in zip(below, above, strict=True):
                sums[:, held] = np.bincount(receivers, part[ways.indices, sets], num_rows)
        # Only whole paths start at a bias; partial ones that end there are not carried further down.
        if lowest == change.lowest_hop and not weigh_states:
            above[0][:, steps.sets[t].starts] += 1
        below = _carry_digits(above) if in_digits else above
    return below


def _count(change: Change, steps: Steps, lowest: int, *, weigh_states: bool = False, in_digits: bool = False) -> Counts:
    """Number of ways to go down from each node through the layers T-1 .. lowest, starting in delta."""
    top = len(change.layers) - 1
    # The root starts in delta, and only where it can differ; there its biases cancel.
    if lowest > top:
        return [np.where(change.differs[-1], 1.0, 0.0)]
    below = _ways(change, steps, lowest, top, weigh_states=weigh_states, in_digits=in_digits)
    ways = ways_over(change, steps, top)
    num_nodes = len(ways.indptr) - 1
    nodes = np.repeat(np.arange(num_nodes), np.diff(ways.descents_indptr))
    senders, sets = ways.indices[ways.descents], ways.following[1, ways.marks[ways.descents]]
    counts: Counts = [np.bincount(nodes, part[senders, sets], num_nodes).astype(np.float64) for part in below]
    return _carry_digits(counts) if in_digits else counts


def _carry_digits(parts: Counts) -> Counts:
    """The same counts with every digit below DIGIT."""
    found, carried = [], np.zeros_like(parts[0])
    for part in parts:
        total = part + carried
        carried = np.floor(total / DIGIT)
        found.append(total - carried * DIGIT)
    return [*found, *_carry_digits([carried])] if carried.any() else found


def walk_paths(change: Change, targets: IntArray) -> PathSet:
    """All altered paths of these nodes. Check with `count_paths` first that they fit into memory."""
    level = start_level(change, targets)
    levels: dict[int, Level] = {}
    begins: dict[int, IntArray] = {}
    for t in range(len(change.layers) - 1, change.lowest_hop - 1, -1):
        levels[t] = level
        if change.network.layers[t].bias is not None:
            begins[t] = change.steps.sets[t].starts[level.sets].astype(np.int64)
        ways = ways_over(change, change.steps, t)
        num_children = np.zeros(len(level.node), dtype=np.int64)
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint16)
        _run_over_children(ways, level, len(level.node), True, num_children, *nothing)
        if t > change.lowest_hop:
            size = int(num_children.sum())
            entry, sets = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.uint16)
            _run_over_children(ways, level, size, False, np.cumsum(num_children) - num_children, entry, sets)
            parent = np.repeat(np.arange(len(level.node)), num_children)
            position = level.position - (not change.layers[t].local)
            level = extend(level, parent, entry, ways.indices[entry], sets, position)
    list_leaves = partial(_run_over_children, ways, level, int(num_children.sum()), False)
    return assemble(change, targets, levels, begins, num_children, list_leaves)


def assemble(
    change: Change,
    targets: IntArray,
    levels: dict[int, Level],
    begins: dict[int, IntArray],
    num_leaves: IntArray,
    list_leaves: Callable[[IntArray, IntArray, NDArray[np.uint16]], None],
) -> PathSet:
    """Paths of the partial ones of all levels: those that start at biases, and those that go on to leaves.

    `begins` says of each layer with a bias how many paths start at that of each suffix, 0 or 1; `list_leaves` writes
    the entries and sets of the leaves of each suffix from its first row on.
    """
    lowest, sets = change.lowest_hop, change.steps.sets
    level = levels[lowest]
    events = [(levels[t].target, number) for t, number in begins.items()]
    starts, indptr = place_rows([*events, (level.target, num_leaves)], targets)
    num_paths = int(indptr[-1])
    paths = np.empty((num_paths, level.trail.shape[1]), dtype=np.int64)
    entry, leaf_sets = np.empty(num_paths, dtype=np.int64), np.zeros(num_paths, dtype=np.uint16)
    list_leaves(starts[-1], entry, leaf_sets)
    held = sets[lowest - 1].held.astype(np.uint16)[leaf_sets]
    begun = {}
    for (t, number), start in zip(begins.items(), starts[:-1], strict=True):
        suffixes = np.flatnonzero(number)
        paths[start[suffixes]], entry[start[suffixes]] = levels[t].trail[suffixes], -1
        begun[t] = np.where(number > 0, start, -1)
    bias_rows = bias_rows_of(change, levels, begun)
    for t, rows in bias_rows.items():
        own = rows >= 0
        held[rows[own]] |= sets[t].sources[levels[t].sets[own]]
    shown = num_leaves, starts[-1], level.trail, change.layers[lowest].indices, entry, paths
    run_in_pieces(fill_leaves, len(level.node), num_paths * WALK_WORK, *shown)
    change.mark_leaves(paths, held)
    return PathSet(targets, indptr, paths, held, entry, levels, bias_rows, starts[-1], num_leaves)


def bias_rows_of(change: Change, levels: dict[int, Level], begun: dict[int, IntArray]) -> dict[int, IntArray]:
    """Layer with a bias -> row of each suffix's bias path; one that began at a local layer goes on at its node."""
    found = {}
    above: IntArray | None = None  # rows of the suffixes at the layer above, if that is local
    for t in sorted(levels, reverse=True):
        rows = np.full(len(levels[t].node), -1) if above is None else above[levels[t].parent]
        if t in begun:
            rows = np.where(begun[t] >= 0, begun[t], rows)
            found[t] = rows
        above = rows if change.layers[t].local else None
    return found


def start_level(change: Change, targets: IntArray) -> Level:
    """The roots that can differ, each a partial path of its own, in delta."""
    batch = np.flatnonzero(change.differs[-1][targets]).astype(np.int32)
    node = targets[batch].astype(np.int32)
    trail = np.full((len(batch), change.network.num_positions), -1, dtype=np.int32)
    trail[:, -1] = node
    parent, entry = np.arange(len(batch), dtype=np.int32), np.zeros(len(batch), dtype=np.int64)
    sets = np.ones(len(batch), dtype=np.uint16)
    return Level(node, batch, parent, entry, sets, trail, change.network.num_positions - 1)


def ways_over(change: Change, steps: Steps, t: int) -> Ways:
    """What walks by these steps do at layer t."""
    layer, descents = change.layers[t], change.descents[t]
    entries = layer.indptr, layer.indices, descents.indptr, descents.entries, descents.marks
    return Ways(*entries, steps.following[t], steps.sets[t].delta_alone)


def _run_over_children(
    ways: Ways,
    level: Level,
    size: int,
    counts: bool,
    rows: IntArray,
    entry: IntArray,
    sets: NDArray[np.uint16],
) -> None:
    """Count the entries that each partial path goes on over, or list them with the sets that they lead to."""
    entries = ways.indptr, ways.descents_indptr, ways.descents, ways.marks
    given = *entries, ways.following, ways.delta_alone.view(np.uint8), level.node, level.sets
    run_in_pieces(list_children, len(level.node), size * WALK_WORK, *given, counts, rows, entry, sets)


def extend(
    level: Level, parent: IntArray, entry: IntArray, node: NDArray[np.int32], sets: NDArray[np.uint16], position: int
) -> Level:
    """The partial paths one node longer, each with its parent and the entry that leads on."""
    trail = level.trail[parent]
    trail[:, position] = node
    return Level(node, level.target[parent], parent.astype(np.int32), entry, sets, trail, position)


def place_rows(events: list[tuple[NDArray[np.int32], IntArray]], targets: IntArray) -> tuple[list[IntArray], IntArray]:
    """First row of each suffix's paths, an event at a time, so that the rows of one target lie together."""
    num_targets = len(targets)
    ends = []  # for each event and target: paths of all targets up to and including it
    for target, count in events:
        running = np.concatenate([[0], np.cumsum(count)])
        ends.append((running, running[np.searchsorted(target, np.arange(num_targets), side="right")]))
    indptr = np.concatenate([[0], sum(end for _, end in ends)])
    free = indptr[:-1].copy()
    starts = []
    for (target, _), (running, end) in zip(events, ends, strict=True):
        first = np.concatenate([[0], end[:-1]])
        starts.append((free - first)[target] + running[:-1])
        free += end - first
    return starts, indptr

"""Change -> Extremes: between which values what a partial path leads to must lie, column by column.

A partial path has arrived at node V, at the output of some layer, in a state. Each of its continuations is a vector c,
and the path that it makes contributes M @ c, with M what is carried down from the root (see `attribution`). The least
and the largest c over all continuations, column by column, bound what any of them can contribute: a path's price by g
is at least sum_d min(m_d low_d, m_d high_d), with m = g @ M. Extremes know no target; all share them.

    one hop deep      every continuation is looked at: a leaf's message, taken through the local layers above its hop;
                      and once more behind the maps of the next hop, whose columns may say more (`low_behind`)
    further up        intervals: a coefficient times the extremes behind a map, which splits them by its entries' signs

What can be missing is 0: a continuation from delta is the sum of what it is in delta, in after and in before, as far as
it exists there, so where several of these meet each one's extremes are made to include 0. The biases of one node are
one continuation. `after` and `before` are one state each here, since the reason why a walk left delta does not change
what lies below. All is widened by more than rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import LEAVE
from ..change.transfer import IN_AFTER, IN_BEFORE, IN_DELTA, Held, Transfer, arrays_of, over_steps, project, tilt
from ..graphs.rows import entries_of
from ..native.extremes import reach_over
from ..native.layers import LayerArrays
from ..native.threads import run_in_pieces
from ..network.layers import Channel, Layer

ENTRIES_AT_ONCE = 1 << 12  # looked at together: what fits into the cache
WIDER = 1e-13  # of the larger side: sums of a few hundred terms round by less
EXTREME_WORK = 40  # operations for one column of one entry, roughly

Interval = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Extremes:
    """Of the continuations from every node at one layer's output, in each of the three states."""

    low: FloatArray  # [num_rows, width]
    high: FloatArray  # [num_rows, width]
    low_behind: FloatArray  # [num_rows, outputs of the next hop's channels, side by side]
    high_behind: FloatArray  # the same
    place: NDArray[np.int32]  # [3, num_nodes]: row of each node that a walk can come to, in each state


class Stage(NamedTuple):
    """A hop and the local layers above it, and in which states what is asked for."""

    change: Change
    hop: int
    top: int  # the highest of these layers
    below: Extremes | None  # of the stage below; None for the lowest
    states: tuple[int, ...]
    arrays: tuple[LayerArrays, ...]  # of the hop and of each local layer

    @property
    def above(self) -> Layer:
        """The hop above."""
        return self.change.network.layers[self.top + 1]


def list_stages(change: Change) -> list[tuple[int, int]]:
    """Each hop and the highest of the local layers above it, from the lowest hop up: where a path stays at one node."""
    hops = [t for t, layer in enumerate(change.layers) if not layer.local]
    return list(zip(hops, [*(t - 1 for t in hops[1:]), len(change.layers) - 1], strict=True))


def find_extremes(change: Change) -> dict[int, Extremes]:
    """By layer: the highest of each stage but the last, where roots are."""
    # Found now: they are run in pieces themselves, and a piece must not wait for others.
    assert len(change.rates) == len(change.layers)
    assert len(change.messages) == 2
    found: dict[int, Extremes] = {}
    below: Extremes | None = None
    visited = find_visited(change)
    for hop, top in list_stages(change)[:-1]:
        below = found[top] = _find_stage(change, hop, top, visited[top], below)
    return found


def find_visited(change: Change) -> dict[int, BoolArray]:
    """By layer, as `find_extremes`: which nodes a walk in after or before can come to, from any root."""
    found = {}
    above = np.zeros(len(change.differs[-1]), dtype=np.bool_)  # where it can be, at the output of the layer above
    for t in range(len(change.layers) - 1, change.lowest_hop, -1):
        layer, descents = change.layers[t], change.descents[t]
        here = np.zeros(len(change.differs[t]), dtype=np.bool_)
        here[layer.indices[np.repeat(above, np.diff(layer.indptr))]] = True
        left = descents.entries[(layer.marks[descents.entries] >> LEAVE != 0).any(axis=1)]
        here[layer.indices[left]] = True
        above = here
        if not layer.local:
            found[t - 1] = here
    return found


def _find_stage(change: Change, hop: int, top: int, visited: BoolArray, below: Extremes | None) -> Extremes:
    num_nodes, width = len(change.layers[top].indptr) - 1, change.network.layers[top].width
    nodes, seen = np.flatnonzero(change.differs[top + 1]), np.flatnonzero(visited)
    # One row at least, for those that no walk comes to: it is looked at and not used.
    size = max(1, len(seen) + 2 * len(nodes))
    columns = int(change.network.layers[top + 1].lay_out(inputs=False)[:, 2].sum())
    low, high = np.zeros((size, width)), np.zeros((size, width))
    low_behind, high_behind = np.zeros((size, columns)), np.zeros((size, columns))
    arrays = tuple(arrays_of(change, t) for t in range(hop, top + 1))
    # Where nothing differs, `before` goes on as `after` does, and no path is in delta.
    jobs = [(seen, (IN_AFTER,), (0,)), (nodes, (IN_DELTA, IN_BEFORE), (len(seen) + len(nodes), len(seen)))]
    for rows, states, first in jobs:
        blocks = list(_cut(rows, np.diff(change.layers[hop].indptr)[rows]))
        look = partial(_look, Stage(change, hop, top, below, states, arrays), [(rows[cut], cut) for cut in blocks])
        targets = [tuple(array[at : at + len(rows)] for array in (low, high, low_behind, high_behind)) for at in first]
        run_in_pieces(look, len(blocks), float(len(rows)) * width * EXTREME_WORK, targets)
    place = np.zeros((3, num_nodes), dtype=np.int32)
    place[:, seen] = np.arange(len(seen))
    place[IN_BEFORE, nodes] = len(seen) + np.arange(len(nodes))
    place[IN_DELTA, nodes] = len(seen) + len(nodes) + np.arange(len(nodes))
    return Extremes(low, high, low_behind, high_behind, place)


def _look(
    stage: Stage, blocks: list[tuple[IntArray, slice]], start: int, stop: int, targets: list[tuple[FloatArray, ...]]
) -> None:
    """Some of the blocks, rows and where they go, into the arrays of each state."""
    for rows, block in blocks[start:stop]:
        found = _lowest(stage, rows) if stage.below is None else _further(stage, rows, stage.below)
        for f, arrays in zip(stage.states, targets, strict=True):
            for (least, most), into in zip(found[f], (arrays[:2], arrays[2:]), strict=True):
                margin = WIDER * np.maximum(np.abs(least), np.abs(most))
                into[0][block], into[1][block] = least - margin, most + margin


def _cut(rows: IntArray, sizes: IntArray) -> Iterator[slice]:
    """Runs of rows with about ENTRIES_AT_ONCE entries each."""
    total = np.cumsum(sizes)
    start = 0
    while start < len(rows):
        done = int(total[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + ENTRIES_AT_ONCE, side="right")))
        stop = min(stop, start + ENTRIES_AT_ONCE, len(rows))
        yield slice(start, stop)
        start = stop


def _lowest(stage: Stage, rows: IntArray) -> dict[int, tuple[Interval, Interval]]:
    """Every leaf of these rows, one by one."""
    change, hop, states = stage.change, stage.hop, stage.states
    layer = change.layers[hop]
    counts, entries = np.diff(layer.indptr)[rows], entries_of(layer.indptr, rows)
    nodes, each = np.repeat(rows, counts), np.arange(len(entries))
    step = Transfer(change, hop, nodes, layer.indices[entries].astype(np.int64), each, each, entries)
    messages = {IN_AFTER: change.messages[1][step.below]} if states == (IN_AFTER,) else step.leaf_messages()
    values = _climb(stage, nodes, step.tilt(step.gather(messages)))
    behind = project(stage.above, values)
    found = {f: (_reduce(values[f], counts), _reduce(behind[f], counts)) for f in states}
    return _with_biases(stage, rows, found)


def _further(stage: Stage, rows: IntArray, below: Extremes) -> dict[int, tuple[Interval, Interval]]:
    """By intervals, from the extremes below the hop."""
    change, hop, top, states = stage.change, stage.hop, stage.top, stage.states
    # Local layers lead from delta to the others, too.
    needed = states if top == hop or IN_DELTA not in states else (IN_DELTA, IN_AFTER, IN_BEFORE)
    ends = below.low_behind, below.high_behind, below.place
    reached: dict[int, Interval] = {}
    for t in range(hop, top + 1):
        if t > hop:
            behind = [_behind(reached[f], change.network.layers[t].channels) for f in needed]
            place = np.zeros_like(below.place)
            for number, f in enumerate(needed):
                place[f, rows] = number * len(rows) + np.arange(len(rows))
            ends = np.concatenate([low for low, _ in behind]), np.concatenate([high for _, high in behind]), place
        reached = {f: _reach(stage, t, rows, f, ends) for f in needed}
    found = {f: (reached[f], _behind(reached[f], stage.above.channels)) for f in states}
    return _with_biases(stage, rows, found)


def _reach(
    stage: Stage, t: int, rows: IntArray, state: int, ends: tuple[FloatArray, FloatArray, NDArray[np.int32]]
) -> Interval:
    """What comes over the entries of these rows in one layer, of ends behind its maps: low, high, place."""
    change, width = stage.change, stage.change.network.layers[t].width
    descents, every = change.descents[t], np.zeros(0, dtype=np.int64)
    entries = (descents.indptr, descents.entries) if state == IN_DELTA else (change.layers[t].indptr, every)
    differs, (low, high) = change.differs[t].view(np.uint8), np.zeros((2, len(rows), width))
    reach_over(rows, state, stage.arrays[t - stage.hop], *entries, differs, *ends, *np.empty((2, width)), low, high)
    one, other = (tilt(change, t, rows, {state: part})[state] for part in (low, high))
    return np.minimum(one, other), np.maximum(one, other)


def _behind(given: Interval, channels: tuple[Channel, ...]) -> Interval:
    """What the maps of channels make of all that lies between, side by side."""
    low, high = [], []
    for channel in channels:
        least, most, weight = given[0][:, channel.inputs], given[1][:, channel.inputs], channel.weight
        if weight is not None:
            up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
            least, most = least @ up + most @ down, most @ up + least @ down
        low.append(least)
        high.append(most)
    return np.hstack(low), np.hstack(high)


def _reduce(values: FloatArray, counts: IntArray) -> Interval:
    """Least and largest of each row; 0 where a row has none."""
    low, high = np.zeros((2, len(counts), values.shape[1]))
    some = counts > 0
    if some.any():
        starts = (np.cumsum(counts) - counts)[some]
        low[some], high[some] = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return low, high


def _with_biases(
    stage: Stage, rows: IntArray, found: dict[int, tuple[Interval, Interval]]
) -> dict[int, tuple[Interval, Interval]]:
    """The same with one continuation more a row, where the stage has biases: what starts at those of its node."""
    change, layers = stage.change, stage.change.network.layers
    if all(layers[t].bias is None for t in range(stage.hop, stage.top + 1)):
        return found
    values = {state: np.zeros((len(rows), layers[stage.hop].width)) for state in (IN_DELTA, IN_AFTER, IN_BEFORE)}
    _add_bias(layers[stage.hop], values)
    values = _climb(stage, rows, tilt(change, stage.hop, rows, values), biased=True)
    behind = project(stage.above, values)
    some = (np.diff(change.layers[stage.hop].indptr)[rows] > 0)[:, None]
    # Where it is the only one there is no other to be the least.
    return {f: (_join(whole, values[f], some), _join(mapped, behind[f], some)) for f, (whole, mapped) in found.items()}


def _join(given: Interval, one: FloatArray, some: BoolArray) -> Interval:
    return np.where(some, np.minimum(given[0], one), one), np.where(some, np.maximum(given[1], one), one)


def _climb(stage: Stage, nodes: IntArray, values: Held, *, biased: bool = False) -> Held:
    """What continuations at these nodes are above the local layers of the stage."""
    for t in range(stage.hop + 1, stage.top + 1):
        step = over_steps(stage.change, t, nodes, nodes)
        values = step.gather(step.project(values))
        if biased:
            _add_bias(step.layer, values)
        values = step.tilt(values)
    return values


def _add_bias(layer: Layer, values: Held) -> None:
    """In delta the biases of both snapshots cancel."""
    if layer.bias is not None:
        values[IN_AFTER] += layer.bias
        values[IN_BEFORE] += layer.bias

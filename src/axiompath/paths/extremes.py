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
from ..change.comparison import Change, LayerChange
from ..change.states import LEAVE
from ..change.transfer import arrays_of
from ..native.extremes import reach_over
from ..native.layers import LayerArrays
from ..native.threads import run_in_pieces
from ..network.layers import Channel

ENTRIES_AT_ONCE = 1 << 12  # looked at together: what fits into the cache
WIDER = 1e-13  # of the larger side: sums of a few hundred terms round by less
EXTREME_WORK = 40  # operations for one column of one entry, roughly
IN_DELTA, NOW, ONCE = range(3)  # states without their reasons: delta, after, before

Interval = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Extremes:
    """Of the continuations from every node at one layer's output, in each of the three states."""

    low: FloatArray  # [num_rows, width]
    high: FloatArray  # [num_rows, width]
    low_behind: FloatArray  # [num_rows, outputs of the next hop's channels, side by side]
    high_behind: FloatArray  # the same
    place: NDArray[np.int32]  # [3, num_nodes]: row of each node that a walk can come to, in each state


class HopStage(NamedTuple):
    """A hop and the local layers above it, and in which states what is asked for."""

    change: Change
    hop: int
    top: int  # the highest of these layers
    channels: tuple[Channel, ...]  # of the hop above them
    below: Extremes | None  # of the stage below; None for the lowest
    states: tuple[int, ...]
    arrays: LayerArrays  # of the hop


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
    channels = change.network.layers[top + 1].channels
    columns = sum(channel.outputs.stop - channel.outputs.start for channel in channels)
    low, high = np.zeros((size, width)), np.zeros((size, width))
    low_behind, high_behind = np.zeros((size, columns)), np.zeros((size, columns))
    arrays = arrays_of(change, hop)
    # Where nothing differs, `before` goes on as `after` does, and no path is in delta.
    jobs = [(seen, (NOW,), (0,)), (nodes, (IN_DELTA, ONCE), (len(seen) + len(nodes), len(seen)))]
    for rows, states, first in jobs:
        blocks = list(_cut(rows, np.diff(change.layers[hop].indptr)[rows]))
        stage = HopStage(change, hop, top, channels, below, states, arrays)
        look = partial(_look, stage, [(rows[cut], cut) for cut in blocks])
        targets = [tuple(array[at : at + len(rows)] for array in (low, high, low_behind, high_behind)) for at in first]
        run_in_pieces(look, len(blocks), float(len(rows)) * width * EXTREME_WORK, targets)
    place = np.zeros((3, num_nodes), dtype=np.int32)
    place[:, seen] = np.arange(len(seen))
    place[ONCE, nodes] = len(seen) + np.arange(len(nodes))
    place[IN_DELTA, nodes] = len(seen) + len(nodes) + np.arange(len(nodes))
    return Extremes(low, high, low_behind, high_behind, place)


def _look(
    stage: HopStage, blocks: list[tuple[IntArray, slice]], start: int, stop: int, targets: list[tuple[FloatArray, ...]]
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


def _lowest(stage: HopStage, rows: IntArray) -> dict[int, tuple[Interval, Interval]]:
    """Every leaf of these rows, one by one."""
    change, hop, top, channels, _, states, _ = stage
    layer = change.layers[hop]
    entries, counts = gather_entries(layer.indptr, rows)
    nodes, senders = np.repeat(rows, counts), layer.indices[entries]
    y_before, y_after = change.messages
    values = [np.zeros((len(entries), change.network.layers[hop].width)) for _ in range(3)]
    for column, low, size, rule in change.network.layers[hop].lay_out(inputs=False).tolist():
        taken, given = slice(low, low + size), slice(column, column + size)
        now, once, kept, gained, lost = (part[:, None] for part in _divided(layer, entries, rule))
        new = y_after[senders, given]
        values[NOW][:, taken] += now * new
        if states != (NOW,):
            old = y_before[senders, given]
            values[ONCE][:, taken] += once * old
            values[IN_DELTA][:, taken] += kept * (new - old) + gained * new + lost * old
    _tilt(change, hop, nodes, values)
    for t in range(hop + 1, top + 1):
        values = _pass_local(change, t, nodes, values)
        _tilt(change, t, nodes, values)
    biases = _pass_biases(change, hop, top, rows)
    found = {}
    for f in states:
        whole = _reduce((values[f], values[f]), counts)
        maps = np.hstack([_map(values[f][:, channel.inputs], channel) for channel in channels])
        behind = _reduce((maps, maps), counts)
        if biases is not None:
            maps = np.hstack([_map(biases[f][:, channel.inputs], channel) for channel in channels])
            whole, behind = _join(whole, biases[f], counts), _join(behind, maps, counts)
        found[f] = whole, behind
    return found


def _further(stage: HopStage, rows: IntArray, below: Extremes) -> dict[int, tuple[Interval, Interval]]:
    """By intervals, from the extremes below the hop."""
    change, hop, top, channels, _, states, _ = stage
    biases = _pass_biases(change, hop, top, rows)
    layer, network = change.layers[hop], change.network
    reached: dict[int, Interval] = {}
    here, every = change.descents[hop], np.zeros(0, dtype=np.int64)
    differs, ends = change.differs[hop].view(np.uint8), (below.low_behind, below.high_behind)
    # Local layers lead from delta to the others, too.
    for f in states if top == hop or states == (NOW,) else (IN_DELTA, NOW, ONCE):
        shape = len(rows), network.layers[hop].width
        reached[f] = np.zeros(shape), np.zeros(shape)
        entries = (here.indptr, here.entries) if f == IN_DELTA else (layer.indptr, every)
        least, most = np.empty((2, shape[1]))
        reach_over(rows, f, stage.arrays, *entries, differs, *ends, below.place, least, most, *reached[f])
    _tilt_intervals(change, hop, rows, reached)
    for t in range(hop + 1, top + 1):
        reached = _pass_intervals(change, t, rows, reached)
        _tilt_intervals(change, t, rows, reached)
    found = {}
    counts = np.diff(layer.indptr)[rows]
    for f in states:
        whole = reached[f]
        if biases is not None:
            whole = _join(whole, biases[f], counts)
        behind = [_map_interval((whole[0][:, c.inputs], whole[1][:, c.inputs]), c.weight) for c in channels]
        found[f] = whole, (np.hstack([low for low, _ in behind]), np.hstack([high for _, high in behind]))
    return found


def gather_entries(indptr: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The entries of these rows, one row behind the other, and how many each has."""
    counts = indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(counts)
    entries = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(indptr[rows] - (ends - counts), counts)
    return entries, counts


def _parts(layer: LayerChange, entries: IntArray, f: int, differs: BoolArray) -> Iterator[tuple[int, FloatArray]]:
    """To which states a walk in state f goes over these entries, and with what factors, [num_entries, num_rules]."""
    if f == NOW:
        yield NOW, layer.after[entries]
    elif f == ONCE:
        yield ONCE, layer.before[entries]
    else:
        kept = layer.kept[entries]
        yield IN_DELTA, np.where(differs[:, None], kept, 0.0)
        yield NOW, layer.after[entries] - layer.kept_after[entries]
        yield ONCE, layer.kept_before[entries] - layer.before[entries]


def _divided(layer: LayerChange, entries: IntArray, rule: int) -> tuple[FloatArray, ...]:
    """Of one rule over these entries: after, before, kept, gained, and minus what is lost. [num_entries] each."""
    at = entries, rule
    now, once = layer.after[at], layer.before[at]
    return now, once, layer.kept[at], now - layer.kept_after[at], layer.kept_before[at] - once


def _several(parts: list[tuple[int, FloatArray]]) -> BoolArray:
    """Where more than one state goes on."""
    return np.asarray(sum((factors != 0).any(axis=1).astype(np.int8) for _, factors in parts) > 1)


def _add_scaled(to: Interval, factor: FloatArray, given: Interval, several: BoolArray) -> None:
    """Add factor * [low, high], with 0 between the two where several states meet."""
    low = np.where(several[:, None], np.minimum(given[0], 0.0), given[0])
    high = np.where(several[:, None], np.maximum(given[1], 0.0), given[1])
    one, other = factor[:, None] * low, factor[:, None] * high
    to[0][...] += np.minimum(one, other)
    to[1][...] += np.maximum(one, other)


def _reduce(given: Interval, counts: IntArray) -> Interval:
    """Least and largest of each row; 0 where a row has none."""
    width = given[0].shape[1]
    low, high = np.zeros((len(counts), width)), np.zeros((len(counts), width))
    some = counts > 0
    if some.any():
        starts = (np.cumsum(counts) - counts)[some]
        low[some], high[some] = np.minimum.reduceat(given[0], starts), np.maximum.reduceat(given[1], starts)
    return low, high


def _join(given: Interval, one: FloatArray, counts: IntArray) -> Interval:
    """One continuation more a row; where it is the only one there is no other to be the least."""
    some = (counts > 0)[:, None]
    return np.where(some, np.minimum(given[0], one), one), np.where(some, np.maximum(given[1], one), one)


def _map(h: FloatArray, channel: Channel) -> FloatArray:
    return h if channel.weight is None else h @ channel.weight


def _map_interval(given: Interval, weight: FloatArray | None) -> Interval:
    """What a map makes of all that lies between."""
    if weight is None:
        return given
    up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
    low, high = given
    return low @ up + high @ down, high @ up + low @ down


def _slopes(change: Change, t: int, f: int, nodes: IntArray) -> FloatArray | None:
    rates = change.rates[t]
    return None if rates is None else rates.slopes[rates.place[f, nodes]]


def _tilt(change: Change, t: int, nodes: IntArray, values: list[FloatArray]) -> None:
    for f in range(3):
        slopes = _slopes(change, t, f, nodes)
        if slopes is not None:
            values[f] *= slopes


def _tilt_intervals(change: Change, t: int, nodes: IntArray, reached: dict[int, Interval]) -> None:
    for f, (low, high) in reached.items():
        slopes = _slopes(change, t, f, nodes)
        if slopes is not None:
            one, other = low * slopes, high * slopes
            reached[f] = np.minimum(one, other), np.maximum(one, other)


def _own_entries(layer: LayerChange, nodes: IntArray) -> tuple[IntArray, BoolArray]:
    """The one entry that a node has in a local layer, and whether it has it."""
    has = layer.indptr[nodes + 1] > layer.indptr[nodes]
    return np.where(has, layer.indptr[nodes], 0), has


def _pass_local(change: Change, t: int, nodes: IntArray, values: list[FloatArray]) -> list[FloatArray]:
    """What continuations are one local layer higher, before its slopes; each is known in all three states."""
    layer, above = change.layers[t], change.network.layers[t]
    entries, has = _own_entries(layer, nodes)
    passed = [np.zeros((len(nodes), above.width)) for _ in range(3)]
    if not has.any():
        return passed
    for channel, rule in zip(above.channels, above.rule_numbers, strict=True):
        parts = _divided(layer, entries, rule)
        now, once, kept, gained, lost = (np.where(has, part, 0.0)[:, None] for part in parts)
        delta, new, old = (value[:, channel.inputs] for value in values)
        sources = (kept * delta + gained * new + lost * old, now * new, once * old)
        for f in range(3):
            passed[f][:, channel.outputs] += _map(sources[f], channel)
    return passed


def _pass_intervals(change: Change, t: int, nodes: IntArray, reached: dict[int, Interval]) -> dict[int, Interval]:
    """The same for intervals, in those states that are asked for."""
    layer, above = change.layers[t], change.network.layers[t]
    entries, has = _own_entries(layer, nodes)
    passed = {f: (np.zeros((len(nodes), above.width)), np.zeros((len(nodes), above.width))) for f in reached}
    if not has.any():
        return passed
    for f, (low, high) in passed.items():
        parts = list(_parts(layer, entries, f, np.ones(len(nodes), dtype=np.bool_)))
        several = _several(parts)
        for channel, rule in zip(above.channels, above.rule_numbers, strict=True):
            shape = len(nodes), channel.inputs.stop - channel.inputs.start
            taken = np.zeros(shape), np.zeros(shape)
            for to, factors in parts:
                given = reached[to][0][:, channel.inputs], reached[to][1][:, channel.inputs]
                _add_scaled(taken, np.where(has, factors[:, rule], 0.0), given, several)
            behind = _map_interval(taken, channel.weight)
            low[:, channel.outputs] += behind[0]
            high[:, channel.outputs] += behind[1]
    return passed


def _pass_biases(change: Change, hop: int, top: int, rows: IntArray) -> list[FloatArray] | None:
    """What starts at the biases of each row's node, in the three states; None where the stage has none."""
    layers = change.network.layers
    if all(layers[t].bias is None for t in range(hop, top + 1)):
        return None
    values = [np.zeros((len(rows), layers[hop].width)) for _ in range(3)]
    for t in range(hop, top + 1):
        if t > hop:
            values = _pass_local(change, t, rows, values)
        bias = layers[t].bias
        if bias is not None:
            # In delta the biases of both snapshots cancel.
            values[NOW] += bias
            values[ONCE] += bias
        _tilt(change, t, rows, values)
    return values

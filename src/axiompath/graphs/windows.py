"""Events + how often and how long -> Windows: which events each snapshot is made of, and the edges they make.

A window holds the events from its start up to, and without, its end; the next one begins a step later. Only windows
whose end the events have reached are made: what comes later cannot change them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from .clock import Times, choose_period, first_start, read_moment, read_period, show_period, show_time
from .events import Events

RULES = ("once", "count", "sum", "mean", "min", "max", "first", "last")
SO_FAR = "all"
OTHER_RELATIONS = "other"  # relations that are too rare for a name
MAX_SNAPSHOTS = 10_000
FEW_SNAPSHOTS = 1000  # of whatever events there are; more than that, one per event: most windows would be empty


@dataclass(frozen=True, eq=False)
class Windows:
    """Bounds [num_windows] on the line of times, and of the rows of the events that lie within."""

    starts: Any  # as the times are
    ends: Any
    first: IntArray
    stop: IntArray
    every: int | float
    window: int | float | None  # None: all events so far
    dated: bool

    @property
    def names(self) -> tuple[str, ...]:
        """What a snapshot is called: the moment at which its window ends."""
        return tuple(show_time(end, self.dated) for end in self.ends.tolist())

    @property
    def rule(self) -> str:
        """What is in a window, in words."""
        step = show_period(self.every, self.dated)
        if self.window is None:
            return f"all events so far, every {step}"
        return f"events of the last {show_period(self.window, self.dated)}, every {step}"


def cut_windows(events: Events, every: Any = None, window: Any = None, start: Any = None, until: Any = None) -> Windows:
    """Where windows begin and end; `until` is the moment up to which the events are complete."""
    times = events.times
    step = choose_period(times) if every is None else read_period(every, times, "every")
    so_far = window == SO_FAR if isinstance(window, str) else False
    length = step if so_far else 3 * step if window is None else read_period(window, times, "window")
    begin = first_start(times, step) if start is None else read_moment(start, times, "start")
    last = times.values[-1].item() + times.grain if until is None else read_moment(until, times, "until")
    if not math.isfinite((last - begin - length) / step):
        raise InputError(
            f"Expected a step that the time from {show_time(begin, times.dated)} to {show_time(last, times.dated)} "
            f"can be counted in (got {show_period(step, times.dated)}); give a longer `every`."
        )
    count = int((last - begin - length) // step) + 1
    if count < 1:
        span = show_period(max(last - begin, 0), times.dated)
        raise InputError(
            f"Expected events that fill a window of {show_period(length, times.dated)} (got events over {span}, from "
            f"{show_time(begin, times.dated)} on); give a shorter `window`, or `until` if they are complete."
        )
    if count > min(MAX_SNAPSHOTS, max(FEW_SNAPSHOTS, len(events))):
        raise InputError(
            f"Expected at most {MAX_SNAPSHOTS:,} snapshots, and of few events {FEW_SNAPSHOTS:,} or one per event (got "
            f"{count:,} of {len(events):,} events, one every {show_period(step, times.dated)} from "
            f"{show_time(begin, times.dated)} on); give a longer `every`, or mend a time that lies far from the others."
        )
    # Python's numbers: a step beyond 64 bits makes one window.
    starts = np.array([begin + step * i for i in range(count)])
    ends = np.array([begin + step * i + length for i in range(count)])
    if so_far:
        starts = np.full_like(starts, min(begin, times.values[0]))
    first, stop = np.searchsorted(times.values, starts), np.searchsorted(times.values, ends)
    return Windows(starts, ends, first, stop, step, None if so_far else length, times.dated)


def whole_windows(times: Times, count: int) -> Windows:
    """Windows of one moment each, 0 to count - 1: what was given is a list of graphs."""
    moments = np.arange(count)
    first, stop = np.searchsorted(times.values, moments), np.searchsorted(times.values, moments, side="right")
    return Windows(moments, moments, first, stop, 1, 1, False)


def keep_relations(events: Events, windows: Windows, most: int | None) -> Events:
    """The same with only the commonest relations of the first window; all others are one, the last."""
    if events.relation is None or most is None:
        return events
    if most < 1:
        raise InputError(f"Expected a number of relations of 1 or more (got {most}).")
    counts = np.bincount(events.relation[windows.first[0] : windows.stop[0]], minlength=len(events.relation_names))
    kept = np.argsort(-counts, kind="stable")[:most]
    kept = kept[counts[kept] > 0]
    places = np.full(len(counts), len(kept))
    places[kept] = np.arange(len(kept))
    names = (*(events.relation_names[kind] for kind in kept.tolist()), OTHER_RELATIONS)
    return replace(events, relation=places[events.relation], relation_names=names)


def pair_keys(source: IntArray, target: IntArray) -> IntArray:
    """One number per pair, which orders as the pair does; nodes are numbered below 2^31."""
    return source << 31 | target


def split_keys(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Pairs of their numbers."""
    return keys >> 31, keys & (2**31 - 1)


class PooledEdges(NamedTuple):
    """The edges that events make: one per pair, or one per pair and relation, sorted."""

    edges: IntArray  # [2, num_edges]
    weights: FloatArray | None
    relations: IntArray | None
    last: IntArray  # [num_edges]: place of the last event of each among the events


def pool_edges(
    source: IntArray,
    target: IntArray,
    weights: FloatArray | None,
    rule: str,
    *,
    directed: bool,
    relations: IntArray | None = None,
) -> PooledEdges:
    """One edge a pair (and relation, where there are any), and its weight by this rule, None for `once`.

    Events are in order of time. Where edges have no direction, events of both directions make one edge, which is listed
    in both.
    """
    if rule not in RULES:
        raise InputError(f"Expected a rule among {', '.join(RULES)} (got {rule!r}).")
    if weights is None and rule not in ("once", "count"):
        raise InputError(
            f"Expected weights for the rule {rule!r} (got none); name their column, or take once or count."
        )
    if not directed:
        source, target = np.minimum(source, target), np.maximum(source, target)
    keys, kinds = pair_keys(source, target), np.zeros(len(source), dtype=np.int64) if relations is None else relations
    order = np.lexsort((kinds, keys))  # events of a pair stay in order of time
    keys, kinds = keys[order], kinds[order]
    begins = np.flatnonzero((np.diff(keys, prepend=-1) != 0) | (np.diff(kinds, prepend=-1) != 0))
    pooled = None if rule == "once" else _pool(None if weights is None else weights[order], begins, len(order), rule)
    edges, kinds = np.stack(split_keys(keys[begins])), kinds[begins]
    last = order[np.append(begins[1:], len(order)) - 1] if len(begins) else order
    if not directed:
        mirrored = np.flatnonzero(edges[0] != edges[1])
        edges = np.concatenate([edges, edges[::-1, mirrored]], axis=1)
        kinds, last = (np.concatenate([values, values[mirrored]]) for values in (kinds, last))
        order = np.lexsort((kinds, pair_keys(*edges)))
        edges, kinds, last = edges[:, order], kinds[order], last[order]
        pooled = None if pooled is None else np.concatenate([pooled, pooled[mirrored]])[order]
    return PooledEdges(edges, pooled, None if relations is None else kinds, last)


def _pool(weights: FloatArray | None, begins: IntArray, num_events: int, rule: str) -> FloatArray:
    count = np.diff(np.append(begins, num_events)).astype(np.float64)
    if rule == "count" or not len(begins):
        return count
    assert weights is not None
    if rule in ("first", "last"):
        return weights[begins if rule == "first" else (begins + count.astype(np.int64) - 1)]
    if rule in ("min", "max"):
        return (np.minimum if rule == "min" else np.maximum).reduceat(weights, begins)
    total = np.add.reduceat(weights, begins)
    return total / count if rule == "mean" else total

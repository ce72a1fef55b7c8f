"""Columns of dated events -> Events: nodes numbered as they first appear, events in order of time.

Whoever appears first has the lowest number, so that later events never renumber a node.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import InputError, Notice
from ..storage.safe import Damaged, blamed
from .clock import Times, read_times


@dataclass(frozen=True, eq=False)
class Events:
    """Who did something with whom, when, and how much."""

    source: IntArray  # [num_events], numbers of nodes, in order of time
    target: IntArray
    times: Times
    weights: FloatArray | None
    ends: Any  # when what each event began ended, as the times are, the largest number where never; None for no ends
    names: tuple[str, ...]  # of the nodes, by number
    relation: IntArray | None  # what each event is, by number, where kinds of events are distinguished
    relation_names: tuple[str, ...]
    node: IntArray  # appearances: whoever is there at a time, with an event or without, in order of time
    node_times: IntArray | FloatArray
    notes: tuple[str, ...] = ()  # how times were read, and columns that were not

    def __len__(self) -> int:
        """Number of events."""
        return len(self.source)


def read_events(
    source: Any,
    target: Any,
    time: Any,
    weight: Any = None,
    relation: Any = None,
    end: Any = None,
    *,
    what: str = "the events",
    dated: bool | None = False,
    loops: bool = False,
    further_nodes: tuple[Any, Any] | None = None,
) -> Events:
    """Events of columns of any kind; rows with a cell missing are left out, which a Notice counts.

    `further_nodes` are further nodes and the times at which they are there.
    """
    columns: dict[str, Any] = {"source": read_labels(source), "target": read_labels(target), "time": _plain(time)}
    if weight is not None:
        columns["weight"] = _plain(weight)
    if relation is not None:
        columns["relation"] = read_labels(relation)
    ending = None if end is None else _plain(end)
    if len({len(column) for column in (*columns.values(), *([] if ending is None else [ending]))}) > 1:
        sizes = ", ".join(f"{len(column):,} in {name!r}" for name, column in columns.items())
        raise InputError(f"Expected columns of one length in {what} (got {sizes}).")
    missing = np.zeros(len(columns["source"]), dtype=np.bool_)
    for name, column in columns.items():
        missing |= np.asarray(column.isna())
        if _texts(column):
            with blamed(f"Expected text, numbers or dates as {name} in {what} (got something else)."):
                missing |= np.asarray(column.astype(str).str.strip() == "")
    is_loop = np.asarray(columns["source"] == columns["target"]) & ~missing
    kept = ~missing & (True if loops else ~is_loop)
    lost = {"with an empty cell": missing.sum(), "from a node to itself": (~kept & ~missing).sum()}
    reasons = ", ".join(f"{count:,} {why}" for why, count in lost.items() if count)
    if reasons:
        warnings.warn(f"Of {len(missing):,} rows of {what} these are left out: {reasons}.", Notice, stacklevel=4)
    if not kept.any():
        raise InputError(
            f"Expected events in {what} (got {len(missing):,} rows, none of them with two ends and a time)."
        )
    times = read_times(columns["time"][kept], f"the column of times of {what}", dated=dated)
    weights = None if weight is None else read_numbers(columns["weight"][kept], f"the column of weights of {what}")
    ends_at = None if ending is None else _read_ends(ending[kept], times, what)
    order = np.argsort(times.values, kind="stable")
    ends = [columns[side].to_numpy()[kept][order] for side in ("source", "target")]
    pairs = np.stack(ends, axis=1).ravel()  # in order of time, the sender first
    appear, moments = pairs, np.repeat(times.values[order], 2)
    if further_nodes is not None and len(further_nodes[0]):
        further = np.asarray(further_nodes[1]).astype(moments.dtype)
        place = np.argsort(np.concatenate([moments, further]), kind="stable")
        appear = np.concatenate([pairs, read_labels(further_nodes[0]).to_numpy()])[place]
        moments = np.concatenate([moments, further])[place]
    node, names = pd.factorize(appear)
    numbers = node if further_nodes is None or not len(further_nodes[0]) else pd.Index(names).get_indexer(pairs)
    kinds, called = (None, ()) if relation is None else pd.factorize(columns["relation"].to_numpy()[kept][order])
    cut = next((name for name in (*names, *called) if str(name).endswith("\0")), None)
    if cut is not None:  # arrays of text drop it: two names would become one
        raise InputError(f"Expected names that do not end with a NUL character in {what} (got {cut!r}); take it away.")
    return Events(
        source=numbers[0::2].astype(np.int64),
        target=numbers[1::2].astype(np.int64),
        notes=tuple(filter(None, [times.note])),
        times=replace(times, values=times.values[order]),
        weights=None if weights is None else weights[order],
        ends=None if ends_at is None else ends_at[order],
        names=tuple(str(name) for name in names),
        relation=None if kinds is None else kinds.astype(np.int64),
        relation_names=tuple(str(name) for name in called),
        node=node.astype(np.int64),
        node_times=moments,
    )


def read_labels(column: Any) -> pd.Series[Any]:
    """What nodes are called, as text without blanks around it; missing where nothing is there. 7.0 is called 7."""
    series = _plain(column)
    if series.dtype.kind == "f" and _are_whole(series.dropna()):
        series = series.astype("Int64")
    if series.dtype.kind in "mMcV":
        raise InputError(f"Expected text or numbers that name the nodes (got {series.dtype}).")
    missing = series.isna()
    with blamed("Expected text or numbers that name the nodes (got something else)."):
        text = (
            series.astype(object).astype(str).str.strip()
            if not isinstance(series.dtype, pd.StringDtype)
            else series.str.strip()
        )
    return text.astype(object).where(~missing & (text != ""), None)


def _read_ends(column: pd.Series[Any], times: Times, what: str) -> Any:
    """When what each event began ended; the largest number where the cell is empty."""
    there = column.notna() & (column.astype(str).str.strip() != "") if _texts(column) else column.notna()
    never = np.iinfo(np.int64).max if times.values.dtype.kind == "i" else np.inf
    ends = np.full(len(column), never, dtype=times.values.dtype)
    if there.any():
        read = read_times(column[there], f"the column of ends of {what}", dated=times.dated)
        if read.dated != times.dated:
            raise InputError(f"Expected times and ends of one kind in {what} (got dates and numbers).")
        ends[there.to_numpy()] = read.values
    early = np.flatnonzero(ends < times.values)
    if len(early):
        raise InputError(f"Expected ends after the times in {what} (row {column.index[early[0]] + 1} ends before it).")
    return ends


def _are_whole(numbers: pd.Series[Any]) -> bool:
    return bool((numbers == np.rint(numbers)).all() and (numbers.abs() < 2.0**63).all())


def _plain(column: Any) -> pd.Series[Any]:
    """Anything in a row as a Series, its categories spelled out."""
    if hasattr(column, "detach"):
        column = column.detach().cpu().numpy()
    if hasattr(column, "to_pandas"):
        column = column.to_pandas()
    series = pd.Series(column).reset_index(drop=True)
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    return series


def _texts(series: pd.Series[Any]) -> bool:
    return series.dtype.kind == "O" or isinstance(series.dtype, pd.StringDtype)


def read_numbers(column: pd.Series[Any], what: str, remedy: str = "mend it") -> FloatArray:
    """A column as float64, all of it finite; its index says which row a cell came from."""
    with blamed(f"Expected numbers in {what} (got {column.dtype})."):
        if column.dtype.kind in "mMcV":  # dates are no numbers, whatever they are made of
            raise Damaged("another kind")
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"Expected a number in every row of {what} "
            f"(row {column.index[row] + 1} has {str(column.iloc[row])[:40]!r}); {remedy}."
        )
    return numbers

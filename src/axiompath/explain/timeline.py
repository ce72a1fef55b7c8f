"""Legs of a window's change + target -> Timeline: a row per changed thing and date; they sum to every logit's change.

The rows of *revised* and of *news* are where walks leave delta (see `paths.exits`); the passing of time is one row.
Renormalisation is booked on the entry that was reweighted, not on the edge that caused it: which event did it is
blame's to answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..change.comparison import find_ends
from ..errors import InputError
from ..graphs.changes import TIME_PASSED
from ..graphs.labels import FIRST_EDGE, ONE_WAY
from ..graphs.packed import Packing
from ..graphs.places import Target
from ..graphs.snapshot import find_numbers
from ..outputs import Output
from ..paths.exits import share_exits
from ..readers.held import Held
from ..storage.notebook import show

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURES, EDGE, OWN = "features", "edge", "own weight"
LEGS = ("revised", "time", "news")
FINAL = ("softmax", "log_softmax")


@dataclass(frozen=True, eq=False)
class Timeline:
    """What moved one prediction, by item and date; largest share first."""

    target: Target
    name: str
    rows: pd.DataFrame  # leg, date, kind, src, dst and their names, and `share`, of `quantity`
    shares: FloatArray  # [num_rows, num_logits]
    logits_before: FloatArray  # [num_logits]
    logits_after: FloatArray  # [num_logits]
    quantity: str  # what `share` is a share of, in words
    dates: tuple[str, ...]  # of both windows, oldest first
    still: str  # what the passing of time means, in a sentence

    @property
    def legs(self) -> pd.Series[float]:
        """The sums of the three legs: revised, time, news."""
        return self.rows.groupby("leg").share.sum().reindex(LEGS, fill_value=0.0)

    @property
    def completeness(self) -> float:
        """Largest difference between the sum of all rows and the change of a logit."""
        return float(np.abs(self.shares.sum(axis=0) - (self.logits_after - self.logits_before)).max())

    def to_frame(self, by: str | None = None) -> pd.DataFrame:
        """The rows; by="date" sums them by leg and date, by="node" by leg and node (for an edge, its sender)."""
        if by is None:
            return self.rows.copy()
        keys = {"date": ["leg", "date"], "node": ["src", "src_name"]}.get(by)
        if keys is None:
            raise InputError(f'Expected `by` to be "date", "node" or nothing (got {by!r}).')
        grouped = self.rows.groupby(keys, dropna=False, sort=False)
        found = pd.DataFrame(grouped["share"].sum()).reset_index()
        order = np.argsort(-np.abs(found.share.to_numpy()), kind="stable")
        if by == "date":
            places = {date: place for place, date in enumerate(self.dates)}
            order = np.argsort([places.get(date, -1) for date in found.date.tolist()], kind="stable")
        return found.iloc[order].reset_index(drop=True)

    def summary(self, limit: int = 5) -> str:
        """The legs, and the largest rows, in a few lines."""
        legs = ", ".join(f"{leg} {share:+.3g}" for leg, share in self.legs.items())
        lines = [f"{self.quantity} of {self.name} changed by {self.rows.share.sum():+.3g}: {legs}."]
        lines += [f"  {row.share:+.3g}  {self._describe(row)}" for row in self.rows.head(limit).itertuples()]
        if len(self.rows) > limit:
            rest = self.rows.share.iloc[limit:].sum()
            lines.append(f"  {rest:+.3g}  the other {len(self.rows) - limit:,}")
        return "\n".join([*lines, self.still])

    def plot(self, limit: int = 15) -> Figure:
        """A strip: dates across, items down, the colour of a cell is its share; for the `limit` items that moved
        most."""
        from ..report.strip import plot_timeline

        return plot_timeline(self, limit)

    def _describe(self, row: Any) -> str:
        if row.kind == TIME_PASSED:
            return TIME_PASSED
        known = "" if row.leg == "news" else f" ({row.leg})"
        return f"{row.kind} {self.thing(row)} on {row.date}{known}"

    @staticmethod
    def thing(row: Any) -> str:
        """The item of a row, in words."""
        return str(row.src_name) if row.dst_name is None else f"{row.src_name}{ONE_WAY}{row.dst_name}"

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(self.summary(), self.rows)


@dataclass(frozen=True, eq=False)
class Leg:
    """One leg of a window's change: what differs between two windows of the same dates."""

    name: str
    held: Held  # by the model, on both of them
    dates: Sequence[str]  # of the steps


def find_timeline(
    legs: Sequence[Leg],
    packing: Packing,
    target: Target,
    elapsed: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    output: Output,
    dates: Sequence[str],
    still: str,
    node_names: Mapping[int, str],
    class_names: Sequence[str],
) -> Timeline:
    """The rows of every leg; `elapsed` is what time has of each logit, `ends` the logits before and after."""
    new = output.label_pair(*ends)[1]
    slopes = output.slopes(np.array([new]), ends[0][None], ends[1][None])[0]
    tables, shares = [], [elapsed[None]]
    tables.append(pd.DataFrame({"leg": ["time"], "date": [""], "kind": [TIME_PASSED], "src": [-1], "dst": [-1]}))
    for leg in legs:
        table, found = _rows_of(leg, packing, target)
        tables.append(table)
        shares.append(found)
    rows, every = pd.concat(tables, ignore_index=True), np.concatenate(shares)
    if legs[0].held.end in FINAL:  # what a softmax stands on is known up to one number for all classes
        every, ends = _centred(every), (_centred(ends[0]), _centred(ends[1]))
    for end in ("src", "dst"):
        words = [None if node < 0 else node_names.get(node, str(node)) for node in rows[end].tolist()]
        rows[end] = rows[end].astype("Int64").where(rows[end] >= 0)
        rows[f"{end}_name"] = pd.Series(words, dtype=object)
    rows["share"] = every @ slopes
    order = np.argsort(-np.abs(rows.share.to_numpy()), kind="stable")
    word = "The value" if output.kind == "value" else "The probability of"
    label = output.class_name(new, class_names) if output.kind != "value" else str(new) if len(slopes) > 1 else ""
    name = node_names.get(target, str(target)) if isinstance(target, int) else str(target)
    return Timeline(
        target,
        name,
        rows.iloc[order].reset_index(drop=True),
        every[order],
        *ends,
        f"{word} {label}".rstrip(),
        tuple(dates),
        still,
    )


def _centred(values: FloatArray) -> FloatArray:
    return np.asarray(values - values.mean(axis=-1, keepdims=True))


def _rows_of(leg: Leg, packing: Packing, target: Target) -> tuple[pd.DataFrame, FloatArray]:
    """One row per changed thing and date, and its share of every logit."""
    before = leg.held.snapshots[0]
    ids = before.node_ids if before.places is None else before.places.ids
    exits = share_exits(leg.held, int(find_numbers(ids, np.array([target]))[0][0]))
    ids = np.append(before.node_ids, -1)
    senders, receivers = _ends(leg.held, ids[exits.senders], ids[exits.receivers])
    of_nodes = senders < 0
    kind = np.where(of_nodes, 0, np.where(senders == receivers, 2, 1))
    src, dst = np.where(of_nodes, receivers, senders), np.where(kind == 1, receivers, -1)
    keys, place = np.unique(np.column_stack([kind, src, dst]), axis=0, return_inverse=True)
    shares = np.zeros((len(keys), exits.shares.shape[1]))
    np.add.at(shares, place.reshape(-1), exits.shares)
    numbers = np.where(keys[:, 1:] >= 0, keys[:, 1:] % packing.stride, -1)
    table = pd.DataFrame(
        {
            "leg": leg.name,
            "date": np.array(leg.dates, dtype=object)[packing.step_of(keys[:, 1])],
            "kind": np.array([FEATURES, EDGE, OWN], dtype=object)[keys[:, 0]],
            "src": numbers[:, 0],
            "dst": numbers[:, 1],
        }
    )
    return table, shares


def _ends(held: Held, senders: IntArray, receivers: IntArray) -> tuple[IntArray, IntArray]:
    """The same with the ends of edges in place of edges that are places."""
    if held.snapshots[0].edge_rows is None:
        return senders, receivers
    ends = find_ends(*held.snapshots)
    of_edge = [np.where(one <= FIRST_EDGE, FIRST_EDGE - one, -1) for one in (senders, receivers)]
    edge = np.maximum(*of_edge)
    here = edge >= 0
    return np.where(here, ends[edge, 0], senders), np.where(here, ends[edge, 1], receivers)

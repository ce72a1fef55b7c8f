"""Two windows of dated snapshots -> the windows between which a prediction changes: before, revised, still, after.

Windows are aligned by date, never by position: compared position by position, yesterday's news comes back today under
another lag. So a prediction changes in three legs, in this order:

    revised    dates that both windows have, and whose data differ, on `before`'s dates
    time       the window moves on, and nothing new happens: from there to `still`, which fills in the new dates
    news       from `still` to `after`

`still="repeat"` has each new date repeat the last snapshot that is known; `"empty"` has the same without its edges, for
snapshots that list the events of their period. A window of the user's says it outright, a function works it out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from ..arrays import IntArray
from ..errors import InputError, WrongKind
from .packed import Packing, find_packing
from .sequence import Snapshots

REPEAT, EMPTY = "repeat", "empty"
Window = list[Data]
Fill = Callable[[Window, list[str]], Sequence[Data]]


@dataclass(frozen=True, eq=False)
class Windows:
    """The window before and the one after, and what would be known if time passed and nothing happened."""

    before: Window
    after: Window
    dates: tuple[tuple[str, ...], tuple[str, ...]]  # of `before` and of `after`, oldest first
    still: str  # in words
    fill: Fill  # what is known, and the new dates -> their snapshots
    packing: Packing

    @cached_property
    def shared(self) -> IntArray:
        """The step of `before` that has the date of each step of `after`; -1 for a new date."""
        places = {date: place for place, date in enumerate(self.dates[0])}
        return np.array([places.get(date, -1) for date in self.dates[1]], dtype=np.int64)

    @cached_property
    def revised(self) -> Window:
        """`before`'s dates, with what `after` knows of them."""
        found = list(self.before)
        for step, place in enumerate(self.shared.tolist()):
            if place >= 0:
                found[place] = self.after[step]
        return found

    @cached_property
    def is_revised(self) -> bool:
        """Whether some date that both windows have differs between them."""
        both = [(self.before[place], self.after[step]) for step, place in enumerate(self.shared.tolist()) if place >= 0]
        return not all(_same(old, new, self.packing) for old, new in both)

    def wait(self, known: Window) -> Window:
        """`after`'s dates with nothing new: what is known of `before`'s dates, and `still` for the others.

        What belongs to a date as a whole, such as its number, is known before it comes.
        """
        new = [date for date, place in zip(self.dates[1], self.shared.tolist(), strict=True) if place < 0]
        filled = [copy.copy(data) for data in self.fill(list(known), new)]
        if len(filled) != len(new):
            raise InputError(
                f"Expected `still` to give a snapshot for each of the {len(new)} new dates, {', '.join(new)} "
                f"(got {len(filled)})."
            )
        found = []
        for step, place in enumerate(self.shared.tolist()):
            data = known[place] if place >= 0 else filled.pop(0)
            if place < 0:
                for field in self.packing.other_fields:
                    data[field] = self.after[step][field]
            found.append(data)
        return found

    @cached_property
    def waited(self) -> Window:
        """`still`: `after`'s dates, nothing new, with the revisions."""
        return self.wait(self.revised)

    @cached_property
    def start(self) -> Window:
        """The same without the revisions: none of all changes has happened."""
        return self.wait(self.before) if self.is_revised else self.waited

    @property
    def meaning(self) -> str:
        """What the passing of time means, in a sentence."""
        return {
            REPEAT: 'Time passes with still="repeat": each new date repeats the last snapshot that is known.',
            EMPTY: 'Time passes with still="empty": a new date has the last known features and no edges.',
        }.get(self.still, f"Time passes with still={self.still}.")


def slide(snapshots: Sequence[Any], size: int, names: Sequence[str]) -> list[Sequence[Any]]:
    """Windows of so many consecutive snapshots, which have the dates that these names say where they have no `time`."""
    if not 0 < size < len(snapshots):
        raise InputError(f"Expected a window of 1 to {len(snapshots) - 1} of {len(snapshots)} snapshots (got {size}).")
    dated: Sequence[Any] = snapshots
    if not isinstance(snapshots, Snapshots):
        dated = [copy.copy(data) for data in snapshots]
        for data, name in zip(dated, names, strict=True):
            data.time = data.get("time", name)
    return [dated[first : first + size] for first in range(len(dated) - size + 1)]


def read_windows(before: Any, after: Any, still: Any = REPEAT, dates: Any = None) -> Windows:
    """Check two windows and align them by date."""
    windows = _read_window(before, "before"), _read_window(after, "after")
    if len(windows[0]) != len(windows[1]):
        raise InputError(
            f"Expected windows of equal length (got {len(windows[0])} before and {len(windows[1])} after)."
        )
    named = _read_dates((before, after), windows, dates)
    if named[0] == named[1] and still is not REPEAT and still != REPEAT:
        raise InputError("Expected a new date for `still` to fill in (got two windows of the same dates).")
    known = set(named[0])
    new = [place for place, date in enumerate(named[1]) if date not in known]
    words, fill = _read_still(still, new, len(windows[1]), find_packing(*windows))
    found = Windows(*windows, named, words, fill, find_packing(*windows))
    find_packing(*windows, found.waited)  # the same nodes and fields in what `still` gives
    return found


def _read_window(window: Any, name: str) -> Window:
    if isinstance(window, Data) or not isinstance(window, Sequence):
        raise WrongKind(
            f"Expected `{name}` to be a list of snapshots, as the other window is (got {type(window).__name__})."
        )
    if not len(window):
        raise InputError(f"Expected a snapshot or more in `{name}` (got an empty list).")
    return list(window)


def _read_dates(given: tuple[Any, Any], windows: tuple[Window, Window], dates: Any) -> Any:
    """Dates of both windows as text: those given, those that `snapshots(...)` named, or `data.time`."""
    if dates is not None:
        if len(dates) != 2 or any(len(own) != len(window) for own, window in zip(dates, windows, strict=True)):
            raise InputError(
                f"Expected `dates` to be two lists, {len(windows[0])} dates before and {len(windows[1])} after "
                f"(got {dates!r})."
            )
        named = [[_show(date) for date in own] for own in dates]
    elif all(isinstance(one, Snapshots) for one in given):
        named = [list(one.names) for one in given]
    elif all(data.get("time") is not None for window in windows for data in window):
        named = [[_show(data["time"]) for data in window] for window in windows]
    else:
        raise InputError(
            "Expected to know the date of every snapshot (got some without); set `data.time` in each, slice what "
            "`snapshots(...)` gives, or pass `dates=([...], [...])`. Windows are aligned by date."
        )
    for own, name in zip(named, ("before", "after"), strict=True):
        if len(set(own)) < len(own):
            raise InputError(f"Expected every date once in `{name}` (got {', '.join(own)}).")
    order = [date for date in named[1] if date in named[0]]
    if order != [date for date in named[0] if date in named[1]]:
        raise InputError(f"Expected both windows in order of time (got {named[0]} and {named[1]}); oldest first.")
    return tuple(map(tuple, named))


def _show(date: Any) -> str:
    """A date as text, no finer than it is."""
    if isinstance(date, (torch.Tensor, np.ndarray)) and np.size(date) == 1:
        date = date.item()
    return str(date).removesuffix(" 00:00:00").removesuffix("T00:00:00")


def _read_still(still: Any, new: list[int], num_steps: int, packing: Packing) -> tuple[str, Fill]:
    if isinstance(still, str) and still in (REPEAT, EMPTY):
        return (
            still,
            lambda known, dates: [known[-1] if still == REPEAT else _without_edges(known[-1], packing)] * len(dates),
        )
    if callable(still):
        return f"{getattr(still, '__name__', 'a function')}()", still
    if isinstance(still, Sequence) and not isinstance(still, str) and len(still) in (len(new), num_steps):
        chosen = list(still) if len(still) == len(new) else [still[place] for place in new]
        return "the given window", lambda known, dates: chosen
    raise InputError(
        f'Expected `still` to be "{REPEAT}", "{EMPTY}", a list of {len(new)} snapshots for the new dates, or a '
        f"function of what is known and of these dates (got {still!r})."
    )


def _without_edges(data: Data, packing: Packing) -> Data:
    found = copy.copy(data)
    for name in packing.sets:
        found[name] = data[name][:, :0]
    for _, parts in packing.edge_fields:
        for _, field in parts:
            found[field] = data[field][:0]
    return found


def _same(old: Data, new: Data, packing: Packing) -> bool:
    """Whether two snapshots of one date are the same in all that changes can carry."""
    fields = [*packing.sets, *packing.node_fields, *(one for _, parts in packing.edge_fields for _, one in parts)]
    return all(old[field] is new[field] or torch.equal(old[field], new[field]) for field in fields)

"""Timeline -> a strip, dates across and things down, a cell's colour its share: a figure, or values for a page."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ..arrays import FloatArray
from ..explain.timeline import Timeline
from ..graphs.changes import TIME_PASSED
from .page import number
from .plots import plain_text

ROW_HEIGHT, COLUMN_WIDTH = 0.3, 0.55
MOST_SHOWN = 12  # things on a page


class Strip(NamedTuple):
    """The things that moved most, and all the others together."""

    labels: list[str]
    cells: FloatArray  # [num_labels, num_dates]


def lay_out(timeline: Timeline, limit: int) -> Strip:
    """The `limit` things that moved most; below them all the others."""
    rows = timeline.rows[timeline.rows.kind != TIME_PASSED]
    things = np.array([f"{row.kind} {timeline.thing(row)}" for row in rows.itertuples()], dtype=object)
    moved = rows.share.abs().groupby(things, sort=False).sum().sort_values(ascending=False, kind="stable")
    shown = moved.index[:limit].tolist()
    labels = [*shown, *([f"{len(moved) - len(shown):,} others"] if len(moved) > len(shown) else [])]
    line_of = {thing: line for line, thing in enumerate(shown)}
    column_of = {date: column for column, date in enumerate(timeline.dates)}
    cells = np.zeros((len(labels), len(column_of)))
    for thing, date, share in zip(things.tolist(), rows.date.tolist(), rows.share.tolist(), strict=True):
        cells[line_of.get(thing, len(labels) - 1), column_of[date]] += share
    return Strip(labels, cells)


def describe_timeline(timeline: Timeline) -> dict[str, Any]:
    """What a page shows of a window: the legs, the meaning of time, and the strip."""
    strip = lay_out(timeline, MOST_SHOWN)
    legs = timeline.legs
    moved = f"{timeline.quantity} changed by {legs.sum():+.3g}"
    return {
        "summary": f"{moved}: {', '.join(f'{leg} {share:+.3g}' for leg, share in legs.items())}. {timeline.still}",
        "legs": {str(leg): number(share) for leg, share in legs.items()},
        "dates": list(timeline.dates),
        "labels": strip.labels,
        "cells": [[number(share) for share in row] for row in strip.cells.tolist()],
    }


def plot_timeline(timeline: Timeline, limit: int) -> Figure:
    """The strip as a figure."""
    labels, cells = lay_out(timeline, limit)
    cells = cells if len(cells) else np.zeros((1, len(timeline.dates)))
    size = 3.5 + COLUMN_WIDTH * cells.shape[1], 1.6 + ROW_HEIGHT * len(labels)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    most = float(np.abs(cells).max()) or 1.0
    image = axes.imshow(cells, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most)
    axes.set_xticks(range(cells.shape[1]), [plain_text(date) for date in timeline.dates], rotation=45, ha="right")
    axes.set_yticks(range(len(labels)), [plain_text(label) for label in labels])
    axes.set_title(
        plain_text(f"{timeline.name}\n" + ", ".join(f"{leg} {share:+.3g}" for leg, share in timeline.legs.items())),
        fontsize=10, fontweight="bold", loc="left",
    )  # fmt: skip
    figure.colorbar(image, ax=axes, label=plain_text(timeline.quantity))
    return figure

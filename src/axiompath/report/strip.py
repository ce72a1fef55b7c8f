"""Timeline -> matplotlib figure: a strip, dates across and things down, a cell's colour its share."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..explain.timeline import Timeline
from ..graphs.changes import TIME_PASSED
from .slides import plain_text

ROW_HEIGHT, COLUMN_WIDTH = 0.3, 0.55


def plot_timeline(timeline: Timeline, limit: int) -> Figure:
    """The `limit` things that moved most; above them the passing of time, below them all the others together."""
    rows = timeline.rows[timeline.rows.kind != TIME_PASSED]
    things = np.array([f"{row.kind} {timeline.thing(row)}" for row in rows.itertuples()], dtype=object)
    moved = rows.share.abs().groupby(things, sort=False).sum().sort_values(ascending=False, kind="stable")
    shown = moved.index[:limit].tolist()
    labels = [*shown, *([f"{len(moved) - len(shown):,} others"] if len(moved) > len(shown) else [])]
    line_of = {thing: line for line, thing in enumerate(shown)}
    column_of = {date: column for column, date in enumerate(timeline.dates)}
    cells = np.zeros((max(len(labels), 1), len(column_of)))
    for thing, date, share in zip(things.tolist(), rows.date.tolist(), rows.share.tolist(), strict=True):
        cells[line_of.get(thing, len(labels) - 1), column_of[date]] += share
    figure = Figure(figsize=(3.5 + COLUMN_WIDTH * len(column_of), 1.6 + ROW_HEIGHT * len(labels)), layout="constrained")
    axes = figure.add_subplot()
    most = float(np.abs(cells).max()) or 1.0
    image = axes.imshow(cells, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most)
    axes.set_xticks(range(len(column_of)), [plain_text(date) for date in column_of], rotation=45, ha="right")
    axes.set_yticks(range(len(labels)), [plain_text(label) for label in labels])
    axes.set_title(
        plain_text(f"{timeline.name}: " + ", ".join(f"{leg} {share:+.3g}" for leg, share in timeline.legs.items())),
        fontsize=11, fontweight="bold", loc="left",
    )  # fmt: skip
    figure.colorbar(image, ax=axes, label=plain_text(timeline.quantity))
    return figure

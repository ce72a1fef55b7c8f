"""Explanation -> matplotlib figure: probabilities, waterfall and flow, for papers and notebooks."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline

from ..arrays import FloatArray
from ..errors import InputError
from ..explain.explanation import Explanation
from ..graphs.labels import ABSENT, ANY, FIRST_EDGE
from ..outputs import VALUE
from .drawn import as_drawn
from .page import name_columns
from .slides import (
    AFTER,
    BEFORE,
    COLOURS,
    Step,
    draw_waterfall,
    legend_of,
    open_axes,
    plain_text,
    shorten,
    write_title,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_STEPS, SLIDE_STEPS = 20, 10
MAX_CLASSES = 10
REST = -3
BUNDLE = -4  # the first group's station, those of others further down


@dataclass(frozen=True)
class Ribbon:
    """One path of the picture, or all others together: the boxes it runs through, leaf first."""

    kind: str
    share: float
    boxes: tuple[int | None, ...]  # the node in each column, -1 for a bias, REST for all others; None before it starts


@dataclass
class Box:
    """A node in one column, and where it lies."""

    size: float = 0.0
    bottom: float = 0.0
    ribbons: list[int] = field(default_factory=list)


def plot_explanation(explanation: Explanation, label: int | None = None) -> Figure:
    """Three panels. The share shown is of one class's logit, or of the new class against the old where they differ."""
    headline, explanation = explanation.headline, as_drawn(explanation)
    shown = share_of(explanation, label)
    figure = Figure(figsize=(11, 7.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1, 1.5], height_ratios=[1, 1.15])
    figure.suptitle(plain_text(headline), fontsize=12, fontweight="bold")
    plot_probabilities(figure.add_subplot(grid[0, 0]), explanation)
    plot_waterfall(figure.add_subplot(grid[0, 1]), explanation, shown)
    plot_flow(figure.add_subplot(grid[1, :]), explanation, shown)
    return figure


class Shown(NamedTuple):
    """What the shares of a figure are of."""

    weights: FloatArray  # [num_classes]
    about: str
    before: float
    after: float


def share_of(explanation: Explanation, label: int | None) -> Shown:
    """One class's logit; without a label the new one against the old, or the probability of one that stayed."""
    e = explanation
    if label is not None and not 0 <= label < len(e.logits_before):
        raise InputError(f"Expected a class between 0 and {len(e.logits_before) - 1} (got {label}).")
    about, weights = e.view
    if label is None and e.output.kind != VALUE and e.class_before == e.class_after:
        return Shown(weights, about, float(e.prob_before[e.class_after]), float(e.prob_after[e.class_after]))
    if label is not None:
        weights = np.eye(len(e.logits_before))[label]
        about = e.column_name(label) if e.output.kind == VALUE else f"the logit of class {e.class_name(label)}"
    return Shown(weights, about, float(e.logits_before @ weights), float(e.logits_after @ weights))


def plot_probabilities(axes: Axes, explanation: Explanation) -> None:
    """Bars side by side; of many classes the ten likeliest."""
    before, after = explanation.prob_before, explanation.prob_after
    kept = np.sort(np.argsort(-np.maximum(before, after), kind="stable")[:MAX_CLASSES])
    place = np.arange(len(kept))
    axes.bar(place - 0.2, before[kept], 0.4, color=BEFORE, label="before")
    axes.bar(place + 0.2, after[kept], 0.4, color=AFTER, label="after")
    names = name_columns(explanation)
    axes.set_xticks(place, [shorten(names[k], 14) for k in kept])
    if explanation.output.kind == VALUE:
        axes.set(ylabel="value", title="Prediction")
    else:
        axes.set(ylim=(0, 1.05), ylabel="probability", title="Prediction")
    axes.legend(frameon=False)
    _tidy(axes)


def plot_paths(explanation: Explanation, label: int | None, ax: Axes | None) -> Axes:
    """A waterfall on axes of their own, fit for a slide: the share of each path, the largest first."""
    headline, explanation = explanation.headline, as_drawn(explanation)
    steps = waterfall_steps(explanation, shown := share_of(explanation, label), SLIDE_STEPS)
    ax = open_axes(ax, 2.4 + 0.44 * (len(steps) + 2))
    draw_waterfall(ax, (shown.before, shown.after), steps, shown.about)
    legend_of(ax, [kind for kind in COLOURS if any(step.kind == kind for step in steps)])
    write_title(ax, headline)
    return ax


def plot_waterfall(axes: Axes, explanation: Explanation, shown: Shown) -> None:
    """The same, as a part of the figure."""
    draw_waterfall(
        axes, (shown.before, shown.after), waterfall_steps(explanation, shown, MAX_STEPS), shown.about, font=8
    )
    axes.set_title("From before to after")


def waterfall_steps(explanation: Explanation, shown: Shown, limit: int) -> list[Step]:
    """From what is shown of `before` to that of `after`: a step for each path, the largest first."""
    weights, _, start, end = shown
    shares = explanation.contributions @ weights
    order = np.argsort(-np.abs(shares), kind="stable")
    steps = [Step(_label(explanation, i), float(shares[i]), explanation.kinds[i]) for i in order[:limit]]
    if len(order) > limit:
        steps.append(Step(f"{len(order) - limit} more", float(shares[order[limit:]].sum()), "unchanged"))
    model, others = float(explanation.model_share @ weights), _num_others(explanation)
    if others:
        steps.append(Step(f"{others:,} other paths", end - start - model - float(shares.sum()), "rest"))
    if explanation.retrained is not None:
        steps.insert(0, Step("the retrained model", model, "model"))
    return steps


def plot_flow(axes: Axes, explanation: Explanation, shown: Shown) -> None:
    """Hops as columns, chosen paths as ribbons as wide as their shares, all others as one pale ribbon."""
    weights, about = shown.weights, shown.about
    ribbons = find_ribbons(explanation, weights)
    whole = float(explanation.data_share @ weights)
    scope = "in all" if explanation.retrained is None else "by the data"
    axes.set_title(f"How the change of {plain_text(about)} flows in ({whole:+.3f} {scope})")
    axes.axis("off")
    if not ribbons:
        return
    num_columns = len(ribbons[0].boxes)
    total = sum(abs(ribbon.share) for ribbon in ribbons) or 1.0
    columns = stack_boxes(ribbons, num_columns, gap=0.025 * total)
    places = _place_ribbons(ribbons, columns)
    for i, ribbon in enumerate(ribbons):
        first = num_columns - sum(node is not None for node in ribbon.boxes)
        for t in range(first, num_columns - 1):
            outline = _ribbon_outline(t + 0.02, t + 1, places[i, t, 1], places[i, t + 1, 0], abs(ribbon.share))
            colour = COLOURS[ribbon.kind]
            hatch = "////" if ribbon.share < 0 else None
            axes.add_patch(PathPatch(outline, facecolor=colour, edgecolor="white", lw=0.3, alpha=0.75, hatch=hatch))
    for t, column in enumerate(columns):
        for node, box in column.items():
            name = _name_box(explanation, node)
            axes.add_patch(Rectangle((t, box.bottom), 0.02, box.size, color="#2c3e50"))
            side, align = (t - 0.02, "right") if t == 0 else (t + 0.04, "left")
            axes.text(side, box.bottom + box.size / 2, shorten(name, 20), va="center", ha=align, fontsize=8)
    axes.set_xlim(-0.35, num_columns - 1 + 0.35)
    axes.autoscale(axis="y")
    kinds = [kind for kind in COLOURS if any(ribbon.kind == kind for ribbon in ribbons)]
    handles = [Rectangle((0, 0), 1, 1, color=COLOURS[kind]) for kind in kinds]
    names = ["all others, net" if kind == "rest" else kind for kind in kinds]
    axes.legend(handles, names, loc="lower center", ncols=len(kinds), frameon=False, bbox_to_anchor=(0.5, -0.1))


def find_ribbons(explanation: Explanation, weights: np.ndarray[Any, Any]) -> list[Ribbon]:
    """The chosen paths, and the net of all others; their shares sum to the whole change, or to the data's."""
    shares = explanation.contributions @ weights
    ribbons = []
    for row, (path, kind, share) in enumerate(zip(explanation.paths.tolist(), explanation.kinds, shares, strict=True)):
        start = _start(path)
        boxes = tuple(None if t < start else BUNDLE - row if node == ANY else node for t, node in enumerate(path))
        ribbons.append(Ribbon(kind, float(share), boxes))
    if _num_others(explanation):
        whole = float(explanation.data_share @ weights)
        num_columns = max(explanation.paths.shape[1], 2)
        assert isinstance(explanation.target, int)  # as drawn
        boxes = (*[REST] * (num_columns - 1), explanation.target)
        ribbons.append(Ribbon("rest", whole - float(shares.sum()), boxes))
    return ribbons


def _name_box(explanation: Explanation, node: int) -> str:
    if node == REST:
        return f"{_num_others(explanation):,} others"
    return (
        explanation.name_of(node)
        if node > BUNDLE or node <= FIRST_EDGE
        else f"{explanation.sizes[BUNDLE - node]:,} paths"
    )


def stack_boxes(ribbons: Sequence[Ribbon], num_columns: int, gap: float) -> list[dict[int, Box]]:
    """Boxes of each column from the top down, ordered by the mean place of the boxes that they send to."""
    columns: list[dict[int, Box]] = [{} for _ in range(num_columns)]
    for t in reversed(range(num_columns)):
        column: dict[int, Box] = {}
        pull: dict[int, float] = {}
        for i, ribbon in enumerate(ribbons):
            node = ribbon.boxes[t]
            if node is None:
                continue
            box = column.setdefault(node, Box())
            box.size += abs(ribbon.share)
            box.ribbons.append(i)
            pull[node] = pull.get(node, 0.0) + abs(ribbon.share) * _bottom_at(ribbon, columns, t + 1)
        order = sorted(column, key=lambda node: -pull[node] / (column[node].size or 1.0))
        columns[t] = {node: column[node] for node in order}
        level = (sum(box.size for box in column.values()) + gap * (len(order) - 1)) / 2
        for box in columns[t].values():
            level -= box.size
            box.bottom = level
            level -= gap
    return columns


def to_notebook_html(explanation: Explanation) -> str:
    """What Jupyter shows of an explanation: the summary and the figure, no script."""
    stream = io.BytesIO()
    plot_explanation(explanation).savefig(stream, format="png", dpi=90)
    picture = base64.b64encode(stream.getvalue()).decode("ascii")
    text = escape(explanation.summary())
    return f'<pre style="white-space:pre-wrap">{text}</pre><img alt="{text}" src="data:image/png;base64,{picture}">'


def _place_ribbons(ribbons: Sequence[Ribbon], columns: list[dict[int, Box]]) -> np.ndarray[Any, Any]:
    """Lower edge of each ribbon at each column, where it comes in and where it goes out. [ribbons, columns, 2]."""
    places = np.full((len(ribbons), len(columns), 2), np.nan)
    for t, column in enumerate(columns):
        for box in column.values():
            for side, other in ((0, t - 1), (1, t + 1)):
                level = box.bottom
                for i in sorted(box.ribbons, key=lambda i: _bottom_at(ribbons[i], columns, other)):
                    places[i, t, side] = level
                    level += abs(ribbons[i].share)
    return places


def _bottom_at(ribbon: Ribbon, columns: list[dict[int, Box]], t: int) -> float:
    node = ribbon.boxes[t] if 0 <= t < len(columns) else None
    return 0.0 if node is None else columns[t][node].bottom


def _ribbon_outline(x0: float, x1: float, y0: float, y1: float, thick: float) -> Outline:
    middle = (x0 + x1) / 2
    lower = [(x0, y0), (middle, y0), (middle, y1), (x1, y1)]
    upper = [(x1, y1 + thick), (middle, y1 + thick), (middle, y0 + thick), (x0, y0 + thick)]
    curve = [Outline.CURVE4] * 3
    return Outline([*lower, *upper, (x0, y0)], [Outline.MOVETO, *curve, Outline.LINETO, *curve, Outline.CLOSEPOLY])


def _num_others(explanation: Explanation) -> int:
    groups = zip(explanation.kinds, explanation.sizes, strict=True)
    return explanation.num_paths - sum(size for kind, size in groups if kind != "unchanged")


def _label(explanation: Explanation, i: int) -> str:
    path = explanation.paths[i].tolist()
    if explanation.relations:
        return explanation.unit_name(i)
    names = [f"{explanation.sizes[i]:,} paths" if node == ANY else explanation.name_of(node) for node in path]
    return " → ".join(names[_start(path) :])


def _start(path: list[int]) -> int:
    """Where a path is shown from: its leaf, or the last of the places before a bias source or the end of a group."""
    first = sum(node < 0 for node in path)
    return first - 1 if first and path[first - 1] != ABSENT else first


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)

"""Blame, Undo, Explanation, Story -> matplotlib axes that can be read at half the width of a slide, and images of them.

Colours are those of Okabe and Ito; what goes down is hatched besides, and every line ends in its name.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.patches import Patch

from ..arrays import FloatArray
from ..blame.blame import Blame
from ..blame.undo import Undo
from ..errors import InputError
from ..explain.explanation import Explanation
from ..graphs.labels import ABSENT, ANY
from ..outputs import CLASSES, VALUE
from ..sequences.story import Story
from .drawn import as_drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which people with any kind of colour vision can distinguish.
COLOURS = {
    "gained": "#0072b2",
    "lost": "#d55e00",
    "reweighted": "#009e73",
    "statistics": "#7b5ea7",
    "feature": "#cc79a7",
    "edge feature": "#56b4e9",
    "model": "#e69f00",
    "unchanged": "#6b7280",
    "rest": "#d5dae0",
}
BEFORE, AFTER = "#a9b8c9", "#17456e"
FONT = 15.0  # points, on a figure of nine inches
WIDTH = 9.0
BAR_HEIGHT = 0.66
LONGEST_NAME, LONGEST_LINE, LONGEST_TITLE = 34, 62, 46
MAX_LINES, MAX_STEPS = 6, 10
STYLES = ("-", "--", ":", "-.")
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


class Step(NamedTuple):
    """One bar on the way from `before` to `after`; one without a kind is coloured by its sign."""

    name: str
    share: float
    kind: str = ""
    error: float = 0.0


def open_axes(ax: Axes | None, height: float) -> Axes:
    """These axes, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot  # shows the figure in a notebook, as pandas does

    return pyplot.subplots(figsize=(WIDTH, height), layout="constrained")[1]


def draw_waterfall(
    ax: Axes,
    ends: tuple[float, float],
    steps: Sequence[Step],
    about: str,
    *,
    bars: bool = False,
) -> None:
    """From the first of `ends` to the last, a step per row; the ends as marks, or as bars where they begin at 0."""
    last = len(steps) + 1
    for row, value, colour in ((0, ends[0], BEFORE), (last, ends[1], AFTER)):
        if bars:
            ax.barh(row, value, height=BAR_HEIGHT, color=colour)
        else:
            ax.plot([value], [row], "D", color=colour, markersize=0.6 * FONT)
        _write(ax, value, row, f"{value:.3g}")
    level = ends[0]
    for row, step in enumerate(steps, start=1):
        colour = COLOURS[step.kind or ("gained" if step.share >= 0 else "lost")]
        hatch = "///" if step.share < 0 else None
        ax.barh(row, step.share, left=level, height=BAR_HEIGHT, color=colour, edgecolor="white", hatch=hatch)
        right = max(level, level + step.share) + 2 * step.error
        level += step.share
        if step.error > 0:
            ax.errorbar(level, row, xerr=2 * step.error, color="black", linewidth=1.2, capsize=3)
        _write(ax, right, row, f"{step.share:+.3g}")
    names = ["before", *(shorten(step.name, LONGEST_NAME) for step in steps), "after"]
    ax.set_yticks(range(len(names)), names, fontsize=FONT)
    ax.set_ylim(len(names) - 0.4, -0.6)
    low, high = ax.get_xlim()
    ax.set_xlim(low if bars else low - 0.03 * (high - low), high + 0.14 * (high - low))
    _finish(ax, about)


def plot_blame(blame: Blame, ax: Axes | None, limit: int) -> Axes:
    """Shares of the probability of the new class, or of the value, largest first; whiskers are two standard errors."""
    shown = min(len(blame.prob_shares), limit)
    steps = [
        Step(blame.row_name(row), float(blame.prob_shares[row]), error=float(blame.prob_errors[row]))
        for row in range(shown)
    ]
    if rest := len(blame.prob_shares) - shown:
        steps.append(Step(f"{rest:,} more", float(blame.prob_shares[shown:].sum()), "rest"))
    ax = open_axes(ax, 2.0 + 0.44 * (len(steps) + 2))
    draw_waterfall(ax, (blame.predicted_before, blame.predicted_after), steps, blame.quantity, bars=True)
    write_title(ax, blame.headline)
    return ax


class Shown(NamedTuple):
    """What the shares of a plot are of."""

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


def plot_paths(explanation: Explanation, label: int | None, ax: Axes | None) -> Axes:
    """A waterfall on axes of their own, fit for a slide: the share of each path, the largest first."""
    headline, explanation = explanation.headline, as_drawn(explanation)
    steps = waterfall_steps(explanation, shown := share_of(explanation, label))
    ax = open_axes(ax, 2.4 + 0.44 * (len(steps) + 2))
    draw_waterfall(ax, (shown.before, shown.after), steps, shown.about)
    legend_of(ax, [kind for kind in COLOURS if any(step.kind == kind for step in steps)])
    write_title(ax, headline)
    return ax


def waterfall_steps(explanation: Explanation, shown: Shown) -> list[Step]:
    """From what is shown of `before` to that of `after`: a step for each path, the largest first."""
    weights, _, start, end = shown
    shares = explanation.contributions @ weights
    order = np.argsort(-np.abs(shares), kind="stable")
    steps = [Step(_label(explanation, i), float(shares[i]), explanation.kinds[i]) for i in order[:MAX_STEPS]]
    if len(order) > MAX_STEPS:
        steps.append(Step(f"{len(order) - MAX_STEPS} more", float(shares[order[MAX_STEPS:]].sum()), "unchanged"))
    model, others = float(explanation.model_share @ weights), _num_others(explanation)
    if others:
        steps.append(Step(f"{others:,} other paths", end - start - model - float(shares.sum()), "rest"))
    if explanation.retrained is not None:
        steps.insert(0, Step("the retrained model", model, "model"))
    return steps


def plot_undo(undo: Undo, ax: Axes | None) -> Axes:
    """Both answers' probabilities (or the value) before, after, and after without the changes to undo."""
    number = len(undo.changes)
    rows = [
        "before",
        "after",
        f"after, {number} change{'s' * (number != 1)} undone" if undo.restored else "no set found",
    ]
    logits = np.stack([undo.logits_before, undo.logits_after, undo.logits])
    means = undo.output.means(logits)
    columns = (
        dict.fromkeys([undo.class_before, undo.class_after]) if undo.output.kind == CLASSES else [undo.class_after]
    )
    ax = open_axes(ax, 4.2)
    wide = 0.8 / len(columns)
    for place, label in enumerate(columns):
        values = means[:, undo.output.column(label)]
        name = undo.quantity if undo.output.kind != CLASSES else f"the probability of {undo.class_name(label)}"
        colour = (LINES[1], LINES[0])[place] if len(columns) > 1 else LINES[0]
        at = np.arange(3) + wide * (place - (len(columns) - 1) / 2)
        ax.barh(at, values, height=0.92 * wide, color=colour, hatch="///" if place == 0 and len(columns) > 1 else None,
                edgecolor="white", label=shorten(name, LONGEST_LINE))  # fmt: skip
        for row, value in zip(at, values, strict=True):
            _write(ax, max(float(value), 0.0), float(row), f"{value:.3g}")
    ax.set_yticks(range(3), rows, fontsize=FONT)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.legend(frameon=False, fontsize=FONT - 2, loc="upper left", bbox_to_anchor=(0.0, -0.14))
    _finish(ax, "")
    write_title(ax, undo.headline)
    if undo.restored:
        ax.set_xlabel(shorten(f"Undone: {undo.list_changes()}", LONGEST_LINE), fontsize=FONT - 1)
        ax.legend(frameon=False, fontsize=FONT - 2, loc="upper left", bbox_to_anchor=(0.0, -0.22))
    return ax


def plot_story(story: Story, ax: Axes | None) -> Axes:
    """Probabilities (or values) at each snapshot: of the classes that it was predicted to be, or the two likeliest."""
    columns = _columns_of(story)
    ax = open_axes(ax, 4.8)
    steps = np.arange(len(story.snapshot_names))
    for place, column in enumerate(columns):
        values = story.probabilities[:, column]
        name = story.class_name(column) if story.output.kind == CLASSES else story.column_name(column)
        ax.plot(steps, values, STYLES[place % len(STYLES)], color=LINES[place], linewidth=2.6, marker="o", markersize=5,
                label=shorten(f"class {name}" if name.isdecimal() else name, 24))  # fmt: skip
        here = [i for i, label in enumerate(story.classes) if label == column and story.output.kind == CLASSES]
        ax.plot(steps[here], values[here], "o", color=LINES[place], markersize=12)
    for step in story.flips:
        ax.axvspan(step, step + 1, color="#f0a202", alpha=0.16, lw=0)
    names = [shorten(name, 16) for name in story.snapshot_names]
    every = max(1, len(names) // 8)
    ax.set_xticks(steps[::every], names[::every], fontsize=FONT - 2, rotation=0 if len(names) <= 5 else 30)
    ax.tick_params(axis="y", labelsize=FONT - 2)
    ax.set_ylabel("value" if story.output.kind == VALUE else "probability", fontsize=FONT)
    ax.legend(frameon=False, fontsize=FONT - 2)
    ax.spines[["top", "right"]].set_visible(False)
    write_title(ax, story.headline)
    return ax


def _columns_of(story: Story) -> list[int]:
    if story.output.kind != CLASSES:
        return [story.column or 0]
    was = dict.fromkeys(label for label in story.classes if label is not None)
    peaks = np.nan_to_num(story.probabilities).max(axis=0)
    return list(dict.fromkeys([*was, *np.argsort(-peaks, kind="stable").tolist()]))[: min(MAX_LINES, max(len(was), 2))]


def _write(ax: Axes, x: float, y: float, text: str) -> None:
    ax.annotate(text.replace("-", "−"), (x, y), (5, 0), textcoords="offset points", va="center", fontsize=0.93 * FONT)


def write_title(ax: Axes, text: str) -> None:
    """What happened, on as many lines as it takes."""
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) > LONGEST_TITLE:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    ax.set_title(plain_text("\n".join(lines)), fontsize=FONT, fontweight="bold", loc="left")


def _finish(ax: Axes, about: str) -> None:
    ax.set_xlabel(shorten(about, LONGEST_LINE), fontsize=FONT)
    ax.tick_params(axis="x", labelsize=0.87 * FONT)
    ax.spines[["top", "right"]].set_visible(False)


def legend_of(ax: Axes, kinds: Sequence[str]) -> None:
    """What the colours of paths mean."""
    handles = [Patch(color=COLOURS[kind]) for kind in kinds]
    names = ["all others, net" if kind == "rest" else kind for kind in kinds]
    ax.legend(handles, names, frameon=False, fontsize=FONT - 2, ncols=min(len(kinds), 4), loc="upper center",
              bbox_to_anchor=(0.5, -0.16))  # fmt: skip


def shorten(text: str, length: int) -> str:
    """No longer than this, and no mathematics."""
    return plain_text(text if len(text) <= length else text[: length - 1] + "…")


def plain_text(text: str) -> str:
    """A dollar sign would start mathematics."""
    return text.replace("$", r"\$")


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


def to_notebook_html(explanation: Explanation) -> str:
    """What Jupyter shows of an explanation: the summary and the waterfall, no script."""
    text = explanation.summary()
    image = draw_image(plot_paths(explanation, None, None).figure, text)
    return f'<pre style="white-space:pre-wrap">{escape(text)}</pre>{image}'


def draw_image(figure: Any, words: str) -> str:
    """An HTML image of a figure, which is closed."""
    from matplotlib import pyplot

    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=90)
    pyplot.close(figure)
    picture = base64.b64encode(stream.getvalue()).decode("ascii")
    return f'<img alt="{escape(words)}" src="data:image/png;base64,{picture}">'

"""Blame -> matplotlib figure: a waterfall from `before` to `after`, a bar a change."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..blame.blame import Blame
from .plots import AFTER, BEFORE, COLOURS, MAX_STEPS, plain_text

BAR_HEIGHT = 0.62


def plot_blame(blame: Blame) -> Figure:
    """Shares of the probability of the new class, or of the value, largest first; whiskers are two standard errors."""
    shown = min(len(blame.prob_shares), MAX_STEPS)
    shares, errors = blame.prob_shares[:shown].tolist(), blame.prob_errors[:shown].tolist()
    names = [blame.row_name(row) for row in range(shown)]
    rest = len(blame.prob_shares) - shown
    if rest:
        shares, errors, names = (
            [*shares, float(blame.prob_shares[shown:].sum())],
            [*errors, 0.0],
            [*names, f"{rest} more"],
        )
    start = blame.told_before
    lows = start + np.concatenate([[0.0], np.cumsum(shares)])
    figure = Figure(figsize=(9, 1.6 + 0.32 * (len(shares) + 2)), layout="constrained")
    axes = figure.add_subplot()
    axes.barh(0, start, height=BAR_HEIGHT, color=BEFORE)
    for i, (share, error) in enumerate(zip(shares, errors, strict=True)):
        colour = COLOURS["rest"] if rest and i == shown else COLOURS["gained" if share >= 0 else "lost"]
        axes.barh(i + 1, share, left=lows[i], height=BAR_HEIGHT, color=colour)
        if error > 0:
            axes.errorbar(lows[i + 1], i + 1, xerr=2 * error, color="black", linewidth=0.8, capsize=2)
        axes.annotate(
            f"{share:+.3g}", (max(lows[i], lows[i + 1]), i + 1), (4, 0), textcoords="offset points", va="center"
        )
    axes.barh(len(shares) + 1, blame.told_after, height=BAR_HEIGHT, color=AFTER)
    axes.set_yticks(range(len(shares) + 2), ["before", *map(plain_text, names), "after"])
    axes.invert_yaxis()
    axes.set_xlabel(plain_text(blame.told))
    axes.set_title(plain_text(blame.headline), fontsize=11, fontweight="bold", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure

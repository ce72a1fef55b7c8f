"""Neighbourhood -> a drawing: a matplotlib figure, or the plain values that a page draws the same from."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Wedge
from matplotlib.path import Path as Outline

from ..explain.neighbourhood import ADDED, GATHERED, KEPT, REMOVED, UNPREDICTED, Neighbourhood, flows_of
from ..graphs.labels import label_class
from .plots import COLOURS, draw_image, plain_text

# Tones that differ visibly on a light and on a dark background; the classes beyond them share the last.
CLASS_COLOURS = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#edc948", "#76b7b2", "#9c755f", "#ff9da7",
)  # fmt: skip
OTHER_CLASS = "#9aa1a9"
MAX_LABELS = 24
STATE_WORDS = {KEPT: "kept", ADDED: "added", REMOVED: "removed"}


def describe_neighbourhood(found: Neighbourhood) -> dict[str, Any]:
    """What a page draws; the chosen paths are the page's own."""
    return {
        "ids": found.ids.tolist(),
        "names": list(found.names),
        "sizes": found.sizes.tolist(),
        "hops": found.hops.tolist(),
        "classes": found.classes.tolist(),
        "places": np.round(found.places, 4).tolist(),
        "edges": np.column_stack([found.edges, found.states, found.counts]).tolist(),
        "directed": found.directed,
        "num_nodes": found.num_nodes,
        "colours": [[label, name, colour] for label, name, colour in class_colours(found)],
    }


def class_colours(found: Neighbourhood) -> list[tuple[int, str, str]]:
    """Classes that are drawn, by how many nodes have them: number, name, colour."""
    labels, counts = np.unique(found.classes[found.classes != UNPREDICTED], return_counts=True)
    order = labels[np.argsort(-counts, kind="stable")].tolist()
    names = found.explanation.class_names
    colours = [*CLASS_COLOURS, *[OTHER_CLASS] * len(order)]
    return sorted((label, label_class(label, names), colours[i]) for i, label in enumerate(order))


def labelled(found: Neighbourhood) -> list[int]:
    """Spots that have their name beside them: what is predicted, then paths and changed edges, then gathered ones."""
    on_path = np.isin(found.ids, found.explanation.paths)
    changed = np.zeros(len(found.ids), dtype=np.bool_)
    changed[found.edges[found.states != KEPT].ravel()] = True
    weight = 8 * (found.hops == 0) + 4 * on_path + 2 * changed + (found.ids == GATHERED)
    order = np.argsort(-weight, kind="stable")
    return [int(spot) for spot in order[:MAX_LABELS] if weight[spot] > 0]


def plot_neighbourhood(found: Neighbourhood) -> Figure:
    """Both graphs in one drawing."""
    e = found.explanation
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    axes = figure.add_subplot()
    colour_of = {label: colour for label, _, colour in class_colours(found)}
    places = found.places * np.array([1.5, 1.0])
    flows = flows_of(found)
    most = max((abs(share) for _, _, share in flows), default=1.0) or 1.0
    for spots, kind, share in flows:
        if len(spots) > 1:
            line = _through(places[spots])
            width = 2 + 10 * abs(share) / most
            axes.add_patch(
                PathPatch(line, fill=False, lw=width, ec=COLOURS[kind], alpha=0.35, capstyle="round", joinstyle="round")
            )
    faint = (found.states == KEPT) & (found.ids[found.edges] == GATHERED).any(axis=1)
    for (u, v), state, pale in zip(found.edges.tolist(), found.states.tolist(), faint.tolist(), strict=True):
        colour = {KEPT: "#b6c0cb", ADDED: COLOURS["gained"], REMOVED: COLOURS["lost"]}[state]
        style: dict[str, Any] = {"color": colour, "lw": 0.7 if state == KEPT else 1.8, "zorder": 2 + (state != KEPT)}
        style["alpha"] = 0.2 if pale else 1.0
        style["linestyle"] = (0, (4, 3)) if state == REMOVED else "-"
        if found.directed and state != KEPT:
            axes.annotate(
                "", places[v], places[u], arrowprops={"arrowstyle": "->", "shrinkB": 5, **style}, zorder=style["zorder"]
            )
        else:
            axes.plot(*places[[u, v]].T, **style)
    for spot, (x, y) in enumerate(places.tolist()):
        radius = 0.022 * (1.7 if found.hops[spot] == 0 else 1.0) * (1 + 0.25 * np.log10(found.sizes[spot]))
        old, new = (colour_of.get(label, OTHER_CLASS) for label in found.classes[spot].tolist())
        edge = "black" if found.hops[spot] == 0 else "white"
        parts = [(new, 0, 360)] if old == new else [(old, 90, 270), (new, 270, 90)]
        for colour, first, last in parts:
            axes.add_patch(Wedge((x, y), radius, first, last, fc=colour, ec=edge, lw=0.6, zorder=5))
    for spot in labelled(found):
        name = found.names[spot] if len(found.names[spot]) <= 22 else found.names[spot][:21] + "…"
        bold: dict[str, Any] = {"fontweight": "bold"} if found.hops[spot] == 0 else {}
        axes.annotate(plain_text(name), places[spot], (6, 5), textcoords="offset points", fontsize=8, zorder=6, **bold)
    known = [(plain_text(name), colour) for _, name, colour in class_colours(found)]
    handles = [Line2D([], [], marker="o", ls="", color=colour, label=name) for name, colour in known]
    handles += [
        Line2D([], [], color=COLOURS["gained"], lw=1.8, label="edge added"),
        Line2D([], [], color=COLOURS["lost"], lw=1.8, ls=(0, (4, 3)), label="edge removed or expired"),
    ]
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.set_title(plain_text(e.headline), fontsize=11, fontweight="bold", loc="left")
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


def to_picture_html(found: Neighbourhood) -> str:
    """What a notebook shows: the figure, no script."""
    e = found.explanation
    return draw_image(found.plot(), f"The neighbourhood of {e.name}: {e.headline}")


def _through(points: Any) -> Outline:
    """A curve through these places, bent a little so that it does not hide the edges."""
    vertices, codes = [points[0]], [Outline.MOVETO]
    for a, b in pairwise(points):
        side = 0.08 * np.array([a[1] - b[1], b[0] - a[0]])
        vertices += [(a + b) / 2 + side, b]
        codes += [Outline.CURVE3, Outline.CURVE3]
    return Outline(vertices, codes)

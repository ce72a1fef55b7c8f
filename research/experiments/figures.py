"""Tables of results -> the paper's figures, PNG and PDF; readable in greyscale: a marker and dashes for each method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .fidelity import deviation_by_level, mean_by_level

# method, objective -> label, grey level, marker, dashes
STYLES: dict[tuple[str, str], tuple[str, str, str, str]] = {
    ("grad", "sufficiency"): ("Grad", "0.55", "x", ":"),
    ("gnnlrp", "sufficiency"): ("GNN-LRP", "0.55", "^", "--"),
    ("gnnexplainer", "sufficiency"): ("GNNExplainer", "0.7", "P", "-."),
    ("deeplift", "sufficiency"): ("DeepLIFT", "0.35", "s", "--"),
    ("topk", "sufficiency"): ("Topk", "0.35", "v", ":"),
    ("linear", "sufficiency"): ("Linear", "0.2", "D", "-."),
    ("convex", "sufficiency"): ("Convex", "0.0", "o", "-"),
    ("exact", "sufficiency"): ("Exact", "0.0", "*", "--"),
    ("exact", "necessity"): ("Exact, necessity", "0.45", "+", "-"),
}
AXES = {
    "mean": "Fidelity-KL-minus",
    "deviation": "Fidelity-KL-minus, std. dev.",
    "residual": "KL left, share",
    "added": "Fidelity-KL-plus",
}
DPI = 90


def draw_fidelity(rows: pd.DataFrame, out: Path) -> list[Path]:
    """Against the level: Fidelity-KL-minus, mean and deviation, and the means of what is left of the KL by the shares
    and by the network with the paths added to `before` (Fidelity-KL-plus). A panel a data set, a figure a depth."""
    files = []
    for layers in sorted(rows.layers.unique()):
        part = rows[rows.layers == layers]
        part = part.assign(kl_left=part.kl_residual / part.kl)
        tables = {
            "mean": mean_by_level(part),
            "deviation": deviation_by_level(part),
            "residual": mean_by_level(part, "kl_left"),
            "added": mean_by_level(part, "fidelity_plus"),
        }
        for what, table in tables.items():
            names = list(dict.fromkeys(table.index.get_level_values("dataset")))
            figure, panels = _panels(len(names))
            for panel, name in zip(panels, names, strict=True):
                _draw_levels(panel, table[table.index.get_level_values("dataset") == name])
                panel.set_title(name, fontsize=9)
                panel.set_ylabel(AXES[what], fontsize=8)
                if what in ("residual", "added"):
                    panel.set_yscale("log")
                panel.set_xlabel("level", fontsize=8)
            _add_legend(figure, panels[0])
            files += save_figure(figure, out, f"fidelity-{what}-{layers}layers")
    return files


def draw_preservation(table: pd.DataFrame, out: Path) -> list[Path]:
    """Success rate of preservation: a bar for each evolution, grouped by data set and depth."""
    groups = list(dict.fromkeys(zip(table.dataset, table.layers, strict=True)))
    evolutions = list(dict.fromkeys(table.evolution))
    figure = Figure(figsize=(1.2 + 1.1 * len(groups), 3), layout="constrained")
    panel = figure.subplots()
    for i, evolution in enumerate(evolutions):
        part = table[table.evolution == evolution].set_index(["dataset", "layers"])
        heights = [float(part.loc[group, "preserved_percent"]) for group in groups]
        place = np.arange(len(groups)) + 0.27 * (i - (len(evolutions) - 1) / 2)
        panel.bar(place, heights, 0.25, label=evolution, color=str(0.25 + 0.25 * i), hatch=["", "//", ".."][i % 3])
    panel.set_xticks(np.arange(len(groups)), [f"{name}\n{layers} layers" for name, layers in groups], fontsize=8)
    panel.set_ylabel("changes preserved (%)", fontsize=8)
    panel.set_ylim(0, 110)
    panel.legend(fontsize=8, ncols=3, loc="lower center")
    return save_figure(figure, out, "preservation")


def draw_runtime(rows: pd.DataFrame, out: Path) -> list[Path]:
    """Seconds of walking and attribution, of convex, of exact, of cvxpy with SCS and of scipy, by number of paths."""
    names = list(dict.fromkeys(rows.dataset))
    figure, panels = _panels(len(names))
    lines = (
        ("walking_seconds", "walking and attribution", "0.6", "s"),
        ("convex_seconds", "convex", "0.0", "o"),
        ("exact_seconds", "exact", "0.35", "*"),
        ("scs_seconds", "cvxpy + SCS", "0.5", "x"),
        ("early_seconds", "SCS, stopped early", "0.7", "+"),
        ("scipy_seconds", "scipy", "0.8", "^"),
    )
    for panel, name in zip(panels, names, strict=True):
        part = rows[rows.dataset == name]
        for column, label, grey, marker in lines:
            panel.scatter(part.num_paths, part[column], s=12, color=grey, marker=marker, label=label, linewidths=0.8)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(name, fontsize=9)
        panel.set_xlabel("altered paths", fontsize=8)
        panel.set_ylabel("seconds", fontsize=8)
    _add_legend(figure, panels[0])
    return save_figure(figure, out, "runtime")


def _panels(count: int) -> tuple[Figure, list[Any]]:
    columns = min(count, 4)
    height = -(-count // columns)
    figure = Figure(figsize=(3.1 * columns, 2.6 * height + 0.5), layout="constrained")
    grid = np.asarray(figure.subplots(height, columns, squeeze=False)).ravel()
    for panel in grid[count:]:
        panel.set_axis_off()
    for panel in grid[:count]:
        panel.tick_params(labelsize=7)
    return figure, list(grid[:count])


def _draw_levels(panel: Any, table: pd.DataFrame) -> None:
    frame = table.reset_index()
    for (method, objective), (label, grey, marker, dashes) in STYLES.items():
        line = frame[(frame.method == method) & (frame.objective == objective)]
        if len(line):
            levels = [column for column in table.columns if isinstance(column, (int, np.integer))]
            panel.plot(
                levels, line[levels].to_numpy()[0], dashes, color=grey, marker=marker, label=label, markersize=4, lw=1
            )


def _add_legend(figure: Figure, panel: Any) -> None:
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), fontsize=8)


def save_figure(figure: Figure, out: Path, name: str) -> list[Path]:
    """PNG and PDF."""
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.png", out / f"{name}.pdf"]
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        for file in files:
            figure.savefig(file, dpi=DPI)
    return files

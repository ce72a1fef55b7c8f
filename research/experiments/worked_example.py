"""The paper's own small example, in numbers: its Figure 1's graph, its Figures 2 and 3 drawn from what comes out.

Three people J, K and L, each with an age and a gender; K and L know each other, each has a self-loop, and the edge
between J and K is added. The paper names the four altered paths of J but gives no weights; those here are ours. Its
introduction asks whether a prediction rests on age or gender: shares of input neurons say so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch_geometric.data import Data

from axiompath.explainer import Explainer
from axiompath.files.sum_gnn import SumGNN

from .figures import save_figure

J, K, L = range(3)
PEOPLE, INPUTS = ("J", "K", "L"), ("age", "gender")
PAPER_PATHS = ((J, K, J), (K, J, J), (K, K, J), (L, K, J))  # what the paper's text lists
HIDDEN_WEIGHTS = ((1.0, -0.5), (0.6, 0.8))  # [hidden, inputs]
LOGIT_WEIGHTS = ((0.7, -0.4), (-0.9, 1.1), (0.2, 0.3))  # [classes, hidden]
AGES_AND_GENDERS = ((0.9, 0.0), (0.4, 1.0), (0.7, 1.0))
LEAF_GREYS = ("0.15", "0.5", "0.8")  # of J, K and L
HATCHES = ("", "////")  # of age and gender


def open_example() -> Explainer:
    """Both graphs, and the paper's network of two layers."""
    model = SumGNN([2, 2, 3]).double().eval()
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), (HIDDEN_WEIGHTS, LOGIT_WEIGHTS), strict=True):
            parameter.copy_(torch.tensor(weight, dtype=torch.float64))
    x = torch.tensor(AGES_AND_GENDERS, dtype=torch.float64)
    known = [(J, J), (K, K), (L, L), (K, L), (L, K)]
    before, after = (Data(x=x, edge_index=torch.tensor(edges).T) for edges in (known, [*known, (J, K), (K, J)]))
    return Explainer(model, before, after)


def share_inputs(explainer: Explainer) -> pd.DataFrame:
    """A row for each altered path of J and input of its leaf: path, leaf, input, shares of the three logits."""
    shares = explainer.features(J, PAPER_PATHS, feature_names=INPUTS)
    path_names = [f"({', '.join(PEOPLE[node] for node in PAPER_PATHS[place])})" for place in shares.path]
    frame = pd.DataFrame({"path": path_names, "leaf": [PEOPLE[node] for node in shares.node]})
    frame["input"] = [INPUTS[column] for column in shares.column]
    for label, column in enumerate(shares.columns[-3:], start=1):
        frame[f"z_{label}"] = shares[column]
    return frame.sort_values(["path", "input"], ignore_index=True)


def approach(explainer: Explainer) -> pd.DataFrame:
    """A row for each number n of paths, none to all: KL(P_after || P_n) of the best n, and what they took off it."""
    found = explainer.frontier(J, range(1, len(PAPER_PATHS) + 1), "exact")
    whole = found[0].kl
    left = [whole, *(explanation.kl_residual for explanation in found)]
    return pd.DataFrame({"n": range(len(left)), "taken": whole - np.array(left), "left": left})


def draw_example(explainer: Explainer, out: Path) -> list[Path]:
    """`distances` is the paper's Figure 2, `input-neurons` its Figure 3, PNG and PDF."""
    return [*_draw_distances(approach(explainer), out), *_draw_inputs(share_inputs(explainer), out)]


def _draw_distances(rows: pd.DataFrame, out: Path) -> list[Path]:
    """One bar for each n: from `before` by the chosen paths to P_n, and the residual from there to `after`."""
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    panel = figure.subplots()
    panel.barh(rows.n, rows.taken, color="0.35", label="the n chosen paths")
    panel.barh(rows.n, rows.left, left=rows.taken, color="0.85", hatch="//", label="residual KL(P_after || P_n)")
    panel.axvline(rows.left.iloc[0], color="0.0", lw=1, ls=":", label="all: KL(P_after || P_before)")
    panel.set_xlim(0, 1.04 * rows.left.iloc[0])
    panel.set_yticks(rows.n)
    panel.invert_yaxis()
    panel.set_ylabel("n", fontsize=8)
    panel.set_xlabel("nats", fontsize=8)
    panel.tick_params(labelsize=7)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return save_figure(figure, out, "distances")


def _draw_inputs(shares: pd.DataFrame, out: Path) -> list[Path]:
    """Left: each path's shares of one logit by input. Right: every logit's change, stacked from the same shares."""
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1])
    paths = list(dict.fromkeys(shares.path))
    labels = [column for column in shares.columns if column.startswith("z_")]
    gained = labels[int(np.argmax(shares[labels].sum()))]
    for i, (leaf, name) in enumerate((leaf, name) for leaf in PEOPLE for name in INPUTS):
        own = shares[(shares.leaf == leaf) & (shares.input == name)]
        style = {"color": LEAF_GREYS[PEOPLE.index(leaf)], "hatch": HATCHES[INPUTS.index(name)], "edgecolor": "white"}
        if own.empty:  # an input of 0 has no share
            continue
        places = np.array([paths.index(path) for path in own.path]) + (-0.2 if name == INPUTS[0] else 0.2)
        left.barh(places, own[gained], 0.38, label=f"{leaf}'s {name}", **style)
        for j, label in enumerate(labels):
            _stack(right, j, shares, label, i, style)
    for panel, title in ((left, f"shares of the change of {gained}, path by path"), (right, "all paths together")):
        panel.set_title(title, fontsize=9)
        panel.tick_params(labelsize=8)
    left.axvline(0, color="0.0", lw=0.6)
    right.axhline(0, color="0.0", lw=0.6)
    left.set_yticks(range(len(paths)), paths)
    left.invert_yaxis()
    right.set_xticks(range(len(labels)), [f"change of {label}" for label in labels])
    right.plot(range(len(labels)), shares[labels].sum(), "D", color="white", markeredgecolor="0.0")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    return save_figure(figure, out, "input-neurons")


def _stack(panel: Any, place: int, shares: pd.DataFrame, label: str, turn: int, style: dict[str, str]) -> None:
    """One leaf's input in the bar of a logit: what raises it upwards from 0, what lowers it downwards."""
    totals = [
        float(shares[(shares.leaf == leaf) & (shares.input == name)][label].sum()) for leaf in PEOPLE for name in INPUTS
    ]
    own = totals[turn]
    below = sum(value for value in totals[:turn] if value * own > 0)
    panel.bar(place, own, 0.6, bottom=below, **style)

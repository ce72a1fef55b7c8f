"""Real windows -> how few changes undo a flip: of every flip the fewest changes, whether that is proved, and the time.

pubmed_pmid, dblp_coauthor   a GCN of two layers, trained on the oldest snapshot; the windows slide on
bitcoinotc                   the links of three months against those a month later (see `tasks`), each pair a target
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from axiompath.explain.moved import find_flipped
from axiompath.explainer import Explainer

from .conditions import write_results
from .counterfactuals import COUNTERFACTUALS, rival_sizes
from .tasks import NUM_MONTHS, TaskSettings, examine_links
from .timed import Slide, load_slide
from .trained import SEED, Training, split_nodes

FLIP_DATASETS = ("pubmed_pmid", "bitcoinotc", "dblp_coauthor")
WINDOWS = {"pubmed_pmid": (50, 25), "dblp_coauthor": (10, 5)}  # of equally many events, and how many make a snapshot
EPOCHS, STEP_SIZE, HIDDEN = 100, 0.02, 16


@dataclass(frozen=True)
class FlipSettings:
    """Which flips are undone, and how long is searched for each."""

    datasets: tuple[str, ...] = FLIP_DATASETS
    transitions: int = 5
    max_flips: int = 120  # of a data set, drawn from all
    seconds: float = 10.0
    rivals: bool = False  # whether other searches are asked for the same flips
    seed: int = SEED


class TwoLayers(nn.Module):
    """GCN, ReLU, GCN."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = GCNConv(inputs, HIDDEN), GCNConv(HIDDEN, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Logits of all nodes."""
        hidden = self.first(x, edge_index).relu()
        found: torch.Tensor = self.second(hidden, edge_index)
        return found


def run_flips(settings: FlipSettings, out: Path, *, root: str | Path | None = None) -> pd.DataFrame:
    """`flips.parquet`, a row per flip: changes in sight, how many undo it, whether that is proved, seconds."""
    rows: list[dict[str, object]] = []
    for name in settings.datasets:
        steps = list(_steps(name, settings, root))
        asked = [(step, target) for step, explainer in enumerate(steps) for target in _flips(explainer)]
        drawn = np.sort(np.random.default_rng(settings.seed).permutation(len(asked))[: settings.max_flips])
        for step, target in (asked[i] for i in drawn.tolist()):
            rows.append({"dataset": name, "transition": step, **_undo(steps[step], target, settings)})
    table = pd.DataFrame(rows)
    write_results(out, "flips", table, {"settings": asdict(settings)})
    return table


def summarise_flips(table: pd.DataFrame) -> pd.DataFrame:
    """A row a data set: flips, changes in sight, how many one, two, three and more changes undo, proofs, time."""
    rows = []
    for name, part in table.groupby("dataset", sort=False):
        size = part["size"].where(part.restored, np.inf)
        rows.append(
            {
                "dataset": name,
                "flips": len(part),
                "in_sight": float(part.in_sight.median()),
                "one": int((size == 1).sum()),
                "two": int((size == 2).sum()),
                "three": int((size == 3).sum()),
                "more": int(((size > 3) & np.isfinite(size)).sum()),
                "none_found": int(np.isinf(size).sum()),
                "largest": int(size[np.isfinite(size)].max()) if np.isfinite(size).any() else 0,
                "proved": int(part.proved.sum()),
                "proved_of_more": int(part.proved[(size > 3)].sum()),
                "seconds": float(part.seconds.median()),
                "most_seconds": float(part.seconds.max()),
                **{key: value for rival in COUNTERFACTUALS for key, value in _against(part, rival).items()},
            }
        )
    return pd.DataFrame(rows)


def _against(part: pd.DataFrame, rival: str) -> dict[str, int]:
    """Flips for which another search undoes fewer, as many, or more changes; or never gets the class back."""
    if rival not in part:
        return {}
    theirs, ours = part[rival].replace(0, np.inf), part["size"].where(part.restored, np.inf)
    counts = {"fewer": theirs < ours, "as many": theirs == ours, "more": (theirs > ours) & np.isfinite(theirs)}
    counts["never"] = np.isinf(theirs) & np.isfinite(ours)
    return {f"{rival}: {word}": int(some.sum()) for word, some in counts.items()}


def _undo(explainer: Explainer, target: int | tuple[int, int], settings: FlipSettings) -> dict[str, object]:
    start = time.perf_counter()
    found = explainer.undo(target, seconds=settings.seconds)
    spent = time.perf_counter() - start
    return {
        "target": str(target),
        "in_sight": found.num_in_sight,
        "size": len(found.changes),
        "restored": found.restored,
        "proved": found.proved,
        "excluded": found.excluded,
        "seconds": spent,
        **(rival_sizes(explainer, target) if settings.rivals else {}),
    }


def _flips(explainer: Explainer) -> list[int | tuple[int, int]]:
    moved = explainer.moved()
    return list(moved.target[find_flipped(moved)])


def _steps(name: str, settings: FlipSettings, root: str | Path | None) -> Iterator[Explainer]:
    if name == "bitcoinotc":
        for part in range(min(settings.transitions, NUM_MONTHS)):
            exam = examine_links(part, TaskSettings((name,)), root)
            yield Explainer(exam.model, exam.before, exam.after, links=exam.links)
        return
    snapshots = load_slide(Slide(name, 2, *WINDOWS[name]), root)
    model = train_on_nodes(TwoLayers, snapshots[0], settings.seed)
    for before, after in list(pairwise(snapshots))[: settings.transitions]:
        yield Explainer(model, before, after)


def train_on_nodes(kind: Callable[[int, int], nn.Module], data: Data, seed: int) -> nn.Module:
    """A model of so many inputs and classes in float64, the weights of the epoch that did best on nodes held back."""
    parts = split_nodes(data, Training("flips", seed=seed))
    train, val = (torch.from_numpy(parts[name]) for name in ("train", "val"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(data.x.shape[1], int(data.y.max()) + 1).double()
        adam = torch.optim.Adam(model.parameters(), STEP_SIZE)
        best, kept = -1, model.state_dict()
        for _ in range(EPOCHS):
            logits = model(data.x, data.edge_index)
            adam.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(logits[train], data.y[train]))
            correct = int((logits[val].argmax(dim=1) == data.y[val]).sum())
            if correct > best:
                best, kept = correct, {key: value.clone() for key, value in model.state_dict().items()}
            adam.step()
    model.load_state_dict(kept)
    return model.eval()

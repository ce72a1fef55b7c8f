"""Puzzles -> what torch_geometric's own metrics say of our explanations, GNNExplainer's and a random explainer's.

Every explainer gives a mask of the edges of `after`, of which the same number of edges is kept. PyG's metrics ask about
one graph: does the predicted class stay with only these edges (1 - fidelity-), and does it change without them
(fidelity+)? They do not ask why a prediction changed, so `axiompath` appears twice: explaining the change from
`before`, and explaining `after` against no edges, which is the question that the others answer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch_geometric.explain import (
    DummyExplainer,
    Explainer,
    GNNExplainer,
    characterization_score,
    fidelity,
    unfaithfulness,
)

from axiompath.pyg import PyGAlgorithm

from .puzzles import Puzzle, open_puzzles

METRIC_SETTINGS = ("house", "cycle", "shift", "cora")  # whose nodes are their rows, as PyG's Explainer takes them
NUM_EDGES = 10  # kept of every mask
EPOCHS = 100  # of GNNExplainer
ALGORITHMS: Mapping[str, Callable[[Puzzle], Any]] = {
    "axiompath, the change": lambda puzzle: PyGAlgorithm(as_floats(puzzle.before)),
    "axiompath, one graph": lambda puzzle: PyGAlgorithm(None),
    "GNNExplainer": lambda puzzle: GNNExplainer(epochs=EPOCHS),
    "random": lambda puzzle: DummyExplainer(),
}


def as_floats(data: Any) -> Any:
    """The graph in single precision, as PyG's explainers expect it, with rows for numbers."""
    found = copy.copy(data)
    if found.get("n_id") is not None:
        assert found.n_id.tolist() == list(range(found.num_nodes))
        del found.n_id
    found.x = data.x.float()
    return found


def run_metrics(
    settings: tuple[str, ...], number: int, root: str | Path | None = None, *, report: Callable[[int, int, str], None]
) -> pd.DataFrame:
    """One row per puzzle and explainer: PyG's two fidelities and its unfaithfulness."""
    rows: list[dict[str, Any]] = []
    for done, setting in enumerate(settings):
        report(done, len(settings), setting)
        for puzzle in open_puzzles(setting, number, root):
            rows += measure(puzzle)
    return pd.DataFrame(rows)


def measure(puzzle: Puzzle) -> Iterator[dict[str, Any]]:
    """All explainers on one puzzle."""
    model, after = copy.deepcopy(puzzle.model).float().eval(), as_floats(puzzle.after)
    for name, make in ALGORITHMS.items():
        torch.manual_seed(puzzle.number)
        explainer = Explainer(
            model,
            make(puzzle),
            explanation_type="model",
            edge_mask_type="object",
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
            threshold_config=("topk_hard", NUM_EDGES),
        )
        explanation = explainer(after.x, after.edge_index, index=int(puzzle.target))  # type: ignore[arg-type]
        assert explanation.validate()
        necessary, insufficient = fidelity(explainer, explanation)
        yield {
            "setting": puzzle.setting,
            "explainer": name,
            "puzzle": puzzle.number,
            "fidelity_plus": necessary,
            "fidelity_minus": insufficient,
            "unfaithfulness": unfaithfulness(explainer, explanation),
        }


def summarise_metrics(table: pd.DataFrame) -> pd.DataFrame:
    """Means by setting and explainer, and PyG's characterization score of the mean fidelities."""
    measures = ["fidelity_plus", "fidelity_minus", "unfaithfulness"]
    found = table.groupby(["setting", "explainer"], sort=False)[measures].mean().reset_index()
    found.insert(2, "puzzles", table.groupby(["setting", "explainer"], sort=False).size().to_numpy())
    found["characterization"] = [
        float(characterization_score(torch.tensor(plus), torch.tensor(minus))) if plus > 0 and minus < 1 else 0.0
        for plus, minus in zip(found.fidelity_plus, found.fidelity_minus, strict=True)
    ]
    return found

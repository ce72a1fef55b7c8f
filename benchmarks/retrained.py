"""Was it the data or the new model? A GCN retrained on the next window of a growing graph, and every flip asked.

The citations of `pubmed_pmid` in ten windows, each with all earlier ones. A two-layer GCN is trained on the snapshot up
to one window (`before`), and another, from other random weights, on the snapshot up to the next (`after`); training
nodes are the same thousand. Every prediction that went to another class is then split between model and data. Run with
AXIOMPATH_DATA set (not needed for --tiny, which generates a graph):

    python benchmarks/retrained.py [--tiny] [--docs docs]
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

sys.path.insert(0, str(Path(__file__).parent.parent))

import axiompath
from axiompath.datasets import drifting_communities
from research import datasets
from tables import make_parser, publish, to_markdown

WIDTH, EPOCHS, WINDOW = 16, 60, 7


def train(model: GCN, data: Data, epochs: int) -> GCN:
    """On the same thousand nodes whatever the snapshot."""
    known = np.flatnonzero(data.y.numpy() >= 0)
    nodes = torch.from_numpy(np.random.default_rng(0).choice(known, min(1000, len(known)), replace=False))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    model.train()
    for _ in range(epochs):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.x, data.edge_index)[nodes], data.y[nodes])
        loss.backward()
        optimiser.step()
    return model.eval()


def pairs(before: Data, after: Data, epochs: int) -> Iterator[tuple[str, GCN, GCN]]:
    """The old model and the new one: the same, trained a little more, and trained anew."""
    sizes = (before.num_features, WIDTH, 2, int(before.y.max()) + 1)
    for data in (before, after):
        if data.x.layout != torch.strided:
            data.x = data.x.to_dense()
    torch.manual_seed(0)
    old = train(GCN(*sizes), before, epochs)
    yield "no retraining", old, old
    few = max(epochs // 10, 1)
    yield f"{few} epochs more, on `after`", old, train(copy.deepcopy(old), after, few)
    torch.manual_seed(1)
    yield "trained anew on `after`, from other weights", old, train(GCN(*sizes), after, epochs)


def measure(name: str, old: GCN, new: GCN, before: Data, after: Data) -> tuple[dict[str, str], str]:
    """A row of the table; and the flip that moved most, in words."""
    explainer = axiompath.Explainer(new, before, after, model_before=old)
    moved = explainer.moved()
    flips = moved[moved.class_before != moved.class_after]
    change = explainer.change
    crossed = change.by_model[0]
    rows = explainer.session.locate(flips.target.tolist())[1]
    column = np.arange(len(rows)), flips.class_before.to_numpy(), flips.class_after.to_numpy()

    def margin(logits: np.ndarray) -> np.ndarray:
        """Of the new class against the old."""
        return logits[column[0], column[2]] - logits[column[0], column[1]]

    model = margin(change.model_share(rows))
    whole = margin(change.logits_after[rows] - change.logits_before[rows])
    part = np.abs(model) / (np.abs(model) + np.abs(whole - model))
    model_alone = change.before_pass.logits[rows].argmax(axis=1) == column[2]
    data_alone = crossed.after_pass.logits[rows].argmax(axis=1) == column[2]
    if not change.earlier:
        model_alone = np.zeros(len(rows), dtype=np.bool_)
    told, off = "", 0.0
    for e in explainer.explain_many(flips.target.head(50).tolist(), 10, "convex", progress=False):
        off = max(off, e.completeness)
    if len(flips):
        target = int(flips.target.iloc[0])
        answers = explainer.explain(target, 5), explainer.blame(target, seconds=5), explainer.undo(target, seconds=5)
        told = "\n\n".join(map(str, answers))
    row = {
        "the new model": name,
        "predictions moved": f"{len(moved):,}",
        "to another class": f"{len(flips):,}",
        "model's part, median": f"{np.median(part):.2f}" if len(part) else "",
        "the model alone does it": f"{int((model_alone & ~data_alone).sum()):,}",
        "the data alone": f"{int((data_alone & ~model_alone).sum()):,}",
        "either": f"{int((model_alone & data_alone).sum()):,}",
        "only both": f"{int((~model_alone & ~data_alone).sum()):,}",
        "largest residual": f"{off:.0e}",
    }
    return row, told


def main() -> None:
    """Measure and publish."""
    options = make_parser(__doc__).parse_args()
    if options.tiny:
        before, after = drifting_communities(200, 3, 2)
    else:
        snapshots = datasets.load_sequence("pubmed_pmid", 10, cumulative=True)
        before, after = snapshots[WINDOW], snapshots[WINDOW + 1]
    rows = []
    for name, old, new in pairs(before, after, 4 if options.tiny else EPOCHS):
        row, told = measure(name, old, new, before, after)
        rows.append(row)
        print(f"{name}\n{told}\n", flush=True)
    publish(options.docs, "benchmarks.md", "retrained", to_markdown(rows))


if __name__ == "__main__":
    main()

"""Two demonstrations: the karate club after a few friendships changed, and a graph whose communities drift."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCN
from torch_geometric.utils import coalesce

from ..datasets import drifting_communities
from ..errors import InputError
from ..explainer import Explainer
from ..files import save_graph, save_model
from ..report import save_report
from ..sequences.stories import build_stories
from .output import numbers, print_explanation, print_happened

# Member 8 turns from the officer's side towards the instructor's: two ties lost, three made.
ENDED = ((8, 33), (8, 32))
MADE = ((8, 1), (8, 3), (8, 13))
COMMUNITIES = [f"community {c}" for c in range(6)]
KARATE, DRIFT = "The karate club after member 8 changed friends", "Communities that drift: the last step"
REPORT = "report.html"
WRITTEN_BY_DEMOS = (
    REPORT, "model", "before.npz", "after.npz", "story.html", *(f"snapshot{place}.npz" for place in range(5)),
)  # fmt: skip


def train_karate() -> tuple[Any, Data]:
    """A two-layer GCN on Zachary's karate club, whose classes are four communities."""
    torch.manual_seed(1)
    data = KarateClub()[0]
    model = GCN(**karate_arguments(data), dropout=0.2)
    _train(model, data, 200, 0.02, Console(quiet=True))
    return model, data


def karate_arguments(data: Data) -> dict[str, Any]:
    """Arguments of the demonstration's network."""
    return {"in_channels": data.num_features, "hidden_channels": 16, "num_layers": 2, "out_channels": 4}


def evolve_karate(data: Data) -> Data:
    """The club after member 8 made other friends."""
    edges = {tuple(pair) for pair in data.edge_index.T.tolist()}
    edges -= {(u, v) for pair in ENDED for u, v in (pair, pair[::-1])}
    edges |= {(u, v) for pair in MADE for u, v in (pair, pair[::-1])}
    after = data.clone()
    after.edge_index = coalesce(torch.tensor(sorted(edges)).T)
    return after


def check_room(out: Path) -> None:
    """Refuse a folder with other people's files of the same names; the report, written first, marks a folder of
    ours."""
    taken = [name for name in WRITTEN_BY_DEMOS if os.path.lexists(out / name)]
    if not taken:
        return
    report = out / REPORT
    with report.open("rb") if report.is_file() else BytesIO() as stream:
        start = stream.read(4000).decode(errors="replace")
    if not any(f"<title>{title}</title>" in start for title in (KARATE, DRIFT)):
        raise InputError(
            f"Expected a new folder, or one of a demonstration (got {out}, where {taken[0]} is something else); choose "
            "another with --out: nothing was changed there."
        )


def run_demo(console: Console, out: Path) -> dict[str, Any]:
    """Explain who changed, and why the one who changed most did; write a report, the graphs and the model."""
    with console.status("Training a GCN on the karate club"):
        model, before = train_karate()
    after = evolve_karate(before)
    names = [f"member {i}" for i in range(int(before.num_nodes or 0))]
    explainer = Explainer(model, before, after, node_names=names, class_names=COMMUNITIES[:4])
    moved = explainer.moved()
    flipped = moved[moved.class_before != moved.class_after]
    console.print(
        f"The club lost {len(ENDED)} ties and made {len(MADE)}. {len(moved)} of {before.num_nodes} members' "
        f"predictions moved, {len(flipped)} of them to another community.\n"
    )
    explanation = explainer.explain(int(moved.target.iloc[0]))
    print_happened(console, explainer.happened(explanation.target))
    print_explanation(console, explanation, after_blame=True)
    out.mkdir(parents=True, exist_ok=True)
    report = save_report(out / REPORT, explainer, title=KARATE)
    for name, data in (("before.npz", before), ("after.npz", after)):
        save_graph(out / name, data, names, COMMUNITIES[:4])
    save_model(model, out / "model", karate_arguments(before))
    console.print(f"The report is in {report}: open it in a browser.", soft_wrap=True)
    command = f"axiompath explain {out / 'model'} {out / 'before.npz'} {out / 'after.npz'} --target 13"
    hint = f"The graphs and the model are there too; ask further with\n  {command}"
    console.print(hint, soft_wrap=True)
    return {"explanation": explanation.to_dict(), "report": str(report), "changed": len(moved)}


def run_large_demo(console: Console, out: Path, progress: Console) -> dict[str, Any]:
    """Thousands of nodes, five snapshots: explain every step; write reports on the last one and on all of them."""
    with progress.status("Generating five snapshots of a graph whose communities drift"):
        snapshots = drifting_communities()
    torch.manual_seed(0)
    first = snapshots[0]
    settings = {"in_channels": first.num_features, "hidden_channels": 32, "num_layers": 2, "out_channels": 6}
    model = GCN(**settings, dropout=0.3)
    _train(model, first, 60, 0.01, progress)
    console.print(
        f"{first.num_nodes:,} nodes in six communities, {first.edge_index.shape[1] // 2:,} edges; "
        "a GCN was trained on the first of five snapshots.\n"
    )
    stories = build_stories(model, snapshots, class_names=COMMUNITIES, progress=progress)
    columns = ("edges_added", "edges_removed", "reached", "flipped", "num_paths")
    table = Table("step", *numbers("edges added", "removed", "predictions reached", "flipped", "altered paths"))
    for i, step in enumerate(stories.steps):
        table.add_row(f"{i} to {i + 1}", *(f"{getattr(step, column):,}" for column in columns))
    console.print(table)
    console.print(f"\n{stories[0].summary()}")
    out.mkdir(parents=True, exist_ok=True)
    explainer = Explainer(model, *snapshots[-2:], class_names=COMMUNITIES)
    targets = explainer.moved().target.head(50).tolist()
    report = save_report(out / REPORT, explainer, targets, title=DRIFT, progress=progress)
    story = save_report(out / "story.html", stories, title="Communities that drift: five snapshots")
    for i, data in enumerate(snapshots):
        save_graph(out / f"snapshot{i}.npz", data, class_names=COMMUNITIES)
    save_model(model, out / "model", settings)
    closing = f"\nThe report on all steps is in {story}, that on the last one in {report}."
    console.print(closing, soft_wrap=True)
    steps = [{column: getattr(step, column) for column in columns} for step in stories.steps]
    return {"steps": steps, "report": str(report), "story": str(story)}


def _train(model: Any, data: Data, epochs: int, rate: float, console: Console) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=5e-4)
    model.train()
    for _ in track(range(epochs), "Training", console=console, transient=True, disable=not console.is_terminal):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.x, data.edge_index), data.y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    model.eval()

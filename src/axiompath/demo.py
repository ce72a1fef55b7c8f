"""The karate club, evolved by a few edges: train a GCN, ask who changed their mind and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCN
from torch_geometric.utils import coalesce

from .attribution import Attribution
from .explainer import Explainer
from .states import KINDS

# Member 8 turns from the officer's side towards the instructor's: two ties lost, three made.
LOST = ((8, 33), (8, 32))
MADE = ((8, 1), (8, 3), (8, 13))


def train_karate(seed: int = 1) -> tuple[Any, Data]:
    """A two-layer GCN on Zachary's karate club, whose classes are four communities."""
    torch.manual_seed(seed)
    data = KarateClub()[0]
    model = GCN(data.num_features, 16, num_layers=2, out_channels=4, dropout=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    for _ in range(200):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.x, data.edge_index), data.y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model, data


def evolve_karate(data: Data) -> Data:
    """The club after member 8 changed friends."""
    edges = {tuple(pair) for pair in data.edge_index.T.tolist()}
    edges -= {(u, v) for pair in LOST for u, v in (pair, pair[::-1])}
    edges |= {(u, v) for pair in MADE for u, v in (pair, pair[::-1])}
    after = data.clone()
    after.edge_index = coalesce(torch.tensor(sorted(edges)).T)
    return after


def run_demo(console: Console) -> None:
    """Print who changed, and the paths that moved the member who changed the most."""
    with console.status("Training a GCN on the karate club"):
        model, before = train_karate()
    after = evolve_karate(before)
    explainer = Explainer(model, before, after)
    changes = explainer.changes()
    flipped = changes[changes.class_before != changes.class_after]
    console.print(
        f"The club lost {len(LOST)} ties and made {len(MADE)}. {len(changes)} of {before.num_nodes} members' "
        f"predictions moved, {len(flipped)} of them to another community.\n"
    )
    table = Table("member", "community before", "after", "KL", "altered paths", title="Who changed the most")
    for row in changes.head(5).itertuples():
        table.add_row(str(row.node), str(row.class_before), str(row.class_after), f"{row.kl:.3f}", f"{row.num_paths:,}")
    console.print(table)
    top = changes.iloc[0]
    print_attribution(console, explainer.attribute(int(top.node)), int(top.class_before), int(top.class_after))


def print_attribution(console: Console, found: Attribution, old: int, new: int, limit: int = 8) -> None:
    """The causes of one node's change, and its strongest paths, for the new class against the old."""
    shift = found.contributions[:, new] - found.contributions[:, old]
    console.print(
        f"\nMember {found.target}: the logit of community {new} against community {old} moved by {shift.sum():+.3f}, "
        f"the sum of {len(found.paths):,} altered paths (to {found.residual:.0e})."
    )
    causes = {kind: value[new] - value[old] for kind, value in found.causes.items() if np.abs(value).any()}
    console.print("By cause: " + ", ".join(f"{kind} {value:+.3f}" for kind, value in causes.items()) + ".\n")
    table = Table("path, leaf to root", "kind", "share", title=f"Strongest of {len(found.paths):,} paths")
    for i in np.argsort(-np.abs(shift), kind="stable")[:limit]:
        nodes = " → ".join("bias" if node < 0 else str(node) for node in found.paths[i])
        table.add_row(nodes, KINDS[found.kinds[i]], f"{shift[i]:+.3f}")
    console.print(table)

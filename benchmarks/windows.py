"""What do windows cost? A recurrent GNN over several snapshots: opening, a timeline, a blame, and its own forward pass.

The cell is the GConvGRU of torch_geometric_temporal (six ChebConvs of order 2). From each snapshot to the next a share
of the edges is replaced and the features of a few nodes change. Seconds are those of the processor,
memory is the peak of the process.

    python benchmarks/windows.py [--steps 12] [--nodes 10000] [--edges 100000] [--tiny] [--docs docs]
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import ChebConv

import axiompath
from tables import make_parser, publish, to_markdown

NUM_FEATURES, WIDTH, NUM_CLASSES = 8, 32, 2
CHANGED = 0.01  # of the edges, from each snapshot to the next


class GConvGRU(nn.Module):
    """As torch_geometric_temporal defines it."""

    def __init__(self, K: int = 2) -> None:
        super().__init__()
        self.of_x = nn.ModuleList([ChebConv(NUM_FEATURES, WIDTH, K) for _ in range(3)])
        self.of_h = nn.ModuleList([ChebConv(WIDTH, WIDTH, K) for _ in range(3)])

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, h: torch.Tensor | None = None) -> torch.Tensor:
        """One step."""
        h = x.new_zeros(x.shape[0], WIDTH) if h is None else h
        z, r = (torch.sigmoid(self.of_x[i](x, edge_index) + self.of_h[i](h, edge_index)) for i in (0, 1))
        candidate = torch.tanh(self.of_x[2](x, edge_index) + self.of_h[2](h * r, edge_index))
        return z * h + (1 - z) * candidate


def make_snapshots(count: int, num_nodes: int, num_edges: int) -> list[Data]:
    """Random graphs, each like the one before but for a share of its edges and the features of ten nodes."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, NUM_FEATURES, generator=generator)
    edges = torch.randint(num_nodes, (2, num_edges), generator=generator)
    found = []
    for step in range(count):
        found.append(Data(x=x, edge_index=edges.unique(dim=1), time=step))
        new = torch.randint(num_nodes, (2, int(CHANGED * num_edges)), generator=generator)
        edges = torch.cat([edges[:, new.shape[1] :], new], dim=1)
        x = x.clone()
        x[torch.randint(num_nodes, (10,), generator=generator)] += 1
    return found


def timed(rows: list[dict[str, str]], what: str, run: Callable[[], Any]) -> tuple[Any, float]:
    """Run something once, and write down what it took."""
    start = time.process_time()
    found = run()
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rows.append({"what": what, "seconds": f"{seconds:.2f}", "peak so far": f"{peak:.2f} GB"})
    print(rows[-1], flush=True)
    return found, seconds


def main() -> None:
    """Open two windows, then ask for a timeline and a blame with groups."""
    parser = make_parser(__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--edges", type=int, default=100_000)
    options = parser.parse_args()
    steps, num_nodes, num_edges = options.steps, options.nodes, options.edges
    if options.tiny:
        steps, num_nodes, num_edges = 3, 50, 200
    days = make_snapshots(steps + 1, num_nodes, num_edges)
    torch.manual_seed(0)
    model = axiompath.unroll(GConvGRU(), head=nn.Linear(WIDTH, NUM_CLASSES)).eval()
    before, after = days[:-1], days[1:]
    rows: list[dict[str, str]] = []
    with torch.no_grad():
        model(before)
        _, own = timed(rows, "two forward passes of the model", lambda: [model(window) for window in (before, after)])
    explainer, opened = timed(rows, "opening", lambda: axiompath.Explainer(model, before, after))
    moved, _ = timed(rows, "moved", explainer.moved)
    target = int(moved.target[0])
    found, _ = timed(rows, "timeline", lambda: explainer.timeline(target))
    assert found.completeness < 1e-5, found.completeness
    timed(rows, "blame with groups", lambda: explainer.blame(target, by="kind"))
    rows.append({"what": "(opening - 3 s) / two forward passes", "seconds": f"{(opened - 3) / own:.1f}"})
    size = f"{steps} steps, {num_nodes:,} nodes, {num_edges:,} edges per step, {WIDTH} units."
    publish(options.docs, "results.md", "windows", f"{size}\n\n{to_markdown(rows)}")


if __name__ == "__main__":
    main()

"""What does a graph on disk cost? Conversion in bounded memory; an Explainer on stored graphs, beside one in memory.

The graph is power-law-like (degrees fall with the square root of the rank; every edge in both directions), written as
Parquet. Half of the changed edges are existing ones removed, half are new ones between random nodes. Every step runs in
a process of its own; memory is the peak of the process less what it had after its imports, as Linux tells it (pages of
mapped files that are in memory at the time count).

    python benchmarks/stored.py [--nodes 1000000] [--folder out/stored] [--tiny] [--docs docs]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch_geometric.nn import GCN

import axiompath
from tables import QUESTION, make_parser, publish, to_markdown

NUM_FEATURES = 32
CHANGED = (10, 1000)
# Edges for each node, and how far their ends are drawn towards the nodes of lowest rank (1: not at all).
SHAPES = {"no hubs": (4, 1.0), "power-law-like": (10, 2.0)}


def write_tables(folder: Path, num_nodes: int, num_edges: int, skew: float, changed: tuple[int, ...]) -> None:
    """nodes.parquet, before.parquet and an after for each number of changed edges."""
    rng = np.random.default_rng(0)
    rank = (num_nodes * rng.random((2, num_edges // 2)) ** skew).astype(np.int64)
    ends = rng.permutation(num_nodes)[rank]
    x = pd.DataFrame(rng.normal(size=(num_nodes, NUM_FEATURES)).astype(np.float32)).rename(columns=str)
    x.insert(0, "id", np.arange(num_nodes))
    x.to_parquet(folder / "nodes.parquet")
    _write_edges(folder / "before.parquet", ends)
    for count in changed:
        new = rng.integers(num_nodes, size=(2, count // 2))
        _write_edges(folder / f"after_{count}.parquet", np.concatenate([ends[:, count - count // 2 :], new], axis=1))


def _write_edges(path: Path, ends: np.ndarray) -> None:
    both = np.concatenate([ends, ends[::-1]], axis=1)
    pd.DataFrame({"source": both[0], "target": both[1]}).to_parquet(path)


def convert(folder: Path, name: str, memory: str) -> dict[str, Any]:
    """One table to a stored graph; the second and later ones link their features to the first."""
    nodes = {"nodes": folder / "nodes.parquet"} if name == "before" else {"features_of": folder / "before"}
    axiompath.convert_graph(folder / f"{name}.parquet", folder / name, memory=memory, **nodes)
    return {}


def explain(folder: Path, count: str, kind: str) -> dict[str, Any]:
    """Open an Explainer, ask for all that moved and explain the largest."""
    torch.manual_seed(0)
    model = GCN(NUM_FEATURES, 16, num_layers=2, out_channels=4)
    if kind == "stored":
        graphs = [axiompath.open_graph(folder / name) for name in ("before", f"after_{count}")]
    else:
        names = ("before.parquet", f"after_{count}.parquet")
        graphs = [axiompath.read_graph(folder / name, folder / "nodes.parquet").data for name in names]
    start = time.perf_counter()
    explainer = axiompath.Explainer(model, *graphs)
    opened = time.perf_counter() - start
    moved = explainer.moved()
    explanation = explainer.explain(int(moved.target[0]), **QUESTION)
    change = explainer.change
    return {
        "explainer_seconds": opened,
        "region_nodes": change.num_nodes,
        "region_edges": change.before.edge_index.shape[1],
        "moved": len(moved),
        "num_paths": int(moved.num_paths.sum()),
        "largest": float(moved.kl[0]),
        "residual": explanation.kl_residual,
    }


def kilobytes(key: str) -> int:
    """A line of /proc/self/status. The peak that getrusage gives would be the parent's, if that was larger."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def measured(*arguments: Any, tiny: bool) -> dict[str, Any]:
    """One step in a process of its own."""
    command = [sys.executable, __file__, *(["--tiny"] if tiny else []), "--step", *map(str, arguments)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def run_step(name: str, *arguments: str, tiny: bool) -> None:
    """What that process does: forget the peak of memory so far, then the step."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    floor = kilobytes("VmRSS")
    start = time.perf_counter()
    steps = {"convert": convert, "explain": explain}
    found = steps[name](Path(arguments[0]), *arguments[1:])
    seconds = time.perf_counter() - start
    peak = kilobytes("VmHWM") - floor
    sys.stdout.write(json.dumps({**found, "seconds": seconds, "megabytes": peak / 1e3}))


def measure_shape(
    folder: Path, shape: str, num_nodes: int, changed: tuple[int, ...], memory: str, tiny: bool
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Rows of both tables: conversions, and explainers on disk and in memory."""
    per_node, skew = SHAPES[shape]
    write_tables(folder, num_nodes, per_node * num_nodes, skew, changed)
    conversions, explainers = [], []
    for name in ("before", *(f"after_{count}" for count in changed)):
        found = measured("convert", folder, name, memory, tiny=tiny)
        conversions.append(
            {"graph": f"{shape}, {per_node * num_nodes:,} edges", "which": name.replace("_", ", changed: "),
             "seconds": f"{found['seconds']:.1f}", "peak": f"{found['megabytes']:,.0f} MB"}
        )  # fmt: skip
    for count in changed:
        pair = [measured("explain", folder, count, kind, tiny=tiny) for kind in ("stored", "in memory")]
        for kind, found in zip(("stored", "in memory"), pair, strict=True):
            explainers.append(
                {"graph": shape, "edges changed": f"{count:,}", "graphs": kind,
                 "open": f"{found['explainer_seconds']:.1f} s", "all": f"{found['seconds']:.1f} s",
                 "peak": f"{found['megabytes']:,.0f} MB", "nodes held": f"{found['region_nodes']:,}",
                 "edges held": f"{found['region_edges']:,}", "nodes reached": f"{found['moved']:,}",
                 "paths": f"{found['num_paths']:,}"}
            )  # fmt: skip
            print(explainers[-1], flush=True)
        for key in ("moved", "num_paths"):
            assert pair[0][key] == pair[1][key], f"{key}: {pair[0][key]} stored, {pair[1][key]} in memory"
        for key in ("largest", "residual"):
            assert abs(pair[0][key] - pair[1][key]) < 1e-9, key
    return conversions, explainers


def main() -> None:
    """Measure the shapes of graphs one after the other."""
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--folder", type=Path, default=Path("out/stored"), help="where the graphs are while it runs")
    parser.add_argument("--step", nargs="+", help="one step, in this process")
    options = parser.parse_args()
    if options.step:
        run_step(*options.step, tiny=options.tiny)
        return
    shapes, num_nodes, changed = tuple(SHAPES), options.nodes, CHANGED
    if options.tiny:
        shapes, num_nodes, changed = shapes[:1], 1000, CHANGED[:1]
    conversions, explainers = [], []
    options.folder.mkdir(parents=True, exist_ok=True)
    for shape in shapes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            converted, explained = measure_shape(Path(folder), shape, num_nodes, changed, options.memory, options.tiny)
        conversions += converted
        explainers += explained
    publish(options.docs, "benchmarks.md", "conversion", to_markdown(conversions))
    publish(options.docs, "benchmarks.md", "stored graphs", to_markdown(explainers))


if __name__ == "__main__":
    main()

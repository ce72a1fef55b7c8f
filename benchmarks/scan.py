"""What a scan costs: by the size of the graph, the number of workers and of layers; against a plain loop; its memory.

    python benchmarks/scan.py [--out out/scan-benchmark] [--largest 1e7] [--tiny] [--docs docs] [--keep folder]

Graphs are drawn with one distribution of degrees (a power law with exponent 2.5, ten edges a node on average), so that
a larger graph is more of the same; 1,000 random edges change, half of them added, half removed. Every measurement is a
process of its own, which is watched from outside: the memory is the largest sum of what its processes hold, pages that
they share counted once. Prints a table, and writes scan.json and the figure scan.png.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from tables import QUESTION, kept, make_parser, publish, to_markdown

NUM_CHANGES, NUM_FEATURES, NUM_CLASSES, HIDDEN = 1000, 32, 8, 16


def power_law_pair(num_edges: int, num_changes: int, seed: int = 0) -> tuple[Data, Data]:
    """Two graphs, undirected, `num_edges` counted in each direction; `num_changes` undirected edges differ."""
    rng = np.random.default_rng(seed)
    num_nodes, pairs = num_edges // 10, num_edges // 2
    # Expected degrees: a Pareto law, cut off so that hubs are as large in a small graph as in a large one.
    places = np.cumsum(np.minimum((1 - rng.random(num_nodes)) ** (-1 / 1.5), 300.0))
    ends = np.searchsorted(places / places[-1], rng.random((2, pairs)))
    kept = np.delete(ends, rng.choice(pairs, num_changes // 2, replace=False), axis=1)
    changed = np.concatenate([kept, rng.integers(0, num_nodes, (2, num_changes - num_changes // 2))], axis=1)
    x = torch.from_numpy(rng.standard_normal((num_nodes, NUM_FEATURES), dtype=np.float32))
    before, after = (
        Data(x=x, edge_index=torch.from_numpy(np.concatenate([e, e[::-1]], axis=1))) for e in (ends, changed)
    )
    return before, after


def measure(settings: dict[str, Any]) -> dict[str, Any]:
    """Open an Explainer and scan, in this process."""
    before, after = power_law_pair(settings["edges"], settings.get("changes", NUM_CHANGES))
    torch.manual_seed(0)
    model = GCN(NUM_FEATURES, HIDDEN, settings["layers"], NUM_CLASSES).eval()
    small = power_law_pair(2000, 20)
    axiompath.Explainer(model, *small).scan(**QUESTION, progress=False)  # loads the compiled loops
    start = time.perf_counter()
    explainer = axiompath.Explainer(model, before, after)
    opened = time.perf_counter()
    held = psutil.Process().memory_info().rss
    found: dict[str, Any] = {"nodes": before.num_nodes, "open_seconds": opened - start, "held_gb": held / 1e9}
    folder = Path(tempfile.mkdtemp())
    try:
        scan = explainer.scan(
            folder / "scan", **QUESTION, min_kl=settings["min_kl"], workers=settings["workers"],
            memory=settings["memory"], progress=False,
        )  # fmt: skip
        found["scan_seconds"] = time.perf_counter() - opened
        numbers = {key: value for key, value in scan.manifest.items() if key.startswith("num_")}
        frame = scan.to_frame()
        found |= numbers | {"paths": int(frame.num_paths.sum()), "worst_completeness": float(frame.completeness.max())}
        found["output_mb"] = sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6
        if settings.get("loop"):
            targets = frame.target.sample(min(settings["loop"], len(frame)), random_state=0).tolist()
            start = time.perf_counter()
            for target in targets:
                explainer.explain(target, **QUESTION)
            found["loop_seconds_a_target"] = (time.perf_counter() - start) / len(targets)
    finally:
        shutil.rmtree(folder)
    return found


def watched(settings: dict[str, Any]) -> dict[str, Any]:
    """The same in a process of its own; adds the peak of what it and its workers hold together."""
    command = [sys.executable, __file__, "--measure", json.dumps(settings)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = [0.0]

    def watch() -> None:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            try:
                family = [process, *process.children(recursive=True)]
                peak[0] = max(peak[0], sum(_proportional_bytes(member.pid) for member in family))
            except psutil.Error:
                pass
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    text = child.communicate()[0]
    watcher.join()
    if child.returncode:
        raise SystemExit(f"a measurement failed: {settings}")
    found: dict[str, Any] = {**settings, **json.loads(text.strip().splitlines()[-1]), "peak_gb": peak[0] / 1e9}
    print(to_row(found), flush=True)
    return found


def _proportional_bytes(pid: int) -> float:
    """Memory of a process, each page divided by the number of processes that share it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0.0)


def to_row(found: dict[str, Any]) -> dict[str, str]:
    """What the table says of a measurement."""
    seconds, targets = found["scan_seconds"], max(found["num_explained"], 1)
    loop = found.get("loop_seconds_a_target")
    return {
        "edges": f"{found['edges']:,}",
        "changed": f"{found.get('changes', NUM_CHANGES):,}",
        "layers": f"{found['layers']}",
        "workers": f"{found['workers']}",
        "memory": found["memory"],
        "least KL": f"{found['min_kl']:g}",
        "moved": f"{found['num_moved']:,}",
        "explained": f"{found['num_explained']:,}",
        "open": f"{found['open_seconds']:.1f} s",
        "scan": f"{seconds:.1f} s",
        "a target": f"{1e3 * seconds / targets:.2f} ms",
        "targets a second": f"{targets / seconds:,.0f}",
        "paths a second": f"{found['paths'] / seconds:,.0f}",
        "opened": f"{found['held_gb']:.2f} GB",
        "peak": f"{found['peak_gb']:.2f} GB",
        "plain loop / scan": "" if loop is None else f"{loop / (seconds / targets):.1f}",
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Growth with the size of the graph: seconds in all and a target."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    total, each, memory = figure.subplots(1, 3)
    for min_kl, colour in ((0.0, "#4c6ef5"), (1e-3, "#e8590c")):
        chosen = [row for row in rows if row["min_kl"] == min_kl and row["layers"] == 2]
        edges = [row["edges"] for row in chosen]
        label = "all that moved" if min_kl == 0 else "KL ≥ 0.001 or another class"
        total.loglog(edges, [row["scan_seconds"] for row in chosen], "o-", color=colour, label=label)
        each.loglog(
            edges, [1e3 * row["scan_seconds"] / row["num_explained"] for row in chosen], "o-", color=colour, label=label
        )
        if min_kl == 0:
            total.loglog(edges, [row["open_seconds"] for row in chosen], "s--", color="#868e96", label="opening")
            memory.loglog(edges, [row["peak_gb"] for row in chosen], "o-", color=colour, label="peak, workers included")
            memory.loglog(edges, [row["held_gb"] for row in chosen], "s--", color="#868e96", label="opened, before")
    for axes, title in ((total, "seconds"), (each, "milliseconds an explained node"), (memory, "memory, GB")):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("edges")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        axes.yaxis.set_major_formatter(LogFormatter())
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run everything, print and draw."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/scan-benchmark"))
    parser.add_argument("--largest", type=float, default=1e7)
    parser.add_argument("--measure", help="one measurement, in this process")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(json.loads(options.measure))))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    usual = {"layers": 2, "workers": 2, "min_kl": 0.0, "memory": "2GB"}

    def run(settings: dict[str, Any], turn: int = 0) -> dict[str, Any]:
        return kept(options.keep, ["scan", settings, turn], lambda: watched(settings))

    groups = measure_tiny(usual) if options.tiny else measure_all(usual, options.largest, run)
    (options.out / "scan.json").write_text(json.dumps(groups, indent=1) + "\n")
    figures = options.out if options.docs is None else options.docs / "figures"
    draw(groups["by_size"], figures / "scan.png")
    rows = [to_row(found) for group in groups.values() for found in group]
    verdicts = "\n".join(f"- {verdict}" for verdict in judge(groups))
    publish(options.docs, "benchmarks.md", "scan", f"{to_markdown(rows)}\n\n{verdicts}")


def measure_all(
    usual: dict[str, Any], largest: float, run: Callable[..., dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Everything that the page tells of, by what is varied."""
    sizes = [int(10**power) for power in (5, 6, 7) if 10**power <= largest]
    # As many changes for its size as the largest has: what one change reaches is then alike.
    alike = {**usual, "edges": 10**5, "changes": int(NUM_CHANGES * 1e5 / largest)}
    return {
        "by_size": [run({**usual, "edges": edges, "min_kl": kl}) for kl in (1e-3, 0.0) for edges in sizes],
        "equal_density": [run(alike)],
        "by_workers": [run({**usual, "edges": 10**6, "workers": workers}, turn=1) for workers in (1, 2)],
        "by_layers": [run({**usual, "edges": 10**5, "layers": n, "changes": 100, "loop": 300}) for n in (1, 2, 3)],
        "by_memory": [run({**usual, "edges": 10**5, "memory": memory}) for memory in ("240MB", "480MB")],
    }


def measure_tiny(usual: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """One measurement in the place of each."""
    found = watched({**usual, "edges": 2000, "changes": 10, "loop": 3})
    return {
        "by_size": [{**found, "min_kl": 1e-3}, found],
        **{name: [found, found] for name in ("equal_density", "by_workers", "by_layers", "by_memory")},
    }


def judge(groups: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """What was wanted and what was found, a sentence each."""
    whole = [row for row in groups["by_size"] if row["min_kl"] == 0]
    each = [row["scan_seconds"] / row["num_explained"] for row in whole]
    yield f"A target on the largest graph costs {each[-1] / each[0]:.2f} times one on the smallest (at most 2 wanted),"
    (sparse, *_), (one, two) = groups["equal_density"], groups["by_workers"]
    alike = each[-1] / (sparse["scan_seconds"] / sparse["num_explained"])
    yield f"and {alike:.2f} times as much as on the smallest with as many changes for its size."
    ratio = one["scan_seconds"] / two["scan_seconds"]
    yield f"Two workers are {ratio:.2f} times one, on {one['scan_seconds']:.0f} s (1.7 wanted, on over 20 s)."
    yield f"Peak on the largest graph: {whole[-1]['peak_gb']:.2f} GB (8 allowed)."
    for row in groups["by_memory"]:
        grown = (row["peak_gb"] - row["held_gb"]) * 1e3
        yield f"Budget {row['memory']}: workers and plan took {grown:.0f} MB more than the opened graphs."


if __name__ == "__main__":
    main()
